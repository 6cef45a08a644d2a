// nano-schedule: orders commands so that communication and copies run beside computation.
//
//   step.launch @grad(%x, %g)              step.launch @grad(%x, %g)
//   step.launch @grad(%y, %h)              step.record 0
//   step.all_reduce %g               →     step.wait 0 {stream = 1}
//   step.launch @decay(%p, %g)             step.all_reduce %g {stream = 1}
//                                          step.record 1 {stream = 1}
//                                          step.launch @grad(%y, %h)
//                                          step.wait 1
//                                          step.launch @decay(%p, %g)
//
// Collectives go to stream 1; copies, fills and shards to stream 2 where that pays; all else goes
// to stream 0. The commands of a program become a graph of tasks with estimated seconds (Costs),
// which is scheduled by several rules, from its start and from its end (ListSchedule): once with
// all copies among the computation, once with those on their own stream that take longer than an
// event costs, once with all of them there. The order of the shortest predicted program is taken,
// every wait for a copy counted as an event; of those within a thousandth of it, the one that is
// nearest to the given order. It must not hold more bytes than the largest program of the module
// needs in its given order with every collective waited for, and a share above that; else the next
// one is taken, then orders with more waits, and at last the given order with every collective
// waited for.
//
// Every rank runs the same program, so all enter collectives in one order. Then, in the new order,
// each command waits for the latest commands of other streams that it must come after, unless what
// its stream has waited for already implies it: as late, and as rarely, as possible. (The more
// waits above let buffers share bytes; where they do not, nano-plan-memory takes them away.)
//
// It runs on the final set of commands, and before memory planning, which lets buffers share bytes
// only where this order keeps them apart.
#include "passes/Passes.h"
#include "passes/memory/MemoryReport.h"
#include "passes/schedule/Costs.h"
#include "passes/schedule/Dependences.h"
#include "passes/schedule/Events.h"
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

/// The share by which an order must be predicted shorter to be preferred to a simpler one.
constexpr double leastGain = 0.001;

class Scheduler {
public:
  Scheduler(ProgramOp program, const KernelTable &kernels)
      : block(program.getBody().front()), program(program), kernels(kernels) {
    eraseEvents(block); // of an earlier schedule
    dependences = dependencesOf(program, kernels);
    buildGraph();
  }

  /// True when some command could be on another stream than the rest.
  bool hasChoice() const { return communicates || !copies.empty(); }
  int64_t givenPeak() const { return serialPeak(graph); }
  void schedule(const Costs &costs, int64_t maxBytes);

private:
  /// An order of the commands, with streams as in `graph`.
  struct Candidate {
    const TaskGraph *graph;
    Order order;
    double seconds; ///< predicted, with what events of copies cost
  };

  void buildGraph();
  std::vector<TaskGraph> choices(const Costs &costs) const;
  std::vector<Order> ordersOf(const TaskGraph &choice, int64_t maxBytes) const;
  void apply(const TaskGraph &graph, const Order &order);
  int64_t appliedPeak();
  Order oneByOne() const;
  static Waits waitsOf(const TaskGraph &graph, const Order &order);
  static int64_t waitsForCopies(const TaskGraph &graph, const Order &order);

  Block &block;
  ProgramOp program;
  const KernelTable &kernels;
  Dependences dependences;
  TaskGraph graph; ///< copies among the computation
  bool communicates = false;
  std::vector<uint32_t> copies; ///< tasks
};

