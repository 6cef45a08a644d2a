// Means and maxima over ranks of the model's own states, and parts where each rank has its own.
#include "passes/distribute/OwnStates.h"

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "ir/graph/Sharding.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::distribute {

/// One part a rank.
static DictionaryAttr partsOf(StateOp state, int64_t world) {
  RankedTensorType type = state.getTensorType();
  Sharding sharding{world, RankSet::all, type.getNumElements(), {}};
  SmallVector<int64_t> shape{world};
  shape.append(type.getShape().begin(), type.getShape().end());
  sharding.pieces.push_back({state.getSymName().str(), shape, 0});
  return sharding.attribute(state.getContext());
}

void combineOwnStates(ModuleOp module, int64_t world) {
  llvm::StringMap<Combiner> combined;
  for (auto state : module.getOps<StateOp>()) {
    const std::optional<StringRef> how = state.getOverRanks();
    if (!how)
      continue;
    if (how == "each")
      state.setShardingAttr(partsOf(state, world));
    else if (how == "mean" || how == "max")
      combined[state.getSymName()] = how == "mean" ? Combiner::sum : Combiner::max;
  }
  if (world == 1 || combined.empty())
    return;
  for (auto function : module.getOps<ProgramOp>()) {
    if (!function.hasRole("last"))
      continue;
    for (StoreOp store : llvm::to_vector(function.getOps<StoreOp>())) {
      auto found = combined.find(store.getSymbol());
      if (found == combined.end())
        continue;
      OpBuilder builder(store);
      GraphBuilder g(builder, store.getLoc());
      Value own = store.getValue();
      Value all = AllReduceOp::create(builder, store.getLoc(), own.getType(), own, found->second);
      if (found->second == Combiner::sum)
        all = g.cast(g.mul(all, 1.0 / double(world)), tensorType(own).getElementType());
      store.getValueMutable().assign(all);
    }
  }
}

} // namespace nano::distribute
