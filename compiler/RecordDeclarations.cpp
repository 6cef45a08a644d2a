// Hyperparameters, schedules, optimizers, parameters, and what closes a recording.
#include "compiler/Recorder.h"

#include "compiler/CrashMessage.h"
#include "ir/graph/Program.h"
#include "ir/graph/Reports.h"
#include "ir/graph/RunStages.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

using namespace mlir;

namespace nano::frontend {

//===- Hyperparameters ---------------------------------------------------------===//

namespace {
template <typename T> std::optional<T> parseNumber(const std::string &text) {
  T number{};
  const char *end = text.data() + text.size();
  auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end)
    return std::nullopt;
  return number;
}

std::string valueText(const Default &value) {
  switch (value.kind) {
  case Default::Integer:
    return std::to_string(value.integer);
  case Default::Real:
    return fmt::format("{}", value.real);
  case Default::Word:
    return value.word;
  }
  return {};
}
} // namespace

HyperparameterRecord &Recorder::declareHyper(const char *name, const char *about, Line at) {
  for (const HyperparameterRecord &record : hyperparameters)
    if (record.name == name)
      fail(at, fmt::format("hyper: '{}' is declared twice", name));
  HyperparameterRecord record;
  record.name = name;
  record.about = about;
  return hyperparameters.emplace_back(std::move(record));
}

std::optional<std::string> Recorder::override(HyperparameterRecord &record) {
  std::optional<std::string> value;
  for (int i = 0; input.defaults && i < input.defaults->count; ++i)
    if (record.name == input.defaults->values[i].name) {
      defaultUsed[i] = true;
      record.defaultValue = valueText(input.defaults->values[i]);
      value = record.defaultValue;
    }
  for (auto [i, given] : llvm::enumerate(input.overrides))
    if (record.name == given.first) {
      overrideUsed[i] = true;
      record.overridden = true;
      value = given.second;
    }
  return value;
}

std::string Recorder::hyperContext(const HyperparameterRecord &record, const std::string &value,
                                   Line at) const {
  if (record.overridden)
    return fmt::format("-D {}={}", record.name, value);
  return fmt::format("{}:{}: {} = {}", at.file, at.line, record.name, value);
}

int64_t Recorder::hyper(const char *name, int64_t value, const char *about, int64_t least,
                        Line at) {
  HyperparameterRecord &record = declareHyper(name, about, at);
  record.defaultValue = std::to_string(value);
  const std::string given = override(record).value_or(record.defaultValue);
  const std::optional<int64_t> number = parseNumber<int64_t>(given);
  if (!number)
    throw ModelError(
        fmt::format("{}: not an integer ({})", hyperContext(record, given, at), about));
  if (*number < least)
    throw ModelError(
        fmt::format("{}: must be at least {} ({})", hyperContext(record, given, at), least, about));
  record.value = std::to_string(*number);
  return *number;
}

double Recorder::hyper(const char *name, double value, const char *about, Line at) {
  HyperparameterRecord &record = declareHyper(name, about, at);
  record.defaultValue = fmt::format("{}", value);
  const std::string given = override(record).value_or(record.defaultValue);
  const std::optional<double> number = parseNumber<double>(given);
  if (!number || !std::isfinite(*number))
    throw ModelError(
        fmt::format("{}: not a finite number ({})", hyperContext(record, given, at), about));
  record.value = fmt::format("{}", *number);
  return *number;
}

int Recorder::hyper(const char *name, ArrayRef<std::string> allowed, const char *about, Line at) {
  HyperparameterRecord &record = declareHyper(name, about, at);
  if (allowed.empty())
    fail(at, fmt::format("hyper: '{}' allows no value", name));
  record.defaultValue = allowed.front();
  const std::string given = override(record).value_or(record.defaultValue);
  const auto *found = llvm::find(allowed, given);
  if (found == allowed.end())
    throw ModelError(fmt::format("{}: can be {} ({})", hyperContext(record, given, at),
                                 fmt::join(allowed, ", "), about));
  record.value = given;
  return static_cast<int>(found - allowed.begin());
}

//===- Schedules ---------------------------------------------------------------===//

/// The node's value, of operands that are numbers.
static std::optional<double> folded(SchedNode::Kind kind, double a, double b) {
  switch (kind) {
  case SchedNode::Add:
    return a + b;
  case SchedNode::Sub:
    return a - b;
  case SchedNode::Mul:
    return a * b;
  case SchedNode::Div:
    return a / b;
  case SchedNode::Neg:
    return -a;
  case SchedNode::Sqrt:
    return std::sqrt(a);
  default:
    return std::nullopt;
  }
}

std::optional<double> Recorder::numberOf(const Sched &schedule) const {
  if (schedule.id != 0 && scheds[schedule.id].kind == SchedNode::Number)
    return scheds[schedule.id].number;
  return std::nullopt;
}

