#!/usr/bin/env python3
"""models/sft.cpp against PyTorch: chats made by tools/nano-tokens, batches made by data_test.py's
reader, a Llama written out here, AdamW and clipping by PyTorch, all in f64. Needs PyTorch."""

import json
import math
import os
import random
import struct
import subprocess
import sys

import torch
import torch.nn.functional as F

from data_test import Reader
from harness import EOS, LLAMA, ROOT, RunTest, main, overrides, read_log, run_command, train_losses

STEPS = 10
# A row takes chats of up to 257 bytes.
SIZES = {**LLAMA, "block_size": 256, "num_iterations": STEPS, "warmup_iters": 3}
del SIZES["grad_clip"]
CLIP = 0.25


def chats(count, seed):
    generator = random.Random(seed)
    words = ["river", "road", "rain", "went", "on", "two", "and", "it", "was", "there"]
    found = []
    for _ in range(count):
        messages = []
        for turn in range(1 + generator.randrange(2)):
            for role, most in (("user", 5), ("assistant", 9)):
                text = " ".join(generator.choice(words) for _ in range(generator.randrange(most)))
                messages.append({"role": role, "content": text})
        found.append({"messages": messages})
    return found


def columns(path):
    """tokens and mask of a file that nano-tokens made."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    found = {}
    for name, kind in (("tokens", "H"), ("mask", "B")):
        begin, end = header[name]["data_offsets"]
        found[name] = list(struct.unpack(f"<{header[name]['shape'][0]}{kind}", body[begin:end]))
    return found


def read_parameters(path):
    from safetensors.torch import load_file

    return {name: tensor.double() for name, tensor in load_file(path).items()}


def assert_parameters(test, path, wanted):
    """Those of a file and torch's, each within 1e-5 of its norm."""
    found = read_parameters(path)
    test.assertEqual(sorted(found), sorted(wanted))
    for name, tensor in wanted.items():
        apart = (found[name] - tensor).norm() / tensor.norm()
        test.assertLessEqual(apart.item(), 1e-5, name)


def norm(x, scale):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * scale


def logits(p, tokens):
    """f64 [T, V] of one row; a token sees those of its own document up to itself. Positions count
    in the row."""
    count, heads, shared, size = len(tokens), SIZES["num_heads"], SIZES["num_kv_heads"], 16
    begins = torch.cummax(torch.where(tokens == EOS, torch.arange(count), 0), 0).values
    place = torch.arange(count)
    seen = (place[None, :] <= place[:, None]) & (place[None, :] >= begins[:, None])
    angle = place.double()[:, None] * 10000.0 ** (-torch.arange(0, size, 2).double() / size)
    cosine, sine = angle.cos()[:, None, :], angle.sin()[:, None, :]

    def turned(x):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    x = p["model.embed_tokens.weight"][tokens]
    for i in range(SIZES["num_layers"]):
        at = f"model.layers.{i}."
        h = norm(x, p[at + "input_layernorm.weight"])
        q, k, v = (
            (h @ p[f"{at}self_attn.{name}_proj.weight"].T).view(count, n, size)
            for name, n in (("q", heads), ("k", shared), ("v", shared))
        )
        q, k = turned(q), turned(k)
        k, v = (y.repeat_interleave(heads // shared, 1) for y in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(size)
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        y = torch.einsum("hqk,khd->qhd", weights, v).reshape(count, heads * size)
        x = x + y @ p[at + "self_attn.o_proj.weight"].T
        h = norm(x, p[at + "post_attention_layernorm.weight"])
        gate, up = (h @ p[f"{at}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ p[at + "mlp.down_proj.weight"].T
    return norm(x, p["model.norm.weight"]) @ p["lm_head.weight"].T


def learning_rate(step):
    most, warmup = SIZES["learning_rate"], SIZES["warmup_iters"]
    if step < warmup:
        return most * (step + 1) / warmup
    progress = (step - warmup) / (STEPS - warmup)
    return 0.5 * (1 + math.cos(math.pi * progress)) * most  # final_lr_frac is 0 here


class ChatTuning(RunTest):
    def test_ten_steps(self):
        with open(self.path("chats.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(chat) + "\n" for chat in chats(14, 7))
        subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools/nano-tokens"), "encode", "--chat", "chatml",
             "--val-fraction", "0", "--out", self.path("chat"), self.path("chats.jsonl")],
            check=True, capture_output=True,
        )  # fmt: skip
        data = self.path("chat_train_000000.safetensors")
        plan, initial = self.path("sft.plan"), self.path("initial.safetensors")
        sizes = {**SIZES, "grad_clip": CLIP}
        done = run_command("nanoc", "compile", "models/sft.cpp", "--target", "cpu", "--world",
                           "1,2", "-o", plan, *overrides(sizes))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ran("nanorun", plan, "--steps", 0, "--dump-params", initial)

        parameters = {
            name: tensor.requires_grad_() for name, tensor in read_parameters(initial).items()
        }
        adam = torch.optim.AdamW(parameters.values(), betas=(0.9, 0.95), eps=SIZES["adam_eps"],
                                 weight_decay=0)  # fmt: skip
        reader = Reader([columns(data)], "packed", True, 0, EOS)
        length = SIZES["seq_len"]
        rows = SIZES["global_batch"] // length
        losses, learnt = [], 0
        for step in range(STEPS):
            total = 0
            for row in reader.next(rows, length, 0):
                tokens = torch.tensor([reader.token(place) for place in row])
                mask = torch.tensor(reader.column("mask", row, True), dtype=torch.float64)
                learnt += mask.sum()
                each = F.cross_entropy(
                    logits(parameters, tokens[:-1]), tokens[1:], reduction="none"
                )
                total = total + (each * mask).sum() / mask.sum() / rows
            adam.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP)
            for group in adam.param_groups:
                group["lr"] = learning_rate(step)
            adam.step()
            losses.append(total.item())
        # Epochs went by, and the mask is neither nothing nor all.
        self.assertGreater(reader.epoch, 0)
        self.assertTrue(0.1 < learnt / (STEPS * rows * length) < 0.9, learnt)

        for world in (1, 2):
            log, dumped = self.path(f"{world}.jsonl"), self.path(f"{world}.safetensors")
            self.ran("nanorun", plan, "--train", data, "--gpus", world, "--threads", 1, "--log",
                     log, "--dump-params", dumped)  # fmt: skip
            self.assert_near(train_losses(read_log(log)), losses, 1e-5, "loss")
            assert_parameters(self, dumped, parameters)
        # The first steps from kernels for a GPU.
        kernels, log = self.path("cuda.plan"), self.path("cuda.jsonl")
        done = run_command("nanoc", "compile", "models/sft.cpp", "--target", "cuda", "-o", kernels,
                           *overrides(sizes))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run_command("nanorun", kernels, "--train", data, "--device", "emulator", "--steps", 2,
                           "--log", log, environment={"NANO_EMULATOR": "fast"})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_near(train_losses(read_log(log)), losses[:2], 1e-5, "loss")
        # Something was learnt.
        self.assertLess(losses[-1], 0.9 * losses[0])


if __name__ == "__main__":
    main()
