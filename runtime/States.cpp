// Initial values, and states to and from safetensors files.
#include "runtime/States.h"

#include "runtime/NumberFormats.h"
#include "runtime/Random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <thread>

namespace nano {

namespace {

constexpr uint64_t pieceBytes = 1 << 20;
/// Fewer elements than this are not worth a thread.
constexpr uint64_t elementsPerThread = 1 << 15;

/// Elements [first, first + values.size()) of the state's initial value, in f32 before rounding to
/// the state's type.
void makeValues(const plan::State &state, const Random &random, uint64_t first,
                std::span<float> values) {
  const plan::Init &init = state.init;
  switch (init.kind) {
  case plan::Init::Kind::Constant:
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(init.values.size() == 1 ? init.values[0] : init.values[first + i]);
    break;
  case plan::Init::Kind::Normal:
    random.normal(first, values, init.mean, init.stddev);
    break;
  case plan::Init::Kind::Uniform:
    random.uniform(first, values, init.low, init.high);
    break;
  }
}

/// Rounds values with `round` into elements of its result's type at `out`.
template <typename Round>
void convertWith(std::span<const float> values, std::byte *out, Round round) {
  for (size_t i = 0; i < values.size(); ++i) {
    auto element = round(values[i]);
    std::memcpy(out + i * sizeof element, &element, sizeof element);
  }
}

/// Rounds values to `type` at `out`; the types that `checkInit` lets pass with values.
void convert(std::span<const float> values, plan::DType type, std::byte *out) {
  if (type == plan::DType::BF16)
    convertWith(values, out, toBf16);
  else if (type == plan::DType::I32)
    convertWith(values, out, [](float value) { return int32_t(std::lrint(value)); });
  else
    std::memcpy(out, values.data(), values.size_bytes());
}

bool isZero(const plan::Init &init) {
  return init.kind == plan::Init::Kind::Constant &&
         std::all_of(init.values.begin(), init.values.end(),
                     [](double v) { return v == 0 && !std::signbit(v); });
}

/// The types that `convert` rounds to; the others, of quantised states, can only start at zero.
Status checkInit(const plan::State &state) {
  bool rounds = state.type == plan::DType::F32 || state.type == plan::DType::BF16 ||
                state.type == plan::DType::I32;
  if (rounds || isZero(state.init))
    return ok();
  return badInput(fmt::format("state '{}': a state of type {} can only start at zero", state.name,
                              plan::nameOf(state.type)));
}

/// Calls work(begin, end) for consecutive ranges that make up [0, count), on up to `threads`
/// threads.
template <typename Work> void forRanges(uint64_t count, int threads, const Work &work) {
  uint64_t parts =
      std::clamp<uint64_t>(count / elementsPerThread, 1, uint64_t(std::max(threads, 1)));
  std::vector<std::thread> helpers;
  for (uint64_t part = 1; part < parts; ++part)
    helpers.emplace_back([&, part] { work(count * part / parts, count * (part + 1) / parts); });
  work(0, count / parts);
  for (std::thread &helper : helpers)
    helper.join();
}

bool allFinite(plan::DType type, std::span<const std::byte> bytes) {
  bool finite = true;
  if (type == plan::DType::F32) {
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      uint32_t bits;
      std::memcpy(&bits, bytes.data() + i, 4);
      finite &= (bits & 0x7F800000) != 0x7F800000;
    }
  } else if (type == plan::DType::BF16) {
    for (size_t i = 0; i + 2 <= bytes.size(); i += 2) {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + i, 2);
      finite &= (bits & 0x7F80) != 0x7F80;
    }
  }
  return finite;
}

} // namespace

std::vector<const plan::State *> statesOf(const plan::Plan &plan, plan::State::Role role) {
  std::vector<const plan::State *> states;
  for (const plan::State &state : plan.states)
    if (state.role == role)
      states.push_back(&state);
  return states;
}

Status initializeStates(const plan::Plan &plan, const std::vector<plan::State::Role> &roles,
                        uint64_t seed, int threads, const WriteState &write) {
  std::vector<float> values;
  std::vector<std::byte> piece(pieceBytes);
  for (plan::State::Role role : roles) {
    for (const plan::State *state : statesOf(plan, role)) {
      if (Status status = checkInit(*state); !status)
        return status;
      uint64_t elementBytes = plan::sizeOf(state->type), bytes = bytesOf(*state);
      bool zero = isZero(state->init);
      if (zero)
        std::fill(piece.begin(), piece.end(), std::byte{0});
      Random random(seed, state->name);
      for (uint64_t offset = 0; offset < bytes; offset += pieceBytes) {
        uint64_t count = std::min(pieceBytes, bytes - offset);
        if (!zero) {
          values.resize(count / elementBytes);
          forRanges(values.size(), threads, [&](uint64_t begin, uint64_t end) {
            std::span<float> part(values.data() + begin, end - begin);
            makeValues(*state, random, offset / elementBytes + begin, part);
            convert(part, state->type, piece.data() + begin * elementBytes);
          });
        }
        if (Status status = write(*state, offset, piece.data(), count); !status)
          return status;
      }
    }
  }
  return ok();
}

Status storeStates(const std::vector<const plan::State *> &states, const ReadState &read,
                   bool requireFinite, FileWriter &file) {
  std::vector<const plan::State *> ordered = safetensorsOrder(states);
  if (Status status = file.append(safetensorsHeader(ordered)); !status)
    return status;
  std::vector<std::byte> piece(pieceBytes);
  for (const plan::State *state : ordered) {
    uint64_t bytes = bytesOf(*state);
    for (uint64_t offset = 0; offset < bytes; offset += pieceBytes) {
      uint64_t count = std::min(pieceBytes, bytes - offset);
      if (Status status = read(*state, offset, piece.data(), count); !status)
        return status;
      if (requireFinite && !allFinite(state->type, {piece.data(), count}))
        return failed(fmt::format("state '{}' holds values that are not finite; it is not saved",
                                  state->name));
      if (Status status = file.append(piece.data(), count); !status)
        return status;
    }
  }
  return ok();
}

Status loadStates(const SafetensorsFile &file, const std::vector<const plan::State *> &states,
                  const WriteState &write) {
  for (const plan::State *state : states) {
    const TensorEntry &entry = file.tensors().at(state->name);
    std::span<const std::byte> bytes = file.bytes(entry);
    if (bytes.empty())
      continue;
    if (Status status = write(*state, 0, bytes.data(), bytes.size()); !status)
      return status;
    file.release(entry);
  }
  return ok();
}

} // namespace nano
