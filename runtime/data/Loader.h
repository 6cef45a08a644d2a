// Reads the batches of coming steps in a thread of its own, so that no step waits for the disk.
#pragma once

#include "runtime/data/BatchReader.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nano {

/// A batch, and what one rank reads of it.
struct LoadedBatch {
  Batch batch;
  uint64_t hash = 0;               ///< BatchReader::hash; 0 where nobody asks for it
  std::vector<SequenceData> share; ///< sequences rank, rank + world, … of the batch
};

/// The batches of steps, in order. What comes out does not depend on timing: an error belongs to
/// the step whose batch it prevents, and comes when that is asked for.
class Loader {
public:
  struct Share {
    int rank = 0, world = 1;
    /// The columns that a step's programs read; called in the loader's thread.
    std::function<const std::vector<plan::Column> &(int64_t)> columnsOf;
    bool hashes = false;
  };
  /// Begins to read the batches of steps [first, end). `shapeOf` says how that of a step is cut; it
  /// is called in the loader's thread.
  Loader(BatchReader reader, Share share, std::function<Result<BatchShape>(int64_t)> shapeOf,
         int64_t first, int64_t end);
  /// Stops reading and waits for what is being read.
  ~Loader();
  Loader(const Loader &) = delete;
  Loader &operator=(const Loader &) = delete;

  /// The batch of the next step; waits where it is not read yet. The error, once there was one.
  Result<std::shared_ptr<const LoadedBatch>> next();

private:
  using Item = Result<std::shared_ptr<const LoadedBatch>>;
  /// Batches that are kept ready.
  static constexpr size_t depth = 3;

  void run(int64_t first, int64_t end);
  Item load(int64_t step);

  BatchReader reader;
  const Share share;
  const std::function<Result<BatchShape>(int64_t)> shapeOf;
  std::mutex mutex;
  std::condition_variable isReady, isWanted;
  std::deque<Item> ready;
  bool isStopping = false;
  bool isOut = false; ///< of memory: nothing more becomes ready
  std::thread thread;
};

} // namespace nano
