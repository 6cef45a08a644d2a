// Draws sizes, parameters and ops of a model. The text of a program is made once, with a mark for
// the sequence's length, and filled in for each program.
#include "tests/e2e/RandomModel.h"

#include "models/optimizers.h"
#include "tests/e2e/ModelText.h"
#include "tests/support/Declarations.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace nano::test {
namespace {

class Generator : ModelText {
public:
  Generator(uint64_t seed, int64_t mostBlocks) : random(seed * 7919 + 17), mostBlocks(mostBlocks) {
    static constexpr int64_t lengths[] = {8, 16, 24, 40, 48, 64}, vocabularies[] = {17, 32, 50, 80};
    model.seqLen = lengths[pick(0, 5)];
    model.valSeqLen = lengths[pick(0, 5)];
    model.genSeqLen = lengths[pick(0, 2)];
    model.vocabulary = vocabularies[pick(0, 3)];
    model.sequences = pick(1, 4);
    // Three in four models are f32 throughout.
    bf16Percent = chance(25) ? 40 : 0;
  }

  RandomModel make() {
    const int64_t width = randomWidth();
    position = op({T}, "i32", "nano.iota 0 : ");
    Value x = chance(50) ? embed(width) : cast(embed(width), "f32");
    remember(x);
    const int64_t steps = std::min(pick(3, 9), mostBlocks);
    for (int64_t i = 0; i < steps; ++i)
      remember(step(choose()));
    finish();
    return model;
  }

private:
  //===- Numbers -----------------------------------------------------------===//

  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return pick(1, 100) <= percent; }
  int64_t randomWidth() {
    static constexpr int64_t widths[] = {4, 8, 12, 16, 20, 32, 33, 48};
    return widths[pick(0, 7)];
  }
  std::string randomFloat() {
    if (!chance(bf16Percent))
      return "f32";
    model.hasBf16 = true;
    return "bf16";
  }

  /// The schedules, the optimizers and the parameters.
  void declare() {
    namespace f = nano::frontend;
    // An ε of the size of gradients: a step then follows a small gradient instead of its sign.
    const f::Optimizer adams = f::adam("adams", {.lr = 1e-2,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.95,
                                                 .eps = 1e-2,
                                                 .weightDecay = 0.1,
                                                 .every = model.laterSeqLen > 0 ? 2 : 1});
    const f::Optimizer muons =
        f::muon("muons", {.lr = 1e-2,
                          .momentum = 0.9,
                          .computeType = model.hasBf16 ? f::DType::bf16 : f::DType::f32});
    f::scalar("window", f::step() + 5.0, f::DType::i32);
    for (const Declared &one : declared) {
      f::Shape shape({});
      for (int64_t size : one.shape)
        shape.sizes[shape.rank++] = size;
      f::param(one.name.c_str(), shape, one.element == "f32" ? f::DType::f32 : f::DType::bf16,
               f::normal(one.mean, one.deviation), one.isMuon ? muons : adams);
    }
  }

  //===- Parameters --------------------------------------------------------===//

  Value parameter(const Shape &shape, const std::string &element, double deviation,
                  double mean = 0) {
    std::string name = "p" + std::to_string(parameters++);
    bool isMuon = shape.size() >= 2 && element == "f32" && chance(50);
    declared.push_back({name, shape, element, mean, deviation, isMuon});
    return op(shape, element, "nano.load @" + name + " : ");
  }
  Value embed(int64_t width) {
    Value table = parameter({model.vocabulary, width}, randomFloat(), 1);
    return op({T, width}, table.element,
              "nano.gather " + table.name + ", %tokens : (" + typeOf(table.shape, table.element) +
                  ", " + typeOf({T}, "i32") + ") -> ");
  }
  /// x [T, K] · a parameter, [T, N].
  Value linear(Value x, int64_t columns, const std::string &element) {
    const int64_t inner = x.shape[1];
    const bool transpose = chance(70);
    Value stored = parameter(transpose ? Shape{columns, inner} : Shape{inner, columns}, "f32",
                             0.8 / std::sqrt(static_cast<double>(inner)));
    Value weight = cast(stored, x.element);
    return matmul(x, weight, false, transpose, {T, columns}, element);
  }

  //===- Pieces of models --------------------------------------------------===//

