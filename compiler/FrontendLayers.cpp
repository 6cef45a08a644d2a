// The front end's embedding, norms, attention and loss.
#include "compiler/FrontendValues.h"

#include "ir/graph/AttentionOps.h"
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

/// Throws unless `value` is i32 [rows].
void checkRows(Value value, int64_t rows, Line at, const char *what, const char *name) {
  if (dtypeOf(value) != i32 || typeOf(value).getRank() != 1 || typeOf(value).getDimSize(0) != rows)
    fail(at, fmt::format("{}: {} is {}; wanted is i32 [{}]", what, name, describe(value), rows));
}

/// What `take` moves of x, i32, without computing: in halves, which f32 holds.
template <typename Take> Tensor inHalves(const At &x, const Take &take) {
  auto half = [&](const Tensor &bits) {
    return cast(At(take(At(cast(At(bits, x.at), f32), x.at)), x.at), i32);
  };
  const Operand whole(x.tensor, x.at), sixteen(16, x.at);
  const Operand high(half(whole >> sixteen), x.at), low(half(whole & Operand(0xFFFF, x.at)), x.at);
  return Operand(high << sixteen, x.at) | low;
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
  if (typeOf(rows).getRank() == 2 && typeOf(which).getRank() > 1 && dtypeOf(which) == i32) {
    const int64_t count = typeOf(which).getNumElements();
    const Tensor flat = recorder.handle(recorder.reshape(which, {count}, table.at));
    SmallVector<int64_t> sizes(typeOf(which).getShape());
    sizes.push_back(typeOf(rows).getDimSize(1));
    const Tensor y = gather(table, flat);
    return recorder.handle(
        recorder.reshape(recorder.value(y, table.at, "gather"), sizes, table.at));
  }
  if (typeOf(rows).getRank() != 2 || !(isFloat(rows) || dtypeOf(rows) == i32))
    fail(table.at,
         fmt::format("gather: the table is {}; wanted is f32, bf16 or i32 [V, D]", describe(rows)));
  if (typeOf(which).getRank() != 1 || dtypeOf(which) != i32)
    fail(table.at, fmt::format("gather: the ids are {}; wanted is i32 [T]", describe(which)));
  if (dtypeOf(rows) == i32)
    return inHalves(table, [&](const At &half) { return gather(half, ids); });
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
  if (dtypeOf(value) == i32)
    return inHalves(x, [&](const At &half) { return gather(half, indices, axis); });
  if (!isFloat(value))
    fail(x.at, fmt::format("{}: takes f32, bf16 or i32, not {}", what, describe(value)));
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

namespace {
/// `rows` more at the end of x, of one number.
Tensor lengthened(const Tensor &x, int64_t rows, double number, Line at) {
  Shape shape = x.shape(at);
  shape.sizes[0] = rows;
  return concat({x, full(shape, number, x.type(at), at)}, 0, at);
}

/// Attention of queries to keys of another number of tokens, as `attend` of as many computes it:
/// keys that no query sees are added, or queries that see the last key alone and that nobody reads.
template <typename Attend>
AttentionSums evened(const At &q, const Tensor &k, const Tensor &v, const Attention &how,
                     const Attend &attend) {
  const int64_t queries = q.tensor.size(0, q.at), keys = k.size(0, q.at);
  Recorder &recorder = Recorder::current();
  auto check = [&](const Tensor &key, const char *name) {
    checkRows(recorder.value(key, q.at, "attention"), queries, q.at, "attention", name);
  };
  check(how.first, "first");
  check(how.last, "last");
  if (keys < queries) {
    const int64_t more = queries - keys;
    return attend(q, lengthened(k, more, 0, q.at), lengthened(v, more, 0, q.at), how);
  }
  const int64_t more = keys - queries;
  Attention longer = how;
  longer.first = lengthened(how.first, more, double(keys - 1), q.at);
  longer.last = lengthened(how.last, more, double(keys - 1), q.at);
  const AttentionSums all = attend(At(lengthened(q.tensor, more, 0, q.at), q.at), k, v, longer);
  auto own = [&](const Tensor &x) { return x.id ? slice(At(x, q.at), 0, 0, queries) : x; };
  return {own(all.y), own(all.lse)};
}

/// Whether there are more keys than queries, or fewer.
bool haveOtherKeys(const At &q, const Tensor &k, const Tensor &v) {
  Recorder &recorder = Recorder::current();
  auto shape = [&](const Tensor &x) { return recorder.typeOf(x, q.at, "attention").getShape(); };
  const ArrayRef<int64_t> queries = shape(q.tensor), keys = shape(k), values = shape(v);
  return queries.size() == 3 && keys.size() == 3 && values.size() == 3 && keys[0] > 0 &&
         keys[0] == values[0] && keys[0] != queries[0];
}
} // namespace

Tensor attention(const At &q, const Tensor &k, const Tensor &v, const Attention &how) {
  Recorder &recorder = Recorder::current();
  Attention own = how;
  const Tensor query = scaled(q, own);
  if (haveOtherKeys(q, k, v))
    return evened(At(query, q.at), k, v, own,
                  [](const At &q, const Tensor &k, const Tensor &v, const Attention &how) {
                    return AttentionSums{attention(q, k, v, how), {}};
                  })
        .y;
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
  const At query(scaled(q, own), q.at);
  if (haveOtherKeys(q, k, v))
    return evened(query, k, v, own, attentionSums);
  graph::AttentionOp op = recordAttention(query, k, v, own);
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
    fail(logits.at, fmt::format("{}: the logits are {}; wanted is f32 [T, V]: cast or reshape them",
                                what, describe(scores)));
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
