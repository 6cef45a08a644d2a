#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Tensor w = param("w", {12, 8}, f32, constant(0), adam("all", {.lr = 0.1}));
  train(4, Loss::sum, [&](Tensor tokens, Tensor) { return linear(full({4, 6}, 0, f32), w); });
}
