// The front end's arithmetic, shape functions, reductions, and the rules for types and shapes that
// go together.
#include "compiler/FrontendValues.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/Sequence.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Shapes.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cmath>

using namespace mlir;

namespace nano::frontend {

namespace {

//===- Operands that go together -----------------------------------------------===//

/// The shape that both broadcast to.
SmallVector<int64_t> commonShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b, Line at,
                                 const char *what) {
  const size_t rank = std::max(a.size(), b.size());
  SmallVector<int64_t> shape(rank);
  for (size_t i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1)
      fail(at, fmt::format("{}: shapes do not go together: {} and {}; sizes must be equal or 1, "
                           "from the last on",
                           what, text(a), text(b)));
    shape[rank - i] = x == 1 ? y : x;
  }
  return shape;
}

/// The element type in which an operation on both is computed.
DType commonType(DType a, DType b, Line at, const char *what) {
  auto isFloat = [](DType type) { return type == f32 || type == bf16; };
  if ((a == i32 && b == i32) || (a == bf16 && b == bf16))
    return a;
  if (isFloat(a) && isFloat(b))
    return f32;
  fail(at, fmt::format("{}: no arithmetic on {} and {}; cast one", what, nameOf(a), nameOf(b)));
}

/// Operands brought to one shape and, by pairs, to one type.
class Arguments {
public:
  Arguments(const char *what, std::initializer_list<Operand> operands)
      : recorder(Recorder::current()), what(what), operands(operands), values(operands.size()) {
    at = this->operands.front().at;
    bool any = false;
    for (auto [i, operand] : llvm::enumerate(this->operands)) {
      if (operand.isNumber)
        continue;
      values[i] = recorder.value(operand.tensor, operand.at, what);
      shape = any ? commonShape(shape, typeOf(values[i]).getShape(), operand.at, what)
                  : SmallVector<int64_t>(typeOf(values[i]).getShape());
      any = true;
    }
    if (!any)
      fail(at, fmt::format("{}: needs a tensor; these are numbers", what));
  }

  /// Brings operands i and j to one type: theirs, or `otherwise` when both are numbers.
  void agree(size_t i, size_t j, DType otherwise) {
    DType type = otherwise;
    if (values[i] && values[j])
      type = commonType(dtypeOf(values[i]), dtypeOf(values[j]), at, what);
    else if (values[i] || values[j])
      type = commonType(dtypeOf(values[i] ? values[i] : values[j]),
                        dtypeOf(values[i] ? values[i] : values[j]), at, what);
    bring(i, type);
    bring(j, type);
  }

  Value operator[](size_t i) const { return values[i]; }
  RankedTensorType type() const { return typeOf(values.back()); }

  Recorder &recorder;
  Line at;

private:
  void bring(size_t i, DType type) {
    const Type element = recorder.elementType(type);
    const Operand &operand = operands[i];
    if (operand.isNumber) {
      if (type == i32 && (operand.number != std::floor(operand.number) ||
                          operand.number < INT32_MIN || operand.number > INT32_MAX))
        fail(operand.at, fmt::format("{}: {} is not an i32; cast the tensor to f32 first", what,
                                     operand.number));
      values[i] =
          recorder.constant(operand.number, RankedTensorType::get(shape, element), operand.at);
      return;
    }
    values[i] =
        recorder.broadcast(recorder.cast(values[i], element, operand.at), shape, operand.at);
  }

  const char *what;
  SmallVector<Operand> operands;
  SmallVector<Value> values;
  SmallVector<int64_t> shape;
};

template <typename OpTy> Tensor binary(const char *what, const Operand &a, const Operand &b) {
  Arguments arguments(what, {a, b});
  arguments.agree(0, 1, f32);
  return arguments.recorder.handle(
      arguments.recorder.op<OpTy>(arguments.at, arguments[0], arguments[1]));
}

/// Of i32 alone.
template <typename OpTy> Tensor integers(const char *what, const Operand &a, const Operand &b) {
  Arguments arguments(what, {a, b});
  arguments.agree(0, 1, i32);
  if (const DType type = dtypeOf(arguments[0]); type != i32)
    fail(arguments.at, fmt::format("{}: takes i32, not {}", what, nameOf(type)));
  return arguments.recorder.handle(
      arguments.recorder.op<OpTy>(arguments.at, arguments[0], arguments[1]));
}

