// Llama: equations of the forward pass in order, then their derivatives in reverse order, then
// clipping and AdamW.
#include "tests/reference/Llama.h"

#include "tests/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace nano::reference {

namespace {

const Real pi = std::acos(Real(-1));

std::string weightName(int64_t layer, const char *rest) {
  return "model.layers." + std::to_string(layer) + "." + rest + ".weight";
}

/// y = x·Wᵀ for W [out, in].
Vec product(const Tensor &weight, const Vec &x) {
  return linear(x, weight.data.data(), weight.shape[1], weight.shape[0]);
}
Vec productBackward(const Tensor &weight, const Vec &x, const Vec &dy, Tensor &dWeight) {
  return linearBackward(x, weight.data.data(), dy, weight.shape[1], weight.shape[0],
                        dWeight.data.data());
}

/// y = x/√(mean(x²) + ε)·w over each row.
Vec scaledNorm(const Vec &x, const Tensor &scale, Real epsilon) {
  const auto width = int64_t(scale.data.size());
  Vec y = rmsNorm(x, width, epsilon);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] *= scale.data[i % width];
  return y;
}
Vec scaledNormBackward(const Vec &x, const Tensor &scale, Real epsilon, const Vec &dy,
                       Tensor &dScale) {
  const auto width = int64_t(scale.data.size());
  const Vec normal = rmsNorm(x, width, epsilon);
  Vec dNormal(dy.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    dScale.data[i % width] += dy[i] * normal[i];
    dNormal[i] = dy[i] * scale.data[i % width];
  }
  return rmsNormBackward(x, dNormal, width, epsilon);
}

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

} // namespace

Hyperparameters llamaHyperparameters() {
  Hyperparameters values;
  values.declareInteger("vocab_size", 32000);
  values.declareInteger("num_layers", 22);
  values.declareInteger("num_heads", 32);
  values.declareInteger("num_kv_heads", 4);
  values.declareInteger("head_dim", 64);
  values.declareInteger("model_dim", 2048);
  values.declareInteger("ffn_dim", 5632);
  values.declareInteger("block_size", 2048);
  values.declareInteger("seq_len", 16384);
  values.declareInteger("val_seq_len", 16384);
  values.declareInteger("global_batch", 524288);
  values.declareInteger("num_iterations", 20000);
  values.declareReal("learning_rate", 4e-4);
  values.declareInteger("warmup_iters", 500, 0);
  values.declareReal("final_lr_frac", 0.1);
  values.declareReal("weight_decay", 0.1);
  values.declareReal("beta1", 0.9);
  values.declareReal("beta2", 0.95);
  values.declareReal("adam_eps", 1e-8);
  values.declareReal("grad_clip", 1.0);
  values.declareReal("norm_eps", 1e-5);
  values.declareWord("tied", {"no", "yes"});
  values.declareReal("rope_theta", 10000.0);
  values.declareWord("rope_scaling", {"none", "linear", "llama3"});
  values.declareReal("rope_factor", 8.0);
  values.declareReal("rope_low_freq_factor", 1.0);
  values.declareReal("rope_high_freq_factor", 4.0);
  values.declareInteger("rope_original_block", 8192);
  values.declareInteger("eos_token", 2, 0);
  values.declareWord("dtype", {"f32"});
  return values;
}

Llama::Llama(Hyperparameters values)
    : Model(std::move(values)), layers(sizes().integer("num_layers")),
      heads(sizes().integer("num_heads")), keyHeads(sizes().integer("num_kv_heads")),
      headDim(sizes().integer("head_dim")), modelDim(sizes().integer("model_dim")),
      mlpDim(sizes().integer("ffn_dim")), blockSize(sizes().integer("block_size")),
      vocab(sizes().integer("vocab_size")), isTied(sizes().word("tied") == "yes") {
  require(heads % keyHeads == 0, "-D num_heads: must be a multiple of num_kv_heads");
  require(headDim % 2 == 0, "-D head_dim: must be even");
  require(sizes().integer("seq_len") % blockSize == 0,
          "-D seq_len: must be a multiple of block_size");
}

