// Where the documents of data files begin, found once a file and shared by the ranks of a process.
#pragma once

#include "base/Status.h"
#include "runtime/data/TokenShards.h"

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace nano {

/// The positions of the token that begins a document, rising. Document i goes to the next beginning
/// or, the last one, to the end of its file; tokens before the first beginning belong to none.
class DocumentIndexes {
public:
  using Beginnings = std::shared_ptr<const std::vector<uint64_t>>;

  DocumentIndexes(std::shared_ptr<const TokenShards> shards, int32_t token)
      : shards(std::move(shards)), token(token) {}

  /// The beginnings of documents in a shard, which is read when nobody has. BadInput where it has
  /// none; Failed, with the file, where it cannot be read.
  Result<Beginnings> of(size_t shard);
  /// Begins to look for them, beside the caller.
  void prepare(size_t shard);

private:
  using Pending = std::shared_future<Result<Beginnings>>;
  /// Only files that are read now or next are kept.
  static constexpr size_t kept = 4;

  Result<Beginnings> find(size_t shard) const;
  Pending pending(size_t shard, std::launch policy);

  std::shared_ptr<const TokenShards> shards;
  const int32_t token;
  std::mutex mutex;
  std::map<size_t, std::pair<uint64_t, Pending>> found; ///< with when it was asked for
  uint64_t asked = 0;
};

} // namespace nano
