// Random bits of generated kernels: the known answers of Random123's Philox 4x32-10, every kernel
// against the interpreter bit for bit, and what statistics ask of them: chi-squares of bytes, runs,
// and correlations of neighbours along each of what they are keyed by, each within 4.5 deviations.
// And normal numbers of bits against Box and Muller's formula in double precision.
#include "tests/codegen/Everywhere.h"

#include "gtest/gtest.h"

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

using namespace nano::test;

namespace {

double asI32(uint32_t bits) { return static_cast<int32_t>(bits); }

/// Bits of the operands, six i32 tensors of n numbers.
std::string philoxText(int64_t n) {
  const std::string type = std::to_string(n) + "xi32", tensor = "tensor<" + type + ">";
  return taskText(std::vector<std::string>(6, type), {type},
                  "    %y = nano.philox counter(%a0, %a1, %a2, %a3) key(%a4, %a5) : " + tensor +
                      "\n    nano.yield %y : " + tensor);
}

TEST(RandomBits, AreTheKnownAnswers) {
  struct Known {
    std::array<uint32_t, 4> counter;
    std::array<uint32_t, 2> key;
    std::array<uint32_t, 4> words;
  };
  // The file kat_vectors of Random123, without the one whose first word has more than 30 bits.
  const Known all[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                       {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                        {0xa4093822, 0x299f31d0},
                        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Known &known : all) {
    std::vector<TensorValue> operands(6, TensorValue{{4}, std::vector<double>(4)});
    for (uint32_t word = 0; word < 4; ++word) {
      operands[0].data[word] = asI32(4 * known.counter[0] + word);
      for (int i = 1; i < 4; ++i)
        operands[i].data[word] = asI32(known.counter[i]);
      for (int i = 0; i < 2; ++i)
        operands[4 + i].data[word] = asI32(known.key[i]);
    }
    runEverywhere(philoxText(4), operands, [&](const std::vector<TensorValue> &results) {
      for (int word = 0; word < 4; ++word)
        EXPECT_EQ(results[0].data[word], asI32(known.words[word])) << "word " << word;
    });
  }
}

TEST(RandomBits, AreThoseOfAnyOperands) {
  std::mt19937_64 random(3);
  for (int64_t n : {1, 7, 64, 133}) {
    std::vector<TensorValue> operands(6, TensorValue{{n}, std::vector<double>(n)});
    for (TensorValue &operand : operands)
      for (double &x : operand.data)
        x = asI32(static_cast<uint32_t>(random()));
    expectExact(philoxText(n), operands);
  }
}

/// As the front end asks for them: columns and rows of a tensor, the rest the same everywhere.
std::string tensorText(int64_t rows, int64_t columns) {
  const std::string type = std::to_string(rows) + "x" + std::to_string(columns) + "xi32",
                    tensor = "tensor<" + type + ">";
  std::string body = "    %c = nano.iota 1 : " + tensor + "\n    %r = nano.iota 0 : " + tensor;
  for (int i = 0; i < 4; ++i)
    body += "\n    %b" + std::to_string(i) + " = nano.broadcast %a" + std::to_string(i) +
            " dims [] : tensor<i32> -> " + tensor;
  body += "\n    %y = nano.philox counter(%c, %r, %b0, %b1) key(%b2, %b3) : " + tensor +
          "\n    nano.yield %y : " + tensor;
  return taskText(std::vector<std::string>(4, "i32"), {type}, body);
}

TEST(RandomBits, OfRowsAreThoseOfTheirPositions) {
  const std::vector<TensorValue> key = {TensorValue{{}, {5}}, TensorValue{{}, {2}},
                                        TensorValue{{}, {asI32(0xdeadbeef)}}, TensorValue{{}, {1}}};
  for (auto [rows, columns] : {std::pair(1, 1), {1, 7}, {5, 1}, {3, 130}, {4, 64}, {9, 128}})
    expectExact(tensorText(rows, columns), key);
  // So many that groups of a kernel's threads take four, or two, in turn.
  for (auto [rows, columns] : {std::pair(301, 128), {131, 130}})
    expectExact(tensorText(rows, columns), key);
}

TEST(RandomBits, AreNormalNumbers) {
  std::mt19937_64 random(4);
  // The least and the largest radius, and angles at and around whole quarters.
  std::vector<uint32_t> edges = {0, 0xff, 0x100, 0x1ff, 0x7fffffff, 0xfffffeff, 0xffffffff};
  for (uint32_t quarter : {0x40000000u, 0x80000000u, 0xc0000000u})
    for (uint32_t off : {0u, 0x100u, 0xffffff00u})
      edges.push_back(quarter + off);
  const int64_t n = int64_t(edges.size() * edges.size()) + 4096;
  std::vector<TensorValue> operands(3, TensorValue{{n}, std::vector<double>(n)});
  std::vector<double> radii, wanted;
  for (int64_t i = 0; i < n; ++i) {
    const bool isEdge = i < n - 4096;
    const uint32_t radius = isEdge ? edges[i % edges.size()] : uint32_t(random()),
                   angle = isEdge ? edges[i / edges.size()] : uint32_t(random());
    const double side = double(random() % 3), turn = 2 * std::numbers::pi * (angle >> 8) * 0x1p-24;
    operands[0].data[i] = asI32(radius);
    operands[1].data[i] = asI32(angle);
    operands[2].data[i] = side;
    radii.push_back(std::sqrt(-2 * std::log(1 - (radius >> 8) * 0x1p-24)));
    wanted.push_back(radii.back() * (side == 0 ? std::cos(turn) : std::sin(turn)));
  }
  const std::string bits = std::to_string(n) + "xi32", numbers = std::to_string(n) + "xf32";
  const std::string text =
      taskText({bits, bits, bits}, {numbers},
               "    %y = nano.normal %a0, %a1, %a2 : tensor<" + bits + "> -> tensor<" + numbers +
                   ">\n    nano.yield %y : tensor<" + numbers + ">");
  runEverywhere(text, operands, [&](const std::vector<TensorValue> &results) {
    // Some units in the last place of the radius, and of a sine near 1.
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(results[0].data[i], wanted[i], 4e-7 * radii[i]) << i;
  });
}

/// 1024 × 1024 numbers of one use of one sequence, from the first generated kernel.
std::vector<uint32_t> numbersOf(int32_t sequence, int32_t use, int32_t seed) {
  auto runner = TaskRunner::make(tensorText(1024, 1024), emitRow, TaskRunner::lanes().back());
  EXPECT_TRUE(runner);
  for (auto [i, number] : {std::pair(0, sequence), {1, use}, {2, seed}, {3, 0}})
    runner->setInput(i, TensorValue{{}, {double(number)}});
  runner->run();
  std::vector<uint32_t> bits;
  for (double number : runner->output(0).data)
    bits.push_back(static_cast<uint32_t>(static_cast<int32_t>(number)));
  return bits;
}

constexpr double deviations = 4.5;

double unit(uint32_t bits) { return (bits + 0.5) * 0x1p-32 - 0.5; }

/// Correlation of x with y in its deviations.
double correlation(const std::vector<uint32_t> &x, const std::vector<uint32_t> &y, size_t shift) {
  double sum = 0;
  const size_t count = x.size() - shift;
  for (size_t i = 0; i < count; ++i)
    sum += unit(x[i]) * unit(y[i + shift]);
  return sum * 12 / std::sqrt(double(count));
}

TEST(RandomBits, LookRandom) {
  const std::vector<uint32_t> x = numbersOf(0, 0, 0);
  const auto count = double(x.size());
  // Every byte has every value equally often: 255 degrees of freedom.
  for (int byte = 0; byte < 4; ++byte) {
    std::array<double, 256> seen = {};
    for (uint32_t bits : x)
      ++seen[bits >> 8 * byte & 0xff];
    double chiSquare = 0;
    for (double each : seen)
      chiSquare += (each - count / 256) * (each - count / 256) / (count / 256);
    EXPECT_NEAR(chiSquare, 255, deviations * std::sqrt(2 * 255.0)) << "byte " << byte;
  }
  // Every bit is one half of the time.
  for (int bit = 0; bit < 32; ++bit) {
    double ones = 0;
    for (uint32_t bits : x)
      ones += bits >> bit & 1;
    EXPECT_NEAR(ones, count / 2, deviations * std::sqrt(count) / 2) << "bit " << bit;
  }
  // Runs up and down (Wald and Wolfowitz): (2n − 1)/3 of them, variance (16n − 29)/90.
  double runs = 1;
  for (size_t i = 2; i < x.size(); ++i)
    runs += (x[i] > x[i - 1]) != (x[i - 1] > x[i - 2]);
  EXPECT_NEAR(runs, (2 * count - 1) / 3, deviations * std::sqrt((16 * count - 29) / 90));
  // No neighbour along columns, blocks or rows says anything of a number.
  for (size_t shift : {1, 2, 3, 4, 5, 8, 1023, 1024, 1025, 4096})
    EXPECT_LT(std::abs(correlation(x, x, shift)), deviations) << "shift " << shift;
  // Nor does the same place of another sequence, use or seed; half of all bits differ.
  for (auto [sequence, use, seed] : {std::tuple(1, 0, 0), {0, 1, 0}, {0, 0, 1}, {1 << 20, 0, 0}}) {
    const std::vector<uint32_t> y = numbersOf(sequence, use, seed);
    EXPECT_LT(std::abs(correlation(x, y, 0)), deviations) << sequence << " " << use << " " << seed;
    double differing = 0;
    for (size_t i = 0; i < x.size(); ++i)
      differing += std::popcount(x[i] ^ y[i]);
    EXPECT_NEAR(differing, 16 * count, deviations * std::sqrt(32 * count) / 2);
  }
}

} // namespace
