#!/usr/bin/env python3
"""tools/gpu_check without a GPU: its command line, and what it makes of runs that agree with what is
expected, that do not, and that cannot be. A plan for the CPU stands in for the one for CUDA."""

import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))
TOOL = os.path.join(ROOT, "tools", "gpu_check")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
sys.dont_write_bytecode = True

import harness  # noqa: E402

SIZES = {**harness.TINY, "num_layers": 6, "vocab_size": 257, "eos_token": 256, "num_iterations": 40}


def ran(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, encoding="utf-8", timeout=100)


class CommandLine(unittest.TestCase):
    def test_help_and_misuse(self):
        for words, status in ((("--help",), 0), ((), 2)):
            done = ran(TOOL, *words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("carry the folder build/gpu-check", done.stdout)
        self.assertEqual(ran(TOOL, "fly").returncode, 2)

    def test_a_folder_that_was_not_prepared(self):
        done = ran(TOOL, "run", "--bundle", "/tmp/no-such-folder")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("/tmp/no-such-folder: not a prepared folder; run tools/gpu_check prepare", done.stderr)


class Tolerances(unittest.TestCase):
    def test_a_kind_of_parameter_has_the_largest_distance_of_its_layers(self):
        tool = importlib.machinery.SourceFileLoader("gpu_check", TOOL).load_module()
        distances = {"h.0.w": 0.01, "h.1.w": 0.03, "h.1.b": 0.001, "wte": 0.02}
        self.assertEqual(
            tool.tolerances(distances), {"h.0.w": 0.06, "h.1.w": 0.06, "h.1.b": 0.005, "wte": 0.04}
        )


class Comparison(unittest.TestCase):
    """One folder with one case, whose expected values come from a run of the same plan."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="nano-gpu-check-")
        cls.addClassCleanup(cls.scratch.cleanup)
        at = lambda *names: os.path.join(cls.scratch.name, *names)  # noqa: E731
        cls.at = staticmethod(at)
        os.makedirs(at("small"))
        os.makedirs(at("shards"))
        os.makedirs(at("bin"))
        harness.write_shard(at("shards", "t_0.bin"), harness.tokens(30000, 1))
        harness.write_shard(at("shards", "v.bin"), harness.tokens(3000, 3))
        plan, initial = at("small", "cuda.plan"), at("small", "initial.safetensors")
        model = os.path.join(ROOT, "models", "gpt_tiny.cpp")
        steps = [
            (os.path.join(BIN, "nanoc"), "compile", model, "-o", plan, "--target", "cpu", *harness.overrides(SIZES)),
            (os.path.join(BIN, "nanorun"), plan, "--steps", 0, "--dump-params", initial),
            (os.path.join(BIN, "nanorun"), plan, "--train", at("shards", "t_*.bin"), "--val",
             at("shards", "v.bin"), "--val-tokens", 1024, "--steps", 20, "--init", initial, "--log",
             at("log.jsonl"), "--dump-params", at("small", "cpu.safetensors")),
        ]
        for words in steps:
            done = ran(*words)
            assert done.returncode == 0, done.stderr
        log = harness.read_log(at("log.jsonl"))
        parameters = harness.read_safetensors(at("small", "cpu.safetensors"))
        cls.expected = {
            "train": harness.train_losses(log),
            "val": harness.val_losses(log),
            "loss_tolerance": 1e-4,
            "tolerance": {name: 5e-3 for name in parameters},
        }
        with open(at("manifest.json"), "w", encoding="utf-8") as file:
            json.dump({"cases": ["small"], "full": []}, file)

    def check(self, expected, nanorun=os.path.join(BIN, "nanorun")):
        """(exit status, the parts of the report by name) of a run with these expected values."""
        with open(self.at("small", "expected.json"), "w", encoding="utf-8") as file:
            json.dump(expected, file)
        report = self.at("report.json")
        done = ran(TOOL, "run", "--bundle", self.scratch.name, "--report", report, "--nanorun", nanorun,
                   "--only", "small", "--limit", 90)
        with open(report, encoding="utf-8") as file:
            parts = {part["name"]: part for part in json.load(file)["parts"]}
        return done.returncode, parts["small against the CPU"]

    def test_agreement_passes(self):
        status, part = self.check(self.expected)
        self.assertEqual((status, part["status"]), (0, "passed"), part)
        self.assertIn("worst error 0.0e+00", part["detail"])

    def test_another_loss_fails(self):
        train = list(self.expected["train"])
        train[7] *= 1.0002
        status, part = self.check({**self.expected, "train": train})
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertIn("first at loss 8", part["detail"])

    def test_other_parameters_fail(self):
        good = self.at("small", "cpu.safetensors")
        shutil.copy(good, self.at("kept"))
        content = bytearray(harness.read_bytes(good))
        content[-400:] = bytes(400)  # the last numbers of the last tensor
        with open(good, "wb") as file:
            file.write(content)
        try:
            status, part = self.check(self.expected)
        finally:
            shutil.copy(self.at("kept"), good)
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertIn("of its tolerance", part["detail"])

    def test_a_run_that_ends_badly_fails_and_says_why(self):
        status, part = self.check(self.expected, os.path.join(BIN, "nanorun") + " --gpus 64")
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertIn("--gpus 64", part["detail"])


if __name__ == "__main__":
    unittest.main()
