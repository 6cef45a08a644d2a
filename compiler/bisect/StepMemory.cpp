// Places of buffers, and elements of every type as bytes.
#include "compiler/bisect/StepMemory.h"

#include "llvm/ADT/APFloat.h"

#include <cstdint>
#include <cstring>

using namespace mlir;

namespace nano::bisect {

using interpreter::TensorValue;

namespace {

constexpr int notWritten = 0xff;
/// Vectors of a kernel may reach so far behind the end of what it touches.
constexpr int64_t slack = 256;

double decode(const std::byte *at, Type element) {
  const int64_t bytes = step::elementBytes(element);
  uint32_t bits = 0;
  std::memcpy(&bits, at, size_t(bytes));
  if (element.isInteger())
    return bytes == 2 ? double(uint16_t(bits)) : double(int32_t(bits));
  if (element.isF32() || element.isBF16()) {
    bits <<= element.isBF16() ? 16 : 0;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const llvm::fltSemantics &semantics = cast<FloatType>(element).getFloatSemantics();
  return APFloat(semantics, APInt(8, bits)).convertToDouble();
}

void encode(double value, std::byte *at, Type element) {
  const int64_t bytes = step::elementBytes(element);
  const double rounded = interpreter::roundTo(value, element);
  uint32_t bits = 0;
  if (element.isInteger()) {
    bits = uint32_t(int64_t(rounded));
  } else if (element.isF32() || element.isBF16()) {
    const auto number = float(rounded);
    std::memcpy(&bits, &number, sizeof number);
    bits >>= element.isBF16() ? 16 : 0;
  } else {
    APFloat number(rounded);
    bool lost = false;
    number.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &lost);
    bits = uint32_t(number.bitcastToAPInt().getZExtValue());
  }
  std::memcpy(at, &bits, size_t(bytes));
}

/// Calls visit(number of the element, its place in the buffer) for the elements of a view.
template <typename Visit> void forEachElement(MemRefType type, const Visit &visit) {
  const step::Layout layout = step::layoutOf(type);
  const ArrayRef<int64_t> shape = type.getShape();
  for (int64_t i = 0, count = type.getNumElements(); i < count; ++i) {
    int64_t rest = i, place = layout.offset;
    for (size_t dim = shape.size(); dim-- > 0;) {
      place += rest % shape[dim] * layout.strides[dim];
      rest /= shape[dim];
    }
    visit(i, place);
  }
}

TensorValue readFrom(const std::byte *start, MemRefType type) {
  const int64_t bytes = step::elementBytes(type.getElementType());
  TensorValue value{type.getShape().vec(), std::vector<double>(size_t(type.getNumElements()))};
  forEachElement(type, [&](int64_t i, int64_t place) {
    value.data[size_t(i)] = decode(start + place * bytes, type.getElementType());
  });
  return value;
}

void writeTo(std::byte *start, MemRefType type, const TensorValue &value) {
  const int64_t bytes = step::elementBytes(type.getElementType());
  forEachElement(type, [&](int64_t i, int64_t place) {
    encode(value.data[size_t(i)], start + place * bytes, type.getElementType());
  });
}

} // namespace

StepMemory::StepMemory(ModuleOp module) {
  step::ArenaOp planned = step::arenaOf(module);
  std::byte *arena = planned ? allocate(planned.getEnd()) : nullptr;
  auto add = [&](const void *key, IntegerAttr offset, int64_t bytes) {
    starts[key] = arena && offset ? arena + offset.getInt() : allocate(bytes);
  };
  auto addSymbol = [&](graph::PlacedOpInterface op, int64_t bytes) {
    add(SymbolTable::getSymbolName(op).getAsOpaquePointer(), op.getOffsetAttr(), bytes);
  };
  for (auto state : module.getOps<graph::StateOp>())
    addSymbol(state, step::contiguousBytes(step::memrefOf(state.getTensorType())));
  for (auto scalar : module.getOps<graph::ScalarOp>())
    addSymbol(scalar, step::elementBytes(scalar.getType()));
  for (auto input : module.getOps<step::InputOp>())
    addSymbol(input, step::contiguousBytes(cast<MemRefType>(input.getType())));
  module.walk([&](step::BufferOp buffer) {
    add(step::bufferKey(buffer), buffer.getOffsetAttr(),
        step::contiguousBytes(cast<MemRefType>(buffer.getType())));
  });
}

std::byte *StepMemory::allocate(int64_t bytes) {
  constexpr uintptr_t alignment = 256;
  std::vector<std::byte> &block =
      blocks.emplace_back(size_t(bytes + 2 * slack) + alignment, std::byte(notWritten));
  const auto begin = reinterpret_cast<uintptr_t>(block.data() + slack);
  return block.data() + slack + (alignment - begin % alignment) % alignment;
}

std::byte *StepMemory::start(const void *key) const { return starts.lookup(key); }

void StepMemory::poison(step::ProgramOp program) {
  for (auto buffer : program.getBody().getOps<step::BufferOp>())
    std::memset(start(step::bufferKey(buffer)), notWritten,
                size_t(step::contiguousBytes(cast<MemRefType>(buffer.getType()))));
}

void StepMemory::poison(step::InputOp input) {
  std::memset(start(input.getSymNameAttr().getAsOpaquePointer()), notWritten,
              size_t(step::contiguousBytes(cast<MemRefType>(input.getType()))));
}

std::byte *StepMemory::address(Value view) const {
  auto type = cast<MemRefType>(view.getType());
  return start(step::bufferKey(view)) +
         step::layoutOf(type).offset * step::elementBytes(type.getElementType());
}

TensorValue StepMemory::read(Value view) const {
  return readFrom(start(step::bufferKey(view)), cast<MemRefType>(view.getType()));
}

void StepMemory::write(Value view, const TensorValue &value) {
  writeTo(start(step::bufferKey(view)), cast<MemRefType>(view.getType()), value);
}

TensorValue StepMemory::read(StringAttr symbol, MemRefType type) const {
  return readFrom(start(symbol.getAsOpaquePointer()), type);
}

void StepMemory::write(StringAttr symbol, MemRefType type, const TensorValue &value) {
  writeTo(start(symbol.getAsOpaquePointer()), type, value);
}

} // namespace nano::bisect