  /// x/√(mean x² + ε) over the last dimension; LayerNorm when `centers`.
  Value norm(Value given, bool centers) {
    Value x = cast(given, "f32");
    const int64_t last = static_cast<int64_t>(x.shape.size()) - 1;
    const double inverse = 1.0 / static_cast<double>(x.shape[last]);
    Shape kept;
    for (int64_t i = 0; i < last; ++i)
      kept.push_back(i);
    if (centers) {
      Value mean = broadcast(times(reduce("sum", x, {last}), inverse), x.shape, kept);
      x = binary("sub", x, mean);
    }
    Value squares = binary("mul", x, x);
    Value variance = plus(times(reduce("sum", squares, {last}), inverse), 0.1);
    Value scale = broadcast(unary("rsqrt", variance), x.shape, kept);
    return cast(binary("mul", x, scale), given.element);
  }

  Value softmax(Value given) {
    Value x = cast(given, "f32");
    const int64_t last = static_cast<int64_t>(x.shape.size()) - 1;
    Shape kept;
    for (int64_t i = 0; i < last; ++i)
      kept.push_back(i);
    Value highest = broadcast(reduce("max", apart(x, last), {last}), x.shape, kept);
    Value shifted = binary("sub", x, highest);
    Value powers = unary("exp", shifted);
    Value sum = broadcast(reduce("sum", powers, {last}), x.shape, kept);
    return cast(times(binary("div", powers, sum), 2), given.element);
  }

  /// x − ln Σ eˣ over the last dimension.
  Value logSoftmax(Value given) {
    Value x = cast(given, "f32");
    const int64_t last = static_cast<int64_t>(x.shape.size()) - 1;
    Shape kept;
    for (int64_t i = 0; i < last; ++i)
      kept.push_back(i);
    Value all = broadcast(reduce("logsumexp", x, {last}), x.shape, kept);
    return cast(binary("sub", x, all), given.element);
  }

  /// x plus a number for each index of `dim`, so that no two elements are equal.
  Value apart(Value x, int64_t dim) {
    Value index = op(x.shape, "f32", "nano.iota " + std::to_string(dim) + " : ");
    Value wave = unary("sin", index);
    Value sum = binary("add", x, wave);
    return sum;
  }

  /// First keys of queries: none masked, a window, or the document.
  Value firstKeys() {
    Value zero = constant(0, {T}, "i32");
    switch (pick(0, 3)) {
    case 0:
      return zero;
    case 1: {
      Value reach = constant(static_cast<double>(pick(1, 20)), {T}, "i32");
      Value start = binary("sub", position, reach);
      return binary("max", start, zero);
    }
    case 2: {
      Value loaded = op({}, "i32", "nano.load @window : ");
      Value reach = broadcast(loaded, {T}, {});
      Value start = binary("sub", position, reach);
      return binary("max", start, zero);
    }
    default: {
      Value mark = constant(0, {T}, "i32");
      Value starts = op({T}, "i32",
                        "nano.select eq, %tokens, " + mark.name + ", " + position.name + ", " +
                            zero.name + " : " + typeOf({T}, "i32") + ", ");
      return op({T}, "i32", "nano.scan max " + starts.name + " : ");
    }
    }
  }

  Value attention(Value x) {
    const int64_t keyHeads = pick(1, 3), heads = keyHeads * (chance(30) ? 2 : 1),
                  size = 4 * pick(1, 8), allHeads = heads + 2 * keyHeads;
    Value all = reshape(linear(x, allHeads * size, x.element), {T, allHeads, size});
    Value q = slice(all, 1, 0, heads), k = slice(all, 1, heads, keyHeads),
          v = slice(all, 1, heads + keyHeads, keyHeads);
    if (chance(50))
      q = norm(q, false), k = norm(k, false);
    Value first = firstKeys();
    Value last = position;
    if (chance(15))
      last = constantText("$LAST", {T}, "i32");
    std::string score;
    if (chance(40)) {
      score = " {\n    ^bb0(%s: tensor<f32>, %q: tensor<i32>, %k: tensor<i32>, %h: tensor<i32>):\n"
              "      %d = nano.sub %k, %q : tensor<i32>\n"
              "      %f = nano.cast %d : tensor<i32> -> tensor<f32>\n"
              "      %c = nano.constant 1.000000e-01 : tensor<f32>\n"
              "      %b = nano.mul %f, %c : tensor<f32>\n";
      score += std::string("      %a = nano.") + (chance(50) ? "tanh" : "sin") +
               " %s : tensor<f32>\n      %r = nano.add %a, %b : tensor<f32>\n"
               "      nano.yield %r : tensor<f32>\n    }";
    }
    const std::string operand = typeOf({T, heads, size}, x.element),
                      key = typeOf({T, keyHeads, size}, x.element), i32 = typeOf({T}, "i32");
    Value y = op({T, heads, size}, x.element,
                 "nano.attention " + q.name + ", " + k.name + ", " + v.name + ", " + first.name +
                     ", " + last.name + " scale " + number(0.3) + " : (" + operand + ", " + key +
                     ", " + key + ", " + i32 + ", " + i32 + ") -> (" + operand + ", " +
                     typeOf({T, heads}, "f32") + ")" + score,
                 false);
    // The op has two results.
    const size_t at = body.rfind("    " + y.name + " = ");
    body.replace(at, 4 + y.name.size(), "    " + y.name + ":2");
    Value lse = {y.name + "#1", {T, heads}, "f32"};
    y.name += "#0";
    if (chance(30)) { // both results are read
      Value wide = broadcast(times(unary("tanh", lse), 0.3), y.shape, {0, 1});
      y = binary("add", y, cast(wide, y.element));
    }
    return reshape(y, {T, heads * size});
  }

