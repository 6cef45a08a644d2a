// The front end's functions that are made of others: activations, choices along rows, and random
// numbers.
#include "compiler/FrontendValues.h"
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowFunctions.h"
#include "ir/graph/ShapeOps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace nano::frontend {

namespace {

/// The value of x, f32 or bf16, of at least one dimension where that is asked for.
Value floats(const At &x, const char *what, bool hasRows) {
  const Value value = Recorder::current().value(x, what);
  if (const DType type = dtypeOf(value);
      (type != f32 && type != bf16) || (hasRows && typeOf(value).getRank() == 0))
    fail(x.at, fmt::format("{}: takes f32 or bf16{}, not {}", what, hasRows ? " rows" : "",
                           describe(value)));
  return value;
}

/// i32 of `type`'s shape, the index along its last dimension.
Tensor columnNumbers(RankedTensorType type, DType element, Line at) {
  Recorder &recorder = Recorder::current();
  return recorder.handle(recorder.op<graph::IotaOp>(at, type.clone(recorder.elementType(element)),
                                                    type.getRank() - 1));
}

} // namespace

//===- Activations -------------------------------------------------------------===//

Tensor gelu(const At &x) {
  if (const auto y = Recorder::current().replacement(
          "gelu", {x.tensor}, 0, x.at,
          [at = x.at](const Tensors &in) { return gelu(At(in[0], at)); }))
    return *y;
  floats(x, "gelu", /*hasRows=*/false);
  const Line at = x.at;
  const Operand wide(cast(x, f32), at);
  const Tensor gate = normalCdf(At(wide.tensor, at));
  return cast(At(wide * Operand(gate, at), at), x.tensor.type(at));
}

Tensor geluTanh(const At &x) {
  if (const auto y = Recorder::current().replacement(
          "geluTanh", {x.tensor}, 0, x.at,
          [at = x.at](const Tensors &in) { return geluTanh(At(in[0], at)); }))
    return *y;
  floats(x, "geluTanh", /*hasRows=*/false);
  const Line at = x.at;
  auto times = [&](const Operand &a, const Operand &b) { return Operand(a * b, at); };
  auto number = [&](double value) { return Operand(value, at); };
  const Operand wide(cast(x, f32), at);
  const Operand cube = times(times(times(number(0.044715), wide), wide), wide);
  const Operand inner = times(number(0.7978845608028654), Operand(wide + cube, at));
  const Operand gate(number(1.0) + Operand(tanh(At(inner.tensor, at)), at), at);
  return cast(At(times(times(number(0.5), wide), gate).tensor, at), x.tensor.type(at));
}

Tensor bitcast(const At &x, DType type) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, "bitcast");
  const DType from = dtypeOf(value);
  auto isPair = [](DType a, DType b) { return (a == f32 && b == i32) || (a == bf16 && b == u16); };
  if (from == type)
    return x.tensor;
  if (!isPair(from, type) && !isPair(type, from))
    fail(x.at, fmt::format("bitcast: has no bits of {} for {}; pairs are f32 and i32, bf16 and u16",
                           nameOf(from), nameOf(type)));
  return recorder.handle(
      recorder.op<graph::BitcastOp>(x.at, typeOf(value).clone(recorder.elementType(type)), value));
}

Tensor transpose(const At &x, const Axes &order) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, "transpose");
  const RankedTensorType type = typeOf(value);
  SmallVector<int64_t> dims, sizes;
  for (int i = 0; i < order.count; ++i) {
    const int64_t axis = order.axes[i], dim = axis < 0 ? axis + type.getRank() : axis;
    if (dim < 0 || dim >= type.getRank() || llvm::is_contained(dims, dim))
      break;
    dims.push_back(dim);
    sizes.push_back(type.getDimSize(dim));
  }
  if (order.count != type.getRank() || dims.size() != size_t(type.getRank()))
    fail(x.at, fmt::format("transpose: the order must name each dimension of {} once",
                           text(type.getShape())));
  if (llvm::is_sorted(dims))
    return x.tensor;
  return recorder.handle(recorder.op<graph::PermuteOp>(x.at, type.clone(sizes), value, dims));
}

//===- Along rows --------------------------------------------------------------===//

/// False for NaN, which no number equals, nor itself.
static Comparison isNotNan(const Tensor &x, Line at) { return Operand(x, at) == Operand(x, at); }

