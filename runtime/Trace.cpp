// Spans of commands as trace events.
#include "runtime/Trace.h"

#include "runtime/Times.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace nano {
namespace {

using nlohmann::ordered_json;
using plan::Command;
using plan::CommandWork;
using plan::DType;

/// Sums over the commands of one kernel, or of one kind.
struct Sums {
  int64_t runs = 0;
  double seconds = 0, floor = 0, bytes = 0, flops = 0;
  double joules = 0, floorJoules = 0, secondsAlone = 0;
};

using Costs = std::unordered_map<const Command *, CommandCost>;

Costs byCommand(const std::vector<CommandCost> &costs) {
  Costs found;
  for (const CommandCost &each : costs)
    found[each.command] = each;
  return found;
}

/// Of operations on some types: how many a second, and joules of one.
struct TypeRates {
  double flops = 0, joules = 0;
};

/// Of the trace's "kernels": a launch's kernel, a product's shape, else the kind.
std::string groupOf(const plan::Plan &plan, const Command &command) {
  if (const auto *launch = command.as<plan::Launch>())
    return plan.kernels[launch->kernel].name;
  const auto *matmul = command.as<plan::Matmul>();
  if (!matmul)
    return nameOf(command.action);
  std::string batch = matmul->batch > 1 ? fmt::format(" batch {}", matmul->batch) : "";
  return fmt::format("matmul {}x{}x{}{} {}{}*{}{}->{}", matmul->m, matmul->n, matmul->k, batch,
                     plan::nameOf(matmul->aType), matmul->transposeA ? "T" : "",
                     plan::nameOf(matmul->bType), matmul->transposeB ? "T" : "",
                     plan::nameOf(matmul->cType));
}

TypeRates rateOf(const plan::Plan &plan, const Command &command, const DeviceRates &rates) {
  DType a = DType::F32, b = DType::F32;
  if (const auto *matmul = command.as<plan::Matmul>()) {
    a = matmul->aType;
    b = matmul->bType;
  } else if (const auto *launch = command.as<plan::Launch>()) {
    a = b = plan.kernels[launch->kernel].flopsType;
  }
  if (plan::isFloat8(a) && plan::isFloat8(b))
    return {rates.f8Flops, rates.f8Joules};
  if (a == DType::F32 || b == DType::F32)
    return {rates.f32Flops, rates.f32Joules};
  return {rates.bf16Flops, rates.bf16Joules};
}

/// With the operations that the data decided.
CommandWork workOf(const plan::Plan &plan, const CommandSpan &span) {
  CommandWork work = workOf(plan, *span.command);
  work.flops += span.flops;
  return work;
}

ordered_json argumentsOf(const plan::Plan &plan, const CommandSpan &span,
                         const std::optional<DeviceRates> &rates, const Costs &costs) {
  const Command &command = *span.command;
  ordered_json args = ordered_json::object();
  if (command.location.line)
    args["at"] = fmt::format("{}:{}", command.location.file, command.location.line);
  if (const auto *launch = command.as<plan::Launch>()) {
    const plan::Kernel &kernel = plan.kernels[launch->kernel];
    args["kernel"] = kernel.name;
    args["summary"] = kernel.summary;
    std::string lines;
    for (const plan::Location &location : kernel.locations)
      lines += fmt::format("{}{}:{}", lines.empty() ? "" : ", ", location.file, location.line);
    if (!lines.empty())
      args["at"] = lines;
  }
  if (const auto *matmul = command.as<plan::Matmul>())
    args["shape"] = {matmul->m, matmul->n, matmul->k, matmul->batch};
  CommandWork work = workOf(plan, span);
  args["bytes"] = work.bytes;
  args["flops"] = work.flops;
  if (rates) {
    double floor = floorOf(plan, span, *rates);
    args["floor_us"] = 1e6 * floor;
    args["gap_us"] = 1e6 * (span.seconds - floor);
    if (span.seconds > 0)
      args["of_floor"] = floor / span.seconds;
  }
  if (auto cost = costs.find(&command); cost != costs.end()) {
    args["alone_us"] = 1e6 * cost->second.seconds;
    args["mj"] = 1e3 * cost->second.joules;
    if (rates)
      args["floor_mj"] = 1e3 * floorJoulesOf(plan, span, *rates);
  }
  return args;
}

} // namespace

double floorOf(const plan::Plan &plan, const CommandSpan &span, const DeviceRates &rates) {
  const CommandWork work = workOf(plan, span);
  double floor = rates.copyBytes > 0 ? work.bytes / rates.copyBytes : 0;
  if (work.flops > 0)
    if (double rate = rateOf(plan, *span.command, rates).flops; rate > 0)
      floor = std::max(floor, work.flops / rate);
  return floor;
}

double floorJoulesOf(const plan::Plan &plan, const CommandSpan &span, const DeviceRates &rates) {
  const CommandWork work = workOf(plan, span);
  return std::max(work.bytes * rates.copyJoules,
                  work.flops * rateOf(plan, *span.command, rates).joules);
}

