// Bytes and operations of commands.
#include "runtime/plan/Work.h"

#include <algorithm>

namespace nano::plan {

CommandWork workOf(const Plan &plan, const Command &command) {
  CommandWork work;
  auto add = [&](const Ref &ref) {
    work.bytes += double(ref.bytes) * (int(ref.read) + int(ref.written));
  };
  switch (command.kind) {
  case Command::Kind::Launch:
    for (const Command::Segment &segment : command.segments) {
      std::for_each(segment.args.begin(), segment.args.end(), add);
      work.flops += plan.kernels[command.kernel].flops * double(segment.iterations);
    }
    break;
  case Command::Kind::Matmul: {
    auto matrix = [&](int64_t rows, int64_t columns, DType type, bool isShared) {
      work.bytes += double(rows) * double(columns) * double(sizeOf(type)) *
                    double(isShared ? 1 : command.batch);
    };
    matrix(command.m, command.k, command.aType, command.strideA == 0);
    matrix(command.k, command.n, command.bType, command.strideB == 0);
    matrix(command.m, command.n, command.cType, false);
    if (command.beta != 0)
      matrix(command.m, command.n, command.cType, command.strideD == 0);
    work.flops =
        2 * double(command.m) * double(command.n) * double(command.k) * double(command.batch);
    break;
  }
  case Command::Kind::Fill:
    work.bytes = double(command.counts[0]) * double(sizeOf(command.type));
    break;
  case Command::Kind::Copy:
    work.bytes = 2 * double(command.counts[0]) * double(sizeOf(command.type));
    break;
  case Command::Kind::Shard:
    for (int64_t count : command.counts)
      work.bytes += 2 * double(count) * double(sizeOf(command.type));
    break;
  case Command::Kind::AllReduce:
  case Command::Kind::ReduceScatter:
  case Command::Kind::AllGather:
  case Command::Kind::RecordEvent:
  case Command::Kind::WaitEvent:
    break;
  }
  return work;
}

} // namespace nano::plan
