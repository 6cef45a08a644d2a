"""tools/random-battery: what its command line refuses, what it counts of dieharder's lines, and its exit status. dieharder is
one of the test's own here."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# Says of test 1 that it fails, of 2 that it is weak and passes, and of all others that they pass.
DIEHARDER = """#!/bin/bash
while (($#)); do if [[ $1 == -d ]]; then test=$2; fi; shift; done
head -c 4000 > /dev/null
printf '#==#\\n   rng_name    |rands/second|   Seed   |\\nstdin_input_raw|  2.5e+07  | 123|\\n'
printf '        test_name   |ntup| tsamples |psamples|  p-value |Assessment\\n'
case $test in
  1) printf '   diehard_operm5|   0|   1000000|      20|0.00000000|  FAILED  \\n' ;;
  2) printf '  rank|   0|     40000|      20|0.00100000|   WEAK   \\n  rank|   1|     40000|      20|0.5|  PASSED  \\n' ;;
  *) printf '  other|   0|       100|      20|0.64325810|  PASSED  \\n' ;;
esac
"""


class RandomBattery(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        for path in ("tools/random-battery", "tools/support/common.sh"):
            os.makedirs(os.path.join(self.folder, os.path.dirname(path)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, path), os.path.join(self.folder, path))
        os.makedirs(os.path.join(self.folder, "build/bin"))
        shutil.copy(os.path.join(os.environ["NANO_BIN"], "nano-random-bits"), os.path.join(self.folder, "build/bin"))
        self.stub("dieharder", DIEHARDER)
        self.stub("dpkg-query", "#!/bin/sh\nprintf installed\n")

    def stub(self, name, text):
        path = os.path.join(self.folder, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_tool(self, *words):
        environment = dict(os.environ, PATH=os.path.join(self.folder, "bin") + ":" + os.environ["PATH"])
        command = [os.path.join(self.folder, "tools/random-battery"), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def test_command_line(self):
        for words, message in (
            (["--fast"], "unknown option --fast"),
            (["--samples"], "--samples needs a value"),
            (["--samples", "many"], "many is no number"),
            (["--tests", "1 x"], "x is no number"),
            (["6"], "there is no stream 6; they are numbered from 0 to 5"),
        ):
            done = self.run_tool(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stderr, f"random-battery: {message} (see random-battery --help)\n")
        self.assertIn("--samples N", self.run_tool("--help").stdout)

    def test_counts(self):
        done = self.run_tool("--tests", "0 2", "2", "5")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = re.findall(r"random-battery: (.*): (\d) passed, (\d) weak \(.*\), (\d) failed", done.stdout)
        self.assertEqual(found, [("rows", "2", "1", "0"), ("seeds", "2", "1", "0")])
        done = self.run_tool("--tests", "1 2", "2")
        self.assertEqual((done.returncode, done.stderr), (1, "random-battery: 1 tests failed\n"))
        self.assertIn("random-battery: rows: diehard_operm5: p = 0.00000000\n", done.stdout)

    def test_silence(self):
        self.stub("dieharder", "#!/bin/sh\nexit 1\n")
        done = self.run_tool("--tests", "0", "2")
        self.assertEqual((done.returncode, done.stderr), (1, "random-battery: dieharder said nothing of test 0\n"))


if __name__ == "__main__":
    unittest.main()
