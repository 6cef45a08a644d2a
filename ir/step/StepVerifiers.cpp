// What must hold of each op of the `step` dialect.
#include "base/Limits.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/Shapes.h"
#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace nano::step;
namespace kernel = nano::kernel;

/// Bytes to which every buffer's offset is aligned.
static constexpr int64_t alignment = 256;

static LogicalResult verifyOffset(Operation *op, std::optional<uint64_t> offset) {
  if (offset && (int64_t(*offset) < 0 || *offset % alignment != 0))
    return op->emitOpError("offset ")
           << int64_t(*offset) << " is not a non-negative multiple of " << alignment;
  return success();
}

static LogicalResult verifyWhole(Operation *op, MemRefType type) {
  if (!type.getLayout().isIdentity())
    return op->emitOpError("type ") << type << " is not contiguous from offset 0";
  return success();
}

/// What ranks exchange, and products are of.
static bool isReal(Type element) { return element.isF32() || element.isBF16(); }

static LogicalResult verifyContiguous(Operation *op, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isStrided() || !isContiguous(type))
    return op->emitOpError("buffer ") << type << " is not contiguous";
  return success();
}

//===- Programs and buffers -----------------------------------------------===//

/// When a program runs: one of the training loop's roles, steps of which there are some.
static LogicalResult verifyWhen(ProgramOp program) {
  if (std::optional<StringRef> role = program.getRole();
      role && !llvm::is_contained({"first", "next", "last", "update", "validate", "generate",
                                   "decode", "measure", "event"},
                                  *role))
    return program.emitOpError("has the role \"") << *role << "\", which no loop runs";
  if (std::optional<uint64_t> step = program.getEventStep(); step && int64_t(*step) < 0)
    return program.emitOpError("is of step ") << int64_t(*step) << ", which is negative";
  for (auto [what, list] :
       {std::pair("phases", program.getPhases()), std::pair("stages", program.getStages())}) {
    if (!list)
      continue;
    llvm::SmallDenseSet<int64_t> seen;
    if (list->empty() ||
        llvm::any_of(*list, [&](int64_t i) { return i < 0 || !seen.insert(i).second; }))
      return program.emitOpError(what) << " are no list of different numbers from 0 on";
  }
  return success();
}

/// What lies in the host's memory only copies reach.
static LogicalResult verifyReach(Operation &command) {
  if (isa<CopyOp>(command))
    return success();
  for (Value operand : command.getOperands())
    if (isInHost(operand))
      return command.emitOpError("touches buffer '")
             << nameOf(operand) << "' in the host's memory, which step.copy alone reaches";
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (failed(verifyWhen(*this)))
    return failure();
  llvm::DenseMap<uint64_t, Operation *> recorded;
  for (Operation &op : getBody().front()) {
    if (!isa<BufferOp, StateOp, ViewOp, StepCommandOpInterface>(op))
      return op.emitOpError("is neither a buffer, a view nor a command of the step dialect");
    if (auto command = dyn_cast<StepCommandOpInterface>(op);
        command && command.getStream() >= nano::mostStreams)
      return op.emitOpError("stream ")
             << int64_t(command.getStream()) << " is none of 0 to " << nano::mostStreams - 1;
    if (isa<StepCommandOpInterface>(op) && failed(verifyReach(op)))
      return failure();
    if (auto record = dyn_cast<RecordOp>(op)) {
      auto [first, isNew] = recorded.try_emplace(record.getEvent(), &op);
      if (!isNew)
        return (record.emitOpError("event ") << record.getEvent() << " is recorded twice")
                   .attachNote(first->second->getLoc())
               << "the first time here";
    }
    if (auto wait = dyn_cast<WaitOp>(op); wait && !recorded.contains(wait.getEvent()))
      return wait.emitOpError("no earlier command records event ") << wait.getEvent();
  }
  return success();
}

LogicalResult BufferOp::verify() {
  if (failed(verifyOffset(*this, getOffset())))
    return failure();
  return verifyWhole(*this, getType());
}

