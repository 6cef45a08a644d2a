// What is known of an element-wise function of one number, beside its op: what passes, code
// generators and tests ask through UnaryFunctionInterface.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <limits>

namespace nano::graph {

struct FunctionTraits {
  /// The op of kernels that it is, of arith or math: everywhere where SpecialFunctions.cpp has no
  /// code of vectors for it, else on targets whose library has the function. Empty: never.
  llvm::StringRef op = {};
  /// What the device library calls that op's function. Empty: it is no function there.
  llvm::StringRef device = {};
  /// What it adds to the name of a kernel that has it. Empty: nothing.
  llvm::StringRef word = {};
  /// On a CPU, in additions.
  int64_t cost = 1;
  /// On a GPU, as the device library computes it: operations, and those of the units for special
  /// functions.
  double flops = 1, specials = 0;
  /// Results lie in [low, high].
  double low = -std::numeric_limits<double>::infinity(),
         high = std::numeric_limits<double>::infinity();
  /// It is for arguments above this number.
  double above = -std::numeric_limits<double>::infinity();
  /// The result is the argument, up to the sign, or a number that every type has: nothing is
  /// rounded.
  bool isExact = false;
  /// Where the library has it and the result is rounded to a narrower type, the target's
  /// approximation does: `device`'s name with "approximate" before it, relative error 2^-22.
  bool isApproximatedWhereNarrow = false;
};

/// A function of the dialect: its op's name, as "nano.tanh", f in f64, and its traits.
struct UnaryFunction {
  llvm::StringRef op;
  double (*evaluate)(double x);
  FunctionTraits traits;
};

/// All of them, ordered by the names of their ops.
llvm::ArrayRef<UnaryFunction> unaryFunctions();

} // namespace nano::graph