Shapes Llama::parameterShapes() const {
  Shapes shapes;
  shapes["model.embed_tokens.weight"] = {vocab, modelDim};
  for (int64_t layer = 0; layer < layers; ++layer) {
    shapes[weightName(layer, "input_layernorm")] = {modelDim};
    shapes[weightName(layer, "self_attn.q_proj")] = {heads * headDim, modelDim};
    shapes[weightName(layer, "self_attn.k_proj")] = {keyHeads * headDim, modelDim};
    shapes[weightName(layer, "self_attn.v_proj")] = {keyHeads * headDim, modelDim};
    shapes[weightName(layer, "self_attn.o_proj")] = {modelDim, heads * headDim};
    shapes[weightName(layer, "post_attention_layernorm")] = {modelDim};
    shapes[weightName(layer, "mlp.gate_proj")] = {mlpDim, modelDim};
    shapes[weightName(layer, "mlp.up_proj")] = {mlpDim, modelDim};
    shapes[weightName(layer, "mlp.down_proj")] = {modelDim, mlpDim};
  }
  shapes["model.norm.weight"] = {modelDim};
  if (!isTied)
    shapes["lm_head.weight"] = {vocab, modelDim};
  return shapes;
}

Model::Normal Llama::randomValue(const std::string &name, int64_t) const {
  return name.find("norm") != std::string::npos ? Normal{1, 0.1} : Normal{0, 0.02};
}

/// What the backward pass needs of one layer. Comments give the equation that made the value.
struct Llama::LayerValues {
  Vec input;        // x
  Vec attentionIn;  // input_layernorm(x)
  Vec q, k, v;      // turned(q_proj), repeated(turned(k_proj)), repeated(v_proj)
  Vec attentionOut; // softmax(…)·v
  Vec middle;       // x + o_proj(attentionOut)
  Vec mlpIn;        // post_attention_layernorm(middle)
  Vec gate, up;     // gate_proj(mlpIn), up_proj(mlpIn)
  Vec mlpActive;    // gate·sigmoid(gate)·up
  Attention how;    // sizes and mask
};

struct Llama::Activations {
  std::vector<LayerValues> layers;
  Vec last;   // output of the last layer
  Vec headIn; // norm(last)
  Vec logits; // headIn·headᵀ, [T, vocab]
};

Real Llama::frequency(int64_t index) const {
  const Real plain = std::pow(sizes().real("rope_theta"), -2 * Real(index) / Real(headDim));
  const std::string &scaling = sizes().word("rope_scaling");
  const Real factor = sizes().real("rope_factor");
  if (scaling == "none")
    return plain;
  if (scaling == "linear")
    return plain / factor;
  // transformers, modeling_rope_utils.py: _compute_llama3_parameters.
  const Real length = Real(sizes().integer("rope_original_block")),
             low = sizes().real("rope_low_freq_factor"),
             high = sizes().real("rope_high_freq_factor"), wavelength = 2 * pi / plain;
  if (wavelength < length / high)
    return plain;
  if (wavelength > length / low)
    return plain / factor;
  const Real smooth = (length / wavelength - low) / (high - low);
  return (1 - smooth) * plain / factor + smooth * plain;
}

Vec Llama::turned(const Vec &x, int64_t count, Real direction) const {
  Vec y(x.size());
  const int64_t half = headDim / 2;
  for (size_t row = 0; row < x.size() / (count * headDim); ++row)
    for (int64_t head = 0; head < count; ++head)
      for (int64_t i = 0; i < half; ++i) {
        const Real angle = direction * Real(int64_t(row) % blockSize) * frequency(i);
        const size_t first = (row * count + head) * headDim + i, second = first + half;
        y[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
        y[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
      }
  return y;
}

Vec Llama::repeated(const Vec &x) const {
  Vec y;
  for (size_t row = 0; row < x.size() / (keyHeads * headDim); ++row)
    for (int64_t head = 0; head < heads; ++head) {
      const auto from = x.begin() + int64_t(row * keyHeads + head * keyHeads / heads) * headDim;
      y.insert(y.end(), from, from + headDim);
    }
  return y;
}

Vec Llama::summed(const Vec &x) const {
  Vec y(x.size() / heads * keyHeads);
  for (size_t row = 0; row < x.size() / (heads * headDim); ++row)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < headDim; ++i)
        y[(row * keyHeads + head * keyHeads / heads) * headDim + i] +=
            x[(row * heads + head) * headDim + i];
  return y;
}

Real Llama::tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t,
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
      d /= Real(sequence.inputs.size());
    backward(parameters, sequence, all, dLogits, *gradients);
  }
  return loss;
}

