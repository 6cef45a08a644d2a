// Matrix products of the CPU device against sums in f64: all transposes, types, batches, leading
// dimensions and additions.
//
// Tolerance, per element of C: the f32 sum of k products may be off by (k + 8)·2⁻²⁴ of the sum of
// their magnitudes (the worst case of any order of summation), and rounding C to bf16 adds 2⁻⁸ of
// the value. Operands are exact in their type.
#include "runtime/Device.h"
#include "runtime/NumberFormats.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace nano {
namespace {

using plan::DType;
using test::PlanBuilder;

/// Elements of one type as bytes, and their values.
struct Data {
  Data(DType type, int64_t count, std::mt19937 &random) : type(type), bytes(), values() {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < count; ++i)
      append(uniform(random), random);
  }
  void append(float value, std::mt19937 &random) {
    auto push = [&](auto bits) {
      bytes.append(reinterpret_cast<const char *>(&bits), sizeof bits);
    };
    if (type == DType::F32) {
      push(value);
      values.push_back(value);
    } else if (type == DType::BF16) {
      push(toBf16(value));
      values.push_back(fromBf16(toBf16(value)));
    } else {
      uint8_t bits = uint8_t(random() & 0xbb); // the exponent's upper bit is clear: small, finite
      push(bits);
      values.push_back(type == DType::F8E4M3FN ? fromE4m3(bits) : fromE5m2(bits));
    }
  }

  DType type;
  std::string bytes;
  std::vector<double> values;
};

struct Case {
  DType a = DType::F32, b = DType::F32, c = DType::F32;
  bool transposeA = false, transposeB = false;
  int64_t m = 1, n = 1, k = 1, batch = 1;
  int64_t pad = 0;      ///< elements between rows, and between matrices of a batch
  bool sharedB = false; ///< one B for the whole batch
  double alpha = 1, beta = 0;
  bool inPlace = false;
  int threads = 1;
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << nameOf(c.a) << "·" << nameOf(c.b) << "→" << nameOf(c.c)
             << (c.transposeA ? " T" : " N") << (c.transposeB ? "T " : "N ") << c.m << "×" << c.n
             << "×" << c.k << " batch " << c.batch << " pad " << c.pad
             << (c.sharedB ? " shared B" : "") << " alpha " << c.alpha << " beta " << c.beta
             << (c.inPlace ? " in place" : "") << " threads " << c.threads;
}

