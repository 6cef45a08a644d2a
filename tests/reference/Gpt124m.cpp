// The 124M model: equations of the forward pass in order, then their derivatives in reverse order,
// then the two optimizers.
#include "tests/reference/Gpt124m.h"

#include "tests/reference/Float8.h"
#include "tests/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace nano::reference {

namespace {

constexpr Real normEpsilon = 0x1p-23;
constexpr Real attentionScale = 0.12;
constexpr int64_t blockSize = 128;

bool isEmbedding(const std::string &name) {
  return name == "embed.weight" || name.starts_with("value_embeds.");
}

// Scales of the head's products in FP8.
Real inputScale(int64_t modelDim) { return std::sqrt(Real(modelDim)) / 448; }
constexpr Real weightScale = Real(24) / 448, gradientScale = Real(1) / 448;

/// logits = 30·sigmoid(z / (7.5·√D)).
Real softCap(Real z, int64_t modelDim) {
  return 30 / (1 + std::exp(-z / (Real(7.5) * std::sqrt(Real(modelDim)))));
}

/// ∂logits/∂z, from logits: 30·σ·(1−σ)/(7.5·√D).
Real softCapDerivative(Real logit, int64_t modelDim) {
  return logit * (1 - logit / 30) / (Real(7.5) * std::sqrt(Real(modelDim)));
}

} // namespace

Hyperparameters gpt124mHyperparameters() {
  Hyperparameters values;
  values.declareInteger("vocab_size", 50257);
  values.declareInteger("num_layers", 12, 6);
  values.declareInteger("num_heads", 6);
  values.declareInteger("head_dim", 128);
  values.declareInteger("model_dim", 768);
  values.declareInteger("seq_len", 49152);
  values.declareInteger("val_seq_len", 262144);
  values.declareInteger("global_batch", 8 * 49152);
  values.declareInteger("num_iterations", 1770);
  values.declareInteger("eos_token", 50256, 0);
  values.declareWord("dtype", {"f32"});
  values.declareWord("fp8", {"off", "head"});
  values.declareWord("fp8.lm_head.weight", {"static", "current", "delayed", "block"});
  return values;
}

Gpt124m::Gpt124m(Hyperparameters values)
    : Model(std::move(values)), layers(sizes().integer("num_layers")),
      heads(sizes().integer("num_heads")), headDim(sizes().integer("head_dim")),
      modelDim(sizes().integer("model_dim")), attentionDim(heads * headDim),
      paddedVocab((sizes().integer("vocab_size") + 127) / 128 * 128),
      headScaling(sizes().word("fp8") == "head" ? sizes().word("fp8.lm_head.weight") : "off") {
  require(layers % 2 == 0, "-D num_layers: must be even");
  require(headDim % 4 == 0 && headDim >= 8, "-D head_dim: must be a multiple of 4, at least 8");
  require(sizes().integer("seq_len") % blockSize == 0, "-D seq_len: must be a multiple of 128");
}

Shapes Gpt124m::parameterShapes() const {
  const int64_t vocab = sizes().integer("vocab_size");
  Shapes shapes;
  shapes["embed.weight"] = {vocab, modelDim};
  for (int64_t index = 0; index < 3; ++index)
    shapes[valueEmbedName(index)] = {vocab, attentionDim};
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (hasAttention(layer)) {
      shapes[blockName(layer, "attn.qkv_w")] = {3, attentionDim, modelDim};
      shapes[blockName(layer, "attn.lambdas")] = {2};
      shapes[blockName(layer, "attn.c_proj.weight")] = {modelDim, attentionDim};
    }
    shapes[blockName(layer, "mlp.c_fc.weight")] = {4 * modelDim, modelDim};
    shapes[blockName(layer, "mlp.c_proj.weight")] = {modelDim, 4 * modelDim};
    shapes[blockName(layer, "lambdas")] = {2};
  }
  shapes["lm_head.weight"] = {paddedVocab, modelDim};
  shapes["skip_weights"] = {layers / 2};
  return shapes;
}

Model::Normal Gpt124m::randomValue(const std::string &name, int64_t index) const {
  if (isEmbedding(name))
    return {0, 1};
  if (name == "skip_weights")
    return {1, 0.1};
  if (name.ends_with("attn.lambdas"))
    return {0.5, 0.1};
  if (name.ends_with("lambdas"))
    return {index == 0 ? Real(1) : Real(0), 0.1};
  if (name.ends_with("c_proj.weight") || name == "lm_head.weight")
    return {0, 0.02};
  return {0, 1 / (2 * std::sqrt(Real(modelDim)))};
}

