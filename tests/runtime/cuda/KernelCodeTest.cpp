// Compiling with the machine's NVRTC, and the cache of what was compiled.
#include "runtime/cuda/Draws.h"
#include "runtime/cuda/OwnKernels.h"
#include "runtime/cuda/PeerSums.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <thread>

namespace nano::cuda {
namespace {

namespace fs = std::filesystem;
using test::smallPlan;
using test::TemporaryFolder;

class KernelCodeTest : public testing::Test {
protected:
  void SetUp() override {
    Result<const NvrtcApi *> loaded = loadNvrtc();
    if (!loaded)
      GTEST_SKIP() << loaded.error().message;
    nvrtc = *loaded;
  }
  Result<KernelCode> compile(const plan::Plan &plan, const std::string &architecture = "sm_90a") {
    BuildCache cache(folder, ".cubin",
                     [this](const std::string &line) { reported.push_back(line); });
    return compileKernels(plan, *nvrtc, cache, {architecture, 2});
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> paths;
    for (const auto &entry : fs::directory_iterator(folder))
      paths.push_back(entry.path());
    return paths;
  }

  TemporaryFolder temporary;
  std::string folder = temporary.path + "/cache";
  const NvrtcApi *nvrtc = nullptr;
  std::vector<std::string> reported;
};

/// NVRTC whose compilations wait, for 10 s at most, until `isEnough`.
NvrtcApi waitingFor(const NvrtcApi &nvrtc, bool (*isEnough)()) {
  static decltype(NvrtcApi::nvrtcCompileProgram) compile;
  static bool (*goesOn)();
  compile = nvrtc.nvrtcCompileProgram;
  goesOn = isEnough;
  NvrtcApi waiting = nvrtc;
  waiting.nvrtcCompileProgram = [](nvrtcProgram text, int count, const char *const *options) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!goesOn() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return compile(text, count, options);
  };
  return waiting;
}

TEST_F(KernelCodeTest, CompilesOnceForEachThingThatMatters) {
  plan::Plan plan = smallPlan(100);
  Result<KernelCode> first = compile(plan);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->compiled, 2);
  ASSERT_EQ(first->cubins.size(), 2u);
  EXPECT_EQ(first->cubins.at("add.cu").substr(1, 3), "ELF");
  EXPECT_CONTAINS(first->cubins.at("add.cu"), "add");
  EXPECT_EQ(entries().size(), 2u);

  Result<KernelCode> second = compile(plan);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->cached, 2);
  EXPECT_EQ(second->compiled, 0);
  EXPECT_TRUE(second->cubins == first->cubins);

  EXPECT_EQ(compile(plan, "sm_90")->compiled, 2);
  plan.sources[1].text += "\n// changed\n"; // scale.cu
  EXPECT_EQ(compile(plan)->compiled, 1);
  plan.sources[0].text += "\n// changed\n"; // launch.h
  EXPECT_EQ(compile(plan)->compiled, 2);
  EXPECT_EQ(entries().size(), 7u);
  EXPECT_TRUE(reported.empty());
}

