// What all models share: one training step, and random parameters.
#include "tests/reference/Model.h"

#include <cmath>
#include <random>

namespace nano::reference {

std::string blockName(int64_t layer, const char *rest) {
  return "blocks." + std::to_string(layer) + "." + rest;
}

std::string valueEmbedName(int64_t index) {
  return "value_embeds." + std::to_string(index) + ".weight";
}

Real trainStep(const Model &model, Tensors &parameters, OptimizerState &state,
               const std::vector<Sequence> &batch, int64_t step) {
  Tensors gradients = zeros(model.parameterShapes());
  Real loss = 0;
  size_t tokens = 0;
  for (const Sequence &sequence : batch) {
    loss += model.tokenLossSum(parameters, sequence, step, &gradients);
    tokens += sequence.inputs.size();
  }
  for (auto &[name, gradient] : gradients)
    for (Real &g : gradient.data)
      g /= batch.size();
  model.update(parameters, gradients, state, step);
  return loss / tokens;
}

Real warmupCosine(const Hyperparameters &sizes, int64_t step) {
  const Real top = sizes.real("learning_rate"), bottom = top * sizes.real("final_lr_frac");
  const int64_t warmup = sizes.integer("warmup_iters");
  if (step < warmup)
    return top * Real(step + 1) / Real(warmup);
  const Real r = Real(step - warmup) / Real(sizes.integer("num_iterations") - warmup);
  return bottom + (1 + std::cos(std::acos(Real(-1)) * r)) / 2 * (top - bottom);
}

void clipByNorm(Tensors &gradients, Real limit) {
  Real squares = 0;
  for (const auto &[name, gradient] : gradients)
    for (Real g : gradient.data)
      squares += g * g;
  const Real norm = std::sqrt(squares);
  if (norm > limit)
    for (auto &[name, gradient] : gradients)
      for (Real &g : gradient.data)
        g *= limit / norm;
}

void clipAndAdamW(const Hyperparameters &sizes, Tensors &parameters, Tensors &gradients,
                  OptimizerState &state, int64_t step) {
  clipByNorm(gradients, sizes.real("grad_clip"));
  for (auto &[name, parameter] : parameters) {
    const bool isMatrix = parameter.shape.size() == 2;
    const AdamConstants constants{sizes.real("beta1"), sizes.real("beta2"), sizes.real("adam_eps"),
                                  isMatrix ? sizes.real("weight_decay") : 0};
    adamStep(parameter.data, gradients.at(name).data, state.adam[name], constants,
             warmupCosine(sizes, step), step + 1);
  }
}

Tensors fillRandomly(const Model &model, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<Real> normal;
  Tensors parameters = zeros(model.parameterShapes());
  for (auto &[name, tensor] : parameters)
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      const auto [mean, deviation] = model.randomValue(name, i);
      tensor.data[i] = mean + deviation * normal(generator);
    }
  return parameters;
}

} // namespace nano::reference