Sched Recorder::sched(SchedNode node) {
  auto isNumber = [&](uint32_t id) { return scheds[id].kind == SchedNode::Number; };
  if (node.operands[0] != 0 && isNumber(node.operands[0]) &&
      (node.operands[1] == 0 || isNumber(node.operands[1])))
    if (std::optional<double> number =
            folded(node.kind, scheds[node.operands[0]].number, scheds[node.operands[1]].number))
      node = {SchedNode::Number, *number, {}};
  auto [found, isNew] = schedIds.try_emplace(node, static_cast<uint32_t>(scheds.size()));
  if (isNew)
    scheds.push_back(node);
  Sched handle;
  handle.id = found->second;
  return handle;
}

void Recorder::useSched(const Sched &sched, const char *what, Line at) const {
  if (sched.id == 0 || sched.id >= scheds.size())
    fail(at, fmt::format("{}: a schedule is missing", what));
  // Every node comes after its operands.
  std::vector<bool> isPart(sched.id + 1);
  isPart[sched.id] = true;
  for (uint32_t id = sched.id; id > 0; --id) {
    if (!isPart[id])
      continue;
    const SchedNode &node = scheds[id];
    if (node.kind == SchedNode::Number && !std::isfinite(node.number))
      fail(at, fmt::format("{}: a schedule holds the number {}", what, node.number));
    for (uint32_t operand : node.operands)
      isPart[operand] = true;
  }
}

Value Recorder::emitSched(uint32_t id, OpBuilder &body, Block &block, Location loc,
                          DenseMap<uint32_t, Value> &done) {
  if (auto found = done.find(id); found != done.end())
    return found->second;
  const SchedNode node = scheds[id];
  auto operand = [&](int i) { return emitSched(node.operands[i], body, block, loc, done); };
  auto build = [&]() -> Value {
    switch (node.kind) {
    case SchedNode::Number:
      return arith::ConstantOp::create(body, loc, body.getF64FloatAttr(node.number));
    case SchedNode::Step:
      return block.getArgument(0);
    case SchedNode::Iterations:
      return block.getArgument(1);
    case SchedNode::Add:
      return arith::AddFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::Sub:
      return arith::SubFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::Mul:
      return arith::MulFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::Div:
      return arith::DivFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::Neg:
      return arith::NegFOp::create(body, loc, operand(0));
    case SchedNode::Min:
      return arith::MinimumFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::Max:
      return arith::MaximumFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::Floor:
      return math::FloorOp::create(body, loc, operand(0));
    case SchedNode::Ceil:
      return math::CeilOp::create(body, loc, operand(0));
    case SchedNode::Sqrt:
      return math::SqrtOp::create(body, loc, operand(0));
    case SchedNode::Exp:
      return math::ExpOp::create(body, loc, operand(0));
    case SchedNode::Log:
      return math::LogOp::create(body, loc, operand(0));
    case SchedNode::Cos:
      return math::CosOp::create(body, loc, operand(0));
    case SchedNode::Pow:
      return math::PowFOp::create(body, loc, operand(0), operand(1));
    case SchedNode::SelectLess: {
      Value less =
          arith::CmpFOp::create(body, loc, arith::CmpFPredicate::OLT, operand(0), operand(1));
      return arith::SelectOp::create(body, loc, less, operand(2), operand(3));
    }
    }
    return {};
  };
  const Value value = build();
  done[id] = value;
  return value;
}

void Recorder::declareScalar(const std::string &symbol, const Sched &value, DType type,
                             const char *what, Line at) {
  useSched(value, what, at);
  takeSymbol(symbol, what, at);
  const Location loc = location(at);
  auto scalar = graph::ScalarOp::create(builder, loc, symbol, elementType(type));
  const SmallVector<Type> arguments(4, builder.getF64Type());
  Block &block = scalar.getBody().emplaceBlock();
  block.addArguments(arguments, SmallVector<Location>(4, loc));
  OpBuilder body = OpBuilder::atBlockEnd(&block);
  DenseMap<uint32_t, Value> done;
  const Value result = emitSched(value.id, body, block, loc, done);
  graph::YieldOp::create(body, loc, ValueRange{result});
}

Tensor Recorder::scalar(const char *name, const Sched &value, DType type, Line at) {
  if (type != f32 && type != i32)
    fail(at, fmt::format("scalar: '{}' can be f32 or i32, not {}", name, nameOf(type)));
  declareScalar(name, value, type, "scalar", at);
  Tensor tensor;
  tensor.program = model;
  tensor.id = static_cast<uint32_t>(declared.size());
  declared.push_back({name, RankedTensorType::get({}, elementType(type)), {}});
  return tensor;
}

