// GPT-2 as llm.c trains it: LayerNorm, biases, GELU (tanh), learned positions, the head tied to the
// embedding, and AdamW with warm-up, cosine decay, clipping, and weight decay on matrices only.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 50257, "tokens");
  const auto L = hyper("num_layers", 12, "layers");
  const auto H = hyper("num_heads", 12, "attention heads");
  const auto D = hyper("model_dim", 768, "width of the residual stream: a multiple of num_heads");
  const auto block = hyper("block_size", 1024, "positions in a row; rows do not see each other");
  const auto T = hyper("seq_len", 16384, "tokens in a training sequence: rows of block_size");
  const auto valT =
      hyper("val_seq_len", 16384, "tokens in a validation sequence: rows of block_size");
  const auto batch = hyper("global_batch", 524288, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 18865, "optimizer steps");
  const auto learningRate = hyper("learning_rate", 6e-4, "learning rate after warm-up");
  const auto warmup = hyper("warmup_iters", 700, "steps of linear warm-up", 0);
  const auto finalFraction =
      hyper("final_lr_frac", 0.0, "learning rate at the end, as a fraction of learning_rate");
  const auto weightDecay = hyper("weight_decay", 0.1, "of matrices");
  const auto beta1 = hyper("beta1", 0.9, "AdamW's β₁"), beta2 = hyper("beta2", 0.95, "AdamW's β₂");
  const auto eps = hyper("adam_eps", 1e-8, "AdamW's ε");
  const auto gradClip =
      hyper("grad_clip", 1.0, "largest norm of all gradients together; 0: no limit");
  const auto eos =
      hyper("eos_token", 50256, "the token that begins a document; the mask does not use it", 0);
  const auto dtype = hyper("dtype", {bf16, f32}, "activation and compute type");
  enum { Off, Head, Mlp, All };
  const int fp8 = hyper("fp8", {"off", "head", "mlp", "all"},
                        "whose matrix products run in FP8 in training: the head's, the MLPs', all");
  const Fp8 scaling = fp8Hyper();
  const Dist dist = distHyper();
  require(D % H == 0, "model_dim must be a multiple of num_heads");
  require(T % block == 0 && valT % block == 0,
          "seq_len and val_seq_len must be multiples of block_size");
  const int64_t Dh = D / H;

  // Schedule at step s of N.
  const Sched s = step(), N = iterations();
  const Sched progress = (s - warmup) / max(N - warmup, 1.0);
  const double least = learningRate * finalFraction;
  const Sched lr =
      select(s < warmup, learningRate * (s + 1) / max(warmup, 1),
             least + 0.5 * (1 + cos(3.141592653589793 * progress)) * (learningRate - least));

  const auto matrices = adam("matrices", {lr, beta1, beta2, eps, weightDecay});
  const auto vectors = adam("vectors", {lr, beta1, beta2, eps, 0});

  // Parameters.
  const double small = 0.02 / sqrt(2.0 * L);
  auto weight = [&](const Name &name, int64_t rows, int64_t columns, double deviation) {
    return param(name, {rows, columns}, f32, normal(0, deviation), matrices);
  };
  auto vector = [&](const Name &name, int64_t size, double value) {
    return param(name, {size}, f32, constant(value), vectors);
  };
  const Tensor wte = weight("wte.weight", vocab, D, 0.02),
               wpe = weight("wpe.weight", block, D, 0.02);
  struct Affine {
    Tensor weight, bias;
  };
  struct Layer {
    Affine ln1, attend, attendOut, ln2, mlpIn, mlpOut;
  };
  List<Layer> layers(L);
  for (int i = 0; i < L; ++i)
    layers[i] = {
        .ln1 = {vector({"h.", i, ".ln_1.weight"}, D, 1), vector({"h.", i, ".ln_1.bias"}, D, 0)},
        .attend = {weight({"h.", i, ".attn.c_attn.weight"}, 3 * D, D, 0.02),
                   vector({"h.", i, ".attn.c_attn.bias"}, 3 * D, 0)},
        .attendOut = {weight({"h.", i, ".attn.c_proj.weight"}, D, D, small),
                      vector({"h.", i, ".attn.c_proj.bias"}, D, 0)},
        .ln2 = {vector({"h.", i, ".ln_2.weight"}, D, 1), vector({"h.", i, ".ln_2.bias"}, D, 0)},
        .mlpIn = {weight({"h.", i, ".mlp.c_fc.weight"}, 4 * D, D, 0.02),
                  vector({"h.", i, ".mlp.c_fc.bias"}, 4 * D, 0)},
        .mlpOut = {weight({"h.", i, ".mlp.c_proj.weight"}, D, 4 * D, small),
                   vector({"h.", i, ".mlp.c_proj.bias"}, D, 0)}};
  const Affine lnFinal = {vector("ln_f.weight", D, 1), vector("ln_f.bias", D, 0)};

  if (fp8 == Head || fp8 == All)
    fp8Products(wte, scaling);
  for (const Layer &p : layers) {
    if (fp8 == All) {
      fp8Products(p.attend.weight, scaling);
      fp8Products(p.attendOut.weight, scaling);
    }
    if (fp8 == Mlp || fp8 == All) {
      fp8Products(p.mlpIn.weight, scaling);
      fp8Products(p.mlpOut.weight, scaling);
    }
  }

  auto layerNormOf = [&](Tensor x, const Affine &p) {
    return layerNorm(x, p.weight, p.bias, 1e-5);
  };
  auto affine = [&](Tensor x, const Affine &p) {
    return cast(linear(x, p.weight) + p.bias, dtype);
  };
  auto gelu = [&](Tensor h) {
    const Tensor x = cast(h, f32);
    return cast(0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), dtype);
  };

  auto logits = [&](Tensor tokens) {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T}), rowStart = t / block * block;
    Tensor x = cast(wte[tokens] + wpe[t - rowStart], dtype);
    for (const Layer &p : layers) {
      auto [q, k, v] =
          split<3>(reshape(affine(layerNormOf(x, p.ln1), p.attend), {T, 3 * H, Dh}), 1);
      const Tensor y = attention(q, k, v, {.first = rowStart, .last = t, .scale = 1 / sqrt(Dh)});
      x += affine(reshape(y, {T, D}), p.attendOut);
      x += affine(gelu(affine(layerNormOf(x, p.ln2), p.mlpIn)), p.mlpOut);
    }
    return cast(linear(layerNormOf(x, lnFinal), wte), f32);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };

  // HuggingFace's folders (GPT2LMHeadModel): the products' weights lie there as [inputs, outputs],
  // in older ones beside the mask of the attention.
  for (const Layer &p : layers)
    for (const Tensor &w : {p.attend.weight, p.attendOut.weight, p.mlpIn.weight, p.mlpOut.weight})
      importedTransposed(w);
  importPrefix("transformer.");
  unusedInCheckpoints("h.*.attn.bias");
  unusedInCheckpoints("h.*.attn.masked_bias");
  unusedInCheckpoints("lm_head.weight"); // the embedding's
  config("architectures", ConfigValue::list("GPT2LMHeadModel"), {.check = ConfigRule::Nothing});
  config("model_type", "gpt2");
  config("vocab_size", vocab, {.hyper = "vocab_size"});
  config("n_layer", L, {.hyper = "num_layers"});
  config("n_head", H, {.hyper = "num_heads"});
  config("n_embd", D, {.hyper = "model_dim"});
  config("n_inner", 4 * D);
  config("n_positions", block, {.hyper = "block_size"});
  config("activation_function", "gelu_new", {.orElse = "gelu_pytorch_tanh", .absent = "gelu_new"});
  config("layer_norm_epsilon", 1e-5, {.absent = 1e-5});
  config("scale_attn_weights", true, {.absent = true});
  config("scale_attn_by_inverse_layer_idx", false, {.absent = false});
  config("add_cross_attention", false, {.absent = false});
  config("tie_word_embeddings", true, {.absent = true});
  for (const char *name : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    config(name, 0.0, {.check = ConfigRule::Nothing});
  for (const char *name : {"bos_token_id", "eos_token_id"})
    config(name, eos, {.check = ConfigRule::Nothing});

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