int64_t Gpt124m::windowBlocks(int64_t step) const {
  // In integers, so that a step at which 1728·step/N is a multiple of 128 is not moved by rounding.
  const int64_t denominator = blockSize * sizes().integer("num_iterations");
  return std::max<int64_t>((1728 * step + denominator - 1) / denominator, 1);
}

Real Gpt124m::learningRateFactor(int64_t step) const {
  const Real x = Real(step) / sizes().integer("num_iterations"), cooldown = 0.4;
  if (x < 1 - cooldown)
    return 1;
  const Real remaining = (1 - x) / cooldown;
  return remaining + (1 - remaining) * Real(0.1);
}

Real Gpt124m::muonMomentum(int64_t step) {
  return Real(0.85) + Real(0.10) * std::min(Real(step) / 300, Real(1));
}

bool Gpt124m::isLong(int64_t layer) const {
  return layer == 0 || layer == layers / 3 || layer == 2 * layers / 3 - 1 || layer == layers - 1;
}

int64_t Gpt124m::valueEmbedding(int64_t layer) const {
  if (layer < 3)
    return layer;
  return layer >= layers - 3 ? layer - (layers - 3) : -1;
}

/// What the backward pass needs of one layer. Comments give the equation that made the value.
struct Gpt124m::LayerValues {
  Vec input;        // x, plus skip_weights[i−L/2]·(output of layer L−1−i) for i ≥ L/2
  Vec mixed;        // x = λ0·x + λ1·x0
  Vec attentionIn;  // norm(x)
  Vec q, k, v;      // split(attentionIn·Wqkvᵀ), [T, H·Dh] each
  Vec qRotated;     // rope(norm(q))
  Vec kRotated;     // rope(norm(k))
  Vec vMixed;       // a.λ0·v + a.λ1·ve
  Vec attentionOut; // softmax(…)·v
  Vec middle;       // x + c_proj(attentionOut)
  Vec mlpIn;        // norm(x)
  Vec mlpPre;       // W_fc·mlpIn
  Vec mlpActive;    // relu(mlpPre)²
  Vec output;       // x + W_proj·mlpActive
  Attention how;    // sizes and mask
};

struct Gpt124m::Activations {
  Vec embedded; // embed[tokens]
  Vec x0;       // norm(embedded)
  std::vector<LayerValues> layers;
  Vec headIn; // norm(output of the last layer)
  // What the head's products read: headIn and W themselves, or in 8 bits.
  Vec headOperand, headWeight;
  Vec logits; // 30·sigmoid(headIn·W_headᵀ / (7.5·√D)), [T, padded vocab]
};

Vec Gpt124m::embeddingRows(const Tensor &table, const Sequence &sequence) const {
  const int64_t width = table.shape[1];
  Vec rows;
  for (int64_t token : sequence.inputs)
    rows.insert(rows.end(), &table.data[token * width], &table.data[token * width] + width);
  return rows;
}

void Gpt124m::attentionForward(const Tensors &parameters, const Sequence &sequence, int64_t layer,
                               int64_t window, const std::vector<int64_t> &documents,
                               LayerValues &values) const {
  const Real *qkv = parameters.at(blockName(layer, "attn.qkv_w")).data.data();
  const Vec &lambdas = parameters.at(blockName(layer, "attn.lambdas")).data;
  values.q = linear(values.attentionIn, qkv, modelDim, attentionDim);
  values.k = linear(values.attentionIn, qkv + attentionDim * modelDim, modelDim, attentionDim);
  values.v = linear(values.attentionIn, qkv + 2 * attentionDim * modelDim, modelDim, attentionDim);
  values.qRotated = rotary(rmsNorm(values.q, headDim, normEpsilon), heads, headDim, +1);
  values.kRotated = rotary(rmsNorm(values.k, headDim, normEpsilon), heads, headDim, +1);

  values.vMixed.assign(values.v.size(), 0);
  addScaled(values.vMixed, lambdas[0], values.v);
  if (const int64_t index = valueEmbedding(layer); index >= 0)
    addScaled(values.vMixed, lambdas[1],
              embeddingRows(parameters.at(valueEmbedName(index)), sequence));

  const int64_t width = isLong(layer) ? window : std::max<int64_t>(window / 2, 1);
  values.how = {heads, headDim, attentionScale, [documents, width](int64_t query, int64_t key) {
                  return key <= query && documents[query] == documents[key] &&
                         query / blockSize - key / blockSize < width;
                }};
  values.attentionOut = attention(values.how, values.qRotated, values.kRotated, values.vMixed);
  addScaled(values.middle, 1,
            linear(values.attentionOut,
                   parameters.at(blockName(layer, "attn.c_proj.weight")).data.data(), attentionDim,
                   modelDim));
}

