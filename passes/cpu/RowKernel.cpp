// Loops of row kernels; what they compute is RowPlan's decision, how a value is computed
// RowEvaluator's.
#include "passes/cpu/RowKernel.h"

#include "ir/graph/ReduceOps.h"
#include "passes/row/RowCode.h"
#include "passes/row/RowPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace nano::kernels {

/// Columns that one iteration of the Columns form sums: as many vectors as there are accumulators
/// to hide the adder's latency.
static int64_t columnStrip(const RowForm &form, int64_t lanes) {
  for (int64_t vectors : {8, 4, 2, 1})
    if (form.columns % (vectors * lanes) == 0 && (vectors < 8 || form.columns >= 64 * lanes))
      return vectors * lanes;
  return std::min<int64_t>(4, llvm::divideCeil(form.columns, lanes)) * lanes;
}

int64_t rowIterations(const RowForm &form, int64_t lanes) {
  if (form.kind == RowForm::Kind::Columns)
    return form.iterations * llvm::divideCeil(form.columns, columnStrip(form, lanes));
  return form.iterations;
}

namespace {
class RowKernel : RowCode {
public:
  RowKernel(KernelFrame &frame, const RowForm &form)
      : RowCode(frame), form(form), lanes(frame.options.lanes) {}

  LogicalResult emit() {
    frame.iterations = rowIterations(form, lanes);
    // About 10 µs: 2^15 vectors of simple instructions; no vector takes less than its bytes need.
    int64_t cost = std::max<int64_t>(16, costOfAll(yielded));
    int64_t elements = std::max<int64_t>(1, (int64_t{1} << 15) * lanes / cost);
    switch (form.kind) {
    case RowForm::Kind::Elements:
      frame.grain = elements;
      return emitElements(cost);
    case RowForm::Kind::Rows:
      frame.grain = std::max<int64_t>(1, elements / (form.rows * form.columns));
      return emitRows(cost);
    case RowForm::Kind::Columns:
      frame.grain = std::max<int64_t>(1, elements / (form.rows * columnStrip(form, lanes)));
      return emitColumns();
    }
    llvm_unreachable("a form");
  }

private:
  using Body = llvm::function_ref<LogicalResult(Value at)>;
  using RowCode::loop;

  /// for (at = from; at < to; at += step), one deeper.
  LogicalResult loop(Value from, Value to, int64_t step, Body body) {
    return failure(
        failed(RowCode::loop(from, to, step, /*unroll=*/0, /*sums=*/{},
                             [&](Index at, MutableArrayRef<Value>) { return body(at.value); })));
  }

  //===- Elements ---------------------------------------------------------===//

  /// All outputs at one position.
  LogicalResult storeAll(const Position &position) {
    SmallVector<Value> values;
    for (Value value : yielded) {
      FailureOr<Computed> computed = e.evaluate(value, position);
      if (failed(computed))
        return failure();
      values.push_back(computed->value);
    }
    for (auto [i, value] : llvm::enumerate(values))
      if (failed(store(i, value, position)))
        return failure();
    return success();
  }

  LogicalResult emitElements(int64_t cost) {
    if (form.iterations == 1)
      return loop(frame.begin, frame.end, 1, [&](Value) { return storeAll({}); });
    int64_t unroll = cost <= 16 ? 2 : 1;
    Value count = v.sub(frame.end, frame.begin);
    Value whole = v.add(frame.begin, v.mul(v.div(count, unroll * lanes), unroll * lanes));
    auto positionAt = [&](Index at) {
      return Position{{form.iterations, RowEvaluator::lanes(at, /*aligned=*/false)}};
    };
    LogicalResult result = loop(frame.begin, whole, unroll * lanes, [&](Value at) -> LogicalResult {
      for (int64_t u = 0; u < unroll; ++u)
        if (failed(storeAll(positionAt(e.add({at, e.depth()}, e.constant(u * lanes))))))
          return failure();
      return success();
    });
    if (failed(result))
      return failure();
    return loop(whole, frame.end, lanes, [&](Value at) {
      e.mask = v.maskBelow(v.sub(frame.end, at));
      LogicalResult result = storeAll(positionAt({at, e.depth()}));
      e.mask = {};
      return result;
    });
  }

