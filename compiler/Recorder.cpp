// Handles, values, and the few ops that other front-end functions are made of.
#include "compiler/Recorder.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RunStages.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Shapes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::frontend {

namespace {
thread_local Recorder *running = nullptr;
} // namespace

uint32_t nextSerial() {
  static uint32_t serial = 0;
  return ++serial;
}

void fail(Line at, const std::string &message) {
  throw ModelError(fmt::format("{}:{}: {}", at.file, at.line, message), at.column);
}

const char *nameOf(DType type) {
  switch (type) {
  case DType::f32:
    return "f32";
  case DType::bf16:
    return "bf16";
  case DType::f8e4m3:
    return "f8e4m3";
  case DType::f8e5m2:
    return "f8e5m2";
  case DType::i32:
    return "i32";
  case DType::u16:
    return "u16";
  }
  return "?";
}

std::string text(ArrayRef<int64_t> shape) { return graph::shapeText(shape); }

Recorder::Recorder(MLIRContext &context, const TraceInput &input)
    : builder(&context), input(input), model(nextSerial()),
      overrideUsed(input.overrides.size(), false),
      defaultUsed(input.defaults ? input.defaults->count : 0, false) {
  module = ModuleOp::create(FileLineColLoc::get(&context, input.file, 1, 0));
  builder.setInsertionPointToEnd(module->getBody());
  running = this;
}

Recorder::~Recorder() { running = nullptr; }

Recorder &Recorder::current() {
  if (!running)
    throw ModelError("the front end is used outside of NANO_MODEL");
  return *running;
}

Location Recorder::location(Line at) {
  return FileLineColLoc::get(builder.getContext(), at.file, at.line, 0);
}

Type Recorder::elementType(DType type) {
  switch (type) {
  case DType::f32:
    return builder.getF32Type();
  case DType::bf16:
    return builder.getBF16Type();
  case DType::f8e4m3:
    return Float8E4M3FNType::get(builder.getContext());
  case DType::f8e5m2:
    return Float8E5M2Type::get(builder.getContext());
  case DType::i32:
    return builder.getI32Type();
  case DType::u16:
    return builder.getI16Type();
  }
  return {};
}

DType Recorder::dtypeOf(Type elementType) {
  if (elementType.isF32())
    return f32;
  if (elementType.isBF16())
    return bf16;
  if (isa<Float8E4M3FNType>(elementType))
    return f8e4m3;
  if (elementType.isInteger(16))
    return u16;
  return isa<Float8E5M2Type>(elementType) ? f8e5m2 : i32;
}

RankedTensorType Recorder::tensorType(ArrayRef<int64_t> shape, Type element, Line at,
                                      const char *what, int64_t least) {
  constexpr int64_t limit = int64_t(1) << 40;
  int64_t count = 1; // of those that are not 0
  for (int64_t size : shape) {
    if (size < least)
      fail(at, fmt::format("{}: every size must be at least {}: {}", what, least, text(shape)));
    if (size > limit || (size > 0 && count > limit / size))
      fail(at, fmt::format("{}: {} has more than 2^40 elements", what, text(shape)));
    count *= std::max<int64_t>(size, 1);
  }
  return RankedTensorType::get(shape, element);
}

void Recorder::countOp(Line at) {
  // Some ten times what gpt124m has.
  constexpr int64_t limit = int64_t(1) << 16;
  if (++opCount > limit)
    fail(update ? update->at : at,
         fmt::format("the model asks for sizes that do not fit: more than {} ops and "
                     "parameters; give it fewer layers",
                     limit));
}

Tensor Recorder::handle(Value value) {
  Tensor tensor;
  tensor.program = program;
  tensor.id = static_cast<uint32_t>(values.size());
  values.push_back(value);
  return tensor;
}

RankedTensorType Recorder::typeOf(const Tensor &tensor, Line at, const char *what) {
  if (tensor.program == model)
    return declared[tensor.id].type;
  return mlir::cast<RankedTensorType>(value(tensor, at, what).getType());
}

