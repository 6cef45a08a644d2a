// Parameters and states of every kind on a small model: what tests/e2e/states_test.py checks of
// them.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const int64_t V = 257, D = 32;
  const auto T = hyper("seq_len", 128, "tokens in a sequence");
  const auto batch = hyper("global_batch", 512, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 20, "optimizer steps");
  const auto eventStep = hyper("event_step", 5, "the step after which things change", 0);
  const int early = hyper("set", {"late", "early"}, "whether states are set before their last use");
  const int with = hyper("average", {"on", "off"}, "whether the loss reads the average");
  const Dist dist = distHyper();
  const Optimizer group = adam("all", {.lr = 0.01});

  const Tensor head = param("head", {D, V}, f32, normal(0, 0.05), group);
  const Tensor embed = param("embed", {V, D}, f32, transposeOf(head), group);
  const Tensor bank =
      param("bank", {4, D, D}, f32,
            byBlocks(4, [](int64_t i) { return i < 3 ? uniform(-0.1, 0.1) : constant(0); }), group);
  const Tensor narrow = frozen("narrow", {V, D}, bf16, copyOf(embed));
  const Tensor signs = frozen("signs", {D, D}, bf16, sign(0.125));
  const Tensor shift =
      table("shift", {V, D}, f32, [](int64_t i) { return 0.01 * double(i * 7 % 13 - 6); });

  const Tensor seen = state("seen", {}, i32, constant(0));
  const Tensor average = state("average", {D}, f32, constant(0), OverRanks::mean);
  const Tensor largest = state("largest", {}, f32, constant(0), OverRanks::max);
  const Tensor own = state("own", {2}, f32, constant(1), OverRanks::each);
  const Tensor slow = state("slow", {V, D}, f32, copyOf(embed));
  const Tensor changed = state("changed", {}, f32, constant(0));

  auto logits = [&](Tensor tokens, Tensor table, Tensor mean) {
    Tensor x = table[tokens] + shift[tokens] + cast(narrow[tokens], f32);
    x = x * (1.0 + mean);
    for (int i = 0; i < 4; ++i)
      x += linear(linear(x, bank[i]), signs);
    return matmul(x, head);
  };
  training({.vocabSize = V,
            .eosToken = 256,
            .globalBatch = batch,
            .numIterations = steps,
            .dist = dist});
  train(T, Loss::mean, [&](Tensor tokens, Tensor targets) {
    const Tensor before = with == 0 ? average * 1.0 : full({D}, 0, f32);
    auto sets = [&] {
      set(seen, seen + 1);
      const Tensor rows = embed[tokens];
      set(average, 0.9 * average + 0.1 * reshape(mean(rows, 0), {D}));
      set(largest, max(largest, maximum(cast(tokens, f32))));
      const Tensor first = reshape(cast(slice(tokens, 0, 5, 2), f32), {2});
      set(own, 0.5 * own + first);
    };
    if (early)
      sets();
    const Tensor losses = crossEntropy(logits(tokens, embed, before), targets);
    if (!early)
      sets();
    return losses;
  });
  validate(T, Loss::mean, [&](Tensor tokens, Tensor targets) {
    return crossEntropy(logits(tokens, slow, average), targets);
  });
  generate(T, [&](Tensor tokens) { return logits(tokens, slow, average); });
  afterStep([&] { set(slow, 0.9 * slow + 0.1 * embed); });
  at(eventStep, [&] {
    set(embed, slow);
    set(changed, changed + cast(seen, f32));
  });
}
