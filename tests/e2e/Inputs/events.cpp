// A tied embedding that splits in the middle of a run, and optimizer states that an event copies
// or resets: what tests/e2e/events_test.py checks.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t V = 257, D = 32;
  const auto T = hyper("seq_len", 64, "tokens in a sequence");
  const auto batch = hyper("global_batch", 256, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 9, "optimizer steps");
  const auto split = hyper("split_step", 3, "the step after which the embedding is its own", 0);
  const auto every = hyper("every", 1, "steps for each step of the optimizer", 1);
  const int copies = hyper("event", {"copy", "none"}, "what becomes of the optimizer's states");
  const Dist dist = distHyper();
  const Optimizer group = adam("all", {.lr = 0.02, .every = every});

  const Tensor head = param("head", {D, V}, bf16, normal(0, 0.05), group);
  const Tensor embed = param("embed", {V, D}, bf16, transposeOf(head), group);
  const Tensor gain = param("gain", {D}, f32, constant(1), group);
  const Tensor tied =
      scalar("tied", select(step() < double(split) + 0.5, Sched(1.0), Sched(0.0)), f32);
  auto loss = [&](Tensor tokens, Tensor targets) {
    // While they are tied the head's rows are looked up, and it gets all of the gradient.
    const Tensor rows = transpose(head)[tokens];
    const Tensor x = norm(tied * rows + (1.0 - tied) * embed[tokens]) * gain;
    return crossEntropy(cast(matmul(cast(x, bf16), head), f32), targets);
  };
  training({.vocabSize = V,
            .eosToken = 256,
            .globalBatch = batch,
            .numIterations = steps,
            .dist = dist});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
  at(split, [&] {
    set(embed, transpose(head));
    if (copies == 0) {
      set(stateOf(embed, "adam_m"), transpose(stateOf(head, "adam_m")));
      set(stateOf(embed, "adam_v"), transpose(stateOf(head, "adam_v")));
      set(stateOf(gain, "adam_m"), 0.0);
    }
  });
}
