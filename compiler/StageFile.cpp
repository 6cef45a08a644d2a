// Reads IR of a stage: the programs, which numbers of ranks they are for, and the model's text.
#include "compiler/StageFile.h"

#include "base/InputFile.h"
#include "compiler/HostCompiler.h"
#include "ir/graph/Program.h"
#include "ir/step/Step.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace nano {

namespace {

constexpr InputKind irFile = {"IR of a stage", 2048 * input::mebibyte,
                              "name a file that --stop-after or --dump-ir has written"};

/// What every program of the compiler has; its number of ranks, or 0 where it is for all.
int64_t check(ModuleOp module, const std::string &path, const Stage &stage) {
  const DictionaryAttr training = graph::trainingOf(module);
  auto isSize = [&](StringRef name) {
    auto value = training ? training.getAs<IntegerAttr>(name) : IntegerAttr();
    return value && value.getInt() > 0;
  };
  if (!isSize("seq_len") || !isSize("global_batch"))
    throw ModelError(fmt::format("{}: is no program of nanoc: it has no nano.model that says "
                                 "how it is trained",
                                 path));
  const bool isStep = !module.getOps<step::ProgramOp>().empty();
  if (isStep != (stage.storage >= Stage::Storage::Buffers))
    throw ModelError(fmt::format("--from {}: the programs of {} {}; name the stage that it is of",
                                 stage.name.str(), path,
                                 isStep ? "have buffers already" : "have no buffers yet"));
  const std::optional<int64_t> world = graph::worldOf(module);
  if (world.has_value() != stage.isForEachWorld())
    throw ModelError(fmt::format("--from {}: {} is {}; name the stage that it is of",
                                 stage.name.str(), path,
                                 world ? "of a number of ranks" : "of no number of ranks yet"));
  return world.value_or(0);
}

/// The file of the model that the program is of; empty where the text does not say.
std::string modelFileOf(ModuleOp module, const std::string &path) {
  auto line = module.getLoc()->findInstanceOf<FileLineColLoc>();
  return line && line.getFilename() != path ? line.getFilename().str() : "";
}

} // namespace

OwningOpRef<ModuleOp> parseProgram(MLIRContext &context, const std::string &path, StringRef text,
                                   int64_t lines) {
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (!error.empty() || diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return;
    error = path;
    if (auto line = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      error = fmt::format("{}:{}", line.getFilename().str(), line.getLine());
    error += ": " + diagnostic.str();
  });
  const std::string placed = std::string(static_cast<size_t>(lines), '\n') + text.str();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(placed, ParserConfig(&context), path);
  if (!module)
    throw ModelError(error.empty() ? path + ": is no IR that nanoc has printed" : error);
  return module;
}

StageFile readStageFile(MLIRContext &context, const std::string &path, const Stage &stage) {
  Result<std::string> text = readInput(path, irFile);
  if (!text)
    throw ModelError(text.error().message);
  StageFile file;
  StringRef rest = *text;
  int64_t lines = 0;
  constexpr llvm::StringLiteral separator = "// -----\n";
  while (true) {
    auto [program, others] = rest.split(separator);
    file.programs.push_back(parseProgram(context, path, program, lines));
    if (const int64_t world = check(*file.programs.back(), path, stage))
      file.worlds.push_back(world);
    lines += std::count(program.begin(), program.end(), '\n') + 1;
    if (program.size() == rest.size())
      break;
    rest = others;
  }
  if (!stage.isForEachWorld() && file.programs.size() > 1)
    throw ModelError(fmt::format("--from {}: {} holds {} programs; all numbers of ranks have one "
                                 "there",
                                 stage.name.str(), path, file.programs.size()));
  for (size_t i = 0; i < file.worlds.size(); ++i)
    if (llvm::is_contained(ArrayRef(file.worlds).take_front(i), file.worlds[i]))
      throw ModelError(fmt::format("{}: holds two programs for {} ranks", path, file.worlds[i]));
  ModuleOp first = *file.programs.front();
  file.model = graph::modelOf(first).getName().str();
  const std::string model = modelFileOf(first, path);
  if (model.empty())
    fmt::print(stderr,
               "nanoc: {} has no model lines: the plan will name its own; print it with "
               "--locations, or take it from --dump-ir\n",
               path);
  else if (std::optional<std::string> source = modelText(model))
    file.source = std::move(*source);
  else
    fmt::print(stderr, "nanoc: {} is not there: the plan will not hold the model's text\n", model);
  return file;
}

} // namespace nano
