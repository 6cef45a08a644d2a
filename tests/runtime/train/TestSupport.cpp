// Scratch directories, shards and a small plan.
#include "tests/runtime/train/TestSupport.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace nano::test {

namespace {

std::string makeScratch() {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/nano-train-XXXXXX";
  if (!::mkdtemp(pattern.data()))
    std::abort();
  return pattern;
}

} // namespace

ScratchDirectory::ScratchDirectory() : path(makeScratch()) {}
ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::vector<std::string> namesIn(const std::string &directory) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string readText(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void writeText(const std::string &path, const std::string &text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(text.data(), std::streamsize(text.size()));
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

namespace {

template <typename T>
void writeTokens(const std::string &path, const std::vector<T> &tokens, ShardHeader header) {
  std::vector<int32_t> words(256, 0);
  words[0] = header.magic;
  words[1] = header.version;
  words[2] = header.count.value_or(int32_t(tokens.size()));
  words[255] = header.rest;
  std::string text(1024 + sizeof(T) * tokens.size(), '\0');
  std::memcpy(text.data(), words.data(), 1024);
  if (!tokens.empty())
    std::memcpy(text.data() + 1024, tokens.data(), sizeof(T) * tokens.size());
  writeText(path, text);
}

} // namespace

void writeShard(const std::string &path, const std::vector<uint16_t> &tokens, ShardHeader header) {
  writeTokens(path, tokens, header);
}

void writeWideShard(const std::string &path, const std::vector<uint32_t> &tokens,
                    ShardHeader header) {
  writeTokens(path, tokens, header);
}

void writeColumns(const std::string &path, const std::vector<ColumnBytes> &columns) {
  std::vector<std::pair<std::string, TensorInfo>> ordered;
  std::string data;
  for (const ColumnBytes &column : columns) {
    ordered.push_back({column.name, {column.type, column.shape}});
    data += column.bytes;
  }
  writeText(path, safetensorsHeader(ordered) + data);
}

std::vector<uint16_t> makeTokens(size_t count, int vocabSize, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<uint16_t> tokens(count);
  for (uint16_t &token : tokens)
    token = uint16_t(generator() % uint32_t(vocabSize));
  return tokens;
}

CapturedConsole::CapturedConsole(bool live) : file(std::tmpfile()), console(file, live) {}
CapturedConsole::~CapturedConsole() {
  console.endLive();
  std::fclose(file);
}

std::string CapturedConsole::text() {
  std::fflush(file);
  std::string text(size_t(std::ftell(file)), '\0');
  if (std::fseek(file, 0, SEEK_SET) != 0)
    return "";
  size_t read = std::fread(text.data(), 1, text.size(), file);
  text.resize(read);
  return text;
}

plan::Plan makePlan(const PlanSizes &sizes, std::vector<plan::Hyperparameter> hyperparameters) {
  using namespace plan;
  Plan plan;
  plan.model = "bigram";
  plan.target = "cpu";
  plan.worlds = {1, 2, 4};
  plan.hyperparameters = std::move(hyperparameters);
  auto buffer = [&](const std::string &name, DType type, std::vector<int64_t> shape) {
    uint64_t bytes = sizeOf(type);
    for (int64_t size : shape)
      bytes *= uint64_t(size);
    plan.buffers.push_back(
        {name, plan.arenaBytes, bytes, type, std::move(shape), {"bigram.cpp", 1}});
    plan.arenaBytes = (plan.arenaBytes + bytes + 255) / 256 * 256;
    return uint32_t(plan.buffers.size() - 1);
  };
  auto state = [&](const std::string &name, State::Role role, DType type, Init init) {
    State state;
    state.name = name;
    state.role = role;
    state.type = type;
    state.shape = {sizes.vocabSize};
    state.buffer = buffer(name, type, state.shape);
    state.init = std::move(init);
    plan.states.push_back(state);
  };
  Init normal, zero, uniform;
  normal.kind = Init::Kind::Normal;
  zero.values = {0};
  uniform.kind = Init::Kind::Uniform;
  uniform.low = -0.5;
  uniform.high = 0.5;
  state("weight", State::Role::Parameter, DType::F32, normal);
  state("bias", State::Role::Parameter, DType::BF16, uniform);
  state("weight.momentum", State::Role::Optimizer, DType::F32, zero);
  state("weight.gradient", State::Role::Gradient, DType::F32, zero);

  plan.scalarBuffer = buffer("scalars", DType::F32, {2});
  Expr one, step, steps, ratio, fall;
  one.constant = 1;
  step.kind = steps.kind = Expr::Kind::Variable;
  step.variable = "step";
  steps.variable = "num_iterations";
  ratio.kind = Expr::Kind::Div;
  ratio.operands = {step, steps};
  fall.kind = Expr::Kind::Sub;
  fall.operands = {one, ratio};
  plan.scalars = {{"lr", DType::F32, 0, fall}, {"window", DType::I32, 4, step}};
  for (const char *name : {"first", "next", "last", "update", "validate", "generate"})
    plan.programs.push_back({name, {}, 1, 0});

  Training &training = plan.training;
  training.phases = {{"first", "next", "last", "update"}};
  training.validate = "validate";
  training.generate = "generate";
  training.seqLen = sizes.seqLen;
  training.valSeqLen = sizes.valSeqLen;
  training.globalBatch = sizes.globalBatch;
  training.numIterations = sizes.numIterations;
  training.vocabSize = sizes.vocabSize;
  training.eosToken = 0;
  training.tokensBuffer = buffer("tokens", DType::I32, {sizes.seqLen});
  training.targetsBuffer = buffer("targets", DType::I32, {sizes.seqLen});
  training.valTokensBuffer = buffer("val_tokens", DType::I32, {sizes.valSeqLen});
  training.valTargetsBuffer = buffer("val_targets", DType::I32, {sizes.valSeqLen});
  training.lossBuffer = buffer("loss", DType::F32, {1});
  training.valLossBuffer = buffer("val_loss", DType::F32, {1});
  training.genSeqLen = sizes.genSeqLen;
  training.logitsColumns = sizes.vocabSize + 14;
  training.genTokensBuffer = buffer("gen_tokens", DType::I32, {sizes.genSeqLen});
  training.logitsBuffer = buffer("logits", DType::F32, {sizes.genSeqLen, training.logitsColumns});
  training.logScalar = "lr";
  return plan;
}

uint32_t addBuffer(plan::Plan &plan, const std::string &name, int64_t count) {
  const uint64_t bytes = uint64_t(count) * sizeof(int32_t);
  plan.buffers.push_back({name, plan.arenaBytes, bytes, plan::DType::I32, {count}, {}});
  plan.arenaBytes = (plan.arenaBytes + bytes + 255) / 256 * 256;
  return uint32_t(plan.buffers.size() - 1);
}

namespace {

/// The newest step whose save returned in a process that saves those after `before`, and is killed
/// after so long; `before` where none did, nothing when there is no process.
std::optional<int64_t> saveUntilKilled(int64_t before, std::chrono::microseconds life,
                                       const std::function<bool(int64_t step)> &save) {
  int channel[2];
  if (::pipe(channel) != 0)
    return std::nullopt;
  pid_t child = ::fork();
  if (child < 0) { // as a process's number it would mean all
    ::close(channel[0]);
    ::close(channel[1]);
    return std::nullopt;
  }
  if (child == 0)
    for (int64_t step = before + 1;; ++step)
      if (!save(step) || ::write(channel[1], &step, sizeof step) != sizeof step)
        ::_exit(1);
  ::close(channel[1]);
  std::this_thread::sleep_for(life);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child's saves must not fail";
  int64_t known = before, step = 0;
  while (::read(channel[0], &step, sizeof step) == sizeof step)
    known = step;
  ::close(channel[0]);
  return known;
}

} // namespace

void expectSavesOutliveKills(const std::string &directory, int rounds, uint32_t seed,
                             const std::function<bool(int64_t step)> &save,
                             const std::function<void(const Checkpoint &)> &expectWhole) {
  std::mt19937 generator(seed);
  int64_t known = 0; // the newest step whose save is known to have returned
  int leftovers = 0;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(save(known));
  // Kills fall into some saves, however long one takes; a slow machine's rounds are fewer.
  const auto usual = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  const int64_t longest = std::clamp<int64_t>(4 * usual.count(), 2000, 1000000);
  for (int round = 0; round < rounds; ++round) {
    if (leftovers > 0 && std::chrono::steady_clock::now() - begin > std::chrono::seconds(20))
      break;
    auto saved =
        saveUntilKilled(known, std::chrono::microseconds(int64_t(generator()) % longest), save);
    ASSERT_TRUE(saved) << "no process can be started";
    known = *saved;
    for (const std::string &name : namesIn(directory))
      leftovers += name[0] == '.' ? 1 : 0;
    auto checkpoint =
        findCheckpoint(directory, [](const std::string &line) { ADD_FAILURE() << line; });
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_GE(checkpoint->manifest.step, known);
    EXPECT_LE(checkpoint->manifest.step, known + 1);
    expectWhole(*checkpoint);
    known = checkpoint->manifest.step;
    // Old ones are not needed further.
    for (const std::string &name : namesIn(directory))
      if (name[0] != '.' && name != checkpointName(known))
        std::filesystem::remove_all(directory + "/" + name);
  }
  EXPECT_GT(leftovers, 0) << "no kill hit a save: the test showed nothing";
  ASSERT_TRUE(save(known + 1));
  EXPECT_EQ(namesIn(directory),
            (std::vector<std::string>{checkpointName(known), checkpointName(known + 1)}));
}

ProcessResult runProcess(const std::vector<std::string> &arguments,
                         const std::function<void(int)> &during) {
  ScratchDirectory scratch;
  std::string output = scratch / "output", errors = scratch / "errors";
  std::vector<char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t child = ::fork();
  if (child < 0) { // as a process's number it would mean all
    ADD_FAILURE() << "no process can be started";
    return {};
  }
  if (child == 0) {
    int out = ::open(output.c_str(), O_WRONLY | O_CREAT, 0600),
        err = ::open(errors.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(out, 1);
    ::dup2(err, 2);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  if (during)
    during(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  ProcessResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = readText(output);
  result.errors = readText(errors);
  return result;
}

} // namespace nano::test
