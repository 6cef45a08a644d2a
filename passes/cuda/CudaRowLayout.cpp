// Chooses the threads of a row: enough that the row fits in their registers, few enough that a
// reduction stays within a warp where it can.
#include "passes/cuda/CudaRowLayout.h"

#include "ir/graph/RandomOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/cuda/CudaTiles.h"
#include "passes/emit/KernelEmitter.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace nano::kernels {

namespace {
/// Bytes of registers that a thread may spend on its part of a row: 64 of the 255 that it has, so
/// that what is computed from them fits beside them and half of the warps that an SM holds can run.
constexpr int64_t rowBytes = 256;
/// Where that keeps a row within a warp: with fewer warps but no barriers, rows of 1600 columns of
/// three operands take 6.6 ms for 7.6 in 95 kernels of GPT-2 1.5B.
constexpr int64_t warpRowBytes = 352;
/// Where a block gathers rows, so that few of its warps can run at a time: with these in flight
/// they wait less, and rows of six operands stay within a warp.
constexpr int64_t gatheredRowBytes = 400;
/// Of a row that a part of a warp holds: as much as leaves registers for all warps.
constexpr int64_t shortRowBytes = 64;
/// Bytes of neighbouring threads' accesses that make a whole line of the second-level cache.
constexpr int64_t lineBytes = 128;
/// Loads of one operand that a thread has in flight at most.
constexpr int64_t maxVectors = 8;
/// Threads of a block whose rows need less than a block.
constexpr int64_t smallBlock = 128;
constexpr int64_t largestBlock = 1024;
/// Threads of a block whose row is too long for registers: several blocks on a multiprocessor, so
/// that one computes while another waits for memory. Rows longer than `longRow`, which in bf16 are
/// too long for shared memory too, and a row that is alone have as many as there can be: of one
/// block a multiprocessor the rows stay in the second-level cache until they are read again.
constexpr int64_t longRowBlock = 256, longRow = 100 * 1024;
/// Rows of random numbers that a group takes in turn, where these are all that there is to do: what
/// depends on the columns alone, three of a Philox block's twenty products among it, is computed
/// once for them. Normal numbers of 49,152 rows of 768 take 40.0 µs so, 42.3 row by row; rows that
/// are read too take longer in turn, 42 to 43 µs for 40. And threads of a multiprocessor.
constexpr int64_t drawnTurns = 4, allThreads = 2048;
/// Threads of all blocks on a multiprocessor whose shared memory keeps long rows: with more of them
/// a thread has too few registers for several loads in flight.
constexpr int64_t keptRowThreads = 1024;

/// Parts of a row, which rotations lead from one to another, that a thread holds at most; and bytes
/// that it reads of a row at least: of queries or keys alone, as Llama turns them, it has too few
/// loads in flight, and takes longer for them than threads that read rows twice.
constexpr int64_t mostParts = 4, leastHeldParts = 64;

/// Registers of a multiprocessor. A thread that holds `manyVectors` of a row and `manyRegisters` or
/// more has `otherRegisters` beside them: so many that nothing is spilled.
constexpr int64_t allRegisters = 1 << 16, manyVectors = 6, manyRegisters = 64, otherRegisters = 80;

/// Registers of a thread for its part of a row, of which twice as many threads would be one block
/// of a multiprocessor; its shared memory, and what a block takes of it beside its own.
constexpr int64_t heldAlone = 48, allShared = 227 * 1024, blockBytes = 1024;

/// Threads of a block whose groups add up columns.
constexpr int64_t columnSumThreads = 512;

/// Sums that a thread may hold of several columns of a row.
constexpr int64_t mostColumnSums = 32;

/// Threads of a row at most whose block adds up columns too; and bytes of shared memory in which a
/// block combines its rows' sums.
constexpr int64_t largestTeam = 512, combinedBytes = 64 * 1024;
/// Registers beside operands and sums that each of its threads has at least; and teams of a block,
/// which have a barrier each.
constexpr int64_t leastOtherRegisters = 16, mostTeams = 15;
/// Numbers a column, as weights and biases, for which there is room beside what is computed.
constexpr int64_t heldOfColumns = 2;

/// True when the threads of a row never wait for each other: no row reduction, no rotation, no
/// number a row that is updated in place.
bool groupsAreIndependent(step::TaskOp task, const RowForm &form) {
  Block &body = task.getBody().front();
  if (!form.rowReduces.empty() || !body.getOps<graph::RotateOp>().empty())
    return false;
  return llvm::none_of(task.getOuts(), [&](Value out) {
    return cast<MemRefType>(out.getType()).getNumElements() == form.iterations * form.rows &&
           llvm::any_of(task.getIns(), [&](Value in) { return mayOverlap(in, out); });
  });
}

/// True when each output is of all rows and columns, or of what is added up.
bool hasNoRowOutputs(step::TaskOp task, const RowForm &form) {
  return llvm::all_of(task.getOuts(), [&](Value out) {
    const int64_t elements = cast<MemRefType>(out.getType()).getNumElements();
    return elements == form.elements() || elements == form.iterations * form.columns;
  });
}

/// True when every element has random bits of its own.
bool drawsBits(step::TaskOp task, const RowForm &form) {
  return llvm::any_of(task.getBody().front().getOps<graph::PhiloxOp>(),
                      [&](graph::PhiloxOp bits) { return elementsOf(bits) == form.elements(); });
}

/// What a thread holds for one access of every large operand, in bytes an element.
struct Width {
  int64_t narrowest = 4; ///< bytes of an element
  int64_t held = 0;
  int64_t operands = 0;
};

Width widthOf(step::TaskOp task, const RowForm &form) {
  Width width;
  for (Value operand : distinctOperands(task)) {
    auto type = cast<MemRefType>(operand.getType());
    if (type.getNumElements() != form.elements())
      continue;
    int64_t bytes = step::elementBytes(type.getElementType());
    width.narrowest = std::min(width.narrowest, bytes);
    ++width.operands;
    if (llvm::is_contained(task.getIns(), operand))
      width.held += bytes;
  }
  for (Operation &op : task.getBody().front().without_terminator()) {
    bool isLarge = op.getNumResults() == 1 && elementsOf(op.getResult(0)) == form.elements();
    if (isLarge && isa<graph::GatherOp, graph::PermuteOp>(op)) {
      int64_t bytes = step::elementBytes(getElementTypeOrSelf(op.getResult(0).getType()));
      width.narrowest = std::min(width.narrowest, bytes);
      width.held += bytes;
    } else if (isExpensive(&op) && (isLarge ? !form.rowReduces.empty() : form.isRowReduce(&op))) {
      // Beside an expensive value, or what an online log-sum-exp computes on the way.
      width.held += 4;
    }
  }
  return width;
}
} // namespace

