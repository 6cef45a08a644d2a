// A model of a few lines that uses most of what the front end has.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto T = hyper("seq_len", 8, "tokens of a sequence");
  const auto D = hyper("width", 4, "columns");
  const auto dtype = hyper("dtype", {bf16, f32}, "compute type");
  const Sched s = step(), N = iterations();
  const Tensor reach =
      scalar("reach", select(s < 10, floor(s / 3), max(-sqrt(N), 2 * cos(s))), i32);
  const auto group = adam("all", {.lr = 0.5 * min(s / N, 1.0), .weightDecay = 0.25});
  const auto matrices = muon("matrices", {.lr = 0.02, .momentum = 0.9, .computeType = dtype});
  const Tensor table = param("table", {16, D}, dtype, normal(0, 1), group);
  const Tensor scale = param("scale", {D}, f32, constant(1), group);
  const Tensor weight = param({"layer.", 0, ".weight"}, {3 * D, D}, f32, uniform(-1, 1), matrices);

  auto logits = [&](Tensor tokens) {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T});
    const Tensor x = norm(table[tokens]);
    auto [q, k, v] = split<3>(reshape(linear(x, weight), {T, 3, D}), 1);
    const Tensor y = attention(q, k, v,
                               {.first = max(t - reach, 0.0),
                                .last = t,
                                .scale = 0.5,
                                .score = [](Tensor score, Tensor q, Tensor k, Tensor) {
                                  return tanh(score) + cast(k - q, f32);
                                }});
    const Tensor z = x * scale + reshape(y, {T, D});
    return cast(linear(cast(z, dtype), table), f32) - maximum(z, -1);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };
  training({.vocabSize = 16,
            .eosToken = 0,
            .globalBatch = 4 * T,
            .numIterations = 10,
            .gradClip = 1,
            .logged = matrices});
  train(T, Loss::sum, loss);
  validate(2 * T, Loss::mean, loss);
  generate(T, logits);
}
