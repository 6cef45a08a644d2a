// The scatter template on the emulator: the sort exactly, sums against doubles. Tolerances are of
// |actual − expected| / (1 + |expected|): f32 results 1e-5 (sums of some hundred elements of about
// 1), bf16 results 2⁻⁸.
#include "ir/kernel/shapes/nano_scatter_shape.h"
#include "tests/codegen/templates/AttentionReference.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace nano;
using namespace nano::test;

namespace {

struct Case {
  int tokens, rows, columns;
  bool fromBf16 = true, toBf16 = false;
  int element = 1;  ///< stride of x's and y's columns
  bool sums = true; ///< after the sort
  int unread = 0;   ///< rows at the end that are not summed
};

std::string textOf(const Case &c) {
  auto number = [](int64_t i) { return std::to_string(i); };
  std::string element = c.fromBf16 ? "nano::bf16" : "float",
              result = c.toBf16 ? "nano::bf16" : "float",
              row = number(int64_t(c.columns) * c.element) + ", " + number(c.element);
  return "#include \"nano_kernels.h\"\n#include \"nano_scatter.h\"\nstruct Scatter {\n  using "
         "Element = " +
         element + ";\n  using Result = " + result +
         ";\n  static constexpr int tokens = " + number(c.tokens) + ", rows = " + number(c.rows) +
         ", sortedRows = rows, columns = " + number(c.columns) +
         ";\n  static constexpr bool vectorRows = " +
         (c.element == 1 && c.columns % 8 == 0 ? "true" : "false") +
         R"(;
};
struct Summed : Scatter {
  static constexpr int rows = )" +
         number(c.rows - c.unread) + R"(;
};
extern "C" __global__ void __launch_bounds__(1024, 1)
sortIds(const __grid_constant__ nano::Launch<2, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  nano::scatterSort<Scatter>(work.begin, {work.template pointer<const int>(0)},
                             work.template pointer<int>(1));
}
extern "C" __global__ void __launch_bounds__(256, 1)
sumRows(const __grid_constant__ nano::Launch<4, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  nano::ScatterOperands<Summed, 2> x;
  x.x = {work.template pointer<const )" +
         element + ">(0), " + row + R"(};
  x.scratch = work.template pointer<const int>(1);
  x.y[0] = {work.template pointer<)" +
         result + ">(2), " + row + R"(};
  x.y[1] = {work.template pointer<)" +
         result + ">(3), " + row + R"(};
  nano::scatterSum<Summed>(work.begin, x);
}
)";
}

/// `idOf` gives the id of a token.
template <class IdOf> void check(const Case &c, IdOf idOf, std::mt19937_64 &random) {
  SCOPED_TRACE(std::to_string(c.tokens) + " tokens, " + std::to_string(c.rows) + " rows of " +
               std::to_string(c.columns));
  std::vector<int> ids(c.tokens);
  for (int &id : ids)
    id = idOf();
  std::normal_distribution<double> normal;
  size_t row = size_t(c.columns) * c.element;
  Numbers x(c.tokens * row, std::numeric_limits<double>::quiet_NaN()), expected(c.rows * row);
  for (int t = 0; t < c.tokens; ++t)
    for (size_t d = 0; d < row; d += c.element) {
      auto value = static_cast<float>(normal(random));
      x[t * row + d] = c.fromBf16 ? fromBf16(toBf16(value)) : value;
      expected[ids[t] * row + d] += x[t * row + d];
    }
  const ScatterShape shape{c.tokens, c.rows, c.columns};
  TemplateRunner runner(textOf(c), {"sortIds", "sumRows"});
  DeviceBuffer deviceIds = DeviceBuffer::ofInts("ids", ids);
  DeviceBuffer scratch("sorted", 4, scatterScratchBytes(shape) / 4);
  TemplateLaunch sort = scatterSortLaunch(shape), sum = scatterSumLaunch(shape);
  ASSERT_EQ(runner.run("sortIds", {sort.threads, sort.iterations, sort.sharedBytes},
                       {{&deviceIds}, {&scratch, true}}, 1),
            "");
  const int places = int(scatterPlaces(c.tokens, c.rows));
  std::vector<int> sorted(scratch.bytes.size() / 4), positions(c.tokens), starts(places + 1);
  std::memcpy(sorted.data(), scratch.bytes.data(), scratch.bytes.size());
  auto placeOf = [&](int t) { return scatterPlaceOf(ids[t], c.tokens, c.rows); };
  for (int t = 0; t < c.tokens; ++t)
    positions[t] = t;
  std::stable_sort(positions.begin(), positions.end(),
                   [&](int a, int b) { return placeOf(a) < placeOf(b); });
  for (int t = 0; t < c.tokens; ++t)
    ++starts[placeOf(t) + 1];
  for (int i = 0; i < places; ++i)
    starts[i + 1] += starts[i];
  for (int t = 0; t < c.tokens; ++t)
    positions.push_back(placeOf(positions[t]));
  positions.insert(positions.end(), starts.begin(), starts.end());
  EXPECT_EQ(sorted, positions);
  if (!c.sums)
    return;

  DeviceBuffer from = c.fromBf16 ? DeviceBuffer::ofBf16("x", x) : DeviceBuffer::ofFloats("x", x);
  DeviceBuffer y("y", c.toBf16 ? 2 : 4, c.rows * row), other = y;
  const Numbers before = y.values();
  std::copy(before.end() - ptrdiff_t(c.unread * row), before.end(),
            expected.end() - ptrdiff_t(c.unread * row));
  ASSERT_EQ(runner.run("sumRows", {sum.threads, sum.iterations, sum.sharedBytes},
                       {{&from}, {&scratch}, {&y, true}, {&other, true}}, 2),
            "");
  EXPECT_EQ(y.bytes, other.bytes);
  double largest = 0;
  Numbers actual = y.values();
  for (size_t i = 0; i < expected.size(); i += c.element) {
    double error = std::abs(actual[i] - expected[i]) / (1 + std::abs(expected[i]));
    largest = std::isnan(error) ? INFINITY : std::max(largest, error);
  }
  EXPECT_LE(largest, c.toBf16 ? std::ldexp(1, -8) : 1e-5);
}

} // namespace

