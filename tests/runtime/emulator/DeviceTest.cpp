// The emulator as a device: launches of several segments, library calls, what a program starts
// with, compiled kernels that are kept, and what it refuses.
#include "runtime/emulator/KernelImage.h"
#include "runtime/emulator/Options.h"
#include "tests/runtime/emulator/KernelRun.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

namespace nano::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Sets an environment variable until the end of the scope.
class Environment {
public:
  Environment(const char *name, const std::string &value) : name(name) {
    if (const char *old = std::getenv(name))
      before = old;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before)
      setenv(name, before->c_str(), 1);
    else
      unsetenv(name);
  }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

private:
  const char *name;
  std::optional<std::string> before;
};

KernelRun segmentsRun() {
  KernelRun run("segments.cu", "add_number");
  run.input(std::vector<float>{100}).inputOutput(std::vector<float>(40));
  plan::Plan &plan = run.plan();
  plan.kernels[0].maxSegments = 3;
  plan.kernels[0].iterationsPerBlock = 4;
  auto &launch = *plan.programs[0].commands[0].as<plan::Launch>();
  launch.segments.resize(3, launch.segments[0]);
  for (size_t s = 0; s < 3; ++s) {
    launch.segments[s].iterations = s == 1 ? 0 : int64_t(5 + s);
    launch.segments[s].args[1].offset = 40 * s;
  }
  return run;
}

TEST(EmulatorDevice, RunsEverySegment) {
  for (bool checked : {true, false}) {
    KernelRun run = segmentsRun();
    EXPECT_EQ(run.run(checked), "");
    auto got = run.result<float>(1);
    for (size_t i = 0; i < 40; ++i)
      EXPECT_EQ(got[i], i < 5 || (i >= 20 && i < 27) ? 100.0f : 0.0f) << i;
  }
}

TEST(EmulatorDevice, SkipsALaunchOfNothing) {
  KernelRun run = segmentsRun();
  for (auto &segment : run.plan().programs[0].commands[0].as<plan::Launch>()->segments)
    segment.iterations = 0;
  EXPECT_EQ(run.run(), "");
  EXPECT_THAT(run.result<float>(1), testing::Each(0.0f));
}

TEST(EmulatorDevice, NamesCommandAndModelLine) {
  KernelRun run("faults.cu", "race_shared_bad");
  run.output<float>(64).threads(64);
  plan::Command &launch = run.plan().programs[0].commands[0];
  launch.label = "blocks.3";
  launch.location = {"models/m.cpp", 17};
  EXPECT_THAT(run.run(), HasSubstr("program 'main', command 0 'blocks.3' (models/m.cpp:17): kernel "
                                   "'race_shared_bad' (faults.cu), block 0, thread "));
}

TEST(EmulatorDevice, LibraryCallsAndVoidBuffers) {
  for (bool checked : {true, false}) {
    KernelRun run("segments.cu", "add_number");
    run.input(std::vector<float>{1, 2, 3, 4}).inputOutput(std::vector<float>(8));
    plan::Plan &plan = run.plan();
    // Not a state: it starts void.
    plan.buffers.push_back({"between", plan.arenaBytes, 64, plan::DType::F32, {16}, {}});
    plan.arenaBytes += 256;
    std::vector<plan::Command> &commands = plan.programs[0].commands;
    commands.clear();
    commands.push_back({plan::Copy{plan::DType::F32, {3, 0}, {2, 16, true, false}, 4}});
    plan::Matmul product;
    product.a = product.b = {1, 0};
    product.c = {2, 0, true, false};
    product.m = product.n = product.k = product.lda = product.ldb = product.ldc = 2;
    commands.push_back({product});
    EXPECT_EQ(run.run(checked), "");
    auto got = run.result<float>(1);
    EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 4),
              (std::vector<float>{7, 10, 15, 22}));
    for (size_t i = 4; checked && i < 8; ++i)
      EXPECT_TRUE(std::isnan(got[i]));
  }
}

