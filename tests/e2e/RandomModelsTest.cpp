// Random models through the whole compiler and the CPU device, some through the emulator of CUDA
// under two of its schedules, against the interpreter of the graph dialect: losses, gradients (also
// against finite differences of the model as it was written), optimizer states and parameters of
// two steps.
#include "codegen/PlanWriter.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/NativeCode.h"
#include "codegen/cuda/CudaEmitter.h"
#include "compiler/Registration.h"
#include "compiler/RunStages.h"
#include "compiler/StageRunner.h"
#include "ir/graph/Phases.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"
#include "runtime/Device.h"
#include "runtime/Start.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/Expr.h"
#include "runtime/plan/PlanFile.h"
#include "tests/e2e/RandomModel.h"
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

using namespace mlir;

namespace nano::test {
namespace {

constexpr int64_t steps = 2;
constexpr int seed = 12345; // of random numbers

/// Tokens and targets of one sequence.
struct Sequence {
  TensorValue tokens, targets;
};

/// What a run leaves: losses of every sequence by step, then values of states by step.
struct Record {
  std::vector<std::vector<double>> losses;
  std::vector<StateMap> gradients, states;
  double validation = 0;
  TensorValue logits;
};

/// Relative distances that count as equal: of a number, and of a tensor in the Euclidean norm
/// (elements whose gradient is nearly zero move by rounding errors, here and in any other program).
struct Tolerance {
  double loss, gradient, state;
};
constexpr Tolerance forF32 = {2e-5, 1e-3, 1e-3}, forBf16 = {1e-2, 5e-2, 2e-2};

double normOf(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

double distance(const TensorValue &found, const TensorValue &wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  std::vector<double> difference = wanted.data;
  for (size_t i = 0; i < difference.size(); ++i)
    difference[i] -= found.data[i];
  return normOf(difference);
}

//===- Numbers on the device ---------------------------------------------------===//

std::vector<char> packed(const TensorValue &value, plan::DType type) {
  std::vector<char> bytes(value.data.size() * plan::sizeOf(type));
  for (size_t i = 0; i < value.data.size(); ++i) {
    if (type == plan::DType::I32) {
      auto number = static_cast<int32_t>(value.data[i]);
      std::memcpy(&bytes[4 * i], &number, 4);
      continue;
    }
    auto number = static_cast<float>(value.data[i]);
    uint32_t bits = 0;
    std::memcpy(&bits, &number, 4);
    if (type == plan::DType::BF16) {
      uint16_t half = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
      std::memcpy(&bytes[2 * i], &half, 2);
    } else {
      std::memcpy(&bytes[4 * i], &bits, 4);
    }
  }
  return bytes;
}

TensorValue unpacked(const std::vector<char> &bytes, plan::DType type,
                     const std::vector<int64_t> &shape) {
  TensorValue value{shape, std::vector<double>(bytes.size() / plan::sizeOf(type))};
  for (size_t i = 0; i < value.data.size(); ++i) {
    uint32_t bits = 0;
    if (type == plan::DType::BF16)
      std::memcpy(reinterpret_cast<char *>(&bits) + 2, &bytes[2 * i], 2);
    else
      std::memcpy(&bits, &bytes[4 * i], 4);
    float number = 0;
    std::memcpy(&number, &bits, 4);
    value.data[i] = number;
  }
  return value;
}

//===- One model ---------------------------------------------------------------===//

class RandomModels : public testing::TestWithParam<uint64_t> {
protected:
  void SetUp() override {
    // tools/random-models looks for the fewest blocks with which a model fails.
    const char *blocks = std::getenv("NANO_RANDOM_BLOCKS");
    model = blocks ? randomModel(GetParam(), std::strtoll(blocks, nullptr, 10))
                   : randomModel(GetParam());
    path = testing::TempDir() + "nano-random-model-" + std::to_string(GetParam()) + ".mlir";
    std::ofstream(path) << model.text;
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    codegen::loadNativeDialects(context);
    original = parseSourceString<ModuleOp>(model.text, &context, path);
    ASSERT_TRUE(original) << path;
    random.seed(GetParam());
    originals.push_back(original->clone());
    for (OwningOpRef<ModuleOp> &later : partRunStages(*originals.front()))
      originals.push_back(std::move(later));
    for (int64_t i = 0; i < steps * model.sequences; ++i)
      batch.push_back(
          drawSequence(stageOf(i / model.sequences) == 0 ? model.seqLen : model.laterSeqLen));
    held = drawSequence(model.valSeqLen);
    prompt = drawSequence(model.genSeqLen);
  }
  void TearDown() override {
    if (!HasFailure())
      std::remove(path.c_str());
  }

  Sequence drawSequence(int64_t length) {
    auto type = RankedTensorType::get({length}, IntegerType::get(&context, 32));
    return {TensorValue::integers(type, random, 0, model.vocabulary),
            TensorValue::integers(type, random, 0, model.vocabulary)};
  }

  /// Everything up to the plans for the CPU; `optimized` are the modules after the compiler's stage
  /// of that name, for one rank.
  void compile();
  /// The plans of a target by number of ranks, each that divides the batch and is at most `worlds`.
  void compile(PipelineOptions pipeline, int64_t worlds, std::map<int64_t, plan::Plan> &into);
  void compile(const std::vector<OwningOpRef<ModuleOp>> &modules, const PipelineOptions &pipeline,
               std::map<int64_t, plan::Plan> &into);
  /// Runs one of the compiler's stages on the program of a stage of the run, or of all.
  void runOn(ModuleOp module, const Stage &stage, const PipelineOptions &pipeline);
  /// The stage of the run that a step is of.
  size_t stageOf(int64_t step) const { return model.laterSeqLen > 0 && step > 0 ? 1 : 0; }
  /// The optimized program of a role that runs in a step; null when there is none.
  func::FuncOp programOfStep(StringRef role, int64_t step) {
    ModuleOp module = *optimized[stageOf(step)];
    for (auto function : module.getOps<func::FuncOp>())
      if (function->getAttrOfType<StringAttr>(graph::roleAttrName).getValue() == role &&
          graph::runsInPhase(function, step % graph::phaseCount(module)))
        return function;
    return {};
  }
  /// Two steps by the interpreter.
  void interpretRun(Arithmetic arithmetic, Record &record);
  /// The same, one validation and one generation by a plan on `world` ranks of its target's device,
  /// or of the one named.
  Record runPlan(const plan::Plan &plan, int world, const std::string &device = "");
  Status runRank(const plan::Plan &plan, Communicator &communicator,
                 const DeviceOptions &deviceOptions, Record &record);
  /// The plan for CUDA on the emulator: as the interpreter says, and the same bits whatever order
  /// its blocks and warps run in.
  void compareEmulated();
  void compare(const Record &found, const std::string &who, bool hasGradients);
  void checkFiniteDifferences(const StateMap &gradients);

  FailureOr<double> interpretedLoss(func::FuncOp program, const Sequence &sequence,
                                    StateMap &states) {
    auto results = interpret(program, {sequence.tokens, sequence.targets}, states, options);
    if (failed(results))
      return failure();
    return results->front().data[0];
  }
  /// The program of one rank for a micro-batch: see plan::StepPrograms.
  StringRef roleOf(int64_t step, int64_t microBatch) {
    const bool isLast = microBatch == model.sequences - 1;
    if (isLast && programOfStep("last", step))
      return "last";
    return microBatch == 0 ? "first" : "next";
  }
  void setScalars(StateMap &states, int64_t step, int64_t sequence = 0) const {
    for (const plan::Scalar &scalar : plans.at(1).scalars)
      states[scalar.name] = {{}, {plan::evaluate(scalar.value, variables(step, sequence))}};
  }
  plan::Variables variables(int64_t step, int64_t sequence) const {
    return {.step = double(step),
            .numIterations = double(plans.at(1).training.numIterations),
            .sequences = double(model.sequences),
            .sequence = double(sequence),
            .seedLow = seed};
  }

  MLIRContext context;
  RandomModel model;
  std::string path;
  std::mt19937_64 random;
  std::vector<Sequence> batch;
  Sequence held, prompt;
  OwningOpRef<ModuleOp> original;
  std::vector<OwningOpRef<ModuleOp>> originals, optimized; ///< by stage of the run
  std::map<int64_t, plan::Plan> plans;                     ///< by number of ranks
  StateMap initial;
  Record wanted;    ///< by the interpreter, rounding where the model says so
  Record unrounded; ///< the same without any rounding
  Options options;
  Tolerance tolerance = forF32;
};

void RandomModels::compile() {
  ASSERT_TRUE(codegen::CpuTarget::host());
  compile(forTarget({.target = "cpu"}), model.sequences, plans);
  if (HasFatalFailure())
    return;

  tolerance = model.hasBf16 ? forBf16 : forF32;
  initializeStates(*optimized.front(), initial, random);
  for (const plan::State &state : plans.at(1).states) {
    ASSERT_TRUE(initial.count(state.name)) << state.name;
    TensorValue &value = initial[state.name];
    value = unpacked(packed(value, state.type), state.type, value.shape);
  }
}

void RandomModels::compile(PipelineOptions pipeline, int64_t worlds,
                           std::map<int64_t, plan::Plan> &into) {
  OwningOpRef<ModuleOp> whole = original->clone();
  std::vector<OwningOpRef<ModuleOp>> shared = partRunStages(*whole);
  shared.insert(shared.begin(), std::move(whole));
  for (const Stage &stage : stages())
    for (OwningOpRef<ModuleOp> &module : shared)
      if (stage.scope == Stage::Scope::RunStage)
        runStage(stage, StageRun{*module, pipeline});
  for (int64_t world = 1; world <= worlds; ++world) {
    if (model.sequences % world != 0)
      continue;
    std::vector<OwningOpRef<ModuleOp>> modules;
    for (OwningOpRef<ModuleOp> &module : shared)
      modules.push_back(module->clone());
    pipeline.world = world;
    compile(modules, pipeline, into);
    if (HasFatalFailure())
      return;
  }
}

void RandomModels::runOn(ModuleOp module, const Stage &stage, const PipelineOptions &pipeline) {
  // Some models get a head in chunks, which at these sizes none would have.
  if (stage.name == "fuse" && GetParam() % 3 == 0) {
    PassManager passes(&context);
    passes.addPass(createChunkRows({.maxBytes = 1024}));
    ASSERT_TRUE(succeeded(passes.run(module)));
  }
  // Ranks share Adam's states of parameters that are small, as all are here.
  if (stage.name == "distribute") {
    PassManager passes(&context);
    passes.addPass(createDistribute({.world = pipeline.world, .minShard = 64}));
    ASSERT_TRUE(succeeded(passes.run(module)));
  } else {
    runStage(stage, StageRun{module, pipeline});
  }
  if (stage.name == "optimize" && pipeline.world == 1 && pipeline.target == "cpu")
    optimized.push_back(module.clone());
}

void RandomModels::compile(const std::vector<OwningOpRef<ModuleOp>> &modules,
                           const PipelineOptions &pipeline, std::map<int64_t, plan::Plan> &into) {
  for (const Stage &stage : stages())
    for (const OwningOpRef<ModuleOp> &module : modules)
      if (stage.scope == Stage::Scope::WorldPart)
        runOn(module.get(), stage, pipeline);
  SmallVector<ModuleOp> parts;
  for (const OwningOpRef<ModuleOp> &module : modules)
    parts.push_back(module.get());
  ASSERT_TRUE(succeeded(joinRunStages(parts)));
  ModuleOp module = parts.front();
  for (const Stage &stage : stages())
    if (stage.scope == Stage::Scope::World && stage.addPasses)
      runOn(module, stage, pipeline);
  codegen::PlanParts own;
  own.world = pipeline.world;
  own.target = pipeline.target;
  if (pipeline.target == "cpu") {
    auto native = codegen::compileKernels(module.lookupSymbol<ModuleOp>("kernels"),
                                          *codegen::CpuTarget::host(), 1);
    ASSERT_TRUE(succeeded(native));
    own.code = native->code;
    own.cpuFeatures = native->cpuFeatures;
  } else {
    auto sources = codegen::cudaSources(module);
    ASSERT_TRUE(succeeded(sources));
    own.sources = std::move(*sources);
  }
  auto written = codegen::writePlan(module, std::move(own));
  ASSERT_TRUE(succeeded(written));
  // Through the file's bytes, as nanorun meets it.
  Result<plan::Plan> read = plan::parse(plan::serialize(*written));
  ASSERT_TRUE(read) << read.error().message;
  into[pipeline.world] = std::move(*read);
}

/// What the rank at `place` holds of a state, from the values of whole tensors.
static TensorValue localPart(const plan::State &state, int64_t place, const StateMap &values) {
  if (!state.sharding)
    return values.at(state.name);
  const plan::Sharding &sharding = *state.sharding;
  TensorValue local{state.shape, {}};
  int64_t count = 1;
  for (int64_t size : state.shape)
    count *= size;
  std::vector<double> whole(size_t(count * sharding.parts));
  for (const plan::Sharding::Piece &piece : sharding.pieces) {
    const std::vector<double> &data = values.at(piece.name).data;
    std::copy(data.begin(), data.end(), whole.begin() + piece.offset);
  }
  local.data.resize(size_t(count));
  for (int64_t i = 0; i < count; ++i)
    local.data[i] =
        whole[(i / sharding.chunk * sharding.parts + place) * sharding.chunk + i % sharding.chunk];
  return local;
}

/// Replaces the parts of states that ranks hold, in `ranks` by place, by the whole tensors.
static void joinParts(const plan::Plan &plan, std::vector<StateMap *> ranks) {
  for (const plan::State &state : plan.states) {
    if (!state.sharding || !ranks[0]->count(state.name))
      continue;
    const plan::Sharding &sharding = *state.sharding;
    std::vector<double> whole(ranks[0]->at(state.name).data.size() * size_t(sharding.parts));
    for (int64_t place = 0; place < sharding.parts; ++place) {
      const std::vector<double> &data = ranks[place]->at(state.name).data;
      for (int64_t i = 0; i < std::ssize(data); ++i)
        whole[(i / sharding.chunk * sharding.parts + place) * sharding.chunk + i % sharding.chunk] =
            data[i];
    }
    ranks[0]->erase(state.name);
    for (const plan::Sharding::Piece &piece : sharding.pieces) {
      int64_t count = 1;
      for (int64_t size : piece.shape)
        count *= size;
      auto begin = whole.begin() + piece.offset;
      (*ranks[0])[piece.name] = {piece.shape, {begin, begin + count}};
    }
  }
}

void RandomModels::interpretRun(Arithmetic arithmetic, Record &record) {
  options.arithmetic = arithmetic;
  StateMap states = initial;
  for (int64_t step = 0; step < steps; ++step) {
    record.losses.emplace_back();
    for (int64_t i = 0; i < model.sequences; ++i) {
      setScalars(states, step, i);
      auto loss = interpretedLoss(programOfStep(roleOf(step, i), step),
                                  batch[step * model.sequences + i], states);
      ASSERT_TRUE(succeeded(loss));
      record.losses.back().push_back(*loss);
    }
    record.gradients.push_back(states);
    ASSERT_TRUE(succeeded(interpret(programOfStep("update", step), {}, states, options)));
    record.states.push_back(states);
  }
}

Status RandomModels::runRank(const plan::Plan &plan, Communicator &communicator,
                             const DeviceOptions &deviceOptions, Record &record) {
  Result<std::unique_ptr<Device>> made = loadDevice(plan, communicator, deviceOptions);
  if (!made)
    return made.error();
  Device &device = **made;
  Status status = ok();
  auto put = [&](uint32_t buffer, const TensorValue &value, plan::DType type) {
    const std::vector<char> bytes = packed(value, type);
    if (status)
      status = device.write(buffer, 0, bytes.data(), bytes.size());
  };
  auto get = [&](uint32_t buffer, plan::DType type, const std::vector<int64_t> &shape) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    std::vector<char> bytes(count * plan::sizeOf(type));
    if (status)
      status = device.read(buffer, 0, bytes.data(), bytes.size());
    return unpacked(bytes, type, shape);
  };
  auto run = [&](const std::string &program) {
    if (status)
      status = device.run(program);
  };
  auto statesOf = [&](bool gradients) {
    StateMap values;
    for (const plan::State &state : plan.states)
      if ((state.role == plan::State::Role::Gradient) == gradients)
        values[state.name] = get(state.buffer, state.type, state.shape);
    return values;
  };

  for (const plan::State &state : plan.states)
    put(state.buffer, localPart(state, communicator.rank(), initial), state.type);
  for (int64_t step = 0; step < steps && status; ++step) {
    record.losses.emplace_back(model.sequences);
    const plan::Training &training = plan::stageAt(plan, step);
    for (int64_t i = communicator.rank(); i < model.sequences; i += communicator.world()) {
      const Sequence &sequence = batch[step * model.sequences + i];
      if (status)
        status = writeScalars(plan, step, communicator.world(), device, seed, i);
      put(training.tokensBuffer, sequence.tokens, plan::DType::I32);
      put(training.targetsBuffer, sequence.targets, plan::DType::I32);
      run(programOf(training, step, i / communicator.world(), communicator.world()));
      record.losses.back()[i] = get(training.lossBuffer, plan::DType::F32, {}).data[0];
    }
    record.gradients.push_back(statesOf(true));
    if (const auto &phase = training.phases[size_t(step) % training.phases.size()];
        !phase.update.empty())
      run(phase.update);
    record.states.push_back(statesOf(false));
  }
  if (status)
    status = writeScalars(plan, steps - 1, communicator.world(), device, seed);
  const plan::Training &training = plan::stageAt(plan, steps - 1);
  put(training.valTokensBuffer, held.tokens, plan::DType::I32);
  put(training.valTargetsBuffer, held.targets, plan::DType::I32);
  run(training.validate);
  record.validation = get(training.valLossBuffer, plan::DType::F32, {}).data[0];
  put(training.genTokensBuffer, prompt.tokens, plan::DType::I32);
  run(training.generate);
  record.logits =
      get(training.logitsBuffer, plan::DType::F32, {training.genSeqLen, training.logitsColumns});
  return status;
}

Record RandomModels::runPlan(const plan::Plan &plan, int world, const std::string &device) {
  DeviceOptions deviceOptions;
  deviceOptions.device = device;
  deviceOptions.threads = 1;
  LocalGroup group(world);
  std::vector<Record> records(world);
  std::mutex mutex;
  std::string problem;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank)
    ranks.emplace_back([&, rank] {
      Status status = runRank(plan, group.communicator(rank), deviceOptions, records[rank]);
      if (status)
        return;
      std::lock_guard lock(mutex);
      problem += status.error().message + "\n";
      group.abort(rank, status.error().message);
    });
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_EQ(problem, "");
  for (int64_t step = 0; step < std::ssize(records[0].states); ++step) {
    std::vector<StateMap *> states;
    for (Record &record : records)
      states.push_back(&record.states.at(step));
    joinParts(plan, states);
  }
  for (int rank = 1; rank < world; ++rank)
    for (int64_t step = 0; step < std::ssize(records[rank].losses); ++step)
      for (int64_t i = rank; i < model.sequences; i += world)
        records[0].losses[step][i] = records[rank].losses[step][i];
  return std::move(records[0]);
}

void RandomModels::compare(const Record &found, const std::string &who, bool hasGradients) {
  SCOPED_TRACE(who + "; the module is in " + path);
  ASSERT_EQ(found.losses.size(), size_t(steps));
  // A gradient that is zero in theory (of what a softmax or a norm ignores) is what rounding leaves
  // of the others: the largest tensor of a kind (gradients, first moments, …) sets what is zero.
  auto kind = [](const std::string &name) {
    const size_t dot = name.find('.');
    return name.rfind("grad.", 0) == 0 ? std::string("grad")
           : dot == std::string::npos  ? std::string()
                                       : name.substr(dot);
  };
  // Where the roundings to bf16 move a value by more than the tolerance, one rounding that falls
  // the other way can move it as far.
  auto near = [&](const StateMap &all, const StateMap &expected, const StateMap &exact,
                  double limit, int64_t step) {
    std::map<std::string, double> largest;
    for (const auto &[name, value] : all)
      largest[kind(name)] = std::max(largest[kind(name)], normOf(expected.at(name).data));
    for (const auto &[name, value] : all)
      EXPECT_LE(distance(value, expected.at(name)),
                limit * (normOf(expected.at(name).data) + 0.01 * largest[kind(name)]) +
                    distance(exact.at(name), expected.at(name)))
          << name << ", step " << step;
  };
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < model.sequences; ++i)
      EXPECT_NEAR(found.losses[step][i], wanted.losses[step][i],
                  tolerance.loss * std::abs(wanted.losses[step][i]) +
                      std::abs(unrounded.losses[step][i] - wanted.losses[step][i]))
          << "loss of sequence " << i << ", step " << step;
    if (hasGradients)
      near(found.gradients[step], wanted.gradients[step], unrounded.gradients[step],
           tolerance.gradient, step);
    near(found.states[step], wanted.states[step], unrounded.states[step], tolerance.state, step);
  }

  // Validation and generation by the model as written, from the parameters that the plan reached.
  StateMap states = found.states.back();
  setScalars(states, steps - 1);
  auto loss = interpretedLoss(graph::functionWithRole(*original, "validate"), held, states);
  auto logits =
      interpret(graph::functionWithRole(*original, "generate"), {prompt.tokens}, states, options);
  ASSERT_TRUE(succeeded(loss) && succeeded(logits));
  EXPECT_NEAR(found.validation, *loss, tolerance.loss * std::abs(*loss));
  EXPECT_LE(distance(found.logits, logits->front()),
            tolerance.gradient * normOf(logits->front().data));
}

