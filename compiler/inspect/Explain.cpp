// Finds what a name of a plan means, and says where it comes from, what it costs and who uses it.
#include "compiler/inspect/Explain.h"

#include "compiler/inspect/Peak.h"
#include "compiler/inspect/StepFacts.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nano::inspect {
namespace {

std::string shareText(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100 * part / whole) : "0%";
}

class Explainer {
public:
  Explainer(const ExplainOptions &options, const plan::Plan &plan, const StepFacts &step,
            const machine::Machine &machine)
      : options(options), plan(plan), step(step), machine(machine) {}

  Status run();

private:
  struct Line {
    std::string file;
    uint32_t number;
  };
  std::optional<Line> lineNamed() const;
  template <typename T> std::vector<const T *> named(const std::vector<T> &things) const;
  std::vector<std::string> nearest() const;

  void explain(const plan::Kernel &kernel) const;
  void explain(const plan::Buffer &buffer) const;
  void explain(const Line &line) const;

  bool isAt(const plan::Location &location, const Line &line) const {
    return location.line == line.number && location.file == line.file;
  }
  /// The line of the model's text; empty where the plan does not hold it.
  std::string textOfLine(const Line &line) const;
  std::string peakText(const plan::Program &program, const Peak &peak) const;
  /// Seconds of the command that writes a buffer that is held there; 0 where it is of no step.
  double secondsToMake(const plan::Program &program, const Held &held) const;
  void explainPeaks(const Line &line) const;
  void printRuns(const std::vector<const Run *> &runs) const;
  std::string costText(const Cost &cost) const;
  std::string operandsText(const plan::Command &command) const;
  std::string placeOf(const Run &run) const {
    return fmt::format("{}[{}]", run.program->name, run.index);
  }
  /// Prints lines, as many as --lines says.
  void printSome(const std::vector<std::string> &lines) const;

  const ExplainOptions &options;
  const plan::Plan &plan;
  const StepFacts &step;
  const machine::Machine &machine;
};

void Explainer::printSome(const std::vector<std::string> &lines) const {
  const size_t shown = std::min(lines.size(), size_t(options.lines));
  for (size_t i = 0; i < shown; ++i)
    fmt::print("  {}\n", lines[i]);
  if (lines.size() > shown)
    fmt::print("  and {} more\n", lines.size() - shown);
}

/// "12 launches a step, 1.234 ms predicted (3.4%), 1.20 GB moved, 3.1e+12 operations"
std::string Explainer::costText(const Cost &cost) const {
  std::string text = fmt::format(
      "{} launch{} a step, {} predicted ({} of all), {} moved", countText(cost.launches),
      cost.launches == 1 ? "" : "es", secondsText(cost.seconds),
      shareText(cost.seconds, step.total.seconds), bytesText(cost.bytes));
  if (cost.flops > 0)
    text += fmt::format(", {:.4g} operations", cost.flops);
  return text;
}

std::string Explainer::operandsText(const plan::Command &command) const {
  std::vector<std::string> reads, writes;
  std::set<std::string> seenReads, seenWrites;
  for (const plan::Ref &ref : plan::operandsOf(command)) {
    const std::string &name = plan.buffers[ref.buffer].name;
    if (ref.read && seenReads.insert(name).second)
      reads.push_back(name);
    if (ref.written && seenWrites.insert(name).second)
      writes.push_back(name);
  }
  auto list = [](std::vector<std::string> &names) {
    constexpr size_t most = 6;
    const size_t more = names.size() - std::min(names.size(), most);
    names.resize(std::min(names.size(), most));
    return fmt::format("{}{}", fmt::join(names, ", "),
                       more > 0 ? fmt::format(" and {} more", more) : "");
  };
  return fmt::format("{} -> {}", reads.empty() ? "nothing" : list(reads),
                     writes.empty() ? "nothing" : list(writes));
}

void Explainer::printRuns(const std::vector<const Run *> &runs) const {
  std::vector<const Run *> sorted = runs;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Run *a, const Run *b) { return a->all().seconds > b->all().seconds; });
  std::vector<std::string> lines;
  for (const Run *run : sorted) {
    const std::string worker = workerOf(plan, *run->command), &label = run->command->label;
    lines.push_back(fmt::format("{} {}{}: {} {}, {}", placeOf(*run), worker,
                                label.empty() || label == worker ? "" : " \"" + label + "\"",
                                run->times == 1 ? "once" : countText(run->times) + " times",
                                secondsText(run->each.seconds), operandsText(*run->command)));
  }
  printSome(lines);
}

//===- Finding -------------------------------------------------------------------===//

