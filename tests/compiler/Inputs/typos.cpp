#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Tensor w = param("w", {12, 8}, f32, constant(0), adam("all", {.lr = 0.1}));
  const Tensor scaled = sqare(w) + gizmo(w);
  train(4, Loss::sum, [&](Tensor tokens) { return linear(full({4, 12}, 0, f32), scaled); });
  matmul(w, "α", matmul(w));
  broken
}
