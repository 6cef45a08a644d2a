// Column reductions alone, and beside what is computed of wide rows, for blocks of GPU threads.
#include "ir/graph/ReduceOps.h"
#include "passes/cuda/CudaRowKernel.h"
#include "passes/cuda/CudaRowLayout.h"
#include "passes/cuda/CudaThreadCode.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Rows whose vectors a thread loads before it adds the first.
constexpr int64_t loadsAhead = 4;

class CudaColumnKernel : CudaThreadCode {
public:
  CudaColumnKernel(KernelFrame &frame, const RowForm &form, const CudaRowLayout &layout)
      : CudaThreadCode(frame), form(form), layout(layout) {}

  /// Threads stand in `slices` rows of `layout.group`; slice s sums rows s, s + slices, …; then the
  /// first slice adds the slices' sums in order.
  LogicalResult emit() {
    frame.blockIterations = 1;
    frame.iterations = layout.iterations(form);
    frame.threads = layout.threads;
    Index thread{called("thread", "threadIndex", v.b.getIndexType(), {}), 0};
    int64_t slices = layout.groups(), strip = layout.strip(),
            strips = llvm::divideCeil(form.columns, strip);
    Index along = named("along", [&] { return e.rem(thread, layout.group); });
    Index slice = named("slice", [&] { return e.div(thread, layout.group); });
    Index iteration{frame.begin, 0};
    Digit parallel{form.iterations, RowEvaluator::uniform(e.div(iteration, strips))};
    Index at = named("column", [&] {
      return e.add(e.mul(e.rem(iteration, strips), strip), e.mul(along, layout.lanes));
    });
    Digit column{form.columns, RowEvaluator::lanes(at, /*aligned=*/true)};
    Value mask;
    if (form.columns % strip != 0)
      mask = named("inside", [&] { return v.maskBelow(v.sub(v.index(form.columns), at.value)); });

    SmallVector<unsigned> ofRows, ofColumns;
    for (auto [i, value] : llvm::enumerate(yielded))
      (elementsOf(value) == form.elements() ? ofRows : ofColumns).push_back(i);
    SmallVector<Value> sums;
    for (graph::ReduceOp reduce : form.columnReduces)
      sums.push_back(v.splat(identity(reduce)));
    // Turns that no thread takes cost registers all the same.
    const int64_t unroll = std::min<int64_t>(loadsAhead, llvm::divideCeil(form.rows, slices));
    FailureOr<SmallVector<Value>> totals =
        loop(slice.value, v.index(form.rows), slices, unroll, sums,
             [&](Index row, MutableArrayRef<Value> sums) -> LogicalResult {
               e.mask = mask;
               const Position position{parallel, {form.rows, RowEvaluator::uniform(row)}, column};
               for (auto [sum, reduce] : llvm::zip(sums, form.columnReduces))
                 if (failed(addTo(sum, reduce, position)))
                   return failure();
               LogicalResult stored = storeOutputs(ofRows, position);
               e.mask = {};
               return stored;
             });
    if (failed(totals))
      return failure();
    return addSlices(*totals, slices, along, slice, [&](ArrayRef<Value> sums) {
      // Known from here on: other slices must not read what is overwritten.
      Position position{parallel, column};
      for (Digit &digit : position)
        digit.coordinate.at.depth = e.depth();
      e.mask = mask;
      for (size_t k = 0; k < sums.size(); ++k) {
        graph::ReduceOp reduce = form.columnReduces[k];
        e.define(reduce.getResult(), position, v.roundTo(elementType(reduce), sums[k]));
      }
      LogicalResult result = storeOutputs(ofColumns, position);
      e.mask = {};
      return result;
    });
  }

private:
  /// Combines one vector a thread over the slices, through shared memory; `body` runs in slice 0.
  LogicalResult addSlices(ArrayRef<Value> sums, int64_t slices, Index along, Index slice,
                          llvm::function_ref<LogicalResult(ArrayRef<Value>)> body) {
    Index at = e.mul(along, layout.lanes);
    if (slices == 1)
      return body(sums);
    int64_t strip = layout.strip();
    SmallVector<Value> memories;
    for (size_t k = 0; k < sums.size(); ++k) {
      memories.push_back(named("sums", [&] {
        return frame.allocate(slices * strip, carriedType(form.columnReduces[k]));
      }));
      v.store(sums[k], memories[k], e.add(e.mul(slice, strip), at).value);
    }
    called("", "syncBlock", Type(), {});
    return when(isZero(slice.value), [&]() -> LogicalResult {
      SmallVector<Value> starts;
      for (Value memory : memories)
        starts.push_back(v.load(memory, at.value));
      FailureOr<SmallVector<Value>> totals =
          loop(v.index(1), v.index(slices), 1, slices, starts,
               [&](Index s, MutableArrayRef<Value> sums) -> LogicalResult {
                 for (size_t k = 0; k < sums.size(); ++k)
                   sums[k] = combine(isSum(form.columnReduces[k]), sums[k],
                                     v.load(memories[k], e.add(e.mul(s, strip), at).value));
                 return success();
               });
      if (failed(totals))
        return failure();
      return body(*totals);
    });
  }

  const RowForm &form;
  const CudaRowLayout &layout;
};
} // namespace

LogicalResult emitCudaColumnKernel(KernelFrame &frame, const RowForm &form,
                                   const CudaRowLayout &layout) {
  return CudaColumnKernel(frame, form, layout).emit();
}

} // namespace nano::kernels
