// Two steps of a model: losses, gradients (also against finite differences of the model as it was
// written), optimizer states and parameters, by plans and by the interpreter.
#include "tests/e2e/ModelRuns.h"

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
#include "runtime/Start.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/PlanFile.h"
#include "tests/e2e/DeviceValues.h"

#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

using namespace mlir;

namespace nano::test {

namespace {

constexpr int64_t steps = 2;
constexpr int seed = 12345; // of random numbers

/// Of f32 and bf16; kernels take what lies between it and zero for zero.
constexpr double smallest = std::numeric_limits<float>::min();

/// Where a result is the difference of large numbers, or a gradient that is zero in theory is
/// divided by its own size, no program in f32 or bf16 comes as near as that. Then plain programs of
/// the same types are asked: one that rounds to nearest, and others that round at random. A plan
/// may lie `plainFactor` times as far from what is wanted as the farthest of them: it is another
/// draw from the same errors. Of the normal distribution, one draw in 41 lies beyond that of five,
/// which is cheap to ask first, and one in 2,900 beyond that of 25.
constexpr int fewPlainRuns = 5, manyPlainRuns = 25;

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

/// What tolerances are relative to. A gradient that is zero in theory (of what a softmax or a norm
/// ignores) is what rounding leaves of the others: the largest tensor of a kind (gradients, first
/// moments, …) sets what is zero.
class Norms {
public:
  /// Of the tensors of `names`.
  Norms(const StateMap &tensors, const StateMap &names) : tensors(tensors) {
    for (const auto &[name, value] : names)
      largest[kind(name)] = std::max(largest[kind(name)], normOf(tensors.at(name).data));
  }
  double of(const std::string &name) const {
    return normOf(tensors.at(name).data) + 0.01 * largest.at(kind(name));
  }

private:
  static std::string kind(const std::string &name) {
    const size_t dot = name.find('.');
    return name.rfind("grad.", 0) == 0 ? std::string("grad")
           : dot == std::string::npos  ? std::string()
                                       : name.substr(dot);
  }
  const StateMap &tensors;
  std::map<std::string, double> largest;
};

} // namespace

MLIRContext &ModelRuns::sharedContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    registerDialects(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    codegen::loadNativeDialects(*made);
    return made;
  }();
  return *context;
}

void ModelRuns::SetUp() {
  model = make();
  path = testing::TempDir() + "nano-" + name() + ".mlir";
  std::ofstream(path) << model.text;
  original = parseSourceString<ModuleOp>(model.text, &context, path);
  ASSERT_TRUE(original) << path;
  random.seed(number());
  originals.push_back(original->clone());
  for (OwningOpRef<ModuleOp> &later : partRunStages(*originals.front()))
    originals.push_back(std::move(later));
  for (int64_t i = 0; i < steps * model.sequences; ++i)
    batch.push_back(
        drawSequence(stageOf(i / model.sequences) == 0 ? model.seqLen : model.laterSeqLen));
  held = drawSequence(model.valSeqLen);
  if (model.genSeqLen > 0)
    prompt = drawSequence(model.genSeqLen);
}

void ModelRuns::TearDown() {
  if (!HasFailure())
    std::remove(path.c_str());
}

Sequence ModelRuns::drawSequence(int64_t length) {
  auto type = RankedTensorType::get({length}, IntegerType::get(&context, 32));
  return {TensorValue::integers(type, random, 0, model.vocabulary),
          TensorValue::integers(type, random, 0, model.vocabulary)};
}

graph::ProgramOp ModelRuns::programOfStep(StringRef role, int64_t step) {
  ModuleOp module = *optimized[stageOf(step)];
  for (auto function : module.getOps<graph::ProgramOp>())
    if (function.getRoleAttr().getValue() == role &&
        graph::runsInPhase(function, step % graph::phaseCount(module)))
      return function;
  return {};
}

FailureOr<double> ModelRuns::interpretedLoss(graph::ProgramOp program, const Sequence &sequence,
                                             StateMap &states) {
  auto results = interpret(program, {sequence.tokens, sequence.targets}, states, options);
  if (failed(results))
    return failure();
  return results->front().data[0];
}

StringRef ModelRuns::roleOf(int64_t step, int64_t microBatch) {
  const bool isLast = microBatch == model.sequences - 1;
  if (isLast && programOfStep("last", step))
    return "last";
  return microBatch == 0 ? "first" : "next";
}

