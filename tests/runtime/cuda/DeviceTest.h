// What tests of the device have in common: a folder for the cache, a rank, and plans run on the
// fake or on the GPU.
#pragma once

#include "runtime/comm/LocalCommunicator.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/cuda/Products.h"
#include "tests/runtime/cuda/SmallPlan.h"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

namespace nano::test {

/// A directory of this test, removed at its end.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nano-cuda-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string path;
};

/// A test on the GPUs of this machine; skipped where there is none.
class OnGpu : public testing::Test {
protected:
  void SetUp() override {
    Result<const cuda::DriverApi *> driver = cuda::loadDriver();
    if (!driver)
      GTEST_SKIP() << driver.error().message;
    apis.driver = *driver;
    Result<const cuda::NvrtcApi *> nvrtc = cuda::loadNvrtc();
    ASSERT_TRUE(nvrtc) << nvrtc.error().message;
    apis.nvrtc = *nvrtc;
  }

  TemporaryFolder cache;
  DeviceOptions options;
  cuda::Apis apis;
};

/// The error of the first run of a device that has a product wrong.
inline Error refusedRun(std::unique_ptr<cuda::CudaDevice> device, const plan::Plan &plan) {
  Status status = device->run(plan.programs[0].name);
  EXPECT_FALSE(status);
  EXPECT_FALSE(device->run(plan.programs[0].name)) << "once more";
  return status ? Error() : status.error();
}

/// Runs smallPlan on the device `runs` times and compares everything that it writes, bit by bit.
inline void checkSmallPlan(Device &device, int64_t count, int runs) {
  auto size = size_t(count);
  std::vector<float> x(size), z(size), w(size);
  for (int run = 0; run < runs; ++run) {
    float factor = 2 + float(run);
    for (size_t i = 0; i < size; ++i)
      x[i] = float(i % 97) / 8 + float(run);
    std::fill(w.begin(), w.end(), 5.0F);
    ASSERT_TRUE(device.write(0, 0, &factor, 4));
    ASSERT_TRUE(device.write(1, 0, x.data(), 4 * size));
    ASSERT_TRUE(device.write(4, 0, w.data(), 4 * size));
    Status status = device.run("main");
    ASSERT_TRUE(status) << status.error().message;
    float last = 0;
    status = device.readLater(3, 4 * (size - 1), &last, 4);
    ASSERT_TRUE(status) << status.error().message;
    status = device.read(3, 0, z.data(), 4 * size);
    ASSERT_TRUE(status) << status.error().message;
    std::vector<float> expected = smallResult(x, factor);
    EXPECT_EQ(std::memcmp(z.data(), expected.data(), 4 * size), 0) << "run " << run;
    EXPECT_EQ(last, expected.back()) << "run " << run;
    ASSERT_TRUE(device.read(4, 0, w.data(), 4 * size));
    EXPECT_EQ(std::count(w.begin(), w.end(), 0.0F), std::ptrdiff_t(size)) << "run " << run;
  }
}

/// Runs chainPlan on the device several times; x, y, z and w at the end.
inline std::vector<std::vector<float>> runChain(Device &device, int64_t side) {
  const auto size = size_t(side * side);
  std::vector<float> values(size);
  for (int run = 0; run < 6; ++run) {
    const float factor = 0.25F;
    EXPECT_TRUE(device.write(0, 0, &factor, 4));
    for (uint32_t buffer : {1U, 3U}) {
      for (size_t i = 0; i < size; ++i)
        values[i] = float((i * buffer + size_t(run)) % 97) / 64;
      EXPECT_TRUE(device.write(buffer, 0, values.data(), 4 * size));
    }
    Status status = device.run("chain");
    EXPECT_TRUE(status) << status.error().message;
  }
  std::vector<std::vector<float>> all;
  for (uint32_t buffer : {1U, 2U, 3U, 4U}) {
    EXPECT_TRUE(device.read(buffer, 0, values.data(), 4 * size));
    all.push_back(values);
  }
  return all;
}

/// Runs every case of productPlan three times (one by one, recorded, replayed), and compares C bit
/// by bit: the operands are such that no sum rounds before the last.
inline void checkProducts(Device &device, const plan::Plan &plan) {
  for (const plan::Program &program : plan.programs) {
    SCOPED_TRACE(program.name);
    const auto &command = *program.commands[0].as<plan::Matmul>();
    std::vector<std::vector<std::byte>> bytes(plan.buffers.size());
    auto fill = [&](const plan::Ref &ref, uint64_t seed) {
      bytes[ref.buffer] = operandBytes(plan.buffers[ref.buffer], seed);
      ASSERT_TRUE(device.write(ref.buffer, 0, bytes[ref.buffer].data(), bytes[ref.buffer].size()));
    };
    float scaleA = 0.5F, scaleB = 4;
    for (uint64_t run = 0; run < 3; ++run) {
      fill(command.a, 4 * run + 1);
      fill(command.b, 4 * run + 2);
      fill(command.c, 4 * run + 3);
      bool isInPlace = command.beta != 0 && command.d.buffer == command.c.buffer;
      if (command.beta != 0 && !isInPlace)
        fill(command.d, 4 * run + 4);
      if (command.scales) {
        ASSERT_TRUE(device.write(command.scales->a.buffer, 0, &scaleA, 4));
        ASSERT_TRUE(device.write(command.scales->b.buffer, 0, &scaleB, 4));
      }
      Status status = device.run(program.name);
      ASSERT_TRUE(status) << status.error().message;
      std::vector<std::byte> result(bytes[command.c.buffer].size());
      status = device.read(command.c.buffer, 0, result.data(), result.size());
      ASSERT_TRUE(status) << status.error().message;
      std::vector<std::byte> &expected = bytes[command.c.buffer];
      referenceProduct(command, bytes[command.a.buffer].data(), bytes[command.b.buffer].data(),
                       expected.data(),
                       isInPlace ? expected.data() : bytes[command.d.buffer].data(),
                       command.scales ? &scaleA : nullptr, command.scales ? &scaleB : nullptr);
      int wrong = 0;
      auto count = int64_t(expected.size() / plan::sizeOf(command.cType));
      for (int64_t i = 0; i < count && wrong < 3; ++i) {
        float got = valueAt(result.data(), command.cType, i);
        float wanted = valueAt(expected.data(), command.cType, i);
        if (got != wanted) {
          ++wrong;
          ADD_FAILURE() << "run " << run << ", element " << i << ": " << got << ", not " << wanted;
        }
      }
    }
  }
}

} // namespace nano::test