/// The value of x, which must be f32 or bf16.
Value floats(const At &x, const char *what) {
  const Value value = Recorder::current().value(x, what);
  if (const DType type = dtypeOf(value); type != f32 && type != bf16)
    fail(x.at, fmt::format("{}: takes f32 or bf16, not {}", what, nameOf(type)));
  return value;
}

template <typename OpTy> Tensor unary(const char *what, const At &x) {
  const Value value = floats(x, what);
  Recorder &recorder = Recorder::current();
  return recorder.handle(recorder.op<OpTy>(x.at, value));
}

/// `axis` counted from the front.
int64_t axisOf(int64_t axis, int64_t rank, Line at, const char *what) {
  if (axis < -rank || axis >= rank)
    fail(at, fmt::format("{}: axis {} of a tensor of {} dimensions", what, axis, rank));
  return axis < 0 ? axis + rank : axis;
}

} // namespace

//===- Handles -----------------------------------------------------------------===//

int Tensor::rank(Line at) const {
  return static_cast<int>(Recorder::current().typeOf(*this, at, "rank").getRank());
}
int64_t Tensor::size(int64_t axis, Line at) const {
  const RankedTensorType type = Recorder::current().typeOf(*this, at, "size");
  return type.getDimSize(axisOf(axis, type.getRank(), at, "size"));
}
DType Tensor::type(Line at) const {
  return Recorder::dtypeOf(Recorder::current().typeOf(*this, at, "type").getElementType());
}

Shape Tensor::shape(Line at) const {
  const ArrayRef<int64_t> sizes = Recorder::current().typeOf(*this, at, "shape").getShape();
  Shape shape({}, at);
  for (int64_t size : sizes)
    shape.sizes[shape.rank++] = size;
  return shape;
}

Tensor Tensor::operator[](const Index &i) const {
  Recorder &recorder = Recorder::current();
  const Value whole = recorder.value(*this, i.at, "[]");
  const RankedTensorType type = typeOf(whole);
  if (type.getRank() == 0)
    fail(i.at, "[]: a single number has no positions");
  if (i.index < 0 || i.index >= type.getDimSize(0))
    fail(i.at, fmt::format("[]: position {} of {}", i.index, shapeOf(whole)));
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = 1;
  const Value part = recorder.op<graph::SliceOp>(i.at, type.clone(shape), whole, 0, i.index);
  return recorder.handle(recorder.reshape(part, type.getShape().drop_front(), i.at));
}
Tensor Tensor::operator[](const At &ids) const { return gather(At(*this, ids.at), ids.tensor); }

//===- Arithmetic --------------------------------------------------------------===//

Tensor operator+(const Operand &a, const Operand &b) { return binary<graph::AddOp>("+", a, b); }
Tensor operator-(const Operand &a, const Operand &b) { return binary<graph::SubOp>("−", a, b); }
Tensor operator*(const Operand &a, const Operand &b) { return binary<graph::MulOp>("*", a, b); }
Tensor operator/(const Operand &a, const Operand &b) { return binary<graph::DivOp>("/", a, b); }
Tensor max(const Operand &a, const Operand &b) { return binary<graph::MaxOp>("max", a, b); }
Tensor min(const Operand &a, const Operand &b) { return binary<graph::MinOp>("min", a, b); }
Tensor operator-(const At &x) {
  if (dtypeOf(Recorder::current().value(x, "−")) == i32)
    return Operand(0.0, x.at) - Operand(x.tensor, x.at);
  return unary<graph::NegOp>("−", x);
}
Tensor exp(const At &x) { return unary<graph::ExpOp>("exp", x); }
Tensor log(const At &x) { return unary<graph::LogOp>("log", x); }
Tensor sqrt(const At &x) { return unary<graph::SqrtOp>("sqrt", x); }
Tensor rsqrt(const At &x) { return unary<graph::RsqrtOp>("rsqrt", x); }
Tensor tanh(const At &x) { return unary<graph::TanhOp>("tanh", x); }
Tensor sigmoid(const At &x) { return unary<graph::SigmoidOp>("sigmoid", x); }
Tensor sin(const At &x) { return unary<graph::SinOp>("sin", x); }
Tensor cos(const At &x) { return unary<graph::CosOp>("cos", x); }
static std::string functionNamed(StringRef name) { return "nano." + name.lower(); }
Tensor elementwise(const char *name, const At &x) {
  const Value value = floats(x, name);
  Recorder &recorder = Recorder::current();
  return recorder.handle(recorder.op(x.at, functionNamed(name), value));
}
Tensor elementwise(const char *name, const Operand &a, const Operand &b) {
  Arguments arguments(name, {a, b});
  arguments.agree(0, 1, f32);
  if (const DType type = dtypeOf(arguments[0]); type != f32 && type != bf16)
    fail(arguments.at, fmt::format("{}: takes f32 or bf16, not {}", name, nameOf(type)));
  return arguments.recorder.handle(
      arguments.recorder.op(arguments.at, functionNamed(name), {arguments[0], arguments[1]}));
}
Tensor relu(const At &x) {
  return binary<graph::MaxOp>("relu", Operand(x.tensor, x.at), Operand(0.0, x.at));
}
Tensor square(const At &x) {
  return binary<graph::MulOp>("square", Operand(x.tensor, x.at), Operand(x.tensor, x.at));
}

