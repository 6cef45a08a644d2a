#!/usr/bin/env python3
"""models/grpo.cpp: data made by tools/nano-grpo of completions that a model wrote, with nanorun's
log-probabilities as columns; ten steps against the objective written out in PyTorch, in f64, on the
Llama of sft_test.py; and nanorun --logprobs against it. Needs PyTorch."""

import array
import json
import math
import os
import random
import subprocess
import sys

import torch
import torch.nn.functional as F

from data_test import Reader
from harness import EOS, LLAMA, ROOT, RunTest, main, overrides, read_log, run_command, train_losses
from sft_test import assert_parameters, logits, read_parameters

STEPS, CLIP = 10, 0.25
SIZES = {**LLAMA, "block_size": 256, "num_iterations": STEPS, "warmup_iters": 2,
         "learning_rate": 5e-3, "grad_clip": CLIP, "clip_low": 0.1, "clip_high": 0.15,
         "kl_weight": 0.3}  # fmt: skip
COLUMNS = ("weight", "advantage", "old_logprob", "ref_logprob")


def completions(seed):
    """Groups of four of every length up to 60 tokens; one group's rewards are all the same."""
    generator = random.Random(seed)
    for group in range(6):
        prompt = [EOS] + [generator.randrange(64) for _ in range(1 + generator.randrange(20))]
        for _ in range(4):
            size = 1 + generator.randrange(60)
            yield {
                "prompt": prompt,
                "completion": [generator.randrange(64) for _ in range(size)],
                "reward": 1 if group == 3 else generator.randrange(5) / 2,
                "group": f"q{group}",
            }


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    begin = 10 + data[8] + 256 * data[9]
    kind = "i" if b"<i4" in data[:begin] else "f"
    return array.array(kind, data[begin:]).tolist()


def learning_rate(step):
    most, warmup = SIZES["learning_rate"], SIZES["warmup_iters"]
    return most * min(step + 1, warmup) / warmup  # final_lr_frac is 1 here


def objective(now, of):
    """Shao et al. 2024, equation 3, with k3; of one row."""
    ratio = torch.exp(now - of["old_logprob"])
    clipped = ratio.clamp(1 - SIZES["clip_low"], 1 + SIZES["clip_high"])
    gain = torch.minimum(ratio * of["advantage"], clipped * of["advantage"])
    away = of["ref_logprob"] - now
    each = SIZES["kl_weight"] * (torch.exp(away) - away - 1) - gain
    return torch.where(of["weight"] > 0, each, 0) @ of["weight"] / of["weight"].sum()


def log_probabilities(parameters, tokens):
    found = logits(parameters, tokens[:-1])
    return -F.cross_entropy(found, tokens[1:], reduction="none")


