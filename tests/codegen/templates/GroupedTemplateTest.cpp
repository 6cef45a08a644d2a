// Products of groups of rows, and sums of their outer products, on the emulator with all of its
// checks: by tensor cores and by multiply-adds, wherever groups end, against sums in f64; and with
// faults planted in the template's text.
// Tolerance of results: of bf16 2⁻⁸ of the sum of the summands' magnitudes, one rounding; of f32
// 2⁻¹⁸ from tensor cores, which cut sums towards zero two bits behind f32's, 2⁻²⁰ from
// multiply-adds.
#include "tests/codegen/templates/TemplateRunner.h"

#include "ir/kernel/shapes/nano_grouped_shape.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

using namespace nano::test;

namespace {

struct Problem {
  nano::GroupedShape shape;
  std::vector<int> ends; ///< one a group
  bool isOuter = false, transpose = true, isWide = false, onTensorCores = true;
  int multiprocessors = 4;
  bool isF32 = false; ///< of factors, by multiply-adds

  nano::MatmulLaunch launch() const {
    return isOuter ? nano::groupedOuterLaunch(shape, multiprocessors)
                   : nano::groupedMatmulLaunch(shape, multiprocessors);
  }
};

std::string number(long long value) { return std::to_string(value); }

/// The kernel `grouped` of two factors, ends and results, which have no gaps. `library`: the text
/// of the template, or its include.
std::string textOf(const Problem &p, const std::string &library) {
  const nano::GroupedShape &s = p.shape;
  const std::string result = p.isWide ? "float" : "nano::bf16",
                    element = p.isF32 ? "float" : "nano::bf16";
  std::string text =
      library + "struct Grouped {\n  using Element = " + element + ";\n  using Result = " + result +
      ";\n  static constexpr int rows = " + number(s.rows) + ", groups = " + number(s.groups) +
      ", columns = " + number(s.columns) + ", inner = " + number(s.inner) +
      ", blocks = " + number(p.onTensorCores ? p.launch().blocks : 0) +
      ";\n  static constexpr bool transpose = " + (p.transpose ? "true" : "false") + ";\n};\n";
  text += "extern \"C\" __global__ void ";
  text += p.onTensorCores
              ? "__cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)\ngrouped(const "
                "__grid_constant__ nano::Launch<4, 1> launch,\n    const __grid_constant__ "
                "nano::TensorMaps<2> maps) {\n"
              : "__launch_bounds__(256)\ngrouped(const __grid_constant__ nano::Launch<4, 1> "
                "launch) {\n";
  text += "  const auto work = launch.find(blockIdx.x, 1);\n";
  const std::string columns = number(!p.isOuter && p.transpose ? s.inner : s.columns);
  const std::string matrices = number((p.isOuter || !p.transpose ? s.inner : s.columns) *
                                      (!p.isOuter && p.transpose ? s.inner : s.columns)) +
                               ", " + columns + ", 1}";
  auto view = [&](const std::string &at, const std::string &type, const std::string &strides) {
    return "{work.template pointer<" + type + ">(" + at + "), " + strides;
  };
  if (p.isOuter)
    text += "  nano::GroupedOuter<Grouped, 1> x;\n  x.a = " +
            view("0", "const " + element, number(s.inner) + ", 1}") +
            ";\n  x.b = " + view("1", "const " + element, number(s.columns) + ", 1}") +
            ";\n  x.w[0] = " + view("3", result, matrices) + ";\n";
  else
    text += "  nano::GroupedMatmul<Grouped, 1> x;\n  x.x = " +
            view("0", "const " + element, number(s.inner) + ", 1}") +
            ";\n  x.w = " + view("1", "const " + element, matrices) +
            ";\n  x.y[0] = " + view("3", result, number(s.columns) + ", 1}") + ";\n";
  text += "  x.ends = {work.template pointer<const int>(2), 1};\n";
  const std::string name = p.isOuter ? "Outer" : "Matmul";
  text += p.onTensorCores ? "  nano::grouped" + name + "(int(work.begin), maps.map, x);\n}\n"
                          : "  nano::plainGrouped" + name + "(work.begin, x);\n}\n";
  return text;
}

nano::plan::TensorMap mapOf(int argument, long long columns, long long rows,
                            const nano::TensorBox &box) {
  return {uint32_t(argument), nano::plan::DType::BF16,    uint64_t(columns),
          uint64_t(rows),     uint64_t(2 * columns),      uint32_t(box.columns),
          uint32_t(box.rows), nano::MatmulTiles::rowBytes};
}

constexpr const char *include = "#include \"nano_grouped.h\"\n";

class Grouped {
public:
  explicit Grouped(const Problem &problem) : problem(problem), shape(problem.shape) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    auto buffer = [&](const std::string &name, long long count) {
      std::vector<double> values(static_cast<size_t>(count));
      for (double &value : values)
        value = normal(random);
      return problem.isF32 ? DeviceBuffer::ofFloats(name, values)
                           : DeviceBuffer::ofBf16(name, values);
    };
    const long long matrices = shape.groups * shape.inner * shape.columns;
    first = buffer("first", shape.rows * shape.inner);
    second = buffer("second", problem.isOuter ? shape.rows * shape.columns : matrices);
    ends = DeviceBuffer::ofInts("ends", problem.ends);
    result = DeviceBuffer("result", problem.isWide ? 4 : 2,
                          size_t(problem.isOuter ? matrices : shape.rows * shape.columns));
    std::fill(result.bytes.begin(), result.bytes.end(), std::byte{0xff});
  }