  /// A decaying sum of the rows so far, from one end or the other.
  Value recurrence(Value x) {
    const Shape flat = {1, T, x.shape[1]};
    Value term = reshape(x, flat);
    Value decay = reshape(times(unary("sigmoid", other(x)), 0.8), flat);
    Value h = op(flat, x.element,
                 "nano.recurrence factor " + decay.name + " term " + term.name + " from " +
                     number(0.3) + (chance(50) ? " {reverse} : " : " : "));
    return times(reshape(h, x.shape), 0.5);
  }

  /// Attention to the last tokens by products along a band, with weights that heads mix.
  Value band(Value x) {
    const int64_t heads = pick(1, 2), size = 4 * pick(1, 3), width = pick(1, 8);
    Value all = reshape(linear(norm(x, false), 3 * heads * size, x.element), {T, 3 * heads, size});
    Value q = slice(all, 1, 0, heads), k = slice(all, 1, heads, heads),
          v = slice(all, 1, 2 * heads, heads);
    const Shape weights = {T, heads, width};
    auto types = [&](const Value &a, const Value &b) {
      return " : (" + typeOf(a.shape, a.element) + ", " + typeOf(b.shape, b.element) + ") -> ";
    };
    Value s = op(weights, "f32", "nano.band_scores " + q.name + ", " + k.name + types(q, k));
    Value p = chance(50) ? softmax(s) : unary("tanh", times(s, 0.3));
    Value y = op(v.shape, v.element,
                 "nano.band_product " + p.name + ", " + v.name +
                     (chance(30) ? " {transpose}" : "") + types(p, v));
    return reshape(y, {T, heads * size});
  }

  /// A quarter of the elements becomes 0.
  Value dropout(Value x) {
    auto number = [&](const char *scalar) {
      Value loaded = op({}, "i32", std::string("nano.load @") + scalar + " : ");
      return broadcast(loaded, x.shape, {});
    };
    Value column = op(x.shape, "i32", "nano.iota 1 : ");
    Value row = op(x.shape, "i32", "nano.iota 0 : "), sequence = number("sequence"),
          use = constant(static_cast<double>(uses++), x.shape, "i32"), seed = number("seed");
    Value bits = op(x.shape, "i32",
                    "nano.philox counter(" + column.name + ", " + row.name + ", " + sequence.name +
                        ", " + use.name + ") key(" + seed.name + ", " + seed.name + ") : ");
    Value bound = constant(-1073741824, x.shape, "i32"), zero = constant(0, x.shape, x.element),
          kept = times(x, 1.25);
    return op(x.shape, x.element,
              "nano.select lt, " + bits.name + ", " + bound.name + ", " + zero.name + ", " +
                  kept.name + " : " + typeOf(x.shape, "i32") + ", ");
  }

