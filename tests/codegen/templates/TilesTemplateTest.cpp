// Gathered rows written along their columns, on the emulator with all of its checks: every shape of
// tile that kernels use, whole and cut off, byte for byte.
#include "tests/codegen/templates/TemplateRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <string>

using namespace nano::test;

namespace {

struct Tile {
  const char *element; ///< of the device library
  int bytes;           ///< of an element
  int rows, columns, threads, parts = 1;
  int first = 0; ///< of the threads that write it
  int place = 0; ///< its first element
};

/// Writes the first `rows` rows and `columns` columns of a tile to columns that lie `stride`
/// elements apart, aligned to `alignment` bytes.
void check(const Tile &tile, int rows, int columns, int stride, int alignment) {
  const std::string element = std::string(tile.bytes < 4 ? "nano::" : "") + tile.element;
  const auto number = [](int value) { return std::to_string(value); };
  SCOPED_TRACE(element + ", tile of " + number(tile.rows) + " × " + number(tile.columns) +
               ", written " + number(rows) + " × " + number(columns) + ", " + number(alignment) +
               " bytes");
  const std::string text =
      "#include \"nano_tiles.h\"\n"
      "extern \"C\" __global__ void __launch_bounds__(" +
      number(tile.threads) +
      ")\n"
      "columns(const __grid_constant__ nano::Launch<2, 1> launch) {\n"
      "  using T = " +
      element +
      ";\n"
      "  constexpr int rows = " +
      number(tile.rows) + ", stride = " + number(tile.columns) +
      ", threads = " + number(tile.threads) +
      ";\n"
      "  using Shape = nano::TileShape<T, rows / " +
      number(tile.parts) +
      ">;\n"
      "  const auto work = launch.find(blockIdx.x, 1);\n"
      "  auto *x = work.template pointer<const T>(0);\n"
      "  auto *tile = nano::dynamicShared<T>(0);\n"
      "  auto *begin = tile + " +
      number(tile.place) +
      ";\n"
      "  for (int i = int(threadIdx.x); i < rows * stride; i += threads) {\n"
      "    const int row = i / stride, column = i % stride;\n"
      "    begin[row * stride + (column ^ row / Shape::lanes % Shape::groups * "
      "Shape::unit)] = x[i];\n"
      "  }\n"
      "  nano::syncBlock();\n"
      "  nano::storeColumns<T, rows, stride, threads, " +
      number(alignment) + ", " + number(tile.parts) + ", " + number(tile.first) +
      ">(tile, work.template pointer<T>(1), " + number(alignment / tile.bytes) + ", " +
      number(stride) + ", " + number(rows) + ", " + number(columns) + ", " + number(tile.place) +
      ");\n}\n";
  const size_t count = size_t(tile.rows) * tile.columns;
  const int first = alignment / tile.bytes;
  DeviceBuffer x("x", tile.bytes, count);
  for (size_t i = 0; i < x.bytes.size(); ++i)
    x.bytes[i] = std::byte(i * 2654435761u >> 24);
  DeviceBuffer y("y", tile.bytes, size_t(tile.columns) * stride + first);
  DeviceBuffer expected = y;
  for (int column = 0; column < std::min(columns, tile.columns); ++column)
    for (int row = 0; row < std::min(rows, tile.rows); ++row)
      std::copy_n(&x.bytes[(size_t(row) * tile.columns + column) * tile.bytes], tile.bytes,
                  &expected.bytes[(size_t(column) * stride + row + first) * tile.bytes]);
  TemplateRunner runner(text, {"columns"});
  ASSERT_EQ(runner.run("columns", {tile.threads, 1, (int(count) + tile.place) * tile.bytes},
                       {{&x}, {&y, true}}, 1),
            "");
  EXPECT_TRUE(y.bytes == expected.bytes);
}

} // namespace

TEST(TilesTemplate, WholeTiles) {
  for (const Tile &tile : {Tile{"f8e5m2", 1, 256, 128, 256}, Tile{"f8e4m3", 1, 128, 128, 256},
                           Tile{"f8e5m2", 1, 64, 256, 512}, Tile{"f8e4m3", 1, 32, 384, 128},
                           Tile{"bf16", 2, 64, 128, 256}, Tile{"bf16", 2, 8, 64, 32},
                           Tile{"float", 4, 32, 32, 64}, Tile{"bf16", 2, 128, 64, 256, 2},
                           Tile{"float", 4, 128, 64, 256, 4}, Tile{"float", 4, 64, 32, 64, 4}})
    check(tile, tile.rows, tile.columns, tile.rows + 16, 16);
}

TEST(TilesTemplate, CutOffAndBeyond) {
  check({"f8e5m2", 1, 256, 128, 256}, 203, 128, 304, 16);
  check({"f8e5m2", 1, 256, 128, 256}, 256, 77, 272, 16);
  check({"f8e4m3", 1, 64, 128, 512}, 5, 3, 67, 1);
  check({"bf16", 2, 64, 128, 256}, 100, 200, 72, 8);
  check({"float", 4, 32, 32, 64}, 31, 31, 33, 4);
  check({"float", 4, 128, 64, 256, 4}, 70, 61, 72, 16);
  check({"bf16", 2, 128, 64, 256, 2}, 127, 64, 132, 8);
}

// Threads behind others, of a second tile: what there is to do is less than they are, or more.
TEST(TilesTemplate, ThreadsOfTheirOwn) {
  check({"f8e5m2", 1, 64, 128, 512, 1, 160, 64 * 128}, 64, 128, 80, 16);
  check({"f8e4m3", 1, 256, 128, 256, 1, 128, 256 * 128}, 203, 128, 304, 16);
  check({"bf16", 2, 128, 64, 256, 2, 224, 128 * 64}, 127, 61, 132, 8);
}
