#!/usr/bin/env python3
"""Checkpoints of several ranks: a run goes on at another number of ranks as if nothing had
happened, with the same number to the bit, and a process killed at any moment costs at most the
step that it was in."""

import os
import random
import signal
import subprocess
import time

from harness import BIN, LIMIT, ROOT, TINY, RunTest, main, read_bytes, read_log, train_losses

SIZES = {**TINY, "dtype": "f32", "global_batch": 1024, "dist": "zero2"}
STEPS = 8
STOP = 5


class Checkpoints(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plan = cls.compile("gpt_tiny", SIZES, "m.plan", "--world", "1,2,4,8")

    def test_other_numbers_of_ranks(self):
        whole, wanted = self.train(self.plan, "whole", "--steps", STEPS, "--gpus", 8)
        saves = self.path("saves")
        stopped = ("--steps", STOP, "--gpus", 8, "--save", saves)
        _, at_stop = self.train(self.plan, "stopped", *stopped)
        files = sorted(os.listdir(os.path.join(saves, f"step-{STOP:06}")))
        self.assertEqual(len(files), 17, files)  # two of each rank, and the manifest
        for ranks in (1, 2, 4, 8):
            with self.subTest(ranks=ranks):
                # Nothing to train: what was saved, to the bit.
                options = ("--resume", saves, "--gpus", ranks)
                _, found = self.train(self.plan, f"loaded{ranks}", "--steps", STOP, *options)
                self.assertEqual(read_bytes(found), read_bytes(at_stop))
                log, found = self.train(self.plan, f"more{ranks}", "--steps", STEPS, *options)
                losses = train_losses(whole)[STOP:]
                if ranks == 8:
                    self.assertEqual(train_losses(log), losses)
                    self.assertEqual(read_bytes(found), read_bytes(wanted))
                else:
                    self.assert_near(train_losses(log), losses, 1e-4, f"{ranks} ranks, step")
                    self.assert_parameters_near(found, wanted, 5e-3)

    def test_from_one_rank_to_many(self):
        whole, wanted = self.train(self.plan, "one", "--steps", STEPS)
        saves = self.path("one-saves")
        self.train(self.plan, "one-stopped", "--steps", STOP, "--save", saves)
        options = ("--resume", saves, "--gpus", 4, "--steps", STEPS)
        log, found = self.train(self.plan, "four", *options)
        self.assert_near(train_losses(log), train_losses(whole)[STOP:], 1e-4, "four ranks, step")
        self.assert_parameters_near(found, wanted, 5e-3)

    def test_gradients_kept_over_steps(self):
        """With adam_every=2 a checkpoint holds no gradients: it is made after an even step."""
        sizes = {**SIZES, "adam_every": 2}
        plan = self.compile("gpt_tiny", sizes, "every.plan", "--world", "1,4")
        whole, wanted = self.train(plan, "every", "--steps", STEPS, "--gpus", 4)
        saves = self.path("every-saves")
        options = ("--steps", STEPS, "--gpus", 4, "--save", saves, "--save-every", 3)
        self.train(plan, "every-saved", *options)
        self.assertEqual(sorted(os.listdir(saves)), ["step-000004", "step-000006", "step-000008"])
        middle = os.path.join(saves, "step-000004")
        options = ("--steps", STEPS, "--resume", middle)
        log, found = self.train(plan, "every-resumed", "--gpus", 4, *options)
        self.assertEqual(train_losses(log), train_losses(whole)[4:])
        self.assertEqual(read_bytes(found), read_bytes(wanted))
        log, found = self.train(plan, "every-one", *options)
        self.assert_near(train_losses(log), train_losses(whole)[4:], 1e-4, "one rank, step")
        self.assert_parameters_near(found, wanted, 5e-3)

    def test_killed_while_it_saves(self):
        """Twelve kills, each some milliseconds after the first save of a run begins or ends."""
        _, wanted = self.train(self.plan, "unbroken", "--steps", 30, "--gpus", 4)
        saves, chance = self.path("killed"), random.Random(1)
        words = [os.path.join(BIN, "nanorun"), self.plan, "--train", self.path("t_*.bin")]
        words += ["--gpus", "4", "--threads", "1", "--save", saves, "--save-every", "1"]
        cut = 0
        for turn in range(12):
            shown = self.published if turn % 2 else self.names
            known, seen = self.names(saves), shown(saves)
            resume = ["--resume", saves] if self.published(saves) else []
            process = subprocess.Popen(
                [*words, *resume, "--steps", "25"],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            deadline = time.monotonic() + LIMIT
            while process.poll() is None and shown(saves) <= seen:
                self.assertLess(time.monotonic(), deadline, "nothing is saved")
                time.sleep(0.001)
            time.sleep(0.02 * chance.random())
            before = self.published(saves)
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
            if process.returncode == 0:
                break
            self.assertEqual((process.returncode, errors), (-signal.SIGKILL, b""))
            self.assertLessEqual(before, self.published(saves))
            cut += any(name.startswith(".step-") for name in self.names(saves) - known)
        self.assertTrue(self.published(saves), "no run got as far as a checkpoint")
        self.assertGreater(cut, 0, "no kill hit a save: the test showed nothing")
        options = ("--resume", saves, "--save", saves, "--gpus", 4, "--steps", 30)
        log, found = self.train(self.plan, "survivor", *options)
        self.assertEqual(log[-1]["reason"], "done")
        self.assertEqual(read_bytes(found), read_bytes(wanted))
        self.assertFalse([name for name in os.listdir(saves) if name.startswith(".")])

    def names(self, saves):
        """What is there beside the lock, which a killed run leaves."""
        return set(os.listdir(saves)) - {".lock"} if os.path.isdir(saves) else set()

    def published(self, saves):
        """The checkpoints that stand under their names."""
        return {name for name in self.names(saves) if not name.startswith(".")}


if __name__ == "__main__":
    main()
