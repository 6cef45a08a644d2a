// Loads of boxes by tensor maps: their contents under every swizzle and at the rims of a matrix,
// what products make of them, loads to a cluster, and the faults that they are used with.
#include "runtime/NumberFormats.h"
#include "tests/runtime/emulator/KernelRun.h"

#include <gmock/gmock.h>
#include <numeric>

namespace nano::test {
namespace {

using plan::DType;
using testing::AllOf;
using testing::HasSubstr;

// A matrix of 40 × 100 with gaps between its rows.
constexpr int matrixRows = 40, matrixColumns = 100, pitch = 104, boxRows = 24;

struct Box {
  const char *kernel;
  uint32_t columns, swizzle;

  KernelRun make(int column, int row) const {
    std::vector<uint16_t> matrix(size_t(matrixRows) * pitch);
    std::iota(matrix.begin(), matrix.end(), uint16_t(1));
    KernelRun run("tensor.cu", kernel);
    run.input(matrix)
        .input(std::vector<int32_t>{column, row})
        .output<uint16_t>(size_t(boxRows) * columns)
        .shared(boxRows * columns * 2 + 8)
        .map({0, DType::BF16, matrixColumns, matrixRows, 2 * pitch, columns, boxRows, swizzle});
    return run;
  }
};

TEST(TensorLoads, BringBoxesAndZeroesAround) {
  for (const Box &box : {Box{"box_128", 64, 128}, Box{"box_64", 32, 64}, Box{"box_32", 16, 32},
                         Box{"box_none", 24, 0}})
    for (auto [column, row] : {std::pair(0, 0), std::pair(16, 3), std::pair(88, 31),
                               std::pair(-8, -3), std::pair(104, 0), std::pair(0, -24)}) {
      KernelRun run = box.make(column, row);
      ASSERT_EQ(run.run(), "") << box.kernel;
      auto got = run.result<uint16_t>(2);
      for (int r = 0; r < boxRows; ++r)
        for (int c = 0; c < int(box.columns); ++c) {
          const int x = column + c, y = row + r;
          const bool isInside = x >= 0 && x < matrixColumns && y >= 0 && y < matrixRows;
          ASSERT_EQ(got[size_t(r) * box.columns + size_t(c)], isInside ? y * pitch + x + 1 : 0)
              << box.kernel << " at " << column << ", " << row << ": " << r << ", " << c;
        }
    }
}

TEST(TensorLoads, OfElementsOfAByte) {
  constexpr int bytePitch = 112, columns = 128; // wider than the matrix
  std::vector<uint8_t> matrix(size_t(matrixRows) * bytePitch);
  for (size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = uint8_t(1 + i % 251);
  for (auto [column, row] : {std::pair(0, 0), std::pair(48, 30), std::pair(-16, -5)}) {
    KernelRun run("tensor.cu", "box_128");
    run.input(matrix)
        .input(std::vector<int32_t>{column, row})
        .output<uint8_t>(size_t(boxRows) * columns)
        .shared(boxRows * columns + 8)
        .map({0, DType::F8E4M3FN, matrixColumns, matrixRows, bytePitch, columns, boxRows, 128});
    ASSERT_EQ(run.run(), "");
    auto got = run.result<uint8_t>(2);
    for (int r = 0; r < boxRows; ++r)
      for (int c = 0; c < columns; ++c) {
        const int x = column + c, y = row + r;
        const bool isInside = x >= 0 && x < matrixColumns && y >= 0 && y < matrixRows;
        ASSERT_EQ(int(got[size_t(r) * columns + size_t(c)]),
                  isInside ? 1 + (y * bytePitch + x) % 251 : 0)
            << column << ", " << row << ": " << r << ", " << c;
      }
  }
}

TEST(TensorLoads, AreNotCheckedInFastRuns) {
  KernelRun run = Box{"box_64", 32, 64}.make(96, 39);
  ASSERT_EQ(run.run(/*checked=*/false), "");
  auto got = run.result<uint16_t>(2);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(int(got[i]), i < 4 ? 39 * pitch + 97 + int(i) : 0) << i;
}

/// The tile of a product and that of a load are the same for whoever multiplies.
TEST(TensorLoads, FeedProductsOfWarpgroups) {
  std::vector<uint16_t> a(64 * 64), b(64 * 64);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = toBf16(float(int(i * 7 % 13) - 6));
    b[i] = toBf16(float(int(i * 11 % 17) - 8));
  }
  for (const char *kernel : {"product_along_k", "product_along_n"}) {
    const bool isTransposed = kernel == std::string("product_along_k");
    KernelRun run("tensor.cu", kernel);
    run.input(a).input(b).output<float>(64 * 64).threads(128).shared(2 * 64 * 128 + 8);
    for (uint32_t i = 0; i < 2; ++i)
      run.map({i, DType::BF16, 64, 64, 128, 64, 64, 128});
    ASSERT_EQ(run.run(), "") << kernel;
    auto got = run.result<float>(2);
    for (size_t m = 0; m < 64; ++m)
      for (size_t n = 0; n < 64; ++n) {
        float want = 0;
        for (size_t k = 0; k < 64; ++k)
          want += fromBf16(a[m * 64 + k]) * fromBf16(isTransposed ? b[n * 64 + k] : b[k * 64 + n]);
        ASSERT_EQ(got[m * 64 + n], want) << kernel << " " << m << " " << n;
      }
  }
}

TEST(TensorLoads, ReachAllBlocksOfACluster) {
  std::vector<float> x(64 * 64);
  std::iota(x.begin(), x.end(), 1.0f);
  auto make = [&](const char *kernel) {
    KernelRun run("tensor.cu", kernel);
    run.input(x).output<float>(4 * x.size()).blocks(4).cluster(2).shared(2 * 32 * 256 + 8);
    run.map({0, DType::F32, 64, 64, 256, 64, 32, 0});
    return run;
  };
  KernelRun run = make("multicast_good");
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(run.run(), "");
  auto got = run.result<float>(1);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], x[i % x.size()]) << i;
  if (isOnGpu)
    return;
  EXPECT_THAT(make("multicast_bad").run(),
              AllOf(HasSubstr("kernel 'multicast_bad' (tensor.cu)"),
                    HasSubstr("bulkTensorLoadMulticast (tensor.cu:"),
                    HasSubstr("to blocks 5, which the cluster of 2 does not have")));
}

