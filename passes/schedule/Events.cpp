// Waits as a transitive reduction by vector clocks; which orders bytes need, by the commands'
// accesses and the buffers' offsets.
#include "passes/schedule/Events.h"

#include "passes/schedule/Dependences.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace nano::step;

namespace nano::schedule {
namespace {

/// By stream, the latest command that has finished; −1: none.
using Clock = SmallVector<int64_t, 4>;

size_t countOf(ArrayRef<unsigned> streams) {
  return streams.empty() ? 1 : *llvm::max_element(streams) + size_t(1);
}

void advance(Clock &clock, ArrayRef<int64_t> other) {
  for (auto [mine, theirs] : llvm::zip(clock, other))
    mine = std::max(mine, theirs);
}

/// By command, what has finished when it starts, as the program's events say.
std::vector<Clock> finishedBefore(ProgramOp program, ArrayRef<unsigned> streams) {
  std::vector<Clock> now, finished;
  auto ofStream = [&](uint64_t stream) -> Clock & {
    while (now.size() <= stream)
      now.emplace_back(countOf(streams), -1);
    return now[stream];
  };
  llvm::DenseMap<uint64_t, Clock> events;
  for (Operation &op : program.getBody().front()) {
    auto command = dyn_cast<StepCommandOpInterface>(op);
    if (!command)
      continue;
    Clock &clock = ofStream(command.getStream());
    if (auto wait = dyn_cast<WaitOp>(op)) {
      if (auto event = events.find(wait.getEvent()); event != events.end())
        advance(clock, event->second);
    } else if (auto record = dyn_cast<RecordOp>(op)) {
      events[record.getEvent()] = clock;
    } else {
      finished.push_back(clock);
      clock[command.getStream()] = int64_t(finished.size()) - 1;
    }
  }
  return finished;
}

/// Bytes of the arena that a command touches in one of the program's own buffers.
struct Place {
  uint32_t command;
  const void *buffer;
  int64_t begin, end;
  bool writes;

  /// Within a buffer, Dependences knows.
  bool conflictsWith(const Place &other) const {
    return buffer != other.buffer && begin < other.end && other.begin < end &&
           (writes || other.writes);
  }
};

/// Where gradients lie, by name: transient buffers may share their bytes.
using GradientPlaces = llvm::DenseMap<StringAttr, int64_t>;

GradientPlaces gradientsOf(ProgramOp program) {
  GradientPlaces places;
  for (auto state : program->getParentOfType<ModuleOp>().getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::Gradient && state.getOffsetAttr())
      places[state.getSymNameAttr()] = state.getOffsetAttr().getInt();
  return places;
}

/// Where a buffer lies that may share bytes with others.
std::optional<int64_t> offsetOf(Operation *buffer, const GradientPlaces &gradients) {
  if (auto transient = dyn_cast<BufferOp>(buffer)) {
    const IntegerAttr offset = transient.getOffsetAttr();
    return offset ? std::optional(offset.getInt()) : std::nullopt;
  }
  const auto found = gradients.find(cast<StateOp>(buffer).getSymbolAttr().getAttr());
  return found == gradients.end() ? std::nullopt : std::optional(found->second);
}

SmallVector<Place> placesOf(uint32_t command, ArrayRef<Access> accesses,
                            const GradientPlaces &gradients) {
  SmallVector<Place> places;
  for (const Access &access : accesses) {
    const std::optional<int64_t> offset = offsetOf(bufferOf(access.buffer), gradients);
    if (!offset)
      continue;
    auto type = cast<MemRefType>(access.buffer.getType());
    const ElementRange range = elementRange(type);
    const int64_t bytes = elementBytes(type.getElementType()), start = *offset;
    places.push_back({command, bufferKey(access.buffer), start + range.begin * bytes,
                      start + range.end * bytes, access.writes});
  }
  return places;
}

/// Adds to `after` the latest commands of other streams with bytes in common by way of another
/// buffer.
void addSharers(const Dependences &dependences, const GradientPlaces &gradients,
                ArrayRef<unsigned> streams, MutableArrayRef<SmallVector<uint32_t, 8>> after) {
  std::vector<std::vector<Place>> byStream(countOf(streams));
  for (uint32_t i = 0; i < dependences.commands.size(); ++i) {
    const SmallVector<Place> places = placesOf(i, dependences.accesses[i], gradients);
    for (auto [stream, earlier] : llvm::enumerate(byStream)) {
      if (stream == streams[i])
        continue;
      auto latest = std::find_if(earlier.rbegin(), earlier.rend(), [&](const Place &other) {
        return llvm::any_of(places, [&](const Place &place) { return place.conflictsWith(other); });
      });
      if (latest != earlier.rend())
        after[i].push_back(latest->command);
    }
    llvm::append_range(byStream[streams[i]], places);
  }
}

/// Adds to `after` the latest collectives of other streams.
void addCollectives(ArrayRef<StepCommandOpInterface> commands, ArrayRef<unsigned> streams,
                    MutableArrayRef<SmallVector<uint32_t, 8>> after) {
  SmallVector<int64_t> latest(countOf(streams), -1);
  for (auto [i, command] : llvm::enumerate(commands)) {
    if (!isCollective(command))
      continue;
    for (auto [stream, earlier] : llvm::enumerate(latest))
      if (stream != streams[i] && earlier >= 0)
        after[i].push_back(uint32_t(earlier));
    latest[streams[i]] = int64_t(i);
  }
}

} // namespace

Waits waitsFor(ArrayRef<unsigned> streams, ArrayRef<SmallVector<uint32_t, 8>> after) {
  const Clock atStart(countOf(streams), -1);
  std::vector<Clock> now(countOf(streams), atStart); // by stream: as its next command starts
  std::vector<Clock> ends(streams.size(), atStart);  // what has finished when a command has
  Waits waits(streams.size());
  for (size_t at = 0; at < streams.size(); ++at) {
    Clock &clock = now[streams[at]];
    SmallVector<uint32_t, 8> needed;
    llvm::copy_if(after[at], std::back_inserter(needed),
                  [&](uint32_t earlier) { return streams[earlier] != streams[at]; });
    // The latest first: it may imply others.
    llvm::sort(needed, std::greater<>());
    for (uint32_t earlier : needed) {
      if (clock[streams[earlier]] >= int64_t(earlier))
        continue;
      waits[at].push_back(earlier);
      advance(clock, ends[earlier]);
    }
    clock[streams[at]] = int64_t(at);
    ends[at] = clock;
  }
  return waits;
}

void eraseEvents(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<RecordOp, WaitOp>(op))
      op.erase();
}

