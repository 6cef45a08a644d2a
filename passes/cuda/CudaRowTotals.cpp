// Exchanges of a row's threads, within a warp, a team of warps or a block.
#include "passes/cuda/CudaRowTotals.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace nano::kernels {

/// Bytes at most of what warps leave of a block's rows until these are over.
constexpr int64_t mostLateBytes = 4 * 1024;

/// True when a pass has several sums of a row, which a team's warps exchange at once.
static bool isOneExchange(const RowPass &pass) {
  return pass.rowReduces.size() > 1 && llvm::all_of(pass.rowReduces, [](graph::ReduceOp reduce) {
           return reduce.getCombiner() == graph::Combiner::sum;
         });
}

void CudaRowTotals::syncGroup() {
  if (layout.isTeam())
    called("", "syncTeam<" + Twine(layout.group) + ">", Type(), team);
  else if (layout.group > 32)
    called("", "syncBlock", Type(), {});
  else if (layout.group > 1)
    called("", "syncGroup<" + Twine(layout.group) + ">", Type(), {});
}

void CudaRowTotals::openTotals(RowPlan &plan, Index group) {
  if (!layout.isTeam()) {
    if (layout.group > 32 && !form.rowReduces.empty())
      partials = named("partials", [&] { return frame.allocate(32, v.b.getF32Type()); });
    return;
  }
  team = group.value;
  openLate(plan);
  SmallVector<int64_t> sizes;
  for (const RowPass &pass : plan.passes) {
    if (isLate(pass))
      continue;
    const int64_t count = pass.rowReduces.size() + llvm::count_if(pass.rowReduces, isLogSumExp);
    for (int64_t i = 0; i < (isOneExchange(pass) ? 1 : count); ++i)
      sizes.push_back(isOneExchange(pass) ? 32 * count : 32);
  }
  for (int64_t size : sizes)
    teamPartials.push_back(named("partials", [&] {
      return frame.allocate(sizes.size() == 1 ? 2 * size : size, v.b.getF32Type());
    }));
}

/// Takes the last pass's reductions, if nothing but an output reads any of them.
void CudaRowTotals::openLate(RowPlan &plan) {
  if (plan.passes.empty())
    return;
  const int64_t count = form.rows * warps();
  SmallVector<Late> found;
  for (graph::ReduceOp reduce : plan.passes.back().rowReduces) {
    const auto *output = llvm::find_if(
        plan.rowOutputs, [&](unsigned i) { return yielded[i] == reduce.getResult(); });
    if (isLogSumExp(reduce) || output == plan.rowOutputs.end() || !reduce->hasOneUse() ||
        frame.updatesInPlace(*output))
      return;
    found.push_back({reduce, *output, {}});
  }
  if (int64_t(found.size()) * count * 4 > mostLateBytes)
    return;
  for (Late &number : found) {
    number.parts =
        named("parts", [&] { return frame.allocate(count, carriedType(number.reduce)); });
    llvm::erase(plan.rowOutputs, number.output);
  }
  late = std::move(found);
}

bool CudaRowTotals::isLate(const RowPass &pass) const {
  return !late.empty() && !pass.rowReduces.empty() &&
         pass.rowReduces.front() == late.front().reduce;
}

LogicalResult CudaRowTotals::leave(const RowPass &pass, ArrayRef<Value> parts) {
  SmallVector<Value> numbers = totals(pass.rowReduces, parts, [&](bool isSum, Value number) {
    if (VectorOps::isVector(number))
      number = isSum ? v.sumLanes(number) : v.maxLanes(number);
    const Type type = number.getType();
    return called(isSum ? "sum" : "largest", exchange("group", isSum, 32, type), type, number);
  });
  Index inWarp = e.rem(lane, 32);
  e.moveTo(e.depth());
  return when(isZero(inWarp.value), [&] {
    Index place = e.add(e.mul(rowOfBlock, warps()), e.div(lane, 32));
    e.moveTo(e.depth());
    for (auto [number, each] : llvm::zip(numbers, late))
      v.store(number, each.parts, place.value);
    return success();
  });
}