/// Runs the product on the device; the bytes of C, checked against f64 when `check`.
std::string multiply(const Case &t, bool check = true) {
  std::mt19937 random(unsigned(t.m * 31 + t.n * 7 + t.k));
  PlanBuilder builder;
  int64_t rowsA = t.transposeA ? t.k : t.m, columnsA = t.transposeA ? t.m : t.k;
  int64_t rowsB = t.transposeB ? t.n : t.k, columnsB = t.transposeB ? t.k : t.n;
  int64_t lda = columnsA + t.pad, ldb = columnsB + 2 * t.pad, ldc = t.n + t.pad,
          ldd = t.inPlace ? ldc : t.n + 3 * t.pad;
  int64_t strideA = rowsA * lda + t.pad, strideB = t.sharedB ? 0 : rowsB * ldb + t.pad,
          strideC = t.m * ldc + t.pad, strideD = t.inPlace ? strideC : t.m * ldd;
  int64_t batchB = t.sharedB ? 1 : t.batch;
  Data a(t.a, t.batch * strideA, random);
  Data b(t.b, batchB * (rowsB * ldb + t.pad), random);
  Data c(t.c, t.batch * strideC, random);
  Data d(t.c, t.batch * strideD, random);
  uint32_t bufferA = builder.buffer("a", t.a, {t.batch * strideA});
  uint32_t bufferB = builder.buffer("b", t.b, {batchB * (rowsB * ldb + t.pad)});
  uint32_t bufferC = builder.buffer("c", t.c, {t.batch * strideC});
  uint32_t bufferD = builder.buffer("d", t.c, {t.batch * strideD});
  auto &command = builder.add<plan::Matmul>();
  command.a = {bufferA, 0};
  command.b = {bufferB, 0};
  command.c = {bufferC, 0, true, false};
  command.d = {t.inPlace ? bufferC : bufferD, 0};
  command.aType = t.a, command.bType = t.b, command.cType = t.c;
  command.transposeA = t.transposeA, command.transposeB = t.transposeB;
  command.m = t.m, command.n = t.n, command.k = t.k, command.batch = t.batch;
  command.lda = lda, command.ldb = ldb, command.ldc = ldc, command.ldd = ldd;
  command.strideA = strideA, command.strideB = strideB;
  command.strideC = strideC, command.strideD = strideD;
  command.alpha = t.alpha, command.beta = t.beta;

  Status valid = plan::validate(builder.plan);
  EXPECT_TRUE(valid) << t << ": " << valid.error().message;
  LocalGroup group(1);
  DeviceOptions options;
  options.threads = t.threads;
  auto device = loadDevice(builder.plan, group.communicator(0), options);
  EXPECT_TRUE(device) << t << ": " << device.error().message;
  if (!device)
    return "";
  std::pair<uint32_t, const Data *> inputs[] = {
      {bufferA, &a}, {bufferB, &b}, {bufferC, &c}, {bufferD, &d}};
  for (auto [buffer, data] : inputs)
    EXPECT_TRUE((*device)->write(buffer, 0, data->bytes.data(), data->bytes.size()));
  Status status = (*device)->run("main");
  EXPECT_TRUE(status) << t << ": " << status.error().message;
  std::string result(c.bytes.size(), '\0');
  EXPECT_TRUE((*device)->read(bufferC, 0, result.data(), result.size()));
  if (!check)
    return result;

  std::vector<char> written(c.values.size());
  auto value = [&](int64_t at) {
    uint64_t size = plan::sizeOf(t.c);
    if (t.c == DType::F32) {
      float f;
      std::memcpy(&f, result.data() + uint64_t(at) * size, size);
      return double(f);
    }
    uint16_t bits;
    std::memcpy(&bits, result.data() + uint64_t(at) * size, size);
    return double(fromBf16(bits));
  };
  const Data &added = t.inPlace ? c : d;
  for (int64_t i = 0; i < t.batch; ++i)
    for (int64_t row = 0; row < t.m; ++row)
      for (int64_t column = 0; column < t.n; ++column) {
        double sum = 0, magnitude = 0;
        for (int64_t j = 0; j < t.k; ++j) {
          int64_t atA = i * strideA + (t.transposeA ? j * lda + row : row * lda + j);
          int64_t atB = i * strideB + (t.transposeB ? column * ldb + j : j * ldb + column);
          double term = t.alpha * a.values[size_t(atA)] * b.values[size_t(atB)];
          sum += term;
          magnitude += std::abs(term);
        }
        if (t.beta != 0) {
          double term = t.beta * added.values[size_t(i * strideD + row * ldd + column)];
          sum += term;
          magnitude += std::abs(term);
        }
        int64_t at = i * strideC + row * ldc + column;
        written[size_t(at)] = 1;
        double tolerance = magnitude * double(t.k + 8) * std::ldexp(1, -24);
        if (t.c == DType::BF16)
          tolerance += std::abs(sum) * std::ldexp(1, -8);
        if (std::abs(value(at) - sum) > tolerance) {
          ADD_FAILURE() << t << ": C[" << i << "," << row << "," << column << "] is " << value(at)
                        << ", not " << sum << " ± " << tolerance;
          return result;
        }
      }
  for (size_t at = 0; at < written.size(); ++at)
    if (!written[at] && value(int64_t(at)) != c.values[at]) {
      ADD_FAILURE() << t << ": wrote to the padding at element " << at;
      break;
    }
  return result;
}

constexpr bool no = false, yes = true;

