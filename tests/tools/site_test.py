#!/usr/bin/env python3
"""Tests of the building site: tools/setup, tools/build, tools/quickstart, and tools/support's loss curve and
text.

usage: site_test.py CLASS
"""

import json
import os
import shutil
import sys
import unittest

from site_tool import ROOT, SUPPORT, SiteTest


class LossCurveTest(SiteTest):
    def draw(self, *lines):
        return self.call(
            sys.executable,
            os.path.join(SUPPORT, "loss_curve.py"),
            self.write("log.jsonl", *lines),
            "--width",
            "40",
            "--height",
            "9",
        )

    def test_a_falling_loss(self):
        lines = ['{"event":"run","world":1}']
        lines += [
            json.dumps(
                {"event": "step", "step": step, "train_loss": 5 - 4 * step / 100, "step_ms": 1}
            )
            for step in range(1, 101)
        ]
        lines += ['{"event":"val","step":100,"val_loss":1.25}', '{"event":"step","st']
        result = self.draw(*lines)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        picture = [
            line.split("|", 1)[1].ljust(40) for line in result.stdout.splitlines() if "|" in line
        ]
        self.assertEqual(len(picture), 9)
        heights = [
            min(row for row in range(9) if picture[row][column] in "·V") for column in range(40)
        ]
        self.assertEqual((heights[0], heights[-1], heights), (0, 8, sorted(heights)))
        self.assertIn("V", picture[8])
        self.assertTrue(
            result.stdout.endswith(
                "training 4.960 at step 1, 1.000 at step 100; validation 1.250 at step 100\n"
            ),
            result.stdout,
        )

    def test_one_step_and_losses_that_are_no_numbers(self):
        self.assertEqual(self.draw('{"event":"step","step":1,"train_loss":5.0}').returncode, 0)
        result = self.draw(
            '{"event":"step","step":1,"train_loss":5.0}',
            '{"event":"step","step":2,"train_loss":NaN}',
        )
        self.assertIn("5.000 at step 1, 5.000 at step 1", result.stdout)

    def test_no_steps(self):
        result = self.draw('{"event":"run"}')
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1))
        result = self.call(
            sys.executable, os.path.join(SUPPORT, "loss_curve.py"), self.path("none")
        )
        self.assertEqual(
            (result.returncode, result.stderr),
            (2, f"loss_curve: {self.path('none')}: No such file or directory\n"),
        )


