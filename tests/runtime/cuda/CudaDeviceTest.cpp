// The device on the fake driver: what it computes, the order of what it calls, and its errors.
#include "tests/runtime/Expect.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/Draws.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace nano::cuda {
namespace {

using test::chainPlan;
using test::checkProducts;
using test::checkSmallPlan;
using test::FakeCuda;
using test::productCases;
using test::productPlan;
using test::refusedRun;
using test::runChain;
using test::smallPlan;
using test::TemporaryFolder;

class CudaDeviceTest : public testing::Test {
protected:
  CudaDeviceTest() {
    fake.parameterBytes = {{"scale", 8 + 1 * 5 * 8}, {"add", 8 + 4 * 4 * 8}};
    fake.onLaunch = [](const FakeCuda::Launch &launch) {
      test::runSmallKernel(launch.kernel, launch.parameter);
    };
    options.report = [this](const std::string &line) { reported.push_back(line); };
  }

  Result<std::unique_ptr<CudaDevice>> tryMake(const plan::Plan &given) {
    const plan::Plan &plan = plans.emplace_back(given); // outlives the device
    EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
    auto device = CudaDevice::create(plan, group.communicator(0), options, fake.apis(), cache.path);
    if (device)
      (void)(*device)->facts(); // waits until products are made, of which `calls` tells
    return device;
  }
  std::unique_ptr<CudaDevice> make(const plan::Plan &plan) {
    auto device = tryMake(plan);
    EXPECT_TRUE(device) << device.error().message;
    return device ? std::move(*device) : nullptr;
  }
  /// The error of making a device.
  Error refused(const plan::Plan &plan) {
    auto device = tryMake(plan);
    EXPECT_FALSE(device);
    return device ? Error() : device.error();
  }
  /// The calls since the last time, those of launches, events and graphs.
  std::vector<std::string> takeCalls() {
    std::vector<std::string> kept;
    for (const std::string &call : std::exchange(fake.calls, {}))
      if (call.rfind("alloc", 0) != 0)
        kept.push_back(call);
    return kept;
  }

  FakeCuda fake;
  LocalGroup group{1};
  std::deque<plan::Plan> plans;
  TemporaryFolder cache;
  DeviceOptions options;
  std::vector<std::string> reported;
};

TEST_F(CudaDeviceTest, RunsAPlan) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  checkSmallPlan(*device, 1000, 5);
  EXPECT_EQ(fake.priorities, (std::vector<int>{0, -5, 0})); // the plan's, the staging's
  EXPECT_EQ(device->describe(), "Fake GPU (sm_90, 132 multiprocessors), CUDA 13.0, NVRTC 13.0");
  device.reset();
  EXPECT_EQ(fake.allocations, 0);
  EXPECT_EQ(fake.objects, 0);
}

TEST_F(CudaDeviceTest, FillsStates) {
  test::runDraws(fake);
  const plan::Plan plan = test::planOfDraws(1000);
  auto device = make(plan);
  ASSERT_TRUE(device);
  test::checkDraws(*device, plan);
  Result<bool> outside = device->fill(plan.states[0], 0, 990, 11);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().message, "buffer 'x' has 4000 bytes, not 44 at offset 3960");
}

TEST_F(CudaDeviceTest, ComputesProductsOfEveryLayout) {
  plan::Plan plan = productPlan(productCases());
  auto device = make(plan);
  ASSERT_TRUE(device);
  checkProducts(*device, plan);
}

TEST_F(CudaDeviceTest, RunsOneByOneAndRecordsThenReplays) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  takeCalls();
  ASSERT_TRUE(device->run("main"));
  // Streams are 0 and 1, the staging's is 2; each command is waited for.
  std::string wait = "synchronize stream 0";
  // Events 0 and 1 join the streams, 2 and 3 are the plan's.
  EXPECT_EQ(takeCalls(), (std::vector<std::string>{"copy 4000 stream 0",
                                                   wait,
                                                   wait,
                                                   "launch scale stream 0",
                                                   wait,
                                                   wait,
                                                   "launch add stream 0",
                                                   wait,
                                                   "set 4000 stream 0",
                                                   wait,
                                                   "begin capture stream 0",
                                                   "record event 0 stream 0",
                                                   "wait event 0 stream 1",
                                                   "copy 4000 stream 1",
                                                   "record event 3 stream 1",
                                                   "launch scale stream 0",
                                                   "wait event 3 stream 0",
                                                   "launch add stream 0",
                                                   "set 4000 stream 1",
                                                   "record event 1 stream 1",
                                                   "wait event 1 stream 0",
                                                   "end capture stream 0",
                                                   "instantiate",
                                                   "upload graph stream 0"}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(device->run("main"));
    EXPECT_EQ(takeCalls(), (std::vector<std::string>{"launch graph stream 0"}));
  }
}

