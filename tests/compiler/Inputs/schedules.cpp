#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const Optimizer often = sgd("often", {.lr = 0.1, .every = step()});
  const Tensor w = param("w", {12, step()}, f32, constant(0), often);
  const double eps = 1e-3 / (1 + step());
  const Sched lr = step() < 100 ? 0.1 : 0.2;
  train(4, Loss::sum, [&](Tensor tokens, Tensor) { return norm(full({4, 8}, w, f32)); });
}
