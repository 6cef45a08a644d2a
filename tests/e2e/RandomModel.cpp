// Draws sizes, parameters and ops of a model. The text of a program is made once, with a mark for
// the sequence's length, and filled in for each program.
#include "tests/e2e/RandomModel.h"

#include "models/optimizers.h"
#include "tests/e2e/RandomPieces.h"
#include "tests/support/Declarations.h"

#include <algorithm>

namespace nano::test {
namespace {

class Generator : RandomPieces {
public:
  Generator(uint64_t seed, const RandomExtent &extent)
      : RandomPieces(seed * 7919 + 17), extent(extent) {
    static constexpr int64_t lengths[] = {8, 16, 24, 40, 48, 64}, vocabularies[] = {17, 32, 50, 80};
    model.seqLen = lengths[pick(0, 5)];
    model.valSeqLen = lengths[pick(0, 5)];
    model.genSeqLen = lengths[pick(0, 2)];
    model.vocabulary = vocabularies[pick(0, 3)];
    model.sequences = pick(1, 4);
    if (!extent.isWhole)
      model.sequences = model.sequences < 4 ? 1 : 2;
    model.has8Bit = extent.is8Bit;
    if (model.has8Bit) // what is summed over the tokens has 8-bit operands too
      model.seqLen = chance(30) ? 128 : (model.seqLen + 15) / 16 * 16;
    // Three in four models are f32 throughout; of the others some are bf16 nearly so.
    bf16Percent = chance(75) ? 0 : chance(50) ? 40 : 90;
  }

  RandomModel make() {
    const int64_t width = randomWidth();
    position = op({T}, "i32", "nano.iota 0 : ");
    Value x = chance(50) ? embed(width) : cast(embed(width), "f32");
    remember(x);
    const int64_t steps = std::min(pick(3, 9), extent.mostBlocks);
    for (int64_t i = 0; i < steps; ++i)
      remember(step(choose()));
    finish();
    return model;
  }

private:
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

  /// With policies of most matrices, read by products or not, which the front end would ask for.
  std::string withPolicies(std::string text) {
    for (const Declared &one : declared)
      if (model.has8Bit && one.shape.size() == 2 && chance(80)) {
        const std::string state = "nano.state @" + one.name + " ";
        text.insert(text.find('{', text.find(state)) + 1, "fp8 = " + policy() + ", ");
      }
    return text;
  }

  /// Static scales are those of numbers of the order of one, and of smaller gradients.
  std::string policy() {
    static constexpr const char *recipes[] = {"static", "current", "delayed", "block"};
    const std::string recipe = recipes[pick(0, 3)];
    std::string text = "{recipe = \"" + recipe + "\"";
    if (recipe == "static")
      text += ", scales = array<f64: 2.0e-02, 1.0e-02, 1.0e-03>";
    else if (chance(30))
      text += ", margin = 1.0 : f64";
    if (recipe == "delayed")
      text += ", history = " + std::to_string(pick(1, 3)) + " : i64";
    return text + (chance(25) ? ", backward = false}" : "}");
  }

  Value elementwise(Value x) {
    switch (pick(0, 16)) {
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
      return chance(50) ? dropout(x) : noise(x);
    case 12:
      return unary(chance(50) ? "erf" : "normalcdf", x);
    case 13: // Away from the kink for most.
      return unary("abs", plus(x, 0.3));
    case 14: { // GELU (erf)
      Value gate = plus(unary("erf", times(x, 0.7071067812)), 1);
      return times(binary("mul", gate, x), 0.5);
    }
    case 15:
      return rounded(x);
    default: {
      Value low = constant(-0.4, x.shape, x.element);
      return binary("min", x, low);
    }
    }
  }

