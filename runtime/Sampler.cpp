// Generating tokens.
#include "runtime/Sampler.h"

#include "runtime/Evaluate.h"
#include "runtime/NextLogits.h"
#include "runtime/Random.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace nano {

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
  if (plan.training.generate.empty())
    return badInput("--sample: the plan has no program for it");
  std::vector<int32_t> tokens = {int32_t(std::max<int64_t>(plan.training.eosToken, 0))};
  if (!options.promptFile.empty()) {
    Result<std::vector<int32_t>> prompt =
        readTokens("--prompt-tokens", options.promptFile, plan.training.vocabSize);
    if (!prompt)
      return prompt.error();
    tokens = std::move(*prompt);
  }
  Result<std::unique_ptr<LoneProgram>> lone =
      LoneProgram::open(plan, planHash, NextLogits::roles, "--sample",
                        {options.start, options.threads, options.tuneFile}, makeDevice, console);
  if (!lone)
    return lone.error();
  if (Status status = NextLogits::check((*lone)->training(), options.cache); !status)
    return status.error();
  NextLogits next(**lone, options.cache != Cache::Off);
  const size_t prompt = tokens.size();
  std::vector<int32_t> found;
  for (int64_t drawn = 0; drawn < options.samples; ++drawn) {
    Random random(options.start.seed, drawn == 0 ? "sample" : fmt::format("sample/{}", drawn));
    tokens.resize(prompt);
    for (int64_t i = 0; i < options.count; ++i) {
      if (Status status = next.compute(
              tokens, i > 0, fmt::format("token {}, after step {}", i + 1, (*lone)->step()));
          !status)
        return status.error();
      Result<int32_t> token =
          chooseToken(next.logits(), options.temperature, random.unit(uint64_t(i)));
      if (!token)
        return token.error();
      tokens.push_back(*token);
      found.push_back(*token);
      if (options.take)
        if (Status status = options.take(*token); !status)
          return status.error();
    }
  }
  return found;
}

} // namespace nano
