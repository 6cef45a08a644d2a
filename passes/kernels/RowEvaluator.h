// Evaluates a task's tensors at positions: one element or one vector of elements at a time,
// computing each only once where it is valid.
#pragma once

#include "passes/kernels/KernelEmitter.h"
#include "passes/kernels/VectorOps.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace nano::kernels {

/// An index with the depth of the loop nest from which on it is known (0: the function).
struct Index {
  mlir::Value value;
  unsigned depth = 0;
};

/// An index that all lanes share, that grows by one from lane to lane, or that is given lane by
/// lane.
struct Coordinate {
  enum class Kind { Uniform, Lanes, Vector };
  Kind kind = Kind::Uniform;
  Index at; ///< Uniform: the index; Lanes: that of lane 0; Vector: vector<lanes x index>
  bool aligned = false; ///< Lanes: a multiple of the number of lanes
};

/// The place of an element in row-major order as digits of mixed radix, the most significant first.
/// Reshaping does not change it; the size of the first digit is never computed with, so one kernel
/// serves any number of iterations.
struct Digit {
  int64_t size = 1;
  Coordinate coordinate;
};
using Position = llvm::SmallVector<Digit, 4>;

/// A value with the depth of the loop nest at which it was computed.
struct Computed {
  mlir::Value value;
  unsigned depth = 0;
};

/// Walks the task's graph from the value that is asked for to the operands, emitting what is
/// missing. Code for a value stands in the outermost loop whose indices it depends on.
class RowEvaluator {
public:
  RowEvaluator(KernelFrame &frame);

  KernelFrame &frame;
  VectorOps v;

  //===- The loop nest ----------------------------------------------------===//

  /// Code goes to `block` from now on, one deeper; until `close`, values of outer depths are put
  /// before `opener`, the loop that holds `block`.
  void open(mlir::Operation *opener, mlir::Block *block);
  void close();
  unsigned depth() const { return scopes.size() - 1; }
  /// Moves the insertion point to where code of that depth goes now.
  void moveTo(unsigned depth);
  /// Mask of the lanes that vector loads may touch; null for all.
  mlir::Value mask;
  /// A choice that is known to take its second value.
  graph::SelectOp secondOf;

  //===- Positions --------------------------------------------------------===//

  Index constant(int64_t value) { return {v.index(value), 0}; }
  Index add(Index a, Index b);
  Index mul(Index a, int64_t factor);
  Index div(Index a, int64_t divisor);
  Index rem(Index a, int64_t divisor);
  static Coordinate uniform(Index at) { return {Coordinate::Kind::Uniform, at, false}; }
  static Coordinate lanes(Index at, bool aligned) { return {Coordinate::Kind::Lanes, at, aligned}; }
  /// All digits as one coordinate.
  Coordinate merge(llvm::ArrayRef<Digit> digits);
  /// Splits a digit if need be so that the digits from the result on hold `elements` elements.
  size_t splitAt(Position &position, int64_t elements);

  //===- Values -----------------------------------------------------------===//

  /// The element(s) of `value` at `position`: a scalar if all coordinates are uniform, else a
  /// vector.
  mlir::FailureOr<Computed> evaluate(mlir::Value value, Position position);
  /// The same of several values.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> evaluateAll(llvm::ArrayRef<mlir::Value> values,
                                                              const Position &position);
  /// Says what `value` is at `position`, at the present depth.
  void define(mlir::Value value, Position position, mlir::Value computed);
  /// Writes to element(s) of the argument for output `i`.
  void storeOutput(unsigned i, mlir::Value value, Position position);

  /// A tensor of which `elements` (the last digits) of the present row are in private or shared
  /// memory; `row` is the merged rest.
  struct Staged {
    mlir::Value memory;
    int64_t elements = 0;
    mlir::Value row;
  };
  /// Tensors that need not be computed from now on.
  llvm::DenseMap<mlir::Value, Staged> staged;

  /// Tensors of which every thread keeps the elements of its own columns in registers:
  /// memref<n x vector<lanes x T>>. They are read where the position is the thread's own.
  llvm::DenseMap<mlir::Value, mlir::Value> held;
  /// Where the thread is: vector `slot` of the `elements` (the last digits) of `row` begins at
  /// `column`. `column` null: nowhere.
  struct Own {
    int64_t elements = 0;
    mlir::Value row, column, slot;
  };
  Own own;
  /// Outputs that are stored in shared memory for now, and where there the element(s) at hand go.
  struct Tile {
    mlir::Value memory, at;
  };
  llvm::DenseMap<unsigned, Tile> tiles;
  /// Tensors that were stored already: their output.
  llvm::DenseMap<mlir::Value, unsigned> stored;
  /// Row reductions' results: one number for the present row.
  struct RowScalar {
    Computed computed;
    mlir::Value row;
  };
  llvm::DenseMap<mlir::Value, RowScalar> rowScalars;

private:
  using Key = llvm::SmallVector<uintptr_t, 12>;
  struct Scope {
    mlir::Operation *opener = nullptr; ///< the loop inside the scope that is open now
    mlir::Block *block = nullptr;
    std::map<Key, mlir::Value> indices;
    std::map<Key, Computed> values;
  };
  std::vector<Scope> scopes;
  std::map<std::pair<mlir::Value, mlir::Value>, Index,
           bool (*)(const std::pair<mlir::Value, mlir::Value> &,
                    const std::pair<mlir::Value, mlir::Value> &)>
      splits; ///< (x div n, x mod n) → x
  llvm::DenseMap<mlir::Value, bool> uniforms;

  template <typename Make> Index cached(Key key, unsigned depth, Make make);
  mlir::Value laneOffsets(Coordinate coordinate);
  Coordinate combine(Coordinate high, Coordinate low, int64_t size);
  std::pair<Coordinate, Coordinate> split(Coordinate coordinate, int64_t size);

  /// Where in flat memory of the type's layout the position lies.
  struct Address {
    Index base;
    enum class Kind { Scalar, Contiguous, Scattered } kind = Kind::Scalar;
    mlir::Value offsets; ///< Scattered: vector<lanes x index>
    unsigned depth = 0;
  };
  Address addressOf(mlir::MemRefType type, Position position);
  Computed loadArgument(mlir::Value argument, mlir::MemRefType type, Position position);
  mlir::FailureOr<Computed> compute(mlir::Value value, Position &position);
  std::optional<Computed> fromStaged(mlir::Value value, Position &position);
  std::optional<Computed> fromHeld(mlir::Value value, Position &position);
  Position broadcastOperand(graph::BroadcastOp op, Position position);
  Coordinate rotated(Coordinate coordinate, int64_t shift, int64_t size);
  mlir::FailureOr<Computed> elementwise(mlir::Operation *op, const Position &position);
  mlir::FailureOr<Computed> contracted(mlir::Operation *op, const Position &position);
  mlir::FailureOr<Computed> gathered(graph::GatherOp op, Position position);
  Computed iota(graph::IotaOp op, Position position);
  /// True when all elements of the value are equal, whatever the operands hold.
  bool isUniform(mlir::Value value);
  Key keyOf(mlir::Value value, const Position &position) const;
};

} // namespace nano::kernels
