// Symmetric products on the emulator with all of its checks: against the plain product of the
// device library, bit for bit below the diagonal, and against sums in f64; symmetric to the bit;
// and with faults planted in the template's text.
// Tolerance of results: 2⁻⁸ of the sum of the summands' magnitudes, one rounding to bf16; those in
// f32 do not show beside it.
#include "tests/codegen/templates/TemplateRunner.h"

#include "ir/kernel/shapes/nano_symmetric_shape.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

using namespace nano::test;

namespace {

constexpr double alpha = 0.75, beta = -1.5;

struct Problem {
  nano::SymmetricShape shape;
  bool hasAddend;
  int multiprocessors;
};

std::string number(long long value) { return std::to_string(value); }
std::string word(bool value) { return value ? "true" : "false"; }

constexpr const char *opening = R"(
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
)";

/// The kernel `symmetric` of X, D and C; D's argument is there without it too. `library`: the text
/// of the template, or its include.
std::string symmetricText(const Problem &problem, const std::string &library) {
  const nano::SymmetricShape &s = problem.shape;
  return library + "struct Symmetric {\n  static constexpr int matrices = " + number(s.matrices) +
         ", size = " + number(s.size) + ", inner = " + number(s.inner) +
         ", blocks = " + number(nano::symmetricLaunch(s, problem.multiprocessors).blocks) +
         ";\n  static constexpr bool transpose = " + word(s.transpose) +
         ", hasAddend = " + word(problem.hasAddend) + ";\n  static constexpr float alpha = " +
         (problem.hasAddend ? "0.75f, beta = -1.5f" : "1.0f, beta = 1.0f") + ";\n};\n" + opening +
         R"(symmetric(const __grid_constant__ nano::Launch<3, 1> launch,
    const __grid_constant__ nano::TensorMaps<2> maps) {
  const auto work = launch.find(blockIdx.x, 1);
  nano::symmetricProduct<Symmetric>(int(work.begin), maps.map[0], maps.map[1],
                                    work.template pointer<const nano::bf16>(1),
                                    work.template pointer<nano::bf16>(2));
}
)";
}

/// The kernel `plain`: the product of X [size, inner] and its transpose, of one matrix.
std::string plainText(const nano::SymmetricShape &s, long long blocks) {
  return "struct Product {\n  using ElementA = nano::bf16;\n  using ElementB = nano::bf16;\n  "
         "using "
         "Result = nano::bf16;\n  static constexpr int rows = " +
         number(s.size) + ", columns = " + number(s.size) + ", inner = " + number(s.inner) +
         ", blocks = " + number(blocks) + R"(, sums = 0, products = 1;
  static constexpr bool transposeA = false, transposeB = true, addsColumns = false;
  static constexpr int copies = 0, maxima = 0, turned = 0;
  nano::bf16 *y;
  struct Others {};
  struct Columns {};
  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE Columns loadColumns(int) const { return {}; }
  NANO_DEVICE void store(int row, int column, const nano::Vec<nano::bf16, 8> &product,
                         const Others &, const Columns &) const {
    nano::store<8>(y + (row * columns + column), product);
  }
};
)" + opening +
         R"(plain(const __grid_constant__ nano::Launch<2, 1> launch,
    const __grid_constant__ nano::TensorMaps<2> maps) {
  const auto work = launch.find(blockIdx.x, 1);
  Product x;
  x.y = work.template pointer<nano::bf16>(1);
  nano::matmul(int(work.begin), maps.map[0], maps.map[1], x);
}
)";
}

nano::plan::TensorMap mapOf(uint64_t columns, uint64_t rows, const nano::TensorBox &box) {
  return {0,
          nano::plan::DType::BF16,
          columns,
          rows,
          2 * columns,
          uint32_t(box.columns),
          uint32_t(box.rows),
          nano::MatmulTiles::rowBytes};
}

Shape launchOf(const nano::MatmulLaunch &launch, const nano::plan::TensorMap &a,
               const nano::plan::TensorMap &b) {
  return {launch.threads, launch.blocks, launch.sharedBytes, 1, {a, b}};
}

