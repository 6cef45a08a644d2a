// Layers that no page of models/ has: attention and MLP beside each other, rotations of a part of a
// head, wide heads that share keys, GELU by the error function, a gate computed in bf16 altogether,
// branches scaled by numbers a column; for what their kernels need on a GPU.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto T = hyper("seq_len", 32768, "tokens"), V = hyper("vocab_size", 1024, "tokens"),
             D = hyper("model_dim", 1024, "width"),
             B = hyper("block_size", 1024, "tokens of a row");
  const int64_t H = 16, Dh = D / H, R = Dh / 4, L = 2;
  const auto group = adam("all", {.lr = 0.01, .beta1 = 0.9});
  auto matrix = [&](const Name &name, int64_t rows, int64_t columns) {
    return param(name, {rows, columns}, f32, normal(0, 0.02), group);
  };
  auto vector = [&](const Name &name, int64_t size, double value) {
    return param(name, {size}, f32, constant(value), group);
  };
  struct Affine {
    Tensor weight, bias;
  };
  struct Layer {
    Affine one, two, three, attend, out, in, down;
    Tensor first, second, gate, up, back;
  };
  List<Layer> layers(L);
  for (int i = 0; i < L; ++i) {
    auto affine = [&](const char *name, int64_t rows, int64_t columns) -> Affine {
      return {matrix({name, i}, rows, columns), vector({name, i, ".bias"}, rows, 0)};
    };
    auto norm = [&](const char *name) -> Affine {
      return {vector({name, i}, D, 1), vector({name, i, ".bias"}, D, 0)};
    };
    layers[i] = {.one = norm("one"),
                 .two = norm("two"),
                 .three = norm("three"),
                 .attend = affine("attend", 3 * D, D),
                 .out = affine("out", D, D),
                 .in = affine("in", 4 * D, D),
                 .down = affine("down", D, 4 * D),
                 .first = vector({"first", i}, D, 0.1),
                 .second = vector({"second", i}, D, 0.1),
                 .gate = matrix({"gate", i}, 4 * D, D),
                 .up = matrix({"up", i}, 4 * D, D),
                 .back = matrix({"back", i}, D, 4 * D)};
  }
  const Tensor embed = matrix("embed", V, D);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor t = iota({T}), rowStart = t / B * B, c = iota({R}), j = c % (R / 2);
    const Tensor theta = reshape(cast(t - rowStart, f32), {T, 1}) * exp(cast(j, f32) * -0.5);
    const Tensor cosine = reshape(cos(theta), {T, 1, R});
    const Tensor sine = reshape(select(c < R / 2, -sin(theta), sin(theta)), {T, 1, R});
    auto rope = [&](Tensor x) {
      const Tensor turned = slice(x, 2, 0, R), rest = slice(x, 2, R, Dh - R);
      return concat({cast(turned * cosine + rotate(turned, R / 2) * sine, bf16), rest}, 2);
    };
    auto affine = [&](Tensor x, const Affine &p) {
      return cast(linear(x, p.weight) + p.bias, bf16);
    };
    auto norm = [&](Tensor x, const Affine &p) { return layerNorm(x, p.weight, p.bias, 1e-5); };
    Tensor x = cast(embed[tokens], bf16);
    for (int i = 0; i < L; ++i) {
      const Layer &p = layers[i];
      auto [q, k, v] = split<3>(reshape(affine(norm(x, p.one), p.attend), {T, H, 3 * Dh}), 2);
      // The second layer's heads are twice as wide, four for one of keys.
      auto heads = [&](Tensor x, int64_t count) {
        return i == 0 ? x : slice(reshape(x, {T, H / 2, 2 * Dh}), 1, 0, count);
      };
      const Tensor y = attention(heads(rope(q), H / 2), heads(rope(k), H / 8), heads(v, H / 8),
                                 {.first = rowStart, .last = t, .scale = 0.1});
      const Tensor z = affine(gelu(affine(norm(x, p.two), p.in)), p.down);
      x = cast(x + p.first * affine(reshape(y, {T, D}), p.out) + p.second * z, bf16);
      const Tensor m = norm(x, p.three), gate = linear(m, p.gate);
      x += linear(gate * sigmoid(gate) * linear(m, p.up), p.back);
    }
    return crossEntropy(cast(linear(x, embed), f32), targets);
  };
  training({.vocabSize = V, .eosToken = 0, .globalBatch = T, .numIterations = 100});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
