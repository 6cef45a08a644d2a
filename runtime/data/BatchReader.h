// How a run's data become batches: the rules of docs/data.md.
#pragma once

#include "base/Status.h"
#include "runtime/data/DocumentIndex.h"
#include "runtime/data/TokenShards.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nano {

/// Where the next batch begins.
struct DataPosition {
  uint64_t shard = 0;    ///< its place in the order of the epoch
  uint64_t position = 0; ///< tokens of the shard that are used up; documents, where batches are cut
                         ///< by document
  uint64_t epoch = 0;    ///< how often the first shard was begun again
  bool operator==(const DataPosition &) const = default;
};

/// How a batch is to be cut; may change from step to step.
struct BatchShape {
  uint64_t sequences = 0;        ///< over all ranks
  uint64_t length = 0;           ///< T: tokens of a sequence
  uint64_t longest = UINT64_MAX; ///< tokens of a document at most
};

/// Tokens [position, position + count) of a shard.
struct Piece {
  size_t shard = 0;
  uint64_t position = 0, count = 0;
  bool operator==(const Piece &) const = default;
};
/// A sequence: T + 1 tokens, the last of which is only a target. Where the pieces have fewer, the
/// rest is padding.
using Sequence = std::vector<Piece>;

/// What a program reads of a sequence.
struct SequenceData {
  std::vector<int32_t> tokens, targets;
  std::vector<std::vector<std::byte>> columns; ///< one for each plan::Column
};
/// Reads a sequence of `length` tokens. Padding has the token `padding` and zero in all columns.
/// Errors as `TokenShards::read` and `readColumn`.
Status readSequence(const TokenShards &shards, const Sequence &sequence, uint64_t length,
                    int32_t padding, const std::vector<plan::Column> &columns, SequenceData &to);

/// Which tokens a step trains on.
struct Batch {
  std::vector<Sequence> sequences;
  uint64_t length = 0;
  DataPosition start, end;  ///< where it begins, and where the next one does
  bool beginsEpoch = false; ///< the first shard was begun again
};

/// The model's rule, and what it depends on.
struct BatchRule {
  plan::Documents::Rule rule = plan::Documents::Rule::Contiguous;
  bool shuffle = false;
  uint64_t seed = 0;     ///< of shuffling
  int32_t document = -1; ///< the token that begins a document
};

/// Walks over the shards batch by batch, and over all of them again. Copies go on by themselves.
class BatchReader {
public:
  /// Checks that a batch of that shape can be made at `start`, and where documents matter cuts it.
  /// BadInput, one line: `start` does not lie in the shards, no shard is long enough, or an error
  /// of `next`. `option` is what messages call the data.
  static Result<BatchReader> create(std::shared_ptr<const TokenShards> shards, BatchRule rule,
                                    const BatchShape &shape, const std::string &option,
                                    DataPosition start = {});

  /// The next batch; where it is refused the reader stays where it is. BadInput: no shard can fill
  /// it; a shard has no document; too few begin in what one of rule Aligned takes; one of rule
  /// Packed is longer than a row. Failed: a file cannot be read.
  Result<Batch> next(const BatchShape &shape);
  /// A sequence of the batch, see `readSequence`.
  Status read(const Batch &batch, size_t sequence, const std::vector<plan::Column> &columns,
              SequenceData &to) const {
    return readSequence(*shards, batch.sequences[sequence], batch.length, rule.document, columns,
                        to);
  }
  /// A hash of all that the batch reads, targets and columns included.
  Result<uint64_t> hash(const Batch &batch) const;
  /// Where the next batch begins.
  const DataPosition &position() const { return following; }
  /// The shard that a position lies in.
  size_t shardAt(const DataPosition &position) const;
  /// "token 12 of a.bin", "document 3 of a.bin".
  std::string describe(const DataPosition &position) const;
  /// Whether batches are made of documents one by one, and positions count these.
  bool isByDocument() const {
    return rule.rule == plan::Documents::Rule::Cut || rule.rule == plan::Documents::Rule::Packed;
  }

private:
  BatchReader() = default;
  DataPosition nextShard(DataPosition position) const;
  /// The same batch in `at`'s shard; nothing when the shard cannot fill it.
  Result<std::optional<Batch>> batchAt(const DataPosition &at, const BatchShape &shape);
  std::optional<Batch> contiguous(const DataPosition &at, const BatchShape &shape) const;
  Result<std::optional<Batch>> aligned(const DataPosition &at, const BatchShape &shape);
  Result<std::optional<Batch>> byDocument(const DataPosition &at, const BatchShape &shape);
  /// The documents of the shard in the order of the epoch.
  const std::vector<uint32_t> &orderOf(const DataPosition &at, size_t count);

  std::shared_ptr<const TokenShards> shards;
  std::shared_ptr<DocumentIndexes> documents;
  BatchRule rule;
  std::string option;
  DataPosition following;
  std::vector<uint32_t> order; ///< of the documents of the shard and epoch of `orderAt`
  DataPosition orderAt{UINT64_MAX, 0, 0};
  mutable std::vector<uint32_t> shardOrder; ///< of the epoch `shardOrderOf`
  mutable uint64_t shardOrderOf = UINT64_MAX;
};

/// 0 … count − 1 in an order that depends on the seed and the name alone: of the numbers in order,
/// for i = count − 1 down to 1, the one at i is exchanged for that at ⌊u(i)·(i + 1)⌋, u as
/// `Random::unit` of (seed, name).
std::vector<uint32_t> shuffled(size_t count, uint64_t seed, const std::string &name);

/// The first `tokens` tokens in whole sequences of `length` tokens, fewer where the shards hold
/// fewer, contiguous. A sequence and the token after it lie in one shard; what is left at a shard's
/// end is not used.
std::vector<Piece> validationSequences(const TokenShards &shards, uint64_t length, uint64_t tokens);

} // namespace nano
