#!/usr/bin/env python3
"""Parameters and states with a life of their own (Inputs/states.cpp), in whole runs: what they
start with, what programs set them to, against the equations of the page computed here in double
precision from the tokens and from the parameters of each checkpoint; on 1, 2 and 4 ranks, stopped
and resumed around an event, sampled from, and on the emulator."""

import glob
import os
import re
import struct

from harness import (
    RunTest,
    distance,
    main,
    overrides,
    read_safetensors,
    run_command,
    tokens,
    train_losses,
    val_losses,
)

# Numbers of 16 bits beside a parameter.
HALVES = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const auto group = adam("all", {.lr = 0.1});
  const Tensor w = param("w", {4}, f32, normal(0, 1), group);
  const Tensor low = state("low", {4}, u16, constant(1));
  const Tensor count = state("count", {}, u16, constant(65533));
  const Tensor final = state("final", {}, u16, unset());
  const Tensor one = table("one", {}, u16, [](int64_t) { return 1.0; });
  auto loss = [&](Tensor tokens, Tensor) {
    return slice(reshape(w * reshape(cast(tokens, f32), {32, 4}), {128}), 0, 0, 128);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 128, .numIterations = 3});
  train(128, Loss::mean, [&](Tensor tokens, Tensor targets) {
    set(low, cast(bitcast(w, i32), u16));
    set(count, cast(cast(count, i32) + cast(one, i32), u16));
    set(final, 65535);
    return loss(tokens, targets);
  });
  validate(128, Loss::mean, loss);
}
"""
PAGE = "../tests/e2e/Inputs/states"
V, D, T, BATCH, EVENT = 257, 32, 128, 512, 5
# States are f32, sums over 128 rows of numbers near 0.05: a few roundings of 6e-8.
NEAR = 1e-6


def checkpoint(folder, step):
    """{name: values} of all parameters and states of a checkpoint, whoever wrote which part."""
    found, parts = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, f"step-{step:06}", "*.safetensors"))):
        for name, values in read_safetensors(path).items():
            stretch = re.fullmatch(r"(.*)\[(\d+):(\d+)\]", name)
            if stretch:
                parts.setdefault(stretch[1], []).append((int(stretch[2]), list(values)))
            else:
                found[name] = list(values)
    for name, pieces in parts.items():
        found[name] = [value for _, values in sorted(pieces) for value in values]
    return found


class States(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.data = tokens(6000, 1)

    def run_steps(self, plan, name, steps, *options):
        """Trains so many steps with a checkpoint after each; returns (log, folder)."""
        folder = self.path(name)
        log, _ = self.train(plan, name, "--steps", steps, "--save", folder, "--save-every", 1, *options)
        return log, folder

    def expected(self, before, step, world):
        """What the states that training sets are after step `step` (0-based), from the checkpoint
        before it: one rank's micro-batches one after the other, then what ranks combine."""
        ranks = []
        for rank in range(world):
            average, largest = before["average"], before["largest"][0]
            own = before["own"][2 * rank : 2 * rank + 2]
            for sequence in range(rank, BATCH // T, world):
                at = step * BATCH + sequence * T
                row = self.data[at : at + T]
                means = [sum(before["embed"][t * D + d] for t in row) / T for d in range(D)]
                average = [0.9 * a + 0.1 * m for a, m in zip(average, means)]
                largest = max(largest, max(row))
                own = [0.5 * o + t for o, t in zip(own, row[5:7])]
            ranks.append((average, largest, own))
        average = [sum(values) / world for values in zip(*(rank[0] for rank in ranks))]
        return {
            "seen": [before["seen"][0] + BATCH // T // world],
            "average": average,
            "largest": [max(rank[1] for rank in ranks)],
            "own": [value for rank in ranks for value in rank[2]],
        }

    def follow(self, folder, steps, world):
        """Compares every checkpoint's states with the one before it."""
        for step in range(1, steps):
            before, after = checkpoint(folder, step), checkpoint(folder, step + 1)
            what = f"{world} ranks, step {step}"
            for name, values in self.expected(before, step, world).items():
                self.assertLessEqual(distance(after[name], values), NEAR, f"{what}: {name}")
            if step != EVENT:
                slow = [0.9 * s + 0.1 * e for s, e in zip(before["slow"], after["embed"])]
                self.assertLessEqual(distance(after["slow"], slow), NEAR, f"{what}: slow")
            self.assertEqual(after["changed"], [0.0 if step < EVENT else 24.0 / world], what)
            self.assertEqual(after["embed"] == after["slow"], step == EVENT, what)
            for name in ("narrow", "signs"):
                self.assertEqual(before[name], after[name], f"{what}: {name} is frozen")

    def test_initial_values(self):
        plan = self.compile(PAGE, {}, "initial.plan", "--world", "1,2")
        # The table is there once for both.
        self.assertIn(f", data {4 * V * D} bytes", self.ran("nanorun", plan, "--describe"))
        _, path = self.train(plan, "initial", "--steps", 0)
        found = read_safetensors(path)
        self.assertEqual(sorted(found), ["bank", "embed", "head", "narrow", "signs"])
        head, embed = found["head"], found["embed"]
        self.assertTrue(any(head))
        self.assertEqual(list(embed), [head[d * V + v] for v in range(V) for d in range(D)])
        self.assertLessEqual(distance(found["narrow"], embed), 2**-9)
        self.assertEqual(set(found["signs"]), {-0.125, 0.125})
        # 1024 fair coins: 512 ± 16; six deviations.
        self.assertLess(abs(list(found["signs"]).count(0.125) - 512), 96)
        bank = found["bank"]
        self.assertTrue(all(0 < abs(x) <= 0.1 for x in bank[: 3 * D * D]))
        self.assertTrue(all(x == 0 for x in bank[3 * D * D :]))

    def test_copies_of_given_parameters(self):
        """With --init a copy is made of what the file gives, not of what it would have been."""
        plan = self.compile(PAGE, {}, "given.plan")
        _, given = self.train(plan, "before", "--steps", 3)
        _, folder = self.run_steps(plan, "given", 1, "--init", given)
        before, after = read_safetensors(given), checkpoint(folder, 1)
        slow = [0.9 * s + 0.1 * e for s, e in zip(before["embed"], after["embed"])]
        self.assertLessEqual(distance(after["slow"], slow), NEAR)
        self.assertEqual(list(before["narrow"]), after["narrow"])

    def test_equations(self):
        plan = self.compile(PAGE, {}, "all.plan", "--world", "1,2,4")
        for world in (1, 2, 4):
            options = ("--val", self.path("v.bin"), "--val-tokens", 1280, "--gpus", world)
            log, folder = self.run_steps(plan, f"ranks{world}", 8, *options)
            self.assertLess(train_losses(log)[-1], train_losses(log)[0])
            self.assertLess(val_losses(log)[-1], train_losses(log)[0])
            self.follow(folder, 8, world)

    def test_ranks(self):
        """Where the loss reads no state that depends on the number of ranks, they train the same."""
        plan = self.compile(PAGE, {"average": "off"}, "off.plan", "--world", "1,2,4")
        one, wanted = self.train(plan, "one", "--steps", 8)
        for world in (2, 4):
            log, found = self.train(plan, f"world{world}", "--steps", 8, "--gpus", world)
            self.assert_near(train_losses(log), train_losses(one), 1e-4, f"{world} ranks, step")
            self.assert_parameters_near(found, wanted, 5e-3)

    def test_what_is_read_before_it_is_set(self):
        """A value that was read is the one of then, forward and backward, however early the state
        is set: not a bit depends on the place of the set, and with one micro-batch and an average
        of zero the first step is that of a page without it."""
        sizes = {"global_batch": T}
        plans = {
            name: self.compile(PAGE, {**sizes, **more}, f"{name}.plan")
            for name, more in {
                "late": {},
                "early": {"set": "early"},
                "without": {"average": "off"},
            }.items()
        }
        for steps in (1, 6):
            runs = {
                name: self.run_steps(plan, f"{name}{steps}", steps) for name, plan in plans.items()
            }
            ends = {name: checkpoint(folder, steps) for name, (_, folder) in runs.items()}
            self.assertEqual(ends["early"], ends["late"], steps)
            for name in ("head", "embed", "bank"):
                self.assertEqual(ends["late"][name] == ends["without"][name], steps == 1, name)

    def test_resume(self):
        """Stopped before, at and after the event, and gone on from there: the same to the bit."""
        plan = self.compile(PAGE, {"dist": "zero2"}, "resume.plan", "--world", "1,2")
        for world in (1, 2):
            name = f"whole{world}"
            log, folder = self.run_steps(plan, name, 8, "--gpus", world)
            for stop in (EVENT, EVENT + 1, EVENT + 2):
                _, part = self.run_steps(plan, f"{name}-{stop}", stop, "--gpus", world)
                options = ("--steps", 8, "--gpus", world, "--save", part, "--resume", part)
                rest, _ = self.train(plan, f"{name}-{stop}-rest", *options)
                self.assertEqual(train_losses(rest), train_losses(log)[stop:], stop)
                self.assertEqual(checkpoint(part, 8), checkpoint(folder, 8), stop)

    def test_other_number_of_ranks(self):
        """What each rank has for itself is of so many ranks."""
        plan = self.compile(PAGE, {}, "other.plan", "--world", "1,2")
        _, folder = self.run_steps(plan, "two", 2, "--gpus", 2)
        done = run_command(
            "nanorun", plan, "--train", self.path("t_*.bin"), "--steps", 4, "--resume", folder
        )
        self.assertEqual(done.returncode, 2)
        self.assertRegex(
            done.stderr,
            r"'own' is kept by rank, of 2 ranks in the checkpoint and of 1 here: go on with 2 ranks",
        )

    def test_sample(self):
        """The sampling program reads a state and a table."""
        plan = self.compile(PAGE, {}, "sample.plan")
        _, folder = self.run_steps(plan, "sampled", 8)
        options = ("--sample", 12, "--temperature", 0)
        first = self.ran("nanorun", plan, *options)
        last = self.ran("nanorun", plan, *options, "--resume", folder)
        self.assertNotEqual(first, last)

    def test_emulator(self):
        """The GPU's kernels, run on the CPU, keep the same states."""
        sizes = {"global_batch": 2 * T, "event_step": 1}
        cpu = self.compile(PAGE, sizes, "cpu.plan")
        gpu = self.compile(PAGE, sizes, "gpu.plan", "--target", "cuda", "--world", "1,2")
        _, wanted = self.run_steps(cpu, "cpu", 3)
        _, found = self.run_steps(gpu, "gpu", 3, "--device", "emulator")
        for step in (1, 2, 3):
            ours, theirs = checkpoint(found, step), checkpoint(wanted, step)
            self.assertEqual(sorted(ours), sorted(theirs))
            for name in theirs:
                self.assertLessEqual(distance(ours[name], theirs[name]), 1e-4, f"{step}: {name}")
        self.run_steps(gpu, "gpu2", 2, "--device", "emulator", "--gpus", 2)

    def test_16_bits(self):
        """A u16 state keeps the lower bits of a parameter, a table's numbers start another one;
        checkpoints hold both, and a resumed run goes on from them."""
        source = self.path("halves.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(HALVES)
        plan = self.path("halves.plan")
        self.ran("nanoc", "compile", source, "-o", plan, "--target", "cpu")
        _, folder = self.run_steps(plan, "halves", 2)
        _, again = self.run_steps(plan, "halves-again", 3, "--resume", folder)
        for folder, steps in ((folder, 2), (again, 3)):
            states = checkpoint(folder, steps)
            before = checkpoint(folder if steps == 2 else self.path("halves"), steps - 1)["w"]
            bits = struct.unpack("<4I", struct.pack("<4f", *before))
            self.assertEqual(states["low"], [word & 0xFFFF for word in bits])
            self.assertTrue(any(states["low"]))
            # 65533 + steps, as numbers of 16 bits.
            self.assertEqual(states["count"], [(65533 + steps) % 65536])
            self.assertEqual(states["final"], [65535])


if __name__ == "__main__":
    main()
