// Buffers, states, scalars, kernels and the training of a plan, from a module with a memory plan.
#include "codegen/PlanWriter.h"

#include "base/Target.h"
#include "codegen/PlanCommands.h"
#include "codegen/PlanExpr.h"
#include "codegen/PlanInterchange.h"
#include "codegen/cuda/CudaEmitter.h"
#include "ir/graph/Data.h"
#include "ir/graph/Phases.h"
#include "ir/graph/RunStages.h"
#include "ir/graph/Sharding.h"
#include "ir/step/Step.h"
#include "ir/step/StepOrder.h"
#include "runtime/plan/Expr.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace nano::plan;

namespace nano::codegen {
namespace {

class PlanWriter {
public:
  PlanWriter(ModuleOp module, PlanParts &parts)
      : module(module), kernelModule(parts.kernels), segments(std::move(parts.segments)),
        reaches(std::move(parts.reaches)), indices(std::move(parts.indices)), kernels(module),
        symbols(module), all(graph::runStagesOf(module)), facts(all.front()) {
    if (!kernelModule) {
      kernelModule = module.lookupSymbol<ModuleOp>(step::kernelModuleName);
      segments = largestLaunches(module);
      reaches = kernelReaches(module);
      indices = indexGroups(module);
    }
    plan.indexGroups = std::move(indices.groups);
    plan.target = std::move(parts.target);
    plan.worlds = {parts.world};
    plan.code = std::move(parts.code);
    plan.sources = std::move(parts.sources);
    plan.cpuFeatures = std::move(parts.cpuFeatures);
    plan.source = std::move(parts.source);
  }

  LogicalResult run();
  Plan plan;

private:
  LogicalResult header();
  LogicalResult scalars();
  LogicalResult states();
  LogicalResult inputs();
  LogicalResult programs();
  LogicalResult columns(StringRef prefix, bool validation, std::vector<plan::Column> &columns);
  LogicalResult documents(plan::Documents &documents);
  /// The stages of the run.
  LogicalResult stages();
  LogicalResult training(Training &training);
  LogicalResult products(Training &training);
  /// What the stage's programs of a role, whose inputs have this prefix, check of indices.
  LogicalResult checks(StringRef role, StringRef prefix, IndexChecks &checks);
  void phases(Training &training);
  /// What the programs of a step report.
  void reports(Training &training);
  void events(Training &training);
  /// The stage's program of a role and phase; null when there is none.
  step::ProgramOp program(StringRef role, int64_t phase = 0);
  LogicalResult addKernels();

  /// Adds a buffer; its name gets a number when it is taken.
  uint32_t addBuffer(StringRef name, uint64_t offset, MemRefType type, mlir::Location location);
  /// The offset that memory planning gave an op.
  FailureOr<uint64_t> offsetOf(graph::PlacedOpInterface op);
  /// An integer of the stage's training.
  FailureOr<int64_t> size(StringRef name);
  /// The plan buffer of the stage's input of that name.
  FailureOr<uint32_t> input(const Twine &name);

