// Every op along a sequence, forward and backward, in f32 and bf16: for what their kernels need on
// a GPU, and for what they take there.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto T = hyper("seq_len", 49152, "tokens"), V = hyper("vocab_size", 1024, "tokens"),
             D = hyper("model_dim", 768, "width"), W = hyper("width", 112, "tokens of a band");
  const auto dtype = hyper("dtype", {bf16, f32}, "what is computed in");
  const int64_t H = 6;
  const auto group = adam("all", {.lr = 0.01, .beta1 = 0.9});
  const Tensor embed = param("embed", {V, D}, f32, normal(0, 1), group);
  const Tensor decay = param("decay", {V, D}, f32, normal(0, 1), group);
  const Tensor scale = param("scale", {H, 1}, f32, constant(0.1), group);
  const Tensor matrices = param("matrices", {4, D, D}, f32, normal(0, 0.03), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor t = iota({T});
    Tensor x = cast(embed[tokens], dtype);
    const Tensor a = sigmoid(cast(decay[tokens], dtype));
    x = norm(recurrence(a, x));
    x = norm(x + recurrence(a, (1.0 - a) * x, {.reverse = true}));
    x = norm(x + cumsum(x));
    x = norm(x + cumprod(0.5 * a, {.axis = 1}));
    x = norm(x + cumsum(x, {.axis = -1, .reverse = true}));
    const Tensor q = reshape(x, {T, H, D / H});
    const auto [y, lse] =
        attentionSums(q, q, q, {.first = max(t - 1024, 0), .last = t, .scale = scale});
    const Tensor token = iota({T, 1, W}) + iota({T, 1, W}, 2) - (W - 1);
    const Tensor s = select(token >= 0, bandScores(q, norm(q), W), -1e30);
    const Tensor e = exp(s - maximum(s, -1));
    const Tensor p = e / sum(e, -1) * reshape(1 + 0.01 * lse, {T, H, 1});
    x = norm(x + reshape(y + bandProduct(p, q), {T, D}));
    const Tensor wide = reshape(x, {T, 4, D / 4}); // queries and keys of 192, values of 128
    const Tensor z = attention(wide, wide, slice(wide, 2, 0, D / 6),
                               {.first = max(t - 1024, 0), .last = t, .scale = 0.07});
    x = norm(x + concat({reshape(z, {T, D / 6 * 4}), slice(x, 1, 0, D / 3)}, 1));
    const Tensor part = slice(x, 1, 0, 96); // its columns in order, and of each the first tokens
    const Tensor sorted = gather(part, argsort(part), -1);
    const Tensor along = transpose(part), most = sum(topK(along, 1024).values, -1) / 1024.0;
    const Tensor nearest = sum(sparsemax(along) * along, -1);
    x = norm(concat({sorted + reshape(most + nearest, {1, 96}), slice(x, 1, 96, D - 96)}, 1));
    x = norm(x + sparsemax(x));
    x = norm(x + groupedLinear(x, matrices, (iota({4}) + 1) * (T / 5))); // and rows of no group
    const Tensor logits = cast(linear(x, embed), f32);
    return crossEntropy(logits, targets);
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
