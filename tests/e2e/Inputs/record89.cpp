// The NanoGPT speedrun's record 89 as MODEL_89.md states it, small: eleven layers, paired heads,
// key offsets, XSA, dynamic combination of heads (DC), MUDD connections and gates, bigram, sign,
// value and prefix tables, several targets, banks of matrices with rates of their own, a head that
// splits from the embedding, stages of length, windows and YaRN. tests/e2e/record89_test.py runs
// it.
#include "models/optimizers.h"

#include <vector>

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 257, "tokens; tables and head are padded to 16");
  const auto H = hyper("num_heads", 6, "attention heads, even");
  const auto Dh = hyper("head_dim", 8, "size of a head, a multiple of 8");
  const auto F = hyper("mlp_dim", 64, "width of the MLPs");
  const auto hidden = hyper("gate_dim", 16, "hidden size of gates and connections");
  const auto bigramRows = hyper("bigram_rows", 500, "rows of the bigram table");
  const auto signRows = hyper("sign_rows", 32, "rows of the sign table");
  const auto band = hyper("band", 5, "keys that DC sees");
  const auto unit = hyper("unit", 16, "tokens in a sequence of the first stage");
  const auto N = hyper("num_iterations", 17, "optimizer steps", 4);
  const auto scheduled = hyper("scheduled", 15, "the first of them, in three stages");
  const auto split = hyper("split", 11, "the step after which head and embedding part, odd");
  const auto flat = hyper("flat", 6, "steps before the learning rate falls");
  const auto adamEps = hyper("adam_eps", 1e-10, "Adam's ε");
  const auto dtype = hyper("dtype", {f32, bf16}, "compute type, and that of stored matrices");
  const int fp8 = hyper("fp8", {"off", "on"}, "whether head and MLPs run in FP8 in training");
  const Dist dist = distHyper();
  constexpr int64_t L = 11, eos = 256;
  const int64_t D = H * Dh, V = (vocab + 15) / 16 * 16, pairs = H / 2;

  //===- Stages and schedules --------------------------------------------------===//

  struct Stage {
    int64_t until, T, longest, shortWindow, longWindow;
    double rho, second, third, prefix; ///< lr; weights of targets 2 and 3 and of the prefix
    bool secondFalls, prefixFalls;     ///< with the stage; the third always does
  };
  const Stage stages[4] = {{scheduled / 3, unit, 12, 2, 6, 1.0, 0.5, 0.25, 0.25, false, false},
                           {2 * scheduled / 3, 2 * unit, 20, 6, 12, 1.52, 0.5, 0, 0.25, true, true},
                           {scheduled, 3 * unit, 20, 10, 20, 1.73, 0, 0, 0, false, false},
                           {N, 3 * unit, 20, 12, 26, 1.73, 0, 0, 0, false, false}};
  const Sched s = step();
  auto byStage = [&](auto of, double last) {
    Sched value = last;
    for (int k = 3; k >= 0; --k)
      value = select(s < double(stages[k].until), double(of(stages[k])), value);
    return value;
  };
  const Sched c = max(0.0, min(1.0, (s - double(flat)) / double(scheduled - flat)));
  const Sched factor = byStage([](const Stage &at) { return at.rho; }, 1.73) * (1 - c) + 0.15 * c;
  const Sched momentum = 0.85 + 0.10 * min(s / 10.0, 1.0) - 0.10 * max((s - (N - 5.0)) / 5.0, 0.0);
  const Tensor shortWindow =
      scalar("short_window", byStage([](const Stage &at) { return at.shortWindow; }, 12), i32);
  const Tensor longWindow =
      scalar("long_window", byStage([](const Stage &at) { return at.longWindow; }, 40), i32);
  const Tensor tied = scalar("tied", select(s < double(split) + 0.5, Sched(1.0), Sched(0.0)), f32);

  //===- Optimizers ------------------------------------------------------------===//

  // On odd steps, with the sum of two gradients.
  auto adamOf = [&](const char *name, double beta1, double beta2, double multiple, double decay) {
    const Sched rate = 0.008 * multiple * factor, t = equations::updateCount(2);
    const Sched corrected = rate * sqrt(1 - pow(beta2, t)) / (1 - pow(beta1, t));
    return optimizer(name, {.lr = rate, .every = 2}, [=](Update u) {
      const Tensor m = u.state("adam_m", f32), v = u.state("adam_v", f32), g = 2.0 * u.gradient;
      const Tensor nextM = beta1 * m + (1 - beta1) * g, nextV = beta2 * v + (1 - beta2) * (g * g);
      Tensor move = corrected * nextM / (sqrt(nextV) + adamEps);
      move += select(move * u.parameter > 0.0, 0.005 * decay * (u.lr * u.lr) * u.parameter, 0.0);
      u.set(m, nextM);
      u.set(v, nextV);
      u.set(u.parameter - move);
    });
  };
  // `multiple`: of the learning rate, for each matrix. A bf16 parameter is the upper half of an
  // f32.
  auto norMuonOf = [&](const char *name, auto multiple) {
    return optimizer(name, {.lr = 0.023 * factor, .kind = "normuon"}, [=](Update u) {
      const bool isTall = u.parameter.size(-2) > u.parameter.size(-1),
                 byColumn = u.parameter.size(-2) < u.parameter.size(-1);
      const bool keepsLow = u.type == bf16;
      const Tensor low = keepsLow ? u.state("low", u16) : Tensor();
      const Tensor w = keepsLow ? equations::joined(u.parameter, low) : u.parameter;
      const Tensor m = u.state("m", f32), g = u.gradient;
      const Tensor nextM = m + (1 - momentum) * (g - m);
      const Tensor x = g + momentum * (nextM - g);
      const Tensor scaled = x / (1.02 * equations::frobenius(x) + 1e-6);
      const Tensor o =
          cast(equations::orthogonalize(cast(scaled, dtype), polarExpress(), isTall), f32);
      const Tensor moment = mean(o * o, byColumn ? -2 : -1);
      const Tensor v = u.state("v", f32, moment.shape());
      const Tensor nextV = v + 0.1 * (moment - v);
      const Tensor even = o * rsqrt(max(nextV, 1e-10));
      const Tensor move = even * (equations::frobenius(o) / max(equations::frobenius(even), 1e-10));
      const Tensor rate = multiple(u) * u.lr;
      const Tensor next = w - select(move * w >= 0.0, 1.2 * u.lr * rate * w, 0.0) - rate * move;
      u.set(m, nextM);
      u.set(v, nextV);
      if (keepsLow)
        equations::setHalves(u, low, next);
      else
        u.set(next);
    });
  };
  const auto one = [](const Update &) { return Operand(1.0); };
  const auto both = adamOf("both", 0.5, 0.95, 1, 150), tables = adamOf("tables", 0.75, 0.95, 75, 5);
  const auto smearing = adamOf("smearing", 0.9, 0.99, 0.01, 0),
             valueGating = adamOf("value_gating", 0.9, 0.99, 1, 1),
             connecting = adamOf("connecting", 0.9, 0.99, 0.25, 1),
             connectingBias = adamOf("connecting_bias", 0.9, 0.99, 0.25, 0),
             gating = adamOf("gating", 0.9, 0.99, 0.1, 1),
             gatingBias = adamOf("gating_bias", 0.9, 0.99, 0.1, 0),
             numbers = adamOf("numbers", 0.9, 0.99, 5, 0), posts = adamOf("posts", 0.9, 0.95, 1, 0),
             resids = adamOf("resids", 0.9, 0.95, 5, 0);
  const auto matrices = norMuonOf("matrices", one);
  const auto mlps = norMuonOf("mlps", [](const Update &) {
    return Operand(cast(2 * iota({1, 2, 1, 1}, 1) + 2, f32)); // of W₁ 2, of W₂ 4
  });

  //===- Parameters ------------------------------------------------------------===//

  const double b = sqrt(3.0) * 0.5 / sqrt(D), g = 1 / sqrt(D);
  const Tensor head = param("lm_head.weight", {D, V}, dtype, normal(0, 0.05), both);
  const Tensor embed = param("embed.weight", {V, D}, dtype, transposeOf(head), both);
  const Tensor values = param("value_embeds", {5 * V, D}, dtype, normal(0, 0.01), tables);
  const Tensor bigrams = param("bigram_embed.weight", {bigramRows, D}, dtype, constant(0), tables);
  auto padded = [=](int64_t used) {
    return [=](int64_t i) { return i < used ? uniform(-b, b) : constant(0); };
  };
  const Tensor qkBank = param("qk_bank", {20 * pairs + 4, 2 * Dh, D}, dtype,
                              byBlocks(20 * pairs + 4, padded(20 * pairs)), matrices);
  const Tensor voBank = param("vo_bank", {24, D, D}, dtype, byBlocks(24, padded(20)), matrices);
  const Tensor mlpBank = param(
      "mlp_bank", {12, 2, F, D}, dtype,
      byBlocks(24, [=](int64_t i) { return i % 2 == 0 ? uniform(-b, b) : constant(0); }), mlps);
  const Tensor smearGate = param("smear_gate.weight", {1, 12}, dtype, constant(0), smearing);
  const Tensor valueGates = param("ve_gate_bank", {5, H, 12}, dtype, constant(0), valueGating);
  const Tensor muddIn = param("mudd_w1", {2, hidden, D}, dtype, uniform(-g, g), connecting),
               muddOut = param("mudd_w2", {2, 14, hidden}, dtype, constant(0), connecting),
               muddBias = param("mudd_b2", {2, 14}, dtype, constant(0.5), connectingBias);
  const Tensor gateIn = param("mudd_gate_w1", {2, hidden, D}, dtype, uniform(-g, g), gating),
               gateOut = param("mudd_gate_w2", {2, 41, hidden}, dtype, constant(0), gating),
               gateBias = param("mudd_gate_b2", {2, 41}, dtype, constant(0.5), gatingBias);
  const Tensor gateScale = param("_mudd_gate_scale", {}, f32, constant(0.1), gatingBias);
  const Tensor scalars = param(
      "scalars", {24}, f32,
      constants(24, [](int64_t i) { return i == 23      ? -1.5
                                           : i == 22    ? 0
                                           : i % 2 == 0 ? 0.5
                                                        : 1; }),
      numbers);
  const Tensor post = param("post_lambdas", {L, 2}, f32, constant(1), posts);
  const Tensor resid = param("resid_lambdas", {L, 2}, f32, constant(sqrt(1.1)), resids);
  const Tensor signs = frozen("bigram_sign_table", {signRows, D}, dtype, sign());
  // The token of which another one is a continuation; −1: of none.
  const Tensor prefix = table("prefix", {vocab, 1}, i32, [](int64_t token) {
    return token % 3 == 0 ? -1.0 : double(token / 2);
  });

  // Delayed scales: of activations by rank, of weights those after the update before the last.
  std::vector<Tensor> activationScale(L), weightScale(L), nextScale(L);
  auto amax = [](const Tensor &x) { return max(maximum(abs(cast(x, f32))), 1e-12); };
  auto down = [&](int64_t i) { return mlpBank[i][1]; };
  if (fp8 == 1) {
    fp8Products(head, {.recipe = Fp8::Static, .input = 0.02, .weight = 0.002, .gradient = 2e-5});
    for (int i = 0; i < L; ++i) {
      activationScale[i] = state({"down.", i, ".input"}, {}, f32, constant(1), OverRanks::each);
      weightScale[i] = state({"down.", i, ".weight"}, {}, f32, constant(0));
      nextScale[i] = state({"down.", i, ".next"}, {}, f32, constant(0));
    }
    const Sched isEarly = select(s < 3.5, Sched(1.0), Sched(0.0));
    const Tensor early = scalar("early", isEarly, f32);
    afterStep([&] {
      for (int i = 0; i < L; ++i) {
        const Tensor largest = amax(down(i));
        set(weightScale[i], select(early > 0.5, largest / 448.0, nextScale[i]));
        set(nextScale[i], 1.12 * largest / 448.0);
      }
    });
  }

  // YaRN, from the long window of one stage to that of the next.
  Tensor frequencies[4];
  double kappa[4];
  std::vector<double> f(size_t(Dh / 2));
  for (int64_t j = 0; j < Dh / 2; ++j)
    f[j] = j < Dh / 4 ? exp(-log(1024) * double(j) / double(Dh / 4 - 1)) : 0;
  for (int k = 0; k < 4; ++k) {
    kappa[k] = k > 0 ? kappa[k - 1] : 0.1;
    if (k > 0) {
      const double w = double(stages[k - 1].longWindow), longer = double(stages[k].longWindow);
      for (double &value : f) {
        const double share = (w * value / 6.283185307179586 - 1) / 31;
        value *= w / longer + (share < 0 ? 0 : share > 1 ? 1 : share) * (1 - w / longer);
      }
      kappa[k] *= 1 + 0.2 * log(longer / w);
    }
    frequencies[k] =
        table({"frequencies.", k}, {1, 1, Dh / 2, 1}, f32, [&](int64_t i) { return f[size_t(i)]; });
  }

  //===- Forward ---------------------------------------------------------------===//

  auto logits = [&](int k, Tensor tokens, bool trains) {
    const int64_t T = tokens.size(0);
    const Tensor t = iota({T}), start = cummax(select(tokens == double(eos), t, 0.0));
    auto firstOf = [&](const Tensor &window, bool paired) {
      if (!paired)
        return max(start, t - window);
      const Tensor twice = reshape(reshape(2 * start, {T, 1}) + iota({T, 2}, 1) * 0, {2 * T});
      return max(twice, iota({2 * T}) - window);
    };
    const Tensor previous = concat({full({1}, 0, i32), slice(tokens, 0, 0, T - 1)}, 0);
    auto before = [&](const Tensor &x) { // x[t − 1], zeros for the first
      Shape first = x.shape();
      first.sizes[0] = 1;
      return concat({full(first, 0, x.type()), slice(x, 0, 0, T - 1)}, 0);
    };

    const Tensor e = cast(tied * transpose(head)[tokens] + (1.0 - tied) * embed[tokens], dtype);
    const Tensor smear = sigmoid(linear(slice(e, 1, 0, 12), smearGate));
    const Tensor x0 = norm(cast(e + scalars[22] * smear * before(e), dtype));

    // i32 products wrap around; the first row's number stands for the token before the second.
    const double last = double(bigramRows - 1);
    const Tensor p = select(t == 1, last, previous);
    const Tensor row = select(t == 0, last, ((36313 * tokens) ^ (27191 * p)) % last);
    const Tensor signRow = select(t == 0, 0.0, (previous ^ tokens) % double(signRows));
    const Tensor bigram = bigrams[row] * signs[signRow];
    auto valueOf = [&](int64_t n) { return values[tokens + double(n * V)]; };

    auto two = [&](const Tensor &x, const Tensor &in, const Tensor &out, const Tensor &bias,
                   int64_t j) { return linear(gelu(linear(x, in[j])), out[j]) + bias[j]; };
    auto columns = [&](const Tensor &x, int64_t from, int64_t count) {
      return slice(x, 1, from, count);
    };
    auto gates = [&](const Tensor &x, int64_t j) {
      return cast(two(x, gateIn, gateOut, gateBias, j) * cast(gateScale, dtype), dtype);
    };
    auto mix = [&](const Tensor &x, int64_t j) {
      return cast(two(x, muddIn, muddOut, muddBias, j) * 0.1, dtype);
    };
    const Tensor early = gates(x0, 0);
    Tensor late;
    auto gateOf = [&](int64_t i, int64_t which) { // ξ, ζ
      if (i <= 3)
        return columns(early, 18 + 2 * i + which, 1);
      return columns(late, 18 + 2 * (i <= 5 ? i - 4 : i - 5) + which, 1);
    };

    auto attend = [&](int64_t i, const Tensor &u, const Tensor &extra) {
      const int64_t a = i > 6 ? i - 1 : i;
      const bool paired = i == 0 || i == 2 || i == 5 || i == 9, isLong = i == 3 || i == 10;
      auto lambda = [&](int64_t which) { return scalars[2 * i + which]; };
      auto project = [&](const Tensor &w) {
        return reshape(linear(u, cast(lambda(0) * reshape(w, {D, D}), dtype)), {T, H, Dh});
      };
      Tensor q = norm(project(slice(qkBank, 0, 2 * pairs * a, pairs))),
             k_ = norm(project(slice(qkBank, 0, 2 * pairs * a + pairs, pairs))),
             v = project(voBank[2 * a]);
      const int64_t n = i == 1 ? 0 : i == 2 ? 1 : i == 8 ? 2 : i == 9 ? 3 : -1;
      if (n >= 0) {
        const Tensor value = valueOf(n);
        const Tensor inputs = concat({columns(u, 0, 6), columns(value, 0, 6)}, 1);
        const Tensor gate = 2.0 * sigmoid(linear(inputs, valueGates[n]));
        v = cast(v + reshape(gate, {T, H, 1}) * reshape(value, {T, H, Dh}), dtype);
      } else if (i == 10) {
        v = cast(v + reshape(extra, {T, H, Dh}), dtype);
      }
      // Adjacent pairs turn by position · frequency.
      const Tensor position =
          paired ? 2 * iota({T, H, 1, 1}, 0) + iota({T, H, 1, 1}, 1) % 2 : iota({T, 1, 1, 1}, 0);
      const Tensor theta = cast(position, f32) * frequencies[k];
      const Tensor C = cast(cast(cos(theta), dtype), f32), S = cast(cast(sin(theta), dtype), f32);
      auto rope = [&](const Tensor &x) {
        const Tensor both = reshape(x, {T, H, Dh / 2, 2});
        const Tensor turned = rotate(both, 1) * (1.0 - 2.0 * iota({1, 1, 1, 2}, 3, f32));
        return reshape(cast(both * C + turned * S, dtype), {T, H, Dh});
      };
      q = rope(q);
      k_ = rope(k_);
      if (isLong) {
        const Tensor moving = slice(k_, 2, Dh / 2, Dh / 2);
        const Tensor moved = concat({slice(moving, 0, 0, 1), slice(moving, 0, 0, T - 1)}, 0);
        k_ = concat({slice(k_, 2, 0, Dh / 2), moved}, 2);
      }
      const Tensor window = isLong ? longWindow : shortWindow;
      const Shape shape = paired ? Shape{2 * T, H / 2, Dh} : Shape{T, H, Dh};
      Tensor y = attention(reshape(q, shape), reshape(k_, shape), reshape(v, shape),
                           {.first = firstOf(window, paired),
                            .last = iota({paired ? 2 * T : T}),
                            .scale = kappa[k]});
      y = reshape(y, {T, H, Dh});
      if (i == 10) {
        const Tensor w1 = cast(columns(late, 29, H), f32), w2 = columns(late, 29 + H, H);
        const Tensor even = cast(w1 * rsqrt(mean(w1 * w1, -1) + 1e-6), dtype);
        const Tensor key = iota({T, 1, band}, 0) + iota({T, 1, band}, 2) - double(band - 1);
        const Tensor scores =
            select(key >= reshape(start, {T, 1, 1}), kappa[k] * bandScores(q, k_, band), -1e30);
        const Tensor shares = exp(scores - logSumExp(scores, -1));
        const Tensor Z = sum(reshape(even, {T, H, 1}) * shares, 1);
        y = cast(y + bandProduct(cast(reshape(w2, {T, H, 1}) * Z, dtype), v), dtype);
      }
      if (i == 1 || i == 3 || i == 4 || i == 7) {
        const Tensor &from = i <= 3 ? early : late;
        const Tensor alpha = reshape(tanh(columns(from, i == 1 || i == 4 ? 0 : H, H)), {T, H, 1});
        const Tensor wide = cast(v, f32), yv = sum(cast(y, f32) * wide, -1);
        y = cast(y - alpha * (yv / max(sum(wide * wide, -1), 1e-8)) * wide, dtype);
      }
      if (isLong)
        y = y * reshape(columns(i == 3 ? early : late, 2 * H, H), {T, H, 1});
      return linear(reshape(y, {T, D}), cast(lambda(1) * voBank[2 * a + 1], dtype));
    };
    auto mlp = [&](int64_t i, const Tensor &n) {
      const Tensor up = mlpBank[i][0];
      if (fp8 == 0 || !trains) // W₂ is [in, out]
        return matmul(square(relu(linear(n, cast(up, dtype)))), cast(down(i), dtype));
      const Tensor p =
          square(relu(linear(n, cast(up, dtype), {amax(n) / 448.0, amax(up) / 448.0})));
      const Tensor before = activationScale[i] * 1.0;
      set(activationScale[i], 1.8 * amax(p) / 448.0);
      const Tensor weight = select(weightScale[i] == 0.0, amax(down(i)) / 448.0, weightScale[i]);
      return matmul(p, cast(down(i), dtype), {before, weight});
    };

    const Tensor c0 = x0;
    Tensor c3, c7, c9, x = cast(x0 + gateOf(0, 1) * bigram, dtype);
    for (int64_t i = 0; i < L; ++i) {
      Tensor sub, mu, extra;
      if (i == 4)
        late = gates(x, 1);
      if (i == 6) {
        x = cast(x + sigmoid(scalars[23]) * columns(late, 28, 1) * c3, dtype);
      } else if (i < 10) {
        const Tensor y = attend(i, norm(i <= 7 ? x : c7), Tensor());
        x = resid[i][0] * x + post[i][0] * y + gateOf(i, 0) * x0;
        if (i >= 1)
          x += gateOf(i, 1) * bigram;
        x = cast(x, dtype);
      } else {
        c9 = x;
        mu = mix(x, 0);
        auto m = [&](int64_t j) { return columns(mu, j, 1); };
        const Tensor half = select(iota({1, H, 1}, 1) < double(H / 2), reshape(m(6), {T, 1, 1}),
                                   reshape(m(7), {T, 1, 1}));
        extra = reshape(half * reshape(valueOf(4), {T, H, Dh}), {T, D}) + m(0) * c0 + m(1) * c7 +
                m(2) * x;
        const Tensor y = attend(i, norm(c7), extra);
        x = (1.0 + m(5)) * x + m(3) * c0 + m(4) * c7;
        x = cast(m(8) * x + m(9) * y + m(10) * c0 + m(11) * bigram, dtype);
      }
      const Tensor n = norm(x);
      if (i < 10)
        x = cast(resid[i][1] * x + post[i][1] * mlp(i, n), dtype);
      else
        x = cast(columns(mu, 12, 1) * x + columns(mu, 13, 1) * mlp(i, n), dtype);
      if (i == 3)
        c3 = x;
      if (i == 7)
        c7 = x;
    }
    const Tensor mu = mix(x, 1);
    auto m = [&](int64_t j) { return columns(mu, j, 1); };
    x = x + m(0) * c0 + m(1) * c7 + m(2) * c9 + m(3) * valueOf(0) + m(4) * c3;
    const Tensor z = matmul(norm(cast(x, dtype)), head);
    return 23.0 * cast(cast(sigmoid((cast(z, f32) + 5.0) / 7.5), trains ? dtype : f32), f32);
  };

  documents(
      {.rule = Documents::Cut, .longest = byStage([](const Stage &at) { return at.longest; }, 20)});
  training({.vocabSize = vocab,
            .eosToken = eos,
            .numIterations = N,
            .dist = dist,
            .gradients = Gradients::stored,
            .logged = matrices});
  for (int k = 0; k < 4; ++k) {
    const Stage &at = stages[k];
    const double begin = k > 0 ? double(stages[k - 1].until) : 0;
    const Sched rest = 1 - (s - begin) / (double(at.until) - begin);
    const Sched second = at.secondFalls ? at.second * rest : Sched(at.second),
                third = at.third * rest,
                later = at.prefixFalls ? at.prefix * rest : Sched(at.prefix);
    stage({"s", k}, {.until = at.until, .globalBatch = 8 * at.T}, [&] {
      train(at.T, Loss::sum, [&](Tensor tokens, Tensor targets) {
        const int64_t T = at.T;
        const Tensor z = logits(k, tokens, true);
        Tensor losses = crossEntropy(z, targets);
        // Targets that lie behind the sequence push all columns down nevertheless.
        auto further = [&](int64_t by, const Sched &weight) {
          const Tensor lse = reshape(logSumExp(slice(z, 0, T - by, by), -1), {by});
          const Tensor some = crossEntropy(slice(z, 0, 0, T - by), slice(targets, 0, by, T - by));
          losses += weight * concat({some, lse - stopGradient(lse)}, 0);
        };
        if (at.second > 0)
          further(1, second);
        if (at.third > 0)
          further(2, third);
        if (at.prefix > 0) {
          const Tensor of = reshape(gather(prefix, targets), {T});
          losses += later * select(of >= 0, crossEntropy(z, max(of, 0)), 0.0);
        }
        return losses;
      });
      validate(4 * unit, Loss::mean, [&](Tensor tokens, Tensor targets) {
        return crossEntropy(logits(k, tokens, false), targets);
      });
    });
  }
  nano::frontend::at(split, [&] {
    set(embed, transpose(head));
    set(stateOf(embed, "adam_m"), transpose(stateOf(head, "adam_m")));
    set(stateOf(embed, "adam_v"), transpose(stateOf(head, "adam_v")));
  });
}
