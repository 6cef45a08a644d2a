// Where gradients are added up over ranks, and which rank keeps which part of them.
#pragma once

#include "ir/graph/Program.h"
#include "ir/graph/Sharding.h"
#include "passes/optimizer/UpdateForm.h"

#include "llvm/ADT/StringSet.h"

#include <deque>
#include <string>
#include <vector>

namespace nano::distribute {

enum class Strategy { AllReduce, Zero2 };

struct Topology {
  int64_t world = 1; ///< ranks
  int64_t group = 1; ///< ranks that share optimizer states; divides `world`
  Strategy strategy = Strategy::AllReduce;
  int64_t minShard = 1; ///< Zero2: elements of the smallest parameter that is cut
};

/// Rewrites programs of the last micro-batch for several ranks: what one stores to a parameter's
/// gradient becomes
///
///   whole   the sum over all ranks, in the same state;
///   bank    of matrices whose updates have products, of one size and alike, a rank's share
///           [rounds, rows, cols]: of each S consecutive matrices, in the order in which backward
///           completes them, the rank at place p of its group has the p-th. For S = 2 and the
///           matrices a, b, c:
///
///             %0 = nano.concat %a, %b              : tensor<2×r×c>   as soon as b is complete
///             %1 = nano.reduce_scatter %0 parts 2 over group : … -> tensor<1×r×c>
///             %2 = nano.concat %c, %zero
///             %3 = nano.reduce_scatter %2 parts 2 over group
///             %4 = nano.concat %1, %3 : tensor<2×r×c>
///             nano.store %4, @grad.blocks.bank0     sharded
///
///   part    (Zero2) an S-th of the elements or rows of a large parameter whose update has no
///           products, @grad.<parameter>.part.
///
/// What a matrix is, and what may be cut where, is UpdateForm's answer.
///
/// AllReduce takes its share of a bank after a sum over all ranks (all_reduce, shard); Zero2
/// scatters the sum inside the group and adds the shares of all groups (reduce_scatter, all_reduce
/// over peers), which moves half the bytes.
class GradientSharer {
public:
  GradientSharer(mlir::ModuleOp module, Topology topology);

  /// Leaves the gradients of optimizers that take no step in `phase` as they are.
  mlir::LogicalResult run(graph::ProgramOp last, int64_t phase);
  /// Gradients of parameters that are no longer whole, and the states that hold shares.
  const std::vector<std::string> &sharded() const { return shardedNames; }
  const std::vector<std::string> &shards() const { return shardNames; }

private:
  /// A parameter whose gradient `store` of `last` completes.
  struct Completed {
    graph::StateOp parameter;
    graph::StoreOp store;
    const UpdateForm *form;
    int64_t matrices() const { return form->units(); }
    mlir::RankedTensorType type() { return parameter.getTensorType(); }
    /// That the gradient is added up in.
    mlir::Type element() {
      return mlir::cast<mlir::RankedTensorType>(store.getValue().getType()).getElementType();
    }
  };
  /// Matrices of one size that are updated alike.
  struct Bank {
    mlir::SmallVector<Completed> members;
    const UpdateForm &form() const { return *members.front().form; }
    /// So many matrices, as the gradients are added up.
    mlir::RankedTensorType stack(int64_t matrices);
  };

  const UpdateForm &formOf(graph::StateOp parameter);
  void addToBank(Completed completed);
  mlir::LogicalResult shareBank(Bank &bank, int64_t number);
  /// This rank's matrix of the S ones from `begin` on, with zeros for what is
  /// missing, before the store that completes the last of them, where `builder` then stands.
  mlir::Value shareRound(Bank &bank, int64_t begin, mlir::OpBuilder &builder);
  mlir::LogicalResult sharePart(Completed completed);
  void sumWhole(Completed completed);
  /// This rank's share of the sum over all ranks of x [S·n, …].
  mlir::Value share(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
  /// Declares the state of a share behind the states of the module, where an earlier program has
  /// not.
  mlir::LogicalResult declare(const std::string &name, mlir::RankedTensorType type,
                              const graph::Sharding &sharding, mlir::Location location);

  mlir::ModuleOp module;
  Topology topology;
  mlir::SymbolTable symbols;
  std::deque<std::pair<graph::OptimizerOp, UpdateForm>> forms;
  mlir::SmallVector<Bank> banks;
  std::vector<std::string> shardedNames, shardNames;
};

} // namespace nano::distribute