CudaRowLayout CudaRowLayout::of(step::TaskOp task, const RowForm &form) {
  CudaRowLayout layout;
  Width width = widthOf(task, form);
  layout.lanes = width.narrowest < 4 ? 8 : 4;
  if (form.kind == RowForm::Kind::Elements) {
    layout.threads = form.iterations == 1 ? 32 : 256;
    layout.group = form.iterations == 1 ? 32 : 1;
    layout.vectors = form.iterations == 1  ? 1
                     : width.operands <= 3 ? 4
                     : width.operands <= 6 ? 2
                                           : 1;
    return layout;
  }
  while (layout.lanes > 1 && form.columns % layout.lanes != 0 && form.columns < 16 * layout.lanes)
    layout.lanes /= 2;
  int64_t all = llvm::divideCeil(form.columns, layout.lanes);
  if (form.kind == RowForm::Kind::Columns) {
    layout.walkColumns(form);
    return layout;
  }

  if (!form.columnReduces.empty() && groupsAreIndependent(task, form)) {
    // Several rows of a block are walked at a time, each by as many threads as it has vectors.
    layout.vectors = llvm::divideCeil(all, columnSumThreads);
    const auto sums = int64_t(form.columnReduces.size());
    if (layout.vectors > 1 && layout.vectors * layout.lanes * sums > mostColumnSums &&
        hasNoRowOutputs(task, form)) {
      layout.walkColumns(form);
      return layout;
    }
    layout.group = llvm::divideCeil(all, layout.vectors);
    layout.group =
        layout.group <= 32 ? llvm::PowerOf2Ceil(layout.group) : llvm::alignTo(layout.group, 32);
    layout.threads = columnSumThreads / layout.group * layout.group;
    return layout;
  }

  if (!form.columnReduces.empty() && !form.rowReduces.empty()) {
    layout.walkRows(task, form, width.held);
    return layout;
  }

  // Rows: the smallest group whose threads hold their part of the row and of which few are idle.
  bool once = form.rowReduces.empty() && form.columnReduces.empty();
  int64_t bytes = std::max<int64_t>(1, width.held * layout.lanes), best = 0;
  const bool gathers = hasTransposedOutputs(task);
  // Of rows that are only written a thread holds nothing, and a block of one row is gone at once.
  auto mostVectors = [&](int64_t group) {
    const int64_t limit = gathers ? gatheredRowBytes : group <= 32 ? warpRowBytes : rowBytes;
    return std::min(once && width.held > 0 ? maxVectors / 2 : maxVectors,
                    std::max<int64_t>(1, limit / bytes));
  };
  double bestIdle = 1;
  int64_t least = llvm::bit_floor(uint64_t(std::min<int64_t>(32, all)));
  // Of a short row with few operands a thread has two vectors: a block's life is too short for one.
  bool isRotated = !task.getBody().front().getOps<graph::RotateOp>().empty();
  if (least < 32 && least * layout.lanes * width.narrowest > lineBytes && !isRotated &&
      2 * bytes <= shortRowBytes)
    least /= 2;
  for (int64_t group = least; group <= largestBlock; group = group < 32 ? 2 * group : group + 32) {
    int64_t vectors = llvm::divideCeil(all, group);
    if (vectors > mostVectors(group))
      continue;
    double idle = 1 - double(all) / double(group * vectors);
    if (best == 0 || idle < bestIdle - 0.05) {
      best = group;
      bestIdle = idle;
    }
    // Of a larger block's threads fewer may be idle; but if each had one vector, the block would be
    // gone as soon as it had waited for it.
    if (idle <= (group <= 32 ? 0.25 : 0.125) || vectors == 1)
      break;
  }
  layout.resident = best != 0;
  const bool isShared = form.columns <= longRow && form.iterations > 1;
  layout.group = best ? best : isShared ? longRowBlock : largestBlock;
  layout.vectors = llvm::divideCeil(all, layout.group);
  layout.threads = layout.group <= 32 ? smallBlock : layout.group;
  if (isRotated && layout.resident && !gathers && form.columnReduces.empty())
    layout.holdRotated(task, form, width.held);
  return layout;
}

