// GPT-2: equations of the forward pass in order, then their derivatives in reverse order, then
// clipping and AdamW.
#include "tests/reference/Gpt2.h"

#include "tests/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace nano::reference {

namespace {

std::string layerName(int64_t layer, const char *rest) {
  return "h." + std::to_string(layer) + "." + rest;
}

/// y = x·Wᵀ + b for the layer whose tensors are `prefix`.weight [out, in] and `prefix`.bias [out].
Vec affine(const Tensors &parameters, const std::string &prefix, const Vec &x) {
  const Tensor &weight = parameters.at(prefix + ".weight");
  const Vec &bias = parameters.at(prefix + ".bias").data;
  const int64_t out = weight.shape[0], in = weight.shape[1];
  Vec y = linear(x, weight.data.data(), in, out);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] += bias[i % out];
  return y;
}

Vec affineBackward(const Tensors &parameters, const std::string &prefix, const Vec &x,
                   const Vec &dy, Tensors &gradients) {
  const Tensor &weight = parameters.at(prefix + ".weight");
  const int64_t out = weight.shape[0], in = weight.shape[1];
  Vec &dBias = gradients.at(prefix + ".bias").data;
  for (size_t i = 0; i < dy.size(); ++i)
    dBias[i % out] += dy[i];
  return linearBackward(x, weight.data.data(), dy, in, out,
                        gradients.at(prefix + ".weight").data.data());
}

Vec normalize(const Tensors &parameters, const std::string &prefix, const Vec &x) {
  return layerNorm(x, parameters.at(prefix + ".weight"), parameters.at(prefix + ".bias"));
}

Vec normalizeBackward(const Tensors &parameters, const std::string &prefix, const Vec &x,
                      const Vec &dy, Tensors &gradients) {
  return layerNormBackward(x, parameters.at(prefix + ".weight"), dy,
                           gradients.at(prefix + ".weight"), gradients.at(prefix + ".bias"));
}

/// Columns [first, first + width) of x[rows, total].
Vec columns(const Vec &x, int64_t total, int64_t first, int64_t width) {
  Vec result;
  for (size_t start = 0; start < x.size(); start += total)
    result.insert(result.end(), &x[start + first], &x[start + first] + width);
  return result;
}

} // namespace

Hyperparameters gpt2Hyperparameters() {
  Hyperparameters values;
  values.declareInteger("vocab_size", 50257);
  values.declareInteger("num_layers", 12);
  values.declareInteger("num_heads", 12);
  values.declareInteger("model_dim", 768);
  values.declareInteger("block_size", 1024);
  values.declareInteger("seq_len", 16384);
  values.declareInteger("val_seq_len", 16384);
  values.declareInteger("global_batch", 524288);
  values.declareInteger("num_iterations", 18865);
  values.declareReal("learning_rate", 6e-4);
  values.declareInteger("warmup_iters", 700, 0);
  values.declareReal("final_lr_frac", 0.0);
  values.declareReal("weight_decay", 0.1);
  values.declareReal("beta1", 0.9);
  values.declareReal("beta2", 0.95);
  values.declareReal("adam_eps", 1e-8);
  values.declareReal("grad_clip", 1.0);
  values.declareInteger("eos_token", 50256, 0);
  values.declareWord("dtype", {"f32"});
  return values;
}

Gpt2::Gpt2(Hyperparameters values)
    : Model(std::move(values)), layers(sizes().integer("num_layers")),
      heads(sizes().integer("num_heads")), modelDim(sizes().integer("model_dim")),
      blockSize(sizes().integer("block_size")), vocab(sizes().integer("vocab_size")) {
  require(modelDim % heads == 0, "-D model_dim: must be a multiple of num_heads");
  require(sizes().integer("seq_len") % blockSize == 0,
          "-D seq_len: must be a multiple of block_size");
}

Shapes Gpt2::parameterShapes() const {
  Shapes shapes;
  const auto addAffine = [&](const std::string &prefix, int64_t out, int64_t in) {
    shapes[prefix + ".weight"] = {out, in};
    shapes[prefix + ".bias"] = {out};
  };
  const auto addNorm = [&](const std::string &prefix) {
    shapes[prefix + ".weight"] = {modelDim};
    shapes[prefix + ".bias"] = {modelDim};
  };
  shapes["wte.weight"] = {vocab, modelDim};
  shapes["wpe.weight"] = {blockSize, modelDim};
  for (int64_t layer = 0; layer < layers; ++layer) {
    addNorm(layerName(layer, "ln_1"));
    addAffine(layerName(layer, "attn.c_attn"), 3 * modelDim, modelDim);
    addAffine(layerName(layer, "attn.c_proj"), modelDim, modelDim);
    addNorm(layerName(layer, "ln_2"));
    addAffine(layerName(layer, "mlp.c_fc"), 4 * modelDim, modelDim);
    addAffine(layerName(layer, "mlp.c_proj"), modelDim, 4 * modelDim);
  }
  addNorm("ln_f");
  return shapes;
}

Model::Normal Gpt2::randomValue(const std::string &name, int64_t) const {
  if (name.ends_with(".bias"))
    return {0, 0.1};
  if (name.starts_with("ln_f") || name.find(".ln_") != std::string::npos)
    return {1, 0.1};
  return {0, 0.02};
}

/// What the backward pass needs of one layer. Comments give the equation that made the value.
struct Gpt2::LayerValues {
  Vec input;        // x
  Vec attentionIn;  // ln_1(x)
  Vec q, k, v;      // split(c_attn(attentionIn)), [T, H, Dh] each
  Vec attentionOut; // softmax(…)·v
  Vec middle;       // x + c_proj(attentionOut)
  Vec mlpIn;        // ln_2(middle)
  Vec mlpPre;       // c_fc(mlpIn)
  Vec mlpActive;    // gelu(mlpPre)
  Attention how;    // sizes and mask
};

