// Reads files of static FP8 scales.
#include "compiler/ScalesFile.h"

#include "base/InputFile.h"
#include "ir/machine/JsonFile.h"
#include "passes/fp8/Policy.h"

#include "llvm/Support/JSON.h"

#include <fmt/format.h>

namespace nano {

using frontend::ModelError;

namespace {
constexpr const char *formatName = "nano fp8 scales";
} // namespace

frontend::ScalesFile readScalesFile(const std::string &path) {
  const Result<std::string> content = readInput(path, input::scales);
  if (!content)
    throw ModelError(content.error().message);
  llvm::Expected<llvm::json::Value> parsed = machine::parseJson(*content);
  if (!parsed)
    throw ModelError(fmt::format("{}: is not JSON: {}", path, llvm::toString(parsed.takeError())));
  const llvm::json::Object *file = parsed->getAsObject();
  const llvm::json::Object *list = file ? file->getObject("scales") : nullptr;
  if (!list || file->getString("format") != llvm::StringRef(formatName))
    throw ModelError(fmt::format(
        "{}: is not a file of FP8 scales; nanorun --calibrate writes such files", path));
  if (file->getInteger("version") != 1)
    throw ModelError(
        fmt::format("{}: its version is not known to this nanoc, which reads 1", path));
  frontend::ScalesFile result;
  result.path = path;
  for (const auto &[name, value] : *list) {
    std::array<double, 3> &scales = result.scales[name.str()];
    const llvm::json::Object *entry = value.getAsObject();
    for (fp8::Operand operand :
         {fp8::Operand::Input, fp8::Operand::Weight, fp8::Operand::Gradient}) {
      const std::optional<double> scale =
          entry ? entry->getNumber(fp8::nameOf(operand)) : std::nullopt;
      const bool isAbsent = entry && !entry->get(fp8::nameOf(operand));
      if (!isAbsent && !(scale && *scale >= 0x1p-100 && *scale <= 0x1p100))
        throw ModelError(fmt::format("{}: '{}' needs \"input\", \"weight\" and \"gradient\", each "
                                     "a positive number; one that "
                                     "is converted nowhere may be absent",
                                     path, name.str()));
      scales[static_cast<size_t>(operand)] = scale.value_or(0);
    }
  }
  return result;
}

} // namespace nano
