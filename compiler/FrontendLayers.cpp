// The front end's matrix products, embedding, norms, attention and loss.
#include "compiler/FrontendValues.h"

#include "ir/graph/AttentionOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/Sequence.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cmath>

using namespace mlir;

namespace nano::frontend {

namespace {

bool isFloat(Value value) { return dtypeOf(value) == f32 || dtypeOf(value) == bf16; }

/// Throws unless `value` is i32 [rows].
void checkRows(Value value, int64_t rows, Line at, const char *what, const char *name) {
  if (dtypeOf(value) != i32 || typeOf(value).getRank() != 1 || typeOf(value).getDimSize(0) != rows)
    fail(at, fmt::format("{}: {} is {}; wanted is i32 [{}]", what, name, describe(value), rows));
}

} // namespace

Tensor gather(const At &table, const Tensor &ids) {
  if (const auto y = Recorder::current().replacement(
          "gather", {table.tensor, ids}, 0, table.at,
          [at = table.at](const Tensors &in) { return gather(At(in[0], at), in[1]); }))
    return *y;
  Recorder &recorder = Recorder::current();
  const Value rows = recorder.value(table, "gather");
  const Value which = recorder.value(ids, table.at, "gather");
  if (typeOf(rows).getRank() != 2 || !(isFloat(rows) || dtypeOf(rows) == i32))
    fail(table.at,
         fmt::format("gather: the table is {}; wanted is f32, bf16 or i32 [V, D]", describe(rows)));
  if (typeOf(which).getRank() != 1 || dtypeOf(which) != i32)
    fail(table.at, fmt::format("gather: the ids are {}; wanted is i32 [T]", describe(which)));
  if (dtypeOf(rows) == i32) { // in halves, which f32 holds
    auto half = [&](const Tensor &bits) {
      return cast(gather(At(cast(bits, f32), table.at), ids), i32);
    };
    return (half(Operand(table.tensor, table.at) >> 16) << 16) |
           half(Operand(table.tensor, table.at) & 0xFFFF);
  }
  if (typeOf(rows).getDimSize(0) == 0 && typeOf(which).getDimSize(0) > 0)
    fail(table.at, fmt::format("gather: {} ids of a table with no rows, {}",
                               typeOf(which).getDimSize(0), describe(rows)));
  const SmallVector<int64_t> shape{typeOf(which).getDimSize(0), typeOf(rows).getDimSize(1)};
  return recorder.handle(
      recorder.op<graph::GatherOp>(table.at, typeOf(rows).clone(shape), rows, which));
}

namespace {
/// An axis as rows of tables that lie one behind the other, one for each index of the dimensions
/// before it: [tables, size, rest] of `type`.
struct Tables {
  SmallVector<int64_t> before;
  int64_t count = 1, size = 0, columns = 1;

