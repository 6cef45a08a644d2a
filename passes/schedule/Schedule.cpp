// nano-schedule: assigns streams and inserts events where no other order implies one.
//
//   step.all_reduce %g                     step.all_reduce %g {stream = 1}
//   step.launch @norm(%x, %y)        →     step.record 0 {stream = 1}
//   step.launch @adam(%p, %g)              step.launch @norm(%x, %y)
//                                          step.wait 0
//                                          step.launch @adam(%p, %g)
//
// Collectives go to stream 1, all else to stream 0. A collective moves up to just behind the last
// command that it conflicts with, so that it runs beside what does not need it. Then, in program
// order, each command waits for the latest conflicting command of the other streams, unless what
// its stream has waited for already implies it, or another wait of the same command does.
//
// It runs on the final set of commands, and before memory planning, which lets buffers share bytes
// only where this order keeps them apart.
#include "passes/Passes.h"

namespace nano {
#define GEN_PASS_DEF_SCHEDULE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::step;

namespace {

constexpr unsigned numStreams = 2;
constexpr uint64_t computeStream = 0, collectiveStream = 1;

/// By stream, the position of the latest command of that stream that has finished; −1 for none.
using Clock = std::array<int64_t, numStreams>;
constexpr Clock atStart = {-1, -1};

/// By stream, the latest positions at which a buffer was read and written.
struct Touched {
  Clock read = atStart, written = atStart;
};

class Scheduler {
public:
  Scheduler(ProgramOp program, const KernelTable &kernels)
      : block(program.getBody().front()), kernels(kernels) {}

  void run() {
    assignStreams();
    raiseCollectives();
    insertEvents();
  }

private:
  void assignStreams();
  void raiseCollectives();
  void insertEvents();
  /// For each stream, the latest command there that conflicts with the accesses; −1 for none.
  Clock conflicts(ArrayRef<Access> accesses);
  void touch(ArrayRef<Access> accesses, uint64_t stream, int64_t position);

  Block &block;
  const KernelTable &kernels;
  std::vector<StepCommandOpInterface> commands;
  std::vector<SmallVector<Access>> accesses; ///< by command
  llvm::DenseMap<const void *, Touched> touched;
};

void Scheduler::assignStreams() {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto command = dyn_cast<StepCommandOpInterface>(op);
    if (!command)
      continue;
    if (isa<RecordOp, WaitOp>(op)) {
      op.erase(); // of an earlier schedule
      continue;
    }
    command.moveToStream(isa<AllReduceOp>(op) ? collectiveStream : computeStream);
    commands.push_back(command);
    accesses.push_back(accessesOf(command, kernels));
  }
}

Clock Scheduler::conflicts(ArrayRef<Access> accesses) {
  Clock latest = atStart;
  for (const Access &access : accesses) {
    auto found = touched.find(bufferKey(access.buffer));
    if (found == touched.end())
      continue;
    for (unsigned stream = 0; stream < numStreams; ++stream) {
      latest[stream] = std::max(latest[stream], found->second.written[stream]);
      if (access.writes)
        latest[stream] = std::max(latest[stream], found->second.read[stream]);
    }
  }
  return latest;
}

void Scheduler::touch(ArrayRef<Access> accesses, uint64_t stream, int64_t position) {
  for (const Access &access : accesses) {
    Touched &buffer = touched[bufferKey(access.buffer)];
    if (access.reads)
      buffer.read[stream] = std::max(buffer.read[stream], position);
    if (access.writes)
      buffer.written[stream] = std::max(buffer.written[stream], position);
  }
}

void Scheduler::raiseCollectives() {
  // Slot k holds the collectives that follow computing command k; slot 0 comes before all. A
  // collective's position is its slot, so one that conflicts with another does not rise above it;
  // within a slot they keep their order.
  std::vector<SmallVector<size_t>> slots(1);
  std::vector<size_t> computing;
  for (size_t i = 0; i < commands.size(); ++i) {
    uint64_t stream = commands[i].getStream();
    int64_t slot;
    if (stream == computeStream) {
      slot = int64_t(slots.size());
      slots.emplace_back();
      computing.push_back(i);
    } else {
      Clock after = conflicts(accesses[i]);
      slot = std::max<int64_t>({0, after[computeStream], after[collectiveStream]});
      slots[slot].push_back(i);
    }
    touch(accesses[i], stream, slot);
  }
  std::vector<StepCommandOpInterface> order;
  std::vector<SmallVector<Access>> orderedAccesses;
  auto place = [&](size_t i) {
    commands[i]->moveBefore(&block, block.end());
    order.push_back(commands[i]);
    orderedAccesses.push_back(std::move(accesses[i]));
  };
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (slot > 0)
      place(computing[slot - 1]);
    for (size_t i : slots[slot])
      place(i);
  }
  commands = std::move(order);
  accesses = std::move(orderedAccesses);
  touched.clear();
}

void Scheduler::insertEvents() {
  std::vector<Clock> finished(commands.size()); // what has finished when the command has
  std::array<Clock, numStreams> now;
  now.fill(atStart);
  struct Wait {
    int64_t before, recorded;
  };
  std::vector<Wait> waits;
  std::vector<bool> recorded(commands.size(), false);
  for (int64_t i = 0; i < int64_t(commands.size()); ++i) {
    uint64_t stream = commands[i].getStream();
    Clock needed = conflicts(accesses[i]);
    for (unsigned other = 0; other < numStreams; ++other) {
      if (other == stream || needed[other] <= now[stream][other])
        continue;
      bool implied = llvm::any_of(llvm::seq(numStreams), [&](unsigned third) {
        return third != other && third != stream && needed[third] > now[stream][third] &&
               finished[needed[third]][other] >= needed[other];
      });
      if (implied)
        continue;
      waits.push_back({i, needed[other]});
      recorded[needed[other]] = true;
      for (unsigned third = 0; third < numStreams; ++third)
        now[stream][third] = std::max(now[stream][third], finished[needed[other]][third]);
    }
    now[stream][stream] = i;
    finished[i] = now[stream];
    touch(accesses[i], stream, i);
  }
  // Events are numbered in the order in which they are recorded.
  OpBuilder builder(block.getParentOp()->getContext());
  llvm::DenseMap<int64_t, uint64_t> events;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!recorded[i])
      continue;
    uint64_t event = events.size();
    events[int64_t(i)] = event;
    builder.setInsertionPointAfter(commands[i]);
    RecordOp::create(builder, commands[i].getLoc(), event, commands[i].getStream());
  }
  for (const Wait &wait : waits) {
    StepCommandOpInterface command = commands[wait.before];
    builder.setInsertionPoint(command);
    WaitOp::create(builder, command.getLoc(), events[wait.recorded], command.getStream());
  }
}

struct Schedule : public nano::impl::ScheduleBase<Schedule> {
  void runOnOperation() override {
    KernelTable kernels(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>())
      Scheduler(program, kernels).run();
  }
};

} // namespace