Tensor argmax(const At &x) {
  const RankedTensorType type = typeOf(floats(x, "argmax", /*hasRows=*/true));
  const Line at = x.at;
  const int64_t columns = type.getShape().back();
  if (columns > int64_t(1) << 24)
    fail(at, fmt::format("argmax: {} columns; at most 2^24 have numbers", columns));
  const Tensor largest = maximum(x, -1);
  // The largest number of columns behind, among the columns that are largest. Where there is NaN it
  // is, and equal to none.
  const Tensor behind = Operand(double(columns), at) - Operand(columnNumbers(type, f32, at), at);
  const Tensor ofNumber = select(isNotNan(x.tensor, at), Operand(1.0, at), Operand(behind, at));
  const Tensor candidates = select(Operand(x.tensor, at) == Operand(largest, at),
                                   Operand(behind, at), Operand(ofNumber, at));
  const Tensor index = Operand(double(columns), at) - Operand(maximum(At(candidates, at), -1), at);
  return cast(At(index, at), i32);
}

namespace {
/// x[…, index] of indices […, 1].
Tensor taken(const Tensor &x, const Tensor &numbers, const Tensor &index, Line at) {
  const Tensor chosen =
      select(Operand(numbers, at) == Operand(index, at), Operand(x, at), Operand(0.0, at));
  return sum(At(chosen, at), -1);
}

/// Columns side by side.
Tensor joined(ArrayRef<Tensor> columns, Line at) {
  Recorder &recorder = Recorder::current();
  SmallVector<Value> values;
  for (const Tensor &column : columns)
    values.push_back(recorder.value(column, at, "concat"));
  if (values.size() == 1)
    return columns.front();
  SmallVector<int64_t> shape(typeOf(values.front()).getShape());
  shape.back() = static_cast<int64_t>(values.size());
  return recorder.handle(recorder.op<graph::ConcatOp>(at, typeOf(values.front()).clone(shape),
                                                      values, int64_t(shape.size()) - 1));
}

/// No columns of rows of `type`.
Tensor none(RankedTensorType type, DType element, Line at) {
  Shape shape({});
  shape.rank = static_cast<int>(type.getRank());
  llvm::copy(type.getShape(), shape.sizes);
  shape.sizes[shape.rank - 1] = 0;
  return full(shape, 0, element, at);
}

constexpr int64_t mostTaken = 64;

/// Rows have at most so many columns where these and 16 bits of a number are one i32.
constexpr int64_t mostRanked = 1 << 16;
constexpr double leastI32 = std::numeric_limits<int32_t>::min();

/// Of each element of x, a bf16, its rank: an i32 that is larger where the element is, and among
/// equal ones where its column comes before. Its upper half orders as elements do, its lower one is
/// the columns behind it. All NaN are equal, whatever their bits: the largest.
Tensor ranksOf(const Tensor &x, const Tensor &numbers, Line at) {
  const Tensor wide = cast(At(x, at), f32), bits = bitcast(At(wide, at), i32);
  // The magnitude, or less it: both zeros are equal.
  const Tensor ofNumber = select(Operand(bits, at) < Operand(0.0, at),
                                 Operand(leastI32, at) - Operand(bits, at), Operand(bits, at));
  const Tensor order =
      select(isNotNan(wide, at), Operand(ofNumber, at), Operand(double(0x7fff0000), at));
  const Tensor behind = Operand(double(mostRanked - 1), at) - Operand(numbers, at);
  return Operand(order, at) + Operand(behind, at);
}
/// Of each rank a number that is larger where the rank is, but that those of `best` and above are
/// the smallest: rank − best − 2^31, modulo 2^32, with which `best` is the least i32.
Tensor below(const Tensor &best, const Tensor &ranks, Line at) {
  const Tensor less = Operand(leastI32, at) - Operand(best, at);
  return Operand(ranks, at) + Operand(less, at);
}
/// The rank of such a number.
Tensor rankOf(const Tensor &number, const Tensor &best, Line at) {
  const Tensor more = Operand(best, at) + Operand(leastI32, at);
  return Operand(number, at) + Operand(more, at);
}
/// The column of a rank.
Tensor columnOf(const Tensor &rank, Line at) {
  const Tensor behind = Operand(rank, at) & Operand(double(mostRanked - 1), at);
  return Operand(double(mostRanked - 1), at) - Operand(behind, at);
}

/// x of at least one dimension as a matrix of its rows.
Value matrixOf(Value x, Line at) {
  const ArrayRef<int64_t> shape = typeOf(x).getShape();
  int64_t rows = 1;
  for (int64_t size : shape.drop_back())
    rows *= size;
  return Recorder::current().reshape(x, {rows, shape.back()}, at);
}
} // namespace

Tensor argsort(const At &x) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, "argsort");
  const RankedTensorType type = typeOf(value);
  if (const DType element = dtypeOf(value);
      type.getRank() == 0 || (element != f32 && element != bf16 && element != i32))
    fail(x.at, fmt::format("argsort: takes rows of f32, bf16 or i32, not {}", describe(value)));
  const Value flat = matrixOf(value, x.at);
  const Value order =
      recorder.op<graph::ArgsortOp>(x.at, typeOf(flat).clone(recorder.elementType(i32)), flat);
  return recorder.handle(recorder.reshape(order, type.getShape(), x.at));
}

