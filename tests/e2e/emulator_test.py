#!/usr/bin/env python3
"""Whole training steps of plans for CUDA on the emulator: the losses and parameters of the CPU, no
fault in any kernel, and the same bits under every schedule.

In f32 the two targets differ in the order of sums and in the last bit of functions: a loss by some
1e-7, parameters by more, because updates do not depend on a gradient's size. In bf16 every sum that
is rounded may go one way or the other, 2⁻⁹ of it."""

import json
import os
import unittest.mock

from harness import EOS, GPT2, GPT124M, ROOT, TINY, RunTest, main, overrides, read_bytes, run_command
from harness import train_losses, val_losses

STEPS = 3
F32_LOSS, F32_PARAMETERS = 1e-5, 1e-3
BF16_LOSS = 5e-3
# In f32 with 8-bit products a number between two of 8 bits goes to the other one now and then.
FP8_LOSS = 1e-4
# Products in 8 bits: inner dimensions of 128, 512 and 256 tokens.
BLOCKS = {
    "model_dim": 128,
    "head_dim": 64,
    "seq_len": 256,
    "val_seq_len": 256,
    "global_batch": 256,
    "fp8": "mlp",
    "fp8_recipe": "block",
}
# Queries, keys and values of 64, 32 and 32 columns, a gate of 96.
LLAMA = {
    "num_layers": 1,
    "model_dim": 64,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 16,
    "ffn_dim": 96,
    "vocab_size": 257,
    "eos_token": EOS,
    "block_size": 64,
    "seq_len": 128,
    "val_seq_len": 128,
    "global_batch": 512,
    "num_iterations": 40,
    "dtype": "bf16",
}

LOSSES = "../tests/e2e/Inputs/losses"
MOVED = "../tests/e2e/Inputs/moved"


