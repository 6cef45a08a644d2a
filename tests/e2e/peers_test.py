#!/usr/bin/env python3
"""benchmarks/peers computes what nanoc's plans of gpt124m compute.

usage: peers_test.py CLASS     CommandLine needs no PyTorch, Step does

In f32 on the CPU both are compared with nano-reference, whose double precision is exact to either:
losses within 1e-4, parameters by the norm of a tensor, for the reasons in reference_test.py."""

import json
import os
import subprocess
import sys
import unittest

from harness import BIN, GPT124M, ROOT, RunTest, overrides, train_losses, write_shard

FOLDER = os.path.join(ROOT, "benchmarks", "peers")
NANORUN = os.path.join(BIN, "nanorun")
STEPS = 12
LOSS_TOLERANCE = 1e-4
PARAMETER_TOLERANCE = 5e-3
# The head's products are the same numbers in both: its 8-bit operands differ only where f32 and f64
# round to different neighbours. z is bf16 in PyTorch, so the loss of a token errs by up to 2⁻⁹ of a
# logit, and the mean over 512 tokens by far less. Adam then turns the gradients' last bits into
# whole steps where a gradient is nearly zero.
FLOAT8_FIRST_TOLERANCE = 5e-6  # the run without FP8 is 2e-5 away
FLOAT8_TOLERANCE = 1e-3
SIZES = {name: value for name, value in GPT124M.items() if name != "val_seq_len"}