  Value elementwise(Value x) {
    switch (pick(0, 15)) {
    case 0:
      return unary("tanh", x);
    case 1:
      return unary("sigmoid", x);
    case 2:
      return unary("sin", x);
    case 3:
      return unary("cos", x);
    case 4: {
      Value bounded = unary("tanh", x);
      return unary("exp", bounded);
    }
    case 5: {
      Value squared = plus(binary("mul", x, x), 0.5);
      return chance(50) ? unary("sqrt", squared) : unary("log", squared);
    }
    case 6: {
      Value squared = plus(binary("mul", x, x), 0.5);
      Value inverse = unary("rsqrt", squared);
      return binary("mul", inverse, x);
    }
    case 7: { // relu²
      Value zero = constant(0, x.shape, x.element);
      Value relu = binary("max", x, zero);
      return times(binary("mul", relu, relu), 0.5);
    }
    case 8: { // even positions keep x, others get −x, by position
      Value limit = constantText("$MIDDLE", {T}, "i32");
      Value where = broadcast(position, x.shape, {0}), middle = broadcast(limit, x.shape, {0});
      Value negative = unary("neg", x);
      return op(x.shape, x.element,
                "nano.select lt, " + where.name + ", " + middle.name + ", " + x.name + ", " +
                    negative.name + " : " + typeOf(x.shape, "i32") + ", ");
    }
    case 9: { // GELU (tanh)
      Value cube = binary("mul", x, x);
      cube = binary("mul", cube, x);
      Value inside = times(cube, 0.044715);
      inside = times(binary("add", inside, x), 0.7978845608);
      Value gate = plus(unary("tanh", inside), 1);
      return times(binary("mul", gate, x), 0.5);
    }
    case 10:
      return op(x.shape, x.element,
                "nano.rotate " + x.name + " by " + std::to_string(pick(0, x.shape.back() - 1)) +
                    " : ");
    case 11:
      return dropout(x);
    case 12:
      return unary("erf", x);
    case 13: // Away from the kink for most.
      return unary("abs", plus(x, 0.3));
    case 14: { // GELU (erf)
      Value gate = plus(unary("erf", times(x, 0.7071067812)), 1);
      return times(binary("mul", gate, x), 0.5);
    }
    default: {
      Value low = constant(-0.4, x.shape, x.element);
      return binary("min", x, low);
    }
    }
  }

  Value mixed(Value x) {
    Value y = other(x);
    switch (pick(0, 5)) {
    case 0:
      return times(binary("add", x, y), 0.7);
    case 1:
      return times(binary("sub", x, y), 0.7);
    case 2: {
      Value bounded = unary("tanh", y);
      return binary("mul", x, bounded);
    }
    case 3: {
      Value below = plus(binary("mul", y, y), 1);
      return binary("div", x, below);
    }
    case 4: {
      Value apartY = plus(y, 0.3);
      return binary("max", x, apartY);
    }
    default: { // λ₀·x + λ₁·y
      Value lambdas = cast(parameter({2}, "f32", 0.3, 0.6), x.element);
      Value a = broadcast(slice(lambdas, 0, 0, 1), x.shape, {0});
      Value b = broadcast(slice(lambdas, 0, 1, 1), x.shape, {0});
      Value left = binary("mul", x, a), right = binary("mul", y, b);
      return binary("add", left, right);
    }
    }
  }

