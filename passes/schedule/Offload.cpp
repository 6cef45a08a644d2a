// nano-offload: takes values that nobody needs for long to the host's memory and back, beside the
// computation.
//
//   step.launch @relu(%x, %y)            step.launch @relu(%x, %y)
//                                        step.record 0
//                                        step.wait 0 {stream = 3}
//                                        step.copy %y to %h {stream = 3}
//                                        step.record 1 {stream = 3}
//   …                               →    …
//                                        step.wait 1
//   …                                    …          // the bytes of %y are free, those of %z not
//   yet in use
//                                        step.record 2
//                                        step.wait 2 {stream = 4}
//                                        step.copy %h to %z {stream = 4}
//                                        step.record 3 {stream = 4}
//   …                                    …
//                                        step.wait 3
//   step.launch @grad(%y, %g)            step.launch @grad(%z, %g)
//
// %h lies in the host's memory, %z is another buffer like %y. While more bytes live at the fullest
// place of a program than asked for, one of the values that live across it goes: of those whose
// copies are predicted to end before that place and to begin behind it, the one that can leave
// first. A copy has its direction of the link to itself; it is planned as if it took `slack` times
// as long as the machine says. So what cannot be hidden stays where it is.
//
// It runs on scheduled programs, whose order says when copies can run, and before memory planning.
#include "passes/Passes.h"
#include "passes/memory/MemoryReport.h"
#include "passes/schedule/Costs.h"
#include "passes/schedule/ListSchedule.h"
#include "passes/verify/ByteSet.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <numeric>

namespace nano {
#define GEN_PASS_DEF_OFFLOAD
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::step;
using namespace nano::schedule;
namespace memory = nano::memory;
namespace verify = nano::verify;

namespace {

/// How much longer than alone a copy may take beside a step and a copy of the other direction, with
/// what predictions are off. On an H200 with a link of 55.6 GB/s 302 MB go to the host at 46.6 to
/// 49.2 GB/s beside a step, and come back at 54.8; the step is predicted 15% longer than it is. It
/// takes 65.8 ms with 1.2 and with 1.44, and 72.9 with 1.
constexpr double slack = 1.3;
/// What is gone in fewer times what the smallest copy takes is not worth its events.
constexpr double leastLatencies = 32;

/// One direction of the link to the host: when it is busy.
class Direction {
public:
  /// The first moment, `from` or later, from which on it is free for so long.
  double earliest(double from, double seconds) const {
    for (auto [start, end] : busy) {
      if (start >= from + seconds)
        break;
      from = std::max(from, end);
    }
    return from;
  }
  /// The last moment from which on it is free for so long, up to `until` or earlier.
  double latest(double until, double seconds) const {
    for (auto [start, end] : llvm::reverse(busy)) {
      if (end <= until - seconds)
        break;
      until = std::min(until, start);
    }
    return until - seconds;
  }
  void take(double start, double seconds) { busy[start] = start + seconds; }

private:
  std::map<double, double> busy; ///< from when until when
};

/// A buffer between two commands that touch it, by position.
struct Idle {
  BufferOp buffer;
  int64_t last = 0, next = 0;
  int64_t bytes = 0;  ///< of the arena
  double seconds = 0; ///< that a copy is planned to take
};

/// How an idle buffer leaves and comes back. Positions are those of commands before which something
/// is done.
struct Move {
  Idle idle;
  double leave = 0, come = 0; ///< when the copies begin, in seconds of the program
  int64_t out = 0;            ///< the copy to the host is begun
  int64_t away = 0;           ///< it is waited for
  int64_t back = 0;           ///< the copy from the host is begun
};

class Offloader {
public:
  Offloader(ProgramOp program, const KernelTable &kernels, ArrayRef<memory::StepState> states,
            const Costs &costs, const nano::machine::Machine &machine);

  int64_t peak() const { return live.empty() ? 0 : *std::max_element(live.begin(), live.end()); }
  /// Chooses what goes until no more than `most` bytes live at once, or nothing more can.
  void choose(int64_t most);
  void apply();
  ArrayRef<Move> chosen() const { return moves; }

private:
  void findIdle(const KernelTable &kernels, const memory::Lifetimes &lifetimes,
                ArrayRef<memory::Item> items);
  /// The first command that starts at that time or later.
  int64_t firstFrom(double seconds) const {
    return llvm::lower_bound(starts, seconds) - starts.begin();
  }
  std::optional<Move> moveOf(const Idle &idle, int64_t place) const;
  void renew(const Idle &idle, Value back);
  /// Has what `stream` does next from `to` on wait for what `other` has done up to `from`.
  void order(OpBuilder &from, unsigned other, OpBuilder &to, unsigned stream, Location location) {
    RecordOp::create(from, location, events, other);
    WaitOp::create(to, location, events++, stream);
  }

