// The interpreter's driver, and the ops that compute element by element, move elements, or read and
// write states.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowFunctions.h"
#include "ir/graph/ShapeOps.h"
#include "ir/interpreter/Machine.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

using namespace mlir;
using namespace nano::graph;

namespace nano::interpreter {

//===- Values ------------------------------------------------------------------------------===//

std::vector<int64_t> shapeOf(Type type) { return cast<ShapedType>(type).getShape().vec(); }

std::vector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    strides[i] = stride;
  return strides;
}

double wrapInteger(double value) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
}

/// What an element of an integer type holds of a whole number.
static double wrapInteger(double value, Type type) {
  return type.isInteger(16) ? static_cast<uint16_t>(static_cast<int64_t>(value))
                            : wrapInteger(value);
}

double roundTo(double value, Type type) {
  if (type.isInteger()) {
    if (std::isnan(value))
      return 0;
    return wrapInteger(std::clamp(std::trunc(value), -2147483648.0, 2147483647.0), type);
  }
  if (type.isF32())
    return static_cast<float>(value);
  auto &semantics = cast<FloatType>(type).getFloatSemantics();
  if (!type.isBF16() && !std::isnan(value)) { // f8 saturates
    double largest = APFloat::getLargest(semantics).convertToDouble();
    value = std::clamp(value, -largest, largest);
  }
  APFloat number(static_cast<float>(value));
  bool lost = false;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

TensorValue TensorValue::filled(ShapedType type, double value) {
  return {type.getShape().vec(), std::vector<double>(type.getNumElements(), value)};
}

TensorValue TensorValue::normal(ShapedType type, std::mt19937_64 &random, double mean,
                                double deviation) {
  TensorValue tensor = filled(type, 0);
  std::normal_distribution<double> distribution(mean, deviation);
  for (double &element : tensor.data)
    element =
        type.getElementType().isInteger() ? std::round(distribution(random)) : distribution(random);
  return tensor;
}

TensorValue TensorValue::integers(ShapedType type, std::mt19937_64 &random, int64_t low,
                                  int64_t high) {
  TensorValue tensor = filled(type, 0);
  std::uniform_int_distribution<int64_t> distribution(low, high - 1);
  for (double &element : tensor.data)
    element = static_cast<double>(distribution(random));
  return tensor;
}

std::optional<TensorValue> initialValue(StateOp state, std::mt19937_64 &random) {
  RankedTensorType type = state.getTensorType();
  ArrayRef<double> numbers = state.getInit().getValues();
  TensorValue tensor;
  if (state.getInit().getKind() == "normal") {
    tensor = TensorValue::normal(type, random, numbers[0], numbers[1]);
  } else if (state.getInit().getKind() == "uniform") {
    std::uniform_real_distribution<double> distribution(numbers[0], numbers[1]);
    tensor = TensorValue::filled(type, 0);
    for (double &element : tensor.data)
      element = distribution(random);
  } else if (state.getInit().getKind() == "sign") {
    tensor = TensorValue::filled(type, numbers[0]);
    for (double &element : tensor.data)
      element *= random() % 2 == 0 ? 1 : -1;
  } else if (DenseElementsAttr data = state.getInit().getData()) {
    tensor = TensorValue::filled(type, 0);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data[i] = type.getElementType().isInteger()
                           ? double(data.getValues<int32_t>()[i])
                           : data.getValues<APFloat>()[i].convertToDouble();
  } else if (numbers.empty() || state.getInit().getParts()) {
    return std::nullopt;
  } else {
    tensor = TensorValue::filled(type, numbers[0]);
    if (static_cast<int64_t>(numbers.size()) == tensor.size())
      tensor.data.assign(numbers.begin(), numbers.end());
  }
  for (double &element : tensor.data)
    element = roundTo(element, type.getElementType());
  return tensor;
}

void initializeStates(ModuleOp module, StateMap &states, std::mt19937_64 &random) {
  for (auto state : module.getOps<StateOp>()) {
    auto [place, isNew] = states.try_emplace(state.getSymName().str());
    if (!isNew)
      continue;
    std::optional<TensorValue> value = initialValue(state, random);
    if (!value)
      llvm::report_fatal_error("the interpreter starts no state by blocks or as a copy");
    place->second = std::move(*value);
  }
}

TensorValue Machine::emptyResult(Operation *op, unsigned index) const {
  auto type = cast<ShapedType>(op->getResult(index).getType());
  if (vectorized)
    return {{lanes}, std::vector<double>(lanes)};
  return TensorValue::filled(type, 0);
}

//===- Rounding ----------------------------------------------------------------------------===//

/// `value` with its last `bits` of 64 cut off, or one more before them with the chance that they
/// are of one.
static double dithered(double value, int bits, std::mt19937_64 &random) {
  if (!std::isfinite(value))
    return value;
  const uint64_t below = (uint64_t{1} << bits) - 1;
  return std::bit_cast<double>((std::bit_cast<uint64_t>(value) + (random() & below)) & ~below);
}

double Machine::roundedPartial(double x) const {
  constexpr int beyondF32 = 29; // bits of a double's fraction
  return static_cast<float>(options.dither ? dithered(x, beyondF32, *options.dither) : x);
}

double Machine::narrowed(double x, Type type) const {
  if (options.arithmetic == Arithmetic::exact)
    return x;
  if (type.isInteger())
    return roundTo(x, type);
  constexpr int beyondBf16 = 45;
  if (type.isBF16() && options.dither)
    x = dithered(partial(x), beyondBf16, *options.dither);
  return roundTo(partial(x), type);
}

//===- Driver ------------------------------------------------------------------------------===//

FailureOr<SmallVector<TensorValue>> Machine::runBlock(Block &block,
                                                      ArrayRef<TensorValue> arguments) {
  for (auto [name, value] : llvm::zip_equal(block.getArguments(), arguments))
    values[name] = value;
  for (Operation &op : block) {
    SmallVector<const TensorValue *> operands;
    for (Value operand : op.getOperands()) {
      auto found = values.find(operand);
      if (found == values.end())
        return op.emitError("interpreter: operand is defined outside of the code that is run");
      operands.push_back(&found->second);
    }
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      SmallVector<TensorValue> results;
      for (const TensorValue *operand : operands)
        results.push_back(*operand);
      return results;
    }
    FailureOr<SmallVector<TensorValue>> results = runOp(&op, operands);
    if (failed(results))
      return failure();
    for (auto [name, value] : llvm::zip_equal(op.getResults(), *results))
      values[name] = std::move(value);
  }
  return SmallVector<TensorValue>();
}