//===- Optimizers and parameters -----------------------------------------------===//

void Recorder::takeSymbol(const std::string &symbol, const char *what, Line at, bool ofProgram) {
  if (program != 0 && !ofProgram)
    fail(at, fmt::format("{}: '{}' is declared inside a program; declare it before", what, symbol));
  if (symbol.empty())
    fail(at, fmt::format("{}: the name is empty", what));
  static constexpr const char *reserved[] = {
      "train",    "first",    "next",    "last",    "update",
      "validate", "generate", "measure", "kernels", graph::gradScaleSymbol.data()};
  // "last_2": a program of some phases.
  StringRef number = symbol;
  const bool hasPhase = (number.consume_front("first_") || number.consume_front("last_") ||
                         number.consume_front("update_") || number.consume_front("event_")) &&
                        !number.empty() && llvm::all_of(number, llvm::isDigit);
  if (llvm::is_contained(reserved, symbol) || hasPhase || StringRef(symbol).starts_with("grad.") ||
      StringRef(symbol).starts_with("fp8.") || StringRef(symbol).starts_with("random.") ||
      symbol == graph::reportsSymbol || symbol == graph::stepReportsSymbol)
    fail(at, fmt::format("{}: the name '{}' is the compiler's own; choose another", what, symbol));
  auto [entry, isNew] = symbols.try_emplace(symbol, at);
  if (!isNew)
    fail(at,
         fmt::format("{}: the name '{}' is taken by line {}", what, symbol, entry->second.line));
}

Recorder::OptimizerRecord &Recorder::optimizerOf(const Optimizer &optimizer, const char *what,
                                                 Line at) {
  if (optimizer.model != model)
    fail(at, fmt::format("{}: not an optimizer of this model", what));
  return optimizers[optimizer.id - 1];
}

Tensor Recorder::param(const char *name, const Shape &shape, DType type, const Init &init,
                       const Optimizer &optimizer, Line at) {
  countOp(at);
  const std::string what = fmt::format("param '{}'", name);
  OptimizerRecord &group = optimizerOf(optimizer, what.c_str(), at);
  const RankedTensorType tensor = storedType(shape, type, false, what, at);
  const graph::InitAttr start = initOf(init, tensor, what, at);
  parameters.push_back({name, text(tensor.getShape()), nameOf(type), initText(init),
                        fmt::format("{} ({})", group.name, group.kind)});
  // Its name first: those of the update's states begin with it.
  const Tensor handle = declareState(name, tensor, graph::Role::Parameter, start, {}, at);
  auto state = cast<graph::StateOp>(declared[handle.id].op);
  state.setOptimizer(recordUpdate(group, name, tensor, at));
  state->moveBefore(module->getBody(), module->getBody()->end());
  return handle;
}

//===- Training ----------------------------------------------------------------===//

void Recorder::training(const Training &training, Line at) {
  if (how)
    fail(at, "training: called twice");
  if (training.vocabSize < 1 || training.globalBatch < 0 || training.numIterations < 1)
    fail(at, fmt::format(
                 "training: vocabSize {}, globalBatch {} and numIterations {} must be at least 1",
                 training.vocabSize, training.globalBatch, training.numIterations));
  if (training.eosToken < 0 || training.eosToken >= training.vocabSize)
    fail(at, fmt::format("training: eosToken {} is not one of the {} tokens of the vocabulary",
                         training.eosToken, training.vocabSize));
  if (!(training.gradClip >= 0) || !std::isfinite(training.gradClip))
    fail(at,
         fmt::format("training: gradClip = {} must be finite and not negative", training.gradClip));
  how = training;
  howAt = at;
}

