// What must hold of each op of the `nano` dialect, with the message that a user of the front end or
// of nano-opt reads.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Shapes.h"
#include "ir/graph/TableOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

bool isEmpty(Value value) { return llvm::is_contained(shapeOf(value), 0); }

/// `dims` increases strictly within [0, rank).
LogicalResult verifyDims(Operation *op, ArrayRef<int64_t> dims, int64_t rank) {
  int64_t previous = -1;
  for (int64_t dim : dims) {
    if (dim <= previous || dim >= rank)
      return op->emitOpError("dims ")
             << shapeText(dims) << " must increase and lie within the " << rank << " dimensions";
    previous = dim;
  }
  return success();
}

/// Names the types of two operands that must be equal.
LogicalResult verifySameType(Operation *op, StringRef what, Value a, Value b) {
  if (a.getType() == b.getType())
    return success();
  return op->emitOpError(what) << " differ: " << a.getType() << " and " << b.getType();
}

LogicalResult verifySameShape(Operation *op, StringRef what, ArrayRef<int64_t> a,
                              ArrayRef<int64_t> b) {
  if (a == b)
    return success();
  return op->emitOpError(what) << " differ: " << shapeText(a) << " and " << shapeText(b);
}

/// The terminator of the only block, or null where it is no yield or yields something else than
/// one value of `type`.
bool yieldsOne(Block &block, Type type) {
  auto yield = dyn_cast<YieldOp>(block.back());
  return yield && yield.getNumOperands() == 1 && yield.getOperand(0).getType() == type;
}

/// A score function of attention or its derivative: takes rank-0 tensors f32, i32, i32, i32 and,
/// the derivative, another f32; yields one f32; holds element-wise ops only. Runs after the ops
/// inside were verified, so that the block has a terminator.
LogicalResult verifyScoreRegion(Operation *op, Region &region, bool withGradient) {
  if (region.empty())
    return success();
  auto f32 = RankedTensorType::get({}, Float32Type::get(op->getContext()));
  auto i32 = RankedTensorType::get({}, IntegerType::get(op->getContext(), 32));
  SmallVector<Type> expected{f32, i32, i32, i32};
  if (withGradient)
    expected.push_back(f32);
  if (!region.hasOneBlock() || region.front().getArgumentTypes() != TypeRange(expected))
    return op->emitOpError("score region must take (f32 score, i32 query, i32 key, i32 head")
           << (withGradient ? ", f32 gradient)" : ")") << " as rank-0 tensors";
  if (!yieldsOne(region.front(), f32))
    return op->emitOpError("score region must yield one rank-0 f32 tensor");
  for (Operation &inner : region.front().without_terminator())
    if (!inner.hasTrait<ElementwiseOp>())
      return op->emitOpError("score region holds ")
             << inner.getName() << ", which is not element-wise";
  return success();
}

} // namespace

//===- Program -----------------------------------------------------------===//

LogicalResult IndexCheckOp::verify() {
  if (static_cast<int64_t>(getBound()) < 1)
    return emitOpError("bound is ") << static_cast<int64_t>(getBound()) << ", must be at least 1";
  if (!llvm::is_contained({"train", "validate", "generate", "decode"}, getRole()))
    return emitOpError("role is '") << getRole() << "', must be train, validate or generate";
  return success();
}

LogicalResult ScalarOp::verify() {
  if (!getType().isF32() && !getType().isInteger(32))
    return emitOpError("type must be f32 or i32, is ") << getType();
  return success();
}

LogicalResult ScalarOp::verifyRegions() {
  Block &block = getBody().front();
  auto f64 = Float64Type::get(getContext());
  const unsigned count = block.getNumArguments();
  if ((count != 4 && count != 7) ||
      llvm::any_of(block.getArgumentTypes(), [&](Type type) { return type != f64; }))
    return emitOpError(
        "body must take four f64, step, iterations, sequences, world, or three more, "
        "sequence, seed_low, seed_high");
  if (!yieldsOne(block, f64))
    return emitOpError("body must yield one f64");
  for (Operation &op : block.without_terminator())
    if (!isa_and_present<arith::ArithDialect, math::MathDialect>(op.getDialect()))
      return emitOpError("body holds ") << op.getName() << ", which is of neither arith nor math";
  return success();
}