LogicalResult InputOp::verify() {
  auto type = dyn_cast<MemRefType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("type ") << getType() << " is not a memref of static shape";
  if (failed(verifyOffset(*this, getOffset())))
    return failure();
  return verifyWhole(*this, type);
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *symbol = symbols.lookupNearestSymbolFrom(*this, getSymbolAttr());
  MemRefType expected;
  if (auto state = dyn_cast_or_null<graph::StateOp>(symbol))
    expected = memrefOf(state.getTensorType());
  else if (auto scalar = dyn_cast_or_null<graph::ScalarOp>(symbol))
    expected = MemRefType::get({}, scalar.getType());
  else if (auto input = dyn_cast_or_null<InputOp>(symbol))
    expected = cast<MemRefType>(input.getType());
  if (!expected)
    return emitOpError("no state, scalar or input is called ") << getSymbolAttr();
  if (getType() != expected)
    return emitOpError("type ") << getType() << " is not that of " << getSymbolAttr()
                                << ", which is " << expected;
  return success();
}

/// True when two index tuples of the layout may name one element. Exact for what slices and
/// reshapes make: sorted by stride, each dimension steps over the whole extent of the smaller ones.
static bool mayOverlapItself(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  SmallVector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (auto [size, stride] : llvm::zip(shape, strides))
    if (size != 1)
      dims.push_back({stride, size});
  llvm::sort(dims);
  int64_t extent = 1;
  for (auto [stride, size] : dims) {
    if (stride < extent)
      return true;
    extent += stride * (size - 1);
  }
  return false;
}

LogicalResult ViewOp::verify() {
  Operation *buffer = bufferOf(getSource());
  if (!isa_and_nonnull<BufferOp, StateOp>(buffer))
    return emitOpError("source is neither a buffer, a state's buffer, nor a view of one");
  auto whole = cast<MemRefType>(buffer->getResult(0).getType());
  MemRefType type = getType();
  if (type.getElementType() != whole.getElementType())
    return emitOpError("element type ")
           << type.getElementType() << " is not the buffer's, " << whole.getElementType();
  auto strided = dyn_cast<StridedLayoutAttr>(type.getLayout());
  if (strided ? !strided.hasStaticLayout() : !type.getLayout().isIdentity())
    return emitOpError("layout of ") << type << " is not strided with static strides and offset";
  auto [strides, offset] = layoutOf(type);
  if (mayOverlapItself(type.getShape(), strides))
    return emitOpError("layout of ") << type << " names an element more than once";
  int64_t last = offset;
  for (auto [size, stride] : llvm::zip(type.getShape(), strides))
    last += (size - 1) * stride;
  if (offset < 0 || (type.getNumElements() != 0 && last >= whole.getNumElements()))
    return emitOpError("elements ")
           << offset << " to " << last << " are not all inside the buffer, which has "
           << whole.getNumElements();
  return success();
}

//===- Commands -----------------------------------------------------------===//

LogicalResult TaskOp::verifyRegions() {
  Block &block = getBody().front();
  auto matches = [](Value tensor, Value buffer) {
    return tensor.getType() == tensorOf(cast<MemRefType>(buffer.getType()));
  };
  if (block.getNumArguments() != getIns().size())
    return emitOpError("has ") << getIns().size() << " inputs, but its block has "
                               << block.getNumArguments() << " arguments";
  for (auto [i, input] : llvm::enumerate(getIns()))
    if (!matches(block.getArgument(i), input))
      return emitOpError("block argument ") << i << " is " << block.getArgument(i).getType()
                                            << ", but input " << i << " is " << input.getType();
  auto yield = dyn_cast<graph::YieldOp>(block.getTerminator());
  if (!yield)
    return emitOpError("region must end with nano.yield");
  if (yield.getValues().size() != getOuts().size())
    return emitOpError("has ") << getOuts().size() << " outputs, but yields "
                               << yield.getValues().size() << " values";
  for (auto [i, output] : llvm::enumerate(getOuts()))
    if (!matches(yield.getValues()[i], output))
      return emitOpError("yields ") << yield.getValues()[i].getType() << " for output " << i
                                    << ", which is " << output.getType();
  return success();
}

