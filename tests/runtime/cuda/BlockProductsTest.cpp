// Scales for blocks of f8 products on the fake, which reads them as cuBLASLt documents, and what is
// refused.
#include "tests/runtime/cuda/BlockProducts.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <deque>
#include <functional>

namespace nano::cuda {
namespace {

using test::blockProductCases;
using test::blockProductError;
using test::productPlan;

class BlockProductsTest : public testing::Test {
protected:
  Result<std::unique_ptr<CudaDevice>> make(const plan::Plan &given) {
    const plan::Plan &plan = plans.emplace_back(given); // outlives the device
    EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
    return CudaDevice::create(plan, group.communicator(0), options, fake.apis(), cache.path);
  }

  test::FakeCuda fake;
  LocalGroup group{1};
  std::deque<plan::Plan> plans;
  test::TemporaryFolder cache;
  DeviceOptions options;
};

TEST_F(BlockProductsTest, AreComputed) {
  for (const test::ProductCase &each : blockProductCases(8)) {
    SCOPED_TRACE(each.name);
    plan::Plan plan = productPlan({each});
    auto device = make(plan);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(blockProductError(**device, plan), "");
  }
}

/// A wrong layout of scales is told from a wrong product.
TEST_F(BlockProductsTest, SayHowScalesAreRead) {
  test::ProductCase each = blockProductCases(8).front();
  each.command.k = each.command.lda = each.command.ldb = 512; // scales without padding
  each.command.scales->stridesB = {4, 1};
  plan::Plan plan = productPlan({each});
  auto device = make(plan);
  ASSERT_TRUE(device) << device.error().message;
  plan.programs[0].commands[0].as<plan::Matmul>()->scales->stridesB = {1,
                                                                       2}; // what the test believes
  EXPECT_CONTAINS(blockProductError(**device, plan),
                  "; it is the product with A's scales read as the plan says and B's read as "
                  "[m][k/128]");
}

TEST_F(BlockProductsTest, RefuseScalesThatGpusLack) {
  std::vector<test::ProductCase> cases = blockProductCases(128);
  auto message = [&](const std::function<void(plan::Plan &, plan::Matmul &)> &change) {
    plan::Plan plan = productPlan({cases.front()});
    change(plan, *plan.programs[0].commands[0].as<plan::Matmul>());
    auto device = make(plan);
    EXPECT_TRUE(device) << device.error().message;
    Error error = test::refusedRun(std::move(*device), plan);
    EXPECT_EQ(error.exitStatus(), 2);
    return error.message;
  };
  EXPECT_CONTAINS(message([](auto &, auto &command) { command.scales->stridesA = {5, 1}; }),
                  "the 128x5 block scales of A have strides [5,1] at offset 0 from a multiple of "
                  "16 bytes, cuBLASLt reads [1,128] at 0; recompile the model with --target cuda");
  EXPECT_CONTAINS(message([](auto &, auto &command) { command.scales->stridesB = {5, 1}; }),
                  "the 2x5 block scales of B have strides [5,1] at offset 0 from a multiple of 16 "
                  "bytes, cuBLASLt reads [8,1] at 0");
  EXPECT_CONTAINS(message([](plan::Plan &plan, plan::Matmul &command) {
                    plan.buffers[command.scales->b.buffer].bytes += 4;
                    command.scales->b.offset = 4;
                  }),
                  "strides [8,1] at offset 4 from a multiple of 16 bytes");
  // No scales of 128×128 on both sides.
  EXPECT_CONTAINS(message([](auto &, auto &command) {
                    command.scales->rowsA = 128;
                    command.scales->stridesA = {8, 1};
                  }),
                  "has no algorithm for the product 128x256x640 f8e4m3fn*f8e4m3fnT->bf16 scaled by "
                  "blocks of 128x128,128x128 ld 640,640,256 align 256,256,256 (a test's status); "
                  "block scales need a GPU of architecture sm_90, else compile the model with one "
                  "scale a tensor");
  fake.cublasLtVersion = 120805;
  EXPECT_CONTAINS(message([](auto &, auto &) {}),
                  "f8 products with block scales need cuBLASLt 12.9 or later, this is 12.8.5; "
                  "update it or compile the model with one scale a tensor");
}

} // namespace
} // namespace nano::cuda
