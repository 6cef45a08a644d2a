// Record 26: one parameter for all numbers that weigh streams, padded tables, its schedule and
// Adam.
#include "tests/reference/Speedrun26.h"

#include <algorithm>
#include <cmath>

namespace nano::reference {

namespace {

bool isTable(const std::string &name) {
  return name == "embed.weight" || name.starts_with("value_embeds.");
}

/// p ← p − lr·√(1−β₂ᵗ)/(1−β₁ᵗ)·m/(√v + ε): ε beside the second moment as it is kept.
void adamStep26(Vec &p, const Vec &g, AdamState &state, Real epsilon, Real lr, int64_t t) {
  const Real beta1 = 0.8, beta2 = 0.95;
  const Real rate = lr * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
  state.m.resize(p.size(), 0);
  state.v.resize(p.size(), 0);
  for (size_t i = 0; i < p.size(); ++i) {
    Real &m = state.m[i], &v = state.v[i];
    m = beta1 * m + (1 - beta1) * g[i];
    v = beta2 * v + (1 - beta2) * g[i] * g[i];
    p[i] -= rate * m / (std::sqrt(v) + epsilon);
  }
}

} // namespace

Hyperparameters speedrun26Hyperparameters() {
  Hyperparameters values = gpt124mHyperparameters();
  values.override("num_iterations=1750");
  values.declareReal("adam_eps", 1e-10);
  return values;
}

Speedrun26::Speedrun26(Hyperparameters values)
    : Model(std::move(values)), inner(sizes()), layers(sizes().integer("num_layers")) {}

int64_t Speedrun26::placeOf(const std::string &name) const {
  if (name == "skip_weights")
    return 0;
  if (!name.ends_with("lambdas"))
    return -1;
  const int64_t layer = std::stoll(name.substr(std::string("blocks.").size()));
  return (name.ends_with("attn.lambdas") ? 3 : 1) * layers + 2 * layer;
}

Shapes Speedrun26::parameterShapes() const {
  Shapes shapes;
  for (auto &[name, shape] : inner.parameterShapes())
    if (isTable(name))
      shapes[name] = {(shape[0] + 127) / 128 * 128, shape[1]};
    else if (placeOf(name) < 0)
      shapes[name] = shape;
  shapes["scalars"] = {(5 * layers + 7) / 8 * 8};
  return shapes;
}

Tensors Speedrun26::unpacked(const Tensors &parameters) const {
  Tensors result;
  const Vec &scalars = parameters.at("scalars").data;
  for (auto &[name, shape] : inner.parameterShapes()) {
    const int64_t place = placeOf(name);
    if (place < 0)
      result[name] = parameters.at(name);
    else
      result[name] = {shape, {scalars.begin() + place, scalars.begin() + place + shape[0]}};
  }
  return result;
}

Real Speedrun26::tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                              Tensors *gradients) const {
  const Tensors given = unpacked(parameters);
  if (!gradients)
    return inner.tokenLossSum(given, sequence, step, nullptr);
  Tensors found = unpacked(*gradients);
  const Real loss = inner.tokenLossSum(given, sequence, step, &found);
  Vec &scalars = gradients->at("scalars").data;
  for (auto &[name, gradient] : found)
    if (const int64_t place = placeOf(name); place >= 0)
      std::copy(gradient.data.begin(), gradient.data.end(), scalars.begin() + place);
    else
      gradients->at(name) = std::move(gradient);
  return loss;
}

Model::Normal Speedrun26::randomValue(const std::string &name, int64_t index) const {
  if (name != "scalars")
    return inner.randomValue(name, index);
  for (auto &[part, shape] : inner.parameterShapes())
    if (const int64_t place = placeOf(part); place >= 0)
      if (index >= place && index < place + shape[0])
        return inner.randomValue(part, index - place);
  return {1, 0.1}; // what nothing reads
}

Real Speedrun26::learningRateFactor(int64_t step) const {
  const Real x = Real(step) / sizes().integer("num_iterations"), cooldown = 0.45;
  return x < 1 - cooldown ? 1 : Real(0.1) + Real(0.9) * (1 - x) / cooldown;
}

void Speedrun26::update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
                        int64_t step) const {
  const Real factor = learningRateFactor(step), epsilon = sizes().real("adam_eps");
  for (auto &[name, parameter] : parameters) {
    const Vec &gradient = gradients.at(name).data;
    if (isTable(name) || name == "scalars" || name == "lm_head.weight") {
      const Real initial = isTable(name) ? 0.6 : name == "scalars" ? 0.04 : 0.22;
      adamStep26(parameter.data, gradient, state.adam[name], epsilon, initial * factor, step + 1);
    } else {
      muonStep(parameter, gradient, state.muon[name], Real(0.05) * factor,
               Gpt124m::muonMomentum(step));
    }
  }
}

} // namespace nano::reference