/// True when a buffer may be passed for a kernel's argument: plain memory of the element type, or
/// the same shape where it is static.
static bool fitsArgument(MemRefType buffer, MemRefType argument) {
  if (buffer.getElementType() != argument.getElementType())
    return false;
  if (argument.getRank() == 1 && argument.isDynamicDim(0))
    return true;
  return succeeded(verifyCompatibleShape(buffer.getShape(), argument.getShape()));
}

static kernel::FuncOp findKernel(Operation *op, FlatSymbolRefAttr name,
                                 SymbolTableCollection &symbols) {
  return symbols.lookupNearestSymbolFrom<kernel::FuncOp>(
      op, SymbolRefAttr::get(op->getContext(), kernelModuleName, {name}));
}

/// Each candidate takes the first of the buffers, and reads and writes them as the command does.
static LogicalResult verifyCandidates(Operation *op, ArrayAttr candidates,
                                      ArrayRef<Access> accesses, SymbolTableCollection &symbols) {
  if (!candidates)
    return success();
  for (auto name : candidates.getAsRange<FlatSymbolRefAttr>()) {
    kernel::FuncOp kernel = findKernel(op, name, symbols);
    if (!kernel)
      return op->emitOpError("no kernel of module @")
             << kernelModuleName << " is called " << name << ", a candidate";
    if (kernel.getNumBuffers() > accesses.size())
      return op->emitOpError("candidate ")
             << name << " takes " << kernel.getNumBuffers() << " buffers, of " << accesses.size();
    if (!kernel.getIterations())
      return op->emitOpError("candidate ") << name << " does not say how many iterations it has";
    for (auto [i, access] : llvm::enumerate(accesses.take_front(kernel.getNumBuffers())))
      if (kernel.reads(i) != access.reads || kernel.writes(i) != access.writes ||
          !fitsArgument(cast<MemRefType>(access.buffer.getType()), kernel.getBufferType(i)))
        return op->emitOpError("candidate ")
               << name << " takes another buffer than the command's at " << i
               << ", or does something else with it";
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  kernel::FuncOp kernel = findKernel(*this, getKernelAttr(), symbols);
  if (!kernel)
    return emitOpError("no kernel of module @")
           << kernelModuleName << " is called " << getKernelAttr();
  if (int64_t(getSegments()) < 1)
    return emitOpError("needs at least one set of operands");
  const size_t arguments = kernel.getNumBuffers();
  if (getBuffers().size() != arguments * getSegments())
    return emitOpError("has ") << getBuffers().size() << " buffers, but " << getSegments()
                               << " sets of the " << arguments << " arguments of "
                               << getKernelAttr();
  if (std::optional<ArrayRef<int64_t>> iterations = getIterations()) {
    if (iterations->size() != getSegments())
      return emitOpError("has ") << getSegments() << " sets of operands, but iterations for "
                                 << iterations->size();
    if (llvm::any_of(*iterations, [](int64_t count) { return count < 0; }))
      return emitOpError("a number of iterations is negative");
  } else if (!kernel.getIterations()) {
    return emitOpError("neither it nor its kernel says how many iterations there are");
  }
  for (auto [i, buffer] : llvm::enumerate(getBuffers())) {
    const MemRefType expected = kernel.getBufferType(i % arguments);
    auto type = cast<MemRefType>(buffer.getType());
    if (!fitsArgument(type, expected))
      return emitOpError("buffer ") << i << " is " << type << ", but argument " << i % arguments
                                    << " of " << getKernelAttr() << " is " << expected;
  }
  if (getCandidates() && getSegments() != 1)
    return emitOpError("has candidates and several sets of operands");
  SmallVector<Access> accesses;
  for (auto [i, buffer] : llvm::enumerate(getBuffers()))
    accesses.push_back({buffer, kernel.reads(i % arguments), kernel.writes(i % arguments)});
  return verifyCandidates(*this, getCandidatesAttr(), accesses, symbols);
}

LogicalResult MatmulOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Access> accesses;
  for (Value buffer : getCandidateBuffers())
    accesses.push_back({buffer, buffer != getC(), buffer == getC()});
  if (getCandidates() && (getA() != getB() || getC() == getA() || getC() == getD()))
    return emitOpError("has candidates, which take one factor, and nothing in the result's place");
  return verifyCandidates(*this, getCandidatesAttr(), accesses, symbols);
}