TEST_F(CudaDeviceTest, WhatIsPreparedAheadIsReplayedAtOnce) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  takeCalls();
  ASSERT_TRUE(device->prepareAhead({"main"}));
  const std::vector<std::string> calls = takeCalls();
  auto count = [&](const char *call) { return std::count(calls.begin(), calls.end(), call); };
  EXPECT_EQ(count("launch scale stream 0"), 2); // run, and recorded
  EXPECT_EQ(count("instantiate"), 1);
  EXPECT_EQ(count("upload graph stream 0"), 1);
  EXPECT_EQ(count("launch graph stream 0"), 0);
  takeCalls();
  // Nothing is made, loaded or allocated for the first run.
  const std::pair<int, int> there(fake.allocations, fake.objects);
  checkSmallPlan(*device, 1000, 5);
  takeCalls();
  ASSERT_TRUE(device->run("main"));
  EXPECT_EQ(takeCalls(), (std::vector<std::string>{"launch graph stream 0"}));
  EXPECT_EQ(std::pair(fake.allocations, fake.objects), there);
  ASSERT_TRUE(device->prepareAhead({"main"}));
  EXPECT_EQ(takeCalls(), std::vector<std::string>());
  EXPECT_FALSE(device->prepareAhead({"gone"}));
}

// A plan whose copies are on the third stream; nothing is on the second.
TEST_F(CudaDeviceTest, CopiesHaveAStreamOfTheirOwn) {
  plan::Plan plan = smallPlan(1000);
  plan.programs[0].streams = 3;
  for (plan::Command &command : plan.programs[0].commands)
    command.stream *= 2;
  auto device = make(plan);
  ASSERT_TRUE(device);
  takeCalls();
  ASSERT_TRUE(device->run("main"));
  std::vector<std::string> calls = takeCalls();
  calls.erase(calls.begin(), std::find(calls.begin(), calls.end(), "begin capture stream 0"));
  EXPECT_EQ(calls, (std::vector<std::string>{
                       "begin capture stream 0", "record event 0 stream 0", "wait event 0 stream 1",
                       "wait event 0 stream 2", "copy 4000 stream 2", "record event 4 stream 2",
                       "launch scale stream 0", "wait event 4 stream 0", "launch add stream 0",
                       "set 4000 stream 2", "record event 1 stream 1", "wait event 1 stream 0",
                       "record event 2 stream 2", "wait event 2 stream 0", "end capture stream 0",
                       "instantiate", "upload graph stream 0"}));
}

TEST_F(CudaDeviceTest, GraphsComputeWhatSingleCommandsDo) {
  std::vector<std::vector<std::vector<float>>> found;
  for (bool waits : {true, false}) {
    options.waitForEach = waits;
    auto device = make(chainPlan(20));
    ASSERT_TRUE(device);
    found.push_back(runChain(*device, 20));
  }
  EXPECT_EQ(found[1], found[0]);
}

// NVML with one GPU, that of the fake driver.
struct FakeNvml {
  static inline std::string asked;
  static inline unsigned long long millijoules = 0;
  static inline int energyOutcome = 0;
  static cuda::NvmlApi api() {
    using Outcome = cuda::nvml::Outcome;
    return {
        [] { return Outcome::success; },
        [](Outcome outcome) { return outcome == Outcome::notSupported ? "Not Supported" : "?"; },
        [](const char *uuid, cuda::nvml::Device *) {
          asked = uuid;
          return Outcome::success;
        },
        [](cuda::nvml::Device, unsigned long long *value) {
          *value = millijoules;
          return Outcome(energyOutcome);
        },
        [](cuda::nvml::Device, unsigned *milliwatts) {
          *milliwatts = 700'000;
          return Outcome::success;
        }};
  }
};

