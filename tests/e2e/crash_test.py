#!/usr/bin/env python3
"""tools/crash: some kills, and every failure of the system calls that publish a checkpoint; what its
command line refuses; and that it sees what it looks for."""

import os
import stat
import subprocess

from harness import BIN, PATIENCE, ROOT, RunTest, main

# A nanorun that breaks its promises, each in another attack on a rank alone.
BROKEN = """#!/bin/sh
{binaries}/nanorun "$@"
status=$?
case "$NANO_FAIL,$RANK" in
rename:1:EIO,) echo more >&2 ;;
rename:2:EIO,) rm -r saves/step-000002 ;;
rename:3:EIO,) status=139 ;;
rename:1:ENOSPC,) status=0 ;;
rename:2:ENOSPC,) echo '{{"event":"step","step":2,"train_loss":1}}' >>log.jsonl ;;
rename:3:ENOSPC,) truncate -s 9 saves/step-000004/manifest.json ;;
esac
exit $status
"""
SEEN = (
    "rename:1:EIO in rank 0 of 1 rank, 2 threads: .*: rank 0 ended without one clear line",
    "rename:2:EIO in .*: lost step-000002",
    "rename:3:EIO in .*: rank 0 ended with status 139",
    "rename:1:ENOSPC in .*: ended well all the same",
    "rename:2:ENOSPC in .*: step 2 has two losses",
    "rename:3:ENOSPC in .*: lost a checkpoint: .*skipping checkpoint",
)


class Crash(RunTest):
    def call(self, *arguments, binaries=BIN):
        words = [os.path.join(ROOT, "tools", "crash"), *map(str, arguments)]
        environment = {**os.environ, "NANO_BIN": binaries, "TMPDIR": self.scratch.name}
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", timeout=560 * PATIENCE, env=environment
        )
        return done.returncode, done.stdout, done.stderr

    def test_refused(self):
        for arguments, says in (
            ((), "the following arguments are required: COUNT"),
            (("-1",), "'-1' is not a whole number of 0 or more"),
            (("ten",), "'ten' is not a whole number of 0 or more"),
            (("1", "--seed", "x"), "'x' is not a whole number of 0 or more"),
            (("1", "--points", "fsync,sync"), "there is no call 'sync'; there are write, pwrite"),
            (("1", "--fast"), "unrecognized arguments: --fast"),
        ):
            with self.subTest(arguments):
                status, out, errors = self.call(*arguments)
                self.assertEqual((status, out, errors.count("\n")), (2, "", 1), errors)
                self.assertIn(says, errors)
        status, out, errors = self.call(1, binaries=self.scratch.name)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("is not there; run tools/build first", errors)

    def test_no_plan(self):
        """What nanoc says when it cannot compile, in one line."""
        binaries = self.path("binaries")
        os.mkdir(binaries)
        for name in os.listdir(BIN):
            if name != "nanoc":
                os.symlink(os.path.join(BIN, name), os.path.join(binaries, name))
        compiler = os.path.join(binaries, "nanoc")
        for script, says in (
            (f'CXX=/no/compiler exec {BIN}/nanoc "$@"', "status 2 and no plan .*: nanoc: .*compiler"),
            ("kill -SEGV $$", "status -11 and no plan .*: it says nothing"),
        ):
            with self.subTest(script):
                with open(compiler, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(compiler, stat.S_IRWXU)
                status, out, errors = self.call(1, "--points", "none", binaries=binaries)
                self.assertEqual((status, out, errors.count("\n")), (1, "", 1), errors)
                self.assertRegex(errors, f"^crash: without any attack: nanoc ends with {says}")

    def test_nothing_is_lost(self):
        status, out, errors = self.call(
            5, "--points", "fsync,rename,malloc", "--most", 14, "--seed", 3
        )
        self.assertEqual((status, errors), (0, ""), out)
        rows = [line.strip("| ").split(" | ") for line in out.splitlines() if line[:3] == "| `"]
        times = {row[0]: int(row[1]) for row in rows}
        self.assertEqual(sum(n for name, n in times.items() if name.startswith("`kill")), 5)
        # Two files and the manifest of a rank alone, their folders, at two saves, with two errors.
        self.assertGreaterEqual(times["`fsync` fails, rank 0 of 1 rank, 2 threads"], 16)
        self.assertGreaterEqual(times["`fsync` fails, rank 1 of 2 ranks, processes"], 8)
        self.assertGreaterEqual(times["`rename` fails, rank 0 of 1 rank, 2 threads"], 6)
        # A sanitizer's own malloc cannot be let fail.
        allocations = 0 if "ASAN_OPTIONS" in os.environ else 28
        self.assertEqual(times["`malloc` fails, rank 0 of 1 rank, 2 threads"], allocations)
        self.assertEqual([row for row in rows if row[-1] != "0"], [])

    def test_it_sees(self):
        """What it finds where nanorun does not keep its promises."""
        broken = self.path("broken")
        os.mkdir(broken)
        for name in os.listdir(BIN):
            if name != "nanorun":
                os.symlink(os.path.join(BIN, name), os.path.join(broken, name))
        script = os.path.join(broken, "nanorun")
        with open(script, "w", encoding="utf-8") as file:
            file.write(BROKEN.format(binaries=BIN))
        os.chmod(script, stat.S_IRWXU)
        status, out, errors = self.call(0, "--points", "rename", binaries=broken)
        self.assertEqual(status, 1, out)
        for line in SEEN:
            self.assertRegex(out, line)
        self.assertRegex(errors, f"^crash: {len(SEEN)} attacks went wrong; their folders lie in ")


if __name__ == "__main__":
    main()
