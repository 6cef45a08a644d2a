// Row kernels for blocks of GPU threads; what they compute is RowPlan's decision, how a value is
// computed RowEvaluator's, which thread has which columns CudaRowLayout's.
#include "passes/cuda/CudaRowKernel.h"
#include "ir/graph/ReduceOps.h"
#include "passes/cuda/CudaKeptRows.h"
#include "passes/cuda/CudaRowTotals.h"
#include "passes/cuda/EarlySums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Vectors of a long row whose loads come before the arithmetic of the first where that branches:
/// the compiler moves no load over a branch.
constexpr int64_t branchingTogether = 4;
/// Short rows, whose columns are added up, in flight together: the loads of all come before the
/// arithmetic of the first, and those of more rows need more registers than there are.
constexpr int64_t addedRowsUnroll = 2;

class CudaRowKernel : CudaRowTotals {
public:
  /// `tiles`: how outputs that lie transposed are gathered, null when there are none.
  CudaRowKernel(KernelFrame &frame, const RowForm &form, const CudaRowLayout &layout,
                const CudaTiles *tiles)
      : CudaRowTotals(frame, form, layout), tiles(tiles) {}

  LogicalResult emit() {
    frame.iterations = layout.iterations(form);
    frame.threads = layout.threads;
    thread = called("thread", "threadIndex", v.b.getIndexType(), {});
    switch (form.kind) {
    case RowForm::Kind::Elements:
      return emitElements();
    case RowForm::Kind::Rows:
      return emitRows();
    case RowForm::Kind::Columns:
      break;
    }
    llvm_unreachable("column reductions alone are CudaColumnKernel.cpp's");
  }

private:
  //===- Outputs -----------------------------------------------------------===//

  /// Stores by one thread what all threads of the row's group compute, after all have read what is
  /// overwritten.
  LogicalResult storeByOne(Value number, ArrayRef<unsigned> outputs, const Position &position) {
    FailureOr<SmallVector<Value>> values = evaluateOutputs(outputs, position);
    if (failed(values))
      return failure();
    if (llvm::any_of(outputs, [&](unsigned i) { return frame.updatesInPlace(i); }))
      syncGroup();
    return when(isZero(number), [&] {
      for (auto [i, value] : llvm::zip(outputs, *values))
        e.storeOutput(i, value, position);
      return success();
    });
  }

  LogicalResult storeAll(const Position &position) {
    return storeOutputs(llvm::to_vector(llvm::seq<unsigned>(yielded.size())), position);
  }

  //===- Operands that are read at every thread's own place ----------------===//

  /// Loads what `roots` are computed from before anything is computed, so that the loads are in
  /// flight together.
  LogicalResult loadAhead(ArrayRef<Value> roots, const Position &row) {
    SmallVector<Value> loads = loadsOf(roots, form.elements());
    if (loads.empty())
      return success();
    SmallVector<Value> memories;
    for (Value load : loads) {
      auto argument = dyn_cast<BlockArgument>(load);
      std::string name =
          argument ? step::nameOf(frame.task.getIns()[argument.getArgNumber()]) : "gathered";
      memories.push_back(named(name + "_held", [&] {
        return registers(keptType(load), window ? window->count : layout.vectors);
      }));
    }
    if (failed(overVectors(row, {}, [&](const Vector &vector, MutableArrayRef<Value>) {
          Position position = row;
          position.push_back(vector.digit);
          for (auto [load, memory] : llvm::zip(loads, memories)) {
            FailureOr<Computed> computed = e.evaluate(load, position);
            if (failed(computed))
              return failure();
            storeRegister(computed->value, memory, vector.slot);
          }
          return success();
        })))
      return failure();
    for (auto [load, memory] : llvm::zip(loads, memories))
      e.held[load] = memory;
    return success();
  }

