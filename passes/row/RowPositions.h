// Places of elements as indices that kernels compute: each once, in the outermost loop whose
// indices it depends on.
#pragma once

#include "passes/emit/KernelEmitter.h"
#include "passes/emit/VectorOps.h"

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
  /// Vector: where it is above 1, lane i is at first + i div repeats.
  int64_t repeats = 1;
  Index first = {};
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

/// The loops that are open, and arithmetic of the indices in them.
class RowPositions {
public:
  explicit RowPositions(KernelFrame &frame);

  VectorOps v;

  //===- The loop nest ----------------------------------------------------===//

  /// Code goes to `block` from now on, one deeper; until `close`, values of outer depths are put
  /// before `opener`, the loop that holds `block`.
  void open(mlir::Operation *opener, mlir::Block *block);
  void close();
  unsigned depth() const { return scopes.size() - 1; }
  /// Moves the insertion point to where code of that depth goes now.
  void moveTo(unsigned depth);

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
  /// Columns of a row at which the present thread has vectors, one behind each `apart`, which come
  /// round: a rotation by whole ones leads from one to another. Empty where a thread's vectors are
  /// not known together.
  struct Ring {
    llvm::SmallVector<Index, 2> columns;
    int64_t apart = 0;
  };
  Ring ring;
  /// Splits a digit if need be so that the digits from the result on hold `elements` elements.
  size_t splitAt(Position &position, int64_t elements);

protected:
  /// What a computation is found by: its kind and operands.
  using Key = llvm::SmallVector<uintptr_t, 12>;
  static uintptr_t word(mlir::Value value) {
    return reinterpret_cast<uintptr_t>(value.getAsOpaquePointer());
  }
  /// A block of code that is being written, and what has been computed in it.
  struct Scope {
    mlir::Operation *opener = nullptr; ///< the loop inside the scope that is open now
    mlir::Block *block = nullptr;
    std::map<Key, mlir::Value> indices;
    std::map<Key, Computed> values; ///< of tensors
  };
  std::vector<Scope> scopes;

  /// The depth of the scope that defines `value`; 0 when none that is open does.
  unsigned depthOf(mlir::Value value) const;
  /// The index of each lane as a vector<lanes x index>; for Lanes, counted from lane 0.
  mlir::Value laneOffsets(Coordinate coordinate);
  mlir::Value runs(int64_t size);
  /// (coordinate + shift) mod size, size that of the last dimension.
  Coordinate rotated(Coordinate coordinate, int64_t shift, int64_t size);

  /// Where in flat memory of the type's layout a position lies.
  struct Address {
    Index base;
    enum class Kind { Scalar, Contiguous, Repeated, Scattered } kind = Kind::Scalar;
    mlir::Value offsets; ///< Repeated, Scattered: vector<lanes x index>
    int64_t repeats = 1; ///< Repeated: lanes in a row that are of one element
    unsigned depth = 0;
  };
  Address addressOf(mlir::MemRefType type, Position position);

private:
  std::map<std::pair<mlir::Value, mlir::Value>, Index,
           bool (*)(const std::pair<mlir::Value, mlir::Value> &,
                    const std::pair<mlir::Value, mlir::Value> &)>
      splits; ///< (x div n, x mod n) → x

  template <typename Make> Index cached(Key key, unsigned depth, Make make);
  Coordinate combine(Coordinate high, Coordinate low, int64_t size);
  std::pair<Coordinate, Coordinate> split(Coordinate coordinate, int64_t size);
};

} // namespace nano::kernels
