#!/usr/bin/env python3
"""Every optimizer of models/optimizers.h in whole runs: 1, 2, 4 and 8 ranks train the same, whatever
the strategy; a stop and a resume change no bit, on the same number of ranks or, within rounding, on
another; and the one that docs/optimizers.md writes down line by line is the header's."""

import math
import os
import re
import struct

from harness import (
    ROOT,
    RunTest,
    distance,
    main,
    overrides,
    read_bytes,
    read_safetensors,
    run_command,
    train_losses,
)
from states_test import checkpoint

# Matrices, a parameter in bf16 that Zero2 cuts, a stack of matrices and a vector.
MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Dist dist = distHyper();
  const int update = hyper("update", {"apart", "joined"}, "the updates' program");
  const Sched lr = 0.02 * (1 - step() / iterations());
  const auto group = OPTIMIZER;
  const auto vectors = VECTORS;
  const Tensor table = param("table", {264, 128}, bf16, normal(0, 1), vectors);
  const Tensor up = param("up", {64, 128}, f32, normal(0, 0.1), group);
  const Tensor stack = param("stack", {3, 64, 128}, f32, normal(0, 0.1), group);
  const Tensor down = param("down", {128, 64}, f32, normal(0, 0.1), group);
  const Tensor head = param("head", {264, 128}, f32, normal(0, 0.1), vectors);
  const Tensor gain = param("gain", {128}, f32, constant(1), vectors);
  auto loss = [&](Tensor tokens, Tensor targets) {
    Tensor x = cast(norm(table[tokens]), f32) * gain;
    x += linear(relu(linear(x, up)), down);
    for (int i = 0; i < 3; ++i)
      x += linear(relu(linear(norm(x), stack[i])), down);
    return crossEntropy(linear(norm(x), head), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 1024, .numIterations = 40,
            .gradClip = 1.0, .dist = dist, .joinUpdate = update == 1});
  train(128, Loss::mean, loss);
  validate(128, Loss::mean, loss);
}
"""
# What the loss reads of `up` and `stack` are 16 bits; all 32 are trained.
HALVES = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int halves = hyper("halves", {"off", "on"}, "whether the lower half is a state");
  const auto matrices = norMuon("matrices", {.lr = 0.02, .momentum = 0.9, .decay = 1.2,
                                             .keepsLow = halves == 1});
  const auto vectors = sgd("vectors", {.lr = 0.02});
  const DType type = halves == 1 ? bf16 : f32;
  // Numbers of bf16, so that both start with the same.
  auto start = [](int64_t i) { return double(i * 7919 % 255 - 127) / 1024.0; };
  const Tensor table = param("table", {264, 64}, f32, normal(0, 1), vectors);
  const Tensor up = param("up", {32, 64}, type, constants(32 * 64, start), matrices);
  const Tensor stack = param("stack", {3, 64, 32}, type, constants(3 * 64 * 32, start), matrices);
  auto upper = [&](const Tensor &w) {
    if (halves == 1)
      return cast(w, f32);
    return w + stopGradient(bitcast(bitcast(w, i32) & -0x10000, f32) - w);
  };
  auto loss = [&](Tensor tokens, Tensor targets) {
    Tensor x = norm(table[tokens]);
    for (int i = 0; i < 3; ++i)
      x += linear(relu(linear(x, upper(up))), upper(stack)[i]);
    return crossEntropy(linear(norm(x), table), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 512, .numIterations = 40,
            .dist = Dist::zero2});
  train(128, Loss::mean, loss);
  validate(128, Loss::mean, loss);
}
"""
# Numbers of their own for each matrix, row or element: matrices in four parameters or in nine. Two
# parameters share a form, two do not.
RATES = """#include "models/optimizers.h"
#include <vector>
using namespace nano::frontend;
NANO_MODEL {
  const int banks = hyper("banks", {"off", "on"}, "whether four parameters hold all matrices");
  const Sched lr = 0.02 * (1 - step() / iterations());
  // Of a matrix: a schedule by its place, a coefficient between its products, where its state starts
  // again.
  auto equations = [](Update u, const char *state, const Tensor &place) {
    const Tensor m = u.state(state, f32);
    const Tensor rate = select(place < 1.0, u.lr, (place + 1.0) * u.lr * (1 + 0.1 * step()));
    const Tensor next = select(place == 2.0, 0.5, 0.9) * m + u.gradient;
    const Tensor x = next / (equations::frobenius(next) + 1e-6);
    const Tensor y = (1.5 + 0.01 * place) * x - 0.5 * matmul(matmul(x, transpose(x)), x);
    u.set(m, next);
    u.set(u.parameter - rate * ((1.5 + 0.1 * place) * y - 0.5 * matmul(matmul(y, transpose(y)), y)));
  };
  auto start = [](int64_t i) { return double(i * 7919 % 255 - 127) / 1024.0; };
  // A rate for each row, of numbers in a list, and noise for each element.
  const auto rows = optimizer("rows", {.lr = lr}, [](Update u) {
    const auto V = u.parameter.size(0), D = u.parameter.size(1);
    const Tensor list = concat({full({V / 2, 1}, 0.5, f32), full({V / 2, 1}, 2, f32)}, 0);
    const Tensor element = iota({V, D}, 0) * D + iota({V, D}, 1);
    const Tensor noise = cast((element * 40503) & 0xFF, f32) / 256.0 - 0.5;
    u.set(u.parameter - list * u.lr * u.gradient + 1e-3 * u.lr * noise);
  });
  const auto elements = optimizer("elements", {.lr = lr}, [](Update u) {
    const Tensor t = cast(iota(u.parameter.shape(), 0) + iota(u.parameter.shape(), 1), f32);
    const Tensor v = u.state("v", f32);
    u.set(v, t);
    u.set(u.parameter - (1 + 0.01 * t) * u.lr * u.gradient + 0.0 * v);
  });
  const Tensor table = param("table", {528, 64}, f32, normal(0, 1), rows);
  const Tensor head = param("head", {528, 64}, f32, normal(0, 0.2), elements);
  std::vector<Tensor> matrices;
  struct Bank {
    const char *name, *state;
    int from, count;
  };
  const Bank all[] = {{"a", "m", 0, 3}, {"b", "m", 3, 2}, {"c", "n", 5, 2}, {"d", "n", 7, 2}};
  auto byPlace = [=](const char *name, const char *state) {
    return optimizer(name, {.lr = lr}, [=](Update u) {
      equations(u, state, cast(iota({u.parameter.size(0), 1, 1}, 0), f32));
    });
  };
  if (banks == 1) {
    const Optimizer of[] = {byPlace("differ", "m"), byPlace("share", "n")};
    for (const Bank &bank : all)
      matrices.push_back(param(bank.name, {bank.count, 64, 64}, f32,
                               constants(bank.count * 64 * 64, [=](int64_t e) {
                                 return start(bank.from * 64 * 64 + e);
                               }), of[bank.from >= 5]));
  } else {
    for (const Bank &bank : all)
      for (int i = 0; i < bank.count; ++i) {
        const auto own = optimizer(Name{bank.name, i}.text, {.lr = lr}, [=](Update u) {
          equations(u, bank.state, full({}, i, f32));
        });
        matrices.push_back(param({bank.name, ".matrix", i}, {64, 64}, f32,
                                 constants(64 * 64, [=](int64_t e) {
                                   return start((bank.from + i) * 64 * 64 + e);
                                 }), own));
      }
  }
  auto matrix = [&](int64_t bank, int64_t i) {
    return banks == 0 ? matrices[size_t(all[bank].from + i)] : matrices[size_t(bank)][i];
  };
  auto loss = [&](Tensor tokens, Tensor targets) {
    Tensor x = norm(table[tokens]);
    for (int64_t bank = 0; bank < 4; ++bank)
      for (int64_t i = 0; i < all[bank].count; ++i)
        x += linear(relu(x), matrix(bank, i));
    return crossEntropy(linear(norm(x), head), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 512, .numIterations = 40,
            .dist = Dist::zero2});
  train(64, Loss::mean, loss);
  validate(64, Loss::mean, loss);
}
"""
OPTIMIZERS = {
    "adamW": 'adamW("group", {.lr = 0.1 * lr})',
    "sgd": 'sgd("group", {.lr = lr, .momentum = 0.9, .nesterov = true, .weightDecay = 0.01})',
    "lion": 'lion("group", {.lr = 0.05 * lr, .weightDecay = 0.1})',
    "adafactor": 'adafactor("group", {.lr = lr})',
    "muon": 'muon("group", {.lr = lr, .momentum = 0.9, .computeType = bf16})',
    "normuon": 'norMuon("group", {.lr = lr, .momentum = 0.9, .decay = 1.2})',
}
# Those of vectors and tables beside those of matrices, which take steps at other times.
VECTORS = {
    "adamW": 'adamW("vectors", {.lr = 0.1 * lr, .every = 2})',
    "muon": 'adam("vectors", {.lr = 0.1 * lr, .eps = 1e-4, .every = 2})',
    "normuon": 'sgd("vectors", {.lr = lr, .momentum = 0.9, .every = 2})',
}
STEPS = 8