FailureOr<SmallVector<TensorValue>> Machine::runOp(Operation *op, Operands operands) {
  bool known = true;
  FailureOr<Values> results = failure();
  for (auto family : {&Machine::runElementwise, &Machine::runShape, &Machine::runCompute,
                      &Machine::runSequence, &Machine::runState}) {
    known = true;
    results = (this->*family)(op, operands, known);
    if (known)
      break;
  }
  if (!known)
    return op->emitError("interpreter: no meaning for this op");
  if (failed(results))
    return failure();
  for (auto [name, value] : llvm::zip_equal(op->getResults(), *results)) {
    Type element = cast<ShapedType>(name.getType()).getElementType();
    if (element.isInteger())
      llvm::for_each(value.data, [&](double &x) { x = wrapInteger(x, element); });
    else if (options.arithmetic != Arithmetic::exact)
      llvm::for_each(value.data, [&](double &x) { x = narrowed(x, element); });
  }
  return results;
}

FailureOr<SmallVector<TensorValue>> interpret(ProgramOp function, ArrayRef<TensorValue> arguments,
                                              StateMap &states, const Options &options) {
  if (arguments.size() != function.getNumArguments())
    return function.emitError("interpreter: ") << arguments.size() << " arguments given";
  for (auto [type, argument] : llvm::zip_equal(function.getArgumentTypes(), arguments))
    if (shapeOf(type) != argument.shape)
      return function.emitError("interpreter: an argument's shape is not that of ") << type;
  return Machine(states, options).runBlock(function.getBody().front(), arguments);
}

FailureOr<SmallVector<TensorValue>> interpret(Operation *op, ArrayRef<TensorValue> operands,
                                              StateMap &states, const Options &options) {
  SmallVector<const TensorValue *> pointers;
  for (auto [type, operand] : llvm::zip_equal(op->getOperandTypes(), operands)) {
    if (shapeOf(type) != operand.shape)
      return op->emitError("interpreter: an operand's shape is not that of ") << type;
    pointers.push_back(&operand);
  }
  return Machine(states, options).runOp(op, pointers);
}

//===- Element-wise ------------------------------------------------------------------------===//

namespace {

bool holds(Predicate predicate, double a, double b) {
  switch (predicate) {
  case Predicate::eq:
    return a == b;
  case Predicate::ne:
    return a != b;
  case Predicate::lt:
    return a < b;
  case Predicate::le:
    return a <= b;
  case Predicate::gt:
    return a > b;
  case Predicate::ge:
    return a >= b;
  }
  return false;
}

using Binary = double (*)(double, double);

/// Products of two i32 exceed a double's 53 bits: integers are multiplied in 64 bits.
double multiplyIntegers(double a, double b) {
  return wrapInteger(
      static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(a)) *
                                               static_cast<uint32_t>(static_cast<int64_t>(b)))));
}