void ModelRuns::setScalars(StateMap &states, int64_t step, int64_t sequence) const {
  for (const plan::Scalar &scalar : plans.at(1).scalars)
    states[scalar.name] = {{}, {plan::evaluate(scalar.value, variables(step, sequence))}};
}

plan::Variables ModelRuns::variables(int64_t step, int64_t sequence) const {
  return {.step = double(step),
          .numIterations = double(plans.at(1).training.numIterations),
          .sequences = double(model.sequences),
          .sequence = double(sequence),
          .seedLow = seed};
}

void ModelRuns::compile() {
  ASSERT_TRUE(codegen::CpuTarget::host());
  PipelineOptions pipeline = forTarget({.target = "cpu"});
  if (number() % 8 == 3)
    pipeline.recompute.saveBytes = allBytes;
  compile(pipeline, isWhole() ? model.sequences : 1, plans);
  if (HasFatalFailure())
    return;

  tolerance = toleranceOf();
  initializeStates(*optimized.front(), initial, random);
  for (const plan::State &state : plans.at(1).states) {
    ASSERT_TRUE(initial.count(state.name)) << state.name;
    TensorValue &value = initial[state.name];
    value = unpacked(packed(value, state.type), state.type, value.shape);
  }
}

void ModelRuns::compile(PipelineOptions pipeline, int64_t worlds,
                        std::map<int64_t, plan::Plan> &into) {
  optimized.clear();
  OwningOpRef<ModuleOp> whole = original->clone();
  std::vector<OwningOpRef<ModuleOp>> shared = partRunStages(*whole);
  shared.insert(shared.begin(), std::move(whole));
  for (const Stage &stage : stages())
    for (OwningOpRef<ModuleOp> &module : shared)
      if (stage.scope == Stage::Scope::RunStage)
        runStage(stage, StageRun{*module, pipeline}, nullptr, true, watch());
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

void ModelRuns::runOn(ModuleOp module, const Stage &stage, const PipelineOptions &pipeline) {
  // Some models get a head in chunks, which at these sizes none would have.
  if (stage.name == "fuse" && number() % 3 == 0) {
    PassManager passes(&context);
    passes.addPass(createChunkRows(
        {.maxBytes = 1024, .parts = number() % 2 == 0 ? 2 : 1, .further = number() % 4 != 0}));
    ASSERT_TRUE(succeeded(passes.run(module)));
  }
  // Ranks share Adam's states of parameters that are small, as all are here.
  if (stage.name == "distribute") {
    PassManager passes(&context);
    passes.addPass(createDistribute({.world = pipeline.world, .minShard = 64}));
    ASSERT_TRUE(succeeded(passes.run(module)));
  } else {
    runStage(stage, StageRun{module, pipeline}, nullptr, true, watch());
  }
  if (stage.name == "optimize" && pipeline.world == 1)
    optimized.push_back(module.clone());
}

void ModelRuns::compile(const std::vector<OwningOpRef<ModuleOp>> &modules,
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
    auto compiled = [&](bool isOptimized) {
      return codegen::compileKernels(module.lookupSymbol<ModuleOp>("kernels"),
                                     *codegen::CpuTarget::host(),
                                     {.threads = 1, .isOptimized = isOptimized});
    };
    auto native = compiled(isWhole());
    ASSERT_TRUE(succeeded(native));
    if (isWhole() && pipeline.world == 1 && number() % 4 == 0) {
      auto other = compiled(false);
      ASSERT_TRUE(succeeded(other));
      unoptimizedCode = other->code;
    }
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

void ModelRuns::interpretRuns() {
  interpretRun(Arithmetic::exact, unrounded);
  if (HasFatalFailure() || !model.isRounded()) {
    wanted = unrounded;
    return;
  }
  interpretRun(Arithmetic::rounded, wanted);
}

void ModelRuns::interpretAnew() {
  initializeStates(*optimized.front(), initial, random);
  plain.clear();
  const Record before = unrounded;
  interpretRuns();
  if (HasFatalFailure())
    return;
  constexpr double sameFunction = 1e-8;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < model.sequences; ++i)
      EXPECT_NEAR(unrounded.losses[step][i], before.losses[step][i],
                  sameFunction * std::abs(before.losses[step][i]));
    for (auto maps : {&Record::gradients, &Record::states}) {
      StateMap expected = (before.*maps)[step];
      std::erase_if(expected, [](const auto &state) {
        return StringRef(state.first).contains("fp8"); // which products have scales differs
      });
      const Norms norms(expected, expected);
      for (const auto &[name, value] : expected)
        EXPECT_LE(distance((unrounded.*maps)[step].at(name), value), sameFunction * norms.of(name))
            << name << ", step " << step << ", " << path;
    }
  }
}

