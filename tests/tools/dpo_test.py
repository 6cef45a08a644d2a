#!/usr/bin/env python3
"""Tests of tools/nano-dpo on what users may give it; dpo_test.py of tests/e2e trains on its data.

usage: dpo_test.py CLASS
"""

import json
import os
import subprocess
import sys
import unittest

from grpo_test import NO_JSON, ROOT, ToolTest

GOOD = {"prompt": [9, 1], "chosen": [2, 3], "rejected": [4]}


class DpoTest(ToolTest):
    TOOL = os.path.join(ROOT, "tools", "nano-dpo")

    def test_columns(self):
        """A pair of seven tokens fills a row of eight; one of four and one of five need two more."""
        short = {"prompt": [9], "chosen": [5], "rejected": [6]}
        lines = [json.dumps(pair) for pair in (GOOD, short, {**short, "chosen": [7, 8]})]
        done = self.run_tool(lines, "--row", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 pairs in 3 rows\n", done.stdout)
        self.assertEqual(self.column("tokens", "i"), [9, 1, 2, 3, 9, 1, 4, 9, 9, 5, 9, 6, 9, 9, 9, 9,
                                                      9, 7, 8, 9, 6, 9, 9, 9, 9])  # fmt: skip
        self.assertEqual(self.column("weight", "f"), [0, 0, 1, 1, 0, 0, -1, 0, 0, 1, 0, -1, 0, 0, 0, 0,
                                                      0, 1, 1, 0, -1, 0, 0, 0, 0])  # fmt: skip
        pairs = self.column("pair", "i")
        self.assertEqual((pairs[:7], pairs[8:12], pairs[16:21]), ([0] * 7, [1] * 4, [2] * 5))

    def test_scores_of_before(self):
        self.assert_scores_go(json.dumps(GOOD), ("ref_logprob",), "--row", "8")

    def test_bad_input(self):
        change = lambda **changes: json.dumps({**GOOD, **changes})
        for lines, row, message in (
            ([], 8, "r.jsonl: holds no pair"),
            *(([json.dumps(GOOD), line], 8, "r.jsonl:2: no JSON: ") for line in NO_JSON),
            ([json.dumps({"prompt": [1]})], 8, "r.jsonl:1: needs an object with prompt, chosen, rej"),
            ([change(), change(rejected=[])], 8, "r.jsonl:2: prompt, chosen and rejected must be"),
            ([change(chosen=[2, 9])], 8, "r.jsonl:1: token 9, with which the prompt begins"),
            ([change(), change(prompt=[8])], 8, "r.jsonl:2: the prompt begins with token 8"),
            ([change()], 6, "r.jsonl:1: the pair has 7 tokens, and a row 6; shorten it, or give"),
            ([change()], 0, "--row must be positive, is 0"),
        ):
            with self.subTest(message=message, lines=[line[:80] for line in lines]):
                self.assert_refused(self.run_tool(lines, "--row", str(row)), message)
        done = subprocess.run([sys.executable, self.TOOL, self.folder + "/no", "--row", "8", "--out",
                               self.out], capture_output=True, encoding="utf-8", timeout=60)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]] if len(sys.argv) > 1 else None)
