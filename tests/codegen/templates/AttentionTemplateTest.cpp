// The attention templates on the emulator against doubles, and with faults planted in their text.
#include "tests/codegen/templates/AttentionKernels.h"

#include <algorithm>

using namespace nano;
using namespace nano::test;

namespace {

/// With causal masks in documents and windows, whole documents, and arbitrary ranges.
void checkMasks(const Case &c, uint64_t seed) {
  std::mt19937_64 random(seed);
  AttentionKernels kernels(c);
  AttentionProblem p = problemOf(c, random);
  causalRanges(p, 0, 1000, 1, random);
  kernels.check(p, seed);
  causalRanges(p, 0.02, 2, 64, random);
  kernels.check(p, seed + 10);
  documentRanges(p, 0.015, random);
  kernels.check(p, seed + 20);
  arbitraryRanges(p, random);
  kernels.check(p, seed + 30);
}

/// With documents and a window alone.
void checkWindow(const Case &c, uint64_t seed) {
  std::mt19937_64 random(seed);
  AttentionKernels kernels(c);
  AttentionProblem p = problemOf(c, random);
  causalRanges(p, 0.02, 2, 64, random);
  kernels.check(p, seed);
}

} // namespace

TEST(AttentionTemplate, Head128) { checkMasks({.tokens = 197, .size = 128}, 1); }
TEST(AttentionTemplate, Head192) {
  checkMasks(
      {.tokens = 110, .heads = 2, .sharing = 2, .size = 192, .hasScore = true, .packed = true}, 51);
}
TEST(AttentionTemplate, Head64) { checkMasks({.tokens = 230, .heads = 2, .packed = true}, 2); }
TEST(AttentionTemplate, SharedKeys) {
  checkMasks({.tokens = 197, .heads = 4, .sharing = 2, .size = 128, .packed = true}, 41);
  checkMasks({.tokens = 140, .heads = 6, .sharing = 3}, 42);
}
TEST(AttentionTemplate, SharedKeysOtherTiles) {
  checkMasks({.tokens = 140, .heads = 4, .sharing = 2, .tiles = hopperTiles}, 44);
  checkMasks({.tokens = 130, .heads = 4, .sharing = 4, .size = 64, .hasScore = true}, 45);
}
TEST(AttentionTemplate, SharedKeysPlain) {
  checkMasks({.tokens = 70, .heads = 6, .sharing = 2, .size = 20, .isBf16 = false, .packed = true},
             46);
}
TEST(AttentionTemplate, ScoreFunction) {
  checkMasks({.tokens = 130, .heads = 2, .size = 64, .hasScore = true}, 4);
  checkWindow({.tokens = 150, .heads = 2, .size = 64, .hasScore = true, .hasMaps = true}, 17);
  checkWindow({.tokens = 140, .size = 128, .hasScore = true, .hasMaps = true}, 18);
}
TEST(AttentionTemplate, Hopper128) {
  checkMasks({.tokens = 310, .heads = 2, .size = 128, .tiles = hopperTiles}, 5);
}
TEST(AttentionTemplate, Hopper64) {
  checkMasks({.tokens = 461, .size = 64, .packed = true, .tiles = hopperTiles}, 6);
}
TEST(AttentionTemplate, Maps) {
  checkMasks({.tokens = 310, .heads = 2, .size = 128, .packed = true, .hasMaps = true}, 91);
  checkMasks({.tokens = 470, .heads = 3, .hasMaps = true}, 92);
}
TEST(AttentionTemplate, MapsChain) {
  checkMasks({.tokens = 310, .size = 128, .packed = true, .tiles = chain, .hasMaps = true}, 101);
  checkMasks({.tokens = 300, .heads = 2, .size = 64, .tiles = chain, .hasMaps = true}, 102);
}
TEST(AttentionTemplate, MapsSharedKeys) {
  checkWindow({.tokens = 300, .heads = 4, .sharing = 2, .size = 128, .hasMaps = true}, 93);
  checkWindow({.tokens = 300, .heads = 6, .sharing = 3, .packed = true, .hasMaps = true}, 94);
}
TEST(AttentionTemplate, MapsOtherTiles) {
  checkMasks({.tokens = 290, .size = 64, .tiles = bulkTiles, .hasMaps = true}, 95);
  checkMasks({.tokens = 461, .size = 64, .packed = true, .tiles = threeGroups, .hasMaps = true},
             96);
  checkMasks({.tokens = 541, .heads = 2, .size = 64, .tiles = fourGroups, .hasMaps = true}, 103);
}
TEST(AttentionTemplate, MapsValuesOfAnotherSize) {
  checkWindow({.tokens = 150, .size = 64, .packed = true, .valueSize = 128, .hasMaps = true}, 97);
  checkWindow({.tokens = 140, .size = 128, .valueSize = 64, .hasMaps = true}, 98);
  checkWindow({.tokens = 200, .size = 192, .packed = true, .valueSize = 128, .hasMaps = true}, 99);
  checkWindow({.tokens = 200, .size = 192, .hasMaps = true}, 100);
}
TEST(AttentionTemplate, HopperWithFewStages) {
  checkMasks({.tokens = 290, .size = 128, .tiles = fewStages}, 7);
}
TEST(AttentionTemplate, HopperScoreFunction) {
  checkMasks({.tokens = 140, .size = 128, .hasScore = true, .tiles = hopperTiles}, 8);
}
/// One block with more tiles than it sorts.
TEST(AttentionTemplate, HopperUnsorted) {
  Case c = {.tokens = 40, .heads = 130, .size = 64, .multiprocessors = 1};
  std::mt19937_64 random(15);
  AttentionKernels kernels(c);
  AttentionProblem p = problemOf(c, random);
  causalRanges(p, 0.02, 1, 64, random);
  kernels.check(p, 15);
}
/// Heads of values of another size: every template, smaller and larger ones, as results first take
/// the place of queries.
TEST(AttentionTemplate, ValuesOfAnotherSize) {
  checkMasks({.tokens = 150, .size = 64, .packed = true, .valueSize = 128}, 61);
  checkWindow({.tokens = 140, .heads = 2, .sharing = 2, .size = 128, .valueSize = 64}, 62);
  checkMasks({.tokens = 100, .size = 192, .packed = true, .valueSize = 128}, 63);
  checkWindow({.tokens = 90, .size = 64, .hasScore = true, .valueSize = 192}, 64);
  checkWindow({.tokens = 140, .size = 192, .valueSize = 64}, 65);
  checkWindow({.tokens = 100, .size = 128, .hasScore = true, .valueSize = 64}, 66);
  checkWindow({.tokens = 140, .size = 64, .valueSize = 192}, 71);
}
TEST(AttentionTemplate, ValuesOfAnotherSizeOtherTiles) {
  checkWindow({.tokens = 200, .size = 64, .tiles = fewStages, .valueSize = 128}, 68);
}
TEST(AttentionTemplate, ValuesOfAnotherSizePlain) {
  checkMasks(
      {.tokens = 50, .heads = 2, .size = 20, .isBf16 = false, .packed = true, .valueSize = 7}, 69);
  checkMasks({.tokens = 45, .heads = 4, .sharing = 2, .size = 5, .hasScore = true, .valueSize = 24},
             70);
}
TEST(AttentionTemplate, Chain128) { checkMasks({.tokens = 310, .size = 128, .tiles = chain}, 81); }
TEST(AttentionTemplate, Chain64) {
  checkMasks({.tokens = 300, .heads = 2, .size = 64, .packed = true, .tiles = chain}, 82);
}
/// Five products by the measured rule: long rows of many heads that share no keys.
TEST(AttentionTemplate, ChainRule) {
  const AttentionShape narrow{16384, 32, 32, 64, 64, true, true},
      wide{16384, 16, 16, 128, 128, true, true};
  EXPECT_TRUE(attentionInChain(narrow, 4096));
  EXPECT_FALSE(attentionInChain(narrow, 2048));
  EXPECT_TRUE(attentionInChain(wide, 8192));
  EXPECT_FALSE(attentionInChain(wide, 4096));
  EXPECT_FALSE(attentionInChain({16384, 32, 8, 64, 64, true, true}, 8192));
  EXPECT_FALSE(attentionInChain({16384, 12, 12, 64, 64, true, true}, 8192));
}
/// Tickets by the measured rule: rows that are not long, short ones of shared keys, blocks enough.
TEST(AttentionTemplate, TicketsRule) {
  const AttentionShape own{16384, 25, 25, 64, 64, true, true},
      shared{16384, 16, 8, 128, 128, true, true};
  EXPECT_TRUE(attentionByTickets(own, 2048));
  EXPECT_FALSE(attentionByTickets(own, 4096));
  EXPECT_TRUE(attentionByTickets(own, 0));
  EXPECT_TRUE(attentionByTickets(shared, 512));
  EXPECT_FALSE(attentionByTickets(shared, 1024));
  EXPECT_FALSE(attentionByTickets(shared, 0));
  EXPECT_FALSE(attentionByTickets({16384, 16, 16, 96, 96, true, true}, 512));
  EXPECT_FALSE(attentionByTickets({16384, 16, 16, 256, 256, true, true}, 512));
  EXPECT_FALSE(attentionByTickets({16384, 25, 25, 64, 64, true, true, true}, 1024));
  EXPECT_FALSE(attentionByTickets({1024, 12, 12, 64, 64, true, true}, 1024));
}
/// The same bits whatever order the blocks start in and their threads run in.
TEST(AttentionTemplate, ChainOrder) {
  for (int size : {64, 128}) {
    const Case c = {.tokens = 400, .size = size, .tiles = chain};
    std::mt19937_64 random(63);
    AttentionProblem p = problemOf(c, random);
    causalRanges(p, 0, 1000, 1, random);
    expectSameGradients(p, {c}, 3);
  }
}
TEST(AttentionTemplate, Tickets) {
  checkMasks({.tokens = 310, .heads = 2, .size = 128, .hasMaps = true, .hasTickets = true}, 131);
  checkMasks({.tokens = 470, .heads = 2, .packed = true, .hasMaps = true, .hasTickets = true}, 132);
  Case c = {.tokens = 300, .heads = 4, .sharing = 2, .size = 96, .hasMaps = true};
  c.hasTickets = true;
  checkWindow(c, 133);
  checkWindow({.tokens = 200, .hasScore = true, .hasMaps = true, .hasTickets = true}, 134);
}
/// The bits of the kernel without tickets, whatever order the blocks start in.
TEST(AttentionTemplate, TicketsChangeNothing) {
  for (int size : {64, 128}) {
    const Case c = {.tokens = 400, .heads = 2, .sharing = size / 64, .size = size, .hasMaps = true};
    std::mt19937_64 random(135);
    AttentionProblem p = problemOf(c, random);
    causalRanges(p, 0.01, 2, 64, random);
    Case byTickets = c;
    byTickets.hasTickets = true;
    expectSameGradients(p, {c, byTickets});
  }
}
TEST(AttentionTemplate, TicketsFindPlantedFaults) {
  const Case c = {
      .tokens = 300, .heads = 2, .multiprocessors = 2, .hasMaps = true, .hasTickets = true};
  std::mt19937_64 random(136);
  AttentionProblem p = problemOf(c, random);
  causalRanges(p, 0, 1000, 1, random);
  EXPECT_EQ(faultOf(c, p, libraryText("nano_attention.h")), "");
  auto finds = [&](const std::string &what, const std::string &part, const std::string &by = "") {
    const std::string found = faultOf(c, p, planted("nano_attention_tickets.h", part, by));
    EXPECT_NE(found.find(what), std::string::npos) << part << ": " << found;
  };
  // Rows come over those that others still read; or nobody hears of them.
  finds("race", "        mbarrierWait(&turns().finished[slot], uint32_t(i / slots - 1) & 1);",
        "        ;");
  finds("deadlock", "        mbarrierArrive(&turns().known[slot]);\n");
  // Blocks of tokens are taken twice.
  finds("race", "turn.number = resident + ", "turn.number = ");
}
/// Heads that fill no whole bands of 64 columns, with and without maps.
TEST(AttentionTemplate, HeadsInPartOfATile) {
  checkMasks({.tokens = 150, .heads = 2, .size = 96, .packed = true, .hasMaps = true}, 111);
  checkWindow({.tokens = 140, .heads = 2, .size = 80}, 112);
  checkWindow({.tokens = 200, .heads = 4, .sharing = 2, .size = 48, .packed = true}, 113);
  checkWindow({.tokens = 150, .heads = 4, .size = 32, .hasMaps = true}, 114);
  checkWindow({.tokens = 130, .heads = 2, .size = 112, .hasScore = true}, 115);
  checkWindow({.tokens = 120, .heads = 3, .size = 16, .hasScore = true}, 116);
  checkWindow({.tokens = 140, .size = 160, .packed = true, .valueSize = 96}, 117);
}
/// Heads whose sums of dk and dv are computed apart.
TEST(AttentionTemplate, Head256) {
  checkMasks(
      {.tokens = 150, .heads = 2, .sharing = 2, .size = 256, .packed = true, .hasMaps = true}, 121);
  checkWindow({.tokens = 200, .size = 256}, 122);
  checkWindow({.tokens = 140, .size = 256, .hasScore = true, .hasMaps = true}, 123);
  checkWindow({.tokens = 140, .heads = 2, .size = 208, .valueSize = 64, .hasMaps = true}, 124);
}
TEST(AttentionTemplate, PlainF32) {
  checkMasks({.tokens = 50, .heads = 2, .size = 128, .isBf16 = false, .packed = true}, 9);
}
TEST(AttentionTemplate, PlainHeadSizes) {
  for (int size : {1, 20, 136})
    checkMasks({.tokens = 40, .size = size, .isBf16 = false, .hasScore = size == 20}, 10);
  checkMasks({.tokens = 45, .heads = 2, .size = 72}, 11);
}
TEST(AttentionTemplate, ElementsApart) {
  checkMasks({.tokens = 50, .size = 64, .spread = true}, 12);
}

