// Cuts what parameters have into the units of a rank's share.
#include "passes/optimizer/ShareUnits.h"

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "ir/graph/ShapeOps.h"
#include "passes/optimizer/UnitPlaces.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

int64_t UpdateShare::placeOf(const UpdatedParameter &member) const {
  StateOp state = member.state;
  const auto *piece = llvm::find_if(sharding.pieces, [&](const Sharding::Piece &one) {
    return one.name == gradientSymbol(state.getSymName());
  });
  return piece->offset / member.form->unitElements();
}

Value partOf(OpBuilder &builder, Value whole, int64_t from, int64_t count) {
  const RankedTensorType type = tensorType(whole);
  if (count == type.getDimSize(0))
    return whole;
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = count;
  return SliceOp::create(builder, whole.getLoc(), type.clone(shape), whole,
                         builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(from));
}

Value joined(OpBuilder &builder, Location location, ArrayRef<Value> parts) {
  if (parts.size() == 1)
    return parts.front();
  SmallVector<int64_t> shape(tensorType(parts.front()).getShape());
  shape[0] = 0;
  for (Value part : parts)
    shape[0] += tensorType(part).getDimSize(0);
  return ConcatOp::create(builder, location, tensorType(parts.front()).clone(shape), parts,
                          builder.getI64IntegerAttr(0));
}

/// This rank's units of what a parameter has that ranks share.
static Value unitsOfPart(OpBuilder &builder, const UpdateShare &share, int64_t units,
                         RankedTensorType one,
                         function_ref<Value(const UpdatedParameter &)> wholeOf) {
  const UpdatedParameter &member = share.members.front();
  GraphBuilder g(builder, StateOp(member.state).getLoc());
  Value whole = wholeOf(member);
  const RankedTensorType type = tensorType(whole);
  const int64_t elements = type.getNumElements();
  Value flat = g.reshape(whole, {elements});
  Value part = ShardOp::create(builder, StateOp(member.state).getLoc(),
                               type.clone({elements / share.sharding.parts}), flat,
                               share.sharding.parts, share.sharding.ranks);
  SmallVector<int64_t> shape(one.getShape());
  shape[0] = units;
  return g.reshape(part, shape);
}

/// This rank's units of what the parameters of a bank have, zeros for what is missing to whole
/// rounds.
static Value unitsOfBank(OpBuilder &builder, const UpdateShare &share, int64_t rounds,
                         RankedTensorType one,
                         function_ref<Value(const UpdatedParameter &)> wholeOf) {
  const Location location = share.gradient->getLoc();
  UpdateBatch members = share.members;
  llvm::sort(members, [&](const UpdatedParameter &a, const UpdatedParameter &b) {
    return share.placeOf(a) < share.placeOf(b);
  });
  SmallVector<Value> parts;
  int64_t count = 0;
  auto stack = [&](int64_t units) {
    SmallVector<int64_t> shape(one.getShape());
    shape[0] = units;
    return one.clone(shape);
  };
  for (UpdatedParameter &member : members) {
    Value whole = wholeOf(member);
    one = RankedTensorType::get(one.getShape(), tensorType(whole).getElementType());
    parts.push_back(GraphBuilder(builder, member.state.getLoc())
                        .reshape(whole, stack(member.form->units()).getShape()));
    count += member.form->units();
  }
  GraphBuilder g(builder, location);
  const int64_t all = rounds * share.sharding.parts;
  if (count < all)
    parts.push_back(g.constant(0, stack(all - count)));
  Value whole =
      ConcatOp::create(builder, location, stack(all), parts, builder.getI64IntegerAttr(0));
  SmallVector<Value> mine;
  for (int64_t round = 0; round < rounds; ++round)
    mine.push_back(
        ShardOp::create(builder, location, stack(1),
                        partOf(builder, whole, round * share.sharding.parts, share.sharding.parts),
                        share.sharding.parts, share.sharding.ranks));
  return joined(builder, location, mine);
}

Value unitsOf(OpBuilder &builder, const UpdateShare &share, int64_t units, Value value,
              function_ref<Value(const UpdatedParameter &)> whole) {
  const RankedTensorType one = share.members.front().form->typeOf(value, 1);
  return share.isBank() ? unitsOfBank(builder, share, units, one, whole)
                        : unitsOfPart(builder, share, units, one, whole);
}

Value placedUnits(OpBuilder &builder, const UpdateShare &share, int64_t units, Operation *source) {
  const UpdateForm &first = *share.members.front().form;
  const Value value = source->getResult(0);
  if (auto iota = dyn_cast<IotaOp>(source);
      iota && llvm::all_of(share.members, [&](auto &member) { return member.form == &first; }))
    if (Value mine = iotaOfUnits(builder, share.gradient->getLoc(), first, iota,
                                 {share.sharding, units, share.isBank()}))
      return mine;
  const Type element = tensorType(value).getElementType();
  const bool isInteger = element.isInteger();
  auto ofAll = [&](const UpdateForm &form) {
    return form.computedApart(form.gathered(/*apart=*/share.isBank()));
  };
  // The ops of forms in a bank go together, one by one.
  const auto ops = ofAll(first);
  const auto number = llvm::find(ops, source) - ops.begin();
  Value mine = unitsOf(builder, share, units, value, [&](const UpdatedParameter &member) {
    const Location location = StateOp(member.state).getLoc();
    Operation *own =
        member.form == &first ? source : ofAll(*member.form)[static_cast<size_t>(number)];
    Value all = UpdateEmitter(builder, location, *member.form).get(own->getResult(0));
    return isInteger ? GraphBuilder(builder, location).toF32(all) : all;
  });
  return isInteger ? GraphBuilder(builder, share.gradient->getLoc()).cast(mine, element) : mine;
}

} // namespace nano
