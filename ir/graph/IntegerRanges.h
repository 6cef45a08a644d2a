// What the integers of a program can be: an interval for every i32 tensor of a function, from the
// tokens that it takes through the arithmetic on them.
#pragma once

#include "ir/graph/Nano.h"

#include "llvm/ADT/DenseMap.h"

#include <cstdint>
#include <string>

namespace nano::graph {

/// The numbers low … high, both included: what the elements of a tensor lie among.
struct IntegerRange {
  int64_t low = INT32_MIN, high = INT32_MAX;
  /// Some element is `low` and some is `high`, whatever the data are: positions are so, tokens are
  /// not.
  bool isReached = false;

  bool isWithin(int64_t bound) const { return low >= 0 && high < bound; }
  /// Whether some element is certain to lie outside of [0, bound).
  bool isCertainlyOutside(int64_t bound) const {
    return low >= bound || high < 0 || (isReached && !isWithin(bound));
  }
};

/// "7", "0 to 256" or, of a range that says nothing, "any number".
std::string toString(const IntegerRange &range);

/// Goes over a function's block once, from the first op to the last. What overflows may be any
/// number; so may what comes from scalars and states, but not from tables. The remainder
/// x − x/c·c is 0 … c − 1. f32 that are made of integers, and hold them exactly, are followed too:
/// the columns of largest numbers are found in them, and integers are looked up in tables of them.
///
///   %t = nano.iota 0 : tensor<128xi32>                       // 0 to 127
///   %s = nano.add %tokens, %three_hundred                    // 300 to 556 of 257 tokens
///   %p = nano.sub %t, %row_start                             // %t − %t/64·64: 0 to 63
class IntegerRanges {
public:
  /// The function's first two arguments are tokens and targets in [0, `vocabulary`); any number
  /// where that is 0. Further ones are columns of the data, any number; so is the second one of
  /// role decode, a position.
  IntegerRanges(ProgramOp function, int64_t vocabulary);

  /// The range of an i32 tensor of the function's block.
  IntegerRange of(mlir::Value value) const { return known.lookup(value); }

private:
  IntegerRange compute(mlir::Operation *op) const;
  /// Whether all elements of an op's f32 result are certain to be integers, those of `compute`.
  bool isWhole(mlir::Operation *op) const;

  llvm::DenseMap<mlir::Value, IntegerRange> known;
};

} // namespace nano::graph
