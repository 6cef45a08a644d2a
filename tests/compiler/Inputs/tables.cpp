// A lookup in a table of every token's own: its parts, by numbers that `shift` moves out of them.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto shift = hyper("shift", 0, "added to what is looked up", -1000);
  const int64_t T = 64, V = 200, D = 16;
  const auto group = adam("all", {.lr = 0.01});
  const Tensor embed = param("embed", {V, 4 * D}, f32, normal(0, 1), group);
  const Tensor head = param("head", {V, D}, f32, normal(0, 0.1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor parts = reshape(embed[tokens], {T, 4, D});
    const Tensor which = reshape(tokens % 4 + shift, {T, 1});
    const Tensor x = gather(parts, which, 1);
    return crossEntropy(linear(reshape(x, {T, D}), head), targets);
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = 4 * T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
