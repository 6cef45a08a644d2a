// Finds the matrix products of linear layers: forward, and the two of the backward pass.
#pragma once

#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "passes/fp8/Policy.h"

namespace nano::fp8 {

/// What a product computes for its layer y = x·Wᵀ.
enum class Part : uint8_t {
  Forward,       ///< y
  InputGradient, ///< ∂L/∂x, of ∂L/∂y and W
  WeightGradient ///< ∂L/∂W, of ∂L/∂y and x
};
/// "forward product", "gradient of the input", "gradient of the weight"
llvm::StringRef nameOf(Part part);
inline constexpr Part allParts[] = {Part::Forward, Part::InputGradient, Part::WeightGradient};

/// One product, with what its operands are.
struct Product {
  graph::MatmulOp op;
  graph::StateOp weight;
  Part part = Part::Forward;
  Operand a = Operand::Input, b = Operand::Weight;

  Operand operand(unsigned index) const { return index == 0 ? a : b; }
};

/// The products of a training program, in its order. A forward product reads a parameter as its
/// second operand, whole, through casts and reshapes alone, or multiplied by numbers that are made
/// of parameters; what reads it the other way round later is the gradient of the input; the
/// gradient of the weight is stored or accumulated under the parameter's name, after casts,
/// reshapes, sums and these numbers.
llvm::SmallVector<Product> findProducts(graph::ProgramOp function);

/// A weight as the products read it: in two dimensions, by its numbers, without rows of zeros and
/// the rounding to their type.
mlir::Value storedWeight(mlir::OpBuilder &builder, const Product &product);

/// Those of them whose weight has another recipe than off, forward or both ways: what
/// nano-scale-products is asked to compute from 8-bit operands. It leaves those in the compute type
/// whose sizes no such product has
/// (`obstacle`). Errors: a policy that is none.
mlir::FailureOr<llvm::SmallVector<Product>> chosenProducts(graph::ProgramOp function);

/// What a `nano.scaled_matmul` is, as its `layer` says:
/// `{weight = "<parameter>", part = "<nameOf(Part)>", a = "<nameOf(Operand)>", b = "…"}`.
struct ScaledProduct {
  graph::ScaledMatmulOp op;
  mlir::StringAttr weight;
  Part part = Part::Forward;
  Operand a = Operand::Input, b = Operand::Weight;

  Operand operand(unsigned index) const { return index == 0 ? a : b; }
};
void markScaled(graph::ScaledMatmulOp op, const Product &product);
/// The marked products of a function, in its order.
llvm::SmallVector<ScaledProduct> scaledProducts(graph::ProgramOp function);

} // namespace nano::fp8
