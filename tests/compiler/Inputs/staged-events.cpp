// A table in two stages, with events after every step and after one of them.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto when = hyper("when", 3, "the step of the event", 0);
  const auto rest = adam("rest", {.lr = 0.01});
  const Tensor table = param("table", {257, 8}, f32, normal(0, 1), rest);
  const Tensor steps = state("steps", {}, f32, constant(0));
  const Tensor hits = state("hits", {}, f32, constant(0));
  afterStep([&] { set(steps, steps + 1.0); });
  at(double(when), [&] { set(hits, hits + steps); });
  auto loss = [&](Tensor tokens, Tensor targets) {
    return crossEntropy(linear(table[tokens], table), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .numIterations = 6});
  stage("a", {.until = 2, .globalBatch = 32}, [&] { train(8, Loss::sum, loss); });
  stage("b", {.globalBatch = 64}, [&] { train(16, Loss::sum, loss); });
  validate(8, Loss::mean, loss);
}