TEST(ScatterTemplate, FewCommonIdsManyRareOnes) {
  std::mt19937_64 random(1);
  auto zipf = [&](int rows) {
    return [&random, rows] {
      double u = std::uniform_real_distribution<double>(0, 1)(random);
      return std::min(rows - 1, int(std::pow(rows, u)) - 1);
    };
  };
  check({1500, 600, 264}, zipf(600), random);
  check({700, 257, 64, true, true}, zipf(257), random);
}

TEST(ScatterTemplate, RowsThatNobodyReads) {
  std::mt19937_64 random(6);
  auto mostlyLast = [&](int rows) {
    return [&random, rows] { return random() % 3 ? rows - 1 : int(random() % rows); };
  };
  check({.tokens = 900, .rows = 129, .columns = 264, .unread = 1}, mostlyLast(129), random);
  check({.tokens = 300, .rows = 70, .columns = 60, .toBf16 = true, .unread = 5}, mostlyLast(70),
        random);
}

TEST(ScatterTemplate, RowsOfManyClasses) {
  std::mt19937_64 random(4);
  const int tokens = 700, rows = 140001;
  ASSERT_GT(scatterClasses(tokens, rows), 128);
  auto any = [&] { return int(random() % rows); };
  check({.tokens = tokens, .rows = rows, .columns = 8, .sums = false}, any, random);
}

TEST(ScatterTemplate, TokensOfSeveralRounds) {
  std::mt19937_64 random(5);
  const int tokens = 140001;
  ASSERT_GT(tokens, 2 * scatterSortThreads * scatterSortTokens(tokens));
  auto any = [&] { return int(random() % 2 * (random() % 7)); };
  check({.tokens = tokens, .rows = 8, .columns = 8, .sums = false}, any, random);
}

/// All tokens of a round, more than a counter of 16 bits has numbers for.
TEST(ScatterTemplate, OneIdOfSeveralRounds) {
  std::mt19937_64 random(9);
  check({.tokens = 65600, .rows = 1, .columns = 8, .sums = false}, [] { return 0; }, random);
}

/// Two rows of a class are counted in the halves of a word: all tokens of a round are the second
/// one's, then those behind it any row's.
TEST(ScatterTemplate, SecondRowOfSeveralRounds) {
  std::mt19937_64 random(10);
  const int tokens = 68000, rows = 256, ofRound = scatterSortThreads * scatterSortTokens(tokens);
  ASSERT_GT(tokens, ofRound);
  ASSERT_EQ(scatterClassRows(tokens, rows), 2);
  const int second = scatterRowAt(1, tokens, rows);
  auto next = [&, t = 0]() mutable { return t++ < ofRound ? second : int(random() % rows); };
  check({.tokens = tokens, .rows = rows, .columns = 8, .sums = false}, next, random);
}

TEST(ScatterTemplate, OneIdOnly) {
  std::mt19937_64 random(2);
  check({333, 40, 24, false}, [] { return 17; }, random);
  check({1, 1, 8}, [] { return 0; }, random);
}

/// Rows of about as many tokens as are summed by warps, which begin everywhere among the positions:
/// of a table that has no other rows, and of one that has many without tokens.
TEST(ScatterTemplate, RowsOfSomeMoreTokens) {
  std::mt19937_64 random(8);
  auto nextRow = [](int apart) {
    return [apart, row = 0, left = 31]() mutable {
      if (left-- == 0) {
        ++row;
        left = 28 + row % 9; // with this one 29 to 37
      }
      return row * apart;
    };
  };
  const int tokens = 1450, rows = 46;
  check({tokens, rows, 136, true, true}, nextRow(1), random);
  check({tokens, 5 * rows, 136, false, false}, nextRow(5), random);
  check({tokens, 5 * rows, 264, true, false}, nextRow(5), random);
}

/// Rows that fewer lanes than half a warp share, as those of a learned bias of distances.
TEST(ScatterTemplate, FewColumnsOfManyTokens) {
  std::mt19937_64 random(7);
  auto any = [&] { return int(random() % 3); };
  check({1500, 3, 16, false}, any, random);
  check({900, 3, 8}, any, random);
  check({900, 3, 64, true, true}, any, random);
  check({700, 3, 5, false, false, 3}, any, random);
}

TEST(ScatterTemplate, RowsThatAreNoVectors) {
  std::mt19937_64 random(3);
  auto any = [&] { return int(random() % 30); };
  check({400, 30, 30, false, true}, any, random);
  check({400, 30, 300, true, false, 2}, any, random);
}
