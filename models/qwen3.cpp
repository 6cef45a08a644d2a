// Qwen3, dense: as Llama, but every head's query and key are normalised, with a scale, before they
// turn, heads have a size of their own, and the head may be the embedding. AdamW. Parameters have
// HuggingFace's names and shapes. The default sizes are those of Qwen3-0.6B.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 151936, "tokens");
  const auto L = hyper("num_layers", 28, "layers");
  const auto H = hyper("num_heads", 16, "heads of queries");
  const auto Hk = hyper("num_kv_heads", 8, "heads of keys and values: a divisor of num_heads");
  const auto Dh = hyper("head_dim", 128, "size of a head: even; not model_dim / num_heads");
  const auto D = hyper("model_dim", 1024, "width of the residual stream");
  const auto F = hyper("ffn_dim", 3072, "width of the MLP");
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
  const auto eps = hyper("norm_eps", 1e-6, "RMSNorm's ε");
  const bool tied =
      0 == hyper("tied", {"yes", "no"}, "whether the head's weight is the embedding's");
  const auto base = hyper("rope_theta", 1e6, "the base of the rotary frequencies");
  const auto eos =
      hyper("eos_token", 151645, "the token that ends a document; the mask does not use it", 0);
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

  // Schedule at step s of N: warm-up, then half a cosine.
  const Sched s = step(), N = iterations();
  const Sched progress = (s - warmup) / max(N - warmup, 1.0);
  const double least = learningRate * finalFraction, pi = 3.141592653589793;
  const Sched lr = select(s < warmup, learningRate * (s + 1) / max(warmup, 1),
                          least + 0.5 * (1 + cos(pi * progress)) * (learningRate - least));
  const auto matrices = adam("matrices", {lr, beta1, beta2, adamEps, weightDecay});
  const auto vectors = adam("vectors", {lr, beta1, beta2, adamEps, 0});

  // Parameters.
  auto weight = [&](const Name &name, int64_t rows, int64_t columns) {
    return param(name, {rows, columns}, f32, normal(0, 0.02), matrices);
  };
  auto scale = [&](const Name &name, int64_t size) {
    return param(name, {size}, f32, constant(1), vectors);
  };
  struct Layer {
    Tensor attentionNorm, q, k, v, o, queryNorm, keyNorm, mlpNorm, gate, up, down;
  };
  List<Layer> layers(L);
  const Tensor embedding = weight("model.embed_tokens.weight", vocab, D);
  for (int i = 0; i < L; ++i)
    layers[i] = {
        .attentionNorm = scale({"model.layers.", i, ".input_layernorm.weight"}, D),
        .q = weight({"model.layers.", i, ".self_attn.q_proj.weight"}, H * Dh, D),
        .k = weight({"model.layers.", i, ".self_attn.k_proj.weight"}, Hk * Dh, D),
        .v = weight({"model.layers.", i, ".self_attn.v_proj.weight"}, Hk * Dh, D),
        .o = weight({"model.layers.", i, ".self_attn.o_proj.weight"}, D, H * Dh),
        .queryNorm = scale({"model.layers.", i, ".self_attn.q_norm.weight"}, Dh),
        .keyNorm = scale({"model.layers.", i, ".self_attn.k_norm.weight"}, Dh),
        .mlpNorm = scale({"model.layers.", i, ".post_attention_layernorm.weight"}, D),
        .gate = weight({"model.layers.", i, ".mlp.gate_proj.weight"}, F, D),
        .up = weight({"model.layers.", i, ".mlp.up_proj.weight"}, F, D),
        .down = weight({"model.layers.", i, ".mlp.down_proj.weight"}, D, F),
    };
  const Tensor lastNorm = scale("model.norm.weight", D);
  const Tensor head = tied ? embedding : weight("lm_head.weight", vocab, D);

  if (fp8 == Head || fp8 == All)
    fp8Products(head, products);
  for (const Layer &p : layers) {
    if (fp8 == All)
      for (const Tensor &w : {p.q, p.k, p.v, p.o})
        fp8Products(w, products);
    if (fp8 == Mlp || fp8 == All)
      for (const Tensor &w : {p.gate, p.up, p.down})
        fp8Products(w, products);
  }

  auto logits = [&](Tensor tokens) {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T}), rowStart = t / block * block;
    // The second half of a head turns the first, and the first the second, the other way.
    const Tensor c = iota({Dh}), j = select(c < Dh / 2, c, c - Dh / 2);
    const Tensor frequencies = exp(cast(j, f32) * (-2 * log(base) / Dh)); // radians a position
    const Tensor theta = reshape(cast(t - rowStart, f32), {T, 1}) * frequencies;
    const Tensor cosine = reshape(cos(theta), {T, 1, Dh});
    const Tensor sine = reshape(select(c < Dh / 2, -sin(theta), sin(theta)), {T, 1, Dh});
    auto rope = [&](Tensor x) { return cast(x * cosine + rotate(x, Dh / 2) * sine, dtype); };
    auto scaledNorm = [&](Tensor x, Tensor scale) {
      return cast(norm(cast(x, f32), eps) * scale, dtype);
    };
    Tensor x = cast(embedding[tokens], dtype);
    for (const Layer &p : layers) {
      const Tensor h = scaledNorm(x, p.attentionNorm);
      const Tensor q = rope(scaledNorm(reshape(linear(h, p.q), {T, H, Dh}), p.queryNorm)),
                   k = rope(scaledNorm(reshape(linear(h, p.k), {T, Hk, Dh}), p.keyNorm)),
                   v = reshape(linear(h, p.v), {T, Hk, Dh});
      const Tensor y = attention(q, k, v, {.first = rowStart, .last = t, .scale = 1 / sqrt(Dh)});
      x += linear(reshape(y, {T, H * Dh}), p.o);
      const Tensor m = scaledNorm(x, p.mlpNorm);
      const Tensor gate = cast(linear(m, p.gate), f32), up = linear(m, p.up);
      x += linear(cast(gate * sigmoid(gate) * up, dtype), p.down);
    }
    return cast(linear(scaledNorm(x, lastNorm), head), f32);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };

  // HuggingFace's folders (Qwen3ForCausalLM); versions before 5 keep the rotary settings elsewhere.
  if (tied)
    unusedInCheckpoints("lm_head.weight"); // the embedding's
  config("architectures", ConfigValue::list("Qwen3ForCausalLM"), {.check = ConfigRule::Nothing});
  config("model_type", "qwen3");
  config("vocab_size", vocab, {.hyper = "vocab_size"});
  config("num_hidden_layers", L, {.hyper = "num_layers"});
  config("num_attention_heads", H, {.hyper = "num_heads"});
  config("num_key_value_heads", Hk, {.hyper = "num_kv_heads", .absent = H});
  config("head_dim", Dh, {.hyper = "head_dim", .absent = 128});
  config("hidden_size", D, {.hyper = "model_dim"});
  config("intermediate_size", F, {.hyper = "ffn_dim"});
  config("hidden_act", "silu", {.absent = "silu"});
  config("rms_norm_eps", eps, {.hyper = "norm_eps", .absent = 1e-6});
  config("attention_bias", false, {.absent = false});
  config("use_sliding_window", false, {.absent = false});
  config("tie_word_embeddings", tied, {.hyper = "tied", .absent = false});
  config("max_position_embeddings", block, {.check = ConfigRule::Nothing});
  config("eos_token_id", eos, {.check = ConfigRule::Nothing});
  config("rope_theta", base,
         {.hyper = "rope_theta", .also = {"rope_parameters.rope_theta"}, .absent = 10000.0});
  config("rope_scaling.rope_type", "default",
         {.also = {"rope_scaling.type", "rope_parameters.rope_type"}, .absent = "default"});

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
