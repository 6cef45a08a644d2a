// Reads logs line by line and traces event by event.
#include "compiler/explore/RunFiles.h"

#include "base/InputFile.h"
#include "compiler/explore/Json.h"
#include "ir/machine/JsonFile.h"

#include "llvm/Support/Error.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace nano::explore {
namespace {

using llvm::StringRef;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

constexpr InputKind logFile = {"a log", 1024 * input::mebibyte, "nanorun --log writes one"};
constexpr InputKind traceFile = {"a trace", 1024 * input::mebibyte, "nanorun --profile writes one"};

/// Numbers by step; a later one of a step takes the earlier one's place.
using Series = std::map<int64_t, double>;

/// {"steps": […], "values": […]}
Object seriesJson(const Series &series) {
  Array steps, values;
  for (auto [step, value] : series) {
    steps.push_back(step);
    values.push_back(std::isfinite(value) ? Value(value) : Value(nullptr));
  }
  return Object{{"steps", std::move(steps)}, {"values", std::move(values)}};
}

Object allJson(const std::map<std::string, Series> &all) {
  Object object;
  for (const auto &[name, series] : all)
    object[name] = seriesJson(series);
  return object;
}

class LogReader {
public:
  explicit LogReader(const std::string &path) : path(path) {}

  Result<Value> read() {
    Result<std::string> text = readInput(path, logFile);
    if (!text)
      return text.error();
    StringRef rest = *text;
    for (size_t number = 1; !rest.empty(); ++number) {
      auto [line, behind] = rest.split('\n');
      // A run that was killed may have left a part of its last line.
      const bool isCut = behind.empty() && !rest.ends_with("\n");
      rest = behind;
      if (line.trim().empty())
        continue;
      llvm::Expected<Value> value = machine::parseJson(line);
      if (!value) {
        const std::string what = llvm::toString(value.takeError());
        if (isCut && run)
          break;
        return wrong(number, "is not JSON: " + what);
      }
      const Object *event = value->getAsObject();
      const std::optional<StringRef> kind = event ? event->getString("event") : std::nullopt;
      if (!kind)
        return wrong(number, "is no line of nanorun --log: it has no \"event\"");
      if (!run && *kind != "run")
        return wrong(number, "a log of nanorun --log begins with its run");
      if (Status status = take(number, *kind, *event); !status)
        return status.error();
    }
    if (!run)
      return badInput(path + ": is empty; nanorun --log writes a log");
    return Value(Object{{"file", utf8(path)},
                        {"run", std::move(*run)},
                        {"steps", allJson(steps)},
                        {"vals", allJson(vals)},
                        {"reports", allJson(reports)},
                        {"fp8", std::move(fp8)},
                        {"end", std::move(end)}});
  }

private:
  /// Of one event of energy, which is of two seconds or the longer step.
  static constexpr int64_t mostSteps = 10'000'000;

  Error wrong(size_t line, const std::string &what) const {
    return badInput(fmt::format("{}:{}: {}", path, line, what));
  }

  Status take(size_t line, StringRef kind, const Object &event) {
    if (kind == "run") {
      if (!run) // what a resumed run adds is its own
        run = event;
      return ok();
    }
    if (kind == "end")
      end = Object(event);
    if (kind == "energy")
      return takeEnergy(line, event);
    if (kind != "step" && kind != "val" && kind != "reports" && kind != "fp8")
      return ok();
    const std::optional<int64_t> step = event.getInteger("step");
    if (!step)
      return wrong(line, fmt::format("event {} has no \"step\"", kind.str()));
    if (kind == "fp8") {
      if (const Array *products = event.getArray("products"))
        fp8.push_back(Object{{"step", *step}, {"products", Array(*products)}});
    } else if (kind == "reports") {
      if (const Object *values = event.getObject("reports"))
        for (const auto &[name, value] : *values)
          add(reports, name.str(), *step, value);
    } else {
      for (const auto &[name, value] : event)
        if (name != "event" && name != "step" && name != "stage")
          add(kind == "step" ? steps : vals, name.str(), *step, value);
    }
    return ok();
  }