TEST_F(CudaDeviceTest, CountsJoulesThroughNvml) {
  const cuda::NvmlApi nvml = FakeNvml::api();
  cuda::Apis apis = fake.apis();
  apis.nvml = &nvml;
  const plan::Plan plan = smallPlan(1000);
  auto made = CudaDevice::create(plan, group.communicator(0), options, apis, cache.path);
  ASSERT_TRUE(made) << made.error().message;
  const std::unique_ptr<CudaDevice> &device = *made;
  FakeNvml::millijoules = 1234567;
  EnergyCounter counter = device->energy();
  ASSERT_TRUE(counter.joules) << counter.name;
  EXPECT_EQ(counter.name, "NVML");
  EXPECT_DOUBLE_EQ(counter.limit, 700);
  EXPECT_EQ(counter.owner, "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(FakeNvml::asked, counter.owner);
  EXPECT_DOUBLE_EQ(counter.joules().value(), 1234.567);
  FakeNvml::millijoules += 500;
  EXPECT_DOUBLE_EQ(counter.joules().value(), 1235.067);
  FakeNvml::energyOutcome = cuda::nvml::notSupported;
  EXPECT_FALSE(counter.joules());
  const EnergyCounter none = device->energy();
  EXPECT_FALSE(none.joules);
  EXPECT_EQ(none.name,
            "NVML: Not Supported in nvmlDeviceGetTotalEnergyConsumption of " + counter.owner);
  FakeNvml::energyOutcome = 0;
}

TEST_F(CudaDeviceTest, SaysWhatTheStartTook) {
  auto device = make(chainPlan(20));
  ASSERT_TRUE(device);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(device->run("chain"));
  std::vector<std::string> names;
  for (const auto &[name, milliseconds] : device->startTimes()) {
    names.push_back(name);
    EXPECT_GE(milliseconds, 0) << name;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"driver", "context", "memory", "cublaslt", "streams",
                                      "kernel_code", "kernel_modules", "programs", "products",
                                      "ranks", "clearing", "products_aside", "first_others",
                                      "first_waits", "first_products", "capture", "instantiate"}));
}

TEST_F(CudaDeviceTest, LaysOutLaunches) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  ASSERT_TRUE(device->run("main"));
  ASSERT_EQ(fake.launches.size(), 2u);
  const FakeCuda::Launch &add = fake.launches[1];
  EXPECT_EQ(add.blocks, 2u + 3u); // 333 and 667 iterations by 256; the segment of none has no block
  EXPECT_EQ(add.threads, 64u);
  EXPECT_EQ(add.sharedBytes, 52224u);
  EXPECT_EQ(add.parameter[0] & 0xFFFFFFFF, 2u);
  EXPECT_EQ(add.parameter[0] >> 32, 5u);
  EXPECT_EQ(add.parameter[3], 333u);
  EXPECT_EQ(add.parameter[4], 0u);
  EXPECT_EQ(add.parameter[7], 667u);
  EXPECT_EQ(add.parameter[8], 2u);
  for (size_t i = 9; i < add.parameter.size(); ++i)
    EXPECT_EQ(add.parameter[i], 0u);
}

TEST_F(CudaDeviceTest, WritesDoNotWaitForPrograms) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(device->run("main"));
  std::vector<float> x(1000, 1.0F);
  takeCalls();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(device->write(1, 0, x.data(), 4000));
    ASSERT_TRUE(device->run("main"));
  }
  for (const std::string &call : takeCalls())
    EXPECT_EQ(call.find("synchronize"), std::string::npos) << call;
  float z = 0;
  ASSERT_TRUE(device->readLater(3, 0, &z, 4));
  EXPECT_EQ(z, 0);
  ASSERT_TRUE(device->wait());
  EXPECT_EQ(z, 1 + 1 * x[0]); // the factor was never written: arenas start as zeros
}

TEST_F(CudaDeviceTest, CopiesLargeBuffersInPieces) {
  int64_t count = 3'000'001; // 12 MB: more than the ring has
  auto device = make(smallPlan(count));
  ASSERT_TRUE(device);
  checkSmallPlan(*device, count, 2);
  float value = 0;
  EXPECT_CONTAINS(device->write(1, uint64_t(count) * 4 - 2, &value, 4).error().message,
                  "buffer 'x' has 12000004 bytes, not 4 at offset 12000002");
  EXPECT_CONTAINS(device->read(9, 0, &value, 4).error().message, "buffer 9 does not exist");
  EXPECT_CONTAINS(device->run("gone").error().message, "the plan has no program 'gone'");
}

