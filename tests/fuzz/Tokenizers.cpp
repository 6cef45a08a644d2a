// Tokenizer files.
#include "runtime/files/Tokenizer.h"
#include "tests/fuzz/Targets.h"

#include <cstdint>

namespace nano::fuzz {

void tokenizer(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const Result<Tokenizer> read = Tokenizer::open(memory.path());
  if (!read)
    return;
  constexpr int32_t tried = 300;
  for (int32_t token = 0; token < tried; ++token)
    if (const Result<std::string> spelled = read->bytes(token))
      require(spelled->size() <= bytes.size(), "a token is no longer than its file");
  for (const int32_t token : {-1, INT32_MIN, INT32_MAX})
    require(!read->bytes(token), "what no file may number is no token");
  require(read->strippedAtStart().size() <= bytes.size(), "what is stripped stands in the file");
}

} // namespace nano::fuzz
