// What must hold of nano.custom, and its derivative: the region that the model file has recorded,
// copied.
#include "ir/graph/Custom.h"

#include "ir/graph/Families.h"
#include "ir/graph/GraphBuilder.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace nano::graph;

#define GET_OP_CLASSES
#include "ir/graph/CustomOps.cpp.inc"

void nano::graph::addCustomOps(NanoDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/graph/CustomOps.cpp.inc"
      >(dialect);
}

bool nano::graph::isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

static bool hasFloats(Value value) { return isa<FloatType>(tensorType(value).getElementType()); }

LogicalResult CustomOp::verify() {
  if (getInputs().empty() || getOutputs().empty())
    return emitOpError("needs an input and a result at least");
  if (!isIdentifier(getName()))
    return emitOpError("name '") << getName() << "' is no identifier of C++";
  if (!getCpu() && !getCuda())
    return emitOpError("has neither a function for the CPU nor one for CUDA");
  constexpr int64_t most = INT32_MAX;
  for (auto [what, number, low, high] :
       {std::tuple("iterations", int64_t(getIterations()), int64_t(1), most),
        std::tuple("grain", int64_t(getGrain()), int64_t(1), most),
        std::tuple("threads", int64_t(getThreads()), int64_t(32), int64_t(1024)),
        std::tuple("block_iterations", int64_t(getBlockIterations()), int64_t(1), most),
        std::tuple("shared_bytes", int64_t(getSharedBytes()), int64_t(0), mostCustomSharedBytes)})
    if (number < low || number > high)
      return emitOpError() << what << " is " << number << ", must lie in [" << low << ", " << high
                           << "]";
  if (getThreads() % 32 != 0)
    return emitOpError("threads is ") << getThreads() << ", must be a multiple of 32";
  if (!(getFlops().convertToDouble() >= 0) || getFlops().isInfinity())
    return emitOpError("flops must be a number of at least 0");
  for (int64_t position : getAdded())
    if (position < 0 || position >= getNumResults())
      return emitOpError("adds to result ") << position << " of " << getNumResults();
  if (ArrayRef<int64_t> indexed = getIndexed(); !indexed.empty()) {
    if (indexed.size() != 2 || indexed[0] < 0 || indexed[0] >= getNumOperands() ||
        !tensorType(getOperand(indexed[0])).getElementType().isInteger(32) || indexed[1] < 1)
      return emitOpError("indexed must be an i32 input and what its elements are below");
  }
  int64_t last = -1;
  for (int64_t position : getGradientOf()) {
    if (position <= last || position >= getNumOperands() || !hasFloats(getOperand(position)))
      return emitOpError("has a gradient of input ")
             << position << ", which is no float input behind those before it";
    last = position;
  }
  for (ArrayRef<int64_t> positions : {getRowInputs(), getKeptInputs()})
    for (int64_t position : positions)
      if (position < 0 || position >= getNumOperands() ||
          tensorType(getOperand(position)).getRank() == 0)
        return emitOpError("has rows of input ") << position << ", which is none or a number";
  for (Type type : llvm::concat<Type>(SmallVector<Type>(getOperandTypes()),
                                      SmallVector<Type>(getResultTypes())))
    if (cast<RankedTensorType>(type).getNumElements() == 0)
      return emitOpError("has an input or result of no elements, ") << type;
  return success();
}

/// A tensor type with one row.
static Type rowType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape.front() = 1;
  return tensor.clone(shape);
}

/// The region `row` takes rows, kept rows or whole inputs, and a position; it yields rows.
LogicalResult CustomOp::verifyRow() {
  if (getRow().empty())
    return success();
  SmallVector<Type> expected(getOperandTypes()), yielded;
  for (int64_t position : getRowInputs())
    expected[position] = rowType(expected[position]);
  expected.push_back(RankedTensorType::get({1}, IntegerType::get(getContext(), 32)));
  for (Type type : getResultTypes()) {
    if (cast<RankedTensorType>(type).getRank() == 0)
      return emitOpError("has a row of a result that is a number");
    yielded.push_back(rowType(type));
  }
  if (!getRow().hasOneBlock() || getRow().front().getArgumentTypes() != TypeRange(expected))
    return emitOpError("row must take the inputs, rows of those that row_inputs lists, and a "
                       "position");
  Block &block = getRow().front();
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getOperandTypes() != TypeRange(yielded))
    return emitOpError("row must yield a row of each result");
  for (Operation &op : block.without_terminator())
    if (!isMemoryEffectFree(&op))
      return emitOpError("row holds ") << op.getName() << ", which touches states";
  return success();
}

LogicalResult CustomOp::verifyRegions() {
  if (failed(verifyRow()))
    return failure();
  if (getDerivative().empty())
    return success();
  SmallVector<Type> expected(getOperandTypes());
  llvm::append_range(expected, getResultTypes());
  for (Value result : getResults())
    if (hasFloats(result))
      expected.push_back(gradientType(result.getType()));
  SmallVector<Type> yielded;
  for (int64_t position : getGradientOf())
    yielded.push_back(gradientType(getOperand(position).getType()));
  if (!getDerivative().hasOneBlock() ||
      getDerivative().front().getArgumentTypes() != TypeRange(expected))
    return emitOpError("derivative must take inputs, results and gradients of the float results");
  Block &block = getDerivative().front();
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getOperandTypes() != TypeRange(yielded))
    return emitOpError("derivative must yield the gradients of the inputs that gradient_of lists");
  for (Operation &op : block.without_terminator())
    if (!isMemoryEffectFree(&op))
      return emitOpError("derivative holds ") << op.getName() << ", which touches states";
  return success();
}

SmallVector<Value> CustomOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  SmallVector<Value> gradients(getNumOperands());
  if (getDerivative().empty())
    return gradients;
  IRMapping mapping;
  Block &block = getDerivative().front();
  auto *argument = block.args_begin();
  for (Value operand : getOperands())
    mapping.map(*argument++, operand);
  for (Value result : getResults())
    mapping.map(*argument++, result);
  GraphBuilder g(builder, getLoc());
  for (auto [result, gradient] : llvm::zip_equal(getResults(), resultGrads))
    if (hasFloats(result))
      mapping.map(*argument++, gradient ? gradient : g.constant(0, gradientType(result.getType())));
  for (Operation &op : block.without_terminator())
    builder.clone(op, mapping);
  for (auto [position, value] :
       llvm::zip_equal(getGradientOf(), block.getTerminator()->getOperands()))
    gradients[position] = mapping.lookup(value);
  return gradients;
}
