// Where every tensor of a function lies: which buffer, from which element, with which strides.
#pragma once

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/step/Step.h"

#include <limits>
#include <optional>
#include <vector>

namespace nano::memory {

/// A whole buffer: transient, or that of a state, scalar or input.
struct Root {
  mlir::MemRefType type;          ///< row-major
  mlir::FlatSymbolRefAttr symbol; ///< a state's, scalar's or input's; null for a transient buffer
  mlir::Value madeFor;            ///< the tensor that a transient buffer was made for
  int64_t lastUse = -1;           ///< position of the last op that touches it
};

/// Where one tensor lies. Strides of dimensions of size 1 are normalised, so that equal layouts
/// compare equal.
struct Place {
  int root = -1;
  int64_t offset = 0; ///< elements from the root's start
  llvm::SmallVector<int64_t> strides;

  explicit operator bool() const { return root >= 0; }
  bool operator==(const Place &other) const {
    return root == other.root && offset == other.offset && strides == other.strides;
  }
};

/// True when no element at one place is known to be one at the other.
bool areApart(Place a, llvm::ArrayRef<int64_t> shapeA, Place b, llvm::ArrayRef<int64_t> shapeB);
/// Gives dimensions of size 1 the stride that they would have in a dense layout of what lies inside
/// them.
void normalise(llvm::ArrayRef<int64_t> shape, llvm::SmallVectorImpl<int64_t> &strides);
llvm::SmallVector<int64_t> denseStrides(llvm::ArrayRef<int64_t> shape);

/// The memref type of a tensor at a place: without a layout when it is row-major from the root's
/// start.
mlir::MemRefType memrefAt(const Place &place, mlir::RankedTensorType type);

/// True for ops that exchange data between ranks, or take a rank's part of what all have: their
/// operand and result are contiguous.
inline bool isExchange(mlir::Operation *op) {
  return llvm::isa<graph::AllReduceOp, graph::ReduceScatterOp, graph::AllGatherOp, graph::ShardOp>(
      op);
}
/// True for ops that give another view of their operand's elements, where strides can express it.
inline bool isViewOp(mlir::Operation *op) {
  return llvm::isa<graph::ReshapeOp, graph::SliceOp, graph::TransposeOp>(op);
}
/// The place of a reshape's, slice's or transpose's result when it is a view of its operand at
/// `source`.
std::optional<Place> viewPlace(mlir::Operation *view, const Place &source);
/// The place of a transpose's operand when its result at `result` is a view of it.
Place transposedPlace(graph::TransposeOp transpose, const Place &result);
/// True for a transpose that can have a place of its own, not a view of its operand: the kernel
/// that makes the operand, which others read too, writes both.
bool isMadeBeside(graph::TransposeOp transpose);
/// How a product's scales of blocks must lie.
struct ScaleLayout {
  llvm::SmallVector<int64_t> strides; ///< normalised
  llvm::SmallVector<int64_t> whole;   ///< row-major sizes of a buffer for them, with padding

  /// True for memory of the scales that a product can read as it is.
  bool holds(mlir::MemRefType type) const;
};
/// How scale 0 (of a) or 1 (of b) must lie where the module says that libraries of GPUs read it
/// (`gpu_scales` of `nano.model`); nothing where strides do not matter. Scales of 1×128 elements
/// have neighbours across k next to each other, those of 128×128 along k; rows are padded to 4.
std::optional<ScaleLayout> scaleLayout(graph::ScaledMatmulOp product, unsigned index);
/// The place of each operand of a concat whose result lies at `whole`.
llvm::SmallVector<Place> partPlaces(graph::ConcatOp concat, const Place &whole);

/// Decides the places of one function's tensors. Positions are indices of ops in the function's
/// block; commands will run in that order.
///
/// Three sweeps:
///   1. Loads and arguments lie in the buffer of their state or input, unless a store overwrites it
///   before their last use: then
///      the load is a copy. Reshapes and slices of them are views.
///   2. From the last op to the first: a value that is returned, stored, concatenated, combined in
///   place or the addend of a stored product is made where it must go, if the op that makes it can
///      write there and nobody still needs what lies there. Otherwise it has a buffer of its own
///      and is copied. A concat of parts of a tensor, and of others in place of the rest of it, as
///      rotations of some columns of heads leave, lies in that tensor where the rest is no longer
///      read when it is written. So does a concat of rows that kernels make one after the other of
///      all rows of a tensor.
///   3. From the first op to the last: what has no place yet overwrites an operand that dies there
///   (`InPlace`, a product's addend), or gets
///      a new buffer, laid out for the product that reads it as its scales. Reshapes and slices of
///      it are views; a reshape that no strides can express is a copy. What attention reads
///      overwrites the part of a larger tensor that it is made of, as queries and keys that are
///      turned do beside the values, where that tensor is held about as long in any case.
class Placement {
public:
  /// `inputs` and `outputs` name the step.input of each argument and result.
  Placement(graph::ProgramOp function, llvm::ArrayRef<mlir::FlatSymbolRefAttr> inputs,
            llvm::ArrayRef<mlir::FlatSymbolRefAttr> outputs);

