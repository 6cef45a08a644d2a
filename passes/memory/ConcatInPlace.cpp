// A concat that puts parts of a tensor back beside the rest of it lies in that tensor; so does one
// of rows that kernels make of that tensor's rows in turn, as gradients in chunks of a head.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"
#include "passes/memory/InPlace.h"
#include "passes/memory/Placement.h"

#include <array>
#include <map>

using namespace mlir;
using namespace nano::graph;

namespace nano::memory {

/// Offsets are numbers whose digits count steps of each stride, the longest first; where a digit
/// may carry, nothing is known.
bool areApart(Place a, ArrayRef<int64_t> shapeA, Place b, ArrayRef<int64_t> shapeB) {
  if (a.root != b.root)
    return true;
  if (a.offset > b.offset) {
    std::swap(a, b);
    std::swap(shapeA, shapeB);
  }
  std::map<int64_t, std::array<int64_t, 2>, std::greater<>> steps; // by stride, of a and of b
  std::array<int64_t, 2> reach = {0, 0};
  auto add = [&](const Place &place, ArrayRef<int64_t> shape, size_t which) {
    for (auto [stride, size] : llvm::zip_equal(place.strides, shape))
      if (size > 1) {
        steps[stride][which] += size - 1;
        reach[which] += stride * (size - 1);
      }
  };
  add(a, shapeA, 0);
  add(b, shapeB, 1);
  int64_t distance = b.offset - a.offset;
  for (auto [stride, counts] : steps) {
    if (distance > reach[0])
      return true;
    reach[0] -= stride * counts[0];
    reach[1] -= stride * counts[1];
    if (reach[0] >= stride || distance % stride + reach[1] >= stride)
      return false;
    if (distance / stride > counts[0])
      return true;
    distance %= stride;
  }
  return distance > 0;
}

namespace {

/// The tensor that a slice or reshape, or several, show a part of.
Value shownBy(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<SliceOp, ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Where `value` lies when the tensor that it shows lies at `source`; nothing where that is no
/// view.
std::optional<Place> shownPlace(Value value, Value tensor, const Place &source) {
  if (value == tensor)
    return source;
  Operation *view = value.getDefiningOp();
  const std::optional<Place> of = shownPlace(view->getOperand(0), tensor, source);
  return of ? viewPlace(view, *of) : std::nullopt;
}

} // namespace

bool Placement::addWritten(Value part, const Place &place, Value source, int64_t copied,
                           SmallVectorImpl<Written> &written) const {
  Operation *op = part.getDefiningOp();
  const ArrayRef<int64_t> shape = tensorType(part).getShape();
  if (auto reshape = dyn_cast_if_present<ReshapeOp>(op)) {
    auto strides =
        step::reshapeStrides(shape, place.strides, tensorType(reshape.getX()).getShape());
    if (strides && !of(part))
      return addWritten(reshape.getX(), {place.root, place.offset, *strides}, source, copied,
                        written);
  }
  if (auto concat = dyn_cast_if_present<ConcatOp>(op); concat && !of(concat))
    return llvm::all_of(llvm::zip(concat.getInputs(), partPlaces(concat, place)), [&](auto each) {
      return addWritten(std::get<0>(each), std::get<1>(each), source, position.lookup(op), written);
    });
  const bool isMade = op && !isViewOp(op) && !isa<LoadOp, ConcatOp>(op);
  if (!isMade && shownBy(part) == source)
    return false; // read where others write, perhaps
  written.push_back({isMade ? cast<OpResult>(part) : OpResult(), place, SmallVector<int64_t>(shape),
                     isMade ? position.lookup(op) : copied});
  return true;
}

bool Placement::isOverwrittenLate(Value value, const Place &place, ConcatOp concat,
                                  ArrayRef<Written> written) const {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = block.findAncestorOpInBlock(*use.getOwner());
    if (isDropped(user) || user == concat)
      return true;
    if (isa<SliceOp, ReshapeOp>(user))
      if (std::optional<Place> view = viewPlace(user, place))
        return isOverwrittenLate(user->getResult(0), *view, concat, written);
    if (isa<TransposeOp>(user))
      return false;
    const ArrayRef<int64_t> shape = tensorType(value).getShape();
    std::optional<InPlace> inPlace;
    return llvm::all_of(written, [&](const Written &each) {
      const int64_t at = position.lookup(user);
      if (at < each.at || areApart(place, shape, each.place, each.shape))
        return true;
      // Its kernel reads an element and writes it.
      if (at > each.at || !each.value || use.getOwner() != user || place != each.place ||
          shape != ArrayRef<int64_t>(each.shape))
        return false;
      if (!inPlace)
        inPlace.emplace(user);
      return inPlace->mayOverwrite(use.getOperandNumber(), each.value.getResultNumber(),
                                   /*rotated=*/true);
    });
  });
}