  /// The next value, made of x [T, C].
  Value step(Value x) {
    const int64_t columns = x.shape[1];
    switch (pick(0, 19)) {
    case 0:
    case 1:
      return linear(norm(x, chance(30)), randomWidth(), randomFloat());
    case 2: { // MLP with residual
      Value hidden = elementwise(linear(norm(x, chance(50)), randomWidth(), x.element));
      Value back = linear(hidden, columns, x.element);
      return binary("add", x, back);
    }
    case 3:
    case 4:
      return attention(x);
    case 5:
      return chance(50) ? softmax(x) : logSoftmax(x);
    case 6: { // scale and bias by column
      Value scale = broadcast(parameter({columns}, "f32", 0.2, 1), x.shape, {1});
      Value bias = broadcast(parameter({columns}, "f32", 0.2), x.shape, {1});
      Value wide = cast(x, "f32");
      Value scaled = binary("mul", wide, scale);
      return cast(binary("add", scaled, bias), x.element);
    }
    case 7: { // how all rows are, beside each row
      Value sum = reduce("sum", cast(x, "f32"), {0});
      Value factor = constantText(inverseLengthMark, {columns}, "f32");
      Value mean = broadcast(binary("mul", sum, factor), x.shape, {1});
      Value wide = cast(x, "f32");
      return cast(binary("sub", wide, mean), x.element);
    }
    case 8: { // the same along the columns, as a maximum
      Value highest = reduce("max", apart(cast(x, "f32"), 1), {1});
      Value wide = cast(x, "f32"), repeated = broadcast(highest, x.shape, {0});
      return cast(times(binary("add", wide, repeated), 0.6), x.element);
    }
    case 9: { // two parts change places
      const int64_t cut = pick(1, columns - 1);
      Value left = slice(x, 1, 0, cut), right = slice(x, 1, cut, columns - cut);
      return concat(right, left, 1);
    }
    case 10: { // a gate of half of the columns on the other half
      if (columns % 2 != 0)
        return elementwise(x);
      Value left = slice(x, 1, 0, columns / 2), right = slice(x, 1, columns / 2, columns / 2);
      Value gate = unary("sigmoid", left);
      return binary("mul", gate, right);
    }
    case 11: { // x·(xᵀ·y)/T: products of activations
      Value y = other(x);
      Value inner = times(matmul(x, y, true, false, {columns, columns}, x.element), 0.05);
      Value outer =
          times(matmul(x, unary("tanh", inner), false, chance(50), x.shape, x.element), 0.25);
      return unary("tanh", outer);
    }
    case 12:
      return cast(x, randomFloat());
    case 13: { // each row beside the one as far from the other end
      Value last = constantText("$LAST", {T}, "i32");
      Value ids = binary("sub", last, position);
      Value y = op(x.shape, x.element,
                   "nano.gather " + x.name + ", " + ids.name + " : (" + typeOf(x.shape, x.element) +
                       ", " + typeOf({T}, "i32") + ") -> ");
      return times(binary("add", x, y), 0.6);
    }
    case 14: { // what the halves of a row have in common is taken away
      if (columns % 2 != 0)
        return mixed(x);
      Value halves = reshape(cast(x, "f32"), {T, 2, columns / 2});
      Value both = broadcast(times(reduce("sum", halves, {1}), 0.3), halves.shape, {0, 2});
      return cast(reshape(binary("sub", halves, both), x.shape), x.element);
    }
    case 15: { // columns change places with the halves that they are of
      if (columns % 2 != 0)
        return mixed(x);
      return reshape(permute(reshape(x, {T, 2, columns / 2}), {0, 2, 1}), x.shape);
    }
    case 16: { // heads first, and back
      if (columns % 4 != 0)
        return elementwise(x);
      Value heads = permute(reshape(x, {T, 4, columns / 4}), {1, 0, 2});
      Value changed = chance(50) ? softmax(heads) : unary("tanh", heads);
      return reshape(permute(changed, {1, 0, 2}), x.shape);
    }
    case 17:
      return recurrence(x);
    case 18:
      return band(x);
    default:
      return chance(50) ? elementwise(x) : mixed(x);
    }
  }

  //===- The pool of values ------------------------------------------------===//

  void remember(const Value &value) { pool.push_back(value); }
  Value choose() {
    // Mostly the newest: chains grow long; sometimes an older one: it then has two uses.
    const size_t index =
        chance(70) ? pool.size() - 1 : static_cast<size_t>(pick(0, std::ssize(pool) - 1));
    chosen.insert(chosen.end(), index);
    return pool[index];
  }
  /// Another value of x's shape and type: an older one where there is one, else an embedding.
  Value other(const Value &x) {
    for (size_t i = pool.size(); i-- > 0;)
      if (pool[i].shape == x.shape && pool[i].name != x.name && chance(60)) {
        chosen.push_back(i);
        return cast(pool[i], x.element);
      }
    return cast(embed(x.shape[1]), x.element);
  }

  /// Σ tanh(x)/(10·elements of a row), rank 0.
  Value term(Value x) {
    Value bounded = unary("tanh", x);
    Value sum = reduce("sum", cast(bounded, "f32"), {0, 1});
    return times(sum, 0.1 / static_cast<double>(x.shape[1]));
  }

