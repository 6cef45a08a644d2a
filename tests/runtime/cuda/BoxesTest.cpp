// Kernels with tensor maps and clusters: what the driver is told, what is refused, and on a machine
// with a GPU what they compute.
#include "tests/runtime/Expect.h"
#include "tests/runtime/Reaches.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <bit>
#include <deque>

namespace nano::cuda {
namespace {

using test::FakeCuda;
using test::OnGpu;
using test::TemporaryFolder;

/// A block copies the box of 8 × 32 floats that a load brings and adds 1.
constexpr const char *boxesKernel = R"(#include "launch.h"
struct alignas(64) Map {
  char bytes[128];
};
struct Maps {
  Map map[1];
};
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32)
    boxes(const __grid_constant__ Launch<2, 1> launch, const __grid_constant__ Maps maps) {
  __shared__ alignas(128) float tile[256];
  __shared__ alignas(8) unsigned long long full;
  const auto &work = launch.find(blockIdx.x);
  float *y = (float *)work.args[1] + 256 * blockIdx.x;
  const unsigned to = __cvta_generic_to_shared(tile), barrier = __cvta_generic_to_shared(&full);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&maps.map[0]), "r"(0), "r"(8 * int(blockIdx.x)), "r"(barrier)
                 : "memory");
  }
  __syncthreads();
  for (unsigned ended = 0; !ended;)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], 0; "
                 "selp.u32 %0, 1, 0, p; }"
                 : "=r"(ended)
                 : "r"(barrier)
                 : "memory");
  for (int i = threadIdx.x; i < 256; i += 32)
    y[i] = tile[i] + 1;
}
)";

constexpr int64_t blocks = 6, rows = 8 * blocks, count = 32 * rows;
enum : uint32_t { Scalars, X, Y }; // of smallPlan's buffers

/// Program "main": y = x + 1, x = y + 1, y = x + 1.
plan::Plan boxesPlan() {
  plan::Plan plan = test::smallPlan(count);
  plan.sources = {plan.sources[0], {"boxes.cu", boxesKernel}};
  plan::Kernel kernel = plan.kernels[0];
  kernel.name = "boxes";
  kernel.source = "boxes.cu";
  kernel.threads = 32;
  kernel.iterationsPerBlock = 1;
  kernel.clusterBlocks = 2;
  kernel.tensorMaps = {{0, plan::DType::F32, 32, uint64_t(rows), 128, 32, 8, 0}};
  plan.kernels = {kernel};
  plan::Program program = {"main", {}, 1, 0};
  for (auto [from, to] : {std::pair(X, Y), std::pair(Y, X), std::pair(X, Y)}) {
    plan::Command &command = program.commands.emplace_back();
    command.label = "add one";
    command.action.emplace<plan::Launch>().segments = {
        {{{from, 0, false, true, 4 * count}, {to, 0, true, false, 4 * count}}, blocks, 1}};
  }
  plan.programs = {program};
  test::sayReaches(plan);
  return plan;
}

/// Runs it one by one, recorded and replayed.
void checkBoxes(Device &device) {
  for (int run = 0; run < 4; ++run) {
    std::vector<float> x(count), y(count);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float(i) + float(run);
    ASSERT_TRUE(device.write(X, 0, x.data(), 4 * count));
    Status status = device.run("main");
    ASSERT_TRUE(status) << status.error().message;
    status = device.read(Y, 0, y.data(), 4 * count);
    ASSERT_TRUE(status) << status.error().message;
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], x[i] + 3) << "run " << run << ", element " << i;
  }
}

class BoxesTest : public testing::Test {
protected:
  BoxesTest() {
    fake.parameterBytes = {{"boxes", 8 + 4 * 8}};
    fake.mapBytes = {{"boxes", 128}};
    fake.clusterBlocks = {{"boxes", 2}};
    fake.onLaunch = [](const FakeCuda::Launch &launch) {
      const auto *x = std::bit_cast<const float *>(launch.parameter[1]);
      auto *y = std::bit_cast<float *>(launch.parameter[2]);
      for (int64_t i = 0; i < count; ++i)
        y[i] = x[i] + 1;
    };
  }
  Result<std::unique_ptr<CudaDevice>> make(const plan::Plan &given) {
    const plan::Plan &plan = plans.emplace_back(given); // outlives the device
    EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
    return CudaDevice::create(plan, group.communicator(0), {}, fake.apis(), cache.path);
  }
  void expectRefused(const plan::Plan &plan, const std::string &message) {
    auto device = make(plan);
    ASSERT_FALSE(device);
    EXPECT_CONTAINS(device.error().message, message);
    EXPECT_EQ(device.error().exitStatus(), 2);
  }