void ModelRuns::interpretRun(Arithmetic arithmetic, Record &record) {
  record = {};
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

Status ModelRuns::runRank(const plan::Plan &plan, Communicator &communicator,
                          const DeviceOptions &deviceOptions, Record &record) {
  Result<std::unique_ptr<Device>> made = loadDevice(plan, communicator, deviceOptions);
  if (!made)
    return made.error();
  Device &device = **made;
  Status status = ok();
  // Copies of weights in 8 bits, and their scales: a step's first program writes them, and who
  // reads them before it finds no numbers. Behind that of its last micro-batch their bytes are
  // others'.
  auto isCopy = [](const plan::State &state) {
    const StringRef name = state.name;
    return state.role == plan::State::Role::Gradient && name.starts_with("fp8.") &&
           !name.contains(".amax_");
  };
  auto noNumbers = [](const std::vector<int64_t> &shape) {
    size_t count = 1;
    for (int64_t size : shape)
      count *= size;
    return TensorValue{shape, std::vector<double>(count, std::numeric_limits<double>::quiet_NaN())};
  };
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
      if ((state.role == plan::State::Role::Gradient) == gradients && !isCopy(state))
        values[state.name] = get(state.buffer, state.type, state.shape);
    return values;
  };

  for (const plan::State &state : plan.states)
    put(state.buffer,
        isCopy(state) ? noNumbers(state.shape) : localPart(state, communicator.rank(), initial),
        state.type);
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
  if (!isWhole())
    return status;
  put(training.genTokensBuffer, prompt.tokens, plan::DType::I32);
  run(training.generate);
  record.logits =
      get(training.logitsBuffer, plan::DType::F32, {training.genSeqLen, training.logitsColumns});
  return status;
}

Record ModelRuns::runPlan(const plan::Plan &plan, int world, const std::string &device) {
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

void ModelRuns::asPlainProgram(int number, llvm::function_ref<void()> run) {
  std::mt19937_64 dither(number);
  options.arithmetic = Arithmetic::plain;
  options.dither = number > 0 ? &dither : nullptr;
  run();
  options.arithmetic = model.isRounded() ? Arithmetic::rounded : Arithmetic::exact;
  options.dither = nullptr;
}

const Record &ModelRuns::plainRun(int number) {
  while (std::ssize(plain) <= number)
    asPlainProgram(std::ssize(plain),
                   [&] { interpretRun(options.arithmetic, plain.emplace_back()); });
  return plain[number];
}

void ModelRuns::expectNear(double found, double limit,
                           llvm::function_ref<double(int number)> distanceOfPlain,
                           const std::string &what) {
  if (found <= limit)
    return;
  double farthest = 0;
  for (int number = 0; number < manyPlainRuns; ++number) {
    if (number == fewPlainRuns && found <= plainFactor * farthest)
      break;
    farthest = std::max(farthest, distanceOfPlain(number));
  }
  asPlain = std::max(asPlain.value_or(0), found / farthest);
  EXPECT_LE(found, std::max(limit, plainFactor * farthest)) << what << "; by itself " << limit;
}

void ModelRuns::compare(const Record &found, const std::string &who, bool hasGradients) {
  SCOPED_TRACE(who + "; the module is in " + path);
  ASSERT_EQ(found.losses.size(), size_t(steps));
  // Where the roundings to bf16 move a value by more than the tolerance, one rounding that falls
  // the other way can move it as far.
  auto near = [&](std::vector<StateMap> Record::*maps, double limit, int64_t step) {
    const StateMap &expected = (wanted.*maps)[step];
    // A target may add up several gradients in one state; what is made of them is compared.
    StateMap compared = (found.*maps)[step];
    std::erase_if(compared, [&](const auto &state) {
      return StringRef(state.first).ends_with(".merged") && expected.count(state.first) == 0;
    });
    const Norms norms(expected, compared);
    for (const auto &[name, value] : compared) {
      auto distanceOf = [&, name = name](const Record &record) {
        return distance((record.*maps)[step].at(name), expected.at(name));
      };
      expectNear(
          distanceOf(found),
          limit * norms.of(name) + distanceOf(unrounded) +
              smallest * std::sqrt(static_cast<double>(expected.at(name).data.size())),
          [&](int number) { return distanceOf(plainRun(number)); },
          name + ", step " + std::to_string(step));
    }
  };
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < model.sequences; ++i) {
      const double expected = wanted.losses[step][i];
      auto distanceOf = [&](const Record &record) {
        return std::abs(record.losses[step][i] - expected);
      };
      expectNear(
          distanceOf(found), tolerance.loss * std::abs(expected) + distanceOf(unrounded),
          [&](int number) { return distanceOf(plainRun(number)); },
          "loss of sequence " + std::to_string(i) + ", step " + std::to_string(step));
    }
    if (hasGradients)
      near(&Record::gradients, tolerance.gradient, step);
    near(&Record::states, tolerance.state, step);
  }

  // Validation and generation by the model as written, from the parameters that the plan reached.
  StateMap states = found.states.back();
  setScalars(states, steps - 1);
  auto validate = [&] {
    auto loss = interpretedLoss(graph::programWithRole(*original, "validate"), held, states);
    EXPECT_TRUE(succeeded(loss));
    return succeeded(loss) ? *loss : NAN;
  };
  auto generate = [&] {
    auto logits =
        interpret(graph::programWithRole(*original, "generate"), {prompt.tokens}, states, options);
    EXPECT_TRUE(succeeded(logits));
    return succeeded(logits) ? logits->front() : TensorValue();
  };
  const double loss = validate();
  double away = 0;
  expectNear(
      std::abs(found.validation - loss), tolerance.loss * std::abs(loss),
      [&](int number) {
        asPlainProgram(number, [&] { away = std::abs(validate() - loss); });
        return away;
      },
      "loss of validation");
  if (!isWhole())
    return;
  const TensorValue logits = generate();
  expectNear(
      distance(found.logits, logits), tolerance.gradient * normOf(logits.data),
      [&](int number) {
        asPlainProgram(number, [&] { away = distance(generate(), logits); });
        return away;
      },
      "logits");
}