  /// Loads the operands of a row that stays in registers before its first pass, those of later
  /// passes too: none of them waits for a reduction first.
  LogicalResult loadRow(const Position &row) {
    if (!layout.resident || plan.passes.empty())
      return success();
    SmallVector<Value> roots;
    for (const RowPass &pass : plan.passes)
      llvm::append_range(roots, pass.roots(yielded));
    if (layout.vectors > 1 && !layout.holdsRotated)
      return loadAhead(roots, row);
    if ((plan.passes.size() == 1 && !layout.holdsRotated) || form.columns == 1)
      return success();
    // What a mask guards is loaded anew where it is wanted, unless it is held.
    if (isPartial())
      return loadAhead(roots, row);
    if (!sharedRows.empty())
      return success();
    for (int64_t u = 0; u < layout.vectors; ++u) {
      Position position = row;
      position.push_back(
          {form.columns, RowEvaluator::lanes(columnOf(e.constant(u)), /*aligned=*/true)});
      llvm::DenseSet<Value> seen;
      for (Value root : roots)
        if (failed(e.loadOperands(root, position, seen)))
          return failure();
    }
    return success();
  }

  //===- Elements ----------------------------------------------------------===//

  LogicalResult emitElements() {
    if (form.iterations == 1) {
      frame.blockIterations = 1;
      // All loads first: compilers move none over the branches that roots and quotients have.
      llvm::DenseSet<Value> seen;
      for (Value value : yielded)
        if (failed(e.loadOperands(value, {}, seen)))
          return failure();
      return storeByOne(thread, llvm::to_vector(llvm::seq<unsigned>(yielded.size())), {});
    }
    int64_t step = layout.threads * layout.lanes, all = step * layout.vectors;
    frame.blockIterations = all;
    Value count = v.sub(frame.end, frame.begin);
    Value whole = named("whole", [&]() -> Value {
      return arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::eq, count, v.index(all));
    });
    elementsBase =
        named("base", [&] { return e.add({frame.begin, 0}, e.mul({thread, 0}, layout.lanes)); });
    auto body = [&](bool masked) {
      e.held.clear();
      elementsMasked = masked;
      // A thread's only vector is not read before it is known to be there.
      if (layout.vectors == 1)
        elementsBase.depth = e.depth();
      if (layout.vectors > 1 && failed(loadAhead(SmallVector<Value>(yielded), {})))
        return failure();
      return LogicalResult(overVectors({}, {}, [&](const Vector &vector, MutableArrayRef<Value>) {
        return storeAll({vector.digit});
      }));
    };
    return when(whole, [&] { return body(false); }, [&] { return body(true); });
  }

  //===- Rows --------------------------------------------------------------===//

  LogicalResult emitRows() {
    FailureOr<RowPlan> planned = RowPlan::of(frame, form, /*straight=*/false);
    if (failed(planned))
      return failure();
    plan = std::move(*planned);
    const bool keepsNothing =
        llvm::all_of(plan.passes, [](const RowPass &pass) { return pass.kept.empty(); });
    const bool storesNothing =
        llvm::all_of(plan.passes, [](const RowPass &pass) { return pass.outputs.empty(); });
    keepStored(plan, form, layout, yielded);
    keepOperandsOfLongRow(plan, form, layout, yielded);
    int64_t bytes = keptLongRowBytes(plan, form, layout);
    // What is worth keeping, or all that there is, are exponentials and the like.
    frame.sharesExponentials = !layout.resident && (keepsNothing ? storesNothing : bytes > 0);
    frame.residentBlocks = layout.heldBlocks(frame.task, form);
    if (bytes) {
      frame.residentBlocks = bytes <= halfKeptBytes ? 2 : 1;
      layout.keepLongRow(form, frame.residentBlocks);
      frame.threads = layout.threads;
    }
    for (auto [i, operand] : llvm::enumerate(frame.launchOperands()))
      if (int64_t picks = picksFrom(frame.task, operand)) {
        const kernel::ParameterAttr known = frame.function.getParameter(i);
        frame.function.setParameter(
            i, kernel::ParameterAttr::get(known.getContext(), known.getAccess(), known.getName(),
                                          known.getAlignment(), known.getConstant(),
                                          picks * form.rows));
      }
    int64_t groups = layout.groups();
    Index group = named("group", [&] { return e.div({thread, 0}, layout.group); });
    lane = named("lane", [&] { return e.rem({thread, 0}, layout.group); });
    if (layout.group == layout.threads) {
      group = e.constant(0);
      lane = {thread, 0};
    }
    if (layout.holdsRotated) {
      e.ring.apart = layout.group * layout.lanes;
      for (int64_t u = 0; u < layout.vectors; ++u)
        e.ring.columns.push_back(columnOf(e.constant(u)));
    }
    openTotals(plan, group);
    if (failed(placeKept(group)))
      return failure();

    if (!form.columnReduces.empty())
      return emitRowsAndColumns(group);
    if (tiles)
      return emitGathered(group);
    frame.blockIterations = groups * layout.turns * layout.together;
    if (layout.together > 1)
      return emitTogether(group);
    Index row = named("row", [&] { return e.add({frame.begin, 0}, group); });
    if (layout.turns > 1)
      return LogicalResult(
          loop(row.value, frame.end, groups, 0, {}, [&](Index each, MutableArrayRef<Value>) {
            return emitRowHere({{form.iterations, RowEvaluator::uniform(each)}});
          }));
    if (groups == 1)
      return emitRow({{form.iterations, RowEvaluator::uniform(row)}});
    Value isInside = named("isInside", [&] { return less(row.value, frame.end); });
    return when(isInside, [&] {
      return emitRowHere({{form.iterations, RowEvaluator::uniform({row.value, e.depth()})}});
    });
  }

  /// A group takes neighbouring rows one after the other. What these share is read before the loop.
  LogicalResult emitTogether(Index group) {
    const int64_t count = layout.together;
    Index rows = named("rows", [&] { return e.add(e.div({frame.begin, 0}, count), group); });
    Value isInside = less(e.mul(rows, count).value, frame.end);
    return when(isInside, [&] {
      rows.depth = e.depth();
      return LogicalResult(
          loop(v.index(0), v.index(count), 1, 0, {}, [&](Index each, MutableArrayRef<Value>) {
            return emitRowHere({{form.iterations / count, RowEvaluator::uniform(rows)},
                                {count, RowEvaluator::uniform(each)}});
          }));
    });
  }

  /// A block's groups take its rows in turn and gather what lies transposed; then all threads write
  /// it.
  LogicalResult emitGathered(Index group) {
    frame.blockIterations = tiles->rows;
    openTiles(*tiles);
    bool allInside = tiles->isWhole && layout.groups() <= tiles->rows;
    FailureOr<SmallVector<Value>> rows =
        loop(v.index(0), v.index(tiles->rows), layout.groups(), 0, {},
             [&](Index turn, MutableArrayRef<Value>) {
               tileRow = e.add(turn, group);
               Index row = named("row", [&] { return e.add({frame.begin, 0}, tileRow); });
               auto one = [&](Index row) {
                 return emitRowHere({{form.iterations, RowEvaluator::uniform(row)}});
               };
               if (allInside)
                 return one(row);
               Value isInside = named("isInside", [&] { return less(row.value, frame.end); });
               return when(isInside, [&] {
                 tileRow.depth = e.depth();
                 return one({row.value, e.depth()});
               });
             });
    if (failed(rows))
      return failure();
    Value inside = tiles->isWhole ? v.index(tiles->rows) : v.sub(frame.end, frame.begin);
    storeTiles(*tiles, {frame.begin, 0}, e.constant(0), inside, v.index(form.columns),
               e.constant(0));
    return success();
  }

  /// An iteration is a block: its groups take the rows in turn and add up columns in registers;
  /// then the groups' sums are added in order.
  LogicalResult emitRowsAndColumns(Index group) {
    frame.blockIterations = 1;
    int64_t groups = layout.groups();
    Digit iteration{form.iterations, RowEvaluator::uniform({frame.begin, 0})};
    for (graph::ReduceOp reduce : form.columnReduces) {
      Value memory = named("sums", [&] { return registers(carriedType(reduce), layout.vectors); });
      columnSums[reduce] = memory;
      FailureOr<SmallVector<Value>> done =
          loop(v.index(0), v.index(layout.vectors), 1, layout.vectors, {},
               [&](Index u, MutableArrayRef<Value>) {
                 storeRegister(v.splat(identity(reduce)), memory, u.value);
                 return success();
               });
      if (failed(done))
        return failure();
    }
    SmallVector<Value> roots;
    if (!form.rowReduces.empty())
      for (const RowPass &pass : plan.passes)
        llvm::append_range(roots, pass.roots(yielded));
    if (failed(loadFirstRows(roots, iteration, group)))
      return failure();
    FailureOr<SmallVector<Value>> rows =
        loop(group.value, v.index(form.rows), groups,
             layout.vectors == 1 && form.rowReduces.empty() ? addedRowsUnroll : 0, {},
             [&](Index row, MutableArrayRef<Value>) {
               turn = e.div(row, groups);
               rowOfBlock = row;
               if (failed(loadNextRow(iteration, row)))
                 return failure();
               return emitRowHere({iteration, {form.rows, RowEvaluator::uniform(row)}});
             });
    if (failed(rows))
      return failure();
    rowsAhead.clear();

    // Every group's sums lie in shared memory, then all threads share the columns.
    int64_t padded = layout.group * layout.vectors * layout.lanes;
    llvm::DenseMap<Operation *, Value> shared;
    for (graph::ReduceOp reduce : form.columnReduces) {
      Value memory = frame.allocate(groups * padded, carriedType(reduce));
      shared[reduce] = memory;
      FailureOr<SmallVector<Value>> done =
          loop(v.index(0), v.index(layout.vectors), 1, layout.vectors, {},
               [&](Index u, MutableArrayRef<Value>) {
                 Value sum = memref::LoadOp::create(v.b, v.loc, columnSums[reduce], u.value);
                 Index at = e.add(e.mul(group, padded), columnOf(u));
                 v.store(sum, memory, at.value);
                 return success();
               });
      if (failed(done))
        return failure();
    }
    called("", "syncBlock", Type(), {});
    e.held.clear();
    e.own = {};
    if (failed(storeLate(iteration)))
      return failure();
    FailureOr<SmallVector<Value>> stored = loop(
        e.mul({thread, 0}, layout.lanes).value, v.index(form.columns),
        layout.threads * layout.lanes, 0, {},
        [&](Index at, MutableArrayRef<Value>) -> LogicalResult {
          if (form.columns % layout.lanes != 0)
            e.mask = v.maskBelow(v.sub(v.index(form.columns), at.value));
          Position position{iteration, {form.columns, RowEvaluator::lanes(at, /*aligned=*/true)}};
          for (graph::ReduceOp reduce : form.columnReduces) {
            Value sum = v.load(shared[reduce], at.value);
            for (int64_t g = 1; g < groups; ++g)
              sum = combine(isSum(reduce), sum,
                            v.load(shared[reduce], e.add(at, e.constant(g * padded)).value));
            e.define(reduce.getResult(), position, v.roundTo(elementType(reduce), sum));
          }
          LogicalResult result = storeOutputs(plan.columnOutputs, position);
          e.mask = {};
          return result;
        });
    return failure(failed(stored));
  }

  /// Values that a later pass reads at other columns lie in shared memory, one row a group. Other
  /// kept values stay in registers; of rows that are too long for these they lie in shared memory
  /// too where they fit, else they are computed again.
  LogicalResult placeKept(Index group) {
    const bool keepsLong = keptLongRowBytes(plan, form, layout) > 0;
    int64_t bytes = 0;
    bool tooWide = false;
    for (RowPass &pass : plan.passes)
      llvm::erase_if(pass.kept, [&](Value value) {
        // All that a thread reads is in its registers before it writes.
        if (layout.holdsRotated)
          return true;
        if (!isMoved(value) && !keepsLong)
          return !layout.resident;
        Type element = keptType(value);
        int64_t size = keptRowBytes(value, form) * layout.groups();
        if (bytes + size > maxKeptBytes) {
          tooWide |= updatesInPlace(); // else it is computed again
          return true;
        }
        bytes += size;
        Value memory = named(layout.groups() > 1 ? "keptRows" : "kept", [&] {
          return frame.allocate(form.columns * layout.groups(), element);
        });
        if (layout.groups() > 1) {
          auto type =
              MemRefType::get({form.columns}, element,
                              StridedLayoutAttr::get(v.b.getContext(), ShapedType::kDynamic, {1}),
                              cast<MemRefType>(memory.getType()).getMemorySpace());
          Value offset = e.mul(group, form.columns).value;
          memory = named("kept", [&]() -> Value {
            return memref::ReinterpretCastOp::create(
                v.b, v.loc, type, memory, OpFoldResult(offset),
                ArrayRef<OpFoldResult>{v.b.getIndexAttr(form.columns)},
                ArrayRef<OpFoldResult>{v.b.getIndexAttr(1)});
          });
        }
        sharedRows[value] = memory;
        return false;
      });
    if (tooWide)
      return frame.task.emitOpError("updates rows of ")
             << form.columns
             << " elements in place and reads them rotated; they do not fit in a "
                "block's shared memory";
    return success();
  }

  /// Likewise of a pass that branches, over all vectors: some vectors' loads, then what becomes of
  /// them.
  FailureOr<SmallVector<Value>> overBranchingVectors(const RowPass &pass, const Position &row,
                                                     ArrayRef<Value> sums, VectorBody body) {
    const int64_t whole = layout.vectors - isPartial();
    const int64_t end = whole / branchingTogether * branchingTogether;
    auto some = [&](Index first, MutableArrayRef<Value> sums) -> LogicalResult {
      window = {first, branchingTogether};
      FailureOr<SmallVector<Value>> after = failure();
      if (succeeded(loadAhead(pass.roots(yielded), row)))
        after = overVectors(row, sums, body);
      window.reset();
      e.held.clear();
      if (succeeded(after))
        llvm::copy(*after, sums.begin());
      return success(succeeded(after));
    };
    isWhole = true;
    FailureOr<SmallVector<Value>> most =
        loop(v.index(0), v.index(end), branchingTogether, 0, sums, some);
    isWhole = false;
    if (failed(most) || end == layout.vectors)
      return most;
    return overVectors(row, *most, body, end);
  }

  /// True for a pass over a long row of which one column is computed otherwise.
  bool branches(const RowPass &pass) const {
    return !layout.resident && sharedRows.empty() && form.columnReduces.empty() && !tiles &&
           layout.vectors > branchingTogether && llvm::any_of(pass.outputs, [&](unsigned i) {
             return columnChoice(yielded[i], form.columns);
           });
  }

  /// As emitRow, where only threads that have the row get to. The places of an only row do not
  /// depend on its number: what is overwritten there must not be read further out.
  LogicalResult emitRowHere(const Position &row) {
    llvm::SaveAndRestore here(e.overwrittenFrom, e.depth());
    return emitRow(row);
  }

  /// All passes over one row.
  LogicalResult emitRow(const Position &row) {
    Value rowNumber = numberOf(row);
    unsigned depth = e.depth();
    bool inLoop = layout.vectors > 1 && !layout.holdsRotated;
    e.held.clear();
    for (const RowAhead &ahead : rowsAhead)
      e.held[ahead.load] = ahead.row;
    if (rowsAhead.empty() && failed(loadRow(row)))
      return failure();
    for (const RowPass &pass : plan.passes) {
      // What only one column has is read before it may be overwritten, else when the pass is over:
      // the pass does not wait for it.
      bool isOverwritten = updatesInPlace() && &pass == &plan.passes.back();
      bool isPicked = pass.picks.empty() || isOverwritten || pass.isEmpty();
      if (failed(isPicked ? pick(pass, row) : loadTargets(pass.picks, row)))
        return failure();
      if (pass.isEmpty())
        continue;
      llvm::DenseMap<Value, Value> keptHere;
      if (inLoop)
        for (Value value : pass.kept)
          if (!sharedRows.contains(value))
            keptHere[value] =
                named("kept", [&] { return registers(keptType(value), layout.vectors); });

      SmallVector<Value> sums = carried(pass.rowReduces, /*wide=*/form.columns > 1);
      auto emit = [&](const Vector &vector, MutableArrayRef<Value> sums) {
        return emitVector(pass, row, vector, keptHere, sums);
      };
      FailureOr<SmallVector<Value>> after = branches(pass)
                                                ? overBranchingVectors(pass, row, sums, emit)
                                                : overVectors(row, sums, emit);
      if (failed(after))
        return failure();
      bool stages =
          llvm::any_of(pass.kept, [&](Value value) { return sharedRows.contains(value); });
      if (!isPicked && !stages && failed(pick(pass, row)))
        return failure();
      if (isLate(pass)) {
        if (failed(leave(pass, *after)))
          return failure();
        continue;
      }
      SmallVector<Value> results = totalsOf(pass, *after);
      for (size_t k = 0; k < results.size(); ++k) {
        graph::ReduceOp reduce = pass.rowReduces[k];
        e.rowScalars[reduce.getResult()] = {{v.roundTo(elementType(reduce), results[k]), depth},
                                            rowNumber};
      }
      for (auto [value, memory] : keptHere)
        e.held[value] = memory;
      if (!stages)
        continue;
      for (Value value : pass.kept)
        if (Value shared = sharedRows.lookup(value))
          e.staged[value] = {shared, form.columns, rowNumber};
      syncGroup();
      if (!isPicked && failed(pick(pass, row)))
        return failure();
    }
    // The next row's values are kept in the same place.
    if (tiles && !sharedRows.empty())
      syncGroup();
    return storeRowOutputs(row);
  }

  LogicalResult pick(const RowPass &pass, const Position &row) {
    if (failed(pickAll(pass.picks, row)))
      return failure();
    // What was picked is overwritten by another thread.
    if (!pass.picks.empty() && updatesInPlace())
      syncGroup();
    return success();
  }

  /// One number a row, stored by the group's first thread.
  LogicalResult storeRowOutputs(const Position &row) {
    if (plan.rowOutputs.empty())
      return success();
    if (layout.group == 1)
      return storeOutputs(plan.rowOutputs, row);
    return storeByOne(lane.value, plan.rowOutputs, row);
  }

  /// One vector of columns of a pass.
  LogicalResult emitVector(const RowPass &pass, const Position &row, const Vector &vector,
                           const llvm::DenseMap<Value, Value> &keptHere,
                           MutableArrayRef<Value> sums) {
    Position position = row;
    position.push_back(vector.digit);
    if (failed(addTo(sums, pass.rowReduces, position)))
      return failure();
    FailureOr<SmallVector<Value>> kept = e.evaluateAll(pass.kept, position);
    if (failed(kept))
      return failure();
    for (graph::ReduceOp reduce : pass.columnReduces) {
      Value memory = columnSums[reduce];
      Value sum = memref::LoadOp::create(v.b, v.loc, memory, vector.slot);
      if (failed(addTo(sum, reduce, position)))
        return failure();
      storeRegister(sum, memory, vector.slot);
    }
    if (tiles)
      placeInTiles(*tiles, tileRow, vector.digit.coordinate.at, e.constant(0));
    if (failed(storeOutputs(pass.outputs, position)))
      return failure();
    for (auto [value, computed] : llvm::zip(pass.kept, *kept)) {
      if (Value shared = sharedRows.lookup(value))
        v.store(v.splat(computed), shared, vector.digit.coordinate.at.value, e.mask);
      else if (Value memory = keptHere.lookup(value))
        storeRegister(computed, memory, vector.slot);
    }
    return success();
  }

  const CudaTiles *tiles;
  RowPlan plan;
  Index tileRow; ///< of the present row, counted from the first that the block gathers
  llvm::DenseMap<Operation *, Value> columnSums;
};
} // namespace