class Grpo(RunTest):
    def make_data(self):
        """The folder's columns; old and reference come from two other models."""
        entries, folder = list(completions(5)), self.path("round")
        with open(self.path("round.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools/nano-grpo"), "--out", folder,
             self.path("round.jsonl")],
            check=True, capture_output=True,
        )  # fmt: skip
        found = {name: read_npy(f"{folder}/{name}.npy") for name in ("tokens", *COLUMNS[:2])}
        # The tool's columns, from their definition.
        place, unequal = 0, 0
        for entry in entries:
            rewards = [e["reward"] for e in entries if e["group"] == entry["group"]]
            mean = sum(rewards) / len(rewards)
            deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
            unequal += deviation > 0
            size, before = len(entry["completion"]), len(entry["prompt"])
            end = place + before + size
            self.assertEqual(found["tokens"][place:end], entry["prompt"] + entry["completion"])
            self.assertEqual(found["weight"][place:end],
                             array.array("f", [0] * before + [1 / size] * size).tolist())  # fmt: skip
            for value in found["advantage"][place + before : end]:
                self.assertAlmostEqual(value, (entry["reward"] - mean) / (deviation + 1e-4), 6)
            place = end
        self.assertEqual(place, len(found["tokens"]))
        self.assertTrue(10 < unequal <= 20, unequal)
        return folder, found

    def test_ten_steps(self):
        folder, columns = self.make_data()
        plan = self.path("grpo.plan")
        done = run_command("nanoc", "compile", "models/grpo.cpp", "--target", "cpu", "--world",
                           "1,2", "-o", plan, *overrides(SIZES))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        initial = {}
        for name, seed in (("start", 0), ("old_logprob", 1), ("ref_logprob", 2)):
            path = initial[name] = self.path(name + ".safetensors")
            self.ran("nanorun", plan, "--steps", 0, "--seed", seed, "--dump-params", path)
        # Old: near the start, so that ratios lie on both sides of the clips.
        self.blend(initial["old_logprob"], initial["start"], 0.15)
        self.blend(initial["ref_logprob"], initial["start"], 0.4)
        for name in COLUMNS[2:]:
            path = f"{folder}/{name}.npy"
            self.ran(
                "nanorun", plan, "--init", initial[name], "--score", folder, "--logprobs", path
            )
            columns[name] = read_npy(path)
            self.assert_scores(columns[name], columns["tokens"], read_parameters(initial[name]))

        parameters = {
            name: tensor.requires_grad_()
            for name, tensor in read_parameters(initial["start"]).items()
        }
        adam = torch.optim.AdamW(parameters.values(), betas=(0.9, 0.95), eps=SIZES["adam_eps"],
                                 weight_decay=0)  # fmt: skip
        reader = Reader([columns], "packed", False, 0, EOS)
        length = SIZES["seq_len"]
        rows = SIZES["global_batch"] // length
        losses, clipped = [], {"low": 0, "high": 0, "inside": 0}
        for step in range(STEPS):
            total = 0
            for row in reader.next(rows, length, 0):
                tokens = torch.tensor([reader.token(place) for place in row])
                of = {
                    name: torch.tensor(reader.column(name, row, True), dtype=torch.float64)
                    for name in COLUMNS
                }
                now = log_probabilities(parameters, tokens)
                total = total + objective(now, of) / rows
                ratio = torch.exp(now - of["old_logprob"])[of["weight"] > 0]
                clipped["low"] += (ratio < 1 - SIZES["clip_low"]).sum().item()
                clipped["high"] += (ratio > 1 + SIZES["clip_high"]).sum().item()
                clipped["inside"] += len(ratio)
            adam.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP)
            for group in adam.param_groups:
                group["lr"] = learning_rate(step)
            adam.step()
            losses.append(total.item())
        for name, count in clipped.items():
            self.assertGreater(count, 20, name)
        self.assertLess(clipped["low"] + clipped["high"], 0.9 * clipped["inside"])

        for world in (1, 2):
            log, dumped = self.path(f"{world}.jsonl"), self.path(f"{world}.safetensors")
            self.ran("nanorun", plan, "--init", initial["start"], "--train", folder, "--gpus",
                     world, "--threads", 1, "--log", log, "--dump-params", dumped)  # fmt: skip
            self.assert_losses(train_losses(read_log(log)), losses)
            assert_parameters(self, dumped, parameters)
        # The first steps from kernels for a GPU.
        kernels, log = self.path("cuda.plan"), self.path("cuda.jsonl")
        done = run_command("nanoc", "compile", "models/grpo.cpp", "--target", "cuda", "-o", kernels,
                           *overrides(SIZES))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run_command("nanorun", kernels, "--init", initial["start"], "--train", folder,
                           "--device", "emulator", "--steps", 2, "--log", log,
                           environment={"NANO_EMULATOR": "fast"})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_losses(train_losses(read_log(log)), losses[:2])
        self.assertLess(losses[-1], losses[0] - 0.01)

    def test_no_reference(self):
        """Without a penalty the column is not needed."""
        folder, _ = self.make_data()
        sizes = {**SIZES, "kl_weight": 0}
        plan = self.compile("grpo", sizes, "free.plan")
        self.ran("nanorun", plan, "--score", folder, "--logprobs", folder + "/old_logprob.npy")
        if os.path.exists(folder + "/ref_logprob.npy"):
            os.unlink(folder + "/ref_logprob.npy")
        log = self.path("free.jsonl")
        self.ran("nanorun", plan, "--train", folder, "--steps", 1, "--log", log)
        # The model that wrote them: every ratio is 1, and the loss the mean advantage.
        (loss,) = train_losses(read_log(log))
        reader = Reader([{n: read_npy(f"{folder}/{n}.npy") for n in ("tokens", *COLUMNS[:3])}],
                        "packed", False, 0, EOS)  # fmt: skip
        wanted = 0
        rows = reader.next(2, SIZES["seq_len"], 0)
        for row in rows:
            weight, advantage = (reader.column(name, row, True) for name in COLUMNS[:2])
            mean = sum(w * a for w, a in zip(weight, advantage)) / sum(weight)
            wanted -= mean / len(rows)
        self.assertLessEqual(abs(loss - wanted), 1e-6)
        with_reference = self.compile("grpo", SIZES, "held.plan")
        done = run_command("nanorun", with_reference, "--train", folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no column 'ref_logprob' (f32), which the model reads", done.stderr)

    def blend(self, path, start, share):
        """(1 − share)·start + share·path, in the file path."""
        from safetensors.torch import load_file, save_file

        first, second = load_file(start), load_file(path)
        save_file({n: (1 - share) * first[n] + share * second[n] for n in first}, path)

    def assert_losses(self, found, wanted):
        # They are differences of gains and may be near 0: 1e-5 of a token's gain, which is about 1.
        self.assertEqual(len(found), len(wanted))
        for place, (a, b) in enumerate(zip(found, wanted)):
            self.assertLessEqual(abs(a - b), 1e-5, f"loss {place}: {a} and {b}")

    def assert_scores(self, found, tokens, parameters):
        self.assertEqual(len(found), len(tokens))
        begins = [place for place, token in enumerate(tokens) if token == EOS] + [len(tokens)]
        for begin, end in zip(begins, begins[1:]):
            with torch.no_grad():
                wanted = log_probabilities(parameters, torch.tensor(tokens[begin:end]))
            self.assertEqual(found[begin], 0)
            for a, b in zip(found[begin + 1 : end], wanted.tolist()):
                self.assertLessEqual(abs(a - b), 1e-5)


if __name__ == "__main__":
    main()
