// nanorun as its users call it: exit statuses, one line an error, and whole runs with the device
// made for tests.
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace nano {
namespace {

using test::linesOf;
using test::makePlan;
using test::makeTokens;
using test::ProcessResult;
using test::readText;
using test::runProcess;
using test::ScratchDirectory;
using test::writeShard;
using test::writeText;

class NanorunTest : public testing::Test {
protected:
  NanorunTest() {
    writePlan({});
    writeShard(scratch / "train.bin", makeTokens(5000, 50, 1));
    writeShard(scratch / "val.bin", makeTokens(200, 50, 2));
  }
  void writePlan(std::vector<plan::Hyperparameter> hyperparameters,
                 const test::PlanSizes &sizes = {}) {
    Status status =
        plan::writePlanFile(makePlan(sizes, std::move(hyperparameters)), scratch / "m.plan");
    ASSERT_TRUE(status) << status.error().message;
  }
  /// nanorun m.plan with these arguments; "@x" stands for the file x in the scratch directory.
  ProcessResult run(const std::vector<std::string> &arguments,
                    const std::function<void(int)> &during = {}) {
    std::vector<std::string> all = {NANORUN, scratch / "m.plan"};
    for (const std::string &argument : arguments)
      all.push_back(argument[0] == '@' ? scratch / argument.substr(1) : argument);
    return runProcess(all, during);
  }
  /// Expects exit status 2 and one line that holds `part`.
  void expectBad(const std::vector<std::string> &arguments, const std::string &part) {
    ProcessResult result = run(arguments);
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_EQ(linesOf(result.errors).size(), 1u) << result.errors;
    EXPECT_EQ(result.errors.rfind("nanorun: ", 0), 0u) << result.errors;
    EXPECT_CONTAINS(result.errors, part);
  }

  ScratchDirectory scratch;
};

TEST_F(NanorunTest, HelpAndVersion) {
  ProcessResult help = runProcess({NANORUN, "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.errors, "");
  for (const char *option : {"--train",
                             "--val",
                             "--gpus",
                             "--steps",
                             "--seed",
                             "--init",
                             "--allow-non-finite",
                             "--save",
                             "--save-every",
                             "--set-aside",
                             "--rank-timeout SECONDS=600",
                             "--coordinator HOST:PORT",
                             "--job-secret FILE",
                             "--resume",
                             "--val-every",
                             "--val-tokens N=10485760",
                             "--log",
                             "--dump-params",
                             "--times",
                             "--threads",
                             "--profile",
                             "--joules",
                             "--tune",
                             "--check-commands",
                             "--describe",
                             "--sample",
                             "--prompt-tokens",
                             "--temperature T=0.8",
                             "--version",
                             "Exit status"})
    EXPECT_CONTAINS(help.output, option);
  ProcessResult version = runProcess({NANORUN, "--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.output.rfind("nanorun ", 0), 0u);
}

TEST_F(NanorunTest, BadUsage) {
  expectBad({"--unknown"}, "--unknown");
  expectBad({"extra"}, "not expected: extra");
  expectBad({"--steps", "abc"}, "--steps");
  expectBad({"--steps", "-1"}, "--steps");
  expectBad({"--steps", "1e3"}, "--steps");
  expectBad({"--steps"}, "--steps");
  expectBad({"--gpus", "0"}, "--gpus");
  expectBad({"--gpus", "3"}, "m.plan: the plan was compiled for 1, 2, 4 ranks, not for 3");
  expectBad({"--seed", "-1"}, "--seed: '-1' is not a whole number");
  expectBad({"--seed", "18446744073709551616"}, "--seed");
  expectBad({"--save-every", "0", "--save", "@s"}, "--save-every");
  expectBad({"--device", "tpu"}, "--device: tpu is none of cpu, cuda, emulator");
  expectBad({"--device", "emulator"}, "device emulator does not run this plan, which is for cpu");
  expectBad({"--temperature", "1"}, "only together with --sample");
  expectBad({"--sample", "3", "--temperature", "nan"}, "--temperature");
  expectBad({"--sample", "3", "--train", "x"}, "not together with --sample");
  for (const char *option : {"--tune", "--joules", "--check-commands"})
    expectBad({"--sample", "3", option}, "not together with --sample");
  expectBad({"--train", "@train.bin", "--profile", "@no/t.json"}, "--profile ");
  expectBad({"--train", "@train.bin", "--joules"}, "--joules: needs --profile FILE");
  expectBad({"--train", "@train.bin", "--steps", "1", "--profile", "@t.json", "--joules"},
            "--joules: this device does not count them");
  expectBad({}, "--train is missing");
  ProcessResult nothing = runProcess({NANORUN});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(linesOf(nothing.errors).size(), 1u);
  EXPECT_CONTAINS(nothing.errors, "plan is required");
}

TEST_F(NanorunTest, ErrorsThatNobodyHears) {
  for (const char *errors : {"2>/dev/full", "2>&-"}) {
    ProcessResult result = runProcess(
        {"/bin/sh", "-c", fmt::format("{} {}/no.plan {}", NANORUN, scratch.path, errors)});
    EXPECT_EQ(result.status, 2) << errors;
    EXPECT_EQ(result.output, "");
  }
}

TEST_F(NanorunTest, BadInput) {
  expectBad({"--train", "@no*.bin"}, "no file matches");
  writeText(scratch / "bad.bin", "x");
  expectBad({"--train", "@bad.bin"}, "bad.bin: not a usable token shard");
  writeShard(scratch / "two\nlines.bin", makeTokens(3, 50, 1));
  expectBad({"--train", "@two\nlines.bin"}, "two lines.bin: fewer tokens than one global batch");
  expectBad({"--train", "@train.bin", "--resume", "@no"}, "No such file or directory");
  expectBad({"--train", "@train.bin", "--init", "@bad.bin"}, "not a valid safetensors file");
  expectBad({"--train", "@train.bin", "--save", "@bad.bin"}, "--save");
  expectBad({"--train", "@train.bin", "--log", "@no/log"}, "--log");
  expectBad({"--sample", "3", "--prompt-tokens", "@no"}, "--prompt-tokens");
  std::filesystem::remove(scratch / "m.plan");
  expectBad({}, "m.plan");
  writeText(scratch / "m.plan", "no plan");
  expectBad({}, "m.plan");
}

TEST_F(NanorunTest, DeviceThatIsNotThere) {
  plan::Plan plan = makePlan();
  plan.target = "cuda";
  ASSERT_TRUE(plan::writePlanFile(plan, scratch / "m.plan"));
  expectBad({"--train", "@train.bin"}, "libnano-device-cuda.so");
}

TEST_F(NanorunTest, DeviceBeginsAndNothingEndsMeanwhile) {
  setenv("NANO_FAKE_BEGUN", (scratch / "begun").c_str(), 1);
  expectBad({"--train", "@bad.bin"}, "no file matches");
  EXPECT_TRUE(std::filesystem::remove(scratch / "begun"));
  expectBad({"--train", "@train.bin", "--gpus", "3"}, "was compiled for 1, 2, 4 ranks, not for 3");
  EXPECT_TRUE(std::filesystem::remove(scratch / "begun"));
  EXPECT_EQ(run({"--describe"}).status, 0); // without a device
  EXPECT_FALSE(std::filesystem::exists(scratch / "begun"));
  unsetenv("NANO_FAKE_BEGUN");
}

TEST_F(NanorunTest, Describe) {
  ProcessResult result = run({"--describe"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, "weight.momentum");
}

TEST_F(NanorunTest, TrainsAndSamples) {
  ProcessResult result = run(
      {"--train",      "@train.bin", "--val",       "@val.bin",   "--gpus",        "2",
       "--device",     "cpu",        "--log",       "@log.jsonl", "--save",        "@saves",
       "--save-every", "4",          "--val-every", "4",          "--dump-params", "@p.safetensors",
       "--threads",    "1",          "--profile",   "@t.json"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_CONTAINS(result.output, "step 8/8 done  loss");
  EXPECT_CONTAINS(result.output, "validation loss");
  std::vector<std::string> kinds;
  for (const std::string &line : linesOf(readText(scratch / "log.jsonl")))
    kinds.push_back(nlohmann::json::parse(line)["event"]);
  EXPECT_EQ(kinds, (std::vector<std::string>{"run", "step", "step", "step", "step", "checkpoint",
                                             "val", "step", "step", "step", "step", "checkpoint",
                                             "val", "start", "end"}));
  EXPECT_TRUE(std::filesystem::exists(scratch / "saves/step-000004/manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "p.safetensors"));
  EXPECT_EQ(nlohmann::json::parse(readText(scratch / "t.json"))["otherData"]["model"], "bigram");

  writeText(scratch / "prompt", "3");
  ProcessResult tokens = run({"--resume", "@saves", "--sample", "4", "--prompt-tokens", "@prompt",
                              "--temperature", "0.5"});
  EXPECT_EQ(tokens.status, 0) << tokens.errors;
  EXPECT_EQ(tokens.output, "4 5 6 7\n");
}

TEST_F(NanorunTest, InterruptSavesAndSaysSo) {
  writePlan({{"fake_sleep_ms", "10", true}}, {.numIterations = 100000});
  for (int number : {SIGINT, SIGTERM}) {
    std::string saves = scratch / ("saves" + std::to_string(number)),
                log = scratch / ("log" + std::to_string(number));
    ProcessResult result =
        run({"--train", "@train.bin", "--save", saves, "--log", log}, [&](int process) {
          for (int i = 0; i < 500 && linesOf(readText(log)).size() < 3; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          ::kill(process, number);
        });
    EXPECT_EQ(result.status, 1) << result.errors;
    EXPECT_EQ(linesOf(result.errors).size(), 1u);
    EXPECT_CONTAINS(result.errors, number == SIGINT ? "interrupted by SIGINT after step"
                                                    : "interrupted by SIGTERM");
    EXPECT_CONTAINS(result.errors, "; saved " + saves + "/step-0");
    std::string saved = result.errors.substr(result.errors.rfind(' ') + 1);
    saved.pop_back();
    EXPECT_TRUE(std::filesystem::exists(saved + "/manifest.json")) << saved;
  }
}

TEST_F(NanorunTest, SecondInterruptEndsAtOnce) {
  writePlan({{"fake_sleep_ms", "20000", true}});
  ProcessResult result = run({"--train", "@train.bin", "--log", "@log"}, [&](int process) {
    for (int i = 0; i < 500 && readText(scratch / "log").empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(process, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::kill(process, SIGINT);
  });
  EXPECT_EQ(result.status, 128 + SIGINT);
}

TEST_F(NanorunTest, FullDiskWhileSaving) {
  writePlan({}, {.vocabSize = 5000});
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = {16384, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  ProcessResult result = run({"--train", "@train.bin", "--save", "@saves", "--save-every", "2"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result.status, 2) << result.errors;
  EXPECT_EQ(linesOf(result.errors).size(), 1u);
  EXPECT_CONTAINS(result.errors, "saving after step 2 failed: " +
                                     (scratch / "saves/step-000002/params.safetensors"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "saves"));
}

/// The second of two live runs is refused, and neither disturbs the first nor its checkpoints; a
/// killed one holds nothing.
TEST_F(NanorunTest, TwoRunsDoNotSaveIntoOneFolder) {
  writePlan({{"fake_sleep_ms", "5", true}}, {.numIterations = 100000});
  const std::vector<std::string> words = {"--train", "@train.bin",   "--save",
                                          "@saves",  "--save-every", "1"};
  for (bool resumes : {false, true}) {
    ProcessResult second;
    int holder = 0;
    ProcessResult first = run(words, [&](int process) {
      holder = process;
      for (int i = 0; i < 1000 && !std::filesystem::exists(scratch / "saves/step-000002"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::vector<std::string> again = words;
      if (resumes)
        again.insert(again.end(), {"--resume", "@saves"});
      second = run(again);
      ::kill(process, SIGKILL);
    });
    EXPECT_EQ(first.status, 128 + SIGKILL) << first.errors;
    EXPECT_EQ(second.status, 2) << second.errors;
    char host[256] = "";
    ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
    EXPECT_EQ(second.errors,
              fmt::format("nanorun: --save {}: process {} on {} saves a run there; wait until it "
                          "has ended, or save to another directory\n",
                          scratch / "saves", holder, host));
    EXPECT_TRUE(std::filesystem::exists(scratch / "saves/.lock")) << "left by the killed one";
    std::filesystem::remove_all(scratch / "saves/step-000002");
  }
  std::filesystem::remove_all(scratch / "saves");
  writePlan({}, {.numIterations = 3});
  for (const char *seed : {"1", "1", "2"}) {
    std::vector<std::string> again = words;
    again.insert(again.end(), {"--seed", seed});
    ProcessResult result = run(again);
    EXPECT_EQ(result.status, seed[0] == '1' ? 0 : 2) << result.errors;
  }
  expectBad({"--train", "@train.bin", "--save", "@saves", "--seed", "2"},
            (scratch / "saves") + ": holds step-000001 to step-000003 (3 checkpoints) of another "
                                  "run (bigram, ");
  ProcessResult moved =
      run({"--train", "@train.bin", "--save", "@saves", "--seed", "2", "--set-aside"});
  EXPECT_EQ(moved.status, 0) << moved.errors;
  EXPECT_EQ(test::namesIn(scratch / "saves"),
            (std::vector<std::string>{"set-aside-1", "step-000003"}));
  expectBad({"--train", "@train.bin", "--set-aside"}, "--set-aside: needs --save DIR");
}

TEST_F(NanorunTest, KilledRunsAlwaysResume) {
  writePlan({{"fake_sleep_ms", "1", true}}, {.numIterations = 100000});
  int64_t reached = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<std::string> arguments = {"--train", "@train.bin",   "--save",
                                          "@saves",  "--save-every", "1"};
    if (round > 0)
      arguments.insert(arguments.end(), {"--resume", "@saves"});
    ProcessResult result = run(arguments, [&](int process) {
      std::string next = scratch / fmt::format("saves/step-{:06}", reached + 2);
      for (int i = 0; i < 2000 && !std::filesystem::exists(next); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
      ::kill(process, SIGKILL);
    });
    EXPECT_EQ(result.status, 128 + SIGKILL) << result.errors;
    std::string resumed =
        round > 0 ? "resuming " + (scratch / "saves") + " after step " : "bigram on fake device";
    size_t place = result.output.find(resumed);
    ASSERT_NE(place, std::string::npos) << result.output;
    if (round > 0) {
      EXPECT_GE(std::strtoll(result.output.c_str() + place + resumed.size(), nullptr, 10), reached);
    }
    reached += 2;
  }
}

TEST_F(NanorunTest, OutputsGoWhereTheirPathsLead) {
  writeText(scratch / "file", "before");
  std::filesystem::create_symlink("file", scratch / "link");
  std::filesystem::create_symlink("/dev/null", scratch / "null");
  ProcessResult result = run({"--train", "@train.bin", "--dump-params", "@link", "--times", "@null",
                              "--profile", "/dev/null", "--log", "/dev/stdout"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "null"));
  EXPECT_CONTAINS(readText(scratch / "file"), "data_offsets");
  // What both write stands there, one after the other.
  EXPECT_CONTAINS(result.output, "bigram on fake device");
  EXPECT_CONTAINS(result.output, "{\"event\":\"run\",");
  EXPECT_CONTAINS(result.output, "wrote " + (scratch / "link"));
  size_t steps = 0;
  for (const std::string &line : linesOf(result.output))
    steps += line.rfind("{\"event\":\"step\",\"step\":", 0) == 0 ? 1 : 0;
  EXPECT_EQ(steps, 8u) << result.output;
}

TEST_F(NanorunTest, PipesAsOutputs) {
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  for (const char *option : {"--log", "--times", "--dump-params"})
    expectBad({"--train", "@train.bin", option, "@fifo"}, "is a FIFO that nobody reads");
  // A reader hears all of it: the pipe is not closed in between. It is there before nanorun is.
  for (const char *option : {"--log", "--times"}) {
    const int pipe = ::open((scratch / "fifo").c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(pipe, 0);
    std::string heard;
    std::atomic<bool> isOver = false;
    std::thread reader([&] {
      std::array<char, 4096> piece;
      while (true) {
        const bool wasOver = isOver;
        const ssize_t count = ::read(pipe, piece.data(), piece.size());
        if (count > 0)
          heard.append(piece.data(), size_t(count));
        else if (count == 0 && (wasOver || !heard.empty()))
          return; // nobody writes any more
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    ProcessResult result = run({"--train", "@train.bin", option, "@fifo"});
    isOver = true;
    reader.join();
    ::close(pipe);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(heard, std::string(option) == "--log" ? "\"event\":\"end\"" : "\"commands\"");
  }
}

TEST_F(NanorunTest, ALogWhoseReaderLeaves) {
  writePlan({{"fake_sleep_ms", "5", true}}, {.numIterations = 100000});
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  // The reader is there before nanorun is, and leaves with the first piece.
  const int pipe = ::open((scratch / "fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  ProcessResult result = run({"--train", "@train.bin", "--log", "@fifo"}, [&](int) {
    std::array<char, 64> piece;
    for (int i = 0; i < 60000 && ::read(pipe, piece.data(), piece.size()) <= 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::close(pipe);
  });
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_EQ(linesOf(result.errors).size(), 1u) << result.errors;
  EXPECT_CONTAINS(result.errors, "/fifo: cannot be written: Broken pipe");
}

TEST_F(NanorunTest, NothingWaitsForAPipe) {
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directories(scratch / "saves/step-000001");
  ASSERT_EQ(::mkfifo((scratch / "saves/step-000001/manifest.json").c_str(), 0600), 0);
  const std::string what = "fifo: is not a regular file but a FIFO; ";
  expectBad({"--train", "@fifo"}, what + "name token shards only");
  expectBad({"--train", "@train.bin", "--val", "@fifo"}, what + "name token shards only");
  expectBad({"--train", "@train.bin", "--init", "@fifo"}, what + "name a safetensors file");
  expectBad({"--sample", "3", "--prompt-tokens", "@fifo"}, what + "name a file of token ids");
  ProcessResult resumed = run({"--train", "@train.bin", "--resume", "@saves"});
  EXPECT_EQ(resumed.status, 2);
  EXPECT_CONTAINS(resumed.output, "manifest.json: is not a regular file but a FIFO");
  EXPECT_CONTAINS(resumed.errors, "holds no complete checkpoint");
  std::filesystem::remove(scratch / "m.plan");
  ASSERT_EQ(::mkfifo((scratch / "m.plan").c_str(), 0600), 0);
  expectBad({"--describe"}, "m.plan: is not a regular file but a FIFO");
}

TEST_F(NanorunTest, FilesThatFillMemory) {
  auto sparse = [&](const std::string &name, int64_t bytes) {
    writeText(scratch / name, "");
    ASSERT_EQ(::truncate((scratch / name).c_str(), bytes), 0);
  };
  sparse("prompt", int64_t(1) << 40);
  expectBad({"--sample", "3", "--prompt-tokens", "@prompt"}, "and a prompt at most");
  sparse("m.plan", int64_t(1) << 40);
  expectBad({"--describe"}, "has 1099511627776 bytes, and a plan at most");
  // As large as a plan may be, on a machine that has less.
  sparse("m.plan", int64_t(1) << 30);
  ProcessResult result = runProcess(
      {"/bin/sh", "-c",
       fmt::format("ulimit -v 600000; exec {} {}/m.plan --describe", NANORUN, scratch.path)});
  if (result.errors.find("Sanitizer failed to allocate") != std::string::npos ||
      result.errors.find("ThreadSanitizer setrlimit() failed") != std::string::npos)
    GTEST_SKIP()
        << "nanorun is built with a sanitizer, which reserves terabytes of addresses before main";
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.errors, "nanorun: out of memory; free some, or use fewer ranks\n");
}

TEST_F(NanorunTest, AShardTruncatedInTheMiddleOfARun) {
  writePlan({{"fake_sleep_ms", "5", true}}, {.numIterations = 100000});
  for (const char *ranks : {"1", "2"}) {
    writeShard(scratch / "train.bin", makeTokens(5000, 50, 1));
    const std::string saves = scratch / (std::string("saves") + ranks),
                      log = scratch / (std::string("log") + ranks);
    ProcessResult result = run({"--train", "@train.bin", "--gpus", ranks, "--log", log, "--save",
                                saves, "--save-every", "2"},
                               [&](int) {
                                 for (int i = 0; i < 500 && linesOf(readText(log)).size() < 5; ++i)
                                   std::this_thread::sleep_for(std::chrono::milliseconds(10));
                                 std::filesystem::resize_file(scratch / "train.bin", 0);
                               });
    EXPECT_EQ(result.status, 1) << result.errors;
    EXPECT_EQ(linesOf(result.errors).size(), 1u) << result.errors;
    EXPECT_CONTAINS(result.errors, "train.bin: ends after 0 bytes and had 11024");
    // The last checkpoint is whole.
    writeShard(scratch / "train.bin", makeTokens(5000, 50, 1));
    ProcessResult resumed =
        run({"--train", "@train.bin", "--gpus", ranks, "--resume", saves, "--steps", "1"});
    EXPECT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_CONTAINS(resumed.output, "resuming " + saves + " after step ");
    EXPECT_EQ(resumed.output.find("skipping"), std::string::npos);
  }
}

} // namespace
} // namespace nano