namespace {

/// The state that `symbol` names, after checking that it exists and has the shape of `type`.
FailureOr<StateOp> verifyStateUse(Operation *op, SymbolTableCollection &table,
                                  FlatSymbolRefAttr symbol, Type type, bool sameElement = true) {
  auto state = table.lookupNearestSymbolFrom<StateOp>(op, symbol);
  if (!state)
    return op->emitOpError("no state named ") << symbol;
  auto tensor = cast<RankedTensorType>(type);
  RankedTensorType expected = state.getTensorType();
  if (tensor.getShape() != expected.getShape() || (sameElement && tensor != expected))
    return op->emitOpError("type ")
           << type << " differs from that of state " << symbol << ", " << expected;
  return state;
}

} // namespace

LogicalResult LoadOp::verifySymbolUses(SymbolTableCollection &table) {
  if (auto scalar = table.lookupNearestSymbolFrom<ScalarOp>(*this, getSymbolAttr())) {
    auto expected = RankedTensorType::get({}, scalar.getType());
    if (getResult().getType() == expected)
      return success();
    return emitOpError("type ") << getResult().getType() << " differs from that of scalar "
                                << getSymbolAttr() << ", " << expected;
  }
  return verifyStateUse(*this, table, getSymbolAttr(), getResult().getType());
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &table) {
  return verifyStateUse(*this, table, getSymbolAttr(), getValue().getType());
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &table) {
  FailureOr<StateOp> state =
      verifyStateUse(*this, table, getSymbolAttr(), getValue().getType(), /*sameElement=*/false);
  if (failed(state))
    return failure();
  if (state->getRole() != Role::Gradient)
    return emitOpError("state ") << getSymbolAttr() << " accumulates no gradient: its role is "
                                 << stringifyRole(state->getRole());
  return success();
}

void LoadOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), getSymbolAttr());
}
void StoreOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), getSymbolAttr());
}
void AccumulateOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), getSymbolAttr());
  effects.emplace_back(MemoryEffects::Write::get(), getSymbolAttr());
}

LogicalResult FusedOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("block arguments must have the types of the operands");
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getOperandTypes() != getOutputs().getTypes())
    return emitOpError("must yield values of the types of the results");
  return success();
}

//===- Element-wise ------------------------------------------------------===//

LogicalResult SelectOp::verify() {
  return verifySameShape(*this, "shapes compared and chosen", shapeOf(getLhs()),
                         shapeOf(getResult()));
}

LogicalResult ConstantOp::verify() {
  double value = getValue().convertToDouble();
  if (elementOf(getResult()).isInteger() &&
      !(value == std::trunc(value) && value >= INT32_MIN && value <= INT32_MAX))
    return emitOpError("value ") << numberText(value) << " is not an integer of 32 bits";
  return success();
}

LogicalResult BitcastOp::verify() {
  Type from = elementOf(getX()), to = elementOf(getResult());
  auto isPair = [](Type a, Type b) {
    return (a.isF32() && b.isInteger(32)) || (a.isBF16() && b.isInteger(16));
  };
  if (isPair(from, to) || isPair(to, from))
    return success();
  return emitOpError("has no bits of ")
         << from << " for " << to << ": pairs are f32 and i32, bf16 and i16";
}

LogicalResult IotaOp::verify() {
  auto dim = static_cast<int64_t>(getDim());
  if (dim >= 0 && dim < rankOf(getResult()))
    return success();
  return emitOpError("dim ") << dim << " out of range for " << shapeText(getType());
}

//===- Shape -------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  if (getDims().size() != from.size())
    return emitOpError("dims must have one entry for each of the operand's ")
           << from.size() << " dimensions";
  if (elementOf(getX()) != elementOf(getResult()))
    return emitOpError("element types differ: ")
           << elementOf(getX()) << " and " << elementOf(getResult());
  if (failed(verifyDims(*this, getDims(), to.size())))
    return failure();
  for (auto [size, dim] : llvm::zip(from, getDims()))
    if (size != 1 && size != to[dim])
      return emitOpError("cannot broadcast ")
             << shapeText(from) << " to " << shapeText(to) << " with dims " << shapeText(getDims());
  return success();
}