void insertEvents(ArrayRef<StepCommandOpInterface> commands, const Waits &waits) {
  std::vector<bool> recorded(commands.size(), false);
  for (const auto &list : waits)
    for (uint32_t earlier : list)
      recorded[earlier] = true;
  llvm::DenseMap<uint32_t, uint64_t> events;
  for (auto [at, constant] : llvm::enumerate(commands)) {
    StepCommandOpInterface command = constant;
    OpBuilder builder(command);
    for (uint32_t earlier : waits[at])
      WaitOp::create(builder, command.getLoc(), events.at(earlier), command.getStream());
    if (recorded[at]) {
      const uint64_t event = events.size();
      events[uint32_t(at)] = event;
      builder.setInsertionPointAfter(command);
      RecordOp::create(builder, command.getLoc(), event, command.getStream());
    }
  }
}

void pruneWaits(ProgramOp program, const KernelTable &kernels) {
  Block &block = program.getBody().front();
  const auto present = size_t(llvm::range_size(block.getOps<WaitOp>()));
  if (present == 0)
    return;
  Dependences dependences = dependencesOf(program, kernels);
  SmallVector<unsigned> streams;
  std::vector<SmallVector<uint32_t, 8>> after;
  for (auto [i, command] : llvm::enumerate(dependences.commands)) {
    streams.push_back(unsigned(command.getStream()));
    after.emplace_back(dependences.before[i].begin(), dependences.before[i].end());
  }
  addSharers(dependences, gradientsOf(program), streams, after);
  addCollectives(dependences.commands, streams, after);
  // An order that is missing is not for this function to add.
  const std::vector<Clock> finished = finishedBefore(program, streams);
  for (auto [i, list] : llvm::enumerate(after))
    llvm::erase_if(list, [&, i = i](uint32_t earlier) {
      return finished[i][streams[earlier]] < int64_t(earlier);
    });
  const Waits waits = waitsFor(streams, after);
  size_t needed = 0;
  for (const auto &list : waits)
    needed += list.size();
  if (needed >= present)
    return;
  eraseEvents(block);
  insertEvents(dependences.commands, waits);
}

} // namespace nano::schedule