Tensor operator%(const Operand &a, const Operand &b) { return integers<graph::RemOp>("%", a, b); }
Tensor operator&(const Operand &a, const Operand &b) { return integers<graph::AndOp>("&", a, b); }
Tensor operator|(const Operand &a, const Operand &b) { return integers<graph::OrOp>("|", a, b); }
Tensor operator^(const Operand &a, const Operand &b) { return integers<graph::XorOp>("^", a, b); }
Tensor operator<<(const Operand &a, const Operand &b) { return integers<graph::ShlOp>("<<", a, b); }
Tensor operator>>(const Operand &a, const Operand &b) { return integers<graph::ShrOp>(">>", a, b); }

Tensor select(const Comparison &condition, const Operand &x, const Operand &y) {
  Arguments arguments("select", {condition.a, condition.b, x, y});
  arguments.agree(0, 1, f32);
  arguments.agree(2, 3, dtypeOf(arguments[0]));
  const auto predicate = static_cast<graph::Predicate>(condition.predicate);
  return arguments.recorder.handle(arguments.recorder.op<graph::SelectOp>(
      arguments.at, arguments.type(), predicate, arguments[0], arguments[1], arguments[2],
      arguments[3]));
}

Tensor stopGradient(const At &x) { return unary<graph::StopGradientOp>("stopGradient", x); }

Tensor cast(const At &x, DType type) {
  Recorder &recorder = Recorder::current();
  return recorder.handle(
      recorder.cast(recorder.value(x, "cast"), recorder.elementType(type), x.at));
}

//===- Shapes ------------------------------------------------------------------===//

namespace {
RankedTensorType filledType(const Shape &shape, DType type, Line at, const char *what) {
  if (type != f32 && type != bf16 && type != i32)
    fail(at, fmt::format("{}: makes f32, bf16 or i32, not {}", what, nameOf(type)));
  Recorder &recorder = Recorder::current();
  return recorder.tensorType({shape.sizes, static_cast<size_t>(shape.rank)},
                             recorder.elementType(type), at, what);
}
} // namespace

Tensor iota(const Shape &shape, int64_t axis, DType type, Line at) {
  Recorder &recorder = Recorder::current();
  const RankedTensorType made = filledType(shape, type, at, "iota");
  const int64_t dim = axisOf(axis, shape.rank, at, "iota");
  return recorder.handle(recorder.op<graph::IotaOp>(at, made, dim));
}

Tensor full(const Shape &shape, double number, DType type, Line at) {
  Recorder &recorder = Recorder::current();
  return recorder.handle(recorder.constant(number, filledType(shape, type, at, "full"), at));
}

Tensor reshape(const At &x, const Shape &shape) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, "reshape");
  const ArrayRef<int64_t> sizes(shape.sizes, shape.rank);
  const RankedTensorType type =
      recorder.tensorType(sizes, typeOf(value).getElementType(), x.at, "reshape");
  if (type.getNumElements() != typeOf(value).getNumElements())
    fail(x.at, fmt::format("reshape: the numbers of elements differ: {} and {}", shapeOf(value),
                           text(sizes)));
  return recorder.handle(recorder.reshape(value, sizes, x.at));
}

Tensor slice(const At &x, int64_t axis, int64_t start, int64_t size) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, "slice");
  SmallVector<int64_t> shape(typeOf(value).getShape());
  const int64_t dim = axisOf(axis, typeOf(value).getRank(), x.at, "slice");
  if (start < 0 || size < 0 || start > shape[dim] - size)
    fail(x.at,
         fmt::format("slice: [{}, {}) of axis {} of {}", start, start + size, dim, shapeOf(value)));
  if (size == shape[dim])
    return x.tensor;
  shape[dim] = size;
  return recorder.handle(
      recorder.op<graph::SliceOp>(x.at, typeOf(value).clone(shape), value, dim, start));
}