Llama::Activations Llama::forward(const Tensors &parameters, const Sequence &sequence) const {
  const Tensor &embedding = parameters.at("model.embed_tokens.weight");
  const Real epsilon = sizes().real("norm_eps");
  Vec x;
  for (int64_t token : sequence.inputs) {
    const auto row = embedding.data.begin() + token * modelDim;
    x.insert(x.end(), row, row + modelDim);
  }
  Activations all;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto weight = [&](const char *name) -> const Tensor & {
      return parameters.at(weightName(layer, name));
    };
    LayerValues values;
    values.input = x;

    values.attentionIn = scaledNorm(x, weight("input_layernorm"), epsilon);
    values.q = turned(product(weight("self_attn.q_proj"), values.attentionIn), heads, 1);
    values.k =
        repeated(turned(product(weight("self_attn.k_proj"), values.attentionIn), keyHeads, 1));
    values.v = repeated(product(weight("self_attn.v_proj"), values.attentionIn));
    values.how = {heads, headDim, 1 / std::sqrt(Real(headDim)),
                  [rowLength = blockSize](int64_t query, int64_t key) {
                    return key <= query && query / rowLength == key / rowLength;
                  }};
    values.attentionOut = attention(values.how, values.q, values.k, values.v);
    values.middle = values.input;
    addScaled(values.middle, 1, product(weight("self_attn.o_proj"), values.attentionOut));

    values.mlpIn = scaledNorm(values.middle, weight("post_attention_layernorm"), epsilon);
    values.gate = product(weight("mlp.gate_proj"), values.mlpIn);
    values.up = product(weight("mlp.up_proj"), values.mlpIn);
    values.mlpActive.resize(values.gate.size());
    for (size_t i = 0; i < values.gate.size(); ++i)
      values.mlpActive[i] = values.gate[i] * sigmoid(values.gate[i]) * values.up[i];
    x = values.middle;
    addScaled(x, 1, product(weight("mlp.down_proj"), values.mlpActive));
    all.layers.push_back(std::move(values));
  }
  all.last = x;
  all.headIn = scaledNorm(x, parameters.at("model.norm.weight"), epsilon);
  all.logits = product(isTied ? embedding : parameters.at("lm_head.weight"), all.headIn);
  return all;
}

void Llama::backward(const Tensors &parameters, const Sequence &sequence, const Activations &all,
                     const Vec &dLogits, Tensors &gradients) const {
  const Real epsilon = sizes().real("norm_eps");
  const char *const head = isTied ? "model.embed_tokens.weight" : "lm_head.weight";

  // logits = norm(x)·headᵀ
  const Vec dHeadIn = productBackward(parameters.at(head), all.headIn, dLogits, gradients.at(head));
  Vec dx = scaledNormBackward(all.last, parameters.at("model.norm.weight"), epsilon, dHeadIn,
                              gradients.at("model.norm.weight"));

  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    const LayerValues &values = all.layers[layer];
    const auto back = [&](const char *name, const Vec &in, const Vec &dy) {
      const std::string full = weightName(layer, name);
      return productBackward(parameters.at(full), in, dy, gradients.at(full));
    };
    const auto normBack = [&](const char *name, const Vec &in, const Vec &dy) {
      const std::string full = weightName(layer, name);
      return scaledNormBackward(in, parameters.at(full), epsilon, dy, gradients.at(full));
    };

    // x + down(silu(gate)·up)
    const Vec dActive = back("mlp.down_proj", values.mlpActive, dx);
    Vec dGate(dActive.size()), dUp(dActive.size());
    for (size_t i = 0; i < dActive.size(); ++i) {
      const Real g = values.gate[i], s = sigmoid(g);
      dUp[i] = dActive[i] * g * s;
      dGate[i] = dActive[i] * values.up[i] * s * (1 + g * (1 - s));
    }
    Vec dMlpIn = back("mlp.gate_proj", values.mlpIn, dGate);
    addScaled(dMlpIn, 1, back("mlp.up_proj", values.mlpIn, dUp));
    addScaled(dx, 1, normBack("post_attention_layernorm", values.middle, dMlpIn));

    // x + o(attention(q, k, v))
    const Vec dOut = back("self_attn.o_proj", values.attentionOut, dx);
    const AttentionGradient d = attentionBackward(values.how, values.q, values.k, values.v, dOut);
    Vec dIn = back("self_attn.q_proj", values.attentionIn, turned(d.dq, heads, -1));
    addScaled(dIn, 1,
              back("self_attn.k_proj", values.attentionIn, turned(summed(d.dk), keyHeads, -1)));
    addScaled(dIn, 1, back("self_attn.v_proj", values.attentionIn, summed(d.dv)));
    addScaled(dx, 1, normBack("input_layernorm", values.input, dIn));
  }

  Vec &dEmbedding = gradients.at("model.embed_tokens.weight").data;
  for (size_t t = 0; t < sequence.inputs.size(); ++t)
    for (int64_t i = 0; i < modelDim; ++i)
      dEmbedding[sequence.inputs[t] * modelDim + i] += dx[t * modelDim + i];
}

void Llama::update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
                   int64_t step) const {
  clipAndAdamW(sizes(), parameters, gradients, state, step);
}

} // namespace nano::reference
