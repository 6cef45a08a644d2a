// Unions of vector clocks.
#include "runtime/emulator/Knowledge.h"

namespace nano::emulator {

void Clock::fence(uint32_t threads) {
  auto row = seen ? std::make_shared<std::vector<uint32_t>>(*seen)
                  : std::make_shared<std::vector<uint32_t>>(threads);
  if (fenced)
    for (uint32_t i = 0; i < threads; ++i)
      (*row)[i] = std::max((*row)[i], (*fenced)[i]);
  (*row)[thread] = epoch++;
  fenced = std::move(row);
}

void Release::merge(Values &into, const Row &row) {
  if (!into) {
    into = copyOf(row);
    return;
  }
  for (size_t i = 0; i < row->size(); ++i)
    (*into)[i] = std::max((*into)[i], (*row)[i]);
}

void Release::add(Clock &clock, uint32_t threads) {
  // Rows that were handed out must not change any more.
  if (learnedSeen.result) {
    seen = copyOf(seen);
    learnedSeen = {};
  }
  if (clock.seen && clock.seen != lastSeen) {
    merge(seen, clock.seen);
    lastSeen = clock.seen;
  }
  if (!seen)
    seen = std::make_shared<std::vector<uint32_t>>(threads);
  (*seen)[clock.thread] = std::max((*seen)[clock.thread], clock.epoch++);
  if (clock.fenced && clock.fenced != lastFenced) {
    if (learnedFenced.result) {
      fenced = copyOf(fenced);
      learnedFenced = {};
    }
    merge(fenced, clock.fenced);
    lastFenced = clock.fenced;
  }
  async = std::max(async, clock.async);
}

void Release::add(const Release &other) {
  if (other.seen) {
    if (learnedSeen.result)
      seen = copyOf(seen);
    learnedSeen = {};
    merge(seen, other.seen);
  }
  if (other.fenced) {
    if (learnedFenced.result)
      fenced = copyOf(fenced);
    learnedFenced = {};
    merge(fenced, other.fenced);
  }
  async = std::max(async, other.async);
}

Row Release::Learned::operator()(const Row &row, const Row &told) {
  if (result && from == row)
    return result;
  from = row;
  bool contained = true;
  if (row)
    for (size_t i = 0; i < row->size() && contained; ++i)
      contained = (*row)[i] <= (*told)[i];
  if (contained) {
    result = told;
  } else {
    Values values = copyOf(row);
    merge(values, told);
    result = std::move(values);
  }
  return result;
}

void Release::acquire(Clock &clock) {
  if (seen)
    clock.seen = learnedSeen(clock.seen, seen);
  if (fenced)
    clock.fenced = learnedFenced(clock.fenced, fenced);
  clock.async = std::max(clock.async, async);
}

} // namespace nano::emulator