  void finish() {
    // Logits of the last value, the head padded like those of real models.
    const int64_t columns = (model.vocabulary + 15) / 16 * 16;
    Value x = pool.back();
    Value z = cast(linear(chance(70) ? norm(x, false) : x, columns, x.element), "f32");
    if (chance(50)) {
      Value capped = unary("tanh", z);
      z = times(capped, 4);
    }
    const std::string forward = body;
    Value loss =
        op({T}, "f32",
           "nano.cross_entropy " + z.name + ", %targets : (" + typeOf(z.shape, "f32") + ", " +
               typeOf({T}, "i32") + ") -> (" + typeOf({T}, "f32") + ", " + typeOf({T}, "f32") + ")",
           false);
    body.replace(body.rfind("    " + loss.name + " = "), 4 + loss.name.size(),
                 "    " + loss.name + ":2");
    loss.name += "#0";
    Value total = reduce("sum", loss, {0});
    for (size_t i = 0; i + 1 < pool.size(); ++i)
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) {
        Value more = term(pool[i]);
        total = binary("add", total, more);
      }
    write(forward, z, total);
  }

  void write(const std::string &forward, const Value &logits, const Value &loss) {
    auto filled = [&](std::string text, int64_t length) {
      text = replaced(text, inverseLengthMark, number(1.0 / static_cast<double>(length)));
      text = replaced(text, "$LAST", number(static_cast<double>(length - 1)));
      const int64_t middle = length / 2;
      text = replaced(text, "$MIDDLE", number(static_cast<double>(middle)));
      return replaced(text, lengthMark, std::to_string(length));
    };
    auto lossProgram = [&](const std::string &name, const std::string &role, int64_t length,
                           const std::string &stages = "") {
      return filled("  func.func @" + name +
                        "(%tokens: tensor<$Txi32>, %targets: tensor<$Txi32>) -> tensor<f32> "
                        "attributes {nano.role = \"" +
                        role + "\"" + stages + "} {\n" + body + "    return " + loss.name +
                        " : tensor<f32>\n  }\n",
                    length);
    };
    auto size = [](const char *name, int64_t value) {
      return std::string(name) + " = " + std::to_string(value) + " : i64, ";
    };
    static constexpr const char *bySequence =
        " {\n  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64, %sequence: f64, "
        "%low: f64, %high: f64):\n";
    const std::string clip = chance(40) ? "5.000000e-01" : "0.000000e+00",
                      dist = chance(50) ? "allreduce" : "zero2";
    if (chance(40))
      model.laterSeqLen = 16 * pick(1, 4);
    auto training = [&](int64_t length) {
      return "{" + size("seq_len", length) + size("val_seq_len", model.valSeqLen) +
             size("gen_seq_len", model.genSeqLen) + size("global_batch", length * model.sequences) +
             size("num_iterations", 10) + size("vocab_size", model.vocabulary) +
             size("eos_token", 0) +
             "train_loss_is_sum = true, val_loss_is_sum = true, log_scalar = \"lr.adams\", "
             "grad_clip = " +
             clip + " : f64, dist = \"" + dist + "\"}";
    };
    std::string stages, programs = lossProgram("train", "train", model.seqLen);
    if (model.laterSeqLen > 0) {
      stages = "nano.run_stages = [{name = \"a\", until = 1 : i64, training = " +
               training(model.seqLen) +
               "}, {name = \"b\", until = 10 : i64, training = " + training(model.laterSeqLen) +
               "}], ";
      programs =
          lossProgram("train.a", "train", model.seqLen, ", nano.in_stages = array<i64: 0>") +
          lossProgram("train.b", "train", model.laterSeqLen, ", nano.in_stages = array<i64: 1>");
    }
    model.text =
        "module attributes {nano.model = \"random\", nano.hyperparameters = [], " + stages +
        "nano.training = " + training(model.seqLen) + "} {\n" + declarations([&] { declare(); }) +
        "  nano.scalar @sequence : i32" + bySequence +
        "    %n = arith.mulf %step, %sequences : f64\n    %s = arith.addf %n, %sequence : f64\n"
        "    nano.yield %s : f64\n  }\n"
        "  nano.scalar @seed : i32" +
        bySequence + "    nano.yield %low : f64\n  }\n" + programs +
        lossProgram("validate", "validate", model.valSeqLen) +
        filled("  func.func @generate(%tokens: tensor<$Txi32>) -> " + typeOf(logits.shape, "f32") +
                   " attributes {nano.role = \"generate\"} {\n" + forward + "    return " +
                   logits.name + " : " + typeOf(logits.shape, "f32") + "\n  }\n",
               model.genSeqLen) +
        "}\n";
  }

  std::mt19937_64 random;
  int64_t mostBlocks;
  RandomModel model;
  int64_t bf16Percent = 0, parameters = 0, uses = 0;
  struct Declared {
    std::string name;
    Shape shape;
    std::string element;
    double mean, deviation;
    bool isMuon;
  };
  std::vector<Declared> declared;
  Value position;
  std::vector<Value> pool;
  std::vector<size_t> chosen; ///< places in the pool of values that something was made of
};

} // namespace

RandomModel randomModel(uint64_t seed, int64_t mostBlocks) {
  return Generator(seed, mostBlocks).make();
}

} // namespace nano::test