  /// The first fault, or nothing.
  std::string run(const std::string &library = include, uint64_t seed = 3) {
    using Tiles = nano::MatmulTiles;
    Shape launch;
    if (problem.onTensorCores) {
      const nano::MatmulLaunch sizes = problem.launch();
      launch = {sizes.threads, sizes.blocks, sizes.sharedBytes};
      if (problem.isOuter)
        launch.maps = {mapOf(0, shape.inner, shape.rows, nano::GroupedOuterTiles::aBox()),
                       mapOf(1, shape.columns, shape.rows, nano::GroupedOuterTiles::bBox())};
      else
        launch.maps = {mapOf(0, shape.inner, shape.rows, Tiles::aBox(false, 2)),
                       mapOf(1, problem.transpose ? shape.inner : shape.columns,
                             shape.groups * (problem.transpose ? shape.columns : shape.inner),
                             Tiles::bBox(problem.transpose, 2))};
    } else {
      const nano::TemplateLaunch sizes = problem.isOuter ? nano::plainGroupedOuterLaunch(shape)
                                                         : nano::plainGroupedMatmulLaunch(shape);
      launch = {sizes.threads, sizes.iterations, sizes.sharedBytes};
    }
    TemplateRunner runner(textOf(problem, library), {"grouped"});
    return runner.run("grouped", launch, {{&first}, {&second}, {&ends}, {&result, true}}, seed);
  }

  /// How many results are wrong.
  size_t wrong() const {
    const std::vector<double> a = first.values(), b = second.values(), actual = result.values();
    std::vector<double> sums(actual.size()), magnitudes(actual.size());
    const auto inner = size_t(shape.inner), columns = size_t(shape.columns);
    for (size_t n = 0; n < size_t(shape.rows); ++n) {
      const size_t group = size_t(std::find_if(problem.ends.begin(), problem.ends.end(),
                                               [&](int end) { return int(n) < end; }) -
                                  problem.ends.begin());
      if (group == problem.ends.size())
        continue;
      for (size_t k = 0; k < inner; ++k)
        for (size_t m = 0; m < columns; ++m) {
          const size_t matrix = group * inner * columns;
          const size_t at = problem.isOuter ? matrix + k * columns + m : n * columns + m;
          const double other =
              problem.isOuter ? b[n * columns + m]
                              : b[matrix + (problem.transpose ? m * inner + k : k * columns + m)];
          sums[at] += a[n * inner + k] * other;
          magnitudes[at] += std::abs(a[n * inner + k] * other);
        }
    }
    const double tolerance = !problem.isWide ? 0x1p-8 : problem.onTensorCores ? 0x1p-18 : 0x1p-20;
    size_t count = 0;
    for (size_t i = 0; i < sums.size(); ++i)
      count += !(std::abs(actual[i] - sums[i]) <= tolerance * magnitudes[i]);
    return count;
  }
  const std::vector<std::byte> &bytes() const { return result.bytes; }

private:
  Problem problem;
  nano::GroupedShape shape;
  DeviceBuffer first, second, ends, result;
};

