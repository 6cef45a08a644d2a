// The plan file: what goes in comes out, any damage is found, every failure is one line that names
// the file.
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/ElfSymbols.h"
#include "runtime/plan/PlanJson.h"
#include "tests/runtime/plan-device/TestPlans.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

namespace nano::plan {
namespace {

namespace fs = std::filesystem;
using test::fullPlan;
using test::readBytes;

/// A directory of this test, removed at its end.
class PlanFile : public testing::Test {
protected:
  PlanFile() {
    std::string pattern = (fs::temp_directory_path() / "nano-plan-XXXXXX").string();
    directory = mkdtemp(pattern.data());
  }
  ~PlanFile() override { fs::remove_all(directory); }
  std::string path(const std::string &name) const { return (directory / name).string(); }
  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  fs::path directory;
};

/// Expects BadInput in one line that begins with the file's name, ends with advice, and contains
/// `part`.
void expectBad(const Result<Plan> &result, const std::string &name, const std::string &part) {
  ASSERT_FALSE(result) << "expected: " << part;
  const Error &error = result.error();
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_EQ(error.message.rfind(name + ": ", 0), 0u) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("; "), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message << "\n  for: " << part;
}

/// The bytes of a plan file put together here, from the words of docs/plan-format.md.
std::string container(const std::string &meta, const std::string &code, const std::string &source,
                      const std::vector<std::string> &variants, uint32_t version = planVersion,
                      const std::string &data = "", const std::vector<std::string> &proofs = {}) {
  auto number = [](uint64_t value, int bytes) {
    return std::string(reinterpret_cast<const char *>(&value), size_t(bytes));
  };
  std::vector<std::pair<const char *, const std::string *>> sections = {{"meta\0\0\0\0", &meta},
                                                                        {"code\0\0\0\0", &code},
                                                                        {"source\0\0", &source},
                                                                        {"data\0\0\0\0", &data}};
  if (!proofs.empty()) {
    sections.emplace_back("checks\0\0", &proofs[0]);
    sections.emplace_back("ours\0\0\0\0", &proofs[1]);
  }
  for (const std::string &variant : variants)
    sections.emplace_back("variant\0", &variant);
  std::string table, contents;
  uint64_t start = 32 + 32 * sections.size();
  for (auto [name, content] : sections) {
    table += std::string(name, 8) + number(start + contents.size(), 8) +
             number(content->size(), 8) + number(XXH3_64bits(content->data(), content->size()), 8);
    contents += *content;
  }
  std::string header = "NANOPLAN" + number(version, 4) + number(sections.size(), 4) +
                       number(start + contents.size(), 8);
  std::string covered = header + table;
  return header + number(XXH3_64bits(covered.data(), covered.size()), 8) + table + contents;
}

TEST_F(PlanFile, RestoresEveryField) {
  Plan plan = fullPlan();
  std::string bytes = serialize(plan);
  Result<Plan> restored = parse(bytes);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(serialize(*restored), bytes);
  EXPECT_EQ(planHash(*restored), planHash(plan));
}

TEST_F(PlanFile, RestoresStages) {
  Plan plan = test::stagedPlan();
  std::string bytes = serialize(plan);
  Result<Plan> restored = parse(bytes);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(serialize(*restored), bytes);
  const std::string text = describe(plan);
  for (const char *part :
       {"stage short: until step 40\ntraining: sequences of 16 tokens, global batch 128, ",
        "stage long: until step 100\ntraining: sequences of 16 tokens, global batch 64, "})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

TEST_F(PlanFile, KnowsStagesBySteps) {
  Plan plan = test::stagedPlan();
  EXPECT_EQ(stagesOf(plan).size(), 2u);
  for (auto [step, stage] : {std::pair(0, "short"), std::pair(39, "short"), std::pair(40, "long"),
                             std::pair(99, "long"), std::pair(1000, "long")})
    EXPECT_EQ(stageAt(plan, step).stage, stage) << step;
  for (auto [steps, tokens] : {std::pair(0, 0), std::pair(40, 40 * 128), std::pair(41, 5184),
                               std::pair(100, 40 * 128 + 60 * 64), std::pair(110, 9600)})
    EXPECT_EQ(tokensOf(plan, steps), tokens) << steps;
  EXPECT_EQ(tokensOf(fullPlan(), 110), 110 * 128);
  EXPECT_EQ(&stageAt(plan, 40), &plan.laterStages[0]);
}

TEST_F(PlanFile, RestoresDeviceCode) {
  Plan plan = test::fullCudaPlan();
  std::string bytes = serialize(plan);
  Result<Plan> restored = parse(bytes);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(serialize(*restored), bytes);
  std::string text = describe(plan);
  for (const char *part :
       {"target cuda\n", "  nano_kernels.h  37 bytes\n",
        "  halve: a test, 1500000 operations an iteration, halve.cu, 8 iterations "
        "by 256 threads, 1 segments at most, shared 2.0 KiB, clusters of 2 "
        "blocks, operand 0 as f32[60,15], rows 64 bytes apart, boxes [128,8] "
        "swizzled by 32 bytes, operand 1 as bf16[4,8], rows 16 bytes apart, "
        "boxes [4,8], reaches [[8,512,64],[16,4096,4096]]\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

TEST_F(PlanFile, KeepsNumbersExactly) {
  Plan plan = fullPlan();
  double third = 1.0 / 3, tiny = 5e-324;
  plan.states[3].init.values = {third, tiny, -0.0};
  plan.scalars[0].value = {Expr::Kind::Constant, -std::numeric_limits<double>::infinity(), "", {}};
  Result<Plan> restored = parse(serialize(plan));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_TRUE(std::signbit(restored->states[3].init.values[2]));
}

TEST_F(PlanFile, FollowsTheDocumentedLayout) {
  const std::vector<Plan> plans = test::variants();
  std::string bytes = serialize(plans);
  std::vector<std::string> texts;
  size_t at = 32 + 8 * 32;
  for (size_t section = 0; section < 8; ++section) {
    uint64_t size;
    std::memcpy(&size, bytes.data() + 32 + 32 * section + 16, sizeof size);
    texts.push_back(bytes.substr(at, size));
    at += size;
  }
  EXPECT_EQ(container(texts[0], plans[0].code, plans[0].source, {texts[6], texts[7]}, planVersion,
                      plans[0].data, {plans[0].checks, plans[0].ours}),
            bytes);
}

TEST_F(PlanFile, HoldsThePlansOfUnprovenKernels) {
  Plan plan = fullPlan(), other = plan;
  other.unproven.clear();
  other.checks.clear();
  other.ours.clear();
  auto fileOf = [&](const std::string &checks, const std::string &ours) {
    plan.checks = checks;
    plan.ours = ours;
    Result<plan::PlanFile> file = plan::PlanFile::parse(serialize(plan), "u.plan");
    EXPECT_TRUE(file) << file.error().message;
    return std::move(*file);
  };
  const std::string bytes = serialize(other);
  Result<plan::PlanFile> ours = fileOf("x", bytes).ours();
  ASSERT_TRUE(ours) << ours.error().message;
  EXPECT_EQ(ours->hash(), planHash(other));

  auto refused = [](const Result<plan::PlanFile> &file, const std::string &part) {
    ASSERT_FALSE(file) << part;
    EXPECT_EQ(file.error().exitStatus(), 2);
    EXPECT_EQ(file.error().message.rfind("u.plan: ", 0), 0u) << file.error().message;
    EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
  };
  refused(fileOf("x", "").ours(), "its plan without unproven kernels: the file is empty");
  refused(fileOf("x", bytes).checks(), "its plan of checks: not a plan");
  refused(fileOf("x", bytes.substr(0, 100)).ours(), "kernels: damaged plan: truncated");
  refused(fileOf(bytes, bytes).checks(), "for 2, 4 ranks, not for 1");
  refused(fileOf("x", serialize(plan)).ours(), "or has unproven kernels");
  other.worlds = {4, 2};
  refused(fileOf("x", serialize(other)).ours(), "is for other numbers of ranks");
  other.model = "another";
  refused(fileOf("x", serialize(other)).ours(), "is of another model or target");
}

TEST_F(PlanFile, RefusesUnprovenKernelsThatBreakARule) {
  auto refused = [](const std::string &rule, const std::function<void(Plan &)> &change) {
    Plan plan = fullPlan();
    plan.unproven.push_back({"check.2", "m.cpp:1", "kernel 'g' in place of norm, of f32 [8]", 0});
    ASSERT_TRUE(validate(plan)) << validate(plan).error().message;
    change(plan);
    expectBad(parse(serialize(plan), "u.plan"), "u.plan", rule);
  };
  using Limits = std::numeric_limits<double>;
  for (double tolerance : {-1e-5, -Limits::infinity(), Limits::infinity(), Limits::quiet_NaN()})
    refused("kernel 'check.2': its tolerance is negative or not finite",
            [&](Plan &plan) { plan.unproven[1].tolerance = tolerance; });
  refused("kernel 'check.1': the name is used twice",
          [](Plan &plan) { plan.unproven[1].report = "check.1"; });
  refused("the name is empty", [](Plan &plan) { plan.unproven[0].report.clear(); });
  refused("it does not say what it is", [](Plan &plan) { plan.unproven[0].about.clear(); });
  refused("it does not say what it is", [](Plan &plan) { plan.unproven[1].line.clear(); });
  refused("are not both there", [](Plan &plan) { plan.ours.clear(); });
  refused("are not both there", [](Plan &plan) { plan.checks.clear(); });
}

TEST_F(PlanFile, RefusesUnprovenKernelsWithoutTheirPlans) {
  Plan plan = fullPlan();
  const std::string with = commonText(std::span(&plan, 1)), variant = variantText(plan);
  plan.unproven.clear();
  const std::string without = commonText(std::span(&plan, 1));
  auto file = [&](const std::string &meta, const std::vector<std::string> &variants,
                  const std::vector<std::string> &proofs) {
    return parse(container(meta, plan.code, plan.source, variants, planVersion, plan.data, proofs),
                 "u.plan");
  };
  const char *both = "unproven kernels and the plans that prove them are not both there";
  expectBad(file(with, {variant}, {}), "u.plan", both);
  expectBad(file(without, {variant}, {"a", "b"}), "u.plan", both);
  expectBad(file(with, {variant}, {"", ""}), "u.plan", both);
  expectBad(file(with, {}, {"a", "b"}), "u.plan", "section table");
}

TEST_F(PlanFile, HoldsAVariantForEachNumberOfRanks) {
  const std::vector<Plan> plans = test::variants();
  ASSERT_TRUE(validate(plans)) << validate(plans).error().message;
  Status status = writePlanFile(plans, path("v.plan"));
  ASSERT_TRUE(status) << status.error().message;
  Result<plan::PlanFile> file = plan::PlanFile::open(path("v.plan"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->variants(), (std::vector<std::vector<int64_t>>{{2, 4}, {1}}));
  EXPECT_EQ(file->common().worlds, (std::vector<int64_t>{2, 4, 1}));
  EXPECT_EQ(file->common().kernels, plans[0].kernels);
  EXPECT_EQ(file->common().code, plans[0].code);
  EXPECT_TRUE(file->common().programs.empty());
  for (auto [world, index] : {std::pair(1, 1), std::pair(2, 0), std::pair(4, 0)}) {
    Result<Plan> plan = readPlanFile(path("v.plan"), world);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_TRUE(*plan == plans[size_t(index)]) << world;
  }
  Result<std::vector<Plan>> all = file->plans();
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_TRUE(*all == plans);
  EXPECT_EQ(serialize(*all), readBytes(path("v.plan")));
  EXPECT_EQ(file->hash(), planHash(plans));
  EXPECT_NE(file->hash(), planHash(plans[0]));

  Result<Plan> absent = readPlanFile(path("v.plan"), 8);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().exitStatus(), 2);
  EXPECT_EQ(absent.error().message,
            path("v.plan") + ": the plan was compiled for 2, 4, 1 ranks, not for 8; choose one of "
                             "them with --gpus or compile it with --world 8");
}

TEST_F(PlanFile, ReadsOnlyTheVariantThatIsAskedFor) {
  const std::vector<Plan> plans = test::variants();
  std::vector<Plan> broken = plans;
  broken[1].arenaBytes = 0;
  Result<plan::PlanFile> file = plan::PlanFile::parse(serialize(broken), "b.plan");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->plan(2));
  expectBad(file->plan(1), "b.plan", "reaches beyond the arena");
  EXPECT_FALSE(file->plans());
}

TEST_F(PlanFile, RefusesVariantsThatDoNotBelongTogether) {
  auto refused = [&](const std::string &part,
                     const std::function<void(std::vector<Plan> &)> &change) {
    std::vector<Plan> plans = test::variants();
    change(plans);
    Status status = writePlanFile(plans, path("r.plan"));
    ASSERT_FALSE(status) << part;
    EXPECT_EQ(status.error().exitStatus(), 2);
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
    EXPECT_FALSE(fs::exists(path("r.plan")));
  };
  refused("it names no number of ranks", [](auto &plans) { plans.clear(); });
  refused("names 4 ranks twice", [](auto &plans) { plans[1].worlds = {4}, plans[1].group = 1; });
  refused("for 2 and 1 ranks differ in their model", [](auto &plans) { plans[1].model = "x"; });
  refused("differ in their model", [](auto &plans) { plans[1].source = "x"; });
  refused("differ in their target", [](auto &plans) { plans[1].cpuFeatures = {}; });
  refused("differ in their hyperparameters",
          [](auto &plans) { plans[1].hyperparameters.pop_back(); });
  refused("differ in their data", [](auto &plans) { plans[1].data[0] = 'x'; });
  refused("differ in their unproven kernels", [](auto &plans) { plans[1].ours = "x"; });
  refused("differ in their kernels", [](auto &plans) { plans[1].kernels[0].summary = "x"; });

  std::vector<Plan> plans = test::variants();
  plans[1].worlds = {8, 4};
  expectBad(parse(serialize(plans), "t.plan"), "t.plan", "names 4 ranks twice");
  plans[1].worlds = {};
  expectBad(parse(serialize(plans), "t.plan"), "t.plan", "names no number of ranks");
  std::string one = serialize(plans[0]);
  uint64_t size;
  std::memcpy(&size, one.data() + 32 + 16, sizeof size);
  expectBad(
      parse(container(one.substr(32 + 7 * 32, size), "", "", {"", ""}, planVersion, "", {"a", "b"}),
            "t.plan"),
      "t.plan", "it lists 1 variants and has 2");
}

/// A plan without the fields that came since is what it was, but for its version. What is written
/// otherwise is another format, and then this hash is another one.
TEST_F(PlanFile, HashIsStable) {
  Plan plan = fullPlan();
  plan.code.clear();
  EXPECT_NE(planHash(fullPlan()), planHash(plan));
  // These came later; plans without them have what they had.
  Training &training = plan.training;
  training.checks = training.valChecks = training.genChecks = {};
  training.columns = training.valColumns = {};
  training.decode.clear();
  training.decodeChecks = {};
  training.scaledWeights[0].converted = {true, true, true};
  training.documents = {};
  training.reports = {};
  plan.interchange = {};
  plan.unproven = {};
  for (Kernel &kernel : plan.kernels)
    kernel.flopsType = DType::F32;
  const std::string file = container(commonText(std::span(&plan, 1)), plan.code, plan.source,
                                     {variantText(plan)}, /*version=*/11, plan.data);
  const XXH128_hash_t hash = XXH3_128bits(file.data(), file.size());
  EXPECT_EQ(hash.high64, 0xcaf0db3a528111c8U);
  EXPECT_EQ(hash.low64, 0x334392a7aed198c9U);
  EXPECT_NE(planHash(test::stagedPlan()), planHash(fullPlan()));
}

TEST_F(PlanFile, WritesAndReads) {
  Plan plan = fullPlan();
  Status status = writePlanFile(plan, path("a.plan"));
  ASSERT_TRUE(status) << status.error().message;
  plan.model = "second";
  ASSERT_TRUE(writePlanFile(plan, path("a.plan")));
  Result<Plan> restored = readPlanFile(path("a.plan"), 2);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1);
}

TEST_F(PlanFile, RefusesWhatIsNoPlan) {
  write("empty", "");
  write("text", "#!/bin/sh\necho hello\n");
  write("elf", test::kernelCode());
  expectBad(readPlanFile(path("empty"), 1), path("empty"), "empty");
  expectBad(readPlanFile(path("text"), 1), path("text"), "not a plan");
  expectBad(readPlanFile(path("elf"), 1), path("elf"), "not a plan");
  expectBad(readPlanFile(path("missing"), 1), path("missing"), "No such file");
  expectBad(readPlanFile(directory.string(), 1), directory.string(),
            "is not a regular file but a directory");
}

TEST_F(PlanFile, RefusesANewerVersion) {
  expectBad(parse(container("{}", "", "", {""}, 15), "n.plan"), "n.plan", "format version 15");
  expectBad(parse(container("{}", "", "", {""}, 8), "n.plan"), "n.plan", "old format version 8");
  expectBad(parse(container("{}", "", "", {""}, 0), "n.plan"), "n.plan", "header");
  expectBad(parse(container("{}", "", "", {}), "n.plan"), "n.plan", "header");
}

TEST_F(PlanFile, FindsTruncationAnywhere) {
  Plan plan = fullPlan();
  std::string bytes = serialize(plan);
  std::vector<size_t> lengths;
  for (size_t length = 1; length <= 180; ++length)
    lengths.push_back(length);
  size_t codeAt = bytes.find(plan.code), sourceAt = codeAt + plan.code.size();
  for (size_t boundary : {codeAt, sourceAt, sourceAt + plan.source.size(), bytes.size()})
    for (size_t length = boundary - 3; length < boundary + 3; ++length)
      if (length < bytes.size())
        lengths.push_back(length);
  for (size_t length = 200; length < bytes.size(); length += 997)
    lengths.push_back(length);
  for (size_t length : lengths)
    expectBad(parse(std::string_view(bytes).substr(0, length), "t.plan"), "t.plan", "truncated");
  expectBad(parse(bytes + "x", "t.plan"), "t.plan", "1 bytes follow");
}

TEST_F(PlanFile, FindsAChangedByteAnywhere) {
  std::string bytes = serialize(test::variants());
  for (size_t at = 0; at < bytes.size(); at += at < 600 || at + 50 > bytes.size() ? 1 : 37)
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = char(changed[at] ^ flip);
      Result<Plan> result = parse(changed, "c.plan");
      ASSERT_FALSE(result) << "byte " << at;
      expectBad(result, "c.plan", "");
    }
}

TEST_F(PlanFile, RefusesAnInconsistentTable) {
  std::string bytes = container("{}", "", "", {"{}"});
  auto sealed = [&](size_t at, uint64_t value) {
    std::string changed = bytes;
    std::memcpy(changed.data() + at, &value, 8);
    std::string covered = changed.substr(0, 24) + changed.substr(32, 160);
    uint64_t checksum = XXH3_64bits(covered.data(), covered.size());
    std::memcpy(changed.data() + 24, &checksum, 8);
    return changed;
  };
  for (size_t section = 0; section < 5; ++section)
    for (size_t field = 0; field < 3; ++field)
      expectBad(parse(sealed(32 + 32 * section + 8 * field, UINT64_MAX - 1), "i.plan"), "i.plan",
                "section table");
}

TEST_F(PlanFile, WritesNothingInvalid) {
  Plan plan = fullPlan();
  plan.worlds.clear();
  Status status = writePlanFile(plan, path("a.plan"));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("ranks"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("a.plan")));
}

TEST_F(PlanFile, SaysWhyItCannotWrite) {
  auto expectError = [&](const std::string &to, const std::string &part) {
    Status status = writePlanFile(fullPlan(), to);
    ASSERT_FALSE(status) << to;
    EXPECT_EQ(status.error().exitStatus(), 2);
    EXPECT_EQ(status.error().message.rfind(to, 0), 0u) << status.error().message;
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  };
  expectError(path("no/such/a.plan"), "No such file");
  expectError(directory.string(), "not a regular file");
  expectError("/dev/null", "not a regular file");
  expectError("/proc/a.plan", "cannot be created");
}

/// A disk that fills up in the middle, by way of a limit on the size of files.
TEST_F(PlanFile, KeepsTheOldFileWhenTheDiskIsFull) {
  Plan plan = fullPlan();
  ASSERT_TRUE(writePlanFile(plan, path("a.plan")));
  std::string before = readBytes(path("a.plan"));
  plan.model = "second";
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = {1000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Status status = writePlanFile(plan, path("a.plan"));
  setrlimit(RLIMIT_FSIZE, &old);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 2);
  EXPECT_NE(status.error().message.find("cannot be written"), std::string::npos);
  EXPECT_EQ(readBytes(path("a.plan")), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1);
}

TEST_F(PlanFile, RestoresTenThousandCommands) {
  Plan plan = fullPlan();
  for (Program &program : plan.programs) {
    std::vector<Command> once = program.commands;
    while (program.commands.size() < 2000)
      program.commands.insert(program.commands.end(), once.begin(), once.end());
  }
  Result<Plan> restored = parse(serialize(plan));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
}

TEST_F(PlanFile, DescribesItself) {
  std::string text = describe(fullPlan());
  const char *matmul =
      "  @0 matmul 2x [4x5]*[5x8] out y:f32 = 0.12 * in x+256:bf16 * in embed.weight:bf16^T + "
      "-1.5 * in y+512:f32, ld [6,7,8,9], stride [30,1,64,100]  \"q·kᵀ\"\n";
  const char *scaled =
      "  @0 matmul [4x128]*[128x8] out y:f32 = in x:f8e5m2 * in x+1024:f8e4m3fn^T scaled by in "
      "logits, in logits+64 for blocks of 1x128, 128x1 with strides [1,4], [2,8], ld "
      "[128,128,8,0]\n";
  const char *parameter =
      "  parameter embed.weight  bf16[32,8] in embed.weight = normal(0.5, 2), adam lr 0.6  "
      "test.cpp:12\n";
  const char *part =
      "  optimizer embed.weight.adam_m  bf16[16,8] in embed.weight.adam_m = 0, one of 2 parts over "
      "group by 8 of embed.weight.adam_m[5,8] at 0, other.adam_m[200] at 48\n";
  const char *training =
      "training: sequences of 16 tokens, global batch 128, 100 steps, vocabulary 30\n"
      "  step 0 of 2: first first, next next, last next, update update\n"
      "  step 1 of 2: first next, next first, last generate, update next\n";
  for (const char *expected :
       {"model gpt \"full\" – 1, target cpu\n",
        "worlds 2 4, groups of 2\n",
        "needs sse2\n",
        "  model_dim = 8\n",
        "  seq_len = 16  (overridden)\n",
        "  y  f32[4,16,16]  4096 bytes (4.0 KiB) at ",
        "  test.cpp:7\n",
        parameter,
        part,
        "  parameter skip_weights  f32[3] in skip_weights = 3 values",
        "  lr.adam  f32 = 0.6 * select(step < 100, 1, -0.25)\n",
        "  add_scaled: mul, add, 2.5e+09 operations an iteration and key of bf16, scratch 4.0 KiB",
        "  test.cpp:20  other.cpp:3\n",
        "program first: 15 commands, 2 streams, 3 events\n",
        "  @0 launch add_scaled [100 by 8](in x+64, in scalars, inout y+128) [50 by 1](in x+1024",
        matmul,
        "  @0 matmul [16x16]*[16x16] out y:f32 = in x:f32^T * in x:f32, ld [16,16,16,0]\n",
        scaled,
        "  @0 all_reduce inout embed.weight.grad, inout loss of 256 1 f32  \"gradients\"\n",
        "  @0 all_reduce by maximum over group inout loss of 1 f32\n",
        "  @0 reduce_scatter over group in embed.weight.grad, out y, in x+512, out y+1024 of ",
        " of 128 64 f32  \"scatter\"\n",
        "  @0 all_gather over peers in embed.weight.adam_m, out embed.weight of 128 bf16",
        "  @0 shard in x, out logits, in x, out loss of 100 0 f32\n",
        "  @0 fill out embed.weight of 256 bf16\n",
        "  @0 copy in x, out y of 32 f32\n",
        "  @0 record event 2\n",
        "  @1 wait for event 2\n",
        training,
        "checked: indices of gather below 30, in tokens  model.cpp:3\n",
        "other: eosToken 29, tokensBuffer 1, "})
    EXPECT_NE(text.find(expected), std::string::npos) << expected;
  EXPECT_LT(text.find("  x  f32"), text.find("  loss  f32")) << "largest buffers first";
}

TEST_F(PlanFile, DescribesEveryVariant) {
  const std::vector<Plan> plans = test::variants();
  std::string text = describe(plans);
  EXPECT_EQ(text.find("plan " + planHash(plans) + "\nmodel "), 0u);
  size_t first = text.find("\nworlds 2 4, groups of 2\narena "),
         second = text.find("\nworlds 1\narena ");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_EQ(text.find("add_scaled: mul, add"), text.rfind("add_scaled: mul, add"));
}

TEST(ElfSymbols, ListsWhatIsDefined) {
  auto symbols = definedSymbols(test::kernelCode());
  ASSERT_TRUE(symbols) << symbols.error().message;
  EXPECT_EQ(symbols->count("add_scaled"), 1u);
  EXPECT_EQ(symbols->count("halve"), 1u);
  EXPECT_EQ(symbols->count("absent"), 0u);
  EXPECT_TRUE(symbols->at("halve").isFunction);
  EXPECT_FALSE(symbols->at("halve").isAbsolute);
  EXPECT_TRUE(symbols->at("own_scratch.scratch").isAbsolute);
  EXPECT_FALSE(symbols->at("own_scratch.scratch").isFunction);
  EXPECT_EQ(symbols->at("own_scratch.scratch").value, 1024u);
}

TEST(ElfSymbols, SurvivesDamage) {
  const std::string &code = test::kernelCode();
  for (size_t length = 0; length < code.size(); length += length < 256 ? 1 : 61)
    (void)bool(definedSymbols(std::string_view(code).substr(0, length)));
  EXPECT_FALSE(definedSymbols(""));
  EXPECT_FALSE(definedSymbols(std::string_view(code).substr(0, 63)));
  EXPECT_FALSE(definedSymbols(std::string(4096, 'x')));
  for (size_t at = 0; at < 64; ++at) {
    std::string changed = code;
    changed[at] = char(0xff);
    (void)bool(definedSymbols(changed));
  }
}

} // namespace
} // namespace nano::plan
