// Emission of vector code: loads and stores that convert, masks, element-wise graph ops, special
// functions, fixed-order reductions. Values are f32 or i32, scalar or vectors of `lanes`; bf16
// and f8 exist in memory only and are f32 rounded to them in registers, i16 likewise and i32. The
// conversions are arith.extf and arith.truncf; to f8 the latter saturates.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace nano::kernels {

/// Builds ops at `builder`'s insertion point. Arithmetic takes scalars and vectors of `lanes`; a
/// scalar beside a vector is spread. No op here reorders or contracts floating-point arithmetic by
/// itself; `fma` is explicit. Constants stand at the start of the function, once each; a spread
/// scalar stands behind the scalar's definition, so neither costs anything inside loops.
class VectorOps {
public:
  VectorOps(mlir::OpBuilder &builder, mlir::Location loc, int64_t lanes)
      : b(builder), loc(loc), lanes(lanes) {}

  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t lanes;
  /// Special functions and sums over lanes stay ops (of the math and vector dialects), which the
  /// target has functions for.
  bool usesLibrary = false;

  // Constants and shapes.
  mlir::Value index(int64_t value);
  mlir::Value f32(double value);         ///< scalar, rounded to f32
  mlir::Value i32(int64_t value);        ///< scalar
  mlir::Value splat(mlir::Value scalar); ///< to a vector; a vector stays
  mlir::Value laneNumbers();             ///< vector<lanes x i32>: 0, 1, 2, …
  mlir::VectorType vectorOf(mlir::Type element) const;
  static bool isVector(mlir::Value value) { return llvm::isa<mlir::VectorType>(value.getType()); }

  // Index arithmetic, folded where operands are constants.
  mlir::Value add(mlir::Value a, mlir::Value c);
  mlir::Value sub(mlir::Value a, mlir::Value c);
  mlir::Value mul(mlir::Value a, int64_t factor);
  mlir::Value div(mlir::Value a, int64_t divisor); ///< a ≥ 0
  mlir::Value rem(mlir::Value a, int64_t divisor); ///< a ≥ 0

  // Memory. `flat` is a rank-1 memref with stride 1 of f32, bf16, f8, i32 or i16; `at` an index in
  // elements.
  /// Mask of the lanes < count (count: index, may be ≥ lanes or ≤ 0).
  mlir::Value maskBelow(mlir::Value count);
  /// `lanes` elements from `at`; bf16 and f8 become f32, i16 becomes i32. Lanes outside the mask
  /// are not touched in memory and read as 0.
  mlir::Value load(mlir::Value flat, mlir::Value at, mlir::Value mask = {});
  mlir::Value loadScalar(mlir::Value flat, mlir::Value at);
  /// Elements flat[at + lane div repeats], where `lanes` is a multiple of `repeats`.
  mlir::Value loadRepeated(mlir::Value flat, mlir::Value at, int64_t repeats);
  /// Elements flat[at + offsets[lane]], offsets a vector of index or i32.
  mlir::Value gather(mlir::Value flat, mlir::Value at, mlir::Value offsets, mlir::Value mask = {});
  /// Stores f32 or i32 values (vector or scalar by `value`); f32 into bf16 or f8 memory is
  /// rounded to nearest even, f8 saturates.
  void store(mlir::Value value, mlir::Value flat, mlir::Value at, mlir::Value mask = {});
  /// flat[at + offsets[lane]] ← value[lane] for the lanes of the mask.
  void scatter(mlir::Value value, mlir::Value flat, mlir::Value at, mlir::Value offsets,
               mlir::Value mask = {});