LogicalResult CudaRowTotals::storeLate(const Digit &iteration) {
  if (late.empty())
    return success();
  return LogicalResult(loop(
      thread, v.index(form.rows), layout.threads, 0, {}, [&](Index row, MutableArrayRef<Value>) {
        const Position position{iteration, {form.rows, RowEvaluator::uniform(row)}};
        for (const Late &number : late) {
          graph::ReduceOp reduce = number.reduce;
          SmallVector<Value> parts;
          for (int64_t warp = 0; warp < warps(); ++warp) {
            Index place = e.add(e.mul(row, warps()), e.constant(warp));
            e.moveTo(e.depth());
            Value part = v.loadScalar(number.parts, place.value);
            parts.push_back(warp == 0 ? part : combine(isSum(reduce), parts.back(), part));
          }
          e.storeOutput(number.output, v.roundTo(elementType(reduce), parts.back()), position);
        }
        return success();
      }));
}

SmallVector<Value> CudaRowTotals::totalsOf(const RowPass &pass, ArrayRef<Value> parts) {
  if (layout.isTeam() && isOneExchange(pass))
    return totalsOfTeam(pass.rowReduces, parts);
  return totals(pass.rowReduces, parts,
                [&](bool isSum, Value vector) { return total(isSum, vector); });
}

/// The sum or maximum of the numbers, one or a vector, that the row's threads have.
Value CudaRowTotals::total(bool isSum, Value number) {
  StringRef name = isSum ? "sum" : "largest";
  return named(name, [&] {
    if (VectorOps::isVector(number))
      number = isSum ? v.sumLanes(number) : v.maxLanes(number);
    const Type type = number.getType();
    if (layout.group == 1)
      return number;
    if (layout.isTeam()) {
      const Value own = nextPartials();
      return called(name, exchange("team", isSum, layout.group, type), type, {number, own, team});
    }
    if (layout.group <= 32)
      return called(name, exchange("group", isSum, layout.group, type), type, number);
    return called(name, exchange("block", isSum, layout.threads, type), type, {number, partials});
  });
}

/// Shared memory for a team's next exchange: each of a row has its own, an only one two that rows
/// take in turn, which is free again when the team has waited for the next one.
Value CudaRowTotals::nextPartials() {
  if (teamPartials.size() > 1)
    return teamPartials[exchanges++ % teamPartials.size()];
  const Value both = teamPartials.front();
  auto type = cast<MemRefType>(both.getType());
  const int64_t size = type.getNumElements() / 2;
  Index offset = e.mul(e.rem(turn, 2), size);
  e.moveTo(e.depth());
  return named("own", [&]() -> Value {
    return memref::ReinterpretCastOp::create(
        v.b, v.loc,
        MemRefType::get({size}, type.getElementType(),
                        StridedLayoutAttr::get(v.b.getContext(), ShapedType::kDynamic, {1}),
                        type.getMemorySpace()),
        both, OpFoldResult(offset.value), ArrayRef<OpFoldResult>{v.b.getIndexAttr(size)},
        ArrayRef<OpFoldResult>{v.b.getIndexAttr(1)});
  });
}

/// The sums of a pass, of which a team's warps exchange their parts at once.
SmallVector<Value> CudaRowTotals::totalsOfTeam(ArrayRef<graph::ReduceOp> reduces,
                                               ArrayRef<Value> parts) {
  SmallVector<Value> operands{nextPartials(), team}, results;
  totals(reduces, parts, [&](bool, Value part) {
    operands.push_back(VectorOps::isVector(part) ? v.sumLanes(part) : part);
    return part;
  });
  const std::string sizes = (Twine(layout.group) + ", " + Twine(reduces.size())).str();
  called("", "shareSums<" + sizes + ">", Type(), operands);
  for (size_t i = 0; i < reduces.size(); ++i)
    results.push_back(called("sum", "sharedSum<" + sizes + ">", v.b.getF32Type(),
                             {operands[0], operands[1], v.index(int64_t(i))}));
  return results;
}

} // namespace nano::kernels
