// Runs the pipeline stage by stage: dumps, seconds, errors by model line, crash reproducers.
#include "compiler/StageRunner.h"

#include "compiler/PassRecorder.h"
#include "compiler/TraceModel.h"

#include "base/Digest.h"
#include "codegen/cpu/NativeCode.h"
#include "ir/graph/ModelError.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "passes/DetailRemark.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

using namespace mlir;

namespace nano {

namespace fs = std::filesystem;

//===- Timer -------------------------------------------------------------------===//

void Timer::begin(std::string phase) {
  end();
  current = std::move(phase);
  since = Clock::now();
}

void Timer::end() {
  if (!current.empty())
    phases.push_back(
        {std::move(current), std::chrono::duration<double>(Clock::now() - since).count()});
  current.clear();
}

double Timer::total() const {
  double sum = 0;
  for (const Phase &phase : phases)
    sum += phase.seconds;
  return sum;
}

std::string Timer::table() const {
  std::string text;
  for (const Phase &phase : phases)
    text += fmt::format("  {:<16} {:7.3f} s\n", phase.name, phase.seconds);
  return text + fmt::format("  {:<16} {:7.3f} s\n", "total", total());
}

std::vector<std::pair<std::string, double>> Timer::all() const {
  std::vector<std::pair<std::string, double>> seconds;
  for (const Phase &phase : phases)
    seconds.emplace_back(phase.name, phase.seconds);
  return seconds;
}

//===- Dump --------------------------------------------------------------------===//

IrDump::IrDump(const std::string &directory, int number) : directory(directory), number(number) {
  std::error_code error;
  fs::create_directories(fs::path(directory) / "kernels", error);
  if (error)
    throw frontend::ModelError(
        fmt::format("--dump-ir {}: cannot make the directory: {}", directory, error.message()));
}

IrDump IrDump::folder(const std::string &name) const {
  return IrDump(directory + "/" + name, number);
}

void IrDump::writeFile(const std::string &path,
                       llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (!error) {
    print(file);
    file.flush();
    error = file.error();
    file.clear_error();
  }
  if (error)
    throw frontend::ModelError(
        fmt::format("--dump-ir {}: cannot be written: {}", path, error.message()));
}

void IrDump::write(ModuleOp module, const std::string &name) {
  writeFile(fmt::format("{}/{:02}-{}.mlir", directory, number++, name),
            [&](llvm::raw_ostream &file) {
              module->print(file, OpPrintingFlags().enableDebugInfo());
              file << "\n";
            });
}

void IrDump::writeKernels(ModuleOp module) {
  for (auto kernels : module.getOps<ModuleOp>())
    for (auto kernel : kernels.getOps<FunctionOpInterface>())
      writeFile(fmt::format("{}/kernels/{}.mlir", directory, kernel.getName().str()),
                [&](llvm::raw_ostream &file) { file << codegen::kernelText(kernel); });
}

void IrDump::writeSource(const std::string &name, const std::string &text) {
  writeFile(fmt::format("{}/kernels/{}", directory, name),
            [&](llvm::raw_ostream &file) { file << text; });
}

//===- Stages ------------------------------------------------------------------===//

namespace {

/// The model line behind a location: the first file and line in it.
std::string lineText(Location location) {
  std::string text;
  location->walk([&](Location part) {
    auto line = dyn_cast<FileLineColLoc>(part);
    if (!line)
      return WalkResult::advance();
    text = fmt::format("{}:{}: ", line.getFilename().str(), line.getLine());
    return WalkResult::interrupt();
  });
  return text;
}

using RecorderPtr = std::unique_ptr<PassRecorder>;

constexpr size_t noRun = ~size_t(0);
/// The run whose passes this thread was last given to run, an index, or noRun.
thread_local size_t currentRun = noRun;

/// Notes the run on the threads that its passes run on: the pass manager's own, and the context's.
class MarkRun : public PassInstrumentation {
public:
  explicit MarkRun(size_t run) : run(run) {}
  void runBeforePass(Pass *, Operation *) override { currentRun = run; }

private:
  size_t run;
};

/// Keeps what the context reports, instead of printing it: the first error and the remarks of each
/// of `count` runs, and of code that belongs to none. The context calls it for one diagnostic at a
/// time, on the thread that reports it.
class Reports {
public:
  /// With `recorders`, one of each run, these are told its remarks too.
  explicit Reports(MLIRContext *context, size_t count = 0, ArrayRef<RecorderPtr> recorders = {})
      : ofRuns(count), recorders(recorders),
        handler(context, [this](Diagnostic &diagnostic) { note(diagnostic); }) {}

