#!/usr/bin/env python3
"""Runs of several stages (tests/compiler/Inputs/staged.cpp: four sequence lengths, windows, attention
scales, rotary tables and losses): the same as one run a stage joined by checkpoints, whatever stops
and resumes, on any number of ranks, on the CPU and the emulator."""

import os
import unittest.mock

from harness import RunTest, main, overrides, read_bytes, read_safetensors, run_command, tokens, train_losses, val_losses, write_shard
from kills import kill_at

STEPS = 10
ENDS = (3, 6, 9, 10)
UNIT = 32
BATCHES = [8 * UNIT * factor for factor in (1, 2, 3, 3)]
MODEL = "tests/compiler/Inputs/staged.cpp"
# Sums in another order differ by some 1e-7 of their terms, and updates do not depend on how large a
# gradient is.
LOSS, PARAMETERS = 1e-5, 2e-3


class Stages(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, count, seed in (("t_0", 2500, 1), ("t_1", 12000, 2), ("v", 600, 3)):
            write_shard(os.path.join(cls.scratch.name, name + ".bin"), tokens(count, seed))
        cls.staged = cls.build("staged.plan", adam_every=1)

    @classmethod
    def build(cls, plan, *options, **sizes):
        path = os.path.join(cls.scratch.name, plan)
        if "--target" not in options:
            options = ("--target", "cpu", *options)
        sizes = {"unit": UNIT, **sizes}
        done = run_command("nanoc", "compile", MODEL, "-o", path, *overrides(sizes), *options)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return path

    def programs(self, plan):
        lines = self.ran("nanorun", plan, "--describe").splitlines()
        return [line.split()[1].rstrip(":") for line in lines if line.startswith("program ")]

    def trained(self, plan, name, *options):
        log, parameters = self.train(plan, name, "--seed", 3, *options)
        return log, read_bytes(parameters)

    def test_one_run_a_stage(self):
        """A stage's part of the run is a run of it alone, from the checkpoint of the one before."""
        validation = ("--val", self.path("v.bin"), "--val-tokens", 256, "--val-every", 5)
        wanted, whole = self.trained(self.staged, "whole", *validation)
        steps = [entry for entry in wanted if entry["event"] == "step"]
        self.assertEqual([entry["stage"] for entry in steps], [f"s{k}" for k in (0, 0, 0, 1, 1, 1, 2, 2, 2, 3)])
        self.assertEqual([entry["tokens"] for entry in steps], [BATCHES[int(entry["stage"][1])] for entry in steps])
        self.assertEqual(steps[-1]["total_tokens"], sum(entry["tokens"] for entry in steps))
        losses, found, resume = [], b"", ()
        for k, end in enumerate(ENDS):
            alone = self.build(f"only{k}.plan", adam_every=1, only=k)
            save = self.path(f"joined{k}")
            log, found = self.trained(alone, f"alone{k}", "--steps", end, "--save", save, *resume)
            losses += train_losses(log)
            resume = ("--resume", save)
        self.assertEqual(losses, train_losses(wanted))
        self.assertEqual(found, whole)
        # After step 5 the next one is of stage 1, whose constants the validation has.
        alone, save = self.path("only1.plan"), self.path("at5")
        self.trained(self.staged, "to5", "--steps", 5, "--save", save)
        log, _ = self.trained(alone, "val5", "--steps", 5, "--resume", save, *validation)
        self.assertEqual(val_losses(log), val_losses(wanted)[:1])

    def test_reports_by_stage(self):
        """Each step reports what a run of its stage alone does, and changes nothing; gradients of two
        steps, of which a stage may have one, are reported with the second."""

        def reports(log):
            return [(entry["step"], entry["reports"]) for entry in log if entry["event"] == "reports"]

        for every in (1, 2):
            asked = ("--reports", "norms", "--world", "1,2")
            plan = self.build(f"reports{every}.plan", *asked, adam_every=every)
            log, parameters = self.trained(plan, f"reports{every}")
            found = reports(log)
            self.assertEqual([step for step, _ in found], list(range(1, STEPS + 1)))
            names = [f"{what}/matrices" for what in ("grad_norm", "param_norm", "update_ratio")]
            rest = [f"{what}/rest" for what in ("grad_norm", "param_norm", "update_ratio")]
            for step, numbers in found:
                self.assertEqual(sorted(numbers), sorted(names + (rest if step % every == 0 else [])), step)
            mute = self.build(f"mute{every}.plan", adam_every=every)
            self.assertEqual(self.trained(mute, f"mute{every}")[1], parameters)
            for (step, one), (_, two) in zip(found, reports(self.trained(plan, f"reports{every}.2", "--gpus", 2)[0])):
                for name, number in one.items():
                    self.assertAlmostEqual(two[name] / number, 1, delta=PARAMETERS, msg=(step, name))
            if every == 2:
                continue
            resume = ()
            for k, end in enumerate(ENDS):
                alone = self.build(f"reports.only{k}.plan", "--reports", "norms", adam_every=1, only=k)
                log, _ = self.train(alone, f"reports.alone{k}", "--seed", 3, "--steps", end, "--save", self.path(f"r{k}"), *resume)
                resume = ("--resume", self.path(f"r{k}"))
                begin = ENDS[k - 1] if k else 0
                self.assertEqual(reports(log), found[begin:end])

    def test_documents_by_stage(self):
        """Documents are cut at a length that follows the stage."""
        sizes = {"adam_every": 1, "documents": "cut"}
        save, resume = self.path("cut"), ("--resume", self.path("cut"))
        wanted, whole = self.trained(self.build("cut.plan", **sizes), "cut")
        first = self.build("cut0.plan", only=0, **sizes)
        log, _ = self.trained(first, "cut0", "--steps", ENDS[0], "--save", save)
        later = self.build("cut1.plan", only=1, **sizes)
        more, _ = self.trained(later, "cut1", "--steps", ENDS[1], *resume)
        self.assertEqual(train_losses(log) + train_losses(more), train_losses(wanted)[: ENDS[1]])
        contiguous, _ = self.trained(self.staged, "contiguous")
        self.assertNotEqual(train_losses(wanted), train_losses(contiguous))

    def test_resume_in_every_stage(self):
        _, whole = self.trained(self.staged, "uncut")
        resume = ()
        for stop in (2, 3, 5, 8, 10):
            save = self.path(f"cut{stop}")
            _, found = self.trained(self.staged, f"cut{stop}", "--steps", stop, "--save", save, *resume)
            resume = ("--resume", save)
        self.assertEqual(found, whole)

    def test_killed_in_every_stage(self):
        """Killed twice in a row in each stage, and gone on with."""
        _, whole = self.trained(self.staged, "unkilled")
        options = ("--train", self.path("t_*.bin"), "--threads", 1, "--seed", 3)
        resume = ()
        for step in (1, 2, 4, 5, 7, 8, 9):
            saves = kill_at(step, self.path(f"killed{step}"), self.staged, *options, *resume)
            resume = ("--resume", saves)
        log, found = self.trained(self.staged, "survivor", *resume)
        self.assertEqual([e["stage"] for e in log if e["event"] == "step"], ["s3"])
        self.assertEqual(found, whole)

    def test_gradients_over_a_change_of_stage(self):
        """Adam's steps over two steps, one of them the last of a stage: equal stages are one run."""
        sizes = {"sizes": "equal", "adam_every": 2}
        one = self.build("one.plan", only=0, **sizes)
        four = self.build("four.plan", **sizes)
        self.assertEqual(self.programs(four), self.programs(one))
        for ranks in (1, 2):
            if ranks == 2:
                one = self.build("one.plan", "--world", 2, only=0, **sizes)
                four = self.build("four.plan", "--world", 2, **sizes)
            wanted, parameters = self.trained(one, "one", "--gpus", ranks)
            log, found = self.trained(four, "four", "--gpus", ranks)
            self.assertEqual(train_losses(log), train_losses(wanted))
            self.assertEqual(found, parameters)

    def test_ranks_may_change_between_stops(self):
        for dist in ("allreduce", "zero2"):
            plan = self.build("ranks.plan", "--world", "1,2,4", dist=dist)
            wanted, _ = self.trained(plan, "one_rank")
            for ranks in (2, 4):
                log, _ = self.trained(plan, f"ranks{ranks}", "--gpus", ranks)
                self.assert_near(train_losses(log), train_losses(wanted), LOSS, f"{ranks} ranks")
            losses, resume = [], ()
            for stop, ranks in ((4, 2), (8, 4), (10, 1)):
                save = self.path(f"{dist}{stop}")
                options = ("--steps", stop, "--gpus", ranks, "--save", save, *resume)
                log, _ = self.trained(plan, f"{dist}{stop}", *options)
                losses += train_losses(log)
                resume = ("--resume", save)
            self.assert_near(losses, train_losses(wanted), LOSS, dist)
            self.assert_parameters_near(
                self.path(f"{dist}10.safetensors"), self.path("one_rank.safetensors"), PARAMETERS
            )

    def test_sampling_has_the_stage_of_its_checkpoint(self):
        """Sampling takes the constants of the stage that the checkpoint's next step is of."""
        for stop, k in ((4, 1), (10, 3)):
            save = self.path(f"sampled{stop}")
            self.trained(self.staged, "sampled", "--steps", stop, "--save", save)
            alone = self.build(f"only{k}.plan", adam_every=1, only=k)
            sample = ("--sample", 20, "--seed", 5, "--resume", save)
            found = run_command("nanorun", self.staged, *sample).stdout.split()[-20:]
            wanted = run_command("nanorun", alone, *sample).stdout.split()[-20:]
            self.assertEqual(len(found), 20)
            self.assertEqual(found, wanted)

    def test_events_in_every_stage(self):
        """Events run after the steps of all stages; the one of step 3 sees what four have counted."""
        for when, hits in ((3, 4), (1, 2), (0, 1)):
            plan = self.path("events.plan")
            model = "tests/compiler/Inputs/staged-events.cpp"
            self.ran("nanoc", "compile", model, "--target", "cpu", "-o", plan, "-D", f"when={when}")
            self.assertEqual(sum(name.startswith("event") for name in self.programs(plan)), 2)
            save = self.path(f"events{when}")
            self.trained(plan, "events", "--save", save)
            states = read_safetensors(os.path.join(save, "step-000006", "optimizer.safetensors"))
            self.assertEqual((states["steps"][0], states["hits"][0]), (6, hits))

    def test_emulator(self):
        sizes = {"unit": 16, "num_iterations": 4, "adam_every": 1}
        wanted, parameters = self.train(self.build("cpu.plan", **sizes), "cpu", "--seed", 3)
        plan = self.build("cuda.plan", "--target", "cuda", **sizes)
        with unittest.mock.patch.dict(os.environ, {"NANO_EMULATOR": "checked"}):
            log, found = self.train(plan, "cuda", "--seed", 3, "--device", "emulator", threads=2)
        self.assert_near(train_losses(log), train_losses(wanted), LOSS, "step")
        self.assert_parameters_near(found, parameters, PARAMETERS)


if __name__ == "__main__":
    main()
