// nano-schedule: orders commands so that communication runs beside computation.
//
//   step.launch @grad(%x, %g)              step.launch @grad(%x, %g)
//   step.launch @grad(%y, %h)              step.record 0
//   step.all_reduce %g               →     step.wait 0 {stream = 1}
//   step.launch @adam(%p, %g)              step.all_reduce %g {stream = 1}
//                                          step.record 1 {stream = 1}
//                                          step.launch @grad(%y, %h)
//                                          step.wait 1
//                                          step.launch @adam(%p, %g)
//
// Collectives go to stream 1, all else to stream 0. The commands of a program that has collectives
// become a graph of tasks with estimated seconds (Costs), which is scheduled by several rules, from
// its start and from its end (ListSchedule). The order of the shortest predicted program is taken;
// of those within a thousandth of it, the one that is nearest to the given order. It must not hold
// more bytes than the largest program of the module needs in its given order with every collective
// waited for, and a share above that; else the next one is taken, then orders with more waits, and
// at last the given order with every collective waited for.
//
// Every rank runs the same program, so all enter collectives in one order. Then, in the new order,
// each command waits for the latest command of the other stream that it must come after, unless
// what its stream has waited for already implies it: as late, and as rarely, as possible.
//
// It runs on the final set of commands, and before memory planning, which lets buffers share bytes
// only where this order keeps them apart.
#include "passes/Passes.h"
#include "passes/memory/MemoryReport.h"
#include "passes/schedule/Costs.h"
#include "passes/schedule/Dependences.h"
#include "passes/schedule/ListSchedule.h"

#include "llvm/Support/MathExtras.h"

namespace nano {
#define GEN_PASS_DEF_SCHEDULE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::step;
using namespace nano::schedule;
namespace memory = nano::memory;

namespace {

class Scheduler {
public:
  Scheduler(ProgramOp program, const KernelTable &kernels)
      : block(program.getBody().front()), program(program), kernels(kernels) {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (isa<RecordOp, WaitOp>(op))
        op.erase(); // of an earlier schedule
    dependences = dependencesOf(program, kernels);
    buildGraph();
  }

  bool communicates() const { return hasCollective; }
  int64_t givenPeak() const { return serialPeak(graph); }
  void schedule(const Costs &costs, int64_t maxBytes);

private:
  void buildGraph();
  void apply(const Order &order);
  int64_t appliedPeak();
  Order oneByOne() const;

  Block &block;
  ProgramOp program;
  const KernelTable &kernels;
  Dependences dependences;
  TaskGraph graph;
  bool hasCollective = false;
};

void Scheduler::buildGraph() {
  llvm::DenseMap<const void *, uint32_t> buffers;
  for (auto [i, command] : llvm::enumerate(dependences.commands)) {
    Task task;
    task.stream = isCollective(command) ? collectiveStream : computeStream;
    task.before = dependences.before[i];
    hasCollective |= task.stream == collectiveStream;
    command.moveToStream(task.stream);
    graph.tasks.push_back(std::move(task));
    for (const Access &access : dependences.accesses[i]) {
      auto buffer = dyn_cast<BufferOp>(bufferOf(access.buffer));
      if (!buffer)
        continue;
      auto [found, isNew] = buffers.try_emplace(buffer, uint32_t(graph.storage.size()));
      if (isNew)
        graph.storage.push_back(
            {int64_t(llvm::alignTo(contiguousBytes(buffer.getType()), memory::arenaAlignment)),
             {}});
      std::vector<uint32_t> &users = graph.storage[found->second].users;
      if (users.empty() || users.back() != i)
        users.push_back(uint32_t(i));
    }
  }
}

/// The given order, with all streams waiting for every collective.
Order Scheduler::oneByOne() const {
  Order order;
  for (uint32_t i = 0; i < graph.tasks.size(); ++i) {
    order.tasks.push_back(i);
    if (i > 0 && graph.tasks[i].stream != graph.tasks[i - 1].stream)
      order.forMemory.emplace_back(i - 1, i);
  }
  return order;
}

void Scheduler::schedule(const Costs &costs, int64_t maxBytes) {
  for (auto [task, command] : llvm::zip(graph.tasks, dependences.commands))
    task.seconds = costs.seconds(command, program.getSymName(), kernels);
  // What the list scheduler is told; where the plan of the memory holds more, because it knows less
  // about what has ended, more waits tell it, and then the scheduler gets less.
  int64_t within = maxBytes;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<Order> orders = candidates(graph, within);
    if (attempt > 0)
      for (Order &order : orders)
        addFreeWaits(graph, order);
    double shortest = orders.front().seconds;
    for (const Order &order : orders)
      shortest = std::min(shortest, order.seconds);
    // Of those that are as good as the shortest, the first.
    auto rank = [&](const Order &order) { return std::max(order.seconds, shortest * 1.001); };
    llvm::stable_sort(orders, [&](const Order &a, const Order &b) { return rank(a) < rank(b); });
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Order &order : orders) {
      apply(order);
      const int64_t peak = appliedPeak();
      if (peak <= maxBytes)
        return;
      least = std::min(least, peak);
    }
    if (attempt > 0)
      within -= least - maxBytes;
  }
  apply(oneByOne());
}

