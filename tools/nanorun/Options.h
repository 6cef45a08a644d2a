// The command line of nanorun.
#pragma once

#include "base/Status.h"
#include "runtime/Sampler.h"
#include "runtime/Trainer.h"
#include "runtime/comm/Launch.h"
#include "tools/nanorun/PlanTrust.h"

#include <chrono>
#include <optional>
#include <string>

namespace nano {

/// What the command line asks for.
struct Options {
  std::string plan;
  std::string device; ///< of base/Target.h, or empty
  PlanTrust trust;
  bool describe = false;
  TrainOptions train;
  LaunchOptions launch;
  std::chrono::milliseconds rankTimeout = std::chrono::minutes(10);
  std::optional<int64_t> sample; ///< number of tokens; given: sample instead of training
  int64_t samples = 1;           ///< of so many tokens each
  std::string promptTokens;
  Cache cache = Cache::Auto; ///< of samples and logits
  double temperature = 0.8;
  std::string perplexity; ///< pattern of shards; given: measure instead of training
  std::string logits;     ///< file; given: the logits of the prompt instead of training
  std::string logprobs;   ///< file; given: log-probabilities of `score` instead of training
  std::string score;      ///< a training file or folder
  std::string compare;    ///< a device or a plan; given: compare one step instead of training
  std::optional<double> tolerance; ///< of `compare`
};

/// The options, or no value when --help or --version was asked for and printed. BadInput: one line.
Result<std::optional<Options>> parseOptions(int argc, char **argv);

} // namespace nano
