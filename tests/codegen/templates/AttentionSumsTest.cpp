// Sums of columns that come with attention's gradients, on the emulator, and with faults planted in
// their text.
#include "tests/codegen/templates/AttentionKernels.h"

using namespace nano;
using namespace nano::test;

namespace {

AttentionProblem causal(const Case &c, uint64_t seed) {
  if (c.row > 0)
    return rowsOf(c, seed);
  std::mt19937_64 random(seed);
  AttentionProblem p = problemOf(c, random);
  causalRanges(p, 0.01, 1000, 1, random);
  return p;
}
void checkSums(Case c, uint64_t seed) {
  c.hasSums = true;
  AttentionKernels(c).check(causal(c, seed), seed);
}

} // namespace

/// Whole blocks of tokens and half of one, heads in part of a tile, shared keys.
TEST(AttentionSums, SevenProducts) {
  checkSums({.tokens = 320, .heads = 2, .packed = true}, 151);
  checkSums({.tokens = 192, .heads = 2, .size = 128, .hasMaps = true}, 152);
  checkSums({.tokens = 192, .heads = 4, .sharing = 2, .size = 96, .hasMaps = true}, 153);
  checkSums({.tokens = 128, .heads = 2, .size = 80, .hasScore = true, .valueSize = 48}, 154);
  checkSums({.tokens = 192, .size = 256}, 155);
}
TEST(AttentionSums, Tickets) {
  checkSums({.tokens = 448, .heads = 2, .packed = true, .hasMaps = true, .hasTickets = true}, 156);
  checkSums(
      {.tokens = 320, .heads = 4, .sharing = 2, .size = 128, .hasMaps = true, .hasTickets = true},
      157);
}
TEST(AttentionSums, Rows) {
  checkSums({.tokens = 512, .heads = 3, .packed = true, .hasMaps = true, .row = 256}, 158);
  checkSums({.tokens = 256, .heads = 4, .size = 48, .hasMaps = true, .row = 128}, 159);
}
TEST(AttentionSums, Ends) {
  checkSums({.tokens = 512, .heads = 4, .sharing = 2, .size = 128, .hasMaps = true, .row = 256},
            164);
  checkSums({.tokens = 256, .heads = 2, .size = 80, .packed = true, .hasMaps = true, .row = 256},
            165);
}
TEST(AttentionSums, Chain) {
  checkSums({.tokens = 320, .heads = 2, .packed = true, .tiles = chain}, 160);
  checkSums({.tokens = 320, .size = 128, .tiles = chain, .hasMaps = true}, 161);
}

/// The same bits whatever order the blocks start in and their threads run in.
TEST(AttentionSums, Order) {
  for (int row : {0, 256}) {
    std::vector<Case> cases;
    for (int multiprocessors : {2, 3})
      cases.push_back({.tokens = 512,
                       .heads = 2,
                       .multiprocessors = multiprocessors,
                       .hasMaps = true,
                       .hasTickets = row == 0,
                       .row = row,
                       .hasSums = true});
    expectSameGradients(causal(cases.front(), 162), cases);
  }
}

TEST(AttentionSums, FindsPlantedFaults) {
  Case c = {.tokens = 512, .heads = 2, .multiprocessors = 3, .hasMaps = true, .row = 256};
  c.hasSums = true;
  const AttentionProblem p = causal(c, 163);
  EXPECT_EQ(faultOf(c, p, libraryText("nano_attention.h")), "");
  auto finds = [&](const std::string &header, const std::string &part) {
    const std::string found = faultOf(c, p, planted(header, part, ""));
    EXPECT_NE(found.find("race"), std::string::npos) << part << ": " << found;
  };
  // Results are written over sums that another warp has not read, of queries and of values.
  finds("nano_attention_rows.h",
        "          barrierSync(3, warpgroupThreads); // all warps have read the others' sums\n");
  finds(
      "nano_attention_rows.h",
      "      barrierSync(1 + group, warpgroupThreads); // all warps have read the others' sums\n");
}