  /// The first error of a run, or of no run; empty when there was none.
  const std::string &error(size_t run = noRun) const { return reportOf(run).error; }
  /// Whether that is one of the model's.
  bool isModelError(size_t run) const { return reportOf(run).isModelError; }

  /// The remarks of these runs, in this order, then of no run; each text once.
  void printRemarks(ArrayRef<StageRun> runs = {}, ArrayRef<size_t> order = {}) const {
    std::vector<std::string> all; // stages of the run
    llvm::MapVector<StringRef, std::vector<std::string>> remarks;
    auto add = [](std::vector<std::string> &stages, const std::string &stage) {
      if (!llvm::is_contained(stages, stage))
        stages.push_back(stage);
    };
    for (size_t run : order) {
      add(all, runs[run].runStage);
      for (const std::string &remark : ofRuns[run].remarks)
        add(remarks[remark], runs[run].runStage);
    }
    for (const std::string &remark : ofNoRun.remarks)
      remarks.insert({remark, all});
    for (const auto &[remark, stages] : remarks)
      fmt::print(stderr, "nanoc: {}{}\n", remark.str(),
                 stages.size() == all.size()
                     ? ""
                     : fmt::format(" (stage {} of the run)", fmt::join(stages, ", ")));
  }

private:
  struct Report {
    std::string error;
    bool isModelError = false;
    std::vector<std::string> remarks;
  };

  /// Where the first error of a run, or of no run, would be.
  const Report &reportOf(size_t run) const {
    return run < ofRuns.size() && !ofRuns[run].error.empty() ? ofRuns[run] : ofNoRun;
  }

  void note(Diagnostic &diagnostic) {
    Report &report = currentRun < ofRuns.size() ? ofRuns[currentRun] : ofNoRun;
    const std::string message = diagnostic.str(), line = lineText(diagnostic.getLocation());
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark) {
      const std::string remark = line + "remark: " + message;
      if (!isDetail(diagnostic))
        report.remarks.push_back(remark);
      if (currentRun < recorders.size())
        recorders[currentRun]->remark(remark);
    }
    // The other error is what the pass manager adds when it writes a reproducer.
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && report.error.empty() &&
        message.find("detected while processing") == std::string::npos) {
      report.error = line + message;
      report.isModelError = graph::isModelError(diagnostic);
    }
  }

  std::vector<Report> ofRuns;
  Report ofNoRun;
  ArrayRef<RecorderPtr> recorders;
  ScopedDiagnosticHandler handler;
};

/// The pass manager does not let exceptions through: the first one of a dump is kept in `error`.
class DumpAfterPass : public PassInstrumentation {
public:
  DumpAfterPass(IrDump &dump, std::exception_ptr &error) : dump(dump), error(error) {}

  void runAfterPass(Pass *pass, Operation *op) override { write(pass, op); }
  void runAfterPassFailed(Pass *pass, Operation *op) override { write(pass, op, "-failed"); }

private:
  void write(Pass *pass, Operation *op, const char *suffix = "") {
    auto module = dyn_cast<ModuleOp>(op);
    // Adaptors, which run other passes, have no argument.
    if (!module || pass->getArgument().empty() || error)
      return;
    try {
      dump.write(module, pass->getArgument().str() + suffix);
    } catch (...) {
      error = std::current_exception();
    }
  }
  IrDump &dump;
  std::exception_ptr &error;
};

} // namespace

