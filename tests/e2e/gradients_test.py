#!/usr/bin/env python3
"""Gradients that are added up in their parameters' type, bf16 (`Gradients::stored`), against the same
gradients in double precision and against those in f32: over micro-batches, over the two steps of an
optimizer, over ranks that sum, cut up, or share matrices; how they round, and what they do to a run.

Equations: momentum buffers of optimizers whose rate is 0 hold sums of gradients of parameters that
stay, of a model that is differentiated by hand here. Tolerances, of a tensor's norm: 1e-5 for f32; at
most 16 additions in bf16 round by up to 2^-9 of the sum each, independently of each other, which adds
up to 2^-9·√16; that it is above 2e-4 says that bf16 is what is computed with."""

import math
import operator
import os
import unittest.mock

from harness import RunTest, distance, main, read_bytes, read_safetensors, run_command, tokens, train_losses
from states_test import checkpoint

V, D, T, SEQUENCES = 264, 128, 8, 8
MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Dist dist = distHyper();
  const int gradients = hyper("gradients", {"wide", "stored"}, "their type");
  const int update = hyper("update", {"apart", "joined"}, "the updates' program");
  const auto rate = hyper("rate", 0.0, "learning rate");
  const double momentum = rate > 0 ? 0.5 : 1; // 1: sums of gradients
  const auto tables = sgd("tables", {.lr = rate, .momentum = momentum});
  const auto heads = sgd("heads", {.lr = rate, .momentum = momentum, .every = 2});
  const auto matrices = muon("matrices", {.lr = 0.05 * rate, .momentum = 0.5});
  const Tensor table = param("table", {264, 128}, bf16, normal(0, 1), tables);
  const Tensor mix = param("mix", {128, 128}, bf16, normal(0, 0.1), matrices);
  const Tensor wide = param("wide", {128, 128}, f32, normal(0, 0.1), matrices);
  const Tensor head = param("head", {264, 128}, bf16, normal(0, 0.1), heads);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor x = cast(table, f32)[tokens];
    return crossEntropy(linear(linear(linear(x, mix), wide), head), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 64, .numIterations = 40,
            .gradClip = 1e6, .dist = dist,
            .gradients = gradients == 1 ? Gradients::stored : Gradients::wide,
            .joinUpdate = update == 1});
  train(8, Loss::mean, loss);
  validate(8, Loss::mean, loss);
}
"""
# Each sequence's gradient is 1; bf16 stays at 256 when 1 is added to it.
ONES = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Tensor w = param("w", {128}, bf16, constant(0), sgd("all", {.lr = 1.0}));
  auto loss = [&](Tensor tokens, Tensor) {
    return cast(sum(w), f32) + 0.0 * cast(tokens, f32);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 8 * 512, .numIterations = 4,
            .gradients = Gradients::stored});
  train(8, Loss::mean, loss);
  validate(8, Loss::mean, loss);
}
"""
WIDE, STORED, LEAST = 1e-5, 2**-9 * 4, 2e-4


def dot(a, b):
    return sum(map(operator.mul, a, b))


def rows(values, width):
    return [values[at : at + width] for at in range(0, len(values), width)]


def turned(matrix):
    return [list(column) for column in zip(*matrix)]


def times(a, b):
    """a·bᵀ."""
    return [[dot(row, other) for other in b] for row in a]


def gradients_of(parameters, words, targets):
    """The mean of −log softmax(headᵀ·wideᵀ·mixᵀ·table[word])[target], differentiated."""
    table, mix, wide, head = (rows(parameters[n], D) for n in ("table", "mix", "wide", "head"))
    x = [table[word] for word in words]
    inner = times(x, mix)
    last = times(inner, wide)
    slopes = []
    for logits, target in zip(times(last, head), targets):
        largest = max(logits)
        powers = [math.exp(z - largest) for z in logits]
        total = sum(powers)
        slopes.append([(p / total - (v == target)) / len(words) for v, p in enumerate(powers)])
    d_last = times(slopes, turned(head))
    d_inner = times(d_last, turned(wide))
    d_x = times(d_inner, turned(mix))
    d_table = [[0.0] * D for _ in range(V)]
    for word, slope in zip(words, d_x):
        d_table[word] = [a + b for a, b in zip(d_table[word], slope)]
    found = {
        "table": d_table,
        "mix": times(turned(d_inner), turned(x)),
        "wide": times(turned(d_last), turned(inner)),
        "head": times(turned(slopes), turned(last)),
    }
    return {name: [value for row in matrix for value in row] for name, matrix in found.items()}


