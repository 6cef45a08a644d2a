// Offsets for buffers with lifetimes in one arena: dynamic storage allocation with all lifetimes
// known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nano::memory {

/// Bytes to which offsets and sizes in the arena are aligned.
inline constexpr int64_t arenaAlignment = 256;
/// Scalars lie side by side at multiples of this many bytes: cuBLASLt wants it of a product's
/// scales.
inline constexpr int64_t scalarAlignment = 16;

/// From a moment on so many bytes of a range are in use, from its start.
struct Growth {
  int64_t at = 0, bytes = 0;
};

/// A range of bytes that is in use from one moment to another, both included; begin > end: never.
struct Item {
  int64_t begin = 0, end = -1;
  int64_t bytes = 0;   ///< a multiple of the alignment
  int64_t offset = -1; ///< where it must lie; below 0: anywhere
  /// How it grows, from `begin` up to `bytes`, where it is not all in use from the first moment on;
  /// others may have the rest until then.
  std::vector<Growth> growth = {};

  /// Bytes that are in use at a moment.
  int64_t bytesAt(int64_t moment) const;
};

/// Most bytes that are in use at one moment: no packing needs less. `moment` is the first such one,
/// when asked for.
int64_t liveBytes(const std::vector<Item> &items, int64_t *moment = nullptr);

/// The growth in at most `most` steps, in which at no moment fewer bytes are in use: of steps that
/// become one, all bytes from the first moment on.
std::vector<Growth> inSteps(const std::vector<Growth> &growth, size_t most);

struct Packing {
  std::vector<int64_t> offsets; ///< one an item; items that are in use at one moment do not overlap
  int64_t bytes = 0;            ///< highest end of any item
};

/// Tries several orders of placing items, each into the tightest gap that fits (best fit), and
/// keeps the best result; then searches for a better order near the best one. Stops at the lower
/// bound or at `enough` bytes, and near them in the search. Items with a given offset do not
/// overlap each other while they are in use. Deterministic; O(n²) an order with a small constant, n
/// the steps of all growths and the items without.
Packing pack(const std::vector<Item> &items, int64_t enough = 0);

} // namespace nano::memory
