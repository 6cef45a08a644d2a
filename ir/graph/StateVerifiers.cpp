// How states are made, and what must hold of them and of the values that they start with.
#include "ir/graph/Nano.h"
#include "ir/graph/Program.h"
#include "ir/graph/Shapes.h"
#include "ir/graph/Sharding.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace {

/// Bytes to which a state's offset is aligned, as those of buffers are.
constexpr int64_t arenaAlignment = 256;

bool isCopy(InitAttr init) { return init.getKind() == "copy" || init.getKind() == "transpose"; }

bool isFinite(DenseElementsAttr data) {
  return !isa<FloatType>(data.getElementType()) ||
         llvm::all_of(data.getValues<APFloat>(), [](const APFloat &x) { return x.isFinite(); });
}

using EmitError = function_ref<InFlightDiagnostic()>;

/// The parts of a value by blocks: each of numbers alone, with a number of elements.
LogicalResult verifyBlocks(EmitError emitError, ArrayRef<double> counts, ArrayAttr parts) {
  if (!parts || parts.size() != counts.size() || counts.empty())
    return emitError() << "blocks initial value needs as many parts as numbers, has "
                       << (parts ? parts.size() : 0) << " and " << counts.size();
  for (double count : counts)
    if (!(count >= 1 && count <= 0x1p40 && count == std::floor(count)))
      return emitError() << "blocks initial value has a part of " << numberText(count)
                         << " elements";
  for (Attribute part : parts) {
    auto init = dyn_cast<InitAttr>(part);
    if (!init || init.getSource() || init.getData() || init.getParts() ||
        (init.getKind() == "constant" && init.getValues().size() != 1))
      return emitError() << "blocks initial value has a part that is not one number or a kind of "
                            "random ones";
  }
  return success();
}

/// How many numbers a kind takes; none: at least one.
std::optional<size_t> numbersOf(StringRef kind) {
  if (kind == "constant")
    return std::nullopt;
  if (kind == "normal" || kind == "uniform")
    return 2;
  return kind == "sign" ? 1 : 0;
}

} // namespace

LogicalResult InitAttr::verify(EmitError emitError, StringRef kind, DenseF64ArrayAttr values,
                               FlatSymbolRefAttr source, DenseElementsAttr data, ArrayAttr parts) {
  ArrayRef<double> numbers = values;
  if (!llvm::is_contained(
          {"constant", "normal", "uniform", "sign", "data", "copy", "transpose", "blocks"}, kind))
    return emitError() << "unknown kind of initial value \"" << kind
                       << "\": use constant, normal, uniform, sign, data, copy, transpose or "
                          "blocks";
  if (llvm::any_of(numbers, [](double number) { return !std::isfinite(number); }))
    return emitError() << kind << " initial value holds a number that is not finite";
  const bool copies = kind == "copy" || kind == "transpose";
  if (copies != bool(source))
    return emitError() << kind << " initial value " << (copies ? "needs a source" : "has a source");
  if ((kind == "data") != bool(data))
    return emitError() << kind << " initial value " << (data ? "has data" : "needs data");
  if ((kind == "blocks") != bool(parts) && kind != "blocks")
    return emitError() << kind << " initial value has parts";
  if (kind == "blocks")
    return verifyBlocks(emitError, numbers, parts);
  if (data && !isFinite(data))
    return emitError() << "data initial value holds a number that is not finite";
  const std::optional<size_t> wanted = numbersOf(kind);
  if (!wanted)
    return numbers.empty() ? emitError() << "constant initial value needs at least one number"
                           : success();
  if (numbers.size() != *wanted)
    return emitError() << kind << " initial value needs "
                       << (*wanted == 2   ? "two numbers"
                           : *wanted == 1 ? "one number"
                                          : "no number")
                       << ", has " << numbers.size();
  if (kind == "normal" && numbers[1] < 0)
    return emitError() << "normal initial value has the negative standard deviation "
                       << numberText(numbers[1]);
  if (kind == "uniform" && numbers[0] > numbers[1])
    return emitError() << "uniform initial value has the low end " << numberText(numbers[0])
                       << " above the high end " << numberText(numbers[1]);
  return success();
}

void StateOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                    RankedTensorType type, Role role, InitAttr init, FlatSymbolRefAttr optimizer) {
  build(builder, state, name, type, role, init, optimizer, /*over_ranks=*/{}, /*sharding=*/{},
        /*fp8=*/{}, /*offset=*/{});
}

void ScalarOp::build(OpBuilder &builder, OperationState &state, StringRef name, Type type) {
  build(builder, state, name, type, /*offset=*/IntegerAttr());
}

LogicalResult StateOp::verify() {
  if (getRole() != Role::Parameter && getOptimizer())
    return emitOpError("only a parameter has an optimizer");
  InitAttr init = getInit();
  const int64_t elements = getTensorType().getNumElements();
  if (elements == 0)
    return emitOpError("has no elements: ") << getTensorType();
  const ArrayRef<double> numbers = init.getValues();
  if (init.getKind() == "constant" && numbers.size() != 1 &&
      static_cast<int64_t>(numbers.size()) != elements)
    return emitOpError("initial value has ")
           << numbers.size() << " numbers, must have 1 or " << elements;
  if (getTensorType().getElementType().isInteger(16) &&
      (init.getKind() != "constant" || !llvm::all_of(numbers, [](double number) {
         return number == std::trunc(number) && number >= 0 && number <= UINT16_MAX;
       })))
    return emitOpError("of i16 must start at whole numbers from 0 to 65535");
  if (DenseElementsAttr data = init.getData(); data && data.getType() != getTensorType())
    return emitOpError("initial value has data of ") << data.getType();
  if (init.getKind() == "blocks") {
    double covered = 0;
    for (double count : numbers)
      covered += count;
    if (covered != static_cast<double>(elements))
      return emitOpError("the parts of the initial value have ")
             << numberText(covered) << " elements, must have " << elements;
  }
  if (IntegerAttr offset = getOffsetAttr();
      offset && (offset.getInt() < 0 || offset.getInt() % arenaAlignment != 0))
    return emitOpError("offset ") << offset.getInt() << " is not a non-negative multiple of "
                                  << arenaAlignment;
  if (std::optional<StringRef> how = getOverRanks()) {
    if (!llvm::is_contained({"equal", "mean", "max", "each"}, *how))
      return emitOpError("over_ranks is \"")
             << *how << "\", must be \"equal\", \"mean\", \"max\" or \"each\"";
    if (getRole() != Role::Optimizer)
      return emitOpError("over_ranks: of role ")
             << stringifyRole(getRole()) << ", which the training program does not write";
  }
  return verifySharding(*this);
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &table) {
  if (FlatSymbolRefAttr symbol = getOptimizerAttr()) {
    auto optimizer = table.lookupNearestSymbolFrom<OptimizerOp>(*this, symbol);
    if (!optimizer)
      return emitOpError("optimizer ") << symbol << " is no nano.optimizer";
    if (optimizer.hasEquations() && optimizer.getBody().getArgument(0).getType() != getTensorType())
      return emitOpError("optimizer ")
             << symbol << " updates " << optimizer.getBody().getArgument(0).getType()
             << ", the parameter is " << getTensorType();
  }
  // Along the copies up to what is none.
  StateOp copy = *this;
  for (llvm::SmallPtrSet<Operation *, 4> seen; isCopy(copy.getInit());) {
    if (!seen.insert(copy).second)
      return emitOpError("starts as a copy of itself");
    FlatSymbolRefAttr symbol = copy.getInit().getSource();
    auto source = table.lookupNearestSymbolFrom<StateOp>(copy, symbol);
    if (!source)
      return copy.emitOpError("starts as a copy: no state named ") << symbol;
    if (source.getRole() == Role::Gradient || source.getSharding())
      return copy.emitOpError("starts as a copy of ")
             << symbol << ", which is no parameter, constant or state of the model";
    SmallVector<int64_t> shape(source.getTensorType().getShape());
    if (copy.getInit().getKind() == "transpose") {
      if (shape.size() < 2)
        return copy.emitOpError("starts as the transpose of ")
               << symbol << ", whose shape is " << shapeText(shape);
      std::swap(shape.back(), shape[shape.size() - 2]);
    }
    if (ArrayRef<int64_t>(shape) != copy.getTensorType().getShape())
      return copy.emitOpError("of shape ") << shapeText(copy.getTensorType().getShape())
                                           << " starts as a copy of shape " << shapeText(shape);
    copy = source;
  }
  return success();
}
