// The CPU device: launches over any split, scratch, moves, collectives, floating-point mode, and
// what it refuses.
#include "runtime/Device.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/Reaches.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <string>
#include <thread>

namespace nano {
namespace {

using plan::DType;
using test::PlanBuilder;

/// A device for one rank.
struct Single {
  explicit Single(const plan::Plan &given, int threads = 2) : plan(given) {
    test::sayReaches(plan);
    Status valid = plan::validate(plan);
    EXPECT_TRUE(valid) << valid.error().message;
    DeviceOptions options;
    options.threads = threads;
    auto result = loadDevice(plan, group.communicator(0), options);
    EXPECT_TRUE(result) << result.error().message;
    if (result)
      device = std::move(*result);
  }
  template <typename T> void write(uint32_t buffer, const std::vector<T> &values) {
    Status status = device->write(buffer, 0, values.data(), values.size() * sizeof(T));
    EXPECT_TRUE(status) << status.error().message;
  }
  template <typename T> std::vector<T> read(uint32_t buffer, size_t count) {
    std::vector<T> values(count);
    Status status = device->read(buffer, 0, values.data(), count * sizeof(T));
    EXPECT_TRUE(status) << status.error().message;
    return values;
  }
  void run() {
    Status status = device->run("main");
    EXPECT_TRUE(status) << status.error().message;
  }