  Tables(RankedTensorType type, int64_t axis, Line at, const char *what) {
    const int64_t rank = type.getRank(), dim = axis < 0 ? axis + rank : axis;
    if (dim < 0 || dim >= rank)
      fail(at, fmt::format("{}: axis {} of a tensor of {} dimensions", what, axis, rank));
    before.assign(type.getShape().begin(), type.getShape().begin() + dim);
    size = type.getDimSize(dim);
    for (int64_t sizeBefore : before)
      count *= sizeBefore;
    for (int64_t sizeBehind : type.getShape().drop_front(dim + 1))
      columns *= sizeBehind;
  }
};

/// The rows that `indices` [s₀, …, k] below `size` are of `tables.count` tables of so many rows, in
/// order. One outside of its own table is made one outside of all: what is negative stays, what is
/// too large comes behind the last.
Value rowsOf(const Tensor &indices, const Tables &tables, int64_t size, int64_t each, Line at,
             const char *what) {
  Recorder &recorder = Recorder::current();
  const Value which = recorder.value(indices, at, what);
  SmallVector<int64_t> wanted = tables.before;
  if (each >= 0)
    wanted.push_back(each);
  const RankedTensorType type = typeOf(which);
  if (dtypeOf(which) != i32 || type.getRank() != int64_t(tables.before.size()) + 1 ||
      type.getShape().take_front(wanted.size()) != ArrayRef(wanted)) {
    std::string shape = text(wanted);
    if (each < 0)
      shape.insert(shape.size() - 1, wanted.empty() ? "k" : ", k");
    fail(at, fmt::format("{}: the indices are {}; wanted is i32 {}", what, describe(which), shape));
  }
  const int64_t rows = tables.count * size, count = type.getShape().back();
  if (rows > INT32_MAX || tables.count * count > INT32_MAX)
    fail(at, fmt::format("{}: the model asks for sizes that do not fit: {} rows; at most 2^31 - 1",
                         what, std::max(rows, tables.count * count)));
  const SmallVector<int64_t> flat = {tables.count * count};
  if (tables.count == 1)
    return recorder.reshape(which, flat, at);
  auto number = [&](int64_t value) { return Operand(double(value), at); };
  const Operand index(recorder.handle(recorder.reshape(which, {tables.count, count}, at)), at);
  const Operand table(iota({tables.count, 1}, 0, i32, at), at);
  const Operand row(Operand(table * number(size), at) + index, at);
  const Operand below(select(index < number(0), index, number(0)), at),
      above(Operand(select(index > number(size - 1), index, number(0)), at) + number(rows), at);
  const Operand inside(select(above > number(rows), above, row), at);
  return recorder.reshape(recorder.value(select(below < number(0), below, inside), at, what), flat,
                          at);
}
} // namespace

Tensor gather(const At &x, const Tensor &indices, int64_t axis) {
  constexpr const char *what = "gather";
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, what);
  if (!isFloat(value))
    fail(x.at, fmt::format("{}: takes f32 or bf16, not {}", what, describe(value)));
  const Tables tables(typeOf(value), axis, x.at, what);
  const int64_t taken = recorder.typeOf(indices, x.at, what).getNumElements();
  if (tables.size == 0 && taken > 0)
    fail(x.at,
         fmt::format("{}: {} indices along an axis of 0 of {}", what, taken, describe(value)));
  const Value rows = rowsOf(indices, tables, tables.size, -1, x.at, what);
  const RankedTensorType type = typeOf(value);
  const Value table = recorder.reshape(value, {tables.count * tables.size, tables.columns}, x.at);
  const Value y = recorder.op<graph::GatherOp>(
      x.at, type.clone({typeOf(rows).getDimSize(0), tables.columns}), table, rows);
  SmallVector<int64_t> shape(type.getShape());
  shape[tables.before.size()] = recorder.typeOf(indices, x.at, what).getShape().back();
  return recorder.handle(recorder.reshape(y, shape, x.at));
}

Tensor scatterAdd(const At &x, const Tensor &indices, int64_t size, int64_t axis) {
  constexpr const char *what = "scatterAdd";
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, what);
  if (!isFloat(value))
    fail(x.at, fmt::format("{}: takes f32 or bf16, not {}", what, describe(value)));
  const Tables tables(typeOf(value), axis, x.at, what);
  if (size < 1)
    fail(x.at, fmt::format("{}: into a dimension of {}", what, size));
  const Value rows = rowsOf(indices, tables, size, tables.size, x.at, what);
  const RankedTensorType type = typeOf(value);
  SmallVector<int64_t> shape(type.getShape());
  shape[tables.before.size()] = size;
  const RankedTensorType result =
      recorder.tensorType({tables.count * size, tables.columns}, type.getElementType(), x.at, what);
  const Value y = recorder.op<graph::ScatterAddOp>(
      x.at, result, recorder.reshape(value, {tables.count * tables.size, tables.columns}, x.at),
      rows);
  return recorder.handle(recorder.reshape(y, shape, x.at));
}