Value Recorder::value(const Tensor &tensor, Line at, const char *what) {
  if (tensor.program == 0)
    fail(at, fmt::format("{}: this tensor was never given a value", what));
  if (program == 0)
    fail(at, fmt::format("{}: tensors are computed inside train, validate, generate and the "
                         "equations of optimizers only",
                         what));
  if (tensor.program == program)
    return values[tensor.id];
  if (outerProgram != 0 && (tensor.program == model || tensor.program == outerProgram))
    fail(at, fmt::format("{}: {}", what, insideRule));
  if (tensor.program != model)
    fail(at,
         fmt::format("{}: a tensor of another program or model; only this model's parameters and "
                     "scalars can be used in every program",
                     what));
  Declared &declaration = declared[tensor.id];
  if (update && declaration.isState)
    fail(at, fmt::format("{}: the update of '{}' reads '{}'; it computes from its own parameter, "
                         "gradient and states, and from scalars",
                         what, update->parameter, declaration.symbol));
  if (declaration.isUnset && !declaration.setAt)
    fail(at, fmt::format("{}: state '{}' is read before it is set; set it above this line, or give "
                         "it an initial value",
                         what, declaration.symbol));
  if (declaration.loadedIn != program) {
    declaration.loaded = op<graph::LoadOp>(at, declaration.type, declaration.symbol);
    declaration.loadedIn = program;
  }
  return declaration.loaded;
}

Value Recorder::constant(double number, RankedTensorType type, Line at) {
  return op<graph::ConstantOp>(at, type, builder.getF64FloatAttr(number));
}

Value Recorder::cast(Value x, Type element, Line at) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  if (type.getElementType() == element)
    return x;
  return op<graph::CastOp>(at, type.clone(element), x);
}

Value Recorder::reshape(Value x, ArrayRef<int64_t> shape, Line at) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  if (type.getShape() == shape)
    return x;
  return op<graph::ReshapeOp>(at, RankedTensorType::get(shape, type.getElementType()), x);
}

Value Recorder::broadcast(Value x, ArrayRef<int64_t> shape, Line at) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  if (type.getShape() == shape)
    return x;
  const int64_t missing = static_cast<int64_t>(shape.size()) - type.getRank();
  SmallVector<int64_t> kept, dims;
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    if (size != 1) {
      kept.push_back(size);
      dims.push_back(missing + static_cast<int64_t>(axis));
    }
  // A reduction that kept its axis ends in a reshape; what it reshaped is wanted here.
  auto before = x.getDefiningOp<graph::ReshapeOp>();
  if (before &&
      mlir::cast<RankedTensorType>(before.getX().getType()).getShape() == ArrayRef<int64_t>(kept))
    x = before.getX();
  else
    x = reshape(x, kept, at);
  return op<graph::BroadcastOp>(at, RankedTensorType::get(shape, type.getElementType()), x, dims);
}

Value Recorder::reduce(graph::Combiner combiner, Value x, ArrayRef<int64_t> dims, Line at) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(axis)))
      shape.push_back(size);
  return op<graph::ReduceOp>(at, RankedTensorType::get(shape, type.getElementType()), combiner, x,
                             dims);
}

void Recorder::recordScore(Region &region, const ScoreFunction &score, Line at) {
  OpBuilder::InsertionGuard guard(builder);
  auto number = RankedTensorType::get({}, builder.getF32Type());
  auto integer = RankedTensorType::get({}, builder.getI32Type());
  const Location loc = location(at);
  Block *block = builder.createBlock(&region, region.end(), {number, integer, integer, integer},
                                     {loc, loc, loc, loc});
  outerProgram = program;
  insideRule = "a score function computes from its four arguments and numbers alone";
  program = nextSerial();
  SmallVector<Tensor> arguments;
  for (Value argument : block->getArguments())
    arguments.push_back(handle(argument));
  const Tensor result =
      score.call(score.context, arguments[0], arguments[1], arguments[2], arguments[3]);
  const Value yielded = value(result, at, "attention");
  if (yielded.getType() != number)
    fail(at, fmt::format("attention: the score function returns {} {}; a score is a single f32",
                         nameOf(dtypeOf(getElementTypeOrSelf(yielded))),
                         graph::shapeText(yielded.getType())));
  graph::YieldOp::create(builder, loc, ValueRange{yielded});
  program = outerProgram;
  outerProgram = 0;
}

