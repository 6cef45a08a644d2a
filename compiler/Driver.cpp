// Drives a compilation: host compiler, trace, stages, code, plan; and what is told about it.
#include "compiler/Driver.h"

#include "codegen/PlanWriter.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/NativeCode.h"
#include "codegen/cuda/CudaEmitter.h"
#include "compiler/CrashMessage.h"
#include "compiler/HostCompiler.h"
#include "compiler/Registration.h"
#include "compiler/ScalesFile.h"
#include "compiler/StageRunner.h"
#include "ir/graph/Program.h"
#include "passes/fuse/Traffic.h"
#include "passes/memory/MemoryReport.h"
#include "runtime/plan/PlanFile.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

using namespace mlir;

namespace nano {

using frontend::HyperparameterRecord;
using frontend::ParameterRecord;
using frontend::TracedModel;

namespace {

using Overrides = std::vector<std::pair<std::string, std::string>>;

void loadDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

TracedModel trace(MLIRContext &context, const ModelFile &file, const Overrides &overrides,
                  const std::string &scales = {}) {
  frontend::TraceInput input = file.input();
  input.overrides = overrides;
  if (!scales.empty())
    input.scales = readScalesFile(scales);
  return frontend::traceModel(context, input);
}

int64_t trainingSize(ModuleOp module, StringRef name) {
  auto training = module->getAttrOfType<DictionaryAttr>(graph::trainingAttrName);
  return training.getAs<IntegerAttr>(name).getInt();
}

/// Every number of ranks must divide the sequences of the global batch.
void checkWorlds(ModuleOp module, const std::vector<int64_t> &worlds) {
  const int64_t batch = trainingSize(module, "global_batch"),
                length = trainingSize(module, "seq_len");
  for (int64_t world : worlds)
    if (batch / length % world != 0)
      throw ModelError(fmt::format("--world {}: {} ranks cannot share the {} sequences of a global "
                                   "batch ({} tokens, {} a sequence)",
                                   world, world, batch / length, batch, length));
}

/// A plan that no machine can hold is not written; its model's sizes are a mistake.
void checkArena(ModuleOp module, const std::string &model) {
  constexpr int64_t limit = int64_t(1) << 40;
  const memory::MemorySummary held = memory::summarizeMemory(module);
  if (held.arena > limit)
    throw ModelError(fmt::format("{}: the model asks for sizes that do not fit: {}, more than 1 TiB"
                                 "; {}",
                                 model, memory::memoryLine(held), memory::peakLine(held, 1)));
}

void checkTarget(const std::string &target) {
  if (target != "cpu" && target != "cuda")
    throw ModelError(fmt::format("--target {}: no such target; there are cpu and cuda", target));
}

//===- What a step moves -------------------------------------------------------===//

/// Kernels, calls and bytes of an optimizer step on one rank that walks over the whole global
/// batch.
struct StepTraffic {
  int64_t kernels = 0, bytes = 0, floor = 0;
};

StepTraffic measureStep(ModuleOp module) {
  const int64_t sequences = trainingSize(module, "global_batch") / trainingSize(module, "seq_len");
  StepTraffic sum;
  auto add = [&](StringRef role, int64_t times) {
    func::FuncOp function = graph::functionWithRole(module, role);
    if (!function || times == 0)
      return;
    const Traffic traffic = measureTraffic(function);
    sum.kernels += times * traffic.kernels;
    sum.bytes += times * traffic.bytes;
    sum.floor += times * trafficFloor(function);
  };
  add("first", 1);
  add("next", sequences - 1);
  add("update", 1);
  return sum;
}

/// "1.48 TB", "16.67 GB", "385.2 MB"
std::string bytesText(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  for (auto [unit, size] : {std::pair("TB", 1e12), std::pair("GB", 1e9), std::pair("MB", 1e6)})
    if (value >= size)
      return fmt::format("{:.2f} {}", value / size, unit);
  return fmt::format("{:.2f} kB", value / 1e3);
}

//===- One compilation ---------------------------------------------------------===//

class Compilation {
public:
  explicit Compilation(const CompileOptions &options) : options(options) {}

