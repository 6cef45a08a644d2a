// Values before and after a pass, or an exit status.
#include "compiler/bisect/Judge.h"

#include "compiler/bisect/References.h"
#include "ir/graph/Program.h"
#include "ir/step/Step.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace mlir;

namespace nano::bisect {

using interpreter::Arithmetic;

namespace {

constexpr double forExact = 0x1p-16, forGradients = 0x1p-9;

bool hasGradients(const Observations &observations) {
  return llvm::any_of(observations, [](const auto &entry) {
    return StringRef(entry.first).starts_with(nameOfGradient(""));
  });
}

bool hasTasks(ModuleOp module) {
  return module.walk([](step::TaskOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Two comparisons of the same program as one.
void merge(Comparison &all, const Comparison &other) {
  all.tensors += other.tensors;
  if (other.largest > all.largest)
    std::tie(all.largest, all.largestAt) = std::tie(other.largest, other.largestAt);
  if (!all.worst)
    all.worst = other.worst;
}

} // namespace

/// Where kernels take the place of tasks, numbers are rounded in other places.
static double toleranceOfKernels(ModuleOp module) {
  unsigned bits = 32; // of the narrowest float in memory
  auto note = [&](Type type) {
    if (Type element = cast<ShapedType>(type).getElementType(); !element.isInteger())
      bits = std::min(bits, element.getIntOrFloatBitWidth());
  };
  module.walk([&](step::BufferOp buffer) { note(buffer.getType()); });
  for (auto state : module.getOps<graph::StateOp>())
    note(state.getTensorType());
  return bits == 32 ? 0x1p-14 : bits == 16 ? 0x1p-6 : 0x1p-2;
}

Result<bool> Judge::passesCheck(ModuleOp module) const {
  llvm::SmallString<128> path;
  int file = 0;
  if (const std::error_code error =
          llvm::sys::fs::createTemporaryFile("nanoc-bisect", "mlir", file, path))
    return failed(fmt::format("--check: no temporary file can be made: {}; set TMPDIR to a folder "
                              "that can be written",
                              error.message()));
  {
    llvm::raw_fd_ostream stream(file, /*shouldClose=*/true);
    module.print(stream, OpPrintingFlags().enableDebugInfo());
    stream << "\n";
  }
  std::string command = settings.check;
  for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += path.size())
    command.replace(at, 2, path.str().str());
  const std::optional<StringRef> quiet[] = {StringRef(""), StringRef(""), StringRef("")};
  const int status =
      llvm::sys::ExecuteAndWait("/bin/sh", {"/bin/sh", "-c", command}, std::nullopt, quiet);
  std::ignore = llvm::sys::fs::remove(path);
  if (status == -1)
    return badInput(fmt::format("--check '{}': the shell finds no such command", settings.check));
  return status == 0;
}

Status Judge::begin(ModuleOp before) {
  inputs.emplace(before, settings.seed);
  if (!settings.check.empty()) {
    const Result<bool> passes = passesCheck(before);
    if (!passes)
      return passes.error();
    if (!*passes)
      return badInput(fmt::format("--check '{}': it fails before any pass has run, so that no pass "
                                  "is to blame",
                                  settings.check));
    return ok();
  }
  Result<Observations> found = evaluate(before, *inputs, Arithmetic::exact, code);
  if (!found)
    return found.error();
  known = std::move(*found);
  hadTasks = hasTasks(before);
  return ok();
}

Result<Verdict> Judge::judge(ModuleOp before, ModuleOp after) {
  Verdict verdict;
  if (!settings.check.empty()) {
    const Result<bool> passes = passesCheck(after);
    if (!passes)
      return passes.error();
    verdict.how = "check";
    verdict.isWrong = !*passes;
    verdict.why = verdict.isWrong ? fmt::format("the check '{}' fails", settings.check) : "";
    return verdict;
  }
  // Nowhere else do passes change where numbers are rounded, if they are at all.
  Tolerance tolerance{settings.tolerance.value_or(forExact), false, {}};
  if (hadTasks && !hasTasks(after))
    tolerance = {settings.tolerance.value_or(toleranceOfKernels(after)), true, noise};
  verdict.how = !hasBuffers(after) ? "interpreter in f64"
                : hasTasks(after)  ? "interpreter, rounded"
                                   : "native kernels";
  if (hasBuffers(after) && !hasBuffers(before)) {
    // From here on numbers are rounded; by how much that moves the result says how much it may move
    // where they are rounded otherwise.
    Result<Observations> rounded = evaluate(before, *inputs, Arithmetic::rounded, code);
    if (!rounded)
      return rounded.error();
    for (const auto &[name, observation] : *rounded)
      if (const auto exact = known.find(name); exact != known.end())
        noise[name] = 2 * distanceOf(observation.value, exact->second.value);
    known = std::move(*rounded);
  }
  Result<Observations> found = evaluate(after, *inputs, Arithmetic::exact, code);
  if (!found) {
    verdict.isWrong = true;
    verdict.why = "the step cannot be run: " + found.error().message;
    return verdict;
  }
  verdict.comparison = compare(*found, known, tolerance);
  if (hasGradients(*found) && !hasGradients(known) && programOf(before, "train", inputs->phase()) &&
      programOf(after, "train", inputs->phase())) {
    verdict.how = "finite differences";
    const Result<Comparison> slopes =
        checkGradients(before, after, *inputs, settings.tolerance.value_or(forGradients));
    if (!slopes)
      return slopes.error();
    merge(verdict.comparison, *slopes);
  }
  if (hasUpdate(after) && !hasUpdate(before)) {
    verdict.how = "optimizers' equations";
    const Result<Observations> expected = expectedUpdate(before, known, *inputs);
    if (!expected)
      return expected.error();
    merge(verdict.comparison, compare(*found, *expected, tolerance));
  }
  known = std::move(*found);
  hadTasks = hasTasks(after);
  if (const std::optional<Difference> &worst = verdict.comparison.worst) {
    verdict.isWrong = true;
    const std::string off = std::isfinite(worst->relative)
                                ? fmt::format("is off by {:.1e} of its size, {:.1e} is allowed",
                                              worst->relative, worst->allowed)
                                : "is not finite";
    verdict.why = fmt::format("{} {}: element {} is {:.6g}, and was {:.6g}", worst->name, off,
                              worst->element, worst->found, worst->wanted);
  }
  return verdict;
}

Status runPass(ModuleOp module, const std::string &text) {
  MLIRContext *context = module.getContext();
  PassManager passes(context, ModuleOp::getOperationName());
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (failed(parsePassPipeline(text, passes, problems)))
    return badInput(fmt::format("{}: no such pass, or not its options: {}", text,
                                StringRef(problem).split('\n').first.str()));
  const FirstError errors(context);
  if (failed(passes.run(module)))
    return errors.error();
  return ok();
}

} // namespace nano::bisect
