// Which weights' products run in FP8, and how each is scaled: a field of the weight's state.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/Builders.h"

#include <array>
#include <optional>

namespace nano::fp8 {

/// How tensors get their scales.
enum class Recipe : uint8_t {
  Off,     ///< the products stay in the compute type
  Static,  ///< given numbers
  Current, ///< the tensor's own largest magnitude
  Delayed, ///< the largest magnitude of the last steps; the weight's own
  Block,   ///< the largest magnitude of every 128 elements along the inner dimension; 128×128 of
           ///< the weight
};

/// "off", "static", "current", "delayed", "block"
llvm::StringRef nameOf(Recipe recipe);
std::optional<Recipe> parseRecipe(llvm::StringRef name);

/// The three tensors that a linear layer's products read: x and W forward, and ∂L/∂y.
enum class Operand : uint8_t { Input, Weight, Gradient };
/// "input", "weight", "gradient"
llvm::StringRef nameOf(Operand operand);

/// What `fp8` of a parameter's `nano.state` says:
/// `{recipe = "static", scales = array<f64: x, W, g>, history = 16 : i64, margin = 0.0 : f64}`;
/// `backward = false` and `given = true` where it is so.
struct Policy {
  Recipe recipe = Recipe::Off;
  std::array<double, 3> scales{}; ///< by Operand; Static alone; 0: not known
  int64_t history = 16;           ///< steps that Delayed looks back
  double margin = 0;              ///< Current, Delayed and Block divide the range by 2^margin
  bool backward = true;           ///< whether the products of the backward pass run in 8 bits too
  /// Whether the model itself gives scales, which are of the weight as it is: numbers that
  /// multiply columns of its products stay there, whatever recipe options choose.
  bool given = false;

  double scale(Operand operand) const { return scales[static_cast<size_t>(operand)]; }

  /// The policy of a parameter; Off where it has none. Errors at the state: an unknown recipe,
  /// static scales that are not three numbers, none negative, a history below 1, a margin beyond
  /// ±64.
  static mlir::FailureOr<Policy> of(graph::StateOp parameter);
  mlir::DictionaryAttr attribute(mlir::Builder &builder) const;
};

/// Scales of blocks that lie in memory as GPU libraries read them (`gpu_scales` of `nano.model`)
/// lie in rows of a multiple of so many; and the rows of a result with such scales are a multiple
/// of so many.
inline constexpr int64_t gpuScaleUnit = 4, gpuRowUnit = 8;

/// The 8-bit type of an operand: e4m3 forward, e5m2 for gradients; with a scale every 128 elements
/// e4m3's range is enough for gradients too (DeepSeek-V3).
mlir::FloatType formatOf(Operand operand, Recipe recipe, mlir::MLIRContext *context);
/// The largest finite number of an 8-bit type.
double largestOf(mlir::Type format);

} // namespace nano::fp8
