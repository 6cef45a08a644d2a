#!/usr/bin/env python3
"""Whole training steps of plans for CUDA on the emulator: the losses and parameters of the CPU, no
fault in any kernel, and the same bits under every schedule. Those whose products end in other ops
are in emulated_products_test.py."""

import json
import os

from emulated import BF16_LOSS, F32_LOSS, F32_PARAMETERS, EmulatedTest
from harness import GPT2, GPT124M, ROOT, TINY, main, overrides, read_bytes, run_command
from harness import train_losses, val_losses

STEPS = 3
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

LOSSES = "../tests/e2e/Inputs/losses"
MOVED = "../tests/e2e/Inputs/moved"


class Emulator(EmulatedTest):
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

    def test_host_memory(self):
        """What goes to the host's memory and back changes no bit, and no kernel touches it there."""
        sizes, options = {**TINY, "global_batch": 256}, ("--steps", 2)
        words = ("--target", "cuda", "--machine", os.path.join(ROOT, "tests/passes/schedule/Inputs/fast-link.json"))
        whole = self.compile("gpt_tiny", sizes, "whole.plan", *words)
        plan = self.path("less.plan")
        held = int(self.ran("nanorun", whole, "--describe").split("\narena ")[1].split()[0])
        limit = ("--max-memory", f"{held * 9 // 10}B")
        words += ("-o", plan, *limit, *overrides(sizes))
        done = run_command("nanoc", "compile", "models/gpt_tiny.cpp", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "no product made again  [0-9.]+ MB taken to the host's memory  <- chosen")
        _, wanted = self.emulate(whole, "whole", "fast", *options)
        for mode in ("checked", "fast"):
            _, found = self.emulate(plan, mode, mode, *options)
            self.assertEqual(read_bytes(found), read_bytes(wanted), mode)

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

    def test_fp8(self):
        """Kernels that write 8-bit tensors row by row and transposed."""
        sizes = {**TINY, "global_batch": 128, "fp8": "all"}
        wanted, _ = self.train(self.compile("gpt_tiny", sizes, "cpu.plan"), "cpu", "--steps", 2)
        plan = self.compile("gpt_tiny", sizes, "cuda.plan", "--target", "cuda")
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), FP8_LOSS, "step")

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
        expect("cuda", emulator, "NANO_EMULATOR_SUMS is 'near'", NANO_EMULATOR_SUMS="near")
        expect("cuda", emulator, "'no-such-compiler', which does not run", CXX="no-such-compiler")


if __name__ == "__main__":
    main()
