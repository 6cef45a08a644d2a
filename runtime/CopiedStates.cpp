// States that start as copies of others, element by element or transposed.
#include "runtime/States.h"

#include "runtime/NonFinite.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace nano {

namespace {

constexpr uint64_t pieceElements = 1 << 18;

/// `count` elements of one type at `from` as those of another at `to`.
void convert(plan::DType type, const std::byte *from, plan::DType into, std::byte *to,
             uint64_t count) {
  const uint64_t size = plan::sizeOf(type);
  if (type == into) {
    std::memcpy(to, from, count * size);
    return;
  }
  // Of f32 and bf16, one to the other.
  for (uint64_t i = 0; i < count; ++i) {
    const float value = valueOf(type, from + i * size);
    const uint16_t narrow = toBf16(value);
    if (into == plan::DType::BF16)
      std::memcpy(to + i * sizeof narrow, &narrow, sizeof narrow);
    else
      std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

Status copyStraight(const plan::State &source, const plan::State &copy, const ReadState &read,
                    const WriteState &write) {
  const uint64_t count = elementsOf(copy.shape), from = plan::sizeOf(source.type),
                 to = plan::sizeOf(copy.type);
  std::vector<std::byte> bytes(std::min(count, pieceElements) * from),
      converted(std::min(count, pieceElements) * to);
  for (uint64_t at = 0; at < count; at += pieceElements) {
    const uint64_t elements = std::min(pieceElements, count - at);
    if (Status status = read(source, at * from, bytes.data(), elements * from); !status)
      return status;
    convert(source.type, bytes.data(), copy.type, converted.data(), elements);
    if (Status status = write(copy, at * to, converted.data(), elements * to); !status)
      return status;
  }
  return ok();
}

Status copyTransposed(const plan::State &source, const plan::State &copy, const ReadState &read,
                      const WriteState &write) {
  // The copy is rows × columns, again and again along the dimensions before.
  const uint64_t count = elementsOf(copy.shape), rows = uint64_t(copy.shape[copy.shape.size() - 2]),
                 columns = uint64_t(copy.shape.back()), from = plan::sizeOf(source.type),
                 to = plan::sizeOf(copy.type);
  std::vector<std::byte> bytes(count * from), turned(count * from), converted(count * to);
  if (Status status = read(source, 0, bytes.data(), bytes.size()); !status)
    return status;
  // Blocks, so that what is read and what is written stays in the cache.
  constexpr uint64_t block = 32;
  for (uint64_t matrix = 0; matrix < count; matrix += rows * columns)
    for (uint64_t r0 = 0; r0 < rows; r0 += block)
      for (uint64_t c0 = 0; c0 < columns; c0 += block)
        for (uint64_t r = r0; r < std::min(r0 + block, rows); ++r)
          for (uint64_t c = c0; c < std::min(c0 + block, columns); ++c)
            std::memcpy(turned.data() + (matrix + r * columns + c) * from,
                        bytes.data() + (matrix + c * rows + r) * from, from);
  convert(source.type, turned.data(), copy.type, converted.data(), count);
  return write(copy, 0, converted.data(), converted.size());
}

} // namespace

Status copyStates(const plan::Plan &plan, std::vector<const plan::State *> waiting,
                  const ReadState &read, const WriteState &write, const Say &say) {
  // A copy's source comes first; no circle of copies is a plan.
  while (!waiting.empty()) {
    std::set<std::string> names;
    for (const plan::State *state : waiting)
      names.insert(state->name);
    std::vector<const plan::State *> later;
    for (const plan::State *state : waiting) {
      if (names.count(state->init.source) > 0) {
        later.push_back(state);
        continue;
      }
      auto source =
          std::find_if(plan.states.begin(), plan.states.end(),
                       [&](const plan::State &each) { return each.name == state->init.source; });
      if (say)
        say(fmt::format("copying '{}' to '{}'", source->name, state->name));
      const auto copy =
          state->init.kind == plan::Init::Kind::Transpose ? copyTransposed : copyStraight;
      if (Status status = copy(*source, *state, read, write); !status)
        return status;
    }
    waiting = std::move(later);
  }
  return ok();
}

} // namespace nano
