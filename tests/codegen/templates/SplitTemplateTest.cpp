// Split products: the parts that clusters make, for many shapes; and on the emulator with all of
// its checks, against sums in f64, with the same bits under every schedule, and with faults planted
// in the template's text. Tolerance of results: 2⁻²⁴ of the sum of the summands' magnitudes for
// each of them, one rounding to f32 an addition; tensor cores round a sum of 16 once.
#include "tests/codegen/templates/TemplateRunner.h"

#include "ir/kernel/shapes/nano_split_shape.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace nano::test;

namespace {

struct Products {
  std::vector<int> allRows, allColumns;
  int inner = 0;
  int count = int(allRows.size());
  int rows(int i) const { return allRows[size_t(i)]; }
  int columns(int i) const { return allColumns[size_t(i)]; }
};

/// What is wrong with the parts of a launch: every pair's steps once, parts added in an order that
/// clusters with smaller numbers come first in, and no part empty.
std::string faultOf(const Products &products, int clusters) {
  std::map<int, std::vector<nano::SplitPart>> ofPair;
  const int steps = int(nano::divideUp(products.inner, nano::SplitTiles::inner));
  for (int cluster = 0; cluster < clusters; ++cluster) {
    nano::SplitWork<Products> work(products, clusters, cluster);
    for (nano::SplitPart part = {}; work.next(part);) {
      if (part.begin >= part.end)
        return fmt::format("an empty part of pair {}", part.pair);
      if (part.row >= products.rows(part.product) || part.column >= products.columns(part.product))
        return fmt::format("pair {} lies outside", part.pair);
      std::vector<nano::SplitPart> &before = ofPair[part.pair];
      if (part.before != int(before.size()))
        return fmt::format("pair {}: {} parts before one, not {}", part.pair, before.size(),
                           part.before);
      before.push_back(part);
    }
  }
  if (int(ofPair.size()) != nano::splitPairs(products))
    return fmt::format("{} pairs of {}", ofPair.size(), nano::splitPairs(products));
  for (auto &[pair, parts] : ofPair) {
    for (const nano::SplitPart &part : parts)
      if (part.hasNext != (&part != &parts.back()))
        return fmt::format("pair {}: what is added last is said wrongly", pair);
    std::sort(parts.begin(), parts.end(), [](auto &a, auto &b) { return a.begin < b.begin; });
    int made = 0;
    for (const nano::SplitPart &part : parts) {
      if (part.begin != made)
        return fmt::format("pair {}: step {} follows {}", pair, part.begin, made);
      made = part.end;
    }
    if (made != steps)
      return fmt::format("pair {} ends at step {}", pair, made);
  }
  return "";
}

struct Problem {
  Products products;
  bool adds = false;
  int multiprocessors = 2;
};

/// The kernel `split` of counts and of A, B and C of each product. `library`: the text of the
/// template, or its include.
std::string textOf(const Problem &problem, const std::string &library) {
  const Products &p = problem.products;
  std::string results;
  for (int i = 0; i < p.count; ++i)
    results += fmt::format("  results.c[{}] = work.template pointer<float>({});\n", i, 3 * i + 3);
  return fmt::format(R"({}struct Split {{
  static constexpr int count = {}, inner = {}, blocks = {};
  static constexpr bool adds = {};
  static NANO_DEVICE constexpr int rows(int i) {{
    constexpr int all[] = {{{}}};
    return all[i];
  }}
  static NANO_DEVICE constexpr int columns(int i) {{
    constexpr int all[] = {{{}}};
    return all[i];
  }}
}};
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
split(const __grid_constant__ nano::Launch<{}, 1> launch,
    const __grid_constant__ nano::TensorMaps<{}> maps) {{
  const auto work = launch.find(blockIdx.x, 1);
  nano::SplitResults<Split::count> results;
{}  nano::splitProducts<Split>(maps.map, results, work.template pointer<int32_t>(0));
}}
)",
                     library, p.count, p.inner,
                     nano::splitLaunch(p, problem.multiprocessors).blocks,
                     problem.adds ? "true" : "false", fmt::join(p.allRows, ", "),
                     fmt::join(p.allColumns, ", "), 3 * p.count + 1, 2 * p.count, results);
}

