// Writes the texts of a plan file as JSON, compactly: ten thousand commands must parse in
// milliseconds.
#include "runtime/plan/Expr.h"
#include "runtime/plan/InterchangeJson.h"
#include "runtime/plan/PlanJson.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <unordered_map>

namespace nano::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// JSON has no infinities and no NaN: those are strings.
Json number(double value) {
  if (std::isfinite(value))
    return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json numbers(const std::vector<double> &values) {
  Json list = Json::array();
  for (double value : values)
    list.push_back(number(value));
  return list;
}

Json toJson(const Expr &expr) {
  if (expr.kind == Expr::Kind::Constant)
    return number(expr.constant);
  if (expr.kind == Expr::Kind::Variable)
    return expr.variable;
  Json list = Json::array({nameOf(expr.kind)});
  for (const Expr &operand : expr.operands)
    list.push_back(toJson(operand));
  return list;
}

void append(Json &list, const Ref &ref) {
  list.push_back(ref.buffer);
  list.push_back(ref.offset);
  list.push_back(unsigned(ref.read) + 2 * unsigned(ref.written));
  list.push_back(ref.bytes);
}

Json toJson(const Ref &ref) {
  Json list = Json::array();
  append(list, ref);
  return list;
}

Json toJson(const Init &init) {
  switch (init.kind) {
  case Init::Kind::Constant:
    return {{"constant", numbers(init.values)}};
  case Init::Kind::Normal:
    return {{"normal", {number(init.mean), number(init.stddev)}}};
  case Init::Kind::Uniform:
    return {{"uniform", {number(init.low), number(init.high)}}};
  case Init::Kind::Sign:
    return {{"sign", numbers(init.values)}};
  case Init::Kind::Data:
    return {{"data", init.offset}};
  case Init::Kind::Copy:
    return {{"copy", init.source}};
  case Init::Kind::Transpose:
    return {{"transpose", init.source}};
  case Init::Kind::Blocks: {
    Json list = Json::array();
    for (size_t i = 0; i < init.parts.size(); ++i)
      list.push_back({init.counts[i], toJson(init.parts[i])});
    return {{"blocks", std::move(list)}};
  }
  }
  return {};
}

Json toJson(const Sharding &sharding) {
  Json pieces = Json::array();
  for (const Sharding::Piece &piece : sharding.pieces)
    pieces.push_back({{"name", piece.name}, {"shape", piece.shape}, {"offset", piece.offset}});
  return {{"ranks", nameOf(sharding.ranks)},
          {"parts", sharding.parts},
          {"chunk", sharding.chunk},
          {"pieces", std::move(pieces)}};
}

const char *nameOf(State::Role role) {
  static constexpr const char *names[] = {"parameter", "optimizer", "gradient", "constant"};
  return names[size_t(role)];
}

class Writer {
public:
  std::string common(std::span<const Plan> variants);
  std::string variant(const Plan &plan);

private:
  void key(const char *name) {
    out += out.empty() ? "{\n\"" : ",\n\"";
    out += name;
    out += "\":";
  }
  void value(const char *name, const Json &json) {
    key(name);
    out += text(json);
  }
  /// A list with one item a line.
  template <typename Items, typename Fn> void lines(const Items &items, Fn toJson) {
    out += '[';
    const char *separator = "\n ";
    for (const auto &item : items) {
      out += separator;
      out += text(toJson(item));
      separator = ",\n ";
    }
    out += ']';
  }

  /// Files are named once; a location is [file, line].
  void at(Json &object, const Location &location) {
    if (location.line == 0 && location.file.empty())
      return;
    Json list = Json::array();
    append(list, location);
    object["at"] = std::move(list);
  }
  void append(Json &list, const Location &location) {
    auto [entry, isNew] = fileIndex.emplace(location.file, fileIndex.size());
    if (isNew)
      files.push_back(location.file);
    list.push_back(entry->second);
    list.push_back(location.line);
  }

  Json buffer(const Buffer &buffer);
  Json state(const State &state);
  Json kernel(const Kernel &kernel);
  Json command(const Command &command);
  void program(const Program &program);
  Json checks(const IndexChecks &checks);
  static Json columns(const std::vector<Column> &columns);
  Json training(const Training &training);
  std::string end();

  std::string out;
  std::unordered_map<std::string, size_t> fileIndex;
  Json files = Json::array();
};

Json Writer::buffer(const Buffer &buffer) {
  Json json = {{"name", buffer.name},
               {"offset", buffer.offset},
               {"bytes", buffer.bytes},
               {"type", nameOf(buffer.type)},
               {"shape", buffer.shape}};
  at(json, buffer.location);
  return json;
}

Json Writer::state(const State &state) {
  Json json = {{"name", state.name},   {"role", nameOf(state.role)}, {"type", nameOf(state.type)},
               {"shape", state.shape}, {"buffer", state.buffer},     {"init", toJson(state.init)}};
  if (state.sharding)
    json["sharding"] = toJson(*state.sharding);
  if (!state.optimizer.empty())
    json["optimizer"] = state.optimizer;
  if (state.learningRate != 0)
    json["learningRate"] = number(state.learningRate);
  at(json, state.location);
  return json;
}

Json Writer::kernel(const Kernel &kernel) {
  Json json = {
      {"name", kernel.name}, {"summary", kernel.summary}, {"scratch", kernel.scratchBytes}};
  if (kernel.flops != 0)
    json["flops"] = number(kernel.flops);
  if (kernel.flopsPerKey != 0)
    json["flopsPerKey"] = number(kernel.flopsPerKey);
  Json list = Json::array();
  for (const Location &location : kernel.locations)
    append(list, location);
  json["at"] = std::move(list);
  if (!kernel.source.empty()) {
    json["source"] = kernel.source;
    json["block"] = {kernel.threads, kernel.iterationsPerBlock, kernel.sharedBytes,
                     kernel.maxSegments};
  }
  if (kernel.clusterBlocks != 1)
    json["cluster"] = kernel.clusterBlocks;
  Json maps = Json::array();
  for (const TensorMap &map : kernel.tensorMaps)
    maps.push_back({map.argument, nameOf(map.type), map.columns, map.rows, map.rowBytes,
                    map.boxColumns, map.boxRows, map.swizzleBytes});
  if (!maps.empty())
    json["maps"] = std::move(maps);
  Json reaches = Json::array();
  for (const Kernel::Reach &reach : kernel.reaches) {
    Json each = {reach.iterations};
    for (uint64_t bytes : reach.bytes)
      each.push_back(bytes);
    reaches.push_back(std::move(each));
  }
  json["reaches"] = std::move(reaches);
  return json;
}

Json Writer::command(const Command &command) {
  using Kind = Command::Kind;
  Json json = Json::object();
  auto moves = [&](const char *kind) {
    json[kind] = nameOf(command.type);
    if (command.ranks != Ranks::All)
      json["ranks"] = nameOf(command.ranks);
    if (command.maximum)
      json["maximum"] = true;
    Json list = Json::array();
    for (const Ref &ref : command.refs)
      nano::plan::append(list, ref);
    json["refs"] = std::move(list);
    json["counts"] = command.counts;
  };
  switch (command.kind) {
  case Kind::Launch: {
    json["launch"] = command.kernel;
    Json segments = Json::array();
    for (const Command::Segment &segment : command.segments) {
      Json list = Json::array({segment.iterations, segment.grain});
      for (const Ref &ref : segment.args)
        nano::plan::append(list, ref);
      segments.push_back(std::move(list));
    }
    json["segments"] = std::move(segments);
    break;
  }
  case Kind::Matmul:
    json["matmul"] = {command.m, command.n, command.k, command.batch};
    json["types"] = {nameOf(command.aType), nameOf(command.bType), nameOf(command.cType)};
    if (command.transposeA || command.transposeB)
      json["transpose"] = {command.transposeA, command.transposeB};
    json["ld"] = {command.lda, command.ldb, command.ldc, command.ldd};
    if (command.strideA || command.strideB || command.strideC || command.strideD)
      json["stride"] = {command.strideA, command.strideB, command.strideC, command.strideD};
    if (command.alpha != 1 || command.beta != 0)
      json["scale"] = {number(command.alpha), number(command.beta)};
    json["a"] = toJson(command.a);
    json["b"] = toJson(command.b);
    json["c"] = toJson(command.c);
    if (command.beta != 0)
      json["d"] = toJson(command.d);
    if (command.scaled) {
      json["scaleA"] = toJson(command.scaleA);
      json["scaleB"] = toJson(command.scaleB);
      if (command.scaleBlock)
        json["scaleBlocks"] = {command.scaleBlock,       command.scaleRowsA,
                               command.scaleRowsB,       command.scaleStridesA[0],
                               command.scaleStridesA[1], command.scaleStridesB[0],
                               command.scaleStridesB[1]};
    }
    break;
  case Kind::AllReduce:
    moves("allReduce");
    break;
  case Kind::ReduceScatter:
    moves("reduceScatter");
    break;
  case Kind::AllGather:
    moves("allGather");
    break;
  case Kind::Shard:
    moves("shard");
    break;
  case Kind::Fill:
    moves("fill");
    break;
  case Kind::Copy:
    moves("copy");
    break;
  case Kind::RecordEvent:
    json["record"] = command.event;
    break;
  case Kind::WaitEvent:
    json["wait"] = command.event;
    break;
  }
  if (command.stream)
    json["stream"] = command.stream;
  if (!command.label.empty())
    json["label"] = command.label;
  at(json, command.location);
  return json;
}

void Writer::program(const Program &program) {
  out += "{\"name\":" + text(program.name) + ",\"streams\":" + std::to_string(program.streams) +
         ",\"events\":" + std::to_string(program.events) + ",\"commands\":";
  lines(program.commands, [&](const Command &item) { return command(item); });
  out += '}';
}

Json Writer::checks(const IndexChecks &checks) {
  Json list = Json::array();
  for (const IndexChecks::Check &check : checks.list) {
    Json item = {{"kind", check.kind}, {"bound", check.bound}};
    at(item, check.location);
    list.push_back(std::move(item));
  }
  return {{"buffer", checks.buffer}, {"list", std::move(list)}};
}

Json Writer::columns(const std::vector<Column> &columns) {
  Json list = Json::array();
  for (const Column &column : columns)
    list.push_back({{"name", column.name},
                    {"type", nameOf(column.type)},
                    {"ofTarget", column.ofTarget},
                    {"buffer", column.buffer}});
  return list;
}

/// What a report says where it is not as most are: of a mean, of each micro-batch, in every phase.
Json reportOf(const Report &report) {
  Json item{{"name", report.name}, {"kind", nameOf(report.kind)}, {"buffer", report.buffer}};
  if (report.offset)
    item.push_back({"offset", report.offset});
  if (!report.edges.empty())
    item.push_back({"edges", report.edges});
  if (report.eachStep)
    item.push_back({"eachStep", true});
  if (!report.phases.empty())
    item.push_back({"phases", report.phases});
  return item;
}

Json Writer::training(const Training &training) {
  Json phases = Json::array();
  for (const StepPrograms &phase : training.phases)
    phases.push_back({{"first", phase.first},
                      {"next", phase.next},
                      {"last", phase.last},
                      {"update", phase.update}});
  Json object{{"phases", std::move(phases)},
              {"validate", training.validate},
              {"seqLen", training.seqLen},
              {"valSeqLen", training.valSeqLen},
              {"globalBatch", training.globalBatch},
              {"numIterations", training.numIterations},
              {"vocabSize", training.vocabSize},
              {"eosToken", training.eosToken},
              {"tokensBuffer", training.tokensBuffer},
              {"targetsBuffer", training.targetsBuffer},
              {"valTokensBuffer", training.valTokensBuffer},
              {"valTargetsBuffer", training.valTargetsBuffer},
              {"lossBuffer", training.lossBuffer},
              {"valLossBuffer", training.valLossBuffer},
              {"trainLossIsSum", training.trainLossIsSum},
              {"valLossIsSum", training.valLossIsSum},
              {"generate", training.generate},
              {"genSeqLen", training.genSeqLen},
              {"logitsColumns", training.logitsColumns},
              {"genTokensBuffer", training.genTokensBuffer},
              {"logitsBuffer", training.logitsBuffer},
              {"logScalar", training.logScalar}};
  if (!training.stage.empty()) {
    object.push_back({"stage", training.stage});
    object.push_back({"until", training.until});
  }
  if (!training.events.empty()) {
    Json list = Json::array();
    for (const Event &event : training.events)
      list.push_back({{"program", event.program}, {"step", event.step}});
    object.push_back({"events", std::move(list)});
  }
  for (auto [name, list] :
       {std::pair("checks", &training.checks), std::pair("valChecks", &training.valChecks),
        std::pair("genChecks", &training.genChecks)})
    if (!list->list.empty())
      object.push_back({name, checks(*list)});
  for (auto [name, list] :
       {std::pair("columns", &training.columns), std::pair("valColumns", &training.valColumns)})
    if (!list->empty())
      object.push_back({name, columns(*list)});
  if (const Documents &documents = training.documents; documents != Documents())
    object.push_back({"documents", Json{{"rule", nameOf(documents.rule)},
                                        {"longest", documents.longest},
                                        {"shuffle", documents.shuffle}}});
  if (!training.reports.empty()) {
    Json list = Json::array();
    for (const Report &report : training.reports)
      list.push_back(reportOf(report));
    object.push_back({"reports", std::move(list)});
  }
  if (training.measure.empty())
    return object;
  object.push_back({"measure", training.measure});
  object.push_back({"reportBuffer", training.reportBuffer});
  Json weights = Json::array();
  for (const ScaledWeight &weight : training.scaledWeights)
    weights.push_back({{"name", weight.name}, {"recipe", weight.recipe}});
  object.push_back({"scaledWeights", weights});
  return object;
}

std::string Writer::common(std::span<const Plan> variants) {
  const Plan &plan = variants.front();
  value("model", plan.model);
  value("target", plan.target);
  Json worlds = Json::array();
  for (const Plan &variant : variants)
    worlds.push_back(variant.worlds);
  value("variants", worlds);
  value("cpuFeatures", plan.cpuFeatures);
  key("hyperparameters");
  lines(plan.hyperparameters, [](const Hyperparameter &item) {
    return Json{{"name", item.name}, {"value", item.value}, {"overridden", item.overridden}};
  });
  if (plan.interchange != Interchange())
    value("interchange", toJson(plan.interchange));
  key("kernels");
  lines(plan.kernels, [&](const Kernel &item) { return kernel(item); });
  if (!plan.sources.empty()) {
    key("sources");
    lines(plan.sources,
          [](const Source &item) { return Json{{"name", item.name}, {"text", item.text}}; });
  }
  return end();
}

std::string Writer::variant(const Plan &plan) {
  value("group", plan.group);
  value("arenaBytes", plan.arenaBytes);
  key("buffers");
  lines(plan.buffers, [&](const Buffer &item) { return buffer(item); });
  key("states");
  lines(plan.states, [&](const State &item) { return state(item); });
  value("scalarBuffer", plan.scalarBuffer);
  key("scalars");
  lines(plan.scalars, [](const Scalar &item) {
    return Json{{"name", item.name},
                {"type", nameOf(item.type)},
                {"offset", item.offset},
                {"value", toJson(item.value)}};
  });
  key("programs");
  out += '[';
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    out += i ? ",\n" : "\n";
    program(plan.programs[i]);
  }
  out += ']';
  value("training", training(plan.training));
  if (!plan.laterStages.empty()) {
    key("laterStages");
    lines(plan.laterStages, [&](const Training &item) { return training(item); });
  }
  return end();
}

std::string Writer::end() {
  value("files", files);
  out += "\n}\n";
  return std::move(out);
}

} // namespace

std::string commonText(std::span<const Plan> variants) { return Writer().common(variants); }

std::string variantText(const Plan &plan) { return Writer().variant(plan); }

} // namespace nano::plan