/// Along a direction that is half the gradient and half random, the model as written changes by
/// what the gradient says: a missing part of it shows in either half.
void RandomModels::checkFiniteDifferences(const StateMap &gradients) {
  constexpr double distance = 1e-5;
  for (const auto &[symbol, gradient] : gradients) {
    const std::string name = symbol.substr(std::string("grad.").size());
    const double norm = normOf(gradient.data);
    std::normal_distribution<double> normal;
    std::vector<double> direction(gradient.data.size());
    for (double &value : direction)
      value = normal(random);
    const double length = normOf(direction);
    double slope = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      direction[i] = direction[i] / length + (norm > 0 ? gradient.data[i] / norm : 0);
      slope += direction[i] * gradient.data[i];
    }
    double losses[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      StateMap states = initial;
      for (size_t i = 0; i < direction.size(); ++i)
        states[name].data[i] += (side == 0 ? -distance : distance) * direction[i];
      for (int64_t i = 0; i < model.sequences; ++i) {
        setScalars(states, 0, i);
        auto loss =
            interpretedLoss(graph::functionWithRole(*originals.front(), "train"), batch[i], states);
        ASSERT_TRUE(succeeded(loss));
        losses[side] += *loss;
      }
    }
    EXPECT_NEAR((losses[1] - losses[0]) / (2 * distance), slope, 2e-3 * norm + 1e-5) << name;
  }
}

