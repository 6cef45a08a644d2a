// Writes a plan's kernels once, then buffers, programs and the predicted schedule of each number of
// ranks.
#include "compiler/explore/Document.h"

#include "base/InputFile.h"
#include "compiler/explore/Json.h"
#include "compiler/explore/PassesJson.h"
#include "compiler/explore/Waits.h"
#include "compiler/inspect/StepFacts.h"
#include "compiler/simulate/Costs.h"
#include "compiler/simulate/Simulator.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Work.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace nano::explore {
namespace {

using llvm::json::OStream;
using plan::Command;

int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

const char *nameOf(WaitReason::Kind kind) {
  switch (kind) {
  case WaitReason::Kind::ReadsWritten:
    return "reads";
  case WaitReason::Kind::OverwritesRead:
    return "overwrites what is read";
  case WaitReason::Kind::OverwritesWritten:
    return "overwrites what is written";
  }
  return "";
}

const char *nameOf(simulate::Transfer transfer) {
  switch (transfer) {
  case simulate::Transfer::None:
    break;
  case simulate::Transfer::Upload:
    return "upload of a batch";
  case simulate::Transfer::Place:
    return "batch to its buffers";
  case simulate::Transfer::Readback:
    return "readback of the loss";
  }
  return "";
}

class Writer {
public:
  Writer(const Parts &parts, llvm::raw_ostream &stream) : parts(parts), json(stream) {}

  Status run();

private:
  void writeCommon(const plan::Plan &plan);
  void writeFiles(const plan::Plan &plan);
  Status writeVariant(const plan::Plan &plan, int64_t world);
  void writeBuffers(const plan::Plan &plan);
  void writePrograms(const plan::Plan &plan, const simulate::Costs &costs);
  void writeCommands(const plan::Plan &plan, const plan::Program &program,
                     const std::vector<simulate::Cost> &costs);
  void writeWaits(const plan::Plan &plan, const plan::Program &program);
  Status writeStage(const plan::Plan &plan, const plan::StageSteps &steps, int64_t world,
                    const simulate::Costs &costs);

  int64_t text(const std::string &name) { return name.empty() ? -1 : texts.add(name); }
  int64_t line(const plan::Location &location) { return text(plan::textOf(location)); }
  template <typename Range, typename Value>
  void column(const char *name, const Range &range, const Value &value) {
    writeArray(json, name, range, [&](const auto &each) { json.value(value(each)); });
  }