TEST(EmulatorDevice, KeepsCompiledKernelsAndMakesDamagedOnesAgain) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "nano-emulator-cache-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  {
    Environment cache("NANO_CACHE_DIR", folder);
    std::vector<std::string> reported;
    auto describe = [&] {
      KernelRun run = segmentsRun();
      EXPECT_EQ(run.run(), "");
      reported = run.reported();
      return run.describe();
    };
    EXPECT_THAT(describe(), HasSubstr("1 kernels (1 sources compiled, 0 from the cache)"));
    EXPECT_THAT(describe(), HasSubstr("1 kernels (0 sources compiled, 1 from the cache)"));
    size_t entries = 0;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
      ++entries;
      fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
    }
    EXPECT_EQ(entries, 1u);
    EXPECT_TRUE(reported.empty());
    EXPECT_THAT(describe(), HasSubstr("1 kernels (1 sources compiled, 0 from the cache)"));
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_THAT(reported[0], HasSubstr("a damaged entry"));
    EXPECT_THAT(describe(), HasSubstr("1 kernels (0 sources compiled, 1 from the cache)"));
  }
  fs::remove_all(folder);
}

/// A folder for compiled kernels, and plans whose kernels go there, by one compiler at a time.
class EmulatorSources : public testing::Test {
protected:
  EmulatorSources() { EXPECT_TRUE(mkdtemp(folder.data())); }
  ~EmulatorSources() override { std::filesystem::remove_all(folder); }

  /// Compiles kernels a, b and so on, each a source of its own with `before` in front of it.
  Result<emulator::Kernels> compile(const std::string &names, const std::string &bad = "",
                                    const std::string &before = "") const {
    KernelRun run("segments.cu", "add_number");
    plan::Plan &plan = run.plan();
    const plan::Kernel kernel = plan.kernels[0];
    const plan::Command launch = plan.programs[0].commands[0];
    plan.kernels.clear();
    plan.programs[0].commands.clear();
    for (char letter : names) {
      const std::string name(1, letter), file = name + ".cu";
      plan.sources.push_back({file, "#include \"test_launch.h\"\n" + before +
                                        "extern \"C\" __global__ void\n" + name +
                                        "(const __grid_constant__ TestLaunch<1> launch) {\n" +
                                        (name == bad ? "  noSuchThing();\n}\n" : "}\n")});
      plan.kernels.push_back(kernel);
      plan.kernels.back().name = name;
      plan.kernels.back().source = file;
      plan.programs[0].commands.push_back(launch);
      plan.programs[0].commands.back().as<plan::Launch>()->kernel = plan.kernels.size() - 1;
    }
    emulator::CompileOptions options;
    options.cacheFolder = folder;
    options.report = [this](const std::string &line) { reported.push_back(line); };
    return emulator::compileKernels(plan, options);
  }

  /// How many libraries lie there.
  long libraries() const {
    const std::filesystem::directory_iterator entries(folder);
    return std::count_if(begin(entries), end(entries),
                         [](const auto &entry) { return entry.path().extension() == ".emulator"; });
  }

  std::string folder =
      (std::filesystem::temp_directory_path() / "nano-emulator-sources-XXXXXX").string();
  mutable std::vector<std::string> reported;
};

TEST_F(EmulatorSources, AreCompiledTogetherAndFoundOneByOne) {
  Result<emulator::Kernels> kernels = compile("abc");
  ASSERT_TRUE(kernels) << kernels.error().message;
  EXPECT_EQ(kernels->compiled, 3);
  EXPECT_EQ(libraries(), 1);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(kernels->byIndex[i]->name, std::string(1, char('a' + i)));
  kernels = compile("bd");
  ASSERT_TRUE(kernels) << kernels.error().message;
  EXPECT_EQ(kernels->compiled, 1);
  EXPECT_EQ(kernels->cached, 1);
  EXPECT_EQ(libraries(), 2);
}

TEST_F(EmulatorSources, WhoseLibraryWithOthersIsDamagedAreCompiledOnce) {
  namespace fs = std::filesystem;
  for (bool isGone : {false, true}) {
    const std::string before = isGone ? "// other sources\n" : "";
    ASSERT_TRUE(compile("abc", "", before));
    fs::path together;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".emulator" &&
          (together.empty() || entry.last_write_time() > fs::last_write_time(together)))
        together = entry.path();
    if (isGone)
      fs::remove(together);
    else
      fs::resize_file(together, fs::file_size(together) / 2);
    for (int cached : {0, 1, 1}) {
      const Result<emulator::Kernels> kernels = compile("a", "", before);
      ASSERT_TRUE(kernels) << kernels.error().message;
      EXPECT_EQ(kernels->cached, cached);
      EXPECT_EQ(kernels->compiled, 1 - cached);
    }
    EXPECT_EQ(reported.size(), 1u); // of the damaged one
  }
}