/// Scores of later keys are larger, up to where earlier weights vanish, or smaller: all below zero,
/// larger by less and by more than what a maximum may be exceeded by.
TEST(AttentionTemplate, ScoresThatGrow) {
  const double first[] = {-640, -704, -224, 40, 44, 52, 416, 52};
  for (const Choice &tiles : {Choice{}, fewStages, bulkTiles, threeGroups, fourGroups}) {
    Case c = {.tokens = 510, .size = 64, .tiles = tiles, .hasMaps = tiles.boxKeys > 0};
    std::mt19937_64 random(17);
    AttentionProblem p = problemOf(c, random);
    for (int t = 0; t < c.tokens; ++t) {
      p.q[p.place(t, 0, 0)] = 4;
      p.k[p.keyPlace(t, 0, 0)] = first[t / 64];
    }
    causalRanges(p, 0, 1000, 1, random);
    AttentionKernels kernels(c);
    kernels.upload(p);
    kernels.runForward(1);
    const AttentionResult expected = attentionReference(p);
    EXPECT_LE(largestError(kernels.y.values(), expected.y), 6e-3);
    EXPECT_LE(largestError(kernels.lse.values(), expected.lse), 2e-5);
  }
}
/// Keys outside the ranges of a block are not read: NaN in them reaches nothing, and keys that
/// nobody sees have gradients of 0.
TEST(AttentionTemplate, UnseenKeysReachNothing) {
  for (const Choice &tiles : {hopperTiles, chain}) {
    Case c = {.tokens = 300, .size = 64, .tiles = tiles};
    std::mt19937_64 random(13);
    AttentionProblem p = problemOf(c, random);
    const int unseenFrom = 128, unseenTo = 256;
    for (int t = 0; t < c.tokens; ++t) {
      p.first.push_back(t < unseenTo ? 0 : unseenTo);
      p.last.push_back(t < unseenTo ? std::min(t, unseenFrom - 1) : t);
    }
    AttentionKernels kernels(c);
    AttentionResult expected = attentionReference(p);
    AttentionProblem planted = p;
    for (Numbers *x : {&planted.k, &planted.v})
      std::fill(x->begin() + unseenFrom * c.size, x->begin() + unseenTo * c.size,
                std::numeric_limits<double>::quiet_NaN());
    kernels.upload(planted);
    kernels.runForward(1);
    EXPECT_LE(largestError(kernels.y.values(), expected.y), 6e-3);
    kernels.lse = DeviceBuffer::ofFloats("lse", expected.lse);
    kernels.runBackward(2);
    EXPECT_LE(largestError(kernels.dq.values(), expected.dq), 2.5e-2);
    for (const DeviceBuffer *buffer : {&kernels.dk, &kernels.dv}) {
      const Numbers &wanted = buffer == &kernels.dk ? expected.dk : expected.dv;
      Numbers actual = buffer->values();
      EXPECT_LE(largestError(actual, wanted), 2.5e-2);
      EXPECT_TRUE(std::all_of(actual.begin() + unseenFrom * c.size,
                              actual.begin() + unseenTo * c.size, [](double x) { return x == 0; }));
    }
  }
}