  //===- Columns ----------------------------------------------------------===//

  LogicalResult emitColumns() {
    int64_t strip = columnStrip(form, lanes), strips = llvm::divideCeil(form.columns, strip),
            vectors = strip / lanes;
    bool partial = form.columns % strip != 0;
    int64_t unroll = form.rows % 4 == 0 && vectors < 4 ? 4 : 1; // rows
    return loop(frame.begin, frame.end, 1, [&](Value i) -> LogicalResult {
      Index iteration{i, e.depth()};
      Index first = e.mul(e.rem(iteration, strips), strip);
      Digit parallel{form.iterations, RowEvaluator::uniform(e.div(iteration, strips))};
      SmallVector<Digit> columns;
      SmallVector<Value> masks;
      for (int64_t u = 0; u < vectors; ++u) {
        Index at = e.add(first, e.constant(u * lanes));
        columns.push_back({form.columns, RowEvaluator::lanes(at, /*aligned=*/true)});
        masks.push_back(partial ? v.maskBelow(v.sub(v.index(form.columns), at.value)) : Value());
      }
      SmallVector<Value> sums;
      for (graph::ReduceOp reduce : form.columnReduces)
        sums.append(vectors * unroll, v.splat(identity(reduce)));
      FailureOr<SmallVector<Value>> totals =
          loop(v.index(0), v.index(form.rows), unroll, /*unroll=*/0, sums,
               [&](Index row, MutableArrayRef<Value> sums) {
                 for (int64_t j = 0; j < unroll; ++j) {
                   Digit rowDigit{form.rows, RowEvaluator::uniform(e.add(row, e.constant(j)))};
                   for (int64_t u = 0; u < vectors; ++u) {
                     e.mask = masks[u];
                     for (size_t k = 0; k < form.columnReduces.size(); ++k)
                       if (failed(addTo(sums[(k * unroll + j) * vectors + u], form.columnReduces[k],
                                        {parallel, rowDigit, columns[u]})))
                         return failure();
                   }
                 }
                 e.mask = {};
                 return success();
               });
      if (failed(totals))
        return failure();
      for (int64_t u = 0; u < vectors; ++u) {
        Position position{parallel, columns[u]};
        e.mask = masks[u];
        for (size_t k = 0; k < form.columnReduces.size(); ++k) {
          graph::ReduceOp reduce = form.columnReduces[k];
          SmallVector<Value> parts;
          for (int64_t j = 0; j < unroll; ++j)
            parts.push_back((*totals)[(k * unroll + j) * vectors + u]);
          e.define(reduce.getResult(), position,
                   v.roundTo(elementType(reduce), combineAll(isSum(reduce), parts)));
        }
        if (failed(storeAll(position)))
          return failure();
      }
      e.mask = {};
      return success();
    });
  }

  //===- Rows -------------------------------------------------------------===//

  LogicalResult emitRows(int64_t cost) {
    int64_t vectors = llvm::divideCeil(form.columns, lanes);
    straight = vectors <= 8 && vectors * cost <= 400 && form.columnReduces.empty();
    FailureOr<RowPlan> planned = RowPlan::of(frame, form, straight);
    if (failed(planned))
      return failure();
    plan = std::move(*planned);
    for (graph::ReduceOp reduce : form.columnReduces)
      columnSums[reduce] = frame.allocate(form.columns, carriedType(reduce));
    for (const RowPass &pass : plan.passes)
      for (Value value : pass.kept) {
        Type element = getElementTypeOrSelf(value.getType());
        keptMemory[value] = frame.allocate(form.columns, VectorOps::registerType(element));
      }

    return loop(frame.begin, frame.end, 1, [&](Value i) -> LogicalResult {
      Digit iteration{form.iterations, RowEvaluator::uniform({i, e.depth()})};
      if (form.columnReduces.empty())
        return emitRow({iteration});
      if (failed(overColumns([&](Digit column) -> LogicalResult {
            for (graph::ReduceOp reduce : form.columnReduces)
              v.store(v.splat(identity(reduce)), columnSums[reduce], column.coordinate.at.value,
                      e.mask);
            return success();
          })))
        return failure();
      if (failed(loop(v.index(0), v.index(form.rows), 1, [&](Value row) {
            return emitRow({iteration, {form.rows, RowEvaluator::uniform({row, e.depth()})}});
          })))
        return failure();
      for (graph::ReduceOp reduce : form.columnReduces)
        e.staged[reduce.getResult()] = {columnSums[reduce], form.columns, numberOf({iteration})};
      return overColumns(
          [&](Digit column) { return storeOutputs(plan.columnOutputs, {iteration, column}); });
    });
  }