Tensor alongRows(const char *name, const At &x) {
  Recorder &recorder = Recorder::current();
  const Value value = floats(x, name, /*hasRows=*/true);
  const std::string op = "nano." + StringRef(name).lower();
  const graph::RowFunction *function = graph::rowFunctionNamed(op);
  if (!function)
    fail(x.at, fmt::format("alongRows: there is no function of rows '{}'", name));
  const ArrayRef<int64_t> shape = typeOf(value).getShape();
  if (shape.back() > function->traits.mostColumns)
    fail(x.at, fmt::format("{}: {} columns; at most {}", name, shape.back(),
                           function->traits.mostColumns));
  const Value y = recorder.op(x.at, op, matrixOf(value, x.at));
  return recorder.handle(recorder.reshape(y, shape, x.at));
}

Tensor takeAlong(const At &x, const Tensor &indices) {
  const Line at = x.at;
  const Value value = floats(x, "takeAlong", /*hasRows=*/true);
  const Value which = Recorder::current().value(indices, at, "takeAlong");
  const RankedTensorType type = typeOf(value), wanted = typeOf(which);
  if (dtypeOf(which) != i32 || wanted.getRank() != type.getRank() ||
      wanted.getShape().drop_back() != type.getShape().drop_back())
    fail(at, fmt::format("takeAlong: the indices are {} of rows of {}; wanted is i32 with as many "
                         "rows",
                         describe(which), describe(value)));
  const int64_t count = wanted.getShape().back();
  if (count > mostTaken)
    fail(at, fmt::format("takeAlong: {} numbers of a row; at most {}", count, mostTaken));
  if (count == 0)
    return none(type, dtypeOf(value), at);
  const Tensor numbers = columnNumbers(type, i32, at);
  SmallVector<Tensor> columns;
  for (int64_t j = 0; j < count; ++j)
    columns.push_back(taken(x.tensor, numbers, slice(At(indices, at), -1, j, 1), at));
  return joined(columns, at);
}

TopK topK(const At &x, int64_t k) {
  const Line at = x.at;
  const Value value = floats(x, "topK", /*hasRows=*/true);
  const RankedTensorType type = typeOf(value);
  if (k < 0 || k > type.getShape().back())
    fail(at, fmt::format("topK: {} of rows of {} numbers", k, type.getShape().back()));
  if (k > mostTaken) {
    const Tensor first = slice(At(argsort(x), at), -1, 0, k);
    return {gather(x, first, -1), first};
  }
  if (k == 0)
    return {none(type, dtypeOf(value), at), none(type, i32, at)};
  const Tensor numbers = columnNumbers(type, i32, at);
  // Where it can, one maximum finds number and column.
  const bool isRanked = k > 1 && dtypeOf(value) == bf16 && type.getShape().back() <= mostRanked;
  const Tensor ranks = isRanked ? ranksOf(x.tensor, numbers, at) : Tensor();
  Tensor rest = isRanked ? ranks : x.tensor, best;
  SmallVector<Tensor> values, indices;
  for (int64_t i = 0; i < k; ++i) {
    if (isRanked) {
      const Tensor largest = maximum(At(rest, at), -1);
      best = i == 0 ? largest : rankOf(largest, best, at);
    }
    indices.push_back(isRanked ? columnOf(best, at) : argmax(At(rest, at)));
    values.push_back(taken(x.tensor, numbers, indices.back(), at));
    if (i + 1 == k)
      break;
    rest = isRanked
               ? below(best, ranks, at)
               : select(Operand(numbers, at) == Operand(indices.back(), at),
                        Operand(-std::numeric_limits<double>::infinity(), at), Operand(rest, at));
  }
  return {joined(values, at), joined(indices, at)};
}

//===- Random numbers ----------------------------------------------------------===//

namespace {
/// Random bits of one call: of every element those of the columns of its row that are chosen by its
/// own.
SmallVector<Tensor> bitsOf(const Shape &shape, Line at,
                           llvm::function_ref<SmallVector<Tensor>(const Tensor &own)> columns) {
  Recorder &recorder = Recorder::current();
  const RankedTensorType type =
      recorder.tensorType({shape.sizes, static_cast<size_t>(shape.rank)}, recorder.elementType(i32),
                          at, "random numbers");
  const Recorder::RandomKey key = recorder.randomKey(at);
  auto everywhere = [&](Value number) { return recorder.broadcast(number, type.getShape(), at); };
  auto index = [&](int64_t dim) { return recorder.op<graph::IotaOp>(at, type, dim); };
  const Value zero = recorder.constant(0, type, at);
  // The row: the index among all dimensions but the last.
  Value row = zero;
  int64_t stride = 1;
  for (int64_t dim = shape.rank - 2; dim >= 0; --dim) {
    Value part = index(dim);
    if (stride > INT32_MAX)
      fail(at, fmt::format("random numbers: {} has more than 2^31 rows", text(type.getShape())));
    if (stride > 1)
      part = recorder.op<graph::MulOp>(at, part, recorder.constant(double(stride), type, at));
    row = row == zero ? part : recorder.op<graph::AddOp>(at, row, part);
    stride *= shape.sizes[dim];
  }
  const Tensor own = recorder.handle(shape.rank > 0 ? index(shape.rank - 1) : zero);
  const Value sequence = everywhere(key.sequence),
              use = recorder.constant(double(key.use), type, at), low = everywhere(key.seedLow),
              high = everywhere(key.seedHigh);
  SmallVector<Tensor> bits;
  for (const Tensor &column : columns(own))
    bits.push_back(recorder.handle(recorder.op<graph::PhiloxOp>(
        at, recorder.value(At(column, at), "random numbers"), row, sequence, use, low, high)));
  return bits;
}
} // namespace

