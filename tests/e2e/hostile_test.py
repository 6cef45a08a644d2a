#!/usr/bin/env python3
"""Plans whose checksums are right and whose numbers lie: one number of every kind at a time becomes
0, −1, 2³¹, 2⁶³, off by one and so on. Each plan is refused with a line, or runs without a crash."""

import os

from harness import BIN, PATIENCE, TINY, RunTest, main, overrides, run_command, tokens, write_shard
from kernels_test import MODEL, NORM, NORM_CODE

MUTATE = "nano-hostile-plans"


class Hostile(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        for name, count, seed in (("s.bin", 2000, 1), ("sv.bin", 1000, 2)):
            path = os.path.join(cls.scratch.name, name)
            write_shard(path, tokens(count, seed, vocab=16, eos=0))

    def plan(self, source, name, *options):
        path = self.path(name)
        done = run_command("nanoc", "compile", source, "-o", path, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def attack(self, plan, world, runs, *options):
        nanorun = os.path.join(BIN, "nanorun")
        command = (nanorun, "{}", "--threads", 1, *options)
        done = run_command(MUTATE, plan, world, runs, self.scratch.name, *command, limit=280 * PATIENCE)
        print(done.stdout.splitlines()[0] if done.stdout else done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def train(self, train, val):
        return ("--train", self.path(train), "--val", self.path(val), "--val-tokens", 256, "--steps", 1)

    def test_cpu(self):
        plan = self.plan("tests/compiler/Inputs/small.cpp", "s.plan", "--target", "cpu")
        self.attack(plan, 1, RUNS, *self.train("s.bin", "sv.bin"))

    def test_cpu_ranks_and_sampling(self):
        sizes = overrides({**TINY, "num_layers": 6, "global_batch": 256, "dist": "zero2"})
        options = ("--target", "cpu", "--world", "1,2", *sizes)
        plan = self.plan("models/gpt_tiny.cpp", "r.plan", *options)
        self.attack(plan, 2, RUNS // 8, "--gpus", 2, *self.train("t_0.bin", "v.bin"))
        self.attack(plan, 1, RUNS // 8, "--sample", 2)

    def test_unproven_kernels(self):
        source = self.path("unproven.cpp")
        kernels = NORM.replace("REPLACE", 'replace("norm", fastNorm);').replace("SCALE", "1")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MODEL.replace("KERNELS", kernels).replace("CODE", NORM_CODE))
        plan = self.plan(source, "u.plan", "--target", "cpu", "--check-at-run")
        self.attack(plan, 1, RUNS // 8, "--train", self.path("s.bin"), "--steps", 1)

    def test_emulator(self):
        plan = self.plan("tests/compiler/Inputs/small.cpp", "e.plan", "--target", "cuda")
        self.attack(plan, 1, RUNS // 8, "--device", "emulator", *self.train("s.bin", "sv.bin"))


# Of the plans that pass validation, so many run: some tens of seconds.
RUNS = int(os.environ.get("NANO_HOSTILE_RUNS", "120"))

if __name__ == "__main__":
    main()