Real Gpt124m::tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                           Tensors *gradients) const {
  return lossWithWindow(parameters, sequence, windowBlocks(step), gradients);
}

Real Gpt124m::lossWithWindow(const Tensors &parameters, const Sequence &sequence, int64_t window,
                             Tensors *gradients) const {
  const Activations all =
      forward(parameters, sequence, window, headScaling != "off" && gradients != nullptr);
  Vec dLogits(gradients ? all.logits.size() : 0);
  Real loss = 0;
  for (size_t t = 0; t < sequence.inputs.size(); ++t)
    loss += crossEntropy(&all.logits[t * paddedVocab], paddedVocab, sequence.targets[t],
                         gradients ? &dLogits[t * paddedVocab] : nullptr);
  if (gradients)
    backward(parameters, sequence, all, std::move(dLogits), *gradients);
  return loss;
}

Gpt124m::Activations Gpt124m::forward(const Tensors &parameters, const Sequence &sequence,
                                      int64_t window, bool scaled) const {
  const Vec &skipWeights = parameters.at("skip_weights").data;
  const int64_t eos = sizes().integer("eos_token");

  // A position's document: the number of eos tokens up to and including it.
  std::vector<int64_t> documents;
  for (int64_t token : sequence.inputs)
    documents.push_back((documents.empty() ? 0 : documents.back()) + (token == eos ? 1 : 0));

  Activations all;
  all.embedded = embeddingRows(parameters.at("embed.weight"), sequence);
  all.x0 = rmsNorm(all.embedded, modelDim, normEpsilon);
  Vec x = all.x0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    LayerValues values;
    const Vec &lambdas = parameters.at(blockName(layer, "lambdas")).data;
    if (layer >= layers / 2)
      addScaled(x, skipWeights[layer - layers / 2], all.layers[layers - 1 - layer].output);
    values.input = x;

    values.mixed.assign(x.size(), 0);
    addScaled(values.mixed, lambdas[0], values.input);
    addScaled(values.mixed, lambdas[1], all.x0);

    values.middle = values.mixed;
    if (hasAttention(layer)) {
      values.attentionIn = rmsNorm(values.mixed, modelDim, normEpsilon);
      attentionForward(parameters, sequence, layer, window, documents, values);
    }

    const Vec &fc = parameters.at(blockName(layer, "mlp.c_fc.weight")).data;
    const Vec &proj = parameters.at(blockName(layer, "mlp.c_proj.weight")).data;
    values.mlpIn = rmsNorm(values.middle, modelDim, normEpsilon);
    values.mlpPre = linear(values.mlpIn, fc.data(), modelDim, 4 * modelDim);
    values.mlpActive = reluSquared(values.mlpPre);
    values.output = values.middle;
    addScaled(values.output, 1, linear(values.mlpActive, proj.data(), 4 * modelDim, modelDim));

    x = values.output;
    all.layers.push_back(std::move(values));
  }

  all.headIn = rmsNorm(x, modelDim, normEpsilon);
  const Vec &weight = parameters.at("lm_head.weight").data;
  all.headOperand = all.headIn;
  all.headWeight = weight;
  if (scaled)
    scaleHead(all);
  all.logits = linear(all.headOperand, all.headWeight.data(), modelDim, paddedVocab);
  for (Real &logit : all.logits)
    logit = softCap(logit, modelDim);
  return all;
}

void Gpt124m::Delayed::see(const Vec &x) {
  for (Real value : x)
    largest = std::max(largest, std::abs(value));
}

void Gpt124m::Delayed::endStep(Real largestNumber) {
  history.insert(history.begin(), largest);
  history.resize(std::min<size_t>(history.size(), 16));
  const Real most = *std::max_element(history.begin(), history.end());
  if (most > 0)
    scale = most / largestNumber;
  largest = 0;
}