  void run() {
    checkTarget(options.target);
    const Stage *last = options.stopAfter.empty() ? nullptr : findStage(options.stopAfter);
    if (!options.stopAfter.empty() && !last)
      throw ModelError(fmt::format("--stop-after {}: no such stage; there are {}",
                                   options.stopAfter, stageNames()));
    if (!last && options.output.empty())
      throw ModelError("compile: where should the plan go? Give -o OUT.plan");
    const bool isCuda = options.target == "cuda";
    const std::optional<codegen::CpuTarget> target = codegen::CpuTarget::host();
    if (!target && !isCuda)
      throw ModelError(
          "--target cpu: this machine's processor lacks AVX2 or FMA, which plans for the CPU need");
    if (!options.dumpDirectory.empty())
      dump.emplace(options.dumpDirectory);

    begin("host compiler");
    const ModelFile file(options.model);
    begin("trace");
    loadDialects(context);
    codegen::loadNativeDialects(context);
    model = trace(context, file, options.overrides, options.fp8Scales);
    checkWorlds(module(), options.worlds);
    if (dump)
      dump->write(module(), "frontend");

    PipelineOptions pipeline;
    pipeline.worlds.assign(options.worlds.begin(), options.worlds.end());
    pipeline.chunkBytes = options.chunkBytes;
    pipeline.target = options.target;
    if (isCuda)
      pipeline.kMajor = true; // what cuBLASLt's 8-bit products take
    else
      pipeline.lanes = target->lanes();
    pipeline.reportFp8 = options.reportFp8;
    for (const Stage &stage : stages()) {
      if (stage.addPasses)
        runPasses(stage, pipeline);
      else if (isCuda)
        writeCudaPlan(file.source());
      else
        writePlan(*target, file.source());
      if (&stage == last)
        return printStage(stage);
    }
    publish();
  }

private:
  ModuleOp module() { return *model.module; }

  void begin(const std::string &phase) {
    timer.begin(phase);
    setCrashPhase(phase == "trace" ? options.model + ", the model's own code" : "stage " + phase);
  }

  void runPasses(const Stage &stage, const PipelineOptions &pipeline) {
    if (stage.name == "fuse")
      unfused = measureStep(module());
    begin(stage.name.str());
    runStage(stage, module(), pipeline, dump ? &*dump : nullptr);
    if (stage.name == "fuse")
      fused = measureStep(module());
    if (stage.name == "kernels" && dump && options.target == "cpu")
      dump->writeKernels(module());
    if (stage.name == "memory")
      checkArena(module(), options.model);
  }

  /// What every plan of this compilation has.
  codegen::PlanParts planParts(const std::string &source) {
    codegen::PlanParts parts;
    parts.target = options.target;
    parts.worlds = options.worlds;
    parts.source = source;
    return parts;
  }

  /// The stage `plan` for CUDA: every kernel's source, and the plan.
  void writeCudaPlan(const std::string &source) {
    begin("code");
    codegen::PlanParts parts = planParts(source);
    runReporting(&context, "plan", [&]() -> LogicalResult {
      FailureOr<std::vector<plan::Source>> sources = codegen::cudaSources(module());
      if (failed(sources))
        return failure();
      parts.sources = std::move(*sources);
      return success();
    });
    if (dump)
      for (const plan::Source &file : parts.sources)
        dump->writeSource(file.name, file.text);
    writeParts(std::move(parts));
  }

  /// The stage `plan`: native code for every kernel, and the plan.
  void writePlan(const codegen::CpuTarget &target, const std::string &source) {
    begin("code");
    codegen::PlanParts parts = planParts(source);
    runReporting(&context, "plan", [&]() -> LogicalResult {
      auto kernels = module().lookupSymbol<ModuleOp>("kernels");
      if (!kernels)
        return module().emitError("has no kernels");
      const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
      FailureOr<codegen::NativeCode> native = codegen::compileKernels(kernels, target, threads);
      if (failed(native))
        return failure();
      parts.code = std::move(native->code);
      parts.cpuFeatures = std::move(native->cpuFeatures);
      return success();
    });
    writeParts(std::move(parts));
  }

  void writeParts(codegen::PlanParts parts) {
    begin("plan");
    runReporting(&context, "plan", [&]() -> LogicalResult {
      FailureOr<plan::Plan> written = codegen::writePlan(module(), std::move(parts));
      if (failed(written))
        return failure();
      plan = std::move(*written);
      return success();
    });
  }

  void printStage(const Stage &stage) {
    timer.end();
    if (stage.addPasses) {
      module()->print(llvm::outs());
      llvm::outs() << "\n";
    } else {
      llvm::outs() << plan::describe(plan);
    }
    llvm::outs().flush();
    if (options.timing)
      fmt::print(stderr, "{}", timer.table());
  }

