// Products in 8 bits whose scales are the model's own equations, as record 89 has them: forward
// alone, the current magnitude of the input, delayed scales with headroom that each rank keeps for
// itself, a bootstrap of the weight's, slices of a parameter. What tests/e2e/fp8_products_test.py
// checks.
#include "models/optimizers.h"

#include <vector>

using namespace nano::frontend;

NANO_MODEL {
  const int64_t V = 257, D = 16, F = 32, layers = 2;
  const auto T = hyper("seq_len", 16, "tokens in a sequence");
  const auto batch = hyper("global_batch", 64, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 8, "optimizer steps");
  const auto bootstrap = hyper("bootstrap", 2, "steps with the weight's present magnitude", 0);
  const Dist dist = distHyper();
  const Optimizer group = sgd("all", {.lr = 1.0, .momentum = 0.5});
  const double largest = 448;

  const Tensor embed = param("embed", {V, D}, f32, normal(0, 0.5), group);
  const Tensor head = param("head", {V, D}, f32, normal(0, 0.2), group);
  const Tensor up = param("up", {layers, F, D}, f32, normal(0, 0.2), group);
  const Tensor down = param("down", {layers, F, D}, f32, normal(0, 0.2), group);

  auto scaleFor = [&](const Tensor &x, double headroom) {
    return headroom * max(maximum(abs(x)), 1e-12) / largest;
  };
  const Tensor updates = scalar("updates", step(), i32);
  std::vector<Tensor> hidden, weight, next;
  for (int i = 0; i < layers; ++i) {
    hidden.push_back(state({"scale", i}, {}, f32, constant(1), OverRanks::each));
    weight.push_back(state({"weight_scale", i}, {}, f32, constant(1)));
    next.push_back(state({"next_scale", i}, {}, f32, constant(1)));
  }
  auto loss = [&](Tensor tokens, Tensor targets, bool trains) {
    Tensor x = embed[tokens];
    for (int i = 0; i < layers; ++i) {
      const Tensor n = norm(x), w = down[i];
      const Tensor h =
          trains ? linear(n, up[i], {.input = scaleFor(n, 1), .weight = scaleFor(up[i], 1)})
                 : linear(n, up[i]);
      const Tensor p = square(relu(h));
      if (trains) {
        x += matmul(p, w,
                    {.input = hidden[i], .weight = select(updates < 1, scaleFor(w, 1), weight[i])});
        set(hidden[i], scaleFor(p, 1.8));
      } else {
        x += matmul(p, w);
      }
    }
    return crossEntropy(linear(norm(x), head), targets);
  };
  training({.vocabSize = V,
            .eosToken = 256,
            .globalBatch = batch,
            .numIterations = steps,
            .dist = dist});
  train(T, Loss::mean, [&](Tensor tokens, Tensor targets) { return loss(tokens, targets, true); });
  validate(T, Loss::mean,
           [&](Tensor tokens, Tensor targets) { return loss(tokens, targets, false); });
  afterStep([&] {
    for (int i = 0; i < layers; ++i) {
      const Tensor w = down[i];
      set(weight[i], select(updates < bootstrap, scaleFor(w, 1), next[i]));
      set(next[i], scaleFor(w, 1.12));
    }
  });
}