constexpr const char *include = "#include \"nano_split.h\"\n";

/// The operands of a problem, and what its kernel makes of them.
class Split {
public:
  explicit Split(const Problem &problem) : problem(problem) {
    const Products &p = problem.products;
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    auto values = [&](size_t count) {
      std::vector<double> all(count);
      for (double &value : all)
        value = normal(random);
      return all;
    };
    counts = DeviceBuffer::ofInts("counts", std::vector<int>(size_t(nano::splitCounts(p))));
    for (int i = 0; i < p.count; ++i) {
      const auto rows = size_t(p.rows(i)), columns = size_t(p.columns(i)), inner = size_t(p.inner);
      a.push_back(DeviceBuffer::ofBf16(fmt::format("a{}", i), values(inner * rows)));
      b.push_back(DeviceBuffer::ofBf16(fmt::format("b{}", i), values(inner * columns)));
      added.push_back(problem.adds ? values(rows * columns) : std::vector<double>(rows * columns));
      c.push_back(DeviceBuffer::ofFloats(fmt::format("c{}", i), added.back()));
      if (problem.adds)
        added.back() = c.back().values(); // rounded
      else
        std::fill(c.back().bytes.begin(), c.back().bytes.end(), std::byte{0xff});
    }
  }

  /// The first fault, or nothing; the results are in c.
  std::string run(const std::string &library = include, uint64_t seed = 3) {
    const Products &p = problem.products;
    const nano::MatmulLaunch launch = nano::splitLaunch(p, problem.multiprocessors);
    Shape shape{launch.threads, launch.blocks, launch.sharedBytes, 1, {}};
    std::vector<Argument> arguments = {{&counts, true, 0, true}};
    for (int i = 0; i < p.count; ++i) {
      shape.maps.push_back(mapOf(3 * i + 1, p.rows(i)));
      shape.maps.push_back(mapOf(3 * i + 2, p.columns(i)));
      arguments.push_back({&a[size_t(i)]});
      arguments.push_back({&b[size_t(i)]});
      arguments.push_back({&c[size_t(i)], true, 0, problem.adds});
    }
    return TemplateRunner(textOf(problem, library), {"split"}).run("split", shape, arguments, seed);
  }

  bool hasBitsOf(const Split &other) const {
    return std::equal(c.begin(), c.end(), other.c.begin(),
                      [](auto &x, auto &y) { return x.bytes == y.bytes; });
  }

  /// Elements that are not the sums.
  size_t wrong() const {
    const Products &p = problem.products;
    size_t count = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const std::vector<double> left = a[i].values(), right = b[i].values(), actual = c[i].values();
      const auto rows = size_t(p.rows(int(i))), columns = size_t(p.columns(int(i)));
      std::vector<double> sums = added[i], magnitudes(sums.size());
      for (size_t k = 0; k < size_t(p.inner); ++k)
        for (size_t row = 0; row < rows; ++row)
          for (size_t column = 0; column < columns; ++column) {
            const double summand = left[k * rows + row] * right[k * columns + column];
            sums[row * columns + column] += summand;
            magnitudes[row * columns + column] += std::abs(summand);
          }
      for (size_t at = 0; at < sums.size(); ++at)
        count += !(std::abs(actual[at] - sums[at]) <=
                   0x1p-24 * (p.inner / 16.0 + 16) * (magnitudes[at] + std::abs(added[i][at])));
    }
    return count;
  }

private:
  nano::plan::TensorMap mapOf(int buffer, int columns) const {
    const nano::TensorBox box = nano::SplitTiles::box();
    return {uint32_t(buffer),      nano::plan::DType::BF16,
            uint64_t(columns),     uint64_t(problem.products.inner),
            2 * uint64_t(columns), uint32_t(box.columns),
            uint32_t(box.rows),    nano::MatmulTiles::rowBytes};
  }

  Problem problem;
  DeviceBuffer counts;
  std::vector<DeviceBuffer> a, b, c;
  std::vector<std::vector<double>> added;
};

