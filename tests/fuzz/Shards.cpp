// Files of tokens.
#include "runtime/data/BatchReader.h"
#include "tests/fuzz/Targets.h"

#include <cstdint>

namespace nano::fuzz {

void shard(std::string_view bytes) {
  constexpr int64_t vocabulary = 300;
  const BatchShape shape{.sequences = 2, .length = 8, .longest = 5};
  const MemoryFile memory(bytes);
  const auto shards = TokenShards::open(memory.path(), vocabulary, "--train");
  if (!shards)
    return;
  (void)(*shards)->fingerprint();
  (void)validationSequences(**shards, shape.length, 1000);
  using Rule = plan::Documents::Rule;
  for (const Rule rule : {Rule::Contiguous, Rule::Aligned, Rule::Cut, Rule::Packed}) {
    Result<BatchReader> reader =
        BatchReader::create(*shards, {.rule = rule, .document = 0}, shape, "--train");
    for (int step = 0; reader && step < 3; ++step) {
      const Result<Batch> batch = reader->next(shape);
      if (!batch)
        break;
      (void)reader->hash(*batch);
      SequenceData data;
      for (size_t sequence = 0; sequence < shape.sequences; ++sequence)
        if (reader->read(*batch, sequence, {}, data))
          for (const int32_t token : data.tokens)
            require(token >= 0 && token < vocabulary, "a token that is read is in the vocabulary");
    }
  }
}

} // namespace nano::fuzz
