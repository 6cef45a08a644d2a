// Best-fit packing of lifetimes under several orders.
#include "passes/memory/Packing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace nano::memory {
namespace {

using Order = std::vector<uint32_t>;

/// Elementary steps that the fixed orders, and the search after them, may take, in all packings of
/// the same items: some tens of milliseconds, beyond one order each.
struct Budget {
  int64_t orders = 30'000'000, search = 10'000'000;
};
/// What an attempt costs beside the square of its items' parts, in the same steps.
constexpr int64_t attemptWork = 20'000;
/// The search ends within this factor of the lower bound.
constexpr double closeEnough = 1.002;

/// Calls `takes` with each part of an item that is in use from a moment of its own on: where it
/// begins and ends in the item, and that moment.
template <typename Takes> void forEachPart(const Item &item, Takes takes) {
  if (item.growth.empty())
    return takes(int64_t{0}, item.bytes, item.begin);
  int64_t bottom = 0;
  for (const Growth &growth : item.growth) {
    takes(bottom, growth.bytes, growth.at);
    bottom = growth.bytes;
  }
}

/// Places items in the given order.
Packing place(const std::vector<Item> &items, const Order &order) {
  struct Placed {
    int64_t offset, top, begin, end;
  };
  std::vector<Placed> placed; // by offset
  placed.reserve(items.size());
  std::vector<std::pair<int64_t, int64_t>> taken;
  Packing packing;
  packing.offsets.assign(items.size(), 0);
  auto put = [&](uint32_t index, int64_t offset) {
    const Item &item = items[index];
    packing.offsets[index] = offset;
    packing.bytes = std::max(packing.bytes, offset + item.bytes);
    if (item.begin > item.end)
      return;
    forEachPart(item, [&](int64_t bottom, int64_t top, int64_t begin) {
      const Placed self{offset + bottom, offset + top, begin, item.end};
      placed.insert(
          std::upper_bound(placed.begin(), placed.end(), self,
                           [](const Placed &a, const Placed &b) { return a.offset < b.offset; }),
          self);
    });
  };
  for (uint32_t index = 0; index < items.size(); ++index)
    if (items[index].offset >= 0)
      put(index, items[index].offset);
  for (uint32_t index : order) {
    const Item &item = items[index];
    if (item.offset >= 0)
      continue;
    // Where it cannot begin, by what is placed already: from behind `first` up to before `second`.
    taken.clear();
    forEachPart(item, [&](int64_t bottom, int64_t top, int64_t begin) {
      for (const Placed &other : placed)
        if (other.end >= begin && item.end >= other.begin)
          taken.emplace_back(other.offset - top, other.top - bottom);
    });
    if (!item.growth.empty())
      std::sort(taken.begin(), taken.end());
    int64_t best = -1, bestGap = std::numeric_limits<int64_t>::max(), free = 0;
    for (const auto &[first, second] : taken) {
      const int64_t gap = first - free;
      if (gap >= 0 && gap < bestGap) {
        best = free;
        bestGap = gap;
      }
      free = std::max(free, second);
    }
    put(index, best >= 0 ? best : free);
  }
  return packing;
}

} // namespace

int64_t Item::bytesAt(int64_t moment) const {
  int64_t live = 0;
  if (moment <= end)
    forEachPart(*this, [&](int64_t bottom, int64_t top, int64_t from) {
      if (from <= moment)
        live += top - bottom;
    });
  return live;
}

int64_t liveBytes(const std::vector<Item> &items, int64_t *moment) {
  std::map<int64_t, int64_t> changes;
  for (const Item &item : items) {
    if (item.begin > item.end)
      continue;
    forEachPart(item, [&](int64_t bottom, int64_t top, int64_t begin) {
      changes[begin] += top - bottom;
      changes[item.end + 1] -= top - bottom;
    });
  }
  int64_t live = 0, most = 0;
  for (auto [at, change] : changes) {
    live += change;
    if (live > most) {
      most = live;
      if (moment)
        *moment = at;
    }
  }
  return most;
}

