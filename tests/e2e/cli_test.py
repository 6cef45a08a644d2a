#!/usr/bin/env python3
"""The commands as users meet them, with real plans and the real device: damaged plans, signals,
checkpoints of other models, samples. What a message says in each case of bad input is tested beside
the code that says it; here it must arrive as one line on stderr with exit status 2."""

import json
import os
import re
import random
import shutil
import signal
import struct
import subprocess
import time

from harness import BIN, LIMIT, ROOT, TINY, RunTest, main, read_bytes, read_log, run_command, train_losses


class CommandLine(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plan = cls.compile("gpt_tiny", TINY, "m.plan", "--world", "1,2")

    def refused(self, tool, *arguments, says, status=2):
        """A command that must end with this status and one line that holds `says`; the model's line
        may stand below."""
        done = run_command(tool, *arguments)
        self.assertEqual(done.returncode, status, (arguments, done.stderr))
        lines = [line for line in done.stderr.splitlines() if not re.match(r" +\d* \| ", line)]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(tool + ": "), done.stderr)
        self.assertIn(says, done.stderr)

    def changed(self, content):
        path = self.path("changed.plan")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def test_damaged_plans(self):
        whole, source = read_bytes(self.plan), random.Random(4)
        sections = [struct.unpack_from("<QQ", whole, 32 + 32 * i + 8) for i in range(3)]
        places = [0, 8, 12, 16, 24, 40, 56]
        places += [at + source.randrange(size) for at, size in sections for _ in range(3)]
        places += [len(whole) - 1]
        train = ("--train", self.path("t_*.bin"), "--steps", "1")
        for place in places:
            content = bytearray(whole)
            content[place] ^= 1 << source.randrange(8)
            self.refused("nanorun", self.changed(bytes(content)), *train, says="changed.plan: ")
        for size in (0, 1, 31, 100, len(whole) // 2, len(whole) - 1):
            self.refused("nanorun", self.changed(whole[:size]), *train, says="changed.plan: ")
        self.refused("nanorun", self.changed(whole + b"x"), *train, says="changed.plan: ")
        self.refused("nanorun", self.changed(whole[::-1]), "--describe", says="not a plan")
        self.refused("nanorun", self.scratch.name, *train, says="not a regular file")
        version = struct.unpack_from("<I", whole, 8)[0]
        for other, says in ((version + 1, "the plan has format version"), (version - 1, "the old format version")):
            changed = whole[:8] + struct.pack("<I", other) + whole[12:]
            self.refused("nanorun", self.changed(changed), *train, says=f"{says} {other}")

    def test_nothing_is_left_of_a_refused_compilation(self):
        folder = self.path("nothing")
        os.mkdir(folder)
        plan = os.path.join(folder, "m.plan")
        for options, says in (
            (("--world", "3"), "cannot share"),
            (("-D", "num_layers=5"), "num_layers"),
            (("-D", "model_dim=100000000000"), "models/gpt124m.cpp:"),
            (("-D", "seq_len=1152"), "multiple"),
            (("-D", "width=5"), "width"),
        ):
            self.refused("nanoc", "compile", "models/gpt_tiny.cpp", "-o", plan, *options, says=says)
            self.assertEqual(os.listdir(folder), [])
        self.refused("nanoc", "compile", "models/gpt_tiny.cpp", "-o", folder, says="regular file")

    def test_one_binary_and_no_device(self):
        """nanorun alone says which library it misses beside itself."""
        folder = self.path("alone")
        os.mkdir(folder)
        shutil.copy(os.path.join(BIN, "nanorun"), folder)
        command = [os.path.join(folder, "nanorun"), self.plan, "--sample", "1"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=LIMIT)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("libnano-device-cpu.so", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_nanoc_without_its_library_of_commands(self):
        """nanoc alone compiles, and says who builds the commands that it lacks: before it compiles,
        where --explore wants one."""
        folder = self.path("without")
        os.mkdir(folder)
        shutil.copy(os.path.join(BIN, "nanoc"), folder)
        plan = os.path.join(folder, "t.plan")
        compiling = ("compile", "models/gpt_tiny.cpp", "-o", plan, "--target", "cpu")
        for words in (
            ("explore", self.plan),
            ("diff", self.plan, self.plan),
            ("explain", "93", self.plan),
            ("bisect", "models/gpt2.cpp"),
            (*compiling, "--explore", os.path.join(folder, "t.html")),
        ):
            command = [os.path.join(folder, "nanoc"), *words]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=LIMIT)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr, r"^nanoc: .*libnano-commands\.so, which is not in .*; tools/build builds it\n$")
        self.assertFalse(os.path.exists(plan))
        done = subprocess.run(
            [os.path.join(folder, "nanoc"), "params", "models/gpt2.cpp"], cwd=ROOT, capture_output=True, timeout=LIMIT
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sigterm_finishes_the_step_and_saves(self):
        saves, log = self.path("saves"), self.path("interrupted.jsonl")
        command = [
            *(os.path.join(BIN, "nanorun"), self.plan, "--train", self.path("t_*.bin")),
            *("--gpus", "2", "--threads", "1", "--steps", "100000", "--save", saves, "--log", log),
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
        )
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit and process.poll() is None:
            if os.path.exists(log) and read_bytes(log).count(b"\n") > 3:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 1, errors)
        says = r"^nanorun: interrupted by SIGTERM after step \d+ of 100000; saved \S+\n$"
        self.assertRegex(errors, says)
        done = len(train_losses(read_log(log)))
        self.assertEqual(os.listdir(saves), [f"step-{done:06}"])

        # Nothing was lost: going on from there is the run that nobody interrupted, to the bit.
        steps = ("--gpus", 2, "--steps", done + 2)
        rest, parameters = self.train(self.plan, "rest", *steps, "--resume", saves)
        whole, wanted = self.train(self.plan, "whole", *steps)
        self.assertEqual(train_losses(rest), train_losses(whole)[done:])
        self.assertEqual(read_bytes(parameters), read_bytes(wanted))

    def test_sample(self):
        saves = self.path("sampled")
        self.train(self.plan, "sampled", "--steps", 12, "--save", saves)

        def sample(*options):
            words = (self.plan, "--resume", saves, "--sample", 40, "--threads", 1, *options)
            found = [int(word) for word in self.ran("nanorun", *words).split()]
            self.assertEqual(len(found), 40)
            # Columns of the padded head are no tokens.
            self.assertTrue(all(0 <= token < 257 for token in found), found)
            return found

        self.assertEqual(sample("--seed", 1), sample("--seed", 1))
        self.assertNotEqual(sample("--seed", 1), sample("--seed", 2))
        likeliest = ("--temperature", 0)
        self.assertEqual(sample("--seed", 1, *likeliest), sample("--seed", 2, *likeliest))
        # Several: the first is the one alone, and each its own.
        words = ("--resume", saves, "--sample", 40, "--threads", 1, "--seed", 1, "--samples", 3)
        lines = self.ran("nanorun", self.plan, *words).splitlines()
        self.assertEqual([int(word) for word in lines[0].split()], sample("--seed", 1))
        self.assertEqual(([len(line.split()) for line in lines], len(set(lines))), ([40] * 3, 3))
        self.refused("nanorun", self.plan, "--samples", 3, says="--samples: only together with")
        # Twelve steps on tokens below 64 are enough to know that there are no others.
        self.assertGreater(sum(token < 64 for token in sample("--temperature", 0.5)), 30)

        prompt = self.path("prompt")
        with open(prompt, "w", encoding="utf-8") as file:
            file.write("256 3 257")
        words = ("--sample", 3, "--prompt-tokens", prompt)
        self.refused("nanorun", self.plan, *words, says="'257' (number 3) is not a token")

    def test_checkpoint_of_another_model(self):
        saves = self.path("other")
        self.train(self.plan, "other", "--steps", 1, "--save", saves)
        plan = self.compile("gpt_tiny", {**TINY, "model_dim": 64}, "wider.plan")
        words = ("--train", self.path("t_*.bin"), "--resume", saves)
        self.refused("nanorun", plan, *words, says="model_dim was 32, is 64")

    def test_times(self):
        path = self.path("times.json")
        log, _ = self.train(self.plan, "timed", "--steps", 3, "--times", path)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual((found["model"], found["steps"]), ("gpt_tiny", 3))
        self.assertEqual(found["plan_hash"], log[0]["plan_hash"])
        commands = found["commands"]
        # Four micro-batches a step on one rank: one run of `first`, three of `next`, one update.
        runs = {"first": 3, "next": 9, "update": 3}
        self.assertEqual({each["program"] for each in commands}, set(runs))
        self.assertTrue(all(each["runs"] == runs[each["program"]] for each in commands))
        self.assertLessEqual({"launch", "matmul"}, {each["kind"] for each in commands})
        self.assertTrue(all("kernel" in each for each in commands if each["kind"] == "launch"))
        whole = sum(entry["step_ms"] for entry in log if "step_ms" in entry)
        spent = sum(each["ms"] for each in commands)
        self.assertLessEqual(spent, whole)
        self.assertGreater(spent, 0.3 * whole)
        # The place is looked at before the first step.
        words = (self.plan, "--train", self.path("t_*.bin"), "--steps", 1)
        self.refused("nanorun", *words, "--times", self.path("no/x"), says="--times")

    def test_loss_that_is_not_finite(self):
        initial = self.path("nan.safetensors")
        self.ran("nanorun", self.plan, "--steps", 0, "--dump-params", initial)
        content = read_bytes(initial)
        start = 8 + struct.unpack("<Q", content[:8])[0]
        spoilt = struct.pack("<64f", *[float("nan")] * 64)
        with open(initial, "wb") as file:
            file.write(content[:start] + spoilt + content[start + len(spoilt) :])
        words = ("--train", self.path("t_*.bin"), "--init", initial, "--save", self.path("nan"))
        self.refused("nanorun", self.plan, *words, says="holds NaN at [0")
        self.assertEqual(os.listdir(self.path("nan")), [])
        words = (*words, "--allow-non-finite")
        self.refused("nanorun", self.plan, *words, says="at step 1", status=1)
        # The state before that step is as it was given.
        self.assertEqual(os.listdir(self.path("nan")), ["step-000000"])


if __name__ == "__main__":
    main()