int64_t Scheduler::appliedPeak() {
  return memory::liveBytes(memory::packingItems(memory::lifetimesOf(program, kernels)));
}

/// Moves the commands into this order and inserts events where no other order implies one.
void Scheduler::apply(const Order &order) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<RecordOp, WaitOp>(op))
      op.erase();
  std::vector<SmallVector<uint32_t, 1>> forMemory(graph.tasks.size());
  for (auto [earlier, later] : order.forMemory)
    forMemory[later].push_back(earlier);

  // Positions in the order; −1: nothing.
  std::vector<int64_t> position(graph.tasks.size());
  std::vector<int64_t> waitsFor(order.tasks.size(), -1);
  // By stream, the last command of the other stream that its next command knows to have finished.
  std::array<int64_t, numStreams> known = {-1, -1};
  std::vector<bool> recorded(order.tasks.size(), false);
  for (auto [at, task] : llvm::enumerate(order.tasks)) {
    const unsigned stream = graph.tasks[task].stream;
    dependences.commands[task]->moveBefore(&block, block.end());
    position[task] = int64_t(at);
    int64_t latest = -1;
    for (ArrayRef<uint32_t> list : {ArrayRef(graph.tasks[task].before), ArrayRef(forMemory[task])})
      for (uint32_t earlier : list)
        if (graph.tasks[earlier].stream != stream)
          latest = std::max(latest, position[earlier]);
    if (latest > known[stream]) {
      known[stream] = latest;
      waitsFor[at] = latest;
      recorded[latest] = true;
    }
  }
  // Events are numbered in the order in which they are recorded.
  OpBuilder builder(program.getContext());
  llvm::DenseMap<int64_t, uint64_t> events;
  for (auto [at, task] : llvm::enumerate(order.tasks)) {
    StepCommandOpInterface command = dependences.commands[task];
    if (waitsFor[at] >= 0) {
      builder.setInsertionPoint(command);
      WaitOp::create(builder, command.getLoc(), events.at(waitsFor[at]), command.getStream());
    }
    if (recorded[at]) {
      const uint64_t event = events.size();
      events[int64_t(at)] = event;
      builder.setInsertionPointAfter(command);
      RecordOp::create(builder, command.getLoc(), event, command.getStream());
    }
  }
}

struct Schedule : public nano::impl::ScheduleBase<Schedule> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    KernelTable kernels(module);
    std::vector<Scheduler> programs;
    for (auto program : module.getOps<ProgramOp>())
      programs.emplace_back(program, kernels);
    if (llvm::none_of(programs, [](const Scheduler &program) { return program.communicates(); }))
      return;
    FailureOr<Costs> costs = readCosts();
    if (failed(costs))
      return signalPassFailure();
    int64_t peak = 0;
    for (const Scheduler &program : programs)
      peak = std::max(peak, program.givenPeak());
    const auto maxBytes = peak + int64_t(memoryGrowth * double(peak));
    for (Scheduler &program : programs)
      if (program.communicates())
        program.schedule(*costs, maxBytes);
  }

private:
  FailureOr<Costs> readCosts() {
    if (!(memoryGrowth >= 0) || memoryGrowth > 1e6)
      return emitError(getOperation().getLoc(), "nano-schedule: memory-growth ")
             << memoryGrowth.getValue() << " is no share: 0 or more, 0.02 is 2%";
    auto fail = [&](llvm::Error error) {
      return emitError(getOperation().getLoc(), llvm::toString(std::move(error)));
    };
    llvm::Expected<nano::machine::Machine> rates = nano::machine::load(machine);
    if (!rates)
      return fail(rates.takeError());
    nano::machine::LabelledTimes measured;
    if (!times.empty()) {
      llvm::Expected<nano::machine::LabelledTimes> file = nano::machine::LabelledTimes::read(times);
      if (!file)
        return fail(file.takeError());
      measured = std::move(*file);
    }
    llvm::Expected<Costs> costs =
        Costs::make(std::move(*rates), std::move(measured), getOperation());
    if (!costs)
      return fail(costs.takeError());
    return std::move(*costs);
  }
};

} // namespace
