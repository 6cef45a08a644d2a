// Generating tokens.
#include "runtime/Sampler.h"

#include "runtime/Random.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/InputFile.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace nano {

namespace {

/// Token ids, decimal, separated by white space.
Result<std::vector<int32_t>> readPrompt(const std::string &path, int64_t vocabSize) {
  Result<std::string> text = readInput(path, input::prompt);
  if (!text)
    return badInput("--prompt-tokens " + text.error().message);
  std::vector<int32_t> tokens;
  constexpr const char *space = " \t\r\n\f\v";
  for (size_t begin = text->find_first_not_of(space); begin != std::string::npos;) {
    size_t end = std::min(text->find_first_of(space, begin), text->size());
    int32_t token = 0;
    auto [rest, error] = std::from_chars(text->data() + begin, text->data() + end, token);
    if (error != std::errc() || rest != text->data() + end || token < 0 || token >= vocabSize)
      return badInput(fmt::format(
          "--prompt-tokens {}: '{}' (number {}) is not a token of the vocabulary, 0 to {}", path,
          text->substr(begin, std::min<size_t>(end - begin, 20)), tokens.size() + 1,
          vocabSize - 1));
    tokens.push_back(token);
    begin = text->find_first_not_of(space, end);
  }
  if (tokens.empty())
    return badInput(fmt::format("--prompt-tokens {}: holds no token", path));
  return tokens;
}

} // namespace

Result<int32_t> chooseToken(const std::vector<float> &logits, double temperature, double unit) {
  auto largest = std::max_element(logits.begin(), logits.end());
  bool anyNan =
      std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  if (anyNan || largest == logits.end() || std::isinf(*largest))
    return failed("the model's logits are not finite");
  if (temperature == 0)
    return int32_t(largest - logits.begin());
  std::vector<double> cumulative(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    cumulative[i] = sum += std::exp((double(logits[i]) - double(*largest)) / temperature);
  auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), unit * sum);
  return int32_t(std::min(chosen, cumulative.end() - 1) - cumulative.begin());
}

Result<std::vector<int32_t>> sample(const plan::Plan &plan, const std::string &planHash,
                                    const SampleOptions &options, const MakeDevice &makeDevice,
                                    Console &console) {
  const plan::Training &training = plan.training;
  if (training.generate.empty())
    return badInput("--sample: the plan has no program for it");
  std::vector<int32_t> tokens = {int32_t(std::max<int64_t>(training.eosToken, 0))};
  if (!options.promptFile.empty()) {
    Result<std::vector<int32_t>> prompt = readPrompt(options.promptFile, training.vocabSize);
    if (!prompt)
      return prompt.error();
    tokens = std::move(*prompt);
  }
  Result<Start> start = Start::open(plan, planHash, options.start,
                                    [&](const std::string &line) { console.say(line); });
  if (!start)
    return start.error();

  // Sampling needs neither other ranks nor what trains.
  plan::Plan alone = plan;
  alone.worlds = {1};
  alone.group = 1;
  std::erase_if(alone.programs,
                [&](const plan::Program &p) { return p.name != training.generate; });
  std::erase_if(alone.states,
                [](const plan::State &s) { return s.role != plan::State::Role::Parameter; });
  LocalGroup group(1);
  DeviceOptions deviceOptions;
  deviceOptions.threads = options.threads;
  deviceOptions.tuneFile = options.tuneFile;
  deviceOptions.report = [&](const std::string &line) { console.say(line); };
  Result<std::unique_ptr<Device>> device = makeDevice(alone, group.communicator(0), deviceOptions);
  if (!device)
    return device.error();
  if (Status status = start->write(alone, Seat(), **device, threadsPerRank(options.threads, 1));
      !status)
    return status.error();
  int64_t step = start->manifest() ? start->manifest()->step : training.numIterations;
  if (Status status = writeScalars(plan, step, 1, **device); !status)
    return status.error();

  Random random(options.start.seed, "sample");
  const size_t prompt = tokens.size();
  std::vector<int32_t> window(size_t(training.genSeqLen));
  std::vector<float> logits(size_t(training.vocabSize));
  for (int64_t i = 0; i < options.count; ++i) {
    size_t used = std::min(window.size(), tokens.size());
    std::fill(std::copy(tokens.end() - std::ptrdiff_t(used), tokens.end(), window.begin()),
              window.end(), 0);
    if (Status status = (*device)->write(training.genTokensBuffer, 0, window.data(),
                                         window.size() * sizeof(int32_t));
        !status)
      return status.error();
    if (Status status = (*device)->run(training.generate); !status)
      return status.error();
    if (const size_t count = training.genChecks.list.size()) {
      std::vector<int32_t> checked(count);
      if (Status status = (*device)->read(training.genChecks.buffer, 0, checked.data(),
                                          count * sizeof(int32_t));
          !status)
        return status.error();
      if (const std::string index = plan::indexOutOfRange(training.genChecks, checked.data());
          !index.empty())
        return failed(fmt::format("--sample: token {}, after step {}: {}", i + 1, step, index));
    }
    uint64_t row = uint64_t(used - 1) * uint64_t(training.logitsColumns) * sizeof(float);
    if (Status status = (*device)->read(training.logitsBuffer, row, logits.data(),
                                        logits.size() * sizeof(float));
        !status)
      return status.error();
    Result<int32_t> token = chooseToken(logits, options.temperature, random.unit(uint64_t(i)));
    if (!token)
      return token.error();
    tokens.push_back(*token);
  }
  return std::vector<int32_t>(tokens.begin() + std::ptrdiff_t(prompt), tokens.end());
}

} // namespace nano