void CudaRowLayout::holdRotated(step::TaskOp task, const RowForm &form, int64_t held) {
  int64_t apart = form.columns;
  for (auto rotate : task.getBody().front().getOps<graph::RotateOp>()) {
    if (rotate.getType().getShape().back() != form.columns)
      return;
    apart = std::gcd(apart, rotate.getShift());
  }
  const int64_t rowThreads = apart / lanes, parts = form.columns / apart;
  if (apart % lanes != 0 || !llvm::isPowerOf2_64(rowThreads) || parts == 1 || parts > mostParts ||
      parts < vectors || group > 32 || held * lanes * parts < leastHeldParts)
    return;
  holdsRotated = true;
  group = rowThreads;
  vectors = parts;
}

/// Registers that a thread may have where so many warps run at a time: a quarter of them on each of
/// a multiprocessor's schedulers.
static int64_t registersOf(int64_t warps) {
  constexpr int64_t schedulers = 4, most = 255;
  const int64_t threads = llvm::divideCeil(warps, schedulers) * schedulers * 32;
  return std::min(most, allRegisters / threads / 8 * 8);
}

/// True when threads can copy their vectors of an operand's rows by whole pieces.
static bool isCopied(Value operand, int64_t lanes) {
  const auto type = cast<MemRefType>(operand.getType());
  const int64_t element = step::elementBytes(type.getElementType()), bytes = lanes * element;
  const int64_t piece = std::min<int64_t>(16, bytes);
  const SmallVector<int64_t> strides = stridesOf(type);
  if (piece < 4 || strides.back() != 1 || type.getShape().back() % lanes != 0 ||
      alignmentOf(operand) % piece != 0)
    return false;
  return llvm::all_of(
      llvm::zip(type.getShape().drop_back(), ArrayRef(strides).drop_back()),
      [&](auto dim) { return std::get<0>(dim) == 1 || std::get<1>(dim) * element % piece == 0; });
}

/// True when all that rows read can be copied: operands, and nothing that is gathered.
static bool areCopied(step::TaskOp task, const RowForm &form, int64_t lanes) {
  for (Operation &op : task.getBody().front().without_terminator())
    if (isa<graph::GatherOp, graph::PermuteOp, graph::RotateOp>(op) &&
        elementsOf(op.getResult(0)) == form.elements())
      return false;
  return llvm::all_of(task.getIns(), [&](Value in) {
    return elementsOf(in) != form.elements() || isCopied(in, lanes);
  });
}

void CudaRowLayout::walkColumns(const RowForm &form) {
  walksColumns = true;
  vectors = 1;
  group = std::min<int64_t>(32, llvm::PowerOf2Ceil(llvm::divideCeil(form.columns, lanes)));
  threads = std::clamp<int64_t>(group * llvm::PowerOf2Ceil(form.rows), 32, 256);
}

