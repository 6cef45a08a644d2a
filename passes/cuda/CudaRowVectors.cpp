// How a thread of a row kernel goes over its vectors of columns.
#include "passes/cuda/CudaRowVectors.h"

using namespace mlir;

namespace nano::kernels {

/// Iterations of a loop over a long row that are in flight together.
constexpr int64_t longRowUnroll = 4;
/// Likewise where shared memory keeps values: blocks have more threads, and these fewer registers,
/// the fewer the more sums the loop carries.
constexpr int64_t keptRowUnroll(size_t sums) { return sums < 3 ? 3 : 2; }

Index CudaRowVectors::columnOf(Index u) {
  return named("column", [&] { return e.mul(e.add(e.mul(u, layout.group), lane), layout.lanes); });
}

FailureOr<SmallVector<Value>> CudaRowVectors::overVectors(const Position &row, ArrayRef<Value> sums,
                                                          VectorBody body, int64_t from) {
  auto one = [&](Index u, MutableArrayRef<Value> sums) -> LogicalResult {
    bool elements = form.kind == RowForm::Kind::Elements;
    Index at =
        elements
            ? named("at",
                    [&] { return e.add(elementsBase, e.mul(u, layout.threads * layout.lanes)); })
            : columnOf(window ? e.add(window->first, u) : u);
    // Whether all of the block's elements are there is known in this branch only.
    if (elements)
      at.depth = e.depth();
    bool partial = isPartial() && !isWhole;
    Vector vector;
    vector.slot = u.value;
    if (elements)
      vector.digit = {form.iterations, RowEvaluator::lanes(at, /*aligned=*/false)};
    else if (form.columns == 1)
      vector.digit = {1, RowEvaluator::uniform(at)};
    else
      vector.digit = {form.columns, RowEvaluator::lanes(at, /*aligned=*/true)};
    if (partial && (elements || form.columns > 1)) {
      // Where rows are gone through in a loop, what is read of columns alone is read before it.
      e.moveTo(at.depth);
      e.mask = named("inside", [&] {
        Value limit = elements ? frame.end : v.index(form.columns);
        return v.maskBelow(v.sub(limit, at.value));
      });
      e.moveTo(e.depth());
    }
    e.own = {elements ? form.iterations : form.columns, numberOf(row), at.value, u.value};
    LogicalResult result = body(vector, sums);
    e.mask = {};
    e.own = {};
    return result;
  };
  if (window)
    return loop(v.index(0), v.index(window->count), 1, window->count, sums, one);
  if (layout.vectors == 1 || layout.holdsRotated) {
    SmallVector<Value> next(sums);
    for (int64_t u = 0; u < layout.vectors; ++u)
      if (failed(one(e.constant(u), next)))
        return failure();
    return next;
  }
  bool whole = layout.resident || !form.columnReduces.empty();
  int64_t unroll = whole                ? layout.vectors
                   : sharedRows.empty() ? longRowUnroll
                                        : keptRowUnroll(sums.size());
  if (whole || !isPartial())
    return loop(v.index(from), v.index(layout.vectors), 1, unroll, sums, one);
  // Only the last of a long row's vectors may lie outside: the others need no mask.
  SmallVector<Value> next(sums);
  if (from < layout.vectors - 1) {
    isWhole = true;
    e.columnsBelow = (layout.vectors - 1) * layout.group * layout.lanes;
    e.columns = form.columns;
    FailureOr<SmallVector<Value>> most =
        loop(v.index(from), v.index(layout.vectors - 1), 1, unroll, sums, one);
    e.columnsBelow = 0;
    isWhole = false;
    if (failed(most))
      return failure();
    next = *most;
  }
  if (failed(one(e.constant(layout.vectors - 1), next)))
    return failure();
  return next;
}

bool CudaRowVectors::isPartial() const {
  return form.kind == RowForm::Kind::Elements
             ? elementsMasked
             : layout.group * layout.vectors * layout.lanes != form.columns;
}

} // namespace nano::kernels