void Gpt124m::scaleHead(Activations &all) const {
  if (headScaling == "block") {
    all.headOperand = throughFloat8Blocks(e4m3, all.headIn, modelDim, 1, blockSize);
    all.headWeight = throughFloat8Blocks(e4m3, all.headWeight, modelDim, blockSize, blockSize);
    return;
  }
  Real input = inputScale(modelDim), weight = weightScale;
  if (headScaling == "current")
    input = scaleFor(e4m3, all.headIn);
  if (headScaling == "delayed") {
    input = delayedInput.scale;
    delayedInput.see(all.headIn);
  }
  if (headScaling != "static")
    weight = scaleFor(e4m3, all.headWeight);
  all.headOperand = throughFloat8(e4m3, input, all.headIn);
  all.headWeight = throughFloat8(e4m3, weight, all.headWeight);
}

void Gpt124m::scaleHeadBackward(const Vec &dz, const Activations &all, Vec &dHeadIn,
                                Vec &dWeight) const {
  auto products = [&](const Vec &x, const Vec &g, Vec &dW) {
    return linearBackward(x, all.headWeight.data(), g, modelDim, paddedVocab, dW.data());
  };
  if (headScaling == "block") {
    // Blocks lie along the dimension that a product sums over: columns for ∂x, tokens for ∂W.
    Vec unused(dWeight.size());
    dHeadIn =
        products(all.headOperand, throughFloat8Blocks(e4m3, dz, paddedVocab, 1, blockSize), unused);
    products(throughFloat8Blocks(e4m3, all.headIn, modelDim, blockSize, 1),
             throughFloat8Blocks(e4m3, dz, paddedVocab, blockSize, 1), dWeight);
    return;
  }
  Real gradient = gradientScale;
  if (headScaling == "current")
    gradient = scaleFor(e5m2, dz);
  if (headScaling == "delayed") {
    gradient = delayedGradient.scale;
    delayedGradient.see(dz);
  }
  dHeadIn = products(all.headOperand, headScaling == "off" ? dz : throughFloat8(e5m2, gradient, dz),
                     dWeight);
}

Vec Gpt124m::attentionBackward(const Tensors &parameters, const Sequence &sequence, int64_t layer,
                               const LayerValues &values, const Vec &dOut,
                               Tensors &gradients) const {
  const Vec &qkv = parameters.at(blockName(layer, "attn.qkv_w")).data;
  const Vec &proj = parameters.at(blockName(layer, "attn.c_proj.weight")).data;
  const Vec &lambdas = parameters.at(blockName(layer, "attn.lambdas")).data;
  Vec &dQkv = gradients.at(blockName(layer, "attn.qkv_w")).data;
  Vec &dProj = gradients.at(blockName(layer, "attn.c_proj.weight")).data;
  Vec &dLambdas = gradients.at(blockName(layer, "attn.lambdas")).data;

  const Vec dAttentionOut =
      linearBackward(values.attentionOut, proj.data(), dOut, attentionDim, modelDim, dProj.data());
  const AttentionGradient d = nano::reference::attentionBackward(
      values.how, values.qRotated, values.kRotated, values.vMixed, dAttentionOut);

  // v = a.λ0·v + a.λ1·ve
  dLambdas[0] += dot(d.dv.data(), values.v.data(), values.v.size());
  if (const int64_t index = valueEmbedding(layer); index >= 0) {
    const Vec ve = embeddingRows(parameters.at(valueEmbedName(index)), sequence);
    dLambdas[1] += dot(d.dv.data(), ve.data(), ve.size());
    Vec &dTable = gradients.at(valueEmbedName(index)).data;
    for (size_t t = 0; t < sequence.inputs.size(); ++t)
      for (int64_t i = 0; i < attentionDim; ++i)
        dTable[sequence.inputs[t] * attentionDim + i] += lambdas[1] * d.dv[t * attentionDim + i];
  }
  Vec dv(d.dv.size(), 0);
  addScaled(dv, lambdas[0], d.dv);

  // q = rope(norm(q)), k = rope(norm(k))
  const Vec dq = rmsNormBackward(values.q, rotary(d.dq, heads, headDim, -1), headDim, normEpsilon);
  const Vec dk = rmsNormBackward(values.k, rotary(d.dk, heads, headDim, -1), headDim, normEpsilon);

  const Vec *parts[3] = {&dq, &dk, &dv};
  Vec dIn(values.attentionIn.size(), 0);
  for (int64_t part = 0; part < 3; ++part) {
    const int64_t offset = part * attentionDim * modelDim;
    addScaled(dIn, 1,
              linearBackward(values.attentionIn, qkv.data() + offset, *parts[part], modelDim,
                             attentionDim, dQkv.data() + offset));
  }
  return dIn;
}

