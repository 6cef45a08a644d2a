// The gradients of attention of causal rows in five products by blocks of keys from both ends of a
// row, on the emulator, and with faults planted in their text.
#include "tests/codegen/templates/AttentionKernels.h"

using namespace nano;
using namespace nano::test;

namespace {

void checkRows(const Case &c, uint64_t seed) { AttentionKernels(c).check(rowsOf(c, seed), seed); }

} // namespace

/// Rows of one block of keys, of two, three and four; shared keys; heads in part of a tile.
TEST(AttentionEnds, Rows) {
  checkRows({.tokens = 512, .size = 128, .hasMaps = true, .row = 512}, 171);
  checkRows({.tokens = 384, .heads = 4, .sharing = 2, .size = 128, .hasMaps = true, .row = 384},
            172);
  checkRows({.tokens = 512, .heads = 2, .size = 128, .packed = true, .hasMaps = true, .row = 256},
            173);
  checkRows({.tokens = 256,
             .heads = 2,
             .sharing = 2,
             .size = 80,
             .valueSize = 112,
             .hasMaps = true,
             .row = 128},
            174);
}

/// Narrow heads, with shared keys, in rows longer than those of which a block of threads has whole
/// ones, or with values of another size.
TEST(AttentionEnds, NarrowHeads) {
  checkRows({.tokens = 512, .heads = 4, .sharing = 2, .hasMaps = true, .row = 256}, 177);
  checkRows({.tokens = 384,
             .heads = 2,
             .sharing = 2,
             .size = 32,
             .valueSize = 48,
             .hasMaps = true,
             .row = 384},
            178);
  checkRows({.tokens = 1152, .hasMaps = true, .row = 1152}, 179);
  checkRows({.tokens = 256, .size = 32, .valueSize = 48, .hasMaps = true, .row = 256}, 180);
}

/// The same bits whatever order the blocks start in and their threads run in.
TEST(AttentionEnds, Order) {
  const Case c = {
      .tokens = 512, .heads = 2, .sharing = 2, .size = 128, .hasMaps = true, .row = 512};
  expectSameGradients(rowsOf(c, 175), {c}, 4);
}

/// By the measured rule: causal rows that are long enough, but not of which a block of threads has
/// whole ones, blocks that fill the multiprocessors.
TEST(AttentionEnds, Rule) {
  const AttentionShape llama{16384, 8, 2, 128, 128, true, true};
  EXPECT_TRUE(attentionFromEnds(llama, 2048));
  EXPECT_TRUE(attentionFromEnds(llama, 8192));
  EXPECT_TRUE(attentionFromEnds(llama, 1024));
  EXPECT_FALSE(attentionFromEnds(llama, 512));
  EXPECT_FALSE(attentionFromEnds(llama, 0));
  EXPECT_TRUE(attentionFromEnds({16384, 16, 16, 96, 128, true, true}, 4096));
  EXPECT_TRUE(attentionFromEnds({16384, 32, 8, 64, 48, true, true}, 2048));
  EXPECT_TRUE(attentionFromEnds({16384, 32, 32, 64, 64, true, true}, 2048));
  EXPECT_TRUE(attentionFromEnds({16384, 32, 32, 64, 64, true, true}, 8192));
  EXPECT_FALSE(attentionFromEnds({16384, 32, 32, 64, 64, true, true}, 1024)); // whole rows
  EXPECT_FALSE(attentionFromEnds({16384, 16, 16, 64, 128, true, true}, 8192));
  EXPECT_FALSE(attentionFromEnds({16384, 16, 16, 192, 192, true, true}, 8192));
  EXPECT_FALSE(attentionFromEnds({16384, 16, 16, 128, 128, true, true, true}, 8192));
  // 64 blocks of threads, and 192 on 132 multiprocessors.
  EXPECT_FALSE(attentionFromEnds({16384, 8, 1, 128, 128, true, true}, 2048));
  EXPECT_FALSE(attentionFromEnds({16384, 6, 3, 128, 128, true, true}, 2048));
  // 1,120 on as many, of which a fifth has half the work of others.
  EXPECT_FALSE(attentionFromEnds({16128, 16, 16, 128, 128, true, true}, 1152));
}

TEST(AttentionEnds, FindsPlantedFaults) {
  const Case c = {
      .tokens = 512, .heads = 2, .sharing = 2, .size = 128, .hasMaps = true, .row = 512};
  const AttentionProblem p = rowsOf(c, 176);
  EXPECT_EQ(faultOf(c, p, libraryText("nano_attention.h")), "");
  auto finds = [&](const std::string &what, const std::string &part, const std::string &by) {
    const std::string found = faultOf(c, p, planted("nano_attention_ends.h", part, by));
    EXPECT_NE(found.find(what), std::string::npos) << part << ": " << found;
  };
  // Sums are added to before other blocks have.
  finds("race", "        waitForCount(x.counts + 1 + work.unit(turn.number, tile), before);",
        "        ;");
  // Others hear of sums that are not there yet.
  const std::string added = "      mbarrierWait(&barriers.added[use % Tiles::turns], "
                            "uint32_t(use / Tiles::turns) & 1);\n",
                    tell = "      addToCount(x.counts + 1 + work.unit(turn.number, tile));\n";
  finds("race", added + tell, tell + added);
  // The scores' gradients are multiplied without a fence; keys come over those that others read.
  const std::string give = "  mbarrierArrive(&Shared<A, Tiles>::barriers().scoresFull";
  finds("missing fence", "  fenceProxyAsync();\n" + give, give);
  finds("missing wait", "      mbarrierWait(&barriers.rowsEmpty, 0);", "      ;");
  // Results are made of sums that are not there yet; a barrier's next phase begins before its last
  // one is heard of.
  finds("race", "      waitForCount(x.counts + 1 + unit, count);\n", "");
  finds("deadlock",
        "        mbarrierWait(&barriers.told[use % Tiles::turns], uint32_t(use / Tiles::turns - 1) "
        "& 1);",
        "        ;");
}

/// The turns in which the warpgroups of narrow heads start products.
TEST(AttentionEnds, FindsPlantedFaultsOfTurns) {
  const Case c = {.tokens = 256, .heads = 2, .sharing = 2, .hasMaps = true, .row = 256};
  const AttentionProblem p = rowsOf(c, 181);
  auto finds = [&](const std::string &what, const std::string &part, const std::string &by) {
    const std::string found = faultOf(c, p, planted("nano_attention_ends.h", part, by));
    EXPECT_NE(found.find(what), std::string::npos) << part << ": " << found;
  };
  finds("deadlock", "  if (thread.group == 1)\n    passTurn();\n", "");
  // A warpgroup that leaves out a tile keeps its turn.
  finds(
      "deadlock",
      "        leaveOut<A, Tiles>(place++, thread);\n        passTurn();\n        waitForTurn();\n",
      "        leaveOut<A, Tiles>(place++, thread);\n");
  finds("arrivals",
        "  if (thread.group == 0) // the last turn, which nobody else takes\n"
        "    waitForTurn();\n",
        "");
}
