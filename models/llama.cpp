// Llama 2 and 3, TinyLlama, Mistral: RMSNorm, rotary positions, grouped queries (fewer heads of
// keys and values), SwiGLU, no biases, AdamW. Parameters have HuggingFace's names and shapes. The
// default sizes are TinyLlama's, 1.1 B.
#include "models/optimizers.h"

using namespace nano::frontend;

#ifndef NANO_LLAMA_PARAMETERS
/// How the page declares its parameters and a layer's matrices, which `linear` takes. A page that
/// includes this one may have another (models/lora.cpp).
struct Parameters {
  using Matrix = Tensor;
  Tensor parameter(const Name &name, const Shape &shape, const Init &init, const Optimizer &group,
                   Line at = Line::here()) const {
    return param(name, shape, f32, init, group, at);
  }
  Matrix matrix(const Name &name, const Name &, const Shape &shape, const Init &init,
                const Optimizer &group, Line at = Line::here()) const {
    return parameter(name, shape, init, group, at);
  }
};
#endif

#ifndef NANO_LLAMA_OBJECTIVE
/// What a training sequence minimizes: the mean of what this makes of its tokens' cross-entropies,
/// f32 [T]. A page that includes this one may have another (models/grpo.cpp).
struct Objective {
  const int masked = hyper("loss_mask", {"no", "yes"},
                           "whether those targets alone count that the data's column mask has");
  /// Whether that is the mean of the means of a sequence's rows, however many it has.
  bool isMeanOfRows() const { return !masked; }
  /// Whether documents of a row belong together, as they stand in the data.
  bool isOfRows() const { return false; }
  Tensor operator()(const Tensor &losses) const {
    if (!masked)
      return losses;
    // So that the mean over the sequence is that over the targets that count.
    const Tensor counts = cast(column("mask", u8), f32);
    return losses * counts * (double(losses.size(0)) / max(sum(counts), 1.0));
  }
};
#endif

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 32000, "tokens");
  const auto L = hyper("num_layers", 22, "layers");
  const auto H = hyper("num_heads", 32, "heads of queries");
  const auto Hk = hyper("num_kv_heads", 4, "heads of keys and values: a divisor of num_heads");
  const auto Dh = hyper("head_dim", 64, "size of a head: even");
  const auto D = hyper("model_dim", 2048, "width of the residual stream");
  const auto F = hyper("ffn_dim", 5632, "width of the MLP");
  const auto block = hyper("block_size", 2048, "positions in a row; rows do not see each other");
  const auto T = hyper("seq_len", 16384, "tokens in a training sequence: rows of block_size");
  const auto valT =
      hyper("val_seq_len", 16384, "tokens in a validation sequence: rows of block_size");
  const auto batch = hyper("global_batch", 524288, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 20000, "optimizer steps");
  const auto learningRate = hyper("learning_rate", 4e-4, "learning rate after warm-up");
  const auto warmup = hyper("warmup_iters", 500, "steps of linear warm-up", 0);
  const auto finalFraction =
      hyper("final_lr_frac", 0.1, "learning rate at the end, as a fraction of learning_rate");
  const auto weightDecay = hyper("weight_decay", 0.1, "of matrices");
  const auto beta1 = hyper("beta1", 0.9, "AdamW's β₁"), beta2 = hyper("beta2", 0.95, "AdamW's β₂");
  const auto adamEps = hyper("adam_eps", 1e-8, "AdamW's ε");
  const auto gradClip =
      hyper("grad_clip", 1.0, "largest norm of all gradients together; 0: no limit");
  const auto eps = hyper("norm_eps", 1e-5, "RMSNorm's ε");
  const int tied = hyper("tied", {"no", "yes"}, "whether the head's weight is the embedding's");
  const auto base = hyper("rope_theta", 10000.0, "the base of the rotary frequencies");
  enum { Plain, Linear, Llama3 };
  const int scaling = hyper("rope_scaling", {"none", "linear", "llama3"},
                            "how rotary frequencies are changed for longer rows");
  const auto factor = hyper("rope_factor", 8.0, "scaling: what low frequencies are divided by"),
             lowFactor =
                 hyper("rope_low_freq_factor", 1.0, "llama3: fewest turns in a row as it was"),
             highFactor =
                 hyper("rope_high_freq_factor", 4.0, "llama3: turns from which nothing changes");
  const auto original = hyper("rope_original_block", 8192, "llama3: block_size as it was");
  const auto eos = hyper("eos_token", 2, "the token that begins a document", 0);
  const auto rule = hyper("documents", {"contiguous", "aligned", "cut", "packed"},
                          "how training batches are cut: docs/data.md");
  const int shuffle = hyper("shuffle_documents", {"no", "yes"},
                            "whether each epoch has its own order of documents; cut and packed");
  const int apart = hyper("document_mask", {"no", "yes"},
                          "whether the keys before a document are hidden from it");
  const Objective objective;
  const auto dtype = hyper("dtype", {bf16, f32}, "activation and compute type");
  enum { Off, Head, Mlp, All };
  const int fp8 = hyper("fp8", {"off", "head", "mlp", "all"},
                        "whose matrix products run in FP8 in training: the head's, the MLPs', all");
  const Fp8 products = fp8Hyper();
  const Dist dist = distHyper();
  require(H % Hk == 0, "num_heads must be a multiple of num_kv_heads");
  require(Dh % 2 == 0, "head_dim must be even");
  require(T % block == 0 && valT % block == 0,
          "seq_len and val_seq_len must be multiples of block_size");
  require(!objective.isOfRows() || rule == Documents::Contiguous,
          "documents must be contiguous: other rules part documents that the loss compares");

  // Schedule at step s of N: warm-up, then half a cosine.
  const Sched s = step(), N = iterations();
  const Sched progress = (s - warmup) / max(N - warmup, 1.0);
  const double least = learningRate * finalFraction, pi = 3.141592653589793;
  const Sched lr = select(s < warmup, learningRate * (s + 1) / max(warmup, 1),
                          least + 0.5 * (1 + cos(pi * progress)) * (learningRate - least));
  const auto matrices = adam("matrices", {lr, beta1, beta2, adamEps, weightDecay});
  const auto vectors = adam("vectors", {lr, beta1, beta2, adamEps, 0});

  // Parameters.
  const Parameters parameters;
  auto weight = [&](const Name &name, int64_t rows, int64_t columns) {
    return parameters.parameter(name, {rows, columns}, normal(0, 0.02), matrices);
  };
  auto scale = [&](const Name &name) {
    return parameters.parameter(name, {D}, constant(1), vectors);
  };
  struct Layer {
    Tensor attentionNorm, mlpNorm;
    Parameters::Matrix q, k, v, o, gate, up, down;
  };
  List<Layer> layers(L);
  const Tensor embedding = weight("model.embed_tokens.weight", vocab, D);
  for (int i = 0; i < L; ++i) {
    auto matrix = [&](const char *name, int64_t rows, int64_t columns) {
      return parameters.matrix({"model.layers.", i, name, ".weight"}, {"model.layers.", i, name},
                               {rows, columns}, normal(0, 0.02), matrices);
    };
    Layer &layer = layers[i];
    layer.attentionNorm = scale({"model.layers.", i, ".input_layernorm.weight"});
    layer.q = matrix(".self_attn.q_proj", H * Dh, D);
    layer.k = matrix(".self_attn.k_proj", Hk * Dh, D);
    layer.v = matrix(".self_attn.v_proj", Hk * Dh, D);
    layer.o = matrix(".self_attn.o_proj", D, H * Dh);
    layer.mlpNorm = scale({"model.layers.", i, ".post_attention_layernorm.weight"});
    layer.gate = matrix(".mlp.gate_proj", F, D);
    layer.up = matrix(".mlp.up_proj", F, D);
    layer.down = matrix(".mlp.down_proj", D, F);
  }
  const Tensor lastNorm = scale("model.norm.weight");
  const Tensor head = tied ? embedding : weight("lm_head.weight", vocab, D);

  if (fp8 == Head || fp8 == All)
    fp8Products(head, products);
  for (const Layer &p : layers) {
    if (fp8 == All)
      for (const auto &w : {p.q, p.k, p.v, p.o})
        fp8Products(w, products);
    if (fp8 == Mlp || fp8 == All)
      for (const auto &w : {p.gate, p.up, p.down})
        fp8Products(w, products);
  }

  // Frequency j of Dh/2 in radians a position; Llama 3.1 divides those that turn too seldom in a
  // row of the original length, and blends between (transformers, modeling_rope_utils.py).
  auto frequencies = [&](Tensor j) {
    const Tensor plain = exp(cast(j, f32) * (-2 * log(base) / Dh));
    if (scaling == Plain)
      return plain;
    const Tensor low = plain / factor;
    if (scaling == Linear)
      return low;
    const Tensor turns = plain * (original / (2 * pi));
    const Tensor blend = (turns - lowFactor) / (highFactor - lowFactor);
    return select(turns < lowFactor, low,
                  select(turns > highFactor, plain, (1.0 - blend) * low + blend * plain));
  };

  auto logits = [&](Tensor tokens) {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T}), rowStart = t / block * block;
    const Tensor first = apart ? max(rowStart, cummax(select(tokens == eos, t, 0.0))) : rowStart;
    // The second half of a head turns the first, and the first the second, the other way.
    const Tensor c = iota({Dh}), j = select(c < Dh / 2, c, c - Dh / 2);
    const Tensor theta = reshape(cast(t - rowStart, f32), {T, 1}) * frequencies(j);
    const Tensor cosine = reshape(cos(theta), {T, 1, Dh});
    const Tensor sine = reshape(select(c < Dh / 2, -sin(theta), sin(theta)), {T, 1, Dh});
    auto rope = [&](Tensor x) { return cast(x * cosine + rotate(x, Dh / 2) * sine, dtype); };
    auto scaledNorm = [&](Tensor x, Tensor scale) {
      return cast(norm(cast(x, f32), eps) * scale, dtype);
    };
    Tensor x = cast(embedding[tokens], dtype);
    for (const Layer &p : layers) {
      const Tensor h = scaledNorm(x, p.attentionNorm);
      const Tensor q = rope(reshape(linear(h, p.q), {T, H, Dh})),
                   k = rope(reshape(linear(h, p.k), {T, Hk, Dh})),
                   v = reshape(linear(h, p.v), {T, Hk, Dh});
      const Tensor y = attention(q, k, v, {.first = first, .last = t, .scale = 1 / sqrt(Dh)});
      x += linear(reshape(y, {T, H * Dh}), p.o);
      const Tensor m = scaledNorm(x, p.mlpNorm);
      const Tensor gate = cast(linear(m, p.gate), f32), up = linear(m, p.up);
      x += linear(cast(gate * sigmoid(gate) * up, dtype), p.down);
    }
    return cast(linear(scaledNorm(x, lastNorm), head), f32);
  };
  auto loss = [&](Tensor tokens, Tensor targets) {
    return objective(crossEntropy(logits(tokens), targets));
  };

  // HuggingFace's folders: LlamaForCausalLM, and MistralForCausalLM, which differs in that a query
  // sees no more than sliding_window keys. Versions before 5 keep the rotary settings elsewhere.
  unusedInCheckpoints("model.layers.*.self_attn.rotary_emb.inv_freq");
  if (tied)
    unusedInCheckpoints("lm_head.weight"); // the embedding's
  config("architectures", ConfigValue::list("LlamaForCausalLM"), {.check = ConfigRule::Nothing});
  config("model_type", "llama", {.orElse = "mistral"});
  config("vocab_size", vocab, {.hyper = "vocab_size"});
  config("num_hidden_layers", L, {.hyper = "num_layers"});
  config("num_attention_heads", H, {.hyper = "num_heads"});
  config("num_key_value_heads", Hk, {.hyper = "num_kv_heads", .absent = H});
  config("head_dim", Dh,
         {.hyper = "head_dim", .absent = D % H == 0 ? ConfigValue(D / H) : ConfigValue()});
  config("hidden_size", D, {.hyper = "model_dim"});
  config("intermediate_size", F, {.hyper = "ffn_dim"});
  config("hidden_act", "silu", {.absent = "silu"});
  config("rms_norm_eps", eps, {.hyper = "norm_eps", .absent = 1e-6});
  config("attention_bias", false, {.absent = false});
  config("mlp_bias", false, {.absent = false});
  config("tie_word_embeddings", tied == 1, {.hyper = "tied", .absent = false});
  config("sliding_window", block, {.check = ConfigRule::AtLeast, .written = false});
  config("max_position_embeddings", block, {.check = ConfigRule::Nothing});
  config("eos_token_id", eos, {.check = ConfigRule::Nothing});
  config("rope_theta", base,
         {.hyper = "rope_theta", .also = {"rope_parameters.rope_theta"}, .absent = 10000.0});
  config("partial_rotary_factor", 1.0,
         {.also = {"rope_parameters.partial_rotary_factor"}, .absent = 1.0, .written = false});
  config("rope_scaling.rope_type",
         scaling == Plain    ? "default"
         : scaling == Linear ? "linear"
                             : "llama3",
         {.hyper = "rope_scaling",
          .also = {"rope_scaling.type", "rope_parameters.rope_type"},
          .absent = "default"});
  auto ropeSetting = [&](bool used, const char *name, const char *other, ConfigValue value,
                         const char *hyper) {
    config(name, value,
           {.check = used ? ConfigRule::Equal : ConfigRule::Nothing,
            .hyper = hyper,
            .also = {other},
            .written = used});
  };
  const bool isLlama3 = scaling == Llama3;
  ropeSetting(scaling != Plain, "rope_scaling.factor", "rope_parameters.factor", factor,
              "rope_factor");
  ropeSetting(isLlama3, "rope_scaling.low_freq_factor", "rope_parameters.low_freq_factor",
              lowFactor, "rope_low_freq_factor");
  ropeSetting(isLlama3, "rope_scaling.high_freq_factor", "rope_parameters.high_freq_factor",
              highFactor, "rope_high_freq_factor");
  ropeSetting(isLlama3, "rope_scaling.original_max_position_embeddings",
              "rope_parameters.original_max_position_embeddings", original, "rope_original_block");

  documents({.rule = Documents::Rule(rule), .shuffle = shuffle == 1});
  if (objective.isMeanOfRows() && rule == Documents::Contiguous)
    microBatch("seq_len", block);
  training({.vocabSize = vocab,
            .eosToken = eos,
            .globalBatch = batch,
            .numIterations = steps,
            .gradClip = gradClip,
            .dist = dist});
  train(T, Loss::mean, loss);
  validate(valT, Loss::mean, loss);
  generate(block, logits);
}