void expectRight(const Problem &problem) {
  SCOPED_TRACE(number(problem.shape.rows) + " rows, " + number(problem.shape.groups) + " groups, " +
               number(problem.shape.inner) + " x " + number(problem.shape.columns));
  Grouped grouped(problem);
  ASSERT_EQ(grouped.run(), "");
  EXPECT_EQ(grouped.wrong(), 0U);
}

// Groups of none, of a few rows, of some tiles; ends below others, and beyond all rows.
const std::vector<int> mixed = {0, 3, 3, 300, 260, 301, 600, 5000};

} // namespace

TEST(GroupedTemplate, ProductsOnTensorCores) {
  expectRight({{640, 8, 264, 72}, mixed});
  expectRight({{640, 8, 72, 128}, mixed, false, false});
  expectRight({{200, 1, 64, 64}, {130}}); // rows of no group
  expectRight({{64, 2, 8, 8}, {-5, 0}});  // none of any
}

TEST(GroupedTemplate, WideProductsOnTensorCores) {
  expectRight({{300, 3, 136, 200}, {7, 150, 290}, false, true, true, true, 2});
}

TEST(GroupedTemplate, OuterProductsOnTensorCores) {
  expectRight({{640, 8, 264, 72}, mixed, true, false, true});
  expectRight({{320, 3, 72, 264}, {64, 128, 129}, true, false, false});
}

TEST(GroupedTemplate, MultiplyAdds) {
  for (const bool isOuter : {false, true})
    for (const bool transpose : {false, true})
      if (!isOuter || !transpose)
        expectRight(
            {{200, 5, 70, 33}, {0, 9, 8, 140, 170}, isOuter, transpose, true, false, 4, true});
  expectRight({{70, 2, 5, 65}, {1, 71}, false, true, false, false});
}

TEST(GroupedTemplate, AreTheSameUnderEverySchedule) {
  for (const bool isOuter : {false, true}) {
    const Problem problem = {{640, 8, 264, 72}, mixed, isOuter, !isOuter, isOuter};
    Grouped first(problem), second(problem);
    ASSERT_EQ(first.run(include, 1), "");
    ASSERT_EQ(second.run(include, 2), "");
    EXPECT_TRUE(first.bytes() == second.bytes());
  }
}

TEST(GroupedTemplate, FindsPlantedFaults) {
  const std::string text = libraryText("nano_grouped.h");
  const Problem products = {{640, 8, 264, 72}, mixed},
                outer = {{640, 8, 264, 72}, mixed, true, false, true};
  // The text as it is: what the planted faults are told from.
  for (const Problem &problem : {products, outer}) {
    Grouped whole(problem);
    ASSERT_EQ(whole.run(text), "");
    EXPECT_EQ(whole.wrong(), 0U);
  }
  // A tile's rows are stored where they are the next group's.
  Grouped beyond(products);
  const std::string fault =
      beyond.run(replaced(text, "return row < rows && (S::columns", "return (S::columns"));
  EXPECT_TRUE(!fault.empty() || beyond.wrong() > 0);
  // The next group's rows are added up, or cleared while others multiply what is there.
  Grouped unclear(outer), early(outer);
  ASSERT_EQ(unclear.run(replaced(text, "clearRows<P>(multiplier.at.stage, inLast);", "")), "");
  EXPECT_GT(unclear.wrong(), 0U);
  EXPECT_NE(early.run(replaced(text, "  barrierSync(1, threads);\n", "")), "");
}