TEST_F(CudaDeviceTest, KeepsCompiledKernels) {
  ASSERT_TRUE(make(smallPlan(1000)));
  EXPECT_EQ(fake.compiled, 2);
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  EXPECT_EQ(fake.compiled, 2);
  std::map<std::string, std::string> facts;
  for (const auto &[name, value] : device->facts())
    facts[name] = value;
  EXPECT_EQ(facts["kernels_cached"], "2");
  EXPECT_EQ(facts["kernels_compiled"], "0");
  std::string resources; // registers and bytes of local memory as the driver says, shared memory
  for (const plan::Kernel &kernel : smallPlan(1000).kernels)
    resources +=
        fmt::format("{}{} 40 8 {}", resources.empty() ? "" : "; ", kernel.name, kernel.sharedBytes);
  EXPECT_EQ(facts["kernel_resources"], resources);
  EXPECT_EQ(facts["architecture"], "sm_90a");
  EXPECT_EQ(facts["allocated_bytes"],
            std::to_string(smallPlan(1000).arenaBytes + Staging::deviceBytes));
  EXPECT_EQ(facts["gpu_used_bytes"], std::to_string((uint64_t(8) << 30) - fake.freeBytes));
  EXPECT_TRUE(reported.empty());
  fake.tellsMemory = false;
  for (const auto &[name, value] : device->facts())
    EXPECT_NE(name, "gpu_used_bytes") << value;
}

TEST_F(CudaDeviceTest, RefusesWhatItCannotRun) {
  plan::Plan cpu = smallPlan(10);
  cpu.target = "cpu";
  auto device = CudaDevice::create(cpu, group.communicator(0), options, fake.apis(), "");
  ASSERT_FALSE(device);
  EXPECT_CONTAINS(device.error().message, "recompile the model with --target cuda");
  EXPECT_EQ(device.error().exitStatus(), 2);

  fake.devices = 0;
  Error none = refused(smallPlan(10));
  EXPECT_EQ(none.exitStatus(), 2);
  EXPECT_CONTAINS(none.message, "no NVIDIA GPU can be used here");
  fake.devices = 1;

  fake.maxThreads = 64;
  EXPECT_CONTAINS(refused(smallPlan(10)).message,
                  "kernel scale: it is launched with 128 threads, its registers allow 64");
  fake.maxThreads = 1024;

  plan::Plan shared = smallPlan(10);
  shared.kernels[1].sharedBytes = 220 * 1024;
  EXPECT_CONTAINS(refused(shared).message, "kernel add: it needs 225280 bytes of shared memory");

  plan::Plan absent = smallPlan(10);
  absent.kernels[0].name = "absent";
  EXPECT_CONTAINS(refused(absent).message, "its source scale.cu does not define it");

  fake.parameterBytes["add"] = 128;
  EXPECT_CONTAINS(refused(smallPlan(10)).message,
                  "program 'main', command 4 'z plus y' (small.cpp:4): kernel add takes 128 bytes "
                  "of parameters, the plan has 136");
  EXPECT_EQ(fake.allocations, 0);
  EXPECT_EQ(fake.objects, 0);
}

TEST_F(CudaDeviceTest, OutOfMemoryNamesTheLargestBuffers) {
  fake.freeBytes = uint64_t(1) << 20;
  Error error = refused(smallPlan(100000));
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_EQ(error.message,
            "out of memory: the plan needs 9.5 MiB and 1.0 MiB are available; largest buffers: x "
            "0.4 MiB (small.cpp:2), y 0.4 MiB (small.cpp:3), z 0.4 MiB (small.cpp:4), w 0.4 MiB "
            "(small.cpp:5); compile the model with a smaller seq_len or val_seq_len (-D "
            "seq_len=...)");
  fake.freeBytes = uint64_t(8) << 30;
  fake.onCall = [](const std::string &call) { // another process was quicker
    return call.rfind("alloc 16", 0) == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  };
  EXPECT_CONTAINS(refused(smallPlan(100000)).message, "out of memory: the plan needs 9.5 MiB");
  EXPECT_EQ(fake.allocations, 0);
}

