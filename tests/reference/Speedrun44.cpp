// Record 44: equations of the forward pass in order, each with its derivative, and the optimizers.
#include "tests/reference/Speedrun44.h"

#include "tests/reference/Ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

namespace nano::reference {

namespace {

constexpr Real normEpsilon = 0x1p-23, pi = 3.14159265358979323846;
constexpr int64_t gateInputs = 12, longBlocks[5] = {3, 7, 11, 13, 20};
constexpr Real polarExpress[5][3] = {
    {8.156554524902461, -22.48329292557795, 15.878769915207462},
    {4.042929935166739, -2.808917465908714, 0.5000178451051316},
    {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
    {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
    {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};

constexpr int64_t scalarCount = 64, mixPlace = 12, valuePlace = 36, smearPlace = 60,
                  backoutPlace = 61;

bool isTable(const std::string &name) {
  return name == "embed.weight" || name.starts_with("value_embeds.");
}

bool hasAttention(int64_t layer) { return layer != 7; }

/// Which value embedding a layer receives, or −1.
int64_t valueEmbedding(int64_t layer) {
  return layer == 1 || layer == 2 ? layer : layer >= 9 ? layer - 9 : -1;
}

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

/// A value of the forward pass and ∂loss/∂ it.
struct Node {
  Vec value, gradient;
};
using Value = std::shared_ptr<Node>;

/// The forward pass as it goes; each function's derivative is kept, to be called in reverse order.
class Pass {
public:
  Pass(const Tensors &parameters, Tensors &gradients)
      : parameters(parameters), gradients(gradients) {}

  void goBack() {
    for (auto step = derivatives.rbegin(); step != derivatives.rend(); ++step)
      (*step)();
  }

  Value number(int64_t index) {
    const Value y = make({parameters.at("scalars").data[index]});
    derivatives.push_back([=, this] { gradients.at("scalars").data[index] += y->gradient[0]; });
    return y;
  }

  Value gather(const std::string &name, const std::vector<int64_t> &ids) {
    const Tensor &table = parameters.at(name);
    const int64_t width = table.shape[1];
    Vec rows;
    for (int64_t id : ids)
      rows.insert(rows.end(), &table.data[id * width], &table.data[(id + 1) * width]);
    const Value y = make(std::move(rows));
    Vec &dTable = gradients.at(name).data;
    derivatives.push_back([=, &dTable, ids = ids] {
      for (size_t t = 0; t < ids.size(); ++t)
        for (int64_t i = 0; i < width; ++i)
          dTable[ids[t] * width + i] += y->gradient[t * width + i];
    });
    return y;
  }

  /// x·Wᵀ, W the [out, in] numbers of a parameter from `place` on.
  Value linear(const Value &x, const std::string &name, int64_t in, int64_t out,
               int64_t place = 0) {
    const Real *weight = &parameters.at(name).data[place];
    Real *dWeight = &gradients.at(name).data[place];
    const Value y = make(reference::linear(x->value, weight, in, out));
    derivatives.push_back(
        [=] { add(x, linearBackward(x->value, weight, y->gradient, in, out, dWeight)); });
    return y;
  }

  /// x·W, W a parameter [in, out].
  Value product(const Value &x, const std::string &name, int64_t in, int64_t out) {
    const Real *weight = parameters.at(name).data.data();
    Vec &dWeight = gradients.at(name).data;
    const int64_t rows = x->value.size() / in;
    Vec result(rows * out, 0);
    addMatmul(result.data(), x->value.data(), weight, rows, in, out);
    const Value y = make(std::move(result));
    derivatives.push_back([=, &dWeight] {
      addMatmul(dWeight.data(), transpose(x->value.data(), rows, in).data(), y->gradient.data(), in,
                rows, out);
      addMatmul(x->gradient.data(), y->gradient.data(), transpose(weight, in, out).data(), rows,
                out, in);
    });
    return y;
  }

  Value norm(const Value &x, int64_t width) {
    const Value y = make(rmsNorm(x->value, width, normEpsilon));
    derivatives.push_back(
        [=] { add(x, rmsNormBackward(x->value, y->gradient, width, normEpsilon)); });
    return y;
  }

  Value sigmoids(const Value &x) {
    Vec result = x->value;
    for (Real &value : result)
      value = sigmoid(value);
    const Value y = make(std::move(result));
    derivatives.push_back([=] {
      for (size_t i = 0; i < y->value.size(); ++i)
        x->gradient[i] += y->gradient[i] * y->value[i] * (1 - y->value[i]);
    });
    return y;
  }

  Value squaredRelu(const Value &x) {
    const Value y = make(reluSquared(x->value));
    derivatives.push_back([=] { add(x, reluSquaredBackward(x->value, y->gradient)); });
    return y;
  }

  /// a·x, a having a number for every `width` neighbouring ones of x.
  Value scaled(const Value &a, const Value &x, int64_t width) {
    Vec result = x->value;
    for (size_t i = 0; i < result.size(); ++i)
      result[i] *= a->value[i / width];
    const Value y = make(std::move(result));
    derivatives.push_back([=] {
      for (size_t i = 0; i < x->value.size(); ++i) {
        a->gradient[i / width] += y->gradient[i] * x->value[i];
        x->gradient[i] += y->gradient[i] * a->value[i / width];
      }
    });
    return y;
  }
  Value scaled(const Value &a, const Value &x) { return scaled(a, x, x->value.size()); }

  Value sum(const Value &a, const Value &b, Real sign = 1) {
    Vec result = a->value;
    addScaled(result, sign, b->value);
    const Value y = make(std::move(result));
    derivatives.push_back([=] {
      add(a, y->gradient);
      addScaled(b->gradient, sign, y->gradient);
    });
    return y;
  }

  /// Columns [begin, begin + count) of each row of `width`.
  Value columns(const Value &x, int64_t width, int64_t begin, int64_t count) {
    const int64_t rows = x->value.size() / width;
    Vec result;
    for (int64_t row = 0; row < rows; ++row)
      result.insert(result.end(), &x->value[row * width + begin],
                    &x->value[row * width + begin] + count);
    const Value y = make(std::move(result));
    derivatives.push_back([=] {
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < count; ++i)
          x->gradient[row * width + begin + i] += y->gradient[row * count + i];
    });
    return y;
  }

  /// The row before each; 0 before the first.
  Value before(const Value &x, int64_t width) {
    Vec result(x->value.size(), 0);
    std::copy(x->value.begin(), x->value.end() - width, result.begin() + width);
    const Value y = make(std::move(result));
    derivatives.push_back([=] {
      for (size_t i = width; i < y->gradient.size(); ++i)
        x->gradient[i - width] += y->gradient[i];
    });
    return y;
  }

  /// y1 = C·x1 + S·x2, y2 = −S·x1 + C·x2 of the halves of each head.
  Value rope(const Value &x, const Vec &frequencies, int64_t heads) {
    const Value y = make(turned(x->value, frequencies, heads, 1));
    derivatives.push_back([=] { add(x, turned(y->gradient, frequencies, heads, -1)); });
    return y;
  }

  Value attend(const Attention &how, const Value &q, const Value &k, const Value &v) {
    const Value y = make(attention(how, q->value, k->value, v->value));
    derivatives.push_back([=] {
      const auto [dq, dk, dv] = attentionBackward(how, q->value, k->value, v->value, y->gradient);
      add(q, dq);
      add(k, dk);
      add(v, dv);
    });
    return y;
  }

  /// Σ_t −log softmax(30·σ(z/7.5))[target].
  Real loss(const Value &z, const std::vector<int64_t> &targets) {
    const int64_t width = z->value.size() / targets.size();
    Real total = 0;
    Vec logits(width), dLogits(width);
    for (size_t t = 0; t < targets.size(); ++t) {
      for (int64_t i = 0; i < width; ++i)
        logits[i] = 30 * sigmoid(z->value[t * width + i] / 7.5);
      total += crossEntropy(logits.data(), width, targets[t], dLogits.data());
      for (int64_t i = 0; i < width; ++i)
        z->gradient[t * width + i] = dLogits[i] * logits[i] * (1 - logits[i] / 30) / 7.5;
    }
    return total;
  }

private:
  static Value make(Vec value) {
    Vec zeros(value.size(), 0);
    return std::make_shared<Node>(Node{std::move(value), std::move(zeros)});
  }
  static void add(const Value &x, const Vec &gradient) { addScaled(x->gradient, 1, gradient); }

  static Vec turned(const Vec &x, const Vec &frequencies, int64_t heads, Real direction) {
    const int64_t half = frequencies.size();
    Vec y(x.size());
    for (size_t start = 0; start < x.size(); start += 2 * half)
      for (int64_t j = 0; j < half; ++j) {
        const int64_t position = int64_t(start) / (2 * half * heads);
        const Real theta = Real(position) * frequencies[j];
        const Real c = std::cos(theta), s = direction * std::sin(theta);
        y[start + j] = c * x[start + j] + s * x[start + half + j];
        y[start + half + j] = -s * x[start + j] + c * x[start + half + j];
      }
    return y;
  }

  const Tensors &parameters;
  Tensors &gradients;
  std::vector<std::function<void()>> derivatives;
};

} // namespace

Hyperparameters speedrun44Hyperparameters() {
  Hyperparameters values;
  values.declareInteger("vocab_size", 50257);
  values.declareInteger("num_heads", 6);
  values.declareInteger("head_dim", 128);
  values.declareInteger("model_dim", 768);
  values.declareInteger("seq_len", 32768);
  values.declareInteger("val_seq_len", 262144);
  values.declareInteger("global_batch", 8 * 32768);
  values.declareInteger("num_iterations", 2245);
  values.declareInteger("extension", 40);
  values.declareInteger("eos_token", 50256, 0);
  values.declareInteger("longest_document", 2048);
  values.declareInteger("window_block", 128);
  values.declareInteger("momentum_warmup", 300);
  values.declareInteger("momentum_cooldown", 50);
  values.declareReal("adam_eps", 1e-8);
  values.declareWord("dtype", {"f32"});
  values.declareWord("fp8", {"off"});
  return values;
}

Speedrun44::Speedrun44(Hyperparameters values)
    : Model(std::move(values)), steps(sizes().integer("num_iterations")),
      scheduled(steps - sizes().integer("extension")), heads(sizes().integer("num_heads")),
      headDim(sizes().integer("head_dim")), modelDim(sizes().integer("model_dim")),
      rows((sizes().integer("vocab_size") + 127) / 128 * 128) {
  require(heads * headDim == modelDim, "-D model_dim: must be num_heads times head_dim");
  require(headDim % 4 == 0 && headDim >= 8, "-D head_dim: must be a multiple of 4, at least 8");
  require(modelDim >= gateInputs, "-D model_dim: must be at least 12");
  require(scheduled >= 3, "-D num_iterations: must be at least 3 more than extension");
}

Shapes Speedrun44::parameterShapes() const {
  Shapes shapes;
  shapes["embed.weight"] = shapes["lm_head.weight"] = {rows, modelDim};
  for (int64_t index = 0; index < 3; ++index)
    shapes[valueEmbedName(index)] = {rows, modelDim};
  shapes["scalars"] = {scalarCount};
  shapes["smear_gate.weight"] = {1, gateInputs};
  for (int64_t layer = 1; layer < layers; ++layer) {
    if (hasAttention(layer)) {
      shapes[blockName(layer, "attn.qkvo_w")] = {modelDim, 4 * modelDim};
      shapes[blockName(layer, "attn.attn_gate.weight")] = {heads, gateInputs};
    }
    shapes[blockName(layer, "mlp.c_fc")] = {modelDim, 4 * modelDim};
    shapes[blockName(layer, "mlp.c_proj")] = {modelDim, 4 * modelDim};
  }
  return shapes;
}

Model::Normal Speedrun44::randomValue(const std::string &name, int64_t index) const {
  if (isTable(name))
    return {0, 1};
  if (name.ends_with("gate.weight"))
    return {0, 0.3};
  if (name == "scalars") {
    const Real mean = index < mixPlace      ? -1.5
                      : index < valuePlace  ? Real(1 - index % 2)
                      : index == smearPlace ? 0.3
                      : index < scalarCount ? 0.5
                                            : 1;
    return {mean, 0.1};
  }
  const bool isOut = name.ends_with("qkvo_w") && index >= 3 * modelDim * modelDim;
  if (isOut || name.ends_with("c_proj") || name == "lm_head.weight")
    return {0, 0.05};
  return {0, 1 / (2 * std::sqrt(Real(modelDim)))};
}

int64_t Speedrun44::stageOf(int64_t step) const {
  return std::min<int64_t>(3 * step / scheduled, 3);
}

int64_t Speedrun44::window(int64_t step, bool isLong) const {
  const int64_t stage = stageOf(step), last = step == steps ? stages : stage;
  return (isLong ? longBlocks[last] : longBlocks[stage] / 2) * sizes().integer("window_block");
}

Vec Speedrun44::frequencies(int64_t stage) const {
  const int64_t turning = headDim / 4;
  Vec result(2 * turning, 0);
  for (int64_t j = 0; j < turning; ++j)
    result[j] = std::pow(Real(1024), -Real(j) / Real(turning - 1));
  for (int64_t next = 1; next <= stage; ++next) {
    const Real before = longBlocks[next - 1] * sizes().integer("window_block");
    const Real shrink = Real(longBlocks[next - 1]) / longBlocks[next];
    for (Real &f : result)
      f *= shrink + std::clamp((before * f / (2 * pi) - 1) / 31, Real(0), Real(1)) * (1 - shrink);
  }
  return result;
}

Real Speedrun44::attentionScale(int64_t stage) const {
  Real scale = 0.1;
  for (int64_t next = 1; next <= stage; ++next)
    scale *= 1 + 0.2 * std::log(Real(longBlocks[next]) / longBlocks[next - 1]);
  return scale;
}

Real Speedrun44::learningRateFactor(int64_t step) const {
  const Real x = std::min(0.9999, Real(step) / scheduled);
  return x < 0.5 ? 1 : 0.1 + 0.9 * 2 * (1 - x);
}

Real Speedrun44::momentum(int64_t step) const {
  const int64_t rise = sizes().integer("momentum_warmup"),
                fall = sizes().integer("momentum_cooldown");
  Real theta = 0.95;
  if (step < rise)
    theta = 0.85 + 0.10 * step / rise;
  if (step > steps - fall)
    theta -= 0.10 * Real(step - (steps - fall)) / fall;
  return theta;
}

Real Speedrun44::tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                              Tensors *gradients) const {
  Tensors unused;
  if (!gradients)
    unused = zeros(parameterShapes());
  Pass pass(parameters, gradients ? *gradients : unused);
  const int64_t D = modelDim, stage = stageOf(step);
  const Vec turns = frequencies(stage);
  std::vector<int64_t> documents;
  for (int64_t token : sequence.inputs)
    documents.push_back((documents.empty() ? 0 : documents.back()) +
                        (token == sizes().integer("eos_token")));

  auto attended = [&](int64_t layer, const Value &u) {
    const std::string w = blockName(layer, "attn.qkvo_w");
    auto part = [&](const Value &x, int64_t which) {
      return pass.linear(x, w, D, D, which * D * D);
    };
    const Value q = pass.rope(pass.norm(part(u, 0), headDim), turns, heads);
    const Value k = pass.rope(pass.norm(part(u, 1), headDim), turns, heads);
    Value v = pass.scaled(pass.number(valuePlace + 2 * layer), part(u, 2));
    if (const int64_t n = valueEmbedding(layer); n >= 0)
      v = pass.sum(v, pass.scaled(pass.number(valuePlace + 2 * layer + 1),
                                  pass.gather(valueEmbedName(n), sequence.inputs)));
    const int64_t reach = window(step, layer == 4 || layer == 11);
    auto sees = [=, &documents](int64_t query, int64_t key) {
      return documents[query] == documents[key] && query - key <= reach;
    };
    const Value y = pass.attend({heads, headDim, attentionScale(stage), sees}, q, k, v);
    const Value gate =
        pass.sigmoids(pass.linear(pass.columns(u, D, 0, gateInputs),
                                  blockName(layer, "attn.attn_gate.weight"), gateInputs, heads));
    return part(pass.scaled(gate, y, headDim), 3);
  };

  const Value e = pass.gather("embed.weight", sequence.inputs);
  const Value smear = pass.sigmoids(
      pass.linear(pass.columns(e, D, 0, gateInputs), "smear_gate.weight", gateInputs, 1));
  const Value added =
      pass.scaled(pass.number(smearPlace), pass.scaled(smear, pass.before(e, D), D));
  const Value x0 = pass.norm(pass.sum(e, added), D);
  Value x = x0;
  std::vector<Value> outputs(layers);
  for (int64_t i = 1; i < layers; ++i) {
    if (i >= 6 && i <= 10)
      x = pass.sum(x, pass.scaled(pass.sigmoids(pass.number(i - 6)), outputs[11 - i]));
    x = pass.sum(pass.scaled(pass.number(mixPlace + 2 * i), x),
                 pass.scaled(pass.number(mixPlace + 2 * i + 1), x0));
    if (hasAttention(i))
      x = pass.sum(x, attended(i, pass.norm(x, D)));
    const Value inner =
        pass.squaredRelu(pass.product(pass.norm(x, D), blockName(i, "mlp.c_fc"), D, 4 * D));
    x = pass.sum(x, pass.linear(inner, blockName(i, "mlp.c_proj"), 4 * D, D));
    outputs[i] = x;
  }
  x = pass.norm(pass.sum(x, pass.scaled(pass.number(backoutPlace), outputs[8]), -1), D);
  const Real loss = pass.loss(pass.linear(x, "lm_head.weight", D, rows), sequence.targets);
  if (gradients)
    pass.goBack();
  return loss;
}

void norMuonStep(Real *w, const Real *g, Real *m, Real *v, int64_t rows, int64_t columns, Real eta,
                 Real k, Real theta) {
  const int64_t count = rows * columns;
  auto normOf = [](const Vec &x) { return std::sqrt(dot(x.data(), x.data(), x.size())); };
  Vec x(count);
  for (int64_t i = 0; i < count; ++i) {
    m[i] += (1 - theta) * (g[i] - m[i]);
    x[i] = g[i] + theta * (m[i] - g[i]);
  }
  const Real first = 1.02 * normOf(x) + 1e-6;
  for (Real &value : x)
    value /= first;
  for (const auto &[alpha, beta, gamma] : polarExpress) {
    Vec a(rows * rows, 0), squared(rows * rows, 0), b(rows * rows, 0), next(count, 0);
    addMatmul(a.data(), x.data(), transpose(x.data(), rows, columns).data(), rows, columns, rows);
    addMatmul(squared.data(), a.data(), a.data(), rows, rows, rows);
    addScaled(b, beta, a);
    addScaled(b, gamma, squared);
    addMatmul(next.data(), b.data(), x.data(), rows, rows, columns);
    addScaled(next, alpha, x);
    x = next;
  }
  const Real norm = normOf(x);
  for (int64_t column = 0; column < columns; ++column) {
    Real squares = 0;
    for (int64_t row = 0; row < rows; ++row)
      squares += x[row * columns + column] * x[row * columns + column];
    v[column] += 0.05 * (squares / rows - v[column]);
  }
  for (int64_t i = 0; i < count; ++i)
    x[i] /= std::sqrt(std::max(v[i % columns], 1e-10));
  const Real back = norm / std::max(normOf(x), 1e-10);
  for (int64_t i = 0; i < count; ++i) {
    Real step = x[i] * back;
    if (step * w[i] >= 0)
      step += 1.2 * eta * w[i];
    w[i] -= k * eta * step;
  }
}

void Speedrun44::update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
                        int64_t step) const {
  const Real factor = learningRateFactor(step), epsilon = sizes().real("adam_eps");
  for (auto &[name, parameter] : parameters) {
    const Vec &gradient = gradients.at(name).data;
    if (isTable(name) || name == "scalars" || name == "lm_head.weight") {
      Vec &kept = state.kept[name];
      if (step % 2 == 0) {
        kept = gradient;
        continue;
      }
      const int64_t t = step / 2 + 1;
      const Real beta1 = 0.65, beta2 = 0.95;
      const Real rate = 0.008 *
                        (isTable(name)       ? 75
                         : name == "scalars" ? 5
                                             : 1) *
                        factor * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
      auto &[m, v] = state.adam[name];
      m.resize(gradient.size(), 0);
      v.resize(gradient.size(), 0);
      for (size_t i = 0; i < gradient.size(); ++i) {
        const Real g = kept[i] + gradient[i];
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        parameter.data[i] -= rate * m[i] / (std::sqrt(v[i]) + epsilon);
      }
    } else {
      const bool isStack = name.ends_with("qkvo_w");
      const int64_t matrices = isStack ? 4 : 1, height = parameter.shape[0],
                    width = parameter.shape[1] / matrices;
      auto &[m, v] = state.norMuon[name];
      m.resize(gradient.size(), 0);
      v.resize(matrices * width, 0);
      for (int64_t at = 0; at < matrices; ++at)
        norMuonStep(&parameter.data[at * height * width], &gradient[at * height * width],
                    &m[at * height * width], &v[at * width], height, width, 0.03 * factor,
                    name.ends_with("c_fc") ? 2 : 1, momentum(step));
    }
  }
}

} // namespace nano::reference