  /// All passes over one row.
  LogicalResult emitRow(const Position &row) {
    Value rowNumber = numberOf(row);
    unsigned depth = e.depth();
    for (const RowPass &pass : plan.passes) {
      if (failed(pickAll(pass.picks, row)))
        return failure();
      if (pass.isEmpty())
        continue;
      FailureOr<SmallVector<Value>> sums = emitPass(pass, row);
      if (failed(sums))
        return failure();
      for (size_t k = 0; k < sums->size(); ++k) {
        graph::ReduceOp reduce = pass.rowReduces[k];
        e.rowScalars[reduce.getResult()] = {{v.roundTo(elementType(reduce), (*sums)[k]), depth},
                                            rowNumber};
      }
      for (Value value : pass.kept)
        e.staged[value] = {keptMemory[value], form.columns, rowNumber};
      for (unsigned i : pass.outputs)
        if (!straight)
          e.stored[yielded[i]] = i;
    }
    return storeOutputs(plan.rowOutputs, row);
  }

  Digit columnAt(Index at) const {
    if (form.columns == 1)
      return {1, RowEvaluator::uniform(at)};
    return {form.columns, RowEvaluator::lanes(at, /*aligned=*/true)};
  }

  /// Calls `body` for every vector of columns, in a loop and for the masked rest.
  LogicalResult overColumns(llvm::function_ref<LogicalResult(Digit column)> body) {
    int64_t whole = form.columns / lanes * lanes;
    if (whole > 0 && failed(loop(v.index(0), v.index(whole), lanes,
                                 [&](Value at) { return body(columnAt({at, e.depth()})); })))
      return failure();
    if (whole == form.columns)
      return success();
    e.mask = tailMask();
    LogicalResult result = body(columnAt({v.index(whole), e.depth()}));
    e.mask = {};
    return result;
  }

  Value tailMask() {
    if (form.columns == 1)
      return {};
    SmallVector<bool> bits;
    for (int64_t i = 0; i < lanes; ++i)
      bits.push_back(i < form.columns % lanes);
    if (!cachedTailMask) {
      OpBuilder atStart = OpBuilder::atBlockBegin(&frame.function.getBody().front());
      cachedTailMask = arith::ConstantOp::create(
          atStart, v.loc, DenseElementsAttr::get(v.vectorOf(v.b.getI1Type()), bits));
    }
    return cachedTailMask;
  }

  /// One vector of columns of a pass: adds to `sums` (what its row reductions carry), writes what
  /// is kept and stored.
  LogicalResult emitVector(const RowPass &pass, const Position &row, Digit column,
                           MutableArrayRef<Value> sums) {
    Position position = row;
    position.push_back(column);
    if (failed(addTo(sums, pass.rowReduces, position)))
      return failure();
    FailureOr<SmallVector<Value>> kept = e.evaluateAll(pass.kept, position);
    if (failed(kept))
      return failure();
    for (graph::ReduceOp reduce : pass.columnReduces) {
      Value at = column.coordinate.at.value, sum = v.load(columnSums[reduce], at, e.mask);
      if (failed(addTo(sum, reduce, position)))
        return failure();
      v.store(sum, columnSums[reduce], at, e.mask);
    }
    if (failed(storeOutputs(pass.outputs, position)))
      return failure();
    for (auto [value, computed] : llvm::zip(pass.kept, *kept))
      v.store(v.splat(computed), keptMemory[value], column.coordinate.at.value, e.mask);
    return success();
  }