void CudaRowLayout::walkRows(step::TaskOp task, const RowForm &form, int64_t held) {
  // One vector a thread, so that values of columns are read once and what a row's passes share is
  // computed once; and as many threads, in two blocks, as there are registers for: of a row's
  // operands and the next one's, of sums, and of values of columns and what is computed.
  const int64_t all = llvm::divideCeil(form.columns, lanes);
  vectors = llvm::divideCeil(all, largestTeam);
  group = llvm::divideCeil(all, vectors);
  group = group <= 32 ? llvm::PowerOf2Ceil(group) : llvm::alignTo(group, 32);
  const auto sums = int64_t(form.columnReduces.size());
  // Where a row waits for its reductions once, reading one row ahead to registers is enough, and
  // as fast as memory is.
  copiesRows =
      areCopied(task, form, lanes) && llvm::any_of(form.rowReduces, [&](graph::ReduceOp reduce) {
        return isAfterRowReduce(reduce.getX(), form);
      });
  const int64_t ahead = copiesRows ? held : 2 * held;
  const int64_t ofColumns = llvm::count_if(
      task.getIns(), [&](Value in) { return elementsOf(in) == form.columns && form.columns > 1; });
  const int64_t more = std::max<int64_t>(0, ofColumns - heldOfColumns);
  const int64_t numbers =
      vectors * lanes * (ahead + 4 * (sums + more) + 16) / 4 + leastOtherRegisters;
  const int64_t rowSums = group * vectors * lanes * 4 * sums;
  const int64_t most = std::min({form.rows, combinedBytes / rowSums, largestBlock / group,
                                 group > 32 ? mostTeams : largestBlock});
  auto fits = [&](int64_t rows) {
    return registersOf(blocks * llvm::divideCeil(rows * group, 32)) >= numbers;
  };
  blocks = 2;
  blocks = fits(1) ? 2 : 1;
  int64_t rows = std::max<int64_t>(1, most);
  while (rows > 1 && !fits(rows))
    --rows;
  threads = llvm::alignTo(rows * group, 32);
}

void CudaRowLayout::takeTurns(step::TaskOp task, const RowForm &form, int64_t multiprocessors) {
  const bool isPlain = form.kind == RowForm::Kind::Rows && form.rowReduces.empty() &&
                       form.columnReduces.empty() && groupsAreIndependent(task, form);
  if (!isPlain || widthOf(task, form).held > 0 || !drawsBits(task, form))
    return;
  const int64_t rows = groups() * multiprocessors * (allThreads / threads); // of blocks of one time
  turns = drawnTurns;
  while (turns > 1 && form.iterations < turns * rows)
    turns /= 2;
}

/// Neighbouring rows that read the same rows of each operand that is repeated for them; 1 where
/// there is none.
static int64_t sharingRows(step::TaskOp task, const RowForm &form) {
  int64_t rows = 0;
  for (auto op : task.getBody().front().getOps<graph::BroadcastOp>()) {
    const ArrayRef<int64_t> shape = op.getType().getShape(),
                            sizes = cast<ShapedType>(op.getX().getType()).getShape();
    const auto last = int64_t(shape.size()) - 1;
    if (last < 1 || elementsOf(op.getResult()) != form.elements() || shape[last] != form.columns)
      continue;
    auto sizeOf = [&](int64_t dim) -> int64_t {
      const auto *it = llvm::find(op.getDims(), dim);
      return it == op.getDims().end() ? 1 : sizes[it - op.getDims().begin()];
    };
    if (sizeOf(last) == form.columns && elementsOf(op.getX()) > form.columns)
      rows = std::gcd(rows, sizeOf(last - 1) == 1 ? shape[last - 1] : 1);
  }
  return std::max<int64_t>(1, rows);
}

void CudaRowLayout::takeTogether(step::TaskOp task, const RowForm &form, int64_t multiprocessors) {
  if (!holdsRotated)
    return;
  const int64_t all = sharingRows(task, form);
  const int64_t rows = groups() * multiprocessors * (allThreads / threads) / 2;
  for (together = all; together > 1; --together)
    if (all % together == 0 && form.iterations >= together * rows)
      return;
}

void CudaRowLayout::keepLongRow(const RowForm &form, int64_t blocks) {
  group = threads = keptRowThreads / blocks;
  vectors = llvm::divideCeil(form.columns, group * lanes);
}

bool CudaRowLayout::gathersInSmallBlocks(step::TaskOp task, const RowForm &form, int64_t gathered) {
  constexpr int64_t smallBlocks = 3;
  const int64_t held = widthOf(task, form).held * lanes * vectors / 4;
  if (!resident || held < heldAlone || threads != smallBlock ||
      smallBlocks * (gathered + blockBytes) > allShared)
    return false;
  blocks = smallBlocks;
  return true;
}

int64_t CudaRowLayout::heldBlocks(step::TaskOp task, const RowForm &form) const {
  const int64_t held = widthOf(task, form).held * lanes * vectors / 4;
  if (blocks)
    return blocks;
  const bool isOfWarp =
      form.kind == RowForm::Kind::Rows && resident && group <= 32 && vectors >= manyVectors;
  return isOfWarp && held >= manyRegisters ? allRegisters / (threads * (held + otherRegisters)) : 0;
}

int64_t CudaRowLayout::iterations(const RowForm &form) const {
  if (walksColumns)
    return form.iterations * llvm::divideCeil(form.columns, strip());
  return form.iterations;
}

} // namespace nano::kernels
