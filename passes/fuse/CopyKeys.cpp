// nano-copy-keys: attention's gradients read copies of keys and values that many heads of queries
// share, and their gradients are added up behind.
//
//   %dq, %dk, %dv = nano.attention_grad %q, %k, %v …   // 24 heads of queries, 1 of keys
//                          ⇒
//   %l, %w = %k and %v, each head 4 times
//   %dq, %m, %x = nano.attention_grad %q, %l, %w …     // 24 heads of queries, 4 of keys
//   %dk, %dv = the sums of %m and %x over the 4
//
// The device library computes the gradients of keys block by block of keys, each with all heads of
// queries that share it, which leaves multiprocessors idle where these are few. Copies are more
// blocks; keys of few heads are small beside queries.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/QueryRows.h"
#include "ir/graph/ReduceOps.h"
#include "ir/kernel/shapes/nano_attention_launch.h"
#include "ir/machine/Machine.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"

namespace nano {
#define GEN_PASS_DEF_COPYKEYS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// How many copies of each head of keys make enough blocks, where the keys as they are do not: the
/// least such number with two blocks of threads a multiprocessor, which takes less time than one
/// (24 heads of 64, 16,384 tokens in rows of 2,048, on one H200: a step of 14 layers 81.0 and 81.9
/// ms); where there is none, the least; 1 where none is enough.
int64_t copiesFor(AttentionGradOp op, int64_t multiprocessors) {
  const RowsOfQueries rows = rowsOfQueries(op.getFirst(), op.getLast());
  const RankedTensorType q = op.getQ().getType(), k = op.getK().getType();
  nano::AttentionShape shape{q.getDimSize(0),
                             q.getDimSize(1),
                             k.getDimSize(1),
                             int(q.getDimSize(2)),
                             int(op.getV().getType().getDimSize(2)),
                             q.getElementType().isBF16(),
                             /*vectorRows=*/true,
                             !op.getScore().empty(),
                             int(multiprocessors)};
  if (!rows.areCausal || attentionFromEnds(shape, rows.tokens))
    return 1;
  const int64_t shared = shape.keyHeads, sharing = shape.heads / shared;
  int64_t found = 1;
  for (int64_t copies = 2; copies < sharing; ++copies) {
    shape.keyHeads = shared * copies;
    if (sharing % copies != 0 || !attentionFromEnds(shape, rows.tokens))
      continue;
    const int64_t pairs = shape.tokens / rows.tokens * divideUp(rows.tokens / 128, 2);
    if (16 * pairs * shape.keyHeads >= 15 * 2 * multiprocessors)
      return copies;
    found = found == 1 ? copies : found;
  }
  return found;
}

/// Every head of x [T, H, D] so many times, one behind the other.
Value copied(GraphBuilder &g, Value x, int64_t copies) {
  const RankedTensorType type = tensorType(x);
  const int64_t tokens = type.getDimSize(0), heads = type.getDimSize(1), size = type.getDimSize(2);
  return g.reshape(g.broadcast(x, {tokens, heads, copies, size}, {0, 1, 3}),
                   {tokens, heads * copies, size});
}

/// The sums over these copies, in f32, of x's type.
Value summed(GraphBuilder &g, Value x, int64_t copies) {
  const RankedTensorType type = tensorType(x);
  const int64_t tokens = type.getDimSize(0), heads = type.getDimSize(1), size = type.getDimSize(2);
  const Value apart = g.reshape(g.toF32(x), {tokens, heads / copies, copies, size});
  return g.cast(g.reduce(Combiner::sum, apart, {2}), type.getElementType());
}

struct CopyKeys : nano::impl::CopyKeysBase<CopyKeys> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::Expected<machine::Machine> rates = machine::load(machine);
    if (!rates) {
      emitError(module.getLoc()) << "nano-copy-keys: " << llvm::toString(rates.takeError());
      return signalPassFailure();
    }
    for (auto function : module.getOps<ProgramOp>())
      for (auto op :
           llvm::make_early_inc_range(function.getBody().front().getOps<AttentionGradOp>())) {
        const int64_t copies = copiesFor(op, rates->multiprocessors());
        if (copies == 1)
          continue;
        if (report)
          emitDetail(op) << "its gradients read each head of keys in " << copies << " copies";
        copyKeys(op, copies);
      }
  }

private:
  static void copyKeys(AttentionGradOp op, int64_t copies) {
    OpBuilder builder(op);
    GraphBuilder g(builder, op.getLoc());
    auto wide = cast<AttentionGradOp>(builder.clone(*op));
    builder.setInsertionPoint(wide);
    wide.getKMutable().assign(copied(g, op.getK(), copies));
    wide.getVMutable().assign(copied(g, op.getV(), copies));
    wide.getDk().setType(wide.getK().getType());
    wide.getDv().setType(wide.getV().getType());
    builder.setInsertionPoint(op);
    op.getDq().replaceAllUsesWith(wide.getDq());
    op.getDk().replaceAllUsesWith(summed(g, wide.getDk(), copies));
    op.getDv().replaceAllUsesWith(summed(g, wide.getDv(), copies));
    op.erase();
  }
};

} // namespace