namespace {

/// Packs items as they are, for `budget`, of which it leaves what it does not need.
Packing packAs(const std::vector<Item> &items, int64_t enough, Budget &budget) {
  int64_t floor = std::max(liveBytes(items), enough);
  int64_t largest = 0;
  for (const Item &item : items)
    largest = std::max(largest, std::max<int64_t>(item.offset, 0) + item.bytes);
  floor = std::max(floor, largest);

  auto duration = [&](uint32_t i) { return items[i].end - items[i].begin + 1; };
  using Key = std::function<double(uint32_t)>;
  const Key keys[] = {
      [&](uint32_t i) { return -double(items[i].bytes); },
      [&](uint32_t i) { return -double(items[i].bytes) * double(duration(i)); },
      [&](uint32_t i) { return -double(duration(i)); },
      [&](uint32_t i) { return double(items[i].begin); },
      [&](uint32_t i) { return -double(items[i].end); },
  };
  Packing best;
  best.bytes = std::numeric_limits<int64_t>::max();
  Order bestOrder;
  int64_t parts = 0, grown = 0;
  for (const Item &item : items) {
    parts += std::max<int64_t>(1, int64_t(item.growth.size()));
    grown += int64_t(item.growth.size());
  }
  // Of an attempt: what lies in the way of what grows is sorted.
  const int64_t work = parts * (parts / 2 + 8 * grown) + attemptWork;
  auto attempt = [&](const Order &order) {
    Packing packing = place(items, order);
    if (packing.bytes >= best.bytes)
      return false;
    best = std::move(packing);
    bestOrder = order;
    return true;
  };
  for (const Key &key : keys) {
    Order order(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      double keyA = key(a), keyB = key(b);
      return keyA != keyB ? keyA < keyB : items[a].bytes > items[b].bytes;
    });
    attempt(order);
    budget.orders -= work;
    if (best.bytes <= floor || budget.orders < 0)
      return best;
  }
  // What reaches the top was placed too late: place it earlier, and try again from the best order
  // so far with two items exchanged when that alone does not help. Fixed pseudo-random numbers: the
  // same input gives the same plan.
  uint64_t state = 1;
  auto random = [&](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return size_t((state >> 33) % bound);
  };
  while (double(best.bytes) > closeEnough * double(floor) && budget.search > 0) {
    Order order = bestOrder;
    std::stable_partition(order.begin(), order.end(), [&](uint32_t i) {
      return best.offsets[i] + items[i].bytes == best.bytes;
    });
    budget.search -= work;
    if (attempt(order))
      continue;
    order = bestOrder;
    std::swap(order[random(order.size())], order[random(order.size())]);
    std::swap(order[random(order.size())], order[random(order.size())]);
    attempt(order);
    budget.search -= work;
  }
  return best;
}

} // namespace

std::vector<Growth> inSteps(const std::vector<Growth> &growth, size_t most) {
  std::vector<Growth> steps;
  const size_t groups = std::min(most, growth.size());
  for (size_t group = 0; group < groups; ++group)
    steps.push_back({growth[group * growth.size() / groups].at,
                     growth[(group + 1) * growth.size() / groups - 1].bytes});
  return steps;
}

Packing pack(const std::vector<Item> &items, int64_t enough) {
  std::vector<Item> whole = items;
  bool grows = false;
  for (Item &item : whole)
    grows |= !std::exchange(item.growth, {}).empty();
  Budget left;
  if (!grows)
    return packAs(items, enough, left);
  Budget half = {left.orders / 2, left.search / 2};
  left = half;
  Packing best = packAs(items, enough, half);
  // To leave others the bytes that it does not need yet may be of no use to what grows.
  left.orders += std::max<int64_t>(0, half.orders);
  left.search += std::max<int64_t>(0, half.search);
  if (best.bytes > std::max(liveBytes(items), enough))
    if (Packing other = packAs(whole, enough, left); other.bytes < best.bytes)
      return other;
  return best;
}

} // namespace nano::memory
