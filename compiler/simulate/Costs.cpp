// Seconds of commands.
#include "compiler/simulate/Costs.h"

#include "runtime/plan/Work.h"

#include "base/InputFile.h"
#include "ir/machine/JsonFile.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Overload.h"
#include "llvm/Support/JSON.h"

#include <fmt/format.h>

#include <algorithm>

namespace nano::simulate {

using machine::Collective;
using machine::ElementType;
using machine::Machine;
using plan::Command;
using plan::DType;

namespace {

/// What the time of a command depends on, as text.
std::string keyOf(const plan::Plan &plan, const Command &command) {
  std::string key = std::to_string(command.action.index());
  auto moved = [&](plan::DType type, std::initializer_list<int64_t> counts) {
    for (int64_t count : counts)
      key += fmt::format(" {}", count);
    key += fmt::format(" {}", int(type));
  };
  std::visit(
      Overload{
          [&](const plan::Launch &launch) {
            key += plan.kernels[launch.kernel].name;
            for (const plan::Launch::Segment &segment : launch.segments)
              key += fmt::format(" {}", segment.iterations);
          },
          [&](const plan::Matmul &matmul) {
            key += fmt::format(" {} {} {} {} {}{}{} {}{} {} {} {} {}", matmul.m, matmul.n, matmul.k,
                               matmul.batch, int(matmul.aType), int(matmul.bType),
                               int(matmul.cType), int(matmul.transposeA), int(matmul.transposeB),
                               matmul.lda, matmul.ldb, matmul.ldc, matmul.beta != 0);
          },
          [&](const plan::Fill &fill) { moved(fill.type, {fill.count}); },
          [&](const plan::Copy &copy) {
            moved(copy.type, {copy.count});
            if (isHostCopy(plan, copy))
              key += isInHost(plan, plan.buffers[copy.to.buffer]) ? " to host" : " from host";
          },
          [&](const auto &) {
            const plan::Exchange exchange = exchangeOf(command).value_or(plan::Exchange());
            for (const plan::Move &move : exchange.moves)
              key += fmt::format(" {}", move.count);
            moved(exchange.type, {});
          },
      },
      command.action);
  return key;
}

ElementType typeOf(const plan::Matmul &product) {
  auto isF8 = [](DType type) { return type == DType::F8E4M3FN || type == DType::F8E5M2; };
  if (product.aType == DType::F32 || product.bType == DType::F32)
    return ElementType::F32;
  return isF8(product.aType) && isF8(product.bType) ? ElementType::F8 : ElementType::BF16;
}

/// How many ranks take part in a collective, and over how many nodes they are spread.
struct Spread {
  int64_t members = 1, nodes = 1;
};
Spread spreadOf(plan::Ranks ranks, int64_t world, int64_t group, int64_t perNode) {
  auto nodesOf = [&](int64_t members, int64_t stride) {
    int64_t together = std::max<int64_t>(1, perNode / stride);
    return (members + together - 1) / together;
  };
  switch (ranks) {
  case plan::Ranks::All:
    return {world, nodesOf(world, 1)};
  case plan::Ranks::Group:
    return {group, nodesOf(group, 1)};
  case plan::Ranks::Peers:
    return {world / group, nodesOf(world / group, group)};
  }
  return {};
}

double secondsOf(const Command &command, const plan::Exchange &exchange, const Machine &machine,
                 const Spread &spread) {
  Collective kind = command.is<plan::AllReduce>()       ? Collective::AllReduce
                    : command.is<plan::ReduceScatter>() ? Collective::ReduceScatter
                                                        : Collective::AllGather;
  double bytes = 0;
  for (const plan::Move &move : exchange.moves)
    bytes += double(move.count) * double(plan::sizeOf(exchange.type));
  if (kind != Collective::AllReduce)
    bytes *= double(spread.members);
  return machine.collective(kind, bytes, spread.members, spread.nodes, machine.node.besideKernels);
}

} // namespace

double attentionFlops(const plan::Plan &plan, const Command &command, double keys) {
  const auto *launch = command.as<plan::Launch>();
  if (!launch)
    return 0;
  return plan::attentionFlops(plan, *launch, std::vector<double>(launch->segments.size(), keys));
}

Costs costsOf(const plan::Plan &plan, const Machine &machine, int64_t world,
              const CostOptions &options) {
  // No more than the causal mean of the stage that runs the program.
  auto keysOf = [&](const plan::Program &program) {
    const plan::Training *own = &plan.training;
    for (const plan::Training *stage : plan::stagesOf(plan))
      for (const plan::StepPrograms &phase : stage->phases)
        if (program.name == phase.first || program.name == phase.next || program.name == phase.last)
          own = stage;
    return std::min(options.attendedKeys, double(own->seqLen + 1) / 2);
  };
  auto costOf = [&](const plan::Program &program, const Command &command, double keys) -> Cost {
    if (isEvent(command))
      return {};
    if (isCollective(command)) {
      const plan::Exchange exchange = *exchangeOf(command);
      Spread spread = spreadOf(exchange.ranks, world, plan.group, machine.ranksPerNode);
      return {machine.command(), secondsOf(command, exchange, machine, spread)};
    }
    const plan::CommandWork work = plan::workOf(plan, command);
    auto taking = [&](double gap, double seconds) -> Cost {
      const double moving = machine.kernel(work.bytes), all = gap + seconds;
      return {gap, seconds, moving <= 0 ? 0 : moving > 0.9 * all ? 1 : moving / all};
    };
    if (const double *measured = options.measured ? options.measured->find(plan, command) : nullptr)
      return taking(0, *measured);
    if (options.labelled)
      if (std::optional<double> found = options.labelled->find(program.name, command.label))
        return taking(0, *found);
    if (const auto *copy = command.as<plan::Copy>(); copy && isHostCopy(plan, *copy))
      return taking(machine.command(), machine.hostCopy(work.bytes));
    if (const auto *matmul = command.as<plan::Matmul>())
      return taking(machine.command(), machine.product(matmul->m, matmul->n, matmul->k,
                                                       matmul->batch, typeOf(*matmul), work.bytes));
    if (const auto *launch = command.as<plan::Launch>(); launch && work.flops > 0) {
      const bool isF8 = plan::isFloat8(plan.kernels[launch->kernel].flopsType);
      return taking(machine.command(), machine.kernel(work.bytes, work.flops,
                                                      isF8 ? machine::Arithmetic::ProductF8
                                                           : machine::Arithmetic::Product));
    }
    const double flops = attentionFlops(plan, command, keys);
    return taking(machine.command(),
                  machine.kernel(work.bytes, flops, machine::Arithmetic::Attention));
  };
  Costs costs;
  for (const plan::Program &program : plan.programs) {
    std::vector<Cost> &own = costs.emplace_back();
    const double keys = keysOf(program);
    for (const Command &command : program.commands)
      own.push_back(costOf(program, command, keys));
  }
  return costs;
}

Result<MeasuredTimes> MeasuredTimes::read(const std::string &path, const plan::PlanFile &plans) {
  auto wrong = [&](const std::string &what) { return badInput(path + ": " + what); };
  Result<std::string> text = readInput(path, input::times);
  if (!text)
    return text.error();
  llvm::Expected<llvm::json::Value> parsed = machine::parseJson(*text);
  if (!parsed)
    return wrong("is not JSON: " + llvm::toString(parsed.takeError()));
  const llvm::json::Object *file = parsed->getAsObject();
  const llvm::json::Array *commands = file ? file->getArray("commands") : nullptr;
  const llvm::json::Array *worlds = file ? file->getArray("worlds") : nullptr;
  const llvm::StringRef hash = file ? file->getString("plan_hash").value_or("") : "";
  const std::optional<int64_t> world =
      worlds && !worlds->empty() ? worlds->front().getAsInteger() : std::nullopt;
  if (!commands || hash.empty() || !world)
    return wrong("is not of nanorun --times");
  if (hash != plans.hash())
    return wrong(
        fmt::format("is of a run of another plan, {}; this one is {}", hash.str(), plans.hash()));
  Result<plan::Plan> plan = plans.plan(*world);
  if (!plan)
    return plan.error();
  std::map<std::string, std::pair<double, double>> sums; // runs, seconds
  for (const llvm::json::Value &value : *commands) {
    const llvm::json::Object *entry = value.getAsObject();
    const llvm::StringRef name = entry ? entry->getString("program").value_or("") : "";
    const int64_t index = entry ? entry->getInteger("command").value_or(-1) : -1;
    const std::optional<double> runs = entry ? entry->getNumber("runs") : std::nullopt;
    const std::optional<double> milliseconds = entry ? entry->getNumber("ms") : std::nullopt;
    auto program = std::find_if(plan->programs.begin(), plan->programs.end(),
                                [&](const plan::Program &program) { return name == program.name; });
    if (program == plan->programs.end() || index < 0 ||
        index >= int64_t(program->commands.size()) || !runs || !milliseconds)
      return wrong("has a command that the plan has not");
    if (!machine::isTimeOfRuns(*runs, *milliseconds))
      return wrong(fmt::format("command {} of program '{}' needs \"runs\", a whole number, and "
                               "\"ms\", each from 0 to 1e12",
                               index, program->name));
    auto &[allRuns, allSeconds] = sums[keyOf(*plan, program->commands[size_t(index)])];
    allRuns += *runs;
    allSeconds += 1e-3 * *milliseconds;
  }
  MeasuredTimes times;
  for (const auto &[key, sum] : sums)
    if (sum.first > 0)
      times.seconds[key] = sum.second / sum.first;
  return times;
}

const double *MeasuredTimes::find(const plan::Plan &plan, const Command &command) const {
  auto found = seconds.find(keyOf(plan, command));
  return found == seconds.end() ? nullptr : &found->second;
}

} // namespace nano::simulate