struct Gpt2::Activations {
  std::vector<LayerValues> layers;
  Vec last;   // output of the last layer
  Vec headIn; // ln_f(last)
  Vec logits; // headIn·wteᵀ, [T, vocab]
};

Real Gpt2::tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t,
                        Tensors *gradients) const {
  const Activations all = forward(parameters, sequence);
  Vec dLogits(gradients ? all.logits.size() : 0);
  Real loss = 0;
  for (size_t t = 0; t < sequence.inputs.size(); ++t)
    loss += crossEntropy(&all.logits[t * vocab], vocab, sequence.targets[t],
                         gradients ? &dLogits[t * vocab] : nullptr);
  if (gradients) {
    // The training loss of a sequence is the mean over its tokens.
    for (Real &d : dLogits)
      d /= sequence.inputs.size();
    backward(parameters, sequence, all, dLogits, *gradients);
  }
  return loss;
}

Gpt2::Activations Gpt2::forward(const Tensors &parameters, const Sequence &sequence) const {
  const Vec &wte = parameters.at("wte.weight").data, &wpe = parameters.at("wpe.weight").data;
  const int64_t rows = sequence.inputs.size(), headDim = modelDim / heads;

  Vec x(rows * modelDim);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < modelDim; ++i)
      x[t * modelDim + i] =
          wte[sequence.inputs[t] * modelDim + i] + wpe[t % blockSize * modelDim + i];

  Activations all;
  for (int64_t layer = 0; layer < layers; ++layer) {
    LayerValues values;
    values.input = x;

    values.attentionIn = normalize(parameters, layerName(layer, "ln_1"), values.input);
    const Vec qkv = affine(parameters, layerName(layer, "attn.c_attn"), values.attentionIn);
    values.q = columns(qkv, 3 * modelDim, 0, modelDim);
    values.k = columns(qkv, 3 * modelDim, modelDim, modelDim);
    values.v = columns(qkv, 3 * modelDim, 2 * modelDim, modelDim);
    values.how = {heads, headDim, 1 / std::sqrt(Real(headDim)),
                  [rowLength = blockSize](int64_t query, int64_t key) {
                    return key <= query && query / rowLength == key / rowLength;
                  }};
    values.attentionOut = attention(values.how, values.q, values.k, values.v);
    values.middle = values.input;
    addScaled(values.middle, 1,
              affine(parameters, layerName(layer, "attn.c_proj"), values.attentionOut));

    values.mlpIn = normalize(parameters, layerName(layer, "ln_2"), values.middle);
    values.mlpPre = affine(parameters, layerName(layer, "mlp.c_fc"), values.mlpIn);
    values.mlpActive = geluTanh(values.mlpPre);
    x = values.middle;
    addScaled(x, 1, affine(parameters, layerName(layer, "mlp.c_proj"), values.mlpActive));
    all.layers.push_back(std::move(values));
  }

  all.last = x;
  all.headIn = normalize(parameters, "ln_f", all.last);
  all.logits = linear(all.headIn, wte.data(), modelDim, vocab);
  return all;
}

void Gpt2::backward(const Tensors &parameters, const Sequence &sequence, const Activations &all,
                    const Vec &dLogits, Tensors &gradients) const {
  Vec &dWte = gradients.at("wte.weight").data, &dWpe = gradients.at("wpe.weight").data;
  const int64_t rows = sequence.inputs.size();

  // logits = ln_f(x)·wteᵀ
  const Vec dHeadIn = linearBackward(all.headIn, parameters.at("wte.weight").data.data(), dLogits,
                                     modelDim, vocab, dWte.data());
  Vec dx = normalizeBackward(parameters, "ln_f", all.last, dHeadIn, gradients);

  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    const LayerValues &values = all.layers[layer];

    // x + c_proj(gelu(c_fc(ln_2(x))))
    const Vec dActive =
        affineBackward(parameters, layerName(layer, "mlp.c_proj"), values.mlpActive, dx, gradients);
    const Vec dMlpIn = affineBackward(parameters, layerName(layer, "mlp.c_fc"), values.mlpIn,
                                      geluTanhBackward(values.mlpPre, dActive), gradients);
    addScaled(
        dx, 1,
        normalizeBackward(parameters, layerName(layer, "ln_2"), values.middle, dMlpIn, gradients));

    // x + c_proj(attention(c_attn(ln_1(x))))
    const Vec dAttentionOut = affineBackward(parameters, layerName(layer, "attn.c_proj"),
                                             values.attentionOut, dx, gradients);
    const AttentionGradient d =
        attentionBackward(values.how, values.q, values.k, values.v, dAttentionOut);
    Vec dQkv;
    for (int64_t t = 0; t < rows; ++t)
      for (const Vec *part : {&d.dq, &d.dk, &d.dv})
        dQkv.insert(dQkv.end(), part->begin() + t * modelDim, part->begin() + (t + 1) * modelDim);
    const Vec dAttentionIn = affineBackward(parameters, layerName(layer, "attn.c_attn"),
                                            values.attentionIn, dQkv, gradients);
    addScaled(dx, 1,
              normalizeBackward(parameters, layerName(layer, "ln_1"), values.input, dAttentionIn,
                                gradients));
  }

  // x = wte[tokens] + wpe[pos]
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < modelDim; ++i) {
      dWte[sequence.inputs[t] * modelDim + i] += dx[t * modelDim + i];
      dWpe[t % blockSize * modelDim + i] += dx[t * modelDim + i];
    }
}

void Gpt2::update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
                  int64_t step) const {
  clipAndAdamW(sizes(), parameters, gradients, state, step);
}

} // namespace nano::reference