TEST_F(CudaDeviceTest, ErrorsNameTheCommand) {
  plan::Plan plan = smallPlan(1000);
  auto device = make(plan);
  ASSERT_TRUE(device);
  bool isLaunched = false;
  fake.onCall = [&](const std::string &call) { // found by waiting, as faults of kernels are
    isLaunched |= call.rfind("launch add", 0) == 0;
    return isLaunched && call.rfind("synchronize", 0) == 0 ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                           : CUDA_SUCCESS;
  };
  Status status = device->run("main");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_EQ(status.error().message,
            "program 'main', command 4 'z plus y' (small.cpp:4): CUDA: an illegal memory access "
            "(CUDA_ERROR_ILLEGAL_ADDRESS) in cuStreamSynchronize");
  isLaunched = false;
  EXPECT_TRUE(device->runCommand("main", 2));
  status = device->runCommand("main", 4);
  ASSERT_FALSE(status);
  EXPECT_CONTAINS(status.error().message, "command 4 'z plus y' (small.cpp:4): CUDA: an illegal");
  EXPECT_CONTAINS(device->runCommand("main", 8).error().message, "has no command 8");
}

TEST_F(CudaDeviceTest, ErrorsOfAGraphNameTheProgram) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  ASSERT_TRUE(device->run("main"));
  ASSERT_TRUE(device->run("main"));
  fake.onCall = [&](const std::string &call) {
    return call.rfind("synchronize", 0) == 0 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
  };
  float value;
  Status status = device->read(3, 0, &value, 4);
  ASSERT_FALSE(status);
  EXPECT_CONTAINS(status.error().message, "in program 'main' or one before it: CUDA: an illegal");
  EXPECT_CONTAINS(status.error().message, "--check-commands");

  // Asked to, it runs command by command for good.
  fake.onCall = {};
  device.reset();
  takeCalls();
  options.waitForEach = true;
  device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(device->run("main"));
  for (const std::string &call : takeCalls())
    EXPECT_EQ(call.find("graph"), std::string::npos) << call;
}

TEST_F(CudaDeviceTest, AFailedRecordingLeavesTheStreamUsable) {
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  bool isRecording = false;
  fake.onCall = [&](const std::string &call) {
    isRecording |= call.rfind("begin capture", 0) == 0;
    return isRecording && call.rfind("launch add", 0) == 0 ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                           : CUDA_SUCCESS;
  };
  EXPECT_CONTAINS(device->run("main").error().message, "command 4 'z plus y' (small.cpp:4): CUDA");
  fake.onCall = {};
  checkSmallPlan(*device, 1000, 2);
}

TEST_F(CudaDeviceTest, MeasuresEveryCommand) {
  options.profile = options.trace = true;
  auto device = make(smallPlan(1000));
  ASSERT_TRUE(device);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(device->run("main"));
  std::vector<CommandTime> times = device->times();
  ASSERT_EQ(times.size(), 6u);
  for (const CommandTime &time : times) {
    EXPECT_EQ(time.runs, 2u); // the first run is for warming up
    EXPECT_GT(time.seconds, 0);
  }
  std::vector<CommandSpan> spans = device->takeSpans();
  ASSERT_EQ(spans.size(), 12u);
  EXPECT_EQ(spans[2].command->label, "y from x");
  EXPECT_GT(spans[3].start, spans[2].start);
  EXPECT_TRUE(device->takeSpans().empty());
  EXPECT_FALSE(device->rates()); // too small an arena to tell
}

TEST_F(CudaDeviceTest, SaysWhichProductHasNoAlgorithm) {
  fake.unsupported = CUDA_R_8F_E4M3;
  plan::Plan plan = productPlan(productCases());
  Error error = refusedRun(make(plan), plan);
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_EQ(error.message,
            "program 'f8', command 0 'f8' (products.cpp:7): cuBLASLt 13.0.2 has no algorithm for "
            "the product 48x32x64 f8e4m3fn*f8e4m3fnT->bf16 ld 64,64,32 align 256,256,256 (a test's "
            "status)");
}

TEST_F(CudaDeviceTest, AddsUpForwardProductsOfF8Fast) {
  test::ProductCase f8 = productCases().back();
  ASSERT_TRUE(f8.command.scales);
  const auto fast = [&](plan::DType a, plan::DType b, plan::DType c) {
    f8.command.aType = a, f8.command.bType = b, f8.command.cType = c;
    const plan::Plan plan = productPlan({f8});
    fake.fastProducts = 0;
    EXPECT_TRUE(make(plan)->run(plan.programs[0].name));
    return fake.fastProducts;
  };
  EXPECT_EQ(fast(plan::DType::F8E4M3FN, plan::DType::F8E4M3FN, plan::DType::BF16), 1);
  EXPECT_EQ(fast(plan::DType::F8E5M2, plan::DType::F8E4M3FN, plan::DType::BF16), 0);
  EXPECT_EQ(fast(plan::DType::F8E4M3FN, plan::DType::F8E4M3FN, plan::DType::F32), 0);
}

