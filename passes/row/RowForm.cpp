// Finds the iteration space of a row kernel, and the text that says which tasks share one.
#include "passes/row/RowForm.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/emit/KernelEmitter.h"

#include "mlir/IR/AsmState.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <numeric>

using namespace mlir;

namespace nano::kernels {

/// Columns of a row that are enough, of one without reductions, and at most: what a thread has to
/// do in a row of `enoughColumns` outweighs finding the row; one block or thread walks a row, and
/// what has longer ones than `mostColumns` (a matrix that is divided by its norm) has too few of
/// them.
constexpr int64_t enoughColumns = 128, mostColumns = 1 << 15;
/// So many columns in fewer rows than these are too few rows.
constexpr int64_t leastOfOne = 4096, fewRows = 64;

static int64_t product(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Adds the picks that alone need the value; false when something else does.
static bool isOnlyPicked(Value value, llvm::SmallPtrSetImpl<Operation *> &picks) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto select = dyn_cast<graph::SelectOp>(user);
    if (!select)
      return (user->hasTrait<graph::ElementwiseOp>() || isa<graph::ReshapeOp>(user)) &&
             isOnlyPicked(user->getResult(0), picks);
    const bool isFirst =
        select.getOnTrue() == value && llvm::count(select->getOperands(), value) == 1;
    return isFirst && llvm::all_of(select->getUsers(), [&](Operation *sum) {
             auto reduce = dyn_cast<graph::ReduceOp>(sum);
             const bool is = reduce && pickedBy(reduce) == select;
             if (is)
               picks.insert(sum);
             return is;
           });
  });
}

int64_t picksFrom(step::TaskOp task, Value operand) {
  llvm::SmallPtrSet<Operation *, 4> picks;
  for (auto [in, argument] : llvm::zip_equal(task.getIns(), task.getBody().front().getArguments()))
    if (in == operand && !isOnlyPicked(argument, picks))
      return 0;
  return llvm::is_contained(task.getOuts(), operand) ? 0 : int64_t(picks.size());
}

/// True when the memref's last dimensions that hold `columns` elements lie side by side.
static bool hasContiguousColumns(MemRefType type, int64_t columns) {
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t contiguous = 1;
  for (int64_t i = type.getRank() - 1; i >= 0 && contiguous < columns; --i) {
    if (type.getDimSize(i) != 1 && strides[i] != contiguous)
      return false;
    contiguous *= type.getDimSize(i);
  }
  return true;
}

/// Number of trailing dimensions whose sizes multiply to `columns`, or nothing when no suffix does.
static std::optional<int64_t> suffixOf(ArrayRef<int64_t> shape, int64_t columns) {
  int64_t size = 1, count = 0;
  while (size < columns && count < static_cast<int64_t>(shape.size()))
    size *= shape[shape.size() - ++count];
  return size == columns ? std::optional(count) : std::nullopt;
}

bool arePairs(int64_t size, int64_t columns) {
  constexpr int64_t fewestLanes = 4; // of vectors in rows that they divide
  return size == 2 && columns % fewestLanes == 0;
}

/// True when all columns of one row are addressed alike by `op`: as consecutive elements, or not at
/// all.
static bool addressesRowsWhole(Operation *op, int64_t columns, int64_t elements) {
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    ArrayRef<int64_t> shape = broadcast.getType().getShape(),
                      from = cast<ShapedType>(broadcast.getX().getType()).getShape();
    int64_t operandElements = elementsOf(broadcast.getX());
    if (operandElements == 1 || operandElements == product(shape) || product(shape) != elements)
      return operandElements == 1 || operandElements == product(shape);
    std::optional<int64_t> suffix = suffixOf(shape, columns);
    if (!suffix)
      return false;
    int64_t last = shape.size();
    if (*suffix > 1 && arePairs(shape.back(), columns) &&
        !llvm::is_contained(broadcast.getDims(), last - 1))
      --last; // a number that both have
    bool allKept = true, allDropped = true;
    for (int64_t dim = shape.size() - *suffix; dim < last; ++dim) {
      if (shape[dim] == 1)
        continue;
      const auto *it = llvm::find(broadcast.getDims(), dim);
      bool kept = it != broadcast.getDims().end() && from[it - broadcast.getDims().begin()] != 1;
      allKept &= kept;
      allDropped &= !kept;
    }
    return allKept || allDropped;
  }
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    ArrayRef<int64_t> shape = iota.getType().getShape();
    std::optional<int64_t> suffix = suffixOf(shape, columns);
    int64_t dim = iota.getDim();
    return suffix && (dim < static_cast<int64_t>(shape.size()) - *suffix || shape[dim] == columns ||
                      (dim + 1 == int64_t(shape.size()) && arePairs(shape[dim], columns)));
  }
  if (auto rotate = dyn_cast<graph::RotateOp>(op))
    return rotate.getType().getShape().back() == columns ||
           arePairs(rotate.getType().getShape().back(), columns);
  if (isa<graph::GatherOp, graph::PermuteOp>(op)) {
    ArrayRef<int64_t> shape = cast<ShapedType>(op->getResult(0).getType()).getShape();
    return !shape.empty() && shape.back() == columns;
  }
  return true;
}

