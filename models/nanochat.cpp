// nanochat (Karpathy 2025) as transformers has it: RMSNorm without scales, of the embedding too
// and, after they turn, of queries and keys, relu², logits within ±15, no biases; Muon for the
// layers' matrices, Adam for embedding and head. Parameters have HuggingFace's names and shapes.
// The default sizes are those of depth 20, 560 M.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 65536, "tokens");
  const auto L = hyper("num_layers", 20, "layers");
  const auto H = hyper("num_heads", 10, "heads of queries");
  const auto Hk = hyper("num_kv_heads", 10, "heads of keys and values: a divisor of num_heads");
  const auto D =
      hyper("model_dim", 1280, "width of the residual stream: num_heads times an even number");
  const auto F = hyper("ffn_dim", 5120, "width of the MLP");
  const auto block = hyper("block_size", 2048, "positions in a row; rows do not see each other");
  const auto T = hyper("seq_len", 16384, "tokens in a training sequence: rows of block_size");
  const auto valT =
      hyper("val_seq_len", 16384, "tokens in a validation sequence: rows of block_size");
  const auto batch = hyper("global_batch", 524288, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 21400, "optimizer steps");
  const auto matrixRate = hyper("matrix_lr", 0.02, "learning rate of the layers' matrices");
  const auto embeddingRate =
      hyper("embedding_lr", 0.2, "learning rate of the embedding where model_dim is 768");
  const auto headRate =
      hyper("unembedding_lr", 0.004, "learning rate of the head where model_dim is 768");
  const auto warmdown = hyper("warmdown_ratio", 0.2, "last part of the steps, of falling rates");
  const auto adamEps = hyper("adam_eps", 1e-10, "Adam's ε");
  const auto gradClip =
      hyper("grad_clip", 1.0, "largest norm of all gradients together; 0: no limit");
  const auto eps = hyper("norm_eps", 1e-6, "RMSNorm's ε");
  const auto base = hyper("rope_theta", 10000.0, "the base of the rotary frequencies");
  const auto cap = hyper("softcap", 15.0, "logits lie between its negative and it");
  const auto eos =
      hyper("eos_token", 0, "the token that begins a document; the mask does not use it", 0);
  const auto dtype = hyper("dtype", {bf16, f32}, "activation and compute type");
  const Dist dist = distHyper();
  require(H % Hk == 0, "num_heads must be a multiple of num_kv_heads");
  require(D % (2 * H) == 0, "model_dim must be num_heads times an even number");
  require(warmdown > 0 && warmdown <= 1, "warmdown_ratio must be above 0 and at most 1");
  require(T % block == 0 && valT % block == 0,
          "seq_len and val_seq_len must be multiples of block_size");
  const int64_t Dh = D / H;

  // Schedules at step s of N: rates fall to zero in the last steps.
  const Sched s = step(), N = iterations();
  const Sched decay = min(1.0, max(N - s, 0.0) / (warmdown * N));
  const double width = 1 / sqrt(D / 768.0);
  auto group = [&](const char *name, double rate) {
    return adam(name, {.lr = rate * width * decay, .beta1 = 0.8, .beta2 = 0.95, .eps = adamEps});
  };
  const auto matrices = muon("matrices", {.lr = matrixRate * decay,
                                          .momentum = 0.85 + 0.10 * min(s / 300, 1.0),
                                          .computeType = dtype});
  const auto embeddings = group("embedding", embeddingRate), heads = group("head", headRate);

  // Parameters.
  auto weight = [&](const Name &name, int64_t rows, int64_t columns, bool startsAtZero) {
    const double deviation = sqrt(double(min(rows, columns)) / columns / columns);
    return param(name, {rows, columns}, f32, startsAtZero ? constant(0) : normal(0, deviation),
                 matrices);
  };
  struct Layer {
    Tensor q, k, v, o, in, out;
  };
  List<Layer> layers(L);
  const Tensor embedding =
      param("model.embed_tokens.weight", {vocab, D}, f32, normal(0, 1), embeddings);
  for (int i = 0; i < L; ++i)
    layers[i] = {
        .q = weight({"model.layers.", i, ".self_attn.q_proj.weight"}, H * Dh, D, false),
        .k = weight({"model.layers.", i, ".self_attn.k_proj.weight"}, Hk * Dh, D, false),
        .v = weight({"model.layers.", i, ".self_attn.v_proj.weight"}, Hk * Dh, D, false),
        .o = weight({"model.layers.", i, ".self_attn.o_proj.weight"}, D, H * Dh, true),
        .in = weight({"model.layers.", i, ".mlp.fc1.weight"}, F, D, false),
        .out = weight({"model.layers.", i, ".mlp.fc2.weight"}, D, F, true),
    };
  const Tensor head = param("lm_head.weight", {vocab, D}, f32, constant(0), heads);

  auto logits = [&](Tensor tokens) {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T}), rowStart = t / block * block;
    // The first half of a head turns the second, and the second the first, the other way.
    const Tensor c = iota({Dh}), j = select(c < Dh / 2, c, c - Dh / 2);
    const Tensor frequencies = exp(cast(j, f32) * (-2 * log(base) / Dh)); // radians a position
    const Tensor theta = reshape(cast(t - rowStart, f32), {T, 1}) * frequencies;
    const Tensor cosine = reshape(cos(theta), {T, 1, Dh});
    const Tensor sine = reshape(select(c < Dh / 2, sin(theta), -sin(theta)), {T, 1, Dh});
    auto rope = [&](Tensor x) { return cast(x * cosine + rotate(x, Dh / 2) * sine, dtype); };
    Tensor x = norm(cast(embedding[tokens], dtype), eps);
    for (const Layer &p : layers) {
      const Tensor h = norm(x, eps);
      const Tensor q = norm(rope(reshape(linear(h, p.q), {T, H, Dh})), eps),
                   k = norm(rope(reshape(linear(h, p.k), {T, Hk, Dh})), eps),
                   v = reshape(linear(h, p.v), {T, Hk, Dh});
      const Tensor y = attention(q, k, v, {.first = rowStart, .last = t, .scale = 1 / sqrt(Dh)});
      x += linear(reshape(y, {T, H * Dh}), p.o);
      x += linear(square(relu(linear(norm(x, eps), p.in))), p.out);
    }
    const Tensor z = cast(linear(norm(x, eps), head), f32);
    return cap * tanh(z / cap);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };

  // HuggingFace's folders (NanoChatForCausalLM).
  config("architectures", ConfigValue::list("NanoChatForCausalLM"), {.check = ConfigRule::Nothing});
  config("model_type", "nanochat");
  config("vocab_size", vocab, {.hyper = "vocab_size"});
  config("num_hidden_layers", L, {.hyper = "num_layers"});
  config("num_attention_heads", H, {.hyper = "num_heads"});
  config("num_key_value_heads", Hk, {.hyper = "num_kv_heads", .absent = H});
  config("head_dim", Dh, {.written = false});
  config("hidden_size", D, {.hyper = "model_dim"});
  config("intermediate_size", F, {.hyper = "ffn_dim"});
  config("hidden_act", "relu2", {.absent = "relu2"});
  config("final_logit_softcapping", cap, {.hyper = "softcap", .absent = 15.0});
  config("rms_norm_eps", eps, {.hyper = "norm_eps", .absent = 1e-6});
  config("attention_bias", false, {.absent = false});
  config("tie_word_embeddings", false, {.absent = false});
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