TEST_F(KernelCodeTest, CompilesTheRuntimesOwnKernels) {
  BuildCache cache(folder, ".cubin", nullptr);
  const std::map<const char *, std::vector<const char *>> kernels = {
      {PeerSums::text, {"nano_sum_f32", "nano_sum_bf16"}},
      {Draws::text,
       {"nano_normal_f32", "nano_normal_bf16", "nano_uniform_f32", "nano_uniform_bf16"}}};
  for (const auto &[text, names] : kernels) {
    Result<std::string> cubin = ownCubin(text, *nvrtc, cache, "sm_90a");
    ASSERT_TRUE(cubin) << cubin.error().message;
    for (const char *name : names)
      EXPECT_CONTAINS(*cubin, name);
    EXPECT_TRUE(*ownCubin(text, *nvrtc, cache, "sm_90a") == *cubin); // from the cache
  }
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(KernelCodeTest, CompilesWhatProgramsLaunch) {
  plan::Plan plan = smallPlan(100);
  plan::Program &program = plan.programs[0];
  const auto launchesAdd = [](const plan::Command &command) {
    const auto *launch = command.as<plan::Launch>();
    return launch && launch->kernel == 1;
  };
  plan::Command add = *std::find_if(program.commands.begin(), program.commands.end(), launchesAdd);
  std::erase_if(program.commands, launchesAdd);
  Result<KernelCode> code = compile(plan);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(code->cubins.size(), 1u);
  EXPECT_EQ(code->cubins.count("scale.cu"), 1u);
  // A candidate may be launched.
  program.commands[0].candidates = {*add.as<plan::Launch>()};
  code = compile(plan);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(code->compiled, 1);
  EXPECT_EQ(code->cubins.count("add.cu"), 1u);
}

TEST_F(KernelCodeTest, RebuildsADamagedEntryAndSaysSo) {
  plan::Plan plan = smallPlan(100);
  Result<KernelCode> first = compile(plan);
  ASSERT_TRUE(first);
  std::vector<fs::path> all = entries();
  ASSERT_EQ(all.size(), 2u);
  auto read = [](const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  std::string good = read(all[0]), other = read(all[1]);
  std::string flipped = good;
  flipped[good.size() / 2] = char(flipped[good.size() / 2] ^ 1);
  for (const std::string &bad :
       {std::string(), good.substr(0, 10), good.substr(0, good.size() - 1), good + "x", flipped,
        other}) { // the last one: another kernel's entry
    std::ofstream(all[0], std::ios::binary) << bad;
    reported.clear();
    Result<KernelCode> again = compile(plan);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->compiled, 1);
    EXPECT_EQ(again->cached, 1);
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_CONTAINS(reported[0], all[0].string() + ": a damaged entry of the kernel cache");
    EXPECT_TRUE(again->cubins == first->cubins);
    EXPECT_EQ(read(all[0]), good);
  }
}

TEST_F(KernelCodeTest, ManyProcessesShareACache) {
  plan::Plan plan = smallPlan(100);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    pid_t child = fork();
    if (child == 0) {
      bool good = true;
      for (int round = 0; round < 3; ++round) {
        Result<KernelCode> code = compile(plan);
        good &= code && code->cubins.size() == 2 && reported.empty();
        if (!code)
          std::cerr << code.error().message << "\n";
      }
      for (const std::string &line : reported)
        std::cerr << line << "\n";
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(entries().size(), 2u); // and no temporary file
  EXPECT_EQ(compile(plan)->cached, 2);
}

TEST_F(KernelCodeTest, WorksWithoutACache) {
  folder = "/proc/none";
  Result<KernelCode> code = compile(smallPlan(100));
  ASSERT_TRUE(code);
  EXPECT_EQ(code->compiled, 2);
  ASSERT_EQ(reported.size(), 1u); // not for every kernel
  EXPECT_CONTAINS(reported[0], "/proc/none: compiled kernels cannot be kept there");
  reported.clear();
  folder.clear();
  EXPECT_EQ(compile(smallPlan(100))->compiled, 2);
  EXPECT_TRUE(reported.empty());
}

TEST(Compilation, GoesOnBesideProducts) {
  static std::atomic<bool> isMade;
  isMade = false;
  test::FakeCuda fake;
  fake.parameterBytes = {{"scale", 8 + 1 * 5 * 8}, {"add", 8 + 4 * 4 * 8}};
  fake.onCall = [](const std::string &call) {
    isMade = isMade || call.starts_with("product");
    return CUDA_SUCCESS;
  };
  Apis apis = fake.apis();
  const NvrtcApi waiting = waitingFor(*apis.nvrtc, [] { return isMade.load(); });
  apis.nvrtc = &waiting;
  const plan::Plan plan = test::chainPlan(8);
  LocalGroup group{1};
  TemporaryFolder cache;
  const auto begin = std::chrono::steady_clock::now();
  auto device = CudaDevice::create(plan, group.communicator(0), {}, apis, cache.path);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(KernelCodeTest, ErrorsNameSourceAndModelLine) {
  plan::Plan plan = smallPlan(100);
  plan.sources[2].text += "\nint x = undefined_name;\n";
  Result<KernelCode> code = compile(plan);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().exitStatus(), 2);
  EXPECT_CONTAINS(code.error().message,
                  "kernel source add.cu (small.cpp:4) does not compile: add.cu(");
  EXPECT_CONTAINS(code.error().message, "\"undefined_name\" is undefined");
  EXPECT_EQ(code.error().message.find('\n'), std::string::npos);

  Result<KernelCode> unknown = compile(smallPlan(100), "sm_300a");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().exitStatus(), 2);
  EXPECT_CONTAINS(unknown.error().message, "does not know sm_300a");
}

TEST(Libraries, FoldersExistAndComeOnce) {
  std::vector<std::string> folders = libraryFolders();
  for (size_t i = 0; i < folders.size(); ++i) {
    EXPECT_TRUE(fs::is_directory(folders[i]));
    EXPECT_EQ(std::count(folders.begin(), folders.end(), folders[i]), 1);
  }
}

TEST(Libraries, AMissingOneIsSaid) {
  Result<const DriverApi *> driver = loadDriver();
  if (driver)
    GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_EQ(driver.error().exitStatus(), 2);
  EXPECT_CONTAINS(driver.error().message, "the CUDA driver: libcuda.so.1 cannot be loaded");
  EXPECT_CONTAINS(driver.error().message, "--target cpu");
  EXPECT_EQ(driver.error().message.find('\n'), std::string::npos);
}

TEST(Libraries, OneThatIsNotThereOrTooOldIsSaid) {
  Result<NcclApi> none = readNccl({"a test's library", {"libnano-none.so.7"}, "install it"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exitStatus(), 2);
  EXPECT_CONTAINS(none.error().message, "a test's library: libnano-none.so.7 cannot be loaded (");
  EXPECT_CONTAINS(none.error().message, "searched LD_LIBRARY_PATH");
  EXPECT_CONTAINS(none.error().message, "); install it");
  Result<NcclApi> old = readNccl({"a test's library", {"libnano-none.so.7", "libm.so.6"}, ""});
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().exitStatus(), 2);
  EXPECT_EQ(old.error().message,
            "a test's library: that of this machine lacks ncclGetVersion, it is "
            "older than this program needs; update it");
}

} // namespace
} // namespace nano::cuda