  const Parts &parts;
  OStream json;
  Texts texts;
};

/// The buffers whose bytes are their own from program to program: states, inputs, outputs, and what
/// several programs use.
std::vector<std::string> rolesOf(const plan::Plan &plan) {
  std::vector<std::string> roles(plan.buffers.size());
  static constexpr const char *names[] = {"parameter", "optimizer", "gradient", "constant"};
  std::vector<std::set<size_t>> users(plan.buffers.size());
  for (size_t p = 0; p < plan.programs.size(); ++p)
    for (const Command &command : plan.programs[p].commands)
      for (const plan::Ref &ref : plan::operandsOf(command))
        users[ref.buffer].insert(p);
  for (size_t i = 0; i < roles.size(); ++i)
    if (users[i].size() != 1)
      roles[i] = users[i].empty() ? "unused" : "shared";
  auto mark = [&](uint32_t buffer, const char *role) {
    if (buffer < roles.size())
      roles[buffer] = role;
  };
  for (const plan::Training *stage : plan::stagesOf(plan)) {
    for (uint32_t buffer : {stage->tokensBuffer, stage->targetsBuffer, stage->valTokensBuffer,
                            stage->valTargetsBuffer})
      mark(buffer, "input");
    for (const auto *columns : {&stage->columns, &stage->valColumns})
      for (const plan::Column &column : *columns)
        mark(column.buffer, "input");
    mark(stage->lossBuffer, "output");
    mark(stage->valLossBuffer, "output");
    if (!stage->generate.empty()) {
      mark(stage->genTokensBuffer, "input");
      mark(stage->logitsBuffer, "output");
    }
    if (!stage->decode.empty()) {
      mark(stage->decodeTokenBuffer, "input");
      mark(stage->decodePositionBuffer, "input");
      mark(stage->decodeLogitsBuffer, "output");
    }
    if (!stage->measure.empty())
      mark(stage->reportBuffer, "output");
    for (const plan::Report &report : stage->reports)
      mark(report.buffer, "output");
  }
  if (!plan.scalars.empty())
    mark(plan.scalarBuffer, "scalars");
  for (const plan::State &state : plan.states)
    mark(state.buffer, names[size_t(state.role)]);
  return roles;
}

void Writer::writeCommon(const plan::Plan &plan) {
  json.attribute("model", utf8(plan.model));
  json.attribute("target", plan.target);
  json.attribute("hash", parts.file->hash());
  json.attribute("file", utf8(parts.name));
  json.attribute("machine", utf8(parts.machine->name));
  json.attribute("source", utf8(plan.source));
  writeArray(json, "hyperparameters", plan.hyperparameters, [&](const auto &each) {
    json.array([&] {
      json.value(utf8(each.name));
      json.value(utf8(each.value));
      json.value(each.overridden);
    });
  });
  writeArray(json, "kernels", plan.kernels, [&](const plan::Kernel &kernel) {
    json.object([&] {
      json.attribute("name", utf8(kernel.name));
      json.attribute("summary", utf8(kernel.summary));
      writeArray(json, "lines", kernel.locations,
                 [&](const plan::Location &each) { json.value(line(each)); });
      json.attribute("source", utf8(kernel.source));
      json.attribute("threads", kernel.threads);
      json.attribute("shared", int64_t(kernel.sharedBytes));
      json.attribute("scratch", int64_t(kernel.scratchBytes));
      json.attribute("perBlock", kernel.iterationsPerBlock);
      json.attribute("cluster", kernel.clusterBlocks);
      json.attribute("segments", kernel.maxSegments);
    });
  });
  json.attributeObject("sources", [&] {
    for (const plan::Source &source : plan.sources)
      json.attribute(utf8(source.name), utf8(source.text));
  });
}

void Writer::writeBuffers(const plan::Plan &plan) {
  const std::vector<std::string> roles = rolesOf(plan);
  json.attributeObject("buffers", [&] {
    const auto &all = plan.buffers;
    column("name", all, [](const plan::Buffer &each) { return utf8(each.name); });
    column("at", all, [](const plan::Buffer &each) { return int64_t(each.offset); });
    column("bytes", all, [](const plan::Buffer &each) { return int64_t(each.bytes); });
    column("type", all, [&](const plan::Buffer &each) {
      std::string shape;
      for (int64_t size : each.shape)
        shape += (shape.empty() ? "" : ",") + std::to_string(size);
      return text(fmt::format("{}[{}]", plan::nameOf(each.type), shape));
    });
    column("line", all, [&](const plan::Buffer &each) { return line(each.location); });
    column("role", roles, [&](const std::string &role) { return text(role); });
  });
}

void Writer::writeCommands(const plan::Plan &plan, const plan::Program &program,
                           const std::vector<simulate::Cost> &costs) {
  const auto &all = program.commands;
  const simulate::CostOptions options;
  column("kind", all, [&](const Command &each) { return text(plan::nameOf(each.action)); });
  column("stream", all, [](const Command &each) { return each.stream; });
  column("label", all, [&](const Command &each) { return text(each.label); });
  column("line", all, [&](const Command &each) { return text(textOf(lineOf(plan, each))); });
  column("worker", all, [&](const Command &each) { return text(inspect::workerOf(plan, each)); });
  column("kernel", all, [](const Command &each) {
    const auto *launch = each.as<plan::Launch>();
    return launch ? int64_t(launch->kernel) : -1;
  });
  column("event", all, [](const Command &each) {
    const auto *record = each.as<plan::RecordEvent>();
    const auto *wait = each.as<plan::WaitEvent>();
    return record ? int64_t(record->event) : wait ? int64_t(wait->event) : -1;
  });
  // In picoseconds: they are summed over thousands of launches.
  column("ps", costs, [](const simulate::Cost &each) {
    return int64_t(std::llround(1e12 * (each.gap + each.seconds)));
  });
  writeArray(json, "bytes", all,
             [&](const Command &each) { writeNumber(json, plan::workOf(plan, each).bytes); });
  writeArray(json, "flops", all, [&](const Command &each) {
    const double attention = simulate::attentionFlops(plan, each, options.attendedKeys);
    writeNumber(json, attention > 0 ? attention : plan::workOf(plan, each).flops);
  });
  auto buffersOf = [&](const char *name, bool plan::Ref::*which) {
    writeArray(json, name, all, [&](const Command &each) {
      std::set<uint32_t> seen;
      for (const plan::Ref &ref : plan::operandsOf(each))
        if (ref.*which)
          seen.insert(ref.buffer);
      json.array([&] {
        for (uint32_t buffer : seen)
          json.value(buffer);
      });
    });
  };
  buffersOf("reads", &plan::Ref::read);
  buffersOf("writes", &plan::Ref::written);
}

void Writer::writeWaits(const plan::Plan &plan, const plan::Program &program) {
  writeArray(json, "waits", waitReasons(plan, program), [&](const WaitReason &reason) {
    json.array([&] {
      json.value(int64_t(reason.wait));
      json.value(int64_t(reason.before));
      json.value(int64_t(reason.after));
      json.value(reason.buffer);
      json.value(text(nameOf(reason.kind)));
    });
  });
}

void Writer::writePrograms(const plan::Plan &plan, const simulate::Costs &costs) {
  json.attributeArray("programs", [&] {
    for (size_t p = 0; p < plan.programs.size(); ++p)
      json.object([&] {
        json.attribute("name", utf8(plan.programs[p].name));
        writeCommands(plan, plan.programs[p], costs[p]);
        writeWaits(plan, plan.programs[p]);
      });
  });
}

Status Writer::writeStage(const plan::Plan &plan, const plan::StageSteps &steps, int64_t world,
                          const simulate::Costs &costs) {
  simulate::Settings settings;
  settings.world = world;
  settings.isDetailed = true;
  settings.stage = steps.stage;
  const simulate::Outcome outcome = simulate::simulate(plan, *parts.machine, costs, settings);
  if (!(outcome.step > 0) || !std::isfinite(outcome.step))
    return badInput(fmt::format("{}: a step on {} ranks would take {} s, by the rates of {}; "
                                "correct them",
                                parts.name, world, outcome.step, parts.machine->name));
  const plan::Training &stage = *steps.stage;
  // Of several phases the last one, in which every optimizer takes a step.
  const plan::StepPrograms &phase = stage.phases.back();
  const int64_t microBatches = stage.globalBatch / (stage.seqLen * world);
  json.object([&] {
    json.attribute("name", utf8(stage.stage));
    json.attribute("begin", steps.begin);
    json.attribute("end", steps.end);
    json.attribute("tokens", stage.globalBatch);
    json.attributeArray("runs", [&] {
      for (auto [name, times] :
           {std::pair(&phase.first, int64_t(microBatches > 1)),
            std::pair(&phase.next, std::max<int64_t>(microBatches - 2, 0)),
            std::pair(&phase.last, int64_t(1)), std::pair(&phase.update, int64_t(1))}) {
        const auto found =
            std::find_if(plan.programs.begin(), plan.programs.end(),
                         [&](const plan::Program &program) { return program.name == *name; });
        if (times > 0 && !name->empty() && found != plan.programs.end())
          json.array([&] {
            json.value(int64_t(found - plan.programs.begin()));
            json.value(times);
          });
      }
    });
    for (auto [name, seconds] :
         {std::pair("step", outcome.step), std::pair("computing", outcome.computing),
          std::pair("communicating", outcome.communicating), std::pair("exposed", outcome.exposed),
          std::pair("idle", outcome.idle)})
      json.attribute(name, nanoseconds(seconds));
    auto writeShares = [&](const char *name, const std::vector<simulate::Share> &shares,
                           bool byLine) {
      std::map<std::string, double> sums;
      for (const simulate::Share &share : shares) {
        std::string key =
            share.command ? textOf(lineOf(plan, *share.command)) : nameOf(share.transfer);
        if (!byLine && share.command)
          key = fmt::format("{} ({})", share.command->label, key);
        sums[key] += share.seconds;
      }
      writeArray(json, name, sums, [&](const auto &sum) {
        json.array([&] {
          json.value(text(sum.first));
          json.value(nanoseconds(sum.second));
        });
      });
    };
    writeShares("exposedBy", outcome.exposedBy, /*byLine=*/false);
    writeShares("path", outcome.path, /*byLine=*/true);
    std::vector<simulate::Span> spans;
    for (const simulate::Span &span : outcome.spans)
      if (span.rank == outcome.spans.front().rank) // ranks are all alike
        spans.push_back(span);
    std::stable_sort(spans.begin(), spans.end(),
                     [](const auto &a, const auto &b) { return a.start < b.start; });
    json.attributeObject("spans", [&] {
      column("program", spans, [](const simulate::Span &each) { return each.program; });
      column("command", spans, [](const simulate::Span &each) {
        return each.transfer == simulate::Transfer::None ? int64_t(each.command) : -1;
      });
      column("start", spans, [](const simulate::Span &each) { return nanoseconds(each.start); });
      column("ns", spans,
             [](const simulate::Span &each) { return nanoseconds(each.finish - each.start); });
      column("stream", spans, [&](const simulate::Span &each) {
        return each.transfer == simulate::Transfer::None
                   ? plan.programs[each.program].commands[each.command].stream
               : each.transfer == simulate::Transfer::Place ? 0
                                                            : plan::copyStream;
      });
      column("transfer", spans,
             [&](const simulate::Span &each) { return text(nameOf(each.transfer)); });
    });
  });
  return ok();
}

/// The text of the model files besides the plan's own, as they are: the compilation has just read
/// them. A file that is not there (IR from elsewhere) is left out, and the page says that its text
/// is.
void Writer::writeFiles(const plan::Plan &plan) {
  std::set<std::string> names;
  for (const plan::Kernel &kernel : plan.kernels)
    for (const plan::Location &location : kernel.locations)
      names.insert(location.file);
  json.attributeObject("files", [&] {
    for (const std::string &name : names)
      if (Result<std::string> file = readInput(name, input::model))
        json.attribute(utf8(name), utf8(*file));
  });
}

Status Writer::writeVariant(const plan::Plan &plan, int64_t world) {
  if (plan.training.phases.empty())
    return badInput(parts.name + ": the plan has no training step");
  if (llvm::Error error = parts.machine->checkRanks(world))
    return badInput(llvm::toString(std::move(error)));
  const simulate::Costs costs = simulate::costsOf(plan, *parts.machine, world, {});
  Status status = ok();
  json.object([&] {
    json.attribute("world", world);
    json.attribute("arena", int64_t(plan.arenaBytes));
    writeBuffers(plan);
    writePrograms(plan, costs);
    json.attributeArray("stages", [&] {
      const int64_t steps = std::max<int64_t>(1, plan.training.numIterations);
      for (const plan::StageSteps &part : plan::stagesOf(plan, 0, steps))
        if (status)
          status = writeStage(plan, part, world, costs);
    });
  });
  return status;
}

Status Writer::run() {
  Status status = ok();
  json.object([&] {
    writeCommon(parts.file->common());
    if (parts.passes)
      writeFiles(parts.file->common());
    json.attributeArray("variants", [&] {
      for (const std::vector<int64_t> &worlds : parts.file->variants())
        for (int64_t world : worlds) {
          if (!status)
            return;
          Result<plan::Plan> plan = parts.file->plan(world);
          status = plan ? writeVariant(*plan, world) : plan.error();
        }
    });
    json.attributeArray("streams", [&] {
      for (uint32_t stream = 0; stream < 8; ++stream)
        json.value(plan::nameOfStream(stream));
    });
    if (parts.passes)
      json.attributeObject("passes", [&] { writePasses(json, *parts.passes, texts); });
    writeArray(json, "runs", parts.runs, [&](const llvm::json::Value &run) { json.value(run); });
    json.attribute("profile", parts.profile);
    json.attribute("comparison", parts.comparison);
    json.attributeBegin("texts");
    texts.write(json);
    json.attributeEnd();
  });
  return status;
}

} // namespace

Result<std::string> documentOf(const Parts &parts) {
  std::string document;
  llvm::raw_string_ostream stream(document);
  if (Status status = Writer(parts, stream).run(); !status)
    return status.error();
  return document;
}

} // namespace nano::explore