class Emulator(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def emulate(self, plan, name, mode, *options, seed=1):
        with unittest.mock.patch.dict(
            os.environ, {"NANO_EMULATOR": mode, "NANO_EMULATOR_SEED": str(seed)}
        ):
            return self.train(plan, name, "--device", "emulator", *options, threads=2)

    def test_gpt_tiny(self):
        sizes = {**TINY, "global_batch": 256}
        options = ("--steps", STEPS, "--val", self.path("v.bin"), "--val-tokens", 256)
        wanted, parameters = self.train(self.compile("gpt_tiny", sizes, "cpu.plan"), "cpu", *options)
        plan = self.compile("gpt_tiny", sizes, "cuda.plan", "--target", "cuda")
        log, checked = self.emulate(plan, "checked", "checked", *options)
        self.assert_near(train_losses(log), train_losses(wanted), F32_LOSS, "step")
        self.assert_near(val_losses(log), val_losses(wanted), F32_LOSS, "validation")
        self.assert_parameters_near(checked, parameters, F32_PARAMETERS)
        for seed in (1, 2):
            _, fast = self.emulate(plan, f"fast{seed}", "fast", *options, seed=seed)
            self.assertEqual(read_bytes(fast), read_bytes(checked), f"seed {seed}")

    def test_two_ranks(self):
        """Ranks as threads compute what the CPU's ranks do."""
        sizes, options = {**TINY, "global_batch": 256}, ("--gpus", 2, "--steps", 2)
        for seed, dist in enumerate(("allreduce", "zero2")):
            sizes["dist"] = dist
            plans = {
                target: self.compile("gpt_tiny", sizes, f"{target}_{dist}.plan", "--target", target, "--world", 2)
                for target in ("cpu", "cuda")
            }
            wanted, parameters = self.train(plans["cpu"], f"cpu_{dist}", *options)
            log, found = self.emulate(plans["cuda"], f"emulated_{dist}", "fast", *options, seed=seed)
            self.assertEqual(log[0]["world"], 2)
            self.assert_near(train_losses(log), train_losses(wanted), F32_LOSS, dist)
            self.assert_parameters_near(found, parameters, F32_PARAMETERS)

    def test_losses_of_ones_own(self):
        """Losses that combine logits of 257 columns in ways of their own: a GPU's products have 320."""
        for kind in ("taken", "smoothed", "entropy", "taught", "cosine", "far"):
            sizes = {"loss": kind}
            wanted, parameters = self.train(self.compile(LOSSES, sizes, "cpu.plan"), "cpu", "--steps", STEPS)
            plan = self.compile(LOSSES, sizes, "cuda.plan", "--target", "cuda")
            log, found = self.emulate(plan, "emulated", "checked", "--steps", STEPS)
            self.assert_near(train_losses(log), train_losses(wanted), F32_LOSS, kind)
            self.assert_parameters_near(found, parameters, F32_PARAMETERS)

    def test_moved_rows(self):
        """Rows that kernels read at other places, with zeros where there are none, as gathers of the
        same rows have them."""
        gathers = self.compile(MOVED, {"form": "gather"}, "cpu.plan")
        wanted, parameters = self.train(gathers, "cpu", "--steps", STEPS)
        concats = self.compile(MOVED, {"form": "concat"}, "moved.plan")
        log, found = self.train(concats, "moved", "--steps", STEPS)
        self.assert_near(train_losses(log), train_losses(wanted), F32_LOSS, "on the CPU")
        self.assert_parameters_near(found, parameters, F32_PARAMETERS)
        plan = self.compile(MOVED, {"form": "concat"}, "cuda.plan", "--target", "cuda")
        log, found = self.emulate(plan, "emulated", "checked", "--steps", STEPS)
        self.assert_near(train_losses(log), train_losses(wanted), F32_LOSS, "on the emulator")
        self.assert_parameters_near(found, parameters, F32_PARAMETERS)

    def test_profile_counts_attention(self):
        """Operations of attention go by the keys that the queries of the measured step saw: in rows of
        64 tokens 32.5 on average, each with one product of scores and one of values forward."""
        sizes = {**GPT2, "num_layers": 1}
        head = sizes["model_dim"] // sizes["num_heads"]
        wanted = 2 * 2 * head * sizes["num_heads"] * sizes["seq_len"] * 32.5
        for target, device in (("cpu", "cpu"), ("cuda", "emulator")):
            plan = self.compile("gpt2", sizes, "profile.plan", "--target", target)
            trace = self.path("profile.json")
            self.train(plan, "profile", "--device", device, "--steps", 2, "--profile", trace)
            with open(trace, encoding="utf-8") as file:
                events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
            flops = {name: set() for name in ("attention", "attention_grad")}
            for event in events:
                if event["args"].get("summary") in flops:
                    flops[event["args"]["summary"]].add(event["args"]["flops"])
            self.assertEqual(flops["attention"], {wanted}, target)
            # Five products backward, or seven where scores are computed twice.
            self.assertTrue(flops["attention_grad"] <= {2.5 * wanted, 3.5 * wanted}, flops)
            self.assertTrue(flops["attention_grad"], target)

    def test_gpt124m_in_bf16(self):
        sizes = {**GPT124M, "seq_len": 128, "val_seq_len": 128, "global_batch": 128, "dtype": "bf16"}
        wanted, _ = self.train(self.compile("gpt124m", sizes, "cpu.plan"), "cpu", "--steps", STEPS)
        plan = self.compile("gpt124m", sizes, "cuda.plan", "--target", "cuda")
        log, _ = self.emulate(plan, "fast", "fast", "--steps", STEPS)
        self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, "step")

    def test_short_causal_rows(self):
        """Attention's gradients of causal rows of whole blocks in five products, with the sums of
        their columns, on a GPU of few multiprocessors, in one pass over a step's tokens and in
        two."""
        machine = self.path("small.json")
        with open(os.path.join(ROOT, "machines/h100-nvlink.json"), encoding="utf-8") as known:
            small = json.load(known)
        small["products"]["bf16"]["units"] = 3
        with open(machine, "w", encoding="utf-8") as file:
            json.dump(small, file)
        sizes = {**GPT2, "num_layers": 1, "model_dim": 128, "block_size": 128, "dtype": "bf16"}
        wanted, _ = self.train(self.compile("gpt2", sizes, "cpu.plan"), "cpu", "--steps", 2)
        for tokens in (256, 512):
            sizes["seq_len"] = tokens
            plan = self.compile("gpt2", sizes, "cuda.plan", "--target", "cuda", "--machine", machine)
            self.assertIn(b"static constexpr int row = 128;", read_bytes(plan))
            self.assertIn(b"sumsKeys = true", read_bytes(plan))
            log, _ = self.emulate(plan, "emulated", "checked", "--steps", 2)
            self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, f"{tokens} tokens")

    def test_products_in_kernels(self):
        """Generated kernels compute the products that they alone read: relu squared behind a product,
        its gradient over the square that it reads."""
        sizes = {**TINY, "global_batch": 128, "dtype": "bf16"}
        wanted, _ = self.train(self.compile("gpt_tiny", sizes, "cpu.plan"), "cpu", "--steps", 2)
        fused = ("--target", "cuda", "--products", "fused")
        plan = self.compile("gpt_tiny", sizes, "cuda.plan", *fused)
        kernels = self.ran("nanorun", plan, "--describe")
        self.assertIn("matmul_max_mul", kernels)
        self.assertIn("matmul_sqrt_select", kernels)
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, "step")

    def test_pairs_in_kernels(self):
        """A gate and what it gates are computed by one generated kernel, which writes both for the
        backward pass."""
        wanted, _ = self.train(self.compile("llama", LLAMA, "cpu.plan"), "cpu", "--steps", 2)
        plan = self.compile("llama", LLAMA, "cuda.plan", "--target", "cuda", "--products", "fused")
        self.assertRegex(self.ran("nanorun", plan, "--describe"), "matmul_sigmoid_mul_cast_.*: matmul ×2, ")
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, "step")

    def test_products_of_one_operand(self):
        """Queries, keys and values, and a gate with what it gates, are products of one operand that
        become one, on every number of ranks and in several micro-batches."""
        wanted, _ = self.train(self.compile("llama", LLAMA, "cpu.plan"), "cpu", "--steps", 2)
        words_of_graph = (*overrides(LLAMA), "--target", "cuda", "--stop-after", "fuse")
        graph = self.ran("nanoc", "compile", "models/llama.cpp", *words_of_graph)
        for columns in (64 + 32 + 32, 96 + 96):
            # A sum over so many columns, and a product with so many.
            self.assertRegex(graph, rf"nano.matmul .*\(tensor<128x{columns}xbf16>, tensor<{columns}x64xbf16>\)")
            self.assertRegex(graph, rf"nano.matmul .*\{{transpose_b\}} .*-> tensor<128x{columns}xbf16>")
        for dist in ("allreduce", "zero2"):
            words = ("--target", "cuda", "--world", "1,2,4")
            plan = self.compile("llama", {**LLAMA, "dist": dist}, f"{dist}.plan", *words)
            for ranks in (1, 2, 4):
                log, _ = self.emulate(plan, f"{dist}{ranks}", "fast", "--gpus", ranks, "--steps", 2)
                self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, f"{dist}, {ranks} ranks")

    def test_head_in_kernels(self):
        """The head's product, in bf16 and in 8 bits, ends with the sums of its rows' exponentials; losses
        and gradients are computed behind it. In 8 bits the weight's gradient turns that of the logits."""
        options = ("--steps", 2, "--val", self.path("v.bin"), "--val-tokens", 128)
        for fp8 in ("off", "head"):
            sizes = {**TINY, "global_batch": 128, "dtype": "bf16", "fp8": fp8}
            wanted, _ = self.train(self.compile("gpt_tiny", sizes, f"cpu_{fp8}.plan"), f"cpu_{fp8}", *options)
            fused = ("--target", "cuda", "--products", "fused")
            plan = self.compile("gpt_tiny", sizes, f"cuda_{fp8}.plan", *fused)
            kernels = self.ran("nanorun", plan, "--describe")
            self.assertIn("matmul_sum_sigmoid_exp", kernels)
            (self.assertRegex if fp8 == "head" else self.assertNotRegex)(kernels, r"matmul_[0-9a-f]{4}\b")
            log, _ = self.emulate(plan, f"fast_{fp8}", "fast", *options)
            self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, fp8)
            self.assert_near(val_losses(log), val_losses(wanted), BF16_LOSS, fp8 + " validation")

    def test_exponentials_in_products(self):
        """The head's product ends with the exponentials of its loss: of a head that is the embedding
        and one that is not, in chunks, micro-batches and on several ranks."""
        words = ("--target", "cuda", "--losses", "product", "--world", "1,2", "--chunk-bytes", 131072)
        gpt2 = {**GPT2, "dtype": "bf16", "vocab_size": 381}
        for model, sizes in (("llama", {**LLAMA, "vocab_size": 381}), ("gpt2", gpt2)):
            wanted, _ = self.train(self.compile(model, sizes, f"{model}_cpu.plan"), f"{model}_cpu", "--steps", 2)
            plan = self.compile(model, sizes, f"{model}.plan", *words)
            kernels = self.ran("nanorun", plan, "--describe")
            self.assertIn("exp_matmul", kernels)
            self.assertIn("exp_sums", kernels)
            for ranks in (1, 2):
                log, _ = self.emulate(plan, f"{model}{ranks}", "checked", "--gpus", ranks, "--steps", 2)
                self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, f"{model}, {ranks} ranks")

    def test_fp8(self):
        """Kernels that write 8-bit tensors row by row and transposed."""
        sizes = {**TINY, "global_batch": 128, "fp8": "all"}
        wanted, _ = self.train(self.compile("gpt_tiny", sizes, "cpu.plan"), "cpu", "--steps", 2)
        plan = self.compile("gpt_tiny", sizes, "cuda.plan", "--target", "cuda")
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), FP8_LOSS, "step")

    def test_fp8_products_in_kernels(self):
        """Products of 8 bits end in what finds the largest of what the next product reads in 8 bits, and
        write what the backward pass reads: relu squared of one, SwiGLU of two."""
        for model, sizes in (("gpt_tiny", TINY), ("llama", {**LLAMA, "ffn_dim": 128})):
            sizes = {**sizes, "global_batch": 128, "dtype": "bf16", "fp8": "all"}
            wanted, _ = self.train(self.compile(model, sizes, f"{model}_cpu.plan"), f"{model}_cpu", "--steps", 2)
            plan = self.compile(model, sizes, f"{model}.plan", "--target", "cuda", "--products", "fused")
            kernels = self.ran("nanorun", plan, "--describe")
            self.assertRegex(kernels, "matmul_max_sigmoid" if model == "llama" else "matmul_max_max")
            log, _ = self.emulate(plan, f"{model}_fast", "fast", "--steps", 2)
            self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, model)

    def test_fp8_with_block_scales(self):
        """Scales lie as GPUs read them, rows of one of them padded to four: the CPU's own layout
        gives the same losses."""
        sizes = {**TINY, **BLOCKS}
        wanted, _ = self.train(self.compile("gpt_tiny", sizes, "cpu.plan"), "cpu", "--steps", 2)
        plan = self.compile("gpt_tiny", sizes, "cuda.plan", "--target", "cuda")
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), FP8_LOSS, "step")

    def test_bad_usage(self):
        plans = {
            target: self.compile("gpt_tiny", TINY, target + ".plan", "--target", target)
            for target in ("cpu", "cuda")
        }
        train = ("--train", self.path("t_*.bin"), "--steps", 1)

        def expect(plan, words, message, **environment):
            done = run_command("nanorun", plans[plan], *train, *words, environment=environment)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(message, done.stderr)

        emulator = ("--device", "emulator")
        expect("cpu", emulator, "device emulator does not run this plan, which is for cpu")
        expect("cuda", ("--device", "cpu"), "device cpu does not run this plan, which is for cuda")
        expect("cuda", ("--device", "tpu"), "--device")
        expect("cuda", emulator, "NANO_EMULATOR is 'slow'", NANO_EMULATOR="slow")
        expect("cuda", emulator, "NANO_EMULATOR_SEED is '-1'", NANO_EMULATOR_SEED="-1")
        expect("cuda", emulator, "'no-such-compiler', which does not run", CXX="no-such-compiler")


if __name__ == "__main__":
    main()
