// Strided byte sets against sets that list every byte.
#include "passes/verify/ByteSet.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using nano::verify::ByteEvent;
using nano::verify::ByteSet;

namespace {

using Bytes = std::set<uint64_t>;

class ByteSetTest : public ::testing::Test {
protected:
  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  }

  /// A random part of a buffer of 4 × 3 × 5 elements of two bytes at byte 100, and its bytes.
  std::pair<ByteSet, Bytes> part() {
    llvm::SmallVector<int64_t> shape = {4, 3, 5}, strides = {15, 5, 1};
    int64_t offset = 0;
    for (int dim = 0; dim < 3; ++dim) {
      if (below(2) == 0)
        continue;
      int64_t first = below(shape[dim]);
      offset += first * strides[dim];
      shape[dim] = 1 + below(shape[dim] - first);
    }
    Bytes bytes;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        for (int64_t k = 0; k < shape[2]; ++k)
          for (int64_t byte = 0; byte < 2; ++byte)
            bytes.insert(uint64_t(
                100 + 2 * (offset + i * strides[0] + j * strides[1] + k * strides[2]) + byte));
    return {ByteSet::strided(uint64_t(100 + 2 * offset), shape, strides, 2), bytes};
  }

  std::mt19937 random{3};
  ByteSet whole = ByteSet::interval(100, 120);
};

TEST_F(ByteSetTest, normalForm) {
  EXPECT_EQ(ByteSet::strided(100, {4, 3, 5}, {15, 5, 1}, 2), whole);
  EXPECT_EQ(ByteSet::strided(100, {12, 5}, {5, 1}, 2), whole);
  EXPECT_EQ(ByteSet::strided(100, {5, 12}, {1, 5}, 2), whole); // transposed: the same bytes
  EXPECT_TRUE(ByteSet::strided(0, {4, 0}, {1, 1}, 4).isEmpty());
  ByteSet rows = ByteSet::strided(0, {4, 1, 2}, {8, 100, 1}, 4);
  EXPECT_EQ(rows.dims.size(), 1u);
  EXPECT_EQ(rows.run, 8u);
  EXPECT_EQ(rows.end(), 3u * 32 + 8);
}

TEST_F(ByteSetTest, againstLists) {
  for (int i = 0; i < 4000; ++i) {
    auto [a, listA] = part();
    auto [b, listB] = part();
    for (uint64_t byte = 98; byte < 224; ++byte)
      ASSERT_EQ(a.contains(byte), listA.count(byte) == 1);
    EXPECT_EQ(a.start, *listA.begin());
    EXPECT_EQ(a.end(), *listA.rbegin() + 1);
    bool common = false;
    for (uint64_t byte : listA)
      common |= listB.count(byte) == 1;
    EXPECT_EQ(intersect(a, b), common);
    EXPECT_EQ(intersect(b, a), common);
  }
}

TEST_F(ByteSetTest, eventsAgainstLists) {
  int valid = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<ByteEvent> events;
    Bytes present;
    for (int64_t count = 1 + below(5); count > 0; --count) {
      auto [set, list] = part();
      bool adds = below(4) != 0;
      // What other buffers overwrite need not be a part of this one.
      if (!adds && below(2) == 0) {
        set = ByteSet::interval(uint64_t(90 + below(100)), uint64_t(1 + below(30)));
        list.clear();
        for (uint64_t byte = set.start; byte < set.end(); ++byte)
          list.insert(byte);
      }
      events.push_back({set, adds, 0});
      for (uint64_t byte : list)
        adds ? void(present.insert(byte)) : void(present.erase(byte));
    }
    auto [wanted, list] = part();
    auto first = std::find_if(list.begin(), list.end(),
                              [&](uint64_t byte) { return present.count(byte) == 0; });
    uint64_t missing = 0;
    bool result = isValid(wanted, events, whole, missing);
    ASSERT_EQ(result, first == list.end());
    ASSERT_TRUE(result || (list.count(missing) == 1 && present.count(missing) == 0)) << missing;
    valid += result;
  }
  EXPECT_GT(valid, 200);
}

} // namespace