  plan::Plan plan;
  LocalGroup group{1};
  std::unique_ptr<Device> device;
};

/// The message of the error that making a device of `plan` leads to.
Error refusal(const plan::Plan &plan) {
  LocalGroup group(1);
  auto result = loadDevice(plan, group.communicator(0), {});
  EXPECT_FALSE(result);
  return result ? Error() : result.error();
}

TEST(CpuDevice, RunsEveryIterationOnceHoweverItIsSplit) {
  for (int threads : {1, 2, 3, 7})
    for (int64_t iterations : {0, 1, 2, 63, 1000, 4096})
      for (int64_t grain : {1, 8, 5000}) {
        PlanBuilder builder;
        uint32_t counts = builder.buffer("counts", DType::I32, {8192});
        uint32_t kernel = builder.kernel("count_runs");
        auto &launch = builder.add<plan::Launch>();
        launch.kernel = kernel;
        launch.segments = {{{{counts, 0, true, true}}, iterations, grain},
                           {{{counts, 4 * 5000, true, true}}, 3, 1},
                           {{{counts, 4 * 6000, true, true}}, iterations / 2, grain}};
        Single single(builder.plan, threads);
        single.run();
        single.run();
        std::vector<int32_t> got = single.read<int32_t>(counts, 8192);
        for (int64_t i = 0; i < 8192; ++i) {
          bool ran =
              i < iterations || (i >= 5000 && i < 5003) || (i >= 6000 && i < 6000 + iterations / 2);
          ASSERT_EQ(got[size_t(i)], ran ? 2 : 0) << i << " of " << iterations;
        }
      }
}

/// Launches and oneDNN's products take turns on the same threads: a second pool would spin beside
/// the first. Pools belong to the thread that starts them, hence a fresh one.
TEST(CpuDevice, SharesItsThreadsWithOneDnn) {
  auto tasks = [] {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task"))
      names.insert(entry.path().filename());
    return names;
  };
  constexpr int threads = 3;
  constexpr int64_t size = 256;
  std::thread([&] {
    PlanBuilder builder;
    uint32_t counts = builder.buffer("counts", DType::I32, {8192});
    uint32_t left = builder.buffer("left", DType::F32, {size * size});
    uint32_t right = builder.buffer("right", DType::F32, {size * size});
    uint32_t product = builder.buffer("product", DType::F32, {size * size});
    auto &launch = builder.add<plan::Launch>();
    launch.kernel = builder.kernel("count_runs");
    launch.segments = {{{{counts, 0, true, true}}, 8192, 1}};
    auto &matmul = builder.add<plan::Matmul>();
    matmul.a = {left, 0}, matmul.b = {right, 0}, matmul.d = {product, 0};
    matmul.c = {product, 0, true, false};
    matmul.aType = matmul.bType = matmul.cType = DType::F32;
    matmul.m = matmul.n = matmul.k = size, matmul.batch = 1;
    matmul.lda = matmul.ldb = matmul.ldc = matmul.ldd = size;
    const std::set<std::string> before = tasks();
    Single single(builder.plan, threads);
    single.run();
    std::set<std::string> made = tasks();
    for (const std::string &task : before)
      made.erase(task);
    EXPECT_EQ(made.size(), size_t(threads - 1));
  }).join();
}

TEST(CpuDevice, PassesOperandsAtTheirOffsets) {
  PlanBuilder builder;
  uint32_t x = builder.buffer("x", DType::F32, {1000});
  uint32_t scalars = builder.buffer("scalars", DType::F32, {4});
  uint32_t y = builder.buffer("y", DType::F32, {1000});
  uint32_t kernel = builder.kernel("add_scaled");
  auto &launch = builder.add<plan::Launch>();
  launch.kernel = kernel;
  launch.segments = {{{{x, 400}, {scalars, 4}, {y, 40, true, true}}, 500, 16},
                     {{{x, 0}, {scalars, 12}, {y, 3200, true, true}}, 200, 16}};
  std::vector<float> values(1000), factors = {9, 2, 9, -3};
  std::iota(values.begin(), values.end(), 1.0f);
  Single single(builder.plan);
  single.write(x, values);
  single.write(scalars, factors);
  single.write(y, std::vector<float>(1000, 0.5f));
  single.run();
  std::vector<float> got = single.read<float>(y, 1000);
  for (int i = 0; i < 1000; ++i) {
    float want = 0.5f;
    if (i >= 10 && i < 510)
      want += 2 * values[size_t(i) + 90];
    if (i >= 800)
      want += -3 * values[size_t(i - 800)];
    ASSERT_EQ(got[size_t(i)], want) << i;
  }
}

TEST(CpuDevice, GivesEachThreadItsOwnScratch) {
  PlanBuilder builder;
  uint32_t out = builder.buffer("out", DType::I32, {512});
  uint32_t kernel = builder.kernel("own_scratch", 1024);
  auto &launch = builder.add<plan::Launch>();
  launch.kernel = kernel;
  launch.segments = {{{{out, 0, true, false}}, 512, 1}};
  Single single(builder.plan, 4);
  single.run();
  EXPECT_EQ(single.read<int32_t>(out, 512), std::vector<int32_t>(512, 1));
}

TEST(CpuDevice, FlushesDenormalsOnEveryThread) {
  constexpr size_t count = 4096;
  PlanBuilder builder;
  uint32_t x = builder.buffer("x", DType::F32, {int64_t(count)});
  uint32_t y = builder.buffer("y", DType::F32, {int64_t(count)});
  uint32_t kernel = builder.kernel("halve");
  auto &launch = builder.add<plan::Launch>();
  launch.kernel = kernel;
  launch.segments = {{{{x, 0}, {y, 0, true, false}}, int64_t(count), 1}};
  Single single(builder.plan, 3);
  single.write(x, std::vector<float>(count, std::numeric_limits<float>::min()));
  single.run();
  EXPECT_EQ(single.read<float>(y, count), std::vector<float>(count, 0.0f));
  volatile float smallest = std::numeric_limits<float>::min();
  EXPECT_NE(smallest * 0.5f, 0.0f) << "the caller's mode must be as before";
}

TEST(CpuDevice, FillsAndCopies) {
  constexpr int64_t count = 300001;
  PlanBuilder builder;
  uint32_t x = builder.buffer("x", DType::BF16, {count});
  uint32_t y = builder.buffer("y", DType::BF16, {count});
  builder.add<plan::Copy>() = {DType::BF16, {x, 2}, {y, 4, true, false}, count - 3};
  builder.add<plan::Fill>() = {DType::BF16, {x, 20, true, false}, count - 20};
  std::vector<uint16_t> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = uint16_t(i * 31 + 1);
  Single single(builder.plan);
  single.write(x, values);
  single.write(y, std::vector<uint16_t>(count, 7));
  single.run();
  auto gotX = single.read<uint16_t>(x, count), gotY = single.read<uint16_t>(y, count);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(gotX[size_t(i)], i >= 10 && i < count - 10 ? 0 : values[size_t(i)]) << i;
    ASSERT_EQ(gotY[size_t(i)], i >= 2 && i < count - 1 ? values[size_t(i - 1)] : 7) << i;
  }
}

TEST(CpuDevice, StartsWithZerosAndChecksRanges) {
  PlanBuilder builder;
  uint32_t x = builder.buffer("x", DType::F32, {64});
  builder.buffer("y", DType::F32, {64});
  Single single(builder.plan);
  EXPECT_EQ(single.read<float>(x, 64), std::vector<float>(64, 0));
  float values[64] = {};
  for (auto [buffer, offset, bytes] : {std::tuple<uint32_t, uint64_t, uint64_t>(x, 4, 256),
                                       {x, 257, 0},
                                       {x, UINT64_MAX, 4},
                                       {2, 0, 4}}) {
    EXPECT_FALSE(single.device->write(buffer, offset, values, bytes));
    EXPECT_FALSE(single.device->read(buffer, offset, values, bytes));
  }
  EXPECT_TRUE(single.device->write(x, 252, values, 4));
  EXPECT_FALSE(single.device->run("absent"));
}

TEST(CpuDevice, TwoPlansDoNotShareCode) {
  auto plan = [](const std::string &code) {
    PlanBuilder builder;
    builder.plan.code = code;
    uint32_t x = builder.buffer("x", DType::F32, {1});
    uint32_t y = builder.buffer("y", DType::F32, {1});
    uint32_t kernel = builder.kernel("halve");
    auto &launch = builder.add<plan::Launch>();
    launch.kernel = kernel;
    launch.segments = {{{{x, 0}, {y, 0, true, false}}, 1, 1}};
    return builder.plan;
  };
  plan::Plan one = plan(test::kernelCode()), other = plan(test::otherKernelCode());
  for (int i = 0; i < 3; ++i) {
    Single first(one), second(other);
    for (Single *single : {&first, &second}) {
      single->write(0, std::vector<float>{4});
      single->run();
    }
    EXPECT_EQ(first.read<float>(1, 1)[0], 2);
    EXPECT_EQ(second.read<float>(1, 1)[0], 12);
  }
}

TEST(CpuDevice, RanksAddUpInPlace) {
  PlanBuilder builder;
  uint32_t x = builder.buffer("grads", DType::F32, {10000});
  uint32_t loss = builder.buffer("loss", DType::F32, {1});
  builder.add<plan::AllReduce>("gradients").parts = {{{x, 40, true, true}, 9990},
                                                     {{loss, 0, true, true}, 1}};
  LocalGroup group(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto device = loadDevice(builder.plan, group.communicator(rank), {});
      ASSERT_TRUE(device) << device.error().message;
      std::vector<float> values(10000, float(rank + 1));
      ASSERT_TRUE((*device)->write(x, 0, values.data(), 40000));
      ASSERT_TRUE((*device)->write(loss, 0, values.data(), 4));
      for (int step = 0; step < 2; ++step)
        ASSERT_TRUE((*device)->run("main"));
      ASSERT_TRUE((*device)->read(x, 0, values.data(), 40000));
      EXPECT_EQ(values[9], float(rank + 1));
      EXPECT_EQ(values[10], 18);
      EXPECT_EQ(values[9999], 18);
      ASSERT_TRUE((*device)->read(loss, 0, values.data(), 4));
      EXPECT_EQ(values[0], 18);
    });
  for (std::thread &thread : threads)
    thread.join();
}

