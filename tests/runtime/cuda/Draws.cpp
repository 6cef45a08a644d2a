// The text of nano_draws.cu as C++, one thread after the other. Compiled without fusing.
#include "tests/runtime/cuda/Draws.h"

#include "runtime/NumberFormats.h"
#include "runtime/Random.h"
#include "runtime/RandomNumbers.h"
#include "runtime/cuda/Draws.h"
#include "tests/runtime/cuda/HostKernels.h"
#include "tests/runtime/cuda/SmallPlan.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <span>

namespace nano::test {
namespace {

#include "runtime/cuda/nano_draws.cu"

constexpr uint64_t count = 1003, seed = (uint64_t(5) << 32) + 7;

/// What two blocks of 32 threads make of a draw.
template <typename T>
std::vector<T> made(void (*kernel)(Draw), uint64_t first, double a, double b) {
  std::vector<T> values(count);
  const cuda::Draws::Draw draw = {std::bit_cast<uint64_t>(values.data()),
                                  first,
                                  count,
                                  Random(seed, "x").hashOfName(),
                                  seed,
                                  a,
                                  b};
  Draw own = {};
  static_assert(sizeof own == sizeof draw);
  std::memcpy(&own, &draw, sizeof draw);
  asEachThread(2, 32, [&] { kernel(own); });
  return values;
}

std::vector<uint16_t> rounded(const std::vector<float> &values) {
  std::vector<uint16_t> halves;
  for (float value : values)
    halves.push_back(toBf16(value));
  return halves;
}

TEST(Draws, AreThoseOfRandom) {
  for (uint64_t first : {uint64_t(0), uint64_t(3), (uint64_t(1) << 32) - 11}) {
    SCOPED_TRACE(first);
    std::vector<float> normal(count), uniform(count);
    Random(seed, "x").normal(first, normal, 0.5, 0.02);
    Random(seed, "x").uniform(first, uniform, -0.25, 3);
    EXPECT_EQ(made<float>(nano_normal_f32, first, 0.5, 0.02), normal);
    EXPECT_EQ(made<uint16_t>(nano_normal_bf16, first, 0.5, 0.02), rounded(normal));
    EXPECT_EQ(made<float>(nano_uniform_f32, first, -0.25, 3), uniform);
    EXPECT_EQ(made<uint16_t>(nano_uniform_bf16, first, -0.25, 3), rounded(uniform));
  }
}

const std::map<std::string, void (*)(Draw)> kernels = {{"nano_normal_f32", nano_normal_f32},
                                                       {"nano_normal_bf16", nano_normal_bf16},
                                                       {"nano_uniform_f32", nano_uniform_f32},
                                                       {"nano_uniform_bf16", nano_uniform_bf16}};

} // namespace

void runDraws(FakeCuda &fake) {
  for (const auto &[name, kernel] : kernels)
    fake.parameterBytes[name] = sizeof(Draw);
  fake.onLaunch = [others = fake.onLaunch](const FakeCuda::Launch &launch) {
    const auto known = kernels.find(launch.kernel);
    if (known == kernels.end())
      return others(launch);
    Draw draw = {};
    std::memcpy(&draw, launch.parameter.data(), sizeof draw);
    asEachThread(launch.blocks, launch.threads, [&] { known->second(draw); });
  };
}

plan::Plan planOfDraws(int64_t count) {
  plan::Plan plan = smallPlan(count);
  plan::Init normal, uniform, constant;
  normal.kind = plan::Init::Kind::Normal;
  normal.stddev = 0.02;
  uniform.kind = plan::Init::Kind::Uniform;
  uniform.low = -2;
  constant.values = {0};
  auto add = [&](const char *name, uint32_t buffer, plan::DType type, const plan::Init &init) {
    plan::State state;
    state.name = name;
    state.buffer = buffer;
    state.type = type;
    state.shape = {count * 4 / int64_t(plan::sizeOf(type))};
    state.init = init;
    plan.states.push_back(state);
  };
  add("x", 1, plan::DType::F32, normal);
  add("y", 2, plan::DType::BF16, uniform);
  add("z", 3, plan::DType::BF16, normal);
  add("w", 4, plan::DType::F32, constant);
  return plan;
}

void checkDraws(Device &device, const plan::Plan &plan) {
  for (const plan::State &state : plan.states) {
    SCOPED_TRACE(state.name);
    const auto whole = size_t(state.shape[0]);
    // All but the first few, which stay as they are.
    constexpr size_t first = 3;
    const std::vector<std::byte> zeros(whole * plan::sizeOf(state.type));
    ASSERT_TRUE(device.write(state.buffer, 0, zeros.data(), zeros.size()));
    Result<bool> isFilled = device.fill(state, seed, first, whole - first);
    ASSERT_TRUE(isFilled) << isFilled.error().message;
    EXPECT_EQ(*isFilled, state.init.kind != plan::Init::Kind::Constant);
    std::vector<float> values(whole);
    if (*isFilled) {
      const Random random(seed, state.name);
      const std::span<float> filled = std::span(values).subspan(first);
      state.init.kind == plan::Init::Kind::Normal
          ? random.normal(first, filled, state.init.mean, state.init.stddev)
          : random.uniform(first, filled, state.init.low, state.init.high);
    }
    std::vector<std::byte> held(zeros.size());
    ASSERT_TRUE(device.read(state.buffer, 0, held.data(), held.size()));
    const std::vector<uint16_t> halves = rounded(values);
    const void *expected =
        state.type == plan::DType::BF16 ? static_cast<const void *>(halves.data()) : values.data();
    EXPECT_EQ(std::memcmp(held.data(), expected, held.size()), 0);
  }
}

} // namespace nano::test