Value Placement::overwrittenPart(ConcatOp concat) const {
  const Value first = concat.getInputs().front();
  Operation *maker = first.getDefiningOp();
  if (concat.getDim() != 0 || !maker || isViewOp(maker) || isa<LoadOp, ConcatOp>(maker))
    return {};
  for (Value operand : maker->getOperands()) {
    auto slice = operand.getDefiningOp<SliceOp>();
    if (slice && slice.getType() == first.getType() && slice.getX().getType() == concat.getType() &&
        slice.getDim() == 0 && slice.getStart() == 0 &&
        lastRead.lookup(slice.getX()) <= position.lookup(concat))
      return operand;
  }
  return {};
}

bool Placement::lieInSource(ConcatOp concat) {
  // The largest part of what another op makes.
  Value shown, source;
  size_t index = 0;
  for (auto [i, part] : llvm::enumerate(concat.getInputs()))
    if (const Value tensor = shownBy(part);
        tensor != part &&
        (!shown || tensorType(part).getNumElements() > tensorType(shown).getNumElements())) {
      shown = part;
      source = tensor;
      index = i;
    }
  // Or all are made, each of rows in its place.
  if (!shown && !of(concat) && (shown = overwrittenPart(concat)))
    source = shownBy(shown);
  const int64_t dim = concat.getDim();
  auto made = dyn_cast_if_present<OpResult>(source);
  if (!made || isa<LoadOp, ConcatOp, TransposeOp>(made.getOwner()) || isExchange(made.getOwner()) ||
      tensorType(shown).getDimSize(dim) == 1)
    return false;
  const RankedTensorType type = tensorType(concat), sourceType = tensorType(source);
  // Memory that only the concat needs is not held for its sake.
  if (type.getElementType().getIntOrFloatBitWidth() < 16 ||
      (sourceType.getNumElements() != type.getNumElements() &&
       lastRead.lookup(source) < lastRead.lookup(concat)))
    return false;

  Place whole = of(concat), place = of(source);
  if (whole) {
    // Where the source must lie, for the concat to be where it must.
    auto slice = shown.getDefiningOp<SliceOp>();
    int64_t start = 0;
    for (Value part : concat.getInputs().take_front(index))
      start += tensorType(part).getDimSize(dim);
    if (place || allRoots[whole.root].symbol || !slice || slice.getX() != source ||
        sourceType != type || int64_t(slice.getDim()) != dim || int64_t(slice.getStart()) != start)
      return false;
    place = whole;
  } else {
    if (place && allRoots[place.root].madeFor != source)
      return false;
    if (!place)
      place = {int(allRoots.size()), 0, {}};
    if (place.strides.empty())
      place.strides = denseStrides(sourceType.getShape());
    const std::optional<Place> part = shownPlace(shown, source, place);
    if (!part)
      return false;
    whole = *part;
    for (Value before : concat.getInputs().take_front(index))
      whole.offset -= tensorType(before).getDimSize(dim) * whole.strides[dim];
    normalise(type.getShape(), whole.strides);
    const step::ElementRange range = step::elementRange(memref(concat, whole));
    if (whole.offset < 0 || range.end > sourceType.getNumElements())
      return false;
  }
  // Other concats that lie there, and what reads them, are apart from this one.
  for (ConcatOp other : inSource.lookup(source))
    if (!areApart(of(other), tensorType(other).getShape(), whole, type.getShape()))
      return false;
  SmallVector<Written> written;
  for (auto [i, part, where] : llvm::enumerate(concat.getInputs(), partPlaces(concat, whole)))
    if (shownBy(part) != source || shownPlace(part, source, place) != where)
      if (!addWritten(part, where, source, position.lookup(concat), written))
        return false;
  if (!isOverwrittenLate(source, place, concat, written))
    return false;

  if (of(concat)) {
    if (!put(source, place, Window()))
      return false;
  } else {
    if (!of(source))
      assign(source, newRoot(source));
    assign(concat, whole);
  }
  inSource[source].push_back(concat);
  return true;
}

} // namespace nano::memory
