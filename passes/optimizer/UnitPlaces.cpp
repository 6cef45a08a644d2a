// Iotas of a rank's units, computed from the rank's place.
#include "passes/optimizer/UnitPlaces.h"

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

/// The rank's place among `ranks`, i32 of rank 0: its part of 0, 1, …
static Value placeOfRank(OpBuilder &builder, Location location, const Sharding &sharding) {
  const auto all = RankedTensorType::get({sharding.parts}, builder.getF32Type());
  Value places = IotaOp::create(builder, location, all, 0);
  Value mine =
      ShardOp::create(builder, location, all.clone({1}), places, sharding.parts, sharding.ranks);
  GraphBuilder g(builder, location);
  return g.reshape(g.cast(mine, builder.getI32Type()), {});
}

Value iotaOfUnits(OpBuilder &builder, Location location, const UpdateForm &form, IotaOp iota,
                  const RankUnits &mine) {
  const int64_t axis = form.axisOf(iota), most = mine.units * mine.sharding.parts;
  const auto dim = static_cast<int64_t>(iota.getDim());
  if (axis < 0 || most > INT32_MAX)
    return {};
  const RankedTensorType type = form.typeOf(iota, mine.units);
  if (dim >= axis) // the same for each unit
    return IotaOp::create(builder, location, type, static_cast<uint64_t>(dim - axis + 1));

  const ArrayRef<int64_t> sizes = tensorType(iota).getShape();
  const int64_t inside = ShapedType::getNumElements(sizes.slice(dim + 1, axis - dim - 1));
  const auto numbers = RankedTensorType::get({mine.units}, builder.getI32Type());
  GraphBuilder g(builder, location);
  auto quotient = [&](Value x, int64_t by) { return g.div(x, g.constant(double(by), numbers)); };
  auto remainder = [&](Value x, int64_t by) {
    return g.sub(x, g.mul(quotient(x, by), double(by)));
  };
  Value own = IotaOp::create(builder, location, numbers, 0),
        place = g.broadcast(placeOfRank(builder, location, mine.sharding), {mine.units});
  Value unit = mine.isBank ? g.add(g.mul(own, double(mine.sharding.parts)), place)
                           : g.add(own, g.mul(place, double(mine.units)));
  Value coordinate = remainder(quotient(remainder(unit, form.units()), inside), sizes[dim]);
  return g.broadcast(g.cast(coordinate, type.getElementType()), type.getShape(), {0});
}

} // namespace nano
