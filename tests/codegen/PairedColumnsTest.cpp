// Last dimensions of two columns, and of four: rotated, repeated and counted within vectors and in
// rows that these do not divide, on this machine and on the emulator, exactly as the interpreter
// has them.
#include "tests/codegen/Everywhere.h"

#include "gtest/gtest.h"

using namespace nano::test;

namespace {

struct Case {
  std::vector<int64_t> rows; ///< and, last, how many times a row has the few columns
  int64_t few, shift;
};

std::ostream &operator<<(std::ostream &os, const Case &each) {
  for (int64_t size : each.rows)
    os << size << "x";
  return os << each.few << "_" << each.shift;
}

std::string sizesText(const std::vector<int64_t> &sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text;
}

class PairedColumns : public testing::TestWithParam<Case> {};

TEST_P(PairedColumns, AreTurned) {
  const auto &[rows, few, shift] = GetParam();
  std::vector<int64_t> sizes = rows;
  sizes.push_back(few);
  std::mt19937_64 random(23);
  const auto numbers = [&](const std::vector<int64_t> &shape) {
    TensorValue x{shape, {}};
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    for (int64_t i = 0; i < count; ++i)
      x.data.push_back(double(random() % 15));
    return x;
  };
  // One number for each few columns, of all but the second last dimension of rows.
  std::vector<int64_t> ofFew = rows;
  std::string dims = "0";
  if (rows.size() > 2)
    ofFew.erase(ofFew.end() - 2);
  for (size_t dim = 1; dim < rows.size(); ++dim)
    if (rows.size() <= 2 || dim + 2 != rows.size())
      dims += ", " + std::to_string(dim);
  for (const char *element : {"f32", "bf16"}) {
    const std::string x = sizesText(sizes) + element, s = sizesText(ofFew) + element,
                      all = "tensor<" + x + ">", count = "tensor<" + sizesText(sizes) + "i32>";
    expectExact(
        taskText({x, s}, {x},
                 "    %r = nano.rotate %a0 by " + std::to_string(shift) + " : " + all +
                     "\n    %s = nano.broadcast %a1 dims [" + dims + "] : tensor<" + s + "> -> " +
                     all + "\n    %p = nano.mul %r, %s : " + all + "\n    %n = nano.neg %p : " +
                     all + "\n    %i = nano.iota " + std::to_string(rows.size()) + " : " + count +
                     "\n    %c = nano.constant 1.0 : " + count +
                     "\n    %t = nano.select lt, %i, %c, %n, %p : " + count + ", " + all +
                     "\n    %y = nano.add %a0, %t : " + all + "\n    nano.yield %y : " + all),
        {numbers(sizes), numbers(ofFew)});
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PairedColumns,
                         testing::Values(Case{{5, 3, 8}, 2, 1}, Case{{33, 16}, 2, 1},
                                         Case{{7, 2, 6}, 4, 3}, Case{{3, 40}, 4, 1},
                                         Case{{9, 13}, 2, 1}, Case{{2, 70}, 2, 1},
                                         Case{{4, 3, 5}, 2, 1}, Case{{6, 1}, 2, 1},
                                         Case{{3, 2, 67}, 4, 2}, Case{{300, 32}, 2, 1}),
                         testing::PrintToStringParamName());

} // namespace
