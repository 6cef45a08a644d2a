// Scores of heads with keys that other rows share: what b alone has lies beside the rows of what it
// is the transpose of.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t T = 64, V = 256, R = 4, H = 2, D = 16;
  const auto turned = hyper("turned", {"yes", "no"}, "whether b is a transpose");
  const auto group = adam("all", {.lr = 0.01});
  const Tensor embed = param("embed", {V, D}, f32, normal(0, 1), group);
  const Tensor keys =
      param("keys", turned == 0 ? Shape{R, H, 8, D} : Shape{R, H, D, 8}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor) {
    const Tensor rows = reshape(embed[tokens], {R, 1, T / R, D});
    const Tensor scores = matmul(rows, turned == 0 ? transpose(keys) : keys); // [R, H, T / R, 8]
    return reshape(sum(transpose(square(scores), {0, 2, 1, 3}), {2, 3}), {T});
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
