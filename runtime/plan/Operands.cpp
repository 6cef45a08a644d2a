// A command's name and operands.
#include "runtime/plan/Operands.h"

#include <iterator>

namespace nano::plan {

const char *nameOf(Command::Kind kind) {
  switch (kind) {
  case Command::Kind::Launch:
    return "launch";
  case Command::Kind::Matmul:
    return "matmul";
  case Command::Kind::AllReduce:
    return "all_reduce";
  case Command::Kind::ReduceScatter:
    return "reduce_scatter";
  case Command::Kind::AllGather:
    return "all_gather";
  case Command::Kind::Shard:
    return "shard";
  case Command::Kind::Fill:
    return "fill";
  case Command::Kind::Copy:
    return "copy";
  case Command::Kind::RecordEvent:
    return "record";
  case Command::Kind::WaitEvent:
    return "wait";
  }
  return "unknown";
}

bool isCopy(const Command &command) {
  return command.kind == Command::Kind::Copy || command.kind == Command::Kind::Fill ||
         command.kind == Command::Kind::Shard;
}

std::string nameOfStream(uint32_t stream) {
  constexpr const char *names[] = {"compute", "communication", "copy"};
  return stream < std::size(names) ? names[stream] : "stream " + std::to_string(stream);
}

bool isCollective(const Command &command) {
  return command.kind == Command::Kind::AllReduce || command.kind == Command::Kind::ReduceScatter ||
         command.kind == Command::Kind::AllGather;
}

std::vector<Ref> operandsOf(const Command &command) {
  std::vector<Ref> operands;
  auto add = [&](Ref ref, bool isRead, bool isWritten) {
    ref.read = isRead;
    ref.written = isWritten;
    operands.push_back(ref);
  };
  switch (command.kind) {
  case Command::Kind::Launch:
    for (const Command::Segment &segment : command.segments)
      operands.insert(operands.end(), segment.args.begin(), segment.args.end());
    break;
  case Command::Kind::Matmul:
    add(command.a, true, false);
    add(command.b, true, false);
    if (command.scaled) {
      add(command.scaleA, true, false);
      add(command.scaleB, true, false);
    }
    if (command.beta != 0)
      add(command.d, true, false);
    add(command.c, false, true);
    break;
  case Command::Kind::AllReduce:
    for (const Ref &ref : command.refs)
      add(ref, true, true);
    break;
  case Command::Kind::ReduceScatter:
  case Command::Kind::AllGather:
  case Command::Kind::Shard:
  case Command::Kind::Copy:
    for (size_t i = 0; i < command.refs.size(); ++i)
      add(command.refs[i], i % 2 == 0, i % 2 == 1);
    break;
  case Command::Kind::Fill:
    for (const Ref &ref : command.refs)
      add(ref, false, true);
    break;
  case Command::Kind::RecordEvent:
  case Command::Kind::WaitEvent:
    break;
  }
  return operands;
}

} // namespace nano::plan