namespace {
graph::MatmulOp product(const At &a, const Tensor &b, bool transposed) {
  constexpr const char *what = "matmul";
  Recorder &recorder = Recorder::current();
  Value left = recorder.value(a, what);
  Value right = recorder.value(b, a.at, what);
  const RankedTensorType x = typeOf(left), y = typeOf(right);
  const std::string both =
      fmt::format("{} × {}{}", shapeOf(left), shapeOf(right), transposed ? "ᵀ" : "");
  if (!isFloat(left) || !isFloat(right))
    fail(a.at, fmt::format("{}: takes f32 or bf16, not {} × {}", what, nameOf(dtypeOf(left)),
                           nameOf(dtypeOf(right))));
  if (x.getRank() < 2 || y.getRank() != x.getRank())
    fail(a.at, fmt::format("{}: both sides need the same number of dimensions, at least 2: {}",
                           what, both));
  const int64_t rank = x.getRank();
  if (x.getShape().drop_back(2) != y.getShape().drop_back(2))
    fail(a.at, fmt::format("{}: leading dimensions differ: {}", what, both));
  const int64_t inner = y.getDimSize(transposed ? rank - 1 : rank - 2);
  if (x.getDimSize(rank - 1) != inner)
    fail(a.at, fmt::format("{}: inner dimensions differ: {}; transpose or reshape one of them",
                           what, both));
  if (transposed)
    right = recorder.cast(right, x.getElementType(), a.at);
  else if (x.getElementType() != y.getElementType())
    fail(a.at, fmt::format("{}: types differ: {} × {}; cast one", what, nameOf(dtypeOf(left)),
                           nameOf(dtypeOf(right))));
  SmallVector<int64_t> shape(x.getShape());
  shape.back() = y.getDimSize(transposed ? rank - 2 : rank - 1);
  const RankedTensorType result = recorder.tensorType(shape, x.getElementType(), a.at, what);
  auto transposes = [](Value &operand) {
    auto transpose = operand.getDefiningOp<graph::TransposeOp>();
    if (transpose)
      operand = transpose.getX();
    return bool(transpose);
  };
  const bool leftTransposed = transposes(left), rightTransposed = transposes(right);
  return recorder
      .op<graph::MatmulOp>(a.at, result, left, right, leftTransposed, rightTransposed != transposed)
      .getDefiningOp<graph::MatmulOp>();
}

/// A product's scale, through which nothing is differentiated.
Value scaleOf(const Operand &scale, const char *what) {
  Recorder &recorder = Recorder::current();
  if (scale.isNumber && !(scale.number >= 0x1p-100 && scale.number <= 0x1p100))
    fail(scale.at, fmt::format("{}: a scale of {}; it must lie between 2^-100 and 2^100", what,
                               scale.number));
  const Tensor tensor =
      scale.isNumber ? recorder.scheduled(Sched(scale.number), scale.at) : scale.tensor;
  const Value value = recorder.value(tensor, scale.at, what);
  if (dtypeOf(value) != f32 || typeOf(value).getRank() != 0)
    fail(scale.at, fmt::format("{}: a scale is {}; wanted is f32 []", what, describe(value)));
  return recorder.value(stopGradient(At(tensor, scale.at)), scale.at, what);
}

/// The product with its operands in 8 bits.
Tensor product(const At &a, const Tensor &b, bool transposed, const Fp8Scales &scales) {
  constexpr const char *what = "matmul in FP8";
  Recorder &recorder = Recorder::current();
  const Value scaleA = scaleOf(scales.input, what), scaleB = scaleOf(scales.weight, what);
  graph::MatmulOp op = product(a, b, transposed);
  const RankedTensorType left = typeOf(op.getA()), result = typeOf(op.getResult());
  if (result.getRank() != 2)
    fail(a.at, fmt::format("{}: takes matrices, not {} × {}", what, describe(op.getA()),
                           describe(op.getB())));
  constexpr int64_t unit = 16; // bytes that rows of the libraries' 8-bit operands begin at
  const int64_t inner = left.getDimSize(op.getTransposeA() ? 0 : 1), columns = result.getDimSize(1);
  if (inner % unit != 0 || columns % unit != 0)
    fail(a.at, fmt::format("{}: an inner dimension of {} and {} columns; both must be multiples of "
                           "{}",
                           what, inner, columns, unit));
  auto quantized = [&](Value x, Value scale) {
    const auto type = typeOf(x).clone(Float8E4M3FNType::get(x.getContext()));
    return recorder.op<graph::QuantizeOp>(a.at, type, x, scale);
  };
  const Value q = quantized(op.getA(), scaleA), w = quantized(op.getB(), scaleB);
  const Value y = recorder.op<graph::ScaledMatmulOp>(a.at, result, q, w, scaleA, scaleB,
                                                     op.getTransposeA(), op.getTransposeB());
  op.erase();
  return recorder.handle(y);
}
} // namespace