class SetupTest(SiteTest):
    """tools/setup on a machine that is made of fakes: dpkg-query knows the packages listed in
    `installed`, and apt-get adds to them."""

    COMMANDS = (
        "bash",
        "env",
        "dirname",
        "readlink",
        "basename",
        "sed",
        "grep",
        "awk",
        "cat",
        "nproc",
        "mkdir",
        "cp",
        "mv",
        "rm",
        "find",
        "wc",
        "id",
        "touch",
        "sh",
    )

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        for name in self.COMMANDS:
            os.symlink(shutil.which(name), self.path("bin", name))
        self.fake("id", "echo 0")
        self.fake(
            "dpkg-query", 'grep -qx "${@: -1}" "$HERE/installed" && echo -n installed || exit 1'
        )
        self.fake(
            "apt-cache",
            'for name in "${@:2}"; do echo "$name:"',
            'echo "  Candidate: $(grep -qx "$name" "$HERE/unknown" 2>/dev/null && echo "(none)" || echo 1.0)"',
            "done",
        )
        self.fake(
            "apt-get",
            'echo "apt-get $*" >>"$HERE/calls"; [ ! -e "$HERE/offline" ] || exit 100',
            'case "$*" in *install*) for last; do case $last in -*|install|Dpkg*) ;; *) echo "$last" >>"$HERE/installed";; esac; done;; esac',
        )
        self.write("installed")

    def fake(self, name, *lines):
        if os.path.islink(self.path("bin", name)):
            os.unlink(self.path("bin", name))
        self.write(f"bin/{name}", "#!/bin/bash", f"HERE={self.folder}", *lines, executable=True)

    def run_tool(self, *command):
        return self.call(self.path("bin/bash"), *command, env={"PATH": self.path("bin")})

    def setup(self, *arguments):
        return self.run_tool(os.path.join(ROOT, "tools", "setup"), *arguments)

    def calls(self):
        if not os.path.exists(self.path("calls")):
            return []
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_installs_what_is_missing_after_saying_so_and_then_nothing(self):
        result = self.setup()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(
            result.stdout,
            "^setup: installing with apt-get: g\\+\\+ .*libmlir-22-dev.* libopenmpi-dev openmpi-bin "
            "dieharder chromium\nsetup: everything is present\n$",
        )
        self.assertEqual(len(self.calls()), 2)
        self.assertNotIn("--bpe", result.stdout)
        os.unlink(self.path("calls"))
        self.assertEqual(
            (self.setup().stdout, self.calls()), ("setup: everything is present\n", [])
        )
        self.assertEqual(self.setup("--check").returncode, 0)

    def test_what_training_needs_is_installed_alone(self):
        self.assertEqual(self.setup("--training").returncode, 0)
        with open(self.path("installed"), encoding="utf-8") as file:
            names = file.read().split()
        for name in ("g++", "clang-22", "lld-22", "libmlir-22-dev", "libdnnl-dev"):
            self.assertIn(name, names)
        for name in ("libgtest-dev", "clang-tidy-22", "libopenmpi-dev", "chromium"):
            self.assertNotIn(name, names)
        self.assertEqual(self.setup("--training", "--check").returncode, 0)
        check = self.setup("--check")
        self.assertEqual(
            (check.returncode, check.stdout),
            (1, "setup: missing: libgtest-dev clang-format-22 clang-tidy-22\n"),
        )

    def test_what_a_build_needs_is_installed_alone(self):
        self.assertEqual(self.setup("--building").returncode, 0)
        with open(self.path("installed"), encoding="utf-8") as file:
            names = file.read().split()
        for name in ("g++", "libgtest-dev", "clang-tidy-22", "libopenmpi-dev", "dieharder"):
            self.assertIn(name, names)
        self.assertNotIn("chromium", names)
        self.assertIn("setup: installing with apt-get: chromium\n", self.setup().stdout)

    def test_installs_only_what_is_missing(self):
        self.setup()
        with open(self.path("installed"), encoding="utf-8") as file:
            names = [name for name in file.read().splitlines() if name != "libdnnl-dev"]
        self.write("installed", *names)
        os.unlink(self.path("calls"))
        check = self.setup("--check")
        self.assertEqual(
            (check.returncode, check.stdout, self.calls()), (1, "setup: missing: libdnnl-dev\n", [])
        )
        self.assertIn("setup: installing with apt-get: libdnnl-dev\n", self.setup().stdout)
        self.assertTrue(self.calls()[-1].endswith(" install libdnnl-dev"), self.calls())

    def test_a_package_that_apt_does_not_know(self):
        self.write("unknown", "libmlir-22-dev")
        result = self.setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn(
            "apt has no package libmlir-22-dev: Debian 12 carries LLVM 22 in bookworm-security",
            result.stderr,
        )
        self.assertFalse(any("install" in call for call in self.calls()))

    def test_what_is_optional_may_be_missing(self):
        self.write("unknown", "libopenmpi-dev")
        result = self.setup()
        self.assertEqual(result.returncode, 0)
        self.assertIn(
            "going on without libopenmpi-dev openmpi-bin: ranks under mpirun are left out",
            result.stderr,
        )
        self.write("unknown", "chromium")
        self.write("installed")
        result = self.setup()
        self.assertEqual(result.returncode, 0)
        self.assertIn("going on without chromium: tests of nanoc explore's pages", result.stderr)
        self.write("unknown", "dieharder")
        self.write("installed")
        result = self.setup()
        self.assertEqual(result.returncode, 0)
        self.assertIn("going on without dieharder: the test of random numbers", result.stderr)
        self.assertEqual(self.setup("--check").returncode, 0)

    def test_no_network(self):
        self.write("offline")
        result = self.setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get could not install g++", result.stderr)

    def test_neither_root_nor_sudo(self):
        self.fake("id", "echo 1000")
        result = self.setup()
        self.assertEqual((result.returncode, self.calls()), (1, []))
        self.assertIn("installing needs root: run this as root, or install sudo", result.stderr)

    def test_sudo(self):
        self.fake("id", "echo 1000")
        self.fake("sudo", 'echo "sudo $1" >>"$HERE/calls"; exec "$@"')
        self.assertEqual(self.setup().returncode, 0)
        self.assertEqual(self.calls()[0], "sudo apt-get")

    def test_misuse(self):
        for tool in ("setup", "build", "check", "quickstart"):
            result = self.run_tool(os.path.join(ROOT, "tools", tool), "--frob")
            self.assertEqual(
                (result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1), tool
            )
            self.assertIn("--frob", result.stderr)
            help_text = self.run_tool(os.path.join(ROOT, "tools", tool), "--help")
            self.assertEqual(help_text.returncode, 0)
            self.assertTrue(help_text.stdout.startswith(f"tools/{tool}"), help_text.stdout)
        self.assertEqual(self.calls(), [])

    def text(self):
        return self.run_tool(os.path.join(SUPPORT, "text"), self.path("text"))

    def test_text_is_the_bible_by_chapters(self):
        chapter = [
            f"  {number} In the beginning of verse {number} stood many words, and the line\nwas "
            f"broken, 7 times."
            for number in range(1, 400)
        ]
        printed = "\n".join(
            part for number in range(1, 21) for part in ("", f"1 Kings {number}", "", *chapter)
        )
        self.write("printed", printed)
        self.fake("bible", 'cat "$HERE/printed"')
        result = self.text()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("installing with apt-get: bible-kjv\n", result.stdout)
        self.assertEqual(
            sorted(os.listdir(self.path("text"))), [f"{number:04d}.txt" for number in range(1, 21)]
        )
        with open(self.path("text/0002.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(
            lines[:3],
            [
                "1 Kings 2",
                "",
                "In the beginning of verse 1 stood many words, and the line was broken, 7 times.",
            ],
        )
        self.assertEqual(len(lines), 2 + 399)

    def test_text_without_the_package_is_what_the_machine_has(self):
        self.write("unknown", "bible-kjv")
        result = self.text()
        self.assertIn("taking the documentation that is on this machine", result.stdout)
        if result.returncode == 0:
            self.assertIn("common-licenses_GPL-3", os.listdir(self.path("text")))
        else:
            self.assertRegex(result.stderr, r"only \d+ bytes of text were found")
            self.assertFalse(os.path.exists(self.path("text")))


class BuildTest(SiteTest):
    """tools/build in a copy of tools/ with a cmake that writes down its arguments."""

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(ROOT, "tools"), self.path("tools"))
        for name in ("tools/setup", "bin/cmake"):
            line = f'echo "{os.path.basename(name)} $*" >>"{self.path("calls")}"'
            self.write(name, "#!/bin/bash", line, executable=True)

    def build(self, *arguments):
        if os.path.exists(self.path("calls")):
            os.unlink(self.path("calls"))
        path = self.path("bin") + os.pathsep + os.environ["PATH"]
        result = self.call(self.path("tools/build"), *arguments, cwd="/", env={"PATH": path})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_everything(self):
        self.assertEqual(
            self.build("--jobs", "3"),
            [
                "setup --building --check",
                "cmake --preset release -DNANO_TESTS=ON",
                "cmake --build --preset release --parallel 3 --target all",
            ],
        )

    def test_what_training_needs(self):
        self.assertEqual(
            self.build("--training", "--jobs", "3"),
            [
                "setup --training --check",
                "cmake --preset release -DNANO_TESTS=OFF",
                "cmake --build --preset release --parallel 3 --target nano-cpu-training",
            ],
        )

    def test_a_folder_that_has_the_tests_keeps_them(self):
        self.write("build/CMakeCache.txt", "NANO_TESTS:BOOL=ON")
        self.assertEqual(self.build("--training")[1], "cmake --preset release")
        self.assertIn("-DNANO_TESTS=OFF", self.build("--training", "--preset", "debug")[1])


