// The files of a run's tokens, and the order in which training and validation read them.
#pragma once

#include "runtime/data/DataFile.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// Training files, open, in sorted name order. Ranks of one process share one object.
class TokenShards {
public:
  /// Opens every file that `pattern` matches (*, ?, [...], {a,b}), as DataFile does. Tokens are
  /// checked when they are read: each must be below `vocabSize`. `option` is what messages call the
  /// pattern, e.g. "--train". BadInput, one line: nothing matches, or the errors of DataFile.
  static Result<std::shared_ptr<const TokenShards>>
  open(const std::string &pattern, int64_t vocabSize, const std::string &option);

  size_t count() const { return shards.size(); }
  /// The file's path as the pattern gave it.
  const std::string &path(size_t shard) const { return shards[shard].path; }
  /// The file's name without directories.
  std::string name(size_t shard) const;
  /// Number of tokens in the shard.
  uint64_t size(size_t shard) const { return shards[shard].tokens.size(); }
  uint64_t totalTokens() const;
  /// Whether some file's tokens have 32 bits.
  bool areWide() const;
  /// Tells sets of shards apart without reading them all: a hash of their names and numbers of
  /// tokens, in order, and of the first 3,072 bytes of tokens of each. Different sets with the same
  /// number differ behind those tokens only.
  Result<uint64_t> fingerprint() const;
  /// XXH3 of tokens [position, position + count) of the shard, which must hold them, and of
  /// `before`.
  Result<uint64_t> hash(size_t shard, uint64_t position, uint64_t count, uint64_t before = 0) const;

  /// Tokens [position, position + count) of the shard, which must hold them. BadInput, with file
  /// and position, for a token outside the vocabulary; Failed, with the file, when it has become
  /// shorter.
  Status read(size_t shard, uint64_t position, uint64_t count, int32_t *to) const;
  /// Inputs [position, position + count) of the shard into `inputs`, and the tokens that follow
  /// each of them into `targets`; the shard must hold them all. Errors as above.
  Status read(size_t shard, uint64_t position, uint64_t count, int32_t *inputs,
              int32_t *targets) const;

  /// A hint: tokens that will be read soon.
  void willNeed(size_t shard, uint64_t position, uint64_t count) const;

private:
  TokenShards() = default;

  std::vector<DataFile> shards;
  int64_t vocabSize = 0;
};

/// Where the next batch begins.
struct DataPosition {
  uint64_t shard = 0;
  uint64_t position = 0; ///< tokens of the shard that are used up
  uint64_t epoch = 0;    ///< how often the first shard was begun again
  bool operator==(const DataPosition &) const = default;
};

/// Walks over the shards batch by batch. A shard that was begun is left for the next one, at
/// position 0, when position + batch + 1 ≥ its size; past the last shard comes the first again.
/// Shards with fewer tokens than a batch and the target of its last token are passed over; one with
/// exactly so many gives its one batch.
class BatchReader {
public:
  /// `batch`: tokens a step over all ranks; `sequence`: tokens of one sequence. BadInput when no
  /// shard is long enough for a batch or `start` does not lie in the shards.
  static Result<BatchReader> create(std::shared_ptr<const TokenShards> shards, uint64_t batch,
                                    uint64_t sequence, const std::string &option,
                                    DataPosition start = {});

  /// Takes the next batch and asks for the one after it to be read ahead. True when this began the
  /// first shard again.
  bool next();
  /// Sequence `index` of the batch: inputs and targets, `sequence` tokens each. Errors as
  /// `TokenShards::read`.
  Status read(uint64_t index, int32_t *inputs, int32_t *targets) const;
  /// A hash of all tokens of the batch that was taken last, targets included.
  Result<uint64_t> hash() const;
  /// Where that batch begins.
  const DataPosition &batchStart() const { return current; }
  /// Where the batch after the one that was taken last begins.
  const DataPosition &position() const { return following; }

private:
  BatchReader() = default;
  /// Whether the batch there is read from its shard.
  bool holds(const DataPosition &position) const;
  /// Moves to a shard that still holds a whole batch.
  DataPosition settle(DataPosition position) const;

  std::shared_ptr<const TokenShards> shards;
  uint64_t batch = 0, sequence = 0;
  DataPosition current, following;
};

/// The beginnings (shard, position) of the first `tokens` tokens in whole sequences of `sequence`
/// tokens, fewer where the shards hold fewer. A sequence and the token after it lie in one shard;
/// what is left at a shard's end is not used.
std::vector<std::pair<size_t, uint64_t>> validationSequences(const TokenShards &shards,
                                                             uint64_t sequence, uint64_t tokens);

} // namespace nano