/// The scales of f8 operands: none for other types, else two, each one number or one a block.
static LogicalResult verifyScales(MatmulOp op, const MatrixLayout &a, const MatrixLayout &b) {
  auto typeOf = [](Value buffer) { return cast<MemRefType>(buffer.getType()); };
  auto holdsFloat8 = [&](Value buffer) {
    return nano::graph::isFloat8(typeOf(buffer).getElementType());
  };
  Value scaleA = op.getScaleA(), scaleB = op.getScaleB();
  bool scaled = holdsFloat8(op.getA());
  if (scaled != holdsFloat8(op.getB()))
    return op.emitOpError("one operand is f8, the other is not: ")
           << op.getA().getType() << " and " << op.getB().getType();
  if (!scaleA || !scaleB) {
    if (scaled || scaleA || scaleB)
      return op.emitOpError("f8 operands need two scales: `scales(%a, %b)`");
    return success();
  }
  if (!scaled)
    return op.emitOpError("scales belong to f8 operands; these are ")
           << typeOf(op.getA()).getElementType();
  if (a.batch != 1 || b.batch != 1)
    return op.emitOpError("f8 operands must be single matrices");
  for (Value scale : {scaleA, scaleB})
    if (!typeOf(scale).getElementType().isF32())
      return op.emitOpError("scale ") << typeOf(scale) << " has no f32 elements";
  if ((typeOf(scaleA).getRank() == 0) != (typeOf(scaleB).getRank() == 0))
    return op.emitOpError("one scale is a number, the other is one a block: ")
           << typeOf(scaleA) << " and " << typeOf(scaleB);
  if (typeOf(scaleA).getRank() == 0)
    return success();
  for (bool left : {true, false}) {
    const MatrixLayout &layout = left ? a : b;
    std::string message = nano::graph::blockScaleError(
        {layout.rows, layout.columns}, typeOf(left ? scaleA : scaleB).getShape(),
        left ? !op.getTransposeA() : op.getTransposeB(), nano::graph::ScaledMatmulOp::blockSize);
    if (!message.empty())
      return op.emitOpError(left ? "scale_a " : "scale_b ") << message;
  }
  return success();
}

LogicalResult MatmulOp::verify() {
  struct Operand {
    const char *name;
    Value buffer;
  };
  SmallVector<Operand> operands = {{"a", getA()}, {"b", getB()}, {"c", getC()}};
  if (getD())
    operands.push_back({"d", getD()});
  SmallVector<MatrixLayout> layouts;
  for (const Operand &operand : operands) {
    auto type = cast<MemRefType>(operand.buffer.getType());
    std::optional<MatrixLayout> layout = matrixLayout(type);
    if (!layout)
      return emitOpError(operand.name)
             << " is " << type << ", which is no batch of row-major matrices at one distance";
    layouts.push_back(*layout);
  }
  const MatrixLayout &a = layouts[0], &b = layouts[1], &c = layouts[2];
  int64_t m = getTransposeA() ? a.columns : a.rows, k = getTransposeA() ? a.rows : a.columns;
  int64_t n = getTransposeB() ? b.rows : b.columns, inner = getTransposeB() ? b.columns : b.rows;
  if (k != inner)
    return emitOpError("inner dimensions differ: ") << k << " and " << inner;
  if (failed(verifyScales(*this, a, b)))
    return failure();
  auto element = [](Value buffer) { return cast<MemRefType>(buffer.getType()).getElementType(); };
  const Type left = element(getA()), right = element(getB()), result = element(getC());
  if (!nano::graph::isFloat8(left) && (left != right || !isReal(left)))
    return emitOpError("operands of element types ")
           << left << " and " << right << ": both f32, or both bf16";
  if (!isReal(result))
    return emitOpError("result of element type ") << result << ": f32 or bf16";
  if (a.batch != b.batch || a.batch != c.batch)
    return emitOpError("batch sizes differ: ") << a.batch << ", " << b.batch << " and " << c.batch;
  if (c.rows != m || c.columns != n)
    return emitOpError("the result is ") << c.rows << "×" << c.columns << ", not " << m << "×" << n;
  if (getD()) {
    auto dType = cast<MemRefType>(getD().getType()), cType = cast<MemRefType>(getC().getType());
    if (dType.getShape() != cType.getShape() || dType.getElementType() != cType.getElementType())
      return emitOpError("d is ") << dType << ", which is not the result's shape and element type, "
                                  << cType;
  }
  return success();
}

