// Commands on a simulated arena.
#include "tests/step/StepExecutor.h"

#include "ir/interpreter/Commands.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace nano::step;

namespace nano::test {

static MemRefType typeOf(Value view) { return cast<MemRefType>(view.getType()); }

static int64_t lastSize(ArrayRef<int64_t> shape) { return shape.empty() ? 1 : shape.back(); }

StepExecutor::StepExecutor(ModuleOp module)
    : arena(size_t(arenaOf(module).getEnd()) / 4, std::numeric_limits<double>::quiet_NaN()) {
  auto add = [&](graph::PlacedOpInterface op, ArrayRef<int64_t> shape) {
    symbols[SymbolTable::getSymbolName(op).str()] = {size_t(op.getOffsetAttr().getInt()) / 4,
                                                     shape.vec()};
  };
  for (auto state : module.getOps<graph::StateOp>())
    add(state, state.getTensorType().getShape());
  for (auto scalar : module.getOps<graph::ScalarOp>())
    add(scalar, {});
  for (auto input : module.getOps<InputOp>())
    add(input, cast<MemRefType>(input.getType()).getShape());
}

void StepExecutor::set(StringRef symbol, const TensorValue &value) {
  std::copy(value.data.begin(), value.data.end(), arena.begin() + symbols.at(symbol.str()).first);
}

TensorValue StepExecutor::get(StringRef symbol) const {
  auto [slot, shape] = symbols.at(symbol.str());
  size_t count = size_t(ShapedType::getNumElements(shape));
  return {shape, std::vector<double>(arena.begin() + slot, arena.begin() + slot + count)};
}

std::vector<size_t> StepExecutor::slotsOf(Value view) const {
  Operation *buffer = bufferOf(view);
  auto state = dyn_cast<StateOp>(buffer);
  size_t start =
      state ? symbols.at(state.getSymbol().str()).first : *cast<BufferOp>(buffer).getOffset() / 4;
  auto [strides, offset] = typeOf(view).getStridesAndOffset();
  ArrayRef<int64_t> shape = typeOf(view).getShape();
  std::vector<size_t> slots;
  for (int64_t linear = 0, count = typeOf(view).getNumElements(); linear < count; ++linear) {
    int64_t rest = linear, element = offset;
    for (size_t dim = shape.size(); dim-- > 0;) {
      element += rest % shape[dim] * strides[dim];
      rest /= shape[dim];
    }
    slots.push_back(start + size_t(element));
  }
  return slots;
}

TensorValue StepExecutor::read(Value view) const {
  TensorValue value;
  value.shape = typeOf(view).getShape().vec();
  for (size_t slot : slotsOf(view))
    value.data.push_back(arena[slot]);
  return value;
}

void StepExecutor::write(Value view, const TensorValue &value) {
  for (auto [slot, element] : llvm::zip(slotsOf(view), value.data))
    arena[slot] = element;
}

void StepExecutor::runTask(TaskOp task, std::mt19937_64 &random) {
  int64_t columns = 1, rows = 1;
  for (Value out : task.getOuts())
    if (typeOf(out).getNumElements() >= columns * rows) {
      columns = lastSize(typeOf(out).getShape());
      rows = typeOf(out).getNumElements() / columns;
    }
  std::vector<int64_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  // Without updates in place all rows see the same memory: one evaluation is enough.
  bool inPlace = llvm::any_of(task.getOuts(), [&](Value out) {
    return llvm::any_of(task.getIns(), [&](Value in) { return bufferKey(in) == bufferKey(out); });
  });
  std::vector<std::vector<size_t>> slots;
  for (Value out : task.getOuts())
    slots.push_back(slotsOf(out));
  for (int64_t row : inPlace ? order : std::vector<int64_t>{-1}) {
    SmallVector<TensorValue> inputs;
    for (Value in : task.getIns())
      inputs.push_back(read(in));
    auto results = interpret(task, inputs);
    assert(succeeded(results));
    for (auto [out, list] : llvm::enumerate(slots)) {
      // Outputs with one value a row, or of another space altogether, belong to the row at the same
      // share of their elements.
      size_t count = list.size(), first = 0, last = count;
      if (row >= 0) {
        first = count * size_t(row) / size_t(rows);
        last = count * size_t(row + 1) / size_t(rows);
      }
      for (size_t i = first; i < last; ++i)
        arena[list[i]] = (*results)[out].data[i];
    }
  }
}

void StepExecutor::runMatmul(MatmulOp matmul) {
  SmallVector<TensorValue> inputs;
  for (Value factor : factorsOf(matmul))
    inputs.push_back(read(factor));
  auto results = interpret(matmul, inputs);
  assert(succeeded(results));
  write(matmul.getC(), results->front());
}

TensorValue exchanged(const TensorValue &x, std::vector<int64_t> shape, bool sums) {
  TensorValue result{std::move(shape), {}};
  const auto elements = ShapedType::getNumElements(result.shape);
  for (int64_t i = 0; i < elements; ++i) {
    const double element =
        elements < x.size() ? x.data[x.size() - elements + i] : x.data[i % x.size()];
    result.data.push_back(sums ? 2 * element : element);
  }
  return result;
}

void StepExecutor::exchange(Operation *op, Value source, Value target) {
  write(target, exchanged(read(source), cast<MemRefType>(target.getType()).getShape(),
                          isa<AllReduceOp, ReduceScatterOp>(op)));
}

void StepExecutor::run(ProgramOp program, std::mt19937_64 &random) {
  for (Operation &op : program.getBody().front()) {
    if (auto task = dyn_cast<TaskOp>(op)) {
      runTask(task, random);
    } else if (auto matmul = dyn_cast<MatmulOp>(op)) {
      runMatmul(matmul);
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      write(copy.getTarget(), read(copy.getSource()));
    } else if (auto fill = dyn_cast<FillOp>(op)) {
      for (size_t slot : slotsOf(fill.getBuffer()))
        arena[slot] = 0;
    } else if (auto reduce = dyn_cast<AllReduceOp>(op)) {
      for (Value buffer : reduce.getBuffers())
        exchange(&op, buffer, buffer);
    } else if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
      for (auto [in, out] : llvm::zip_equal(scatter.getIns(), scatter.getOuts()))
        exchange(&op, in, out);
    } else if (auto gather = dyn_cast<AllGatherOp>(op)) {
      for (auto [in, out] : llvm::zip_equal(gather.getIns(), gather.getOuts()))
        exchange(&op, in, out);
    } else if (auto shard = dyn_cast<ShardOp>(op)) {
      for (auto [in, out] : llvm::zip_equal(shard.getIns(), shard.getOuts()))
        exchange(&op, in, out);
    }
    // Events order nothing in a single thread.
  }
}

} // namespace nano::test