  const nano::machine::Machine &machine;
  SmallVector<StepCommandOpInterface> commands;
  std::vector<double> starts; ///< by position, seconds at which the first stream is there
  std::vector<int64_t> live;  ///< by position, bytes
  std::vector<Idle> idles;
  std::vector<Move> moves;
  Direction toHost, fromHost;
  uint64_t events = 0; ///< of the program
};

Offloader::Offloader(ProgramOp program, const KernelTable &kernels,
                     ArrayRef<memory::StepState> states, const Costs &costs,
                     const nano::machine::Machine &machine)
    : machine(machine) {
  const memory::Lifetimes lifetimes = memory::lifetimesOf(program, kernels, states);
  const std::vector<memory::Item> items = memory::packingItems(lifetimes);
  double now = 0;
  for (StepCommandOpInterface command : lifetimes.commands) {
    commands.push_back(command);
    starts.push_back(now);
    if (command.getStream() == computeStream)
      now += costs.seconds(command, program.getSymName(), kernels);
    if (auto record = dyn_cast<RecordOp>(*command))
      events = std::max(events, record.getEvent() + 1);
  }
  live.assign(commands.size(), 0);
  for (const memory::Item &item : items)
    for (int64_t at = item.begin; at <= item.end; ++at)
      live[at] += item.bytesAt(at);
  findIdle(kernels, lifetimes, items);
}

/// Only what the first stream alone touches, no indices, and what is written whole before: bytes
/// that nobody has written are not to be read.
void Offloader::findIdle(const KernelTable &kernels, const memory::Lifetimes &lifetimes,
                         ArrayRef<memory::Item> items) {
  struct Touched {
    BufferOp buffer;
    int64_t bytes = 0;
    double seconds = 0;
    int64_t last = -1;
    verify::ByteIntervals written;
    SmallVector<Idle, 2> idles;
    bool isOfOthers = false;
  };
  llvm::MapVector<const void *, Touched> touched;
  for (auto [lifetime, item] : llvm::zip(lifetimes.buffers, items)) {
    auto buffer = dyn_cast<BufferOp>(*nano::graph::PlacedOpInterface(lifetime.buffer));
    if (!buffer || buffer.getType().getElementType().isInteger())
      continue;
    Touched &own = touched[bufferKey(buffer)];
    own.buffer = buffer;
    own.bytes = item.bytes;
    own.seconds = slack * machine.hostCopy(double(contiguousBytes(buffer.getType())));
  }
  for (auto [at, command] : llvm::enumerate(commands)) {
    const SmallVector<Access> accesses = accessesOf(command, kernels);
    for (const Access &access : accesses) {
      auto *found = touched.find(bufferKey(access.buffer));
      if (found == touched.end())
        continue;
      Touched &own = found->second;
      own.isOfOthers |= command.getStream() != computeStream;
      const auto whole = verify::ByteSet::interval(0, contiguousBytes(own.buffer.getType()));
      if (own.last >= 0 && own.last < int64_t(at) && !own.written.firstMissing(whole))
        own.idles.push_back({own.buffer, own.last, int64_t(at), own.bytes, own.seconds});
      own.last = int64_t(at);
    }
    for (const Access &access : accesses)
      if (auto *found = touched.find(bufferKey(access.buffer));
          found != touched.end() && access.writes) {
        auto type = cast<MemRefType>(access.buffer.getType());
        const Layout layout = layoutOf(type);
        const int64_t bytes = elementBytes(type.getElementType());
        found->second.written.add(verify::ByteSet::strided(
            uint64_t(layout.offset * bytes), type.getShape(), layout.strides, uint64_t(bytes)));
      }
  }
  for (const auto &[key, own] : touched)
    if (!own.isOfOthers)
      llvm::copy_if(own.idles, std::back_inserter(idles), [&](const Idle &idle) {
        return idle.seconds >= leastLatencies * machine.host.latency;
      });
}

/// How it can be away at a place; nothing where that cannot be hidden.
std::optional<Move> Offloader::moveOf(const Idle &idle, int64_t place) const {
  if (idle.last >= place || idle.next <= place)
    return std::nullopt;
  const double seconds = idle.seconds;
  Move move{idle};
  move.leave = toHost.earliest(starts[idle.last + 1], seconds);
  move.come = fromHost.latest(starts[idle.next], seconds);
  move.out = firstFrom(move.leave);
  move.away = firstFrom(move.leave + seconds);
  move.back = llvm::upper_bound(starts, move.come) - starts.begin() - 1;
  return move.away <= place && place < move.back ? std::optional(move) : std::nullopt;
}

void Offloader::choose(int64_t most) {
  while (peak() > most) {
    const int64_t place = std::max_element(live.begin(), live.end()) - live.begin();
    std::optional<Move> best;
    for (const Idle &idle : idles)
      if (std::optional<Move> move = moveOf(idle, place);
          move && (!best ||
                   std::pair(move->leave, -idle.bytes) < std::pair(best->leave, -best->idle.bytes)))
        best = move;
    if (!best)
      return;
    for (int64_t at = best->away; at < best->back; ++at)
      live[at] -= best->idle.bytes;
    toHost.take(best->leave, best->idle.seconds);
    fromHost.take(best->come, best->idle.seconds);
    llvm::erase_if(idles, [&](const Idle &idle) { return idle.buffer == best->idle.buffer; });
    moves.push_back(*best);
  }
}

/// What touches the buffer from its return on gets `back`.
void Offloader::renew(const Idle &idle, Value back) {
  OpBuilder builder(back.getContext());
  builder.setInsertionPointAfterValue(back);
  for (StepCommandOpInterface command : ArrayRef(commands).drop_front(idle.next))
    for (OpOperand &operand : command->getOpOperands()) {
      if (bufferOf(operand.get()) != idle.buffer)
        continue;
      const Type type = operand.get().getType();
      operand.set(type == back.getType()
                      ? back
                      : Value(ViewOp::create(builder, operand.get().getLoc(), type, back)));
    }
}

void Offloader::apply() {
  auto before = [&](int64_t position) { return OpBuilder(commands[position]); };
  auto after = [&](int64_t position) {
    OpBuilder builder(commands[position]);
    builder.setInsertionPointAfter(commands[position]);
    return builder;
  };
  std::vector<std::pair<Value, Value>> copies; // on the host, and what is back
  llvm::stable_sort(moves, [](const Move &a, const Move &b) { return a.leave < b.leave; });
  for (const Move &move : moves) {
    BufferOp buffer = move.idle.buffer;
    const Location location = buffer.getLoc();
    OpBuilder builder(buffer);
    builder.setInsertionPointAfter(buffer);
    auto like = [&](bool isInHost) -> Value {
      return BufferOp::create(builder, location, buffer.getType(), buffer.getName(), IntegerAttr(),
                              isInHost);
    };
    const Value host = like(true), back = like(false);
    copies.emplace_back(host, back);
    renew(move.idle, back);
    OpBuilder made = after(move.idle.last), out = before(move.out), away = before(move.away);
    order(made, computeStream, out, toHostStream, location);
    CopyOp::create(out, location, buffer, host, toHostStream);
    order(out, toHostStream, away, computeStream, location);
  }
  std::vector<size_t> byReturn(moves.size());
  std::iota(byReturn.begin(), byReturn.end(), 0);
  llvm::stable_sort(byReturn, [&](size_t a, size_t b) { return moves[a].come < moves[b].come; });
  for (size_t index : byReturn) {
    const Move &move = moves[index];
    const auto [host, value] = copies[index];
    const Location location = value.getLoc();
    OpBuilder free = before(move.back), back = before(move.back), next = before(move.idle.next);
    order(free, computeStream, back, fromHostStream, location);
    CopyOp::create(back, location, host, value, fromHostStream);
    order(back, fromHostStream, next, computeStream, location);
  }
}

struct Offload : public nano::impl::OffloadBase<Offload> {
  using OffloadBase::OffloadBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (bytes < 0) {
      emitError(module.getLoc(), "nano-offload: bytes must not be negative, is ")
          << bytes.getValue();
      return signalPassFailure();
    }
    if (bytes == 0 || forbid)
      return;
    llvm::Expected<nano::machine::Machine> rates = nano::machine::load(machine);
    if (!rates)
      return fail(rates.takeError());
    if (!nano::schedule::canOffload(*rates))
      return;
    llvm::Expected<Costs> costs = Costs::make(*rates, {}, module);
    if (!costs)
      return fail(costs.takeError());
    const KernelTable kernels(module);
    const SmallVector<memory::StepState> states = memory::stepStates(module, kernels);
    std::vector<Offloader> programs;
    int64_t peak = 0;
    for (auto program : module.getOps<ProgramOp>())
      if (llvm::is_contained({"", "first", "next", "last", "update"},
                             program.getRole().value_or(""))) {
        programs.emplace_back(program, kernels, states, *costs, *rates);
        peak = std::max(peak, programs.back().peak());
      }
    for (Offloader &program : programs) {
      program.choose(peak - bytes);
      tell(program.chosen(), *rates);
      program.apply();
    }
  }

private:
  void fail(llvm::Error error) {
    emitError(getOperation().getLoc(), llvm::toString(std::move(error)));
    signalPassFailure();
  }

  /// A remark for each name and model line.
  static void tell(ArrayRef<Move> moves, const nano::machine::Machine &machine) {
    struct Sum {
      Location location;
      StringRef name;
      int64_t count = 0, bytes = 0;
    };
    std::vector<std::pair<std::string, Sum>> sums;
    for (const Move &move : moves) {
      BufferOp buffer = move.idle.buffer;
      std::string key = (buffer.getName() + lineOf(buffer.getLoc())).str();
      auto found = llvm::find_if(sums, [&](const auto &other) { return other.first == key; });
      if (found == sums.end())
        found = sums.insert(sums.end(), {key, Sum{buffer.getLoc(), buffer.getName()}});
      ++found->second.count;
      found->second.bytes += contiguousBytes(buffer.getType());
    }
    for (const auto &[key, sum] : sums)
      mlir::emitRemark(sum.location)
          << "taken to the host's memory and back: " << sum.name << " × " << sum.count << ", "
          << llvm::formatv("{0:f2}", 1e-6 * double(sum.bytes)).str() << " MB, each way in "
          << llvm::formatv("{0:f3}", 1e3 * machine.hostCopy(double(sum.bytes))).str()
          << " ms beside a micro-batch";
  }
};

} // namespace
