// Scaled products block by block in f64, with scales read in the plan's order or in wrong ones.
#include "tests/runtime/cuda/BlockProducts.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace nano::test {

using namespace plan;

namespace {

using Strides = std::array<int64_t, 2>;

int64_t padded(int64_t count) { return (count + 3) / 4 * 4; }

/// One operand's scales: how many, and what lies in their buffer.
struct Scales {
  int64_t outer, blocks, rows;
  Strides strides;
  std::vector<float> values;

  Scales(int64_t size, int64_t k, int64_t rows, const Strides &strides)
      : outer(size / rows), blocks(k / 128), rows(rows), strides(strides) {}
  size_t at(const Strides &each, int64_t row, int64_t x) const {
    return size_t(row / rows * each[0] + x / 128 * each[1]);
  }
  /// Powers of two, no two neighbours the same, NaN where there is no scale.
  void fill(size_t count, int64_t seed) {
    values.assign(count, std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t j = 0; j < blocks; ++j)
        values[size_t(i * strides[0] + j * strides[1])] =
            std::ldexp(1.0F, int((i * 3 + i / 7 + j * 5 + seed) % 4) - 2);
  }
};

/// How a scale is read.
struct Reading {
  const char *name;
  Strides (*strides)(const Scales &scales); ///< null: as the plan says
  bool isInverse = false;
};
constexpr Reading readings[] = {
    {"as the plan says", nullptr},
    {"as their inverses", nullptr, true},
    {"as [m][k/128]", [](const Scales &s) { return Strides{s.blocks, 1}; }},
    {"as [m][k/128, padded to 4]", [](const Scales &s) { return Strides{padded(s.blocks), 1}; }},
    {"as [k/128][m]", [](const Scales &s) { return Strides{1, s.outer}; }},
    {"as [k/128][m, padded to 4]", [](const Scales &s) { return Strides{1, padded(s.outer)}; }},
    {"as the same for all k", [](const Scales &s) { return Strides{s.strides[0], 0}; }},
    {"as the same for all rows", [](const Scales &s) { return Strides{0, s.strides[1]}; }},
};

/// The scale of every row and block as `reading` finds it; empty when that leaves the buffer.
std::vector<double> spread(const Scales &scales, const Reading &reading) {
  Strides strides = reading.strides ? reading.strides(scales) : scales.strides;
  std::vector<double> list;
  for (int64_t row = 0; row < scales.outer * scales.rows; ++row)
    for (int64_t block = 0; block < scales.blocks; ++block) {
      size_t at = scales.at(strides, row, block * 128);
      if (at >= scales.values.size())
        return {};
      double scale = scales.values[at];
      list.push_back(reading.isInverse ? 1 / scale : scale);
    }
  return list;
}

/// What one product reads and writes.
struct Operands {
  std::vector<std::byte> a, b, c;
  Scales scaleA, scaleB;
  std::vector<double> sums = {}; ///< [m][n][k/128], of the elements without scales

  void sum(const plan::Matmul &command) {
    auto decode = [](const std::vector<std::byte> &bytes, DType type) {
      std::vector<float> values(bytes.size());
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = valueAt(bytes.data(), type, int64_t(i));
      return values;
    };
    std::vector<float> left = decode(a, command.aType), right = decode(b, command.bType);
    sums.clear();
    for (int64_t i = 0; i < command.m; ++i)
      for (int64_t j = 0; j < command.n; ++j)
        for (int64_t x = 0; x < command.k; x += 128) {
          float total = 0; // exact
          for (int64_t y = x; y < x + 128; ++y)
            total += left[size_t(i * command.lda + y)] * right[size_t(j * command.ldb + y)];
          sums.push_back(total);
        }
  }
  /// Element (i, j) of the result by these scales, before it is rounded.
  double result(const plan::Matmul &command, const std::vector<double> &left,
                const std::vector<double> &right, int64_t i, int64_t j) const {
    const int64_t blocks = command.k / 128;
    double total = 0;
    for (int64_t x = 0; x < blocks; ++x)
      total += left[size_t(i * blocks + x)] * right[size_t(j * blocks + x)] *
               sums[size_t((i * command.n + j) * blocks + x)];
    total *= command.alpha;
    if (command.beta != 0)
      total += command.beta * valueAt(c.data(), command.cType, i * command.ldc + j);
    return total;
  }
};

/// The first element of `found` that these readings do not give, "" when there is none.
std::string difference(const plan::Matmul &command, const Operands &operands,
                       const std::vector<std::byte> &found, const Reading &left,
                       const Reading &right) {
  std::vector<double> scalesA = spread(operands.scaleA, left),
                      scalesB = spread(operands.scaleB, right);
  if (scalesA.empty() || scalesB.empty())
    return "the scales end before";
  std::byte rounded[4];
  for (int64_t i = 0; i < command.m; ++i)
    for (int64_t j = 0; j < command.n; ++j) {
      setValue(rounded, command.cType, 0, float(operands.result(command, scalesA, scalesB, i, j)));
      float wanted = valueAt(rounded, command.cType, 0),
            got = valueAt(found.data(), command.cType, i * command.ldc + j);
      if (got != wanted)
        return "C[" + std::to_string(i) + "][" + std::to_string(j) + "] is " + std::to_string(got) +
               ", not " + std::to_string(wanted);
    }
  return "";
}

/// The readings that give what was found.
std::string explanation(const plan::Matmul &command, const Operands &operands,
                        const std::vector<std::byte> &found) {
  for (const Reading &left : readings)
    for (const Reading &right : readings)
      if (difference(command, operands, found, left, right).empty())
        return std::string("; it is the product with A's scales read ") + left.name +
               " and B's read " + right.name;
  return "; no reading of the scales that this test knows gives it";
}

} // namespace

