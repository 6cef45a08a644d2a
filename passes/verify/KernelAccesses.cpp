// Indices of loads and stores: which are the same, and which certainly lie outside.
#include "passes/verify/KernelAccesses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nano {
namespace {

/// Where a load or a store goes: an element, or a vector from there on along the last dimension.
struct Place {
  Value memory;
  SmallVector<Value> indices;
  int64_t length = 1;
  Value offsets = {}; ///< of elements that are gathered or scattered
  Value mask = {};    ///< of a vector of which nobody knows how many elements count
};

/// How many of a vector's first elements a mask lets through, where it is others than the first.
std::optional<int64_t> leading(Value mask) {
  if (auto made = mask.getDefiningOp<vector::CreateMaskOp>();
      made && made.getOperands().size() == 1)
    return getConstantIntValue(made.getOperands().front());
  DenseElementsAttr bits;
  if (!matchPattern(mask, m_Constant(&bits)))
    return std::nullopt;
  const auto values = bits.getValues<bool>();
  const auto end = llvm::find(values, false);
  if (std::find(end, values.end(), true) != values.end())
    return std::nullopt;
  return std::distance(values.begin(), end);
}

/// The place of an op with a mask.
Place maskedPlaceOf(Operation *op) {
  Place place;
  const auto fill = [&](auto access, VectorType type) {
    place.memory = access.getBase();
    llvm::append_range(place.indices, access.getIndices());
    const std::optional<int64_t> count = leading(access.getMask());
    place.length = count.value_or(type.getNumElements());
    if (!count)
      place.mask = access.getMask();
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](vector::MaskedLoadOp load) { fill(load, load.getVectorType()); })
      .Case([&](vector::MaskedStoreOp store) { fill(store, store.getVectorType()); })
      .Case<vector::GatherOp, vector::ScatterOp>([&](auto gathers) {
        place.memory = gathers.getBase();
        place.indices.assign(gathers.getOffsets().begin(), gathers.getOffsets().end());
        place.offsets = gathers.getIndices();
        place.mask = gathers.getMask();
      });
  return place;
}

/// The memory that a value shows through casts, where its indices mean the same.
Value behindCasts(Value memory) {
  for (auto view = memory.getDefiningOp<memref::CastOp>();
       view && isa<MemRefType>(view.getSource().getType());
       view = memory.getDefiningOp<memref::CastOp>())
    memory = view.getSource();
  return memory;
}

std::optional<Place> placeOf(Operation *op) {
  const auto place = [](auto access, int64_t length = 1) {
    return Place{access.getBase(), SmallVector<Value>(access.getIndices()), length};
  };
  const auto lengthOf = [](VectorType type) {
    return type.getRank() == 1 ? type.getDimSize(0) : 0;
  };
  std::optional<Place> found;
  if (auto load = dyn_cast<memref::LoadOp>(op))
    found = Place{load.getMemRef(), SmallVector<Value>(load.getIndices())};
  else if (auto store = dyn_cast<memref::StoreOp>(op))
    found = Place{store.getMemRef(), SmallVector<Value>(store.getIndices())};
  else if (auto load = dyn_cast<vector::LoadOp>(op))
    found = place(load, lengthOf(load.getVectorType()));
  else if (auto store = dyn_cast<vector::StoreOp>(op))
    found = place(store, lengthOf(store.getVectorType()));
  else if (isa<vector::MaskedLoadOp, vector::MaskedStoreOp, vector::GatherOp, vector::ScatterOp>(
               op))
    found = maskedPlaceOf(op);
  if (!found || found->length < 1)
    return std::nullopt;
  found->memory = behindCasts(found->memory);
  return found;
}

/// Loops of different places that run alike, by their variables.
using LoopPairs = llvm::DenseMap<Value, Value>;

/// True when two values are the same where paired variables are.
bool same(Value a, Value b, const LoopPairs &pairs) {
  if (a == b || pairs.lookup(a) == b)
    return true;
  if (std::optional<int64_t> number = getConstantIntValue(a))
    return getConstantIntValue(b) == number;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || x->getName() != y->getName() || x->getNumRegions() || !isMemoryEffectFree(x) ||
      x->getNumOperands() != y->getNumOperands() ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber() ||
      x->getAttrDictionary() != y->getAttrDictionary() || a.getType() != b.getType())
    return false;
  return llvm::all_of(llvm::zip(x->getOperands(), y->getOperands()), [&](auto operands) {
    return same(std::get<0>(operands), std::get<1>(operands), pairs);
  });
}

