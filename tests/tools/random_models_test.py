#!/usr/bin/env python3
"""tools/random-models: what its command line refuses, what it counts, and how it makes a model that fails smaller. Models
that end the process do not end the campaign."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))
# Model 12 is wrong from four blocks on, model 14 crashes; all others pass on 1 and 2 ranks, three of them beside plain
# programs.
BROKEN = """#!/bin/sh
first=${NANO_RANDOM_MODELS%-*} last=${NANO_RANDOM_MODELS#*-}
for n in $(seq $first $last); do
  echo "[ RUN      ] Seeds/RandomModels.TrainAsTheInterpreterDoes/$n"
  [ $n = 14 ] && kill -SEGV $$
  if [ $n = 12 ] && [ ${NANO_RANDOM_BLOCKS:-9} -ge 4 ]; then
    printf 'x.cpp:7: Failure\\nExpected: near\\n[  FAILED  ] Seeds/RandomModels.TrainAsTheInterpreterDoes/12 (1 ms)\\n'
    continue
  fi
  printf 'ran on 1 rank(s)\\nran on 2 rank(s)\\n'
  [ $n = 16 ] && echo 'plain programs were asked: at most 1.50 times as far as they'
  case $n in 15 | 17) echo 'plain programs were asked: at most 0.40 times as far as they' ;; esac
  echo "[       OK ] Seeds/RandomModels.TrainAsTheInterpreterDoes/$n (1 ms)"
done
"""


class RandomModelsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)

    def call(self, *arguments, binaries=BIN):
        words = [os.path.join(ROOT, "tools", "random-models"), *map(str, arguments)]
        environment = {**os.environ, "NANO_BIN": binaries, "TMPDIR": self.scratch}
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", timeout=220, env=environment
        )
        return done.returncode, done.stdout, done.stderr

    def test_refused(self):
        for arguments, says in (
            ((), "the following arguments are required: COUNT"),
            (("0",), "say how many models, a whole number"),
            (("two",), "'two' is not a whole number of 0 or more"),
            (("1", "--first", "-1"), "--first"),
            (("1", "--whole", "0"), "--whole: say one of how many models, a whole number"),
            (("1", "--emulated", "0"), "--emulated: say one of how many models, a whole number"),
            (("1", "--fp8", "0"), "--fp8: say one of how many models, a whole number"),
        ):
            with self.subTest(arguments):
                status, out, errors = self.call(*arguments)
                self.assertEqual((status, out, errors.count("\n")), (2, "", 1), errors)
                self.assertIn(says, errors)
        status, out, errors = self.call(1, binaries=self.scratch)
        self.assertEqual((status, out, errors.count("\n")), (1, "", 1), errors)
        self.assertIn("is not there; run tools/build first", errors)

    def test_models_that_fail(self):
        program = os.path.join(self.scratch, "nano-random-models-test")
        with open(program, "w", encoding="utf-8") as file:
            file.write(BROKEN)
        os.chmod(program, stat.S_IRWXU)
        status, out, errors = self.call(30, "--first", 10, binaries=self.scratch)
        self.assertEqual((status, errors), (1, ""), out)
        self.assertIn("| 30 | 56 | 28 on 1, 28 on 2 | 0 | 3 | 1.50 | 2 |", out)
        self.assertIn("model 12 with 4 block(s) at most: x.cpp:7: Failure Expected: near;", out)
        self.assertIn("model 14 with 1 block(s) at most: the process ended;", out)

    def test_models_that_pass(self):
        status, out, errors = self.call(2, "--first", 159, "--whole", 53, "--emulated", 160, "--fp8", 160)
        self.assertEqual((status, errors), (0, ""), out)
        self.assertRegex(out, r"\| 2 \| [1-3] \| 1 on 1(, 1 on \d)* \| 1 \| \d \| \d\.\d\d \| 0 \|")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