TEST_F(CudaDeviceTest, RefusesF8ProductsThatGpusLack) {
  test::ProductCase f8 = productCases().back();
  ASSERT_TRUE(f8.command.scales);
  fake.unsupported = CUDA_R_8F_E5M2;
  f8.command.transposeB = false;
  f8.command.ldb = f8.command.n;
  const plan::Plan plan = productPlan({f8});
  Error layout = refusedRun(make(plan), plan);
  EXPECT_EQ(layout.exitStatus(), 2);
  EXPECT_CONTAINS(layout.message,
                  "; f8 products need A as m×k and B as n×k, both with k along rows");
}

TEST_F(CudaDeviceTest, TunesOnceAndUsesTheChoice) {
  plan::Plan plan = productPlan({productCases()[0], productCases()[5]});
  options.tuneFile = cache.path + "/p.plan.tune.json";
  options.tune = true;
  auto device = make(plan);
  ASSERT_TRUE(device);
  // The fake's clock makes the first candidate the fastest.
  ASSERT_EQ(reported.size(), 3u);
  EXPECT_CONTAINS(reported[0], "tuned 48x32x64 f32*f32->f32 ld 64,32,32 align 256,256,256: "
                               "algorithm 1 of 4, ");
  EXPECT_EQ(reported[2], "wrote " + options.tuneFile + ": 2 products of Fake GPU");
  auto tunedOf = [](const CudaDevice &given) {
    for (const auto &[name, value] : given.facts())
      if (name == "products_tuned")
        return value;
    return std::string("none");
  };
  EXPECT_EQ(tunedOf(*device), "2");
  checkProducts(*device, plan);
  device.reset();

  // Another choice by hand: the runs that follow take it.
  auto json = nlohmann::json::parse(std::ifstream(options.tuneFile));
  auto &machine = json["machines"]["Fake GPU, cuBLASLt 13.0.2"];
  ASSERT_EQ(machine.size(), 2u);
  for (auto &choice : machine)
    choice["algorithm"] = "0000000000000003" + std::string(112, '0');
  std::ofstream(options.tuneFile) << json.dump();
  options.tune = false;
  reported.clear();
  device = make(plan);
  ASSERT_TRUE(device);
  fake.algorithms.clear();
  checkProducts(*device, plan);
  EXPECT_EQ(fake.algorithms, std::vector<int>(6, 3));
  EXPECT_EQ(tunedOf(*device), "2");
  EXPECT_TRUE(reported.empty());
  device.reset();

  // An algorithm that this library does not take any more gives way to the first proposal.
  fake.candidates = 2;
  device = make(plan);
  ASSERT_TRUE(device);
  fake.algorithms.clear();
  checkProducts(*device, plan);
  EXPECT_EQ(fake.algorithms, std::vector<int>(6, 0));
}

