// Sets of bytes as strided accesses make them, exactly.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace nano::verify {

/// The bytes of a strided range: runs of `run` bytes from `start`, repeated along `dims`. Normal
/// form: dims from the largest stride to the smallest, each with at least two steps, each stepping
/// over all of what lies inside it, none that continues the one inside it; so runs come in
/// increasing order, and equal sets are equal structs.
struct ByteSet {
  struct Dim {
    uint64_t count = 1, stride = 0; ///< stride in bytes
    bool operator==(const Dim &other) const {
      return count == other.count && stride == other.stride;
    }
  };
  uint64_t start = 0, run = 0;
  llvm::SmallVector<Dim, 2> dims;

  /// `shape` elements of `elementBytes` at `strides` (in elements), from byte `start`.
  static ByteSet strided(uint64_t start, llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> strides, uint64_t elementBytes);
  static ByteSet interval(uint64_t start, uint64_t bytes) { return {start, bytes, {}}; }

  bool isInterval() const { return dims.empty(); }
  bool isEmpty() const { return run == 0; }
  /// One past the last byte.
  uint64_t end() const {
    uint64_t last = start + run;
    for (const Dim &dim : dims)
      last += (dim.count - 1) * dim.stride;
    return last;
  }
  bool contains(uint64_t byte) const;
  bool operator==(const ByteSet &other) const {
    return start == other.start && run == other.run && dims == other.dims;
  }
};

/// True when both sets have a byte in common.
bool intersect(const ByteSet &a, const ByteSet &b);

/// Any bytes: sorted disjoint intervals that do not touch.
class ByteIntervals {
public:
  void add(const ByteSet &set);
  void add(const ByteIntervals &other);
  void remove(const ByteSet &set);
  void remove(const ByteIntervals &other);
  /// The first byte of `set` that is not in.
  std::optional<uint64_t> firstMissing(const ByteSet &set) const;
  bool contains(uint64_t byte) const { return !firstMissing(ByteSet::interval(byte, 1)); }
  bool isEmpty() const { return list.empty(); }
  uint64_t front() const { return list.front().first; }
  bool operator==(const ByteIntervals &other) const { return list == other.list; }

private:
  using Interval = std::pair<uint64_t, uint64_t>; ///< begin, end
  std::vector<Interval> list;
};

/// What happened to bytes of a buffer, in order: they became valid, or no longer are.
struct ByteEvent {
  ByteSet bytes;
  bool valid = true;
  int64_t command = -1; ///< who did it
};

/// True when every byte of `wanted` is valid after `events`; no byte is valid before. Else
/// `missing` is the first that is not. `whole` is the buffer; where rows of one pitch fill it, only
/// one row is looked at.
bool isValid(const ByteSet &wanted, llvm::ArrayRef<ByteEvent> events, const ByteSet &whole,
             uint64_t &missing);

} // namespace nano::verify
