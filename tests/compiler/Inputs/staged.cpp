// A transformer of one layer whose run has the four stages of the speedrun's record 89, scaled
// down: sequence length, windows, attention scale, rotary frequencies and the loss's targets change
// with the stage, Adam takes its steps over two.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto N = hyper("num_iterations", 10, "optimizer steps");
  const auto V = hyper("vocab_size", 257, "tokens");
  const auto adamEvery = hyper("adam_every", 2, "optimizer steps for each step of Adam");
  const auto unit = hyper("unit", 64, "tokens in a sequence of the first stage");
  const auto D = hyper("model_dim", 32, "width");
  const auto H = hyper("num_heads", 2, "attention heads");
  const auto dtype = hyper("dtype", {f32, bf16}, "compute type");
  const int only = hyper("only", {"all", "0", "1", "2", "3"}, "the stages that the run has") - 1;
  const int sizes = hyper("sizes", {"four", "equal"}, "what stages differ in");
  const int rule = hyper("documents", {"contiguous", "cut"}, "how batches are cut");
  const Dist dist = distHyper();
  const int64_t Dh = D / H;

  struct Table {
    int64_t until, T, shortWindow, longWindow;
    double scale;
  };
  const int64_t scheduled = N - 1;
  Table stages[4] = {{(scheduled + 1) / 3, unit, unit / 4, unit * 3 / 4, 0.1},
                     {(2 * scheduled + 1) / 3, 2 * unit, unit * 3 / 4, unit * 7 / 4, 0.116946},
                     {scheduled, 3 * unit, unit * 5 / 4, unit * 11 / 4, 0.127518},
                     {N, 3 * unit, unit * 3 / 2, unit * 3, 0.131778}};
  if (sizes == 1)
    for (Table &stage : stages)
      stage = {stage.until, unit, unit / 4, unit * 3 / 4, 0.1};

  const Sched s = step();
  // ρ of the stages, falling to 0.15 from the middle of the run on.
  const double ends[3] = {double(stages[0].until), double(stages[1].until),
                          double(stages[2].until)};
  const Sched rho = select(s < ends[0], 1.0, select(s < ends[1], 1.52, 1.73));
  // The longest document of a sequence grows with the second stage.
  if (rule == 1)
    documents(
        {.rule = Documents::Cut, .longest = select(s < ends[0], double(unit) / 2, double(unit))});
  const Sched c = max(0.0, min(1.0, (s - 0.4 * scheduled) / (0.6 * scheduled)));
  const Sched rate = rho * (1 - c) + 0.15 * c;

  const auto matrices =
      muon("matrices", {.lr = 0.02 * rate, .momentum = 0.85 + 0.1 * min(s / 300, 1.0)});
  const auto rest =
      adam("rest", {.lr = 0.01 * rate, .beta1 = 0.8, .beta2 = 0.95, .every = adamEvery});
  const double b = sqrt(3.0) * 0.5 / sqrt(D);
  const Tensor embed = param("embed.weight", {V, D}, f32, normal(0, 0.5), rest);
  const Tensor qkv = param("attn.qkv", {3 * D, D}, f32, uniform(-b, b), matrices);
  const Tensor project = param("attn.out", {D, D}, f32, uniform(-b, b), matrices);
  const Tensor head = param("lm_head.weight", {V, D}, f32, normal(0, 0.05), rest);

  auto logits = [&](Tensor tokens, int k) {
    const int64_t T = tokens.size(0);
    const Table &stage = stages[k];
    // Rotary frequencies: those of the first stage, stretched at the beginning of each further one.
    const Tensor j = iota({Dh / 2}, 0, f32);
    Tensor f = exp(j * (-log(1024) / double(Dh / 2 - 1)));
    for (int i = 1; i <= k; ++i) {
      if (stages[i].longWindow == stages[i - 1].longWindow)
        continue;
      const double w = double(stages[i - 1].longWindow), longer = double(stages[i].longWindow);
      const Tensor share = max(min((f * (w / 6.283185307179586) - 1) / 31, 1.0), 0.0);
      f = f * (w / longer + share * (1 - w / longer));
    }
    const Tensor theta = reshape(iota({T, Dh / 2}, 0, f32) * f, {T, 1, Dh / 2});
    const Tensor cosine = cos(theta), sine = sin(theta);
    auto rope = [&](Tensor x) {
      const auto [first, second] = split<2>(x, 2);
      return cast(concat({first * cosine + second * sine, second * cosine - first * sine}, 2),
                  dtype);
    };
    const Tensor t = iota({T}), documentStart = cummax(select(tokens == 256, t, 0.0));

    Tensor x = cast(norm(embed[tokens]), dtype);
    for (int64_t window : {stage.shortWindow, stage.longWindow}) {
      const Tensor first = max(documentStart, t - double(window));
      const auto [q, k, v] = split<3>(reshape(linear(norm(x), qkv), {T, 3 * H, Dh}), 1);
      const Tensor y = attention(rope(norm(q)), rope(norm(k)), v,
                                 {.first = first, .last = t, .scale = stage.scale * sqrt(Dh)});
      x += linear(reshape(y, {T, D}), project);
    }
    return cast(linear(norm(x), head), f32);
  };
  auto lossOf = [&](int k) {
    // Weights of the next tokens: 1, ½(1 − τ) of the second in the first two stages.
    const double begin = k > 0 ? ends[k - 1] : 0, steps = double(stages[k].until) - begin;
    const bool hasSecond = k < 2 && sizes == 0;
    const Tensor second =
        hasSecond ? scalar({"weight.", k}, 0.5 * (1 - (s - begin) / steps), f32) : Tensor();
    return [=](Tensor tokens, Tensor targets) {
      const int64_t T = tokens.size(0);
      const Tensor z = logits(tokens, k);
      Tensor losses = crossEntropy(z, targets);
      if (hasSecond)
        losses += second * concat({crossEntropy(slice(z, 0, 0, T - 1), slice(targets, 0, 1, T - 1)),
                                   full({1}, 0, f32)},
                                  0);
      return losses;
    };
  };
  auto validation = [&](int k) {
    return [=](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens, k), targets); };
  };

  training({.vocabSize = V,
            .eosToken = 256,
            .globalBatch = only < 0 ? 0 : 8 * stages[only].T,
            .numIterations = N,
            .dist = dist,
            .logged = matrices});
  auto programs = [&](int k) {
    const Table &stage = stages[k];
    train(stage.T, Loss::sum, lossOf(k));
    validate(unit, Loss::mean, validation(k));
    generate(32, [&](Tensor tokens) { return logits(tokens, k); });
  };
  if (only >= 0)
    return programs(only);
  for (int k = 0; k < 4; ++k)
    stage({"s", k}, {.until = stages[k].until, .globalBatch = 8 * stages[k].T},
          [&] { programs(k); });
}
