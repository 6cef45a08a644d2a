// Kernels that reduce along rows and sum columns in one pass, as CUDA on the emulator: a norm's
// gradient with those of its weight and bias, and the sums of what it writes. Rows of parts of a
// warp, of a warp, of teams of warps and of a block, that fill the threads' vectors or do not, with
// fewer rows than teams and with more, in bf16 and f32, under several schedules of the threads.
// Tolerances: of a sum 2⁻¹⁸ of the sum of absolute values, for up to 4096 terms in f32 that come of
// a root and four operations; of the gradient as much, and its rounding to bf16 (2⁻⁸).
#include "tests/codegen/CudaRow.h"

#include "gtest/gtest.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace nano::test;

namespace {

struct Case {
  std::string element;
  int64_t blocks, rows, columns;
  double share = 0;        ///< of its mean that a row is without
  bool isMeasured = false; ///< whether each row's largest |dx| is written too
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.element << "x" << c.blocks << "x" << c.rows << "x" << c.columns
            << (c.share == 1   ? "_centered"
                : c.share != 0 ? "_shifted"
                               : "")
            << (c.isMeasured ? "_measured" : "");
}

/// With z = x − share · mean x, r = 1/‖z‖ of the row and h = dy·w: e = h·r − z·r³·Σ h·z,
/// dx = e − share · mean e, and over the rows of each block Σ dy·z·r, Σ dy and Σ dx, of dx as it is
/// written; and of each row the largest |dx| where it is measured.
std::string gradientText(const Case &c) {
  const std::string columns = std::to_string(c.columns), rows = std::to_string(c.blocks * c.rows);
  std::string text = R"(step.program @p {
  %dy = step.buffer "dy" : memref<FULL>
  %x = step.buffer "x" : memref<FULL>
  %w = step.buffer "w" : memref<COLUMNSxf32>
  %dx = step.buffer "dx" : memref<FULL>
  %dw = step.buffer "dw" : memref<SUMS>
  %db = step.buffer "db" : memref<SUMS>
  %dc = step.buffer "dc" : memref<SUMS>
PLACE  step.task ins(%dy, %x, %w) outs(%dx, %dw, %db, %dcOUT) : (memref<FULL>, memref<FULL>, memref<COLUMNSxf32>) -> (memref<FULL>, memref<SUMS>, memref<SUMS>, memref<SUMS>KIND) {
  ^bb0(%0: tensor<FULL>, %1: tensor<FULL>, %2: tensor<COLUMNSxf32>):
CASTSCENTER    %q = nano.mul <Z>, <Z> : tensor<WIDE>
    %s = nano.reduce sum %q dims [1] : tensor<WIDE> -> tensor<ROW>
    %r = nano.rsqrt %s : tensor<ROW>
    %wb = nano.broadcast %2 dims [1] : tensor<COLUMNSxf32> -> tensor<WIDE>
    %h = nano.mul <G>, %wb : tensor<WIDE>
    %ha = nano.mul %h, <Z> : tensor<WIDE>
    %d = nano.reduce sum %ha dims [1] : tensor<WIDE> -> tensor<ROW>
    %r2 = nano.mul %r, %r : tensor<ROW>
    %r3 = nano.mul %r2, %r : tensor<ROW>
    %f = nano.mul %d, %r3 : tensor<ROW>
    %rb = nano.broadcast %r dims [0] : tensor<ROW> -> tensor<WIDE>
    %fb = nano.broadcast %f dims [0] : tensor<ROW> -> tensor<WIDE>
    %h1 = nano.mul %h, %rb : tensor<WIDE>
    %a1 = nano.mul <Z>, %fb : tensor<WIDE>
    %e = nano.sub %h1, %a1 : tensor<WIDE>
MEANROUND    %n = nano.mul <Z>, %rb : tensor<WIDE>
    %gn = nano.mul <G>, %n : tensor<WIDE>
    %gn3 = nano.reshape %gn : tensor<WIDE> -> tensor<CUBE>
    %dws = nano.reduce sum %gn3 dims [1] : tensor<CUBE> -> tensor<SUMS>
    %g3 = nano.reshape <G> : tensor<WIDE> -> tensor<CUBE>
    %dbs = nano.reduce sum %g3 dims [1] : tensor<CUBE> -> tensor<SUMS>
WIDEN    %y3 = nano.reshape <B> : tensor<WIDE> -> tensor<CUBE>
    %dcs = nano.reduce sum %y3 dims [1] : tensor<CUBE> -> tensor<SUMS>
LARGEST    nano.yield <Y>, %dws, %dbs, %dcsVALUE : tensor<FULL>, tensor<SUMS>, tensor<SUMS>, tensor<SUMS>TYPE
  }
}
)";
  const bool isNarrow = c.element == "bf16";
  const auto centered = [&](const char *lines) { return c.share != 0 ? std::string(lines) : ""; };
  const auto cast = [&](const char *line) { return isNarrow ? std::string(line) : ""; };
  const auto measured = [&](const char *line) { return c.isMeasured ? std::string(line) : ""; };
  const std::pair<const char *, std::string> words[] = {
      {"PLACE", measured("  %dm = step.buffer \"dm\" : memref<ROW>\n")},
      {"OUT", measured(", %dm")},
      {"KIND", measured(", memref<ROW>")},
      {"LARGEST", measured("    %ay = nano.abs <B> : tensor<WIDE>\n"
                           "    %dms = nano.reduce max %ay dims [1] : tensor<WIDE> -> "
                           "tensor<ROW>\n")},
      {"VALUE", measured(", %dms")},
      {"TYPE", measured(", tensor<ROW>")},
      {"CASTS", cast("    %g = nano.cast %0 : tensor<FULL> -> tensor<WIDE>\n"
                     "    %a = nano.cast %1 : tensor<FULL> -> tensor<WIDE>\n")},
      {"CENTER", centered("    %t = nano.reduce sum <A> dims [1] : tensor<WIDE> -> tensor<ROW>\n"
                          "    %c = nano.constant SHARE : tensor<ROW>\n"
                          "    %m = nano.mul %t, %c : tensor<ROW>\n"
                          "    %mb = nano.broadcast %m dims [0] : tensor<ROW> -> tensor<WIDE>\n"
                          "    %z = nano.sub <A>, %mb : tensor<WIDE>\n")},
      {"MEAN", centered("    %ne = nano.neg %e : tensor<WIDE>\n"
                        "    %te = nano.reduce sum %ne dims [1] : tensor<WIDE> -> tensor<ROW>\n"
                        "    %me = nano.mul %te, %c : tensor<ROW>\n"
                        "    %meb = nano.broadcast %me dims [0] : tensor<ROW> -> tensor<WIDE>\n"
                        "    %ee = nano.add %e, %meb : tensor<WIDE>\n")},
      {"SHARE", fmt::format("{:.17e}", c.share / double(c.columns))},
      {"ROUND", cast("    %y = nano.cast <E> : tensor<WIDE> -> tensor<FULL>\n")},
      {"WIDEN", cast("    %yf = nano.cast %y : tensor<FULL> -> tensor<WIDE>\n")},
      {"<Z>", c.share != 0 ? "%z" : "<A>"},
      {"<G>", isNarrow ? "%g" : "%0"},
      {"<A>", isNarrow ? "%a" : "%1"},
      {"<Y>", isNarrow ? "%y" : "<E>"},
      {"<B>", isNarrow ? "%yf" : "<E>"},
      {"<E>", c.share != 0 ? "%ee" : "%e"},
      {"FULL", rows + "x" + columns + "x" + c.element},
      {"WIDE", rows + "x" + columns + "xf32"},
      {"CUBE", std::to_string(c.blocks) + "x" + std::to_string(c.rows) + "x" + columns + "xf32"},
      {"SUMS", std::to_string(c.blocks) + "x" + columns + "xf32"},
      {"ROW", rows + "xf32"},
      {"COLUMNS", columns}};
  for (const auto &[word, type] : words)
    for (size_t at; (at = text.find(word)) != std::string::npos;)
      text.replace(at, std::strlen(word), type);
  return text;
}

