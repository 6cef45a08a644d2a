// Finding the first number that is not finite, on a device whose commands are written here.
#include "runtime/NonFinite.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

namespace nano {
namespace {

using plan::DType;

/// Memory, and a function for each command of program "main".
class ScriptedDevice : public Device {
public:
  explicit ScriptedDevice(const plan::Plan &plan)
      : plan(plan), memory(plan.arenaBytes, std::byte{0xFF}) {}

  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override {
    std::memcpy(at(buffer) + offset, data, bytes);
    return ok();
  }
  Status clear(uint32_t buffer) override {
    std::memset(at(buffer), 0, plan.buffers.at(buffer).bytes);
    return ok();
  }
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override {
    std::memcpy(data, at(buffer) + offset, bytes);
    return ok();
  }
  Status run(const std::string &) override { return failed("not as a whole"); }
  Status runCommand(const std::string &, size_t command) override {
    ran.push_back(command);
    commands[command](*this);
    return command == failing ? failed("a failure") : ok();
  }
  std::string describe() const override { return "scripted"; }
  std::byte *at(uint32_t buffer) { return memory.data() + plan.buffers[buffer].offset; }
  float *floats(uint32_t buffer) { return reinterpret_cast<float *>(at(buffer)); }

  std::vector<std::function<void(ScriptedDevice &)>> commands;
  std::vector<size_t> ran;
  size_t failing = SIZE_MAX;

private:
  const plan::Plan &plan;
  std::vector<std::byte> memory;
};

class NonFiniteTest : public testing::Test {
protected:
  NonFiniteTest() {
    for (const char *name : {"input", "partial", "output"})
      plan.buffers.push_back({name,
                              4096 * plan.buffers.size(),
                              4096,
                              DType::F32,
                              {1024},
                              {"m.cpp", uint32_t(10 + plan.buffers.size())}});
    plan.arenaBytes = 3 * 4096;
    plan.programs.push_back({"main", {}, 1, 0});
    plan.kernels.emplace_back().name = "k";
    // partial[0..512) ← input; partial[512..) ← input; output ← partial, by a product.
    for (uint64_t half : {0, 1}) {
      plan::Launch launch;
      launch.segments = {{{{0, 0}, {1, half * 2048, true, false}}, 512, 1}};
      plan.programs[0].commands.push_back({launch, 0, "half", {"m.cpp", uint32_t(20 + half)}});
    }
    plan::Matmul product;
    product.a = {1, 0};
    product.b = {0, 0};
    product.c = {2, 0, true, false};
    plan.programs[0].commands.push_back({product, 0, "product", {}});
  }
  /// Commands that do what they say; `change` is called after command `command`.
  Result<std::optional<NonFinite>> check(size_t command,
                                         const std::function<void(ScriptedDevice &)> &change) {
    device = std::make_unique<ScriptedDevice>(plan);
    std::fill(device->floats(0), device->floats(0) + 1024, 1.0F);
    auto copy = [](uint32_t from, uint32_t to, size_t first, size_t count) {
      return [=](ScriptedDevice &on) {
        std::copy_n(on.floats(from) + first, count, on.floats(to) + first);
      };
    };
    device->commands = {copy(0, 1, 0, 512), copy(0, 1, 512, 512), copy(1, 2, 0, 1024)};
    auto inner = device->commands[command];
    device->commands[command] = [=](ScriptedDevice &on) {
      inner(on);
      change(on);
    };
    return runChecked(plan, *device, "main");
  }

  plan::Plan plan;
  std::unique_ptr<ScriptedDevice> device;
};

TEST_F(NonFiniteTest, FindsNothingWhereAllIsFinite) {
  // What lay in the memory before, all NaN, is not taken for values of half-written buffers.
  auto found = check(0, [](ScriptedDevice &) {});
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  EXPECT_EQ(device->ran, (std::vector<size_t>{0, 1, 2}));
}

TEST_F(NonFiniteTest, NamesTheFirstBufferAndCommand) {
  auto found = check(
      1, [](ScriptedDevice &on) { on.floats(1)[700] = std::numeric_limits<float>::infinity(); });
  ASSERT_TRUE(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ(toString(plan, **found),
            "buffer 'partial' (m.cpp:11), element 700 = inf, written by program 'main', command 1 "
            "'half' (m.cpp:21)");
  EXPECT_EQ(device->ran.size(), 3u); // collectives of later commands have their counterparts

  found = check(2, [](ScriptedDevice &on) { on.floats(2)[0] = NAN; });
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->buffer, 2u);
  EXPECT_EQ((*found)->command, 2u);
}

TEST_F(NonFiniteTest, ErrorsAreTheDevices) {
  ASSERT_TRUE(check(0, [](ScriptedDevice &) {}));
  device->failing = 1;
  EXPECT_EQ(runChecked(plan, *device, "main").error().message, "a failure");
  EXPECT_EQ(runChecked(plan, *device, "other").error().message, "the plan has no program 'other'");
}

TEST(FirstNonFinite, KnowsTheTypes) {
  std::vector<uint8_t> bytes(40000, 0x11);
  EXPECT_FALSE(firstNonFinite(DType::F32, bytes.data(), 10000));
  EXPECT_FALSE(firstNonFinite(DType::F8E4M3FN, bytes.data(), 40000));
  auto put = [&](size_t at, std::initializer_list<uint8_t> values) {
    std::fill(bytes.begin(), bytes.end(), 0x11);
    std::copy(values.begin(), values.end(), bytes.begin() + std::ptrdiff_t(at));
  };
  for (size_t at : {0, 4, 16380, 16384, 39996}) {
    put(at, {0, 0, 0xC0, 0x7F}); // NaN
    EXPECT_EQ(firstNonFinite(DType::F32, bytes.data(), 10000), at / 4);
    EXPECT_EQ(firstNonFinite(DType::BF16, bytes.data(), 20000), at / 2 + 1);
    EXPECT_FALSE(firstNonFinite(DType::I32, bytes.data(), 10000));
    put(at, {0, 0, 0x80, 0xFF}); // −∞
    EXPECT_EQ(firstNonFinite(DType::F32, bytes.data(), 10000), at / 4);
    put(at, {0xFF, 0xFF, 0x7F, 0x7F}); // the largest finite number
    EXPECT_FALSE(firstNonFinite(DType::F32, bytes.data(), 10000));
    put(at, {0x11, 0x7F}); // NaN of E4M3, and of E5M2
    EXPECT_EQ(firstNonFinite(DType::F8E4M3FN, bytes.data(), 40000), at + 1);
    EXPECT_EQ(firstNonFinite(DType::F8E5M2, bytes.data(), 40000), at + 1);
    put(at, {0x7E, 0xFB}); // finite in E4M3; the second the largest of E5M2, the first a NaN there
    EXPECT_FALSE(firstNonFinite(DType::F8E4M3FN, bytes.data(), 40000));
    EXPECT_EQ(firstNonFinite(DType::F8E5M2, bytes.data(), 40000), at);
  }
}

} // namespace
} // namespace nano