  Value mixed(Value x) {
    Value y = other(x);
    switch (pick(0, 6)) {
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
    case 5:
      return times(binary("logaddexp", x, y), 0.7);
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
    if (bf16Percent > 0 && chance(15))
      return ended(x);
    if (model.has8Bit && chance(20))
      return wide(x);
    switch (pick(0, 28)) {
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
      if (columns == 1)
        return mixed(x);
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
    case 16:
      return reordered(x);
    case 17:
      if (chance(50))
        return recurrence(x, std::nullopt);
      return recurrence(x, times(unary("sigmoid", other(x)), 0.8));
    case 18:
      return band(x);
    case 19:
    case 20:
      return indexed(x);
    case 21:
      return routed(x);
    case 22:
      return sorted(x);
    case 23:
      return projected(x);
    case 24:
      return moved(x);
    case 25:
      return binary("add", x, branches(norm(x, false)));
    case 26:
      return turned(x);
    case 27:
      return binary("add", x, groups(x));
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
    // Logits of the last value, the head padded like those of real models, or not.
    const int64_t columns =
        chance(60) ? (model.vocabulary + 15) / 16 * 16 : std::max<int64_t>(model.vocabulary, 33);
    Value x = pool.back();
    Value z = cast(linear(chance(70) ? norm(x, false) : x, columns, x.element), "f32");
    if (chance(50)) {
      Value capped = unary("tanh", z);
      z = times(capped, 4);
    }
    if (chance(20))
      z = scaled(z);
    const std::string forward = body;
    Value loss =
        op({T}, "f32",
           "nano.cross_entropy " + z.name + ", %targets : (" + typeOf(z.shape, "f32") + ", " +
               typeOf({T}, "i32") + ") -> (" + typeOf({T}, "f32") + ", " + typeOf({T}, "f32") + ")",
           false);
    body.replace(body.rfind("    " + loss.name + " = "), 4 + loss.name.size(),
                 "    " + loss.name + ":2");
    loss.name += "#0";
    if (chance(30)) { // beside the logarithm of the sum of the weights, squared
      Value all{loss.name.substr(0, loss.name.size() - 2) + "#1", {T}, "f32"};
      loss = binary("add", loss, times(binary("mul", all, all), 0.01));
    }
    if (chance(40))
      loss = binary("add", loss, besideLoss(z));
    Value total = reduce("sum", loss, {0});
    for (size_t i = 0; i + 1 < pool.size(); ++i)
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) {
        Value more = term(pool[i]);
        total = binary("add", total, more);
      }
    write(forward, z, total);
  }

  void write(const std::string &forward, const Value &logits, Value loss) {
    auto filled = [&](std::string text, int64_t length) {
      text = replaced(text, inverseLengthMark, number(1.0 / static_cast<double>(length)));
      text = replaced(text, "$LENGTH", number(static_cast<double>(length)));
      text = replaced(text, "$LAST", number(static_cast<double>(length - 1)));
      const int64_t middle = length / 2;
      text = replaced(text, "$MIDDLE", number(static_cast<double>(middle)));
      return withLength(text, length);
    };
    auto lossProgram = [&](const std::string &name, const std::string &role, int64_t length,
                           const std::string &stages = "") {
      return filled("  nano.program @" + name +
                        "(%tokens: tensor<$Txi32>, %targets: tensor<$Txi32>) -> tensor<f32> "
                        "attributes {role = \"" +
                        role + "\"" + stages + "} {\n" + body + "    nano.return " + loss.name +
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
    if (!extent.isWhole)
      model.laterSeqLen = model.genSeqLen = 0;
    auto training = [&](int64_t length) {
      return "{" + size("seq_len", length) + size("val_seq_len", model.valSeqLen) +
             (extent.isWhole ? size("gen_seq_len", model.genSeqLen) : "") +
             size("global_batch", length * model.sequences) + size("num_iterations", 10) +
             size("vocab_size", model.vocabulary) + size("eos_token", 0) +
             "train_loss_is_sum = true, val_loss_is_sum = true, log_scalar = \"lr.adams\", "
             "grad_clip = " +
             clip + " : f64, dist = \"" + dist + "\"}";
    };
    std::string stages, programs = lossProgram("train", "train", model.seqLen);
    if (model.laterSeqLen > 0) {
      stages =
          "run_stages = [{name = \"a\", until = 1 : i64, training = " + training(model.seqLen) +
          "}, {name = \"b\", until = 10 : i64, training = " + training(model.laterSeqLen) + "}], ";
      programs = lossProgram("train.a", "train", model.seqLen, ", stages = array<i64: 0>") +
                 lossProgram("train.b", "train", model.laterSeqLen, ", stages = array<i64: 1>");
    }
    std::string validation;
    if (extent.isWhole) {
      validation =
          lossProgram("validate", "validate", model.valSeqLen) +
          filled("  nano.program @generate(%tokens: tensor<$Txi32>) -> " +
                     typeOf(logits.shape, "f32") + " attributes {role = \"generate\"} {\n" +
                     forward + "    nano.return " + logits.name + " : " +
                     typeOf(logits.shape, "f32") + "\n  }\n",
                 model.genSeqLen);
    } else {
      body.clear();
      loss = targetSum();
      validation = lossProgram("validate", "validate", model.valSeqLen);
    }
    model.text =
        "module {\n  nano.model \"random\" {hyperparameters = [], " + stages +
        "training = " + training(model.seqLen) + "}\n" +
        withPolicies(declarations([&] { declare(); })) + "  nano.scalar @sequence : i32" +
        bySequence +
        "    %n = arith.mulf %step, %sequences : f64\n    %s = arith.addf %n, %sequence : f64\n"
        "    nano.yield %s : f64\n  }\n"
        "  nano.scalar @seed : i32" +
        bySequence + "    nano.yield %low : f64\n  }\n" + programs + validation + "}\n";
  }

  /// What a model that is not whole validates: the sum of the targets.
  Value targetSum() { return reduce("sum", cast({"%targets", {T}, "i32"}, "f32"), {0}); }

  RandomExtent extent;
  std::vector<Value> pool;
  std::vector<size_t> chosen; ///< places in the pool of values that something was made of
};

} // namespace

RandomModel randomModel(uint64_t seed, const RandomExtent &extent) {
  return Generator(seed, extent).make();
}

} // namespace nano::test