/// "models/gpt2.cpp:93", "gpt2.cpp:93" or "93": the line of a file that the plan names.
std::optional<Explainer::Line> Explainer::lineNamed() const {
  auto [file, number] = llvm::StringRef(options.what).rsplit(':');
  if (number.empty())
    std::swap(file, number);
  uint32_t line = 0;
  if (number.getAsInteger(10, line) || line == 0)
    return std::nullopt;
  std::set<std::string> files;
  auto note = [&](const plan::Location &location) {
    if (location.line != 0)
      files.insert(location.file);
  };
  for (const plan::Buffer &buffer : plan.buffers)
    note(buffer.location);
  for (const plan::Kernel &kernel : plan.kernels)
    for (const plan::Location &location : kernel.locations)
      note(location);
  for (const plan::Program &program : plan.programs)
    for (const plan::Command &command : program.commands)
      note(command.location);
  for (const std::string &known : files) {
    const llvm::StringRef name = known;
    if (file.empty() ? llvm::sys::path::stem(name) == plan.model
                     : name == file || name.ends_with(("/" + file).str()))
      return Line{known, line};
  }
  if (file.empty() && files.size() == 1)
    return Line{*files.begin(), line};
  return std::nullopt;
}

/// The thing of that name, or all whose names begin so.
template <typename T> std::vector<const T *> Explainer::named(const std::vector<T> &things) const {
  std::vector<const T *> found;
  for (const T &thing : things) {
    if (thing.name == options.what)
      return {&thing};
    if (llvm::StringRef(thing.name).starts_with(options.what) && !options.what.empty())
      found.push_back(&thing);
  }
  return found;
}

std::vector<std::string> Explainer::nearest() const {
  std::vector<std::pair<unsigned, std::string>> names;
  auto add = [&](const std::string &name) {
    names.emplace_back(llvm::StringRef(options.what).edit_distance(name), name);
  };
  for (const plan::Kernel &kernel : plan.kernels)
    add(kernel.name);
  for (const plan::Buffer &buffer : plan.buffers)
    add(buffer.name);
  std::stable_sort(names.begin(), names.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(names.size(), size_t(3)); ++i)
    result.push_back(names[i].second);
  return result;
}

//===- Explaining ----------------------------------------------------------------===//

std::string Explainer::textOfLine(const Line &line) const {
  if (llvm::sys::path::stem(line.file) != plan.model)
    return "";
  llvm::StringRef rest = plan.source, text;
  for (uint32_t i = 0; i < line.number; ++i)
    std::tie(text, rest) = rest.split('\n');
  return text.trim().str();
}

/// "at the peak of first, 59.61 MB in use at first[75]"
std::string Explainer::peakText(const plan::Program &program, const Peak &peak) const {
  return fmt::format("at the peak of {0}, {1} in use at {0}[{2}]", program.name,
                     bytesText(double(peak.bytes)), peak.command);
}

double Explainer::secondsToMake(const plan::Program &program, const Held &held) const {
  for (size_t i = held.before + 1; i-- > 0;) {
    const std::vector<plan::Ref> operands = plan::operandsOf(program.commands[i]);
    if (std::any_of(operands.begin(), operands.end(),
                    [&](const plan::Ref &ref) { return ref.buffer == held.buffer && ref.written; }))
      for (const Run &run : step.runs)
        if (run.command == &program.commands[i])
          return run.each.seconds;
  }
  return 0;
}

void Explainer::explainPeaks(const Line &line) const {
  std::vector<std::string> lines;
  for (const plan::Program &program : plan.programs) {
    const Peak peak = peakOf(plan, program);
    double bytes = 0, waiting = 0, seconds = 0;
    for (const Held &held : peak.held) {
      const plan::Buffer &buffer = plan.buffers[held.buffer];
      if (!isAt(buffer.location, line))
        continue;
      bytes += double(buffer.bytes);
      if (!held.waits())
        continue;
      waiting += double(buffer.bytes);
      seconds += secondsToMake(program, held);
    }
    if (bytes > 0)
      lines.push_back(
          fmt::format("{}: {} of it, of which {} only wait to be used again{}",
                      peakText(program, peak), bytesText(bytes), bytesText(waiting),
                      seconds > 0 ? "; what writes them takes " + secondsText(seconds) : ""));
  }
  if (lines.empty())
    return;
  fmt::print("\nwhat it holds where most is held\n");
  printSome(lines);
}

