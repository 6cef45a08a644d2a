// The pipeline as prose: what happens to a model, stage by stage, and why in this order.
#include "compiler/Pipeline.h"

#include "codegen/cpu/CpuTarget.h"

#include "base/Target.h"
#include "compiler/Stages.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace nano {
namespace {

void addModelGate(OpPassManager &passes, const PipelineOptions &) {
  // Everything below assumes a whole model; what the front end cannot see line by line (a parameter
  // that no program uses, a program without a loss) is told here, in the model's own terms.
  passes.addPass(createVerifyModel());
}

/// The forward programs as the model file says them.
void addModel(OpPassManager &passes, const PipelineOptions &options) {
  // Before anything looks at a size: what a model file says of no tokens, no columns or no parts is
  // nothing to derive, check or lower. A parameter that leads to nothing else is then seen to.
  passes.addPass(createDropEmpty());
  addModelGate(passes, options);
}

/// What the optimizers read, every gradient, and that kernels will read and write by index inside.
void addDifferentiatedGate(OpPassManager &passes, const PipelineOptions &) {
  passes.addPass(createVerifyDifferentiated());
}

/// `train` computes gradients too.
void addDifferentiate(OpPassManager &passes, const PipelineOptions &options) {
  // First, so that a report is of the tensor as the model file says it; as plain ops, so that all
  // that follows treats its reductions as any others.
  if (options.reports)
    passes.addPass(createLowerReports(options.lowerReports));
  // On the graph as written, where a row is a row, and before indices are checked: its own are too.
  if (options.decode)
    passes.addPass(createDeriveDecode());
  // On the ops as the model file says them, so that what it tells is about its lines, and before
  // there are gradients, which scatter by the same indices.
  passes.addPass(createCheckIndices(options.checkIndices));
  // Before a loss and a sum of the same logits see these in two forms.
  passes.addPass(createShareLogSums());
  // On the forward pass, so that the gradients of numbers and weights are those of what it makes.
  ScaleWeightsOptions scale;
  scale.report = options.reportDetails;
  passes.addPass(createScaleWeights(scale));
  // After the targets of losses are known to be tokens, and on the forward pass, so that the
  // derivatives of what it changes are aligned too. For GPUs: the CPU's library takes any rows as
  // it takes others.
  if (targetOf(options.target).alignsProducts)
    passes.addPass(createAlignProducts(options.alignProducts));
  // On the graph as written: one derivative an op, before anything is merged into larger ops.
  passes.addPass(createDifferentiate());
  // Derivatives are written op by op and repeat each other (the same broadcast, the same cast of a
  // weight). Folding and merging them here keeps the choice of what to save, next, from counting
  // one value several times.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // On the derivatives, which it rewrites with the forward pass: those of what it makes would be
  // sums over more columns. After CSE, by which what the backward pass has of a norm is the forward
  // pass's, and before what is kept of it is chosen. For targets whose products may end with it.
  if (targetOf(options.target).fusesProducts && options.fuseProducts.products != "library") {
    ScaleResultsOptions results;
    results.machine = machineOf(options);
    results.all = options.fuseProducts.products == "fused";
    results.report = options.reportDetails;
    passes.addPass(createScaleResults(results));
  }
  // Before values are computed in several places.
  addDifferentiatedGate(passes, options);
  // After CSE, which would merge a recomputed value with the saved one again; nothing after it
  // merges equal ops across a program.
  RecomputeOptions recompute = options.recompute;
  recompute.machine = machineOf(options);
  recompute.report = options.reportDetails;
  passes.addPass(createRecompute(recompute));
}

/// A step's micro-batches as programs: `first`, `next`.
void addAccumulate(OpPassManager &passes, const PipelineOptions &) {
  // After recomputation, so that the decision of what to save is made once for both programs.
  passes.addPass(createSplitAccumulation());
}

/// Products of linear layers from 8-bit operands.
void addFp8(OpPassManager &passes, const PipelineOptions &options) {
  // After differentiation, because the recipe differs forward and backward, and after `first` and
  // `next` are programs, because weights are converted in one of them. Before distribution, so that
  // one policy holds for all numbers of ranks; the magnitudes that ranks have seen meet in
  // collectives, which distribution keeps. Before fusion, so that conversions and magnitudes become
  // part of the kernels that make the operands.
  passes.addPass(createScaleProducts(options.scaleProducts));
  // Reads the finished `first`, and is fused like any other program.
  passes.addPass(createMeasureProducts());
}

/// The program of one rank of so many: which micro-batches it runs, and what is communicated.
void addDistribute(OpPassManager &passes, const PipelineOptions &options) {
  // On the graph, where a gradient is still one named value, and before fusion, which must not pull
  // an optimizer's arithmetic across a collective. All before it is the same for every number of
  // ranks and is done once.
  DistributeOptions distribute = options.distribute;
  distribute.world = options.world;
  passes.addPass(createDistribute(distribute));
}

/// The optimizers, as the program `update` or as the end of `last`.
void addOptimize(OpPassManager &passes, const PipelineOptions &options) {
  // After distribution, which leaves a rank the gradients, or parts of them, that it updates. As
  // graph ops, so that fusion sees the equations like anything else.
  passes.addPass(createExpandOptimizers(options.expandOptimizers));
  // The optimizers' equations may slice too.
  passes.addPass(createDropEmpty());
  // Norms are of what the updates have become on this number of ranks; reports of the updates, the
  // model's too, stand among their ops.
  if (options.reports) {
    passes.addPass(createReportNorms());
    LowerReportsOptions reports = options.lowerReports;
    reports.eachStep = true;
    passes.addPass(createLowerReports(reports));
  }
}

/// Bufferization knows kernels, calls, collectives, views and state, and nothing else.
void addFusedGate(OpPassManager &passes, const PipelineOptions &) {
  passes.addPass(createVerifyFused());
}

/// What will be one kernel is one op.
void addFuse(OpPassManager &passes, const PipelineOptions &options) {
  // What a loss adds to a table's gradient by rows joins what others do.
  if (targetOf(options.target).fusesProducts && options.fuseProducts.products != "library") {
    ShiftLossesOptions losses = options.shiftLosses;
    losses.machine = machineOf(options);
    losses.report = options.reportDetails;
    passes.addPass(createShiftLosses(losses));
  }
  // What makes the copies, and what adds up their gradients, joins the kernels around them.
  if (targetOf(options.target).copiesKeys) {
    CopyKeysOptions copies;
    copies.machine = machineOf(options);
    copies.report = options.reportDetails;
    passes.addPass(createCopyKeys(copies));
  }
  // First: it makes fewer of the largest tensors that backward writes, and what joins must be known
  // when memory is estimated.
  passes.addPass(createJoinScatters());
  // Before anything is grouped: chunks are copies of whole chains of matmuls, reductions and small
  // ops.
  ChunkRowsOptions chunks = options.chunkRows;
  chunks.turns =
      targetOf(options.target).fusesProducts && options.fuseProducts.products != "library";
  // Costs less time for what it saves than making products again.
  chunks.further = options.recompute.saveBytes > 0;
  chunks.report = options.reportDetails;
  passes.addPass(createChunkRows(chunks));
  // Before elementwise fusion, so that what a library call does for free is not made a kernel.
  passes.addPass(createFoldMatmulEpilogues(
      FoldMatmulEpiloguesOptions{.narrows = targetOf(options.target).narrowsProducts}));
  // Late on tensors: it fixes which tensors exist in memory, and all that follows is about those.
  FuseOptions fuse = options.fuse;
  fuse.bothSums = targetOf(options.target).sumsBothWays;
  fuse.endProducts =
      targetOf(options.target).fusesProducts && options.fuseProducts.products != "library";
  passes.addPass(createFuse(fuse));
  // On kernels as they were grouped; changes nothing.
  if (options.reportFp8)
    passes.addPass(createReportCasts());
  // On final kernels, whose operands say which product could be part of one of them. The template
  // that computes both is for GPUs.
  if (targetOf(options.target).fusesProducts) {
    FuseProductsOptions products = options.fuseProducts;
    products.machine = machineOf(options);
    products.report = options.reportDetails;
    passes.addPass(createFuseProducts(products));
  }
  // On what is left to the library. Late, so that no kernel is given up for it, and because only
  // final kernels say what can be written as a part of something wider.
  if (targetOf(options.target).mergesProducts) {
    MergeProductsOptions merges = options.mergeProducts;
    merges.machine = machineOf(options);
    merges.report = options.reportDetails;
    passes.addPass(createMergeProducts(merges));
  }
  // When it is known which kernels read attention's gradients, and which do nothing but sum them.
  if (targetOf(options.target).sumsGradients) {
    SumGradientsOptions sums;
    sums.report = options.reportDetails;
    passes.addPass(createSumGradients(sums));
  }
  addFusedGate(passes, options);
}

/// Every tensor has a buffer.
void addBuffers(OpPassManager &passes, const PipelineOptions &) {
  // Needs final tensors and uses: whether a slice can be a view, a concat be written in place, a
  // state be updated in place.
  passes.addPass(createBufferize());
}

/// What follows reads of a kernel what it states.
void addKernelsGate(OpPassManager &passes, const PipelineOptions &) {
  passes.addPass(createVerifyKernels());
}

/// Every task is a kernel of loops and vectors.
void addKernels(OpPassManager &passes, const PipelineOptions &options) {
  // Copies are known when tensors have buffers. A launch can be shared by kernels and not by
  // copies; on the CPU neither costs anything to start.
  if (targetOf(options.target).batchesCopies)
    passes.addPass(createCopiesToTasks(options.copiesToTasks));
  // After buffers, whose strides are part of a kernel's code; before scheduling, which sees
  // launches and what they touch.
  LowerKernelsOptions kernels = options.lowerKernels;
  kernels.target = options.target;
  kernels.machine = machineOf(options);
  passes.addPass(createLowerKernels(kernels));
  addKernelsGate(passes, options);
}

/// Commands on streams, with events.
void addSchedule(OpPassManager &passes, const PipelineOptions &options) {
  // First, so that launches around one bucket can be one launch.
  passes.addPass(createBucketCollectives(options.bucketCollectives));
  // Needs to know which launches share a kernel, and changes the order of commands: before events.
  BatchLaunchesOptions batches = options.batchLaunches;
  if (const int64_t most = targetOf(options.target).maxParameterBytes)
    batches.maxParameterBytes = most;
  passes.addPass(createBatchLaunches(batches));
  // After all commands stand; before memory, because two buffers may share bytes only where this
  // order keeps them apart.
  ScheduleOptions schedule = options.schedule;
  schedule.machine = machineOf(options);
  passes.addPass(createSchedule(schedule));
  // When the order says how long each value is not needed; before memory, which it makes less.
  OffloadOptions offload = options.offload;
  offload.machine = machineOf(options);
  passes.addPass(createOffload(offload));
}

/// Every buffer has an offset in one arena.
void addMemory(OpPassManager &passes, const PipelineOptions &) {
  // Lifetimes are known only when the order of commands is final. On the programs of all stages of
  // the run, which come together here: states lie where they lie in all of them.
  passes.addPass(createPlanMemory());
  // Needs offsets: which buffers share bytes.
  passes.addPass(createPruneWaits());
}

/// Proofs on what will run.
void addVerify(OpPassManager &passes, const PipelineOptions &) {
  // On the final program and offsets, independent of the passes that made them.
  passes.addPass(createVerifyLiveness());
  passes.addPass(createVerifyRaces());
}

using Scope = Stage::Scope;
using Storage = Stage::Storage;
constexpr Stage stageTable[] = {
    {.name = "model",
     .summary = "the model's forward programs, as the model file says them",
     .addPasses = addModel,
     .addGate = addModelGate},
    {.name = "differentiate",
     .summary = "train also computes every parameter's gradient",
     .addPasses = addDifferentiate,
     .addGate = addDifferentiatedGate},
    {.name = "accumulate",
     .summary = "the step's micro-batches as programs: first, next",
     .addPasses = addAccumulate},
    {.name = "fp8",
     .summary = "products of linear layers from 8-bit operands, where the model asks for it",
     .addPasses = addFp8},
    {.name = "distribute",
     .summary = "the step of one rank of so many, with the collectives among them",
     .addPasses = addDistribute,
     .scope = Scope::WorldPart},
    {.name = "optimize",
     .summary = "the optimizers written out: as the program update, or as the end of last",
     .addPasses = addOptimize,
     .scope = Scope::WorldPart},
    {.name = "fuse",
     .summary = "what becomes one kernel is one op",
     .addPasses = addFuse,
     .scope = Scope::WorldPart,
     .addGate = addFusedGate,
     .before = &StageHooks::beforeFusion,
     .after = &StageHooks::afterFusion},
    {.name = "buffers",
     .summary = "every tensor has a buffer or is a view of one",
     .addPasses = addBuffers,
     .scope = Scope::WorldPart,
     .storage = Storage::Buffers},
    {.name = "kernels",
     .summary = "every task is a kernel in loops and vectors",
     .addPasses = addKernels,
     .scope = Scope::WorldPart,
     .storage = Storage::Buffers,
     .addGate = addKernelsGate,
     .after = &StageHooks::kernelsStand},
    {.name = "schedule",
     .summary = "commands on streams, with events where order is needed",
     .addPasses = addSchedule,
     .scope = Scope::WorldPart,
     .storage = Storage::Buffers,
     .addGate = addKernelsGate},
    {.name = "memory",
     .summary = "every buffer has an offset in one arena",
     .addPasses = addMemory,
     .scope = Scope::World,
     .storage = Storage::Arena,
     .addGate = addKernelsGate,
     .after = &StageHooks::arenaIsKnown},
    {.name = "verify",
     .summary = "proved: every read finds a written, live buffer; no two accesses race",
     .addPasses = addVerify,
     .scope = Scope::World,
     .storage = Storage::Arena,
     .addGate = addVerify},
    {.name = "plan",
     .summary = "native code and the plan file, printed as text",
     .addPasses = nullptr,
     .scope = Scope::World,
     .storage = Storage::Arena},
};

} // namespace