TEST(CpuMatmul, AllTransposesTypesAndPaddings) {
  struct Types {
    DType a, b, c;
  };
  for (Types types : {Types{DType::F32, DType::F32, DType::F32},
                      {DType::BF16, DType::BF16, DType::BF16},
                      {DType::BF16, DType::BF16, DType::F32}})
    for (bool transposeA : {no, yes})
      for (bool transposeB : {no, yes})
        for (int64_t batch : {1, 3})
          for (int64_t pad : {0, 5})
            for (auto [m, n, k] : {std::array<int64_t, 3>{33, 70, 17}, {64, 128, 96}})
              multiply({types.a, types.b, types.c, transposeA, transposeB, m, n, k, batch, pad, no,
                        1, 0, no, m == 64 ? 2 : 1});
}

TEST(CpuMatmul, ScalesAndAdds) {
  for (DType type : {DType::F32, DType::BF16})
    for (DType result : {DType::F32, type})
      for (bool transposed : {no, yes})
        for (int64_t pad : {0, 3})
          for (double alpha : {1.0, 0.12})
            for (double beta : {1.0, -4.775})
              for (bool inPlace : {no, yes})
                for (int64_t batch : {1, 2})
                  multiply({type, type, result, transposed, !transposed, 40, 65, 130, batch, pad,
                            no, alpha, beta, inPlace});
}

TEST(CpuMatmul, ExtremeShapes) {
  for (DType type : {DType::F32, DType::BF16})
    for (bool transposeA : {no, yes})
      for (bool transposeB : {no, yes})
        for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                               {1, 300, 64},
                               {300, 1, 64},
                               {64, 64, 1},
                               {1, 1, 700},
                               {2, 3, 5}})
          for (int64_t batch : {1, 4})
            multiply({type, type, type, transposeA, transposeB, m, n, k, batch, 0});
}

/// Large enough for products that are packed by the device itself, where the processor has their
/// instructions: edges of tiles, odd k, either operand the smaller one, more elements along k than
/// are multiplied at once, long sums with nothing transposed, weights' rows forward.
TEST(CpuMatmul, WeightGradients) {
  for (bool transposeB : {no, yes})
    for (auto [m, n, k] : {std::array<int64_t, 3>{256, 304, 257}, {331, 257, 300}})
      multiply({DType::BF16, DType::BF16, m == 256 ? DType::F32 : DType::BF16, yes, transposeB, m,
                n, k, 1, 3, no, 1, 0, no, 2});
  for (DType result : {DType::F32, DType::BF16})
    for (bool inPlace : {no, yes})
      multiply({DType::BF16, DType::BF16, result, yes, inPlace, 256, 257, 259, 2, 1, inPlace, 0.12,
                -4.775, inPlace, 3});
  multiply({DType::BF16, DType::BF16, DType::BF16, no, no, 256, 260, 8195, 1, 1, no, 1, 0, no, 2});
  multiply({DType::BF16, DType::BF16, DType::BF16, no, yes, 280, 314, 290, 1, 3});
  // Results that are written past the caches, whole lines of them and others.
  for (int64_t n : {544, 552})
    for (DType result : {DType::F32, DType::BF16})
      multiply({DType::BF16, DType::BF16, result, yes, no, 2048, n, 256, 1, 0, no, 0.5, 0, no, 2});
  for (double beta : {0.0, 0.5})
    multiply({DType::BF16, DType::BF16, beta == 0 ? DType::F32 : DType::BF16, yes, no, 257, 256,
              4101, 1, 0, no, 1, beta, no, 2});
}

TEST(CpuMatmul, OneMatrixForAWholeBatch) {
  for (DType type : {DType::F32, DType::BF16})
    for (bool transposeB : {no, yes})
      multiply({type, type, DType::F32, no, transposeB, 24, 40, 32, 5, 2, yes});
}

TEST(CpuMatmul, ConvertsWhatTheLibraryDoesNotTake) {
  struct Types {
    DType a, b, c;
  };
  for (Types types : {Types{DType::F8E4M3FN, DType::F8E4M3FN, DType::BF16},
                      {DType::F8E5M2, DType::F8E4M3FN, DType::F32},
                      {DType::BF16, DType::F32, DType::F32},
                      {DType::F32, DType::F32, DType::BF16}})
    for (bool transposeA : {no, yes})
      for (bool transposeB : {no, yes})
        for (double beta : {0.0, 0.5})
          for (bool inPlace : {no, yes})
            for (int64_t pad : {0, 3})
              multiply({types.a, types.b, types.c, transposeA, transposeB, 20, 33, 48, 2, pad, no,
                        0.25, beta, inPlace});
}