/// Two pairs for three clusters, which make the first and the second part of one and of the other.
const Problem threeParts = {{{136, 24}, {72, 264}, 6208}, false, 6};

} // namespace

TEST(SplitWork, MakesEveryStepOnceAndInOrder) {
  for (int clusters : {1, 2, 3, 7, 57, 66})
    for (int inner : {8, 64, 1000, 4096, 16384, 32768, 49152, 131072})
      for (const auto &[rows, columns] : std::vector<std::pair<std::vector<int>, std::vector<int>>>{
               {{8}, {8}},
               {{256}, {1024}},
               {{768}, {768}},
               {{1024, 256, 256}, {1024, 1024, 1024}},
               {{2816}, {1024}},
               {{2816, 2816, 1024}, {1024, 1024, 1024}},
               {{3072, 768}, {768, 768}},
               {{1600}, {6400}},
               {{4800}, {1600}},
               {{640, 1000, 40}, {520, 8, 4096}},
               {{50304}, {768}}}) {
        const Products products = {rows, columns, inner};
        ASSERT_EQ(faultOf(products, clusters), "")
            << fmt::format("{} clusters, {} x {} x {}", clusters, fmt::join(rows, ","),
                           fmt::join(columns, ","), inner);
      }
}

TEST(SplitWork, KeepsClustersBusy) {
  auto share = [](const Products &p) {
    const double all = double(nano::splitPairs(p)) * double(p.inner) / nano::SplitTiles::inner;
    return all / 66 / double(nano::splitSteps(p, 66));
  };
  EXPECT_GT(share({{2816}, {1024}, 32768}), 0.96);
  EXPECT_GT(share({{2816, 2816, 1024}, {1024, 1024, 1024}, 32768}), 0.9);
  EXPECT_GT(share({{3072, 768}, {768, 768}, 49152}), 0.9);
}

TEST(SplitTemplate, EqualsSums) {
  Split whole({{{264}, {520}, 200}, false, 2}), rows({{{136, 8}, {520, 16}, 72}, false, 4}),
      parts(threeParts);
  for (Split *each : {&whole, &rows, &parts}) {
    ASSERT_EQ(each->run(), "");
    EXPECT_EQ(each->wrong(), 0U);
  }
}

TEST(SplitTemplate, AddsInPlace) {
  Problem problem = threeParts;
  problem.adds = true;
  Split split(problem);
  ASSERT_EQ(split.run(), "");
  EXPECT_EQ(split.wrong(), 0U);
}

TEST(SplitTemplate, IsTheSameUnderEverySchedule) {
  Split first(threeParts), second(threeParts);
  ASSERT_EQ(first.run(include, 1), "");
  ASSERT_EQ(second.run(include, 2), "");
  EXPECT_TRUE(first.hasBitsOf(second));
}

TEST(SplitTemplate, FindsPlantedFaults) {
  const std::string text = libraryText("nano_split.h");
  Split whole(threeParts), early(threeParts), unfinished(threeParts), lost(threeParts),
      overwritten(threeParts);
  // The text as it is: what the planted faults are told from.
  ASSERT_EQ(whole.run(text), "");
  EXPECT_EQ(whole.wrong(), 0U);
  // A part is added before the one before it has been.
  EXPECT_NE(early.run(replaced(text, "waitForCount(count, part.before);", ";")).find("race"),
            std::string::npos);
  // It is told of before all of it is there.
  EXPECT_NE(unfinished
                .run(replaced(text, "if (part.hasNext) {\n      barrierSync(1 + group, 128);",
                              "if (part.hasNext) {"))
                .find("race"),
            std::string::npos);
  // Nobody is told of it.
  EXPECT_NE(lost.run(replaced(text, "addToCount(count);", ";")), "");
  // It replaces what was there.
  ASSERT_EQ(overwritten.run(replaced(text, "S::adds || part.before > 0", "S::adds")), "");
  EXPECT_GT(overwritten.wrong(), 0U);
}
