// Packs commands as their places in the plan.
#include "runtime/Measurements.h"

#include "base/InputFile.h"

#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

namespace nano {

namespace {

/// A command and three numbers of it.
struct Record {
  uint32_t program = 0, command = 0;
  double a = 0, b = 0, c = 0;
};
static_assert(std::is_trivially_copyable_v<Record>);

/// What stands before the records of spans; then the machine's name.
struct SpansHeader {
  double meeting = 0;
  uint64_t nameBytes = 0;
};

void append(std::string &text, const plan::Plan &plan, const plan::Command *command, double a,
            double b, double c = 0) {
  const std::less<> before;
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const std::vector<plan::Command> &commands = plan.programs[i].commands;
    if (before(command, commands.data()) || !before(command, commands.data() + commands.size()))
      continue;
    Record record{uint32_t(i), uint32_t(command - commands.data()), a, b, c};
    text.append(reinterpret_cast<const char *>(&record), sizeof record);
  }
}

/// Calls take(command, a, b, c) for every record of the text from byte `at` on.
template <typename Take>
Status forRecords(const plan::Plan &plan, const std::string &text, size_t at, const Take &take) {
  for (; at < text.size(); at += sizeof(Record)) {
    Record record;
    if (text.size() - at < sizeof record)
      return failed("another rank's measurements are cut off");
    std::memcpy(&record, text.data() + at, sizeof record);
    if (record.program >= plan.programs.size() ||
        record.command >= plan.programs[record.program].commands.size())
      return failed("another rank's measurements are not of this plan");
    take(&plan.programs[record.program].commands[record.command], record.a, record.b, record.c);
  }
  return ok();
}

} // namespace

std::string machineName() {
  Result<std::string> boot = readInput("/proc/sys/kernel/random/boot_id", input::system);
  return boot ? *boot : std::string();
}

std::string packSpans(const plan::Plan &plan, const RankSpans &spans) {
  SpansHeader header{spans.meeting, spans.machine.size()};
  std::string text(reinterpret_cast<const char *>(&header), sizeof header);
  text += spans.machine;
  for (const CommandSpan &span : spans.spans)
    append(text, plan, span.command, span.start, span.seconds, span.flops);
  return text;
}

Result<RankSpans> unpackSpans(const plan::Plan &plan, const std::string &text) {
  SpansHeader header;
  if (text.size() < sizeof header)
    return failed("another rank's measurements are cut off");
  std::memcpy(&header, text.data(), sizeof header);
  if (text.size() - sizeof header < header.nameBytes)
    return failed("another rank's measurements are cut off");
  RankSpans spans{text.substr(sizeof header, header.nameBytes), header.meeting, {}};
  if (Status status =
          forRecords(plan, text, sizeof header + header.nameBytes,
                     [&](const plan::Command *command, double start, double seconds, double flops) {
                       spans.spans.push_back({command, start, seconds, flops});
                     });
      !status)
    return status.error();
  return spans;
}

std::string packTimes(const plan::Plan &plan, const std::vector<CommandTime> &times) {
  std::string text;
  for (const CommandTime &time : times)
    append(text, plan, time.command, double(time.runs), time.seconds);
  return text;
}

Result<std::vector<CommandTime>> unpackTimes(const plan::Plan &plan, const std::string &text) {
  std::vector<CommandTime> times;
  if (Status status =
          forRecords(plan, text, 0,
                     [&](const plan::Command *command, double runs, double seconds, double) {
                       times.push_back({command, uint64_t(runs), seconds});
                     });
      !status)
    return status.error();
  return times;
}

std::vector<std::vector<CommandSpan>> aligned(std::vector<RankSpans> ranks) {
  std::vector<std::vector<CommandSpan>> result;
  for (RankSpans &rank : ranks) {
    const bool isNear = rank.machine == ranks[0].machine;
    for (CommandSpan &span : rank.spans)
      span.start += isNear ? 0 : ranks[0].meeting - rank.meeting;
    result.push_back(std::move(rank.spans));
  }
  return result;
}

} // namespace nano