  /// Joules of several steps, in equal parts.
  Status takeEnergy(size_t line, const Object &event) {
    const std::optional<int64_t> first = event.getInteger("first_step"),
                                 last = event.getInteger("step");
    const std::optional<double> joules = event.getNumber("joules");
    if (!first || !last || !joules || *first < 1 || *first > *last || *last - *first >= mostSteps ||
        !std::isfinite(*joules) || *joules < 0)
      return wrong(line, fmt::format("event energy wants \"first_step\" and \"step\", at most {} "
                                     "steps in order, and \"joules\", a number of 0 or more",
                                     mostSteps));
    for (int64_t step = *first; step <= *last; ++step)
      steps["joules"][step] = *joules / double(*last - *first + 1);
    return ok();
  }

  /// A number, or of a histogram its mean and extremes.
  static void add(std::map<std::string, Series> &all, const std::string &name, int64_t step,
                  const Value &value) {
    if (const std::optional<double> number = value.getAsNumber())
      all[name][step] = *number;
    else if (value.getAsNull())
      all[name][step] = NAN;
    else if (const Object *histogram = value.getAsObject())
      for (const char *part : {"min", "mean", "max"})
        if (const std::optional<double> number = histogram->getNumber(part))
          all[name + " " + part][step] = *number;
  }

  const std::string &path;
  std::optional<Object> run;
  std::map<std::string, Series> steps, vals, reports;
  Array fp8;
  Value end = nullptr;
};

} // namespace

Result<Value> readRunLog(const std::string &path) { return LogReader(path).read(); }

Result<Value> readProfile(const std::string &path, const plan::PlanFile &plans) {
  auto wrong = [&](const std::string &what) { return badInput(path + ": " + what); };
  Result<std::string> text = readInput(path, traceFile);
  if (!text)
    return text.error();
  llvm::Expected<Value> parsed = machine::parseJson(*text);
  if (!parsed)
    return wrong("is not JSON: " + llvm::toString(parsed.takeError()));
  const Object *file = parsed->getAsObject();
  const Object *other = file ? file->getObject("otherData") : nullptr;
  const Array *events = file ? file->getArray("traceEvents") : nullptr;
  const StringRef hash = other ? other->getString("plan_hash").value_or("") : "";
  const std::optional<int64_t> world = other ? other->getInteger("world") : std::nullopt;
  if (!events || hash.empty() || !world)
    return wrong("is not of nanorun --profile");
  if (hash != plans.hash())
    return wrong(fmt::format("is a profile of another plan, {}; this one is {}: profile this one "
                             "with nanorun --profile",
                             hash.str(), plans.hash()));
  Array rows;
  for (const Value &value : *events) {
    const Object *event = value.getAsObject();
    if (!event || event->getString("ph") != "X")
      continue;
    const Object *args = event->getObject("args");
    const std::optional<int64_t> rank = event->getInteger("pid"), stream = event->getInteger("tid");
    const std::optional<double> start = event->getNumber("ts"), taken = event->getNumber("dur");
    if (!args || !rank || !stream || !start || !taken || !std::isfinite(*start) ||
        !std::isfinite(*taken))
      return wrong("has an event without \"args\", \"pid\", \"tid\", \"ts\" or \"dur\"");
    auto textOf = [](const Object &object, StringRef key) {
      return object.getString(key).value_or("").str();
    };
    const std::string at = textOf(*args, "at");
    rows.push_back(Array{*rank, *stream, std::round(1e3 * *start), std::round(1e3 * *taken),
                         textOf(*event, "name"), textOf(*args, "program"),
                         at.substr(0, at.find(", ")), textOf(*args, "kernel")});
  }
  return Value(Object{{"file", utf8(path)},
                      {"world", *world},
                      {"step", other->getInteger("step").value_or(0)},
                      {"device", other->getString("device").value_or("").str()},
                      {"rows", std::move(rows)}});
}

} // namespace nano::explore
