// Evaluates the expressions of a plan's schedules (learning rates, momentum, windows) for one step,
// on the host.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nano::plan {

/// The values of the variables that an Expr may name.
struct Variables {
  double step = 0;          ///< "step": the optimizer step, counted from 0
  double numIterations = 0; ///< "num_iterations": optimizer steps of the whole run
  double sequences = 0;     ///< "sequences": sequences in the global batch
  double world = 1;         ///< "world": number of ranks
  double sequence = 0;      ///< "sequence": the one at hand in the global batch, counted from 0
  /// "seed_low", "seed_high": the run's seed, its lower and its upper 32 bits as numbers of i32.
  double seedLow = 0, seedHigh = 0;
};

/// Whether `name` is a variable that an Expr may name.
bool isVariable(std::string_view name);
/// Whether the value is one for each sequence of a batch.
bool variesBySequence(const Expr &expr);
/// How many operands an expression of this kind has: 0 to 3.
unsigned arity(Expr::Kind kind);
/// The name of the kind in plan files: "const", "var", "neg", …, "select".
const char *nameOf(Expr::Kind kind);

/// The value in f64. Expects what `validate` checks: known variables and as many operands as the
/// kind takes.
double evaluate(const Expr &expr, const Variables &variables);

/// The scalar's four bytes as they stand in the scalar buffer: F32, or I32 rounded to nearest (ties
/// to even), clamped to the type's range, 0 for NaN.
uint32_t evaluateBits(const Scalar &scalar, const Variables &variables);

/// The expression as people write it, e.g. "max(0.1, 1 - step / num_iterations)".
std::string toString(const Expr &expr);

} // namespace nano::plan
