// Products along a band of rows of f32 on tensor cores, on the emulator with all of its checks:
// against sums in f64, with the same bits under every schedule, and with faults planted in the
// template's text.
// Tolerance of results: 2⁻¹⁸ of the sum of the summands' magnitudes; numbers go in as two of 11
// bits, whose products have a rest of about 2⁻²².
#include "tests/codegen/templates/TemplateRunner.h"
#include "tests/runtime/Expect.h"

#include "codegen/DeviceLibrary.h"
#include "ir/kernel/shapes/nano_band_shape.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

using namespace nano::test;

namespace {

enum class Op { Scores, Product, Transposed };

struct Problem {
  Op op;
  int tokens, heads, size, width;
};

std::string textOf(const std::string &name) {
  for (const nano::plan::Source &source : nano::codegen::deviceLibrary())
    if (source.name == name)
      return source.text;
  ADD_FAILURE() << "the device library has no " << name;
  return "";
}
std::string replaced(std::string text, const std::string &part, const std::string &other) {
  const size_t at = text.find(part);
  if (at == std::string::npos)
    ADD_FAILURE() << "the template does not have: " << part;
  else
    text.replace(at, part.size(), other);
  return text;
}

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
                                                                    4} {
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

  /// The first fault, or nothing; the result is in y. `split`: the template's text.
  std::string run(const std::string &split = textOf("nano_band_split.h"), uint64_t seed = 3) {
    const nano::TemplateLaunch launch =
        isScores ? nano::bandScoresLaunch(shape) : nano::bandProductLaunch(shape);
    const std::string library =
        replaced(textOf("nano_band.h"), "#include \"nano_band_split.h\"\n", split);
    TemplateRunner runner(library + kernelText(), {"band"});
    return runner.run("band", {launch.threads, launch.iterations, launch.sharedBytes},
                      {{&first}, {&second}, {&y, true}}, seed);
  }

  const std::vector<std::byte> &result() const { return y.bytes; }

  /// Results that are not as near as they should be.
  size_t wrong() const {
    const std::vector<double> a = first.values(), b = second.values(), actual = y.values();
    const int T = problem.tokens, H = problem.heads, D = problem.size, W = problem.width;
    size_t count = 0;
    auto compare = [&](int t, int h, int column, int columns, int summands, auto summand) {
      double sum = 0, magnitude = 0;
      for (int i = 0; i < summands; ++i) {
        const double x = summand(i);
        sum += x;
        magnitude += std::abs(x);
      }
      count += !(
          std::abs(actual[(size_t(t) * size_t(H) + size_t(h)) * size_t(columns) + size_t(column)] -
                   sum) <= 0x1p-18 * magnitude);
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
            compare(t, h, w, W, D,
                    [&](int d) { return at(a, t, h, D, d) * at(b, t - W + 1 + w, h, D, d); });
        else
          for (int d = 0; d < D; ++d)
            compare(t, h, d, D, W, [&](int w) {
              const bool turned = problem.op == Op::Transposed;
              const int other = turned ? t + W - 1 - w : t - W + 1 + w;
              return at(a, turned ? other : t, h, W, w) * at(b, other, h, D, d);
            });
    return count;
  }

private:
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
           R"(extern "C" __global__ void __launch_bounds__(128, 2)
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

/// Several slices of columns; so many heads that a block has two tiles.
const Problem scores = {Op::Scores, 200, 140, 40, 20};
const Problem product = {Op::Product, 200, 140, 8, 20};

} // namespace

/// Bands that are as long as a tile, shorter and longer, with columns of one to four times 32 and
/// more; results that are written four at a time, a whole band by one access, or one by one.
TEST(BandTemplate, EqualsSums) {
  for (const Problem &problem : {Problem{Op::Scores, 300, 1, 128, 112},
                                 {Op::Scores, 150, 2, 20, 113},
                                 {Op::Scores, 140, 1, 68, 37},
                                 {Op::Scores, 140, 2, 8, 4},
                                 {Op::Product, 300, 1, 128, 112},
                                 {Op::Product, 270, 1, 96, 3},
                                 {Op::Product, 150, 1, 160, 150},
                                 {Op::Transposed, 300, 1, 128, 112},
                                 {Op::Transposed, 270, 1, 64, 33}}) {
    Bands bands(problem);
    ASSERT_EQ(bands.run(), "");
    EXPECT_EQ(bands.wrong(), 0U) << problem.size << " " << problem.width;
  }
}

TEST(BandTemplate, IsTheSameUnderEverySchedule) {
  for (const Problem &problem : {scores, product}) {
    Bands first(problem), second(problem);
    ASSERT_EQ(first.run(textOf("nano_band_split.h"), 1), "");
    ASSERT_EQ(second.run(textOf("nano_band_split.h"), 2), "");
    EXPECT_TRUE(first.result() == second.result());
    EXPECT_EQ(first.wrong(), 0U);
  }
}

TEST(BandTemplate, FindsPlantedFaults) {
  const std::string text = textOf("nano_band_split.h");
  // Not all has arrived.
  EXPECT_CONTAINS(Bands(scores).run(replaced(text, "syncThreads(); // the slice is there", "//")),
                  "uninitialised");
  EXPECT_CONTAINS(
      Bands(product).run(replaced(text, "syncThreads(); // the step's rows are there", "//")),
      "uninitialised");
  // What others still read or have not written yet.
  for (const char *part : {"syncThreads(); // the last slice has been read",
                           "syncWarp(); // the half's scores are there"})
    EXPECT_CONTAINS(Bands(scores).run(replaced(text, part, "//")), "race");
  // Numbers as they are, without what units do not take of them.
  Bands cut(scores);
  ASSERT_EQ(cut.run(replaced(text, "low(bitCast<uint32_t>(x - bitCast<float>(high)))", "low(0)")),
            "");
  EXPECT_GT(cut.wrong(), 0U);
  // A ring that is one group too short.
  Bands small(product);
  EXPECT_TRUE(!small
                   .run(replaced(text, "group % plan.slots * (16 * 16 * lanes)",
                                 "group % (plan.slots - 1) * (16 * 16 * lanes)"))
                   .empty() ||
              small.wrong() > 0);
}
