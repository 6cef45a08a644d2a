// Rows with more columns than a block of a GPU can add up in registers, of which sums of columns
// and all elements are computed, and rows that several dimensions make up and a broadcast cuts: on
// this machine and on the emulator, exactly as the interpreter has them. Numbers are whole, so that
// sums are exact.
#include "tests/codegen/Everywhere.h"

#include "gtest/gtest.h"

using namespace nano::test;

namespace {

TensorValue wholeNumbers(std::vector<int64_t> sizes, uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorValue x{std::move(sizes), {}};
  int64_t count = 1;
  for (int64_t size : x.shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    x.data.push_back(double(random() % 15) - 7);
  return x;
}

struct Case {
  int64_t parts, rows, columns;
  std::string element;
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.parts << "x" << c.rows << "x" << c.columns << c.element;
}

class WideColumnSums : public testing::TestWithParam<Case> {};

// What a bias of wide logits has: y = x + b, rounded, and the sums of y and of y·c over rows.
TEST_P(WideColumnSums, AreThoseOfTheElements) {
  const auto &[parts, rows, columns, element] = GetParam();
  const std::string vector = std::to_string(columns) + "xf32", all = std::to_string(parts * rows),
                    full = all + "x" + vector,
                    stored = all + "x" + std::to_string(columns) + "x" + element,
                    row = all + "xf32",
                    cut = std::to_string(parts) + "x" + std::to_string(rows) + "x" + vector,
                    sums = std::to_string(parts) + "x" + vector;
  std::string body, x = "%a0";
  if (element != "f32") {
    body += "    %x = nano.cast %a0 : tensor<" + stored + "> -> tensor<" + full + ">\n";
    x = "%x";
  }
  body += "    %b = nano.broadcast %a1 dims [1] : tensor<" + vector + "> -> tensor<" + full +
          ">\n    %c = nano.broadcast %a2 dims [0] : tensor<" + row + "> -> tensor<" + full +
          ">\n    %y = nano.add " + x + ", %b : tensor<" + full +
          ">\n    %z = nano.mul %y, %c : tensor<" + full + ">\n";
  for (const char *name : {"y", "z"})
    body += "    %" + std::string(name) + "3 = nano.reshape %" + name + " : tensor<" + full +
            "> -> tensor<" + cut + ">\n    %" + name + "s = nano.reduce sum %" + name +
            "3 dims [1] : tensor<" + cut + "> -> tensor<" + sums + ">\n";
  std::string out = "%z";
  if (element != "f32") {
    body += "    %o = nano.cast %z : tensor<" + full + "> -> tensor<" + stored + ">\n";
    out = "%o";
  }
  body += "    nano.yield " + out + ", %ys, %zs : tensor<" + stored + ">, tensor<" + sums +
          ">, tensor<" + sums + ">";
  expectExact(taskText({stored, vector, row}, {stored, sums, sums}, body),
              {wholeNumbers({parts * rows, columns}, 1), wholeNumbers({columns}, 2),
               wholeNumbers({parts * rows}, 3)});
}

// Whole strips, a part of one, and columns that are no multiple of a thread's.
INSTANTIATE_TEST_SUITE_P(Sizes, WideColumnSums,
                         testing::Values(Case{2, 4, 16640, "bf16"}, Case{1, 9, 20008, "bf16"},
                                         Case{2, 3, 8209, "f32"}, Case{1, 2, 70000, "bf16"}),
                         testing::PrintToStringParamName());

class NumbersOfRows : public testing::TestWithParam<Case> {};

// Fewer of them than there are sums, or as many, or more: r = 2c of every row, and the sums of
// x + r over rows.
TEST_P(NumbersOfRows, AreWrittenBesideSumsOfColumns) {
  const auto &[parts, rows, columns, element] = GetParam();
  const std::string row = std::to_string(parts) + "x" + std::to_string(rows) + "xf32",
                    sums = std::to_string(parts) + "x" + std::to_string(columns) + "xf32",
                    full = std::to_string(parts) + "x" + std::to_string(rows) + "x" +
                           std::to_string(columns) + "xf32";
  const std::string body = "    %r = nano.add %a1, %a1 : tensor<" + row +
                           ">\n    %b = nano.broadcast %r dims [0, 1] : " + "tensor<" + row +
                           "> -> tensor<" + full + ">\n    %y = nano.add %a0, %b : tensor<" + full +
                           ">\n    %s = nano.reduce sum %y dims [1] : tensor<" + full +
                           "> -> tensor<" + sums + ">\n    nano.yield %r, %s : tensor<" + row +
                           ">, tensor<" + sums + ">";
  expectExact(taskText({full, row}, {row, sums}, body),
              {wholeNumbers({parts, rows, columns}, 1), wholeNumbers({parts, rows}, 2)});
}

INSTANTIATE_TEST_SUITE_P(Sizes, NumbersOfRows,
                         testing::Values(Case{48, 2, 20, "f32"}, Case{5, 3, 20, "f32"},
                                         Case{3, 8, 8, "f32"}, Case{1, 100, 260, "f32"},
                                         Case{7, 9, 4, "f32"}),
                         testing::PrintToStringParamName());

// Two broadcasts, from behind the first dimension and of the first three, cut a row's place in
// different ways.
TEST(RowsOfDimensions, AreOneWhereverABroadcastCutsThem) {
  const std::string full = "2x3x5x16xf32", row = "2x3x5xf32", inner = "3x5x16xf32";
  const std::string body =
      "    %b = nano.broadcast %a1 dims [1, 2, 3] : tensor<" + inner + "> -> tensor<" + full +
      ">\n    %y = nano.add %a0, %b : tensor<" + full +
      ">\n    %m = nano.reduce max %y dims [3] : tensor<" + full + "> -> tensor<" + row +
      ">\n    %n = nano.broadcast %m dims [0, 1, 2] : tensor<" + row + "> -> tensor<" + full +
      ">\n    %z = nano.sub %y, %n : tensor<" + full +
      ">\n    %s = nano.reduce sum %z dims [3] : tensor<" + full + "> -> tensor<" + row +
      ">\n    %t = nano.broadcast %s dims [0, 1, 2] : tensor<" + row + "> -> tensor<" + full +
      ">\n    %u = nano.add %z, %t : tensor<" + full + ">\n    nano.yield %u : tensor<" + full +
      ">";
  expectExact(taskText({full, inner}, {full}, body),
              {wholeNumbers({2, 3, 5, 16}, 1), wholeNumbers({3, 5, 16}, 2)});
}

} // namespace
