// GPT-2 as llm.c trains it: LayerNorm, biases, GELU (tanh), learned positions, tied head, and AdamW
// with warm-up, cosine decay and clipping by the global gradient norm.
#pragma once

#include "tests/reference/Model.h"

namespace nano::reference {

class Gpt2 : public Model {
public:
  /// InputError when the sizes do not fit together.
  explicit Gpt2(Hyperparameters values);

  Shapes parameterShapes() const override;
  Real tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                    Tensors *gradients) const override;
  Normal randomValue(const std::string &name, int64_t index) const override;
  void update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
              int64_t step) const override;

private:
  struct LayerValues;
  struct Activations;

  Activations forward(const Tensors &parameters, const Sequence &sequence) const;
  void backward(const Tensors &parameters, const Sequence &sequence, const Activations &all,
                const Vec &dLogits, Tensors &gradients) const;

  int64_t layers, heads, modelDim, blockSize, vocab;
};

} // namespace nano::reference
