#!/usr/bin/env python3
"""The benchmarks that benchmarks/README.md lists say what they are with --help, and run nothing."""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))


class HelpTest(unittest.TestCase):
    def test_every_benchmark_of_the_table(self):
        with open(os.path.join(ROOT, "benchmarks", "README.md"), encoding="utf-8") as file:
            table = file.read().split("```")[0]  # those behind it are of results
        cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
        names = [name for cell in cells for name in re.findall(r"`([\w/]+)[^`]*`", cell)]
        self.assertGreater(len(names), 8)
        for name in names:
            script = os.path.join(ROOT, "benchmarks", name)
            program = script if os.path.exists(script) else os.path.join(BIN, name)
            with self.subTest(name):
                if name.endswith("CudaBench") and not os.path.exists(program):
                    continue  # built where nvcc is
                done = subprocess.run(
                    [program, "--help"], capture_output=True, encoding="utf-8", timeout=10
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"--\w|Takes no options")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]])
