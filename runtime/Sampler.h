// Generating tokens with a trained model: softmax of the last position's logits, one token at a
// time.
#pragma once

#include "base/Status.h"
#include "runtime/NextLogits.h"
#include "runtime/Progress.h"
#include "runtime/Start.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nano {

struct SampleOptions {
  int64_t count = 0;        ///< tokens to generate, of each sample
  int64_t samples = 1;      ///< one after the other, from the same prompt
  std::string promptFile;   ///< token ids as text; empty: the plan's end-of-document token, or 0
                            ///< where it has none
  double temperature = 0.8; ///< logits are divided by it; 0: always the likeliest token
  StartOptions start;       ///< its seed is also that of the choices
  Cache cache = Cache::Auto;
  int threads = 0;      ///< as DeviceOptions
  std::string tuneFile; ///< as DeviceOptions
  /// Hears every token as soon as it is drawn; its error ends the sample. May be empty.
  std::function<Status(int32_t token)> take = {};
};

/// The generated tokens of all samples, without the prompt. The model sees the last genSeqLen
/// tokens; run-time scalars have their values of the checkpoint's step, or of the last step when
/// there is no checkpoint. BadInput: a plan without the program, or without that of one token where
/// it is asked for; a bad prompt or start.
Result<std::vector<int32_t>> sample(const plan::Plan &plan, const std::string &planHash,
                                    const SampleOptions &options, const MakeDevice &makeDevice,
                                    Console &console);

/// Draws a token: softmax(logits / temperature) in f64, inverted at `unit` in (0, 1); the first
/// likeliest one at temperature 0. Failed when a logit is NaN or all are −∞.
Result<int32_t> chooseToken(const std::vector<float> &logits, double temperature, double unit);

} // namespace nano
