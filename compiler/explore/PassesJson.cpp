// Writes the records of passes, and finds their prose in the reference.
#include "compiler/explore/PassesJson.h"

#include "compiler/explore/Page.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <set>

namespace nano::explore {
namespace {

using llvm::StringRef;
using llvm::json::OStream;

/// The section of the reference of a pass, in Markdown; empty for passes of MLIR's.
StringRef proseOf(StringRef pass) {
  const StringRef reference = passesPage().front().text;
  const std::string heading = ("### `-" + pass + "`\n").str();
  const size_t found = reference.find(heading);
  if (found == StringRef::npos)
    return {};
  const StringRef text = reference.substr(found + heading.size());
  return text.substr(0, std::min(text.find("\n### "), text.find("\n## "))).trim();
}

void writeRegion(OStream &json, const TextRegion &region) {
  json.object([&] {
    json.attribute("a", region.lineBefore);
    json.attribute("b", region.lineAfter);
    json.attribute("lead", utf8(region.lead));
    json.attribute("before", utf8(region.before));
    json.attribute("after", utf8(region.after));
    json.attribute("leftOut", region.linesLeftOut);
    writeArray(json, "same", region.same, [&](const auto &names) {
      json.array([&] {
        json.value(utf8(names.first));
        json.value(utf8(names.second));
      });
    });
  });
}

void writePass(OStream &json, const PassRecord &pass) {
  json.object([&] {
    json.attribute("stage", pass.stage);
    json.attribute("pass", pass.pass);
    json.attribute("runStage", utf8(pass.runStage));
    json.attribute("world", pass.world);
    json.attribute("ns", int64_t(std::llround(1e9 * pass.seconds)));
    json.attribute("opsBefore", pass.opsBefore);
    json.attribute("opsAfter", pass.opsAfter);
    auto writeWork = [&](const char *name, std::optional<int64_t> before,
                         std::optional<int64_t> after) {
      json.attributeArray(name, [&] {
        json.value(before);
        json.value(after);
      });
    };
    writeWork("kernels", pass.workBefore.kernels, pass.workAfter.kernels);
    writeWork("bytes", pass.workBefore.bytes, pass.workAfter.bytes);
    if (pass.isFailed)
      json.attribute("failed", true);
    writeArray(json, "remarks", pass.remarks,
               [&](const std::string &remark) { json.value(utf8(remark)); });
    writeArray(json, "functions", pass.functions, [&](const FunctionChange &change) {
      json.object([&] {
        json.attribute("name", utf8(change.name));
        json.attribute("opsBefore", change.opsBefore);
        json.attribute("opsAfter", change.opsAfter);
        json.attribute("leftOut", change.regionsLeftOut);
        writeArray(json, "regions", change.regions,
                   [&](const TextRegion &region) { writeRegion(json, region); });
      });
    });
  });
}

} // namespace

void writePasses(OStream &json, const PassRecords &records, Texts &texts) {
  writeArray(json, "phases", records.phases, [&](const auto &phase) {
    json.array([&] {
      json.value(phase.first);
      json.value(int64_t(std::llround(1e9 * phase.second)));
    });
  });
  writeArray(json, "stages", records.stages, [&](const StageRecord &stage) {
    json.object([&] {
      json.attribute("name", stage.name);
      json.attribute("summary", stage.summary);
      json.attributeObject("ops", [&] {
        for (const auto &[line, ops] : stage.ops)
          json.attributeArray(utf8(line), [&] {
            for (const auto &[op, count] : ops)
              json.array([&] {
                json.value(texts.add(op));
                json.value(count);
              });
          });
      });
    });
  });
  writeArray(json, "passes", records.passes,
             [&](const PassRecord &pass) { writePass(json, pass); });
  json.attributeObject("kernels", [&] {
    for (const auto &[name, text] : records.kernels)
      json.attribute(utf8(name), utf8(text));
  });
  std::set<std::string> names;
  for (const PassRecord &pass : records.passes)
    names.insert(pass.pass);
  json.attributeObject("prose", [&] {
    for (const std::string &name : names)
      if (const StringRef prose = proseOf(name); !prose.empty())
        json.attribute(name, prose);
  });
}

} // namespace nano::explore
