#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const auto group = adam("all", {.lr = 0.1});
  const Tensor table = param("table", {10, 16}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor narrow = cast(table[tokens], f8e4m3);
    return crossEntropy(linear(cast(narrow, f32), table), targets);
  };
  training({.vocabSize = 10, .eosToken = 0, .globalBatch = 8, .numIterations = 5});
  train(4, Loss::sum, loss);
  validate(4, Loss::mean, loss);
}
