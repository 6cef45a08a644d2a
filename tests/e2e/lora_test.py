#!/usr/bin/env python3
"""LoRA on the Llama page: what is frozen stays as it is and costs neither gradients nor optimizer
states; runs on several ranks, resumed, in FP8; and, with PyTorch, ten steps of the same model
written plainly in double precision."""

import math
import re
import unittest

from harness import (
    LLAMA,
    RunTest,
    main,
    overrides,
    read_bytes,
    read_safetensors,
    run_command,
    tokens,
    train_losses,
)

try:
    import torch
except ImportError:
    torch = None

SIZES = {**LLAMA, "base_dtype": "f32", "lora_targets": "all", "learning_rate": 3e-3}
STEPS = 10


def is_adapter(name):
    return ".lora_" in name


class Lora(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def test_memory_of_a_base_of_1b(self):
        """Gradients and optimizer states of the adapters alone; the base in bf16."""
        done = run_command(
            *("nanoc", "compile", "models/lora.cpp", "--target", "cuda", "--report-memory"),
            *("-o", self.path("large.plan")),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout + done.stderr
        units = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
        found = {
            row: float(number) * units[unit]
            for row, number, unit in re.findall(r"^ +(\w+) +([\d.]+) (\w+)$", text, re.M)
        }
        # q and v of 22 layers: 8·(2048 + 2048) and 8·(2048 + 256) numbers.
        adapters = 22 * 8 * (2048 + 2048 + 2048 + 256)
        self.assertLess(abs(found["gradients"] - 4 * adapters), 1e6)
        self.assertLess(abs(found["optimizer"] - 8 * adapters), 2e6)
        self.assertLess(abs(found["parameters"] - 2 * 1.1e9), 0.02e9)

    def test_what_is_computed(self):
        """Of a frozen matrix two products, forward and the gradient of the input; none of its own.
        Three of each of an adapter's."""
        counts = {}
        for model in ("llama", "lora"):
            sizes = {**SIZES, "num_layers": 2} if model == "lora" else {**LLAMA, "num_layers": 2}
            options = ("--target", "cpu", "--stop-after", "differentiate", *overrides(sizes))
            done = run_command("nanoc", "compile", f"models/{model}.cpp", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = done.stdout.split("nano.program @train")[1].split("nano.program")[0]
            counts[model] = text.count("nano.matmul ")
            for name in re.findall(r'nano.accumulate %\S+, @"grad.([^"]+)"', text):
                self.assertTrue(model == "llama" or is_adapter(name), name)
        # 7 matrices a layer and the head; the first layer's q, k, v give no gradient to a frozen
        # embedding, nor do their adapters' first products, of which the sum of both is one.
        self.assertEqual(counts["llama"], 3 * 15)
        self.assertEqual(counts["lora"], 2 * 15 - 3 + 6 * 14 - 3)

    def test_runs(self):
        plan = self.compile("lora", {**SIZES, "dist": "zero2"}, "lora.plan", "--world", "1,2")
        _, start = self.train(plan, "start", "--steps", 0)
        one, wanted = self.train(plan, "one", "--steps", STEPS)
        before, after = read_safetensors(start), read_safetensors(wanted)
        for name in before:
            self.assertEqual(before[name] == after[name], not is_adapter(name), name)
        self.assertLess(train_losses(one)[-1], train_losses(one)[0])
        # With B = 0 the first step's loss is the base's, to the bit.
        base = self.compile("llama", {**LLAMA, "learning_rate": 3e-3}, "llama.plan")
        log, _ = self.train(base, "base", "--steps", 1)
        self.assertEqual(train_losses(log)[0], train_losses(one)[0])
        folder = self.path("half")
        self.train(plan, "half", "--steps", 4, "--save", folder, "--gpus", 2)
        rest, end = self.train(plan, "rest", "--steps", STEPS, "--resume", folder, "--gpus", 2)
        log, found = self.train(plan, "whole", "--steps", STEPS, "--gpus", 2)
        self.assert_near(train_losses(log), train_losses(one), 1e-5, "2 ranks, step")
        self.assertEqual(train_losses(rest), train_losses(log)[4:])
        self.assertEqual(read_bytes(end), read_bytes(found))

    def test_fp8(self):
        """Products of frozen matrices in FP8: forward and the gradient of the input."""
        sizes = {**SIZES, "fp8": "all", "fp8_recipe": "current", "dtype": "f32"}
        plan = self.compile("lora", sizes, "fp8.plan")
        log, found = self.train(plan, "fp8", "--steps", 4)
        exact = self.compile("lora", SIZES, "exact.plan")
        wanted, _ = self.train(exact, "exact", "--steps", 4)
        self.assertNotEqual(train_losses(log), train_losses(wanted))
        self.assert_near(train_losses(log), train_losses(wanted), 1e-2, "step")
        _, start = self.train(plan, "fp8-start", "--steps", 0)
        before, after = read_safetensors(start), read_safetensors(found)
        for name in before:
            self.assertEqual(before[name] == after[name], not is_adapter(name), name)

    @unittest.skipUnless(torch, "PyTorch is not there")
    def test_pytorch(self):
        plan = self.compile("lora", SIZES, "torch.plan", "--world", "1,2")
        _, start = self.train(plan, "start-torch", "--steps", 0)
        parameters = {
            name: torch.tensor(list(values), dtype=torch.float64)
            for name, values in read_safetensors(start).items()
        }
        wanted = plain_losses(parameters, tokens(6000, 1))
        for world in (1, 2):
            log, _ = self.train(plan, f"torch{world}", "--steps", STEPS, "--gpus", world)
            # f32 against f64: sums of some hundred numbers, each rounded by 6e-8.
            self.assert_near(train_losses(log), wanted, 1e-6, "step")


def plain_losses(p, data):
    """The losses of STEPS steps of LoRA on a Llama, as a person would write it."""
    H, Hk, Dh, D = (SIZES[n] for n in ("num_heads", "num_kv_heads", "head_dim", "model_dim"))
    T, B, eps = SIZES["block_size"], SIZES["global_batch"], 1e-5
    F, V, r, alpha = SIZES["ffn_dim"], SIZES["vocab_size"], 8, 16
    widths = {"q": H * Dh, "k": Hk * Dh, "v": Hk * Dh, "o": D, "gate": F, "up": F, "down": D}
    trained = [name for name in p if is_adapter(name)]
    for name in trained:
        p[name].requires_grad_()

    def norm(x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * p[weight]

    def linear(x, layer, letter):
        name, rows = f"{layer}.{letter}_proj", widths[letter]
        y = x @ p[name + ".weight"].view(rows, -1).T
        a, b = p[name + ".lora_A.weight"].view(r, -1), p[name + ".lora_B.weight"].view(rows, r)
        return y + alpha / r * (x @ a.T @ b.T)

    angle = torch.arange(T)[:, None] * 10000.0 ** (-2 * torch.arange(Dh // 2) / Dh)
    angle = torch.cat([angle, angle], 1).double()[:, None]

    def rope(x):
        first, second = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-second, first], -1) * angle.sin()

    def loss(inputs, targets):
        x = p["model.embed_tokens.weight"].view(V, D)[inputs]
        for i in range(SIZES["num_layers"]):
            layer = f"model.layers.{i}"
            h = norm(x, layer + ".input_layernorm.weight")
            q, k, v = (
                linear(h, layer + ".self_attn", name).view(-1, T, n, Dh)
                for name, n in (("q", H), ("k", Hk), ("v", Hk))
            )
            k, v = (each.repeat_interleave(H // Hk, 2) for each in (rope(k), v))
            scores = torch.einsum("bthd,bshd->bhts", rope(q), k) / math.sqrt(Dh)
            scores = scores + torch.full((T, T), -math.inf).double().triu(1)
            y = torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v)
            x = x + linear(y.reshape(-1, T, H * Dh), layer + ".self_attn", "o")
            m = norm(x, layer + ".post_attention_layernorm.weight")
            gate = torch.nn.functional.silu(linear(m, layer + ".mlp", "gate"))
            x = x + linear(gate * linear(m, layer + ".mlp", "up"), layer + ".mlp", "down")
        logits = norm(x, "model.norm.weight") @ p["lm_head.weight"].view(V, D).T
        return torch.nn.functional.cross_entropy(logits.view(-1, V), targets.view(-1))

    optimizer = torch.optim.AdamW(
        [p[name] for name in trained], betas=(0.9, 0.95), eps=SIZES["adam_eps"], weight_decay=0
    )
    losses = []
    for step in range(STEPS):
        batch = torch.tensor(data[step * B : step * B + B + 1])
        value = loss(batch[:-1].view(-1, T), batch[1:].view(-1, T))
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        total = math.sqrt(sum(p[name].grad.square().sum().item() for name in trained))
        for name in trained:
            p[name].grad *= min(1, SIZES["grad_clip"] / total)
        rate, warmup, steps = SIZES["learning_rate"], SIZES["warmup_iters"], SIZES["num_iterations"]
        progress = (step - warmup) / (steps - warmup)
        for group in optimizer.param_groups:
            group["lr"] = (
                rate * (step + 1) / warmup
                if step < warmup
                else rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))
            )
        optimizer.step()
    return losses


if __name__ == "__main__":
    main()