DictionaryAttr Recorder::trainingOf(const StageRecord &stage) {
  const OptimizerRecord &logged =
      how->logged.model == 0 ? optimizers.front() : optimizerOf(how->logged, "training", howAt);
  auto integer = [&](const char *name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  auto boolean = [&](const char *name, bool value) {
    return builder.getNamedAttr(name, builder.getBoolAttr(value));
  };
  SmallVector<NamedAttribute> sizes = {
      integer("seq_len", stage.train.tokens),
      integer("val_seq_len", stage.validate.tokens),
      integer("gen_seq_len", stage.generate.tokens),
      integer("global_batch", stage.how.globalBatch),
      integer("num_iterations", how->numIterations),
      integer("vocab_size", how->vocabSize),
      integer("eos_token", how->eosToken),
      boolean("train_loss_is_sum", stage.train.lossIsSum),
      boolean("val_loss_is_sum", stage.validate.lossIsSum),
      builder.getNamedAttr("log_scalar", builder.getStringAttr(logged.lrSymbol)),
      builder.getNamedAttr("grad_clip", builder.getF64FloatAttr(how->gradClip)),
      boolean("join_update", how->joinUpdate),
      builder.getNamedAttr("dist",
                           builder.getStringAttr(how->dist == Dist::zero2 ? "zero2" : "allreduce")),
  };
  addData(stage, sizes);
  if (how->gradients == Gradients::stored)
    sizes.push_back(boolean("stored_gradients", true));
  if (finishReports())
    sizes.push_back(boolean("report_norms", true));
  return builder.getDictionaryAttr(sizes);
}

TracedModel Recorder::finish() {
  finishFp8();
  finishInterchange();
  finishEvents();
  std::vector<std::string> known;
  for (const HyperparameterRecord &record : hyperparameters)
    known.push_back(record.name);
  for (auto [i, given] : llvm::enumerate(input.overrides))
    if (!overrideUsed[i])
      throw ModelError(fmt::format("-D {}: {} has no such hyperparameter; it has {}", given.first,
                                   input.name, fmt::join(known, ", ")));
  for (size_t i = 0; i < defaultUsed.size(); ++i)
    if (!defaultUsed[i])
      fail(input.defaults->at,
           fmt::format("NANO_DEFAULTS: there is no hyperparameter '{}'; there are {}",
                       input.defaults->values[i].name, fmt::join(known, ", ")));

  auto missing = [&](const char *what, const char *call) {
    throw ModelError(
        fmt::format("{}: the model {}; call {} in NANO_MODEL", input.file, what, call));
  };
  if (outside.train.tokens == 0 && stages.empty())
    missing("builds no loss", "train(tokens, Loss::sum, …)");
  if (outside.validate.tokens == 0 && (stages.empty() || stages.front().validate.tokens == 0))
    missing("has no validation program", "validate(tokens, Loss::mean, …)");
  if (!how)
    missing("does not say how it is trained", "training({…})");
  if (stages.empty() && how->globalBatch == 0)
    fail(howAt, "training: globalBatch must be at least 1");
  if (stages.empty() && how->globalBatch % outside.train.tokens != 0)
    fail(howAt,
         fmt::format(
             "training: globalBatch {} is not a multiple of the {} tokens of a training sequence",
             how->globalBatch, outside.train.tokens));
  if (optimizers.empty())
    missing("has no optimizer", "optimizer, or one of models/optimizers.h, and param,");
  if (parameters.empty())
    missing("has no parameters", "param");
  checkPhases();

  graph::ModelOp model = graph::modelOrNew(*module);
  model.setName(input.name);
  SmallVector<graph::RunStage> run;
  for (const StageRecord &stage : runStages())
    run.push_back({stage.name, stage.how.until, trainingOf(stage), {}});
  model.setTrainingAttr(run.front().training);
  if (!stages.empty())
    graph::setRunStages(*module, run);
  SmallVector<Attribute> values;
  for (const HyperparameterRecord &record : hyperparameters)
    values.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr("name", builder.getStringAttr(record.name)),
        builder.getNamedAttr("value", builder.getStringAttr(record.value)),
        builder.getNamedAttr("overridden", builder.getBoolAttr(record.overridden)),
    }));
  model.setHyperparametersAttr(builder.getArrayAttr(values));

  if (failed(verify(*module)))
    throw ModelError(
        fmt::format("{}: the front end made a module that does not verify", input.file));
  std::optional<MicroBatchRecord> micro = finishMicroBatch();
  TracedModel traced{std::move(module), std::move(hyperparameters), std::move(parameters),
                     std::move(reports)};
  for (const CheckRecord &record : checks)
    traced.checks.push_back(record.check);
  for (const ReplacementRecord &record : replacements)
    if (!record.applies && !input.kernels.target.empty())
      remarks.push_back(fmt::format("{}:{}: remark: replace: kernel '{}' takes the place of {} "
                                    "nowhere",
                                    record.at.file, record.at.line, kernels[record.by.id].name,
                                    record.function));
  traced.remarks = std::move(remarks);
  traced.unchecked = std::move(unchecked);
  traced.microBatch = std::move(micro);
  return traced;
}

//===- Running a body ----------------------------------------------------------===//

TracedModel traceModel(MLIRContext &context, const TraceInput &input) {
  Recorder recorder(context, input);
  try {
    const ForeignCode model(input.file + ", the model's own code; a debugger shows the line");
    input.body();
  } catch (const ModelError &) {
    throw;
  } catch (const std::exception &error) {
    throw ModelError(fmt::format("{}: the model threw an exception: {}", input.file, error.what()));
  } catch (...) {
    throw ModelError(fmt::format("{}: the model threw an exception", input.file));
  }
  return input.kernels.recordsChecks ? recorder.recordChecks() : recorder.finish();
}

} // namespace nano::frontend
