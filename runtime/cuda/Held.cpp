// Two batches of the work are always on the stream; the counter is looked at beside them.
#include "runtime/cuda/Held.h"

#include <algorithm>
#include <array>

namespace nano::cuda {

/// A look takes the driver milliseconds, so nobody looks while the counter cannot have moved.
void Held::look(std::vector<Move> &moves) {
  constexpr double surely = 0.8; // of the time between two moves
  if (!moves.empty() && counter.now() < moves.back().seconds + pause)
    return;
  const std::optional<double> joules = counter.joules();
  if (!joules || *joules == last)
    return;
  const double at = counter.now();
  // What the counter stood at before this run says nothing of when it moved.
  if (last >= 0) {
    if (!moves.empty()) {
      const double between = surely * (at - moves.back().seconds);
      pause = pause > 0 ? std::min(pause, between) : between;
    }
    moves.push_back({at, *joules});
  }
  last = *joules;
}

RunCost Held::run(const std::function<void()> &enqueue, double once, double least) {
  constexpr double batchSeconds = 5e-3, settling = 0.03;
  constexpr int mostInBatch = 1000;
  constexpr double patience = 3; // times `least`, for a counter that does not move
  const int batch = std::clamp(int(batchSeconds / std::max(once, 1e-6)), 1, mostInBatch);
  const std::array<CUevent, 2> ends = {gpu.makeEvent(false), gpu.makeEvent(false)};
  auto put = [&](CUevent end) {
    for (int i = 0; i < batch; ++i)
      enqueue();
    gpu.check(gpu.api.cuEventRecord(end, stream), "cuEventRecord");
  };
  std::vector<Move> moves;
  last = -1;
  for (CUevent end : ends)
    put(end);
  gpu.synchronize(ends[0]);
  const double begin = counter.now();
  double end = begin;
  int64_t runs = 0;
  for (size_t i = 0;; ++i) {
    put(ends[i % 2]);
    // As many looks as there is time for until the batch before it is over.
    do {
      if (counter.now() > begin + settling)
        look(moves);
    } while (!moves.empty() && counter.now() >= moves.back().seconds + pause &&
             !gpu.isOver(ends[(i + 1) % 2]));
    gpu.synchronize(ends[(i + 1) % 2]);
    runs += batch;
    end = counter.now();
    if (end >= begin + least && (moves.size() >= leastMoves || end >= begin + patience * least))
      break;
  }
  gpu.synchronize(stream);
  RunCost cost = {(end - begin) / double(runs), 0};
  constexpr size_t several = 3; // moves, each seen some milliseconds late
  static_assert(leastMoves > several);
  mostWatts = 0;
  for (size_t i = several; i < moves.size(); ++i)
    mostWatts = std::max(mostWatts, (moves[i].joules - moves[i - several].joules) /
                                        (moves[i].seconds - moves[i - several].seconds));
  if (moves.size() >= 2) {
    const Move &first = moves.front(), &final = moves.back();
    cost.joules = cost.seconds * (final.joules - first.joules) / (final.seconds - first.seconds);
  }
  return cost;
}

} // namespace nano::cuda