Tensor transpose(const At &x) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, "transpose");
  SmallVector<int64_t> shape(typeOf(value).getShape());
  if (shape.size() < 2)
    fail(x.at, fmt::format("transpose: takes matrices, not {}", describe(value)));
  std::swap(shape[shape.size() - 2], shape.back());
  return recorder.handle(recorder.op<graph::TransposeOp>(x.at, typeOf(value).clone(shape), value));
}
Tensor matmul(const At &a, const Tensor &b) {
  const auto y = Recorder::current().replacement(
      "matmul", {a.tensor, b}, 0, a.at,
      [at = a.at](const Tensors &in) { return matmul(At(in[0], at), in[1]); });
  return y ? *y : Recorder::current().handle(product(a, b, false));
}
Tensor linear(const At &x, const Tensor &weight) {
  const auto y = Recorder::current().replacement(
      "linear", {x.tensor, weight}, 0, x.at,
      [at = x.at](const Tensors &in) { return linear(At(in[0], at), in[1]); });
  return y ? *y : Recorder::current().handle(product(x, weight, true));
}
Tensor matmul(const At &a, const Tensor &b, const Fp8Scales &scales) {
  return product(a, b, false, scales);
}
Tensor linear(const At &x, const Tensor &weight, const Fp8Scales &scales) {
  return product(x, weight, true, scales);
}

//===- Norms -------------------------------------------------------------------===//

namespace {
/// x as f32, when it can be normalised over its last dimension.
Tensor normalisable(const At &x, const char *what) {
  const Value value = Recorder::current().value(x, what);
  if (typeOf(value).getRank() == 0 || !isFloat(value))
    fail(x.at, fmt::format("{}: takes f32 or bf16 rows, not {}", what, describe(value)));
  return cast(x, f32);
}

/// Mean over the last dimension, which disappears.
Tensor rowMean(const Tensor &x, Line at) {
  Tensor kept = mean(At(x, at), -1);
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(kept, at, "mean");
  return recorder.handle(value.getDefiningOp<graph::ReshapeOp>().getX());
}

/// rsqrt(mean(x²) + eps) of every row, as a column that goes with the rows' elements. eps is added
/// to each square, so that the sum's roundings keep it on average: f32 numbers near mean(x²) lie
/// farther apart than the default eps where rows are larger than 1, and adding it to their mean
/// would change nothing.
Tensor rowScale(const Tensor &x, double eps, Line at) {
  Recorder &recorder = Recorder::current();
  const Tensor squares = Operand(square(At(x, at)), at) + Operand(eps, at);
  const Tensor scale = rsqrt(At(rowMean(squares, at), at));
  const Value value = recorder.value(scale, at, "norm");
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape.push_back(1);
  return recorder.handle(recorder.reshape(value, shape, at));
}
} // namespace

Tensor norm(const At &x) { return norm(x, epsilon(f32)); }

Tensor norm(const At &x, double eps) {
  const Line at = x.at;
  if (const auto y = Recorder::current().replacement(
          "norm", {x.tensor}, eps, at, [=](const Tensors &in) { return norm(At(in[0], at), eps); }))
    return *y;
  const Tensor wide = normalisable(x, "norm");
  const Tensor scaled = Operand(wide, at) * Operand(rowScale(wide, eps, at), at);
  return cast(At(scaled, at), x.tensor.type(at));
}

Tensor layerNorm(const At &x, const Tensor &scale, const Tensor &shift, double eps) {
  const Line at = x.at;
  if (const auto y = Recorder::current().replacement(
          "layerNorm", {x.tensor, scale, shift}, eps, at,
          [=](const Tensors &in) { return layerNorm(At(in[0], at), in[1], in[2], eps); }))
    return *y;
  auto arg = [&](const Tensor &tensor) { return Operand(tensor, at); };
  const Tensor wide = normalisable(x, "layerNorm");
  for (const Tensor &parameter : {scale, shift})
    if (parameter.rank(at) != 1 || parameter.size(0, at) != wide.size(-1, at))
      fail(at, fmt::format("layerNorm: scale and shift need one element a column: {} for {}",
                           shapeOf(Recorder::current().value(parameter, at, "layerNorm")),
                           shapeOf(Recorder::current().value(wide, at, "layerNorm"))));
  const Tensor centred = arg(wide) - arg(mean(At(wide, at), -1));
  const Tensor scaled = arg(centred) * arg(rowScale(centred, eps, at));
  return cast(At(arg(arg(scaled) * arg(scale)) + arg(shift), at), x.tensor.type(at));
}

//===- Attention and loss ------------------------------------------------------===//

