// Llama: RMSNorm with a scale, rotary positions, grouped queries, SwiGLU, and AdamW with warm-up,
// cosine decay and clipping by the global gradient norm.
#pragma once

#include "tests/reference/Model.h"

namespace nano::reference {

class Llama : public Model {
public:
  /// InputError when the sizes do not fit together.
  explicit Llama(Hyperparameters values);

  Shapes parameterShapes() const override;
  Real tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                    Tensors *gradients) const override;
  Normal randomValue(const std::string &name, int64_t index) const override;
  void update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
              int64_t step) const override;

  /// Radians by which pair `index` of a head turns a position.
  Real frequency(int64_t index) const;

private:
  struct LayerValues;
  struct Activations;

  Activations forward(const Tensors &parameters, const Sequence &sequence) const;
  void backward(const Tensors &parameters, const Sequence &sequence, const Activations &all,
                const Vec &dLogits, Tensors &gradients) const;
  /// x [rows, heads, headDim] turned by its positions; direction −1 turns back.
  Vec turned(const Vec &x, int64_t heads, Real direction) const;
  /// What every head of queries sees of x [rows, keyHeads, headDim]: [rows, heads, headDim].
  Vec repeated(const Vec &x) const;
  /// The sums over the heads of queries that share one of keys: the derivative of `repeated`.
  Vec summed(const Vec &x) const;

  int64_t layers, heads, keyHeads, headDim, modelDim, mlpDim, blockSize, vocab;
  bool isTied;
};

} // namespace nano::reference