class GradientTypes(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def build(self, name, text, *options):
        source, plan = self.path(name + ".cpp"), self.path(name + ".plan")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        if "--target" not in options:
            options = ("--target", "cpu", *options)
        self.ran_quietly("nanoc", "compile", source, "-o", plan, *options)
        return plan

    def ran_quietly(self, *command):
        done = run_command(*command)
        self.assertEqual(done.returncode, 0, done.stderr)

    def of(self, *words):
        options = [word for pair in words for word in ("-D", pair)]
        return self.build("-".join(words), MODEL, "--world", "1,2,4", "--reports", "norms", *options)

    def test_against_double_precision(self):
        folder = self.path("start")
        plan = self.of("gradients=wide")
        self.train(plan, "start", "--steps", 0, "--save", folder)
        start = checkpoint(folder, 0)
        data, found = tokens(6000, 1), []
        for step in range(2):
            at = step * T * SEQUENCES
            words, targets = data[at : at + 64], data[at + 1 : at + 65]
            found.append(gradients_of(start, words, targets))
        one, two = found
        wanted = {
            "table.momentum": [a + b for a, b in zip(one["table"], two["table"])],
            "head.momentum": [(a + b) / 2 for a, b in zip(one["head"], two["head"])],
        }
        for name in ("mix", "wide"):
            wanted[name + ".muon_b"] = [a / 4 + b / 2 for a, b in zip(one[name], two[name])]
        norm = math.sqrt(dot(two["table"], two["table"]))
        for words in (("gradients=wide",), ("gradients=stored",), ("gradients=stored", "dist=zero2", "update=joined")):
            plan = self.of(*words)
            for ranks in (1, 2, 4):
                what = f"{'-'.join(words)}, {ranks} ranks"
                folder = self.path(what)
                log, _ = self.train(plan, what, "--gpus", ranks, "--steps", 2, "--save", folder)
                states = checkpoint(folder, 2)
                self.assertEqual(states["mix"], start["mix"], what)
                for name, values in wanted.items():
                    is_narrow = "gradients=stored" in words and name != "wide.muon_b"
                    error = distance(states[name], values)
                    self.assertLessEqual(error, STORED if is_narrow else WIDE, f"{what}: {name}")
                    if is_narrow:
                        self.assertGreater(error, LEAST, f"{what}: {name}")
                reported = [entry["reports"] for entry in log if "reports" in entry][-1]["grad_norm/tables"]
                self.assertLessEqual(abs(reported - norm), STORED * norm, what)

    def test_emulator(self):
        """Kernels for CUDA, on the emulator, add up what those for the CPU do."""
        words, states = ("-D", "gradients=stored"), []
        for target, options in (("cpu", ()), ("cuda", ("--device", "emulator"))):
            plan = self.build(target, MODEL, "--target", target, *words)
            folder = self.path(f"on-{target}")
            with unittest.mock.patch.dict(os.environ, {"NANO_EMULATOR": "checked"}):
                self.train(plan, target, "--steps", 2, "--save", folder, *options, threads=2)
            states.append(checkpoint(folder, 2))
        for name in ("table.momentum", "head.momentum", "mix.muon_b"):
            self.assertLessEqual(distance(states[1][name], states[0][name]), STORED, name)

    def test_sums_are_rounded(self):
        """512 sequences of gradient 1: on one rank the sum stays at 256, on two each has 256."""
        plan = self.build("ones", ONES, "--world", "1,2")
        for ranks, mean in ((1, 0.5), (2, 1.0)):
            _, found = self.train(plan, f"ones{ranks}", "--gpus", ranks, "--steps", 1)
            self.assertEqual(set(read_safetensors(found)["w"]), {-mean}, f"{ranks} ranks")

    def test_runs(self):
        """Training goes as with f32, on any number of ranks, and a resumed run is the whole one."""
        plan = self.of("gradients=wide", "rate=0.5")
        wide, wanted = self.train(plan, "wide", "--steps", 16)
        _, start = self.train(plan, "begin", "--steps", 0)
        for name, values in read_safetensors(wanted).items():
            self.assertGreater(distance(read_safetensors(start)[name], values), 1e-3, name)
        plan = self.of("gradients=stored", "rate=0.5", "dist=zero2")
        for ranks in (1, 2, 4):
            log, whole = self.train(plan, f"stored{ranks}", "--gpus", ranks, "--steps", 16)
            losses = train_losses(log)
            self.assertNotEqual(losses, train_losses(wide))
            self.assert_near(losses, train_losses(wide), 2e-2, f"{ranks} ranks")
            folder = self.path(f"saves{ranks}")
            self.train(plan, f"half{ranks}", "--gpus", ranks, "--steps", 6, "--save", folder)
            rest, found = self.train(plan, f"rest{ranks}", "--gpus", ranks, "--steps", 16, "--resume", folder)
            self.assertEqual(train_losses(rest), losses[6:])
            self.assertEqual(read_bytes(found), read_bytes(whole))


if __name__ == "__main__":
    main()
