// The interpreter's numbers as a device's bytes, and whole states as the parts that ranks hold.
#include "tests/e2e/DeviceValues.h"

#include <algorithm>
#include <cstring>

namespace nano::test {

std::vector<char> packed(const TensorValue &value, plan::DType type) {
  std::vector<char> bytes(value.data.size() * plan::sizeOf(type));
  for (size_t i = 0; i < value.data.size(); ++i) {
    if (type == plan::DType::I32) {
      auto number = static_cast<int32_t>(value.data[i]);
      std::memcpy(&bytes[4 * i], &number, 4);
      continue;
    }
    auto number = static_cast<float>(value.data[i]);
    uint32_t bits = 0;
    std::memcpy(&bits, &number, 4);
    if (type == plan::DType::BF16) {
      uint16_t half = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
      std::memcpy(&bytes[2 * i], &half, 2);
    } else {
      std::memcpy(&bytes[4 * i], &bits, 4);
    }
  }
  return bytes;
}

TensorValue unpacked(const std::vector<char> &bytes, plan::DType type,
                     const std::vector<int64_t> &shape) {
  TensorValue value{shape, std::vector<double>(bytes.size() / plan::sizeOf(type))};
  for (size_t i = 0; i < value.data.size(); ++i) {
    if (type == plan::DType::I32) {
      int32_t number = 0;
      std::memcpy(&number, &bytes[4 * i], 4);
      value.data[i] = number;
      continue;
    }
    uint32_t bits = 0;
    if (type == plan::DType::BF16)
      std::memcpy(reinterpret_cast<char *>(&bits) + 2, &bytes[2 * i], 2);
    else
      std::memcpy(&bits, &bytes[4 * i], 4);
    float number = 0;
    std::memcpy(&number, &bits, 4);
    value.data[i] = number;
  }
  return value;
}

TensorValue localPart(const plan::State &state, int64_t place, const StateMap &values) {
  if (!state.sharding)
    return values.at(state.name);
  const plan::Sharding &sharding = *state.sharding;
  TensorValue local{state.shape, {}};
  int64_t count = 1;
  for (int64_t size : state.shape)
    count *= size;
  std::vector<double> whole(size_t(count * sharding.parts));
  for (const plan::Sharding::Piece &piece : sharding.pieces) {
    const std::vector<double> &data = values.at(piece.name).data;
    std::copy(data.begin(), data.end(), whole.begin() + piece.offset);
  }
  local.data.resize(size_t(count));
  for (int64_t i = 0; i < count; ++i)
    local.data[i] =
        whole[(i / sharding.chunk * sharding.parts + place) * sharding.chunk + i % sharding.chunk];
  return local;
}

void joinParts(const plan::Plan &plan, std::vector<StateMap *> ranks) {
  for (const plan::State &state : plan.states) {
    if (!state.sharding || !ranks[0]->count(state.name))
      continue;
    const plan::Sharding &sharding = *state.sharding;
    std::vector<double> whole(ranks[0]->at(state.name).data.size() * size_t(sharding.parts));
    for (int64_t place = 0; place < sharding.parts; ++place) {
      const std::vector<double> &data = ranks[place]->at(state.name).data;
      for (int64_t i = 0; i < std::ssize(data); ++i)
        whole[(i / sharding.chunk * sharding.parts + place) * sharding.chunk + i % sharding.chunk] =
            data[i];
    }
    ranks[0]->erase(state.name);
    for (const plan::Sharding::Piece &piece : sharding.pieces) {
      int64_t count = 1;
      for (int64_t size : piece.shape)
        count *= size;
      auto begin = whole.begin() + piece.offset;
      (*ranks[0])[piece.name] = {piece.shape, {begin, begin + count}};
    }
  }
}

} // namespace nano::test
