// Initial values, and states to safetensors files.
#include "runtime/States.h"

#include "runtime/NonFinite.h"
#include "runtime/NumberFormats.h"
#include "runtime/Random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <span>
#include <thread>

namespace nano {

namespace {

constexpr uint64_t pieceBytes = 1 << 20;

/// Elements [first, first + values.size()) of an initial value, in f32 before rounding to the
/// state's type. Data and copies have no such values.
void makeValues(const plan::Init &init, const Random &random, uint64_t first,
                std::span<float> values) {
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
  case plan::Init::Kind::Sign:
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(random.unit(first + i) < 0.5 ? -init.values[0] : init.values[0]);
    break;
  case plan::Init::Kind::Blocks: {
    uint64_t begin = 0; // of a part
    for (size_t i = 0; i < init.parts.size(); begin += init.counts[i++]) {
      const uint64_t from = std::max(begin, first),
                     to = std::min(begin + init.counts[i], first + values.size());
      if (from < to)
        makeValues(init.parts[i], random, from, values.subspan(from - first, to - from));
    }
    break;
  }
  case plan::Init::Kind::Data:
  case plan::Init::Kind::Copy:
  case plan::Init::Kind::Transpose:
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
  else if (type == plan::DType::U16)
    convertWith(values, out, [](float value) { return uint16_t(std::lrint(value)); });
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
                state.type == plan::DType::I32 || state.type == plan::DType::U16;
  if (rounds || isZero(state.init))
    return ok();
  return badInput(fmt::format("state '{}': a state of type {} can only start at zero", state.name,
                              plan::nameOf(state.type)));
}

/// At most one MiB of a state that does not start at zero.
struct StatePiece {
  const plan::State *state = nullptr;
  uint64_t offset = 0, bytes = 0;
};

/// Makes pieces of initial values on some threads and hands them out in order. Holds one piece a
/// thread.
class PieceMaker {
public:
  PieceMaker(const plan::Plan &plan, const std::vector<StatePiece> &pieces, uint64_t seed,
             int threads)
      : plan(plan), pieces(pieces), seed(seed),
        slots(std::clamp<size_t>(size_t(std::max(threads, 1)), 1,
                                 std::max<size_t>(pieces.size(), 1))) {
    for (size_t i = 1; i < slots.size(); ++i)
      helpers.emplace_back([this] { help(); });
  }
  ~PieceMaker() {
    {
      std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
    for (std::thread &helper : helpers)
      helper.join();
  }

  /// Piece i's bytes, valid until the next call; called for i = 0, 1, ….
  const std::byte *take(size_t i) {
    std::unique_lock lock(mutex);
    taken = i;
    changed.notify_all();
    // This thread makes pieces too while it waits.
    while (made(i) != i) {
      if (thrown)
        std::rethrow_exception(thrown);
      if (next < pieces.size() && next < i + slots.size()) {
        size_t mine = next++;
        lock.unlock();
        make(mine);
        lock.lock();
        slots[mine % slots.size()].piece = mine;
        continue;
      }
      changed.wait(lock);
    }
    return slots[i % slots.size()].bytes.data();
  }

private:
  struct Slot {
    std::vector<std::byte> bytes;
    std::vector<float> values;
    size_t piece = SIZE_MAX; ///< the one that is complete here
  };

  size_t made(size_t i) const { return slots[i % slots.size()].piece; }

  void help() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock,
                   [&] { return stopped || next >= pieces.size() || next < taken + slots.size(); });
      if (stopped || next >= pieces.size())
        return;
      size_t mine = next++;
      lock.unlock();
      try {
        make(mine);
      } catch (...) { // no memory; whoever takes pieces hears of it
        lock.lock();
        thrown = std::current_exception();
        changed.notify_all();
        return;
      }
      lock.lock();
      slots[mine % slots.size()].piece = mine;
      changed.notify_all();
    }
  }

  void make(size_t i) {
    const StatePiece &piece = pieces[i];
    const plan::Init &init = piece.state->init;
    Slot &slot = slots[i % slots.size()];
    if (init.kind == plan::Init::Kind::Data) {
      const char *data = plan.data.data() + init.offset + piece.offset;
      slot.bytes.resize(piece.bytes);
      std::memcpy(slot.bytes.data(), data, piece.bytes);
      return;
    }
    if (init.kind == plan::Init::Kind::Constant && piece.state->type == plan::DType::I32) {
      // Not through f32, which lacks most large ones.
      slot.bytes.resize(piece.bytes);
      for (uint64_t at = 0; at < piece.bytes; at += sizeof(int32_t)) {
        const size_t element = init.values.size() == 1 ? 0 : (piece.offset + at) / sizeof(int32_t);
        const auto value = int32_t(std::llrint(init.values[element]));
        std::memcpy(slot.bytes.data() + at, &value, sizeof value);
      }
      return;
    }
    const uint64_t elementBytes = plan::sizeOf(piece.state->type);
    slot.values.resize(piece.bytes / elementBytes);
    slot.bytes.resize(piece.bytes);
    makeValues(init, Random(seed, piece.state->name), piece.offset / elementBytes, slot.values);
    convert(slot.values, piece.state->type, slot.bytes.data());
  }

