// Small training functions that together use what models use, for checks of whole gradients.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ostream>

namespace nano::test {

struct Graph {
  const char *name;
  /// The parameters, each "name type", separated by commas.
  const char *parameters;
  /// The body of @train: %tokens and %targets are tensor<6xi32> with values in [0, 5).
  const char *body;
  /// Whether the backward pass has anything to recompute.
  bool recomputes = true;
};

inline std::ostream &operator<<(std::ostream &os, const Graph &graph) { return os << graph.name; }

llvm::ArrayRef<Graph> graphs();

} // namespace nano::test