/// What the kernel reads, and what it should make.
struct Gradient {
  explicit Gradient(const Case &c) : c(c) {
    std::mt19937_64 engine(1);
    std::normal_distribution<double> normal;
    auto values = [&](int64_t count, const std::string &element) {
      std::vector<double> made(count);
      for (double &value : made)
        value = rounded(element, normal(engine));
      return made;
    };
    dy = values(c.blocks * c.rows * c.columns, c.element);
    x = values(c.blocks * c.rows * c.columns, c.element);
    w = values(c.columns, "f32");
  }

  void compare(const std::vector<double> &dx, const std::vector<double> &dw,
               const std::vector<double> &db, const std::vector<double> &dc,
               const std::vector<double> &dm) const {
    const double ofGradient = c.element == "bf16" ? std::ldexp(1, -8) : 0;
    std::vector<double> sums[3], sizes[3];
    for (int k = 0; k < 3; ++k) {
      sums[k].assign(c.blocks * c.columns, 0);
      sizes[k].assign(c.blocks * c.columns, 0);
    }
    for (int64_t row = 0; row < c.blocks * c.rows; ++row) {
      const int64_t first = row * c.columns;
      const auto meanOf = [&](auto at) {
        double sum = 0;
        for (int64_t j = 0; j < c.columns; ++j)
          sum += at(j);
        return c.share * sum / double(c.columns);
      };
      const double mean = meanOf([&](int64_t j) { return x[first + j]; }),
                   meanSize = meanOf([&](int64_t j) { return std::abs(x[first + j]); });
      const auto z = [&](int64_t j) { return x[first + j] - mean; };
      const auto h = [&](int64_t j) { return dy[first + j] * w[j]; };
      double square = 0, dot = 0, size = 0;
      for (int64_t j = 0; j < c.columns; ++j) {
        square += z(j) * z(j);
        dot += h(j) * z(j);
        size += std::abs(h(j)) * (std::abs(x[first + j]) + meanSize);
      }
      const double r = 1 / std::sqrt(square);
      const auto e = [&](int64_t j) { return h(j) * r - z(j) * dot * r * r * r; };
      const auto sizeOfE = [&](int64_t j) {
        return std::abs(h(j) * r) + (std::abs(x[first + j]) + meanSize) * size * r * r * r;
      };
      const double meanOfE = meanOf(e), meanSizeOfE = meanOf(sizeOfE);
      double largest = 0;
      for (int64_t j = 0; j < c.columns; ++j) {
        const int64_t i = first + j;
        const double expected = e(j) - meanOfE, scale = sizeOfE(j) + meanSizeOfE;
        ASSERT_NEAR(dx[i], expected, std::ldexp(scale, -18) + ofGradient * std::abs(expected))
            << "dx at " << i;
        largest = std::max(largest, std::abs(dx[i]));
        const double terms[] = {dy[i] * z(j) * r, dy[i], dx[i]};
        const double sizesOf[] = {std::abs(dy[i]) * (std::abs(x[i]) + meanSize) * r,
                                  std::abs(dy[i]), std::abs(dx[i])};
        for (int k = 0; k < 3; ++k) {
          sums[k][row / c.rows * c.columns + j] += terms[k];
          sizes[k][row / c.rows * c.columns + j] += sizesOf[k];
        }
      }
      if (c.isMeasured)
        ASSERT_EQ(dm[row], largest) << "largest of row " << row;
    }
    const std::vector<double> *found[] = {&dw, &db, &dc};
    for (int k = 0; k < 3; ++k)
      for (size_t i = 0; i < sums[k].size(); ++i)
        ASSERT_NEAR((*found[k])[i], sums[k][i], std::ldexp(sizes[k][i], -18))
            << "sum " << k << " at " << i;
  }

