// The machine-readable log.
#include "runtime/Log.h"

#include "base/JsonDepth.h"
#include "runtime/Version.h"
#include "runtime/plan/PlanFile.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace nano {

namespace {

using nlohmann::ordered_json;

/// Text that names devices and models may hold any bytes; a log line is valid UTF-8 all the same.
std::string toText(const ordered_json &value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Hyperparameters are text in the plan; those that are numbers are numbers in the log.
ordered_json jsonOf(const std::string &text) {
  if (nestsTooDeep(text))
    return text;
  ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_number() || value.is_boolean() ? value : ordered_json(text);
}

} // namespace

Result<Log> Log::open(const std::string &path, bool append) {
  Result<OutputFile> opened = OutputFile::grow(path, append);
  if (!opened)
    return badInput("--log " + opened.error().message);
  Log log;
  log.file = std::move(*opened);
  return log;
}

Status Log::write(const std::string &line) { return file ? file->append(line + "\n") : ok(); }

Status Log::run(const plan::Plan &plan, const RunFacts &facts) {
  ordered_json hyperparameters = ordered_json::object();
  for (const plan::Hyperparameter &h : plan.hyperparameters)
    hyperparameters.push_back({h.name, jsonOf(h.value)});
  ordered_json deviceFacts = ordered_json::object();
  for (const auto &[name, value] : facts.deviceFacts)
    deviceFacts.push_back({name, jsonOf(value)});
  int64_t parameters = 0;
  for (const plan::State &state : plan.states) {
    int64_t elements = state.role == plan::State::Role::Parameter ? 1 : 0;
    for (int64_t size : state.shape)
      elements *= size;
    parameters += elements;
  }
  ordered_json entry({{"event", "run"},
                      {"plan_hash", facts.planHash},
                      {"model", plan.model},
                      {"target", plan.target},
                      {"world", facts.world},
                      {"device", facts.device},
                      {"versions", {{"nanorun", version}, {"plan_format", plan::planVersion}}},
                      {"seed", facts.seed},
                      {"first_step", facts.firstStep},
                      {"steps", facts.steps},
                      {"seq_len", plan.training.seqLen},
                      {"global_batch", plan.training.globalBatch},
                      {"vocab_size", plan.training.vocabSize},
                      {"parameters", parameters},
                      {"hyperparameters", hyperparameters},
                      {"device_facts", deviceFacts}});
  for (const plan::Training *stage : plan::stagesOf(plan))
    if (!stage->stage.empty())
      entry["stages"].push_back({{"stage", stage->stage},
                                 {"until", stage->until},
                                 {"seq_len", stage->seqLen},
                                 {"global_batch", stage->globalBatch}});
  if (facts.energy.missing.empty())
    entry["energy"] = {{"counter", facts.energy.counter}, {"devices", facts.energy.devices}};
  else
    entry["energy"] = {{"missing", facts.energy.missing}};
  return write(toText(entry));
}

Status Log::step(const StepFacts &facts) {
  ordered_json entry({{"event", "step"},
                      {"step", facts.step},
                      {"train_loss", facts.loss},
                      {"step_ms", facts.milliseconds},
                      {"tokens", facts.tokens},
                      {"lr", facts.learningRate},
                      {"total_tokens", facts.totalTokens}});
  if (!facts.stage.empty())
    entry["stage"] = facts.stage;
  return write(toText(entry));
}

Status Log::reports(int64_t step, const std::vector<ReportFacts> &facts) {
  ordered_json all = ordered_json::object();
  for (const ReportFacts &each : facts) {
    const double elements = each.elements();
    all.push_back({each.report->name, each.value});
    if (each.report->kind == plan::Report::Kind::Histogram)
      all.back() = {{"edges", each.report->edges}, {"counts", each.counts},
                    {"min", each.least},           {"max", each.most},
                    {"mean", each.sum / elements}, {"norm", std::sqrt(each.squares)}};
  }
  return write(toText({{"event", "reports"}, {"step", step}, {"reports", all}}));
}

Status Log::energy(const EnergyFacts &facts) {
  return write(toText({{"event", "energy"},
                       {"first_step", facts.first},
                       {"step", facts.last},
                       {"joules", facts.joules},
                       {"seconds", facts.seconds}}));
}

Status Log::validation(int64_t step, double loss, uint64_t tokens) {
  return write(
      toText({{"event", "val"}, {"step", step}, {"val_loss", loss}, {"val_tokens", tokens}}));
}

Status Log::fp8(int64_t step, const std::vector<ScaledWeightFacts> &facts) {
  ordered_json products = ordered_json::array();
  for (const ScaledWeightFacts &row : facts) {
    ordered_json product{{"product", row.weight->name}, {"recipe", row.weight->recipe}};
    for (size_t k = 0; k < conversionNames.size(); ++k) {
      const ConversionFacts &seen = row.conversions[k];
      product[conversionNames[k]] = {{"amax", seen.amax},
                                     {"scale", seen.scale},
                                     {"saturated", seen.cut},
                                     {"flushed", seen.lost}};
    }
    for (size_t k = 0; k < errorNames.size(); ++k)
      product["error"][errorNames[k]] = row.errors[k];
    products.push_back(product);
  }
  return write(toText({{"event", "fp8"}, {"step", step}, {"products", products}}));
}

Status Log::start(const Phases::Times &times) {
  ordered_json parts = ordered_json::object();
  for (const auto &[name, milliseconds] : times)
    parts[name] = std::round(100 * milliseconds) / 100;
  return write(toText({{"event", "start"}, {"ms", parts}}));
}

Status Log::checkpoint(int64_t step, const std::string &path) {
  return write(toText({{"event", "checkpoint"}, {"step", step}, {"path", path}}));
}

Status Log::end(int64_t step, const std::string &reason) {
  return write(toText({{"event", "end"}, {"step", step}, {"reason", reason}}));
}

} // namespace nano
