#!/usr/bin/env python3
"""Random numbers of a model: dropout drops the same elements on 1, 2 and 4 ranks, after a resume and
in the backward pass, others with another seed, step or sequence, and none in validation."""

import math
import os

from harness import (
    RunTest,
    distance,
    main,
    read_bytes,
    read_safetensors,
    run_command,
    train_losses,
    val_losses,
    write_shard,
)

TOKENS, WIDTH = 64, 48
# Every token's row, of which an element counts with probability 3/4.
MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 64, C = 48;
  const auto group = adam("all", {.lr = 0.0005, .beta1 = 0.5});
  const Tensor rows = param("rows", {T, C}, f32, constant(1), group);
  auto loss = [&](Tensor tokens, Tensor) {
    const Tensor x = dropout(rows[tokens], 0.25);
    return reshape(sum(BODY, -1), {T});
  };
  auto squares = [&](Tensor tokens, Tensor) {
    const Tensor x = dropout(rows[tokens], 0.25);
    return reshape(sum(VALIDATED, -1), {T});
  };
  training({.vocabSize = T, .eosToken = 0, .globalBatch = 4 * T, .numIterations = 8});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, squares);
}
"""


class RandomNumbers(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        count = 4 * TOKENS
        write_shard(os.path.join(cls.scratch.name, "t_0.bin"), [*range(TOKENS)] * 40)
        write_shard(os.path.join(cls.scratch.name, "v.bin"), [*range(TOKENS)] * (count // TOKENS))

    def written(self, name, body, validated="x * x"):
        source = self.path(name + ".cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MODEL.replace("BODY", body).replace("VALIDATED", validated))
        return source

    def planned(self, name, body):
        plan = self.path(name + ".plan")
        options = ("-o", plan, "--target", "cpu", "--world", "1,2,4")
        done = run_command("nanoc", "compile", self.written(name, body), *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return plan

    def test_masks(self):
        """Where the loss is the sum of what is left, the gradient of the rows is the mean of the four
        sequences' masks over 1 − p: its mean is 1, and its variance that of a mean of independent
        masks; the loss, computed in the forward pass, is the gradient's sum."""
        plan = self.planned("sum", "x")
        log, _ = self.train(plan, "one", "--steps", 1, "--save", self.path("one"))
        state = os.path.join(self.path("one"), "step-000001", "optimizer.safetensors")
        mask = [value / 0.5 * TOKENS for value in read_safetensors(state)["rows.adam_m"]]
        count = TOKENS * WIDTH
        # Sequence by sequence 0 or 4/3; a mean of four.
        for value in mask:
            self.assertLess(abs(value * 3 - round(value * 3)), 1e-4)
        mean = sum(mask) / count
        self.assertLess(abs(mean - 1), 4.5 * math.sqrt(1 / 3 / 4 / count))
        variance = sum((value - 1) ** 2 for value in mask) / count
        self.assertLess(abs(variance * 12 - 1), 0.12)
        self.assertLess(abs(train_losses(log)[0] - mean * WIDTH), 1e-4)

    def test_ranks_and_resumption(self):
        plan = self.planned("square", "x * x")
        options = ("--val", self.path("v.bin"), "--val-every", 8)
        log, wanted = self.train(plan, "world1", "--steps", 8, *options)
        one = train_losses(log)
        # Another mask each step: were it the same, the loss would fall with every step.
        self.assertTrue(any(b > a for a, b in zip(one, one[1:])), one)
        # Nothing is dropped in validation.
        rows = read_safetensors(wanted)["rows"]
        exact = sum(value * value for value in rows) / TOKENS
        self.assertLess(abs(val_losses(log)[-1] - exact), 1e-4 * exact)
        for world in (2, 4):
            other, found = self.train(plan, f"world{world}", "--steps", 8, "--gpus", world)
            self.assert_near(train_losses(other), one, 1e-6, f"{world} ranks, step")
            self.assert_parameters_near(found, wanted, 1e-6)
        half, _ = self.train(plan, "half", "--steps", 4, "--save", self.path("saved"))
        rest, again = self.train(plan, "rest", "--steps", 8, "--resume", self.path("saved"))
        self.assertEqual(train_losses(half) + train_losses(rest), one)
        self.assertEqual(read_bytes(again), read_bytes(wanted))
        seeded, _ = self.train(plan, "seeded", "--steps", 1, "--seed", 7 + 2**40)
        self.assertGreater(abs(train_losses(seeded)[0] - one[0]), 1e-3)
        lower, _ = self.train(plan, "lower", "--steps", 1, "--seed", 7)
        self.assertGreater(abs(train_losses(seeded)[0] - train_losses(lower)[0]), 1e-4)

    def test_distributions(self):
        """Means and deviations of what a model draws, in the loss of a step of 4·64·48 numbers."""
        count = 4 * TOKENS * WIDTH
        for body, mean, deviation in (
            ("x * 0.0 + randomUniform({T, C}, -1, 3)", 1, 4 / math.sqrt(12)),
            ("x * 0.0 + randomNormal({T, C}, 2, 3)", 2, 3),
            ("x * 0.0 + square(randomNormal({T, C}))", 1, math.sqrt(2)),
            ("x * 0.0 + randomBernoulli({T, C}, 0.125)", 0.125, math.sqrt(0.125 * 0.875)),
        ):
            with self.subTest(body):
                plan = self.planned(f"drawn{mean}-{deviation:.3f}", body)
                log, _ = self.train(plan, "drawn", "--steps", 4)
                for loss in train_losses(log):
                    found = loss / WIDTH
                    self.assertLess(abs(found - mean), 4.5 * deviation / math.sqrt(count))
                self.assertEqual(len(set(train_losses(log))), 4)

    def test_errors(self):
        """Each with the model's line."""
        for body, validated, error in (
            ("dropout(rows[tokens], 1.5)", "x", "9: dropout: a probability of 1.5"),
            ("x * randomBernoulli({T, C}, -1)", "x", "9: randomBernoulli: a probability of -1"),
            ("x * randomUniform({T, C}, 2, 1)", "x", "9: randomUniform: from 2 to 1"),
            (
                "x",
                "x * randomNormal({T, C})",
                "13: random numbers: are drawn in the training program alone",
            ),
        ):
            source = self.written("error", body, validated)
            done = run_command("nanoc", "compile", source, "-o", self.path("error.plan"))
            self.assertEqual(done.returncode, 2)
            self.assertIn("error.cpp:" + error, done.stderr)


if __name__ == "__main__":
    main()
