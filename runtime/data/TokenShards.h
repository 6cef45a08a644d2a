// The files of a run's data: tokens, checked against the vocabulary, and the columns beside them
// that a model reads.
#pragma once

#include "base/Status.h"
#include "runtime/data/DataFile.h"
#include "runtime/plan/Plan.h"

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
  /// `columns`: what programs read beside the tokens; every file must have each, of that type.
  static Result<std::shared_ptr<const TokenShards>> open(const std::string &pattern,
                                                         int64_t vocabSize,
                                                         const std::string &option,
                                                         std::vector<plan::Column> columns = {});

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
  /// XXH3 of elements [position, position + count) of the shard's tokens and of the columns that
  /// are read, and of `before`; the shard must hold them.
  Result<uint64_t> hash(size_t shard, uint64_t position, uint64_t count, uint64_t before = 0) const;

  /// Tokens [position, position + count) of the shard, which must hold them. BadInput, with file
  /// and position, for a token outside the vocabulary; Failed, with the file, when it has become
  /// shorter.
  Status read(size_t shard, uint64_t position, uint64_t count, int32_t *to) const;
  /// Inputs [position, position + count) of the shard into `inputs`, and the tokens that follow
  /// each of them into `targets`; the shard must hold them all. Errors as above.
  Status read(size_t shard, uint64_t position, uint64_t count, int32_t *inputs,
              int32_t *targets) const;

  /// The positions at which `token` stands in the shard, added to `positions`. Failed, with the
  /// file, when it has become shorter.
  Status find(size_t shard, int32_t token, std::vector<uint64_t> &positions) const;
  /// Elements [position, position + count) of a column, as programs have them: u8 as i32. The
  /// column is one of those given to `open`, and no `documentColumn`. BadInput, with file, column
  /// and position, for a float that is not finite.
  Status readColumn(size_t shard, const plan::Column &column, uint64_t position, uint64_t count,
                    std::byte *to) const;
  /// Columns of the files, by name, that nobody reads.
  std::vector<std::string> unread() const;

  /// A hint: tokens that will be read soon.
  void willNeed(size_t shard, uint64_t position, uint64_t count) const;

private:
  TokenShards() = default;

  std::vector<DataFile> shards;
  std::vector<plan::Column> columns; ///< each name once, without `documentColumn`
  int64_t vocabSize = 0;
};

} // namespace nano
