// The NanoGPT speedrun's record 44: forward as equations on values that know their derivatives,
// and NorMuon and Adam with their schedules.
#pragma once

#include "tests/reference/Model.h"

namespace nano::reference {

class Speedrun44 : public Model {
public:
  static constexpr int64_t layers = 12, stages = 4;

  /// InputError when the sizes do not fit together.
  explicit Speedrun44(Hyperparameters values);

  Shapes parameterShapes() const override;
  /// Validation, which asks for no gradients, has the last windows at step N.
  Real tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                    Tensors *gradients) const override;
  Normal randomValue(const std::string &name, int64_t index) const override;
  void update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
              int64_t step) const override;
  Documents documents() const override { return Documents::cut; }

  /// ⌊3s/(N − extension)⌋, at most 3.
  int64_t stageOf(int64_t step) const;
  /// w_long or w_short in tokens; `step` N: that of the last validation.
  int64_t window(int64_t step, bool isLong) const;
  /// f and κ of a stage.
  Vec frequencies(int64_t stage) const;
  Real attentionScale(int64_t stage) const;
  /// f(s) of the learning rates, θ(s) of NorMuon.
  Real learningRateFactor(int64_t step) const;
  Real momentum(int64_t step) const;

private:
  int64_t steps, scheduled, heads, headDim, modelDim, rows;
};

/// One NorMuon update of the matrix w [rows, columns]:
///   m ← m + (1−θ)(g − m), X = g + θ(m − g), X ← X/(1.02·‖X‖ + 1e-6), five polynomials of the Polar
///   Express; V ← V + 0.05·(mean over rows of X² − V), X scaled by max(V, 1e-10)^−½ and back to its
///   norm; X ← X + [X·w ≥ 0]·1.2·η·w, w ← w − k·η·X.
void norMuonStep(Real *w, const Real *g, Real *m, Real *v, int64_t rows, int64_t columns, Real eta,
                 Real k, Real theta);

} // namespace nano::reference