/// The operands of a problem, and what its kernels make of them.
class Symmetric {
public:
  explicit Symmetric(const Problem &problem) : problem(problem), shape(problem.shape) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    const auto matrices = size_t(shape.matrices), size = size_t(shape.size);
    std::vector<double> values(matrices * size * size_t(shape.inner));
    for (double &value : values)
      value = normal(random);
    x = DeviceBuffer::ofBf16("x", values);
    std::vector<double> added(matrices * size * size);
    for (size_t m = 0; m < matrices; ++m)
      for (size_t i = 0; i < size; ++i)
        for (size_t j = 0; j <= i; ++j)
          added[(m * size + i) * size + j] = added[(m * size + j) * size + i] = normal(random);
    d = DeviceBuffer::ofBf16("d", added);
    y = plain = DeviceBuffer("y", 2, added.size());
    std::fill(y.bytes.begin(), y.bytes.end(), std::byte{0xff});
  }

  /// The first fault, or nothing; the result is in y.
  std::string run(const std::string &library = "#include \"nano_symmetric.h\"\n",
                  uint64_t seed = 3) {
    using Tiles = nano::SymmetricTiles;
    const uint64_t columns = shape.transpose ? shape.size : shape.inner,
                   rows = shape.matrices * (shape.transpose ? shape.inner : shape.size);
    TemplateRunner runner(symmetricText(problem, library), {"symmetric"});
    return runner.run("symmetric",
                      launchOf(nano::symmetricLaunch(shape, problem.multiprocessors),
                               mapOf(columns, rows, Tiles::rowsBox(shape.transpose)),
                               mapOf(columns, rows, Tiles::columnsBox(shape.transpose))),
                      {{&x}, {&d}, {&y, true}}, seed);
  }

  const std::vector<std::byte> &result() const { return y.bytes; }

  /// Elements of y that differ from those that they mirror, in bits.
  size_t unequalPairs() const {
    size_t count = 0;
    forEach([&](size_t at, size_t mirrored, size_t, size_t, size_t) {
      count += !std::equal(&y.bytes[2 * at], &y.bytes[2 * at] + 2, &y.bytes[2 * mirrored]);
    });
    return count;
  }

  void expectRight() const {
    const std::vector<double> a = x.values(), c = d.values(), actual = y.values();
    size_t wrong = 0;
    forEach([&](size_t at, size_t, size_t m, size_t i, size_t j) {
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < size_t(shape.inner); ++k) {
        const double summand = element(a, m, i, k) * element(a, m, j, k);
        sum += summand;
        magnitude += std::abs(summand);
      }
      if (problem.hasAddend) {
        sum = alpha * sum + beta * c[at];
        magnitude = alpha * magnitude + std::abs(beta * c[at]);
      }
      wrong += !(std::abs(actual[at] - sum) <= 0x1p-8 * magnitude);
    });
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(unequalPairs(), 0U);
  }

  /// Of one matrix that is not transposed, without an addend: what is on or below the diagonal is
  /// the plain product's.
  void expectPlain() {
    const nano::MatmulLaunch launch =
        nano::matmulLaunch({shape.size, shape.size, shape.inner, false, true, 2, false, false}, 2);
    TemplateRunner runner("#include \"nano_kernels.h\"\n#include \"nano_matmul.h\"\n" +
                              plainText(shape, launch.blocks),
                          {"plain"});
    const nano::TensorBox a = nano::MatmulTiles::aBox(false, 2),
                          b = nano::MatmulTiles::bBox(true, 2);
    ASSERT_EQ(runner.run("plain",
                         launchOf(launch, mapOf(shape.inner, shape.size, a),
                                  mapOf(shape.inner, shape.size, b)),
                         {{&x}, {&plain, true}}, 4),
              "");
    size_t different = 0;
    forEach([&](size_t at, size_t, size_t, size_t, size_t) {
      different += !std::equal(&y.bytes[2 * at], &y.bytes[2 * at] + 2, &plain.bytes[2 * at]);
    });
    EXPECT_EQ(different, 0U);
  }

private:
  /// Of elements on and below the diagonal: their place, that of the mirrored one, and matrix, row
  /// and column.
  template <typename F> void forEach(F each) const {
    const auto size = size_t(shape.size);
    for (size_t m = 0; m < size_t(shape.matrices); ++m)
      for (size_t i = 0; i < size; ++i)
        for (size_t j = 0; j <= i; ++j)
          each((m * size + i) * size + j, (m * size + j) * size + i, m, i, j);
  }
  double element(const std::vector<double> &a, size_t m, size_t row, size_t k) const {
    const auto size = size_t(shape.size), inner = size_t(shape.inner);
    return shape.transpose ? a[(m * inner + k) * size + row] : a[(m * size + row) * inner + k];
  }

  Problem problem;
  nano::SymmetricShape shape;
  DeviceBuffer x, d, y, plain;
};

const Problem twoSquares = {{1, 328, 136, false}, true, 4};

} // namespace

TEST(SymmetricTemplate, EqualsThePlainProductBelowTheDiagonal) {
  Symmetric small({{1, 64, 64, false}, false, 2}), large({{1, 520, 200, false}, false, 6});
  for (Symmetric *each : {&small, &large}) {
    ASSERT_EQ(each->run(), "");
    each->expectRight();
    each->expectPlain();
  }
}

TEST(SymmetricTemplate, SumsWithASymmetricAddend) {
  Symmetric one(twoSquares), several({{3, 136, 72, false}, true, 4});
  for (Symmetric *each : {&one, &several}) {
    ASSERT_EQ(each->run(), "");
    each->expectRight();
  }
}

TEST(SymmetricTemplate, TransposedFactors) {
  Symmetric one({{1, 264, 72, true}, false, 2}), several({{2, 72, 128, true}, true, 2});
  for (Symmetric *each : {&one, &several}) {
    ASSERT_EQ(each->run(), "");
    each->expectRight();
  }
}

TEST(SymmetricTemplate, IsTheSameUnderEverySchedule) {
  Symmetric first(twoSquares), second(twoSquares);
  ASSERT_EQ(first.run("#include \"nano_symmetric.h\"\n", 1), "");
  ASSERT_EQ(second.run("#include \"nano_symmetric.h\"\n", 2), "");
  EXPECT_TRUE(first.result() == second.result());
}

TEST(SymmetricTemplate, FindsPlantedFaults) {
  const std::string text = libraryText("nano_symmetric.h");
  Symmetric whole(twoSquares), unmirrored(twoSquares), early(twoSquares), late(twoSquares);
  // The text as it is: what the planted faults are told from.
  ASSERT_EQ(whole.run(text), "");
  EXPECT_EQ(whole.unequalPairs(), 0U);
  // No mirrored store.
  ASSERT_EQ(
      unmirrored.run(replaced(
          text, "store(column, row, [&](int i) { return *place(true, line(i), chunk()); });")),
      "");
  EXPECT_GT(unmirrored.unequalPairs(), 0U);
  // Lines are stored before other warps have written their parts, or overwritten before others have
  // read them.
  EXPECT_NE(
      early.run(replaced(text, "barrierSync(1 + warp / 4, 128); // both are there")).find("race"),
      std::string::npos);
  EXPECT_NE(
      late.run(replaced(text, "barrierSync(1 + warp / 4, 128); // the block before has been read"))
          .find("race"),
      std::string::npos);
}