/// A scaled product and its scales: one each, or blocks of 128 along k and `rowsA`, `rowsB` across.
struct ScaledCase {
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN, c = DType::F32;
  bool transposeA = false, transposeB = false;
  int64_t m = 1, n = 1, k = 1, pad = 0;
  int64_t block = 0, rowsA = 1, rowsB = 1;
  double alpha = 1, beta = 0;
  bool inPlace = false;
  int threads = 1;
  bool asOnGpus = false; ///< the scales lie as cuBLASLt reads them, else as their operands do
};

/// The strides of a scale for `rows` rows: from row to row, and from block to block along k.
std::array<int64_t, 2> scaleStrides(const ScaledCase &t, int64_t outer, int64_t rows,
                                    bool blocksAreLast) {
  int64_t blocks = t.k / t.block, count = outer / rows;
  if (t.asOnGpus)
    return rows == 1 ? std::array<int64_t, 2>{1, count + 3}
                     : std::array<int64_t, 2>{(blocks + 3) / 4 * 4, 1};
  return blocksAreLast ? std::array<int64_t, 2>{blocks, 1} : std::array<int64_t, 2>{1, count};
}

/// Every element against Σ over k of alpha · (a·scale_a) · (b·scale_b) + beta · d in f64, where
/// each element has its own scale. Tolerance as above: scales are applied in f32 to f32 sums, at
/// most three roundings for each block, which the 8 in it covers.
void multiplyScaled(const ScaledCase &t) {
  std::mt19937 random(unsigned(t.m * 31 + t.n * 7 + t.k));
  std::uniform_real_distribution<float> uniform(0.25F, 4);
  PlanBuilder builder;
  int64_t lda = (t.transposeA ? t.m : t.k) + t.pad, ldb = (t.transposeB ? t.k : t.n) + 2 * t.pad;
  int64_t ldc = t.n + t.pad;
  Data a(t.a, (t.transposeA ? t.k : t.m) * lda, random);
  Data b(t.b, (t.transposeB ? t.n : t.k) * ldb, random);
  Data c(t.c, t.m * ldc, random), d(t.c, t.m * ldc, random);
  int64_t blocks = t.block ? t.k / t.block : 1;
  std::vector<float> scales[2];
  std::array<int64_t, 2> strides[2] = {};
  if (t.block) {
    strides[0] = scaleStrides(t, t.m, t.rowsA, !t.transposeA);
    strides[1] = scaleStrides(t, t.n, t.rowsB, t.transposeB);
  }
  auto scaleCount = [&](int64_t outer, const std::array<int64_t, 2> &each) {
    return size_t((outer - 1) * each[0] + (blocks - 1) * each[1] + 1);
  };
  scales[0].resize(scaleCount(t.m / t.rowsA, strides[0]));
  scales[1].resize(scaleCount(t.n / t.rowsB, strides[1]));
  for (auto &list : scales)
    for (float &scale : list)
      scale = uniform(random);
  auto input = [&](const char *name, const Data &data) {
    return builder.buffer(name, data.type, {int64_t(data.values.size())});
  };
  auto scaleBuffer = [&](const char *name, const std::vector<float> &list) {
    return builder.buffer(name, DType::F32, {int64_t(list.size())});
  };
  uint32_t bufferA = input("a", a), bufferB = input("b", b), bufferC = input("c", c),
           bufferD = input("d", d), bufferSa = scaleBuffer("scale_a", scales[0]),
           bufferSb = scaleBuffer("scale_b", scales[1]);
  auto &command = builder.add<plan::Matmul>();
  command.a = {bufferA, 0};
  command.b = {bufferB, 0};
  command.c = {bufferC, 0, true, false};
  command.d = {t.inPlace ? bufferC : bufferD, 0};
  command.aType = t.a, command.bType = t.b, command.cType = t.c;
  command.transposeA = t.transposeA, command.transposeB = t.transposeB;
  command.m = t.m, command.n = t.n, command.k = t.k;
  command.lda = lda, command.ldb = ldb, command.ldc = command.ldd = ldc;
  command.alpha = t.alpha, command.beta = t.beta;
  command.scales = {{bufferSa, 0}, {bufferSb, 0}, t.block,   t.rowsA,
                    t.rowsB,       strides[0],    strides[1]};
  Status valid = plan::validate(builder.plan);
  ASSERT_TRUE(valid) << valid.error().message;
  LocalGroup group(1);
  DeviceOptions options;
  options.threads = t.threads;
  auto device = loadDevice(builder.plan, group.communicator(0), options);
  ASSERT_TRUE(device) << device.error().message;
  auto write = [&](uint32_t buffer, const void *data, uint64_t bytes) {
    ASSERT_TRUE((*device)->write(buffer, 0, data, bytes));
  };
  write(bufferA, a.bytes.data(), a.bytes.size());
  write(bufferB, b.bytes.data(), b.bytes.size());
  write(bufferC, c.bytes.data(), c.bytes.size());
  write(bufferD, d.bytes.data(), d.bytes.size());
  write(bufferSa, scales[0].data(), scales[0].size() * sizeof(float));
  write(bufferSb, scales[1].data(), scales[1].size() * sizeof(float));
  Status status = (*device)->run("main");
  ASSERT_TRUE(status) << status.error().message;
  std::string bytes(c.bytes.size(), '\0');
  ASSERT_TRUE((*device)->read(bufferC, 0, bytes.data(), bytes.size()));

  auto scaleOf = [&](int which, int64_t rows, int64_t row, int64_t j) {
    if (!t.block)
      return double(scales[which][0]);
    return double(
        scales[which][size_t(row / rows * strides[which][0] + j / t.block * strides[which][1])]);
  };
  // The factors with their scales, rows of A and columns of B contiguous: the loops over products
  // are not optimised here.
  std::vector<double> scaledA(size_t(t.m * t.k)), scaledB(size_t(t.n * t.k));
  for (int64_t row = 0; row < t.m; ++row)
    for (int64_t j = 0; j < t.k; ++j)
      scaledA[size_t(row * t.k + j)] =
          t.alpha * a.values[size_t(t.transposeA ? j * lda + row : row * lda + j)] *
          scaleOf(0, t.rowsA, row, j);
  for (int64_t column = 0; column < t.n; ++column)
    for (int64_t j = 0; j < t.k; ++j)
      scaledB[size_t(column * t.k + j)] =
          b.values[size_t(t.transposeB ? column * ldb + j : j * ldb + column)] *
          scaleOf(1, t.rowsB, column, j);
  for (int64_t row = 0; row < t.m; ++row)
    for (int64_t column = 0; column < ldc; ++column) {
      auto at = size_t(row * ldc + column);
      double value = 0, sum = 0, magnitude = 0;
      if (t.c == DType::F32) {
        float f;
        std::memcpy(&f, bytes.data() + 4 * at, 4);
        value = f;
      } else {
        uint16_t bits;
        std::memcpy(&bits, bytes.data() + 2 * at, 2);
        value = fromBf16(bits);
      }
      if (column >= t.n) {
        ASSERT_EQ(value, c.values[at]) << "wrote to the padding";
        continue;
      }
      auto add = [&](double term) {
        sum += term;
        magnitude += std::abs(term);
      };
      const double *ofRow = &scaledA[size_t(row * t.k)], *ofColumn = &scaledB[size_t(column * t.k)];
      for (int64_t j = 0; j < t.k; ++j) {
        const double term = ofRow[j] * ofColumn[j];
        sum += term;
        magnitude += term < 0 ? -term : term;
      }
      if (t.beta != 0)
        add(t.beta * (t.inPlace ? c : d).values[at]);
      double tolerance = magnitude * double(t.k + 8) * std::ldexp(1, -24);
      if (t.c == DType::BF16)
        tolerance += std::abs(sum) * std::ldexp(1, -8);
      ASSERT_NEAR(value, sum, tolerance)
          << "C[" << row << "," << column << "] of " << t.m << "×" << t.n << "×" << t.k
          << (t.transposeA ? " T" : " N") << (t.transposeB ? "T" : "N") << " block " << t.block;
    }
}

