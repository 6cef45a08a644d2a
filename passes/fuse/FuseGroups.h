// The kernels that nano-fuse makes of a block, while it makes them: groups of ops, and what may be
// one.
#pragma once

#include "passes/fuse/BlockOrder.h"
#include "passes/fuse/FusibleOps.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <vector>

namespace nano::fuse {

/// A node of the dependence graph between groups: ops that will be one kernel, or one op that stays
/// alone.
struct Group {
  llvm::SmallVector<mlir::Operation *> ops; ///< in program order
  Space space;
  bool fusible = false;
  bool reduces = false; ///< along columns
  bool columnReduces = false;
  std::array<int64_t, 3> columnSizes = {}; ///< of all its column reductions
  int64_t firstIndex = 0, lastIndex = 0;
};

/// The groups of a block's ops, in a topological order that joins keep.
class Groups {
public:
  /// `endProducts`: a kernel may compute a product that it alone reads.
  explicit Groups(mlir::Block &block, bool endProducts) : block(block), endProducts(endProducts) {}

protected:
  /// Makes a group of each op.
  void buildGroups();

  /// The group that a group has become a part of.
  int64_t find(int64_t id);
  int64_t find(mlir::Operation *op) { return find(groupOf.lookup(op)); }

  /// Makes one group of two, unless they cannot be one kernel. `both`: also where one reduces along
  /// rows and the other sums columns.
  bool tryJoin(int64_t a, int64_t b, bool both = false);
  /// The same of an op's group and one that reads it. A cheap producer has one user and joins it
  /// whatever its own shape.
  bool tryJoinProducer(mlir::Operation *producer, int64_t b);
  /// The same of two groups of single numbers, where only such ones wait for the other then.
  bool tryJoinNumbers(int64_t a, int64_t b);
  /// True for a group that computes single numbers of such ones.
  bool isNumber(int64_t id) const {
    return groups[id].fusible && !groups[id].reduces && !groups[id].columnReduces &&
           groups[id].space.elements() == 1;
  }

  /// What groups read of their own size, and what of it others read.
  struct Large {
    llvm::SmallSetVector<mlir::Value, 8> inputs, outputs;
    int64_t bytes() const;
  };
  Large largeOf(llvm::ArrayRef<int64_t> ids);

  /// Bytes that cross memory besides where a kernel of two groups reduces along rows and sums
  /// columns: it gathers no rows, so that what lies transposed is a copy of what it writes.
  int64_t bytesTurnedApart(int64_t rows, int64_t sums);

  /// How many operands and results a kernel has at most, and a group has.
  static const size_t maxOperands;
  size_t operandsOf(int64_t id);

  mlir::Block &block;
  const bool endProducts;
  std::vector<Group> groups;
  llvm::SmallVector<int64_t>
      sequence; // groups in a topological order; -1 where one has joined another
  llvm::SmallVector<int64_t> position;                // of a group in `sequence`
  llvm::SmallVector<int64_t> parent;                  // union-find over groups
  llvm::DenseMap<mlir::Operation *, int64_t> groupOf; // also the op's index in the original order
  StateOrder after;

private:
  template <typename Visit> void forEachSuccessor(int64_t id, Visit visit);
  std::optional<llvm::DenseSet<int64_t>> between(int64_t first, int64_t second,
                                                 llvm::function_ref<bool(int64_t)> mayWait);
  void reorder(int64_t first, int64_t second, const llvm::DenseSet<int64_t> &dependents);
  bool readsElsewhere(int64_t a, int64_t b);
  /// The product whose result of the group's own size that group alone reads, if there is one.
  mlir::Operation *ownProduct(int64_t id);
  /// True when each of two groups can be the end of a product, and `reader` needs of `maker`, which
  /// reads nothing else, what is written in any case: as one kernel they would end one product, and
  /// the result of the other crossed memory.
  bool endApart(int64_t maker, int64_t reader);
  /// True when `numbers`, one a row each, are made of what reductions come to, and `reader` can be
  /// the end of a product: it takes such numbers, but makes none.
  bool areOfReductions(int64_t numbers, int64_t reader);
  bool isReadElsewhere(mlir::Operation *op, int64_t from, int64_t to,
                       llvm::SmallDenseSet<mlir::Operation *> &asked);
  /// True when threads can hold what one kernel of both, which reduces along rows and sums columns,
  /// would read and add up.
  bool canSumBothWays(int64_t a, int64_t b, Space space);
  /// True when such a kernel writes rows transposed, which it gathers tile by tile: no element
  /// waits for its row's reduction, so that threads hold no rows.
  bool fitsStrips(int64_t a, int64_t b, Space space);
  bool outputsFit(llvm::ArrayRef<mlir::Operation *> ops, Space space, int64_t a, int64_t b);
};

} // namespace nano::fuse
