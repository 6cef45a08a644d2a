// Score regions and epilogues as functions beside a kernel: element-wise code of numbers or of
// neighbours of a row.
#include "passes/cuda/TemplateFunctions.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/cuda/FactorSums.h"
#include "passes/emit/VectorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nano::kernels {

/// Neighbours of a row that an epilogue is called for: 16 bytes of the product.
static int64_t epilogueLanes(const nano::Product &product) {
  return 16 / step::elementBytes(getElementTypeOrSelf(product.result.getType()));
}

SmallVector<Value> memrefsOf(step::TaskOp task, Value result) {
  SmallVector<Value> memrefs;
  for (auto [i, yielded] : llvm::enumerate(task.getBody().front().getTerminator()->getOperands()))
    if (yielded == result)
      memrefs.push_back(task.getOuts()[i]);
  return memrefs;
}

int64_t rowsRead(step::TaskOp task, ArrayRef<Value> places) {
  const Value table = places.front();
  const auto type = cast<MemRefType>(table.getType());
  const int64_t rows = type.getDimSize(0), columns = type.getNumElements() / rows;
  if (places.size() > 1 || !table.getDefiningOp<step::BufferOp>() ||
      llvm::is_contained(task.getIns(), table))
    return rows;
  int64_t read = 0;
  for (Operation *user : table.getUsers()) {
    if (user == task)
      continue;
    auto view = dyn_cast<step::ViewOp>(user);
    if (!view)
      return rows;
    const auto part = cast<MemRefType>(view.getResult().getType());
    const step::Layout layout = step::layoutOf(part);
    int64_t last = layout.offset;
    for (auto [size, stride] : llvm::zip_equal(part.getShape(), layout.strides))
      last += (size - 1) * stride;
    read = std::max(read, last / columns + 1);
  }
  return read == 0 ? rows : read;
}

llvm::DenseMap<Value, SumInPlace> sumsInPlace(step::TaskOp task) {
  llvm::DenseMap<Value, SumInPlace> sums;
  for (Value result : nano::epilogueResults(task.getBody().front())) {
    auto add = result.getDefiningOp<graph::AddOp>();
    const SmallVector<Value> places = memrefsOf(task, result);
    if (!add || !getElementTypeOrSelf(result.getType()).isF32() || places.size() != 1 ||
        !add->hasOneUse())
      continue;
    for (unsigned i : {0, 1}) {
      auto argument = dyn_cast<BlockArgument>(add->getOperand(i));
      if (argument && argument.hasOneUse() && task.getIns()[argument.getArgNumber()] == places[0] &&
          llvm::none_of(llvm::enumerate(task.getIns()), [&](auto in) {
            return in.index() != argument.getArgNumber() && mayOverlap(in.value(), places[0]);
          }))
        sums[result] = {add->getOperand(1 - i), argument};
    }
  }
  return sums;
}
SmallVector<Value> epilogueReads(step::TaskOp task,
                                 const llvm::DenseMap<Value, SumInPlace> &inPlace) {
  SmallVector<Value> reads = nano::epilogueOperands(task.getBody().front());
  for (const auto &[result, sum] : inPlace)
    llvm::erase(reads, sum.replaced);
  return reads;
}

/// True where the epilogue makes one number of its neighbours for a result.
static bool isNumber(Value result) {
  return nano::partialSumsOf(result) || nano::partialLargestOf(result);
}

EpilogueResults resultsOf(step::TaskOp task, const llvm::DenseMap<Value, SumInPlace> &inPlace) {
  EpilogueResults results;
  for (Value result : nano::epilogueResults(task.getBody().front())) {
    const auto index = int64_t(results.places.size());
    if (inPlace.contains(result))
      results.added.push_back(index);
    if (nano::partialColumnSumsOf(result))
      results.columnSum = index;
    if (nano::partialLargestOf(result))
      results.largest.push_back(index);
    results.places.push_back(memrefsOf(task, result));
    if (isNumber(result))
      results.numbers.insert_range(results.places.back());
    if (nano::partialSumsOf(result))
      results.sums.insert_range(results.places.back());
    else
      results.storesOthers |= !nano::productOf(result.getDefiningOp());
  }
  return results;
}

LogicalResult scoreFunction(Region &region, StringRef name, OpBuilder &moduleBuilder) {
  SmallVector<Type> types;
  for (Type type : region.getArgumentTypes())
    types.push_back(getElementTypeOrSelf(type));
  Location loc = region.getLoc();
  auto function = func::FuncOp::create(
      moduleBuilder, loc, name, moduleBuilder.getFunctionType(types, moduleBuilder.getF32Type()));
  function.setPrivate();
  Block *entry = function.addEntryBlock();
  OpBuilder b = OpBuilder::atBlockEnd(entry);
  VectorOps v(b, loc, /*lanes=*/1);
  v.usesLibrary = true;
  llvm::DenseMap<Value, Value> values;
  for (auto [argument, value] : llvm::zip(region.getArguments(), entry->getArguments()))
    values[argument] = value;
  for (Operation &op : region.front().without_terminator()) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    FailureOr<Value> value = v.elementwise(&op, operands);
    if (failed(value))
      return failure();
    values[op.getResult(0)] = *value;
  }
  func::ReturnOp::create(b, loc, values[region.front().getTerminator()->getOperand(0)]);
  return success();
}
/// σ(x) as 1/(1 + 2^(−x·log₂e)): with a reciprocal of its own, and a constant factor that the sum
/// which x is can take.
static Value sigmoidOfPower(VectorOps &v, Value x) {
  constexpr double log2OfE = 1.44269504088896341;
  const Value power = math::Exp2Op::create(v.b, v.loc, v.mulf(x, v.f32(-log2OfE)));
  return v.divf(v.f32(1.0), v.addf(v.f32(1.0), power));
}

