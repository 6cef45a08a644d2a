// nano-join-scatters: one scatter_add of the rows of several whose tables are only added up.
//
//   %y = nano.scatter_add %a, %i          %x = nano.concat %a, %b dim 0
//   %z = nano.scatter_add %b, %j      ⇒   %k = nano.concat %i, %j dim 0
//   %s = nano.add %y, %z                  %s = nano.scatter_add %x, %k
//
// An embedding that several layers read has such a gradient. A table has as many rows as there are
// tokens in the vocabulary, most of them zero: to write, read and add them costs more than the rows
// that are scattered. These are made in their place of the concatenation, so nothing is moved for
// it. The table is of f32: the sums are those of the same terms, in another order.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace nano {
#define GEN_PASS_DEF_JOINSCATTERS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// The additions of a sum, its first one last, and what they add up, in order.
struct Sum {
  SmallVector<AddOp> adds;
  SmallVector<Value> terms;
};

/// What `value` is the sum of: through additions that nothing else reads.
void collect(Value value, bool isRoot, Sum &sum) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || !(isRoot || add->hasOneUse())) {
    sum.terms.push_back(value);
    return;
  }
  sum.adds.push_back(add);
  collect(add.getLhs(), false, sum);
  collect(add.getRhs(), false, sum);
}

/// True when `value` is only a part of a larger sum.
bool isPartOfSum(AddOp add) { return add->hasOneUse() && isa<AddOp>(*add->user_begin()); }

class Joiner {
public:
  explicit Joiner(ProgramOp function) {
    function.walk([&](AddOp add) {
      if (!isPartOfSum(add) && tensorType(add).getElementType().isF32())
        roots.push_back(add);
    });
  }

  void run() {
    for (AddOp root : roots)
      join(root);
  }

private:
  void join(AddOp root);
  Value concat(OpBuilder &builder, Location loc, ArrayRef<Value> parts);

  SmallVector<AddOp> roots; ///< whole sums, in program order
  /// Concatenations of ids: often several embeddings are read with the same.
  std::map<std::vector<const void *>, Value> joinedIds;
};

Value Joiner::concat(OpBuilder &builder, Location loc, ArrayRef<Value> parts) {
  RankedTensorType type = tensorType(parts.front());
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = 0;
  for (Value part : parts)
    shape[0] += tensorType(part).getDimSize(0);
  return ConcatOp::create(builder, loc, type.clone(shape), parts, 0);
}

void Joiner::join(AddOp root) {
  Sum sum;
  collect(root, true, sum);
  // The rows of all but the first joined one wait no longer than before.
  SmallVector<Value> rows, ids, others;
  SmallVector<Location> locations;
  SmallVector<Operation *> joined;
  int64_t bytes = 0;
  for (Value term : sum.terms) {
    auto scatter = term.getDefiningOp<ScatterAddOp>();
    if (!scatter || !scatter->hasOneUse() ||
        (!rows.empty() && tensorType(scatter.getX()).getElementType() !=
                              tensorType(rows.front()).getElementType()) ||
        bytes + bytesOf(scatter.getX()) > bytesOf(term)) {
      others.push_back(term);
      continue;
    }
    bytes += bytesOf(scatter.getX());
    rows.push_back(scatter.getX());
    ids.push_back(scatter.getIds());
    locations.push_back(scatter.getLoc());
    joined.push_back(scatter);
  }
  if (rows.size() < 2)
    return;

  OpBuilder builder(root);
  const Location loc = FusedLoc::get(root.getContext(), locations);
  std::vector<const void *> key;
  for (Value id : ids)
    key.push_back(id.getAsOpaquePointer());
  Value &allIds = joinedIds[key];
  if (!allIds)
    allIds = concat(builder, loc, ids);
  Value result =
      ScatterAddOp::create(builder, loc, root.getType(), concat(builder, loc, rows), allIds);
  for (Value other : others)
    result = AddOp::create(builder, root.getLoc(), other, result);
  root.getResult().replaceAllUsesWith(result);
  for (AddOp add : sum.adds)
    add->erase();
  for (Operation *scatter : joined)
    scatter->erase();
}

struct JoinScatters : public nano::impl::JoinScattersBase<JoinScatters> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<ProgramOp>())
      Joiner(function).run();
  }
};

} // namespace
