// Products along a band of rows of f32 on tensor cores, by warpgroups and by warps, on the emulator
// with all of its checks: against sums in f64, with the same bits under every schedule, and with
// faults planted in the templates' text.
// Tolerance of results: 2⁻²⁰ of the sum of the summands' magnitudes; and the farthest of them all
// is no farther from the exact one than the farthest of sums by multiply-adds of f32, or of a few
// summands two units of the last place.
#include "tests/codegen/templates/TemplateRunner.h"
#include "tests/runtime/Expect.h"

#include "ir/kernel/shapes/nano_band_shape.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace nano::test;

namespace {

enum class Op { Scores, Product, Transposed };

struct Problem {
  Op op;
  int tokens, heads, size, width;
  int multiprocessors = 132;
};

const std::string planes = "nano_band_planes.h", split = "nano_band_split.h";

/// Operands of a problem, and what its kernel makes of them.
class Bands {
public:
  explicit Bands(const Problem &problem)
      : problem(problem), isScores(problem.op == Op::Scores), shape{problem.tokens,
                                                                    problem.heads,
                                                                    problem.size,
                                                                    problem.width,
                                                                    true,
                                                                    4,
                                                                    problem.op == Op::Transposed,
                                                                    4,
                                                                    problem.multiprocessors} {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    auto of = [&](const char *name, int columns) {
      std::vector<double> values(size_t(problem.tokens) * size_t(problem.heads) * size_t(columns));
      for (double &value : values)
        value = normal(random);
      return DeviceBuffer::ofFloats(name, values);
    };
    first = of("first", isScores ? problem.size : problem.width);
    second = of("second", problem.size);
    y = of("y", isScores ? problem.width : problem.size);
    std::fill(y.bytes.begin(), y.bytes.end(), std::byte{0xff});
  }

  /// The header that has the template of the problem.
  std::string header() const { return nano::hasBandPlanes(shape, isScores) ? planes : split; }

  /// The first fault, or nothing; the result is in y. `part` of the template's text is replaced by
  /// `other`.
  std::string run(uint64_t seed = 3, const std::string &part = "", const std::string &other = "") {
    const nano::TemplateLaunch launch = this->launch();
    const std::string library =
        replaced(libraryText("nano_band.h"), "#include \"" + header() + "\"\n",
                 replaced(libraryText(header()), part, other));
    TemplateRunner runner(library + kernelText(), {"band"});
    return runner.run("band", {launch.threads, launch.iterations, launch.sharedBytes},
                      {{&first}, {&second}, {&y, true}}, seed);
  }
  std::string runWithout(const std::string &part) { return run(3, part, "//"); }

  const std::vector<std::byte> &result() const { return y.bytes; }

  /// How far results are from sums in f64, and those of multiply-adds of f32 in order.
  struct Distance {
    size_t wrong = 0; ///< results that are not as near as they should be
    double worst = 0,
           plain = 0; ///< the largest of |x − sum| / (1 + |sum|), of sums by multiply-adds
  };
  Distance distance() const {
    const std::vector<double> a = first.values(), b = second.values(), actual = y.values();
    const int T = problem.tokens, H = problem.heads, D = problem.size, W = problem.width;
    Distance found;
    auto compare = [&](int t, int h, int column, int columns, int summands, auto factors) {
      double sum = 0, magnitude = 0;
      float plain = 0;
      for (int i = 0; i < summands; ++i) {
        const auto [x, y] = factors(i);
        sum += x * y;
        magnitude += std::abs(x * y);
        plain = std::fma(float(x), float(y), plain);
      }
      const double apart = std::abs(
          actual[(size_t(t) * size_t(H) + size_t(h)) * size_t(columns) + size_t(column)] - sum);
      found.wrong += !(apart <= 0x1p-20 * magnitude);
      found.worst = std::max(found.worst, apart / (1 + std::abs(sum)));
      found.plain = std::max(found.plain, std::abs(double(plain) - sum) / (1 + std::abs(sum)));
    };
    auto at = [&](const std::vector<double> &x, int t, int h, int columns, int column) {
      return t < 0 || t >= T
                 ? 0
                 : x[(size_t(t) * size_t(H) + size_t(h)) * size_t(columns) + size_t(column)];
    };
    for (int t = 0; t < T; ++t)
      for (int h = 0; h < H; ++h)
        if (isScores)
          for (int w = 0; w < W; ++w)
            compare(t, h, w, W, D, [&](int d) {
              return std::pair(at(a, t, h, D, d), at(b, t - W + 1 + w, h, D, d));
            });
        else
          for (int d = 0; d < D; ++d)
            compare(t, h, d, D, W, [&](int w) {
              const bool turned = problem.op == Op::Transposed;
              const int other = turned ? t + W - 1 - w : t - W + 1 + w;
              return std::pair(at(a, turned ? other : t, h, W, w), at(b, other, h, D, d));
            });
    return found;
  }
  size_t wrong() const { return distance().wrong; }

private:
  nano::TemplateLaunch launch() const {
    return isScores ? nano::bandScoresLaunch(shape) : nano::bandProductLaunch(shape);
  }
  std::string kernelText() const {
    const int D = problem.size, W = problem.width, H = problem.heads;
    auto view = [&](const char *name, int columns, const char *type, int argument) {
      return std::string("  x.") + name + " = {work.template pointer<" + type + ">(" +
             std::to_string(argument) + "), " + std::to_string(H * columns) + ", " +
             std::to_string(columns) + ", 1};\n";
    };
    return std::string("struct Band {\n  using First = float;\n  using Second = float;\n  using "
                       "Result = float;\n  static constexpr int tokens = ") +
           std::to_string(problem.tokens) + ", heads = " + std::to_string(H) +
           ", size = " + std::to_string(D) + ", width = " + std::to_string(W) +
           ", multiprocessors = " + std::to_string(shape.multiprocessors) +
           ";\n  static constexpr bool transpose = " +
           (problem.op == Op::Transposed ? "true" : "false") + ", onMatrices = true;\n};\n" +
           R"(extern "C" __global__ void __launch_bounds__()" + std::to_string(launch().threads) +
           ", " + std::to_string(nano::bandResidentBlocks(shape, isScores)) + R"()
band(const __grid_constant__ nano::Launch<3, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  nano::BandOperands<Band> x;
)" + view("first", isScores ? D : W, "const float", 0) +
           view("second", D, "const float", 1) + view("y[0]", isScores ? W : D, "float", 2) +
           (isScores ? "  nano::bandScores<Band>(work.begin, x);\n}\n"
                     : "  nano::bandProduct<Band>(work.begin, x);\n}\n");
  }

