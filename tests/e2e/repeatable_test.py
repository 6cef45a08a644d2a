#!/usr/bin/env python3
"""Equal commands give equal bits: two runs, two compilations, a run stopped and resumed twice,
another number of threads."""

import os

from harness import TINY, RunTest, main, read_bytes, read_log, train_losses, val_losses

STEPS = 12


class Repeatable(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plans = {}

    def plan(self, dtype):
        if dtype not in self.plans:
            sizes = {**TINY, "dtype": dtype}
            self.plans[dtype] = self.compile("gpt_tiny", sizes, dtype + ".plan", "--world", "1,2")
        return self.plans[dtype]

    def assert_same(self, found, wanted, what):
        """Two results of `train`, bit for bit."""
        self.assertEqual(train_losses(found[0]), train_losses(wanted[0]), what)
        self.assertEqual(val_losses(found[0]), val_losses(wanted[0]), what)
        self.assertEqual(read_bytes(found[1]), read_bytes(wanted[1]), what)

    def test_two_runs(self):
        for dtype in ("f32", "bf16"):
            options = ("--steps", STEPS, "--seed", 7, "--val", self.path("v.bin"), "--val-every", 5)
            first = self.train(self.plan(dtype), "first", *options)
            self.assertEqual(len(val_losses(first[0])), 3)
            self.assert_same(self.train(self.plan(dtype), "second", *options), first, dtype)
            other = self.train(self.plan(dtype), "other", *options[:2], "--seed", 8)
            self.assertNotEqual(train_losses(other[0]), train_losses(first[0]), "the seed decides")

    def test_two_compilations(self):
        """A plan is a function of the model file and the options: the same bytes again."""
        again = self.compile("gpt_tiny", {**TINY, "dtype": "f32"}, "again.plan", "--world", "1,2")
        self.assertEqual(read_bytes(again), read_bytes(self.plan("f32")))

    def test_stopped_and_resumed_twice(self):
        for dtype, ranks in (("f32", 1), ("bf16", 1), ("f32", 2)):
            with self.subTest(dtype=dtype, ranks=ranks):
                plan, common = self.plan(dtype), ("--gpus", ranks)
                whole = self.train(plan, "whole", "--steps", STEPS, *common)
                name = f"{dtype}-{ranks}"
                saves, log = self.path("saves-" + name), self.path(name + ".jsonl")
                parameters = self.path(name + ".safetensors")
                for steps in (3, 8, STEPS):
                    options = ("--resume", saves) if os.path.exists(saves) else ()
                    self.ran(
                        *("nanorun", plan, "--train", self.path("t_*.bin"), *common),
                        *("--threads", 1, "--steps", steps, "--save", saves, "--save-every", 2),
                        *(*options, "--log", log, "--dump-params", parameters),
                    )
                self.assert_same((read_log(log), parameters), whole, name)
                self.assertEqual(sorted(os.listdir(saves))[-1], f"step-{STEPS:06}")

    def test_threads(self):
        """Kernels split over independent iterations, and with AVX-512 oneDNN adds up products of these
        sizes in one order: the number of threads changes no bit. Without, oneDNN splits their sums over
        threads, and losses agree but for the rounding of a sum in f32 or of an activation in bf16. Only
        the kernels' part is promised."""
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            is_exact = " avx512f" in file.read()
        for dtype, rounding in (("f32", 1e-5), ("bf16", 2**-9)):
            one = self.train(self.plan(dtype), "one", "--steps", 2)
            for threads in (2, 3):
                name = f"threads{threads}"
                more = self.train(self.plan(dtype), name, "--steps", 2, threads=threads)
                if is_exact:
                    self.assert_same(more, one, f"{dtype}, {threads} threads")
                    continue
                for found, wanted in zip(train_losses(more[0]), train_losses(one[0]), strict=True):
                    self.assertLess(abs(found - wanted), rounding * wanted, f"{dtype}, {threads} threads")


if __name__ == "__main__":
    main()
