// Scales, 8-bit copies and scaled products within one function.
#pragma once

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ScaledOps.h"
#include "passes/fp8/Products.h"

#include "llvm/ADT/StringMap.h"

#include <functional>

namespace nano::fp8 {

/// A tensor in 8 bits. `scale`: one number, or one a block.
struct Scaled {
  mlir::Value value, scale;
};

/// The largest |x|, f32, rank 0. Within the rows first, so that a kernel that makes whole rows of
/// x measures them on the way.
mlir::Value amaxOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// amax·2^margin/(the format's largest number); `otherwise`, of the same shape, where that is so
/// small that its reciprocal is not finite.
mlir::Value scaleOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value amax,
                    mlir::Type format, double margin, mlir::Value otherwise);

/// States that a weight's scaling keeps. What begins with "fp8." lives from the program of a
/// step's first micro-batch to that of its last; the rest is optimizer state.
std::string quantizedSymbol(llvm::StringRef weight);                ///< 8-bit copy
std::string quantizedScaleSymbol(llvm::StringRef weight);           ///< its scale or scales
std::string amaxSymbol(llvm::StringRef weight, Operand operand);    ///< of this step so far
std::string scaleSymbol(llvm::StringRef weight, Operand operand);   ///< a scalar where it is given
std::string historySymbol(llvm::StringRef weight, Operand operand); ///< Delayed: last steps' amaxes

/// Why a product cannot be computed from 8-bit operands, as the end of a sentence; empty when it
/// can. Rows of 8-bit operands must begin at multiples of 16 bytes, and blocks must be whole; with
/// `kMajor`, the rows of a product with blocks must be a multiple of 8.
std::string obstacle(const Product &product, Recipe recipe, bool kMajor);

/// Weights that multiply one tensor by policies that scale it alike: of each but the first, the
/// first.
using Owners = llvm::StringMap<std::string>;
Owners inputOwners(const llvm::StringMap<Policy> &policies, llvm::ArrayRef<Product> products);
/// Of those the ones whose policies scale what is the weight's own alike too, by largest
/// magnitudes, and whose gradients are all scaled or none is: they have one scale, of the largest
/// of all, so that their products can be one.
Owners scaleOwners(const llvm::StringMap<Policy> &policies, llvm::ArrayRef<Product> products);
/// The weight whose scale another takes: perhaps its own.
inline llvm::StringRef ownerOf(const Owners &owners, llvm::StringRef weight) {
  auto owner = owners.find(weight);
  return owner == owners.end() ? weight : llvm::StringRef(owner->second);
}

/// Writes the scaled forms of products into one function. Each tensor is converted once, before
/// its first use: weights that multiply one tensor, by policies that scale it alike, take the scale
/// of the first of them, for theirs would be the same number.
class ProductScaler {
public:
  /// The 8-bit copy of a product's weight, as the product reads it or, when `transposed`, with its
  /// dimensions exchanged.
  using WeightCopy = std::function<Scaled(const Product &product, bool transposed)>;

  /// `policies` and `products` are this function's, `gradientOwners` the weights whose gradients'
  /// scales others take; all outlive the scaler. With `kMajor` both operands of every product have
  /// the inner dimension last in memory.
  ProductScaler(const llvm::StringMap<Policy> &policies, llvm::ArrayRef<Product> products,
                const Owners &gradientOwners, bool kMajor, WeightCopy weightCopy);

  /// The product in 8 bits, of result type `type`, before the product itself.
  graph::ScaledMatmulOp scale(const Product &product, mlir::Type type);
  /// An operand of the product in 8 bits, as it lies in the product as written.
  Scaled operand(const Product &product, unsigned index);
  /// What operand `index` is converted from: gradients without the rounding to the product's type.
  static mlir::Value source(const Product &product, unsigned index);

private:
  mlir::Value scaleFor(const Product &product, unsigned index, mlir::Value x);
  llvm::StringRef inputOwner(const Product &product) const;
  mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

  const llvm::StringMap<Policy> &policies;
  const Owners &gradientOwners;
  bool kMajor;
  WeightCopy weightCopy;
  llvm::StringMap<int> forwardProducts;        ///< by weight
  Owners inputLike;                            ///< of such: the weight whose input's scale it takes
  llvm::StringMap<mlir::Value> currentInput;   ///< the input's scale where a weight has one input
  llvm::StringMap<mlir::Value> gradientInputs; ///< of gradients, by the weight whose scale it takes
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> scales; ///< by tensor and kind
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> quantized; ///< and scale
  llvm::DenseMap<mlir::Value, mlir::Value> transposes;
  llvm::StringMap<mlir::Value> loaded; ///< scales in states and given ones
};

/// A weight in 8 bits by its policy: `weight` is [out, in] or [in, out]; `given` is its scale where
/// that is Static, or shared.
Scaled quantizeWeight(mlir::OpBuilder &builder, mlir::Location location, mlir::Value weight,
                      const Policy &policy, mlir::Value given);

/// Removes the ops whose results nothing uses, last first.
void eraseDead(graph::ProgramOp function);

} // namespace nano::fp8
