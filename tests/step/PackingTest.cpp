// Packing: items in use at one moment never overlap, results are near the floor, and a program's
// worth of buffers takes little time.
#include "passes/memory/Packing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

using nano::memory::Growth;
using nano::memory::inSteps;
using nano::memory::Item;
using nano::memory::liveBytes;
using nano::memory::pack;
using nano::memory::Packing;

namespace {

void expectApart(const std::vector<Item> &items, const Packing &packing) {
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_GE(packing.offsets[i], 0);
    EXPECT_LE(packing.offsets[i] + items[i].bytes, packing.bytes);
    for (size_t j = 0; j < i; ++j)
      for (int64_t moment = std::max(items[i].begin, items[j].begin);
           moment <= std::min(items[i].end, items[j].end); ++moment) {
        bool sameBytes = packing.offsets[i] < packing.offsets[j] + items[j].bytesAt(moment) &&
                         packing.offsets[j] < packing.offsets[i] + items[i].bytesAt(moment);
        ASSERT_FALSE(sameBytes) << i << " and " << j << " at " << moment;
      }
  }
}

TEST(Packing, smallCases) {
  EXPECT_EQ(pack({}).bytes, 0);
  EXPECT_EQ(pack({{0, 3, 256}}).bytes, 256);
  EXPECT_EQ(pack({{0, 1, 256}, {2, 3, 512}}).bytes, 512);  // one after the other
  EXPECT_EQ(pack({{0, 2, 256}, {2, 3, 512}}).bytes, 768);  // both at moment 2
  EXPECT_EQ(pack({{0, -1, 256}, {0, 5, 512}}).bytes, 512); // never in use
}

TEST(Packing, givenOffsets) {
  EXPECT_EQ(pack({{0, 3, 512}, {0, 1, 256, 512}}).offsets, (std::vector<int64_t>{0, 512}));
  EXPECT_EQ(pack({{0, 3, 512}, {1, 4, 256, 256}}).offsets, (std::vector<int64_t>{512, 256}));
  EXPECT_EQ(pack({{0, 3, 512}, {4, 4, 256, 256}}).bytes, 512); // not at one moment
  // What one program has placed another one works around.
  std::mt19937 random(11);
  auto below = [&](int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  };
  std::vector<Item> items;
  for (int i = 0; i < 100; ++i) {
    const int64_t begin = below(200);
    items.push_back({begin, begin + below(60), 256 * (1 + below(40))});
  }
  const Packing first = pack(items);
  for (size_t i = 0; i < items.size(); i += 2)
    items[i].offset = first.offsets[i];
  for (int i = 0; i < 50; ++i) {
    const int64_t begin = below(200);
    items.push_back({begin, begin + below(20), 256 * (1 + below(40))});
  }
  const Packing second = pack(items);
  expectApart(items, second);
  for (size_t i = 0; i < 100; i += 2)
    EXPECT_EQ(second.offsets[i], first.offsets[i]);
}

TEST(Packing, growing) {
  const Item grows = {0, 9, 1024, -1, {{0, 256}, {4, 512}, {6, 1024}}};
  EXPECT_EQ(grows.bytesAt(-1), 0);
  EXPECT_EQ(grows.bytesAt(3), 256);
  EXPECT_EQ(grows.bytesAt(4), 512);
  EXPECT_EQ(grows.bytesAt(9), 1024);
  EXPECT_EQ(grows.bytesAt(10), 0);
  // Others lie where it will be, until then.
  EXPECT_EQ(liveBytes({grows, {0, 3, 768}, {4, 5, 512}}), 1024);
  EXPECT_EQ(pack({grows, {0, 3, 768}, {4, 5, 512}}).bytes, 1024);
  EXPECT_EQ(pack({grows, {0, 4, 768}}).bytes, 1280);
  EXPECT_EQ(pack({grows, {0, 9, 256}}).bytes, 1280);
  // Chunks of which each is put together in parts that shrink, what dies with a part in the place
  // of later ones.
  std::vector<Item> items = {{0, 99, 4096}, {0, 99, 2560}};
  for (int64_t chunk = 0; chunk < 4; ++chunk) {
    const int64_t at = 20 * chunk;
    items.push_back({at + 1,
                     at + 9,
                     16384,
                     -1,
                     {{at + 1, 6912}, {at + 3, 11264}, {at + 5, 14336}, {at + 7, 16384}}});
    for (int64_t part = 0; const int64_t bytes : {13824, 8704, 6144, 4096}) {
      items.push_back({at + part, at + part + 1, bytes});
      part += 2;
    }
  }
  const Packing chunks = pack(items);
  expectApart(items, chunks);
  EXPECT_EQ(chunks.bytes, 4096 + 2560 + 16384 + 4352);
  for (uint32_t seed = 0; seed < 5; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int64_t bound) {
      return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
    };
    items.clear();
    for (int i = 0; i < 100; ++i) {
      const int64_t begin = below(200);
      Item &item = items.emplace_back(Item{begin, begin + 2 + below(40), 256 * (3 + below(40))});
      if (i % 2 == 0)
        item.growth = {{begin, 256}, {begin + 1, 512}, {item.end, item.bytes}};
    }
    expectApart(items, pack(items));
  }
}

