// Writes a comparison's tables, and of kernels' texts the lines that differ.
#include "compiler/explore/ComparisonJson.h"

#include "compiler/explore/Json.h"
#include "compiler/explore/LineDiff.h"

namespace nano::explore {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

/// To the picosecond: a page that rounds it shows what `nanoc diff` prints.
double nanoseconds(double seconds) { return std::round(1e12 * seconds) / 1e3; }

Object toJson(const inspect::Cost &cost, double memory) {
  return Object{{"launches", cost.launches},
                {"ns", nanoseconds(cost.seconds)},
                {"bytes", cost.bytes},
                {"flops", cost.flops},
                {"memory", memory}};
}

Object toJson(const inspect::SideTotals &side, const std::string &path) {
  Object object = toJson(side.total, side.arena);
  object["file"] = utf8(path);
  object["hash"] = side.hash;
  object["worlds"] = Array(side.worlds);
  object["step"] = nanoseconds(side.seconds);
  object["kernels"] = int64_t(side.kernels);
  return object;
}

Array toJson(const std::vector<inspect::Row> &rows) {
  Array array;
  for (const inspect::Row &row : rows)
    array.push_back(Object{{"name", utf8(row.name)},
                           {"a", toJson(row.a.cost, row.a.memory)},
                           {"b", toJson(row.b.cost, row.b.memory)}});
  return array;
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

Value toJson(const inspect::KernelChange &change) {
  Array regions;
  if (!change.a.empty() || !change.b.empty())
    for (const TextRegion &region : differences(linesOf(change.a), linesOf(change.b)))
      regions.push_back(Object{{"a", region.lineBefore},
                               {"b", region.lineAfter},
                               {"lead", utf8(region.lead)},
                               {"before", utf8(region.before)},
                               {"after", utf8(region.after)},
                               {"same", Array()}});
  return Object{{"name", utf8(change.name)},
                {"sign", std::string(1, change.sign)},
                {"what", utf8(change.what)},
                {"regions", std::move(regions)}};
}

} // namespace

Value toJson(const inspect::Comparison &found, const std::string &a, const std::string &b) {
  Array parts, hyperparameters, kernels;
  for (const auto &[world, names] : found.parts)
    parts.push_back(Array{world, Array(names)});
  for (const inspect::Comparison::Value &each : found.hyperparameters)
    hyperparameters.push_back(Array{utf8(each.name), utf8(each.a), utf8(each.b)});
  for (const inspect::KernelChange &change : found.kernels)
    kernels.push_back(toJson(change));
  return Object{{"a", toJson(found.a, a)},
                {"b", toJson(found.b, b)},
                {"world", found.world},
                {"machine", utf8(found.machine)},
                {"hasStages", found.hasStages},
                {"parts", std::move(parts)},
                {"hyperparameters", std::move(hyperparameters)},
                {"lines", toJson(found.lines)},
                {"workers", toJson(found.workers)},
                {"kernels", std::move(kernels)}};
}

} // namespace nano::explore
