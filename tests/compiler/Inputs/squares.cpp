// A norm squared again and again: two ways lead from each value to the next one, so that whoever
// follows all of them does not come to an end.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t T = 64, C = 16;
  const auto group = adam("all", {.lr = 0.01});
  const Tensor rows = param("rows", {32, C}, f32, normal(0, 0.3), group);
  const Tensor w = param("w", {C, C}, f32, normal(0, 0.1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    Tensor x = norm(linear(rows[tokens], w));
    for (int i = 0; i < 60; ++i)
      x = x * x;
    return crossEntropy(linear(x, rows), targets);
  };
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
  training({.vocabSize = 32, .globalBatch = T, .numIterations = 8});
}