void RandomModels::compareEmulated() {
  std::map<int64_t, plan::Plan> emulated;
  try {
    compile(forTarget({.target = "cuda"}), 1, emulated);
  } catch (const std::exception &error) {
    FAIL() << error.what() << "\nthe module is in " << path;
  }
  if (HasFatalFailure())
    return;
  Record first;
  for (const char *schedule : {"1", "2"}) {
    setenv("NANO_EMULATOR_SEED", schedule, 1);
    const Record record = runPlan(emulated.at(1), 1, "emulator");
    compare(record, std::string("the emulator, schedule ") + schedule, true);
    if (first.losses.empty()) {
      first = record;
      continue;
    }
    EXPECT_EQ(record.losses, first.losses) << path;
    for (int64_t step = 0; step < steps; ++step)
      for (const auto &[name, value] : record.states[step])
        EXPECT_EQ(value.data, first.states[step].at(name).data) << name << ", " << path;
  }
  std::printf("ran on the emulator\n");
}

/// NANO_RANDOM_EMULATED=N: which models run on the emulator too, each whose number N divides.
uint64_t emulatedEvery() {
  const char *text = std::getenv("NANO_RANDOM_EMULATED");
  return text ? std::max<uint64_t>(std::strtoull(text, nullptr, 10), 1) : 16;
}

