#!/usr/bin/env python3
"""Tests of tools/nano-grpo on what users may give it; grpo_test.py of tests/e2e trains on its data.

usage: grpo_test.py CLASS
"""

import array
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
GOOD = {"prompt": [9, 1], "completion": [2, 3], "reward": 1.0, "group": 0}


# What is no line of JSON: no end, no UTF-8, lists in lists without end.
NO_JSON = ("{", b"\xff{}", "[" * 200000)


class ToolTest(unittest.TestCase):
    """Of a tool that makes columns of lines of JSON."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.lines, self.out = (os.path.join(self.folder, name) for name in ("r.jsonl", "r"))

    def run_tool(self, lines, *options):
        with open(self.lines, "wb") as file:
            for line in lines:
                file.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        words = [sys.executable, self.TOOL, self.lines, "--out", self.out, *options]
        return subprocess.run(words, capture_output=True, encoding="utf-8", timeout=60)

    def column(self, name, code):
        with open(f"{self.out}/{name}.npy", "rb") as file:
            data = file.read()
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        begin = 10 + data[8] + 256 * data[9]
        self.assertEqual(begin % 64, 0)
        return array.array(code, data[begin:]).tolist()

    def assert_scores_go(self, line, names, *options):
        """Scores of other tokens do not stay beside new columns, and nothing else goes."""
        os.mkdir(self.out)
        for name in (*names, "mine"):
            with open(f"{self.out}/{name}.npy", "wb"):
                pass
        done = self.run_tool([line], *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = os.listdir(self.out)
        self.assertIn("tokens.npy", found)
        self.assertIn("mine.npy", found)
        self.assertFalse([name for name in names if name + ".npy" in found])

    def assert_refused(self, done, message):
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn(message, done.stderr)
        self.assertTrue(done.stderr.startswith(os.path.basename(self.TOOL) + ": "))
        self.assertFalse(os.path.exists(self.out))


class GrpoTest(ToolTest):
    TOOL = os.path.join(ROOT, "tools", "nano-grpo")

    def test_columns(self):
        """Two completions of one prompt with rewards 1 and 3 are one deviation from the mean."""
        lines = [json.dumps(GOOD), json.dumps({**GOOD, "completion": [4] * 4, "reward": 3})]
        for options, weights, advantage in (
            ((), (0.5, 0.25), 1 / (1 + 1e-4)),
            (("--mean", "token"), (1, 1), 1 / (1 + 1e-4)),
            (("--keep-scale",), (0.5, 0.25), 1),
        ):
            done = self.run_tool(lines, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 completions of 1 prompts, 10 tokens, mean reward 2\n", done.stdout)
            self.assertEqual(self.column("tokens", "i"), [9, 1, 2, 3, 9, 1, 4, 4, 4, 4])
            wanted = [0, 0, *[weights[0]] * 2, 0, 0, *[weights[1]] * 4]
            self.assertEqual(self.column("weight", "f"), wanted)
            wanted = [0, 0, -advantage, -advantage, 0, 0, *[advantage] * 4]
            for found, value in zip(self.column("advantage", "f"), wanted):
                self.assertAlmostEqual(found, value, 6)

    def test_scores_of_before(self):
        self.assert_scores_go(json.dumps(GOOD), ("old_logprob", "ref_logprob"))

    def test_bad_input(self):
        change = lambda **changes: json.dumps({**GOOD, **changes})
        for lines, message in (
            ([], "r.jsonl: holds no completion"),
            *(([json.dumps(GOOD), line], "r.jsonl:2: no JSON: ") for line in NO_JSON),
            (["[1]"], "r.jsonl:1: needs an object with prompt, completion, reward, group"),
            ([json.dumps({"prompt": [1]})], "r.jsonl:1: needs an object with"),
            ([change(), change(completion=[])], "r.jsonl:2: prompt and completion must be lists"),
            ([change(prompt=[9, -1])], "r.jsonl:1: prompt and completion must be lists"),
            ([change(prompt="text")], "r.jsonl:1: prompt and completion must be lists"),
            ([change(completion=[2, 9])], "r.jsonl:1: token 9, with which the prompt begins"),
            ([change(), change(prompt=[8])], "r.jsonl:2: the prompt begins with token 8, and that"),
            ([change(reward=float("nan"))], "r.jsonl:1: reward must be a number that f32 has, not nan"),
            ([change(reward="1")], "r.jsonl:1: reward must be a number that f32 has, not '1'"),
            ([change(reward=10**400)], "r.jsonl:1: reward must be a number that f32 has, not 1000"),
            ([change(completion=[1 << 40])], "r.jsonl:1: prompt and completion must be lists"),
        ):
            with self.subTest(message=message, lines=[line[:80] for line in lines]):
                self.assert_refused(self.run_tool(lines), message)
        done = subprocess.run([sys.executable, self.TOOL, self.folder + "/no", "--out", self.out],
                              capture_output=True, encoding="utf-8", timeout=60)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]] if len(sys.argv) > 1 else None)