Tensor splitPart(const At &x, int64_t axis, int part, int count) {
  const int64_t size = x.tensor.size(axis, x.at);
  if (size % count != 0)
    fail(x.at, fmt::format("split: {} equal parts of axis {} of {}", count, axis,
                           shapeOf(Recorder::current().value(x, "split"))));
  return slice(x, axis, part * (size / count), size / count);
}

static Tensor concatOf(ArrayRef<Tensor> parts, int64_t axis, Line at) {
  Recorder &recorder = Recorder::current();
  if (parts.empty())
    fail(at, "concat: no parts");
  SmallVector<Value> values;
  for (const Tensor &part : parts)
    values.push_back(recorder.value(part, at, "concat"));
  const RankedTensorType first = typeOf(values.front());
  const int64_t dim = axisOf(axis, first.getRank(), at, "concat");
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value value : values) {
    const RankedTensorType type = typeOf(value);
    bool fits =
        type.getRank() == first.getRank() && type.getElementType() == first.getElementType();
    for (int64_t d = 0; fits && d < type.getRank(); ++d)
      fits = d == dim || type.getDimSize(d) == shape[d];
    if (!fits)
      fail(at, fmt::format("concat: parts do not go together along axis {}: {} {} and {} {}", dim,
                           nameOf(dtypeOf(values.front())), shapeOf(values.front()),
                           nameOf(dtypeOf(value)), shapeOf(value)));
    shape[dim] += type.getDimSize(dim);
  }
  return recorder.handle(recorder.op<graph::ConcatOp>(
      at, recorder.tensorType(shape, first.getElementType(), at, "concat"), values, dim));
}

Tensor concat(std::initializer_list<Tensor> parts, int64_t axis, Line at) {
  return concatOf(parts, axis, at);
}

Tensor concat(const List<Tensor> &parts, int64_t axis, Line at) {
  return concatOf(ArrayRef(parts.begin(), parts.end()), axis, at);
}

Tensor rotate(const At &x, int64_t shift) {
  const Value value = floats(x, "rotate");
  const RankedTensorType type = typeOf(value);
  if (type.getRank() == 0 || shift < 0 || shift >= type.getShape().back())
    fail(x.at, fmt::format("rotate: by {} along the last dimension of {}", shift, shapeOf(value)));
  Recorder &recorder = Recorder::current();
  return recorder.handle(recorder.op<graph::RotateOp>(x.at, value, shift));
}

//===- Reductions and scans ----------------------------------------------------===//

namespace {
Tensor reduced(const char *what, graph::Combiner combiner, const At &x, const Axes *axes,
               bool mean) {
  Recorder &recorder = Recorder::current();
  Value value = recorder.value(x, what);
  if (combiner != graph::Combiner::max)
    value = floats(x, what);
  else if (dtypeOf(value) != i32 && !isFloat(value))
    fail(x.at, fmt::format("{}: takes f32, bf16 or i32, not {}", what, nameOf(dtypeOf(value))));
  const RankedTensorType type = typeOf(value);
  SmallVector<int64_t> dims, shape;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    bool named = !axes;
    for (int i = 0; axes && i < axes->count; ++i)
      named |= axisOf(axes->axes[i], type.getRank(), x.at, what) == d;
    if (named)
      dims.push_back(d);
    if (axes)
      shape.push_back(named ? 1 : type.getDimSize(d));
  }
  if (dims.empty())
    return x.tensor;
  int64_t numbers = 1, results = 1;
  for (int64_t d = 0; d < type.getRank(); ++d)
    (llvm::is_contained(dims, d) ? numbers : results) *= type.getDimSize(d);
  if (numbers == 0 && results > 0 && (mean || combiner != graph::Combiner::sum))
    fail(x.at, fmt::format("{}: of no numbers: {}", what, shapeOf(value)));
  Value result = recorder.reduce(combiner, value, dims, x.at);
  if (mean && numbers > 0) {
    const double count = static_cast<double>(numbers);
    result =
        recorder.op<graph::MulOp>(x.at, result, recorder.constant(1 / count, typeOf(result), x.at));
  }
  return recorder.handle(recorder.reshape(result, shape, x.at));
}

