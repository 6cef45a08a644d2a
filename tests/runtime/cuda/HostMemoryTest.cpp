// The device on the fake driver with a plan that has buffers in the host's memory.
#include "tests/runtime/Expect.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <algorithm>

namespace nano::cuda {
namespace {

using test::checkSmallPlan;
using test::FakeCuda;
using test::smallPlan;
using test::TemporaryFolder;

// The small plan, in which x goes to z by way of the host's memory.
plan::Plan planOfHostCopies(int64_t count) {
  plan::Plan plan = smallPlan(count);
  plan::Buffer away = plan.buffers[1];
  away.name = "away";
  away.offset = plan::hostBegin(plan);
  plan.hostBytes = (away.bytes + 255) / 256 * 256;
  plan.buffers.push_back(away);
  std::vector<plan::Command> &commands = plan.programs[0].commands;
  plan::Command back = commands[0];
  commands[0].as<plan::Copy>()->to.buffer = back.as<plan::Copy>()->from.buffer = 5;
  commands.insert(commands.begin() + 1, back);
  return plan;
}

class HostMemoryTest : public testing::Test {
protected:
  HostMemoryTest() {
    fake.parameterBytes = {{"scale", 8 + 1 * 5 * 8}, {"add", 8 + 4 * 4 * 8}};
    fake.onLaunch = [](const FakeCuda::Launch &launch) {
      test::runSmallKernel(launch.kernel, launch.parameter);
    };
  }

  Result<std::unique_ptr<CudaDevice>> tryMake() {
    EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
    return CudaDevice::create(plan, group.communicator(0), {}, fake.apis(), cache.path);
  }
  std::unique_ptr<CudaDevice> make() {
    auto device = tryMake();
    EXPECT_TRUE(device) << device.error().message;
    return device ? std::move(*device) : nullptr;
  }

  FakeCuda fake;
  LocalGroup group{1};
  const plan::Plan plan = planOfHostCopies(1000); ///< outlives devices
  TemporaryFolder cache;
};

TEST_F(HostMemoryTest, CopiesToTheHostAndBack) {
  auto device = make();
  ASSERT_TRUE(device);
  fake.calls.clear();
  checkSmallPlan(*device, 1000, 5);
  std::vector<std::string> calls = fake.calls;
  calls.erase(calls.begin(), std::find(calls.begin(), calls.end(), "begin capture stream 0"));
  EXPECT_EQ(
      std::vector<std::string>(calls.begin() + 3, calls.begin() + 5),
      (std::vector<std::string>{"device to host 4000 stream 1", "host to device 4000 stream 1"}));
  // What lies on the host can be read as all else can.
  std::vector<float> x(1000), away(1000);
  ASSERT_TRUE(device->read(1, 0, x.data(), 4000));
  ASSERT_TRUE(device->read(5, 0, away.data(), 4000));
  EXPECT_EQ(away, x);
  const std::vector<float> written(500, 7);
  ASSERT_TRUE(device->write(5, 0, written.data(), 2000));
  ASSERT_TRUE(device->readLater(5, 0, x.data(), 4000));
  ASSERT_TRUE(device->wait());
  std::copy(written.begin(), written.end(), away.begin());
  EXPECT_EQ(x, away);
  ASSERT_TRUE(device->clear(5));
  ASSERT_TRUE(device->read(5, 0, x.data(), 4000));
  EXPECT_EQ(x, std::vector<float>(1000, 0));
  const auto facts = device->facts();
  EXPECT_NE(std::find(facts.begin(), facts.end(),
                      std::pair<std::string, std::string>("host_bytes", "4096")),
            facts.end());
  device.reset();
  EXPECT_EQ(fake.objects, 0);
}

TEST_F(HostMemoryTest, SaysThatTheHostHasTooLittle) {
  fake.onCall = [](const std::string &call) {
    return call == "alloc pinned 4096" ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  };
  auto device = tryMake();
  ASSERT_FALSE(device);
  const Error &error = device.error();
  EXPECT_EQ(error.kind, Error::Kind::BadInput);
  EXPECT_EQ(error.message,
            "out of memory: of the host's memory the plan needs 4096 bytes that cannot be paged "
            "out: CUDA: a test's error (CUDA_ERROR_TEST) in cuMemHostAlloc; compile the model with "
            "--no-offload");
}

} // namespace
} // namespace nano::cuda
