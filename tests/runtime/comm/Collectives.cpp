// Every collective against sums made in order of place from values that any rank can compute.
#include "tests/runtime/comm/Collectives.h"

#include "runtime/NumberFormats.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace nano::test {
namespace {

using plan::DType;
using plan::Ranks;

constexpr int64_t sizes[] = {0, 1, 2049, 6007};

/// Numbers of different signs and sizes, whose f32 sums depend on the order of addition.
float element(int rank, int64_t i) {
  float size = std::ldexp(1.1f, int((i * 31 + rank * 17) % 23) - 11);
  return (rank % 2 ? -size : size) * float(1 + (i * 7919 + rank * 104729) % 1000003);
}

/// Elements of f32 or bf16 as bits, one each.
class Elements {
public:
  Elements(DType type, int64_t count) : type(type), bytes(size_t(count) * plan::sizeOf(type)) {}

  static Elements of(DType type, int rank, int64_t begin, int64_t count) {
    Elements elements(type, count);
    for (int64_t i = 0; i < count; ++i)
      elements.set(i, element(rank, begin + i));
    return elements;
  }

  void set(int64_t i, float value) {
    uint16_t half = toBf16(value);
    const void *from = type == DType::F32 ? static_cast<const void *>(&value) : &half;
    std::memcpy(bytes.data() + size_t(i) * plan::sizeOf(type), from, plan::sizeOf(type));
  }

  float get(int64_t i) const {
    const char *at = bytes.data() + size_t(i) * plan::sizeOf(type);
    float value = 0;
    uint16_t half = 0;
    if (type == DType::F32)
      std::memcpy(&value, at, sizeof value);
    else
      std::memcpy(&half, at, sizeof half);
    return type == DType::F32 ? value : fromBf16(half);
  }

  DType type;
  std::vector<char> bytes;
};

Elements combined(DType type, const std::vector<int> &members, int64_t begin, int64_t count,
                  Combine how) {
  Elements result(type, count);
  std::vector<Elements> all;
  for (int rank : members)
    all.push_back(Elements::of(type, rank, begin, count));
  for (int64_t i = 0; i < count; ++i) {
    float value = all[0].get(i);
    for (size_t member = 1; member < all.size(); ++member) {
      float other = all[member].get(i);
      value = how == Combine::Sum ? value + other : std::max(value, other);
    }
    result.set(i, value);
  }
  return result;
}

/// Calls `visit(name, got, expected)` for the result of each collective; ends at the first error.
template <typename Visit>
Status visitCollectives(Communicator &communicator, int group, const Visit &visit) {
  if (Status status = communicator.setGroup(group); !status)
    return status;
  const int rank = communicator.rank();
  for (Ranks ranks : {Ranks::All, Ranks::Group, Ranks::Peers})
    for (DType type : {DType::F32, DType::BF16})
      for (int64_t count : sizes) {
        const auto [parts, place] = placeOf(ranks, rank, communicator.world(), group);
        const std::vector<int> members = membersOf(ranks, rank, communicator.world(), group);
        const auto bytes = size_t(count) * plan::sizeOf(type);
        std::string name = std::to_string(count) + " " + plan::nameOf(type) + " by set " +
                           std::to_string(int(ranks));
        for (Combine how : {Combine::Sum, Combine::Max}) {
          Elements data = Elements::of(type, rank, 0, count);
          if (Status status =
                  communicator.allReduce(data.bytes.data(), count, type, how, ranks, "reduce");
              !status)
            return status;
          visit("all-reduce of " + name, data, combined(type, members, 0, count, how));
        }
        Elements whole = Elements::of(type, rank, 0, parts * count);
        Elements part(type, count);
        if (Status status = communicator.reduceScatter(whole.bytes.data(), part.bytes.data(), count,
                                                       type, ranks, "scatter");
            !status)
          return status;
        Elements mine = combined(type, members, place * count, count, Combine::Sum);
        visit("reduce-scatter of " + name, part, mine);
        // Into its own part.
        char *own = whole.bytes.data() + size_t(place) * bytes;
        if (Status status =
                communicator.reduceScatter(whole.bytes.data(), own, count, type, ranks, "in place");
            !status)
          return status;
        part.bytes.assign(own, own + bytes);
        visit("reduce-scatter in place of " + name, part, mine);

        Elements gathered(type, parts * count), everything(type, parts * count);
        for (int member = 0; member < parts; ++member)
          for (int64_t i = 0; i < count; ++i)
            everything.set(member * count + i, element(members[size_t(member)], i));
        Elements sent = Elements::of(type, rank, 0, count);
        if (Status status = communicator.allGather(sent.bytes.data(), gathered.bytes.data(), count,
                                                   type, ranks, "gather");
            !status)
          return status;
        visit("all-gather of " + name, gathered, everything);
        Elements inPlace(type, parts * count);
        own = inPlace.bytes.data() + size_t(place) * bytes;
        std::copy(sent.bytes.begin(), sent.bytes.end(), own);
        if (Status status = communicator.allGather(own, inPlace.bytes.data(), count, type, ranks,
                                                   "gather in place");
            !status)
          return status;
        visit("all-gather in place of " + name, inPlace, everything);
      }
  return ok();
}

} // namespace

std::string checkCollectives(Communicator &communicator, int group) {
  std::string wrong;
  Status status =
      visitCollectives(communicator, group,
                       [&](const std::string &name, const Elements &got, const Elements &expected) {
                         if (wrong.empty() && got.bytes != expected.bytes)
                           wrong = name + " is not what it should be";
                       });
  if (!status)
    return status.error().message;
  std::string mine = "rank " + std::to_string(communicator.rank()) + std::string(3, '\0');
  mine += std::string(size_t(communicator.rank()) * 1000, 'x');
  auto texts = communicator.exchange(mine, "texts");
  if (!texts)
    return texts.error().message;
  for (int rank = 0; rank < communicator.world(); ++rank)
    if (int(texts->size()) != communicator.world() ||
        (*texts)[size_t(rank)] != "rank " + std::to_string(rank) + std::string(3, '\0') +
                                      std::string(size_t(rank) * 1000, 'x'))
      wrong = "the exchanged texts are not those of the ranks";
  if (Status last = communicator.barrier("end"); !last)
    return last.error().message;
  return wrong;
}

uint64_t hashOfCollectives(Communicator &communicator, int group) {
  uint64_t hash = 14695981039346656037u;
  (void)visitCollectives(communicator, group,
                         [&](const std::string &, const Elements &got, const Elements &) {
                           for (char byte : got.bytes)
                             hash = (hash ^ uint8_t(byte)) * 1099511628211u;
                         });
  return hash;
}

} // namespace nano::test
