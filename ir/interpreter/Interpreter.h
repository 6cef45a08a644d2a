// Runs functions of the graph dialect in double precision with plain loops: the meaning of every
// `nano` op, against which derivatives, fusion, optimizers and kernels are tested.
#pragma once

#include "ir/graph/Nano.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace nano::interpreter {

/// A tensor: its sizes, and its elements in row-major order. Integers are held as doubles, exactly.
struct TensorValue {
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t size() const { return static_cast<int64_t>(data.size()); }

  /// A tensor of `type`'s shape with every element `value`.
  static TensorValue filled(mlir::ShapedType type, double value);
  /// Independent normal elements with the given mean and standard deviation (i32: rounded).
  static TensorValue normal(mlir::ShapedType type, std::mt19937_64 &random, double mean = 0,
                            double deviation = 1);
  /// Independent integers in [low, high), as i32 operands need.
  static TensorValue integers(mlir::ShapedType type, std::mt19937_64 &random, int64_t low,
                              int64_t high);
};

/// Values of `nano.state` and `nano.scalar` symbols by name (without '@').
using StateMap = std::map<std::string, TensorValue>;

enum class Arithmetic {
  exact,   ///< Floats are doubles throughout: no op rounds, casts between floats change nothing.
  rounded, ///< Every op's result is rounded to its element type (bf16 through f32, to nearest even;
           ///< f8 saturates). Sums and products inside an op stay in double.
  plain    ///< As `rounded`, and so is each partial sum and product inside an op, to f32: a program
           ///< of plain loops in f32, with no fused multiply and add.
};

struct Options {
  Arithmetic arithmetic = Arithmetic::exact;
  /// With `plain`: each rounding goes up or down at random, so that on average it changes nothing
  /// (Monte Carlo arithmetic). How far such runs lie apart is how far rounding moves a result.
  std::mt19937_64 *dither = nullptr;
  /// What a collective or `nano.shard` of `x` gives this rank. Without it there is one rank, to
  /// which each gives x.
  std::function<TensorValue(mlir::Operation *op, const TensorValue &x)> exchange = {};
  /// Told every value of a `nano.stop_gradient`, in order, which it may replace: what stays as it
  /// was while a derivative is taken.
  std::function<void(TensorValue &x)> stopped = {};
};

/// Runs `function` on `arguments` (shapes as its arguments' types) and returns the operands of its
/// return. `states` holds what `load` reads and is changed by `store` and `accumulate`; an
/// accumulator that is not in it counts as zero. Integer arithmetic wraps at 32 bits in both modes.
/// Errors, reported at the op: an argument of another shape, a state that is not in the map or has
/// another shape, an id or target out of range, an op of another dialect.
mlir::FailureOr<llvm::SmallVector<TensorValue>> interpret(graph::ProgramOp function,
                                                          llvm::ArrayRef<TensorValue> arguments,
                                                          StateMap &states,
                                                          const Options &options = {});

/// The same for a single op outside of any function: `op`'s results on the given operand values.
mlir::FailureOr<llvm::SmallVector<TensorValue>> interpret(mlir::Operation *op,
                                                          llvm::ArrayRef<TensorValue> operands,
                                                          StateMap &states,
                                                          const Options &options = {});

/// `value` rounded to `type`: f32, bf16, f8E4M3FN, f8E5M2 (saturating), i32 (towards zero) or i16
/// (the lower bits of that).
double roundTo(double value, mlir::Type type);

/// What `state` holds before the first step: constants and data as declared, normal, uniform and
/// signs drawn from `random`, rounded to its type. Nothing for one that starts by blocks or as a
/// copy.
std::optional<TensorValue> initialValue(graph::StateOp state, std::mt19937_64 &random);

/// Values for every state of `module` that `states` lacks, as `initialValue` has them. Blocks,
/// copies and scalars are left to the caller.
void initializeStates(mlir::ModuleOp module, StateMap &states, std::mt19937_64 &random);

} // namespace nano::interpreter