/// Of i32 [T], from the start.
Tensor scanned(const char *what, graph::Combiner combiner, const At &x) {
  Recorder &recorder = Recorder::current();
  const Value value = recorder.value(x, what);
  if (dtypeOf(value) != i32 || typeOf(value).getRank() != 1)
    fail(x.at,
         fmt::format("{}: takes i32 [T], not {} {}", what, nameOf(dtypeOf(value)), shapeOf(value)));
  return recorder.handle(recorder.op<graph::ScanOp>(x.at, combiner, value));
}

/// h[t] = a[t]·h[t−1] + b[t]; one of them may be null.
Tensor recurrent(const char *what, Value a, Value b, const Recurrence &how, Line at) {
  Recorder &recorder = Recorder::current();
  const RankedTensorType type = typeOf(a ? a : b);
  if (type.getRank() == 0 || !isa<FloatType>(type.getElementType()))
    fail(at, fmt::format("{}: takes f32 or bf16 of at least one dimension, not {} {}", what,
                         nameOf(dtypeOf(a ? a : b)), text(type.getShape())));
  if (!std::isfinite(how.initial))
    fail(at, fmt::format("{}: the initial value is not finite", what));
  const int64_t axis = axisOf(how.axis, type.getRank(), at, what);
  SmallVector<int64_t> flat = {1, 1, 1};
  for (auto [d, size] : llvm::enumerate(type.getShape()))
    flat[int64_t(d) < axis ? 0 : int64_t(d) == axis ? 1 : 2] *= size;
  for (Value *operand : {&a, &b})
    if (*operand)
      *operand = recorder.reshape(*operand, flat, at);
  MLIRContext *context = type.getContext();
  const Value h = recorder.op<graph::RecurrenceOp>(
      at, type.clone(flat), a, b, FloatAttr::get(Float64Type::get(context), how.initial),
      how.reverse ? UnitAttr::get(context) : UnitAttr(), UnitAttr());
  return recorder.handle(recorder.reshape(h, type.getShape(), at));
}
} // namespace

Tensor sum(const At &x) { return reduced("sum", graph::Combiner::sum, x, nullptr, false); }
Tensor sum(const At &x, const Axes &axes) {
  return reduced("sum", graph::Combiner::sum, x, &axes, false);
}
Tensor mean(const At &x) { return reduced("mean", graph::Combiner::sum, x, nullptr, true); }
Tensor mean(const At &x, const Axes &axes) {
  return reduced("mean", graph::Combiner::sum, x, &axes, true);
}
Tensor maximum(const At &x) { return reduced("maximum", graph::Combiner::max, x, nullptr, false); }
Tensor maximum(const At &x, const Axes &axes) {
  return reduced("maximum", graph::Combiner::max, x, &axes, false);
}
Tensor logSumExp(const At &x, const Axes &axes) {
  if (const auto y = Recorder::current().replacement(
          "logSumExp", {x.tensor}, axes.count, x.at,
          [axes, at = x.at](const Tensors &in) { return logSumExp(At(in[0], at), axes); }))
    return *y;
  const int64_t rank = typeOf(floats(x, "logSumExp")).getRank();
  int64_t first = rank;
  for (int i = 0; i < axes.count; ++i)
    first = std::min(first, axisOf(axes.axes[i], rank, x.at, "logSumExp"));
  if (first != rank - axes.count)
    fail(x.at, "logSumExp: is over the last dimensions");
  return reduced("logSumExp", graph::Combiner::logsumexp, At(cast(x, f32), x.at), &axes, false);
}
Tensor cumsum(const At &x, const Scan &how) {
  const Value value = Recorder::current().value(x, "cumsum");
  if (dtypeOf(value) != i32)
    return recurrent("cumsum", Value(), value, {how.axis, how.reverse, 0}, x.at);
  if (how.axis != 0 || how.reverse)
    fail(x.at, "cumsum: i32 is summed from the start of [T]; cast it to f32 first");
  return scanned("cumsum", graph::Combiner::sum, x);
}
Tensor cumprod(const At &x, const Scan &how) {
  return recurrent("cumprod", Recorder::current().value(x, "cumprod"), Value(),
                   {how.axis, how.reverse, 1}, x.at);
}
Tensor recurrence(const Operand &a, const Operand &b, const Recurrence &how) {
  Arguments arguments("recurrence", {a, b});
  arguments.agree(0, 1, f32);
  return recurrent("recurrence", arguments[0], arguments[1], how, arguments.at);
}
Tensor cummax(const At &x) { return scanned("cummax", graph::Combiner::max, x); }

} // namespace nano::frontend