  ModuleOp module, kernelModule;
  llvm::StringMap<int64_t> segments;
  KernelReaches reaches;
  IndexGroups indices;
  step::KernelTable kernels; ///< of the module
  SymbolTable symbols;
  PlanIndex index;
  SmallVector<graph::RunStage> all;
  int64_t stage = 0; ///< the one that is being written, and what is said of it
  graph::RunStage facts;
  llvm::StringMap<unsigned> bufferNames; ///< how often each was asked for
};

uint32_t PlanWriter::addBuffer(StringRef name, uint64_t offset, MemRefType type,
                               mlir::Location location) {
  std::string unique = name.str();
  while (unsigned uses = bufferNames[unique]++)
    unique = (name + "#" + Twine(uses + 1)).str();
  Buffer buffer;
  buffer.name = std::move(unique);
  buffer.offset = offset;
  buffer.bytes = uint64_t(step::contiguousBytes(type));
  buffer.type = dtypeOf(type.getElementType());
  buffer.shape.assign(type.getShape().begin(), type.getShape().end());
  buffer.location = planLocation(location);
  plan.buffers.push_back(std::move(buffer));
  return uint32_t(plan.buffers.size()) - 1;
}

FailureOr<uint64_t> PlanWriter::offsetOf(graph::PlacedOpInterface op) {
  const IntegerAttr offset = op.getOffsetAttr();
  if (!offset)
    return op->emitOpError("has no offset in the arena: nano-plan-memory runs first");
  return uint64_t(offset.getInt());
}

LogicalResult PlanWriter::header() {
  graph::ModelOp model = graph::modelOf(module);
  step::ArenaOp arena = step::arenaOf(module);
  if (!model || !arena)
    return module.emitError("has no ") << (model ? "step.arena" : "nano.model");
  plan.model = model.getName().str();
  plan.arenaBytes = arena.getBytes();
  plan.hostBytes = arena.getHost();
  if (std::optional<uint64_t> group = model.getGroup())
    plan.group = int64_t(*group);
  if (const ArrayAttr list = model.getHyperparametersAttr())
    for (auto entry : list.getAsRange<DictionaryAttr>()) {
      auto name = entry.getAs<StringAttr>("name"), value = entry.getAs<StringAttr>("value");
      auto overridden = entry.getAs<BoolAttr>("overridden");
      if (!name || !value || !overridden)
        return model.emitOpError("hyperparameters: an entry lacks name, value or overridden");
      plan.hyperparameters.push_back({name.str(), value.str(), overridden.getValue()});
    }
  FailureOr<Interchange> interchange = readInterchange(module);
  if (failed(interchange))
    return failure();
  plan.interchange = std::move(*interchange);
  return success();
}

LogicalResult PlanWriter::scalars() {
  uint64_t base = 0;
  SmallVector<graph::ScalarOp> ops(module.getOps<graph::ScalarOp>());
  for (graph::ScalarOp op : ops) {
    FailureOr<uint64_t> offset = offsetOf(op);
    if (failed(offset))
      return failure();
    if (op == ops.front())
      base = *offset;
    FailureOr<Expr> value = scalarExpr(op);
    if (failed(value))
      return failure();
    Scalar scalar;
    scalar.name = op.getSymName();
    scalar.type = dtypeOf(op.getType());
    scalar.offset = *offset - base;
    scalar.value = std::move(*value);
    plan.scalars.push_back(std::move(scalar));
    index.buffers[op.getSymNameAttr().getAsOpaquePointer()] = {uint32_t(plan.buffers.size()),
                                                               *offset - base};
  }
  if (!ops.empty()) {
    auto words = int64_t(plan.scalars.back().offset / sizeof(float) + 1);
    plan.scalarBuffer =
        addBuffer("scalars", base, MemRefType::get({words}, Float32Type::get(module.getContext())),
                  ops.front().getLoc());
  }
  return success();
}

/// The initial value as plans say it; its data are added to `data`.
static Init planInit(graph::InitAttr attribute, std::string &data) {
  ArrayRef<double> values = attribute.getValues();
  Init init;
  if (attribute.getKind() == "sign") {
    init.kind = Init::Kind::Sign;
    init.values.assign(values.begin(), values.end());
  } else if (DenseElementsAttr elements = attribute.getData()) {
    init.kind = Init::Kind::Data;
    init.offset = data.size();
    if (elements.isSplat())
      for (int64_t i = 0; i < elements.getNumElements(); ++i)
        data.append(elements.getRawData().begin(), elements.getRawData().end());
    else
      data.append(elements.getRawData().begin(), elements.getRawData().end());
  } else if (FlatSymbolRefAttr source = attribute.getSource()) {
    init.kind = attribute.getKind() == "transpose" ? Init::Kind::Transpose : Init::Kind::Copy;
    init.source = source.getValue();
  } else if (ArrayAttr parts = attribute.getParts()) {
    init.kind = Init::Kind::Blocks;
    init.counts.assign(values.begin(), values.end());
    for (auto part : parts.getAsRange<graph::InitAttr>())
      init.parts.push_back(planInit(part, data));
  } else if (attribute.getKind() == "normal") {
    init.kind = Init::Kind::Normal;
    init.mean = values[0];
    init.stddev = values[1];
  } else if (attribute.getKind() == "uniform") {
    init.kind = Init::Kind::Uniform;
    init.low = values[0];
    init.high = values[1];
  } else {
    init.values.assign(values.begin(), values.end());
  }
  return init;
}

static plan::Sharding planSharding(const graph::Sharding &sharding) {
  plan::Sharding result{planRanks(sharding.ranks), sharding.parts, sharding.chunk, {}};
  for (const graph::Sharding::Piece &piece : sharding.pieces)
    result.pieces.push_back({piece.name, {piece.shape.begin(), piece.shape.end()}, piece.offset});
  return result;
}

LogicalResult PlanWriter::states() {
  Variables atStart;
  FailureOr<int64_t> iterations = size("num_iterations"), batch = size("global_batch"),
                     sequence = size("seq_len");
  if (failed(iterations) || failed(batch) || failed(sequence))
    return failure();
  atStart.numIterations = double(*iterations);
  atStart.sequences = double(*batch) / double(*sequence);
  for (auto op : module.getOps<graph::StateOp>()) {
    FailureOr<uint64_t> offset = offsetOf(op);
    if (failed(offset))
      return failure();
    MemRefType type = step::memrefOf(op.getTensorType());
    // Of a step, or of a text that is sampled: nothing that lives on.
    if (op.getRole() == graph::Role::Report || op.getRole() == graph::Role::Cache) {
      index.buffers[op.getSymNameAttr().getAsOpaquePointer()] = {
          addBuffer(op.getSymName(), *offset, type, op.getLoc()), 0};
      continue;
    }
    State state;
    state.name = op.getSymName();
    static constexpr State::Role roles[] = {State::Role::Parameter, State::Role::Optimizer,
                                            State::Role::Gradient, State::Role::Constant};
    state.role = roles[size_t(op.getRole())];
    state.type = dtypeOf(type.getElementType());
    state.shape.assign(type.getShape().begin(), type.getShape().end());
    state.init = planInit(op.getInit(), plan.data);
    if (std::optional<graph::Sharding> sharding = graph::shardingOf(op))
      state.sharding = planSharding(*sharding);
    state.location = planLocation(op.getLoc());
    state.buffer = addBuffer(op.getSymName(), *offset, type, op.getLoc());
    index.buffers[op.getSymNameAttr().getAsOpaquePointer()] = {state.buffer, 0};
    if (FlatSymbolRefAttr optimizer = op.getOptimizerAttr()) {
      auto group = symbols.lookup<graph::OptimizerOp>(optimizer.getAttr());
      if (!group)
        return op.emitOpError("optimizer ") << optimizer << " is no nano.optimizer";
      state.optimizer = group.getKind();
      StringRef lr = group.getLr();
      auto schedule =
          llvm::find_if(plan.scalars, [&](const Scalar &scalar) { return scalar.name == lr; });
      if (schedule == plan.scalars.end())
        return group.emitOpError("learning rate @") << lr << " is no nano.scalar";
      state.learningRate = evaluate(schedule->value, atStart);
    }
    plan.states.push_back(std::move(state));
  }
  return success();
}

LogicalResult PlanWriter::inputs() {
  for (auto op : module.getOps<step::InputOp>()) {
    FailureOr<uint64_t> offset = offsetOf(op);
    if (failed(offset))
      return failure();
    index.buffers[op.getSymNameAttr().getAsOpaquePointer()] = {
        addBuffer(op.getSymName(), *offset, cast<MemRefType>(op.getType()), op.getLoc()), 0};
  }
  return success();
}

LogicalResult PlanWriter::addKernels() {
  if (!kernelModule)
    return success();
  const bool isCuda = !targetOf(plan.target).hasNativeCode;
  for (auto function : kernelModule.getOps<kernel::FuncOp>()) {
    const auto scratchBytes = uint64_t(function.getScratchBytes());
    Kernel kernel;
    kernel.name = function.getSymName();
    kernel.summary = function.getSummary().value_or("");
    if (FloatAttr flops = function.getFlopsPerKeyAttr())
      kernel.flopsPerKey = flops.getValueAsDouble();
    if (FloatAttr flops = function.getFlopsAttr())
      kernel.flops = flops.getValueAsDouble();
    if (std::optional<Type> type = function.getFlopsType())
      kernel.flopsType = dtypeOf(*type);
    if (isCuda) {
      const std::optional<kernel::LaunchAttr> launch = function.getLaunch();
      if (!launch)
        return function.emitOpError("does not say how it is launched on a GPU");
      kernel.clusterBlocks = uint32_t(launch->getCluster());
      kernel.tensorMaps = tensorMapsOf(function);
      kernel.source = kernel.name + ".cu";
      kernel.threads = uint32_t(launch->getThreads());
      kernel.iterationsPerBlock = launch->getBlockIterations();
      kernel.sharedBytes = scratchBytes;
      kernel.maxSegments = uint32_t(std::max<int64_t>(1, segments.lookup(function.getSymName())));
    } else {
      kernel.scratchBytes = scratchBytes;
    }
    kernel.reaches = reaches.lookup(function.getSymName());
    kernel.indices = indices.kernels.lookup(function.getSymName());
    function.getLoc()->walk([&](mlir::Location part) {
      if (auto line = dyn_cast<FileLineColLoc>(part)) {
        plan::Location location = planLocation(line);
        if (llvm::none_of(kernel.locations, [&](const plan::Location &other) {
              return other.file == location.file && other.line == location.line;
            }))
          kernel.locations.push_back(std::move(location));
      }
      return WalkResult::advance();
    });
    index.kernels[function.getSymNameAttr()] = uint32_t(plan.kernels.size());
    plan.kernels.push_back(std::move(kernel));
  }
  return success();
}

LogicalResult PlanWriter::programs() {
  for (auto op : module.getOps<step::ProgramOp>()) {
    for (auto buffer : op.getBody().getOps<step::BufferOp>()) {
      FailureOr<uint64_t> offset = offsetOf(buffer);
      if (failed(offset))
        return failure();
      std::string name = (op.getSymName() + "/" + buffer.getName()).str();
      index.buffers[step::bufferKey(buffer)] = {
          addBuffer(name, *offset, buffer.getType(), buffer.getLoc()), 0};
    }
    FailureOr<Program> program = planProgram(op, index, kernels);
    if (failed(program))
      return failure();
    plan.programs.push_back(std::move(*program));
  }
  return success();
}

FailureOr<int64_t> PlanWriter::size(StringRef name) {
  auto value = facts.training ? facts.training.getAs<IntegerAttr>(name) : IntegerAttr();
  if (!value)
    return module.emitError("training has no integer '") << name << "'";
  return value.getInt();
}

FailureOr<uint32_t> PlanWriter::input(const Twine &name) {
  const std::string wanted = name.str();
  for (auto op : module.getOps<step::InputOp>())
    if (graph::isInStage(op, stage) && graph::nameInStages(op, all) == wanted)
      return index.buffers[op.getSymNameAttr().getAsOpaquePointer()].buffer;
  return module.emitError("has no input @") << wanted;
}

step::ProgramOp PlanWriter::program(StringRef role, int64_t phase) {
  return step::programIn(module, role, stage, phase);
}

/// The steps of the training, from the programs by their roles and phases. Where no program
/// communicates, what runs last is `next`, or `first` when there is one micro-batch.
void PlanWriter::phases(Training &training) {
  const int64_t microBatches = training.globalBatch / (training.seqLen * plan.worlds.front());
  for (int64_t phase = 0, count = graph::phaseCount(module); phase < count; ++phase) {
    StepPrograms step;
    for (auto [known, into] : {std::pair("first", &step.first), std::pair("next", &step.next),
                               std::pair("last", &step.last), std::pair("update", &step.update)})
      if (step::ProgramOp op = program(known, phase))
        *into = op.getSymName().str();
    if (step == StepPrograms())
      return;
    if (step.last.empty())
      step.last = microBatches > 1 ? step.next : step.first;
    if (microBatches < 3)
      step.next.clear();
    if (microBatches < 2)
      step.first.clear();
    training.phases.push_back(std::move(step));
  }
}

LogicalResult PlanWriter::checks(StringRef role, StringRef prefix, IndexChecks &checks) {
  for (auto op : module.getOps<graph::IndexCheckOp>())
    if (op.getRole() == role && graph::isInStage(op, stage))
      checks.list.push_back(
          {op.getKind().str(), int64_t(op.getBound()), planLocation(op.getLoc())});
  if (checks.list.empty())
    return success();
  FailureOr<uint32_t> buffer = input(prefix + ".checks");
  if (failed(buffer))
    return failure();
  checks.buffer = *buffer;
  if (plan.buffers[*buffer].shape != std::vector<int64_t>{int64_t(checks.list.size())})
    return module.emitError("@") << prefix << ".checks has not one number for each of "
                                 << checks.list.size() << " nano.index_check";
  return success();
}

LogicalResult PlanWriter::columns(StringRef prefix, bool validation,
                                  std::vector<plan::Column> &columns) {
  using Type = plan::Column::Type;
  for (const graph::Column &column : graph::columnsOf(facts.training, validation)) {
    FailureOr<uint32_t> buffer = input(prefix + "." + column.inputName());
    if (failed(buffer))
      return failure();
    for (Type type : {Type::F32, Type::BF16, Type::I32, Type::U8})
      if (column.type == plan::nameOf(type))
        columns.push_back({column.name, type, column.ofTarget, *buffer});
  }
  return success();
}

/// The FP8 products that the stage's measuring program reports.
LogicalResult PlanWriter::products(Training &training) {
  if (!facts.fp8Products || training.measure.empty())
    return success();
  FailureOr<uint32_t> report = input("train.report");
  if (failed(report))
    return failure();
  training.reportBuffer = *report;
  for (auto entry : facts.fp8Products.getAsRange<DictionaryAttr>()) {
    auto weight = entry.getAs<StringAttr>("weight"), recipe = entry.getAs<StringAttr>("recipe");
    if (!weight || !recipe)
      return module.emitError("fp8_products: an entry lacks weight or recipe");
    plan::ScaledWeight &scaled = training.scaledWeights.emplace_back();
    scaled.name = weight.str();
    scaled.recipe = recipe.str();
    if (auto converted = entry.getAs<DenseBoolArrayAttr>("converted");
        converted && converted.size() == int64_t(scaled.converted.size()))
      llvm::copy(converted.asArrayRef(), scaled.converted.begin());
  }
  return success();
}

LogicalResult PlanWriter::documents(plan::Documents &documents) {
  DictionaryAttr attributes = facts.training;
  auto named = attributes.getAs<StringAttr>("documents");
  if (!named)
    return success();
  using Rule = plan::Documents::Rule;
  for (Rule rule : {Rule::Aligned, Rule::Cut, Rule::Packed})
    if (named.getValue() == plan::nameOf(rule))
      documents.rule = rule;
  if (documents.rule == Rule::Contiguous)
    return module.emitError("training")
           << ": documents is '" << named.getValue() << "', not aligned, cut or packed";
  if (module.lookupSymbol<graph::ScalarOp>(graph::longestDocumentSymbol))
    documents.longest = graph::longestDocumentSymbol.str();
  if (auto shuffle = attributes.getAs<BoolAttr>("shuffle_documents"))
    documents.shuffle = shuffle.getValue();
  return success();
}

void PlanWriter::reports(Training &training) {
  for (auto op : module.getOps<graph::ReportedOp>()) {
    Report report;
    report.name = op.getName().str();
    report.kind = Report::Kind(op.getKind());
    report.buffer = index
                        .buffers[symbols.lookup<graph::StateOp>(op.getSymbol())
                                     .getSymNameAttr()
                                     .getAsOpaquePointer()]
                        .buffer;
    report.offset = uint64_t(op.getAt()) * sizeof(float);
    report.edges.assign(op.getEdges().begin(), op.getEdges().end());
    report.eachStep = op.getEachStep();
    if (std::optional<ArrayRef<int64_t>> phases = op.getPhases())
      report.phases.assign(phases->begin(), phases->end());
    training.reports.push_back(std::move(report));
  }
}

void PlanWriter::events(Training &training) {
  for (auto op : module.getOps<step::ProgramOp>()) {
    if (op.getRole() != "event" || !graph::isInStage(op, stage))
      continue;
    auto step = op.getEventStepAttr();
    training.events.push_back({op.getSymName().str(), step ? step.getInt() : -1});
  }
}

LogicalResult PlanWriter::training(Training &training) {
  auto take = [](auto result, auto &into) {
    if (failed(result))
      return failure();
    into = *result;
    return success();
  };
  training.stage = facts.name;
  training.until = facts.until;
  step::ProgramOp validate = program("validate"), generate = program("generate");
  for (auto [op, into] :
       {std::pair(validate, &training.validate), std::pair(generate, &training.generate),
        std::pair(program("measure"), &training.measure)})
    if (op)
      *into = op.getSymName().str();
  if (failed(take(size("seq_len"), training.seqLen)) ||
      failed(take(size("val_seq_len"), training.valSeqLen)) ||
      failed(take(size("global_batch"), training.globalBatch)) ||
      failed(take(size("num_iterations"), training.numIterations)) ||
      failed(take(size("vocab_size"), training.vocabSize)) ||
      failed(take(size("eos_token"), training.eosToken)))
    return failure();
  phases(training);
  events(training);
  reports(training);
  if (auto isSum = facts.training.getAs<BoolAttr>("train_loss_is_sum"))
    training.trainLossIsSum = isSum.getValue();
  if (auto isSum = facts.training.getAs<BoolAttr>("val_loss_is_sum"))
    training.valLossIsSum = isSum.getValue();
  if (auto scalar = facts.training.getAs<StringAttr>("log_scalar"))
    training.logScalar = scalar.str();
  if (!training.phases.empty() &&
      (failed(take(input("train.tokens"), training.tokensBuffer)) ||
       failed(take(input("train.targets"), training.targetsBuffer)) ||
       failed(take(input("train.loss"), training.lossBuffer)) ||
       failed(columns("train", false, training.columns)) || failed(documents(training.documents)) ||
       failed(checks("train", "train", training.checks))))
    return failure();
  if (failed(products(training)))
    return failure();
  if (validate) {
    const std::string prefix = graph::nameInStages(validate, all);
    if (failed(take(input(prefix + ".tokens"), training.valTokensBuffer)) ||
        failed(take(input(prefix + ".targets"), training.valTargetsBuffer)) ||
        failed(take(input(prefix + ".loss"), training.valLossBuffer)) ||
        failed(columns(prefix, true, training.valColumns)) ||
        failed(checks("validate", prefix, training.valChecks)))
      return failure();
  }
  if (generate) {
    const std::string prefix = graph::nameInStages(generate, all);
    if (failed(take(input(prefix + ".tokens"), training.genTokensBuffer)) ||
        failed(take(input(prefix + ".logits"), training.logitsBuffer)) ||
        failed(checks("generate", prefix, training.genChecks)))
      return failure();
    const Buffer &logits = plan.buffers[training.logitsBuffer];
    if (logits.shape.size() != 2)
      return module.emitError("@") << prefix << ".logits must have two dimensions";
    training.genSeqLen = logits.shape[0];
    training.logitsColumns = logits.shape[1];
  }
  if (step::ProgramOp decode = program("decode")) {
    training.decode = decode.getSymName().str();
    const std::string prefix = graph::nameInStages(decode, all);
    if (failed(take(input(prefix + ".token"), training.decodeTokenBuffer)) ||
        failed(take(input(prefix + ".position"), training.decodePositionBuffer)) ||
        failed(take(input(prefix + ".logits"), training.decodeLogitsBuffer)) ||
        failed(checks("decode", prefix, training.decodeChecks)))
      return failure();
  }
  return success();
}

LogicalResult PlanWriter::stages() {
  for (stage = 0; stage < int64_t(all.size()); ++stage) {
    facts = all[size_t(stage)];
    if (failed(training(stage == 0 ? plan.training : plan.laterStages.emplace_back())))
      return failure();
  }
  return success();
}

LogicalResult PlanWriter::run() {
  if (failed(header()) || failed(scalars()) || failed(states()) || failed(inputs()) ||
      failed(addKernels()))
    return failure();
  if (failed(programs()))
    return failure();
  for (auto [key, group] : indices.buffers)
    if (auto found = index.buffers.find(key); found != index.buffers.end())
      plan.buffers[found->second.buffer].indices = group;
  return stages();
}

} // namespace

FailureOr<Plan> writePlan(ModuleOp module, PlanParts parts) {
  PlanWriter writer(module, parts);
  if (failed(writer.run()))
    return failure();
  return std::move(writer.plan);
}

} // namespace nano::codegen
