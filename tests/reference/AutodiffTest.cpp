// Training runs of both models against figures of a second program: forward passes written in
// Python from the same equations, differentiated automatically in double precision by JAX.
#include "tests/reference/Gpt124m.h"
#include "tests/reference/Gpt2.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace nano::reference;

namespace {

/// Element i of the k-th parameter (names in byte order) is ((i+1)·2654435769 + k·1640531527 mod
/// 2^32)/2^32 − 0.5, plus 1 for vectors.
Tensors weylParameters(const Model &model) {
  Tensors parameters = zeros(model.parameterShapes());
  uint32_t k = 0;
  for (auto &[name, tensor] : parameters) {
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      const uint32_t hash = uint32_t(i + 1) * 2654435769u + k * 1640531527u;
      tensor.data[i] = hash * 0x1p-32 - 0.5 + (tensor.shape.size() == 1 ? 1 : 0);
    }
    ++k;
  }
  return parameters;
}

int64_t token(int64_t t, int64_t vocab) {
  return t % 97 == 13 ? vocab - 1 : (3 * t * t + 5 * t + 7 * (t / 11)) % (vocab - 1);
}

std::vector<Sequence> batchOfStep(const Model &model, int64_t step) {
  const int64_t batch = model.sizes().integer("global_batch");
  const int64_t length = model.sizes().integer("seq_len");
  std::vector<Sequence> sequences(batch / length);
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t t = step * batch + i, vocab = model.sizes().integer("vocab_size");
    sequences[i / length].inputs.push_back(token(t, vocab));
    sequences[i / length].targets.push_back(token(t + 1, vocab));
  }
  return sequences;
}

/// Trains for as many steps as there are losses and compares these and the final Σ|p|.
void expectTraining(const Model &model, const std::vector<Real> &losses, Real absoluteSum) {
  Tensors parameters = weylParameters(model);
  OptimizerState state;
  for (size_t step = 0; step < losses.size(); ++step) {
    const Real loss = trainStep(model, parameters, state, batchOfStep(model, step), step);
    EXPECT_NEAR(loss, losses[step], 1e-9) << "step " << step;
  }
  Real sum = 0;
  for (const auto &[name, tensor] : parameters)
    for (Real p : tensor.data)
      sum += std::abs(p);
  EXPECT_NEAR(sum, absoluteSum, 1e-6);
}

} // namespace

TEST(Autodiff, Gpt124mTrainsAsInJax) {
  Hyperparameters values = gpt124mHyperparameters();
  for (const char *assignment :
       {"vocab_size=40", "num_layers=12", "num_heads=2", "head_dim=8", "model_dim=12",
        "seq_len=384", "global_batch=768", "num_iterations=8", "eos_token=39"})
    values.override(assignment);
  expectTraining(Gpt124m(values),
                 {4.927559098167716, 4.609310454978005, 4.058390449249208, 3.562015161850064,
                  3.2801160195910377},
                 8997.246372542142);
}

TEST(Autodiff, Gpt2TrainsAsInJax) {
  Hyperparameters values = gpt2Hyperparameters();
  for (const char *assignment :
       {"vocab_size=40", "num_layers=2", "num_heads=2", "model_dim=12", "block_size=32",
        "seq_len=96", "global_batch=192", "num_iterations=6", "warmup_iters=2",
        "learning_rate=0.01", "final_lr_frac=0.1", "grad_clip=0.5"})
    values.override(assignment);
  expectTraining(Gpt2(values),
                 {4.309620587453386, 4.027441430305856, 3.942310222532606, 3.7238846375148063,
                  3.78945041160187, 3.6793067717864645},
                 1401.4608757855158);
}