LogicalResult emitCudaRowKernel(KernelFrame &frame, const RowForm &form) {
  CudaRowLayout layout = CudaRowLayout::of(frame.task, form);
  std::optional<CudaTiles> tiles = CudaTiles::of(frame.task, form);
  frame.options.lanes = layout.lanes;
  LogicalResult emitted = success();
  if (layout.walksColumns && !tiles) {
    emitted = emitCudaColumnKernel(frame, form, layout);
  } else if (tiles && tiles->kind != CudaTiles::Kind::Rows) {
    emitted = emitCudaTileKernel(frame, form, *tiles);
  } else {
    if (tiles)
      tiles->widenBlock(layout, frame.task, form);
    else
      layout.takeTurns(frame.task, form, frame.options.multiprocessors);
    layout.takeTogether(frame.task, form, frame.options.multiprocessors);
    FailureOr<RowForm> changed = form;
    if (layout.isTeam() && sumEarly(form))
      changed = RowForm::of(frame.task);
    if (failed(changed))
      return failure();
    emitted = CudaRowKernel(frame, *changed, layout, tiles ? &*tiles : nullptr).emit();
  }
  if (failed(emitted))
    return failure();
  // What was evaluated under two masks, or widened without being used.
  IRRewriter rewriter(frame.builder.getContext());
  DominanceInfo dominance(frame.function);
  eliminateCommonSubExpressions(rewriter, dominance, frame.function);
  frame.function.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
  return success();
}

} // namespace nano::kernels
