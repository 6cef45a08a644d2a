// Guarded reading and depth before LLVM's parser.
#include "ir/machine/JsonFile.h"

#include "base/JsonDepth.h"

#include <algorithm>
#include <cmath>

namespace nano::machine {

llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text) {
  if (nestsTooDeep({text.data(), text.size()}))
    return llvm::createStringError("it %s", tooDeepText);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (value)
    return value;
  std::string why = llvm::toString(value.takeError());
  std::replace(why.begin(), why.end(), '\n', ' ');
  return llvm::createStringError("%s", why.c_str());
}

llvm::Expected<std::string> readText(llvm::StringRef path, const InputKind &kind) {
  Result<std::string> text = readInput(path.str(), kind);
  if (text)
    return std::move(*text);
  return llvm::createStringError("%s", text.error().message.c_str());
}

bool isTimeOfRuns(double runs, double milliseconds) {
  constexpr double most = 1e12;
  return runs >= 0 && runs <= most && runs == std::floor(runs) && milliseconds >= 0 &&
         milliseconds <= most;
}

} // namespace nano::machine