  Problem problem;
  bool isScores;
  nano::BandShape shape;
  DeviceBuffer first, second, y;
};

// Several tiles of a block.
const Problem planesScores = {Op::Scores, 400, 1, 40, 100, 1};
const Problem planesProduct = {Op::Product, 400, 1, 40, 100, 1};
const Problem splitScores = {Op::Scores, 400, 1, 260, 20, 1};
const Problem splitProduct = {Op::Product, 400, 1, 72, 150, 1};

} // namespace

TEST(BandTemplate, SharesTilesEvenly) {
  // 96 lines on 132 multiprocessors of two blocks: two rounds of blocks of 76 or 77 tiles take less
  // time than one of 192.
  const long long blocks = nano::bandBlocks(96, 384, 264);
  EXPECT_EQ(blocks, 5);
  EXPECT_EQ(nano::bandFirstTile(0, blocks, 384), 0);
  EXPECT_EQ(nano::bandFirstTile(blocks, blocks, 384), 384);
  for (long long block = 0; block < blocks; ++block) {
    const int tiles =
        nano::bandFirstTile(block + 1, blocks, 384) - nano::bandFirstTile(block, blocks, 384);
    EXPECT_TRUE(tiles == 76 || tiles == 77) << tiles;
  }
  // More heads than there is room for take rounds; no block is without a tile.
  EXPECT_EQ(nano::bandBlocks(300, 768, 132), 1);
  EXPECT_EQ(nano::bandBlocks(1, 8, 264), 8);
  // One round rather than two of the same length, with all the blocks that it has room for.
  EXPECT_EQ(nano::bandBlocks(8, 384, 396), 49);
}

