#!/usr/bin/env python3
"""tools/mutants: what its command line refuses, that the proofs and the ops' verifiers hold, and that it sees one that is
not there."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class MutantsTest(unittest.TestCase):
    def call(self, *arguments, **environment):
        words = [os.path.join(ROOT, "tools", "mutants"), *map(str, arguments)]
        done = subprocess.run(
            words,
            capture_output=True,
            encoding="utf-8",
            timeout=220,
            env={**os.environ, **environment},
        )
        return done.returncode, done.stdout, done.stderr

    def rows(self, out):
        lines = [line.strip("| ").split(" | ") for line in out.splitlines() if line[:2] == "| "]
        return {cells[0]: cells[1:] for cells in lines[1:]}

    def test_refused(self):
        for arguments, says in (
            ((), "say how many mutants"),
            (("0",), "say how many mutants"),
            (("-3",), "'-3' is not a whole number below a billion"),
            (("5", "--seed"), "--seed needs a value"),
            (("5", "--without", "luck"), "there is no proof 'luck'"),
            (("--ops",), "the following arguments are required: COUNT"),
            (("--ops", "0"), "say how many mutants"),
            (("--kernels", "0"), "say how many mutants"),
            (("--steps", "0"), "say how many mutants"),
            (("--states", "0"), "say how many mutants"),
            (("--ops", "many"), "'many' is not a whole number of 0 or more"),
        ):
            with self.subTest(arguments):
                status, out, errors = self.call(*arguments)
                self.assertEqual((status, out, errors.count("\n")), (2, "", 1), errors)
                self.assertIn(says, errors)
        status, out, errors = self.call(1, NANO_BIN=ROOT)
        self.assertEqual((status, out, errors.count("\n")), (1, "", 1), errors)
        self.assertIn("is not there; run tools/build first", errors)

    def test_every_wrong_mutant_is_reported(self):
        status, out, errors = self.call(1500, "--seed", 5000)
        self.assertEqual((status, errors), (0, ""), out)
        rows = self.rows(out)
        mutants, wrong, found, survivors, _ = rows.pop("all")
        self.assertEqual((mutants, survivors), ("1500", "0"))
        self.assertGreater(int(wrong), 600)
        # Every proof is the first to report some of them.
        self.assertTrue(all(int(count) > 0 for count in found.split(" / ")), found)
        self.assertEqual(len(rows), 16, rows.keys())

    def test_every_op_that_means_nothing_is_refused(self):
        status, out, errors = self.call("--ops", 400, "--seed", 3)
        self.assertEqual((status, errors), (0, ""), out)
        mutants, wrong, survivors, _ = self.rows(out)["all"]
        self.assertEqual((mutants, survivors), ("400", "0"))
        self.assertGreater(int(wrong), 200)

    def test_every_kernel_that_is_wrong_is_refused(self):
        status, out, errors = self.call("--kernels", 600, "--seed", 3)
        self.assertEqual((status, errors), (0, ""), out)
        rows = self.rows(out)
        mutants, wrong, survivors, _ = rows.pop("all")
        self.assertEqual((mutants, survivors), ("600", "0"))
        self.assertGreater(int(wrong), 300)
        self.assertEqual(len(rows), 21, rows.keys())
        # Nearly all kinds make some that are wrong; a load or store dropped rarely does.
        self.assertGreaterEqual(sum(int(row[1]) > 0 for row in rows.values()), 16, out)

    def test_every_command_and_state_that_is_wrong_is_refused(self):
        for what in ("--steps", "--states"):
            with self.subTest(what):
                status, out, errors = self.call(what, 500, "--seed", 3)
                self.assertEqual((status, errors), (0, ""), out)
                rows = self.rows(out)
                mutants, wrong, survivors, _ = rows.pop("all")
                self.assertEqual((mutants, survivors), ("500", "0"))
                self.assertGreater(int(wrong), 350)
                self.assertEqual(len(rows), 20, rows.keys())
                self.assertTrue(all(int(row[1]) > 0 for row in rows.values()), out)

    def test_a_missing_verifier_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = os.path.join(folder, "nano-opt")
            with open(tool, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n")
            os.chmod(tool, stat.S_IRWXU)
            status, out, errors = self.call("--ops", 20, NANO_BIN=folder)
            self.assertEqual((status, errors), (1, ""), out)
            self.assertIn("\npasses and means nothing: ", out)
            status, out, errors = self.call("--kernels", 20, NANO_BIN=folder)
            self.assertEqual((status, errors), (1, ""), out)
            self.assertIn("\nwrong and passes, ", out)
            for what in ("--steps", "--states"):
                status, out, errors = self.call(what, 20, NANO_BIN=folder)
                self.assertEqual((status, errors), (1, ""), out)
                self.assertIn("\nwrong and passes, ", out)

    def test_a_missing_proof_is_seen(self):
        for proof in ("the ops' verifiers", "kernels", "liveness", "races"):
            with self.subTest(proof):
                status, out, errors = self.call(500, "--seed", 5000, "--without", proof)
                self.assertEqual((status, errors), (1, ""), out)
                self.assertRegex(out, r"\nnot reported: program 5\d+, .*: .*; .*@(first|update): ")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