  Case c;
  std::vector<double> dy, x, w;
};

/// The first fault of a run of the kernel's text, and what it has made.
struct Outcome {
  Outcome(const Gradient &of, const std::string &text, const Shape &shape, uint64_t seed)
      : dy(bufferOf("dy", of.c.element, of.dy)), x(bufferOf("x", of.c.element, of.x)),
        w(bufferOf("w", "f32", of.w)), dx(bufferOf("dx", of.c.element, of.x)),
        dw("dw", 4, of.c.blocks * of.c.columns), db("db", 4, of.c.blocks * of.c.columns),
        dc("dc", 4, of.c.blocks * of.c.columns), dm("dm", 4, of.c.blocks * of.c.rows) {
    std::vector<Argument> operands = {{&dy},       {&x},        {&w},       {&dx, true},
                                      {&dw, true}, {&db, true}, {&dc, true}};
    if (of.c.isMeasured)
      operands.push_back({&dm, true});
    fault = TemplateRunner(text, {"kernel"}).run("kernel", shape, operands, seed);
  }
  DeviceBuffer dy, x, w, dx, dw, db, dc, dm;
  std::string fault;
};

class CudaBothSums : public testing::TestWithParam<Case> {};

TEST_P(CudaBothSums, AreThoseOfTheRows) {
  const Case &c = GetParam();
  const Gradient gradient(c);
  const CudaRow kernel = cudaRow(gradientText(c));
  std::vector<double> first;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Outcome run(gradient, kernel.text, kernel.shape, seed);
    ASSERT_EQ(run.fault, "");
    gradient.compare(run.dx.values(), run.dw.values(), run.db.values(), run.dc.values(),
                     run.dm.values());
    // The order of a sum is fixed.
    if (seed == 1)
      first = run.dw.values();
    else
      EXPECT_EQ(run.dw.values(), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaBothSums,
                         testing::Values(Case{"bf16", 2, 5, 33}, Case{"f32", 3, 1, 7},
                                         Case{"bf16", 2, 40, 100}, Case{"f32", 2, 9, 127},
                                         Case{"bf16", 2, 6, 256}, Case{"bf16", 2, 7, 768},
                                         Case{"bf16", 1, 1, 768}, Case{"f32", 1, 5, 770},
                                         Case{"bf16", 2, 3, 1600}, Case{"bf16", 1, 3, 4096},
                                         Case{"f32", 1, 2, 4095}, Case{"bf16", 2, 40, 100, 1},
                                         Case{"bf16", 2, 12, 768, 1}, Case{"f32", 2, 6, 768, 1},
                                         Case{"bf16", 2, 9, 1600, 1}, Case{"f32", 1, 5, 770, 0.5},
                                         Case{"bf16", 1, 3, 4096, 0.5}),
                         testing::PrintToStringParamName());

// Rows of teams, whose warps leave their parts of what is only written, and of other groups.
INSTANTIATE_TEST_SUITE_P(Measured, CudaBothSums,
                         testing::Values(Case{"bf16", 2, 40, 100, 0, true},
                                         Case{"bf16", 2, 12, 768, 1, true},
                                         Case{"f32", 1, 5, 770, 0, true},
                                         Case{"bf16", 2, 9, 1600, 1, true},
                                         Case{"bf16", 1, 3, 4096, 0, true}),
                         testing::PrintToStringParamName());

// Planted faults: a team that waits at another's barrier, two exchanges that use one place, and a
// row that is read before its copy has ended.
TEST(CudaBothSumsFault, OfTeamsIsSeen) {
  const Case c{"bf16", 1, 24, 768, 1};
  const Gradient gradient(c);
  const CudaRow kernel = cudaRow(gradientText(c));
  ASSERT_GT(kernel.shape.threads, 96) << "one team";
  ASSERT_EQ(Outcome(gradient, kernel.text, kernel.shape, 1).fault, "");
  const auto replaced = [&](const std::string &from, const std::string &to) {
    std::string text = kernel.text;
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    for (; at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  };
  const std::string other = replaced("<96, 2>(partials, group,", "<96, 2>(partials, 0,");
  EXPECT_NE(Outcome(gradient, other, kernel.shape, 1).fault, "") << other;
  const std::string shared = replaced("<96, 2>(partials,", "<96, 2>(partials_2,");
  EXPECT_NE(Outcome(gradient, shared, kernel.shape, 1).fault, "") << shared;
  const std::string early = replaced("copyAsyncWait<2>", "copyAsyncWait<3>");
  EXPECT_NE(Outcome(gradient, early, kernel.shape, 1).fault, "") << early;
}

// A sum that waits for others is taken apart: a row's sums are exchanged twice, of which a team
// that had one behind the other would need four times; the mean's own gradient is known to be 0.
TEST(CudaBothSumsText, FollowEachOtherTwice) {
  const Case centered{"bf16", 1, 24, 768, 1}, shifted{"bf16", 1, 24, 768, 0.5};
  for (const auto &[c, last] :
       {std::pair(centered, "shareSums<96, 2>("), std::pair(shifted, "shareSums<96, 3>(")}) {
    const std::string text = cudaRow(gradientText(c)).text;
    const auto count = [&](const std::string &part) {
      int found = 0;
      for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
      return found;
    };
    EXPECT_EQ(count("shareSums<"), 2) << text;
    EXPECT_GE(count(last), 1) << text;
    EXPECT_EQ(count("teamSum<"), 0) << text;
  }
}

} // namespace
