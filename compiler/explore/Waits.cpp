// For each wait the nearest two commands, one on either side of the event, that touch the same
// bytes.
#include "compiler/explore/Waits.h"

#include "runtime/plan/Operands.h"

#include <algorithm>
#include <map>

namespace nano::explore {
namespace {

using plan::Command;

struct Conflict {
  uint32_t buffer;
  WaitReason::Kind kind;
};

class Finder {
public:
  Finder(const plan::Plan &plan, const plan::Program &program) : plan(plan), program(program) {
    for (const Command &command : program.commands)
      operands.push_back(plan::operandsOf(command));
  }

  std::vector<WaitReason> run() const {
    std::vector<WaitReason> reasons;
    std::map<uint32_t, size_t> records; // by event, the newest
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const Command &command = program.commands[i];
      if (const auto *event = command.as<plan::RecordEvent>())
        records[event->event] = i;
      const auto *event = command.as<plan::WaitEvent>();
      if (!event)
        continue;
      if (auto record = records.find(event->event); record != records.end())
        if (std::optional<WaitReason> reason = reasonOf(i, record->second))
          reasons.push_back(*reason);
    }
    return reasons;
  }

private:
  /// Commands that are looked at on either side, the nearest first: what an event is for stands
  /// close to it, and a schedule of thousands of commands has hundreds of events.
  static constexpr size_t mostNear = 64;

  static bool isWork(const Command &command) { return !plan::isEvent(command); }

  std::optional<WaitReason> reasonOf(size_t wait, size_t record) const {
    const std::vector<Command> &commands = program.commands;
    std::vector<size_t> before, after;
    for (size_t i = record; i-- > 0 && before.size() < mostNear;)
      if (commands[i].stream == commands[record].stream && isWork(commands[i]))
        before.push_back(i);
    for (size_t i = wait + 1; i < commands.size() && after.size() < mostNear; ++i)
      if (commands[i].stream == commands[wait].stream && isWork(commands[i]))
        after.push_back(i);
    // By distance from the event, so that the pair is the one that it stands for.
    for (size_t sum = 0; sum + 1 < before.size() + after.size(); ++sum)
      for (size_t i = 0; i <= sum; ++i)
        if (i < after.size() && sum - i < before.size())
          if (std::optional<Conflict> found = conflictOf(before[sum - i], after[i]))
            return WaitReason{wait, before[sum - i], after[i], found->buffer, found->kind};
    return std::nullopt;
  }

  /// The buffer's bytes from the operand's start on: strides are the kernel's.
  bool overlap(const plan::Ref &a, const plan::Ref &b) const {
    auto rangeOf = [&](const plan::Ref &ref) {
      const plan::Buffer &buffer = plan.buffers[ref.buffer];
      return std::pair(buffer.offset + ref.offset, buffer.offset + buffer.bytes);
    };
    const auto [beginA, endA] = rangeOf(a);
    const auto [beginB, endB] = rangeOf(b);
    return beginA < endB && beginB < endA;
  }

  std::optional<Conflict> conflictOf(size_t before, size_t after) const {
    std::optional<Conflict> found;
    for (const plan::Ref &a : operands[before])
      for (const plan::Ref &b : operands[after]) {
        if ((!a.written && !b.written) || !overlap(a, b))
          continue;
        if (a.written && b.read)
          return Conflict{b.buffer, WaitReason::Kind::ReadsWritten};
        if (!found)
          found = Conflict{b.buffer, a.written ? WaitReason::Kind::OverwritesWritten
                                               : WaitReason::Kind::OverwritesRead};
      }
    return found;
  }

  const plan::Plan &plan;
  const plan::Program &program;
  std::vector<std::vector<plan::Ref>> operands;
};

} // namespace

std::vector<WaitReason> waitReasons(const plan::Plan &plan, const plan::Program &program) {
  return Finder(plan, program).run();
}

} // namespace nano::explore