LogicalResult PermuteOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType()), to = cast<RankedTensorType>(getType());
  SmallVector<int64_t> named(getOrder());
  llvm::sort(named);
  if (!llvm::equal(named, llvm::seq<int64_t>(0, from.getRank())))
    return emitOpError("order ") << shapeText(getOrder()) << " does not name each dimension of "
                                 << shapeText(from) << " once";
  SmallVector<int64_t> sizes;
  for (int64_t dim : getOrder())
    sizes.push_back(from.getDimSize(dim));
  if (to != from.clone(sizes))
    return emitOpError("result must be ") << from.clone(sizes) << ", is " << to;
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType()), to = cast<RankedTensorType>(getType());
  if (from.getElementType() != to.getElementType())
    return emitOpError("element types differ: ")
           << from.getElementType() << " and " << to.getElementType();
  if (from.getNumElements() != to.getNumElements())
    return emitOpError("cannot reshape ")
           << shapeText(from) << " to " << shapeText(to) << ": " << from.getNumElements()
           << " elements against " << to.getNumElements();
  return success();
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  int64_t dim = getDim(), start = getStart();
  if (elementOf(getX()) != elementOf(getResult()) || from.size() != to.size())
    return emitOpError("must keep the element type and the rank");
  if (dim < 0 || dim >= static_cast<int64_t>(from.size()))
    return emitOpError("dim ") << dim << " out of range for " << shapeText(from);
  if (start < 0 || start > from[dim] - to[dim])
    return emitOpError("range of ") << to[dim] << " from " << start << " along dimension " << dim
                                    << " lies outside " << shapeText(from);
  for (size_t i = 0; i < from.size(); ++i)
    if (static_cast<int64_t>(i) != dim && from[i] != to[i])
      return emitOpError("sizes other than along dimension ")
             << dim << " differ: " << shapeText(from) << " and " << shapeText(to);
  return success();
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs at least one operand");
  ArrayRef<int64_t> to = shapeOf(getResult());
  int64_t dim = getDim(), total = 0;
  if (dim < 0 || dim >= static_cast<int64_t>(to.size()))
    return emitOpError("dim ") << dim << " out of range for " << shapeText(to);
  for (Value input : getInputs()) {
    if (rankOf(input) != rankOf(getResult()) || elementOf(input) != elementOf(getResult()))
      return emitOpError("operands must have the rank and the element type of the result");
    SmallVector<int64_t> expected(to);
    expected[dim] = shapeOf(input)[dim];
    total += expected[dim];
    if (failed(verifySameShape(*this, "sizes other than along dim", shapeOf(input), expected)))
      return failure();
  }
  if (total != to[dim])
    return emitOpError("sizes along dimension ")
           << dim << " sum to " << total << ", the result has " << to[dim];
  return success();
}

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  if (from.size() < 2)
    return emitOpError("needs at least two dimensions, has ") << shapeText(from);
  SmallVector<int64_t> expected(from);
  std::swap(expected.back(), expected[from.size() - 2]);
  if (elementOf(getX()) != elementOf(getResult()) || ArrayRef<int64_t>(expected) != to)
    return emitOpError("result must be ")
           << cast<RankedTensorType>(getX().getType()).clone(expected) << ", is " << getType();
  return success();
}