LogicalResult epilogueFunction(step::TaskOp task, StringRef name, OpBuilder &moduleBuilder) {
  Block &body = task.getBody().front();
  const SmallVector<nano::Product, 2> products = nano::productsOf(body);
  const int64_t lanes = epilogueLanes(products.front());
  const SmallVector<Value> results = nano::epilogueResults(body);
  SmallVector<Value> operands;
  for (const nano::Product &product : products)
    operands.push_back(product.result);
  const llvm::DenseMap<Value, SumInPlace> inPlace = sumsInPlace(task);
  llvm::append_range(operands, epilogueReads(task, inPlace));
  auto valueType = [&](Value value) -> Type {
    const auto type = cast<RankedTensorType>(value.getType());
    return type.getRank() == 0 || isNumber(value) || nano::hasNumberOfRow(value)
               ? type.getElementType()
               : VectorType::get({lanes}, type.getElementType());
  };
  Location loc = linesOf(task);
  auto function =
      func::FuncOp::create(moduleBuilder, loc, name,
                           moduleBuilder.getFunctionType(llvm::map_to_vector(operands, valueType),
                                                         llvm::map_to_vector(results, valueType)));
  function.setPrivate();
  Block *entry = function.addEntryBlock();
  OpBuilder b = OpBuilder::atBlockEnd(entry);
  VectorOps v(b, loc, lanes);
  v.usesLibrary = true;
  auto called = [&](const Twine &text) { return NameLoc::get(b.getStringAttr(text)); };
  // Epilogues with sums along rows have warps of their own, which wait for special functions rather
  // than for instructions.
  const bool addsRows =
      llvm::any_of(results, [](Value result) { return bool(nano::partialSumsOf(result)); });
  llvm::DenseMap<Value, Value> values;
  for (auto [operand, argument] : llvm::zip_equal(operands, entry->getArguments())) {
    values[operand] = argument;
    if (!getElementTypeOrSelf(argument.getType()).isBF16())
      continue;
    auto in = dyn_cast<BlockArgument>(operand);
    Type wide = b.getF32Type();
    values[operand] = arith::ExtFOp::create(
        b,
        called((in ? step::nameOf(task.getIns()[in.getArgNumber()]) : std::string("product")) +
               "_value"),
        isa<VectorType>(argument.getType()) ? v.vectorOf(wide) : wide, argument);
  }
  for (Operation &op : body.without_terminator()) {
    if (nano::productOf(&op) || inPlace.contains(op.getResult(0)))
      continue;
    v.loc = called(op.getName().stripDialect());
    if (isa<graph::BroadcastOp, graph::ReshapeOp>(op)) {
      values[op.getResult(0)] = values[op.getOperand(0)];
      continue;
    }
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
      // The template adds up the rows of a sum of columns.
      const Value summands = v.splat(values[reduce.getX()]);
      values[reduce.getResult()] = nano::partialSumsOf(reduce)      ? v.sumLanes(summands)
                                   : nano::partialLargestOf(reduce) ? v.maxLanes(summands)
                                                                    : summands;
      continue;
    }
    SmallVector<Value> read;
    for (Value operand : op.getOperands())
      read.push_back(values[operand]);
    if (Value ofPairs = v.elementwiseOfPairs(&op, read)) {
      values[op.getResult(0)] = ofPairs;
      continue;
    }
    if (isa<graph::SigmoidOp>(op) && !addsRows) {
      values[op.getResult(0)] =
          v.roundTo(getElementTypeOrSelf(op.getResult(0).getType()), sigmoidOfPower(v, read[0]));
      continue;
    }
    FailureOr<Value> value = v.elementwise(&op, read);
    if (failed(value))
      return failure();
    values[op.getResult(0)] = *value;
  }
  v.loc = loc;
  SmallVector<Value> returned;
  for (Value result : results) {
    const auto sum = inPlace.find(result);
    const Value value = values[sum == inPlace.end() ? result : sum->second.summand];
    returned.push_back(isNumber(result)
                           ? value
                           : v.narrowed(v.splat(value), getElementTypeOrSelf(result.getType())));
  }
  func::ReturnOp::create(b, loc, returned);
  // The warps that compute it start the tensor cores' work besides: every instruction counts.
  shortenSums(*entry);
  return success();
}

} // namespace nano::kernels
