// The kernel function of one task: its arguments, scratch memory and attributes.
#include "passes/emit/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nano::kernels {

SmallVector<Value> distinctOperands(step::TaskOp task) {
  llvm::SetVector<Value> distinct;
  distinct.insert(task.getIns().begin(), task.getIns().end());
  distinct.insert(task.getOuts().begin(), task.getOuts().end());
  return distinct.takeVector();
}

bool mayOverlap(Value a, Value b) { return step::bufferKey(a) == step::bufferKey(b); }

int64_t alignmentOf(Value operand) {
  auto type = cast<MemRefType>(operand.getType());
  int64_t bytes = step::layoutOf(type).offset * step::elementBytes(type.getElementType());
  if (bytes == 0 || type.getNumElements() == 1)
    return 16;
  return std::min<int64_t>(16, int64_t{1} << llvm::countr_zero(static_cast<uint64_t>(bytes)));
}

SmallVector<int64_t> stridesOf(MemRefType type) {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    llvm_unreachable("buffers have strided layouts");
  return strides;
}

Location linesOf(step::TaskOp task) {
  llvm::SetVector<Location> lines;
  for (Operation &op : task.getBody().front().without_terminator())
    lines.insert(op.getLoc());
  if (lines.empty())
    return task.getLoc();
  return FusedLoc::get(task.getContext(), lines.getArrayRef());
}

std::string summaryOf(step::TaskOp task) {
  std::string summary;
  StringRef last;
  int64_t count = 0;
  auto flush = [&] {
    if (count == 0)
      return;
    summary += (summary.empty() ? "" : ", ") + last.str() +
               (count > 1 ? " ×" + std::to_string(count) : "");
  };
  for (Operation &op : task.getBody().front().without_terminator()) {
    StringRef name = op.getName().stripDialect();
    if (name == "constant")
      continue;
    if (name != last) {
      flush();
      last = name;
      count = 0;
    }
    ++count;
  }
  flush();
  return summary.empty() ? "copy" : summary;
}

MemRefType KernelFrame::argumentType(MemRefType type) {
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t contiguous = 1;
  bool plain = true;
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    plain &= type.getDimSize(i) == 1 || strides[i] == contiguous;
    contiguous *= type.getDimSize(i);
  }
  if (plain)
    return MemRefType::get(type.getShape(), type.getElementType());
  return MemRefType::get(type.getShape(), type.getElementType(),
                         StridedLayoutAttr::get(type.getContext(), 0, strides));
}

KernelFrame::KernelFrame(step::TaskOp task, const KernelOptions &options, OpBuilder &moduleBuilder,
                         StringRef name, ArgumentType typeOf)
    : task(task), options(options), loc(linesOf(task)), builder(task.getContext()),
      operands(distinctOperands(task)) {
  SmallVector<Type> types;
  for (Value operand : operands)
    types.push_back(typeOf(cast<MemRefType>(operand.getType())));
  types.push_back(scratchType(ShapedType::kDynamic));
  types.push_back(builder.getIndexType());
  types.push_back(builder.getIndexType());
  function = kernel::FuncOp::create(
      moduleBuilder, loc, name, builder.getFunctionType(types, {}),
      llvm::map_to_vector(operands, [&](Value operand) { return parameterOf(operand); }));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  llvm::DenseMap<Value, Value> arguments;
  for (auto [operand, argument] : llvm::zip(operands, entry->getArguments()))
    arguments[operand] = argument;
  for (Value in : task.getIns())
    inputs.push_back(arguments[in]);
  for (Value out : task.getOuts())
    outputs.push_back(arguments[out]);
  scratch = entry->getArgument(operands.size());
  begin = entry->getArgument(operands.size() + 1);
  end = entry->getArgument(operands.size() + 2);
}

kernel::ParameterAttr KernelFrame::parameterOf(Value operand) {
  const kernel::Access access = kernel::accessOf(llvm::is_contained(task.getIns(), operand),
                                                 llvm::is_contained(task.getOuts(), operand));
  // What the text of a kernel for CUDA says of its pointers.
  if (!options.onGpu)
    return kernel::ParameterAttr::get(builder.getContext(), access);
  const bool isWritten =
      llvm::any_of(task.getOuts(), [&](Value out) { return mayOverlap(out, operand); });
  return kernel::ParameterAttr::get(builder.getContext(), access, step::nameOf(operand),
                                    alignmentOf(operand), /*constant=*/!isWritten, /*picks=*/0);
}

