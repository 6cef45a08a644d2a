// The front end's matrix products: of two dimensions and more, and in 8 bits.
#include "compiler/FrontendValues.h"

#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::frontend {

namespace {
[[noreturn]] void failOfInner(Line at, const std::string &both) {
  fail(at,
       fmt::format("matmul: inner dimensions differ: {}; transpose or reshape one of them", both));
}

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
  if (x.getRank() < 2 || y.getRank() < 2)
    fail(a.at, fmt::format("{}: both sides need two dimensions at least: {}", what, both));
  const int64_t rank = x.getRank();
  if (x.getShape().drop_back(2) != y.getShape().drop_back(2))
    fail(a.at, fmt::format("{}: leading dimensions differ{}: {}", what,
                           transposed ? ""
                                      : "; each is the same on both sides, or 1 or missing on "
                                        "one",
                           both));
  const int64_t inner = y.getDimSize(transposed ? rank - 1 : rank - 2);
  if (x.getDimSize(rank - 1) != inner)
    failOfInner(a.at, both);
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

namespace {
/// Dimensions `keys` of x, which has these sizes and 1 in all others, in that order; then as
/// `shape`.
Tensor arranged(const Tensor &x, ArrayRef<int64_t> sizes, ArrayRef<int64_t> keys,
                ArrayRef<int64_t> shape, Line at) {
  SmallVector<int64_t> kept, place(sizes.size(), -1);
  for (int64_t d = 0; d < int64_t(sizes.size()); ++d)
    if (llvm::is_contained(keys, d)) {
      place[d] = kept.size();
      kept.push_back(sizes[d]);
    }
  Axes order(0);
  order.count = static_cast<int>(keys.size());
  for (auto [i, key] : llvm::enumerate(keys))
    order.axes[i] = place[key];
  Recorder &recorder = Recorder::current();
  auto reshaped = [&](const Tensor &t, ArrayRef<int64_t> to) {
    return recorder.handle(recorder.reshape(recorder.value(t, at, "matmul"), to, at));
  };
  return reshaped(transpose(At(reshaped(x, kept), at), order), shape);
}

/// a·b where leading dimensions are missing or 1 on one side. Nothing is repeated: what a alone has
/// joins its rows, what b alone has its columns, and one product has them all. Of a b that is a
/// transpose these columns are rows of what it turns, beside which they lie already.
Tensor unevenProduct(const At &a, const Tensor &b) {
  Recorder &recorder = Recorder::current();
  const RankedTensorType x = recorder.typeOf(a.tensor, a.at, "matmul"),
                         y = recorder.typeOf(b, a.at, "matmul");
  const int64_t lead = std::max(x.getRank(), y.getRank()) - 2;
  auto filled = [&](RankedTensorType type) {
    SmallVector<int64_t> sizes(lead + 2 - type.getRank(), 1);
    llvm::append_range(sizes, type.getShape());
    return sizes;
  };
  const SmallVector<int64_t> left = filled(x), right = filled(y);
  if (left.back() != right[lead])
    failOfInner(a.at, fmt::format("{} × {}", text(x.getShape()), text(y.getShape())));
  SmallVector<int64_t> both, ofA, ofB, sizes; // which leading dimensions are whose
  for (int64_t d = 0; d < lead; ++d)
    (left[d] == right[d] ? both : right[d] == 1 ? ofA : ofB).push_back(d);
  auto with = [](SmallVector<int64_t> list, std::initializer_list<ArrayRef<int64_t>> more) {
    for (ArrayRef<int64_t> each : more)
      llvm::append_range(list, each);
    return list;
  };
  int64_t rows = left[lead], columns = right[lead + 1];
  for (int64_t d : both)
    sizes.push_back(left[d]);
  for (int64_t d : ofA)
    rows *= left[d];
  for (int64_t d : ofB)
    columns *= right[d];
  const Tensor wide = arranged(a.tensor, left, with(both, {ofA, {lead, lead + 1}}),
                               with(sizes, {{rows, left[lead + 1]}}), a.at);
  Tensor tall;
  if (auto turned = recorder.value(b, a.at, "matmul").getDefiningOp<graph::TransposeOp>();
      turned && !ofB.empty()) {
    SmallVector<int64_t> sizesOfRows(right);
    std::swap(sizesOfRows[lead], sizesOfRows[lead + 1]);
    const Tensor rowsOfB =
        arranged(recorder.handle(turned.getX()), sizesOfRows, with(both, {ofB, {lead, lead + 1}}),
                 with(sizes, {{columns, right[lead]}}), a.at);
    tall = transpose(At(rowsOfB, a.at));
  } else {
    tall = arranged(b, right, with(both, {{lead}, ofB, {lead + 1}}),
                    with(sizes, {{right[lead], columns}}), a.at);
  }
  const Tensor product = matmul(At(wide, a.at), tall);
  // Back into their places.
  SmallVector<int64_t> result, keys = with(both, {ofA, {lead}, ofB, {lead + 1}}), order(lead + 2);
  for (int64_t d = 0; d < lead; ++d)
    result.push_back(left[d] == 1 ? right[d] : left[d]);
  result.append({left[lead], right[lead + 1]});
  SmallVector<int64_t> found;
  for (auto [i, key] : llvm::enumerate(keys)) {
    order[key] = i;
    found.push_back(result[key]);
  }
  return arranged(product, found, order, result, a.at);
}

/// Whether the leading dimensions of matrices differ as `unevenProduct` takes them.
bool isUneven(RankedTensorType a, RankedTensorType b) {
  if (a.getRank() < 2 || b.getRank() < 2 || a.getShape().drop_back(2) == b.getShape().drop_back(2))
    return false;
  const auto left = llvm::reverse(a.getShape().drop_back(2)),
             right = llvm::reverse(b.getShape().drop_back(2));
  return llvm::all_of(llvm::zip(left, right), [](auto sizes) {
    const auto [x, y] = sizes;
    return x == y || x == 1 || y == 1;
  });
}
} // namespace

Tensor matmul(const At &a, const Tensor &b) {
  Recorder &recorder = Recorder::current();
  if (isUneven(recorder.typeOf(a.tensor, a.at, "matmul"), recorder.typeOf(b, a.at, "matmul")))
    return unevenProduct(a, b);
  const auto y =
      recorder.replacement("matmul", {a.tensor, b}, 0, a.at,
                           [at = a.at](const Tensors &in) { return matmul(At(in[0], at), in[1]); });
  return y ? *y : recorder.handle(product(a, b, false));
}
Tensor linear(const At &x, const Tensor &weight) {
  Recorder &recorder = Recorder::current();
  const RankedTensorType type = recorder.typeOf(x.tensor, x.at, "linear");
  if (type.getRank() > 2 && recorder.typeOf(weight, x.at, "linear").getRank() == 2) {
    // The rows of all leading dimensions are those of one product.
    auto reshaped = [&](const Tensor &rows, ArrayRef<int64_t> sizes) {
      return recorder.handle(recorder.reshape(recorder.value(rows, x.at, "linear"), sizes, x.at));
    };
    SmallVector<int64_t> sizes(type.getShape());
    int64_t count = 1;
    for (int64_t size : type.getShape().drop_back())
      count *= size;
    const Tensor y = linear(At(reshaped(x.tensor, {count, sizes.back()}), x.at), weight);
    sizes.back() = y.size(1, x.at);
    return reshaped(y, sizes);
  }
  const auto y =
      recorder.replacement("linear", {x.tensor, weight}, 0, x.at,
                           [at = x.at](const Tensors &in) { return linear(At(in[0], at), in[1]); });
  return y ? *y : recorder.handle(product(x, weight, true));
}
Tensor matmul(const At &a, const Tensor &b, const Fp8Scales &scales) {
  return product(a, b, false, scales);
}
Tensor linear(const At &x, const Tensor &weight, const Fp8Scales &scales) {
  return product(x, weight, true, scales);
}

Tensor groupedLinear(const At &x, const Tensor &weights, const Tensor &ends) {
  constexpr const char *what = "groupedLinear";
  Recorder &recorder = Recorder::current();
  const Value rows = recorder.value(x, what), last = recorder.value(ends, x.at, what);
  Value matrices = recorder.value(weights, x.at, what);
  for (auto [value, rank] : {std::pair(rows, 2), std::pair(matrices, 3)})
    if (!isFloat(value) || typeOf(value).getRank() != rank)
      fail(x.at, fmt::format("{}: takes rows of two dimensions and weights of three, f32 or bf16, "
                             "not {} and {}",
                             what, describe(rows), describe(matrices)));
  const int64_t groups = typeOf(matrices).getDimSize(0), inner = typeOf(rows).getDimSize(1);
  if (dtypeOf(last) != i32 || typeOf(last).getRank() != 1 || typeOf(last).getDimSize(0) != groups ||
      groups < 1)
    fail(x.at, fmt::format("{}: the ends of {} groups are i32 [{}], of one at least, not {}", what,
                           groups, groups, describe(last)));
  if (typeOf(matrices).getDimSize(2) != inner)
    fail(x.at, fmt::format("{}: rows of {} numbers, and weights of {}", what, inner,
                           typeOf(matrices).getDimSize(2)));
  matrices = recorder.cast(matrices, typeOf(rows).getElementType(), x.at);
  const RankedTensorType type =
      recorder.tensorType({typeOf(rows).getDimSize(0), typeOf(matrices).getDimSize(1)},
                          typeOf(rows).getElementType(), x.at, what);
  return recorder.handle(recorder.op<graph::GroupedMatmulOp>(x.at, type, rows, matrices, last,
                                                             UnitAttr::get(type.getContext())));
}

} // namespace nano::frontend
