// Live bytes as a number a command: lists have some thousand commands, moves some hundred of them.
#include "passes/schedule/LiveBytes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace nano::step;

namespace nano::schedule {

LiveBytes::LiveBytes(ArrayRef<Operation *> commands, const KernelTable &kernels)
    : live(commands.size(), 0) {
  for (auto [time, command] : llvm::enumerate(commands))
    for (const Access &access : accessesOf(cast<StepCommandOpInterface>(command), kernels)) {
      auto buffer = dyn_cast<BufferOp>(bufferOf(access.buffer));
      if (!buffer)
        continue;
      auto [life, isNew] = lives.try_emplace(bufferKey(access.buffer));
      if (isNew)
        life->second = {int64_t(time), int64_t(time), contiguousBytes(buffer.getType())};
      life->second.end = int64_t(time);
    }
  for (const auto &[buffer, life] : lives)
    for (int64_t time = life.begin; time <= life.end; ++time)
      live[time] += life.bytes;
}

int64_t LiveBytes::most() const {
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

SmallVector<const LiveBytes::Life *> LiveBytes::livesAfter(ArrayRef<Access> accesses,
                                                           int64_t time) const {
  SmallVector<const Life *> found;
  for (const Access &access : accesses) {
    auto life = lives.find(bufferKey(access.buffer));
    if (life != lives.end() && life->second.begin > time &&
        !llvm::is_contained(found, &life->second))
      found.push_back(&life->second);
  }
  return found;
}

int64_t LiveBytes::bytesBefore(ArrayRef<Access> accesses, int64_t time) const {
  int64_t bytes = 0;
  for (const Life *life : livesAfter(accesses, time))
    bytes += life->bytes;
  return bytes;
}

bool LiveBytes::canMove(ArrayRef<Access> accesses, int64_t time, int64_t limit) const {
  SmallVector<const Life *> later = livesAfter(accesses, time);
  llvm::sort(later, [](const Life *a, const Life *b) { return a->begin < b->begin; });
  int64_t bytes = 0;
  for (const Life *life : later)
    bytes += life->bytes;
  for (const Life *life : later) {
    for (; time < life->begin; ++time)
      if (live[time] + bytes > limit)
        return false;
    bytes -= life->bytes;
  }
  return true;
}

void LiveBytes::move(ArrayRef<Access> accesses, int64_t time) {
  for (const Access &access : accesses) {
    auto life = lives.find(bufferKey(access.buffer));
    if (life == lives.end())
      continue;
    for (int64_t at = time; at < life->second.begin; ++at)
      live[at] += life->second.bytes;
    life->second.begin = std::min(life->second.begin, time);
  }
}

bool LiveBytes::replace(Value other, Value buffer, int64_t limit) {
  Life &from = lives.find(bufferKey(other))->second, &to = lives.find(bufferKey(buffer))->second;
  for (int64_t time = to.end + 1; time < from.begin; ++time)
    if (live[time] + to.bytes > limit)
      return false;
  for (int64_t time = to.end + 1; time < from.begin; ++time)
    live[time] += to.bytes;
  for (int64_t time = from.begin; time <= std::min(from.end, to.end); ++time)
    live[time] -= from.bytes;
  to.end = std::max(to.end, from.end);
  lives.erase(bufferKey(other));
  return true;
}

} // namespace nano::schedule
