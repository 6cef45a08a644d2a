// The logits after a text that grows token by token: `generate` computes all positions of it,
// `decode` one more, with what the earlier ones have left on the device.
#pragma once

#include "runtime/LoneProgram.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// Whether a token is computed with what the tokens before it have left, or together with them all.
enum class Cache : uint8_t {
  Auto, ///< where the plan can
  On,
  Off
};

class NextLogits {
public:
  /// The programs that it runs.
  static constexpr std::initializer_list<LoneProgram::Role> roles = {&plan::Training::generate,
                                                                     &plan::Training::decode};
  /// BadInput when the stage has no program of one token and `cache` is On.
  static Status check(const plan::Training &training, Cache cache);

  /// `program` has `roles`. Without `cached` it computes all positions for every token.
  NextLogits(LoneProgram &program, bool cached);

  /// Computes the logits after `tokens`, at least one, of which it sees the last genSeqLen.
  /// `goesOn`: they are those of the call before and one more. Failed, with `where`, for an index
  /// out of range.
  Status compute(const std::vector<int32_t> &tokens, bool goesOn, const std::string &where);

  /// [vocabSize], of the last call.
  const std::vector<float> &logits() const { return last; }

private:
  Status ofAll(const std::vector<int32_t> &tokens, const std::string &where);
  Status ofOne(const std::vector<int32_t> &tokens, const std::string &where);
  Status read(uint32_t buffer, uint64_t at);

  LoneProgram &program;
  Device &device;
  const plan::Training &training;
  bool cached;
  std::vector<int32_t> window; ///< what all positions are of
  std::vector<float> last;
};

} // namespace nano
