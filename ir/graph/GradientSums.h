// A kernel that begins with attention's gradients and ends with sums of their columns.
#pragma once

#include "ir/graph/AttentionOps.h"

#include <string>

namespace nano {

/// Tokens of which a number is the sum.
constexpr int64_t gradientSumTokens = 64;

/// The `nano.attention_grad` that the body begins with where other ops stand behind it; null where
/// it begins with another op or holds nothing else.
graph::AttentionGradOp gradientsWithSums(mlir::Block &body);

/// The gradient [T, H, D] whose sums over each `gradientSumTokens` tokens a value is, cast to f32,
/// reshaped and reduced, [T / gradientSumTokens, H, D]; null when it is no such sum.
mlir::Value summedGradient(mlir::Value value);
/// Such sums, and their type.
mlir::RankedTensorType typeOfGradientSums(mlir::Value gradient);
mlir::Value sumsOfGradient(mlir::OpBuilder &builder, mlir::Location location, mlir::Value gradient);

/// Why the body, which has gradientsWithSums, is no kernel, as the rest of a sentence; empty when
/// it is one: each other op is a part of such a sum of a gradient, and each gradient and sum is a
/// result.
std::string gradientSumsObstacle(mlir::Block &body);

} // namespace nano
