// Looks through a shard for the token that begins a document.
#include "runtime/data/DocumentIndex.h"

#include <algorithm>
#include <fmt/format.h>

namespace nano {

Result<DocumentIndexes::Beginnings> DocumentIndexes::find(size_t shard) const {
  auto beginnings = std::make_shared<std::vector<uint64_t>>();
  if (Status status = shards->find(shard, token, *beginnings); !status)
    return status.error();
  if (beginnings->empty())
    return badInput(fmt::format("{}: no document begins in it: it holds no token {}, the model's "
                                "eos_token",
                                shards->path(shard), token));
  return Beginnings(std::move(beginnings));
}

DocumentIndexes::Pending DocumentIndexes::pending(size_t shard, std::launch policy) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto place = found.find(shard);
  if (place == found.end()) {
    if (found.size() == kept)
      found.erase(std::min_element(found.begin(), found.end(), [](const auto &a, const auto &b) {
        return a.second.first < b.second.first;
      }));
    place = found
                .emplace(shard, std::pair(0, Pending(std::async(
                                                 policy, [this, shard] { return find(shard); }))))
                .first;
  }
  place->second.first = ++asked;
  return place->second.second;
}

Result<DocumentIndexes::Beginnings> DocumentIndexes::of(size_t shard) {
  return pending(shard, std::launch::deferred).get();
}

void DocumentIndexes::prepare(size_t shard) { (void)pending(shard, std::launch::async); }

} // namespace nano
