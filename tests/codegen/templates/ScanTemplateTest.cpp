// The scan template on the emulator: exact, over several tiles, with strides, and in place.
#include "tests/codegen/templates/TemplateRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <random>

using namespace nano::test;

namespace {

/// Scans `count` elements that stand `xStride` apart, into y's, `yStride` apart.
void check(int count, int xStride, int yStride, bool isMax, bool inPlace) {
  SCOPED_TRACE(std::to_string(count) + " elements, strides " + std::to_string(xStride) + " and " +
               std::to_string(yStride) + (isMax ? ", max" : ", sum") +
               (inPlace ? ", in place" : ""));
  constexpr int threads = 1024;
  const std::string text = "#include \"nano_kernels.h\"\n#include \"nano_scan.h\"\n"
                           "extern \"C\" __global__ void __launch_bounds__(1024, 1)\n"
                           "scan(const __grid_constant__ nano::Launch<2, 1> launch) {\n"
                           "  const auto work = launch.find(blockIdx.x, 1);\n"
                           "  nano::scan<1024, " +
                           std::string(isMax ? "true" : "false") + ">(" + std::to_string(count) +
                           ", work.template pointer<const int>(0), " + std::to_string(xStride) +
                           ", work.template pointer<int>(1), " + std::to_string(yStride) +
                           ");\n}\n";
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<int> values(size_t(count) * xStride);
  for (int &value : values)
    value = static_cast<int>(random()); // their sums wrap
  std::vector<int> expected;
  for (int i = 0; i < count; ++i) {
    const int value = values[size_t(i) * xStride];
    expected.push_back(i == 0  ? value
                       : isMax ? std::max(expected.back(), value)
                               : int(unsigned(expected.back()) + unsigned(value)));
  }
  DeviceBuffer x = DeviceBuffer::ofInts("x", values), y("y", 4, size_t(count) * yStride);
  TemplateRunner runner(text, {"scan"});
  DeviceBuffer &written = inPlace ? x : y;
  ASSERT_EQ(runner.run("scan", {threads, 1, 4 * threads / 32},
                       {{&x, inPlace, 0, inPlace}, {&written, true, 0, inPlace}}, 1),
            "");
  std::vector<int> found(written.bytes.size() / 4), actual;
  std::memcpy(found.data(), written.bytes.data(), written.bytes.size());
  for (int i = 0; i < count; ++i)
    actual.push_back(found[size_t(i) * yStride]);
  EXPECT_EQ(actual, expected);
}

} // namespace

TEST(ScanTemplate, AnyLength) {
  for (int count : {1, 7, 8, 300, 8192, 8193, 20001})
    for (bool isMax : {false, true})
      check(count, 1, 1, isMax, false);
}

TEST(ScanTemplate, Strides) {
  check(1000, 3, 1, false, false);
  check(1000, 1, 2, true, false);
}

TEST(ScanTemplate, InPlace) { check(9000, 1, 1, false, true); }