/// Contiguous buffers of f32 or bf16, all of one type.
static LogicalResult verifyExchanged(Operation *op) {
  Type first;
  for (Value buffer : op->getOperands()) {
    Type element = cast<MemRefType>(buffer.getType()).getElementType();
    if (!isReal(element))
      return op->emitOpError("buffer of element type ") << element << ": f32 or bf16";
    if (first && element != first)
      return op->emitOpError("buffers have different element types");
    first = element;
    if (failed(verifyContiguous(op, buffer)))
      return failure();
  }
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (getCombiner() == graph::Combiner::logsumexp)
    return emitOpError("ranks exchange a sum or a maximum, not a log-sum-exp");
  return verifyExchanged(*this);
}

/// Pairs of a whole and one of its `parts` parts.
static LogicalResult verifyParts(Operation *op, ValueRange wholes, ValueRange pieces,
                                 int64_t parts) {
  if (wholes.size() != pieces.size())
    return op->emitOpError("has ")
           << op->getNumOperands() << " buffers, which are no pairs of source and target";
  for (auto [whole, piece] : llvm::zip_equal(wholes, pieces)) {
    auto wholeType = cast<MemRefType>(whole.getType()), type = cast<MemRefType>(piece.getType());
    if (parts < 1 || wholeType.getNumElements() != parts * type.getNumElements())
      return op->emitOpError("of ")
             << parts << " parts: " << type << " is not one of " << wholeType;
  }
  return verifyExchanged(op);
}

LogicalResult ReduceScatterOp::verify() {
  return verifyParts(*this, getIns(), getOuts(), getParts());
}
LogicalResult AllGatherOp::verify() { return verifyParts(*this, getOuts(), getIns(), getParts()); }
LogicalResult ShardOp::verify() { return verifyParts(*this, getIns(), getOuts(), getParts()); }

LogicalResult FillOp::verify() { return verifyContiguous(*this, getBuffer()); }

LogicalResult CopyOp::verify() {
  auto from = cast<MemRefType>(getSource().getType()), to = cast<MemRefType>(getTarget().getType());
  if (from.getElementType() != to.getElementType() || from.getNumElements() != to.getNumElements())
    return emitOpError("source ") << from << " and target " << to
                                  << " differ in element type or number of elements";
  if (isInHost(getSource()) && isInHost(getTarget()))
    return emitOpError("goes from the host's memory to itself");
  if (failed(verifyContiguous(*this, getSource())))
    return failure();
  return verifyContiguous(*this, getTarget());
}

static LogicalResult verifyEvent(Operation *op, uint64_t event) {
  if (int64_t(event) < 0)
    return op->emitOpError("event ") << int64_t(event) << " is negative";
  return success();
}
LogicalResult RecordOp::verify() { return verifyEvent(*this, getEvent()); }
LogicalResult WaitOp::verify() { return verifyEvent(*this, getEvent()); }
