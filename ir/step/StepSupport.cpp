// Layouts, buffers behind views, kernels by name, and how messages name things.
#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace nano::step {

//===- Kernels ------------------------------------------------------------===//

KernelTable::KernelTable(ModuleOp module) {
  if (auto nested = module.lookupSymbol<ModuleOp>(kernelModuleName))
    for (auto function : nested.getOps<kernel::FuncOp>())
      kernels.try_emplace(function.getSymNameAttr(), function);
}

kernel::FuncOp KernelTable::find(StringAttr name) const { return kernels.lookup(name); }

//===- Layouts ------------------------------------------------------------===//

int64_t elementBytes(Type type) { return type.getIntOrFloatBitWidth() / 8; }

int64_t contiguousBytes(MemRefType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

Layout layoutOf(MemRefType type) {
  Layout layout;
  if (auto strided = dyn_cast<StridedLayoutAttr>(type.getLayout())) {
    layout.strides.assign(strided.getStrides().begin(), strided.getStrides().end());
    layout.offset = strided.getOffset();
    return layout;
  }
  layout.strides.resize(type.getRank());
  int64_t stride = 1;
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    layout.strides[i] = stride;
    stride *= type.getDimSize(i);
  }
  return layout;
}

ElementRange elementRange(MemRefType type) {
  auto [strides, offset] = layoutOf(type);
  int64_t last = offset;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides))
    last += (size - 1) * stride;
  return {offset, last + 1};
}

bool isContiguous(MemRefType type) {
  auto [strides, offset] = layoutOf(type);
  int64_t expected = 1;
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    if (type.getDimSize(i) != 1 && strides[i] != expected)
      return false;
    expected *= type.getDimSize(i);
  }
  return true;
}

MemRefType memrefOf(RankedTensorType type) {
  return MemRefType::get(type.getShape(), type.getElementType());
}

RankedTensorType tensorOf(MemRefType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

std::optional<SmallVector<int64_t>>
reshapeStrides(ArrayRef<int64_t> oldShape, ArrayRef<int64_t> oldStrides, ArrayRef<int64_t> shape) {
  // The old layout as runs of dimensions that one stride walks through, innermost first; sizes of 1
  // have no stride.
  struct Run {
    int64_t size, stride;
  };
  SmallVector<Run> runs;
  for (int64_t i = int64_t(oldShape.size()) - 1; i >= 0; --i) {
    if (oldShape[i] == 1)
      continue;
    if (!runs.empty() && oldStrides[i] == runs.back().size * runs.back().stride)
      runs.back().size *= oldShape[i];
    else
      runs.push_back({oldShape[i], oldStrides[i]});
  }
  // Each new dimension takes its size from the innermost run that is left, and must divide it.
  SmallVector<int64_t> strides(shape.size(), 1);
  size_t run = 0;
  int64_t last = 1; // what a dimension of size 1 gets: the extent of what lies inside it
  for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] == 1) {
      strides[i] = last;
      continue;
    }
    if (run == runs.size() || runs[run].size % shape[i] != 0)
      return std::nullopt;
    strides[i] = runs[run].stride;
    runs[run].stride *= shape[i];
    runs[run].size /= shape[i];
    last = runs[run].stride;
    if (runs[run].size == 1)
      ++run;
  }
  return strides;
}

std::optional<MatrixLayout> matrixLayout(MemRefType type) {
  int64_t rank = type.getRank();
  if (rank < 2)
    return std::nullopt;
  auto [strides, offset] = layoutOf(type);
  ArrayRef<int64_t> shape = type.getShape();
  MatrixLayout layout;
  layout.rows = shape[rank - 2];
  layout.columns = shape[rank - 1];
  if (layout.columns != 1 && strides[rank - 1] != 1)
    return std::nullopt;
  layout.leading = layout.rows == 1 ? layout.columns : strides[rank - 2];
  if (layout.leading < layout.columns)
    return std::nullopt;
  auto batch = reshapeStrides(shape.drop_back(2), ArrayRef<int64_t>(strides).drop_back(2),
                              {ShapedType::getNumElements(shape.drop_back(2))});
  if (!batch)
    return std::nullopt;
  layout.batch = ShapedType::getNumElements(shape.drop_back(2));
  layout.batchStride = layout.batch == 1 ? layout.rows * layout.leading : batch->front();
  return layout;
}

//===- Buffers and names --------------------------------------------------===//

ArenaOp arenaOf(ModuleOp module) {
  const auto arenas = module.getOps<ArenaOp>();
  return arenas.empty() ? ArenaOp() : *arenas.begin();
}

Operation *bufferOf(Value value) {
  while (auto view = value.getDefiningOp<ViewOp>())
    value = view.getSource();
  return value.getDefiningOp();
}

const void *bufferKey(Value value) {
  Operation *buffer = bufferOf(value);
  if (auto state = dyn_cast_or_null<StateOp>(buffer))
    return state.getSymbolAttr().getAttr().getAsOpaquePointer();
  return buffer;
}

std::string nameOf(Value value) {
  Operation *buffer = bufferOf(value);
  if (auto state = dyn_cast_or_null<StateOp>(buffer))
    return ("@" + state.getSymbol()).str();
  if (auto named = dyn_cast_or_null<BufferOp>(buffer))
    return named.getName().str();
  return "?";
}

bool isInHost(Value value) {
  auto buffer = dyn_cast_or_null<BufferOp>(bufferOf(value));
  return buffer && buffer.getHost();
}

FileLineColLoc fileLocation(Location location) {
  FileLineColLoc found;
  location->walk([&](Location part) {
    found = dyn_cast<FileLineColLoc>(part);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

std::string lineOf(Location location) {
  FileLineColLoc file = fileLocation(location);
  return file ? (file.getFilename().getValue() + ":" + Twine(file.getLine())).str() : "";
}

std::string describeCommand(Operation *command) {
  std::string text = command->getName().getStringRef().str();
  if (auto launch = dyn_cast<LaunchOp>(command))
    text += (" @" + launch.getKernel()).str();
  if (std::string line = lineOf(command->getLoc()); !line.empty())
    text += " (" + line + ")";
  return text;
}

} // namespace nano::step