/// The ops around `op`, from the outermost in the kernel's body down to itself.
SmallVector<Operation *> chainOf(Operation *op) {
  SmallVector<Operation *> chain;
  for (; op && !isa<kernel::FuncOp>(op); op = op->getParentOp())
    chain.push_back(op);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// True of a loop over the kernel's iterations, one by one.
bool isWork(scf::ForOp loop, kernel::FuncOp kernel) {
  const unsigned arguments = kernel.getNumArguments();
  return loop.getLowerBound() == kernel.getArgument(arguments - 2) &&
         loop.getUpperBound() == kernel.getArgument(arguments - 1) &&
         getConstantIntValue(loop.getStep()) == 1;
}

/// The loop that an index is the variable of.
scf::ForOp loopOf(Value index) {
  scf::ForOp loop = scf::getForInductionVarOwner(index);
  return loop && loop.getInductionVar() == index ? loop : scf::ForOp();
}

/// The values that an index takes for certain: of a constant one, of a loop's variable those of
/// known bounds.
struct Values {
  int64_t first, last, step;
};

std::optional<Values> valuesOf(Value index) {
  if (std::optional<int64_t> number = getConstantIntValue(index))
    return Values{*number, *number, 1};
  scf::ForOp loop = loopOf(index);
  if (!loop)
    return std::nullopt;
  const std::optional<int64_t> low = getConstantIntValue(loop.getLowerBound()),
                               high = getConstantIntValue(loop.getUpperBound()),
                               step = getConstantIntValue(loop.getStep());
  if (!low || !high || !step || *step < 1 || *low >= *high)
    return std::nullopt;
  return Values{*low, *low + (*high - 1 - *low) / *step * *step, *step};
}

/// A value that a body reaches for certain: a constant, or the last of a loop of known bounds.
/// `iterations`: the last of the kernel's own iterations, if known.
std::optional<int64_t> largest(Value index, kernel::FuncOp kernel,
                               std::optional<int64_t> iterations) {
  scf::ForOp loop = loopOf(index);
  if (loop && isWork(loop, kernel))
    return iterations ? std::optional(*iterations - 1) : std::nullopt;
  const std::optional<Values> values = valuesOf(index);
  return values ? std::optional(values->last) : std::nullopt;
}

/// True when an op of the body runs in each iteration, if there is one.
bool runsAlways(Operation *op, kernel::FuncOp kernel) {
  return llvm::all_of(ArrayRef(chainOf(op)).drop_back(), [&](Operation *around) {
    auto loop = dyn_cast<scf::ForOp>(around);
    return loop && (isWork(loop, kernel) || largest(loop.getInductionVar(), kernel, std::nullopt));
  });
}

/// True of an argument of the kernel, or one of several: indices mean what they mean there.
bool isArgument(Value memory) {
  memory = behindCasts(memory);
  if (auto argument = dyn_cast<BlockArgument>(memory))
    return isa<kernel::FuncOp>(argument.getOwner()->getParentOp());
  auto choice = memory.getDefiningOp<arith::SelectOp>();
  return choice && isArgument(choice.getTrueValue()) && isArgument(choice.getFalseValue());
}

/// True when not all of `values`, each with the `length` - 1 numbers behind it, lie in the union of
/// `intervals` (begin, end).
bool reachBeyond(const Values &values, int64_t length,
                 SmallVector<std::pair<int64_t, int64_t>> intervals) {
  llvm::sort(intervals);
  size_t next = 0;
  int64_t begin = INT64_MIN, end = INT64_MIN; // of what is joined to one
  for (int64_t value = values.first; value <= values.last; value += values.step) {
    for (; next < intervals.size() && intervals[next].first <= std::max(value, end); ++next) {
      if (intervals[next].first > end)
        begin = intervals[next].first;
      end = std::max(end, intervals[next].second);
    }
    if (value < begin || value + length > end)
      return true;
  }
  return false;
}

/// Calls `visit` with an access, and each of its indices beside the size and how many elements
/// from the index on are touched. Only of what runs in each iteration.
void forEachIndex(
    kernel::FuncOp kernel,
    function_ref<void(Operation *op, Value index, int64_t size, int64_t length)> visit) {
  kernel.walk([&](Operation *op) {
    const std::optional<Place> place = placeOf(op);
    if (!place || place->offsets || place->mask || !runsAlways(op, kernel))
      return;
    const ArrayRef<int64_t> sizes = cast<MemRefType>(place->memory.getType()).getShape();
    for (auto [dim, index] : llvm::enumerate(place->indices))
      if (!ShapedType::isDynamic(sizes[dim]))
        visit(op, index, sizes[dim], dim + 1 == sizes.size() ? place->length : 1);
  });
}

} // namespace

