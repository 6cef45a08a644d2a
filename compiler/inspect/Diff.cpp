// Prints what differs between two plans.
#include "compiler/inspect/Diff.h"

#include "compiler/inspect/Compare.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

namespace nano::inspect {
namespace {

/// "12 -> 10", or "12" where that is all.
std::string change(const std::string &a, const std::string &b) {
  return a == b ? a : a + " -> " + b;
}

void print(const char *title, const char *memoryTitle, const std::vector<Row> &rows, int64_t most) {
  if (rows.empty())
    return;
  fmt::print("\n{}\n", title);
  const size_t shown = std::min(rows.size(), size_t(most));
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i)
    width = std::max(width, rows[i].name.size());
  for (size_t i = 0; i < shown; ++i) {
    const Entry &a = rows[i].a, &b = rows[i].b;
    std::vector<std::string> parts;
    auto add = [&](double x, double y, const std::function<std::string(double)> &text,
                   const char *what) {
      if (!isClose(x, y))
        parts.push_back(fmt::format("{} {}", change(text(x), text(y)), what));
    };
    add(a.cost.launches, b.cost.launches, countText, "launches");
    add(a.cost.seconds, b.cost.seconds, secondsText, "predicted");
    add(a.cost.bytes, b.cost.bytes, bytesText, "moved");
    add(
        a.cost.flops, b.cost.flops, [](double x) { return fmt::format("{:.4g}", x); },
        "operations");
    add(a.memory, b.memory, bytesText, memoryTitle);
    fmt::print("  {:{}}  {}\n", rows[i].name.empty() ? "(no line)" : rows[i].name,
               std::max(width, size_t(9)), fmt::join(parts, ", "));
  }
  if (rows.size() > shown)
    fmt::print("  and {} more\n", rows.size() - shown);
}

void print(const std::vector<KernelChange> &kernels, int64_t most) {
  if (kernels.empty())
    return;
  fmt::print("\nkernels (- of A alone, + of B alone)\n");
  const size_t shown = std::min(kernels.size(), size_t(most));
  for (size_t i = 0; i < shown; ++i)
    fmt::print("  {} {}: {}\n", kernels[i].sign, kernels[i].name, kernels[i].what);
  if (kernels.size() > shown)
    fmt::print("  and {} more\n", kernels.size() - shown);
}

void print(const DiffOptions &options, const Comparison &found) {
  const SideTotals &a = found.a, &b = found.b;
  fmt::print("A {} {}\nB {} {}\n", options.a, a.hash, options.b, b.hash);
  if (a.worlds != b.worlds)
    fmt::print("numbers of ranks {} -> {}\n", fmt::join(a.worlds, ","), fmt::join(b.worlds, ","));
  for (const auto &[world, parts] : found.parts)
    fmt::print("on {} rank{} {}\n", world, world == 1 ? "" : "s",
               parts.empty() ? "they are equal"
                             : fmt::format("they differ in {}", fmt::join(parts, ", ")));
  for (const Comparison::Value &value : found.hyperparameters)
    fmt::print("  {} = {}\n", value.name, change(value.a, value.b));
  auto total = [&](const char *what, const std::string &x, const std::string &y) {
    fmt::print("  {:22} {}\n", what, change(x, y));
  };
  fmt::print("\na step{} on {} rank{} by the rates of {}\n",
             found.hasStages ? " of the first stage" : "", found.world, found.world == 1 ? "" : "s",
             found.machine);
  total("predicted", secondsText(a.seconds), secondsText(b.seconds));
  total("launches", countText(a.total.launches), countText(b.total.launches));
  total("moved", bytesText(a.total.bytes), bytesText(b.total.bytes));
  total("arena", bytesText(a.arena), bytesText(b.arena));
  total("kernels", fmt::to_string(a.kernels), fmt::to_string(b.kernels));
  print("by model line", "of buffers", found.lines, options.lines);
  print("by kernel or call", "", found.workers, options.lines);
  print(found.kernels, options.lines);
}

} // namespace

int diff(const DiffOptions &options) {
  const Result<Comparison> found = compare({options.a, options.b, options.world, options.machine});
  if (!found) {
    fmt::print(stderr, "nanoc: {}\n", found.error().message);
    return 2;
  }
  if (found->isEqual())
    return 0;
  print(options, *found);
  return 1;
}

} // namespace nano::inspect
