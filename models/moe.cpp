// A mixture of experts like Mixtral's: Llama's layers, whose MLP is, for every token, the k experts
// of E that a router finds best, weighted by the softmax of their scores. A loss beside that of the
// tokens keeps the experts' loads alike (Shazeer et al. 2017; Fedus et al. 2021). Parameters have
// HuggingFace's names and shapes. An expert takes capacity_factor times its share of the choices,
// of all first ones before the second, and none of what comes after (Lepikhin et al. 2020); with 0
// nothing is dropped: rows lie sorted by expert, and each expert computes its own, however many
// these are (Gale et al. 2022). Validation and sampling drop nothing; sampling, which computes one
// row at a time, has all experts compute it. The default sizes are small ones, 8 experts of which 2
// are chosen: 0.3 B, 0.1 B of them for a token.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 32000, "tokens");
  const auto L = hyper("num_layers", 12, "layers");
  const auto H = hyper("num_heads", 12, "heads of queries");
  const auto Hk = hyper("num_kv_heads", 4, "heads of keys and values: a divisor of num_heads");
  const auto Dh = hyper("head_dim", 64, "size of a head: even");
  const auto D = hyper("model_dim", 768, "width of the residual stream");
  const auto F = hyper("ffn_dim", 1024, "width of an expert");
  const auto E = hyper("num_experts", 8, "experts of a layer");
  const auto k = hyper("experts_per_token", 2, "experts that a token goes to");
  const auto capacityFactor =
      hyper("capacity_factor", 0.0,
            "rows that an expert has in training, as a multiple of tokens * experts_per_token / "
            "num_experts; 0: as many as choose it");
  const auto balance =
      hyper("router_aux_loss_coef", 0.02, "weight of the loss that balances the experts' loads");
  const auto block = hyper("block_size", 1024, "positions in a row; rows do not see each other");
  const auto T = hyper("seq_len", 16384, "tokens in a training sequence: rows of block_size");
  const auto valT =
      hyper("val_seq_len", 16384, "tokens in a validation sequence: rows of block_size");
  const auto batch = hyper("global_batch", 524288, "tokens per optimizer step over all ranks");
  const auto steps = hyper("num_iterations", 20000, "optimizer steps");
  const auto learningRate = hyper("learning_rate", 4e-4, "learning rate after warm-up");
  const auto warmup = hyper("warmup_iters", 500, "steps of linear warm-up", 0);
  const auto weightDecay = hyper("weight_decay", 0.1, "of matrices");
  const auto adamEps = hyper("adam_eps", 1e-8, "AdamW's ε");
  const auto gradClip =
      hyper("grad_clip", 1.0, "largest norm of all gradients together; 0: no limit");
  const auto eps = hyper("norm_eps", 1e-5, "RMSNorm's ε");
  const auto base = hyper("rope_theta", 1e6, "the base of the rotary frequencies");
  const auto eos =
      hyper("eos_token", 2, "the token that ends a document; the mask does not use it", 0);
  const auto dtype = hyper("dtype", {bf16, f32}, "activation and compute type");
  const Dist dist = distHyper();
  require(H % Hk == 0, "num_heads must be a multiple of num_kv_heads");
  require(Dh % 2 == 0, "head_dim must be even");
  require(k <= E, "experts_per_token is more than num_experts");
  require(capacityFactor >= 0, "capacity_factor is negative");
  require(T % block == 0 && valT % block == 0,
          "seq_len and val_seq_len must be multiples of block_size");

  // Schedule at step s of N: warm-up, then half a cosine to a tenth.
  const Sched s = step(), N = iterations();
  const Sched progress = (s - warmup) / max(N - warmup, 1.0);
  const Sched lr = select(s < warmup, learningRate * (s + 1) / max(warmup, 1),
                          learningRate * (0.1 + 0.45 * (1 + cos(3.141592653589793 * progress))));
  const auto matrices = adam("matrices", {lr, 0.9, 0.95, adamEps, weightDecay});
  const auto vectors = adam("vectors", {lr, 0.9, 0.95, adamEps, 0});

  // Parameters.
  auto weight = [&](const Name &name, int64_t rows, int64_t columns) {
    return param(name, {rows, columns}, f32, normal(0, 0.02), matrices);
  };
  auto scale = [&](const Name &name) { return param(name, {D}, f32, constant(1), vectors); };
  struct Expert {
    Tensor gate, down, up;
  };
  struct Layer {
    Tensor attentionNorm, q, k, v, o, mlpNorm, router;
  };
  List<Layer> layers(L);
  List<Expert> experts(L * E);
  const Tensor embedding = weight("model.embed_tokens.weight", vocab, D);
  for (int i = 0; i < L; ++i) {
    layers[i] = {
        .attentionNorm = scale({"model.layers.", i, ".input_layernorm.weight"}),
        .q = weight({"model.layers.", i, ".self_attn.q_proj.weight"}, H * Dh, D),
        .k = weight({"model.layers.", i, ".self_attn.k_proj.weight"}, Hk * Dh, D),
        .v = weight({"model.layers.", i, ".self_attn.v_proj.weight"}, Hk * Dh, D),
        .o = weight({"model.layers.", i, ".self_attn.o_proj.weight"}, D, H * Dh),
        .mlpNorm = scale({"model.layers.", i, ".post_attention_layernorm.weight"}),
        .router = weight({"model.layers.", i, ".block_sparse_moe.gate.weight"}, E, D),
    };
    for (int e = 0; e < E; ++e) {
      auto matrix = [&](const char *which, int64_t rows, int64_t columns) {
        return weight({"model.layers.", i, ".block_sparse_moe.experts.", e, which}, rows, columns);
      };
      experts[i * E + e] = {.gate = matrix(".w1.weight", F, D),
                            .down = matrix(".w2.weight", D, F),
                            .up = matrix(".w3.weight", F, D)};
    }
  }
  const Tensor lastNorm = scale("model.norm.weight"), head = weight("lm_head.weight", vocab, D);

  auto expertOf = [&](const Expert &expert, Tensor x) {
    const Tensor gate = cast(linear(x, expert.gate), f32), up = linear(x, expert.up);
    return linear(cast(gate * sigmoid(gate) * up, dtype), expert.down);
  };

  // What layer i adds to the rows m [T, D], f32, where rows know nothing of each other: all experts
  // compute all tokens. `share` f32 [T, E].
  auto mixAll = [&](int i, Tensor m, Tensor share) {
    Tensor mixed = full({m.size(0), D}, 0, f32);
    for (int e = 0; e < E; ++e)
      mixed += slice(share, 1, e, 1) * expertOf(experts[i * E + e], m);
    return mixed;
  };

  // All experts' matrices of layer i, of dtype [E, …].
  auto stacked = [&](int i, Tensor Expert::*which) {
    List<Tensor> all(E);
    for (int e = 0; e < E; ++e) {
      const Tensor w = experts[i * E + e].*which;
      all[e] = reshape(cast(w, dtype), {1, w.size(0), w.size(1)});
    }
    return concat(all, 0);
  };

  // The same where each expert computes the rows that chose it, `capacity` at most; 0: all of them.
  // `chosen` i32 and `shares` f32 are [T, k].
  auto mixRouted = [&](int i, Tensor m, Tensor chosen, Tensor shares, int64_t capacity) {
    const int64_t T = m.size(0), N = k * T;
    // The choices, first ones first, and how many before each have its expert.
    const Tensor expert = reshape(transpose(chosen), {N, 1});
    const Tensor is = select(iota({N, E}, 1) == expert, full({N, E}, 1, f32), 0.0);
    const Tensor before = cast(sum(is * cumsum(is), -1), i32) - 1;
    List<Tensor> copies(k);
    for (int n = 0; n < k; ++n)
      copies[n] = m;
    Tensor row, y;
    if (capacity == 0) {
      // Rows sorted by expert: those of each end behind as many as it and those before it have.
      const Tensor count = sum(is, 0), end = reshape(cumsum(reshape(count, {E, 1})), {1, E});
      const Tensor first = cast(sum(is * (end - reshape(count, {1, E})), -1), i32);
      row = reshape(min(max(first + before, 0), N - 1), {N});
      const Tensor rows = scatterAdd(concat(copies, 0), row, N),
                   ends = reshape(cast(end, i32), {E});
      const Tensor gate = cast(groupedLinear(rows, stacked(i, &Expert::gate), ends), f32),
                   up = groupedLinear(rows, stacked(i, &Expert::up), ends);
      y = groupedLinear(cast(gate * sigmoid(gate) * up, dtype), stacked(i, &Expert::down), ends);
    } else {
      // Row expert·capacity + before of all experts' rows; one behind them for what is dropped.
      const Tensor place = min(max(before, 0), capacity - 1);
      row = reshape(select(before < capacity, expert * capacity + place, E * capacity), {N});
      const Tensor rows = scatterAdd(concat(copies, 0), row, E * capacity + 1);
      List<Tensor> results(E + 1);
      for (int e = 0; e < E; ++e)
        results[e] = expertOf(experts[i * E + e], slice(rows, 0, e * capacity, capacity));
      results[E] = full({1, D}, 0, dtype);
      y = concat(results, 0);
    }
    const Tensor found = reshape(y[row], {k, T, D});
    return reshape(sum(found * reshape(transpose(shares), {k, T, 1}), 0), {T, D});
  };

  // Logits f32 [T, vocab], and by expert f32 [E], means over layers and tokens: how often it was
  // chosen, and its probability.
  struct Output {
    Tensor logits, load, probability;
  };
  auto forward = [&](Tensor tokens, double factor, bool isRouted) -> Output {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T}), rowStart = t / block * block;
    const Tensor c = iota({Dh}), j = select(c < Dh / 2, c, c - Dh / 2);
    const Tensor theta =
        reshape(cast(t - rowStart, f32), {T, 1}) * exp(cast(j, f32) * (-2 * log(base) / Dh));
    const Tensor cosine = reshape(cos(theta), {T, 1, Dh});
    const Tensor sine = reshape(select(c < Dh / 2, -sin(theta), sin(theta)), {T, 1, Dh});
    auto rope = [&](Tensor x) { return cast(x * cosine + rotate(x, Dh / 2) * sine, dtype); };
    auto scaledNorm = [&](Tensor x, Tensor scale) {
      return cast(norm(cast(x, f32), eps) * scale, dtype);
    };
    Tensor x = cast(embedding[tokens], dtype);
    Tensor load = full({E}, 0, f32), probability = full({E}, 0, f32);
    for (int i = 0; i < L; ++i) {
      const Layer &p = layers[i];
      const Tensor h = scaledNorm(x, p.attentionNorm);
      const Tensor q = rope(reshape(linear(h, p.q), {T, H, Dh})),
                   k_ = rope(reshape(linear(h, p.k), {T, Hk, Dh})),
                   v = reshape(linear(h, p.v), {T, Hk, Dh});
      const Tensor y = attention(q, k_, v, {.first = rowStart, .last = t, .scale = 1 / sqrt(Dh)});
      x += linear(reshape(y, {T, H * Dh}), p.o);

      // The router's softmax, the k best of it, and their shares [T, E]; 0 for the others.
      const Tensor m = scaledNorm(x, p.mlpNorm);
      const Tensor scores = cast(linear(m, p.router), f32);
      const Tensor routed = exp(scores - logSumExp(scores, -1));
      const TopK best = topK(routed, k);
      const Tensor shares = best.values / sum(best.values, -1);
      Tensor share = full({T, E}, 0, f32), chosen = full({T, E}, 0, f32);
      for (int n = 0; n < k; ++n) {
        const Tensor index = slice(best.indices, 1, n, 1);
        share += select(iota({T, E}, 1) == index, slice(shares, 1, n, 1), 0.0);
        chosen += select(iota({T, E}, 1) == index, full({T, E}, 1, f32), 0.0);
      }
      load += reshape(mean(chosen, 0), {E}) / L;
      probability += reshape(mean(routed, 0), {E}) / L;
      const auto capacity = int64_t(ceil(factor * double(k * T) / double(E)));
      const Tensor mixed = isRouted
                               ? mixRouted(i, m, best.indices, shares, capacity < T ? capacity : 0)
                               : mixAll(i, m, share);
      x += cast(mixed, dtype);
    }
    return {cast(linear(scaledNorm(x, lastNorm), head), f32), load, probability};
  };

  // E · Σ load · probability is k when all experts are chosen alike.
  auto trainLoss = [&](Tensor tokens, Tensor targets) {
    const Output out = forward(tokens, capacityFactor, true);
    return crossEntropy(out.logits, targets) + balance * E * sum(out.load * out.probability);
  };
  auto tokenLoss = [&](Tensor tokens, Tensor targets) {
    return crossEntropy(forward(tokens, 0, true).logits, targets);
  };

  training({.vocabSize = vocab,
            .eosToken = eos,
            .globalBatch = batch,
            .numIterations = steps,
            .gradClip = gradClip,
            .dist = dist});
  train(T, Loss::mean, trainLoss);
  validate(valT, Loss::mean, tokenLoss);
  generate(block, [&](Tensor tokens) { return forward(tokens, 0, false).logits; });
}