# A gradient of one sign makes each step of Adam lr, a sixteenth of the last bit of what is below 1.
AT_RANDOM = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Dist dist = distHyper();
  const int random = hyper("random", {"off", "on"}, "whether the weight is rounded at random");
  const auto group = adam("group", {.lr = 0x1p-12, .roundsAtRandom = random == 1});
  const Tensor weight = param("weight", {64, 48}, bf16, constant(1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    return cast(tokens + targets, f32) * 0.0 + 0.01 * sum(cast(weight, f32));
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 512, .numIterations = 40, .dist = dist});
  train(128, Loss::mean, loss);
  validate(128, Loss::mean, loss);
}
"""
# β₁ that is a schedule of one value, or the number.
BETAS = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int scheduled = hyper("scheduled", {"no", "yes"}, "whether the numbers are schedules");
  auto number = [&](double x) { return scheduled ? x + 0.0 * step() : Sched(x); };
  const auto group = adam("group", {.lr = 0.01, .beta1 = number(0.8), .beta2 = number(0.95),
                                    .eps = number(1e-6), .weightDecay = number(0.1)});
  const Tensor table = param("table", {264, 64}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    return crossEntropy(linear(norm(table[tokens]), table), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 512, .numIterations = 40});
  train(128, Loss::mean, loss);
  validate(128, Loss::mean, loss);
}
"""


