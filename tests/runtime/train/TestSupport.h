// What the tests of the training loop share: a scratch directory, shards, a small plan, files as
// text.
#pragma once

#include "runtime/Progress.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nano::test {

/// A directory that goes when the object goes.
class ScratchDirectory {
public:
  ScratchDirectory();
  ~ScratchDirectory();
  /// The path of `name` in it.
  std::string operator/(const std::string &name) const { return path + "/" + name; }
  const std::string path;
};

/// The names of what is in a directory, in order.
std::vector<std::string> namesIn(const std::string &directory);
std::string readText(const std::string &path);
void writeText(const std::string &path, const std::string &text);
std::vector<std::string> linesOf(const std::string &text);

/// A shard's bytes, with a header that tests may make wrong.
struct ShardHeader {
  int32_t magic = 20240520, version = 1;
  std::optional<int32_t> count = std::nullopt; ///< default: the real number of tokens
  int32_t rest = 0;                            ///< value of the last header word
};
void writeShard(const std::string &path, const std::vector<uint16_t> &tokens,
                ShardHeader header = {});
/// The same with 32-bit tokens: llm.c's format for Llama 3.
void writeWideShard(const std::string &path, const std::vector<uint32_t> &tokens,
                    ShardHeader header = {.magic = 20240801, .version = 7});
/// Values as they lie in a file.
template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), sizeof(T) * values.size()};
}
/// A tensor for `writeColumns`.
struct ColumnBytes {
  std::string name, type, bytes;
  std::vector<int64_t> shape;
};
template <typename T>
ColumnBytes column(const std::string &name, const std::string &type, const std::vector<T> &values) {
  return {name, type, bytesOf(values), {int64_t(values.size())}};
}
/// A safetensors file.
void writeColumns(const std::string &path, const std::vector<ColumnBytes> &columns);
/// `count` tokens below `vocabSize` that look random and depend on `seed` only.
std::vector<uint16_t> makeTokens(size_t count, int vocabSize, uint32_t seed);

/// A console that writes to memory.
class CapturedConsole {
public:
  explicit CapturedConsole(bool live = false);
  ~CapturedConsole();
  std::string text();

private:
  std::FILE *file;

public:
  Console console;
};

/// Sizes of `makePlan`.
struct PlanSizes {
  int64_t vocabSize = 50, seqLen = 16, valSeqLen = 32, globalBatch = 64, numIterations = 8,
          genSeqLen = 8;
};
/// A valid plan for FakeDevice: one weight and one bias a token (parameters, f32 and bf16),
/// momentum, gradient, a learning rate that falls. `hyperparameters` are kept and steer FakeDevice.
plan::Plan makePlan(const PlanSizes &sizes = {},
                    std::vector<plan::Hyperparameter> hyperparameters = {});

/// Adds a buffer of `count` i32 numbers to the plan; its index.
uint32_t addBuffer(plan::Plan &plan, const std::string &name, int64_t count);

/// Kills processes that save one checkpoint after the other into the directory, which is empty,
/// at most `rounds` times at moments that `seed` makes; expects that the last one that was saved,
/// or the next, is always found and `expectWhole`, and that the next save removes what the killed
/// ones left. `save`: whether the checkpoint of a step was made.
void expectSavesOutliveKills(const std::string &directory, int rounds, uint32_t seed,
                             const std::function<bool(int64_t step)> &save,
                             const std::function<void(const Checkpoint &)> &expectWhole);

/// What a child process left: its exit status (128 + signal when one ended it), and its output.
struct ProcessResult {
  int status = -1;
  std::string output, errors;
};
/// Runs a program; `during` is called with its process id while it runs.
ProcessResult runProcess(const std::vector<std::string> &arguments,
                         const std::function<void(int)> &during = {});

} // namespace nano::test
