// The command: a model or a file of IR, a table, a test file.
#include "compiler/bisect/Bisect.h"

#include "base/InputFile.h"
#include "base/OutputFile.h"
#include "base/Target.h"
#include "codegen/cpu/KernelLowering.h"
#include "compiler/Driver.h"
#include "compiler/HostCompiler.h"
#include "compiler/Registration.h"
#include "compiler/RequestChecks.h"
#include "compiler/RunStages.h"
#include "compiler/StageFile.h"
#include "compiler/StageRunner.h"
#include "compiler/Tracing.h"
#include "compiler/bisect/Reduce.h"
#include "compiler/bisect/Search.h"
#include "ir/graph/AttentionOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/RunStages.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

using namespace mlir;

namespace nano::bisect {

namespace {

constexpr InputKind irFile = {"a file of IR", 256 * input::mebibyte,
                              "name one that nanoc bisect, --stop-after or --dump-ir has written"};

/// Multiply-adds of a program that the interpreter is asked to run, at most.
constexpr double mostWork = 2e9;

[[noreturn]] void fail(const Error &error) {
  throw StageError(error.message, error.kind == Error::Kind::BadInput);
}

class Command {
public:
  explicit Command(const Options &options) : options(options) {
    settings.seed = options.seed;
    settings.tolerance = options.tolerance;
    settings.check = options.check;
    DialectRegistry registry;
    registerEverything(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    codegen::loadNativeDialects(context);
  }

  int run() {
    check();
    OwningOpRef<ModuleOp> module = options.pass.empty() ? trace() : parse();
    if (options.check.empty())
      checkWork(*module);
    const auto begin = std::chrono::steady_clock::now();
    Result<std::optional<Finding>> found = search(*module);
    if (!found)
      fail(found.error());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (!*found) {
      fmt::print("{}: no pass {} ({:.1f} s)\n", options.model,
                 options.check.empty() ? "changes what a step computes" : "makes the check fail",
                 seconds.count());
      return 0;
    }
    tell(**found, seconds.count());
    return 1;
  }

private:
  void check() const {
    checkTarget(options.target);
    if (!targetOf(options.target).hasNativeCode && options.check.empty())
      throw ModelError("--target " + options.target +
                       ": values are compared on the CPU alone; give a --check, or "
                       "--target cpu");
    if (!options.check.empty() && options.check.find("{}") == std::string::npos)
      throw ModelError(fmt::format("--check '{}': write {{}} where the name of the IR's file goes",
                                   options.check));
    if (!options.check.empty() && options.tolerance)
      throw ModelError("--tolerance: not together with --check, which compares no values");
    if (!options.pass.empty() && (!options.overrides.empty() || !options.runStage.empty()))
      throw ModelError("--pass: not together with -D or --run-stage, its IR is of a model already");
    if (options.tolerance && !(*options.tolerance >= 0))
      throw ModelError("--tolerance: it is a number, 0 or more");
    // Found out before the search, not behind it.
    if (const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
        !folder.empty() && !std::filesystem::is_directory(folder))
      throw ModelError(fmt::format("{}: there is no folder {}; name another file with -o",
                                   options.output, folder.string()));
  }

  OwningOpRef<ModuleOp> trace() {
    OwningOpRef<ModuleOp> module =
        std::move(nano::trace(context, ModelFile(options.model), options.overrides).module);
    const SmallVector<graph::RunStage> stages = graph::runStagesOf(*module);
    std::vector<OwningOpRef<ModuleOp>> others = partRunStages(*module);
    if (options.runStage.empty())
      return module;
    const auto *wanted = llvm::find_if(
        stages, [&](const graph::RunStage &stage) { return stage.name == options.runStage; });
    if (wanted == stages.end()) {
      std::vector<std::string> names;
      for (const graph::RunStage &stage : stages)
        if (!stage.name.empty())
          names.push_back(stage.name);
      throw ModelError(
          fmt::format("--run-stage {}: the run has no such stage; {}", options.runStage,
                      names.empty() ? "it has one alone"
                                    : fmt::format("there are {}", fmt::join(names, ", "))));
    }
    const auto index = size_t(wanted - stages.begin());
    return index == 0 ? std::move(module) : std::move(others[index - 1]);
  }

  OwningOpRef<ModuleOp> parse() {
    const Result<std::string> text = readInput(options.model, irFile);
    if (!text)
      fail(text.error());
    OwningOpRef<ModuleOp> module = parseProgram(context, options.model, *text);
    if (!graph::trainingOf(*module))
      throw ModelError(fmt::format("{}: is no program of nanoc: it has no nano.model that says "
                                   "how it is trained",
                                   options.model));
    return module;
  }

  /// The interpreter computes element by element.
  void checkWork(ModuleOp module) const {
    double work = 0;
    module.walk([&](Operation *op) {
      double one = 0;
      for (Type type : op->getResultTypes())
        if (auto shaped = dyn_cast<ShapedType>(type); shaped && shaped.hasStaticShape())
          one += double(shaped.getNumElements());
      if (auto product = dyn_cast<graph::MatmulOp>(op)) {
        const ArrayRef<int64_t> a = cast<ShapedType>(product.getA().getType()).getShape();
        one *= double(product.getTransposeA() ? a[a.size() - 2] : a.back());
      } else if (auto attention = dyn_cast<graph::AttentionOp>(op)) {
        one *= double(cast<ShapedType>(attention.getQ().getType()).getShape().front());
      }
      work += one;
    });
    if (work > mostWork)
      throw ModelError(fmt::format("{}: its programs take {:.0e} operations of an interpreter, and "
                                   "{:.0e} are the most; give smaller sizes with -D, as in -D "
                                   "model_dim=64",
                                   options.model, work, mostWork));
  }

  Result<std::optional<Finding>> search(ModuleOp module) const {
    const PipelineOptions pipeline = forTarget({.target = options.target});
    auto onPass = [](const std::string &stage, const std::string &pass, const Verdict &verdict) {
      fmt::print("  {:<13} {:<26} {:<22} {}\n", stage, pass, verdict.how, resultOf(verdict));
      std::fflush(stdout);
    };
    if (!options.pass.empty())
      return judgePass(module, options.pass, settings, onPass);
    return findFirst(module, stages(), pipeline, settings, onPass);
  }

  static std::string resultOf(const Verdict &verdict) {
    const Comparison &comparison = verdict.comparison;
    if (verdict.isWrong)
      return "wrong";
    if (comparison.tensors == 0)
      return "right";
    if (comparison.largest == 0)
      return fmt::format("{} tensors, equal", comparison.tensors);
    return fmt::format("{} tensors, within {:.1e} ({})", comparison.tensors, comparison.largest,
                       comparison.largestAt);
  }

  void tell(const Finding &finding, double seconds) const {
    fmt::print("{}: the first pass that is wrong is {}{} ({:.1f} s)\n  {}\n", options.model,
               finding.pass,
               finding.stage.empty() ? "" : fmt::format(", of stage {}", finding.stage), seconds,
               finding.why);
    if (!options.pass.empty())
      return;
    const auto begin = std::chrono::steady_clock::now();
    OwningOpRef<ModuleOp> smallest = reduce(finding, settings, double(options.seconds));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    write(finding, *smallest);
    fmt::print("{}: {} of {} ops ({:.1f} s); {} says whether it is still wrong\n", options.output,
               opsOf(*smallest), opsOf(*finding.before), spent.count(),
               commandFor(options.output, finding));
  }

  /// The command that judges the pass alone, on a test file.
  std::string commandFor(const std::string &file, const Finding &finding) const {
    std::string command = fmt::format("nanoc bisect {} --pass '{}'", file, finding.text);
    if (options.seed != 0)
      command += fmt::format(" --seed {}", options.seed);
    if (options.tolerance)
      command += fmt::format(" --tolerance {}", *options.tolerance);
    if (!options.check.empty())
      command += fmt::format(" --target {} --check '{}'", options.target, options.check);
    return command;
  }

  /// A test of lit that fails as long as the pass is wrong.
  void write(const Finding &finding, ModuleOp module) const {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "// RUN: " << commandFor("%s", finding) << "\n"
           << "//\n// What the pass makes of it: nano-opt --pass-pipeline='builtin.module("
           << finding.text << ")' %s\n// " << finding.why << "\n";
    module.print(stream);
    stream << "\n";
    Result<OutputFile> file = OutputFile::replace(options.output);
    Status written = file ? file->append(text) : file.error();
    if (written)
      written = file->finish();
    if (!written)
      fail(written.error());
  }

  const Options &options;
  Settings settings;
  /// Without threads: programs are run in child processes.
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

} // namespace

int run(const Options &given) {
  Options options = given;
  if (options.target.empty())
    options.target = "cpu";
  int status = Done;
  const int ended = guarded([&] { status = Command(options).run(); });
  return ended == Done ? status : ended;
}

} // namespace nano::bisect
