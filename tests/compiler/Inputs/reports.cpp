// A model that reports of each kind; -D mistake=WORD makes a mistake of its own.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  enum { None, Twice, Outside, Ours, Score, Empty, Never };
  const int mistake =
      hyper("mistake", {"none", "twice", "outside", "ours", "score", "empty", "never"}, "which");
  const int64_t T = 16, D = 8;
  const auto group = adam("all", {.lr = 0.02});
  const auto others = muon("matrices", {.lr = 0.02, .momentum = 0.9});
  const Tensor table = param("table", {16, D}, f32, normal(0, 1), group);
  const Tensor weight = param("weight", {D, D}, f32, normal(0, 0.3), others);
  if (mistake == Outside)
    report("early", table);

  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor x = norm(table[tokens]);
    report("acts", x);
    report({"layer.", 0, ".size"}, x * 2, Report::norm);
    report("weight", weight, Report::histogram);
    const Tensor y = cast(x, bf16) + cast(linear(x, weight), bf16);
    report("top", y, Report::max);
    report("tokens", tokens, Report::max);
    if (mistake == Twice)
      report("top", x);
    if (mistake == Ours)
      report("grad_norm/all", x);
    if (mistake == Empty)
      report("", x);
    if (mistake == Never)
      report("never", Tensor());
    if (mistake == Score) {
      const Tensor q = reshape(cast(x, bf16), {T, 1, D}), t = iota({T});
      attention(q, q, q, {.first = t, .last = t, .score = [](Tensor s, Tensor, Tensor, Tensor) {
                            report("scores", s);
                            return s;
                          }});
    }
    const Tensor losses = crossEntropy(linear(cast(y, f32), table), targets);
    report("loss", losses);
    return losses;
  };
  training({.vocabSize = 16, .eosToken = 0, .globalBatch = 4 * T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