/// Bands that are as long as a tile, shorter and longer, with columns of one to four times 32 and
/// more; results that are written four at a time, a whole band by one access, or one by one;
/// windows of whole steps of 64 rows and with one, two or three steps of 16 more.
TEST(BandTemplate, EqualsSums) {
  const std::vector<std::pair<Problem, std::string>> problems = {
      {{Op::Scores, 300, 1, 128, 112}, planes},     {{Op::Scores, 150, 2, 20, 113, 1}, planes},
      {{Op::Scores, 140, 1, 68, 97}, planes},       {{Op::Scores, 150, 1, 64, 129, 1}, planes},
      {{Op::Scores, 100, 1, 36, 145}, planes},      {{Op::Scores, 140, 1, 68, 37}, split},
      {{Op::Scores, 300, 1, 256, 112}, split},      {{Op::Scores, 140, 2, 8, 4}, split},
      {{Op::Scores, 150, 2, 20, 313}, split},       {{Op::Scores, 150, 1, 96, 33}, split},
      {{Op::Scores, 130, 1, 64, 64}, split},        {{Op::Product, 300, 1, 128, 112}, planes},
      {{Op::Product, 200, 1, 128, 128}, planes},    {{Op::Transposed, 200, 1, 128, 128}, planes},
      {{Op::Product, 130, 1, 96, 33}, split},       {{Op::Product, 130, 1, 64, 64}, split},
      {{Op::Product, 270, 2, 96, 97, 1}, planes},   {{Op::Product, 150, 1, 20, 300}, planes},
      {{Op::Product, 270, 1, 96, 3}, split},        {{Op::Product, 150, 1, 160, 150}, split},
      {{Op::Transposed, 300, 1, 128, 112}, planes}, {{Op::Transposed, 270, 2, 64, 100, 1}, planes},
      {{Op::Transposed, 150, 1, 160, 96}, planes},  {{Op::Transposed, 270, 1, 64, 33}, split},
      {{Op::Transposed, 300, 1, 96, 150}, split}};
  for (const auto &[problem, header] : problems) {
    Bands bands(problem);
    ASSERT_EQ(bands.header(), header);
    ASSERT_EQ(bands.run(), "");
    const Bands::Distance found = bands.distance();
    EXPECT_EQ(found.wrong, 0U) << problem.size << " " << problem.width;
    EXPECT_LE(found.worst, std::max(found.plain, 0x1p-22)) << problem.size << " " << problem.width;
  }
}

TEST(BandTemplate, IsTheSameUnderEverySchedule) {
  for (const Problem &problem : {planesScores, planesProduct, splitScores, splitProduct}) {
    Bands first(problem), second(problem);
    ASSERT_EQ(first.run(1), "");
    ASSERT_EQ(second.run(2), "");
    EXPECT_TRUE(first.result() == second.result());
    EXPECT_EQ(first.wrong(), 0U);
  }
}

TEST(BandTemplate, FindsPlantedFaultsOfWarpgroups) {
  for (const Problem &problem : {planesScores, planesProduct}) {
    // Not all has arrived, or not where products see it.
    EXPECT_CONTAINS(Bands(problem).runWithout("syncThreads(); // the rows of tile 0"), "race");
    EXPECT_CONTAINS(
        Bands(problem).runWithout(
            "if (tile > 0)\n                barrierSync(arrivedAt + warpgroup, 2 * one);"),
        "race");
    EXPECT_CONTAINS(
        Bands(problem).run(3, "fenceProxyAsync();\n        barrierArrive", "barrierArrive"),
        "missing fence");
    // Rows that others come in place of too early.
    EXPECT_CONTAINS(Bands(problem).run(3, "if (tile > 1)", "if (tile > 3)"), "misused barrier");
  }
  EXPECT_CONTAINS(Bands(planesScores)
                      .run(3, "multiply(sums, queries, tile);\n      left();",
                           "left();\n      multiply(sums, queries, tile);"),
                  "race");
  EXPECT_CONTAINS(Bands(planesScores).runWithout("syncWarp(); // the half's scores are there"),
                  "uninitialised");
  // Without the last 8 bits, in a ring that is too short.
  Bands cut(planesScores), small(planesProduct);
  ASSERT_EQ(cut.run(3, "cutWords(rows[i][0], rows[i][1], left);",
                    "cutWords(rows[i][0], rows[i][1], left); left[2] = 0;"),
            "");
  EXPECT_GT(cut.wrong(), 0U);
  EXPECT_TRUE(!small.run(3, "row % plan.rows", "row % (plan.rows - 64)").empty() ||
              small.wrong() > 0);
}

TEST(BandTemplate, FindsPlantedFaultsOfWarps) {
  // Not all has arrived.
  EXPECT_CONTAINS(Bands(splitScores).runWithout("syncThreads(); // the slice is there"),
                  "uninitialised");
  EXPECT_CONTAINS(Bands(splitProduct).runWithout("syncThreads(); // the step's rows are there"),
                  "uninitialised");
  // What others still read or have not written yet.
  for (const char *part : {"syncThreads(); // the last slice has been read",
                           "syncWarp(); // the half's scores are there"})
    EXPECT_CONTAINS(Bands(splitScores).runWithout(part), "race");
  // Without the last 8 bits.
  Bands cut(splitScores);
  ASSERT_EQ(
      cut.run(3, "words[term][i] = split[term];", "words[term][i] = term < 2 ? split[term] : 0;"),
      "");
  EXPECT_GT(cut.wrong(), 0U);
  // A ring that is one group too short.
  Bands small(splitProduct);
  EXPECT_TRUE(!small
                   .run(3, "group % plan.slots * (16 * 16 * lanes)",
                        "group % (plan.slots - 1) * (16 * 16 * lanes)")
                   .empty() ||
              small.wrong() > 0);
}
