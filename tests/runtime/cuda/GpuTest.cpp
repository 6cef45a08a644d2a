// The device on a GPU, against the same results as on the fake; skipped where there is none.
#include "tests/runtime/cuda/BlockProducts.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/Draws.h"

namespace nano::cuda {
namespace {

using test::chainPlan;
using test::checkProducts;
using test::checkSmallPlan;
using test::productCases;
using test::productPlan;
using test::runChain;
using test::smallPlan;

class GpuTest : public test::OnGpu {
protected:
  GpuTest() {
    options.report = [](const std::string &line) { std::cout << line << "\n"; };
  }
  std::unique_ptr<CudaDevice> make(const plan::Plan &plan) {
    EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
    Result<std::unique_ptr<CudaDevice>> device =
        CudaDevice::create(plan, group.communicator(0), options, apis, cache.path);
    EXPECT_TRUE(device) << device.error().message;
    if (!device)
      return nullptr;
    std::cout << (*device)->describe() << "\n";
    for (const auto &[name, value] : (*device)->facts())
      std::cout << "  " << name << " " << value << "\n";
    return std::move(*device);
  }

  LocalGroup group{1};
};

TEST_F(GpuTest, KernelsMovesAndStreams) {
  plan::Plan plan = smallPlan(1000003);
  for (bool isCached : {false, true}) {
    SCOPED_TRACE(isCached);
    auto device = make(plan);
    ASSERT_TRUE(device);
    checkSmallPlan(*device, 1000003, 6);
  }
}

TEST_F(GpuTest, FillsStatesAsTheHostDoes) {
  const plan::Plan plan = test::planOfDraws(3000001);
  auto device = make(plan);
  ASSERT_TRUE(device);
  test::checkDraws(*device, plan);
}

TEST_F(GpuTest, GraphsComputeWhatSingleCommandsDo) {
  constexpr int64_t side = 1536;
  const plan::Plan plan = chainPlan(side);
  std::vector<std::vector<std::vector<float>>> found;
  for (bool waits : {true, false}) {
    options.waitForEach = waits;
    auto device = make(plan);
    ASSERT_TRUE(device);
    for (int i = 0; i < 3; ++i)
      found.push_back(runChain(*device, side));
  }
  for (size_t i = 1; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == found[0]) << "run " << i;
}

TEST_F(GpuTest, ProductsOfEveryLayout) {
  plan::Plan plan = productPlan(productCases());
  auto device = make(plan);
  ASSERT_TRUE(device);
  checkProducts(*device, plan);
}

/// A combination that cuBLASLt lacks fails when the device is made, with its message; scales that
/// lie otherwise than it reads them give wrong numbers, and the failure says which reading gives
/// those.
TEST_F(GpuTest, ProductsWithBlockScales) {
  for (const test::ProductCase &each : test::blockProductCases(264)) {
    SCOPED_TRACE(each.name);
    plan::Plan plan = productPlan({each});
    auto device = make(plan);
    std::string error = device ? test::blockProductError(*device, plan) : "";
    EXPECT_EQ(error, "");
  }
}

TEST_F(GpuTest, ProductsByTunedAlgorithms) {
  plan::Plan plan = productPlan(productCases());
  options.tuneFile = cache.path + "/products.tune.json";
  options.tune = true;
  auto tuning = make(plan);
  ASSERT_TRUE(tuning);
  checkProducts(*tuning, plan);
  tuning.reset();
  options.tune = false;
  auto tuned = make(plan);
  ASSERT_TRUE(tuned);
  checkProducts(*tuned, plan);
}

TEST_F(GpuTest, MeasuresCommandsAndRates) {
  plan::Plan plan = smallPlan(16 << 20);
  options.trace = true;
  auto device = make(plan);
  ASSERT_TRUE(device);
  checkSmallPlan(*device, 16 << 20, 3);
  ASSERT_TRUE(device->rates());
  EXPECT_GT(device->rates()->copyBytes, 1e11);
  std::vector<CommandSpan> spans = device->takeSpans();
  ASSERT_EQ(spans.size(), 2 * plan.programs[0].commands.size());
  for (size_t i = 1; i < spans.size(); ++i)
    EXPECT_GE(spans[i].start, spans[i - 1].start);
  std::cout << "copy " << 1e-9 * device->rates()->copyBytes << " GB/s\n";
}

/// A write far outside the arena: the error names the kernel and its model line.
TEST_F(GpuTest, ErrorsNameTheCommand) {
  plan::Plan plan = smallPlan(4096);
  plan.sources[1].text = R"(#include "launch.h"
extern "C" __global__ void __launch_bounds__(128) scale(const __grid_constant__ Launch<3, 1> launch) {
  *(volatile float *)16 = 1;
})";
  auto device = make(plan);
  ASSERT_TRUE(device);
  Status status = device->run("main");
  ASSERT_FALSE(status);
  std::cout << status.error().message << "\n";
  EXPECT_NE(status.error().message.find("program 'main', command 2 'y from x' (small.cpp:3)"),
            std::string::npos)
      << status.error().message;
}

} // namespace
} // namespace nano::cuda
