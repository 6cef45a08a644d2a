// Random instances of every op of the graph dialect that computes.
#include "tests/grad/Instances.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/AttentionOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowFunctionOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/Sequence.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;
using namespace nano::graph;

namespace nano::test {

Instance::Instance(MLIRContext &context, std::mt19937_64 &random, Sizes sizes, Type element)
    : random(random), sizes(sizes),
      emptyAt(sizes == Sizes::empty ? static_cast<Place>(draw(0, 2)) : Place::row),
      element(element), builder(&context),
      location(FileLineColLoc::get(&context, "model.cpp", 17, 3)),
      module(ModuleOp::create(builder.getUnknownLoc())) {
  builder.setInsertionPointToStart(module->getBody());
  auto function =
      ProgramOp::create(builder, builder.getUnknownLoc(), "f", builder.getFunctionType({}, {}));
  block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
}

int64_t Instance::draw(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

int64_t Instance::fullSize(Place place, int64_t most) {
  if (sizes == Sizes::any)
    return draw(1, most);
  if ((sizes == Sizes::oneRow && place == Place::row) ||
      (sizes == Sizes::oneColumn && place == Place::column))
    return 1;
  // More columns than a vector has lanes, and fewer.
  return place == Place::column ? (flip() ? 3 : 19) : (flip() ? 3 : 5);
}

int64_t Instance::size(Place place, int64_t most) {
  return sizes == Sizes::empty && place == emptyAt ? 0 : fullSize(place, most);
}

std::vector<int64_t> Instance::fullShape(int64_t leastRank, int64_t mostRank) {
  if (sizes != Sizes::any)
    leastRank = std::min(std::max<int64_t>(leastRank, 2), mostRank),
    mostRank = std::min<int64_t>(mostRank, std::max<int64_t>(leastRank, 3));
  std::vector<int64_t> drawn(draw(leastRank, mostRank));
  for (size_t d = 0; d < drawn.size(); ++d)
    drawn[d] = fullSize(d == 0 ? Place::row : d + 1 == drawn.size() ? Place::column : Place::inner);
  return drawn;
}

std::vector<int64_t> Instance::shape(int64_t leastRank, int64_t mostRank) {
  std::vector<int64_t> drawn = fullShape(leastRank, mostRank);
  if (sizes == Sizes::empty && !drawn.empty())
    drawn[emptyAt == Place::row      ? 0
          : emptyAt == Place::column ? drawn.size() - 1
                                     : (drawn.size() - 1) / 2] = 0;
  return drawn;
}

RankedTensorType Instance::floatType(std::optional<std::vector<int64_t>> shaped) {
  Type type = element           ? element
              : draw(0, 3) == 0 ? Type(builder.getBF16Type())
                                : builder.getF32Type();
  return RankedTensorType::get(shaped ? *shaped : shape(), type);
}

RankedTensorType Instance::f32(const std::vector<int64_t> &sizes) {
  return RankedTensorType::get(sizes, builder.getF32Type());
}
RankedTensorType Instance::i32(const std::vector<int64_t> &sizes) {
  return RankedTensorType::get(sizes, builder.getI32Type());
}

Value Instance::operand(RankedTensorType type, TensorValue value) {
  operands.push_back(std::move(value));
  return block->addArgument(type, builder.getUnknownLoc());
}

Value Instance::operand(RankedTensorType type, double (*map)(double)) {
  TensorValue value = TensorValue::normal(type, random);
  for (double &element : value.data)
    element = map ? map(element) : element;
  return operand(type, std::move(value));
}

Value Instance::indices(const std::vector<int64_t> &sizes, int64_t limit) {
  RankedTensorType type = i32(sizes);
  return operand(type, TensorValue::integers(type, random, 0, limit));
}

namespace {

double positive(double x) { return 0.5 + std::abs(x); }
double awayFromZero(double x) { return x < 0 ? x - 0.5 : x + 0.5; }

/// A function of one number, of arguments that it is for, away from 0, where some have kinks.
Generator unary(const UnaryFunction &function) {
  return [&function](Instance &in) {
    const double above = function.traits.above;
    RankedTensorType type = in.floatType();
    TensorValue arguments = TensorValue::normal(type, in.random);
    for (double &x : arguments.data)
      x = std::isfinite(above) ? above + positive(x) : awayFromZero(x);
    Value x = in.operand(type, std::move(arguments));
    OperationState state(in.location, function.op, x, x.getType());
    in.op = in.builder.create(state);
  };
}

Generator ofTwo(const BinaryFunction &function) {
  return [&function](Instance &in) {
    RankedTensorType type = in.floatType();
    Value a = in.operand(type, awayFromZero), b = in.operand(type, awayFromZero);
    OperationState state(in.location, function.op, {a, b}, type);
    in.op = in.builder.create(state);
  };
}

void bitcast(Instance &in) {
  RankedTensorType type = in.f32(in.shape());
  Type bits = in.builder.getI32Type();
  // Integers are the bits of floats from 0.5 to 2.
  RankedTensorType integers = in.i32(type.getShape().vec());
  Value x = in.flip() ? in.operand(type)
                      : in.operand(integers, TensorValue::integers(integers, in.random, 0x3F000000,
                                                                   0x40000000));
  bool isFloat = x.getType() == type;
  in.op = BitcastOp::create(in.builder, in.location, isFloat ? Type(type.clone(bits)) : type, x);
}

void permute(Instance &in) {
  RankedTensorType type = in.floatType(in.shape(0, 4));
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  std::shuffle(order.begin(), order.end(), in.random);
  SmallVector<int64_t> sizes;
  for (int64_t dim : order)
    sizes.push_back(type.getDimSize(dim));
  in.op = PermuteOp::create(in.builder, in.location, type.clone(sizes), in.operand(type), order);
}

template <typename OpTy, double (*mapRight)(double) = nullptr> void binary(Instance &in) {
  RankedTensorType type = in.floatType();
  Value a = in.operand(type), b = in.operand(type, mapRight);
  in.op = OpTy::create(in.builder, in.location, type, a, b);
}

/// Now and then with one value as both operands.
template <typename OpTy> void smoothBinary(Instance &in) {
  binary<OpTy>(in);
  if (in.draw(0, 4) == 0) {
    in.op->setOperand(1, in.op->getOperand(0));
    in.block->eraseArgument(1);
    in.operands[1] = in.operands[0];
  }
}

void select(Instance &in) {
  RankedTensorType chosen = in.floatType(), compared = in.flip() ? in.f32(chosen.getShape().vec())
                                                                 : in.i32(chosen.getShape().vec());
  Value a = in.operand(compared), b = in.operand(compared), x = in.operand(chosen),
        y = in.operand(chosen);
  in.op = SelectOp::create(in.builder, in.location, chosen, static_cast<Predicate>(in.draw(0, 5)),
                           a, b, x, y);
}

void cast(Instance &in) {
  RankedTensorType from = in.draw(0, 4) == 0 ? in.i32(in.shape()) : in.floatType();
  Value x = in.operand(from);
  in.op = CastOp::create(in.builder, in.location, in.floatType(from.getShape().vec()), x);
}

void broadcast(Instance &in) {
  RankedTensorType result = in.floatType();
  std::vector<int64_t> from, dims;
  for (int64_t dim = 0; dim < result.getRank(); ++dim)
    if (in.flip()) {
      dims.push_back(dim);
      from.push_back(in.draw(0, 2) == 0 ? 1 : result.getDimSize(dim));
    }
  Value x = in.operand(result.clone(from));
  in.op = BroadcastOp::create(in.builder, in.location, result, x, dims);
}

void reshape(Instance &in) {
  RankedTensorType type = in.floatType(in.shape(1, 4));
  std::vector<int64_t> sizes = type.getShape().vec();
  if (in.flip()) {
    sizes = {type.getNumElements()};
  } else {
    sizes.insert(sizes.begin() + in.draw(0, type.getRank()), 1);
    std::reverse(sizes.begin(), sizes.end());
  }
  Value x = in.operand(type);
  in.op = ReshapeOp::create(in.builder, in.location, type.clone(sizes), x);
}

/// In the empty ones, of nothing of what has elements.
void slice(Instance &in) {
  RankedTensorType type = in.floatType(in.fullShape(1, 4));
  int64_t dim = in.draw(0, type.getRank() - 1), start = in.draw(0, type.getDimSize(dim) - 1);
  std::vector<int64_t> sizes = type.getShape().vec();
  sizes[dim] = in.sizes == Sizes::empty ? 0 : in.draw(1, sizes[dim] - start);
  Value x = in.operand(type);
  in.op = SliceOp::create(in.builder, in.location, type.clone(sizes), x, dim, start);
}

/// In the empty ones, with a part of nothing.
void concat(Instance &in) {
  RankedTensorType type = in.floatType(in.fullShape(1, 4));
  int64_t dim = in.draw(0, type.getRank() - 1), total = 0;
  std::vector<int64_t> sizes = type.getShape().vec();
  SmallVector<Value> parts;
  const bool hasEmpty = in.sizes == Sizes::empty;
  for (int64_t i = in.draw(hasEmpty ? 2 : 1, 3), last = i; i > 0; --i, total += sizes[dim]) {
    sizes[dim] = hasEmpty && i == last ? 0 : in.draw(1, 3);
    parts.push_back(in.operand(type.clone(sizes)));
  }
  sizes[dim] = total;
  in.op = ConcatOp::create(in.builder, in.location, type.clone(sizes), parts, dim);
}

void rotate(Instance &in) {
  if (in.emptyAt == Place::column)
    in.emptyAt = Place::row;
  RankedTensorType type = in.floatType(in.shape(1, 4));
  Value x = in.operand(type);
  in.op =
      RotateOp::create(in.builder, in.location, type, x, in.draw(0, type.getShape().back() - 1));
}

void reduce(Instance &in) {
  RankedTensorType type = in.floatType(in.shape(1, 4));
  std::vector<int64_t> kept, dims;
  int64_t certain = in.draw(0, type.getRank() - 1);
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (dim == certain || in.flip())
      dims.push_back(dim);
    else
      kept.push_back(type.getDimSize(dim));
  Value x = in.operand(type);
  Combiner combiner = in.flip() ? Combiner::sum : Combiner::max;
  if (type.getElementType().isF32() && in.flip())
    combiner = Combiner::logsumexp;
  if (type.getNumElements() == 0 && !llvm::is_contained(kept, 0))
    combiner = Combiner::sum;
  in.op = ReduceOp::create(in.builder, in.location, type.clone(kept), combiner, x, dims);
}

void matmul(Instance &in) {
  std::vector<int64_t> batch;
  for (int64_t i = in.draw(0, in.sizes == Sizes::any ? 2 : 1); i > 0; --i)
    batch.push_back(in.fullSize(Place::inner));
  std::vector<int64_t> left = batch, right = batch, result = batch;
  int64_t m = in.size(Place::row), n = in.size(Place::column), k = in.size(Place::inner);
  bool transposeA = in.flip(), transposeB = in.flip();
  auto append = [](std::vector<int64_t> &sizes, int64_t rows, int64_t columns, bool swap) {
    sizes.insert(sizes.end(), {swap ? columns : rows, swap ? rows : columns});
  };
  append(left, m, k, transposeA);
  append(right, k, n, transposeB);
  append(result, m, n, false);
  RankedTensorType leftType = in.floatType(left), resultType = in.floatType(result);
  Value a = in.operand(leftType), b = in.operand(leftType.clone(right)),
        addend = in.flip() ? in.operand(resultType) : Value();
  auto op = MatmulOp::create(in.builder, in.location, resultType, a, b, transposeA, transposeB);
  if (addend)
    op.getAddendMutable().assign(addend);
  if (in.flip())
    op.setAlphaAttr(in.builder.getF64FloatAttr(0.75));
  if (in.flip())
    op.setBetaAttr(in.builder.getF64FloatAttr(-1.5));
  in.op = op;
}

void transpose(Instance &in) {
  RankedTensorType type = in.floatType(in.shape(2, 4));
  std::vector<int64_t> sizes = type.getShape().vec();
  std::swap(sizes.back(), sizes[sizes.size() - 2]);
  Value x = in.operand(type);
  in.op = TransposeOp::create(in.builder, in.location, type.clone(sizes), x);
}

Type float8(Instance &in) {
  return in.flip() ? Type(in.builder.getType<Float8E4M3FNType>())
                   : Type(in.builder.getType<Float8E5M2Type>());
}

/// Scales of a tensor of `sizes`: one, or some for blocks.
Value scale(Instance &in, const std::vector<int64_t> &sizes) {
  std::vector<int64_t> blocks;
  if (in.flip() && !llvm::is_contained(sizes, 0))
    for (int64_t size : sizes)
      blocks.push_back(in.flip() ? size : 1);
  return in.operand(in.f32(blocks), positive);
}

void quantize(Instance &in) {
  RankedTensorType type = in.floatType();
  Value x = in.operand(type), s = scale(in, type.getShape().vec());
  in.op = QuantizeOp::create(in.builder, in.location, type.clone(float8(in)), x, s);
}

void dequantize(Instance &in) {
  RankedTensorType type = in.floatType();
  Value q = in.operand(type.clone(float8(in))), s = scale(in, type.getShape().vec());
  in.op = DequantizeOp::create(in.builder, in.location, type, q, s);
}

/// With other sizes than small ones as libraries take them: rows of 8-bit operands are multiples of
/// 16 bytes.
void scaledMatmul(Instance &in) {
  const bool isSmall = in.sizes == Sizes::any;
  bool transposeA = in.flip(), transposeB = in.flip(), blocks = isSmall && in.flip();
  const int64_t unit = isSmall ? 1 : 16;
  auto aligned = [&](Place place) {
    return in.sizes == Sizes::empty && place == in.emptyAt ? 0 : unit * in.draw(1, isSmall ? 4 : 2);
  };
  int64_t m = isSmall ? in.draw(1, 2) : in.size(Place::row), n = aligned(Place::column),
          k = blocks ? 128 * in.draw(1, 2) : aligned(Place::inner);
  auto sizes = [](int64_t outer, int64_t inner, bool innerIsLast) {
    return innerIsLast ? std::vector{outer, inner} : std::vector{inner, outer};
  };
  auto scales = [&](int64_t outer, bool innerIsLast) {
    return in.f32(blocks ? sizes(outer, k / 128, innerIsLast) : std::vector<int64_t>());
  };
  auto operand = [&](int64_t outer, bool innerIsLast) {
    return in.operand(RankedTensorType::get(sizes(outer, k, innerIsLast), float8(in)));
  };
  RankedTensorType result = in.floatType(std::vector{m, n});
  Value a = operand(m, !transposeA), b = operand(n, transposeB);
  Value scaleA = in.operand(scales(m, !transposeA), positive);
  Value scaleB = in.operand(scales(n, transposeB), positive);
  Value addend = in.flip() ? in.operand(result) : Value();
  auto op = ScaledMatmulOp::create(in.builder, in.location, result, a, b, scaleA, scaleB,
                                   transposeA, transposeB);
  if (addend)
    op.getAddendMutable().assign(addend);
  if (in.flip())
    op.setAlphaAttr(in.builder.getF64FloatAttr(0.75));
  if (in.flip())
    op.setBetaAttr(in.builder.getF64FloatAttr(-1.5));
  in.op = op;
}

void gather(Instance &in) {
  int64_t rows = in.fullSize(Place::inner, 5), columns = in.size(Place::column),
          tokens = in.size(Place::row, 6);
  RankedTensorType table = in.floatType(std::vector{rows, columns});
  Value x = in.operand(table), ids = in.indices({tokens}, rows);
  in.op = GatherOp::create(in.builder, in.location, table.clone({tokens, columns}), x, ids);
}

void scatterAdd(Instance &in) {
  int64_t rows = in.fullSize(Place::inner, 5), columns = in.size(Place::column),
          tokens = in.size(Place::row, 6);
  Value x = in.operand(in.floatType(std::vector{tokens, columns})),
        ids = in.indices({tokens}, rows);
  in.op = ScatterAddOp::create(in.builder, in.location, in.floatType(std::vector{rows, columns}), x,
                               ids);
}

/// Rows of groups, some of which may have none, and some of no group.
void groupedMatmul(Instance &in) {
  int64_t rows = in.size(Place::row, 6), inner = in.size(Place::inner, 5),
          columns = in.size(Place::column), groups = in.draw(1, 3);
  const bool transpose = in.flip();
  RankedTensorType x = in.floatType(std::vector{rows, inner});
  Value a = in.operand(x), w = in.operand(x.clone(transpose ? std::vector{groups, columns, inner}
                                                            : std::vector{groups, inner, columns}));
  Value ends = in.indices({groups}, rows + 1);
  in.op = GroupedMatmulOp::create(in.builder, in.location, x.clone({rows, columns}), a, w, ends,
                                  transpose ? in.builder.getUnitAttr() : UnitAttr());
}

void groupedOuter(Instance &in) {
  int64_t rows = in.size(Place::row, 6), inner = in.size(Place::inner, 5),
          columns = in.size(Place::column), groups = in.draw(1, 3);
  RankedTensorType x = in.floatType(std::vector{rows, inner});
  Value a = in.operand(x), b = in.operand(x.clone({rows, columns}));
  Value ends = in.indices({groups}, rows + 1);
  in.op = GroupedOuterOp::create(in.builder, in.location, x.clone({groups, inner, columns}), a, b,
                                 ends);
}

/// A score function: 3·tanh(s/3) with a penalty on distance that differs by head.
void buildScore(Instance &in, Region &region) {
  OpBuilder::InsertionGuard guard(in.builder);
  Type f32 = in.f32({}), i32 = in.i32({});
  Block *block = in.builder.createBlock(&region, {}, {f32, i32, i32, i32},
                                        SmallVector<Location>(4, in.location));
  GraphBuilder g(in.builder, in.location);
  Value score = block->getArgument(0),
        distance = g.toF32(g.sub(block->getArgument(1), block->getArgument(2)));
  Value capped = g.mul(TanhOp::create(in.builder, in.location, f32, g.mul(score, 1 / 3.0)), 3.0);
  Value slope = g.add(g.toF32(block->getArgument(3)), 0.5);
  Value result = in.flip() ? g.sub(capped, g.mul(slope, distance))
                           : g.add(g.mul(capped, score), g.mul(g.mul(distance, slope), score));
  YieldOp::create(in.builder, in.location, result);
}

void attention(Instance &in) {
  in.emptyAt = Place::row;
  int64_t tokens = in.size(Place::row, 5), keyHeads = in.draw(1, 2),
          heads = keyHeads * in.draw(1, 2), size = in.fullSize(Place::column, 3);
  RankedTensorType type = in.floatType(std::vector{tokens, heads, size}),
                   keys = type.clone({tokens, keyHeads, size});
  // Heads of values have a size of their own.
  const int64_t valueSize = in.flip() ? size : in.fullSize(Place::column);
  Value q = in.operand(type), k = in.operand(keys),
        v = in.operand(type.clone({tokens, keyHeads, valueSize}));
  TensorValue first = TensorValue::filled(in.i32({tokens}), 0), last = first;
  for (int64_t t = 0, from = 0, to = 0; t < tokens; ++t) { // both increase
    from = in.draw(from, t);
    to = in.draw(std::max(to, t), tokens - 1);
    first.data[t] = static_cast<double>(from);
    last.data[t] = static_cast<double>(to);
  }
  Value firstOperand = in.operand(in.i32({tokens}), first),
        lastOperand = in.operand(in.i32({tokens}), last);
  auto op = AttentionOp::create(
      in.builder, in.location,
      TypeRange{type.clone({tokens, heads, valueSize}), in.f32({tokens, heads})}, q, k, v,
      firstOperand, lastOperand, in.builder.getF64FloatAttr(0.4));
  if (in.flip())
    buildScore(in, op.getScore());
  in.op = op;
}

void crossEntropy(Instance &in) {
  in.emptyAt = Place::row;
  int64_t tokens = in.size(Place::row), columns = in.size(Place::column, 6);
  Value logits = in.operand(in.f32({tokens, columns})), targets = in.indices({tokens}, columns);
  Type row = in.f32({tokens});
  in.op = CrossEntropyOp::create(in.builder, in.location, TypeRange{row, row}, logits, targets);
}

void expMatmul(Instance &in) {
  in.emptyAt = Place::row;
  const int64_t tokens = in.size(Place::row), columns = in.size(Place::column, 6),
                width = in.draw(1, 5), kept = in.draw(1, columns);
  const auto matrix = [&](int64_t rows) {
    return RankedTensorType::get({rows, width}, in.builder.getBF16Type());
  };
  Value x = in.operand(matrix(tokens)), w = in.operand(matrix(columns)),
        targets = in.indices({tokens}, kept), shift = in.operand(in.f32({tokens}));
  Type row = in.f32({tokens});
  in.op = ExpMatmulOp::create(
      in.builder, in.location,
      TypeRange{RankedTensorType::get({tokens, columns}, in.builder.getBF16Type()), row, row}, x, w,
      targets, shift, in.builder.getI64IntegerAttr(kept));
}

void recurrence(Instance &in) {
  std::vector<int64_t> shape = in.shape(3, 3);
  if (in.sizes == Sizes::oneRow) // of the sequence
    shape[1] = 1;
  RankedTensorType type = in.floatType(shape);
  const int64_t which = in.draw(0, 2); // a factor, a term, both
  const bool adjoint = which != 0 && in.flip();
  Value a = which != 1 ? in.operand(type) : Value(), b = which != 0 ? in.operand(type) : Value();
  in.op = RecurrenceOp::create(in.builder, in.location, type, a, b,
                               in.builder.getF64FloatAttr(adjoint ? 0 : 0.7),
                               in.flip() ? in.builder.getUnitAttr() : UnitAttr(),
                               adjoint ? in.builder.getUnitAttr() : UnitAttr());
}

void bandScores(Instance &in) {
  if (in.emptyAt == Place::row)
    in.emptyAt = Place::column;
  const std::vector<int64_t> rows = in.shape(3, 3);
  Value q = in.operand(in.floatType(rows)), k = in.operand(in.floatType(rows));
  in.op =
      BandScoresOp::create(in.builder, in.location,
                           in.floatType(std::vector{rows[0], rows[1], in.draw(1, rows[0])}), q, k);
}

void bandProduct(Instance &in) {
  if (in.emptyAt == Place::row)
    in.emptyAt = Place::column;
  const std::vector<int64_t> rows = in.shape(3, 3);
  Value p = in.operand(in.floatType(std::vector{rows[0], rows[1], in.draw(1, rows[0])})),
        v = in.operand(in.floatType(rows));
  in.op = BandProductOp::create(in.builder, in.location, in.floatType(rows), p, v,
                                in.flip() ? in.builder.getUnitAttr() : UnitAttr());
}

/// No derivative: integers only.
void scan(Instance &in) {
  Value x = in.indices({in.size(Place::row, 6)}, 5);
  in.op = ScanOp::create(in.builder, in.location, x.getType(),
                         in.flip() ? Combiner::sum : Combiner::max, x);
}

/// No derivative: which number is the largest does not change a little.
void argsort(Instance &in) {
  const RankedTensorType type = in.floatType(in.shape(2, 2));
  in.op = ArgsortOp::create(in.builder, in.location, in.i32(type.getShape()), in.operand(type));
}

/// Probabilities of some columns, no smaller than a third of their mean, plus a number for each
/// row; the other columns are below it: which ones have probabilities does not change a little.
void sparsemax(Instance &in) {
  const RankedTensorType type = in.floatType(in.shape(2, 2));
  TensorValue x = TensorValue::normal(type, in.random);
  const int64_t columns = type.getDimSize(1);
  for (int64_t row = 0; row < x.size(); row += columns) {
    const auto numbers = llvm::MutableArrayRef(x.data).slice(size_t(row), size_t(columns));
    const double threshold = numbers[0];
    SmallVector<double> shares(size_t(in.draw(1, columns)));
    for (double &share : shares)
      share = double(in.draw(10, 30));
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (auto [i, number] : llvm::enumerate(numbers))
      number = threshold + (i < shares.size() ? shares[i] / sum : -0.2 - std::abs(number));
    std::shuffle(numbers.begin(), numbers.end(), in.random);
  }
  const Value operand = in.operand(type, std::move(x));
  in.op = SparsemaxOp::create(in.builder, in.location, type, operand);
}

/// Integers of 32 bits, of both signs.
Value bits(Instance &in, RankedTensorType type) {
  return in.operand(type, TensorValue::integers(type, in.random, INT32_MIN, int64_t{1} << 31));
}

template <typename OpTy> void integers(Instance &in) {
  RankedTensorType type = in.i32(in.shape());
  Value a = bits(in, type);
  // What is divided by is not 0.
  Value b = std::is_same_v<OpTy, RemOp>
                ? in.operand(type, TensorValue::integers(type, in.random, 1, 99))
                : bits(in, type);
  in.op = OpTy::create(in.builder, in.location, type, a, b);
}

void philox(Instance &in) {
  RankedTensorType type = in.i32(in.shape());
  Value words[6];
  for (Value &word : words)
    word = bits(in, type);
  in.op = PhiloxOp::create(in.builder, in.location, type, words[0], words[1], words[2], words[3],
                           words[4], words[5]);
}

void normal(Instance &in) {
  RankedTensorType type = in.i32(in.shape());
  Value radius = bits(in, type), angle = bits(in, type),
        side = in.operand(type, TensorValue::integers(type, in.random, 0, 2));
  in.op = NormalOp::create(in.builder, in.location, type.clone(in.builder.getF32Type()), radius,
                           angle, side);
}

void stopGradient(Instance &in) {
  Value x = in.operand(in.floatType());
  in.op = StopGradientOp::create(in.builder, in.location, x.getType(), x);
}

void iota(Instance &in) {
  RankedTensorType type = in.flip() ? in.floatType(in.shape(1, 4)) : in.i32(in.shape(1, 4));
  in.op = IotaOp::create(in.builder, in.location, type, in.draw(0, type.getRank() - 1));
}

void constant(Instance &in) {
  in.op = GraphBuilder(in.builder, in.location).constant(-2.5, in.floatType()).getDefiningOp();
}

} // namespace

const Generator *findGenerator(StringRef name) {
  static std::map<std::string, Generator> generators = {
      {"nano.add", smoothBinary<AddOp>},
      {"nano.sub", smoothBinary<SubOp>},
      {"nano.mul", smoothBinary<MulOp>},
      {"nano.div", binary<DivOp, awayFromZero>},
      {"nano.max", binary<MaxOp>},
      {"nano.min", binary<MinOp>},
      {"nano.select", select},
      {"nano.cast", cast},
      {"nano.bitcast", bitcast},
      {"nano.broadcast", broadcast},
      {"nano.reshape", reshape},
      {"nano.slice", slice},
      {"nano.concat", concat},
      {"nano.rotate", rotate},
      {"nano.reduce", reduce},
      {"nano.matmul", matmul},
      {"nano.transpose", transpose},
      {"nano.permute", permute},
      {"nano.quantize", quantize},
      {"nano.dequantize", dequantize},
      {"nano.scaled_matmul", scaledMatmul},
      {"nano.gather", gather},
      {"nano.scatter_add", scatterAdd},
      {"nano.grouped_matmul", groupedMatmul},
      {"nano.grouped_outer", groupedOuter},
      {"nano.attention", attention},
      {"nano.cross_entropy", crossEntropy},
      {"nano.exp_matmul", expMatmul},
      {"nano.scan", scan},
      {"nano.argsort", argsort},
      {"nano.sparsemax", sparsemax},
      {"nano.and", integers<AndOp>},
      {"nano.or", integers<OrOp>},
      {"nano.xor", integers<XorOp>},
      {"nano.shl", integers<ShlOp>},
      {"nano.shr", integers<ShrOp>},
      {"nano.rem", integers<RemOp>},
      {"nano.philox", philox},
      {"nano.normal", normal},
      {"nano.stop_gradient", stopGradient},
      {"nano.iota", iota},
      {"nano.constant", constant},
      {"nano.recurrence", recurrence},
      {"nano.band_scores", bandScores},
      {"nano.band_product", bandProduct},
  };
  for (const UnaryFunction &function : unaryFunctions())
    generators.try_emplace(function.op.str(), unary(function));
  for (const BinaryFunction &function : binaryFunctions())
    generators.try_emplace(function.op.str(), ofTwo(function));
  auto found = generators.find(name.str());
  return found == generators.end() ? nullptr : &found->second;
}

} // namespace nano::test