Tensor randomBits(const Shape &shape, Line at) {
  return bitsOf(shape, at, [](const Tensor &own) { return SmallVector<Tensor>{own}; }).front();
}

namespace {
void checkProbability(double p, Line at, const char *what) {
  if (!(p >= 0 && p <= 1))
    fail(at, fmt::format("{}: a probability of {}; it is from 0 to 1", what, p));
}

/// Holds with probability p, to 2^-32 and not never: of the bits as an i32, 2^32·p lie below.
Comparison happens(const Shape &shape, double p, Line at) {
  const double bound = std::clamp(std::round(p * 0x1p32) - 0x1p31, -0x1p31 + 1, 0x1p31 - 1);
  return Operand(randomBits(shape, at), at) < Operand(bound, at);
}
} // namespace

Tensor randomUniform(const Shape &shape, double low, double high, Line at) {
  if (!(low <= high && std::isfinite(high - low)))
    fail(at, fmt::format("randomUniform: from {} to {}", low, high));
  // Of 24 bits, in [0, 1).
  const Tensor upper = Operand(randomBits(shape, at), at) >> Operand(8.0, at);
  const Tensor unit = Operand(cast(At(upper, at), f32), at) * Operand(0x1p-24, at);
  const Tensor scaled = Operand(unit, at) * Operand(high - low, at);
  return Operand(scaled, at) + Operand(low, at);
}

Tensor randomNormal(const Shape &shape, double mean, double stddev, Line at) {
  if (!(stddev >= 0 && std::isfinite(stddev) && std::isfinite(mean)))
    fail(at, fmt::format("randomNormal: mean {}, deviation {}", mean, stddev));
  // Box and Muller 1958: columns 2j and 2j + 1 are the two numbers of one radius and one angle, of
  // the bits of these columns.
  Tensor isOdd;
  const SmallVector<Tensor> bits = bitsOf(shape, at, [&](const Tensor &own) {
    isOdd = Operand(own, at) & Operand(1.0, at);
    const Tensor even = Operand(own, at) - Operand(isOdd, at);
    return SmallVector<Tensor>{even, Operand(even, at) + Operand(1.0, at)};
  });
  Recorder &recorder = Recorder::current();
  auto value = [&](const Tensor &tensor) { return recorder.value(At(tensor, at), "randomNormal"); };
  const Value radius = value(bits[0]);
  const Tensor normal = recorder.handle(recorder.op<graph::NormalOp>(
      at, typeOf(radius).clone(recorder.elementType(f32)), radius, value(bits[1]), value(isOdd)));
  const Tensor scaled = Operand(normal, at) * Operand(stddev, at);
  return Operand(scaled, at) + Operand(mean, at);
}

Tensor randomBernoulli(const Shape &shape, double p, Line at) {
  checkProbability(p, at, "randomBernoulli");
  if (p == 0 || p == 1)
    return full(shape, p, f32, at);
  return cast(At(select(happens(shape, p, at), Operand(1.0, at), Operand(0.0, at)), at), f32);
}

Tensor dropout(const At &x, double p) {
  const RankedTensorType type = typeOf(floats(x, "dropout", /*hasRows=*/false));
  const Line at = x.at;
  if (!(p >= 0 && p < 1))
    fail(at, fmt::format("dropout: a probability of {}; it is at least 0 and below 1", p));
  Recorder &recorder = Recorder::current();
  if (p == 0 || !recorder.isTraining())
    return x.tensor;
  Shape shape({});
  shape.rank = static_cast<int>(type.getRank());
  llvm::copy(type.getShape(), shape.sizes);
  const Tensor scaled = Operand(cast(x, f32), at) * Operand(1 / (1 - p), at);
  const Tensor kept = select(happens(shape, p, at), Operand(0.0, at), Operand(scaled, at));
  return cast(At(kept, at), x.tensor.type(at));
}

} // namespace nano::frontend
