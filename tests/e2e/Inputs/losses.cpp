// Losses of one's own over a vocabulary that no unit of 16 bytes divides, from logits far below 0,
// by a number that is added to all or ("far") by what the weights are; and the cross-entropy of
// cosines.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t T = 64, V = 257;
  const int kind =
      hyper("loss", {"taken", "smoothed", "entropy", "taught", "cosine", "far"}, "of which form");
  const auto dtype = hyper("dtype", {f32, bf16}, "what is computed in");
  const auto group = adam("all", {.lr = 0.02});
  const Tensor table = param("table", {V, 64}, f32, normal(0, 1), group);
  const Tensor head = param("head", {V, 64}, f32, normal(0, 0.1), group);
  const Tensor bias = kind == 3 ? param("bias", {V}, f32, constant(0), group) : Tensor();
  const Tensor temperature =
      kind == 4 ? param("temperature", {1}, f32, constant(2), group) : Tensor();
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor x = cast(table[tokens], dtype);
    if (kind == 4) { // the row of the weights is divided by its length, the token's by a number
      const Tensor lengths = reshape(sqrt(sum(square(head), -1)), {V});
      return crossEntropy(cast(linear(x, head), f32) / lengths * temperature, targets);
    }
    Tensor z = cast(kind == 5 ? linear(x + 1, head - 3) : linear(x, head), f32);
    if (kind != 5)
      z = z - 200;
    if (kind == 3) { // learned from the scores of other inputs, with a bias
      const Tensor t = stopGradient(cast(linear(square(x), head), f32));
      const Tensor wanted = exp(t - logSumExp(t, -1));
      z = z + bias;
      return reshape(sum(wanted * (log(wanted) - z), -1), {T}) + reshape(logSumExp(z, -1), {T}) +
             0.1 * sum(square(mean(wanted * z, 0)));
    }
    const Tensor sums = logSumExp(z, -1); // [T, 1]
    if (kind == 0)
      return reshape(sums - takeAlong(z, reshape(targets, {T, 1})), {T});
    if (kind == 1)
      return 0.9 * crossEntropy(z, targets) + 0.1 * reshape(sums - mean(z, -1), {T}) +
             1e-4 * square(reshape(sums, {T}));
    const Tensor p = exp(z - sums);
    return crossEntropy(z, targets) + 0.1 * reshape(sum(p * (z - sums), -1), {T});
  };
  training({.vocabSize = V, .eosToken = 256, .globalBatch = 4 * T, .numIterations = 40});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
