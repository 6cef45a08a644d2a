// Chooses the rows and columns that a block gathers.
#include "passes/cuda/CudaTiles.h"

#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/cuda/CudaRowLayout.h"
#include "passes/emit/KernelEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Bytes that a column's rows take at best: a whole line of the second-level cache. Strips have
/// half of it, since their blocks are few.
constexpr int64_t lineBytes = 128, stripBytes = 64;
/// With so many tiles or more, a column's rows take two lines: the kernel is faster by 1.5 %,
/// and blocks of twice the size still fill the GPU evenly.
constexpr int64_t manyTiles = 4096;
/// Bytes of a sector, which memory reads and writes as a whole.
constexpr int64_t sectorBytes = 32;
/// Columns of a tile: 256 bytes of bf16; of a strip's of one operand more, since a row's next ones
/// are read much later, and registers allow it.
constexpr int64_t tileColumns = 128, stripColumns = 256;
/// Shared memory for gathered rows: with the first, four blocks fit on a multiprocessor, with the
/// second two.
constexpr int64_t fewRowBytes = 56 * 1024, mostRowBytes = 100 * 1024;
/// Rows of each of so many tiles of wide elements, whose parts have a line alone: with four lines
/// of f32 a column, memory writes them 1.4 times as fast. And shared memory for them: three blocks.
constexpr int64_t wideRows = 128, mostTileBytes = 72 * 1024;
/// A strip's block has more threads: it runs for long, and the last blocks run alone.
constexpr int64_t tileThreads = 256, stripThreads = 512;
/// Registers for operands and sums of columns with which two blocks of a multiprocessor spill none,
/// if they gather one output of one strip each.
constexpr int64_t mostHeldBySums = 24;
/// Operands of which a thread has several rows' elements in registers.
constexpr int64_t mostOperandsAhead = 4;

int64_t lowestBit(int64_t number) { return number & -number; }

/// Large operands that the task reads.
int64_t largeInputs(step::TaskOp task, const RowForm &form) {
  return llvm::count_if(distinctOperands(task), [&](Value operand) {
    return llvm::is_contained(task.getIns(), operand) && elementsOf(operand) == form.elements();
  });
}

class Choice {
public:
  Choice(step::TaskOp task, const RowForm &form) : task(task), form(form) {}

  std::optional<CudaTiles> make() {
    if (form.kind != RowForm::Kind::Rows || form.columns == 1)
      return no("does not compute it row by row");
    if (!findOutputs())
      return std::nullopt;
    layout = CudaRowLayout::of(task, form);
    result.lanes = layout.lanes;
    const bool addsColumns = !form.columnReduces.empty();
    if (addsColumns && !isElementwise())
      return no("adds up columns of what it knows of whole rows only, and so has none to gather");
    if (!(isElementwise() ? chooseTile() : chooseRows()))
      return std::nullopt;
    // A block's rows are those that an iteration sums, or as many as it gathers.
    const int64_t blockRows = addsColumns ? form.rows : form.iterations;
    result.isWhole = blockRows % result.rows == 0;
    for (CudaTiles::Output &output : result.outputs) {
      if (output.matrixRows &&
          (output.matrixRows % result.rows != 0 || (addsColumns && !result.isWhole)))
        return no("gathers " + std::to_string(result.rows) +
                  " rows at a time, of which matrices of " + std::to_string(output.matrixRows) +
                  " rows are no multiple");
      Value memref = task.getOuts()[output.index];
      int64_t bytes = step::elementBytes(typeOf(output));
      output.alignment =
          std::min(alignmentOf(memref), lowestBit((output.stride | output.matrixStride |
                                                   result.rows | (addsColumns ? form.rows : 0)) *
                                                  bytes));
    }
    return result;
  }

  std::string why; ///< after make() without a result, what the kernel does instead

private:
  std::nullopt_t no(std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  }

  Type typeOf(const CudaTiles::Output &output) {
    return cast<MemRefType>(task.getOuts()[output.index].getType()).getElementType();
  }

