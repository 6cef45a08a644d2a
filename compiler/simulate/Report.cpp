// Tables and traces of simulations.
#include "compiler/simulate/Report.h"

#include "base/OutputFile.h"
#include "runtime/plan/Operands.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace nano::simulate {

using plan::Command;

namespace {

std::string lineOf(const Command &command) {
  if (!command.location.line)
    return "no model line";
  return fmt::format("{}:{}", command.location.file, command.location.line);
}

std::string labelOf(const Command &command) {
  return command.label.empty() ? plan::nameOf(command.action) : command.label;
}

const char *nameOf(Transfer transfer) {
  switch (transfer) {
  case Transfer::None:
    break;
  case Transfer::Upload:
    return "upload of a batch";
  case Transfer::Place:
    return "batch to its buffers";
  case Transfer::Readback:
    return "readback of the loss";
  }
  return "";
}

/// "0.39 MB", "4 B".
std::string sizeOf(double bytes) {
  return bytes < 1e4 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} MB", 1e-6 * bytes);
}

/// Sums by name, the longest first.
struct Part {
  std::string name;
  double seconds = 0;
};
std::vector<Part> partsOf(const std::vector<Share> &shares, auto nameOfShare) {
  std::vector<Part> parts;
  for (const Share &share : shares) {
    std::string name = share.command ? nameOfShare(*share.command) : nameOf(share.transfer);
    auto found = std::find_if(parts.begin(), parts.end(),
                              [&](const Part &part) { return part.name == name; });
    if (found == parts.end())
      found = parts.insert(parts.end(), {std::move(name), 0});
    found->seconds += share.seconds;
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part &a, const Part &b) { return a.seconds > b.seconds; });
  return parts;
}

std::string listOf(const std::vector<Part> &parts, double step, size_t lines) {
  std::string text;
  auto add = [&](double seconds, const std::string &name) {
    text += fmt::format("{:>12.3f} ms {:>6.2f}%  {}\n", 1e3 * seconds, 100 * seconds / step, name);
  };
  double rest = 0;
  for (size_t i = 0; i < parts.size(); ++i)
    if (i < lines)
      add(parts[i].seconds, parts[i].name);
    else
      rest += parts[i].seconds;
  if (rest > 0)
    add(rest, fmt::format("{} others", parts.size() - lines));
  return text;
}

} // namespace

std::string tableHead(const plan::Plan &plan) {
  return fmt::format("{:>6} {:>10} {:>12} {:>12} {:>11} {:>10} {:>9} {:>9} {:>10}{}\n", "ranks",
                     "step ms", "tokens/s", "computing ms", "communic ms", "exposed ms", "exposed",
                     "idle ms", "GB a rank", plan.laterStages.empty() ? "" : "  stage");
}

std::string runLine(const plan::Plan &plan, const std::vector<RunTime> &times) {
  auto durationOf = [](double seconds) {
    if (seconds < 60)
      return fmt::format("{:.3g} s", seconds);
    const auto minutes = int64_t(seconds / 60);
    return minutes < 60 ? fmt::format("{} min {:.0f} s", minutes, seconds - 60.0 * double(minutes))
                        : fmt::format("{} h {} min", minutes / 60, minutes % 60);
  };
  const int64_t steps = plan.training.numIterations;
  std::string text = fmt::format("a run of {} steps and {:.4g} million tokens:", steps,
                                 1e-6 * double(plan::tokensOf(plan, steps)));
  for (const RunTime &time : times)
    text += fmt::format("{} {} on {} rank{}", &time == times.data() ? "" : ",",
                        durationOf(time.seconds), time.world, time.world == 1 ? "" : "s");
  return text + "\n";
}