LogicalResult RotateOp::verify() {
  if (rankOf(getX()) == 0)
    return emitOpError("needs at least one dimension");
  int64_t columns = shapeOf(getX()).back(), shift = getShift();
  if (shift < 0 || shift >= columns)
    return emitOpError("shift ") << shift << " out of range for a last dimension of " << columns;
  return success();
}

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX());
  if (getDims().empty())
    return emitOpError("needs at least one dimension to reduce");
  if (failed(verifyDims(*this, getDims(), from.size())))
    return failure();
  SmallVector<int64_t> kept;
  for (auto [index, size] : llvm::enumerate(from))
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(index)))
      kept.push_back(size);
  if (elementOf(getX()) != elementOf(getResult()))
    return emitOpError("element types differ: ")
           << elementOf(getX()) << " and " << elementOf(getResult());
  if (getCombiner() == Combiner::sum && elementOf(getX()).isInteger(32))
    return emitOpError("a sum is of f32 or bf16, not of ") << elementOf(getX());
  // y rounded to bf16 would not do for its derivative, e^(x − y).
  if (getCombiner() == Combiner::logsumexp && !elementOf(getX()).isF32())
    return emitOpError("a log-sum-exp is of f32, not of ") << elementOf(getX());
  if (getCombiner() != Combiner::sum && isEmpty(getX()) && !isEmpty(getResult()))
    return emitOpError("a maximum or log-sum-exp of nothing, in ") << shapeText(from);
  return verifySameShape(*this, "the shape that remains and the result's", kept,
                         shapeOf(getResult()));
}

LogicalResult ScanOp::verify() {
  if (rankOf(getX()) != 1)
    return emitOpError("needs a rank-1 operand, has ") << shapeText(getX().getType());
  if (getCombiner() == Combiner::logsumexp)
    return emitOpError("of integers: a sum or a maximum, not a log-sum-exp");
  return success();
}

LogicalResult ArgsortOp::verify() {
  if (rankOf(getX()) != 2)
    return emitOpError("needs a rank-2 operand, has ") << shapeText(getX().getType());
  return verifySameShape(*this, "the operand's shape and the result's", shapeOf(getX()),
                         shapeOf(getResult()));
}

//===- Compute -----------------------------------------------------------===//

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB()), c = shapeOf(getResult());
  if (a.size() < 2 || b.size() < 2)
    return emitOpError("operands need at least two dimensions: ")
           << shapeText(a) << " × " << shapeText(b);
  if (elementOf(getA()) != elementOf(getB()))
    return emitOpError("operand types differ: ")
           << elementOf(getA()) << " and " << elementOf(getB());
  auto product = [&] {
    return shapeText(a) + (getTransposeA() ? "ᵀ" : "") + " × " + shapeText(b) +
           (getTransposeB() ? "ᵀ" : "");
  };
  if (a.drop_back(2) != b.drop_back(2))
    return emitOpError("batch dimensions differ: ") << product();
  auto [m, k] = std::pair(a[a.size() - 2], a.back());
  auto [kb, n] = std::pair(b[b.size() - 2], b.back());
  if (getTransposeA())
    std::swap(m, k);
  if (getTransposeB())
    std::swap(kb, n);
  if (k != kb)
    return emitOpError("inner dimensions differ: ") << product();
  SmallVector<int64_t> expected(a.drop_back(2));
  expected.append({m, n});
  if (failed(verifySameShape(*this, "the product's shape and the result's", expected, c)))
    return failure();
  if (getAddend())
    return verifySameType(*this, "types of addend and result", getAddend(), getResult());
  return success();
}

namespace {

/// x [N, K] of groups with matrices w [G, K, M], of one element type, and y [N, M].
LogicalResult verifyGroups(Operation *op, Value x, Value w, bool transpose, Value y, Value ends) {
  if (rankOf(x) != 2 || rankOf(w) != 3 || rankOf(y) != 2 || rankOf(ends) != 1)
    return op->emitOpError("needs rows of two dimensions, matrices of three and ends of one: ")
           << shapeText(x.getType()) << ", " << shapeText(w.getType()) << ", "
           << shapeText(y.getType()) << ", " << shapeText(ends.getType());
  const int64_t inner = shapeOf(x)[1], columns = shapeOf(y)[1], groups = shapeOf(ends)[0];
  if (groups < 1)
    return op->emitOpError("has no group");
  if (shapeOf(x)[0] != shapeOf(y)[0])
    return op->emitOpError("has ") << shapeOf(x)[0] << " rows and " << shapeOf(y)[0];
  return verifySameShape(op, "shape of the matrices and that of the rows and groups", shapeOf(w),
                         {groups, transpose ? columns : inner, transpose ? inner : columns});
}

LogicalResult verifyOneType(Operation *op, Value a, Value b) {
  if (elementOf(a) != elementOf(b))
    return op->emitOpError("operand types differ: ") << elementOf(a) << " and " << elementOf(b);
  return success();
}

} // namespace

