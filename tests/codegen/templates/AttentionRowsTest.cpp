// The gradients of attention of short causal rows in five products, on the emulator, and with
// faults planted in their text.
#include "tests/codegen/templates/AttentionKernels.h"

using namespace nano;
using namespace nano::test;

namespace {

void checkRows(const Case &c, uint64_t seed) { AttentionKernels(c).check(rowsOf(c, seed), seed); }

} // namespace

/// Rows of one block of keys, of two and of three; shares that begin and end within rows, and some
/// that are whole rows.
TEST(AttentionRows, Rows) {
  checkRows({.tokens = 768, .heads = 3, .multiprocessors = 4, .hasMaps = true, .row = 384}, 141);
  checkRows({.tokens = 512, .heads = 3, .packed = true, .hasMaps = true, .row = 256}, 142);
  checkRows({.tokens = 256, .heads = 4, .size = 48, .hasMaps = true, .row = 128}, 143);
}

/// The same bits whatever order the blocks start in and their threads run in, and however many
/// blocks share the work.
TEST(AttentionRows, Order) {
  std::vector<Case> cases;
  for (int multiprocessors : {2, 3})
    cases.push_back({.tokens = 512,
                     .heads = 2,
                     .multiprocessors = multiprocessors,
                     .hasMaps = true,
                     .row = 256});
  expectSameGradients(rowsOf(cases.front(), 144), cases);
}

/// Five products by the measured rule: short rows of whole blocks, narrow heads that share no keys,
/// rows enough.
TEST(AttentionRows, Rule) {
  const AttentionShape gpt{16384, 25, 25, 64, 64, true, true};
  EXPECT_TRUE(attentionOfRows(gpt, 512));
  EXPECT_TRUE(attentionOfRows(gpt, 1024));
  EXPECT_FALSE(attentionOfRows(gpt, 2048));
  EXPECT_FALSE(attentionOfRows(gpt, 0));
  EXPECT_FALSE(attentionOfRows({16000, 25, 25, 64, 64, true, true}, 500));
  EXPECT_FALSE(attentionOfRows({16000, 25, 25, 64, 64, true, true}, 512));
  EXPECT_TRUE(attentionOfRows({16384, 25, 25, 48, 48, true, true}, 512));
  EXPECT_FALSE(attentionOfRows({16384, 25, 25, 128, 128, true, true}, 512));
  EXPECT_FALSE(attentionOfRows({16384, 25, 25, 64, 48, true, true}, 512));
  EXPECT_FALSE(attentionOfRows({16384, 24, 12, 64, 64, true, true}, 512));
  EXPECT_FALSE(attentionOfRows({16384, 25, 25, 64, 64, true, true, true}, 512));
  EXPECT_FALSE(attentionOfRows({16384, 8, 8, 64, 64, true, true}, 512));
}

TEST(AttentionRows, FindsPlantedFaults) {
  const Case c = {.tokens = 512, .heads = 3, .multiprocessors = 4, .hasMaps = true, .row = 256};
  const AttentionProblem p = rowsOf(c, 145);
  EXPECT_EQ(faultOf(c, p, libraryText("nano_attention.h")), "");
  auto finds = [&](const std::string &what, const std::string &part, const std::string &by = "") {
    const std::string found = faultOf(c, p, planted("nano_attention_rows.h", part, by));
    EXPECT_NE(found.find(what), std::string::npos) << part << ": " << found;
  };
  // Sums that another block begins are read before they are there.
  finds("race", "      waitForCount(x.counts + ticket, 1);", "      ;");
  // Other warps' sums are not there yet when the next block hears of them.
  finds("race", "      barrierSync(3, warpgroupThreads);\n");
  // The scores' gradients are multiplied without a fence; keys come over those that others read.
  finds("missing fence", "      fenceProxyAsync();\n      mbarrierArrive(&barriers.scoresFull",
        "      mbarrierArrive(&barriers.scoresFull");
  finds("missing wait",
        "      mbarrierWait(&barriers.rowsEmpty[slot], uint32_t(i / Tiles::slots - 1) & 1);",
        "      ;");
}
