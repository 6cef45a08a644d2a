// Of which part of a whole each rank holds a state, and of what lies where in the whole.
#pragma once

#include "ir/graph/Nano.h"

#include <optional>
#include <string>

namespace nano::graph {

/// What `sharding` of a `nano.state` says:
/// {parts = 8 : i64, ranks = "group", chunk = 4 : i64, pieces = [{name = "w.momentum", shape =
/// array<i64: 4, 8>, offset = 0 : i64}]}.
/// Element t·chunk + i of the state of the member of `ranks` at place p is element
/// (t·parts + p)·chunk + i of a whole; what no piece covers there is padding.
struct Sharding {
  /// A tensor, contiguous in the whole from element `offset` on.
  struct Piece {
    std::string name; ///< of the state that one rank alone would have
    llvm::SmallVector<int64_t> shape;
    int64_t offset = 0;
  };
  int64_t parts = 1;
  RankSet ranks = RankSet::group;
  int64_t chunk = 0; ///< elements
  llvm::SmallVector<Piece> pieces;

  mlir::DictionaryAttr attribute(mlir::MLIRContext *context) const;
};

/// Checks the field, where the state has one.
mlir::LogicalResult verifySharding(StateOp state);

/// The sharding of a state that has been verified; nothing where every rank holds all of it.
std::optional<Sharding> shardingOf(StateOp state);

} // namespace nano::graph
