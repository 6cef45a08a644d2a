// A convolution along the tokens, of the ones before and the ones behind, and sums of chunks that
// see the chunk before: by concats of zeros and what is moved, or by gathers of the same rows.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t T = 64, V = 257, D = 64, Q = 8;
  const int byGather = hyper("form", {"concat", "gather"}, "how rows are moved");
  const auto dtype = hyper("dtype", {f32, bf16}, "what is computed in");
  const auto group = adam("all", {.lr = 0.02});
  const Tensor table = param("table", {V, D}, f32, normal(0, 1), group);
  const Tensor head = param("head", {V, D}, f32, normal(0, 0.1), group);
  const Tensor mix = param("mix", {4, D}, f32, normal(0, 0.5), group);
  // x[t − by], zeros where there is none.
  auto moved = [&](Tensor x, int64_t by) {
    const int64_t n = x.size(0);
    if (byGather) {
      const Tensor t = iota({n}), from = t - double(by);
      const Tensor rows = x[min(max(from, 0), double(n - 1))];
      const Tensor place = reshape(from, {n, 1});
      return select(min(place, n - 1 - place) >= 0.0, rows, 0.0);
    }
    const int64_t count = by < 0 ? -by : by;
    const Tensor zeros = full({count, x.size(1)}, 0, x.type());
    const Tensor rest = slice(x, 0, by < 0 ? count : 0, n - count);
    return by < 0 ? concat({rest, zeros}, 0) : concat({zeros, rest}, 0);
  };
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor x = cast(table[tokens], dtype);
    Tensor y = x * mix[0] + moved(x, 1) * mix[1] + moved(x, 3) * mix[2] + moved(x, -2) * mix[3];
    y = cast(y * sigmoid(y), dtype);
    const Tensor chunks = reshape(sum(reshape(cast(y, f32), {T / Q, Q, D}), 1), {T / Q, D});
    const Tensor before = reshape(moved(chunks, 1), {T / Q, 1, D});
    const Tensor all = reshape(reshape(cast(y, f32), {T / Q, Q, D}) + 0.1 * before, {T, D});
    return crossEntropy(cast(linear(cast(all, dtype), head), f32), targets);
  };
  training({.vocabSize = V, .eosToken = 256, .globalBatch = 4 * T, .numIterations = 40});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
