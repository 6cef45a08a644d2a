// A kernel that begins with a matrix product, or two of the same A, and ends them element by
// element: which `nano.fused` or task has this form, and which products can be given it.
#pragma once

#include "ir/graph/Nano.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace nano {

/// Columns whose sum a product's kernel can write as one number a row.
constexpr int64_t partialSumColumns = 128;
/// Rows whose sum it can write as one number a column.
constexpr int64_t partialSumRows = 16;
/// Columns of which, over partialSumRows rows, it can write the largest as one number.
constexpr int64_t partialMaxColumns = 64;
/// Rows of a column that it stores at once, where a gradient's end writes rows as columns; and how
/// many results it can.
constexpr int64_t turnedRows = 16, mostTurned = 4;

/// A `nano.matmul` or a `nano.scaled_matmul`.
struct Product {
  mlir::Operation *op = nullptr;
  mlir::Value a, b, result;   ///< both factors and C [R, C]
  mlir::Value scaleA, scaleB; ///< null of a nano.matmul
  bool transposeA = false, transposeB = false;

  bool isScaled() const { return bool(scaleA); }
  /// True for one of 8 bits into bf16 that has a gradient as a factor, which is one of f8E5M2: its
  /// sums are added up in f32, which leaves no registers for an end beside the next tile's sums,
  /// but for one after them.
  bool isGradient() const;
  /// Elements of the dimension that is summed over.
  int64_t inner() const;
};

/// What a matrix product multiplies; nothing for other ops, or null.
std::optional<Product> productOf(mlir::Operation *op);

/// The product that the kernel's body begins with; nothing when it begins with another op.
std::optional<Product> productOf(mlir::Block &body);
/// All that it begins with.
llvm::SmallVector<Product, 2> productsOf(mlir::Block &body);

/// True when the kernel begins with products and the operand of that number is one of their
/// factors.
bool isFactorOfProduct(graph::FusedOp fused, unsigned operand);

/// Why no generated kernel computes the product, as the rest of a sentence; empty when one can: two
/// matrices of bf16, or of 8 bits with one scale each and B transposed, into one of bf16, A as it
/// lies; or of 8 bits likewise into one of f32, A as it lies or not; no factor and no addend; and
/// rows of 16 bytes and their multiples.
std::string productObstacle(mlir::Operation *product);

/// Why one kernel does not compute two products that each could be, as the rest of a sentence;
/// empty when one does: into bf16, no gradients, of the same A and of matrices B of one type, which
/// lie alike.
std::string pairObstacle(const Product &first, const Product &second);

/// Of a value of a kernel that begins with a product: the values [R, C] whose sums over each
/// `partialSumColumns` columns it is, [R, C / partialSumColumns], reshaped and reduced; null when
/// it is no such sum.
mlir::Value partialSumsOf(mlir::Value value);
/// Likewise the values [R, C] whose sums over each R / P rows it is, [P, C].
mlir::Value columnSumsOf(mlir::Value value);
/// Likewise where these are `partialSumRows` rows.
mlir::Value partialColumnSumsOf(mlir::Value value);

/// Likewise the values [R, C] whose largest of `partialSumRows` rows and `partialMaxColumns`
/// columns it is, [R / partialSumRows, C / partialMaxColumns].
mlir::Value partialLargestOf(mlir::Value value);

/// Why the ops of a body are no epilogue of `product`, which is a value of it, an argument or the
/// result of its first op; empty when they are one. All others are element-wise over its elements,
/// its columns or single numbers, or partial sums of what is; what they read are whole matrices,
/// one number a column, f32 numbers, and where the product is of bf16 and no rows are summed one
/// f32 number a row; results are whole, or where the product is of bf16 partial sums of f32, along
/// rows or one along columns, or partial maxima, but not beside sums of rows; and nothing but
/// results is of 8 bits.
std::string epilogueObstacle(mlir::Block &body, mlir::Value product);
/// Likewise of two products: nothing else that is read is a whole matrix, and nothing is summed; a
/// partial maximum may be found.
std::string epilogueObstacle(mlir::Block &body, mlir::Value first, mlir::Value second);
/// Why not with what the body yields, partial sums and maxima among it: a gradient's rows are not
/// summed; of others there is one maximum, without a sum.
std::string reductionsObstacle(const Product &product, mlir::Block &body);
/// Why its kernel cannot write those results transposed that are to be, as the rest of a sentence;
/// empty when it can: of 8 bits, behind a gradient, by turnedRows rows.
std::string turningObstacle(const Product &product, mlir::ValueRange turned);
/// Why the kernel's body, which begins with products, is none that a generated kernel computes;
/// empty when it is one.
std::string productsObstacle(mlir::Block &body);

/// True for an argument of a kernel's body that has one number for each row of what is read of it.
bool hasNumberOfRow(mlir::Value argument);

/// True when an epilogue of `product` can compute the value of the same body.
bool isOfEpilogue(mlir::Value value, mlir::Value product);

/// Of a kernel that begins with products: the arguments that its other ops read, in order, and what
/// it yields, each once.
llvm::SmallVector<mlir::Value> epilogueOperands(mlir::Block &body);
llvm::SmallVector<mlir::Value> epilogueResults(mlir::Block &body);

} // namespace nano
