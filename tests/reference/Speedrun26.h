// The NanoGPT speedrun's record 26: what it does differently from the 124M model, around that one's
// loss and gradients.
#pragma once

#include "tests/reference/Gpt124m.h"

namespace nano::reference {

class Speedrun26 : public Model {
public:
  /// InputError when the sizes do not fit together.
  explicit Speedrun26(Hyperparameters values);

  /// Those of Gpt124m with tables padded to a multiple of 128 rows, and `scalars` for the numbers
  /// that weigh streams: 5·L, and padding to a multiple of 8.
  Shapes parameterShapes() const override;
  Real tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                    Tensors *gradients) const override;
  Normal randomValue(const std::string &name, int64_t index) const override;
  void update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
              int64_t step) const override;
  Documents documents() const override { return Documents::aligned; }

  /// m(step/N): 1, then over the last 0.45 of the run linearly down to 0.1.
  Real learningRateFactor(int64_t step) const;

private:
  /// Where in `scalars` a parameter of Gpt124m lies; −1: nowhere.
  int64_t placeOf(const std::string &name) const;
  /// As Gpt124m has them.
  Tensors unpacked(const Tensors &parameters) const;

  Gpt124m inner;
  int64_t layers;
};

} // namespace nano::reference