std::vector<std::string> wastes(const plan::Plan &plan, const std::vector<CommandSpan> &spans,
                                const std::vector<CommandCost> &costs, const DeviceRates &rates) {
  constexpr size_t most = 10;
  const Costs found = byCommand(costs);
  std::map<std::string, Sums> groups;
  Sums all;
  for (const CommandSpan &span : spans) {
    const auto cost = found.find(span.command);
    if (cost == found.end())
      continue;
    for (Sums *sums : {&all, &groups[groupOf(plan, *span.command)]}) {
      ++sums->runs;
      sums->joules += cost->second.joules;
      sums->secondsAlone += cost->second.seconds;
      sums->floorJoules += floorJoulesOf(plan, span, rates);
    }
  }
  std::vector<std::pair<std::string, Sums>> order(groups.begin(), groups.end());
  std::stable_sort(order.begin(), order.end(), [](const auto &a, const auto &b) {
    return a.second.joules - a.second.floorJoules > b.second.joules - b.second.floorJoules;
  });
  std::vector<std::string> lines = {
      fmt::format("{:.2f} J in the commands of a step, each by itself, {:.2f} J by their bytes and "
                  "operations; furthest above:",
                  all.joules, all.floorJoules)};
  for (const auto &[name, sums] : order) {
    if (lines.size() > most || sums.joules <= sums.floorJoules)
      break;
    lines.push_back(fmt::format("  {:.3f} J more than {:.3f}: {} x {:.1f} us at {:.0f} W, {}",
                                sums.joules - sums.floorJoules, sums.floorJoules, sums.runs,
                                1e6 * sums.secondsAlone / double(sums.runs),
                                sums.secondsAlone > 0 ? sums.joules / sums.secondsAlone : 0, name));
  }
  return lines;
}

std::string traceText(const plan::Plan &plan, const std::string &planHash,
                      const std::string &device, int64_t step,
                      const std::vector<std::vector<CommandSpan>> &ranks,
                      const std::optional<DeviceRates> &rates,
                      const std::vector<CommandCost> &costs) {
  const Costs found = byCommand(costs);
  std::unordered_map<const Command *, const plan::Program *> programs;
  uint32_t streams = 1;
  for (const plan::Program &program : plan.programs) {
    streams = std::max(streams, program.streams);
    for (const Command &command : program.commands)
      programs[&command] = &program;
  }
  ordered_json events = ordered_json::array();
  auto name = [&](const char *what, size_t rank, uint32_t stream, const std::string &text) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", stream}, {"args", {{"name", text}}}});
  };
  double origin = std::numeric_limits<double>::infinity();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    name("process_name", rank, 0, fmt::format("rank {}", rank));
    for (uint32_t stream = 0; stream < streams; ++stream)
      name("thread_name", rank, stream, plan::nameOfStream(stream));
    for (const CommandSpan &span : ranks[rank])
      origin = std::min(origin, span.start);
  }
  Sums all;
  std::vector<std::pair<std::string, Sums>> groups;
  std::unordered_map<std::string, size_t> groupIndex;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const CommandSpan &span : ranks[rank]) {
      const Command &command = *span.command;
      std::string group = groupOf(plan, command);
      ordered_json args = {{"program", programs.at(&command)->name}};
      args.update(argumentsOf(plan, span, rates, found));
      events.push_back({{"name", command.label.empty() ? group : command.label},
                        {"cat", nameOf(command.action)},
                        {"ph", "X"},
                        {"ts", 1e6 * (span.start - origin)},
                        {"dur", 1e6 * span.seconds},
                        {"pid", rank},
                        {"tid", command.stream},
                        {"args", std::move(args)}});
      if (rank > 0)
        continue;
      const CommandWork work = workOf(plan, span);
      auto [entry, isNew] = groupIndex.emplace(group, groups.size());
      if (isNew)
        groups.emplace_back(group, Sums());
      for (Sums *sums : {&all, &groups[entry->second].second}) {
        ++sums->runs;
        sums->seconds += span.seconds;
        sums->floor += rates ? floorOf(plan, span, *rates) : 0;
        sums->bytes += work.bytes;
        sums->flops += work.flops;
        if (auto cost = found.find(&command); cost != found.end()) {
          sums->joules += cost->second.joules;
          sums->floorJoules += rates ? floorJoulesOf(plan, span, *rates) : 0;
        }
      }
    }
  std::stable_sort(groups.begin(), groups.end(), [](const auto &a, const auto &b) {
    return a.second.seconds - a.second.floor > b.second.seconds - b.second.floor;
  });
  auto put = [&](ordered_json &json, const Sums &sums) {
    json["runs"] = sums.runs;
    json["us"] = 1e6 * sums.seconds;
    if (rates) {
      json["floor_us"] = 1e6 * sums.floor;
      json["gap_us"] = 1e6 * (sums.seconds - sums.floor);
    }
    if (!costs.empty()) {
      json["mj"] = 1e3 * sums.joules;
      json["floor_mj"] = 1e3 * sums.floorJoules;
    }
    json["bytes"] = sums.bytes;
    json["flops"] = sums.flops;
  };
  ordered_json kernels = ordered_json::array();
  for (const auto &[name, sums] : groups) {
    ordered_json entry = {{"name", name}};
    put(entry, sums);
    kernels.push_back(std::move(entry));
  }
  ordered_json other = {{"model", plan.model},
                        {"plan_hash", planHash},
                        {"device", device},
                        {"step", step},
                        {"world", ranks.size()}};
  if (rates)
    other["rates"] = {{"copy_bytes", rates->copyBytes},
                      {"f32_flops", rates->f32Flops},
                      {"bf16_flops", rates->bf16Flops},
                      {"f8_flops", rates->f8Flops}};
  if (rates && rates->copyJoules > 0)
    other["joules"] = {{"copy_byte", rates->copyJoules},
                       {"f32_flop", rates->f32Joules},
                       {"bf16_flop", rates->bf16Joules},
                       {"f8_flop", rates->f8Joules}};
  put(other, all);
  ordered_json trace = {{"displayTimeUnit", "ms"},
                        {"otherData", std::move(other)},
                        {"kernels", std::move(kernels)},
                        {"traceEvents", std::move(events)}};
  return trace.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace nano