TEST(Packing, fewSteps) {
  std::vector<Growth> growth;
  for (int64_t step = 0; step < 250; ++step)
    growth.push_back({2 * step, 256 * (step + 1)});
  EXPECT_EQ(inSteps(growth, 250).size(), 250u);
  EXPECT_TRUE(inSteps({}, 16).empty());
  const std::vector<Growth> few = inSteps(growth, 16);
  EXPECT_EQ(few.size(), 16u);
  const Item exact = {0, 600, 256 * 250, -1, growth}, rounded = {0, 600, 256 * 250, -1, few};
  for (int64_t moment = 0; moment <= 600; ++moment) {
    EXPECT_GE(rounded.bytesAt(moment), exact.bytesAt(moment)) << moment;
    EXPECT_LE(rounded.bytesAt(moment), exact.bytesAt(moment) + 256 * 16) << moment;
  }
}

// Growths of a program's chunks take little time, as a program's worth of buffers does.
TEST(Packing, manySteps) {
  std::mt19937 random(3);
  auto below = [&](int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  };
  std::vector<Item> items;
  for (int i = 0; i < 600; ++i) {
    const int64_t begin = below(2000);
    items.push_back({begin, begin + below(200), 256 * (1 + below(400))});
  }
  for (int64_t i = 0; i < 6; ++i) {
    Item &item = items.emplace_back(Item{200 * i, 200 * i + 900, 256 * 256});
    for (int64_t step = 0; step < 256; ++step)
      item.growth.push_back({200 * i + 3 * step, 256 * (step + 1)});
    item.growth = inSteps(item.growth, 16);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Packing packing = pack(items);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 1);
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_GE(packing.bytes, liveBytes(items));
}

TEST(Packing, randomPrograms) {
  double worst = 1;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int64_t bound) {
      return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
    };
    std::vector<Item> items;
    for (int i = 0; i < 150; ++i) {
      int64_t begin = below(200);
      items.push_back({begin, begin + below(below(4) == 0 ? 100 : 6), 256 * (1 + below(40))});
    }
    Packing packing = pack(items);
    expectApart(items, packing);
    int64_t floor = liveBytes(items);
    EXPECT_GE(packing.bytes, floor);
    worst = std::max(worst, double(packing.bytes) / double(floor));
  }
  // Arbitrary lifetimes, far worse than those of models: still within a tenth.
  EXPECT_LT(worst, 1.10);
  RecordProperty("worst", std::to_string(worst));
}

TEST(Packing, modelLikeProgram) {
  // 3000 buffers: activations that live from a layer's forward to its backward pass, and
  // temporaries within.
  std::mt19937 random(7);
  auto below = [&](int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  };
  std::vector<Item> items;
  for (int layer = 0; layer < 60; ++layer)
    for (int i = 0; i < 50; ++i) {
      int64_t at = layer * 50 + i, mirrored = 6000 - at;
      int64_t bytes = 256 * (1 << below(12));
      if (i % 5 == 0)
        items.push_back({at, mirrored, bytes});
      else if (i % 2 == 0)
        items.push_back({at, at + 1 + below(8), bytes});
      else
        items.push_back({mirrored, mirrored + 1 + below(8), bytes});
    }
  auto start = std::chrono::steady_clock::now();
  Packing packing = pack(items);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(double(packing.bytes), 1.02 * double(liveBytes(items)));
  EXPECT_LT(
      took.count(),
      1000); // some tens of milliseconds on a quiet machine; the orders that are tried are bounded
}

} // namespace