bool mayLeave(Operation *store, Operation *load) {
  const std::optional<Place> from = placeOf(load), to = placeOf(store);
  if (!from || !to)
    return false;
  const SmallVector<Operation *> loads = chainOf(load), stores = chainOf(store);
  size_t common = 0;
  while (common < std::min(loads.size(), stores.size()) && loads[common] == stores[common])
    ++common;
  // Where they part, the store comes first, in one block.
  if (common == loads.size() || common == stores.size() ||
      loads[common]->getBlock() != stores[common]->getBlock() ||
      !stores[common]->isBeforeInBlock(loads[common]))
    return false;
  // Each loop around the store alone runs as one around the load does. What loops that run
  // otherwise have stored in all: see mayReadBeyond.
  LoopPairs pairs;
  size_t next = common;
  for (Operation *around : ArrayRef(stores).drop_front(common).drop_back()) {
    auto loop = dyn_cast<scf::ForOp>(around);
    if (!loop) {
      auto choice = dyn_cast<scf::IfOp>(around);
      return !choice || !choice.getElseRegion().empty();
    }
    scf::ForOp other;
    for (; next + 1 < loads.size() && !other; ++next) {
      auto candidate = dyn_cast<scf::ForOp>(loads[next]);
      if (candidate && same(loop.getLowerBound(), candidate.getLowerBound(), pairs) &&
          same(loop.getUpperBound(), candidate.getUpperBound(), pairs) &&
          same(loop.getStep(), candidate.getStep(), pairs))
        other = candidate;
    }
    if (!other)
      return true;
    pairs[loop.getInductionVar()] = other.getInductionVar();
  }
  if (!same(to->memory, from->memory, pairs)) // one of two memories may be the other one
    return !to->memory.getDefiningOp<arith::SelectOp>();
  if (to->indices.size() != from->indices.size() || to->offsets || from->offsets || to->mask ||
      from->mask)
    return true;
  // Numbers can be compared, of vectors along the last dimension too; of others nothing is known.
  for (auto [dim, left, right] : llvm::enumerate(to->indices, from->indices)) {
    const bool isLast = dim + 1 == to->indices.size();
    const std::optional<int64_t> a = getConstantIntValue(left), b = getConstantIntValue(right);
    const bool isSame = same(left, right, pairs);
    if (!isSame && (!a || !b))
      return true;
    const int64_t shift = isSame ? 0 : *b - *a;
    if (isLast ? shift < 0 || shift + from->length > to->length : shift != 0)
      return false;
  }
  return true;
}

bool mayReadBeyond(Operation *load, ArrayRef<Operation *> stores) {
  const std::optional<Place> from = placeOf(load);
  if (!from || from->offsets || from->mask || !isArgument(from->memory))
    return false;
  SmallVector<Place> places;
  for (Operation *store : stores) {
    const std::optional<Place> to = placeOf(store);
    if (!to || to->offsets || !isArgument(to->memory))
      return false;
    places.push_back(*to);
  }
  const bool isCertain = runsAlways(load, load->getParentOfType<kernel::FuncOp>());
  for (auto [dim, index] : llvm::enumerate(from->indices)) {
    const bool isLast = dim + 1 == from->indices.size();
    SmallVector<std::pair<int64_t, int64_t>> stored;
    for (const Place &place : places)
      if (const std::optional<Values> values = valuesOf(place.indices[dim]))
        stored.emplace_back(values->first, values->last + (isLast ? place.length : 1));
    // A condition may choose among a variable's values, and nothing of a number.
    const std::optional<Values> values = valuesOf(index);
    if (values && (isCertain || getConstantIntValue(index)) && stored.size() == places.size() &&
        reachBeyond(*values, isLast ? from->length : 1, stored))
      return true;
  }
  return false;
}

std::optional<int64_t> mostIterations(kernel::FuncOp kernel) {
  std::optional<int64_t> most;
  forEachIndex(kernel, [&](Operation *, Value index, int64_t size, int64_t length) {
    if (largest(index, kernel, 1) && !largest(index, kernel, std::nullopt))
      most = std::min(most.value_or(INT64_MAX), size - length + 1);
  });
  return most;
}

LogicalResult verifyBounds(kernel::FuncOp kernel) {
  LogicalResult result = success();
  forEachIndex(kernel, [&](Operation *op, Value index, int64_t size, int64_t length) {
    const std::optional<int64_t> last = largest(index, kernel, std::nullopt);
    if (succeeded(result) && last && (*last < 0 || *last + length > size))
      result = op->emitOpError("reaches element ") << *last + length - 1 << " of " << size;
  });
  kernel.walk([&](memref::ViewOp view) {
    auto source = cast<MemRefType>(view.getSource().getType()), type = view.getType();
    const std::optional<int64_t> shift = getConstantIntValue(view.getByteShift());
    if (failed(result) || !shift || !source.hasStaticShape() || !type.hasStaticShape())
      return;
    const int64_t end =
        *shift + llvm::divideCeil(type.getNumElements() * type.getElementTypeBitWidth(), 8);
    if (*shift < 0 || end > source.getNumElements())
      result = view.emitOpError("reaches byte ") << end << " of " << source.getNumElements();
  });
  return result;
}

} // namespace nano