TEST(CpuMatmul, ScaledByOneNumberEach) {
  struct Types {
    DType a, b, c;
  };
  for (Types types : {Types{DType::F8E4M3FN, DType::F8E4M3FN, DType::BF16},
                      {DType::F8E5M2, DType::F8E4M3FN, DType::F32}})
    for (bool transposeA : {no, yes})
      for (bool transposeB : {no, yes})
        for (auto [beta, inPlace] : {std::pair(0.0, no), {0.5, no}, {0.5, yes}})
          for (auto [m, n, k] : {std::array<int64_t, 3>{20, 33, 48}, {1, 1, 1}, {130, 64, 200}})
            multiplyScaled({types.a, types.b, types.c, transposeA, transposeB, m, n, k, m % 3, 0, 1,
                            1, beta == 0 ? 1 : 0.25, beta, inPlace, m == 20 ? 1 : 2});
}

TEST(CpuMatmul, ScaledByBlocks) {
  for (bool transposeA : {no, yes})
    for (bool transposeB : {no, yes})
      for (auto [rowsA, rowsB] : {std::pair<int64_t, int64_t>{1, 1}, {1, 128}, {128, 1}})
        for (auto [beta, inPlace] : {std::pair(0.0, no), {-1.5, yes}})
          for (int64_t k : {128, 384})
            for (bool asOnGpus : {no, yes})
              multiplyScaled({DType::F8E5M2, DType::F8E4M3FN, k == 128 ? DType::BF16 : DType::F32,
                              transposeA, transposeB, rowsA == 1 ? 37 : 128, rowsB == 1 ? 70 : 256,
                              k, 3, 128, rowsA, rowsB, 1, beta, inPlace, 2, asOnGpus});
}

