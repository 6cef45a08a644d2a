// Elements of different ranks are combined tile by tile, so that the f32 values stay in the L1
// cache.
#include "runtime/comm/Combine.h"
#include "runtime/NumberFormats.h"

#include <algorithm>

namespace nano {
namespace {

constexpr int64_t tile = 2048; ///< elements

float widened(float value) { return value; }
float widened(uint16_t bits) { return fromBf16(bits); }
void narrow(float value, float &to) { to = value; }
void narrow(float value, uint16_t &to) { to = toBf16(value); }

template <typename T> void add(float *values, const T *others, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    values[i] += widened(others[i]);
}

template <typename T> void takeLarger(float *values, const T *others, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    float other = widened(others[i]), value = values[i];
    values[i] = other > value || other != other ? other : value;
  }
}

template <typename T>
void combineElements(const std::vector<const void *> &from, const std::vector<void *> &to,
                     int64_t begin, int64_t end, Combine how) {
  float values[tile];
  for (int64_t start = begin; start < end; start += tile) {
    int64_t size = std::min(tile, end - start);
    const T *first = static_cast<const T *>(from[0]) + start;
    for (int64_t i = 0; i < size; ++i)
      values[i] = widened(first[i]);
    for (size_t member = 1; member < from.size(); ++member) {
      const T *others = static_cast<const T *>(from[member]) + start;
      if (how == Combine::Sum)
        add(values, others, size);
      else
        takeLarger(values, others, size);
    }
    for (void *target : to) {
      T *own = static_cast<T *>(target) + start;
      for (int64_t i = 0; i < size; ++i)
        narrow(values[i], own[i]);
    }
  }
}

} // namespace

void combine(const std::vector<const void *> &from, const std::vector<void *> &to, int64_t begin,
             int64_t end, plan::DType type, Combine how) {
  if (type == plan::DType::F32)
    combineElements<float>(from, to, begin, end, how);
  else
    combineElements<uint16_t>(from, to, begin, end, how);
}

Slice sliceOf(int64_t count, int place, int members) {
  int64_t tiles = (count + tile - 1) / tile;
  return {std::min(count, tiles * place / members * tile),
          std::min(count, tiles * (place + 1) / members * tile)};
}

std::string Request::toString() const {
  std::string name;
  switch (kind) {
  case Kind::None:
    return "no collective";
  case Kind::Barrier:
    return "barrier '" + what + "'";
  case Kind::Exchange:
    return "exchange '" + what + "'";
  case Kind::AllReduce:
    name = how == Combine::Max ? "all-reduce (max)" : "all-reduce";
    break;
  case Kind::ReduceScatter:
    name = "reduce-scatter";
    break;
  case Kind::AllGather:
    name = "all-gather";
    break;
  }
  const char *among = ranks == plan::Ranks::All     ? ""
                      : ranks == plan::Ranks::Group ? " within a group"
                                                    : " between groups";
  return name + " '" + what + "' of " + std::to_string(count) + " " + plan::nameOf(type) + among;
}

std::optional<std::string> cannotCombine(plan::DType type) {
  if (type == plan::DType::F32 || type == plan::DType::BF16)
    return std::nullopt;
  return std::string("cannot combine elements of type ") + plan::nameOf(type);
}

std::string lastSeen(const std::string &call, const std::string &doing) {
  return "last seen in " + call + (doing.empty() ? "" : ", " + doing);
}

} // namespace nano