// Four ranks in two groups: my part of what I have, of the group's sum, everybody's parts, and the
// largest over equal places.
TEST(CpuDevice, RanksShardAndGather) {
  PlanBuilder builder;
  builder.plan.group = 2;
  uint32_t x = builder.buffer("x", DType::F32, {2 * 3000});
  uint32_t shard = builder.buffer("shard", DType::F32, {3000});
  uint32_t sum = builder.buffer("sum", DType::F32, {3000});
  uint32_t all = builder.buffer("all", DType::F32, {4 * 3000});
  auto exchange = [](plan::Ranks ranks, uint32_t from, uint32_t to) -> plan::Exchange {
    return {ranks, DType::F32, {{{from, 0}, {to, 0, true, false}, 3000}}};
  };
  builder.add<plan::Shard>("c") = {exchange(plan::Ranks::Group, x, shard)};
  builder.add<plan::ReduceScatter>("c") = {exchange(plan::Ranks::Group, x, sum)};
  builder.add<plan::AllGather>("c") = {exchange(plan::Ranks::All, sum, all)};
  builder.add<plan::AllReduce>("c") = {
      plan::Ranks::Peers, /*maximum=*/true, DType::F32, {{{sum, 0, true, true}, 3000}}};
  LocalGroup group(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      auto device = loadDevice(builder.plan, group.communicator(rank), {});
      ASSERT_TRUE(device) << device.error().message;
      std::vector<float> values(6000), large(12000);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = float(rank * 10000 + int(i));
      ASSERT_TRUE((*device)->write(x, 0, values.data(), 24000));
      ASSERT_TRUE((*device)->run("main"));
      auto sumOf = [](int member, size_t i) { // of the member's group, at its place
        size_t at = size_t(member % 2) * 3000 + i;
        const int group = member / 2;
        return float(group * 40000 + 10000) + 2 * float(at);
      };
      ASSERT_TRUE((*device)->read(shard, 0, values.data(), 12000));
      for (size_t i : {0, 1, 2999})
        EXPECT_EQ(values[i], float(rank * 10000 + rank % 2 * 3000 + int(i)));
      ASSERT_TRUE((*device)->read(all, 0, large.data(), 48000));
      for (int member = 0; member < 4; ++member)
        for (size_t i : {0, 1, 2999})
          EXPECT_EQ(large[size_t(member) * 3000 + i], sumOf(member, i)) << member;
      ASSERT_TRUE((*device)->read(sum, 0, values.data(), 12000));
      for (size_t i : {0, 1, 2999})
        EXPECT_EQ(values[i], sumOf(2 + rank % 2, i));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(CpuDevice, AFailureNamesTheCommand) {
  PlanBuilder builder;
  uint32_t x = builder.buffer("grads", DType::F32, {8});
  auto &reduce = builder.add<plan::AllReduce>("gradients");
  builder.last().location = {"model.cpp", 41};
  reduce.parts = {{{x, 0, true, true}, 8}};
  LocalGroup group(2);
  group.abort(1, "it was interrupted");
  auto device = loadDevice(builder.plan, group.communicator(0), {});
  ASSERT_TRUE(device);
  Status status = (*device)->run("main");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_EQ(status.error().message.rfind(
                "program 'main', command 0 'gradients' (model.cpp:41): all-reduce 'grads "
                "(model.cpp:41)' of 8 f32 on rank 0: rank 1 failed",
                0),
            0u)
      << status.error().message;
}

TEST(CpuDevice, RefusesFeaturesThatAreMissing) {
  PlanBuilder builder;
  builder.plan.cpuFeatures = {"sse2", "warpdrive", "amx_hyper"};
  Error error = refusal(builder.plan);
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_NE(error.message.find("lacks: warpdrive, amx_hyper; recompile"), std::string::npos)
      << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
}

TEST(CpuDevice, SaysWhoFillsMemoryWhenItDoesNotFit) {
  PlanBuilder builder;
  builder.buffer("small", DType::F32, {1024});
  builder.buffer("logits", DType::F32, {1 << 20, 1 << 22});
  builder.plan.buffers[1].location = {"model.cpp", 88};
  Error error = refusal(builder.plan);
  EXPECT_EQ(error.exitStatus(), 2);
  for (const char *part : {"out of memory: the plan needs 16384.0 GiB",
                           "largest buffers: logits 16384.0 GiB (model.cpp:88), small", "seq_len"})
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
}

TEST(CpuDevice, RefusesCodeThatDoesNotLoad) {
  PlanBuilder builder;
  builder.buffer("x", DType::F32, {1});
  builder.kernel("halve");
  builder.plan.code = std::string(4096, 'x');
  Error error = refusal(builder.plan);
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_NE(error.message.find("native code does not load"), std::string::npos) << error.message;
}

TEST(CpuDevice, MissingDeviceIsAClearLine) {
  PlanBuilder builder;
  builder.plan.target = "abacus";
  Error error = refusal(builder.plan);
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_NE(error.message.find("target abacus, and libnano-device-abacus.so is neither in"),
            std::string::npos)
      << error.message;
}

TEST(CpuDevice, DescribesItselfAndMeasures) {
  PlanBuilder builder;
  uint32_t x = builder.buffer("x", DType::F32, {1 << 20});
  builder.add<plan::Fill>("zero") = {DType::F32, {x, 0, true, false}, 1 << 20};
  LocalGroup group(1);
  DeviceOptions options;
  options.threads = 2;
  options.profile = true;
  auto device = loadDevice(builder.plan, group.communicator(0), options);
  ASSERT_TRUE(device);
  EXPECT_NE((*device)->describe().find("2 threads, oneDNN 2."), std::string::npos);
  EXPECT_TRUE((*device)->times().empty());
  ASSERT_TRUE((*device)->run("main"));
  ASSERT_TRUE((*device)->run("main"));
  std::vector<CommandTime> times = (*device)->times();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].command, &builder.plan.programs[0].commands[0]);
  EXPECT_EQ(times[0].runs, 2u);
  EXPECT_GT(times[0].seconds, 0);
}

} // namespace
} // namespace nano