/// Tiles of fewer rows, columns and blocks than there are: the sizes reach over the limits on the
/// memory of tiles.
TEST(CpuMatmul, ScaledProductsOfManyTiles) {
  // 8 MiB of f32 sums a tile: with 2048 columns several blocks are not multiplied together.
  multiplyScaled(
      {DType::F8E4M3FN, DType::F8E4M3FN, DType::F32, no, yes, 5, 4100, 256, 0, 128, 1, 1});
  multiplyScaled({DType::F8E4M3FN, DType::F8E5M2, DType::BF16, yes, no, 70, 3, 131072, 0, 0});
}

TEST(CpuMatmul, RepeatsBitForBit) {
  for (DType type : {DType::F32, DType::BF16}) {
    Case large = {type, type, DType::F32, yes, no, 200, 256, 1024};
    large.threads = 2;
    std::string first = multiply(large, no);
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(multiply(large, no), first);
  }
}

/// Formats that the conversions and these tests rely on, against their definitions.
TEST(CpuMatmul, SmallFloatFormats) {
  EXPECT_EQ(fromE4m3(0x7e), 448);
  EXPECT_EQ(fromE4m3(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(fromE4m3(0xb8), -1);
  EXPECT_TRUE(std::isnan(fromE4m3(0x7f)));
  EXPECT_TRUE(std::isnan(fromE4m3(0xff)));
  EXPECT_EQ(fromE5m2(0x7b), 57344);
  EXPECT_EQ(fromE5m2(0x01), std::ldexp(1.0f, -16));
  EXPECT_EQ(fromE5m2(0xbc), -1);
  EXPECT_TRUE(std::isinf(fromE5m2(0x7c)));
  EXPECT_TRUE(std::isnan(fromE5m2(0x7d)));
  EXPECT_EQ(fromBf16(0x3f80), 1);
  EXPECT_EQ(toBf16(1 + std::ldexp(1.0f, -8)), 0x3f80) << "ties to even";
  EXPECT_EQ(toBf16(1 + 3 * std::ldexp(1.0f, -8)), 0x3f82) << "ties to even";
  EXPECT_TRUE(std::isnan(fromBf16(toBf16(std::numeric_limits<float>::quiet_NaN()))));
}

} // namespace
} // namespace nano
