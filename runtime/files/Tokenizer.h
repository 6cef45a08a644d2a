// The texts of tokens, from a tokenizer.json of HuggingFace's `tokenizers`: those of byte-level BPE
// (GPT-2, Llama 3, Qwen) and of BPE with byte fallback (Llama 2, Mistral). For decoding only.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace nano {

class Tokenizer {
public:
  /// The file at `path`, or the tokenizer.json of the folder. BadInput, one line that names it: no
  /// JSON, no vocabulary, a spelling given twice, a number that is no token's, a decoder of
  /// another kind.
  static Result<Tokenizer> open(const std::string &path);

  /// The bytes of a token; of text in UTF-8 one character may be those of several. Nothing special
  /// is made of the first. Failed, naming the token, for one that is not in the vocabulary.
  Result<std::string> bytes(int32_t token) const;
  /// What the first tokens of a text lose at its beginning: a space, or nothing.
  const std::string &strippedAtStart() const { return stripped; }

private:
  std::string path, stripped;
  std::unordered_map<int64_t, std::string> entries; ///< bytes by token
};

} // namespace nano
