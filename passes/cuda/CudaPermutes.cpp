// Tasks that permute what they read, as tasks that write rows where others have columns: see
// straightenPermutes.
#include "ir/graph/ShapeOps.h"
#include "passes/cuda/CudaTiles.h"
#include "passes/cuda/CudaTransposes.h"
#include "passes/emit/KernelEmitter.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Rows and columns of fewer elements than this are read as they lie: a tile of them has little
/// that lies side by side.
constexpr int64_t leastSide = 16;

/// A permute as a batch of matrices that it transposes: `rows` and `columns` of the operand.
class Turn {
public:
  /// Nothing when elements side by side in the operand stay so, or when there are several batches.
  static std::optional<Turn> of(graph::PermuteOp op) {
    Turn turn;
    ArrayRef<int64_t> shape = op.getX().getType().getShape(), order = op.getOrder();
    turn.rank = static_cast<int64_t>(shape.size());
    // Runs of the operand's dimensions that stay neighbours, in the result's order.
    SmallVector<SmallVector<int64_t>> runs;
    for (int64_t dim : order) {
      if (shape[dim] == 1)
        continue;
      if (runs.empty() || nextOf(shape, runs.back().back()) != dim)
        runs.emplace_back();
      runs.back().push_back(dim);
    }
    if (runs.size() < 2 || runs.size() > 3)
      return std::nullopt;
    turn.order.assign(order.begin(), order.end());
    turn.rows = runs.back();
    auto *last =
        llvm::max_element(runs, [](const auto &a, const auto &b) { return a.back() < b.back(); });
    if (last == &runs.back())
      return std::nullopt;
    turn.columns = *last;
    for (auto &run : runs)
      if (&run != last && &run != &runs.back())
        turn.batch = run;
    auto sizeOf = [&](ArrayRef<int64_t> dims) {
      int64_t size = 1;
      for (int64_t dim : dims)
        size *= shape[dim];
      return size;
    };
    if (runs.size() == 3)
      turn.sizes.push_back(sizeOf(turn.batch));
    turn.sizes.push_back(sizeOf(turn.rows));
    turn.sizes.push_back(sizeOf(turn.columns));
    turn.shape.assign(shape.begin(), shape.end());
    if (std::min(turn.sizes.back(), turn.sizes[turn.sizes.size() - 2]) < leastSide)
      return std::nullopt;
    return turn;
  }

  bool operator==(const Turn &other) const { return shape == other.shape && order == other.order; }
  ArrayRef<int64_t> space() const { return sizes; }
  int64_t elements() const { return llvm::product_of(sizes); }

  /// Memory of the operand's shape, or of the result's, as matrices of the operand's rows; nothing
  /// where its strides do not allow that.
  std::optional<MemRefType> viewed(MemRefType type, bool isResult) const {
    if (type.getRank() != rank)
      return std::nullopt;
    const step::Layout layout = step::layoutOf(type);
    SmallVector<int64_t> strides(rank);
    for (int64_t i = 0; i < rank; ++i)
      strides[isResult ? order[i] : i] = layout.strides[i];
    SmallVector<int64_t> found;
    for (ArrayRef<int64_t> dims : {ArrayRef(batch), ArrayRef(rows), ArrayRef(columns)}) {
      if (dims.empty())
        continue;
      for (auto [dim, next] : llvm::zip(dims.drop_back(), dims.drop_front()))
        if (strides[dim] != strides[next] * shape[next])
          return std::nullopt;
      found.push_back(strides[dims.back()]);
    }
    return MemRefType::get(sizes, type.getElementType(),
                           StridedLayoutAttr::get(type.getContext(), layout.offset, found));
  }

private:
  /// The next dimension that is not 1.
  static int64_t nextOf(ArrayRef<int64_t> shape, int64_t dim) {
    do
      ++dim;
    while (dim < static_cast<int64_t>(shape.size()) && shape[dim] == 1);
    return dim;
  }
  int64_t rank = 0;
  SmallVector<int64_t> shape, order;         ///< of the operand; of the permute
  SmallVector<int64_t> batch, rows, columns; ///< dimensions of the operand
  SmallVector<int64_t> sizes;                ///< of these, where there are any
};

Value viewOf(OpBuilder &b, Value memory, MemRefType type) {
  return step::ViewOp::create(b, memory.getLoc(), type, memory);
}

/// A task over the operand's rows that computes what `task` does, which permutes all that it reads
/// by one and the same turn; null where it does something else.
class Straightened {
public:
  explicit Straightened(step::TaskOp task) : task(task), body(task.getBody().front()) {}

  step::TaskOp make() {
    auto permutes = body.getOps<graph::PermuteOp>();
    if (permutes.empty())
      return {};
    std::optional<Turn> found = Turn::of(*permutes.begin());
    if (!found)
      return {};
    turn = *found;
    if (!findSides() || !findViews())
      return {};
    return build();
  }

private:
  /// Where a value's elements are at their indices in the permutes' operands, or results.
  enum class Side { Any, Operand, Result };