graph::ProgramOp Recorder::beginProgram(const char *role, int64_t inputs, int64_t tokens, Line at) {
  if (program != 0)
    fail(at, fmt::format("{}: inside another program", role));
  if (tokens < 1 || tokens > INT32_MAX)
    fail(at, fmt::format("{}: a sequence of {} tokens", role, tokens));
  builder.setInsertionPointToEnd(module->getBody());
  const SmallVector<Type> types(inputs, RankedTensorType::get({tokens}, builder.getI32Type()));
  const std::string symbol = inStage ? fmt::format("{}.{}", role, stages.back().name) : role;
  auto function = graph::ProgramOp::create(builder, location(at), symbol,
                                           builder.getFunctionType(types, TypeRange{}), role);
  if (inStage)
    graph::setStages(function, {int64_t(stages.size()) - 1});
  builder.setInsertionPointToStart(function.addEntryBlock());
  program = nextSerial();
  openProgram = function;
  columns = inputs < 2 ? nullptr : &(inStage ? stages.back() : outside).program(role).columns;
  isReporting = StringRef(role) == "train";
  reportLines.clear(); // each stage's training program has its own
  recordsTraining = isReporting;
  randomUses = 0;
  values.clear();
  for (Declared &declaration : declared)
    declaration.setAt.reset();
  return function;
}

void Recorder::endProgram(graph::ProgramOp function, Value result, Line at) {
  const ValueRange results = result ? ValueRange(result) : ValueRange();
  graph::ReturnOp::create(builder, location(at), results);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), results.getTypes()));
  // What the model computed and did not use.
  for (Operation &operation : llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&operation))
      operation.erase();
  for (unsigned i = function.getNumArguments(); i-- > 2;)
    if (function.getArgument(i).use_empty()) {
      (void)function.eraseArgument(i);
      columns->erase(columns->begin() + (i - 2));
    }
  openProgram = {};
  columns = nullptr;
  program = 0;
  recordsTraining = false;
  values.clear();
  builder.setInsertionPointToEnd(module->getBody());
}

void Recorder::recordLoss(bool validation, int64_t tokens, Loss loss, const void *context,
                          Tensor (*call)(const void *, Tensor, Tensor), Line at) {
  const char *role = validation ? "validate" : "train";
  ProgramRecord &record = takeProgram(role, at);
  graph::ProgramOp function = beginProgram(role, 2, tokens, at);
  const Tensor result =
      call(context, handle(function.getArgument(0)), handle(function.getArgument(1)));
  const Value losses = value(result, at, role);
  auto wanted = RankedTensorType::get({tokens}, builder.getF32Type());
  const auto one = RankedTensorType::get({}, builder.getF32Type());
  const bool isWhole = losses.getType() == one && loss == Loss::mean;
  if (losses.getType() != wanted && !isWhole)
    fail(at, fmt::format("{}: the losses are {} {}; wanted is f32 [{}], one a token{}", role,
                         nameOf(dtypeOf(getElementTypeOrSelf(losses))),
                         graph::shapeText(losses.getType()), tokens,
                         loss == Loss::mean ? ", or f32 [], the sequence's" : ""));
  Value total = isWhole ? losses : reduce(graph::Combiner::sum, losses, {0}, at);
  if (loss == Loss::mean && !isWhole)
    total = op<graph::MulOp>(at, total, constant(1.0 / static_cast<double>(tokens), one, at));
  endProgram(function, total, at);
  record.tokens = tokens;
  record.lossIsSum = loss == Loss::sum;
  record.at = at;
}

void Recorder::recordLogits(int64_t tokens, const void *context,
                            Tensor (*call)(const void *, Tensor), Line at) {
  ProgramRecord &record = takeProgram("generate", at);
  graph::ProgramOp function = beginProgram("generate", 1, tokens, at);
  const Value logits = value(call(context, handle(function.getArgument(0))), at, "generate");
  auto type = mlir::cast<RankedTensorType>(logits.getType());
  if (type.getRank() != 2 || type.getDimSize(0) != tokens || !type.getElementType().isF32())
    fail(at, fmt::format("generate: the logits are {} {}; wanted is f32 [{}, columns]",
                         nameOf(dtypeOf(type.getElementType())), graph::shapeText(type), tokens));
  endProgram(function, logits, at);
  record.tokens = tokens;
  record.at = at;
}

} // namespace nano::frontend
