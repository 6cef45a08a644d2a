// Walks over chunks of sharded states and the pieces that lie in them.
#include "runtime/StateRuns.h"

#include <algorithm>
#include <array>

namespace nano {

namespace {

/// The runs of elements [begin, end) of the rank's part of a state.
void addRuns(const plan::State &state, const Seat &seat, uint64_t begin, uint64_t end,
             std::vector<StateRun> &runs) {
  if (!state.sharding) {
    runs.push_back({&state, begin, state.name, state.shape, begin, end - begin});
    return;
  }
  const plan::Sharding &sharding = *state.sharding;
  const auto place = uint64_t(placeOf(sharding.ranks, seat.rank, seat.world, seat.group).place);
  const auto chunk = uint64_t(sharding.chunk), parts = uint64_t(sharding.parts);
  for (uint64_t local = begin; local < end;) {
    const uint64_t t = local / chunk, within = local % chunk;
    const uint64_t count = std::min(chunk - within, end - local);
    const uint64_t whole = (t * parts + place) * chunk + within;
    // Pieces are in order and apart.
    auto piece = std::partition_point(
        sharding.pieces.begin(), sharding.pieces.end(), [&](const plan::Sharding::Piece &each) {
          return uint64_t(each.offset) + elementsOf(each.shape) <= whole;
        });
    for (; piece != sharding.pieces.end() && uint64_t(piece->offset) < whole + count; ++piece) {
      const auto offset = uint64_t(piece->offset);
      const uint64_t from = std::max(whole, offset);
      const uint64_t to = std::min(whole + count, offset + elementsOf(piece->shape));
      if (from >= to)
        continue;
      StateRun run{&state,       local + (from - whole), piece->name,
                   piece->shape, from - offset,          to - from};
      StateRun *last = runs.empty() ? nullptr : &runs.back();
      if (last && last->state == &state && last->tensor == run.tensor &&
          last->first + last->count == run.first && last->local + last->count == run.local)
        last->count += run.count;
      else
        runs.push_back(std::move(run));
    }
    local += count;
  }
}

} // namespace

uint64_t elementsOf(const std::vector<int64_t> &shape) {
  uint64_t count = 1;
  for (int64_t size : shape)
    count *= uint64_t(size);
  return count;
}

Seat seatOf(const plan::Plan &plan, const Communicator &communicator) {
  return {communicator.rank(), communicator.world(), int(plan.group)};
}

TensorTable tensorsOf(const std::vector<const plan::State *> &states) {
  TensorTable table;
  for (const plan::State *state : states) {
    const char *type = safetensorsName(state->type);
    if (!state->sharding)
      table[state->name] = {type, state->shape};
    else
      for (const plan::Sharding::Piece &piece : state->sharding->pieces)
        table[piece.name] = {type, piece.shape};
  }
  return table;
}

std::vector<StateRun> heldRuns(const std::vector<const plan::State *> &states, const Seat &seat) {
  std::vector<StateRun> runs;
  for (const plan::State *state : states)
    addRuns(*state, seat, 0, elementsOf(state->shape), runs);
  return runs;
}

std::vector<StateRun> ownRuns(const std::vector<const plan::State *> &states, const Seat &seat) {
  // States of equal holders lie side by side in a row of bytes, of which each holder writes a
  // stretch.
  struct Row {
    uint64_t bytes = 0, begin = 0, end = 0;
    uint64_t holders = 1, number = 0; ///< how many ranks hold the same, and which of them this is
  };
  std::array<Row, 4> rows;
  auto rowOf = [&](const plan::State &state) -> Row & {
    return rows[state.sharding ? 1 + size_t(state.sharding->ranks) : 0];
  };
  for (const plan::State *state : states)
    rowOf(*state).bytes += bytesOf(*state);
  const auto rank = uint64_t(seat.rank), group = uint64_t(seat.group), world = uint64_t(seat.world);
  rows[0].holders = world;
  rows[0].number = rank;
  rows[1 + size_t(plan::Ranks::Group)].holders = world / group;
  rows[1 + size_t(plan::Ranks::Group)].number = rank / group;
  rows[1 + size_t(plan::Ranks::Peers)].holders = group;
  rows[1 + size_t(plan::Ranks::Peers)].number = rank % group;
  for (Row &row : rows) {
    row.begin =
        row.bytes / row.holders * row.number + row.bytes % row.holders * row.number / row.holders;
    row.end = row.bytes / row.holders * (row.number + 1) +
              row.bytes % row.holders * (row.number + 1) / row.holders;
    row.bytes = 0; // of the states that came before
  }

  std::vector<StateRun> runs;
  for (const plan::State *state : states) {
    Row &row = rowOf(*state);
    const uint64_t size = plan::sizeOf(state->type), count = elementsOf(state->shape);
    // The elements that start in the stretch.
    auto element = [&](uint64_t byte) {
      return byte <= row.bytes ? 0 : std::min(count, (byte - row.bytes + size - 1) / size);
    };
    const uint64_t begin = element(row.begin), end = element(row.end);
    if (begin < end || (count == 0 && row.number == 0))
      addRuns(*state, seat, begin, end, runs);
    row.bytes += size * count;
  }
  return runs;
}

} // namespace nano
