// Reads rows ahead, by copies or to registers.
#include "passes/cuda/CudaRowsAhead.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace nano::kernels {

/// Rows of a group that are on their way, or at hand, at a time. The one at hand has a place of its
/// own: what is read of it need not be in registers when the next copy starts.
constexpr int64_t copiedRows = 4, rowsOnTheirWay = copiedRows - 1;

bool CudaRowsAhead::updatesInPlace() {
  return llvm::any_of(llvm::seq<unsigned>(frame.task.getOuts().size()),
                      [&](unsigned i) { return frame.updatesInPlace(i); });
}

LogicalResult CudaRowsAhead::loadFirstRows(ArrayRef<Value> roots, const Digit &iteration,
                                           Index group) {
  for (Value load : loadsOf(roots, form.elements())) {
    // Other rows than the group's own may be overwritten meanwhile.
    if (load.getDefiningOp() && updatesInPlace())
      continue;
    auto make = [&](const Twine &name) {
      return named(name.str(), [&] { return registers(keptType(load), layout.vectors); });
    };
    RowAhead ahead{.load = load, .row = make("row"), .next = {}, .copies = {}};
    if (layout.copiesRows)
      ahead.copies = named("copies", [&] {
        return frame.allocate(copiedRows * layout.vectors * layout.threads * layout.lanes,
                              keptType(load));
      });
    else
      ahead.next = make("next");
    rowsAhead.push_back(ahead);
  }
  if (rowsAhead.empty())
    return success();
  if (!layout.copiesRows)
    return when(less(group.value, v.index(form.rows)),
                [&] { return loadRow(iteration, {group.value, e.depth()}); });
  for (int64_t i = 0; i < rowsOnTheirWay; ++i)
    if (failed(copyRow(iteration, e.add(group, e.constant(i * layout.groups())))))
      return failure();
  return success();
}

LogicalResult CudaRowsAhead::loadNextRow(const Digit &iteration, Index row) {
  if (rowsAhead.empty())
    return success();
  if (layout.copiesRows)
    called("", "copyAsyncWait<" + Twine(rowsOnTheirWay - 1) + ">", Type(), {});
  const Position position{iteration, {form.rows, RowEvaluator::uniform(row)}};
  if (failed(overVectors(position, {}, [&](const Vector &vector, MutableArrayRef<Value>) {
        for (const RowAhead &ahead : rowsAhead) {
          if (ahead.copies) {
            storeRegister(v.load(ahead.copies, placeOf(row, vector).value, e.mask), ahead.row,
                          vector.slot);
            continue;
          }
          Value next = memref::LoadOp::create(v.b, v.loc, ahead.next, vector.slot);
          memref::StoreOp::create(v.b, v.loc, next, ahead.row, vector.slot);
        }
        return success();
      })))
    return failure();
  const int64_t distance = layout.groups() * (layout.copiesRows ? rowsOnTheirWay : 1);
  Index next = named("nextRow", [&] { return e.add(row, e.constant(distance)); });
  if (layout.copiesRows)
    return copyRow(iteration, next);
  return when(less(next.value, v.index(form.rows)),
              [&] { return loadRow(iteration, {next.value, e.depth()}); });
}

/// To the registers of the next row.
LogicalResult CudaRowsAhead::loadRow(const Digit &iteration, Index row) {
  llvm::SaveAndRestore here(e.overwrittenFrom, e.depth());
  const Position position{iteration, {form.rows, RowEvaluator::uniform(row)}};
  return LogicalResult(overVectors(position, {}, [&](const Vector &vector, MutableArrayRef<Value>) {
    Position at = position;
    at.push_back(vector.digit);
    for (const RowAhead &ahead : rowsAhead) {
      FailureOr<Computed> computed = e.evaluate(ahead.load, at);
      if (failed(computed))
        return failure();
      storeRegister(computed->value, ahead.next, vector.slot);
    }
    return success();
  }));
}

/// Each row is one group of copies, also one that does not exist.
LogicalResult CudaRowsAhead::copyRow(const Digit &iteration, Index row) {
  auto copyAll = [&] {
    const Index here{row.value, e.depth()};
    const Position position{iteration, {form.rows, RowEvaluator::uniform(here)}};
    return LogicalResult(
        overVectors(position, {}, [&](const Vector &vector, MutableArrayRef<Value>) {
          const bool isCut = e.mask != nullptr;
          e.mask = {};
          auto copy = [&] {
            Position at = position;
            at.push_back(vector.digit);
            for (const RowAhead &ahead : rowsAhead) {
              const unsigned number = cast<BlockArgument>(ahead.load).getArgNumber();
              const Index from = e.firstOf(number, at);
              const Index to = placeOf(here, vector);
              const int64_t bytes = layout.lanes * step::elementBytes(keptType(ahead.load));
              e.moveTo(e.depth());
              called("",
                     "copyAhead<" + deviceName(keptType(ahead.load)) + ", " + Twine(bytes) + ", " +
                         Twine(elementsOf(ahead.copies)) + ">",
                     Type(), {ahead.copies, to.value, frame.flat(frame.input(number)), from.value});
            }
            return success();
          };
          return isCut ? when(less(vector.digit.coordinate.at.value, v.index(form.columns)), copy)
                       : copy();
        }));
  };
  if (failed(when(less(row.value, v.index(form.rows)), copyAll)))
    return failure();
  called("", "copyAsyncCommit", Type(), {});
  return success();
}

Index CudaRowsAhead::placeOf(Index row, const Vector &vector) {
  const int64_t ofVector = layout.threads * layout.lanes;
  Index place = e.mul(e.rem(e.div(row, layout.groups()), copiedRows), layout.vectors * ofVector);
  if (layout.vectors > 1)
    place = e.add(place, e.mul({vector.slot, e.depth()}, ofVector));
  return e.add(place, e.mul({thread, 0}, layout.lanes));
}

} // namespace nano::kernels
