// Sums and maxima of several ranks' elements in a fixed order, for whatever carries the data.
#pragma once

#include "runtime/comm/Communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// Combines elements [begin, end) of each of `from`, by place, and writes them to the same elements
/// of each of `to`. f32, or bf16 in f32 and rounded once. A target may be one of the sources; else
/// they are apart.
void combine(const std::vector<const void *> &from, const std::vector<void *> &to, int64_t begin,
             int64_t end, plan::DType type, Combine how);

/// The elements that member `place` of `members` combines when the work on `count` is shared.
/// Whole tiles, so that no two members write one cache line.
struct Slice {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
Slice sliceOf(int64_t count, int place, int members);

/// What one rank asks for in a collective, in words for messages and compared between ranks.
struct Request {
  enum class Kind : uint8_t { None, AllReduce, ReduceScatter, AllGather, Exchange, Barrier };
  Kind kind = Kind::None;
  int64_t count = 0;
  plan::DType type = plan::DType::F32;
  Combine how = Combine::Sum;
  plan::Ranks ranks = plan::Ranks::All;
  std::string what;

  /// "all-reduce 'x' of 5 f32", "no collective".
  std::string toString() const;
  bool operator==(const Request &) const = default;
};

/// Why elements cannot be combined; nothing when they can.
std::optional<std::string> cannotCombine(plan::DType type);

/// What a rank was last seen in: `call`, and what it said that it was doing, when it said so.
std::string lastSeen(const std::string &call, const std::string &doing);

} // namespace nano
