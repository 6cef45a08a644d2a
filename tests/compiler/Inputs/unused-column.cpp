// Of three columns that the programs name they use one.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const Tensor scale = param("scale", {1}, f32, constant(1), adam("all", {.lr = 0.0}));
  auto loss = [&](Tensor, Tensor) {
    const Tensor first = column("first", i32), used = column("used", f32);
    const Tensor last = column("last", u8) + first;
    return scale * used;
  };
  training({.vocabSize = 10, .eosToken = 0, .globalBatch = 8, .numIterations = 5});
  train(8, Loss::mean, loss);
  validate(8, Loss::mean, loss);
}
