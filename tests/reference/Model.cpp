// What all models share: one training step, and random parameters.
#include "tests/reference/Model.h"

#include <random>

namespace nano::reference {

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