int32_t toI32(double x) { return static_cast<int32_t>(x); }

/// The bits of an element of type `from` as one of type `to`.
double bitcastElement(double x, Type from, Type to) {
  if (from.isInteger(32))
    return std::bit_cast<float>(toI32(x));
  if (from.isInteger(16))
    return std::bit_cast<float>(static_cast<uint32_t>(x) << 16);
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return to.isInteger(16) ? static_cast<double>(bits >> 16)
                          : static_cast<double>(static_cast<int32_t>(bits));
}

/// One of the words of Philox 4x32-10's block of a counter and a key.
double philoxWord(const std::array<uint32_t, 6> &x) {
  std::array<uint32_t, 4> c = {x[0] >> 2, x[1], x[2], x[3]};
  for (uint32_t round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ (x[4] + round * 0x9E3779B9),
         static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ (x[5] + round * 0xBB67AE85),
         static_cast<uint32_t>(a)};
  }
  return static_cast<int32_t>(c[x[0] & 3]);
}

/// A number of the standard normal distribution, of random bits.
double normalOf(uint32_t radius, uint32_t angle, bool isSine) {
  const double turn = 2 * std::numbers::pi * (angle >> 8) * 0x1p-24;
  return std::sqrt(-2 * std::log(1 - (radius >> 8) * 0x1p-24)) *
         (isSine ? std::sin(turn) : std::cos(turn));
}

Binary binaryMeaning(Operation *op, bool integer) {
  return TypeSwitch<Operation *, Binary>(op)
      .Case([](AddOp) -> Binary { return [](double a, double b) { return a + b; }; })
      .Case([](SubOp) -> Binary { return [](double a, double b) { return a - b; }; })
      .Case([integer](MulOp) -> Binary {
        if (integer)
          return multiplyIntegers;
        return [](double a, double b) { return a * b; };
      })
      .Case([integer](DivOp) -> Binary {
        if (integer)
          return [](double a, double b) { return std::floor(a / b); };
        return [](double a, double b) { return a / b; };
      })
      .Case([](MaxOp) -> Binary {
        return [](double a, double b) { return a > b || std::isnan(a) ? a : b; };
      })
      .Case([](MinOp) -> Binary {
        return [](double a, double b) { return a < b || std::isnan(a) ? a : b; };
      })
      .Default([](Operation *op) -> Binary {
        const BinaryFunction *function = binaryFunctionOf(op);
        return function ? function->evaluate : nullptr;
      });
}

} // namespace

FailureOr<SmallVector<TensorValue>> Machine::runElementwise(Operation *op, Operands operands,
                                                            bool &known) {
  if (!op->hasTrait<ElementwiseOp>()) {
    known = false;
    return failure();
  }
  TensorValue result = emptyResult(op);
  Type element = cast<ShapedType>(op->getResult(0).getType()).getElementType();
  if (auto function = dyn_cast<UnaryFunctionInterface>(op)) {
    llvm::transform(operands[0]->data, result.data.begin(),
                    [&](double x) { return function.evaluate(x); });
  } else if (isa<StopGradientOp>(op)) {
    result.data = operands[0]->data;
    if (options.stopped)
      options.stopped(result);
  } else if (auto function = dyn_cast<IntegerFunctionInterface>(op)) {
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = function.evaluate(toI32(operands[0]->data[i]), toI32(operands[1]->data[i]));
  } else if (auto bitcast = dyn_cast<BitcastOp>(op)) {
    Type from = ::cast<ShapedType>(bitcast.getX().getType()).getElementType();
    llvm::transform(operands[0]->data, result.data.begin(),
                    [&](double x) { return bitcastElement(x, from, element); });
  } else if (isa<PhiloxOp>(op)) {
    for (int64_t i = 0; i < result.size(); ++i) {
      std::array<uint32_t, 6> words;
      for (auto [word, operand] : llvm::zip_equal(words, operands))
        word = static_cast<uint32_t>(toI32(operand->data[i]));
      result.data[i] = philoxWord(words);
    }
  } else if (isa<NormalOp>(op)) {
    auto bitsOf = [&](int operand, int64_t i) {
      return static_cast<uint32_t>(toI32(operands[operand]->data[i]));
    };
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = normalOf(bitsOf(0, i), bitsOf(1, i), bitsOf(2, i) != 0);
  } else if (Binary binary = binaryMeaning(op, element.isInteger())) {
    if (isa<DivOp>(op) && element.isInteger() && llvm::is_contained(operands[1]->data, 0.0))
      return op->emitError("interpreter: integer division by zero");
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = binary(operands[0]->data[i], operands[1]->data[i]);
  } else if (auto select = dyn_cast<SelectOp>(op)) {
    for (int64_t i = 0; i < result.size(); ++i) {
      bool chosen = holds(select.getPredicate(), operands[0]->data[i], operands[1]->data[i]);
      result.data[i] = operands[chosen ? 2 : 3]->data[i];
    }
  } else if (auto cast = dyn_cast<CastOp>(op)) {
    result.data = operands[0]->data;
    if (element.isInteger())
      llvm::for_each(result.data, [&](double &x) { x = roundTo(x, element); });
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    llvm::fill(result.data, constant.getValue().convertToDouble());
  } else if (auto iota = dyn_cast<IotaOp>(op)) {
    int64_t dim = iota.getDim(), stride = stridesOf(result.shape)[dim], size = result.shape[dim];
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = static_cast<double>(i / stride % size);
  } else {
    known = false;
    return failure();
  }
  return Values{std::move(result)};
}