LogicalResult GroupedMatmulOp::verify() {
  if (failed(verifyOneType(*this, getX(), getW())))
    return failure();
  return verifyGroups(*this, getX(), getW(), getTranspose(), getResult(), getEnds());
}

LogicalResult GroupedOuterOp::verify() {
  if (failed(verifyOneType(*this, getA(), getB())))
    return failure();
  return verifyGroups(*this, getA(), getResult(), /*transpose=*/false, getB(), getEnds());
}

void MatmulOp::build(OpBuilder &builder, OperationState &state, Type result, Value a, Value b,
                     bool transposeA, bool transposeB) {
  build(builder, state, result, a, b, Value(), transposeA, transposeB, APFloat(1.0), APFloat(1.0));
}

namespace {

/// table [V, D], ids [T], rows [T, D].
LogicalResult verifyRows(Operation *op, Value table, Value ids, Value rows) {
  if (rankOf(table) != 2 || rankOf(ids) != 1)
    return op->emitOpError("needs a table of two dimensions and ids of one: ")
           << shapeText(table.getType()) << ", " << shapeText(ids.getType());
  if (shapeOf(table)[0] == 0 && shapeOf(ids)[0] > 0)
    return op->emitOpError("has ") << shapeOf(ids)[0] << " ids of a table with no rows";
  return verifySameShape(op, "shape of the rows and [ids, columns of the table]", shapeOf(rows),
                         {shapeOf(ids)[0], shapeOf(table)[1]});
}

} // namespace

LogicalResult GatherOp::verify() {
  if (elementOf(getTable()) != elementOf(getResult()))
    return emitOpError("element types differ: ")
           << elementOf(getTable()) << " and " << elementOf(getResult());
  return verifyRows(*this, getTable(), getIds(), getResult());
}

LogicalResult ScatterAddOp::verify() { return verifyRows(*this, getResult(), getIds(), getX()); }

namespace {

/// q [T, H, Dh]; k [T, Hk, Dh], v [T, Hk, Dv], Hk a divisor of H; y or its gradient [T, H, Dv];
/// first, last [T]; statistics [T, H].
LogicalResult verifyAttention(Operation *op, Value q, Value k, Value v, Value y, Value first,
                              Value last, Value statistics) {
  if (rankOf(q) != 3)
    return op->emitOpError("q must be [tokens, heads, head size], is ") << shapeText(q.getType());
  int64_t tokens = shapeOf(q)[0], heads = shapeOf(q)[1];
  if (heads < 1 || shapeOf(q)[2] < 1)
    return op->emitOpError("needs a head at least, of an element at least, has q of ")
           << shapeText(q.getType());
  if (elementOf(k) != elementOf(q) || rankOf(k) != 3 || shapeOf(k)[0] != tokens ||
      shapeOf(k)[2] != shapeOf(q)[2])
    return op->emitOpError("k must have q's type but for the number of heads, is ")
           << k.getType() << " beside " << q.getType();
  auto verifyValues = [&](const char *what, Value value, Value like) -> LogicalResult {
    if (elementOf(value) == elementOf(like) && rankOf(value) == 3 &&
        shapeOf(value).take_front(2) == shapeOf(like).take_front(2) && shapeOf(value)[2] > 0)
      return success();
    return op->emitOpError(what) << " must have the type of " << (like == q ? "q" : "k")
                                 << " but for the size of a head, is " << value.getType()
                                 << " beside " << like.getType();
  };
  if (failed(verifyValues("v", v, k)) ||
      failed(verifyValues(isa<AttentionOp>(op) ? "y" : "dy", y, q)))
    return failure();
  if (shapeOf(y)[2] != shapeOf(v)[2])
    return op->emitOpError("has values of ")
           << shapeOf(v)[2] << " elements a head and results of " << shapeOf(y)[2];
  if (shapeOf(k)[1] < 1 || heads % shapeOf(k)[1] != 0)
    return op->emitOpError("has ") << heads << " heads of queries, which its " << shapeOf(k)[1]
                                   << " heads of keys and values do not divide";
  for (Value range : {first, last})
    if (failed(verifySameShape(op, "shape of a key range and [tokens]", shapeOf(range), {tokens})))
      return failure();
  return verifySameShape(op, "shape of the statistics and [tokens, heads]", shapeOf(statistics),
                         {tokens, heads});
}

} // namespace

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getQ(), getK(), getV(), getY(), getFirst(), getLast(), getLse());
}