void Gpt124m::backward(const Tensors &parameters, const Sequence &sequence, const Activations &all,
                       Vec dLogits, Tensors &gradients) const {
  const Vec &skipWeights = parameters.at("skip_weights").data;

  // Head: logits = 30·sigmoid(z / (7.5·√D)), z = headIn·Wᵀ, headIn = norm(x).
  for (size_t i = 0; i < dLogits.size(); ++i)
    dLogits[i] *= softCapDerivative(all.logits[i], modelDim);
  Vec dHeadIn;
  scaleHeadBackward(dLogits, all, dHeadIn, gradients.at("lm_head.weight").data);
  Vec dx = rmsNormBackward(all.layers.back().output, dHeadIn, modelDim, normEpsilon);

  Vec dx0(all.x0.size(), 0);
  std::vector<Vec> dSkipped(layers / 2); // what layer L−1−i adds to ∂loss/∂(output of layer i)
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    const LayerValues &values = all.layers[layer];
    if (layer < layers / 2)
      addScaled(dx, 1, dSkipped[layer]);

    // x + W_proj·relu(W_fc·norm(x))²
    const Vec dActive = linearBackward(
        values.mlpActive, parameters.at(blockName(layer, "mlp.c_proj.weight")).data.data(), dx,
        4 * modelDim, modelDim, gradients.at(blockName(layer, "mlp.c_proj.weight")).data.data());
    const Vec dMlpIn =
        linearBackward(values.mlpIn, parameters.at(blockName(layer, "mlp.c_fc.weight")).data.data(),
                       reluSquaredBackward(values.mlpPre, dActive), modelDim, 4 * modelDim,
                       gradients.at(blockName(layer, "mlp.c_fc.weight")).data.data());
    addScaled(dx, 1, rmsNormBackward(values.middle, dMlpIn, modelDim, normEpsilon));

    // x + attention(norm(x))
    if (hasAttention(layer)) {
      const Vec dIn = attentionBackward(parameters, sequence, layer, values, dx, gradients);
      addScaled(dx, 1, rmsNormBackward(values.mixed, dIn, modelDim, normEpsilon));
    }

    // λ0·x + λ1·x0
    const Vec &lambdas = parameters.at(blockName(layer, "lambdas")).data;
    Vec &dLambdas = gradients.at(blockName(layer, "lambdas")).data;
    dLambdas[0] += dot(dx.data(), values.input.data(), dx.size());
    dLambdas[1] += dot(dx.data(), all.x0.data(), dx.size());
    addScaled(dx0, lambdas[1], dx);
    for (Real &d : dx)
      d *= lambdas[0];

    // x + skip_weights[i − L/2]·(output of layer L−1−i)
    if (layer >= layers / 2) {
      const int64_t from = layers - 1 - layer, weight = layer - layers / 2;
      gradients.at("skip_weights").data[weight] +=
          dot(dx.data(), all.layers[from].output.data(), dx.size());
      dSkipped[from].assign(dx.size(), 0);
      addScaled(dSkipped[from], skipWeights[weight], dx);
    }
  }

  // x = x0 = norm(embed[tokens])
  addScaled(dx0, 1, dx);
  const Vec dEmbedded = rmsNormBackward(all.embedded, dx0, modelDim, normEpsilon);
  Vec &dTable = gradients.at("embed.weight").data;
  for (size_t t = 0; t < sequence.inputs.size(); ++t)
    for (int64_t i = 0; i < modelDim; ++i)
      dTable[sequence.inputs[t] * modelDim + i] += dEmbedded[t * modelDim + i];
}

void Gpt124m::update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
                     int64_t step) const {
  if (headScaling == "delayed") {
    delayedInput.endStep(e4m3.largest);
    delayedGradient.endStep(e5m2.largest);
  }
  const AdamConstants constants{0.8, 0.95, 1e-10, 0};
  const Real factor = learningRateFactor(step);
  for (auto &[name, parameter] : parameters) {
    const Vec &gradient = gradients.at(name).data;
    const bool isScalars = parameter.shape.size() == 1;
    if (isEmbedding(name) || isScalars || name == "lm_head.weight") {
      const Real initial = isEmbedding(name) ? 0.6 : isScalars ? 0.04 : 0.22;
      adamStep(parameter.data, gradient, state.adam[name], constants, initial * factor, step + 1);
    } else {
      muonStep(parameter, gradient, state.muon[name], Real(0.05) * factor, muonMomentum(step));
    }
  }
}

} // namespace nano::reference