  // Arithmetic on f32.
  mlir::Value addf(mlir::Value a, mlir::Value c);
  mlir::Value subf(mlir::Value a, mlir::Value c);
  mlir::Value mulf(mlir::Value a, mlir::Value c);
  mlir::Value divf(
      mlir::Value a,
      mlir::Value c); ///< by a constant: multiplied by its reciprocal (1.5 units in the last place)
  mlir::Value negf(mlir::Value a);
  mlir::Value fma(mlir::Value a, mlir::Value c, mlir::Value d); ///< a·c + d, one rounding
  // Arithmetic on i32: wrapping.
  mlir::Value addi(mlir::Value a, mlir::Value c);
  mlir::Value subi(mlir::Value a, mlir::Value c);
  mlir::Value muli(mlir::Value a, mlir::Value c);
  mlir::Value andi(mlir::Value a, mlir::Value c);
  mlir::Value ori(mlir::Value a, mlir::Value c);
  mlir::Value xori(mlir::Value a, mlir::Value c);
  mlir::Value shiftLeft(mlir::Value a, mlir::Value c);  ///< by c mod 32
  mlir::Value shiftRight(mlir::Value a, mlir::Value c); ///< by c mod 32, zeros from the left
  mlir::Value floorRemi(mlir::Value a, mlir::Value c);  ///< a − c·⌊a/c⌋; a where c is 0
  mlir::Value floorDivi(mlir::Value a, mlir::Value c);  ///< rounded down; 0 where c is 0
  // f32 or i32 by the operands.
  mlir::Value max(mlir::Value a, mlir::Value c); ///< f32: NaN if either is
  mlir::Value min(mlir::Value a, mlir::Value c);
  mlir::Value select(mlir::Value mask, mlir::Value a, mlir::Value c);
  /// i1 or a vector of i1. With a NaN, only `ne` holds.
  mlir::Value compare(graph::Predicate predicate, mlir::Value a, mlir::Value c);
  /// The value rounded to what memory of element type `stored` would hold (bf16, f8), still f32;
  /// the lower 16 bits (i16), still i32; other types: unchanged.
  mlir::Value roundTo(mlir::Type stored, mlir::Value value);
  /// The value as memory of element type `stored` holds it: bf16, f8 and i16 become narrow.
  mlir::Value narrowed(mlir::Value value, mlir::Type stored);

  // Special functions of f32 (SpecialFunctions.cpp, which has those too that only models call):
  // relative error ≤ 2e-7; sin, cos: absolute
  // error, for |x| ≤ 5e4. NaN in, NaN out; infinities as in libm; results below the smallest normal
  // number may become 0.
  mlir::Value exp(mlir::Value x);
  mlir::Value expBelow(mlir::Value x); ///< e^x for x ≤ 0; any number for others and for NaN
  mlir::Value log(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value sin(mlir::Value x) { return sinCos(x, /*quadrant=*/0); }
  mlir::Value cos(mlir::Value x) { return sinCos(x, /*quadrant=*/1); }
  mlir::Value rsqrt(mlir::Value x);
  /// The function of the op `name`, whose traits these are: an op where the target has one, else
  /// one of the codes above. `rounded`: the type that the result is rounded to.
  mlir::Value function(llvm::StringRef name, const graph::FunctionTraits &traits,
                       mlir::ValueRange operands, mlir::Type rounded);
  /// See nano.philox.
  mlir::Value philox(mlir::ValueRange counterAndKey);
  /// See nano.normal.
  mlir::Value normal(mlir::Value radius, mlir::Value angle, mlir::Value side);

  /// Of each run of `size` lanes those `shift` further on, the first behind the last.
  mlir::Value rotateLanes(mlir::Value vector, int64_t size, int64_t shift);

  // Reductions over the lanes in a fixed tree (lane i with lane i + half, halving): scalar results.
  mlir::Value sumLanes(mlir::Value vector);
  mlir::Value maxLanes(mlir::Value vector);
  /// True where one lane of a mask is.
  mlir::Value anyLane(mlir::Value mask);

  /// The graph op `op` (unary, binary, select, cast, constant) on values: one element of its
  /// result, or a vector of them, given the operands' elements in f32/i32. Rounds where the op's
  /// type is bf16 or f8. Fails, with an error at the op, for ops that are not element-wise.
  mlir::FailureOr<mlir::Value> elementwise(mlir::Operation *op, mlir::ValueRange operands);
  /// Likewise where vectors of bf16 are added, subtracted, multiplied, compared or chosen from, by
  /// ops on bf16, of which a GPU does two at once; with the same bits. Null for other ops.
  mlir::Value elementwiseOfPairs(mlir::Operation *op, mlir::ValueRange operands);

  /// What registers hold of an element type that memory has: f32, or i32 for integers.
  static mlir::Type registerType(mlir::Type element);

  // What functions are made of.
  mlir::Value polynomial(mlir::Value x,
                         llvm::ArrayRef<double> coefficients); ///< highest power first
  mlir::Value bits(mlir::Value x);                             ///< f32 → i32
  mlir::Value fromBits(mlir::Value x);                         ///< i32 → f32
  /// Makes all operands vectors if one is.
  void spread(std::initializer_list<mlir::Value *> values);

private:
  mlir::Value constant(mlir::TypedAttr value);
  /// `value` of element type `from` as the bits of `to`.
  mlir::Value bitcast(mlir::Value value, mlir::Type from, mlir::Type to);
  mlir::Value lanesTree(mlir::Value vector,
                        mlir::Value (VectorOps::*combine)(mlir::Value, mlir::Value));
  mlir::Value sinCos(mlir::Value x, int64_t quadrant);
  mlir::Value widen(mlir::Value loaded); ///< bf16, f8 → f32; i16 → i32

  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  llvm::DenseMap<mlir::Value, mlir::Value> splats;
};

} // namespace nano::kernels