  FakeCuda fake;
  LocalGroup group{1};
  std::deque<plan::Plan> plans;
  TemporaryFolder cache;
};

TEST_F(BoxesTest, TheDriverIsToldTheMatrix) {
  auto device = make(boxesPlan());
  ASSERT_TRUE(device) << device.error().message;
  checkBoxes(**device);
  ASSERT_EQ(fake.launches.size(), 12U);
  for (const FakeCuda::Launch &launch : fake.launches) {
    EXPECT_EQ(launch.blocks, 6U);
    ASSERT_EQ(launch.maps.size(), 1U);
    FakeCuda::Map map;
    std::memcpy(&map, launch.maps.data(), sizeof map);
    EXPECT_EQ(map.address, std::bit_cast<void *>(launch.parameter[1]));
    EXPECT_EQ(map.type, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
    EXPECT_EQ(map.columns, 32U);
    EXPECT_EQ(map.rows, uint64_t(rows));
    EXPECT_EQ(map.rowBytes, 128U);
    EXPECT_EQ(map.boxColumns, 32U);
    EXPECT_EQ(map.boxRows, 8U);
    EXPECT_EQ(map.swizzle, CU_TENSOR_MAP_SWIZZLE_NONE);
  }
}

TEST_F(BoxesTest, TypesAndSwizzles) {
  using plan::DType;
  for (auto [type, swizzle, toldType, toldSwizzle] :
       {std::tuple(DType::BF16, 128U, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_SWIZZLE_128B),
        std::tuple(DType::F8E4M3FN, 64U, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_SWIZZLE_64B),
        std::tuple(DType::F8E5M2, 32U, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_SWIZZLE_32B),
        std::tuple(DType::I32, 0U, CU_TENSOR_MAP_DATA_TYPE_INT32, CU_TENSOR_MAP_SWIZZLE_NONE)}) {
    plan::Plan plan = boxesPlan();
    plan::TensorMap &map = plan.kernels[0].tensorMaps[0];
    map.type = type;
    map.swizzleBytes = swizzle;
    map.columns = map.boxColumns = (swizzle ? swizzle : 128) / uint32_t(plan::sizeOf(type));
    auto device = make(plan);
    ASSERT_TRUE(device) << device.error().message;
    fake.launches.clear();
    ASSERT_TRUE((*device)->run("main"));
    FakeCuda::Map told;
    std::memcpy(&told, fake.launches.at(0).maps.data(), sizeof told);
    EXPECT_EQ(told.type, toldType);
    EXPECT_EQ(told.swizzle, toldSwizzle);
  }
}

TEST_F(BoxesTest, OlderGpusAndDriversAreRefused) {
  fake.computeCapability = 89;
  expectRefused(boxesPlan(), "kernel boxes has clusters or tensor maps, which are of compute "
                             "capability 9.0; Fake GPU has 8.9, use another GPU");
  fake.computeCapability = 90;
  fake.isOlder = true;
  expectRefused(boxesPlan(), "which the driver of Fake GPU does not know: it lacks "
                             "cuTensorMapEncodeTiled; update it");
}

TEST_F(BoxesTest, PlansAreOfTheirKernels) {
  fake.clusterBlocks.clear();
  expectRefused(boxesPlan(), "kernel boxes: it has clusters of 1 blocks, in the plan of 2; "
                             "recompile the model");
  fake.clusterBlocks = {{"boxes", 2}};
  fake.mapBytes = {{"boxes", 256}};
  expectRefused(boxesPlan(), "kernel boxes takes 256 bytes of tensor maps, the plan has 128; "
                             "recompile the model");
  fake.mapBytes.clear();
  expectRefused(boxesPlan(), "kernel boxes takes 0 bytes of tensor maps, the plan has 128");
}

using GpuBoxesTest = OnGpu;

TEST_F(GpuBoxesTest, Add) {
  LocalGroup group{1};
  const plan::Plan plan = boxesPlan();
  Result<std::unique_ptr<CudaDevice>> device =
      CudaDevice::create(plan, group.communicator(0), options, apis, cache.path);
  ASSERT_TRUE(device) << device.error().message;
  checkBoxes(**device);
}

} // namespace
} // namespace nano::cuda