TEST_F(EmulatorSources, ThatDefineMoreThanKernelsAreCompiledAlone) {
  for (const char *more : {"static float half(float x) { return x / 2; }\n", "#define HALF 0.5f\n",
                           "using namespace nano;\n", "// half\nconst float half = 0.5f;\n"}) {
    const long before = libraries();
    ASSERT_TRUE(compile("ab", "", more)) << more;
    EXPECT_EQ(libraries(), before + 2) << more;
  }
}

TEST_F(EmulatorSources, ThatDoNotCompileAreNamed) {
  const Result<emulator::Kernels> kernels = compile("abc", "b");
  ASSERT_FALSE(kernels);
  EXPECT_THAT(kernels.error().message,
              AllOf(HasSubstr("kernel source b.cu does not compile for the emulator: "),
                    HasSubstr("noSuchThing")));
  EXPECT_EQ(libraries(), 2);
}

TEST(EmulatorDevice, RefusesWhatItCannotRun) {
  auto refusal = [](auto change) {
    KernelRun run = segmentsRun();
    change(run.plan());
    return run.run();
  };
  EXPECT_THAT(refusal([](plan::Plan &plan) { plan.target = "cpu"; }),
              HasSubstr("the plan is for target cpu, the emulator runs plans for cuda"));
  EXPECT_THAT(refusal([](plan::Plan &plan) {
                plan.sources[0].text += "\nint broken = nano::noSuchThing;\n";
                plan.kernels[0].locations = {{"models/m.cpp", 3}};
              }),
              AllOf(HasSubstr("kernel source segments.cu does not compile for the emulator: "),
                    HasSubstr("noSuchThing"), HasSubstr(" (models/m.cpp:3)")));
  EXPECT_THAT(
      refusal([](plan::Plan &plan) { plan.kernels[0].maxSegments = 4; }),
      HasSubstr("kernel 'add_number' takes 104 bytes of parameters, of 136 that the plan says"));
  EXPECT_THAT(refusal([](plan::Plan &plan) { plan.kernels[0].sharedBytes = 228 * 1024; }),
              HasSubstr("a block needs 233472 bytes of shared memory and has 232448"));
  for (const char *dims : {"(1, 2, 1)", "(2, 1, 2)", "(9, 1, 1)"})
    EXPECT_THAT(refusal([&](plan::Plan &plan) {
                  std::string &text = plan.sources[0].text;
                  text.insert(text.find("add_number("),
                              std::string("__cluster_dims__") + dims + " ");
                }),
                HasSubstr("segments.cu: __cluster_dims__ must be (N, 1, 1) with N from 1 to 8"));
  EXPECT_THAT(refusal([](plan::Plan &plan) { plan.buffers[1].bytes = uint64_t(1) << 50; }),
              HasSubstr("out of memory: the emulator gives every buffer memory of its own, "));
  Environment compiler("CXX", "no-such-compiler");
  EXPECT_THAT(refusal([](plan::Plan &) {}),
              HasSubstr("compiles kernels with 'no-such-compiler', which does not run"));
}

TEST(EmulatorOptions, ComeFromTheEnvironment) {
  using emulator::Options;
  {
    Environment mode("NANO_EMULATOR", "fast"), seed("NANO_EMULATOR_SEED", "18446744073709551615");
    auto options = Options::fromEnvironment();
    ASSERT_TRUE(options);
    EXPECT_FALSE(options->checked);
    EXPECT_EQ(options->seed, UINT64_MAX);
    EXPECT_FALSE(options->exactSums);
    Environment sums("NANO_EMULATOR_SUMS", "exact");
    options = Options::fromEnvironment();
    ASSERT_TRUE(options);
    EXPECT_TRUE(options->exactSums);
  }
  auto options = Options::fromEnvironment();
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->checked);
  Environment mode("NANO_EMULATOR", "slow");
  EXPECT_THAT(Options::fromEnvironment().error().message, HasSubstr("it can be checked or fast"));
  Environment checked("NANO_EMULATOR", "checked");
  for (const char *bad : {"x", "1x", "-1", "18446744073709551616"}) {
    Environment seed("NANO_EMULATOR_SEED", bad);
    EXPECT_THAT(Options::fromEnvironment().error().message, HasSubstr("a whole number")) << bad;
  }
  Environment sums("NANO_EMULATOR_SUMS", "near");
  EXPECT_THAT(Options::fromEnvironment().error().message, HasSubstr("it can be cut or exact"));
}

} // namespace
} // namespace nano::test