PipelineOptions forTarget(PipelineOptions options) {
  const Target &target = targetOf(options.target);
  options.scaleProducts.kMajor = target.isKMajor;
  if (const auto processor = codegen::CpuTarget::host(); processor && target.hasNativeCode) {
    options.lowerKernels.lanes = processor->lanes();
    options.lowerKernels.pairs = processor->avx512Bf16;
    options.lowerKernels.tiles = processor->amxBf16;
  }
  return options;
}

std::string machineOf(const PipelineOptions &options) {
  return options.machine.empty() ? std::string(targetOf(options.target).machine) : options.machine;
}

ArrayRef<Stage> stages() { return stageTable; }

const Stage *findStage(StringRef name) {
  const auto *found =
      llvm::find_if(stageTable, [&](const Stage &stage) { return stage.name == name; });
  return found == std::end(stageTable) ? nullptr : found;
}

std::string stageNames() {
  return llvm::join(
      llvm::map_range(stageTable, [](const Stage &stage) { return stage.name.str(); }), ", ");
}

void buildPipeline(OpPassManager &passes, const PipelineOptions &options, const Stage &last) {
  for (const Stage &stage : stageTable) {
    if (stage.addPasses)
      stage.addPasses(passes, options);
    if (&stage == &last)
      return;
  }
}