TEST_F(CudaDeviceTest, MeasuresCandidatesOnceAndUsesTheChoice) {
  // The same sum by another kernel, which has operands that are read and written.
  plan::Plan plan = smallPlan(1000);
  plan::Command &sum = plan.programs[0].commands[4];
  ASSERT_EQ(sum.label, "z plus y");
  plan.kernels.push_back(plan.kernels[1]);
  plan.kernels.back().name = "add_otherwise";
  plan.sources.push_back({"add_otherwise.cu", plan.sources.back().text});
  std::string &text = plan.sources.back().text;
  text.replace(text.find(" add("), 5, " add_otherwise(");
  plan.kernels.back().source = plan.sources.back().name;
  fake.parameterBytes["add_otherwise"] = fake.parameterBytes["add"];
  fake.onLaunch = [](const FakeCuda::Launch &launch) {
    test::runSmallKernel(launch.kernel == "add_otherwise" ? "add" : launch.kernel,
                         launch.parameter);
  };
  sum.candidates = {*sum.as<plan::Launch>()};
  sum.candidates[0].kernel = 2;
  options.tuneFile = cache.path + "/p.plan.tune.json";
  options.tune = true;
  auto device = make(plan);
  ASSERT_TRUE(device);
  // Both are run; the fake's clock makes the first the fastest. What they add to is as it was.
  checkSmallPlan(*device, 1000, 2);
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_CONTAINS(reported[0], "tuned add: add, ");
  EXPECT_CONTAINS(reported[0], " us, add_otherwise ");
  EXPECT_EQ(reported[1], "wrote " + options.tuneFile + ": 1 choices among candidates on Fake GPU");
  const auto count = [&](const char *kernel) {
    return std::count_if(fake.launches.begin(), fake.launches.end(),
                         [&](const FakeCuda::Launch &each) { return each.kernel == kernel; });
  };
  EXPECT_GE(count("add_otherwise"), 3);
  device.reset();

  // Another choice by hand is taken.
  auto json = nlohmann::json::parse(std::ifstream(options.tuneFile));
  auto &machine = json["kernels"]["Fake GPU"];
  ASSERT_EQ(machine.size(), 1u);
  machine["add | add_otherwise"]["chosen"] = "add_otherwise";
  std::ofstream(options.tuneFile) << json.dump();
  options.tune = false;
  reported.clear();
  device = make(plan);
  ASSERT_TRUE(device);
  fake.launches.clear();
  checkSmallPlan(*device, 1000, 2);
  EXPECT_EQ(count("add"), 0);
  EXPECT_GT(count("add_otherwise"), 0);
  EXPECT_TRUE(reported.empty());
  device.reset();

  // Not on another machine, and that is said.
  json["kernels"] = {{"Other GPU", machine}};
  json["machines"] = nlohmann::json::object();
  std::ofstream(options.tuneFile) << json.dump();
  device = make(plan);
  ASSERT_TRUE(device);
  fake.launches.clear();
  checkSmallPlan(*device, 1000, 2);
  EXPECT_EQ(count("add_otherwise"), 0);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_CONTAINS(reported[0], "p.plan.tune.json: measured on Other GPU; this is Fake GPU, for "
                               "which nothing of it is used; run with --tune to measure here");
}

TEST_F(CudaDeviceTest, ATuningFileThatIsNoneIsSaid) {
  options.tuneFile = cache.path + "/p.plan.tune.json";
  plan::Plan plan = productPlan({productCases()[0]});
  for (const char *text :
       {"no JSON", "[]", R"({"format":1,"machines":3})",
        R"({"format":1,"machines":{"Fake GPU, cuBLASLt 13.0.2":{"p":{"us":1}}}})"}) {
    std::ofstream(options.tuneFile) << text;
    reported.clear();
    ASSERT_TRUE(make(plan)) << text;
    ASSERT_EQ(reported.size(), 1u) << text;
    EXPECT_CONTAINS(reported[0], "p.plan.tune.json: not a whole tuning file");
  }
  // Numbers that no measurement gives.
  for (const char *numbers : {R"("us":-1,"chosen":0)", R"("us":1e300,"chosen":0)",
                              R"("us":1,"chosen":-1)", R"("us":1,"chosen":1e300)"}) {
    std::ofstream(options.tuneFile)
        << R"({"format":1,"machines":{"Fake GPU, cuBLASLt 13.0.2":{"p":{"first_us":1,)"
        << R"("candidates":1,"algorithm":")" << std::string(128, '0') << "\"," << numbers << "}}}}";
    reported.clear();
    ASSERT_TRUE(make(plan)) << numbers;
    ASSERT_EQ(reported.size(), 1u) << numbers;
    EXPECT_CONTAINS(reported[0], "what is wrong in it is left aside");
  }
  std::filesystem::remove(options.tuneFile);
  ASSERT_EQ(::mkfifo(options.tuneFile.c_str(), 0600), 0);
  reported.clear();
  ASSERT_TRUE(make(plan));
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_CONTAINS(reported[0], "p.plan.tune.json: is not a regular file but a FIFO");
  std::filesystem::remove(options.tuneFile);
  std::ofstream(options.tuneFile) << R"({"format":1,"machines":{"Other":{"kept":{}}}})";
  options.tune = true;
  ASSERT_TRUE(make(plan));
  auto json = nlohmann::json::parse(std::ifstream(options.tuneFile));
  EXPECT_TRUE(json["machines"]["Other"].contains("kept"));
  EXPECT_EQ(json["machines"].size(), 2u);
  options.tuneFile = cache.path + "/no/such/folder/x.json";
  Error error = refused(plan);
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_CONTAINS(error.message, "--tune: ");
  EXPECT_CONTAINS(error.message,
                  "cannot be created: No such file or directory; put the plan into a "
                  "folder that can be written");
}

} // namespace
} // namespace nano::cuda
