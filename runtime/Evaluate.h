// What a trained model makes of given tokens: the perplexity of token shards, the logits of a
// prompt, the log-probabilities of documents.
#pragma once

#include "base/Status.h"
#include "runtime/LoneProgram.h"
#include "runtime/NextLogits.h"
#include "runtime/Progress.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

struct Perplexity {
  double loss = 0;      ///< mean of the tokens' losses, in nats
  uint64_t tokens = 0;  ///< that were predicted
  uint64_t leftOut = 0; ///< at the shards' ends, fewer than a validation sequence each
  int64_t step = 0;     ///< as LoneProgram::step
};

/// The mean loss of the plan's validation program over all whole sequences of the shards, one
/// after the other. BadInput: a plan without the program, bad shards or start, shards that hold no
/// whole sequence; Failed: a loss that is not finite.
Result<Perplexity> perplexity(const plan::Plan &plan, const std::string &planHash,
                              const std::string &shards, const LoneOptions &options,
                              const MakeDevice &makeDevice, Console &console);

/// Token ids, decimal, separated by white space, of a file that `option` names. BadInput, with
/// option, file and number, for what is no token of the vocabulary; a file without tokens.
Result<std::vector<int32_t>> readTokens(const std::string &option, const std::string &path,
                                        int64_t vocabSize);

/// Writes the logits of the plan's sampling program for the prompt, row t of what follows its token
/// t, to a safetensors file: `logits`, f32 [tokens, vocabulary]. With `cache` On each token after
/// the first is computed as a sample's, else all together. BadInput: a plan without the program, or
/// without that of one token where it is asked for; a prompt that is longer than it takes, a bad
/// start or file.
Status writeLogits(const plan::Plan &plan, const std::string &planHash,
                   const std::vector<int32_t> &prompt, Cache cache, const std::string &path,
                   const LoneOptions &options, const MakeDevice &makeDevice, Console &console);

/// Writes to a .npy file, f32, what the sampling program gives each token of the training file or
/// folder `data` from those of its document before it: the logarithm of its probability, 0 for a
/// document's first token and for what lies before the first document. Each document is read alone,
/// from position 0 on. BadInput: a plan without the program, bad data, a document that is longer
/// than the program's sequence and one, a bad start or file; Failed: logits that are not finite.
Status writeLogProbabilities(const plan::Plan &plan, const std::string &planHash,
                             const std::string &data, const std::string &path,
                             const LoneOptions &options, const MakeDevice &makeDevice,
                             Console &console);

} // namespace nano