  const std::vector<Root> &roots() const { return allRoots; }
  /// The tensor's place; none when nothing uses it.
  const Place &of(mlir::Value tensor) const;
  /// The whole root of a state, scalar or input.
  Place whole(mlir::FlatSymbolRefAttr symbol, mlir::RankedTensorType type);
  /// True for an op whose results nothing uses: no command computes it.
  bool isDropped(mlir::Operation *op) const { return !live.contains(op); }

private:
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();

  /// When a value may be written into a state's buffer: after the previous store, and such that it
  /// is last read before the next write.
  struct Window {
    int64_t after = -1, limit = never;
    int64_t store = never; ///< position of the store itself
  };
  /// A load, and the position of the last op that reads the state's buffer for it: the load itself
  /// when it is a copy.
  struct Load {
    int64_t at, lastRead;
  };
  struct StateUse {
    llvm::SmallVector<int64_t> stores; ///< positions, increasing
    llvm::SmallVector<Load> loads;
    int64_t nextWrite = never; ///< earliest write of any store that sweep 2 has seen
  };

  void number();
  void placeLoads(llvm::ArrayRef<mlir::FlatSymbolRefAttr> inputs);
  void placeTargets(llvm::ArrayRef<mlir::FlatSymbolRefAttr> outputs);
  void placeRest();

  /// Makes `value` lie at `place` if its defining op can write there within the window; says
  /// whether it will.
  bool put(mlir::Value value, const Place &place, const Window &window);
  /// Has a concat lie in the tensor that its largest part shows, so that this part is not copied;
  /// says whether it does.
  bool lieInSource(graph::ConcatOp concat);
  /// The rows of a tensor that the maker of a concat's first rows reads, where the concat may take
  /// that tensor's place rows by rows: both are alike, and none of it is read afterwards.
  mlir::Value overwrittenPart(graph::ConcatOp concat) const;
  /// Elements that are written, at the earliest, where `value` is made, or copied there if it is
  /// null.
  struct Written {
    mlir::OpResult value;
    Place place;
    llvm::SmallVector<int64_t> shape;
    int64_t at;
  };
  /// Adds where and when a part of a concat at `place`, which else is copied at `copied`, is
  /// written; false where it shows other elements of `source`.
  bool addWritten(mlir::Value part, const Place &place, mlir::Value source, int64_t copied,
                  llvm::SmallVectorImpl<Written> &written) const;
  /// True when nobody reads elements of `value`, which lies at `place`, that are written before,
  /// but as parts of the concat, where there is one.
  bool isOverwrittenLate(mlir::Value value, const Place &place, graph::ConcatOp concat,
                         llvm::ArrayRef<Written> written) const;
  /// True when no earlier value of the state at `place` is read after `value` is written there.
  bool oldValueIsDone(mlir::OpResult value, const Place &place, const Window &window);
  /// True when `value`'s op may write it at `place` although operands lie in the same root.
  bool mayOverwriteOperands(mlir::OpResult value, const Place &place);
  /// The place of an operand that dies at `value`'s op and that it may overwrite.
  Place dyingOperand(mlir::OpResult value);
  /// The place of an operand, a part of a tensor that is held in any case for about as long as
  /// `value`, which nothing reads there once `value`'s kernel writes over it.
  Place partOfOperand(mlir::OpResult value);
  /// True when nothing that lies in the root of `place` is read or written there from `value`'s op
  /// on, but by that op as it writes `value` there.
  bool isFreeAt(mlir::OpResult value, const Place &place) const;
  Place newRoot(mlir::Value value);
  Place newRoot(mlir::Value scale, const ScaleLayout &layout);
  void assign(mlir::Value value, const Place &place);
  mlir::MemRefType memref(mlir::Value value, const Place &place) const;

  mlir::Block &block;
  llvm::DenseSet<mlir::Operation *> live;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  llvm::DenseMap<mlir::Value, int64_t> lastUse; ///< by any op
  llvm::DenseMap<mlir::Value, int64_t>
      lastRead; ///< by any op that is no view, of the value or a view of it
  std::vector<Root> allRoots;
  llvm::DenseMap<int, llvm::SmallVector<mlir::Value>> made; ///< what lies in a root, without views
  llvm::DenseMap<mlir::Attribute, int> rootOfSymbol;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, Window> windows; ///< of what lies in a state
  llvm::DenseMap<mlir::Attribute, StateUse> states;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<graph::ConcatOp, 2>> inSource; ///< by the source
};

} // namespace nano::memory
