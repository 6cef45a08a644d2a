// A loss that keeps the logits' log-sum-exp small beside that of the tokens.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t T = 512, V = hyper("vocab_size", 2048, "tokens");
  const int z =
      hyper("z_loss", {"no", "yes", "first"}, "whether it is there, and what comes first");
  const auto group = adam("all", {.lr = 0.1});
  const Tensor table = param("table", {V, 64}, f32, normal(0, 1), group);
  const Tensor head = param("head", {V, 64}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor logits = cast(linear(cast(table[tokens], bf16), head), f32);
    auto keptSmall = [&] { return 1e-4 * square(reshape(logSumExp(logits, -1), {T})); };
    if (z == 2) {
      const Tensor small = keptSmall();
      return small + crossEntropy(logits, targets);
    }
    const Tensor each = crossEntropy(logits, targets);
    return z == 1 ? each + keptSmall() : each;
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = T, .numIterations = 1});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