class Optimizers(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def compiled(self, name, text, sizes, *options):
        source, plan = self.path(name + ".cpp"), self.path(name + ".plan")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        if "--target" not in options:
            options = ("--target", "cpu", *options)
        words = (*overrides(sizes), *options)
        done = run_command("nanoc", "compile", source, "-o", plan, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return plan

    def of(self, name, **sizes):
        text = MODEL.replace("OPTIMIZER", OPTIMIZERS[name])
        vectors = VECTORS.get(name, OPTIMIZERS[name].replace("group", "vectors"))
        text = text.replace("VECTORS", vectors)
        suffix = "-".join(sizes.values())
        return self.compiled(f"{name}-{suffix}", text, sizes, "--world", "1,2,4,8")

    def test_ranks_and_resume(self):
        for name in OPTIMIZERS:
            with self.subTest(optimizer=name):
                plan = self.of(name, dist="zero2", update="apart")
                runs = {}
                for ranks in (1, 2, 4, 8):
                    what = f"{name}{ranks}"
                    options = ("--gpus", ranks, "--steps", STEPS)
                    log, found = self.train(plan, what, *options)
                    self.assertEqual(len(train_losses(log)), STEPS)
                    self.assertLess(train_losses(log)[-1], train_losses(log)[0], what)
                    folder = self.path(what)
                    self.train(plan, what + "-half", "--gpus", ranks, "--steps", 4, "--save", folder)
                    rest, resumed = self.train(
                        plan, what + "-rest", *options, "--save", folder, "--resume", folder
                    )
                    self.assertEqual(train_losses(rest), train_losses(log)[4:], what)
                    self.assertEqual(read_bytes(resumed), read_bytes(found), what)
                    runs[ranks] = (log, found)
                for ranks in (2, 4, 8):
                    what = f"{name}, {ranks} ranks"
                    losses = [train_losses(runs[n][0]) for n in (ranks, 1)]
                    self.assert_near(*losses, 1e-4, what)
                    self.assert_parameters_near(runs[ranks][1], runs[1][1], 5e-3)
                # One rank's checkpoint on four.
                folder, log = self.path(f"{name}1"), runs[1][0]
                other, _ = self.train(
                    plan,
                    f"{name}-four",
                    *("--gpus", 4, "--steps", STEPS + 2, "--resume", folder),
                )
                self.assertEqual(len(train_losses(other)), 2)
                longer, _ = self.train(plan, f"{name}-ten", "--gpus", 1, "--steps", STEPS + 2)
                self.assert_near(train_losses(other), train_losses(longer)[STEPS:], 1e-4, name)

    def test_strategies_and_joined_updates(self):
        """How the work is shared and where the update stands changes nothing on one rank, and with
        equal sums nothing on several."""
        for name in ("adafactor", "normuon"):
            with self.subTest(optimizer=name):
                apart = self.of(name, dist="allreduce", update="apart")
                joined = self.of(name, dist="allreduce", update="joined")
                zero2 = self.of(name, dist="zero2", update="joined")
                for ranks in (1, 4):
                    options = ("--gpus", ranks, "--steps", 4)
                    logs = [
                        self.train(plan, f"{name}-{i}-{ranks}", *options)
                        for i, plan in enumerate((apart, joined, zero2))
                    ]
                    self.assertEqual(read_bytes(logs[0][1]), read_bytes(logs[1][1]), name)
                    if ranks == 1:
                        self.assertEqual(read_bytes(logs[0][1]), read_bytes(logs[2][1]), name)

    def test_halves(self):
        """A parameter in bf16 whose lower half is a state trains as one in f32 whose upper half the
        model reads, to the bit: on 1, 2 and 4 ranks, resumed, and on the emulator."""
        text = HALVES
        whole = self.compiled("whole", text, {"halves": "off"}, "--world", "1,2,4")
        halves = self.compiled("halves", text, {"halves": "on"}, "--world", "1,2,4")
        gpu = self.compiled("gpu", text, {"halves": "on"}, "--target", "cuda")
        wanted, _ = self.train(whole, "whole", "--steps", 6, "--save", self.path("whole"))
        master = checkpoint(self.path("whole"), 6)
        for name, plan, ranks, *options in (
            ("one", halves, 1),
            ("two", halves, 2),
            ("four", halves, 4),
            ("emulator", gpu, 1, "--device", "emulator"),
        ):
            folder = self.path(name)
            options = (*options, "--gpus", ranks, "--save", folder)
            first, _ = self.train(plan, name, "--steps", 3, *options)
            rest, _ = self.train(plan, f"{name}-rest", "--steps", 6, "--resume", folder, *options)
            losses, found = train_losses(first) + train_losses(rest), checkpoint(folder, 6)
            for parameter in ("up", "stack"):
                upper, low = found[parameter], found[f"{parameter}.normuon_low"]
                bits = [
                    struct.unpack("<I", struct.pack("<f", high))[0] | below
                    for high, below in zip(upper, low)
                ]
                joined = struct.unpack(f"<{len(bits)}f", struct.pack(f"<{len(bits)}I", *bits))
                self.assertGreater(len(set(low)), 1000, name)
                if name == "one":
                    self.assertEqual(list(joined), master[parameter])
                else:  # sums over ranks, or of the emulator's products, in another order
                    self.assertLessEqual(distance(joined, master[parameter]), 1e-3, name)
            if name == "one":
                self.assertEqual(losses, train_losses(wanted))
            else:
                self.assert_near(losses, train_losses(wanted), 1e-4, name)

    def test_rounded_at_random(self):
        """Steps of a sixteenth of a bf16's last bit are lost by rounding to nearest, and on average
        not by rounding at random: within four standard deviations of the mean of 3,072 elements,
        of 1.4 last bits each, to the bit on any number of ranks and after a resume."""
        steps, last = 32, 2**-8
        sizes = {"random": "on", "dist": "zero2"}
        plan = self.compiled("random", AT_RANDOM, sizes, "--world", "1,2,4")
        nearest = self.compiled("nearest", AT_RANDOM, {"random": "off"})
        _, stays = self.train(nearest, "nearest", "--steps", steps)
        self.assertEqual(set(read_safetensors(stays)["weight"]), {1.0})
        _, whole = self.train(plan, "random", "--steps", steps)
        weight = read_safetensors(whole)["weight"]
        self.assertGreater(len(set(weight)), 4)
        self.assertTrue(all(each / last == int(each / last) for each in weight))
        mean = sum(weight) / len(weight)
        deviation = 1.4 * last / math.sqrt(len(weight))
        self.assertLessEqual(abs(mean - (1 - steps * last / 16)), 4 * deviation)
        for ranks in (2, 4):
            options = ("--gpus", ranks, "--save", self.path(f"random{ranks}"))
            self.train(plan, f"random{ranks}", "--steps", 10, *options)
            resume = ("--resume", self.path(f"random{ranks}"))
            _, found = self.train(plan, f"rest{ranks}", "--steps", steps, *options, *resume)
            self.assertEqual(read_safetensors(found)["weight"], weight, ranks)

    def test_schedules_of_one_value(self):
        """Adam's numbers as schedules are those numbers."""
        plans = [
            self.compiled(f"betas-{word}", BETAS, {"scheduled": word}) for word in ("no", "yes")
        ]
        logs = [self.train(plan, f"betas{i}", "--steps", 8)[0] for i, plan in enumerate(plans)]
        # 1 − β is rounded to f32 once as a number of the plan, twice as one of a step.
        self.assert_near(*map(train_losses, logs), 1e-6, "schedules")

    def test_numbers_by_place(self):
        """Each matrix, row or element of a parameter may have numbers of its own, schedules too, as
        if it were a parameter; ranks share it as any other."""
        worlds = (1, 2, 4, 8)
        banks = self.compiled("banks", RATES, {"banks": "on"}, "--world", "1,2,4,8")
        apart = self.compiled("rates", RATES, {"banks": "off"}, "--world", "1")
        log, parameters = self.train(apart, "rates", "--steps", 6)
        found = read_safetensors(parameters)
        for name, count in (("a", 3), ("b", 2), ("c", 2), ("d", 2)):
            found[name] = [x for i in range(count) for x in found.pop(f"{name}.matrix{i}")]
        saved = {}
        for ranks in worlds:
            what, folder = f"banks{ranks}", self.path(f"banks{ranks}")
            options = ("--steps", 6, "--gpus", ranks)
            mine, parameters = self.train(banks, what, *options)
            # Sums in another order, over 6 steps.
            self.assert_near(train_losses(mine), train_losses(log), 1e-5, what)
            own = read_safetensors(parameters)
            for name, wanted in found.items():
                self.assertLessEqual(distance(own[name], wanted), 1e-5, f"{what} {name}")
            self.train(banks, what + "-half", "--steps", 3, "--gpus", ranks, "--save", folder)
            saved[ranks] = checkpoint(folder, 3)
            self.assertEqual(list(saved[ranks]["head.v"][62:66]), [62, 63, 1, 2], what)
            rest, resumed = self.train(banks, what + "-rest", *options, "--resume", folder)
            self.assertEqual(train_losses(rest), train_losses(mine)[3:], what)
            self.assertEqual(read_bytes(resumed), read_bytes(parameters), what)
        for name, wanted in saved[1].items():
            if name.endswith((".m", ".n")):
                self.assertLessEqual(distance(saved[8][name], wanted), 1e-5, name)
        # Eight ranks' checkpoint on two.
        options = ("--steps", 6, "--gpus", 2, "--resume", self.path("banks8"))
        rest, _ = self.train(banks, "fewer", *options)
        self.assert_near(train_losses(rest), train_losses(log)[3:], 1e-5, "on fewer ranks")
        source = self.path("banks.cpp")
        options = ("-D", "banks=on", "--target", "cpu", "--world", "4", "--report-updates")
        said = run_command("nanoc", "compile", source, "-o", self.path("said.plan"), *options)
        for part in (
            "'a' [3, 64, 64]: 'differ' (differ) updates it matrix by matrix",
            "of 4 neighbouring matrices each rank of a group updates one",
            "'head' [528, 64]: 'elements' (elements) updates it element by element",
            "'table' [528, 64]: 'rows' (rows) updates it row by row",
            "each rank of a group of 4 updates a part",
        ):
            self.assertIn(part, said.stdout + said.stderr)

    def test_the_page(self):
        """The blocks of docs/optimizers.md are a model file; what it trains with is the header's."""
        with open(os.path.join(ROOT, "docs", "optimizers.md"), encoding="utf-8") as file:
            page = "".join(re.findall(r"^```cpp\n(.*?)^```", file.read(), re.M | re.S))
        call = 'rowwise("matrices", 0.02 * (1 - step() / iterations()), 0.85 + 0.1 * min(step() / 300, 1.0), 1.2)'
        self.assertEqual(page.count(call), 1)
        header = page.replace(
            call,
            'norMuon("matrices", {.lr = 0.02 * (1 - step() / iterations()), '
            ".momentum = 0.85 + 0.1 * min(step() / 300, 1.0), .decay = 1.2})",
        ).replace("compiler/Frontend.h", "models/optimizers.h")
        runs = []
        for name, text in (("page", page), ("header", header)):
            plan = self.compiled(name, text, {"dist": "zero2"}, "--world", "1,2")
            for ranks in (1, 2):
                log, found = self.train(plan, f"{name}{ranks}", "--gpus", ranks, "--steps", STEPS)
                runs.append((train_losses(log), read_bytes(found)))
        self.assertLess(runs[0][0][-1], runs[0][0][0])
        self.assertEqual(runs[0], runs[2])
        self.assertEqual(runs[1], runs[3])


if __name__ == "__main__":
    main()