  /// A pass over the columns; the results of its row reductions.
  FailureOr<SmallVector<Value>> emitPass(const RowPass &pass, const Position &row) {
    int64_t vectors = form.columns / lanes;
    bool hasTail = form.columns % lanes != 0;
    if (straight)
      return emitStraight(pass, row);
    // Several accumulators hide the adder's latency; code that is long in itself needs none.
    int64_t unroll = 1;
    for (int64_t candidate : {4, 2})
      if (unroll == 1 && !pass.rowReduces.empty() && vectors >= candidate &&
          candidate * pass.cost <= 48)
        unroll = candidate;
    int64_t whole = vectors / unroll * unroll;
    size_t width = 0;
    SmallVector<Value> sums = accumulators(pass, unroll, width);
    auto section = [&](int64_t from, int64_t to, int64_t step) -> LogicalResult {
      if (from == to)
        return success();
      FailureOr<SmallVector<Value>> after =
          loop(v.index(from * lanes), v.index(to * lanes), step * lanes, /*unroll=*/0, sums,
               [&](Index at, MutableArrayRef<Value> sums) {
                 for (int64_t u = 0; u < step; ++u)
                   if (failed(emitVector(pass, row, columnAt(e.add(at, e.constant(u * lanes))),
                                         sums.slice(u * width, width))))
                     return failure();
                 return success();
               });
      if (failed(after))
        return failure();
      sums = std::move(*after);
      return success();
    };
    if (failed(section(0, whole, unroll)) || failed(section(whole, vectors, 1)))
      return failure();
    if (hasTail) {
      e.mask = tailMask();
      if (failed(emitVector(pass, row, columnAt({v.index(vectors * lanes), e.depth()}),
                            MutableArrayRef(sums).take_front(width))))
        return failure();
      e.mask = {};
    }
    return totals(pass, sums);
  }

  /// A pass over a short row without a loop: what a pass computed is still in registers for the
  /// next.
  FailureOr<SmallVector<Value>> emitStraight(const RowPass &pass, const Position &row) {
    int64_t vectors = llvm::divideCeil(form.columns, lanes);
    int64_t unroll = std::min<int64_t>(vectors, 4);
    size_t width = 0;
    SmallVector<Value> sums = accumulators(pass, unroll, width);
    SmallVector<SmallVector<Value>> results(vectors);
    SmallVector<Position, 4> positions;
    auto maskOf = [&](int64_t u) { return (u + 1) * lanes > form.columns ? tailMask() : Value(); };
    for (int64_t u = 0; u < vectors; ++u) {
      Position position = row;
      position.push_back(columnAt({v.index(u * lanes), e.depth()}));
      positions.push_back(position);
      e.mask = maskOf(u);
      if (failed(addTo(MutableArrayRef(sums).slice(u % unroll * width, width), pass.rowReduces,
                       position)))
        return failure();
      FailureOr<SmallVector<Value>> values = evaluateOutputs(pass.outputs, position);
      if (failed(values))
        return failure();
      results[u] = std::move(*values);
    }
    for (int64_t u = 0; u < vectors; ++u) {
      e.mask = maskOf(u);
      for (auto [i, value] : llvm::zip(pass.outputs, results[u]))
        if (failed(store(i, value, positions[u])))
          return failure();
    }
    e.mask = {};
    return totals(pass, sums);
  }

  //===- Reductions -------------------------------------------------------===//

  /// What the pass's row reductions carry, `count` times, each of `width` numbers.
  SmallVector<Value> accumulators(const RowPass &pass, int64_t count, size_t &width) {
    SmallVector<Value> one = carried(pass.rowReduces), all;
    width = one.size();
    for (int64_t i = 0; i < count; ++i)
      all.append(one);
    return all;
  }

  SmallVector<Value> totals(const RowPass &pass, ArrayRef<Value> sums) {
    return RowCode::totals(pass.rowReduces, sums, [&](bool isSum, Value vector) {
      return isSum ? v.sumLanes(vector) : v.maxLanes(vector);
    });
  }

  const RowForm &form;
  int64_t lanes;
  RowPlan plan;
  bool straight = false;
  llvm::DenseMap<Operation *, Value> columnSums;
  llvm::DenseMap<Value, Value> keptMemory;
  Value cachedTailMask;
};
} // namespace

LogicalResult emitRowKernel(KernelFrame &frame, const RowForm &form) {
  return RowKernel(frame, form).emit();
}

} // namespace nano::kernels
