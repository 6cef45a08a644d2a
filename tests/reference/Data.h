// Files and token shards, the latter read as the training loop consumes them.
#pragma once

#include "tests/reference/Model.h"

#include <ostream>

namespace nano::reference {

/// All bytes of a regular file. InputError when it cannot be read.
std::string readFile(const std::string &path);

/// The files that match a shell pattern, in byte order of their names. InputError when none does;
/// `option` names the option in that message.
std::vector<std::string> expandPattern(const std::string &option, const std::string &pattern);

/// The tokens of one shard: 256 little-endian int32 (magic 20240520, version 1, count n, rest
/// ignored), then n little-endian uint16. InputError for anything else and for tokens at or beyond
/// vocabSize.
std::vector<uint16_t> readShard(const std::string &path, int64_t vocabSize);

/// Walks over shards in batches of `batchTokens` tokens with targets shifted by one. A shard is
/// left for the next one when pos + batchTokens + 1 ≥ n, at its beginning only when it is too short
/// for one batch; after the last one the first follows, and that is written to `notes`.
class ShardReader {
public:
  ShardReader(std::vector<std::string> files, int64_t batchTokens, int64_t vocabSize,
              std::ostream &notes);

  /// The next batch cut into sequences of `sequenceLength`, which divides batchTokens. InputError
  /// when no shard is long enough for a batch.
  std::vector<Sequence> next(int64_t sequenceLength);
  /// The next batch of sequences that begin at documents, with the token `document`: of the
  /// beginnings in the two batches' tokens from the position on, the first, and then each that lies
  /// at least a sequence behind the one before; the position becomes the next such one. A shard
  /// that does not hold so many tokens, and two more, is left. InputError where there are too few.
  std::vector<Sequence> nextAligned(int64_t sequenceLength, int64_t document);
  /// The next batch of sequences of documents, which begin with the token `document`: of each at
  /// most `longest` tokens and no more than the sequence and the target of its last token lack;
  /// what is cut off is not used. A shard that cannot fill the batch is left.
  std::vector<Sequence> nextCut(int64_t sequenceLength, int64_t document, int64_t longest);

  /// How often the reader has started again at the first shard.
  int64_t wraps() const { return wrapCount; }

private:
  /// Goes on to a shard of which, from the position on, the batch can be made.
  template <typename F> void passShards(const F &isLeft);
  Sequence sequenceAt(int64_t start, int64_t length) const;

  std::vector<std::string> files;
  int64_t batchTokens, vocabSize;
  std::ostream &notes;
  size_t shard = 0;
  int64_t position = 0, wrapCount = 0;
  std::vector<uint16_t> tokens;
};

} // namespace nano::reference