Value KernelFrame::flat(Value argument) {
  auto type = cast<MemRefType>(argument.getType());
  if (type.getRank() == 1 && type.getLayout().isIdentity())
    return argument;
  Value &cached = flats[argument];
  if (cached)
    return cached;
  int64_t extent = 1;
  for (auto [size, stride] : llvm::zip(type.getShape(), stridesOf(type)))
    extent += (size - 1) * stride;
  OpBuilder atStart = OpBuilder::atBlockBegin(&function.getBody().front());
  cached = memref::ReinterpretCastOp::create(
      atStart, loc, MemRefType::get({extent}, type.getElementType()), argument,
      /*offset=*/int64_t{0}, ArrayRef<int64_t>{extent}, ArrayRef<int64_t>{1});
  return cached;
}

Value KernelFrame::allocate(int64_t elements, Type type) {
  OpBuilder atStart = OpBuilder::atBlockBegin(&function.getBody().front());
  Value offset = arith::ConstantIndexOp::create(atStart, loc, scratchBytes);
  scratchBytes = llvm::alignTo(
      scratchBytes + elements * llvm::divideCeil(type.getIntOrFloatBitWidth(), 8), 64);
  auto viewType = MemRefType::get({elements}, type, MemRefLayoutAttrInterface(),
                                  cast<MemRefType>(scratch.getType()).getMemorySpace());
  return memref::ViewOp::create(atStart, loc, viewType, scratch, offset, ValueRange{});
}

Value KernelFrame::callDevice(OpBuilder &b, StringRef callee, Type result, ValueRange operands) {
  auto module = function->getParentOfType<ModuleOp>();
  TypeRange results = result ? TypeRange(result) : TypeRange();
  // A function takes memory of any size and at any place in what it is a part of: who calls it by
  // one name may have more than another.
  SmallVector<Value> given(operands);
  for (Value &operand : given)
    if (auto type = dyn_cast<MemRefType>(operand.getType())) {
      const SmallVector<int64_t> any(type.getRank(), ShapedType::kDynamic);
      const auto general = MemRefType::get(
          any, type.getElementType(),
          StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, any), type.getMemorySpace());
      if (type != general)
        operand = memref::CastOp::create(b, loc, general, operand);
    }
  if (!module.lookupSymbol(callee)) {
    OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
    auto declaration = func::FuncOp::create(
        atStart, module.getLoc(), callee, b.getFunctionType(TypeRange(ValueRange(given)), results));
    declaration.setPrivate();
  }
  auto call = func::CallOp::create(b, loc, callee, results, given);
  return result ? call.getResult(0) : Value();
}

MemRefType KernelFrame::scratchType(int64_t bytes) {
  Attribute space;
  if (options.onGpu)
    space = builder.getI64IntegerAttr(sharedMemorySpace);
  return MemRefType::get({bytes}, builder.getI8Type(), MemRefLayoutAttrInterface(), space);
}

bool KernelFrame::updatesInPlace(unsigned output) {
  return llvm::any_of(task.getIns(),
                      [&](Value in) { return mayOverlap(in, task.getOuts()[output]); });
}

void KernelFrame::finish() {
  OpBuilder atEnd = OpBuilder::atBlockEnd(&function.getBody().front());
  kernel::ReturnOp::create(atEnd, loc);

  scratch.setType(scratchType(scratchBytes));
  SmallVector<Type> types(function.getBody().front().getArgumentTypes());
  function.setFunctionType(builder.getFunctionType(types, {}));
  function.setGrain(grain);
  function.setSummary(summaryOf(task));
  if (options.onGpu)
    function.setLaunchAttr(kernel::LaunchAttr::get(builder.getContext(), threads, blockIterations,
                                                   /*cluster=*/1, residentBlocks,
                                                   sharesExponentials));
}

} // namespace nano::kernels