  bool findSides() {
    for (BlockArgument argument : body.getArguments()) {
      const bool isWhole = elementsOf(argument) == turn.elements();
      if (!isWhole && elementsOf(argument) != 1)
        return false;
      sides[argument] = isWhole ? Side::Operand : Side::Any;
    }
    for (Operation &op : body.without_terminator()) {
      if (op.getNumResults() != 1)
        return false;
      Value result = op.getResult(0);
      if (auto permute = dyn_cast<graph::PermuteOp>(op)) {
        std::optional<Turn> own = Turn::of(permute);
        if (!own || !(*own == turn) || sides[permute.getX()] != Side::Operand)
          return false;
        sides[result] = Side::Result;
        continue;
      }
      if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
        if (elementsOf(broadcast.getX()) != 1 || !broadcast.getDims().empty())
          return false;
      } else if (isa<graph::IotaOp>(op) || !op.hasTrait<graph::ElementwiseOp>()) {
        return false;
      }
      Side side = Side::Any;
      for (Value operand : op.getOperands()) {
        const Side other = sides[operand];
        if (other == Side::Any)
          continue;
        if (side != Side::Any && side != other)
          return false;
        side = other;
      }
      sides[result] = side;
    }
    return true;
  }

  bool findViews() {
    for (auto [in, argument] : llvm::zip(task.getIns(), body.getArguments()))
      if (!findView(in, sides[argument]))
        return false;
    for (auto [out, value] : llvm::zip(task.getOuts(), body.getTerminator()->getOperands())) {
      // What is the same everywhere has no side of its own.
      if (sides[value] == Side::Any || !findView(out, sides[value]))
        return false;
      if (llvm::any_of(task.getIns(), [&, out = out](Value in) { return mayOverlap(in, out); }))
        return false;
    }
    return true;
  }
  bool findView(Value memory, Side side) {
    auto type = cast<MemRefType>(memory.getType());
    if (side != Side::Any) {
      std::optional<MemRefType> viewed = turn.viewed(type, side == Side::Result);
      if (!viewed)
        return false;
      type = *viewed;
    }
    types.push_back(type);
    return true;
  }

  step::TaskOp build() {
    OpBuilder b(task);
    SmallVector<Value> ins, outs;
    for (auto [i, memory] : llvm::enumerate(llvm::concat<Value>(
             SmallVector<Value>(task.getIns()), SmallVector<Value>(task.getOuts()))))
      (i < task.getIns().size() ? ins : outs)
          .push_back(types[i] == memory.getType() ? memory : viewOf(b, memory, types[i]));
    auto straight = step::TaskOp::create(b, task.getLoc(), ins, outs, task.getStream());
    straight->setDiscardableAttrs(task->getDiscardableAttrDictionary());
    SmallVector<Type> tensors;
    SmallVector<Location> locations;
    for (auto [in, argument] : llvm::zip(ins, body.getArguments())) {
      tensors.push_back(step::tensorOf(cast<MemRefType>(in.getType())));
      locations.push_back(argument.getLoc());
    }
    Block *block = b.createBlock(&straight.getBody(), {}, tensors, locations);
    IRMapping mapping;
    mapping.map(body.getArguments(), block->getArguments());
    for (Operation &op : body.without_terminator()) {
      if (auto permute = dyn_cast<graph::PermuteOp>(op)) {
        mapping.map(permute.getResult(), mapping.lookup(permute.getX()));
        continue;
      }
      Operation *clone = b.clone(op, mapping);
      auto type = cast<RankedTensorType>(op.getResult(0).getType());
      if (type.getNumElements() == turn.elements())
        clone->getResult(0).setType(type.clone(turn.space()));
    }
    SmallVector<Value> yielded;
    for (Value value : body.getTerminator()->getOperands())
      yielded.push_back(mapping.lookup(value));
    graph::YieldOp::create(b, task.getLoc(), yielded);
    return straight;
  }

  step::TaskOp task;
  Block &body;
  Turn turn;
  llvm::DenseMap<Value, Side> sides;
  SmallVector<MemRefType> types; ///< of the inputs, then of the outputs
};

/// Copies of operands that `task` permutes, in the order in which it reads them.
SmallVector<step::TaskOp> copiesBefore(step::TaskOp task) {
  SmallVector<step::TaskOp> copies;
  Block &body = task.getBody().front();
  for (auto permute : llvm::make_early_inc_range(body.getOps<graph::PermuteOp>())) {
    auto argument = dyn_cast<BlockArgument>(permute.getX());
    std::optional<Turn> turn = Turn::of(permute);
    if (!argument || !turn)
      continue;
    Value from = task.getIns()[argument.getArgNumber()];
    auto type = MemRefType::get(permute.getType().getShape(), permute.getType().getElementType());
    std::optional<MemRefType> in = turn->viewed(cast<MemRefType>(from.getType()), false),
                              out = turn->viewed(type, true);
    if (!in || !out)
      continue;
    OpBuilder b(task);
    Value buffer = step::BufferOp::create(b, permute.getLoc(), type, b.getStringAttr("permuted"),
                                          IntegerAttr());
    copies.push_back(copyTask(b, permute.getLoc(), viewOf(b, from, *in), viewOf(b, buffer, *out),
                              task.getStream()));
    // In the operand's place where nothing else reads it.
    if (argument.hasOneUse()) {
      task.getInsMutable().slice(argument.getArgNumber(), 1).assign(buffer);
      argument.setType(permute.getType());
    } else {
      task.getInsMutable().append(buffer);
      argument = body.addArgument(permute.getType(), permute.getLoc());
    }
    permute.getResult().replaceAllUsesWith(argument);
    permute.erase();
  }
  return copies;
}
} // namespace

SmallVector<step::TaskOp> straightenPermutes(step::TaskOp task) {
  if (step::TaskOp straight = Straightened(task).make()) {
    task.erase();
    return {straight};
  }
  SmallVector<step::TaskOp> tasks = copiesBefore(task);
  tasks.push_back(task);
  return tasks;
}

} // namespace nano::kernels
