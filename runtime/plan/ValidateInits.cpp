// The rules of how states start: enough numbers, all finite, and sources that are there.
#include "runtime/plan/Validator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nano::plan {
namespace {

/// Whether an element that begins at `bytes` is finite: not all bits of its exponent are set.
bool isFinite(DType type, const char *bytes) {
  if (type == DType::BF16) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return (bits & 0x7f80) != 0x7f80;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return type != DType::F32 || (bits & 0x7f800000) != 0x7f800000;
}

bool isCopy(const Init &init) {
  return init.kind == Init::Kind::Copy || init.kind == Init::Kind::Transpose;
}

} // namespace

void Validator::check(const Init &init, uint64_t count, DType type) const {
  using Kind = Init::Kind;
  auto isFiniteNumber = [](double number) { return std::isfinite(number); };
  require(std::all_of(init.values.begin(), init.values.end(), isFiniteNumber) &&
              isFiniteNumber(init.mean) && isFiniteNumber(init.stddev) &&
              isFiniteNumber(init.low) && isFiniteNumber(init.high),
          "the initial value is not a finite number");
  const bool isWide = type == DType::F32 || type == DType::BF16 || type == DType::I32;
  switch (init.kind) {
  case Kind::Constant:
    return require(init.values.size() == 1 || init.values.size() == count,
                   "the initial value has neither one number nor one for each element");
  case Kind::Normal:
    return require(init.stddev >= 0, "the standard deviation is negative");
  case Kind::Uniform:
    return require(init.low <= init.high, "the initial range is empty");
  case Kind::Sign:
    return require(init.values.size() == 1, "the initial value is not one number and its negative");
  case Kind::Data: {
    require(isWide, "only f32, bf16 and i32 start with data");
    const uint64_t bytes = times(count, sizeOf(type));
    require(plus(init.offset, bytes) <= plan.data.size(), "its data end behind the plan's");
    for (uint64_t at = 0; at < bytes; at += sizeOf(type))
      require(isFinite(type, plan.data.data() + init.offset + at),
              "the initial value is not a finite number");
    return;
  }
  case Kind::Copy:
  case Kind::Transpose:
    return require(isWide, "only f32, bf16 and i32 start as copies");
  case Kind::Blocks: {
    uint64_t covered = 0;
    require(init.parts.size() == init.counts.size() && !init.parts.empty(),
            "the parts of the initial value have no sizes");
    for (size_t i = 0; i < init.parts.size(); ++i) {
      const Init &part = init.parts[i];
      require(part.kind == Kind::Constant || part.kind == Kind::Normal ||
                  part.kind == Kind::Uniform || part.kind == Kind::Sign,
              "a part of the initial value is neither a number nor random");
      check(part, 1, type);
      covered = plus(covered, init.counts[i]);
    }
    return require(covered == count, "the parts of the initial value are not all of its elements");
  }
  }
}

void Validator::copies(const State &state) const {
  const State *copy = &state;
  for (size_t length = 0; isCopy(copy->init); ++length) {
    require(length < plan.states.size(), "it starts as a copy of itself");
    auto found = std::find_if(plan.states.begin(), plan.states.end(),
                              [&](const State &each) { return each.name == copy->init.source; });
    require(found != plan.states.end(), "it starts as a copy of a state that does not exist");
    require(found->role != State::Role::Gradient && !found->sharding,
            "it starts as a copy of what is no whole parameter, state or table");
    std::vector<int64_t> shape = found->shape;
    if (copy->init.kind == Init::Kind::Transpose) {
      require(shape.size() >= 2, "it starts as the transpose of what is no matrix");
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    }
    require(shape == copy->shape, "it starts as a copy of another shape");
    require((found->type == DType::I32) == (copy->type == DType::I32),
            "it starts as a copy of another type");
    copy = &*found;
  }
}

} // namespace nano::plan
