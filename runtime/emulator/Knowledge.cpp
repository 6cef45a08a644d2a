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

Accounts merged(const Accounts &a, const Accounts &b) {
  if (!a || !b || a == b)
    return a ? a : b;
  auto all = std::make_shared<std::map<std::pair<uint32_t, uint32_t>, Account>>(*a);
  for (const auto &[key, account] : *b) {
    Account &known = (*all)[key];
    if (!known.seen || (*known.seen)[key.second] < (*account.seen)[key.second])
      known = account;
  }
  return all;
}

Accounts Clock::account(uint32_t cluster, uint32_t threads) {
  auto row = seen ? std::make_shared<std::vector<uint32_t>>(*seen)
                  : std::make_shared<std::vector<uint32_t>>(threads);
  (*row)[thread] = epoch++;
  auto own = std::make_shared<std::map<std::pair<uint32_t, uint32_t>, Account>>();
  (*own)[{cluster, thread}] = {std::move(row), stored};
  return merged(others, own);
}

void Release::merge(Values &into, const Row &row) {
  if (!into) {
    into = copyOf(row);
    return;
  }
  for (size_t i = 0; i < row->size(); ++i)
    (*into)[i] = std::max((*into)[i], (*row)[i]);
}

void Release::Told::own() {
  if (learned.result)
    values = copyOf(values);
  learned = {};
}

void Release::Told::add(const Row &row) {
  if (!row || row == last)
    return;
  own();
  merge(values, row);
  last = row;
}

void Release::Told::add(const Told &other) {
  if (!other.values)
    return;
  own();
  merge(values, other.values);
}

void Release::add(Clock &clock, uint32_t threads) {
  seen.add(clock.seen);
  seen.own();
  if (!seen.values)
    seen.values = std::make_shared<std::vector<uint32_t>>(threads);
  uint32_t &own = (*seen.values)[clock.thread];
  own = std::max(own, clock.epoch++);
  fenced.add(clock.fenced);
  read.add(clock.read);
  others = merged(others, clock.others);
  async = std::max(async, clock.async);
}

void Release::addReads(Clock &clock, uint32_t threads) {
  read.add(clock.seen);
  read.add(clock.read);
  read.own();
  if (!read.values)
    read.values = std::make_shared<std::vector<uint32_t>>(threads);
  uint32_t &own = (*read.values)[clock.thread];
  own = std::max(own, clock.epoch++);
  async = std::max(async, clock.async);
}

void Release::add(const Release &other) {
  seen.add(other.seen);
  fenced.add(other.fenced);
  read.add(other.read);
  others = merged(others, other.others);
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
  seen.acquire(clock.seen);
  fenced.acquire(clock.fenced);
  read.acquire(clock.read);
  clock.others = merged(clock.others, others);
  clock.async = std::max(clock.async, async);
}

} // namespace nano::emulator