void Explainer::explain(const Line &line) const {
  fmt::print("{}:{}\n", line.file, line.number);
  if (const std::string text = textOfLine(line); !text.empty())
    fmt::print("  | {}\n", text);
  std::vector<const Run *> own, fused;
  Cost cost;
  for (const Run &run : step.runs) {
    const plan::Command &command = *run.command;
    if (textOf(lineOf(plan, command)) == fmt::format("{}:{}", line.file, line.number)) {
      own.push_back(&run);
      cost += run.all();
    } else if (const auto *launch = command.as<plan::Launch>()) {
      const auto &lines = plan.kernels[launch->kernel].locations;
      if (std::any_of(lines.begin(), lines.end(),
                      [&](const plan::Location &each) { return isAt(each, line); }))
        fused.push_back(&run);
    }
  }
  fmt::print("\nwhat runs for it: {}\n", costText(cost));
  printRuns(own);
  if (!fused.empty()) {
    Cost others;
    for (const Run *run : fused)
      others += run->all();
    fmt::print("\nas a part of kernels that are listed under other lines: {}\n", costText(others));
    printRuns(fused);
  }
  std::vector<std::string> buffers;
  double bytes = 0;
  for (const plan::Buffer &buffer : plan.buffers)
    if (isAt(buffer.location, line)) {
      bytes += double(buffer.bytes);
      buffers.push_back(fmt::format("{}: {}", buffer.name, bytesText(double(buffer.bytes))));
    }
  if (!buffers.empty()) {
    fmt::print("\nbuffers, {} in all, which may share bytes\n", bytesText(bytes));
    printSome(buffers);
  }
  explainPeaks(line);
  for (const plan::State &state : plan.states)
    if (isAt(state.location, line) && state.role == plan::State::Role::Parameter)
      fmt::print("\nit declares the parameter {}, updated by {}\n", state.name, state.optimizer);
}

void Explainer::explain(const plan::Kernel &kernel) const {
  fmt::print("kernel {}\n  {}\n", kernel.name, kernel.summary);
  for (const plan::Location &location : kernel.locations) {
    const std::string text = textOfLine({location.file, location.line});
    fmt::print("  from {}{}\n", plan::textOf(location), text.empty() ? "" : ": " + text);
  }
  std::vector<std::string> resources;
  if (!kernel.source.empty()) {
    resources.push_back(fmt::format("{} threads a block", kernel.threads));
    resources.push_back(fmt::format("{} iterations a block", kernel.iterationsPerBlock));
    if (kernel.sharedBytes)
      resources.push_back(fmt::format("{} bytes of shared memory", kernel.sharedBytes));
    if (kernel.clusterBlocks != 1)
      resources.push_back(fmt::format("clusters of {} blocks", kernel.clusterBlocks));
    resources.push_back(
        fmt::format("text in {}, compiled for the GPU where it runs", kernel.source));
  } else if (kernel.scratchBytes) {
    resources.push_back(fmt::format("{} bytes of scratch a thread", kernel.scratchBytes));
  }
  if (!resources.empty())
    fmt::print("  {}\n", fmt::join(resources, ", "));
  std::vector<const Run *> runs;
  Cost cost;
  for (const Run &run : step.runs)
    if (const auto *launch = run.command->as<plan::Launch>();
        launch && &plan.kernels[launch->kernel] == &kernel) {
      runs.push_back(&run);
      cost += run.all();
    }
  if (runs.empty()) {
    fmt::print(
        "\nno program of a step launches it: it is of validation, sampling or a measurement\n");
    return;
  }
  fmt::print("\n{}\n", costText(cost));
  // What bounds it by the machine's rates.
  double moving = 0;
  for (const Run *run : runs)
    moving += run->times * machine.kernel(run->each.bytes);
  fmt::print("by {}'s rates its bytes alone take {}, {} of what is predicted\n", machine.name,
             secondsText(moving), shareText(moving, cost.seconds));
  printRuns(runs);
}