class QuickstartTest(SiteTest):
    """tools/quickstart in a copy of tools/ whose build, text, nanoc and nanorun are stand-ins that
    leave what the real ones would."""

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(ROOT, "tools"), self.path("tools"))
        self.stand_in("tools/build", 'echo "build $*" >>"$HERE/calls"')
        self.stand_in(
            "tools/support/text",
            'mkdir -p "$1"; for n in 1 2 3 4; do echo "text $n" >"$1/$n.txt"; done; echo made >>"$HERE/calls"',
        )
        self.stand_in("build/bin/nanoc", 'echo "nanoc $*" >>"$HERE/calls"; touch "$4"')
        self.stand_in(
            "build/bin/nanorun",
            'echo "nanorun $*" >>"$HERE/calls"',
            "while (($#)); do case $1 in --save) save=$2;; --log) log=$2;;",
            "--prompt-tokens) prompt=$2;; esac; shift; done",
            'if [[ -v prompt ]]; then cp "$prompt" "$HERE/prompt"; echo "33 10"; exit; fi',
            'mkdir -p "$save/step-000002" "$save/step-000010"',
            'printf \'{"event":"step","step":%d,"train_loss":%d}\\n\' 1 5 2 4 >"$log"',
            'if [[ -e $HERE/interrupt ]]; then kill -INT "$PPID"; exit 1; fi',
        )

    def stand_in(self, name, *lines):
        self.write(name, "#!/bin/bash", f"HERE={self.folder}", *lines, executable=True)

    def quickstart(self, *arguments):
        return self.call(self.path("tools/quickstart"), *arguments, cwd="/")

    def calls(self):
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_every_stage(self):
        result = self.quickstart("--steps", "2")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for expected in (
            "text_train_*.bin",
            "5.000 at step 1, 4.000 at step 2",
            "\nAnd it came to pass!\n",
            f"checkpoint: {self.path('runs/quickstart/run-001/checkpoints/step-000010')}",
        ):
            self.assertIn(expected, result.stdout)
        with open(self.path("prompt"), encoding="ascii") as file:
            ids = [int(word) for word in file.read().split()]
        self.assertEqual(ids, [256, *b"And it came to pass"])
        built, made, compiled, trained, sampled = self.calls()
        self.assertEqual((built, made), ("build --training", "made"))
        self.assertRegex(
            compiled, r"^nanoc compile .*/models/gpt_tiny\.cpp -o .*/run-001/gpt_tiny\.plan"
        )
        self.assertRegex(
            trained,
            r"^nanorun .*\.plan --train .*/text_train_\*\.bin --val .*/text_val_\*\.bin .* --steps "
            r"2$",
        )
        self.assertRegex(
            sampled, r"--resume .*/checkpoints --sample 256 --prompt-tokens .* --temperature 0.8$"
        )

    def test_a_second_call_keeps_the_shards_and_trains_afresh(self):
        self.quickstart()
        self.assertIn("run-002/checkpoints/step-000010", self.quickstart().stdout)
        self.assertEqual(self.calls().count("made"), 1)

    def test_interrupted_training_is_shown_as_far_as_it_came(self):
        self.write("interrupt")
        result = self.quickstart()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("checkpoints/step-000010", result.stdout)

    def test_each_stage_says_where_it_stopped(self):
        for name, stage in (
            ("tools/build", "building"),
            ("tools/support/text", "finding text"),
            ("build/bin/nanoc", "compiling the model"),
            ("build/bin/nanorun", "training"),
        ):
            with self.subTest(stage=stage):
                shutil.copy(self.path(name), self.path("kept"))
                self.stand_in(name, "exit 2")
                result = self.quickstart()
                self.assertEqual(
                    (result.returncode, result.stderr.count("\n")), (1, 1), result.stderr
                )
                self.assertTrue(
                    result.stderr.startswith(f"quickstart: stopped at: {stage}. "), result.stderr
                )
                shutil.copy(self.path("kept"), self.path(name))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]])
