// Kernels for blocks of GPU threads that compute tiles of rows and columns, so that outputs that
// lie transposed are written in whole pieces, beside those that do not.
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/cuda/CudaRowKernel.h"
#include "passes/cuda/CudaThreadCode.h"
#include "passes/cuda/FactorSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Chains of additions over the groups' sums of a column.
constexpr int64_t sumsAtOnce = 4;

class CudaTileKernel : CudaThreadCode {
public:
  CudaTileKernel(KernelFrame &frame, const RowForm &form, const CudaTiles &tiles)
      : CudaThreadCode(frame), form(form), tiles(tiles) {
    for (auto [i, value] : llvm::enumerate(yielded))
      (elementsOf(value) == form.elements() ? tileOutputs
       : isAfterColumnReduce(value, form)   ? columnOutputs
                                            : rowOutputs)
          .push_back(i);
    for (BlockArgument argument : frame.task.getBody().front().getArguments())
      if (elementsOf(argument) == allRows() && elementsOf(argument) > 1 && isOfRows(argument))
        rowOperands.push_back(argument);
      else if (tiles.kind == CudaTiles::Kind::Strip && tiles.blocks <= 1 &&
               elementsOf(argument) == form.columns && isOfColumns(argument))
        columnOperands.push_back(argument);
  }

