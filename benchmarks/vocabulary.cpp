// The ops of the vocabulary that become kernels of their own, forward and backward, at seq_len ×
// model_dim: for benchmarks/vocabulary. Every op stands on a line that ends with its name, between
// products that nothing is fused with (--products library).
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto T = hyper("seq_len", 49152, "tokens"), V = hyper("vocab_size", 256, "tokens"),
             D = hyper("model_dim", 768, "width");
  // One block sorts the indices of a scatter: of seq_len · model_dim of them it takes long.
  const bool alongColumns = hyper("axes", 1, "2: gathers and scatters along the columns too") == 2;
  const auto dtype = hyper("dtype", {bf16, f32}, "what is computed in");
  const auto group = adam("all", {.lr = 0.001, .beta1 = 0.9});
  const Tensor embed = param("embed", {V, D}, f32, normal(0, 1), group);
  const Tensor w = param("w", {D, D}, f32, normal(0, 0.036), group);
  const Tensor narrow = param("narrow", {D * 7 / 8, D}, f32, normal(0, 0.036), group);
  const Tensor wide = param("wide", {D, D * 7 / 8}, f32, normal(0, 0.036), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const int64_t H = 12;
    Tensor x = cast(embed[tokens], dtype);
    auto then = [&](const Tensor &y) { x = linear(cast(y, dtype), w); };
    const Tensor rows = (tokens * 173 + iota({T}) * 7) % T;
    const Tensor columns = (iota({T, D}) * 5 + iota({T, D}, 1) * 7) % D;
    then(x);
    then(erf(x));                                        // erf
    then(gelu(x));                                       // exact GELU
    then(abs(x));                                        // abs
    then(sign(x) * x);                                   // sign
    then(x * cast(argmax(x) % 2 + 1, dtype));            // argmax
    then(x * sum(topK(x, 2).values, -1));                // topK of 2
    then(x * sum(takeAlong(x, topK(x, 2).indices), -1)); // topK of 2, takeAlong
    then(x / logSumExp(x, -1));                          // logSumExp
    then(x - 0.1 * square(logSumExp(x, -1)));            // z-loss of rows
    then(dropout(x, 0.1));                               // dropout
    then(x * randomUniform({T, D}));                     // uniform numbers
    then(x + randomNormal({T, D}));                      // normal numbers
    then(x * randomBernoulli({T, D}, 0.5));              // Bernoulli numbers
    then(x * cast((columns ^ 21) % 3, dtype));           // xor, modulo
    then(gather(x, rows, 0));                            // gather along the tokens
    then(scatterAdd(x, rows, T, 0));                     // scatter along the tokens
    if (alongColumns) {
      then(gather(x, columns, 1));        // gather along the columns
      then(scatterAdd(x, columns, D, 1)); // scatter along the columns
    }
    x = transpose(reshape(x, {T, H, D / H}), {1, 0, 2});  // transpose, heads first
    x = reshape(transpose(square(x), {1, 0, 2}), {T, D}); // transpose, heads first, back
    then(x);
    x = transpose(reshape(x, {T, H, D / H}), {2, 1, 0});  // transpose, all turned
    x = reshape(transpose(square(x), {2, 1, 0}), {T, D}); // transpose, all turned, back
    then(x);
    then(cumsum(0.01 * x));                             // cumsum along the tokens
    then(cumprod(1.0 + 0.001 * tanh(x), {.axis = -1})); // cumprod along the columns
    const Tensor decay = sigmoid(x);
    then(x);
    then(recurrence(decay, x));               // recurrence along the tokens
    then(recurrence(decay, x, {.axis = -1})); // recurrence along the columns
    // Six heads, and as many numbers a head in a band as of an eighth fewer columns.
    const int64_t heads = 6, W = D / heads * 7 / 8;
    auto rowsOf = [&](const Tensor &y) { return reshape(y, {T, heads, D / heads}); };
    auto bandOf = [&](const Tensor &y) { return reshape(linear(y, narrow), {T, heads, W}); };
    auto thenBand = [&](const Tensor &s) {
      x = linear(cast(reshape(s, {T, heads * W}), dtype), wide);
    };
    const Tensor k = rowsOf(x);
    then(x);
    const Tensor s = bandScores(rowsOf(x), k, W); // scores along a band
    thenBand(s);
    const Tensor v = rowsOf(x);
    const Tensor p = bandOf(x);
    const Tensor y = bandProduct(p, v); // products along a band
    then(reshape(y, {T, D}));
    const Tensor p32 = cast(bandOf(x), f32);
    const Tensor z = bandProduct(p32, v); // products along a band, f32 weights
    then(reshape(z, {T, D}));
    const Tensor logits = cast(linear(x, embed), f32);
    return crossEntropy(logits, targets);
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(256, Loss::mean, [&](Tensor tokens, Tensor targets) {
    return crossEntropy(cast(linear(cast(embed[tokens], dtype), embed), f32), targets);
  });
}