/// Operand dimensions that a reduction removes, without those of size 1. Empty when nothing is
/// summed.
static SmallVector<int64_t> reducedDims(graph::ReduceOp reduce) {
  ArrayRef<int64_t> shape = reduce.getX().getType().getShape();
  SmallVector<int64_t> dims;
  for (int64_t dim : reduce.getDims())
    if (shape[dim] != 1)
      dims.push_back(dim);
  return dims;
}

/// Sizes of the elements before, in and behind the reduced dimensions; an error when other
/// dimensions stand between them.
static FailureOr<std::array<int64_t, 3>> sizesOf(graph::ReduceOp reduce) {
  ArrayRef<int64_t> shape = reduce.getX().getType().getShape();
  SmallVector<int64_t> dims = reducedDims(reduce);
  int64_t first = dims.front(), last = dims.back(),
          inside = product(shape.slice(first, last - first + 1)), reduced = 1;
  for (int64_t dim : dims)
    reduced *= shape[dim];
  if (inside != reduced)
    return reduce.emitOpError(
        "reduces dimensions with others between them; a kernel reduces neighbouring ones");
  return std::array<int64_t, 3>{product(shape.take_front(first)), inside,
                                product(shape.drop_front(last + 1))};
}

/// True when all that a task yields are sums of columns or computed from them.
static bool yieldsColumnReducesAlone(Block &body, const RowForm &form) {
  llvm::SmallPtrSet<Operation *, 8> behind;
  for (Operation &op : body.without_terminator())
    if (form.isColumnReduce(&op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          return behind.contains(operand.getDefiningOp());
        }))
      behind.insert(&op);
  return llvm::all_of(body.getTerminator()->getOperands(),
                      [&](Value value) { return behind.contains(value.getDefiningOp()); });
}

FailureOr<RowForm> RowForm::of(step::TaskOp task) {
  RowForm form;
  Block &body = task.getBody().front();
  ValueRange yielded = body.getTerminator()->getOperands();
  int64_t elements = 0;
  for (Value value : yielded)
    elements = std::max(elements, elementsOf(value));

  using Sizes = std::array<int64_t, 3>;
  std::optional<Sizes> rowSizes, columnSizes;
  auto mismatch = [](graph::ReduceOp reduce, const Sizes &sizes, const Sizes &seen) {
    return reduce.emitOpError("reduces ") << sizes[0] << "×" << sizes[1] << "×" << sizes[2]
                                          << " elements where another reduction of the task has "
                                          << seen[0] << "×" << seen[1] << "×" << seen[2];
  };
  SmallVector<std::pair<graph::ReduceOp, Sizes>> picks;
  for (auto reduce : body.getOps<graph::ReduceOp>()) {
    if (reducedDims(reduce).empty())
      continue;
    FailureOr<Sizes> sizes = sizesOf(reduce);
    if (failed(sizes))
      return failure();
    bool isRow = (*sizes)[2] == 1;
    if (!isRow && reduce.getCombiner() == graph::Combiner::logsumexp)
      return reduce.emitOpError("is a log-sum-exp of columns; a kernel has them of rows only");
    (isRow ? form.rowReduces : form.columnReduces).push_back(reduce);
    if (isRow && pickedBy(reduce)) {
      picks.emplace_back(reduce, *sizes);
      continue;
    }
    std::optional<Sizes> &seen = isRow ? rowSizes : columnSizes;
    if (seen && *seen != *sizes)
      return mismatch(reduce, *sizes, *seen);
    seen = *sizes;
  }
  // What is picked is read where it lies: its row may be of another length than those that are
  // walked.
  for (const auto &[reduce, sizes] : picks) {
    if (rowSizes && (*rowSizes)[0] != sizes[0])
      return mismatch(reduce, sizes, *rowSizes);
    if (!rowSizes)
      rowSizes = sizes;
  }
  if (rowSizes && columnSizes &&
      ((*rowSizes)[1] != (*columnSizes)[2] ||
       (*rowSizes)[0] != (*columnSizes)[0] * (*columnSizes)[1]))
    return form.columnReduces.front().emitOpError(
        "does not walk the rows that the task's row reductions do");

  if (columnSizes) {
    form.iterations = (*columnSizes)[0];
    form.rows = (*columnSizes)[1];
    form.columns = (*columnSizes)[2];
    form.kind = rowSizes || !yieldsColumnReducesAlone(body, form) ? Kind::Rows : Kind::Columns;
    return form;
  }
  if (rowSizes) {
    form.kind = Kind::Rows;
    form.iterations = (*rowSizes)[0];
    form.columns = (*rowSizes)[1];
    return form;
  }

  // No reduction: the longest rows whose elements are all addressed alike, unless shorter ones are
  // enough; a single one of all elements needs no rows at all.
  auto suits = [&](int64_t columns) {
    for (Operation &op : body.without_terminator())
      if (!addressesRowsWhole(&op, columns, elements))
        return false;
    return llvm::all_of(task.getOperandTypes(), [&](Type type) {
      auto memref = cast<MemRefType>(type);
      return memref.getNumElements() != elements || hasContiguousColumns(memref, columns);
    });
  };
  bool oneSize = llvm::all_of(body.without_terminator(), [&](Operation &op) {
    if (auto iota = dyn_cast<graph::IotaOp>(op);
        iota && iota.getType().getShape()[iota.getDim()] != elements)
      return false;
    return !isa<graph::RotateOp, graph::GatherOp, graph::PermuteOp>(op) &&
           llvm::all_of(op.getOperands(), [&](Value value) {
             return elementsOf(value) == elements || elementsOf(value) == 1;
           });
  });
  oneSize &= llvm::all_of(yielded, [&](Value value) { return elementsOf(value) == elements; });
  if (oneSize && suits(elements)) {
    form.kind = Kind::Elements;
    form.iterations = elements;
    return form;
  }
  form.kind = Kind::Rows;
  Value widest =
      *llvm::max_element(yielded, [](Value a, Value b) { return elementsOf(a) < elementsOf(b); });
  ArrayRef<int64_t> shape = cast<ShapedType>(widest.getType()).getShape();
  int64_t last = 1;
  for (int64_t size : llvm::reverse(shape))
    if (last == 1)
      last = size;
  // One element of each row of something wider: rows of one, rather than one block or thread for
  // all.
  form.columns = shape.back() == 1 && last >= leastOfOne && elements / last < fewRows ? 1 : last;
  int64_t columns = 1;
  for (int64_t i = shape.size() - 1; i >= 1; --i) {
    columns *= shape[i];
    if (columns > mostColumns && form.columns >= enoughColumns)
      break;
    if (columns > form.columns && suits(columns))
      form.columns = columns;
  }
  form.iterations = elements / form.columns;
  return form;
}