  LogicalResult emit() {
    frame.iterations = tiles.iterations(form);
    frame.threads = tiles.threads;
    thread = {called("thread", "threadIndex", v.b.getIndexType(), {}), 0};
    group = named("group", [&] { return e.div(thread, tiles.group()); });
    lane = named("lane", [&] { return e.rem(thread, tiles.group()); });
    openTiles(tiles);
    if (failed(tiles.kind == CudaTiles::Kind::Tile ? emitOne() : emitStrip()))
      return failure();
    v.b.getBlock()->getParentOp()->walk([](Block *block) { shortenSums(*block); });
    return success();
  }

private:
  /// True when the value, one number a row of the iteration space, is the same in all columns
  /// wherever it is used; known from the ops alone, not from sizes.
  static bool isOfRows(Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (isa<graph::YieldOp>(user))
        return true;
      if (auto broadcast = dyn_cast<graph::BroadcastOp>(user)) {
        int64_t last = broadcast.getType().getRank() - 1;
        ArrayRef<int64_t> sizes = cast<ShapedType>(value.getType()).getShape();
        for (auto [dim, size] : llvm::zip(broadcast.getDims(), sizes))
          if (dim == last && size != 1)
            return false;
        return true;
      }
      return !isa<graph::ReduceOp, graph::GatherOp, graph::RotateOp, graph::PermuteOp>(user) &&
             user->getNumResults() == 1 && elementsOf(user->getResult(0)) == elementsOf(value) &&
             isOfRows(user->getResult(0));
    });
  }

  /// True when the value, one number a column, is the same in all rows wherever it is used.
  bool isOfColumns(Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      auto broadcast = dyn_cast<graph::BroadcastOp>(user);
      return broadcast && elementsOf(broadcast.getResult()) == form.elements() &&
             broadcast.getDims() == ArrayRef(broadcast.getType().getRank() - 1);
    });
  }

  int64_t groups() const { return tiles.groups(); }
  int64_t turns() const { return tiles.rows / groups(); }
  int64_t allRows() const { return form.iterations * form.rows; }
  Digit rowDigit(Index row) const { return {allRows(), RowEvaluator::uniform(row)}; }

  /// An iteration is a tile.
  LogicalResult emitOne() {
    frame.blockIterations = 1;
    int64_t across = llvm::divideCeil(form.columns, tiles.columns);
    Index tile{frame.begin, 0};
    firstRow = named("firstRow", [&] { return e.mul(e.div(tile, across), tiles.rows); });
    Index firstColumn =
        named("firstColumn", [&] { return e.mul(e.rem(tile, across), tiles.columns); });
    if (!tiles.isWhole)
      lastRow = v.index(form.iterations);
    return emitTile(firstColumn);
  }

  /// An iteration is a row, or where columns are summed as many as a sum has.
  LogicalResult emitStrip() {
    if (form.columnReduces.empty()) {
      frame.blockIterations = tiles.rows;
      firstRow = {frame.begin, 0};
      lastRow = frame.end;
      return emitStripRows();
    }
    frame.blockIterations = 1;
    frame.residentBlocks = tiles.blocks;
    openColumnSums();
    if (failed(clearColumnSums()))
      return failure();
    Index first = named("firstRow", [&] { return e.mul({frame.begin, 0}, form.rows); });
    lastRow = named("lastRow", [&] { return e.add(first, e.constant(form.rows)).value; });
    if (form.rows <= tiles.rows) {
      firstRow = first;
      if (failed(emitStripRows()))
        return failure();
    } else {
      FailureOr<SmallVector<Value>> walked = loop(
          v.index(0), v.index(form.rows), tiles.rows, 0, {}, [&](Index at, MutableArrayRef<Value>) {
            firstRow = named("stripRow", [&] { return e.add(first, at); });
            return emitStripRows();
          });
      if (failed(walked))
        return failure();
    }
    return storeColumns();
  }

  /// The block walks over the columns of `tiles.rows` rows, then stores what is one number a row.
  LogicalResult emitStripRows() {
    partials.clear();
    for (graph::ReduceOp reduce : form.rowReduces) {
      Value memory = named("partials", [&] { return numbers(turns(), carriedType(reduce)); });
      partials.push_back(memory);
      if (failed(overTurns(e.constant(0), turns(), [&](Index turn, Index) {
            memref::StoreOp::create(v.b, v.loc, identity(reduce), memory, turn.value);
            return success();
          })))
        return failure();
    }
    openHeld();
    if (failed(loadRowNumbers(e.constant(0))) || failed(loadTile(placeIn(e.constant(0)))))
      return failure();
    FailureOr<SmallVector<Value>> walked =
        loop(v.index(0), v.index(form.columns), tiles.columns, 0, {},
             [&](Index firstColumn, MutableArrayRef<Value>) { return emitStripTile(firstColumn); });
    if (failed(walked))
      return failure();
    // Of two buffers the last may be the next strip's first, and sums are read by all threads.
    if (tiles.buffers > 1 && !columnSums.empty())
      called("", "syncBlock", Type(), {});
    return overTurns(e.constant(0), turns(), [&](Index turn, Index) {
      return inRow(rowOf(turn), [&](Index row) { return storeRow(turn, row); });
    });
  }

  /// The numbers of one row, by one of its threads.
  LogicalResult storeRow(Index turn, Index row) {
    Position position{rowDigit(row)};
    for (auto [reduce, memory] : llvm::zip(form.rowReduces, partials)) {
      graph::ReduceOp op = reduce;
      Value sum = memref::LoadOp::create(v.b, v.loc, memory, turn.value);
      StringRef name = isSum(op) ? "sum" : "largest";
      if (tiles.group() > 1)
        sum = called(name, exchange("group", isSum(op), tiles.group(), sum.getType()),
                     sum.getType(), sum);
      e.rowScalars[op.getResult()] = {{v.roundTo(elementType(op), sum), e.depth()},
                                      numberOf(position)};
    }
    FailureOr<SmallVector<Value>> values = evaluateOutputs(rowOutputs, position);
    if (failed(values))
      return failure();
    e.moveTo(e.depth());
    LogicalResult stored = when(isZero(lane.value), [&] {
      for (auto [i, value] : llvm::zip(rowOutputs, *values))
        e.storeOutput(i, value, position);
      return success();
    });
    e.rowScalars.clear();
    return stored;
  }

  /// Where this thread's elements of a tile begin: counted from the tile's first column, and in the
  /// row; and which of them exist, null for all.
  struct Place {
    Index local, column;
    Value mask;
  };
  Place placeIn(Index firstColumn) {
    Place place;
    place.local = e.mul(lane, tiles.lanes);
    place.column = named("column", [&] { return e.add(firstColumn, place.local); });
    if (form.columns % tiles.columns != 0)
      place.mask = named(
          "inside", [&] { return v.maskBelow(v.sub(v.index(form.columns), place.column.value)); });
    return place;
  }

  /// Computes the tile of the block's rows at these columns, and writes it.
  LogicalResult emitTile(Index firstColumn) {
    Place place = placeIn(firstColumn);
    auto chunk = [&](Index firstTurn) {
      openHeld();
      if (failed(loadRowNumbers(firstTurn)) || failed(loadElements(firstTurn, place)))
        return failure();
      return compute(firstTurn, place);
    };
    if (tiles.ahead == turns()) {
      if (failed(chunk(e.constant(0))))
        return failure();
    } else {
      FailureOr<SmallVector<Value>> done =
          loop(v.index(0), v.index(turns()), tiles.ahead, 0, {},
               [&](Index turn, MutableArrayRef<Value>) { return chunk(turn); });
      if (failed(done))
        return failure();
    }
    storeTile(firstColumn);
    return success();
  }

  /// A strip's tile, whose operands have been read. The next one's are on their way while it is
  /// written.
  LogicalResult emitStripTile(Index firstColumn) {
    if (tiles.buffers > 1)
      buffer = named("buffer", [&] { return e.rem(e.div(firstColumn, tiles.columns), 2); });
    for (ColumnSum &sum : columnSums)
      storeRegister(v.splat(identity(sum.reduce)), sum.ofThread, v.index(0));
    const Place place = placeIn(firstColumn);
    takeColumns(place);
    if (failed(compute(e.constant(0), place)))
      return failure();
    for (const ColumnSum &sum : columnSums) {
      Index at = inTileSums(e.add(e.mul(group, tiles.columns), e.mul(lane, tiles.lanes)));
      e.moveTo(e.depth());
      v.store(memref::LoadOp::create(v.b, v.loc, sum.ofThread, v.index(0)), sum.ofTile, at.value);
    }
    if (form.columns > tiles.columns) {
      Index next = named("next", [&] { return e.add(firstColumn, e.constant(tiles.columns)); });
      e.moveTo(e.depth());
      if (failed(when(less(next.value, v.index(form.columns)),
                      [&] { return loadTile(placeIn({next.value, e.depth()})); })))
        return failure();
    }
    storeTile(firstColumn);
    if (failed(addTile(firstColumn)))
      return failure();
    if (tiles.buffers == 1)
      called("", "syncBlock", Type(), {});
    return success();
  }

  //===- Sums of columns ---------------------------------------------------===//

  /// A sum or maximum of columns while it is made: of a thread's rows of a tile, in registers; of
  /// each group's; and of all rows of the block so far.
  struct ColumnSum {
    graph::ReduceOp reduce;
    Value ofThread, ofTile, ofBlock;
  };

  void openColumnSums() {
    for (graph::ReduceOp reduce : form.columnReduces) {
      ColumnSum sum;
      sum.reduce = reduce;
      sum.ofThread = named("sums", [&] { return registers(carriedType(reduce), 1); });
      sum.ofTile = named("tileSums", [&] {
        return frame.allocate(tiles.buffers * groups() * tiles.columns, carriedType(reduce));
      });
      sum.ofBlock = named("columnSums", [&] {
        return frame.allocate(llvm::alignTo(form.columns, tiles.columns), carriedType(reduce));
      });
      columnSums.push_back(sum);
    }
  }

  /// A place among a tile's sums, in the present buffer.
  Index inTileSums(Index at) {
    return tiles.buffers > 1 ? e.add(e.mul(buffer, groups() * tiles.columns), at) : at;
  }

  /// So many columns, shared out among the threads from `first` on.
  LogicalResult overColumns(int64_t count, int64_t first,
                            llvm::function_ref<LogicalResult(Index at)> body) {
    Index own = thread;
    if (first != 0)
      own = named("worker", [&] {
        return e.rem(e.add(thread, e.constant(tiles.threads - first)), tiles.threads);
      });
    return LogicalResult(loop(own.value, v.index(count), tiles.threads, 0, {},
                              [&](Index at, MutableArrayRef<Value>) { return body(at); }));
  }

  /// No sum has a row yet. What is written here is read behind a barrier.
  LogicalResult clearColumnSums() {
    return overColumns(llvm::alignTo(form.columns, tiles.columns), 0, [&](Index at) {
      for (const ColumnSum &sum : columnSums)
        v.store(identity(sum.reduce), sum.ofBlock, at.value);
      return success();
    });
  }

  /// Adds the groups' sums of the tile's columns, in order, to those of the rows before; behind a
  /// barrier.
  LogicalResult addTile(Index firstColumn) {
    for (auto [i, sum] : llvm::enumerate(columnSums))
      if (failed(addTileOf(sum, tiles.firstThread(int64_t(tiles.outputs.size() + i)), firstColumn)))
        return failure();
    return success();
  }

  LogicalResult addTileOf(const ColumnSum &sum, int64_t first, Index firstColumn) {
    return overColumns(tiles.columns, first, [&](Index at) -> LogicalResult {
      Index column = e.add(firstColumn, at);
      e.moveTo(e.depth());
      // Several sums at a time: each waits for its last addition.
      const int64_t chains = groups() % sumsAtOnce == 0 ? sumsAtOnce : 1;
      SmallVector<Value> parts{v.loadScalar(sum.ofBlock, column.value)};
      for (int64_t i = 1; i < chains; ++i)
        parts.push_back(identity(sum.reduce));
      FailureOr<SmallVector<Value>> all =
          loop(v.index(0), v.index(groups()), chains, groups() / chains, parts,
               [&](Index each, MutableArrayRef<Value> parts) {
                 for (auto [i, part] : llvm::enumerate(parts)) {
                   Index place = inTileSums(
                       e.add(e.mul(e.add(each, e.constant(int64_t(i))), tiles.columns), at));
                   e.moveTo(e.depth());
                   part = combine(isSum(sum.reduce), part, v.loadScalar(sum.ofTile, place.value));
                 }
                 return success();
               });
      if (failed(all))
        return failure();
      v.store(combineAll(isSum(sum.reduce), *all), sum.ofBlock, column.value);
      return success();
    });
  }

  /// What the sums come to, behind a barrier.
  LogicalResult storeColumns() {
    e.held.clear();
    const Digit iteration{form.iterations, RowEvaluator::uniform({frame.begin, 0})};
    FailureOr<SmallVector<Value>> stored = loop(
        e.mul(thread, tiles.lanes).value, v.index(form.columns), tiles.threads * tiles.lanes, 0, {},
        [&](Index at, MutableArrayRef<Value>) -> LogicalResult {
          if (form.columns % tiles.lanes != 0)
            e.mask = v.maskBelow(v.sub(v.index(form.columns), at.value));
          Position position{iteration, {form.columns, RowEvaluator::lanes(at, /*aligned=*/true)}};
          for (const ColumnSum &sum : columnSums) {
            graph::ReduceOp reduce = sum.reduce;
            e.define(reduce.getResult(), position,
                     v.roundTo(elementType(reduce), v.load(sum.ofBlock, at.value)));
          }
          LogicalResult result = storeOutputs(columnOutputs, position);
          e.mask = {};
          return result;
        });
    return failure(failed(stored));
  }

  void storeTile(Index firstColumn) {
    bool isWide = form.columns % tiles.columns == 0;
    Value columns =
        isWide ? v.index(tiles.columns) : v.sub(v.index(form.columns), firstColumn.value);
    Value rows = tiles.isWhole ? v.index(tiles.rows) : v.sub(lastRow, firstRow.value);
    storeTiles(tiles, firstRow, firstColumn, rows, columns, buffer);
  }

  //===- Operands in registers ---------------------------------------------===//

  /// Registers for the operands of `ahead` rows of this thread.
  void openHeld() {
    e.held.clear();
    SmallVector<Value> roots;
    for (unsigned i : tileOutputs)
      roots.push_back(yielded[i]);
    for (auto reduces : {ArrayRef(form.rowReduces), ArrayRef(form.columnReduces)})
      for (graph::ReduceOp reduce : reduces)
        roots.push_back(reduce.getX());
    loads = loadsOf(roots, form.elements());
    memories.clear();
    rowMemories.clear();
    auto nameOf = [&](Value load) {
      auto argument = dyn_cast<BlockArgument>(load);
      return argument ? step::nameOf(frame.task.getIns()[argument.getArgNumber()]) : "gathered";
    };
    for (Value load : loads)
      memories.push_back(
          named(nameOf(load) + "_held", [&] { return registers(keptType(load), tiles.ahead); }));
    for (Value operand : rowOperands)
      rowMemories.push_back(named(nameOf(operand) + "_held",
                                  [&] { return numbers(tiles.ahead, computedType(operand)); }));
    columnMemories.clear();
    for (Value operand : columnOperands)
      columnMemories.push_back(
          named(nameOf(operand) + "_held", [&] { return registers(keptType(operand), 1); }));
  }

  /// Reads a strip's tile: what is one number a column too, since a load that is waited for among
  /// those of the next tile waits for these.
  LogicalResult loadTile(const Place &place) {
    e.mask = place.mask;
    for (auto [operand, memory] : llvm::zip(columnOperands, columnMemories)) {
      FailureOr<Computed> computed = e.evaluate(operand, {columnDigit(place)});
      if (failed(computed))
        return failure();
      e.moveTo(e.depth());
      storeRegister(computed->value, memory, v.index(0));
    }
    e.mask = {};
    return loadElements(e.constant(0), place);
  }

  /// What has been read of the tile's columns, for all rows.
  void takeColumns(const Place &place) {
    e.mask = place.mask;
    for (auto [operand, memory] : llvm::zip(columnOperands, columnMemories)) {
      e.moveTo(e.depth());
      e.define(operand, {columnDigit(place)}, v.loadScalar(memory, v.index(0)));
    }
    e.mask = {};
  }

  LogicalResult loadRowNumbers(Index firstTurn) {
    if (rowOperands.empty())
      return success();
    return overTurns(firstTurn, tiles.ahead, [&](Index slot, Index turn) {
      return inRow(rowOf(turn), [&](Index row) {
        for (auto [operand, memory] : llvm::zip(rowOperands, rowMemories)) {
          FailureOr<Computed> computed = e.evaluate(operand, {rowDigit(row)});
          if (failed(computed))
            return failure();
          e.moveTo(e.depth());
          memref::StoreOp::create(v.b, v.loc, computed->value, memory, slot.value);
        }
        return success();
      });
    });
  }

  /// Some rows' operands are read before anything is computed, so that the loads are in flight
  /// together.
  LogicalResult loadElements(Index firstTurn, const Place &place) {
    e.held.clear();
    return overTurns(firstTurn, tiles.ahead, [&](Index slot, Index turn) {
      return inRow(rowOf(turn), [&](Index row) {
        e.mask = place.mask;
        for (auto [load, memory] : llvm::zip(loads, memories)) {
          FailureOr<Computed> computed = e.evaluate(load, positionOf(row, place));
          if (failed(computed))
            return failure();
          e.moveTo(e.depth());
          storeRegister(computed->value, memory, slot.value);
        }
        e.mask = {};
        return success();
      });
    });
  }

  Position positionOf(Index row, const Place &place) { return {rowDigit(row), columnDigit(place)}; }
  Digit columnDigit(const Place &place) {
    return {form.columns, RowEvaluator::lanes(place.column, /*aligned=*/true)};
  }

  /// What the registers' rows become.
  LogicalResult compute(Index firstTurn, const Place &place) {
    for (auto [load, memory] : llvm::zip(loads, memories))
      e.held[load] = memory;
    LogicalResult computed = overTurns(firstTurn, tiles.ahead, [&](Index slot, Index turn) {
      Index localRow = localRowOf(turn);
      return inRow(rowOf(turn), [&](Index row) {
        for (auto [operand, memory] : llvm::zip(rowOperands, rowMemories)) {
          Value number = memref::LoadOp::create(v.b, v.loc, memory, slot.value);
          e.rowScalars[operand] = {{number, e.depth()}, numberOf({rowDigit(row)})};
        }
        e.own = {form.columns, numberOf({rowDigit(row)}), place.column.value, slot.value};
        e.mask = place.mask;
        LogicalResult result =
            emitVector(positionOf(row, place), slot, {localRow.value, e.depth()}, place.local);
        e.mask = {};
        e.own = {};
        e.rowScalars.clear();
        return result;
      });
    });
    e.held.clear();
    return computed;
  }

  LogicalResult emitVector(const Position &position, Index turn, Index localRow, Index local) {
    for (auto [reduce, memory] : llvm::zip(form.rowReduces, partials)) {
      graph::ReduceOp op = reduce;
      Value ofVector = v.splat(identity(op));
      if (failed(addTo(ofVector, op, position)))
        return failure();
      e.moveTo(e.depth());
      Value number = isSum(op) ? v.sumLanes(ofVector) : v.maxLanes(ofVector);
      Value before = memref::LoadOp::create(v.b, v.loc, memory, turn.value);
      memref::StoreOp::create(v.b, v.loc, combine(isSum(op), before, number), memory, turn.value);
    }
    for (const ColumnSum &sum : columnSums) {
      e.moveTo(e.depth());
      Value total = memref::LoadOp::create(v.b, v.loc, sum.ofThread, v.index(0));
      if (failed(addTo(total, sum.reduce, position)))
        return failure();
      e.moveTo(e.depth());
      storeRegister(total, sum.ofThread, v.index(0));
    }
    placeInTiles(tiles, localRow, local, buffer);
    return storeOutputs(tileOutputs, position);
  }

  /// `body` for so many turns from `first` on, written out: of each its number from `first` on, and
  /// from the block's first.
  LogicalResult overTurns(Index first, int64_t count,
                          llvm::function_ref<LogicalResult(Index slot, Index turn)> body) {
    if (count == 1)
      return body(e.constant(0), first);
    FailureOr<SmallVector<Value>> done =
        loop(v.index(0), v.index(count), 1, count, {},
             [&](Index slot, MutableArrayRef<Value>) { return body(slot, e.add(first, slot)); });
    return failure(failed(done));
  }

  /// The row of this thread's group at a turn, counted from the block's first; and its number.
  Index localRowOf(Index turn) { return e.add(e.mul(turn, groups()), group); }
  Index rowOf(Index turn) {
    return named("row", [&] { return e.add(firstRow, localRowOf(turn)); });
  }

  /// `body` if there is such a row.
  LogicalResult inRow(Index row, llvm::function_ref<LogicalResult(Index row)> body) {
    if (tiles.isWhole)
      return body(row);
    return when(less(row.value, lastRow), [&] { return body({row.value, e.depth()}); });
  }

  /// Registers for numbers.
  Value numbers(int64_t count, Type type) {
    return memref::AllocaOp::create(v.b, v.loc, MemRefType::get({count}, type));
  }
  /// What a number of the operand's type is when it has been read.
  Type computedType(Value operand) {
    return VectorOps::registerType(getElementTypeOrSelf(operand.getType()));
  }

  const RowForm &form;
  const CudaTiles &tiles;
  SmallVector<unsigned> tileOutputs, rowOutputs, columnOutputs;
  SmallVector<Value> rowOperands;           ///< one number a row, the same in all columns
  SmallVector<Value> columnOperands;        ///< one number a column, the same in all rows
  SmallVector<Value> loads;                 ///< operands and gathers of a number an element
  SmallVector<Value> memories, rowMemories; ///< their registers: a vector or a number a row
  SmallVector<Value> columnMemories;
  SmallVector<Value> partials; ///< of each row reduction: a number a turn
  SmallVector<ColumnSum> columnSums;
  Index thread, group, lane, firstRow;
  Index buffer;  ///< in which the present tile is gathered, where there are two
  Value lastRow; ///< the first one that does not exist
};
} // namespace

LogicalResult emitCudaTileKernel(KernelFrame &frame, const RowForm &form, const CudaTiles &tiles) {
  return CudaTileKernel(frame, form, tiles).emit();
}

} // namespace nano::kernels