//===- Shape -------------------------------------------------------------------------------===//

namespace {

/// Calls visit(flat index, index of each dimension) for every element of `shape`.
void forEachIndex(ArrayRef<int64_t> shape, function_ref<void(int64_t, ArrayRef<int64_t>)> visit) {
  std::vector<int64_t> index(shape.size());
  int64_t total = 1;
  for (int64_t size : shape)
    total *= size;
  for (int64_t flat = 0; flat < total; ++flat) {
    visit(flat, index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

/// The part [start, start + its size) of `whole` along `dim`, copied out of it or into it.
template <bool into>
void copyPart(TensorValue &part, TensorValue &whole, int64_t dim, int64_t start) {
  std::vector<int64_t> strides = stridesOf(whole.shape);
  forEachIndex(part.shape, [&](int64_t flat, ArrayRef<int64_t> index) {
    int64_t place = start * strides[dim];
    for (size_t d = 0; d < index.size(); ++d)
      place += index[d] * strides[d];
    if constexpr (into)
      whole.data[place] = part.data[flat];
    else
      part.data[flat] = whole.data[place];
  });
}

} // namespace

FailureOr<SmallVector<TensorValue>> Machine::runShape(Operation *op, Operands operands,
                                                      bool &known) {
  if (!isa<BroadcastOp, ReshapeOp, SliceOp, ConcatOp, RotateOp, TransposeOp, PermuteOp, ReduceOp,
           ScanOp, ArgsortOp>(op) &&
      !rowFunctionOf(op)) {
    known = false;
    return failure();
  }
  TensorValue result = TensorValue::filled(cast<ShapedType>(op->getResult(0).getType()), 0);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    const TensorValue &x = *operands[0];
    std::vector<int64_t> strides = stridesOf(x.shape);
    forEachIndex(result.shape, [&](int64_t flat, ArrayRef<int64_t> index) {
      int64_t place = 0;
      for (auto [k, dim] : llvm::enumerate(broadcast.getDims()))
        place += x.shape[k] == 1 ? 0 : index[dim] * strides[k];
      result.data[flat] = x.data[place];
    });
  } else if (isa<ReshapeOp>(op)) {
    result.data = operands[0]->data;
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    TensorValue whole = *operands[0];
    copyPart<false>(result, whole, slice.getDim(), slice.getStart());
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    int64_t start = 0;
    for (const TensorValue *operand : operands) {
      TensorValue part = *operand;
      copyPart<true>(part, result, concat.getDim(), start);
      start += part.shape[concat.getDim()];
    }
  } else if (auto rotate = dyn_cast<RotateOp>(op)) {
    int64_t columns = result.shape.back(), shift = rotate.getShift();
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = operands[0]->data[i / columns * columns + (i % columns + shift) % columns];
  } else if (isa<TransposeOp>(op)) {
    result.data = transposed(*operands[0]);
  } else if (auto permute = dyn_cast<PermuteOp>(op)) {
    std::vector<int64_t> strides = stridesOf(operands[0]->shape);
    forEachIndex(result.shape, [&](int64_t flat, ArrayRef<int64_t> index) {
      int64_t place = 0;
      for (auto [k, dim] : llvm::enumerate(permute.getOrder()))
        place += index[k] * strides[dim];
      result.data[flat] = operands[0]->data[place];
    });
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    std::vector<int64_t> strides = stridesOf(result.shape);
    /// Calls visit(place in the result, element of x).
    auto forEachElement = [&](auto visit) {
      forEachIndex(operands[0]->shape, [&](int64_t flat, ArrayRef<int64_t> index) {
        int64_t place = 0;
        for (size_t d = 0, kept = 0; d < index.size(); ++d)
          if (!llvm::is_contained(reduce.getDims(), static_cast<int64_t>(d)))
            place += index[d] * strides[kept++];
        visit(place, operands[0]->data[flat]);
      });
    };
    auto largest = [](double a, double b) { return std::isnan(a) || a > b ? a : b; };
    bool isSum = reduce.getCombiner() == Combiner::sum;
    llvm::fill(result.data, isSum ? 0.0 : -INFINITY);
    forEachElement([&](int64_t place, double x) {
      double &y = result.data[place];
      if (isSum)
        add(y, x);
      else
        y = largest(y, x);
    });
    if (reduce.getCombiner() == Combiner::logsumexp) {
      // With the maximum first, in two passes.
      std::vector<double> sums(result.data.size());
      forEachElement([&](int64_t place, double x) {
        double m = result.data[place];
        add(sums[place], std::isinf(m) ? 1 : std::exp(partial(x - m)));
      });
      for (auto [y, sum] : llvm::zip_equal(result.data, sums))
        y += partial(std::log(sum));
    }
  } else if (auto scan = dyn_cast<ScanOp>(op)) {
    result.data = operands[0]->data;
    for (int64_t i = 1; i < result.size(); ++i)
      result.data[i] = scan.getCombiner() == Combiner::sum
                           ? wrapInteger(result.data[i - 1] + result.data[i])
                           : std::max(result.data[i - 1], result.data[i]);
  } else if (isa<ArgsortOp>(op)) {
    const int64_t columns = result.shape.back();
    for (int64_t row = 0; row < result.size(); row += columns) {
      const double *x = operands[0]->data.data() + row;
      auto order = llvm::MutableArrayRef(result.data).slice(size_t(row), size_t(columns));
      std::iota(order.begin(), order.end(), 0.0);
      llvm::stable_sort(order, [&](double a, double b) {
        const double first = x[int64_t(a)], second = x[int64_t(b)];
        return !std::isnan(second) && (std::isnan(first) || first > second);
      });
    }
  } else if (const RowFunction *function = rowFunctionOf(op)) {
    const int64_t columns = result.shape.back();
    for (int64_t row = 0; row < result.size(); row += columns)
      function->evaluate(ArrayRef(operands[0]->data).slice(size_t(row), size_t(columns)),
                         llvm::MutableArrayRef(result.data).slice(size_t(row), size_t(columns)));
  }
  return Values{std::move(result)};
}

//===- States and regions ------------------------------------------------------------------===//

FailureOr<SmallVector<TensorValue>> Machine::runState(Operation *op, Operands operands,
                                                      bool &known) {
  if (auto load = dyn_cast<LoadOp>(op)) {
    auto found = states.find(load.getSymbol().str());
    if (found == states.end())
      return op->emitError("interpreter: no value given for ") << load.getSymbolAttr();
    if (found->second.shape != shapeOf(load.getType()))
      return op->emitError("interpreter: the value given for ")
             << load.getSymbolAttr() << " has another shape";
    return Values{found->second};
  }
  if (auto store = dyn_cast<StoreOp>(op)) {
    states[store.getSymbol().str()] = *operands[0];
    return Values{};
  }
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    Type type = cast<ShapedType>(accumulate.getValue().getType()).getElementType();
    if (auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(op, accumulate.getSymbolAttr()))
      type = state.getTensorType().getElementType();
    auto [place, isNew] = states.try_emplace(accumulate.getSymbol().str(), *operands[0]);
    if (!isNew) {
      if (place->second.shape != operands[0]->shape)
        return op->emitError("interpreter: the value given for ")
               << accumulate.getSymbolAttr() << " has another shape";
      for (auto [sum, x] : llvm::zip_equal(place->second.data, operands[0]->data))
        sum += x;
    }
    llvm::for_each(place->second.data, [&](double &x) { x = narrowed(x, type); });
    return Values{};
  }
  if (auto fused = dyn_cast<FusedOp>(op)) {
    SmallVector<TensorValue> arguments;
    for (const TensorValue *operand : operands)
      arguments.push_back(*operand);
    return Machine(states, options).runBlock(fused.getBody().front(), arguments);
  }
  known = false;
  return failure();
}

} // namespace nano::interpreter
