#!/usr/bin/env python3
"""gpt124m in bf16: it learns, and stays near the same run in f32.

Both start from the same parameters, rounded to bf16 where they are stored so. A bf16 number has 8
bits: one op errs by up to 2⁻⁹ relative, a loss by no more, as errors of many tokens cancel. Updates
then differ in the places where a gradient is small (Adam and Newton–Schulz do not depend on a
gradient's size), and the runs part slowly."""

from harness import GPT124M, RunTest, main, overrides, round_to_bf16, train_losses, val_losses

STEPS = 30
FIRST_TOLERANCE = 1e-3  # before any update: rounding alone
TOLERANCE = 5e-3  # a loss of any later step; measured: 1e-3


class Bf16(RunTest):
    def test_trains_like_f32(self):
        self.make_shards()
        initial = self.path("initial.safetensors")
        words = overrides(GPT124M)
        self.ran("nano-reference", "gpt124m", *words, "--random-init", initial, "--seed", 3)
        runs = {}
        for dtype in ("f32", "bf16"):
            plan = self.compile("gpt124m", {**GPT124M, "dtype": dtype}, dtype + ".plan")
            rounded = self.path(dtype + "-initial.safetensors")
            round_to_bf16(initial, rounded, lambda name: "embed" in name, dtype == "bf16")
            options = ("--init", rounded, "--steps", STEPS, "--val", self.path("v.bin"))
            runs[dtype], _ = self.train(plan, dtype, *options, "--val-tokens", 2560)
        wanted, found = train_losses(runs["f32"]), train_losses(runs["bf16"])
        self.assert_near(found[:1], wanted[:1], FIRST_TOLERANCE, "first step")
        self.assert_near(found, wanted, TOLERANCE, "step")
        self.assert_near(val_losses(runs["bf16"]), val_losses(runs["f32"]), TOLERANCE, "validation")
        self.assertLess(found[-1], 0.8 * found[0])


if __name__ == "__main__":
    main()