namespace {
/// q multiplied by a scale that is no number; `how` has a number then.
Tensor scaled(const At &q, Attention &how) {
  if (how.scale.isNumber)
    return q.tensor;
  const Operand scale = how.scale;
  how.scale = Operand(1.0, scale.at);
  const Tensor product = Operand(cast(q, f32), q.at) * scale;
  Recorder &recorder = Recorder::current();
  const Value before = recorder.value(q, "attention"),
              after = recorder.value(product, q.at, "attention");
  if (typeOf(after).getShape() != typeOf(before).getShape())
    fail(scale.at, fmt::format("attention: a scale of {} does not go with q, {}",
                               describe(recorder.value(scale.tensor, scale.at, "attention")),
                               describe(before)));
  return cast(At(product, q.at), q.tensor.type(q.at));
}

graph::AttentionOp recordAttention(const At &q, const Tensor &k, const Tensor &v,
                                   const Attention &how) {
  constexpr const char *what = "attention";
  Recorder &recorder = Recorder::current();
  const Value query = recorder.value(q, what);
  const Value key = recorder.value(k, q.at, what), value = recorder.value(v, q.at, what);
  if (typeOf(query).getRank() != 3 || !isFloat(query))
    fail(q.at, fmt::format("{}: q is {}; wanted is f32 or bf16 [T, H, Dh]", what, describe(query)));
  if (typeOf(query).getDimSize(1) < 1 || typeOf(query).getDimSize(2) < 1)
    fail(q.at, fmt::format("{}: q is {}; a head at least, of an element at least", what,
                           describe(query)));
  auto headsOf = [](Value x) { return typeOf(x).getShape().take_front(2); };
  if (typeOf(key).getRank() != 3 || typeOf(value).getRank() != 3 ||
      headsOf(key) != headsOf(value) || headsOf(key)[0] != headsOf(query)[0] ||
      typeOf(key).getElementType() != typeOf(query).getElementType() ||
      typeOf(value).getElementType() != typeOf(query).getElementType() ||
      typeOf(key).getDimSize(2) != typeOf(query).getDimSize(2))
    fail(q.at,
         fmt::format("{}: q, k and v differ: {}, {} and {}; k and v may have fewer heads than "
                     "q, and v heads of another size",
                     what, describe(query), describe(key), describe(value)));
  if (typeOf(key).getDimSize(1) < 1 || typeOf(value).getDimSize(2) < 1)
    fail(q.at, fmt::format("{}: k and v are {} and {}; a head at least, of an element at least",
                           what, describe(key), describe(value)));
  if (const int64_t shared = typeOf(key).getDimSize(1); typeOf(query).getDimSize(1) % shared != 0)
    fail(q.at, fmt::format("{}: the {} heads of k and v do not divide the {} of q", what, shared,
                           typeOf(query).getDimSize(1)));
  const int64_t rows = typeOf(query).getDimSize(0), heads = typeOf(query).getDimSize(1);
  // Kernels are written for one size of a head, and grow with it.
  constexpr int64_t largestHead = 4096;
  const int64_t valueSize = typeOf(value).getDimSize(2);
  if (const int64_t size = max(typeOf(query).getDimSize(2), valueSize); size > largestHead)
    fail(q.at, fmt::format("{}: the model asks for sizes that do not fit: heads of {} elements; at "
                           "most {}",
                           what, size, largestHead));
  const Value first = recorder.value(how.first, q.at, "attention's first");
  const Value last = recorder.value(how.last, q.at, "attention's last");
  checkRows(first, rows, q.at, what, "first");
  checkRows(last, rows, q.at, what, "last");
  if (!std::isfinite(how.scale.number))
    fail(q.at, fmt::format("{}: the scale is not finite", what));

  MLIRContext *context = query.getContext();
  const auto lse = RankedTensorType::get({rows, heads}, Float32Type::get(context));
  const Value y = recorder.op<graph::AttentionOp>(
      q.at, typeOf(query).clone({rows, heads, valueSize}), lse, query, key, value, first, last,
      FloatAttr::get(Float64Type::get(context), how.scale.number));
  auto op = y.getDefiningOp<graph::AttentionOp>();
  if (how.score.call)
    recorder.recordScore(op.getScore(), how.score, q.at);
  return op;
}
} // namespace