//===- Keys ---------------------------------------------------------------===//

namespace {
/// Prints a task's structure with values numbered in order.
class KeyPrinter {
public:
  KeyPrinter(MLIRContext *context, const RowForm &form, int64_t extent)
      : form(form), extent(extent), os(text), printing(context) {}

  void type(Type type) {
    auto shaped = cast<ShapedType>(type);
    os << '[';
    if (form.kind == RowForm::Kind::Elements) {
      os << (shaped.getNumElements() == 1 ? "1" : "n");
    } else {
      for (auto [i, size] : llvm::enumerate(shaped.getShape()))
        i == 0 && size == extent &&size != 1 ? os << "?," : os << size << ',';
    }
    shaped.getElementType().print(os, printing);
    os << ']';
  }

  void task(step::TaskOp task) {
    SmallVector<Value> operands = distinctOperands(task);
    for (Value operand : operands) {
      type(operand.getType());
      if (form.kind != RowForm::Kind::Elements)
        llvm::interleaveComma(stridesOf(cast<MemRefType>(operand.getType())), os << '<');
    }
    auto position = [&](Value value) {
      os << llvm::find(operands, value) - operands.begin() << ' ';
    };
    os << "\nins ";
    llvm::for_each(task.getIns(), position);
    os << "outs ";
    for (Value out : task.getOuts()) {
      position(out);
      for (Value in : task.getIns())
        os << (mayOverlap(in, out) ? '!' : '.');
    }
    Block &body = task.getBody().front();
    llvm::DenseMap<Value, unsigned> numbers;
    for (Value argument : body.getArguments())
      numbers.try_emplace(argument, numbers.size());
    for (Operation &op : body) {
      os << '\n' << op.getName().stripDialect() << ' ';
      op.getAttrDictionary().print(os, printing);
      for (Value operand : op.getOperands())
        os << ' ' << numbers.lookup(operand);
      for (Value result : op.getResults()) {
        numbers.try_emplace(result, numbers.size());
        type(result.getType());
      }
    }
  }

  std::string take() { return std::move(text); }

private:
  const RowForm &form;
  int64_t extent;
  std::string text;
  llvm::raw_string_ostream os;
  AsmState printing; ///< one for all: to make it takes longer than to print an attribute
};
} // namespace

std::string rowKey(step::TaskOp task, const RowForm &form) {
  // The leading size of the widest output is a matter of the launch, except where it is a loop's
  // bound.
  int64_t extent = 1;
  if (form.kind != RowForm::Kind::Elements) {
    Value widest;
    for (Value value : task.getBody().front().getTerminator()->getOperands())
      if (!widest || elementsOf(value) > elementsOf(widest))
        widest = value;
    ArrayRef<int64_t> shape = cast<ShapedType>(widest.getType()).getShape();
    if (!shape.empty() && form.iterations % shape.front() == 0)
      extent = shape.front();
  }
  KeyPrinter printer(task.getContext(), form, extent);
  printer.task(task);
  return printer.take() + "\n" + std::to_string(static_cast<int>(form.kind)) + " " +
         std::to_string(form.rows) + " " + std::to_string(form.columns);
}

} // namespace nano::kernels