namespace {

/// Calls `work` for 0 … count − 1 on as many threads as the machine has cores. Rethrows what one of
/// the calls threw, when all are done.
void forEachInParallel(size_t count, llvm::function_ref<void(size_t)> work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  auto loop = [&] {
    for (size_t i = next++; i < count; i = next++)
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        thrown = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  const size_t threads = std::min<size_t>(count, std::thread::hardware_concurrency());
  for (size_t i = 1; i < threads; ++i)
    others.emplace_back(loop);
  loop();
  for (std::thread &thread : others)
    thread.join();
  if (thrown)
    std::rethrow_exception(thrown);
}

/// Runs all of `passes`, then verifies what they have made. A crash is a failure.
LogicalResult runAndVerify(PassManager &passes, ModuleOp module, size_t index) {
  LogicalResult result = failure();
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext().RunSafelyOnThread([&] {
    result = passes.run(module);
    currentRun = index;
    if (succeeded(result))
      result = verify(module);
  });
  return result;
}

/// What running a stage on one program has come to.
struct Outcome {
  bool hasFailed = false;
  std::string reproducer = {}; ///< the file, where it has failed; empty: none is kept
};

/// Runs the passes on one program, the stage's `index`-th. `recorder` may be null.
Outcome runPasses(const Stage &stage, const StageRun &run, size_t index, PassRecorder *recorder,
                  Watch watch) {
  ModuleOp module = run.module;
  PassManager passes(module.getContext());
  stage.addPasses(passes, run.options);
  passes.addInstrumentation(std::make_unique<MarkRun>(index));
  if (recorder)
    passes.addInstrumentation(recorder->instrumentation());
  std::exception_ptr dumpError;
  if (run.dump)
    passes.addInstrumentation(std::make_unique<DumpAfterPass>(*run.dump, dumpError));
  if (watch == Watch::EveryStage) {
    passes.enableVerifier(false);
    return {failed(runAndVerify(passes, module, index))};
  }
  std::error_code ignored;
  const std::string reproducer = (fs::temp_directory_path(ignored) /
                                  fmt::format("nanoc-{}-{}{}-{}.mlir", stage.name.str(),
                                              run.runStage.empty() ? "" : run.runStage + "-",
                                              run.options.world, randomDigits()))
                                     .string();
  passes.enableCrashReproducerGeneration(reproducer);
  const bool isDone = succeeded(passes.run(module));
  if (dumpError)
    std::rethrow_exception(dumpError);
  return {!isDone, reproducer};
}

} // namespace

void runStage(const Stage &stage, ArrayRef<StageRun> runs, explore::PassRecords *records,
              bool tells, Watch watch) {
  std::vector<RecorderPtr> recorders;
  for (const StageRun &run : records ? runs : ArrayRef<StageRun>()) {
    explore::PassRecord blank;
    blank.stage = stage.name.str();
    blank.runStage = run.runStage;
    blank.world = stage.isForEachWorld() ? run.options.world : 0;
    recorders.push_back(std::make_unique<PassRecorder>(run.module, std::move(blank),
                                                       /*compares=*/run.options.world ==
                                                           runs.front().options.world));
  }
  // One for all: the context tells every error to the newest handler.
  Reports reports(runs.front().module->getContext(), runs.size(), recorders);
  std::vector<Outcome> outcomes(runs.size());
  auto work = [&](size_t i) {
    outcomes[i] = runPasses(stage, runs[i], i, records ? recorders[i].get() : nullptr, watch);
  };
  // What is told does not depend on which thread came first.
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(
      order, [&](size_t a, size_t b) { return runs[a].options.world < runs[b].options.world; });
  {
    const llvm::scope_exit tell([&] {
      if (tells)
        reports.printRemarks(runs, order);
    });
    forEachInParallel(runs.size(), work);
  }

  if (records) {
    std::vector<std::vector<explore::PassRecord>> all;
    for (const RecorderPtr &recorder : recorders)
      all.push_back(recorder->take());
    addRecords(*records, std::move(all));
    records->stages.push_back(
        {stage.name.str(), stage.summary.str(), lineOpsOf(runs.front().module)});
  }
  const auto failed = llvm::find_if(order, [&](size_t run) { return outcomes[run].hasFailed; });
  if (failed == order.end())
    return;
  const std::string &error = reports.error(*failed), &reproducer = outcomes[*failed].reproducer;
  if ((&stage == &stages().front() || reports.isModelError(*failed)) && !error.empty()) {
    std::error_code ignored;
    fs::remove(reproducer, ignored);
    throw StageError(error, true);
  }
  std::string name = stage.name.str();
  if (!runs[*failed].runStage.empty())
    name += fmt::format(", stage '{}' of the run", runs[*failed].runStage);
  if (llvm::any_of(runs, [&](const StageRun &run) {
        return run.options.world != runs.front().options.world;
      }))
    name += fmt::format(", --world {}", runs[*failed].options.world);
  if (!reproducer.empty())
    name += "; reproduce with nano-opt --run-reproducer " + reproducer;
  throw StageError(fmt::format("{} (stage {})", error.empty() ? "a pass crashed" : error, name),
                   false,
                   /*isToBeReproduced=*/reproducer.empty());
}

void runReporting(MLIRContext *context, const std::string &name,
                  llvm::function_ref<LogicalResult()> work) {
  const Reports reports(context);
  const LogicalResult result = work();
  reports.printRemarks();
  if (failed(result) && reports.isModelError(noRun))
    throw StageError(reports.error(), true);
  if (failed(result))
    throw StageError(
        fmt::format("{} (stage {})",
                    reports.error().empty() ? "failed without a message" : reports.error(), name),
        false);
}

} // namespace nano