void Explainer::explain(const plan::Buffer &buffer) const {
  const auto index = uint32_t(&buffer - plan.buffers.data());
  const bool isInHost = plan::isInHost(plan, buffer);
  fmt::print("buffer {}\n  {}[{}], {} at {} of {} of {}\n", buffer.name, plan::nameOf(buffer.type),
             fmt::join(buffer.shape, ","), bytesText(double(buffer.bytes)),
             buffer.offset - (isInHost ? plan::hostBegin(plan) : 0),
             isInHost ? "the host's memory" : "an arena",
             bytesText(double(isInHost ? plan.hostBytes : plan.arenaBytes)));
  if (const std::string place = plan::textOf(buffer.location); !place.empty()) {
    const std::string text = textOfLine({buffer.location.file, buffer.location.line});
    fmt::print("  from {}{}\n", place, text.empty() ? "" : ": " + text);
  }
  bool isState = index == plan.scalarBuffer && !plan.scalars.empty();
  if (isState)
    fmt::print("  holds the {} scalars that the host writes before a step\n", plan.scalars.size());
  static constexpr const char *roles[] = {"a parameter", "an optimizer's state", "a gradient"};
  for (const plan::State &state : plan.states)
    if (state.buffer == index) {
      isState = true;
      fmt::print("  holds {}, {}: its bytes are its own for the whole run\n", state.name,
                 roles[size_t(state.role)]);
    }
  std::vector<std::string> uses;
  for (const plan::Program &program : plan.programs) {
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const plan::Command &command = program.commands[i];
      bool reads = false, writes = false;
      for (const plan::Ref &ref : plan::operandsOf(command))
        if (ref.buffer == index) {
          reads = reads || ref.read;
          writes = writes || ref.written;
        }
      if (!reads && !writes)
        continue;
      const std::string line = textOf(lineOf(plan, command));
      uses.push_back(fmt::format("{}[{}] {} {}{}", program.name, i,
                                 reads && writes ? "changed by"
                                 : writes        ? "written by"
                                                 : "read by",
                                 workerOf(plan, command), line.empty() ? "" : ", " + line));
    }
  }
  fmt::print("\nin the order of the programs\n");
  if (uses.empty())
    fmt::print("  no command uses it: nanorun reads or writes it, or nobody does\n");
  printSome(uses);
  for (const plan::Program &program : plan.programs) {
    const Peak peak = peakOf(plan, program);
    for (const Held &held : peak.held) {
      if (held.buffer != index)
        continue;
      const double seconds = held.waits() ? secondsToMake(program, held) : 0;
      fmt::print("\n{}: it is {}{}\n", peakText(program, peak),
                 held.waits() ? fmt::format("kept there, between {0}[{1}] and {0}[{2}]",
                                            program.name, held.before, held.after)
                              : "used there",
                 seconds > 0 ? "; what writes it takes " + secondsText(seconds) : "");
    }
  }
  // Others of its bytes.
  std::vector<const plan::Buffer *> sharing;
  for (const plan::Buffer &other : plan.buffers)
    if (&other != &buffer && other.offset < buffer.offset + buffer.bytes &&
        buffer.offset < other.offset + other.bytes)
      sharing.push_back(&other);
  if (sharing.empty()) {
    fmt::print("\nno other buffer has any of its bytes\n");
    return;
  }
  std::stable_sort(sharing.begin(), sharing.end(),
                   [](const auto *a, const auto *b) { return a->bytes > b->bytes; });
  fmt::print("\nat other times its bytes belong to\n");
  std::vector<std::string> others;
  for (const plan::Buffer *other : sharing)
    others.push_back(
        fmt::format("{}: {} at {}", other->name, bytesText(double(other->bytes)), other->offset));
  printSome(others);
}

Status Explainer::run() {
  const std::vector<const plan::Kernel *> kernels = named(plan.kernels);
  const std::vector<const plan::Buffer *> buffers = named(plan.buffers);
  if (kernels.size() + buffers.size() == 1) {
    if (!kernels.empty())
      explain(*kernels.front());
    else
      explain(*buffers.front());
    return ok();
  }
  if (!kernels.empty() || !buffers.empty()) {
    std::vector<std::string> names;
    for (const plan::Kernel *kernel : kernels)
      names.push_back(kernel->name);
    for (const plan::Buffer *buffer : buffers)
      names.push_back(buffer->name);
    const size_t count = names.size(), shown = 6;
    names.resize(std::min(count, shown));
    return badInput(fmt::format("explain {}: {} kernels and buffers begin so: {}{}", options.what,
                                count, fmt::join(names, ", "), count > shown ? ", …" : ""));
  }
  if (std::optional<Line> line = lineNamed()) {
    explain(*line);
    return ok();
  }
  return badInput(
      fmt::format("explain {}: {} has no such kernel or buffer, and it is no line FILE:N "
                  "of its model; near it are {}",
                  options.what, options.plan, fmt::join(nearest(), ", ")));
}

Status runChecked(const ExplainOptions &options) {
  Result<plan::PlanFile> file = plan::PlanFile::open(options.plan);
  if (!file)
    return file.error();
  int64_t world = options.world;
  if (world == 0)
    for (const std::vector<int64_t> &variant : file->variants())
      for (int64_t each : variant)
        world = world == 0 ? each : std::min(world, each);
  Result<plan::Plan> plan = file->plan(world);
  if (!plan)
    return plan.error();
  Result<machine::Machine> machine = machineFor(options.machine, plan->target);
  if (!machine)
    return machine.error();
  Result<StepFacts> step = stepOf(*plan, world, *machine);
  if (!step)
    return Error{step.error().kind, options.plan + ": " + step.error().message};
  return Explainer(options, *plan, *step, *machine).run();
}

} // namespace

int explain(const ExplainOptions &options) {
  const Status status = runChecked(options);
  if (status)
    return 0;
  fmt::print(stderr, "nanoc: {}\n", status.error().message);
  return 2;
}

} // namespace nano::inspect
