// What a step leaves that anybody can see, losses, logits, gradients and states, and when two
// programs leave the same.
#pragma once

#include "ir/interpreter/Interpreter.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace nano::bisect {

/// A tensor that a program leaves.
struct Observation {
  interpreter::TensorValue value;
  /// Of a state: what it held before, for what counts is the change.
  std::optional<interpreter::TensorValue> before = {};
  double rounding = 0; ///< half the distance of 1 to the next number of its type; integers: 0
};

/// By name: "loss of micro-batch 1", "gradient of wte.weight", "wte.weight after the update".
using Observations = std::map<std::string, Observation>;

/// Half the distance of 1 to the next number of an element type: 2^-24 for f32; 0 for integers.
double roundingOf(mlir::Type element);

/// A tensor in which two programs differ.
struct Difference {
  std::string name;
  double relative = 0; ///< ‖a − b‖ by the norm of b's change, or of b
  double allowed = 0;  ///< in the same unit
  int64_t element = 0; ///< the one that is furthest off
  double found = 0, wanted = 0;
};

struct Comparison {
  size_t tensors = 0; ///< that both have
  double largest = 0; ///< relative difference of those that agree
  std::string largestAt;
  std::optional<Difference> worst; ///< the one that is furthest beyond what is allowed, if any is
};

/// How far two values of a tensor may be apart.
struct Tolerance {
  double relative = 0;
  bool isRounded = false;              ///< both were computed in the types of their tensors
  std::map<std::string, double> noise; ///< ‖a − b‖ that rounding alone explains, by name
};

/// Holds `found` against `wanted`, each tensor that both have. They agree where ‖a − b‖ is at most
/// `relative` times the norm of what the step has changed in b (of b where that is no state), with
/// what is a hundredth of its kind's largest as the least, plus the noise and, where they are
/// rounded, four roundings of b. An element that is not a finite number in b is not compared.
Comparison compare(const Observations &found, const Observations &wanted,
                   const Tolerance &tolerance);

/// ‖a − b‖, for tensors of one shape; infinite where one is not finite and the other is.
double distanceOf(const interpreter::TensorValue &a, const interpreter::TensorValue &b);

/// Observations as bytes, and back.
std::string toBytes(const Observations &observations);
Observations fromBytes(const std::string &bytes);

} // namespace nano::bisect
