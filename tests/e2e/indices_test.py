#!/usr/bin/env python3
"""Indices outside of their tables, of a model that nanoc could not prove right: one line that names
model line, op, index, bound and step, exit status 1, and nothing saved behind it. The same on the
CPU, on the emulator, on all ranks, in training, validation and sampling."""

import os
import unittest.mock

from harness import RunTest, main, overrides, read_bytes, read_log, run_command, train_losses, write_shard

MODEL = "tests/compiler/Inputs/indices.cpp"
TABLES = "tests/compiler/Inputs/tables.cpp"
T, SEQUENCES = 64, 4  # of a step's batch
EOS = 256


def line_of(text, model=MODEL):
    """The line of the model that holds the text, as messages name it."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", model), encoding="utf-8") as file:
        return f"{model}:{1 + next(i for i, line in enumerate(file) if text in line)}"


LOOKUP, LOSS, POSITION = line_of("byToken["), line_of("crossEntropy("), line_of("byPosition[")


def as_i32(number):
    """What a number is after sums and products that wrap at 32 bits."""
    return (number + 2**31) % 2**32 - 2**31


class Indices(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Tokens below 200; in the second file one that begins a document, in the last sequence of
        # the second step.
        cls.tokens = [(7 * i + i // 11) % 200 for i in range(3000)]
        cls.once = list(cls.tokens)
        cls.once[SEQUENCES * T + 3 * T + 17] = EOS
        for name, content in (("plain", cls.tokens), ("once", cls.once)):
            write_shard(os.path.join(cls.scratch.name, name + ".bin"), content)

    @classmethod
    def plan(cls, name, sizes, *options, model=MODEL):
        path = os.path.join(cls.scratch.name, name + ".plan")
        if "--target" not in options:
            options = ("--target", "cpu", *options)
        done = run_command("nanoc", "compile", model, "-o", path, *overrides(sizes), *options)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return path

    def stopped(self, plan, says, *options, shard="plain", saved=()):
        """A run that ends with this line, and the checkpoints that it leaves."""
        saves = self.path("saves" + str(len(os.listdir(self.scratch.name))))
        words = (plan, "--train", self.path(shard + ".bin"), "--save", saves, "--save-every", 1, "--threads", 1)
        log = saves + ".jsonl"
        done = run_command("nanorun", *words, "--log", log, *options)
        self.assertEqual((done.returncode, done.stderr), (1, f"nanorun: {says.format(saves=saves)}\n"))
        self.assertEqual(sorted(os.listdir(saves)), [f"step-{step:06}" for step in saved])
        return read_log(log)

    def first_step(self, index, line, kind, bound):
        return (
            f"step 1: {line}: {kind}: index {index} is outside of [0, {bound}) (sequence 0, rank 0), "
            "stopped before the update; saved the state before it, {saves}/step-000000"
        )

    def test_lookups(self):
        """Near the table, far from it, beyond 32 bits and before it."""
        first = self.tokens[:T]
        for factor, shift, rows in ((1, 300, 400), (1000000, 0, 400), (9999999, 0, 1000), (1, -100, 257)):
            plan = self.plan("lookup", {"factor": factor, "shift": shift, "rows": rows})
            # The largest as an unsigned number.
            index = as_i32(max((token * factor + shift) % 2**32 for token in first))
            self.assertFalse(0 <= index < rows)
            log = self.stopped(plan, self.first_step(index, LOOKUP, "gather", rows), saved=[0])
            self.assertEqual(train_losses(log), [])

    def test_tables_of_each_row(self):
        """A number beyond its own table is not one of the next table's: what is too large comes behind
        all of them."""
        line = line_of("gather(", TABLES)
        for shift, index in ((1, 4 * T + 4), (-1, -1)):
            plan = self.plan("tables", {"shift": shift}, model=TABLES)
            self.stopped(plan, self.first_step(index, line, "gather", 4 * T), saved=[0])

    def test_targets(self):
        for shift in (120, -100):
            plan = self.plan("targets", {"target_shift": shift})
            index = as_i32(max((token + shift) % 2**32 for token in self.tokens[1 : T + 1]))
            self.assertFalse(0 <= index < 264)
            self.stopped(plan, self.first_step(index, LOSS, "cross_entropy", 264), saved=[0])

    def test_positions(self):
        """Learned positions that grow by 16 a step, from a table for two sequences."""
        plan = self.plan("positions", {"position": "dated", "positions": 128})
        says = (
            f"step 6: {POSITION}: gather: index 143 is outside of [0, 128) (sequence 0, rank 0), stopped "
            "before the update; the state before it is in {saves}/step-000005"
        )
        log = self.stopped(plan, says, saved=range(1, 6))
        self.assertEqual(len(train_losses(log)), 5)

    def test_one_token_on_another_rank(self):
        """The one bad token of the second step is read by the last rank."""
        for options in ({}, {"update": "joined"}):
            plan = self.plan("ranks", {"rows": 256, **options}, "--world", "1,2,4")
            for world in (1, 2, 4):
                when = "after" if options and world > 1 else "before"
                says = (
                    f"step 2: {LOOKUP}: gather: index 256 is outside of [0, 256) (sequence 3, rank {3 % world}), "
                    f"stopped {when} the update; the state before it is in {{saves}}/step-000001"
                )
                log = self.stopped(plan, says, "--gpus", world, shard="once", saved=[1])
                self.assertEqual(len(train_losses(log)), 1)

    def test_validation(self):
        plan = self.plan("validation", {"rows": 256})
        words = ("--val", self.path("once.bin"), "--val-every", 2, "--steps", 4)
        sequence = (SEQUENCES * T + 3 * T + 17) // T
        says = (
            f"validation after step 2: {LOOKUP}: gather: index 256 is outside of [0, 256) "
            f"(sequence {sequence}, rank 0)"
        )
        # What the steps have made is right, and was saved before the validation.
        self.stopped(plan, says, *words, saved=[1, 2])

    def test_sampling(self):
        plan = self.plan("sampling", {"rows": 256})
        done = run_command("nanorun", plan, "--sample", 3, "--threads", 1)
        says = f"nanorun: --sample: token 1, after step 10: {LOOKUP}: gather: index 256 is outside of [0, 256)\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", says))
        prompt = self.path("prompt")
        with open(prompt, "w", encoding="utf-8") as file:
            file.write("1 2 255")
        words = ("--sample", 1, "--temperature", 0, "--prompt-tokens", prompt, "--threads", 1)
        self.assertEqual(len(self.ran("nanorun", plan, *words).split()), 1)

    def test_checks_change_nothing(self):
        """A run whose tokens all have rows is the same with checks as with a proof, to the bit."""
        sizes = {"rows": 256, "eos_token": 0}
        found = []
        for vocab in (257, 256):
            plan = self.plan(f"vocab{vocab}", {**sizes, "vocab_size": vocab})
            parameters = self.path(f"vocab{vocab}.safetensors")
            log = self.path(f"vocab{vocab}.jsonl")
            words = ("--train", self.path("plain.bin"), "--val", self.path("plain.bin"), "--threads", 1)
            self.ran("nanorun", plan, *words, "--steps", 4, "--log", log, "--dump-params", parameters)
            entries = [
                {key: entry.get(key) for key in ("step", "train_loss", "val_loss")} for entry in read_log(log)[1:]
            ]
            found.append((entries, read_bytes(parameters)))
        self.assertEqual(*found)

    def test_emulator(self):
        """Kernels for a GPU: the same lines, and no access beside a table."""
        for sizes, says in (
            ({"factor": 1000000, "rows": 400}, self.first_step(max(self.tokens[:T]) * 1000000, LOOKUP, "gather", 400)),
            ({"target_shift": 120}, self.first_step(max(self.tokens[1 : T + 1]) + 120, LOSS, "cross_entropy", 264)),
        ):
            plan = self.plan("cuda", sizes, "--target", "cuda")
            with unittest.mock.patch.dict(os.environ, {"NANO_EMULATOR": "checked", "NANO_EMULATOR_SEED": "1"}):
                self.stopped(plan, says, "--device", "emulator", saved=[0])

    def test_emulated_ranks(self):
        plan = self.plan("cudas", {"rows": 256}, "--target", "cuda", "--world", 2)
        says = (
            f"step 2: {LOOKUP}: gather: index 256 is outside of [0, 256) (sequence 3, rank 1), stopped before the "
            "update; the state before it is in {saves}/step-000001"
        )
        self.stopped(plan, says, "--device", "emulator", "--gpus", 2, shard="once", saved=[1])


if __name__ == "__main__":
    main()
