// The forward pass of attention of causal rows, whose tiles end where a row ends, on the emulator,
// and with faults planted in its text.
#include "tests/codegen/templates/AttentionKernels.h"

#include <set>
#include <sstream>

using namespace nano;
using namespace nano::test;

namespace {

void checkRows(const Case &c, uint64_t seed,
               const std::string &library = libraryText("nano_attention.h")) {
  const AttentionProblem p = rowsOf(c, seed);
  AttentionKernels(c, library).checkForward(p, attentionReference(p), seed);
}

/// The text of a header of attention with that of the others that it includes, each once.
std::string flattened(const std::string &header, std::set<std::string> &known) {
  std::istringstream lines(libraryText(header));
  std::string result;
  const std::string include = "#include \"nano_attention_";
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.size() - 1).substr(line.find('"') + 1);
    if (!line.starts_with(include) || name == "nano_attention_shape.h")
      result += line + "\n";
    else if (known.insert(name).second)
      result += flattened(name, known);
  }
  return result;
}
/// The templates with their text changed, which several headers include: there is `by` in the place
/// of `part`.
std::string changed(const std::string &part, const std::string &by) {
  std::set<std::string> known;
  return replaced(flattened("nano_attention.h", known), part, by);
}
/// Where few rows are taken at once.
std::string withBytesAtOnce(int bytes) {
  return changed("cachedBytes = 16 << 20", "cachedBytes = " + std::to_string(bytes));
}

} // namespace

/// Rows shorter than a tile, of one, of several, and with a first one of one, two and three
/// warpgroups.
TEST(AttentionForwardRows, Rows) {
  checkRows({.tokens = 384, .heads = 2, .hasMaps = true, .forwardRow = 64}, 201);
  checkRows({.tokens = 640, .heads = 2, .packed = true, .hasMaps = true, .forwardRow = 320}, 202);
  checkRows({.tokens = 768, .heads = 2, .sharing = 2, .hasMaps = true, .forwardRow = 384}, 203);
  checkRows({.tokens = 448, .size = 48, .hasMaps = true, .forwardRow = 448}, 204);
  checkRows({.tokens = 384, .size = 128, .packed = true, .hasMaps = true, .forwardRow = 192}, 205);
  checkRows(
      {.tokens = 512, .heads = 2, .sharing = 2, .size = 128, .hasMaps = true, .forwardRow = 256},
      206);
  checkRows({.tokens = 640, .size = 96, .hasMaps = true, .forwardRow = 320}, 207);
}
/// Tiles of blocks of 128 keys, a score function, values of another size, one slot of queries.
TEST(AttentionForwardRows, OtherTiles) {
  const Choice wide = choiceOf<HopperRuns<128, 3, 2, 3, true, true>, FewColumns>(
      "HopperRuns<128, 3, 2, 3, true, true>", "HopperTiles<64, 2>", 192, 128);
  checkRows({.tokens = 640, .heads = 2, .tiles = wide, .hasMaps = true, .forwardRow = 320}, 211);
  checkRows({.tokens = 384, .heads = 2, .hasScore = true, .hasMaps = true, .forwardRow = 192}, 212);
  checkRows({.tokens = 256, .size = 128, .valueSize = 64, .hasMaps = true, .forwardRow = 256}, 213);
  checkRows({.tokens = 384, .size = 256, .hasMaps = true, .forwardRow = 192}, 214);
}
/// Rows that are taken one after the other, and two at once, of an odd number.
TEST(AttentionForwardRows, RowsAtOnce) {
  const Case c = {.tokens = 960, .heads = 2, .hasMaps = true, .forwardRow = 320};
  const int ofRow = 2 * 320 * 2 * 128; // bytes of two heads' keys and values
  checkRows(c, 221, withBytesAtOnce(1));
  checkRows(c, 222, withBytesAtOnce(2 * ofRow));
}

/// By a rule: with maps, rows that tiles divide almost evenly.
TEST(AttentionForwardRows, Rule) {
  const AttentionShape narrow{16384, 32, 32, 64, 64, true, true, false, 132, 0, true},
      wide{16384, 16, 16, 128, 128, true, true};
  for (int row : {256, 512, 1024, 2048, 4096, 16384})
    EXPECT_TRUE(attentionForwardOfRows(narrow, row)) << row;
  for (int row : {512, 1024, 2048, 4096, 16384})
    EXPECT_TRUE(attentionForwardOfRows(wide, row)) << row;
  EXPECT_FALSE(attentionForwardOfRows(narrow, 0));
  EXPECT_FALSE(attentionForwardOfRows(narrow, 128));
  EXPECT_EQ(attentionForwardTiles(narrow, 4096), 3);
  AttentionShape ofRows = narrow;
  ofRows.row = 4096;
  EXPECT_EQ(attentionForwardTiles(ofRows, 4096), 0);
  EXPECT_FALSE(attentionForwardOfRows(wide, 256));
  EXPECT_FALSE(attentionForwardOfRows(wide, 3072));
  EXPECT_FALSE(attentionForwardOfRows({1056, 4, 4, 64, 64, true, true}, 1056));
  EXPECT_FALSE(attentionForwardOfRows({16384, 16, 16, 128, 128, false, true}, 1024));
}

TEST(AttentionForwardRows, FindsPlantedFaults) {
  const Choice tiles = choiceOf<HopperRuns<64, 2, 2, 4, true, true>, FewColumns>(
      "HopperRuns<64, 2, 2, 4, true, true>", "HopperTiles<64, 2>", 256, 64);
  const Case c = {.tokens = 640, .heads = 2, .tiles = tiles, .hasMaps = true, .forwardRow = 320};
  const AttentionProblem p = rowsOf(c, 231);
  auto faultOf = [&](const std::string &library) {
    AttentionKernels kernels(c, library);
    kernels.upload(p);
    std::string found;
    for (uint64_t seed = 1; seed < 4 && found.empty(); ++seed)
      found = kernels.forward(seed);
    return found;
  };
  EXPECT_EQ(faultOf(libraryText("nano_attention.h")), "");
  auto finds = [&](const std::string &what, const std::string &part, const std::string &by) {
    const std::string found = faultOf(changed(part, by));
    EXPECT_NE(found.find(what), std::string::npos) << part << ": " << found;
  };
  // Tiles are computed twice.
  finds("race", "      return resident + shuffle(ticket, 0);", "      return shuffle(ticket, 0);");
  // A warpgroup without rows keeps keys, or queries, for ever.
  finds("deadlock", "        skip(passed + tile);\n      release", "        ;\n      release");
  finds("deadlock", "      release(barriers.rows[slot].empty);\n      continue;",
        "      continue;");
}
