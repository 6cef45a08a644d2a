// Reads back what commands write, and looks at the exponents.
#include "runtime/NonFinite.h"

#include "runtime/NumberFormats.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <vector>

namespace nano {
namespace {

using plan::DType;

constexpr uint64_t pieceBytes = uint64_t(16) << 20;

/// Runs over programs of one device.
class Checker {
public:
  Checker(const plan::Plan &plan, Device &device) : plan(plan), device(device) {}

  Result<std::optional<NonFinite>> run(const plan::Program &program);

private:
  Status zero(uint32_t buffer);
  Result<std::optional<NonFinite>> look(uint32_t buffer);

  const plan::Plan &plan;
  Device &device;
  std::vector<std::byte> piece;
};

Status Checker::zero(uint32_t buffer) {
  uint64_t bytes = plan.buffers[buffer].bytes;
  piece.assign(std::min(pieceBytes, bytes), std::byte{0});
  for (uint64_t at = 0; at < bytes; at += pieceBytes)
    if (Status status = device.write(buffer, at, piece.data(), std::min(pieceBytes, bytes - at));
        !status)
      return status;
  return ok();
}

Result<std::optional<NonFinite>> Checker::look(uint32_t index) {
  const plan::Buffer &buffer = plan.buffers[index];
  uint64_t size = plan::sizeOf(buffer.type);
  piece.resize(std::min(pieceBytes, buffer.bytes));
  for (uint64_t at = 0; at + size <= buffer.bytes; at += pieceBytes) {
    uint64_t bytes = std::min(pieceBytes, buffer.bytes - at);
    if (Status status = device.read(index, at, piece.data(), bytes); !status)
      return status.error();
    if (std::optional<uint64_t> first = firstNonFinite(buffer.type, piece.data(), bytes / size)) {
      NonFinite found;
      found.buffer = index;
      found.element = at / size + *first;
      found.value = valueOf(buffer.type, piece.data() + *first * size);
      return std::optional(found);
    }
  }
  return std::optional<NonFinite>();
}

Result<std::optional<NonFinite>> Checker::run(const plan::Program &program) {
  std::optional<NonFinite> first;
  std::set<uint32_t> seen;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    std::vector<plan::Ref> refs = plan::operandsOf(program.commands[i]);
    for (const plan::Ref &ref : refs)
      if (ref.read)
        seen.insert(ref.buffer);
    for (const plan::Ref &ref : refs)
      if (!first && seen.insert(ref.buffer).second)
        if (Status status = zero(ref.buffer); !status)
          return status.error();
    if (Status status = device.runCommand(program.name, i); !status)
      return status.error();
    for (const plan::Ref &ref : refs) {
      if (first || !ref.written)
        continue;
      Result<std::optional<NonFinite>> found = look(ref.buffer);
      if (!found)
        return found;
      first = *found;
      if (first) {
        first->program = program.name;
        first->command = i;
      }
    }
  }
  return first;
}

} // namespace

float valueOf(DType type, const void *data) {
  uint32_t word = 0;
  std::memcpy(&word, data, plan::sizeOf(type));
  switch (type) {
  case DType::F32:
    return std::bit_cast<float>(word);
  case DType::BF16:
    return fromBf16(uint16_t(word));
  case DType::F8E4M3FN:
    return fromE4m3(uint8_t(word));
  case DType::F8E5M2:
    return fromE5m2(uint8_t(word));
  case DType::I32:
  case DType::U16:
    break;
  }
  return 0;
}

std::optional<uint64_t> firstNonFinite(DType type, const void *data, uint64_t count) {
  const auto *bytes = static_cast<const std::byte *>(data);
  if (type == DType::I32 || type == DType::U16)
    return std::nullopt;
  // A block at a time, in a loop without branches; then the place within the block.
  constexpr uint64_t block = 4096;
  auto search = [&](auto element, auto isBad) -> std::optional<uint64_t> {
    for (uint64_t begin = 0; begin < count; begin += block) {
      uint64_t end = std::min(count, begin + block);
      bool anyBad = false;
      for (uint64_t i = begin; i < end; ++i) {
        std::memcpy(&element, bytes + i * sizeof element, sizeof element);
        anyBad |= isBad(element);
      }
      for (uint64_t i = begin; anyBad && i < end; ++i) {
        std::memcpy(&element, bytes + i * sizeof element, sizeof element);
        if (isBad(element))
          return i;
      }
    }
    return std::nullopt;
  };
  if (type == DType::F32)
    return search(uint32_t(), [](uint32_t x) { return (x & 0x7F800000) == 0x7F800000; });
  if (type == DType::BF16)
    return search(uint16_t(), [](uint16_t x) { return (x & 0x7F80) == 0x7F80; });
  if (type == DType::F8E4M3FN)
    return search(uint8_t(), [](uint8_t x) { return (x & 0x7F) == 0x7F; });
  return search(uint8_t(), [](uint8_t x) { return (x & 0x7C) == 0x7C; });
}

Result<std::optional<NonFinite>> runChecked(const plan::Plan &plan, Device &device,
                                            const std::string &name) {
  auto program = std::find_if(plan.programs.begin(), plan.programs.end(),
                              [&](const plan::Program &each) { return each.name == name; });
  if (program == plan.programs.end())
    return failed(fmt::format("the plan has no program '{}'", name));
  return Checker(plan, device).run(*program);
}

std::string toString(const plan::Plan &plan, const NonFinite &found) {
  const plan::Buffer &buffer = plan.buffers[found.buffer];
  auto program =
      std::find_if(plan.programs.begin(), plan.programs.end(),
                   [&](const plan::Program &each) { return each.name == found.program; });
  std::string place = buffer.location.line
                          ? fmt::format(" ({}:{})", buffer.location.file, buffer.location.line)
                          : "";
  return fmt::format("buffer '{}'{}, element {} = {}, written by {}", buffer.name, place,
                     found.element, found.value, plan::placeOf(plan, *program, found.command));
}

} // namespace nano
