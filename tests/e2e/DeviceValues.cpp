// The interpreter's numbers as a device's bytes, and whole states as the parts that ranks hold.
#include "tests/e2e/DeviceValues.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cstring>

using llvm::APFloat;
using llvm::APInt;

namespace nano::test {

/// Of floating point numbers; null for whole ones.
static const llvm::fltSemantics *semanticsOf(plan::DType type) {
  switch (type) {
  case plan::DType::F32:
    return &APFloat::IEEEsingle();
  case plan::DType::BF16:
    return &APFloat::BFloat();
  case plan::DType::F8E4M3FN:
    return &APFloat::Float8E4M3FN();
  case plan::DType::F8E5M2:
    return &APFloat::Float8E5M2();
  default:
    return nullptr;
  }
}

std::vector<char> packed(const TensorValue &value, plan::DType type) {
  const size_t size = plan::sizeOf(type);
  const llvm::fltSemantics *semantics = semanticsOf(type);
  std::vector<char> bytes(value.data.size() * size);
  for (size_t i = 0; i < value.data.size(); ++i) {
    uint64_t bits = static_cast<uint32_t>(static_cast<int32_t>(semantics ? 0 : value.data[i]));
    if (semantics) {
      APFloat number(static_cast<float>(value.data[i]));
      bool lost = false;
      number.convert(*semantics, APFloat::rmNearestTiesToEven, &lost);
      bits = number.bitcastToAPInt().getZExtValue();
    }
    std::memcpy(&bytes[size * i], &bits, size);
  }
  return bytes;
}

TensorValue unpacked(const std::vector<char> &bytes, plan::DType type,
                     const std::vector<int64_t> &shape) {
  const size_t size = plan::sizeOf(type);
  const llvm::fltSemantics *semantics = semanticsOf(type);
  TensorValue value{shape, std::vector<double>(bytes.size() / size)};
  for (size_t i = 0; i < value.data.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[size * i], size);
    value.data[i] =
        semantics
            ? APFloat(*semantics, APInt(8 * static_cast<unsigned>(size), bits)).convertToDouble()
            : static_cast<int32_t>(bits);
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