Tensor attention(const At &q, const Tensor &k, const Tensor &v, const Attention &how) {
  Recorder &recorder = Recorder::current();
  Attention own = how;
  const Tensor query = scaled(q, own);
  if (!how.score.call)
    if (const auto y =
            recorder.replacement("attention", {query, k, v, how.first, how.last}, own.scale.number,
                                 q.at, [=, at = q.at](const Tensors &in) {
                                   Attention inner = own;
                                   inner.first = in[3];
                                   inner.last = in[4];
                                   return attention(At(in[0], at), in[1], in[2], inner);
                                 }))
      return *y;
  return recorder.handle(recordAttention(At(query, q.at), k, v, own).getY());
}

AttentionSums attentionSums(const At &q, const Tensor &k, const Tensor &v, const Attention &how) {
  Recorder &recorder = Recorder::current();
  Attention own = how;
  graph::AttentionOp op = recordAttention(At(scaled(q, own), q.at), k, v, own);
  return {recorder.handle(op.getY()), recorder.handle(op.getLse())};
}

//===- Bands -------------------------------------------------------------------===//

namespace {
/// Throws unless the two are floats [T, H, …] of the same tokens and heads, and a band of `width`
/// fits.
void checkBand(Value a, Value b, int64_t width, Line at, const char *what) {
  for (Value value : {a, b})
    if (!isFloat(value) || typeOf(value).getRank() != 3)
      fail(at,
           fmt::format("{}: takes f32 or bf16 of three dimensions, not {}", what, describe(value)));
  const int64_t tokens = typeOf(a).getDimSize(0);
  if (tokens != typeOf(b).getDimSize(0) || typeOf(a).getDimSize(1) != typeOf(b).getDimSize(1))
    fail(at, fmt::format("{}: tokens or heads differ: {} and {}", what, shapeOf(a), shapeOf(b)));
  if (width < 1 || width > tokens)
    fail(at, fmt::format("{}: a band of {} tokens in a sequence of {}", what, width, tokens));
}
} // namespace

Tensor bandScores(const At &q, const Tensor &k, int64_t width) {
  constexpr const char *what = "bandScores";
  Recorder &recorder = Recorder::current();
  const Value query = recorder.value(q, what), key = recorder.value(k, q.at, what);
  checkBand(query, key, width, q.at, what);
  if (typeOf(query).getShape() != typeOf(key).getShape())
    fail(q.at, fmt::format("{}: q and k differ: {} and {}", what, shapeOf(query), shapeOf(key)));
  const RankedTensorType type =
      recorder.tensorType({typeOf(query).getDimSize(0), typeOf(query).getDimSize(1), width},
                          recorder.elementType(f32), q.at, what);
  return recorder.handle(recorder.op<graph::BandScoresOp>(q.at, type, query, key));
}

Tensor bandProduct(const At &p, const Tensor &v) {
  constexpr const char *what = "bandProduct";
  Recorder &recorder = Recorder::current();
  const Value weights = recorder.value(p, what), rows = recorder.value(v, p.at, what);
  const RankedTensorType type = typeOf(weights);
  checkBand(weights, rows, type.getRank() == 3 ? type.getDimSize(2) : 1, p.at, what);
  return recorder.handle(
      recorder.op<graph::BandProductOp>(p.at, rows.getType(), weights, rows, UnitAttr()));
}

Tensor crossEntropy(const At &logits, const Tensor &targets) {
  constexpr const char *what = "crossEntropy";
  Recorder &recorder = Recorder::current();
  if (const auto y = recorder.replacement(
          what, {logits.tensor, targets}, 0, logits.at,
          [at = logits.at](const Tensors &in) { return crossEntropy(At(in[0], at), in[1]); }))
    return *y;
  const Value scores = recorder.value(logits, what);
  if (typeOf(scores).getRank() != 2 || dtypeOf(scores) != f32)
    fail(logits.at,
         fmt::format("{}: the logits are {}; wanted is f32 [T, V]", what, describe(scores)));
  if (typeOf(scores).getDimSize(1) < 1)
    fail(logits.at, fmt::format("{}: the logits {} have no columns that a target could be", what,
                                describe(scores)));
  const int64_t rows = typeOf(scores).getDimSize(0);
  const Value which = recorder.value(targets, logits.at, what);
  checkRows(which, rows, logits.at, what, "targets");
  const auto perRow = RankedTensorType::get({rows}, typeOf(scores).getElementType());
  return recorder.handle(
      recorder.op<graph::CrossEntropyOp>(logits.at, perRow, perRow, scores, which));
}

} // namespace nano::frontend
