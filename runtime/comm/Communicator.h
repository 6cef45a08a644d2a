// How ranks exchange data: the interface that a device's collectives and the training loop use.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>

namespace nano {

/// One rank's end of a group of ranks. Every rank makes the same calls in the same order.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  /// Element-wise sum over ranks of `count` elements, in place; added in rank order, so that
  /// repeats are bit-equal. f32 or bf16 (bf16: summed in f32, rounded once). `what` names the
  /// collective in error messages.
  virtual Status allReduce(void *data, int64_t count, plan::DType type, const char *what) = 0;
  /// Returns when every rank has called it.
  virtual Status barrier(const char *what) = 0;
};

} // namespace nano
