#!/usr/bin/env python3
"""Whole f32 runs against nano-reference, which computes the same training in double precision with
plain loops and shares nothing with the compiler or the runtime.

Runs start from parameters that nano-reference draws, and one from the model's own. There
projections and head are zero, so that at the second step the gradients of the scalars (lambdas,
skip_weights) are of the order of the norms' ε, some 1e-8 of the terms that cancel in them, and
Adam's updates follow their sign alone. f32 knows it where enough tokens' roundings cancel: 4096 for
six layers. Twelve layers of 512 tokens leave it to chance, in any order of operations.

Parameters are compared by the norm of a tensor and not element by element: an embedding row whose
gradient is nearly zero moves by lr · sign(noise) in either run."""

import json
import unittest

from data_test import Reader
from harness import EOS, GPT2, GPT124M, LLAMA, PATIENCE, RunTest, main, overrides
from harness import read_safetensors, run_command, tokens, train_losses, val_losses

STEPS = 20
VAL_TOKENS = 1024
LOSS_TOLERANCE = 1e-4
PARAMETER_TOLERANCE = 5e-3

OWN = {**GPT124M, "num_layers": 6, "global_batch": 4096}
OWN_LOSS_TOLERANCE = 2e-6  # measured: 7e-7; a sign that is wrong moves the third loss by 1e-3

ADAMW = {
    **GPT2,
    "learning_rate": 3e-3,
    "final_lr_frac": 0.1,
    # Clipping is active at every step; with an ε of about the clipped gradients' size AdamW is not
    # invariant to their scale, so that a wrong norm shows.
    "grad_clip": 0.25,
    "adam_eps": 1e-3,
}


class Reference(RunTest):
    def compare(self, model, sizes):
        self.make_shards()
        initial, wanted = self.path("initial.safetensors"), self.path("wanted.safetensors")
        words = overrides(sizes)
        self.ran("nano-reference", model, *words, "--random-init", initial, "--seed", 3)
        lines = self.ran(
            *("nano-reference", model, *words, "--init", initial, "--train", self.path("t_*.bin")),
            *("--steps", STEPS, "--val", self.path("v.bin"), "--val-tokens", VAL_TOKENS),
            *("--dump-params", wanted),
        )
        reference = [json.loads(line) for line in lines.splitlines()]

        plan = self.compile(model, sizes, "m.plan")
        log, found = self.train(
            *(plan, "found", "--init", initial, "--steps", STEPS),
            *("--val", self.path("v.bin"), "--val-tokens", VAL_TOKENS),
        )
        self.assertEqual(len(train_losses(reference)), STEPS)
        self.assert_near(train_losses(log), train_losses(reference), LOSS_TOLERANCE, "step")
        self.assert_near(val_losses(log), val_losses(reference), LOSS_TOLERANCE, "validation")
        self.assert_parameters_near(found, wanted, PARAMETER_TOLERANCE)
        # The comparison means something only where training moved the model.
        losses = train_losses(reference)
        self.assertLess(losses[-1], 0.95 * losses[0])
        return reference

    def test_gpt124m(self):
        self.compare("gpt124m", GPT124M)

    def test_speedrun26(self):
        """Adam's ε as large as its denominators tells where it stands; the schedule cools down within
        the run; sequences begin at documents, which a third reader finds too."""
        sizes = {**GPT124M, "num_layers": 8, "num_iterations": 24, "adam_eps": 0.1}
        self.compare("speedrun26", sizes)
        contents = [{"tokens": tokens(count, seed)} for count, seed in ((6000, 1), (9000, 2))]
        reader = Reader(contents, "aligned", eos=EOS)
        plan = self.compile("speedrun26", sizes, "26.plan", "--world", "1,2")
        shards, seen = set(), {}
        for step in range(1, STEPS + 1):
            for row in reader.next(2, 256, 0):
                self.assertEqual(reader.token(row[0]), EOS)
            shards.add(reader.shard)
            seen[step] = [reader.shard, reader.position, reader.epoch]
        self.assertEqual(shards, {0, 1})
        losses = []
        for world in (1, 2):
            saves = self.path(f"saves26-{world}")
            log, _ = self.train(plan, f"26-{world}", "--gpus", world, "--steps", STEPS, "--save",
                                saves, "--save-every", 5)  # fmt: skip
            for step in range(5, STEPS + 1, 5):
                with open(f"{saves}/step-{step:06}/manifest.json", encoding="utf-8") as file:
                    data = json.load(file)["data"]
                place = [int(data["file"][2]), data["position"], data["epoch"]]
                self.assertEqual(place, seen[step], f"{world} ranks, step {step}")
            losses.append(train_losses(log))
        self.assert_near(losses[1], losses[0], 1e-5, "2 ranks, step")

    def test_llama(self):
        self.compare("llama", LLAMA)

    def test_llama_tied(self):
        """One head of keys for all, longer rows by Llama 3.1's frequencies, a tied head."""
        changes = {"tied": "yes", "num_kv_heads": 1, "rope_scaling": "llama3", "rope_theta": 500.0}
        self.compare("llama", {**LLAMA, **changes, "rope_original_block": 64})

    def test_own_parameters(self):
        """Losses of 20 steps from the model's own start, and which way its scalars go first."""
        self.make_shards()
        plan = self.compile("gpt124m", OWN, "own.plan")
        _, initial = self.train(plan, "own-start", "--steps", 0)
        reference = {}
        for steps in (2, STEPS):
            wanted = self.path(f"own-wanted{steps}.safetensors")
            given = ("--init", initial, "--train", self.path("t_*.bin"), "--steps", steps)
            done = run_command(
                *("nano-reference", "gpt124m", *overrides(OWN), *given, "--dump-params", wanted),
                limit=250 * PATIENCE,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            log, found = self.train(plan, f"own{steps}", "--steps", steps)
            losses = train_losses([json.loads(line) for line in done.stdout.splitlines()])
            self.assert_near(train_losses(log), losses, OWN_LOSS_TOLERANCE, "step")
            self.assertLess(losses[-1], losses[0])
            reference[steps] = read_safetensors(found), read_safetensors(wanted)
        found, wanted = reference[2]
        start = read_safetensors(initial)
        scalars = [name for name in start if name == "skip_weights" or name.endswith(".lambdas")]
        moved = 0
        for name in scalars:
            for a, b, before in zip(found[name], wanted[name], start[name]):
                self.assertEqual(a > before, b > before, name)
                self.assertEqual(a < before, b < before, name)
                moved += b != before
        # Those of the residual stream and the skips; the attention's have no gradient yet.
        self.assertEqual(moved, 2 * OWN["num_layers"] + OWN["num_layers"] // 2)

    def test_gpt2(self):
        self.compare("gpt2", ADAMW)

    def test_gpt2_clips(self):
        """Without clipping the same run goes elsewhere: the run above does clip."""
        self.make_shards()
        initial = self.path("clip.safetensors")
        self.ran("nano-reference", "gpt2", *overrides(ADAMW), "--random-init", initial, "--seed", 3)
        losses = []
        for clip in (ADAMW["grad_clip"], 0):
            plan = self.compile("gpt2", {**ADAMW, "grad_clip": clip}, f"clip{clip}.plan")
            log, _ = self.train(plan, f"clip{clip}", "--init", initial, "--steps", 5)
            losses.append(train_losses(log)[-1])
        self.assertGreater(abs(losses[0] - losses[1]), 1e-3 * losses[1])


if __name__ == "__main__":
    main()
