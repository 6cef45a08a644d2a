#!/usr/bin/env python3
"""The head computed in chunks of 128 rows trains as the head computed whole: the chunks differ in the
order of sums alone, and in FP8 with `current` scales, where each chunk has a scale of its own.
"""

from harness import GPT124M, TINY, RunTest, main, overrides, train_losses, val_losses

STEPS = 8
GPT2 = {
    "num_layers": 2,
    "num_heads": 2,
    "model_dim": 32,
    "vocab_size": 257,
    "eos_token": 256,
    "block_size": 64,
    "seq_len": 384,
    "val_seq_len": 384,
    "global_batch": 768,
    "num_iterations": 40,
}
LONG = {"seq_len": 384, "val_seq_len": 384, "global_batch": 768}
# Model, its sizes, and the largest relative differences of a loss and of a parameter after STEPS
# steps. f32 sums in another order differ by some 1e-7 of their largest term, and Adam divides
# gradients near 0 by their own size. Rounding to bf16 turns such a difference into one of 2^-9 of an
# element now and then, rounding to 8 bits into one of 2^-3. With a scale a chunk every element of the
# logits' gradient is rounded to 8 bits anew, and parameters that start at 0 are nothing but what
# comes of that.
CASES = {
    "gpt_tiny, f32": ("gpt_tiny", {**TINY, **LONG, "dtype": "f32"}, 1e-5, 1e-3),
    "gpt2, f32": ("gpt2", {**GPT2, "dtype": "f32"}, 1e-5, 1e-3),
    "gpt124m, f32": ("gpt124m", {**GPT124M, **LONG, "vocab_size": 600}, 1e-5, 1e-3),
    "gpt_tiny, bf16": ("gpt_tiny", {**TINY, **LONG, "dtype": "bf16"}, 5e-3, 5e-2),
    "gpt2, bf16": ("gpt2", {**GPT2, "dtype": "bf16"}, 5e-3, 5e-2),
    "gpt_tiny, static FP8 head": (
        "gpt_tiny",
        {**TINY, **LONG, "dtype": "bf16", "fp8": "head"},
        *(5e-3, 5e-2),
    ),
    "gpt_tiny, current FP8 head": (
        "gpt_tiny",
        {**TINY, **LONG, "dtype": "bf16", "fp8": "head", "fp8.lm_head.weight": "current"},
        *(5e-3, 2e-1),
    ),
}


class Chunks(RunTest):
    def test_trains_as_the_whole_head(self):
        self.make_shards()
        options = ("--steps", STEPS, "--seed", 3, "--val", self.path("v.bin"), "--val-every", STEPS)
        for name, (model, sizes, loss_tolerance, tolerance) in CASES.items():
            with self.subTest(name):
                whole = self.compile(model, sizes, "whole.plan")
                chunked = self.compile(model, sizes, "chunked.plan", "--chunk-bytes", 1)
                start = self.start(model, sizes)
                wanted, wanted_parameters = self.train(whole, "whole", *options, *start)
                found, parameters = self.train(chunked, "chunked", *options, *start)
                self.assertTrue(self.commands(chunked) != self.commands(whole), "not chunked")
                self.assert_near(train_losses(found), train_losses(wanted), loss_tolerance, name)
                self.assert_near(val_losses(found), val_losses(wanted), loss_tolerance, name)
                self.assert_parameters_near(parameters, wanted_parameters, tolerance)

    def start(self, model, sizes):
        """Initial values that are not zero for gpt124m: from its own the order of sums decides the
        first updates of parameters whose gradients are zero in theory (see reference_test.py)."""
        if model != "gpt124m":
            return ()
        initial = self.path("initial.safetensors")
        words = (*overrides(sizes), "--random-init", initial, "--seed", 3)
        self.ran("nano-reference", model, *words)
        return ("--init", initial)

    def commands(self, plan):
        """What nanorun says of the plan's programs."""
        return self.ran("nanorun", plan, "--describe")


if __name__ == "__main__":
    main()