std::vector<ProductCase> blockProductCases(int64_t rows) {
  std::vector<ProductCase> cases;
  auto add = [&](const char *name, int64_t rowsA, int64_t rowsB, DType type, int64_t m, int64_t n,
                 int64_t k, double beta = 0) {
    plan::Matmul command;
    command.m = m, command.n = n, command.k = k;
    command.aType = command.bType = DType::F8E4M3FN;
    command.cType = type;
    command.transposeB = true;
    command.lda = command.ldb = k;
    command.ldc = command.ldd = n;
    command.beta = beta;
    auto strides = [&](int64_t size, int64_t rows) {
      return rows == 1 ? Strides{1, padded(size)} : Strides{padded(k / 128), 1};
    };
    command.scales = {{}, {}, 128, rowsA, rowsB, strides(m, rowsA), strides(n, rowsB)};
    cases.push_back({name, command});
  };
  const DType bf16 = DType::BF16, f32 = DType::F32;
  add("rows_blocks_bf16", 1, 128, bf16, rows, 256, 640);
  add("rows_blocks_f32", 1, 128, f32, rows, 256, 640);
  add("rows_blocks_one_block", 1, 128, bf16, rows, 128, 128);
  add("rows_blocks_padded_by_one", 1, 128, bf16, rows, 256, 384);
  add("rows_rows_bf16", 1, 1, bf16, rows, 2 * rows, 384);
  add("rows_rows_f32", 1, 1, f32, rows, 2 * rows, 384);
  add("rows_rows_added_in_place", 1, 1, f32, rows, 2 * rows, 384, 1);
  add("blocks_rows_bf16", 128, 1, bf16, 256, 2 * rows, 640);
  add("blocks_rows_f32", 128, 1, f32, 256, 2 * rows, 640);
  return cases;
}

std::string blockProductError(Device &device, const Plan &plan) {
  const auto &command = *plan.programs[0].commands[0].as<plan::Matmul>();
  auto write = [&](const Ref &ref, const void *data, size_t bytes) {
    Status status = device.write(ref.buffer, 0, data, bytes);
    return status ? std::string() : status.error().message;
  };
  for (int64_t run = 0; run < 3; ++run) {
    auto bytes = [&](const Ref &ref, int64_t seed) {
      return operandBytes(plan.buffers[ref.buffer], uint64_t(4 * run + seed));
    };
    Operands operands = {bytes(command.a, 1),
                         bytes(command.b, 2),
                         bytes(command.c, 3),
                         {command.m, command.k, command.scales->rowsA, command.scales->stridesA},
                         {command.n, command.k, command.scales->rowsB, command.scales->stridesB}};
    operands.scaleA.fill(plan.buffers[command.scales->a.buffer].bytes / 4, run);
    operands.scaleB.fill(plan.buffers[command.scales->b.buffer].bytes / 4, run + 1);
    operands.sum(command);
    const Scales &a = operands.scaleA, &b = operands.scaleB;
    std::string failure = write(command.a, operands.a.data(), operands.a.size()) +
                          write(command.b, operands.b.data(), operands.b.size()) +
                          write(command.c, operands.c.data(), operands.c.size()) +
                          write(command.scales->a, a.values.data(), 4 * a.values.size()) +
                          write(command.scales->b, b.values.data(), 4 * b.values.size());
    if (!failure.empty())
      return failure;
    if (Status status = device.run(plan.programs[0].name); !status)
      return status.error().message;
    std::vector<std::byte> found(operands.c.size());
    if (Status status = device.read(command.c.buffer, 0, found.data(), found.size()); !status)
      return status.error().message;
    std::string wrong = difference(command, operands, found, readings[0], readings[0]);
    if (!wrong.empty())
      return "run " + std::to_string(run) + ": " + wrong + explanation(command, operands, found);
  }
  return "";
}

} // namespace nano::test
