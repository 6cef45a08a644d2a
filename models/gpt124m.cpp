// The NanoGPT speedrun's 124M model and its training step, as MODEL.md states them: value
// embeddings, skip connections, sliding windows over packed documents, Muon for the matrices and
// Adam for the rest.
#include "models/optimizers.h"

using namespace nano::frontend;

#ifndef NANO_SPEEDRUN_RECORD
/// What records of the speedrun do differently: where the numbers are that weigh streams, and which
/// Adam there is. A page that includes this one may have another (models/speedrun26.cpp).
struct Record {
  using Numbers = Tensor;
  static constexpr const char *groupName = "scalars";
  int64_t layers;
  Optimizer group;
  Numbers valueMix(int64_t i) const {
    return param({"blocks.", i, ".attn.lambdas"}, {2}, f32, constant(0.5), group);
  }
  Numbers mix(int64_t i) const {
    return param({"blocks.", i, ".lambdas"}, {2}, f32, constants({1, 0}), group);
  }
  Numbers skips() const { return param("skip_weights", {layers / 2}, f32, constant(1), group); }
  static Optimizer adam(const char *name, const Adam &how) {
    return nano::frontend::adam(name, how);
  }
};
#endif

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 50257, "tokens; the head is padded to a multiple of 128");
  const auto L = hyper("num_layers", 12, "layers: even, at least 6", 6);
  const auto H = hyper("num_heads", 6, "attention heads");
  const auto Dh = hyper("head_dim", 128, "size of a head: a multiple of 4, at least 8", 8);
  const auto D = hyper("model_dim", 768, "width of the residual stream");
  const auto T = hyper("seq_len", 49152, "tokens in a training sequence: a multiple of 128");
  const auto valT =
      hyper("val_seq_len", 262144, "tokens in a validation sequence: a multiple of 128");
  const auto batch = hyper("global_batch", 8 * 49152, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 1770, "optimizer steps");
  const auto eos = hyper("eos_token", 50256, "the token that begins a document", 0);
  const auto dtype = hyper("dtype", {bf16, f32}, "activation and compute type");
  enum { Off, Head, Mlp, All };
  const int fp8 = hyper("fp8", {"off", "head", "mlp", "all"},
                        "whose matrix products run in FP8 in training: the head's, the MLPs', all");
  const Fp8 scaling = fp8Hyper();
  const Dist dist = distHyper();
  const int update = hyper("update", {"apart", "joined"},
                           "optimizers as a program of their own, or as the end of the last "
                           "micro-batch's, which hides more communication");
  const auto adamEvery = hyper("adam_every", 1, "optimizer steps for each step of Adam");
  const int rule =
      hyper("documents", {"contiguous", "aligned"}, "where training sequences begin: docs/data.md");
  const int padsTables =
      hyper("pad_tables", {"no", "yes"}, "whether embeddings are padded like the head");
  const auto cooldown = hyper("cooldown", 0.4, "part of the steps in which the rate falls to 0.1");
  const auto adamEps = hyper("adam_eps", 1e-10, "Adam's ε");
  require(L % 2 == 0, "num_layers must be even");
  require(Dh % 4 == 0, "head_dim must be a multiple of 4");
  require(T % 128 == 0 && valT % 128 == 0, "seq_len and val_seq_len must be multiples of 128");

  // Schedules at step s of N. The window is counted in blocks of 128 positions.
  const Sched s = step(), N = iterations();
  const Sched decay = min(1.0, 0.1 + 0.9 * max(1 - s / N, 0.0) / cooldown);
  const Tensor window = scalar("window", ceil(max(1728 * s / N, 1.0) / 128), i32);

  const auto matrices =
      muon("blocks",
           {.lr = 0.05 * decay, .momentum = 0.85 + 0.10 * min(s / 300, 1.0), .computeType = dtype});
  auto group = [&](const char *name, double lr) {
    return Record::adam(
        name, {.lr = lr * decay, .beta1 = 0.8, .beta2 = 0.95, .eps = adamEps, .every = adamEvery});
  };
  const auto embeddings = group("embeddings", 0.6), head = group("head", 0.22),
             scalars = group(Record::groupName, 0.04);

  // Parameters.
  const double b = sqrt(3.0) * 0.5 / sqrt(D);
  struct Layer {
    Tensor qkv, project, mlpIn, mlpOut;
    Record::Numbers valueMix, mix;
  };
  const Record record{L, scalars};
  const int64_t padded = (vocab + 127) / 128 * 128, rows = padsTables ? padded : vocab;
  List<Layer> layers(L);
  const Tensor embed = param("embed.weight", {rows, D}, dtype, normal(0, 1), embeddings);
  Tensor valueEmbeds[3];
  for (int k = 0; k < 3; ++k)
    valueEmbeds[k] =
        param({"value_embeds.", k, ".weight"}, {rows, H * Dh}, dtype, normal(0, 1), embeddings);
  for (int i = 0; i < L; ++i) {
    Layer &layer = layers[i];
    if (i != 7) {
      layer.qkv =
          param({"blocks.", i, ".attn.qkv_w"}, {3, H * Dh, D}, f32, uniform(-b, b), matrices);
      layer.valueMix = record.valueMix(i);
      layer.project =
          param({"blocks.", i, ".attn.c_proj.weight"}, {D, H * Dh}, f32, constant(0), matrices);
    }
    layer.mlpIn =
        param({"blocks.", i, ".mlp.c_fc.weight"}, {4 * D, D}, f32, uniform(-b, b), matrices);
    layer.mlpOut =
        param({"blocks.", i, ".mlp.c_proj.weight"}, {D, 4 * D}, f32, constant(0), matrices);
    layer.mix = record.mix(i);
  }
  const Tensor lmHead = param("lm_head.weight", {padded, D}, f32, constant(0), head);
  const Record::Numbers skipWeights = record.skips();

  if (fp8 == Head || fp8 == All)
    fp8Products(lmHead, {.recipe = Fp8::Static,
                         .input = sqrt(D) / 448,
                         .weight = 24.0 / 448,
                         .gradient = 1.0 / 448});
  for (int i = 0; i < L; ++i) {
    if (fp8 == All && i != 7) {
      fp8Products(layers[i].qkv, scaling);
      fp8Products(layers[i].project, scaling);
    }
    if (fp8 == Mlp || fp8 == All) {
      fp8Products(layers[i].mlpIn, scaling);
      fp8Products(layers[i].mlpOut, scaling);
    }
  }

  auto logits = [&](Tensor tokens) {
    const int64_t T = tokens.size(0);

    // Rotary embedding, θ = position · frequency; the second half of a head turns the other way.
    const Tensor c = iota({Dh}), j = select(c < Dh / 2, c, c - Dh / 2);
    const Tensor frequency =
        select(j < Dh / 4, exp(cast(j, f32) * (-log(1024) / (Dh / 4 - 1))), 0.0);
    const Tensor theta = iota({T, Dh}, 0, f32) * frequency;
    const Tensor cosine = reshape(cos(theta), {T, 1, Dh});
    const Tensor sine = reshape(select(c < Dh / 2, sin(theta), -sin(theta)), {T, 1, Dh});
    auto rope = [&](Tensor x) { return cast(x * cosine + rotate(x, Dh / 2) * sine, dtype); };

    // Keys that a query sees: from its document's start, or its window's, to itself.
    const Tensor t = iota({T}), documentStart = cummax(select(tokens == eos, t, 0.0));
    auto firstIn = [&](Tensor blocks) { return max(documentStart, (t / 128 - blocks + 1) * 128); };
    const Tensor firstLong = firstIn(window), firstShort = firstIn(max(window / 2, 1.0));
    auto isLong = [&](int64_t i) {
      return i == 0 || i == L / 3 || i == 2 * L / 3 - 1 || i == L - 1;
    };

    auto attend = [&](int64_t i, Tensor h) {
      const Layer &p = layers[i];
      auto [q, k, v] =
          split<3>(reshape(linear(h, reshape(p.qkv, {3 * H * Dh, D})), {T, 3 * H, Dh}), 1);
      const int64_t ve = i < 3 ? i : i - (L - 3);
      v = ve < 0 ? cast(p.valueMix[0] * v, dtype)
                 : cast(p.valueMix[0] * v +
                            p.valueMix[1] * reshape(valueEmbeds[ve][tokens], {T, H, Dh}),
                        dtype);
      const Tensor y =
          attention(rope(norm(q)), rope(norm(k)), v,
                    {.first = isLong(i) ? firstLong : firstShort, .last = t, .scale = 0.12});
      return linear(reshape(y, {T, H * Dh}), p.project);
    };

    const Tensor x0 = norm(embed[tokens]);
    Tensor x = x0;
    List<Tensor> outputs(L);
    for (int i = 0; i < L; ++i) {
      const Layer &p = layers[i];
      if (i >= L / 2)
        x = cast(x + skipWeights[i - L / 2] * outputs[L - 1 - i], dtype);
      x = cast(p.mix[0] * x + p.mix[1] * x0, dtype);
      if (i != 7)
        x += attend(i, norm(x));
      x += linear(square(relu(linear(norm(x), p.mlpIn))), p.mlpOut);
      outputs[i] = x;
    }
    const Tensor z = linear(norm(x), lmHead);
    return 30.0 * sigmoid(cast(z, f32) / (7.5 * sqrt(D)));
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };

  documents({.rule = Documents::Rule(rule)});
  training({.vocabSize = vocab,
            .eosToken = eos,
            .globalBatch = batch,
            .numIterations = steps,
            .dist = dist,
            .joinUpdate = update == 1,
            .logged = matrices});
  train(T, Loss::sum, loss);
  validate(valT, Loss::mean, loss);
  generate(min(T, 1024), logits);
}
