#!/usr/bin/env python3
"""Gradients of weights by products that are cut along the tokens, several in a launch, on the
emulator: the same training as with the library's, of two micro-batches, whose gradients are stored
and added. The machine is one on which a library's product takes long to begin, so that few tokens
are enough for them to be taken.

Both sum without what tensor cores cut off, as library calls do there (NANO_EMULATOR_SUMS): cut,
sums of 388 instructions are up to 388 · 2⁻²⁴ smaller, and losses 5e-6 of theirs apart.

Sums of f32 in another order: 2⁻²⁰ of losses, and 5e-4 of parameters, of which Adam's two steps of
0.01 may go other ways where a gradient is about zero."""

import json
import os
import unittest.mock

from harness import ROOT, RunTest, main, run_command, tokens, train_losses, write_shard

TOKENS, STEPS = 6208, 2
MODEL = """
#include "models/optimizers.h"
using namespace nano::frontend;

NANO_MODEL {
  const int64_t V = 256, D = 256, H = 512, T = %d;
  const auto group = adam("all", {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95});
  const Tensor table = param("table", {V, D}, f32, normal(0, 1), group);
  const Tensor gate = param("gate", {H, D}, f32, normal(0, 0.1), group);
  const Tensor up = param("up", {H, D}, f32, normal(0, 0.1), group);
  const Tensor down = param("down", {V, H}, f32, normal(0, 0.1), group);
  auto losses = [&](Tensor tokens, Tensor targets) {
    const Tensor x = cast(table[tokens], bf16);
    const Tensor h = relu(linear(x, cast(gate, bf16))) * linear(x, cast(up, bf16));
    return crossEntropy(cast(linear(h, cast(down, bf16)), f32), targets);
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = 2 * T, .numIterations = 4});
  train(T, Loss::mean, losses);
  validate(T, Loss::mean, losses);
}
""" % TOKENS


class Split(RunTest):
    def compile_model(self, plan, *options):
        done = run_command("nanoc", "compile", self.path("model.cpp"), "-o", self.path(plan), "--target", "cuda", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(plan)

    def emulate(self, plan, name):
        how = {"NANO_EMULATOR": "fast", "NANO_EMULATOR_SEED": "1", "NANO_EMULATOR_SUMS": "exact"}
        with unittest.mock.patch.dict(os.environ, how):
            return self.train(plan, name, "--device", "emulator", "--steps", STEPS, threads=2)

    def test_trains_as_with_the_library(self):
        with open(self.path("model.cpp"), "w", encoding="utf-8") as file:
            file.write(MODEL)
        write_shard(self.path("t_0.bin"), tokens(2 * STEPS * TOKENS + 1, 5, vocab=256, eos=0))
        with open(os.path.join(ROOT, "machines", "h100-nvlink.json"), encoding="utf-8") as file:
            machine = json.load(file)
        machine["machine"] = "slow-library"
        machine["products"]["bf16"].update(units=6, startup_k=20000)
        with open(self.path("machine.json"), "w", encoding="utf-8") as file:
            json.dump(machine, file)
        library = self.compile_model("library.plan", "--machine", self.path("machine.json"))
        split = self.compile_model("split.plan", "--machine", self.path("machine.json"), "--split-products")
        launches = {
            plan: sum("launch split_" in line for line in self.ran("nanorun", plan, "--describe").splitlines())
            for plan in (library, split)
        }
        self.assertEqual(launches, {library: 0, split: 4}, "one for down, one for gate and up, stored and added")
        wanted, parameters = self.emulate(library, "library")
        found, others = self.emulate(split, "split")
        self.assert_near(train_losses(found), train_losses(wanted), 2**-20, "losses")
        self.assert_parameters_near(others, parameters, 0.05 * 0.01)


if __name__ == "__main__":
    main()