/// Along a direction that is half the gradient and half random, the model as written changes by
/// what the gradient says: a missing part of it shows in either half. The gradient is that of the
/// optimized module in exact arithmetic, with which `compare` has compared the plan's. Where a
/// maximum or a magnitude changes its side between the two points, a shorter distance has both on
/// one; what is no gradient is none at any.
void ModelRuns::checkFiniteDifferences() {
  const std::string prefix = "grad.";
  for (const auto &[symbol, gradient] : unrounded.gradients[0]) {
    if (symbol.rfind(prefix, 0) != 0)
      continue;
    const std::string name = symbol.substr(prefix.size());
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
    double found = 0;
    for (double distance : {1e-5, 1e-6, 1e-7}) {
      double losses[2] = {0, 0};
      for (int side = 0; side < 2; ++side) {
        StateMap states = initial;
        for (size_t i = 0; i < direction.size(); ++i)
          states[name].data[i] += (side == 0 ? -distance : distance) * direction[i];
        for (int64_t i = 0; i < model.sequences; ++i) {
          setScalars(states, 0, i);
          auto loss = interpretedLoss(graph::programWithRole(*originals.front(), "train"), batch[i],
                                      states);
          ASSERT_TRUE(succeeded(loss));
          losses[side] += *loss;
        }
      }
      found = (losses[1] - losses[0]) / (2 * distance);
      if (std::abs(found - slope) <= 2e-3 * norm + 1e-5)
        break;
    }
    EXPECT_NEAR(found, slope, 2e-3 * norm + 1e-5) << name;
  }
}

void ModelRuns::trainAsTheInterpreterDoes() {
  try {
    compile();
  } catch (const std::exception &error) {
    FAIL() << error.what() << "\nthe module is in " << path;
  }
  if (HasFatalFailure())
    return;
  interpretRuns();
  if (HasFatalFailure())
    return;
  const Record one = runPlan(plans.at(1), 1);
  compare(one, "one rank", true);
  if (!unoptimizedCode.empty()) {
    plan::Plan other = plans.at(1);
    other.code = unoptimizedCode;
    expectSameBits(runPlan(other, 1), one);
  }
  for (const auto &[world, plan] : plans)
    if (world > 1)
      compare(runPlan(plan, int(world)), std::to_string(world) + " ranks", false);
  for (const auto &[world, plan] : plans)
    if (isWhole())
      std::printf("ran on %d rank(s)\n", int(world));
  if (!model.isRounded())
    checkFiniteDifferences();
  if (runsOnEmulator())
    compareEmulated();
  if (asPlain)
    std::printf("plain programs were asked: at most %.2f times as far as they\n", *asPlain);
}

} // namespace nano::test
