// A bounded queue between the thread that reads and the rank's.
#include "runtime/data/Loader.h"

#include <exception>
#include <fmt/format.h>
#include <new>
#include <utility>

namespace nano {

Loader::Loader(BatchReader reader, Share share, std::function<Result<BatchShape>(int64_t)> shapeOf,
               int64_t first, int64_t end)
    : reader(std::move(reader)), share(std::move(share)), shapeOf(std::move(shapeOf)),
      thread([this, first, end] {
        try {
          run(first, end);
        } catch (const std::bad_alloc &) {
          const std::lock_guard<std::mutex> lock(mutex);
          isOut = true;
          isReady.notify_all();
        }
      }) {}

Loader::~Loader() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
  }
  isWanted.notify_all();
  thread.join();
}

Result<std::shared_ptr<const LoadedBatch>> Loader::next() {
  std::unique_lock<std::mutex> lock(mutex);
  isReady.wait(lock, [&] { return !ready.empty() || isOut; });
  if (ready.empty())
    return failed("out of memory while batches are read; free some, or use fewer ranks");
  Item item = ready.front();
  if (item) {
    ready.pop_front();
    lock.unlock();
    isWanted.notify_all();
  }
  return item;
}

void Loader::run(int64_t first, int64_t end) {
  for (int64_t step = first; step <= end; ++step) {
    Item item = step < end ? load(step) : failed("there are no more steps to read batches for");
    const bool isLast = !item;
    std::unique_lock<std::mutex> lock(mutex);
    isWanted.wait(lock, [&] { return isStopping || ready.size() < depth; });
    if (isStopping)
      return;
    ready.push_back(std::move(item));
    lock.unlock();
    isReady.notify_all();
    if (isLast)
      return;
  }
}

Loader::Item Loader::load(int64_t step) {
  try {
    Result<BatchShape> shape = shapeOf(step);
    if (!shape)
      return shape.error();
    Result<Batch> batch = reader.next(*shape);
    if (!batch)
      return batch.error();
    auto loaded = std::make_shared<LoadedBatch>();
    loaded->batch = std::move(*batch);
    if (share.hashes) {
      Result<uint64_t> hash = reader.hash(loaded->batch);
      if (!hash)
        return hash.error();
      loaded->hash = *hash;
    }
    for (size_t i = size_t(share.rank); i < loaded->batch.sequences.size();
         i += size_t(share.world)) {
      loaded->share.emplace_back();
      if (Status status =
              reader.read(loaded->batch, i, share.columnsOf(step), loaded->share.back());
          !status)
        return status.error();
    }
    return std::shared_ptr<const LoadedBatch>(std::move(loaded));
  } catch (const std::exception &error) {
    return failed(fmt::format("reading the batch of step {} failed: {}", step + 1, error.what()));
  }
}

} // namespace nano
