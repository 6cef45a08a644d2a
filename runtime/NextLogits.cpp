// Runs the sampling programs.
#include "runtime/NextLogits.h"

#include "runtime/Device.h"

#include <algorithm>

namespace nano {

Status NextLogits::check(const plan::Training &training, Cache cache) {
  if (cache == Cache::On && training.decode.empty())
    return badInput("--cache on: the plan computes all positions for every token; nanoc compile "
                    "says which line of the model needs them");
  return ok();
}

NextLogits::NextLogits(LoneProgram &program, bool cached)
    : program(program), device(program.device()), training(program.training()),
      cached(cached && !training.decode.empty()), window(size_t(training.genSeqLen)),
      last(size_t(training.vocabSize)) {}

Status NextLogits::compute(const std::vector<int32_t> &tokens, bool goesOn,
                           const std::string &where) {
  // Behind the longest text every token moves all others to another position.
  const bool fits = tokens.size() <= window.size();
  return goesOn && fits && cached ? ofOne(tokens, where) : ofAll(tokens, where);
}

Status NextLogits::ofAll(const std::vector<int32_t> &tokens, const std::string &where) {
  const size_t used = std::min(window.size(), tokens.size());
  std::fill(std::copy(tokens.end() - std::ptrdiff_t(used), tokens.end(), window.begin()),
            window.end(), 0);
  Status status =
      device.write(training.genTokensBuffer, 0, window.data(), window.size() * sizeof(int32_t));
  if (status)
    status = program.run(&plan::Training::generate, training.genChecks, where);
  const uint64_t row = uint64_t(used - 1) * uint64_t(training.logitsColumns) * sizeof(float);
  return status ? read(training.logitsBuffer, row) : status;
}

Status NextLogits::ofOne(const std::vector<int32_t> &tokens, const std::string &where) {
  const int32_t token = tokens.back(), position = int32_t(tokens.size() - 1);
  Status status = device.write(training.decodeTokenBuffer, 0, &token, sizeof token);
  if (status)
    status = device.write(training.decodePositionBuffer, 0, &position, sizeof position);
  if (status)
    status = program.run(&plan::Training::decode, training.decodeChecks, where);
  return status ? read(training.decodeLogitsBuffer, 0) : status;
}

Status NextLogits::read(uint32_t buffer, uint64_t at) {
  return device.read(buffer, at, last.data(), last.size() * sizeof(float));
}

} // namespace nano
