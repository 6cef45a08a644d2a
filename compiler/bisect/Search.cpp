// One pass manager a pass, so that each is seen, and can be repeated, alone.
#include "compiler/bisect/Search.h"

#include "compiler/bisect/Child.h"
#include "compiler/bisect/Reduce.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

using namespace mlir;

namespace nano::bisect {

namespace {

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().assumeVerified());
  return text;
}

/// The passes of a stage with their options.
std::vector<std::string> passesOf(const Stage &stage, const PipelineOptions &options) {
  OpPassManager passes(ModuleOp::getOperationName());
  stage.addPasses(passes, options);
  std::vector<std::string> texts;
  for (Pass &pass : passes.getPasses()) {
    llvm::raw_string_ostream stream(texts.emplace_back());
    pass.printAsTextualPipeline(stream);
  }
  return texts;
}

/// A pass on its way from program to program.
class Walk {
public:
  Walk(ModuleOp module, const Settings &settings, const OnPass &onPass)
      : module(module.clone()), judge(settings), onPass(onPass) {}

  Status begin() {
    text = textOf(*module);
    return judge.begin(*module);
  }

  /// Runs one more pass.
  Result<std::optional<Finding>> step(const std::string &stage, const std::string &pass) {
    const std::string name = StringRef(pass).split('{').first.str();
    OwningOpRef<ModuleOp> before = module->clone();
    if (const Status status = runPass(*module, pass); !status)
      return Error{status.error().kind, fmt::format("{} fails, and nothing before it is wrong: {}",
                                                    name, status.error().message)};
    if (std::string now = textOf(*module); now != text)
      text = std::move(now);
    else
      return std::optional<Finding>();
    Result<Verdict> verdict = judge.judge(*before, *module);
    if (!verdict)
      return verdict.error();
    onPass(stage, name, *verdict);
    if (!verdict->isWrong)
      return std::optional<Finding>();
    return std::optional<Finding>(
        Finding{stage, name, pass, std::move(verdict->why), std::move(before)});
  }

private:
  OwningOpRef<ModuleOp> module;
  std::string text;
  Judge judge;
  const OnPass &onPass;
};

} // namespace

Result<std::optional<Finding>> findFirst(ModuleOp module, ArrayRef<Stage> stages,
                                         const PipelineOptions &pipeline, const Settings &settings,
                                         const OnPass &onPass) {
  Walk walk(module, settings, onPass);
  if (const Status status = walk.begin(); !status)
    return status.error();
  for (const Stage &stage : stages) {
    if (!stage.addPasses)
      continue;
    for (const std::string &pass : passesOf(stage, pipeline)) {
      Result<std::optional<Finding>> found = walk.step(stage.name.str(), pass);
      if (!found || *found)
        return found;
    }
  }
  return std::optional<Finding>();
}

Result<std::optional<Finding>> judgePass(ModuleOp module, const std::string &text,
                                         const Settings &settings, const OnPass &onPass) {
  Walk walk(module, settings, onPass);
  if (const Status status = walk.begin(); !status)
    return status.error();
  return walk.step("", text);
}

OwningOpRef<ModuleOp> reduce(const Finding &finding, const Settings &settings, double seconds) {
  constexpr unsigned childSeconds = 10;
  // A pass may crash on a program that no front end has made.
  auto shows = [&](ModuleOp candidate) {
    const Result<std::string> answer = inChild(
        [&]() -> Result<std::string> {
          const Result<std::optional<Finding>> found =
              judgePass(candidate, finding.text, settings,
                        [](const std::string &, const std::string &, const Verdict &) {});
          return std::string(found && *found ? "shows" : "does not");
        },
        childSeconds);
    return answer && *answer == "shows";
  };
  return reduce(*finding.before, shows, seconds);
}

} // namespace nano::bisect