namespace {
struct PipelineFlags : PassPipelineOptions<PipelineFlags> {
  Option<std::string> upTo{*this, "up-to", llvm::cl::desc("the last stage to run"),
                           llvm::cl::init("verify")};
  Option<int64_t> world{*this, "world", llvm::cl::desc("number of ranks"), llvm::cl::init(1)};
  Option<bool> kMajor{*this, "k-major",
                      llvm::cl::desc("8-bit operands with the inner dimension last")};
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu or cuda"), llvm::cl::init("cpu")};
  Option<int64_t> lanes{*this, "lanes", llvm::cl::desc("CPU: f32 lanes of a vector"),
                        llvm::cl::init(16)};
};
} // namespace

void registerPipelines() {
  PassPipelineRegistration<PipelineFlags>(
      "nano-pipeline", "what `nanoc compile` runs, up to a stage",
      [](OpPassManager &passes, const PipelineFlags &flags) {
        const Stage *last = findStage(flags.upTo);
        if (!last)
          llvm::report_fatal_error(llvm::Twine("up-to=") + flags.upTo +
                                       ": no such stage; there are " + stageNames(),
                                   false);
        PipelineOptions options;
        options.world = flags.world;
        options.target = flags.target;
        options.lowerKernels.lanes = flags.lanes;
        options.scaleProducts.kMajor = flags.kMajor;
        buildPipeline(passes, options, *last);
      });
}

} // namespace nano
