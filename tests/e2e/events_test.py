#!/usr/bin/env python3
"""Events that copy and reset optimizers' states (Inputs/events.cpp): what they leave, to the bit, in
the checkpoint behind them; runs on 1, 2 and 4 ranks, with ZeRO, an optimizer that takes a step on
every second step, stops before, at and after the event, and the emulator."""

from harness import RunTest, main, train_losses
from states_test import checkpoint

PAGE = "../tests/e2e/Inputs/events"
V, D, SPLIT, STEPS = 257, 32, 3, 7


def turned(values):
    """[D, V] as [V, D]."""
    return [values[d * V + v] for v in range(V) for d in range(D)]


class Events(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def run_steps(self, plan, name, *options, every=1):
        folder = self.path(name)
        log, _ = self.train(plan, name, "--save", folder, "--save-every", every, *options)
        return log, folder

    def check(self, folder):
        """The checkpoint of the event, and those beside it."""
        before, there, after = (checkpoint(folder, SPLIT + i) for i in (0, 1, 2))
        for name, reset in (("adam_m", True), ("adam_v", False)):
            self.assertFalse(any(before[f"embed.{name}"]), name)
            self.assertTrue(any(there[f"head.{name}"]), name)
            self.assertEqual(there[f"embed.{name}"], turned(there[f"head.{name}"]), name)
            self.assertNotEqual(after[f"embed.{name}"], turned(after[f"head.{name}"]), name)
            self.assertTrue(any(before[f"gain.{name}"]), name)
            self.assertEqual(any(there[f"gain.{name}"]), not reset, name)
        self.assertEqual(there["embed"], turned(there["head"]))
        self.assertNotEqual(after["embed"], turned(after["head"]))

    def test_ranks_zero_and_resume(self):
        ends = {}
        for dist in ("allreduce", "zero2"):
            plan = self.compile(PAGE, {"dist": dist}, f"{dist}.plan", "--world", "1,2,4")
            for world in (1, 2, 4):
                name = f"{dist}{world}"
                options = ("--steps", STEPS, "--gpus", world)
                log, folder = self.run_steps(plan, name, *options)
                self.check(folder)
                ends[name] = train_losses(log), checkpoint(folder, STEPS)
                stops = (SPLIT, SPLIT + 1, SPLIT + 2) if world == 2 else (SPLIT + 1,)
                for stop in stops if dist == "zero2" else ():
                    part = self.path(f"{name}-{stop}")
                    self.train(plan, f"{name}-{stop}", "--steps", stop, "--gpus", world, "--save", part)
                    rest, _ = self.train(
                        plan, f"{name}-{stop}-rest", *options, "--save", part, "--resume", part
                    )
                    self.assertEqual(train_losses(rest), train_losses(log)[stop:], stop)
                    self.assertEqual(checkpoint(part, STEPS), checkpoint(folder, STEPS), stop)
        for name, (losses, states) in ends.items():
            self.assert_near(losses, ends["allreduce1"][0], 1e-3, name)
            if name.endswith("1"):
                self.assertEqual(states, ends["allreduce1"][1], name)

    def test_a_checkpoint_goes_on_with_other_ranks(self):
        plan = self.compile(PAGE, {"dist": "zero2"}, "worlds.plan", "--world", "1,2")
        _, one = self.run_steps(plan, "one", "--steps", SPLIT + 1)
        whole, _ = self.run_steps(plan, "whole", "--steps", STEPS)
        rest, _ = self.train(plan, "two", "--steps", STEPS, "--gpus", 2, "--resume", one)
        self.assert_near(train_losses(rest), train_losses(whole)[SPLIT + 1 :], 1e-3, "2 ranks")

    def test_a_step_on_every_second_step(self):
        plan = self.compile(PAGE, {"every": 2}, "every.plan", "--world", "1,2")
        for world in (1, 2):
            options = ("--steps", 6, "--gpus", world)
            _, folder = self.run_steps(plan, f"every{world}", *options, every=2)
            there = checkpoint(folder, SPLIT + 1)
            self.assertEqual(there["embed.adam_v"], turned(there["head.adam_v"]))
            self.assertTrue(any(there["embed.adam_v"]))

    def test_it_matters(self):
        """Without the copy the run is another one from the second step behind the event on."""
        plans = [self.compile(PAGE, {"event": how}, f"{how}.plan") for how in ("copy", "none")]
        with_copy, without = (train_losses(self.train(p, p[-9:-5], "--steps", STEPS)[0]) for p in plans)
        self.assertEqual(with_copy[: SPLIT + 2], without[: SPLIT + 2])
        self.assertNotEqual(with_copy[SPLIT + 2 :], without[SPLIT + 2 :])

    def test_emulator(self):
        cpu = self.compile(PAGE, {}, "cpu.plan")
        gpu = self.compile(PAGE, {}, "gpu.plan", "--target", "cuda")
        log, _ = self.run_steps(cpu, "cpu", "--steps", SPLIT + 2)
        found, folder = self.run_steps(gpu, "gpu", "--steps", SPLIT + 2, "--device", "emulator")
        self.assert_near(train_losses(found), train_losses(log), 1e-3, "emulator")
        self.check(folder)


if __name__ == "__main__":
    main()