TEST_P(RandomModels, TrainAsTheInterpreterDoes) {
  try {
    compile();
  } catch (const std::exception &error) {
    FAIL() << error.what() << "\nthe module is in " << path;
  }
  if (HasFatalFailure())
    return;
  interpretRun(Arithmetic::exact, unrounded);
  if (HasFatalFailure())
    return;
  wanted = unrounded;
  if (model.hasBf16) {
    wanted = {};
    interpretRun(Arithmetic::rounded, wanted);
  }
  if (HasFatalFailure())
    return;
  const Record one = runPlan(plans.at(1), 1);
  compare(one, "one rank", true);
  for (const auto &[world, plan] : plans)
    if (world > 1)
      compare(runPlan(plan, int(world)), std::to_string(world) + " ranks", false);
  for (const auto &[world, plan] : plans)
    std::printf("ran on %d rank(s)\n", int(world));
  if (!model.hasBf16)
    checkFiniteDifferences(one.gradients[0]);
  if (GetParam() % emulatedEvery() == 0)
    compareEmulated();
}

/// NANO_RANDOM_MODELS=FIRST-LAST tries other models than the suite does.
std::pair<uint64_t, uint64_t> range() {
  const char *text = std::getenv("NANO_RANDOM_MODELS");
  if (!text)
    return {0, 16};
  char *end = nullptr;
  uint64_t first = std::strtoull(text, &end, 10);
  uint64_t last = *end == '-' ? std::strtoull(end + 1, nullptr, 10) : first;
  return {first, last + 1};
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, testing::Range(range().first, range().second),
                         testing::PrintToStringParamName());

} // namespace
} // namespace nano::test