def run(*arguments, options=(), script="step"):
    """The finished process of a script of the folder, on one thread."""
    return subprocess.run(
        [sys.executable, *options, os.path.join(FOLDER, script), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=110,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


class CommandLine(RunTest):
    def refused(self, message, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertRegex(done.stderr.splitlines()[-1], message)

    def test_bad_options(self):
        self.refused("one of the arguments --train --random is required")
        self.refused("--steps must be at least 1", "--random", "--steps", 0)
        self.refused("invalid choice: 'mlp'", "--random", "--fp8", "mlp")
        for override, message in (
            ("layers=4", "-D layers=4 is none of name=value; the names are .*num_layers"),
            ("seq_len=long", "seq_len takes a whole number"),
            ("num_layers=7", "num_layers must be even"),
            ("head_dim=6", "head_dim must be a multiple of 4"),
            ("seq_len=100", "seq_len must be a multiple of 128"),
            ("global_batch=128", "global_batch must be a multiple of seq_len"),
            ("dtype=f16", "dtype must be bf16 or f32"),
            ("model_dim=0", "must be positive"),
            ("eos_token=60000", "eos_token must be a token"),
        ):
            self.refused(message, "--random", "-D", override)

    def test_no_torch(self):
        """Without its libraries Python finds no PyTorch."""
        self.refused("run it with a Python that has PyTorch", "--random", options=("-S",))

    def test_compare(self):
        given = ("no.plan", "--train", "no.bin")
        refused = lambda message, *words: self.refused(message, *words, script="compare")
        refused("required: --train", "no.plan")
        refused("--steps must be at least 1", *given, "--steps", 0)
        refused("check --nanorun", *given, "--nanorun", self.path("none"))
        refused("nanorun failed with status 2", *given, "--nanorun", NANORUN)
        self.make_shards()
        plan = self.compile("gpt124m", {**GPT124M, "adam_every": 2}, "slow_adam.plan")
        shards = ("--train", self.path("t_*.bin"), "--nanorun", NANORUN)
        refused("with adam_every=1", plan, *shards, "--steps", 1, "--warmup", 0)


class Step(RunTest):
    """Runs that train."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def start(self, sizes):
        """Initial parameters, the same for both."""
        path = self.path("initial.safetensors")
        self.ran(
            *("nano-reference", "gpt124m", *overrides(sizes), "--random-init", path, "--seed", 3)
        )
        return path

    def both(self, sizes, fp8, steps):
        """(losses of step, its parameters, the reference's losses, its parameters)."""
        initial = self.start(sizes)
        found, wanted = self.path("found.safetensors"), self.path("wanted.safetensors")
        given = (*overrides(sizes), "--init", initial, "--train", self.path("t_*.bin"))
        lines = self.ran(
            *("nano-reference", "gpt124m", *given, "-D", f"fp8={fp8}", "--steps", steps),
            *("--dump-params", wanted),
        )
        report = self.step(
            *(*given, "--fp8", fp8, "--steps", steps - 2, "--warmup", 1, "--dump-params", found)
        )
        self.assertEqual((report["fp8"], report["notes"]), (fp8, []))
        losses = train_losses([json.loads(line) for line in lines.splitlines()])
        return report["losses"], found, losses, wanted

    def step(self, *arguments):
        fixed = ("--device", "cpu", "--compile", "off", "--attention", "blocks")
        done = run(*fixed, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return json.loads(done.stdout)

    def test_training(self):
        # Windows of 1 to 4 blocks on 4 blocks; two micro-batches a step; two shards.
        sizes = {**SIZES, "seq_len": 512, "global_batch": 1024}
        found, parameters, wanted, reference = self.both(sizes, "off", STEPS)
        self.assert_near(found, wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(parameters, reference, PARAMETER_TOLERANCE)
        self.assertLess(found[-1], 0.6 * found[0])

    def test_float8_head(self):
        found, _, wanted, _ = self.both(SIZES, "head", 6)
        self.assert_near(found[:1], wanted[:1], FLOAT8_FIRST_TOLERANCE, "first step")
        self.assert_near(found, wanted, FLOAT8_TOLERANCE, "step")

    def test_blocks_of_the_mask(self):
        """What flex_attention reads, block by block, is what the definition of the mask says."""
        import torch

        sys.path.insert(0, FOLDER)
        from gpt124m import block_lists, document_starts, mask_rule, ordered

        tokens = torch.zeros(1280, dtype=torch.int64)
        tokens[[3, 127, 130, 256, 900]] = 7  # one document of five blocks and more
        position = torch.arange(len(tokens))
        query, key = position[:, None], position[None, :]
        document = (tokens == 7).cumsum(0)
        start = document_starts(tokens, 7)
        for window in (1, 2, 3, 14):
            partly, wholly = block_lists(start, torch.tensor(window))
            wide = lambda blocks: blocks.repeat_interleave(128, 0).repeat_interleave(128, 1)
            found = wide(wholly) | (wide(partly) & mask_rule(start)(0, 0, query, key))
            wanted = (key <= query) & (document[:, None] == document[None, :])
            wanted &= query // 128 - key // 128 < window
            self.assertTrue(torch.equal(found, wanted), window)
            self.assertEqual(bool(wholly.any()), window > 1)
            for blocks in (partly, wholly):
                counts, columns = ordered(blocks)
                for row, (count, places) in enumerate(zip(counts[0, 0], columns[0, 0])):
                    listed = sorted(places[:count].tolist())
                    self.assertEqual(listed, blocks[row].nonzero().flatten().tolist())

    def test_compare(self):
        """The script that runs a plan and step takes the sizes from the plan."""
        plan = self.compile("gpt124m", {**GPT124M, "fp8": "all"}, "compared.plan")
        found = self.path("compared.json")
        done = run(
            *(plan, "--train", self.path("t_*.bin"), "--nanorun", NANORUN, "--out", found),
            *("--steps", 3, "--warmup", 1, "--", "--compile", "off", "--attention", "blocks"),
            script="compare",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"FP8 +all +head\n.*\n(.*\n)*PyTorch / nanorun: \d")
        with open(found, encoding="utf-8") as file:
            report = json.load(file)
        for side in ("nanorun", "torch"):
            self.assertEqual(len(report[side]["losses"]), 5)
            self.assertEqual(len(report[side]["times_ms"]), 3)
        # The plan's other products in FP8 are not in PyTorch's program.
        self.assertLess(report["loss_difference"], 2e-2)

    def test_random_documents(self):
        sizes = {**SIZES, "seq_len": 1024, "global_batch": 1024, "dtype": "bf16"}
        report = self.step("--random", *overrides(sizes), "--steps", 2, "--warmup", 0)
        self.assertEqual((len(report["losses"]), len(report["times_ms"])), (3, 2))
        self.assertEqual(report["windows"], [1, 1, 1])

    def test_bad_files(self):
        given = ("--device", "cpu", *overrides(SIZES))
        bad = self.path("bad.bin")
        write_shard(bad, range(256), magic=1)
        short = self.path("short.bin")
        write_shard(short, range(200))
        refusals = [
            (("--train", self.path("none_*.bin")), "no file matches"),
            (("--train", bad), "is no token shard"),
            (("--train", short), "no shard has the 513 tokens"),
            (("--random", "--init", bad), "bad.bin does not fit"),
        ]
        if not os.path.exists("/dev/nvidia0"):
            refusals.append((("--random", "--device", "cuda"), "finds no GPU"))
        for options, message in refusals:
            done = run(*given, *options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertRegex(done.stderr.splitlines()[-1], message)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