  bool findOutputs() {
    for (auto [i, out] : llvm::enumerate(task.getOuts())) {
      auto type = cast<MemRefType>(out.getType());
      if (!liesTransposed(type))
        continue;
      SmallVector<int64_t> strides = stridesOf(type);
      int64_t last = type.getRank() - 1;
      if (type.getNumElements() != form.elements() || type.getDimSize(last) != form.columns) {
        why = "computes rows of " + std::to_string(form.columns) + " columns";
        return false;
      }
      if (llvm::any_of(task.getIns(), [&, out = out](Value in) { return mayOverlap(in, out); })) {
        why = "reads what is overwritten";
        return false;
      }
      CudaTiles::Output output;
      output.index = i;
      output.stride = strides[last];
      if (last == 2 && type.getDimSize(0) > 1) {
        output.matrixRows = type.getDimSize(1);
        output.matrixStride = strides[0];
      }
      result.outputs.push_back(output);
    }
    return !result.outputs.empty();
  }

  /// True when no element depends on a reduction or on other columns of its row, so that a row need
  /// not be at hand as a whole.
  bool isElementwise() {
    Block &body = task.getBody().front();
    if (!body.getOps<graph::RotateOp>().empty() || !body.getOps<graph::PermuteOp>().empty())
      return false;
    auto isAfterReduce = [&](Value value) {
      return isAfterRowReduce(value, form) || isAfterColumnReduce(value, form);
    };
    for (auto reduces : {ArrayRef(form.rowReduces), ArrayRef(form.columnReduces)})
      for (graph::ReduceOp reduce : reduces) {
        bool isPlain = reduce.getCombiner() == graph::Combiner::sum ||
                       reduce.getCombiner() == graph::Combiner::max;
        if (!isPlain || pickedBy(reduce) || isAfterReduce(reduce.getX()))
          return false;
      }
    for (auto [out, value] : llvm::zip(task.getOuts(), body.getTerminator()->getOperands())) {
      if (elementsOf(value) == form.elements() ? isAfterReduce(value)
          : isAfterColumnReduce(value, form)   ? isAfterRowReduce(value, form)
                                               : elementsOf(value) != form.iterations * form.rows)
        return false;
      // Numbers of rows and columns are written when all threads of a block have read what is
      // overwritten, but other blocks may not have.
      if (elementsOf(value) != form.elements() &&
          llvm::any_of(task.getIns(), [&, out = out](Value in) { return mayOverlap(in, out); }))
        return false;
    }
    return true;
  }

  /// True when it writes numbers of rows or columns.
  bool writesNumbers() {
    return llvm::any_of(task.getBody().front().getTerminator()->getOperands(),
                        [&](Value value) { return elementsOf(value) != form.elements(); });
  }

  /// The most rows of which each column has at most so many bytes, and that are one part.
  int64_t rowsWithin(int64_t bytes) {
    int64_t rows = bytes;
    for (const CudaTiles::Output &output : result.outputs) {
      int64_t size = step::elementBytes(typeOf(output)), each = 4 / size;
      rows = std::min(rows, bytes / size);
      // unit ≥ lanes; and all of a block's rows within a row group, or a power of two of these.
      rows = std::min(rows, 16 / size * (32 * each / result.lanes));
    }
    for (const CudaTiles::Output &output : result.outputs)
      rows = std::max(rows, CudaTiles::rowsOfAccess(typeOf(output)));
    return rows;
  }

  /// True when tiles of so many rows are many, none of them cut off, and gather at most so many
  /// bytes.
  bool hasManyTiles(int64_t rows, int64_t most) {
    int64_t gathered = 0;
    for (const CudaTiles::Output &output : result.outputs) {
      if (output.matrixRows % rows != 0)
        return false;
      gathered += rows * result.strideOf(typeOf(output)) * step::elementBytes(typeOf(output));
    }
    return form.iterations % rows == 0 && gathered <= most &&
           form.iterations / rows * llvm::divideCeil(form.columns, result.columns) >= manyTiles;
  }

