// Dimensions in another order, alone and inside of kernels with a reduction and arithmetic, on this
// machine and on the emulator, exactly as the interpreter has them.
#include "tests/codegen/Everywhere.h"

#include "gtest/gtest.h"

using namespace nano::test;

namespace {

struct Case {
  std::vector<int64_t> sizes, order;
};

std::ostream &operator<<(std::ostream &os, const Case &each) {
  for (int64_t size : each.sizes)
    os << size << "x";
  for (int64_t dim : each.order)
    os << "_" << dim;
  return os;
}

std::string typeText(const std::vector<int64_t> &sizes, const std::string &element) {
  std::string text;
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + element;
}

class Permute : public testing::TestWithParam<Case> {};

TEST_P(Permute, MovesElements) {
  const auto &[sizes, order] = GetParam();
  std::vector<int64_t> moved;
  std::string dims;
  for (int64_t dim : order) {
    moved.push_back(sizes[dim]);
    dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
  }
  std::mt19937_64 random(19);
  for (const char *element : {"f32", "bf16", "i32", "i16"}) {
    const std::string from = typeText(sizes, element), to = typeText(moved, element);
    TensorValue x{sizes, {}};
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    for (int64_t i = 0; i < count; ++i)
      x.data.push_back(double(random() % 250));
    const std::string permuted = "    %p = nano.permute %a0 order [" + dims + "] : tensor<" + from +
                                 "> -> tensor<" + to + ">\n";
    expectExact(taskText({from}, {to}, permuted + "    nano.yield %p : tensor<" + to + ">"), {x});
    if (std::string(element) != "f32")
      continue;
    // Beside what lies in the result's order; whole numbers, so that sums are exact.
    expectExact(taskText({from, to}, {to},
                         permuted + "    %y = nano.add %p, %a1 : tensor<" + to +
                             ">\n    nano.yield %y : tensor<" + to + ">"),
                {x, TensorValue{moved, x.data}});
    std::vector<int64_t> rows(moved.begin(), moved.end() - 1);
    const std::string row = typeText(rows, element);
    expectExact(taskText({from}, {row},
                         permuted + "    %y = nano.reduce sum %p dims [" +
                             std::to_string(rows.size()) + "] : tensor<" + to + "> -> tensor<" +
                             row + ">\n    nano.yield %y : tensor<" + row + ">"),
                {x});
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Permute,
                         testing::Values(Case{{3, 5}, {1, 0}}, Case{{1, 7}, {1, 0}},
                                         Case{{7, 1}, {1, 0}}, Case{{33, 64}, {1, 0}},
                                         Case{{4, 3, 8}, {1, 0, 2}}, Case{{4, 3, 17}, {2, 0, 1}},
                                         Case{{5, 2, 32}, {0, 2, 1}},
                                         Case{{2, 3, 4, 5}, {3, 1, 0, 2}},
                                         Case{{6, 1, 16}, {2, 1, 0}}, Case{{18, 3, 20}, {2, 1, 0}},
                                         Case{{3, 20, 17}, {0, 2, 1}}),
                         testing::PrintToStringParamName());

} // namespace