// ------------------------------------------------------------------------------------ Faults

/// 16 rows of 64 bf16, of which two boxes of 8 rows are loaded one after the other.
KernelRun loadRun(const std::string &kernel) {
  std::vector<uint16_t> matrix(16 * 64);
  for (size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = toBf16(float(i % 61));
  KernelRun run("tensor.cu", kernel);
  run.input(matrix).output<float>(32).shared(4096);
  run.map({0, DType::BF16, 64, 16, 128, 64, 8, 128});
  return run;
}

TEST(TensorLoads, OneAfterTheOther) {
  KernelRun run = loadRun("load_good");
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(run.run(), "");
  auto got = run.result<float>(1);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(got[i], float(i % 61 + (512 + i) % 61)) << i;
}

#ifndef NANO_TEST_ON_GPU // which finds no faults

TEST(TensorLoads, FaultsAreFound) {
  auto at = [](const char *mark) { return "(" + lineOf("tensor.cu", mark) + ")"; };
  auto expectFault = [](const std::string &kernel, const auto &matcher) {
    KernelRun run = loadRun(kernel);
    for (int i = 0; i < 5; ++i)
      EXPECT_THAT(run.run(),
                  AllOf(HasSubstr("kernel '" + kernel + "' (tensor.cu), block 0"), matcher));
  };
  expectFault("load_wait", AllOf(HasSubstr("thread 17: missing wait: reads 2 bytes"),
                                 HasSubstr(at("load_use")), HasSubstr(at("load"))));
  expectFault("load_bytes",
              HasSubstr("deadlock: 32 threads wait in mbarrierWait " + at("load_wait")));
  expectFault("load_misaligned", HasSubstr("bulkTensorLoad " + at("load") +
                                           ": misaligned: byte 512 of shared memory is no "
                                           "multiple of 1024"));
  expectFault("load_column", HasSubstr("bulkTensorLoad " + at("load") +
                                       ": misaligned: column 5 of elements of 2 bytes is at no "
                                       "multiple of 16 bytes"));
  expectFault("load_map",
              HasSubstr("bulkTensorLoad " + at("load") + ": the map is none of the launch's 1"));
  expectFault("load_reuse", AllOf(testing::AnyOf(HasSubstr("race: writes 1024 bytes"),
                                                 HasSubstr("missing wait: ")),
                                  HasSubstr(at("load"))));
  expectFault("load_end", HasSubstr("ends while its bulk load " + at("load") + " is under way"));
  expectFault("load_init_fence", AllOf(HasSubstr("missing fence: bulkTensorLoad " + at("load")),
                                       HasSubstr("with no fenceMbarrierInit after it")));
}

TEST(TensorLoads, MatricesAreOperands) {
  KernelRun larger = loadRun("load_good");
  larger.plan().kernels[0].tensorMaps[0].rowBytes = 192;
  EXPECT_THAT(larger.run(), HasSubstr("out of bounds: reads 128 bytes at byte 2112 of buffer "
                                      "'operand0', which has 2048"));
  KernelRun written = loadRun("load_good");
  plan::Ref &ref = written.plan().programs[0].commands[0].as<plan::Launch>()->segments[0].args[0];
  ref.written = true;
  ref.read = false;
  EXPECT_THAT(written.run(), HasSubstr("uninitialised: reads 128 bytes at byte 0 of buffer"));
}

TEST(TensorLoads, PlansAreOfTheirKernels) {
  KernelRun two = loadRun("load_good");
  two.map({0, DType::BF16, 64, 16, 128, 64, 8, 128});
  EXPECT_EQ(two.run(), "program 'main', command 0: kernel 'load_good' takes 1 tensor maps, the "
                       "plan has 2; recompile the model");
  KernelRun clusters = loadRun("load_good");
  EXPECT_EQ(clusters.cluster(2).run(), "program 'main', command 0: kernel 'load_good' has clusters "
                                       "of 1 blocks, in the plan of 2; recompile the model");
}

#endif

} // namespace
} // namespace nano::test
