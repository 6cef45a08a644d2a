// The transposing template on the emulator: every byte of matrices of elements of 1, 2 and 4 bytes,
// whole tiles and others, matrices behind each other and side by side.
#include "ir/kernel/shapes/nano_transpose_shape.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include "gtest/gtest.h"

#include <random>

using namespace nano;
using namespace nano::test;

namespace {

struct Element {
  const char *name;
  int bytes;
};

/// Matrices of p × q elements; both sides have `out` and `in` elements in all.
void check(const Element &element, const TransposeShape &s, bool isVector) {
  SCOPED_TRACE(std::string(element.name) + " " + std::to_string(s.matrices) + " x " +
               std::to_string(s.p) + " x " + std::to_string(s.q));
  std::string sizes;
  for (long long size : {s.matrices, s.p, s.q, s.inMatrix, s.inRow, s.outMatrix, s.outRow})
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  const std::string type = element.name;
  TemplateRunner runner(R"(#include "nano_kernels.h"
#include "nano_transpose.h"
extern "C" __global__ void __launch_bounds__(256, 1)
turned(const __grid_constant__ nano::Launch<2, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  constexpr nano::TransposeShape shape = {)" +
                            sizes + R"(};
  nano::transpose<)" + (isVector ? "true" : "false") +
                            ">(work.begin, work.template pointer<const " + type +
                            ">(0), work.template pointer<" + type + R"(>(1), shape);
}
)",
                        {"turned"});
  auto count = [&](long long matrix, long long row, long long rows, long long columns) {
    return size_t((s.matrices - 1) * matrix + (rows - 1) * row + columns);
  };
  const size_t width = element.bytes;
  DeviceBuffer in("in", element.bytes, count(s.inMatrix, s.inRow, s.q, s.p)),
      out("out", element.bytes, count(s.outMatrix, s.outRow, s.p, s.q));
  std::mt19937_64 random(3);
  for (auto &byte : in.bytes)
    byte = static_cast<std::remove_reference_t<decltype(byte)>>(random());
  // What lies between the rows stays as it is.
  auto expected = out.bytes;
  for (long long b = 0; b < s.matrices; ++b)
    for (long long p = 0; p < s.p; ++p)
      for (long long q = 0; q < s.q; ++q)
        for (size_t byte = 0; byte < width; ++byte)
          expected[(b * s.outMatrix + p * s.outRow + q) * width + byte] =
              in.bytes[(b * s.inMatrix + q * s.inRow + p) * width + byte];
  const TemplateLaunch launch = transposeLaunch(s, element.bytes);
  ASSERT_EQ(runner.run("turned", {launch.threads, launch.iterations, launch.sharedBytes},
                       {{&in}, {&out, true}}, 1),
            "");
  EXPECT_EQ(out.bytes, expected);
}

class TransposeTemplate : public testing::TestWithParam<Element> {};

TEST_P(TransposeTemplate, WholeTiles) { check(GetParam(), {1, 128, 256, 0, 128, 0, 256}, true); }
TEST_P(TransposeTemplate, TilesThatAreCutOff) {
  check(GetParam(), {1, 160, 48, 0, 176, 0, 64}, true);
  check(GetParam(), {2, 16, 144, 144 * 16, 16, 16 * 144, 144}, true);
}
TEST_P(TransposeTemplate, RowsThatAreNoVectors) {
  check(GetParam(), {1, 67, 131, 0, 67, 0, 131}, false);
  check(GetParam(), {3, 5, 130, 650, 5, 650, 130}, false);
}
TEST_P(TransposeTemplate, MatricesSideBySide) {
  check(GetParam(), {3, 64, 128, 64, 192, 128, 384}, true);
  check(GetParam(), {3, 128, 64, 128, 384, 64, 192}, true);
}

INSTANTIATE_TEST_SUITE_P(Elements, TransposeTemplate,
                         testing::Values(Element{"nano::f8e4m3", 1}, Element{"nano::bf16", 2},
                                         Element{"float", 4}),
                         [](const auto &info) {
                           return "Of" + std::to_string(info.param.bytes) + "Bytes";
                         });

} // namespace