  bool isPossible() {
    why = "has elements of too different sizes to gather them together";
    return llvm::all_of(result.outputs, [&](const CudaTiles::Output &output) {
      return result.unitOf(typeOf(output)) >= result.lanes;
    });
  }

  bool chooseTile() {
    result.kind = writesNumbers() ? CudaTiles::Kind::Strip : CudaTiles::Kind::Tile;
    bool isStrip = result.kind == CudaTiles::Kind::Strip;
    result.columns = std::clamp<int64_t>(llvm::PowerOf2Ceil(form.columns), result.lanes,
                                         std::max(tileColumns, result.lanes));
    int64_t operands = largeInputs(task, form);
    result.ahead = operands <= mostOperandsAhead / 2 ? 4 : operands <= mostOperandsAhead ? 2 : 1;
    if (isStrip && operands == 1 && form.columns % stripColumns == 0)
      result.columns = stripColumns;
    const bool isMany = hasManyTiles(rowsWithin(2 * lineBytes), fewRowBytes);
    result.rows = rowsWithin(isStrip ? stripBytes : isMany ? 2 * lineBytes : lineBytes);
    if (!isStrip && hasManyTiles(wideRows, mostTileBytes))
      result.rows = std::max(result.rows, wideRows);
    // A strip's threads have the operands of all of their rows in registers.
    result.threads = isStrip ? stripThreads : tileThreads;
    if (result.groups() > result.rows)
      result.threads = std::max<int64_t>(32, result.rows * result.group());
    result.rows = std::max(result.rows, result.groups());
    int64_t turns = result.rows / result.groups();
    result.ahead = isStrip ? turns : std::min(result.ahead, turns);
    if (isStrip)
      chooseBuffers();
    if (!form.columnReduces.empty())
      result.blocks =
          result.outputs.size() == 1 && form.rows <= result.rows && heldBySums() <= mostHeldBySums
              ? 2
              : 1;
    return isPossible();
  }

  /// Two tiles where they, and sums of whole rows, leave room for a second block.
  void chooseBuffers() {
    const auto sums = int64_t(form.columnReduces.size());
    result.jobs = int64_t(result.outputs.size()) + sums;
    int64_t tile = 4 * sums * result.groups() * result.columns;
    for (const CudaTiles::Output &output : result.outputs)
      tile += result.rows * result.strideOf(typeOf(output)) * step::elementBytes(typeOf(output));
    const int64_t beside = 4 * sums * llvm::alignTo(form.columns, result.columns);
    result.buffers = form.columns > result.columns && beside + 2 * tile <= mostRowBytes ? 2 : 1;
  }

  /// Registers of a thread for operands and sums of columns.
  int64_t heldBySums() {
    int64_t bytes = 0;
    for (Value operand : distinctOperands(task))
      if (llvm::is_contained(task.getIns(), operand) && elementsOf(operand) == form.elements())
        bytes += step::elementBytes(cast<MemRefType>(operand.getType()).getElementType());
    return result.lanes * (result.ahead * bytes / 4 + int64_t(form.columnReduces.size()));
  }

  bool chooseRows() {
    why = "needs more of a row than a block can gather";
    if (!layout.resident)
      return false;
    result.kind = CudaTiles::Kind::Rows;
    result.columns = form.columns;
    int64_t rowBytes = 0, narrowest = 4;
    for (const CudaTiles::Output &output : result.outputs) {
      int64_t bytes = step::elementBytes(typeOf(output));
      narrowest = std::min(narrowest, bytes);
      rowBytes += result.strideOf(typeOf(output)) * bytes;
    }
    result.rows = rowsWithin(2 * sectorBytes);
    if (result.rows * rowBytes > fewRowBytes)
      result.rows = rowsWithin(sectorBytes);
    return result.rows * rowBytes <= mostRowBytes && isPossible();
  }

  step::TaskOp task;
  const RowForm &form;
  CudaRowLayout layout;
  CudaTiles result;
};
} // namespace

