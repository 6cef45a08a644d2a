// Reads what `nanorun --times` writes.
#include "ir/machine/LabelledTimes.h"

#include "ir/machine/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"

namespace nano::machine {

llvm::Expected<LabelledTimes> LabelledTimes::read(llvm::StringRef path) {
  llvm::Expected<std::string> text = readText(path, input::times);
  if (!text)
    return text.takeError();
  return parse(*text, path);
}

llvm::Expected<LabelledTimes> LabelledTimes::parse(llvm::StringRef text, llvm::StringRef name) {
  auto bad = [&](const std::string &what) {
    return llvm::createStringError("%s: no file of times: %s; nanorun --times writes one",
                                   name.str().c_str(), what.c_str());
  };
  llvm::Expected<llvm::json::Value> json = parseJson(text);
  if (!json)
    return bad(llvm::toString(json.takeError()));
  const llvm::json::Object *object = json->getAsObject();
  const llvm::json::Array *commands = object ? object->getArray("commands") : nullptr;
  if (!commands)
    return bad("it has no \"commands\"");
  LabelledTimes times;
  for (auto [i, entry] : llvm::enumerate(*commands)) {
    const llvm::json::Object *command = entry.getAsObject();
    if (!command)
      return bad("command " + std::to_string(i) + " is no object");
    auto program = command->getString("program"), label = command->getString("label");
    std::optional<double> runs = command->getNumber("runs"), ms = command->getNumber("ms");
    if (!program || !label || !runs || !ms)
      return bad("command " + std::to_string(i) +
                 " lacks \"program\", \"label\", \"runs\" or \"ms\"");
    if (!isTimeOfRuns(*runs, *ms))
      return bad("command " + std::to_string(i) +
                 " needs \"runs\", a whole number, and \"ms\", each from 0 to 1e12");
    for (Sum *sum : {&times.inProgram[(*program + "\n" + *label).str()], &times.anywhere[*label]}) {
      sum->seconds += 1e-3 * *ms;
      sum->runs += *runs;
    }
  }
  return times;
}

std::optional<double> LabelledTimes::find(llvm::StringRef program, llvm::StringRef label) const {
  auto mean = [](const llvm::StringMap<Sum> &sums, llvm::StringRef key) -> std::optional<double> {
    auto found = sums.find(key);
    if (found == sums.end() || found->second.runs == 0)
      return std::nullopt;
    return found->second.seconds / found->second.runs;
  };
  if (std::optional<double> own = mean(inProgram, (program + "\n" + label).str()))
    return own;
  return mean(anywhere, label);
}

} // namespace nano::machine
