// The NanoGPT speedrun's record 44, as MODEL_44.md states it: twelve layers of which the first does
// nothing and the eighth has no attention, smeared embeddings, gated heads, windows and rotary
// embeddings by stage, NorMuon for the matrices and gates, Adam on every second step for the rest.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 50257, "tokens; tables and head are padded to 128");
  const auto H = hyper("num_heads", 6, "attention heads");
  const auto Dh = hyper("head_dim", 128, "size of a head: a multiple of 4, at least 8", 8);
  const auto D = hyper("model_dim", 768, "width: num_heads · head_dim");
  const auto T = hyper("seq_len", 32768, "tokens in a training sequence");
  const auto valT = hyper("val_seq_len", 262144, "tokens in a validation sequence");
  const auto batch = hyper("global_batch", 8 * 32768, "tokens per optimizer step over all ranks");
  const auto N = hyper("num_iterations", 2245, "optimizer steps", 4);
  const auto extension = hyper("extension", 40, "the last of them: after the schedules' end");
  const auto eos = hyper("eos_token", 50256, "the token that begins a document", 0);
  const auto longest = hyper("longest_document", 2048, "tokens of a document at most, in training");
  const auto block = hyper("window_block", 128, "tokens in which windows are counted");
  const auto warmup = hyper("momentum_warmup", 300, "steps in which the momentum rises");
  const auto cooldown = hyper("momentum_cooldown", 50, "steps at the end in which it falls");
  const auto adamEps = hyper("adam_eps", 1e-8, "Adam's ε");
  const auto dtype = hyper("dtype", {bf16, f32}, "activation and compute type");
  const int fp8 = hyper("fp8", {"head", "off"}, "whose matrix products run in FP8 in training");
  const Dist dist = distHyper();
  const int gradients = hyper("gradients", {"stored", "wide"},
                              "the type that they are added up in: that of the parameter, or f32");
  const int update = hyper("update", {"apart", "joined"},
                           "optimizers as a program of their own, or as the end of the last "
                           "micro-batch's, which hides more communication");
  require(H * Dh == D, "model_dim must be num_heads times head_dim");
  require(Dh % 4 == 0, "head_dim must be a multiple of 4");
  require(D >= 12, "model_dim must be at least 12: gates read so many numbers");
  require(N >= extension + 3, "num_iterations must be at least 3 more than extension");
  constexpr int64_t L = 12, gateInputs = 12;

  // Stages: three thirds of the scheduled steps, then the rest. Each has its windows, as the last
  // validation has.
  const int64_t scheduled = N - extension;
  const int64_t ends[4] = {(scheduled + 2) / 3, (2 * scheduled + 2) / 3, scheduled, N};
  constexpr int64_t longBlocks[5] = {3, 7, 11, 13, 20}, shortBlocks[5] = {1, 3, 5, 6, 6};

  // Schedules at step s.
  const Sched s = step(), x = min(0.9999, s / double(scheduled));
  const Sched factor = select(x < 0.5, 1.0, 0.1 + 1.8 * (1 - x));
  const Sched momentum = 0.85 + 0.10 * min(s / double(warmup), 1.0) -
                         0.10 * max((s - double(N - cooldown)) / double(cooldown), 0.0);
  auto window = [&](const char *name, const int64_t *blocks) {
    Sched tokens = double(blocks[4] * block);
    for (int k = 3; k >= 0; --k)
      tokens = select(s < double(ends[k]), double(blocks[k] * block), tokens);
    return scalar(name, tokens, i32);
  };
  const Tensor longWindow = window("long_window", longBlocks),
               shortWindow = window("short_window", shortBlocks);

  // Adam takes the mean gradient of two steps, where the record has their sum: half its ε.
  auto adamOf = [&](const char *name, double multiple) {
    return adam(name, {.lr = 0.008 * multiple * factor,
                       .beta1 = 0.65,
                       .beta2 = 0.95,
                       .eps = adamEps / 2,
                       .every = 2,
                       .epsOfKept = true});
  };
  auto norMuonOf = [&](const char *name, double multiple, int64_t stack, DType states) {
    return norMuon(name, {.lr = 0.03 * multiple * factor,
                          .momentum = momentum,
                          .decay = 1.2 / multiple, // the record multiplies one of two rates alone
                          .computeType = dtype,
                          .columns = true,
                          .stack = stack,
                          .stateType = states});
  };
  const auto tables = adamOf("tables", 75), head = adamOf("head", 1),
             numbers = adamOf("numbers", 5);
  const auto attentions = norMuonOf("attentions", 1, 4, f32),
             mlpIns = norMuonOf("mlp_ins", 2, 1, f32), mlpOuts = norMuonOf("mlp_outs", 1, 1, f32),
             gates = norMuonOf("gates", 1, 1, dtype);

  // Parameters. W_Q, W_K, W_V and W_O, each [D, D], lie one behind the other.
  struct Layer {
    Tensor qkvo, gate, mlpIn, mlpOut;
  };
  const int64_t rows = (vocab + 127) / 128 * 128;
  const double b = sqrt(3.0) * 0.5 / sqrt(D);
  const Tensor embed = param("embed.weight", {rows, D}, dtype, normal(0, 1), tables);
  Tensor valueEmbeds[3];
  for (int n = 0; n < 3; ++n)
    valueEmbeds[n] = param({"value_embeds.", n, ".weight"}, {rows, D}, dtype, normal(0, 1), tables);
  const Tensor lmHead = param("lm_head.weight", {rows, D}, dtype, constant(0), head);
  const Tensor smearGate = param("smear_gate.weight", {1, gateInputs}, dtype, constant(0), gates);
  List<Layer> layers(L);
  for (int i = 1; i < L; ++i) {
    Layer &layer = layers[i];
    if (i != 7) {
      layer.qkvo = param(
          {"blocks.", i, ".attn.qkvo_w"}, {D, 4 * D}, f32,
          byBlocks(4, [&](int64_t m) { return m < 3 ? uniform(-b, b) : constant(0); }), attentions);
      layer.gate = param({"blocks.", i, ".attn.attn_gate.weight"}, {H, gateInputs}, dtype,
                         constant(0), gates);
    }
    layer.mlpIn = param({"blocks.", i, ".mlp.c_fc"}, {D, 4 * D}, f32, uniform(-b, b), mlpIns);
    layer.mlpOut = param({"blocks.", i, ".mlp.c_proj"}, {D, 4 * D}, f32, constant(0), mlpOuts);
  }
  // Skips into layers 6 to 10; λ of x and of x0, μ of v and of the value embedding, of each layer;
  // λ of smear and of the backout.
  auto initial = [=](int64_t i) {
    if (i < L)
      return -1.5;
    if (i < 3 * L)
      return double(1 - i % 2);
    return i < 5 * L ? 0.5 : i == 5 * L ? 0.0 : i == 5 * L + 1 ? 0.5 : 1.0;
  };
  constexpr int64_t count = (5 * L + 2 + 7) / 8 * 8;
  const Tensor scalars = param("scalars", {count}, f32, constants(count, initial), numbers);
  auto skip = [&](int64_t i) { return sigmoid(scalars[i - 6]); };
  auto lambda = [&](int64_t i, int64_t which) { return scalars[L + 2 * i + which]; };
  auto mu = [&](int64_t i, int64_t which) { return scalars[3 * L + 2 * i + which]; };
  const int64_t smear = 5 * L, backout = 5 * L + 1;

  if (fp8 == 0)
    fp8Products(lmHead, {.recipe = Fp8::Static,
                         .input = sqrt(D) / 448,
                         .weight = 1.0 / 512,
                         .gradient = 1.0 / 448});

  // Rotary frequencies and the scale of scores in each stage: YaRN, from one window to the next.
  Tensor frequencies[4];
  double scales[4];
  List<double> f(Dh / 2);
  for (int64_t j = 0; j < Dh / 2; ++j)
    f[j] = j < Dh / 4 ? exp(-log(1024) * double(j) / double(Dh / 4 - 1)) : 0;
  for (int k = 0; k < 4; ++k) {
    scales[k] = k > 0 ? scales[k - 1] : 0.1;
    if (k > 0) {
      const double w = double(longBlocks[k - 1] * block), longer = double(longBlocks[k] * block);
      for (double &value : f) {
        const double turns = w * value / 6.283185307179586, share = (turns - 1) / 31;
        value *= w / longer + (share < 0 ? 0 : share > 1 ? 1 : share) * (1 - w / longer);
      }
      scales[k] *= 1 + 0.2 * log(longer / w);
    }
    frequencies[k] =
        table({"frequencies.", k}, {Dh}, f32, [&](int64_t i) { return f[i % (Dh / 2)]; });
  }

  auto logits = [&](int k, Tensor tokens) {
    const int64_t T = tokens.size(0);

    // The second half of a head turns the other way; sines and cosines have the compute type.
    const Tensor c = iota({Dh}), theta = iota({T, Dh}, 0, f32) * frequencies[k];
    const Tensor signedSine = select(c < Dh / 2, sin(theta), -sin(theta));
    const Tensor cosine = cast(cast(reshape(cos(theta), {T, 1, Dh}), dtype), f32);
    const Tensor sine = cast(cast(reshape(signedSine, {T, 1, Dh}), dtype), f32);
    auto rope = [&](Tensor x) { return cast(x * cosine + rotate(x, Dh / 2) * sine, dtype); };

    // Keys that a query sees: from its document's start, or its window's, to itself.
    const Tensor t = iota({T}), documentStart = cummax(select(tokens == eos, t, 0.0));
    const Tensor firstLong = max(documentStart, t - longWindow),
                 firstShort = max(documentStart, t - shortWindow);

    // σ(W·u[:12]), a number for each row of W.
    auto gate = [&](Tensor u, Tensor w) { return sigmoid(linear(slice(u, 1, 0, gateInputs), w)); };

    auto attend = [&](int64_t i, Tensor u) {
      const Tensor w = reshape(layers[i].qkvo, {4, D, D});
      const Tensor qkv = linear(u, reshape(slice(w, 0, 0, 3), {3 * D, D}));
      auto [q, k_, v] = split<3>(reshape(qkv, {T, 3 * H, Dh}), 1);
      v = mu(i, 0) * v;
      if (i <= 2 || i >= 9)
        v += mu(i, 1) * reshape(valueEmbeds[i <= 2 ? i : i - 9][tokens], {T, H, Dh});
      Tensor y = attention(
          rope(norm(q)), rope(norm(k_)), cast(v, dtype),
          {.first = i == 4 || i == 11 ? firstLong : firstShort, .last = t, .scale = scales[k]});
      y *= reshape(gate(u, layers[i].gate), {T, H, 1});
      return linear(reshape(y, {T, D}), w[3]);
    };

    // Each token's embedding has some of the one before it, the first of none.
    const Tensor e = embed[tokens];
    const Tensor before = concat({full({1, D}, 0, dtype), slice(e, 0, 0, T - 1)}, 0);
    const Tensor x0 = norm(cast(e + scalars[smear] * gate(e, smearGate) * before, dtype));
    Tensor x = x0;
    List<Tensor> outputs(L);
    for (int i = 1; i < L; ++i) {
      const Layer &p = layers[i];
      if (i >= 6 && i <= 10)
        x = cast(x + skip(i) * outputs[11 - i], dtype);
      x = cast(lambda(i, 0) * x + lambda(i, 1) * x0, dtype);
      if (i != 7)
        x += attend(i, norm(x));
      x += linear(square(relu(matmul(norm(x), cast(p.mlpIn, dtype)))), p.mlpOut);
      outputs[i] = x;
    }
    x = norm(cast(x - scalars[backout] * outputs[8], dtype));
    return 30.0 * sigmoid(cast(linear(x, lmHead), f32) / 7.5);
  };

  documents({.rule = Documents::Cut, .longest = double(longest)});
  training({.vocabSize = vocab,
            .eosToken = eos,
            .globalBatch = batch,
            .numIterations = N,
            .dist = dist,
            .gradients = gradients == 0 ? Gradients::stored : Gradients::wide,
            .joinUpdate = update == 1,
            .logged = attentions});
  for (int k = 0; k < 4; ++k)
    stage({"stage", k}, {.until = ends[k]}, [&] {
      auto loss = [&](Tensor tokens, Tensor targets) {
        return crossEntropy(logits(k, tokens), targets);
      };
      train(T, Loss::sum, loss);
      validate(valT, Loss::mean, loss);
      generate(min(T, 1024), [&](Tensor tokens) { return logits(k, tokens); });
    });
}
