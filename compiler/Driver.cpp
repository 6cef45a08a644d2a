// Drives a compilation: host compiler, trace, stages, code, plan; and what is told about it.
#include "compiler/Driver.h"

#include "base/InputFile.h"
#include "base/Target.h"
#include "codegen/PlanWriter.h"
#include "codegen/UniteKernels.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/NativeCode.h"
#include "codegen/cuda/CudaEmitter.h"
#include "compiler/CrashMessage.h"
#include "compiler/HostCompiler.h"
#include "compiler/KernelChecks.h"
#include "compiler/MemoryLimit.h"
#include "compiler/PassRecorder.h"
#include "compiler/RequestChecks.h"
#include "compiler/RunStages.h"
#include "compiler/StageFile.h"
#include "compiler/StageRunner.h"
#include "compiler/StepTraffic.h"
#include "compiler/Tracing.h"
#include "compiler/explore/PassRecords.h"
#include "ir/graph/RunStages.h"
#include "passes/memory/MemoryReport.h"
#include "runtime/plan/PlanFile.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <thread>

using namespace mlir;

namespace nano {

using frontend::TracedModel;

namespace {

/// What a step moves in a stage of the run, before and after fusion.
struct RunTraffic {
  std::string runStage; ///< empty: the only one
  StepTraffic unfused, fused;
};

/// "1.48 TB", "16.67 GB", "385.2 MB"
std::string bytesText(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  for (auto [unit, size] : {std::pair("TB", 1e12), std::pair("GB", 1e9), std::pair("MB", 1e6)})
    if (value >= size)
      return fmt::format("{:.2f} {}", value / size, unit);
  return fmt::format("{:.2f} kB", value / 1e3);
}

std::string ranksText(int64_t count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

//===- One compilation ---------------------------------------------------------===//

/// A model that is compiled beside itself, and checks of its kernels that are left out.
struct Beside {
  enum class What : uint8_t {
    Checks, ///< what measures its kernels
    Ours,   ///< itself, where kernels of these checks replace nothing
  };
  What what;
  const ModelFile &file;
  const std::set<std::string> &without;
};

class Compilation : StageHooks {
public:
  /// `beside`: what is compiled instead of the options' model. `isAgain`: the same has failed
  /// before, and is done again to keep a reproducer. Of either, remarks have been told.
  explicit Compilation(const CompileOptions &options, const Beside *beside = nullptr,
                       bool isAgain = false)
      : options(options), worlds(options.worlds), beside(beside), isAgain(isAgain),
        // Who looks at passes wants the one that breaks something.
        watch(isAgain || beside || !options.dumpDirectory.empty() || options.passes
                  ? Watch::EveryPass
                  : Watch::EveryStage) {}

  void run() {
    checkTarget(options.pipeline.target);
    const Stage *last = stageNamed("--stop-after", options.stopAfter),
                *from = stageNamed("--from", options.from);
    if (!last && options.output.empty() && !options.printPipeline)
      throw ModelError("compile: where should the plan go? Give -o OUT.plan");
    if (from && (!from->addPasses || (last && last <= from)))
      throw ModelError(fmt::format("--from {}: no stage is left to run{}", options.from,
                                   last ? " up to --stop-after " + options.stopAfter : ""));
    const std::optional<codegen::CpuTarget> target = codegen::CpuTarget::host();
    if (!target && targetOf(options.pipeline.target).hasNativeCode)
      throw ModelError(
          "--target cpu: this machine's processor lacks AVX2 or FMA, which plans for the CPU need");
    const PipelineOptions pipeline = pipelineOptions();
    if (options.printPipeline)
      return printPipeline(pipeline, last ? *last : stages().back());
    if (!options.dumpDirectory.empty())
      dump.emplace(options.dumpDirectory);
    if (from)
      goOn(pipeline, *from);
    else
      begin(pipeline);
    Stage::Scope scope = from ? from->scope : Stage::Scope::RunStage;
    for (const Stage &stage : stages()) {
      if (from && &stage <= from)
        continue;
      if (scope < Stage::Scope::WorldPart && stage.scope >= Stage::Scope::WorldPart)
        splitWorlds();
      if (scope < Stage::Scope::World && stage.scope >= Stage::Scope::World)
        joinStages(stage);
      scope = stage.scope;
      if (stage.addPasses)
        runPasses(stage);
      else
        writePlans(target ? &*target : nullptr);
      if (&stage == last)
        return printStage(stage);
    }
    addUnproven();
    publish();
  }

private:
  /// The stage that an option names; null where it was not given.
  static const Stage *stageNamed(const char *option, const std::string &name) {
    const Stage *stage = name.empty() ? nullptr : findStage(name);
    if (!stage && !name.empty())
      throw ModelError(
          fmt::format("{} {}: no such stage; there are {}", option, name, stageNames()));
    return stage;
  }

  PipelineOptions pipelineOptions() const {
    PipelineOptions pipeline = forTarget(options.pipeline);
    checkSchedule(pipeline, options.worlds);
    // IR that somebody else has written may hold reports.
    pipeline.reports = !options.reports.empty() || !options.from.empty();
    pipeline.recompute.next = options.reportMemory || options.passes ? 16 : 0;
    pipeline.reportDetails = options.passes != nullptr;
    return pipeline;
  }

  /// The passes up to a stage as text for nano-opt --pass-pipeline.
  void printPipeline(PipelineOptions pipeline, const Stage &last) {
    if (worlds.size() > 1)
      throw ModelError("--print-pipeline: it is of one number of ranks; give one to --world");
    pipeline.world = worlds.front();
    PassManager passes(&context, ModuleOp::getOperationName());
    buildPipeline(passes, pipeline, last);
    passes.printAsTextualPipeline(llvm::outs());
    llvm::outs() << "\n";
    llvm::outs().flush();
  }

  /// Begins with the model file.
  void begin(const PipelineOptions &pipeline) {
    begin("host compiler");
    const ModelFile &file =
        beside ? beside->file : opened.emplace(options.model, options.verbose, options.knownAs);
    source = file.source();
    begin("trace");
    loadDialects(context);
    codegen::loadNativeDialects(context);
    frontend::KernelTrace kernels{options.pipeline.target,
                                  beside && beside->what == Beside::What::Checks,
                                  beside ? beside->without : std::set<std::string>()};
    auto traced = [&](const Overrides &overrides) {
      return trace(context, file, overrides, options.fp8Scales, options.reports, kernels);
    };
    TracedModel model = traced(options.overrides);
    if (!beside) {
      verdict = checkedKernels(file, model);
      kernels.refused = verdict.refused;
      if (!kernels.refused.empty())
        model = traced(options.overrides);
    }
    programs.push_back(std::move(model.module));
    checkWorlds(module(), worlds);
    if (options.maxMemory > 0)
      chooseWithin(pipeline, file.input().name, model.microBatch, traced);
    if (dump)
      dump->write(module(), "frontend");
    runs = {{module(), pipeline, dump ? &*dump : nullptr}};
    partStages();
  }

  /// Checks kernels of the model's own where that is asked for, or one takes the place of a
  /// function.
  CheckVerdict checkedKernels(const ModelFile &file, const TracedModel &model) {
    for (const std::string &remark : model.remarks)
      fmt::print(stderr, "nanoc: {}\n", remark);
    if (options.checkKernels)
      for (const std::string &remark : model.unchecked)
        fmt::print(stderr, "nanoc: {}\n", remark);
    const bool replaces = llvm::any_of(
        model.checks, [](const frontend::KernelCheck &check) { return check.isReplacement; });
    if (model.checks.empty() || !(replaces || options.checkKernels))
      return {};
    begin("kernel checks");
    checks = model.checks;
    const std::set<std::string> left = leftToRun();
    std::vector<frontend::KernelCheck> made = checks;
    llvm::erase_if(made, [&](const auto &check) { return left.count(check.name) > 0; });
    auto write = [&](const CheckFolder &folder, std::set<std::string> without) {
      without.insert(left.begin(), left.end());
      writeChecks(file, folder, without);
    };
    CheckNumbers numbers;
    if (!made.empty())
      numbers = runChecks(made, options.pipeline.target, write);
    for (const std::string &name : left)
      numbers.unmade[name] = "left to the run";
    return judgeChecks(checks, numbers);
  }

  /// The checks that are not to be made here.
  std::set<std::string> leftToRun() const {
    std::set<uint32_t> kernels;
    if (options.checkAtRun)
      for (const frontend::KernelCheck &check : checks)
        if (check.isReplacement)
          kernels.insert(check.kernel);
    std::set<std::string> left;
    for (const frontend::KernelCheck &check : checks)
      if (kernels.count(check.kernel) || options.unproven.count(check.name))
        left.insert(check.name);
    return left;
  }

  void writeChecks(const ModelFile &file, const CheckFolder &folder,
                   const std::set<std::string> &without) const {
    CompileOptions own;
    own.model = options.model;
    own.output = folder.plan();
    own.overrides = options.overrides;
    own.reports = {"all"};
    own.pipeline.target = options.pipeline.target;
    const Beside all{Beside::What::Checks, file, without};
    Compilation(own, &all).run();
  }

  /// Puts into the plans what a run begins with where kernels in the place of functions are
  /// unproven: what measures them, and the plan without them.
  void addUnproven() {
    if (verdict.unproven.empty())
      return;
    begin("plan without unproven kernels");
    auto bytesOf = [](const CheckFolder &folder) {
      Result<std::string> bytes = readInput(folder.plan(), input::plan);
      if (!bytes)
        throw ModelError(bytes.error().message);
      return std::move(*bytes);
    };
    std::set<std::string> proven, refused = verdict.refused;
    std::vector<plan::UnprovenKernel> kernels;
    for (const frontend::KernelCheck &check : checks) {
      if (!verdict.unproven.count(check.name)) {
        proven.insert(check.name);
        continue;
      }
      refused.insert(check.name);
      kernels.push_back({check.name, check.line,
                         (check.isReplacement ? "" : "the derivative of ") + check.about,
                         check.tolerance});
    }
    const CheckFolder measuring, without;
    writeChecks(*opened, measuring, proven);
    CompileOptions own = options;
    own.output = without.plan();
    own.dumpDirectory.clear();
    own.timing = false;
    own.passes = nullptr;
    const Beside ours{Beside::What::Ours, *opened, refused};
    Compilation(own, &ours).run();
    for (plan::Plan &plan : plans) {
      plan.unproven = kernels;
      plan.checks = bytesOf(measuring);
      plan.ours = bytesOf(without);
    }
  }

  /// Finds what fits into --max-memory, and goes on with that; `traced` records the model with
  /// other hyperparameters.
  void chooseWithin(const PipelineOptions &pipeline, const std::string &name,
                    const std::optional<frontend::MicroBatchRecord> &microBatch,
                    llvm::function_ref<TracedModel(const Overrides &)> traced) {
    begin("fit memory");
    MemoryRequest request;
    request.model = name;
    request.limit = options.maxMemory;
    request.worlds = worlds;
    request.pipeline = pipeline;
    request.watch = watch;
    request.trace = [&](int64_t tokens) -> OwningOpRef<ModuleOp> {
      if (tokens == 0)
        return module().clone();
      Overrides overrides = options.overrides;
      overrides.emplace_back(microBatch->hyper, std::to_string(tokens));
      return std::move(traced(overrides).module);
    };
    if (microBatch && !microBatch->isGiven)
      request.microBatches = microBatchesToTry(microBatch->tokens, microBatch->row,
                                               trainingSize(module(), "global_batch"), worlds);
    const MemoryAnswer answer = chooseMemory(request);
    saveBytes = answer.saveBytes;
    spendBytes = answer.spendBytes;
    offloadBytes = answer.offloadBytes;
    if (answer.choice.microBatch > 0)
      programs.front() = request.trace(answer.choice.microBatch);
    frontier = answer.frontier;
  }

  /// Goes on behind `stage` with the IR of a file, after proving of it what holds after that stage.
  void goOn(const PipelineOptions &pipeline, const Stage &stage) {
    begin("read");
    loadDialects(context);
    codegen::loadNativeDialects(context);
    StageFile file = readStageFile(context, options.model, stage);
    programs = std::move(file.programs);
    source = std::move(file.source);
    if (stage.isForEachWorld()) {
      if (!worlds.empty() && worlds != file.worlds)
        throw ModelError(fmt::format("--world {}: {} is of {} ranks", fmt::join(worlds, ","),
                                     options.model, fmt::join(file.worlds, ",")));
      worlds = file.worlds;
      checkSchedule(pipeline, worlds);
    } else if (worlds.empty()) {
      worlds = {1};
    }
    checkWorlds(module(), worlds);
    for (size_t i = 0; i < programs.size(); ++i) {
      runs.push_back({*programs[i], pipeline, dump ? &*dump : nullptr});
      if (stage.isForEachWorld())
        dumpForWorld(runs.back(), worlds[i]);
    }
    if (!stage.addGate)
      return;
    begin(stage.name.str());
    Stage gate = stage;
    gate.addPasses = stage.addGate;
    runOnAll(gate);
  }

  /// Runs the passes of a stage, or its gate.
  void runOnAll(const Stage &stage) {
    try {
      runStage(stage, runs, options.passes, !isAgain && !beside, watch);
    } catch (const StageError &error) {
      // What others have written is theirs to mend.
      throw StageError(error.what(), error.isBadInput || !options.from.empty(),
                       error.isToBeReproduced);
    }
  }

  /// The program that all numbers of ranks share.
  ModuleOp module() { return *programs.front(); }

  void begin(const std::string &phase) {
    timer.begin(phase);
    setCrashPhase("stage " + phase +
                  "; --dump-ir DIR keeps the program after every pass before it");
  }

  /// From here on every stage of the run has its own program, and folder of --dump-ir.
  void partStages() {
    const SmallVector<graph::RunStage> stages = graph::runStagesOf(module());
    for (OwningOpRef<ModuleOp> &other : partRunStages(module())) {
      runs.push_back(runs.front());
      runs.back().module = *programs.emplace_back(std::move(other));
    }
    for (auto [i, run, stage] : llvm::enumerate(runs, stages)) {
      run.runStage = stage.name;
      if (i < saveBytes.size())
        run.options.recompute.saveBytes = saveBytes[i];
      if (i < spendBytes.size())
        run.options.recompute.spendBytes = spendBytes[i];
      if (i < offloadBytes.size())
        run.options.offload.bytes = offloadBytes[i];
      if (dump && !stage.name.empty())
        run.dump = &dumps.emplace_back(dump->folder("stage-" + stage.name));
    }
  }

  /// The folder of --dump-ir for a number of ranks, in that of `run`.
  void dumpForWorld(StageRun &run, int64_t world) {
    run.options.world = world;
    if (run.dump && worlds.size() > 1)
      run.dump = &dumps.emplace_back(run.dump->folder(fmt::format("world-{}", world)));
  }

  /// From here on every number of ranks has its own programs, and folder of --dump-ir. Those of one
  /// number stand together.
  void splitWorlds() {
    const std::vector<StageRun> common = std::exchange(runs, {});
    for (int64_t world : worlds)
      for (const StageRun &stage : common) {
        StageRun &run = runs.emplace_back(stage);
        if (world != worlds.front())
          run.module = *programs.emplace_back(ModuleOp(stage.module).clone());
        dumpForWorld(run, world);
      }
  }

  /// From `stage` on all stages of the run are one program.
  void joinStages(const Stage &stage) {
    const size_t count = runs.size() / worlds.size();
    if (count == 1)
      return;
    begin("join");
    for (size_t i = 0; i < worlds.size(); ++i) {
      SmallVector<ModuleOp> stages;
      for (const StageRun &part : ArrayRef(runs).slice(i * count, count))
        stages.push_back(part.module);
      runReporting(&context, stage.name.str(), [&] { return joinRunStages(stages); });
      StageRun &run = runs[i];
      run = runs[i * count];
      run.runStage.clear();
      if (!dump)
        continue;
      const bool isSingle = worlds.size() == 1;
      const IrDump own = isSingle ? *dump : dump->folder(fmt::format("world-{}", worlds[i]));
      run.dump = &dumps.emplace_back(own.behind(*run.dump));
    }
    runs.resize(worlds.size());
  }

  void runPasses(const Stage &stage) {
    if (stage.before)
      (this->*stage.before)();
    begin(stage.name.str());
    runOnAll(stage);
    if (stage.after)
      (this->*stage.after)();
  }

  void beforeFusion() override { measure(&RunTraffic::unfused); }
  void afterFusion() override { measure(&RunTraffic::fused); }

  /// What steps move, of the first number of ranks, by stage of the run.
  void measure(StepTraffic RunTraffic::*into) {
    traffic.resize(runs.size() / worlds.size());
    for (auto [run, of] : llvm::zip(runs, traffic)) {
      of.runStage = run.runStage;
      of.*into = measureStep(run.module, run.options.world);
    }
  }

  /// Text of kernels that become native code is this; other targets' is written with the plan.
  void kernelsStand() override {
    if (!targetOf(options.pipeline.target).hasNativeCode)
      return;
    for (const StageRun &run : runs) {
      if (run.dump)
        run.dump->writeKernels(run.module);
      if (options.passes)
        addKernels(*options.passes, run.module);
    }
  }

  void arenaIsKnown() override {
    for (const StageRun &run : runs)
      checkArena(run.module, options.model);
  }

  /// The stage `plan`: code for every kernel, once whatever number of ranks uses it, and a plan for
  /// each number of ranks. `target` may be null when plans are for CUDA.
  void writePlans(const codegen::CpuTarget *target) {
    begin("code");
    codegen::PlanParts parts;
    parts.target = options.pipeline.target;
    parts.source = source;
    runReporting(&context, "plan", [&]() -> LogicalResult {
      SmallVector<ModuleOp> modules;
      for (const StageRun &run : runs)
        modules.push_back(run.module);
      FailureOr<codegen::KernelUnion> all = codegen::uniteKernels(modules);
      if (failed(all))
        return failure();
      if (!all->kernels)
        return module().emitError("has no kernels: a training step needs a parameter to update");
      parts.kernels = all->kernels;
      parts.segments = std::move(all->segments);
      parts.reaches = std::move(all->reaches);
      parts.indices = std::move(all->indices);
      return targetOf(options.pipeline.target).hasNativeCode ? addNativeCode(parts, *target)
                                                             : addCudaSources(parts);
    });
    begin("plan");
    for (const StageRun &run : runs)
      runReporting(&context, "plan", [&]() -> LogicalResult {
        codegen::PlanParts own = parts;
        own.world = run.options.world;
        FailureOr<plan::Plan> written = codegen::writePlan(run.module, std::move(own));
        if (failed(written))
          return failure();
        plans.push_back(std::move(*written));
        return success();
      });
  }

  LogicalResult addCudaSources(codegen::PlanParts &parts) {
    FailureOr<std::vector<plan::Source>> sources =
        codegen::cudaSources(parts.kernels, parts.segments);
    if (failed(sources))
      return failure();
    parts.sources = std::move(*sources);
    if (dump)
      for (const plan::Source &file : parts.sources)
        dump->writeSource(file.name, file.text);
    return success();
  }

  static LogicalResult addNativeCode(codegen::PlanParts &parts, const codegen::CpuTarget &target) {
    const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
    FailureOr<codegen::NativeCode> native =
        codegen::compileKernels(parts.kernels, target, {.threads = threads});
    if (failed(native))
      return failure();
    parts.code = std::move(native->code);
    parts.cpuFeatures = std::move(native->cpuFeatures);
    return success();
  }

  void printStage(const Stage &stage) {
    timer.end();
    if (!stage.addPasses)
      llvm::outs() << plan::describe(plans);
    else
      for (const StageRun &run : runs) {
        if (&run != runs.data())
          llvm::outs() << "// -----\n";
        if (!run.runStage.empty())
          llvm::outs() << "// stage " << run.runStage << " of the run\n";
        if (worlds.size() > 1 && stage.scope != Stage::Scope::RunStage)
          llvm::outs() << "// --world " << run.options.world << "\n";
        ModuleOp(run.module)
            .print(llvm::outs(), OpPrintingFlags().enableDebugInfo(options.locations));
        llvm::outs() << "\n";
      }
    llvm::outs().flush();
    if (options.timing)
      fmt::print(stderr, "{}", timer.table());
  }

  void publish() {
    begin("write");
    if (const Status status = plan::writePlanFile(plans, options.output); !status)
      throw StageError(status.error().message, status.error().kind == Error::Kind::BadInput);
    timer.end();
    if (options.passes)
      options.passes->phases = timer.all();
    if (beside || options.quiet)
      return;

    const std::string &name = plans.front().model;
    const bool isSingle = runs.size() == 1;
    for (const auto &[stage, unfused, fused] : traffic)
      fmt::print("{}{}: {} kernels; a step{} runs them and library calls {} times ({} before "
                 "fusion) and moves {} ({} before fusion, floor {}: {:.2f} of it)\n",
                 name, stage.empty() ? "" : ", stage " + stage, plans.front().kernels.size(),
                 isSingle ? "" : " of " + ranksText(runs.front().options.world), fused.kernels,
                 unfused.kernels, bytesText(fused.bytes), bytesText(unfused.bytes),
                 bytesText(fused.floor),
                 static_cast<double>(fused.bytes) / static_cast<double>(fused.floor));
    if (traffic.empty()) // it went on from fused IR
      fmt::print("{}: {} kernels\n", name, plans.front().kernels.size());
    fmt::print("{}", frontier);
    for (const StageRun &run : runs) {
      const memory::MemorySummary held = memory::summarizeMemory(run.module);
      const std::string who =
          isSingle ? name : fmt::format("{}, {}", name, ranksText(run.options.world));
      fmt::print("{}: {}\n", who,
                 options.reportMemory ? memory::memoryReport(held) : memory::memoryLine(held));
      // Who holds it differs little between numbers of ranks.
      const std::string peak = &run == runs.data() ? memory::peakLine(held) : "";
      if (!options.reportMemory && !peak.empty())
        fmt::print("{}: {}\n", who, peak);
    }
    constexpr int64_t narrow = int64_t(UINT16_MAX) + 1;
    if (const int64_t tokens = plans.front().training.vocabSize; tokens > narrow)
      fmt::print("{}: its vocabulary of {} needs 32-bit tokens, which files of 16-bit ones have up "
                 "to {} only\n",
                 name, tokens, narrow - 1);
    std::error_code ignored;
    fmt::print("{}: {}, for {} rank{}, compiled in {:.2f} s\n", options.output,
               bytesText(static_cast<int64_t>(std::filesystem::file_size(options.output, ignored))),
               fmt::join(worlds, ", "), worlds == std::vector<int64_t>{1} ? "" : "s",
               timer.total());
    if (options.timing)
      fmt::print("{}", timer.table());
  }

  const CompileOptions &options;
  std::vector<int64_t> worlds; ///< options.worlds, or those of the IR that it goes on from
  const Beside *beside;
  bool isAgain;
  Watch watch;
  MLIRContext context;
  std::optional<ModelFile> opened;           ///< unless it is another's, or IR
  std::vector<frontend::KernelCheck> checks; ///< of the model's kernels
  CheckVerdict verdict;                      ///< on them
  std::string source;                        ///< the model file's text
  /// What the front end or a file has given, and what has been made of it for stages of the run and
  /// numbers of ranks.
  std::vector<OwningOpRef<ModuleOp>> programs;
  std::vector<StageRun> runs; ///< the programs that the present stage's passes run on
  std::optional<IrDump> dump;
  std::deque<IrDump> dumps; ///< in folders of it
  Timer timer;
  std::vector<int64_t> saveBytes;    ///< with --max-memory: by stage of the run
  std::vector<int64_t> spendBytes;   ///< likewise
  std::vector<int64_t> offloadBytes; ///< likewise
  std::string frontier;              ///< with --max-memory: what was tried
  std::vector<RunTraffic> traffic;   ///< of the first number of ranks
  std::vector<plan::Plan> plans;
};

} // namespace

const char *defaultTarget() { return NANO_DEFAULT_TARGET; }

int compileModel(const CompileOptions &options) {
  auto work = [&] {
    CompileOptions known = options;
    if (known.pipeline.target.empty())
      known.pipeline.target = defaultTarget();
    try {
      Compilation(known).run();
    } catch (const StageError &error) {
      if (!error.isToBeReproduced)
        throw;
      Compilation(known, /*beside=*/nullptr, /*isAgain=*/true).run();
      throw; // it did not fail again
    }
  };
  return guarded(work, options.passes);
}

} // namespace nano
