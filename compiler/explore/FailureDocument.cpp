// Writes what is known of a compilation that made no plan, in the form of a plan's document:
// numbers of ranks and stages without anything that runs.
#include "compiler/explore/Document.h"

#include "base/InputFile.h"
#include "compiler/explore/Json.h"
#include "compiler/explore/PassesJson.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <set>

namespace nano::explore {
namespace {

using llvm::json::OStream;

/// The file of "models/x.cpp:41".
std::string fileOf(const std::string &line) { return line.substr(0, line.rfind(':')); }

/// The text of every file that is named. One that is not there is left out.
void writeFiles(OStream &json, const PassRecords &records) {
  std::set<std::string> names;
  for (const StageRecord &stage : records.stages)
    for (const auto &[line, ops] : stage.ops)
      names.insert(fileOf(line));
  if (!records.failure->line.empty())
    names.insert(fileOf(records.failure->line));
  json.attributeObject("files", [&] {
    for (const std::string &name : names)
      if (Result<std::string> file = readInput(name, input::model))
        json.attribute(utf8(name), utf8(*file));
  });
}

/// The stages of the run that passes were run on; one without a name where it has no others.
std::vector<std::string> runStages(const PassRecords &records) {
  std::vector<std::string> names;
  for (const PassRecord &pass : records.passes)
    if (!pass.runStage.empty() &&
        std::find(names.begin(), names.end(), pass.runStage) == names.end())
      names.push_back(pass.runStage);
  return names.empty() ? std::vector<std::string>{""} : names;
}

void writeVariant(OStream &json, const PassRecords &records, int64_t world) {
  auto empty = [&](const char *name) { json.attributeArray(name, [] {}); };
  json.object([&] {
    json.attribute("world", world);
    json.attribute("arena", 0);
    json.attributeObject("buffers", [&] {
      for (const char *column : {"name", "at", "bytes", "type", "line", "role"})
        empty(column);
    });
    empty("programs");
    writeArray(json, "stages", runStages(records), [&](const std::string &name) {
      json.object([&] {
        json.attribute("name", utf8(name));
        for (const char *list : {"runs", "path", "exposedBy"})
          empty(list);
        json.attributeObject("spans", [&] { empty("start"); });
      });
    });
  });
}

} // namespace

std::string documentOfFailure(const FailedCompilation &failed) {
  std::string document;
  llvm::raw_string_ostream stream(document);
  OStream json(stream);
  Texts texts;
  const PassRecords &records = *failed.passes;
  json.object([&] {
    json.attribute("model", utf8(failed.model));
    json.attribute("target", failed.target);
    json.attribute("source", "");
    json.attributeArray("kernels", [] {});
    json.attributeObject("sources", [] {});
    writeFiles(json, records);
    writeArray(json, "variants", failed.worlds,
               [&](int64_t world) { writeVariant(json, records, world); });
    json.attributeObject("passes", [&] { writePasses(json, records, texts); });
    json.attributeArray("runs", [] {});
    json.attribute("profile", nullptr);
    json.attribute("comparison", nullptr);
    json.attributeObject("failure", [&] {
      json.attribute("message", utf8(records.failure->message));
      json.attribute("line", utf8(records.failure->line));
    });
    json.attributeBegin("texts");
    texts.write(json);
    json.attributeEnd();
  });
  return document;
}

} // namespace nano::explore