void Scheduler::buildGraph() {
  llvm::DenseMap<const void *, uint32_t> buffers;
  for (auto [i, command] : llvm::enumerate(dependences.commands)) {
    Task task;
    task.stream = isCollective(command) ? collectiveStream : computeStream;
    task.before = dependences.before[i];
    communicates |= task.stream == collectiveStream;
    if (isCopy(command))
      copies.push_back(uint32_t(i));
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

/// The graph with all copies among the computation, with those on their stream that take longer
/// than an event, and with all of them there. Only the first where the machine has no streams,
/// where these do not differ, or where copies take too little time for an order to count as
/// shorter.
std::vector<TaskGraph> Scheduler::choices(const Costs &costs) const {
  std::vector<TaskGraph> found = {graph};
  double all = 0, copying = 0;
  for (const Task &task : graph.tasks)
    all += task.stream == computeStream ? task.seconds : 0;
  SmallVector<uint32_t> large;
  for (uint32_t copy : copies) {
    copying += graph.tasks[copy].seconds;
    if (graph.tasks[copy].seconds > costs.event())
      large.push_back(copy);
  }
  if (!costs.hasStreams() || copying < leastGain * all)
    return found;
  auto add = [&](ArrayRef<uint32_t> moved) {
    found.push_back(graph);
    for (uint32_t copy : moved)
      found.back().tasks[copy].stream = copyStream;
  };
  if (!large.empty() && large.size() < copies.size())
    add(large);
  if (!copies.empty())
    add(copies);
  return found;
}

/// The candidates; of a program on one stream the given order.
std::vector<Order> Scheduler::ordersOf(const TaskGraph &choice, int64_t maxBytes) const {
  const unsigned stream = choice.tasks.front().stream;
  if (llvm::any_of(choice.tasks, [&](const Task &task) { return task.stream != stream; }))
    return candidates(choice, maxBytes);
  Order given = oneByOne();
  predict(choice, given);
  return {std::move(given)};
}

void Scheduler::schedule(const Costs &costs, int64_t maxBytes) {
  for (auto [task, command] : llvm::zip(graph.tasks, dependences.commands)) {
    task.seconds = costs.seconds(command, program.getSymName(), kernels);
    task.memory = costs.memoryShare(command, task.seconds, kernels);
  }
  const std::vector<TaskGraph> graphs = choices(costs);
  if (!communicates && graphs.size() == 1)
    return; // one stream: the given order
  // What the list scheduler is told; where the plan of the memory holds more, because it knows less
  // about what has ended, more waits tell it, and then the scheduler gets less.
  int64_t within = maxBytes;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<Candidate> orders;
    for (const TaskGraph &choice : graphs)
      for (Order &order : ordersOf(choice, within)) {
        if (attempt > 0)
          addFreeWaits(choice, order);
        const double events = costs.event() * double(waitsForCopies(choice, order));
        const double seconds = order.seconds + events;
        orders.push_back({&choice, std::move(order), seconds});
      }
    double shortest = orders.front().seconds;
    for (const Candidate &candidate : orders)
      shortest = std::min(shortest, candidate.seconds);
    // Of those that are as good as the shortest, the first.
    auto rank = [&](const Candidate &candidate) {
      return std::max(candidate.seconds, shortest * (1 + leastGain));
    };
    llvm::stable_sort(orders,
                      [&](const Candidate &a, const Candidate &b) { return rank(a) < rank(b); });
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Candidate &candidate : orders) {
      apply(*candidate.graph, candidate.order);
      const int64_t peak = appliedPeak();
      if (peak <= maxBytes)
        return;
      least = std::min(least, peak);
    }
    if (attempt > 0)
      within -= least - maxBytes;
  }
  apply(graph, oneByOne());
}

int64_t Scheduler::appliedPeak() {
  return memory::liveBytes(memory::packingItems(memory::lifetimesOf(program, kernels)));
}

/// By position: what each command must come after, in the graph and for memory's sake.
Waits Scheduler::waitsOf(const TaskGraph &graph, const Order &order) {
  std::vector<uint32_t> position(graph.tasks.size());
  for (auto [at, task] : llvm::enumerate(order.tasks))
    position[task] = uint32_t(at);
  SmallVector<unsigned> streams;
  std::vector<SmallVector<uint32_t, 8>> after(order.tasks.size());
  for (auto [at, task] : llvm::enumerate(order.tasks)) {
    streams.push_back(graph.tasks[task].stream);
    for (uint32_t earlier : graph.tasks[task].before)
      after[at].push_back(position[earlier]);
  }
  for (auto [earlier, later] : order.forMemory)
    after[position[later]].push_back(position[earlier]);
  return waitsFor(streams, after);
}

/// How often other streams wait for copies.
int64_t Scheduler::waitsForCopies(const TaskGraph &graph, const Order &order) {
  int64_t count = 0;
  for (const auto &waits : waitsOf(graph, order))
    count += llvm::count_if(waits, [&](uint32_t earlier) {
      return graph.tasks[order.tasks[earlier]].stream == copyStream;
    });
  return count;
}

/// Moves the commands into this order, on these streams, and inserts events where no other order
/// implies one.
void Scheduler::apply(const TaskGraph &graph, const Order &order) {
  eraseEvents(block);
  SmallVector<StepCommandOpInterface> commands;
  for (uint32_t task : order.tasks) {
    StepCommandOpInterface command = dependences.commands[task];
    command.moveToStream(graph.tasks[task].stream);
    command->moveBefore(&block, block.end());
    commands.push_back(command);
  }
  insertEvents(commands, waitsOf(graph, order));
}

struct Schedule : public nano::impl::ScheduleBase<Schedule> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    KernelTable kernels(module);
    std::vector<Scheduler> programs;
    for (auto program : module.getOps<ProgramOp>())
      programs.emplace_back(program, kernels);
    if (llvm::none_of(programs, [](const Scheduler &program) { return program.hasChoice(); }))
      return;
    FailureOr<Costs> costs = readCosts();
    if (failed(costs))
      return signalPassFailure();
    int64_t peak = 0;
    for (const Scheduler &program : programs)
      peak = std::max(peak, program.givenPeak());
    const auto maxBytes = peak + int64_t(memoryGrowth * double(peak));
    for (Scheduler &program : programs)
      if (program.hasChoice())
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
