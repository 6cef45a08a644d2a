// Frozen parameters, tables, and initial values as attributes of states.
#include "compiler/Recorder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

using namespace mlir;

namespace nano::frontend {

//===- Declarations ------------------------------------------------------------===//

RankedTensorType Recorder::storedType(const Shape &shape, DType type, bool orIntegers,
                                      const std::string &what, Line at) {
  if (type != f32 && type != bf16 && !(orIntegers && (type == i32 || type == u16)))
    fail(at, fmt::format("{}: can be stored as {}, not {}", what,
                         orIntegers ? "f32, bf16, i32 or u16" : "f32 or bf16", nameOf(type)));
  return tensorType({shape.sizes, static_cast<size_t>(shape.rank)}, elementType(type), at,
                    what.c_str(), /*least=*/1);
}

Tensor Recorder::declareState(const char *name, RankedTensorType type, graph::Role role,
                              graph::InitAttr init, StringRef optimizer, Line at) {
  takeSymbol(name,
             role == graph::Role::Parameter  ? "param"
             : role == graph::Role::Constant ? "table"
                                             : "state",
             at);
  MLIRContext *context = builder.getContext();
  auto state = graph::StateOp::create(
      builder, location(at), name, type, role, init,
      optimizer.empty() ? FlatSymbolRefAttr() : FlatSymbolRefAttr::get(context, optimizer));
  Tensor handle;
  handle.program = model;
  handle.id = static_cast<uint32_t>(declared.size());
  declared.push_back({.symbol = name, .type = type, .loaded = {}, .isState = true, .op = state});
  return handle;
}

Tensor Recorder::frozen(const char *name, const Shape &shape, DType type, const Init &init,
                        Line at) {
  countOp(at);
  const std::string what = fmt::format("frozen '{}'", name);
  const RankedTensorType tensor = storedType(shape, type, false, what, at);
  const graph::InitAttr start = initOf(init, tensor, what, at);
  parameters.push_back(
      {name, text(tensor.getShape()), nameOf(type), initText(init), "none: frozen"});
  return declareState(name, tensor, graph::Role::Parameter, start, {}, at);
}

Tensor Recorder::table(const char *name, const Shape &shape, DType type, const Init &init,
                       Line at) {
  countOp(at);
  const std::string what = fmt::format("table '{}'", name);
  const RankedTensorType tensor = storedType(shape, type, true, what, at);
  if (init.kind != Init::Data && init.kind != Init::Constant)
    fail(at, fmt::format("{}: holds given numbers; a frozen parameter starts with random ones or "
                         "as a copy",
                         what));
  return declareState(name, tensor, graph::Role::Constant, initOf(init, tensor, what, at), {}, at);
}

//===- Initial values ----------------------------------------------------------===//

Init Recorder::numbers(std::vector<double> values) {
  Init init{Init::Data, 0, {}};
  init.model = model;
  init.data = static_cast<uint32_t>(numberSets.size());
  numberSets.push_back(std::move(values));
  return init;
}

Init Recorder::blocks(std::vector<Init> parts) {
  Init init{Init::Blocks, 0, {}};
  init.model = model;
  init.data = static_cast<uint32_t>(blockSets.size());
  blockSets.push_back(std::move(parts));
  return init;
}

Init Recorder::copyOf(const At &source, bool transposed) {
  const char *what = transposed ? "transposeOf" : "copyOf";
  if (source.tensor.program == 0)
    fail(source.at, fmt::format("{}: this tensor was never given a value; a copy's source is "
                                "declared before it",
                                what));
  if (source.tensor.program != model ||
      !module->lookupSymbol<graph::StateOp>(declared[source.tensor.id].symbol))
    fail(source.at, fmt::format("{}: takes a parameter, state or table of this model", what));
  Init init{transposed ? Init::Transpose : Init::Copy, 0, {}};
  init.source = source.tensor;
  return init;
}

std::string Recorder::pathOf(const char *path) const {
  if (llvm::sys::path::is_absolute(path))
    return path;
  llvm::SmallString<128> whole(input.folder.empty() ? llvm::sys::path::parent_path(input.file)
                                                    : llvm::StringRef(input.folder));
  llvm::sys::path::append(whole, path);
  return whole.str().str();
}

namespace {

/// Numbers as elements of `type`, which are known to fit: rounded to nearest, ties to even.
DenseElementsAttr dataOf(ArrayRef<double> numbers, RankedTensorType type) {
  SmallVector<char> raw;
  auto append = [&](auto element) {
    const size_t end = raw.size();
    raw.resize_for_overwrite(end + sizeof element);
    std::memcpy(raw.data() + end, &element, sizeof element);
  };
  for (double number : numbers) {
    if (type.getElementType().isInteger(16)) {
      append(static_cast<uint16_t>(number));
      continue;
    }
    if (type.getElementType().isInteger()) {
      append(static_cast<int32_t>(number));
      continue;
    }
    const auto narrow = static_cast<float>(number);
    uint32_t bits = 0;
    std::memcpy(&bits, &narrow, sizeof bits);
    if (type.getElementType().isF32())
      append(bits);
    else
      append(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
  return DenseElementsAttr::getFromRawBuffer(type, raw);
}

/// Whether a number is one of `type`'s, after rounding.
bool fits(double number, Type type) {
  if (type.isInteger(16))
    return number == std::floor(number) && number >= 0 && number <= UINT16_MAX;
  if (type.isInteger())
    return number == std::floor(number) && number >= INT32_MIN && number <= INT32_MAX;
  // Half a unit beyond the largest number of the type rounds to infinity.
  const double limit = type.isF32() ? 0x1.ffffffp127 : 0x1.ffp127;
  return std::abs(number) < limit;
}

} // namespace

graph::InitAttr Recorder::initOf(const Init &init, RankedTensorType type, const std::string &what,
                                 Line at) {
  MLIRContext *context = builder.getContext();
  const Type element = type.getElementType();
  auto attribute = [&](const char *kind, ArrayRef<double> values) {
    return graph::InitAttr::get(context, kind, builder.getDenseF64ArrayAttr(values));
  };
  const ArrayRef<double> values(init.values, init.count);
  if (llvm::any_of(values, [](double value) { return !std::isfinite(value); }))
    fail(at, fmt::format("{}: the initial value is not finite", what));
  if (init.kind == Init::Constant && init.count != 1 && init.count != type.getNumElements())
    fail(at, fmt::format("{}: {} initial values for {} elements", what, init.count,
                         type.getNumElements()));
  if (init.kind == Init::Constant || init.kind == Init::Sign)
    for (double value : values)
      if (!fits(value, element))
        fail(at, fmt::format("{}: the initial value {} is not a number of type {}", what, value,
                             nameOf(dtypeOf(element))));
  if (element.isInteger() && init.kind != Init::Constant && init.kind != Init::Unset &&
      init.kind != Init::Data && init.kind != Init::Copy && init.kind != Init::Transpose)
    fail(at, fmt::format("{}: {} starts with given numbers or as a copy", what,
                         nameOf(dtypeOf(element))));
  switch (init.kind) {
  case Init::Constant:
    return attribute("constant", values);
  case Init::Unset:
    return attribute("constant", {0.0});
  case Init::Sign:
    return attribute("sign", values);
  case Init::Normal:
    if (values[1] < 0)
      fail(at, fmt::format("{}: normal({}, {}): the deviation is negative", what, values[0],
                           values[1]));
    return attribute("normal", values);
  case Init::Uniform:
    if (values[0] > values[1])
      fail(at, fmt::format("{}: uniform({}, {}): low is above high", what, values[0], values[1]));
    return attribute("uniform", values);
  case Init::Data: {
    if (init.model != model)
      fail(at, fmt::format("{}: the initial value is another model's", what));
    const std::vector<double> &numbers = numberSets[init.data];
    if (static_cast<int64_t>(numbers.size()) != type.getNumElements())
      fail(at, fmt::format("{}: {} initial values for {} elements", what, numbers.size(),
                           type.getNumElements()));
    for (auto [i, number] : llvm::enumerate(numbers)) {
      if (!std::isfinite(number))
        fail(at, fmt::format("{}: the initial value of element {} is not finite", what, i));
      if (!fits(number, element))
        fail(at, fmt::format("{}: the initial value {} of element {} is not a number of type {}",
                             what, number, i, nameOf(dtypeOf(element))));
    }
    // A few numbers stand in the plan as they are.
    constexpr size_t few = 16;
    if (numbers.size() <= few)
      return attribute("constant", numbers);
    return graph::InitAttr::get(context, "data", builder.getDenseF64ArrayAttr({}), {},
                                dataOf(numbers, type), {});
  }
  case Init::Copy:
  case Init::Transpose: {
    const RankedTensorType source = typeOf(init.source, at, what.c_str());
    SmallVector<int64_t> shape(source.getShape());
    const bool transposed = init.kind == Init::Transpose;
    if (transposed && shape.size() < 2)
      fail(at, fmt::format("{}: transposeOf a tensor of shape {}", what, text(shape)));
    if (transposed)
      std::swap(shape.back(), shape[shape.size() - 2]);
    if (ArrayRef<int64_t>(shape) != type.getShape())
      fail(at, fmt::format("{}: of shape {}, starts as a copy of shape {}", what,
                           text(type.getShape()), text(shape)));
    if (source.getElementType().isInteger() != element.isInteger())
      fail(at, fmt::format("{}: {} starts as a copy of {}", what, nameOf(dtypeOf(element)),
                           nameOf(dtypeOf(source.getElementType()))));
    return graph::InitAttr::get(
        context, transposed ? "transpose" : "copy", builder.getDenseF64ArrayAttr({}),
        FlatSymbolRefAttr::get(context, declared[init.source.id].symbol), {}, {});
  }
  case Init::Blocks:
    return blocksOf(init, type, what, at);
  }
  return {};
}

graph::InitAttr Recorder::blocksOf(const Init &init, RankedTensorType type, const std::string &what,
                                   Line at) {
  if (init.model != model)
    fail(at, fmt::format("{}: the initial value is another model's", what));
  const std::vector<Init> blocks = blockSets[init.data];
  const auto count = static_cast<int64_t>(blocks.size());
  if (type.getNumElements() % count != 0)
    fail(at, fmt::format("{}: {} equal blocks of {} elements", what, count, type.getNumElements()));
  SmallVector<double> elements;
  SmallVector<Attribute> parts;
  for (const Init &block : blocks) {
    const bool isNumber = block.kind == Init::Constant && block.count == 1;
    if (!isNumber && block.kind != Init::Normal && block.kind != Init::Uniform &&
        block.kind != Init::Sign)
      fail(at, fmt::format("{}: a block starts with one number or with random ones", what));
    const graph::InitAttr part = initOf(block, type, what, at);
    const int64_t size = type.getNumElements() / count;
    if (!parts.empty() && parts.back() == part) {
      elements.back() += static_cast<double>(size);
      continue;
    }
    parts.push_back(part);
    elements.push_back(static_cast<double>(size));
  }
  if (parts.size() == 1)
    return mlir::cast<graph::InitAttr>(parts.front());
  return graph::InitAttr::get(builder.getContext(), "blocks",
                              builder.getDenseF64ArrayAttr(elements), {}, {},
                              builder.getArrayAttr(parts));
}

std::string Recorder::initText(const Init &init) const {
  const ArrayRef<double> values(init.values, init.count);
  switch (init.kind) {
  case Init::Constant:
    return fmt::format("{:.6g}", fmt::join(values, ", "));
  case Init::Normal:
    return fmt::format("normal({:.6g})", fmt::join(values, ", "));
  case Init::Uniform:
    return fmt::format("uniform({:.6g})", fmt::join(values, ", "));
  case Init::Sign:
    return fmt::format("±{:.6g}", values[0]);
  case Init::Data: {
    const std::vector<double> &numbers = numberSets[init.data];
    constexpr size_t few = 16;
    return numbers.size() <= few ? fmt::format("{:.6g}", fmt::join(numbers, ", "))
                                 : fmt::format("{} numbers", numbers.size());
  }
  case Init::Copy:
    return fmt::format("copy of {}", declared[init.source.id].symbol);
  case Init::Transpose:
    return fmt::format("transpose of {}", declared[init.source.id].symbol);
  case Init::Blocks:
    return fmt::format("{} blocks", blockSets[init.data].size());
  case Init::Unset:
    break;
  }
  return "";
}

} // namespace nano::frontend
