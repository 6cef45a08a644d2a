// The plan as text for people; stable enough to be matched by FileCheck. Words say what readers ask
// most, each line ends with the other fields that are not as by default: what is added to a struct
// is described without a word here.
#include "runtime/plan/Expr.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Overload.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <utility>

namespace nano::plan {
namespace {

std::string number(double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

/// "75.5 MiB", with one decimal from KiB on.
std::string size(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + ']';
}

std::string stridesText(const std::array<int64_t, 2> &strides) {
  return "[" + std::to_string(strides[0]) + "," + std::to_string(strides[1]) + "]";
}

std::string tensor(DType type, const std::vector<int64_t> &shape) {
  return nameOf(type) + shapeText(shape);
}

std::string place(const Location &location) {
  if (location.file.empty() && location.line == 0)
    return "";
  return "  " + location.file + ":" + std::to_string(location.line);
}

/// "bf16[64,768], rows 1536 bytes apart, boxes [128,64] swizzled by 128 bytes"
std::string describe(const TensorMap &map) {
  std::string text = std::string(nameOf(map.type)) + "[" + std::to_string(map.rows) + "," +
                     std::to_string(map.columns) + "], rows " + std::to_string(map.rowBytes) +
                     " bytes apart, boxes [" + std::to_string(map.boxRows) + "," +
                     std::to_string(map.boxColumns) + "]";
  if (map.swizzleBytes)
    text += " swizzled by " + std::to_string(map.swizzleBytes) + " bytes";
  return text;
}

/// The keys of commands that `Describer::action` has words for.
constexpr std::initializer_list<std::string_view> actionKeys = {
    "launch",    "segments", "matmul",      "types",     "transpose",
    "scale",     "a",        "b",           "c",         "d",
    "scaleA",    "scaleB",   "scaleBlocks", "allReduce", "reduceScatter",
    "allGather", "shard",    "fill",        "copy",      "record",
    "wait",      "ranks",    "maximum",     "refs",      "counts",
    "stream",    "label",    "at"};

class Describer {
public:
  explicit Describer(const Plan &plan) : plan(plan) {}
  /// What all variants share.
  std::string common(const std::string &hash);
  std::string variant();

private:
  void line(const std::string &text) { out += text + '\n'; }
  std::string operand(const Ref &ref) const {
    std::string text = ref.written ? (ref.read ? "inout " : "out ") : "in ";
    text += plan.buffers[ref.buffer].name;
    if (ref.offset)
      text += "+" + std::to_string(ref.offset);
    return text;
  }
  std::string matrix(const Ref &ref, DType type, bool transposed) const {
    return operand(ref) + ":" + nameOf(type) + (transposed ? "^T" : "");
  }
  std::string initial(const Init &init) const;
  std::string sharding(const Sharding &sharding) const;
  std::string launch(const Launch &launch) const;
  std::string matmul(const Matmul &matmul) const;
  std::string action(const Command &command) const;
  void interchange();
  void kernels();
  void buffers();
  void states();
  void program(const Program &program);
  void training(const Training &training);

  const Plan &plan;
  std::string out;
};

std::string Describer::common(const std::string &hash) {
  line("plan " + hash);
  line("model " + plan.model + ", target " + plan.target +
       otherFieldsOfAll(plan, {"cpuFeatures", "hyperparameters", "interchange", "indexGroups",
                               "kernels", "sources", "unproven"}));
  if (!plan.cpuFeatures.empty()) {
    std::string features = "needs";
    for (const std::string &feature : plan.cpuFeatures)
      features += " " + feature;
    line(features);
  }
  line("code " + std::to_string(plan.code.size()) + " bytes, model source " +
       std::to_string(plan.source.size()) + " bytes" +
       (plan.data.empty() ? "" : ", data " + std::to_string(plan.data.size()) + " bytes"));
  for (const Source &source : plan.sources)
    line("  " + source.name + "  " + std::to_string(source.text.size()) + " bytes" +
         otherFields(source, {"name", "text"}));
  line("hyperparameters:");
  for (const Hyperparameter &item : plan.hyperparameters)
    line("  " + item.name + " = " + item.value + (item.overridden ? "  (overridden)" : "") +
         otherFields(item, {"name", "value", "overridden"}));
  if (!plan.unproven.empty())
    line("compared with nanoc's own by a plan of " + std::to_string(plan.checks.size()) +
         " bytes before a run, and a plan of " + std::to_string(plan.ours.size()) +
         " bytes without them:");
  for (const UnprovenKernel &kernel : plan.unproven)
    line("  " + kernel.line + ": " + kernel.about + ", by " + kernel.report + " up to " +
         number(kernel.tolerance) + otherFields(kernel, {"report", "line", "about", "tolerance"}));
  interchange();
  kernels();
  return std::move(out);
}

void Describer::interchange() {
  const Interchange &interchange = plan.interchange;
  if (interchange == Interchange())
    return;
  line("checkpoints of other programs:");
  for (const ForeignParameter &parameter : interchange.parameters) {
    std::string text = "  " + parameter.name + " = ";
    if (parameter.parts.empty())
      text += "in none";
    for (size_t i = 0; i < parameter.parts.size(); ++i) {
      const ForeignPart &part = parameter.parts[i];
      text += (i ? ", " : "") + part.tensor + (part.transposed ? "^T" : "") + "[" +
              std::to_string(part.first) + ":" + std::to_string(part.first + part.rows) + "]";
    }
    line(text);
  }
  for (const ConfigField &field : interchange.config)
    line("  config.json: " + field.names.front() + " = " + field.value);
}

void Describer::buffers() {
  line("arena " + std::to_string(plan.arenaBytes) + " bytes (" + size(plan.arenaBytes) + ")" +
       (plan.hostBytes ? ", from " + std::to_string(hostBegin(plan)) + " on " +
                             std::to_string(plan.hostBytes) + " bytes (" + size(plan.hostBytes) +
                             ") in the host's memory"
                       : ""));
  line("buffers, largest first:");
  std::vector<size_t> order(plan.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  for (size_t index : order) {
    const Buffer &buffer = plan.buffers[index];
    line("  " + buffer.name + "  " + tensor(buffer.type, buffer.shape) + "  " +
         std::to_string(buffer.bytes) + " bytes (" + size(buffer.bytes) + ") at " +
         std::to_string(buffer.offset) +
         otherFields(buffer, {"name", "type", "shape", "bytes", "offset", "at"}) +
         place(buffer.location));
  }
}

std::string Describer::initial(const Init &init) const {
  switch (init.kind) {
  case Init::Kind::Constant:
    if (init.values.size() == 1)
      return number(init.values[0]);
    return std::to_string(init.values.size()) + " values";
  case Init::Kind::Normal:
    return "normal(" + number(init.mean) + ", " + number(init.stddev) + ")";
  case Init::Kind::Uniform:
    return "uniform(" + number(init.low) + ", " + number(init.high) + ")";
  case Init::Kind::Sign:
    return "sign(" + number(init.values[0]) + ")";
  case Init::Kind::Data:
    return "data";
  case Init::Kind::Copy:
    return "copy of " + init.source;
  case Init::Kind::Transpose:
    return "transpose of " + init.source;
  case Init::Kind::Blocks: {
    std::string text;
    for (size_t i = 0; i < init.parts.size(); ++i)
      text +=
          (i ? ", " : "blocks ") + std::to_string(init.counts[i]) + " of " + initial(init.parts[i]);
    return text;
  }
  }
  return "";
}

std::string Describer::sharding(const Sharding &sharding) const {
  std::string text = "one of " + std::to_string(sharding.parts) + " parts over " +
                     nameOf(sharding.ranks) + " by " + std::to_string(sharding.chunk) + " of";
  for (const Sharding::Piece &piece : sharding.pieces)
    text += (&piece == sharding.pieces.data() ? " " : ", ") + piece.name + shapeText(piece.shape) +
            " at " + std::to_string(piece.offset);
  return text;
}

void Describer::states() {
  line("states:");
  for (const State &state : plan.states) {
    std::string text = "  " + std::string(nameOf(state.role)) + " " + state.name + "  " +
                       tensor(state.type, state.shape) + " in " + plan.buffers[state.buffer].name +
                       " = " + initial(state.init);
    if (state.sharding)
      text += ", " + sharding(*state.sharding);
    if (!state.optimizer.empty())
      text += ", " + state.optimizer + " lr " + number(state.learningRate);
    text += otherFields(state, {"name", "role", "type", "shape", "buffer", "init", "sharding",
                                "optimizer", "learningRate", "at"});
    line(text + place(state.location));
  }
  line("scalars:");
  for (const Scalar &scalar : plan.scalars)
    line("  " + scalar.name + "  " + nameOf(scalar.type) + " = " + toString(scalar.value) +
         otherFields(scalar, {"name", "type", "value"}));
}

void Describer::kernels() {
  if (!plan.indexGroups.empty())
    line("index groups, by what comes from outside:");
  for (size_t i = 0; i < plan.indexGroups.size(); ++i) {
    const auto &[low, high] = plan.indexGroups[i];
    line("  " + std::to_string(i) + ": " + std::to_string(low) + " to " + std::to_string(high));
  }
  line("kernels:");
  for (const Kernel &kernel : plan.kernels) {
    std::string text = "  " + kernel.name;
    if (!kernel.summary.empty())
      text += ": " + kernel.summary;
    if (kernel.flops != 0)
      text += ", " + number(kernel.flops) + " operations an iteration";
    if (kernel.flopsPerKey != 0)
      text += ", " + number(kernel.flopsPerKey) + " operations an iteration and key";
    if (kernel.flopsType != DType::F32)
      text += std::string(" of ") + nameOf(kernel.flopsType);
    if (kernel.scratchBytes)
      text += ", scratch " + size(kernel.scratchBytes);
    if (!kernel.source.empty())
      text += ", " + kernel.source + ", " + std::to_string(kernel.iterationsPerBlock) +
              " iterations by " + std::to_string(kernel.threads) + " threads, " +
              std::to_string(kernel.maxSegments) + " segments at most";
    if (kernel.sharedBytes)
      text += ", shared " + size(kernel.sharedBytes);
    if (kernel.clusterBlocks != 1)
      text += ", clusters of " + std::to_string(kernel.clusterBlocks) + " blocks";
    for (const TensorMap &map : kernel.tensorMaps)
      text += ", operand " + std::to_string(map.argument) + " as " + describe(map);
    text += otherFields(kernel, {"name", "summary", "flops", "flopsPerKey", "flopsType", "scratch",
                                 "source", "block", "cluster", "maps", "at"});
    for (const Location &location : kernel.locations)
      text += place(location);
    line(text);
  }
}

std::string Describer::launch(const Launch &launch) const {
  std::string text = "launch " + plan.kernels[launch.kernel].name;
  for (const Launch::Segment &segment : launch.segments) {
    text +=
        " [" + std::to_string(segment.iterations) + " by " + std::to_string(segment.grain) + "](";
    for (size_t i = 0; i < segment.args.size(); ++i)
      text += (i ? ", " : "") + operand(segment.args[i]);
    text += ")";
  }
  return text;
}

std::string Describer::matmul(const Matmul &matmul) const {
  std::string text = "matmul ";
  if (matmul.batch != 1)
    text += std::to_string(matmul.batch) + "x ";
  text += "[" + std::to_string(matmul.m) + "x" + std::to_string(matmul.k) + "]*[" +
          std::to_string(matmul.k) + "x" + std::to_string(matmul.n) + "] " +
          matrix(matmul.c, matmul.cType, false) + " = ";
  if (matmul.alpha != 1)
    text += number(matmul.alpha) + " * ";
  text += matrix(matmul.a, matmul.aType, matmul.transposeA) + " * " +
          matrix(matmul.b, matmul.bType, matmul.transposeB);
  if (matmul.scales) {
    const MatmulScales &scales = *matmul.scales;
    text += " scaled by " + operand(scales.a) + ", " + operand(scales.b);
    if (scales.block)
      text += " for blocks of " + std::to_string(scales.rowsA) + "x" +
              std::to_string(scales.block) + ", " + std::to_string(scales.block) + "x" +
              std::to_string(scales.rowsB) + " with strides " + stridesText(scales.stridesA) +
              ", " + stridesText(scales.stridesB);
  }
  if (matmul.beta != 0)
    text += " + " + (matmul.beta != 1 ? number(matmul.beta) + " * " : "") +
            matrix(matmul.d, matmul.cType, false);
  return text;
}

std::string Describer::action(const Command &command) const {
  auto over = [](Ranks ranks) {
    return ranks == Ranks::All ? "" : std::string(" over ") + nameOf(ranks);
  };
  auto of = [](DType type, const std::vector<int64_t> &counts) {
    std::string text = " of";
    for (int64_t count : counts)
      text += " " + std::to_string(count);
    return text + " " + nameOf(type);
  };
  return std::visit(
      Overload{
          [&](const Launch &action) { return launch(action); },
          [&](const Matmul &action) { return matmul(action); },
          [&](const AllReduce &reduce) {
            std::string text = reduce.maximum ? "all_reduce by maximum" : "all_reduce";
            text += over(reduce.ranks);
            std::vector<int64_t> counts;
            for (const AllReduce::Part &part : reduce.parts) {
              text += (counts.empty() ? " " : ", ") + operand(part.buffer);
              counts.push_back(part.count);
            }
            return text + of(reduce.type, counts);
          },
          [&](const Exchange &exchange) {
            std::string text = nameOf(command.action) + over(exchange.ranks);
            std::vector<int64_t> counts;
            for (const Move &move : exchange.moves) {
              text += (counts.empty() ? " " : ", ") + operand(move.from) + ", " + operand(move.to);
              counts.push_back(move.count);
            }
            return text + of(exchange.type, counts);
          },
          [&](const Fill &fill) {
            return "fill " + operand(fill.to) + of(fill.type, {fill.count});
          },
          [&](const Copy &copy) {
            return "copy " + operand(copy.from) + ", " + operand(copy.to) +
                   of(copy.type, {copy.count});
          },
          [](const RecordEvent &record) { return "record event " + std::to_string(record.event); },
          [](const WaitEvent &wait) { return "wait for event " + std::to_string(wait.event); },
      },
      command.action);
}

void Describer::program(const Program &program) {
  line("program " + program.name + ": " + std::to_string(program.commands.size()) + " commands, " +
       std::to_string(program.streams) + " streams, " + std::to_string(program.events) + " events" +
       otherFields(program, {"name", "streams", "events", "commands"}));
  for (const Command &command : program.commands) {
    std::string text = "  ";
    if (program.streams > 1)
      text += "@" + std::to_string(command.stream) + " ";
    text += action(command) + otherFields(command, actionKeys);
    if (!command.label.empty())
      text += "  \"" + command.label + "\"";
    line(text + place(command.location));
  }
}

std::string Describer::variant() {
  std::string worlds = "worlds";
  for (int64_t world : plan.worlds)
    worlds += " " + std::to_string(world);
  if (plan.group > 1)
    worlds += ", groups of " + std::to_string(plan.group);
  line(worlds + otherFieldsOfVariant(plan, {"group", "arenaBytes", "hostBytes", "buffers", "states",
                                            "scalars", "programs", "training", "laterStages"}));
  buffers();
  states();
  for (const Program &item : plan.programs)
    program(item);
  for (const Training *stage : stagesOf(plan))
    training(*stage);
  return std::move(out);
}

void Describer::training(const Training &training) {
  if (!training.stage.empty())
    line("stage " + training.stage + ": until step " + std::to_string(training.until));
  if (!training.phases.empty())
    line("training: sequences of " + std::to_string(training.seqLen) + " tokens, global batch " +
         std::to_string(training.globalBatch) + ", " + std::to_string(training.numIterations) +
         " steps, vocabulary " + std::to_string(training.vocabSize));
  for (size_t i = 0; i < training.phases.size(); ++i) {
    const StepPrograms &phase = training.phases[i];
    std::string text = "  a step";
    if (training.phases.size() > 1)
      text = "  step " + std::to_string(i) + " of " + std::to_string(training.phases.size());
    const char *separator = ": ";
    for (auto [role, name] : {std::pair("first ", &phase.first), std::pair("next ", &phase.next),
                              std::pair("last ", &phase.last), std::pair("update ", &phase.update)})
      if (!name->empty())
        text += std::exchange(separator, ", ") + (role + *name);
    line(text + otherFields(phase, {"first", "next", "last", "update"}));
  }
  for (const Report &report : training.reports) {
    std::string text = "  reports " + report.name + ": " + nameOf(report.kind) + " of " +
                       (report.eachStep ? "a step" : "micro-batches") + ", in " +
                       plan.buffers[report.buffer].name;
    if (report.offset)
      text += "+" + std::to_string(report.offset);
    for (size_t i = 0; i < report.phases.size(); ++i)
      text += (i ? ", " : ", phases ") + std::to_string(report.phases[i]);
    line(text + otherFields(report, {"name", "kind", "buffer", "offset", "eachStep", "phases"}));
  }
  for (const Event &event : training.events)
    line("  after " +
         (event.step < 0 ? std::string("every step") : "step " + std::to_string(event.step)) +
         ": " + event.program + otherFields(event, {"program", "step"}));
  if (!training.validate.empty())
    line("validation: " + training.validate + ", sequences of " +
         std::to_string(training.valSeqLen) + " tokens");
  if (const Documents &documents = training.documents; documents != Documents())
    line("documents: " + std::string(nameOf(documents.rule)) +
         (documents.longest.empty() ? "" : ", limited by " + documents.longest) +
         (documents.shuffle ? ", shuffled" : "") +
         otherFields(documents, {"rule", "longest", "shuffle"}));
  for (auto [who, columns] :
       {std::pair("training", &training.columns), std::pair("validation", &training.valColumns)})
    for (const Column &column : *columns)
      line(std::string("column: ") + column.name + " " + nameOf(column.type) + " of " +
           (column.ofTarget ? "targets" : "inputs") + ", read by " + who +
           otherFields(column, {"name", "type", "ofTarget"}));
  if (!training.generate.empty())
    line("sampling: " + training.generate + ", sequences of " + std::to_string(training.genSeqLen) +
         " tokens" + (training.decode.empty() ? "" : ", token by token: " + training.decode));
  for (const ScaledWeight &weight : training.scaledWeights)
    line("FP8 products: " + weight.name + ", " + weight.recipe + " scaling" +
         otherFields(weight, {"name", "recipe"}));
  for (const IndexChecks *checks :
       {&training.checks, &training.valChecks, &training.genChecks, &training.decodeChecks})
    for (const IndexChecks::Check &check : checks->list)
      line("checked: indices of " + check.kind + " below " + std::to_string(check.bound) + ", in " +
           plan.buffers[checks->buffer].name + place(check.location));
  const std::string others = otherFields(
      training,
      {"stage",     "until",      "phases",    "seqLen",      "globalBatch", "numIterations",
       "vocabSize", "reports",    "events",    "validate",    "valSeqLen",   "documents",
       "columns",   "valColumns", "generate",  "genSeqLen",   "decode",      "scaledWeights",
       "checks",    "valChecks",  "genChecks", "decodeChecks"});
  if (!others.empty())
    line("other: " + others.substr(2));
}

} // namespace

std::string describe(std::span<const Plan> variants) {
  std::string text = Describer(variants.front()).common(planHash(variants));
  for (const Plan &plan : variants)
    text += Describer(plan).variant();
  return text;
}

std::string describe(const Plan &plan) { return describe(std::span(&plan, 1)); }

} // namespace nano::plan