std::optional<CudaTiles> CudaTiles::of(step::TaskOp task, const RowForm &form, std::string *why) {
  Choice choice(task, form);
  std::optional<CudaTiles> tiles = choice.make();
  if (why)
    *why = choice.why;
  return tiles;
}

void CudaTiles::widenBlock(CudaRowLayout &layout, step::TaskOp task, const RowForm &form) const {
  constexpr int64_t gatheringThreads = 256, mostLoads = 12;
  auto gathers = task.getBody().front().getOps<graph::GatherOp>();
  int64_t loads =
      layout.vectors * (largeInputs(task, form) + std::distance(gathers.begin(), gathers.end()));
  if (layout.group > 32 || loads > mostLoads)
    return;
  int64_t gathered = 0;
  for (const Output &output : outputs) {
    Type element = cast<MemRefType>(task.getOuts()[output.index].getType()).getElementType();
    gathered += rows * strideOf(element) * step::elementBytes(element);
  }
  if (!layout.gathersInSmallBlocks(task, form, gathered))
    layout.threads = std::min(gatheringThreads, std::max<int64_t>(32, rows * layout.group));
}

std::string CudaTiles::key(const RowForm &form) const {
  // A tile's launch does not tell its blocks where the rows end.
  return isWhole              ? "whole " + std::to_string(rows)
         : kind == Kind::Tile ? std::to_string(form.iterations) + " rows"
                              : "";
}

int64_t CudaTiles::iterations(const RowForm &form) const {
  if (kind == Kind::Tile)
    return llvm::divideCeil(form.iterations, rows) * llvm::divideCeil(form.columns, columns);
  return form.iterations;
}

int64_t CudaTiles::strideOf(Type element) const {
  int64_t bytes = step::elementBytes(element);
  return llvm::alignTo(columns * bytes, lineBytes) / bytes;
}

int64_t CudaTiles::unitOf(Type element) const {
  return 32 / (partRows(element) / rowsOfAccess(element)) * (4 / step::elementBytes(element));
}

int64_t CudaTiles::partRows(Type element) const {
  // unit ≥ lanes.
  const int64_t each = 4 / step::elementBytes(element);
  return std::min(rows, rowsOfAccess(element) * (32 * each / lanes));
}

int64_t cudaRowIterations(step::TaskOp task, const RowForm &form) {
  if (std::optional<CudaTiles> tiles = CudaTiles::of(task, form))
    return tiles->iterations(form);
  return CudaRowLayout::of(task, form).iterations(form);
}

std::string cudaRowKey(step::TaskOp task, const RowForm &form) {
  // A block's accesses are as wide as the operands' first bytes allow.
  std::string key;
  for (Value operand : distinctOperands(task))
    key += " " + std::to_string(alignmentOf(operand));
  if (std::optional<CudaTiles> tiles = CudaTiles::of(task, form))
    key += " " + tiles->key(form);
  else if (form.iterations == 1 && !CudaRowLayout::of(task, form).resident)
    key += " alone";
  return key;
}

bool liesTransposed(MemRefType type) {
  if (type.getRank() < 2 || type.getRank() > 3)
    return false;
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t last = type.getRank() - 1;
  return type.getDimSize(last) > 1 && type.getDimSize(last - 1) > 1 && strides[last] > 1 &&
         strides[last - 1] == 1;
}

bool hasTransposedOutputs(step::TaskOp task) {
  return llvm::any_of(task.getOuts(),
                      [](Value out) { return liesTransposed(cast<MemRefType>(out.getType())); });
}

/// True when the value is computed from what one of `reduces` leaves.
static bool isAfter(Value value, ArrayRef<graph::ReduceOp> reduces) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> pending{value};
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !seen.insert(next).second)
      continue;
    if (llvm::is_contained(reduces, op))
      return true;
    llvm::append_range(pending, op->getOperands());
  }
  return false;
}
bool isAfterRowReduce(Value value, const RowForm &form) { return isAfter(value, form.rowReduces); }
bool isAfterColumnReduce(Value value, const RowForm &form) {
  return isAfter(value, form.columnReduces);
}

} // namespace nano::kernels
