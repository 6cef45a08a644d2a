// Runs the validation program over shards, and the sampling program over a prompt or documents.
#include "runtime/Evaluate.h"

#include "base/InputFile.h"
#include "runtime/data/BatchReader.h"
#include "runtime/files/FileWriter.h"
#include "runtime/files/Safetensors.h"

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
      plan, planHash, {&plan::Training::validate}, "--perplexity", options, makeDevice, console);
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
      status = (*lone)->run(&plan::Training::validate, stage.valChecks, where);
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
                   const std::vector<int32_t> &prompt, Cache cache, const std::string &path,
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
      plan, planHash, NextLogits::roles, "--logits", options, makeDevice, console);
  if (!lone)
    return lone.error();
  Device &device = (*lone)->device();
  const plan::Training &stage = (*lone)->training();
  Status status = NextLogits::check(stage, cache);
  if (status)
    status = file->writer().append(
        safetensorsHeader({{"logits", {"F32", {int64_t(prompt.size()), stage.vocabSize}}}}));
  NextLogits next(**lone, true);
  std::vector<float> row(size_t(stage.vocabSize));
  if (status && cache != Cache::On)
    status = next.compute(prompt, false, "the prompt");
  std::vector<int32_t> tokens;
  for (size_t t = 0; status && t < prompt.size(); ++t) {
    tokens.push_back(prompt[t]);
    const uint64_t at = t * uint64_t(stage.logitsColumns) * sizeof(float);
    if (cache == Cache::On)
      status = next.compute(tokens, t > 0, fmt::format("token {} of the prompt", t + 1));
    else
      status = device.read(stage.logitsBuffer, at, row.data(), row.size() * sizeof(float));
    const std::vector<float> &logits = cache == Cache::On ? next.logits() : row;
    if (status)
      status = file->writer().append(logits.data(), logits.size() * sizeof(float));
  }
  return status ? file->publish() : status;
}

namespace {

/// ln softmax(logits)[token].
double logProbability(const std::vector<float> &logits, int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - largest);
  return logits[size_t(token)] - largest - std::log(sum);
}

/// What stands before the numbers of a one-dimensional .npy file of f32.
std::string npyHeader(uint64_t count) {
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", count);
  text.append(63 - (10 + text.size()) % 64, ' ') += '\n';
  const char size[2] = {char(text.size() & 255), char(text.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + text;
}

/// The document of the program's sequence: the log-probabilities of all of its tokens but the
/// first.
Status scoreDocument(LoneProgram &program, const std::vector<int32_t> &tokens,
                     const std::string &where, std::vector<float> &scores) {
  const plan::Training &stage = program.training();
  Device &device = program.device();
  std::vector<int32_t> window(size_t(stage.genSeqLen), 0);
  std::copy(tokens.begin(), tokens.end() - 1, window.begin());
  Status status =
      device.write(stage.genTokensBuffer, 0, window.data(), window.size() * sizeof(int32_t));
  if (status)
    status = program.run(&plan::Training::generate, stage.genChecks, where);
  std::vector<float> logits(size_t(stage.vocabSize));
  for (size_t t = 1; status && t < tokens.size(); ++t) {
    const uint64_t row = (t - 1) * uint64_t(stage.logitsColumns) * sizeof(float);
    status = device.read(stage.logitsBuffer, row, logits.data(), logits.size() * sizeof(float));
    if (status)
      scores[t] = float(logProbability(logits, tokens[t]));
    if (status && !std::isfinite(scores[t]))
      return failed(
          fmt::format("--logprobs: {}, token {}: the log-probability is {}", where, t, scores[t]));
  }
  return status;
}

} // namespace

Status writeLogProbabilities(const plan::Plan &plan, const std::string &planHash,
                             const std::string &data, const std::string &path,
                             const LoneOptions &options, const MakeDevice &makeDevice,
                             Console &console) {
  const plan::Training &training = plan.training;
  if (training.generate.empty())
    return badInput("--logprobs: the plan has no program that computes them; call generate in the "
                    "model file");
  Result<std::shared_ptr<const TokenShards>> shards =
      TokenShards::open(data, training.vocabSize, "--score");
  if (!shards)
    return shards.error();
  if ((*shards)->count() != 1)
    return badInput(fmt::format("--score '{}': {} files; give one, as the numbers go to one file",
                                data, (*shards)->count()));
  const uint64_t size = (*shards)->size(0);
  std::vector<uint64_t> bounds;
  if (Status status = (*shards)->find(0, int32_t(training.eosToken), bounds); !status)
    return status.error();
  if (bounds.empty())
    return badInput(fmt::format("--score {}: no document begins in it: it holds no token {}, the "
                                "model's eos_token",
                                (*shards)->path(0), training.eosToken));
  bounds.push_back(size);
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    if (bounds[i + 1] - bounds[i] > uint64_t(training.genSeqLen) + 1)
      return badInput(fmt::format("--score {}: the document at token {} has {} tokens, and the "
                                  "plan's program takes {}; compile the model with longer rows",
                                  (*shards)->path(0), bounds[i], bounds[i + 1] - bounds[i],
                                  training.genSeqLen + 1));
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return badInput("--logprobs " + file.error().message);
  Result<std::unique_ptr<LoneProgram>> lone = LoneProgram::open(
      plan, planHash, {&plan::Training::generate}, "--logprobs", options, makeDevice, console);
  if (!lone)
    return lone.error();
  Status status = file->writer().append(npyHeader(size));
  std::vector<float> scores(bounds[0], 0);
  std::vector<int32_t> tokens;
  for (size_t i = 0; status; ++i) {
    status = file->writer().append(scores.data(), scores.size() * sizeof(float));
    if (!status || i + 1 == bounds.size())
      break;
    tokens.resize(bounds[i + 1] - bounds[i]);
    scores.assign(tokens.size(), 0);
    status = (*shards)->read(0, bounds[i], tokens.size(), tokens.data());
    if (status)
      status = scoreDocument(
          **lone, tokens,
          fmt::format("the document at token {} of {}", bounds[i], (*shards)->name(0)), scores);
  }
  return status ? file->publish() : status;
}

} // namespace nano
