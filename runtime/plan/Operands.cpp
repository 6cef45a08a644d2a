// A command's name and operands.
#include "runtime/plan/Operands.h"
#include "runtime/plan/Overload.h"

#include <concepts>
#include <iterator>

namespace nano::plan {

const char *nameOf(const Command::Action &action) {
  return std::visit(Overload{
                        [](const Launch &) { return "launch"; },
                        [](const Matmul &) { return "matmul"; },
                        [](const AllReduce &) { return "all_reduce"; },
                        [](const ReduceScatter &) { return "reduce_scatter"; },
                        [](const AllGather &) { return "all_gather"; },
                        [](const Shard &) { return "shard"; },
                        [](const Fill &) { return "fill"; },
                        [](const Copy &) { return "copy"; },
                        [](const RecordEvent &) { return "record"; },
                        [](const WaitEvent &) { return "wait"; },
                    },
                    action);
}

bool isCopy(const Command &command) {
  return command.is<Copy>() || command.is<Fill>() || command.is<Shard>();
}

std::string nameOfStream(uint32_t stream) {
  constexpr const char *names[] = {"compute", "communication", "copy"};
  return stream < std::size(names) ? names[stream] : "stream " + std::to_string(stream);
}

bool isCollective(const Command &command) {
  return command.is<AllReduce>() || command.is<ReduceScatter>() || command.is<AllGather>();
}

bool isEvent(const Command &command) {
  return command.is<RecordEvent>() || command.is<WaitEvent>();
}

std::optional<Exchange> exchangeOf(const Command &command) {
  return std::visit(Overload{
                        [](const std::derived_from<Exchange> auto &exchange) {
                          return std::optional<Exchange>(exchange);
                        },
                        [](const AllReduce &reduce) {
                          std::optional<Exchange> exchange({reduce.ranks, reduce.type, {}});
                          for (const AllReduce::Part &part : reduce.parts)
                            exchange->moves.push_back({part.buffer, part.buffer, part.count});
                          return exchange;
                        },
                        [](const auto &) { return std::optional<Exchange>(); },
                    },
                    command.action);
}

std::vector<Ref> operandsOf(const Command &command) {
  std::vector<Ref> operands;
  auto add = [&](Ref ref, bool isRead, bool isWritten) {
    ref.read = isRead;
    ref.written = isWritten;
    operands.push_back(ref);
  };
  auto move = [&](const auto &each) {
    add(each.from, true, false);
    add(each.to, false, true);
  };
  std::visit(Overload{
                 [&](const Launch &launch) {
                   for (const Launch::Segment &segment : launch.segments)
                     operands.insert(operands.end(), segment.args.begin(), segment.args.end());
                 },
                 [&](const Matmul &matmul) {
                   add(matmul.a, true, false);
                   add(matmul.b, true, false);
                   if (matmul.scales) {
                     add(matmul.scales->a, true, false);
                     add(matmul.scales->b, true, false);
                   }
                   if (matmul.beta != 0)
                     add(matmul.d, true, false);
                   add(matmul.c, false, true);
                 },
                 [&](const AllReduce &reduce) {
                   for (const AllReduce::Part &part : reduce.parts)
                     add(part.buffer, true, true);
                 },
                 [&](const Exchange &exchange) {
                   for (const Move &each : exchange.moves)
                     move(each);
                 },
                 [&](const Copy &copy) { move(copy); },
                 [&](const Fill &fill) { add(fill.to, false, true); },
                 [](const RecordEvent &) {},
                 [](const WaitEvent &) {},
             },
             command.action);
  return operands;
}

std::vector<bool> launchedKernels(const Plan &plan) {
  std::vector<bool> launched(plan.kernels.size(), false);
  for (const Program &program : plan.programs)
    for (const Command &command : program.commands) {
      if (const auto *launch = command.as<Launch>())
        launched[launch->kernel] = true;
      for (const Launch &candidate : command.candidates)
        launched[candidate.kernel] = true;
    }
  return launched;
}

} // namespace nano::plan
