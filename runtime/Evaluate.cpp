// Runs the validation program over shards, and the sampling program over a prompt.
#include "runtime/Evaluate.h"

#include "runtime/data/BatchReader.h"
#include "runtime/files/FileWriter.h"
#include "runtime/files/Safetensors.h"
#include "runtime/plan/InputFile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace nano {

Result<Perplexity> perplexity(const plan::Plan &plan, const std::string &planHash,
                              const std::string &pattern, const LoneOptions &options,
                              const MakeDevice &makeDevice, Console &console) {
  const plan::Training &training = plan.training;
  if (training.validate.empty())
    return badInput("--perplexity: the plan has no validation program");
  Result<std::shared_ptr<const TokenShards>> shards =
      TokenShards::open(pattern, training.vocabSize, "--perplexity", training.valColumns);
  if (!shards)
    return shards.error();
  const auto sequence = uint64_t(training.valSeqLen);
  const std::vector<Piece> sequences =
      validationSequences(**shards, sequence, (*shards)->totalTokens());
  if (sequences.empty())
    return badInput(fmt::format("--perplexity '{}': fewer tokens than one validation sequence: no "
                                "shard has {}; compile with a smaller val_seq_len",
                                pattern, sequence + 1));
  Result<std::unique_ptr<LoneProgram>> lone = LoneProgram::open(
      plan, planHash, &plan::Training::validate, "--perplexity", options, makeDevice, console);
  if (!lone)
    return lone.error();

  Device &device = (*lone)->device();
  const plan::Training &stage = (*lone)->training();
  SequenceData data;
  double sum = 0;
  for (const Piece &piece : sequences) {
    Status status = readSequence(**shards, {piece}, sequence, int32_t(training.eosToken),
                                 stage.valColumns, data);
    if (status)
      status = writeSequence(data, stage.valTokensBuffer, stage.valTargetsBuffer, stage.valColumns,
                             device);
    const std::string where =
        fmt::format("{} from token {}", (*shards)->name(piece.shard), piece.position);
    if (status)
      status = (*lone)->run(stage.valChecks, where);
    float loss = 0;
    if (status)
      status = device.read(stage.valLossBuffer, 0, &loss, sizeof loss);
    if (!status)
      return status.error();
    if (!std::isfinite(loss))
      return failed(fmt::format("--perplexity: the loss of {} is {}", where, loss));
    sum += loss;
  }
  Perplexity result;
  result.tokens = sequences.size() * sequence;
  result.loss = sum / double(training.valLossIsSum ? result.tokens : sequences.size());
  // Each shard's last token has no successor.
  result.leftOut = (*shards)->totalTokens() - (*shards)->count() - result.tokens;
  result.step = (*lone)->step();
  return result;
}

Result<std::vector<int32_t>> readTokens(const std::string &option, const std::string &path,
                                        int64_t vocabSize) {
  Result<std::string> text = readInput(path, input::prompt);
  if (!text)
    return badInput(fmt::format("{} {}", option, text.error().message));
  std::vector<int32_t> tokens;
  constexpr const char *space = " \t\r\n\f\v";
  for (size_t begin = text->find_first_not_of(space); begin != std::string::npos;) {
    size_t end = std::min(text->find_first_of(space, begin), text->size());
    int32_t token = 0;
    auto [rest, error] = std::from_chars(text->data() + begin, text->data() + end, token);
    if (error != std::errc() || rest != text->data() + end || token < 0 || token >= vocabSize)
      return badInput(
          fmt::format("{} {}: '{}' (number {}) is not a token of the vocabulary, 0 to {}", option,
                      path, text->substr(begin, std::min<size_t>(end - begin, 20)),
                      tokens.size() + 1, vocabSize - 1));
    tokens.push_back(token);
    begin = text->find_first_not_of(space, end);
  }
  if (tokens.empty())
    return badInput(fmt::format("{} {}: holds no token", option, path));
  return tokens;
}

Status writeLogits(const plan::Plan &plan, const std::string &planHash,
                   const std::vector<int32_t> &prompt, const std::string &path,
                   const LoneOptions &options, const MakeDevice &makeDevice, Console &console) {
  const plan::Training &training = plan.training;
  if (training.generate.empty())
    return badInput("--logits: the plan has no program that computes them; call generate in the "
                    "model file");
  if (prompt.size() > size_t(training.genSeqLen))
    return badInput(fmt::format("--prompt-tokens: {} tokens; the plan's program takes {}",
                                prompt.size(), training.genSeqLen));
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return badInput("--logits " + file.error().message);
  Result<std::unique_ptr<LoneProgram>> lone = LoneProgram::open(
      plan, planHash, &plan::Training::generate, "--logits", options, makeDevice, console);
  if (!lone)
    return lone.error();
  Device &device = (*lone)->device();
  const plan::Training &stage = (*lone)->training();
  std::vector<int32_t> window(size_t(stage.genSeqLen), 0);
  std::copy(prompt.begin(), prompt.end(), window.begin());
  Status status =
      device.write(stage.genTokensBuffer, 0, window.data(), window.size() * sizeof(int32_t));
  if (status)
    status = (*lone)->run(stage.genChecks, "the prompt");
  if (status)
    status = file->writer().append(
        safetensorsHeader({{"logits", {"F32", {int64_t(prompt.size()), stage.vocabSize}}}}));
  std::vector<float> row(size_t(stage.vocabSize));
  for (size_t t = 0; status && t < prompt.size(); ++t) {
    const uint64_t at = t * uint64_t(stage.logitsColumns) * sizeof(float);
    status = device.read(stage.logitsBuffer, at, row.data(), row.size() * sizeof(float));
    if (status)
      status = file->writer().append(row.data(), row.size() * sizeof(float));
  }
  return status ? file->publish() : status;
}

} // namespace nano