  const plan::Plan &plan;
  const std::vector<StatePiece> &pieces;
  const uint64_t seed;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Slot> slots; ///< piece i is made in slot i mod their number
  size_t next = 0;         ///< to be made
  size_t taken = 0;        ///< in the caller's hands
  bool stopped = false;
  std::exception_ptr thrown; ///< by a helper
  std::vector<std::thread> helpers;
};

} // namespace

std::vector<const plan::State *> statesOf(const plan::Plan &plan, plan::State::Role role) {
  std::vector<const plan::State *> states;
  for (const plan::State &state : plan.states)
    if (state.role == role)
      states.push_back(&state);
  return states;
}

Status initializeStates(const plan::Plan &plan, const Seat &seat,
                        const std::vector<plan::State::Role> &roles, uint64_t seed, int threads,
                        const WriteState &write, const ClearState &clear, const Say &say,
                        const FillState &fill) {
  std::vector<StateRun> runs;
  for (plan::State::Role role : roles) {
    for (const plan::State *state : statesOf(plan, role)) {
      if (Status status = checkInit(*state); !status)
        return status;
      if (isCopy(*state))
        continue;
      const bool zero = isZero(state->init);
      if (zero || state->sharding) // the padding
        if (Status status = clear(*state); !status)
          return status;
      if (!zero)
        for (const StateRun &run : heldRuns({state}, seat))
          runs.push_back(run);
    }
  }
  std::vector<StatePiece> pieces;
  for (const StateRun &run : runs) {
    if (fill) {
      Result<bool> isFilled = fill(*run.state, seed, run.local, run.count);
      if (!isFilled)
        return isFilled.error();
      if (*isFilled)
        continue;
    }
    const uint64_t size = plan::sizeOf(run.state->type);
    for (uint64_t at = 0; at < run.count * size; at += pieceBytes)
      pieces.push_back(
          {run.state, run.local * size + at, std::min(pieceBytes, run.count * size - at)});
  }
  PieceMaker maker(plan, pieces, seed, threads);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (say && (i == 0 || pieces[i].state != pieces[i - 1].state))
      say(fmt::format("making the initial values of '{}'", pieces[i].state->name));
    if (Status status = write(*pieces[i].state, pieces[i].offset, maker.take(i), pieces[i].bytes);
        !status)
      return status;
  }
  return ok();
}

Status storeRuns(std::vector<StateRun> runs, const ReadState &read, bool requireFinite,
                 FileWriter &file) {
  std::stable_sort(runs.begin(), runs.end(), [](const StateRun &a, const StateRun &b) {
    return plan::sizeOf(a.state->type) > plan::sizeOf(b.state->type);
  });
  std::vector<std::pair<std::string, TensorInfo>> entries;
  for (const StateRun &run : runs) {
    const char *type = safetensorsName(run.state->type);
    if (run.count == elementsOf(run.shape))
      entries.push_back({run.tensor, {type, run.shape}});
    else
      entries.push_back(
          {entryName(run.tensor, run.first, run.count), {type, {int64_t(run.count)}}});
  }
  if (Status status = file.append(safetensorsHeader(entries)); !status)
    return status;
  std::vector<std::byte> piece(pieceBytes);
  for (const StateRun &run : runs) {
    const plan::State &state = *run.state;
    const uint64_t size = plan::sizeOf(state.type), bytes = run.count * size;
    for (uint64_t at = 0; at < bytes; at += pieceBytes) {
      uint64_t count = std::min(pieceBytes, bytes - at);
      if (Status status = read(state, run.local * size + at, piece.data(), count); !status)
        return status;
      if (requireFinite && firstNonFinite(state.type, piece.data(), count / size))
        return failed(fmt::format("state '{}' holds values that are not finite; it is not saved",
                                  run.tensor));
      if (Status status = file.append(piece.data(), count); !status)
        return status;
    }
  }
  return ok();
}

} // namespace nano
