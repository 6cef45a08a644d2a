#!/usr/bin/env python3
"""tools/fuzz: what its command line takes and refuses; nothing is built."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class CommandLine(unittest.TestCase):
    def call(self, *arguments):
        words = [os.path.join(ROOT, "tools", "fuzz"), *arguments]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=20)
        return done.returncode, done.stdout, done.stderr

    def test_help(self):
        status, out, errors = self.call("--help")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("--seeds-only", out)

    def test_refused(self):
        for arguments, says in (
            ((), "say for how many minutes, a whole number"),
            (("0",), "say for how many minutes, a whole number"),
            (("1.5",), "say for how many minutes, a whole number"),
            (("1", "plans"), "there is no target plans; there are plan safetensors"),
            (("--fast",), "unknown option --fast"),
        ):
            with self.subTest(arguments):
                status, out, errors = self.call(*arguments)
                self.assertEqual((status, out, errors.count("\n")), (2, "", 1))
                self.assertIn(says, errors)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