LogicalResult AttentionOp::verifyRegions() { return verifyScoreRegion(*this, getScore(), false); }

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this, getQ(), getK(), getV(), getDy(), getFirst(), getLast(),
                             getLse())) ||
      failed(verifySameType(*this, "types of lse and delta", getLse(), getDelta())) ||
      failed(verifySameType(*this, "types of q and its gradient", getQ(), getDq())) ||
      failed(verifySameType(*this, "types of k and its gradient", getK(), getDk())) ||
      failed(verifySameType(*this, "types of v and its gradient", getV(), getDv())))
    return failure();
  if (getScore().empty() != getScoreGrad().empty())
    return emitOpError("needs both the score region and its derivative, or neither");
  return success();
}

LogicalResult AttentionGradOp::verifyRegions() {
  if (failed(verifyScoreRegion(*this, getScore(), false)))
    return failure();
  return verifyScoreRegion(*this, getScoreGrad(), true);
}

LogicalResult CrossEntropyOp::verify() {
  if (rankOf(getLogits()) != 2)
    return emitOpError("logits must be [tokens, vocabulary], are ")
           << shapeText(getLogits().getType());
  int64_t tokens = shapeOf(getLogits())[0];
  if (shapeOf(getLogits())[1] < 1)
    return emitOpError("has no columns that a target could be: ")
           << shapeText(getLogits().getType());
  for (Value value : {Value(getTargets()), Value(getLoss()), Value(getLse())})
    if (failed(verifySameShape(*this, "shape of targets, loss or lse and [tokens]", shapeOf(value),
                               {tokens})))
      return failure();
  return success();
}

LogicalResult ExpMatmulOp::verify() {
  if (rankOf(getX()) != 2 || rankOf(getW()) != 2)
    return emitOpError("factors must be matrices, are ")
           << shapeText(getX().getType()) << " and " << shapeText(getW().getType());
  const int64_t tokens = shapeOf(getX())[0], all = shapeOf(getW())[0];
  if (shapeOf(getX())[1] != shapeOf(getW())[1])
    return emitOpError("factors have rows of different lengths: ")
           << shapeText(getX().getType()) << " and " << shapeText(getW().getType());
  if (const auto columns = int64_t(getColumns()); columns < 1 || columns > all)
    return emitOpError("has ") << columns << " columns of a product with " << all;
  if (failed(verifySameShape(*this, "shape of e and [tokens, columns]", shapeOf(getE()),
                             {tokens, all})))
    return failure();
  for (Value value : {Value(getTargets()), Value(getShift()), Value(getSum()), Value(getLargest())})
    if (failed(verifySameShape(*this, "shape of a number a row and [tokens]", shapeOf(value),
                               {tokens})))
      return failure();
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (getCombiner() == Combiner::logsumexp)
    return emitOpError("ranks exchange a sum or a maximum, not a log-sum-exp");
  return success();
}

/// `part` is one of `parts` equal parts of `whole` along the first dimension.
static LogicalResult verifyPart(Operation *op, Value whole, Value part, int64_t parts) {
  ArrayRef<int64_t> from = shapeOf(whole), to = shapeOf(part);
  if (parts < 1 || from.empty() || to.empty() || from[0] != parts * to[0] ||
      from.drop_front() != to.drop_front() || elementOf(whole) != elementOf(part))
    return op->emitOpError("of ") << parts << " parts: " << part.getType() << " is not one of "
                                  << whole.getType();
  return success();
}

LogicalResult ReduceScatterOp::verify() {
  return verifyPart(*this, getX(), getResult(), getParts());
}
LogicalResult AllGatherOp::verify() { return verifyPart(*this, getResult(), getX(), getParts()); }
LogicalResult ShardOp::verify() { return verifyPart(*this, getX(), getResult(), getParts()); }
