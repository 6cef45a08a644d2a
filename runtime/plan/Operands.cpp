// A command's name and operands.
#include "runtime/plan/Operands.h"
#include "runtime/plan/Overload.h"
#include "runtime/plan/Validator.h"

#include <algorithm>
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
  constexpr const char *names[] = {"compute", "communication", "copy", "to host", "from host"};
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

uint64_t matrixBytes(DType type, uint64_t rows, uint64_t columns, int64_t leading, int64_t batch,
                     int64_t stride) {
  const uint64_t last = plus(times(uint64_t(batch) - 1, uint64_t(stride)),
                             plus(times(rows - 1, uint64_t(leading)), columns));
  return times(last, sizeOf(type));
}

const Kernel::Reach *reachOf(const Kernel &kernel, int64_t iterations) {
  const auto reach =
      std::find_if(kernel.reaches.begin(), kernel.reaches.end(),
                   [&](const Kernel::Reach &each) { return each.iterations >= iterations; });
  return reach == kernel.reaches.end() ? nullptr : &*reach;
}

std::vector<Reached> reachedBy(const Plan &plan, const Launch &launch) {
  std::vector<Reached> reached;
  for (const Launch::Segment &segment : launch.segments) {
    // Without iterations nothing runs.
    const Kernel::Reach *reach =
        segment.iterations > 0 ? reachOf(plan.kernels[launch.kernel], segment.iterations) : nullptr;
    for (size_t i = 0; i < segment.args.size(); ++i)
      reached.push_back({segment.args[i], reach && i < reach->bytes.size() ? reach->bytes[i] : 0});
  }
  return reached;
}

/// Bytes of the product's operands, in the order of operandsOf. Where scales lie nobody asks: they
/// reach to the end of their buffers.
static std::vector<uint64_t> bytesOf(const Plan &plan, const Matmul &matmul) {
  const auto [m, n, k] = std::array{uint64_t(matmul.m), uint64_t(matmul.n), uint64_t(matmul.k)};
  auto matrix = [&](DType type, uint64_t rows, uint64_t columns, int64_t leading, int64_t stride) {
    return matrixBytes(type, rows, columns, leading, matmul.batch, stride);
  };
  auto rest = [&](const Ref &ref) { return plan.buffers[ref.buffer].bytes - ref.offset; };
  std::vector<uint64_t> bytes = {matrix(matmul.aType, matmul.transposeA ? k : m,
                                        matmul.transposeA ? m : k, matmul.lda, matmul.strideA),
                                 matrix(matmul.bType, matmul.transposeB ? n : k,
                                        matmul.transposeB ? k : n, matmul.ldb, matmul.strideB)};
  if (matmul.scales)
    bytes.insert(bytes.end(), {rest(matmul.scales->a), rest(matmul.scales->b)});
  if (matmul.beta != 0)
    bytes.push_back(matrix(matmul.cType, m, n, matmul.ldd, matmul.strideD));
  bytes.push_back(matrix(matmul.cType, m, n, matmul.ldc, matmul.strideC));
  return bytes;
}

std::vector<Reached> reachedBy(const Plan &plan, const Command &command) {
  if (const auto *launch = command.as<Launch>())
    return reachedBy(plan, *launch);
  std::vector<uint64_t> bytes;
  auto elements = [](DType type, int64_t count) { return times(uint64_t(count), sizeOf(type)); };
  auto exchange = [&](const Exchange &exchange, bool gathers) {
    uint64_t members = 1;
    for (int64_t world : plan.worlds)
      members = std::max(members, uint64_t(membersOf(exchange.ranks, world, plan.group)));
    for (const Move &move : exchange.moves) {
      const uint64_t part = elements(exchange.type, move.count), whole = times(part, members);
      bytes.insert(bytes.end(), {gathers ? part : whole, gathers ? whole : part});
    }
  };
  std::visit(Overload{
                 [](const Launch &) {},
                 [&](const Matmul &matmul) { bytes = bytesOf(plan, matmul); },
                 [&](const AllReduce &reduce) {
                   for (const AllReduce::Part &part : reduce.parts)
                     bytes.push_back(elements(reduce.type, part.count));
                 },
                 [&](const AllGather &gather) { exchange(gather, /*gathers=*/true); },
                 [&](const ReduceScatter &scatter) { exchange(scatter, /*gathers=*/false); },
                 [&](const Shard &shard) { exchange(shard, /*gathers=*/false); },
                 [&](const Copy &copy) { bytes.assign(2, elements(copy.type, copy.count)); },
                 [&](const Fill &fill) { bytes.push_back(elements(fill.type, fill.count)); },
                 [](const RecordEvent &) {},
                 [](const WaitEvent &) {},
             },
             command.action);
  std::vector<Reached> reached;
  for (const Ref &ref : operandsOf(command))
    reached.push_back({ref, bytes[reached.size()]});
  return reached;
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