  void publish() {
    begin("write");
    if (const Status status = plan::writePlanFile(plan, options.output); !status)
      throw StageError(status.error().message, status.error().kind == Error::Kind::BadInput);
    const memory::MemorySummary held = memory::summarizeMemory(module());
    timer.end();

    fmt::print("{}: {} kernels; a step runs them and library calls {} times ({} before fusion) and "
               "moves {} ({} before fusion, floor "
               "{}: {:.2f} of it)\n",
               plan.model, plan.kernels.size(), fused.kernels, unfused.kernels,
               bytesText(fused.bytes), bytesText(unfused.bytes), bytesText(fused.floor),
               static_cast<double>(fused.bytes) / static_cast<double>(fused.floor));
    fmt::print("{}: {}\n", plan.model,
               options.reportMemory ? memory::memoryReport(held) : memory::memoryLine(held));
    if (const std::string peak = memory::peakLine(held); !options.reportMemory && !peak.empty())
      fmt::print("{}: {}\n", plan.model, peak);
    std::error_code ignored;
    fmt::print("{}: {}, for {} rank{}, compiled in {:.2f} s\n", options.output,
               bytesText(static_cast<int64_t>(std::filesystem::file_size(options.output, ignored))),
               fmt::join(options.worlds, ", "),
               options.worlds == std::vector<int64_t>{1} ? "" : "s", timer.total());
    if (options.timing)
      fmt::print("{}", timer.table());
  }

  const CompileOptions &options;
  MLIRContext context;
  TracedModel model;
  std::optional<IrDump> dump;
  Timer timer;
  StepTraffic unfused, fused;
  plan::Plan plan;
};

/// Runs `work` and turns what it throws into a line and an exit status.
template <typename Work> int guarded(const Work &work) {
  try {
    work();
    return Done;
  } catch (const ModelError &error) {
    fmt::print(stderr, "nanoc: {}\n", error.what());
    return BadInput;
  } catch (const StageError &error) {
    fmt::print(stderr, "nanoc: {}\n", error.what());
    return error.isBadInput ? BadInput : RunFailed;
  } catch (const std::exception &error) {
    fmt::print(stderr, "nanoc: internal error: {}\n", error.what());
    return RunFailed;
  }
}

//===- Tables ------------------------------------------------------------------===//

/// Columns of text, each as wide as its widest cell. Width counts characters, not bytes.
std::string table(const std::vector<std::vector<std::string>> &rows) {
  auto width = [](const std::string &text) {
    return llvm::count_if(text,
                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  };
  std::vector<std::ptrdiff_t> widths;
  for (const auto &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max<std::ptrdiff_t>(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto &row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      line +=
          " " + row[i] + std::string(i + 1 < row.size() ? widths[i] - width(row[i]) + 1 : 0, ' ');
    text += StringRef(line).rtrim().str() + "\n";
  }
  return text;
}

} // namespace

const char *defaultTarget() { return NANO_DEFAULT_TARGET; }

int compileModel(const CompileOptions &options) {
  catchCrashes();
  return guarded([&] {
    CompileOptions known = options;
    if (known.target.empty())
      known.target = defaultTarget();
    Compilation(known).run();
  });
}

int listParameters(const std::string &path, const Overrides &overrides) {
  return guarded([&] {
    const ModelFile file(path);
    MLIRContext context;
    loadDialects(context);
    const TracedModel model = trace(context, file, overrides);
    std::vector<std::vector<std::string>> rows{{"hyperparameter", "default", "meaning"}};
    const bool anyOverridden = llvm::any_of(
        model.hyperparameters, [](const HyperparameterRecord &r) { return r.overridden; });
    if (anyOverridden)
      rows[0].insert(rows[0].begin() + 2, "value");
    for (const HyperparameterRecord &record : model.hyperparameters) {
      rows.push_back({record.name, record.defaultValue, record.about});
      if (anyOverridden)
        rows.back().insert(rows.back().begin() + 2, record.value);
    }
    std::vector<std::vector<std::string>> parameters{
        {"parameter", "shape", "type", "initial value", "optimizer"}};
    for (const ParameterRecord &record : model.parameters)
      parameters.push_back({record.name, record.shape, record.type, record.init, record.optimizer});
    fmt::print("{}: hyperparameters\n{}\n{}: parameters\n{}", file.input().name, table(rows),
               file.input().name, table(parameters));
  });
}

int listStages() {
  std::vector<std::vector<std::string>> rows;
  for (const Stage &stage : stages())
    rows.push_back({stage.name.str(), stage.summary.str()});
  fmt::print("{}", table(rows));
  return Done;
}

} // namespace nano