std::string tableLine(const plan::Plan &plan, const plan::Training &stage,
                      const machine::Machine &machine, int64_t world, const Outcome &outcome) {
  const bool isTooLarge = machine.memoryBytes > 0 && double(plan.arenaBytes) > machine.memoryBytes;
  return fmt::format(
      "{:>6} {:>10.3f} {:>12.0f} {:>12.3f} {:>11.3f} {:>10.3f} {:>8.2f}% {:>9.3f} {:>10.3f}{}{}\n",
      world, 1e3 * outcome.step, double(stage.globalBatch) / outcome.step, 1e3 * outcome.computing,
      1e3 * outcome.communicating, 1e3 * outcome.exposed, 100 * outcome.exposed / outcome.step,
      1e3 * outcome.idle, 1e-9 * double(plan.arenaBytes),
      stage.stage.empty() ? "" : "  " + stage.stage,
      isTooLarge ? "  more than the machine has" : "");
}

std::string details(const Outcome &outcome, size_t lines) {
  std::string text;
  if (outcome.exposedBy.empty())
    text += "\nno exposed communication\n";
  else
    text += "\nexposed communication by collective:\n" +
            listOf(partsOf(outcome.exposedBy,
                           [](const Command &command) {
                             return fmt::format("{} ({})", labelOf(command), lineOf(command));
                           }),
                   outcome.step, lines);
  text += "\ncritical path by model line:\n" +
          listOf(partsOf(outcome.path, lineOf), outcome.step, lines);
  std::string copies;
  auto add = [&](const Copying &copying, const char *what, const char *exposed) {
    if (copying.bytes > 0)
      copies += fmt::format("{:>12.3f} ms {:>6.2f}%  {} {}, {:.3f} ms of it {}\n",
                            1e3 * copying.seconds, 100 * copying.seconds / outcome.step,
                            sizeOf(copying.bytes), what, 1e3 * copying.exposed, exposed);
  };
  add(outcome.onDevice, "read and written by copies, fills and shards", "beside no other work");
  add(outcome.toDevice, "to the device", "waited for, and to place it");
  add(outcome.toHost, "to the host", "waited for");
  return text + (copies.empty() ? "" : "\ncopies of a step:\n" + copies);
}

Status writeTimeline(const std::string &path, const plan::Plan &plan,
                     const std::vector<Span> &spans) {
  Result<OutputFile> file = OutputFile::replace(path);
  if (!file)
    return file.error();
  std::string trace;
  llvm::raw_string_ostream text(trace);
  auto streamOf = [&](const Span &span) {
    return span.transfer == Transfer::None
               ? plan.programs[span.program].commands[span.command].stream
           : span.transfer == Transfer::Place ? 0
                                              : plan::copyStream;
  };
  std::set<std::pair<int64_t, uint32_t>> rows;
  for (const Span &span : spans)
    rows.emplace(span.rank, streamOf(span));
  llvm::json::OStream json(text, 1);
  auto metadata = [&](const char *what, int64_t rank, int64_t stream, const std::string &name) {
    json.object([&] {
      json.attribute("name", what);
      json.attribute("ph", "M");
      json.attribute("pid", rank);
      json.attribute("tid", stream);
      json.attributeObject("args", [&] { json.attribute("name", name); });
    });
  };
  json.object([&] {
    json.attribute("displayTimeUnit", "ms");
    json.attributeArray("traceEvents", [&] {
      for (auto [rank, stream] : rows) {
        metadata("process_name", rank, stream, fmt::format("rank {}", rank));
        metadata("thread_name", rank, stream, plan::nameOfStream(stream));
      }
      for (const Span &span : spans) {
        const plan::Program &program = plan.programs[span.program];
        const Command *command =
            span.transfer == Transfer::None ? &program.commands[span.command] : nullptr;
        json.object([&] {
          json.attribute("name", command ? labelOf(*command) : nameOf(span.transfer));
          json.attribute("cat", command ? plan::nameOf(command->action) : "transfer");
          json.attribute("ph", "X");
          json.attribute("ts", 1e6 * span.start);
          json.attribute("dur", 1e6 * (span.finish - span.start));
          json.attribute("pid", span.rank);
          json.attribute("tid", int64_t(streamOf(span)));
          json.attributeObject("args", [&] {
            json.attribute("program", program.name);
            if (command) {
              json.attribute("command", int64_t(span.command));
              json.attribute("at", lineOf(*command));
            }
          });
        });
      }
    });
  });
  text << "\n";
  Status status = file->append(trace);
  return status ? file->finish() : status;
}

} // namespace nano::simulate
