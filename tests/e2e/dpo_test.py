#!/usr/bin/env python3
"""models/dpo.cpp: data made by tools/nano-dpo, with nanorun's log-probabilities of a reference; six
steps against the objective written out in PyTorch, in f64, on the Llama of sft_test.py, with the head
whole and in chunks. Needs PyTorch."""

import json
import os
import random
import subprocess
import sys

import torch
import torch.nn.functional as F

from grpo_test import read_npy
from harness import EOS, LLAMA, ROOT, RunTest, main, overrides, read_log, run_command, train_losses
from sft_test import assert_parameters, logits, read_parameters

STEPS, CLIP, BETA, SMOOTHING = 6, 0.25, 0.4, 0.1
# Two rows of pairs a sequence, two sequences a step; as narrow as makes logits wide.
SIZES = {**LLAMA, "model_dim": 32,
         "block_size": 128, "num_iterations": STEPS, "warmup_iters": 2,
         "learning_rate": 5e-3, "final_lr_frac": 1, "grad_clip": CLIP, "dpo_beta": BETA,
         "label_smoothing": SMOOTHING}  # fmt: skip
ROW, LENGTH = SIZES["block_size"], SIZES["seq_len"]
# Half a sequence's logits, in bytes.
CHUNK = LENGTH * SIZES["vocab_size"] * 4 // 2


def pairs(count, seed):
    """Short ones and long ones: of some a row has many, of some two."""
    generator = random.Random(seed)
    some = lambda most: [generator.randrange(64) for _ in range(1 + generator.randrange(most))]
    for number in range(count):
        most = 3 if number % 3 else 25
        yield {"prompt": [EOS] + some(most), "chosen": some(most), "rejected": some(most)}


def objective(parameters, columns, begin):
    """Rafailov et al. 2023, equation 7, with the smoothed labels of Mitchell's note; of a sequence."""
    margins = {}
    for at in range(begin, begin + LENGTH, ROW):
        tokens = torch.tensor(columns["tokens"][at : at + ROW + 1])
        now = -F.cross_entropy(logits(parameters, tokens[:-1]), tokens[1:], reduction="none")
        for place in range(at + 1, at + ROW + 1):
            if weight := columns["weight"][place]:
                gain = now[place - at - 1] - columns["ref_logprob"][place]
                margins.setdefault(columns["pair"][place], []).append(weight * gain)
    each = [BETA * torch.stack(gains).sum() for gains in margins.values()]
    return -sum(
        (1 - SMOOTHING) * F.logsigmoid(m) + SMOOTHING * F.logsigmoid(-m) for m in each
    ) / len(each)


class Dpo(RunTest):
    def make_data(self):
        """The folder's columns, from their definition too."""
        entries, folder = list(pairs(120, 5)), self.path("pairs")
        with open(self.path("pairs.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools/nano-dpo"), "--row", str(ROW), "--out",
             folder, self.path("pairs.jsonl")],
            check=True, capture_output=True,
        )  # fmt: skip
        found = {name: read_npy(f"{folder}/{name}.npy") for name in ("tokens", "weight", "pair")}
        self.assertEqual(len(found["tokens"]) % ROW, 1)
        place = 0
        for number, entry in enumerate(entries):
            size = sum(len(entry["prompt"]) + len(entry[n]) for n in ("chosen", "rejected"))
            if place % ROW + size > ROW:
                rest = -place % ROW
                self.assertEqual(found["tokens"][place : place + rest], [EOS] * rest)
                self.assertEqual(found["weight"][place : place + rest], [0] * rest)
                place += rest
            for name, sign in (("chosen", 1), ("rejected", -1)):
                before, after = len(entry["prompt"]), len(entry[name])
                end = place + before + after
                self.assertEqual(found["tokens"][place:end], entry["prompt"] + entry[name])
                self.assertEqual(found["weight"][place:end], [0] * before + [sign] * after)
                self.assertEqual(found["pair"][place:end], [number] * (before + after))
                place = end
        return folder, found

    def test_six_steps(self):
        folder, columns = self.make_data()
        self.assertGreater(len(columns["tokens"]), STEPS * SIZES["global_batch"])
        whole = self.compile("dpo", SIZES, "whole.plan", "--world", "1,2")
        # No tensor has a sequence's logits.
        options = ("--chunk-bytes", CHUNK)
        parts = self.compile("dpo", SIZES, "parts.plan", "--world", "1,2", *options)
        of_logits = f"tensor<{LENGTH}x{SIZES['vocab_size']}x"
        for more, is_whole in (((), True), (options, False)):
            fused = run_command("nanoc", "compile", "models/dpo.cpp", "--target", "cpu",
                                "--stop-after", "fuse", *overrides(SIZES), *more)  # fmt: skip
            self.assertEqual(fused.returncode, 0, fused.stderr)
            training = fused.stdout.partition("@validate")[0]
            self.assertEqual(of_logits in training, is_whole)
        start, reference = self.path("start.safetensors"), self.path("reference.safetensors")
        for path, seed in ((start, 0), (reference, 1)):
            self.ran("nanorun", whole, "--steps", 0, "--seed", seed, "--dump-params", path)
        scores = f"{folder}/ref_logprob.npy"
        self.ran("nanorun", whole, "--init", reference, "--score", folder, "--logprobs", scores)
        columns["ref_logprob"] = read_npy(scores)

        parameters = {
            name: tensor.requires_grad_() for name, tensor in read_parameters(start).items()
        }
        adam = torch.optim.AdamW(parameters.values(), betas=(0.9, 0.95), eps=SIZES["adam_eps"],
                                 weight_decay=0)  # fmt: skip
        sequences = SIZES["global_batch"] // LENGTH
        losses, begin = [], 0
        for step in range(STEPS):
            total = 0
            for _ in range(sequences):
                total = total + objective(parameters, columns, begin) / sequences
                begin += LENGTH
            adam.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP)
            for group in adam.param_groups:
                warm = min(step + 1, SIZES["warmup_iters"]) / SIZES["warmup_iters"]
                group["lr"] = SIZES["learning_rate"] * warm
            adam.step()
            losses.append(total.item())
        self.assertLess(losses[-1], losses[0])

        for plan in (whole, parts):
            for world in (1, 2):
                log, dumped = self.path("log.jsonl"), self.path("last.safetensors")
                self.ran("nanorun", plan, "--init", start, "--train", folder, "--gpus", world,
                         "--threads", 1, "--log", log, "--dump-params", dumped)  # fmt: skip
                # Of sums of log-probabilities of up to 25 tokens, each right to 1e-6 or so.
                self.assert_near(train_losses(read_log(log)), losses, 1e-5, "loss")
                assert_parameters(self, dumped, parameters)
        # The first steps from kernels for a GPU, in chunks.
        kernels = self.compile("dpo", SIZES, "cuda.plan", "--target", "cuda", *options)
        log = self.path("cuda.jsonl")
        done = run_command("nanorun", kernels, "--init", start, "--train", folder, "--device",
                           "emulator", "--steps", 2, "--log", log,
                           environment={"NANO_EMULATOR": "fast"})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_near(train_losses(read_log(log)), losses[:2], 1e-5, "loss")


if __name__ == "__main__":
    main()
