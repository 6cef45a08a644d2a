// nano-bufferize: gives every tensor a buffer or a view of one: graph IR to step IR.
//
// clang-format off
//   nano.program @update() {role = "update"} {       step.program @update attributes {role = "update"} {
//     %p = nano.load @p : tensor<8xf32>                %p = step.state @p : memref<8xf32>
//     %g = nano.load @grad.p : tensor<8xf32>     →     %g = step.state @grad.p : memref<8xf32>
//     %n = nano.sub %p, %g : tensor<8xf32>             step.task ins(%p, %g) outs(%p) : … { nano.sub }
//     nano.store %n, @p : tensor<8xf32>
//   }                                                }
// clang-format on
//
// `Placement` decides where tensors lie; here each op becomes the commands that fill those places,
// in the function's order. Products become library calls and collectives commands; every other op
// that computes, `nano.fused` or single, becomes one task. Reshapes, slices, loads and stores
// become copies only where a tensor cannot lie where it is needed. Arguments and results become
// inputs of the module; the programs of a step's micro-batches share theirs,
// `train.tokens` and so on.
//
// It runs after fusion, which fixes the tensors that exist, and before kernels, whose code depends
// on strides.
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/Custom.h"
#include "ir/graph/Data.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Phases.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/step/VectorRows.h"
#include "passes/Passes.h"
#include "passes/memory/Placement.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_BUFFERIZE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;
using namespace nano::memory;
namespace step = nano::step;

namespace {

/// The op that computes a tensor: for a result of `nano.fused`, the one inside.
Operation *originOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto fused = dyn_cast<FusedOp>(op)) {
    Operation *yield = fused.getBody().front().getTerminator();
    if (Operation *inner =
            yield->getOperand(cast<OpResult>(value).getResultNumber()).getDefiningOp())
      return inner;
  }
  return op;
}

/// The name of a buffer: the model's for the tensor where its location has one, else the op's kind.
StringRef bufferName(Operation *origin) {
  if (auto custom = dyn_cast<CustomOp>(origin))
    return custom.getName();
  StringRef name;
  origin->getLoc()->walk([&](Location part) {
    if (auto named = dyn_cast<NameLoc>(part))
      name = named.getName().getValue();
    return name.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return name.empty() ? origin->getName().stripDialect() : name;
}

/// Turns one function into one program.
class Bufferizer {
public:
  Bufferizer(ProgramOp function, ArrayRef<FlatSymbolRefAttr> inputs,
             ArrayRef<FlatSymbolRefAttr> outputs)
      : function(function), outputs(outputs), placement(function, inputs, outputs),
        builder(function.getContext()) {}

  LogicalResult run();

private:
  LogicalResult emit(Operation &op);
  void emitMatmul(MatmulOp op);
  void emitScaledMatmul(ScaledMatmulOp op);
  /// A call's operand: the tensor's place, or a dense copy of it where `fits` says no.
  Value callOperand(Operation *call, Value tensor, function_ref<bool(MemRefType)> fits);
  /// Scale 0 or 1 of a product: where it lies, or a copy that is laid out for the product.
  Value scaleOperand(ScaledMatmulOp product, unsigned index);
  /// A collective or local part whose operand is not overwritten.
  template <typename StepOp, typename GraphOp> void emitPart(GraphOp op) {
    Value x = callOperand(op, op.getX(), step::isContiguous);
    StepOp::create(builder, op.getLoc(), ValueRange(x), ValueRange(memref(op.getResult())),
                   op.getParts(), op.getRanks());
  }
  void emitTask(Operation &op);
  /// The task of a kernel of the model's own, whose arrays are contiguous: others are copied.
  void emitCustom(CustomOp op);
  /// The task of a kernel that begins with a product: what does not lie as the product needs it is
  /// copied.
  void emitProductTask(FusedOp op);
  /// A result's transpose with a place of its own is one more output: the same value, written with
  /// its rows as columns. Adds those, and returns what the kernel yields for them.
  SmallVector<Value> addTurned(FusedOp fused, SmallVectorImpl<Value> &outs);
  /// True for a transpose that is not a view of its operand but made beside it.
  bool hasOwnPlace(TransposeOp transpose) const {
    return !placement.isDropped(transpose) && isMadeBeside(transpose) &&
           placement.of(transpose).root != placement.of(transpose.getX()).root;
  }
  /// Copies a tensor to `target`, a place for the same elements in the same order; nothing when it
  /// lies there.
  void emitCopy(Value tensor, const Place &target, Location loc);
  /// `target` ← `source`: a copy where both are contiguous, else a task that reshapes.
  void emitMove(Value source, Value target, Location loc);
  /// Opens a task; its block has the arguments for `ins`, and `builder` is inside of it.
  step::TaskOp openTask(Location loc, ValueRange ins, ValueRange outs);

  Value root(int index);
  Value memref(const Place &place, RankedTensorType type);
  Value memref(Value tensor) { return memref(placement.of(tensor), tensorType(tensor)); }
  /// Runs `create` with the builder after the last declaration.
  template <typename OpTy, typename... Args> Value declare(Location loc, Args &&...args) {
    OpBuilder::InsertionGuard guard(builder);
    if (lastDeclaration)
      builder.setInsertionPointAfter(lastDeclaration);
    else
      builder.setInsertionPointToStart(&program.getBody().front());
    auto op = OpTy::create(builder, loc, std::forward<Args>(args)...);
    lastDeclaration = op;
    return op;
  }

  ProgramOp function;
  ArrayRef<FlatSymbolRefAttr> outputs;
  Placement placement;
  OpBuilder builder;
  step::ProgramOp program;
  Operation *lastDeclaration = nullptr;
  SmallVector<Value> roots;
  llvm::DenseMap<std::pair<int, Type>, Value> views;
};

LogicalResult Bufferizer::run() {
  builder.setInsertionPoint(function);
  program = step::ProgramOp::create(builder, function.getLoc(), function.getSymName(),
                                    function.getRoleAttr(), function.getPhasesAttr(),
                                    function.getStagesAttr(), function.getEventStepAttr());
  builder.createBlock(&program.getBody());
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (placement.isDropped(&op))
      continue;
    if (failed(emit(op)))
      return failure();
  }
  function.erase();
  return success();
}

LogicalResult Bufferizer::emit(Operation &op) {
  Location loc = op.getLoc();
  if (auto load = dyn_cast<LoadOp>(op)) {
    Place state = placement.whole(load.getSymbolAttr(), tensorType(load));
    if (placement.of(load) != state)
      emitMove(memref(state, tensorType(load)), memref(load), loc);
  } else if (auto store = dyn_cast<StoreOp>(op)) {
    emitCopy(store.getValue(), placement.whole(store.getSymbolAttr(), tensorType(store.getValue())),
             loc);
  } else if (isa<ReturnOp>(op)) {
    for (auto [value, symbol] : llvm::zip(op.getOperands(), outputs))
      emitCopy(value, placement.whole(symbol, tensorType(value)), loc);
  } else if (auto transpose = dyn_cast<TransposeOp>(op); transpose && hasOwnPlace(transpose)) {
    return success(); // its operand's kernel has written it
  } else if (isViewOp(&op)) {
    std::optional<Place> view = viewPlace(&op, placement.of(op.getOperand(0)));
    if (!view || *view != placement.of(op.getResult(0)))
      emitTask(op);
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    for (auto [part, place] :
         llvm::zip(concat.getInputs(), partPlaces(concat, placement.of(concat))))
      emitCopy(part, place, loc);
  } else if (auto matmul = dyn_cast<MatmulOp>(op)) {
    emitMatmul(matmul);
  } else if (auto scaled = dyn_cast<ScaledMatmulOp>(op)) {
    emitScaledMatmul(scaled);
  } else if (auto allReduce = dyn_cast<AllReduceOp>(op)) {
    emitCopy(allReduce.getX(), placement.of(allReduce), loc);
    step::AllReduceOp::create(builder, loc, ValueRange(memref(allReduce.getResult())),
                              allReduce.getCombiner(), allReduce.getRanks());
  } else if (auto reduceScatter = dyn_cast<ReduceScatterOp>(op)) {
    emitPart<step::ReduceScatterOp>(reduceScatter);
  } else if (auto allGather = dyn_cast<AllGatherOp>(op)) {
    emitPart<step::AllGatherOp>(allGather);
  } else if (auto shard = dyn_cast<ShardOp>(op)) {
    emitPart<step::ShardOp>(shard);
  } else if (auto custom = dyn_cast<CustomOp>(op)) {
    emitCustom(custom);
  } else {
    emitTask(op);
  }
  return success();
}

Value Bufferizer::callOperand(Operation *call, Value tensor, function_ref<bool(MemRefType)> fits) {
  Value value = memref(tensor);
  if (fits(cast<MemRefType>(value.getType())))
    return value;
  Location loc = call->getLoc();
  Value dense =
      declare<step::BufferOp>(loc, step::memrefOf(tensorType(tensor)),
                              builder.getStringAttr(bufferName(call) + ".operand"), IntegerAttr());
  emitMove(value, dense, loc);
  return dense;
}

static bool isMatrix(MemRefType type) { return step::matrixLayout(type).has_value(); }

void Bufferizer::emitMatmul(MatmulOp op) {
  auto operand = [&](Value tensor) { return callOperand(op, tensor, isMatrix); };
  Value a = operand(op.getA()), b = op.getB() == op.getA() ? a : operand(op.getB());
  Value d = op.getAddend() ? operand(op.getAddend()) : Value();
  step::MatmulOp::create(builder, op.getLoc(), a, b, Value(), Value(), d, memref(op),
                         op.getTransposeA(), op.getTransposeB(), op.getAlpha(), op.getBeta(),
                         /*stream=*/0, /*candidates=*/nullptr);
}

Value Bufferizer::scaleOperand(ScaledMatmulOp product, unsigned index) {
  Value tensor = index == 0 ? product.getScaleA() : product.getScaleB(), value = memref(tensor);
  std::optional<ScaleLayout> layout = scaleLayout(product, index);
  if (!layout || layout->holds(cast<MemRefType>(value.getType())))
    return value;
  Location loc = product.getLoc();
  RankedTensorType type = tensorType(tensor);
  Value whole =
      declare<step::BufferOp>(loc, MemRefType::get(layout->whole, type.getElementType()),
                              builder.getStringAttr(bufferName(product) + ".scale"), IntegerAttr());
  MemRefType part = memrefAt({0, 0, layout->strides}, type);
  Value laidOut = part == whole.getType() ? whole : declare<step::ViewOp>(loc, part, whole);
  emitMove(value, laidOut, loc);
  return laidOut;
}

void Bufferizer::emitScaledMatmul(ScaledMatmulOp op) {
  auto operand = [&](Value tensor) { return callOperand(op, tensor, isMatrix); };
  Value a = operand(op.getA()), b = op.getB() == op.getA() ? a : operand(op.getB());
  Value scaleA = scaleOperand(op, 0), scaleB = scaleOperand(op, 1);
  Value d = op.getAddend() ? operand(op.getAddend()) : Value();
  step::MatmulOp::create(builder, op.getLoc(), a, b, scaleA, scaleB, d, memref(op),
                         op.getTransposeA(), op.getTransposeB(), op.getAlpha(), op.getBeta(),
                         /*stream=*/0, /*candidates=*/nullptr);
}

step::TaskOp Bufferizer::openTask(Location loc, ValueRange ins, ValueRange outs) {
  auto task = step::TaskOp::create(builder, loc, ins, outs);
  SmallVector<Type> types;
  for (Value in : ins)
    types.push_back(step::tensorOf(cast<MemRefType>(in.getType())));
  SmallVector<Location> locations(types.size(), loc);
  builder.createBlock(&task.getBody(), {}, types, locations);
  return task;
}

SmallVector<Value> Bufferizer::addTurned(FusedOp fused, SmallVectorImpl<Value> &outs) {
  SmallVector<Value> again;
  for (OpResult result : fused.getResults())
    for (Operation *user : result.getUsers())
      if (auto transpose = dyn_cast<TransposeOp>(user); transpose && hasOwnPlace(transpose)) {
        outs.push_back(
            memref(transposedPlace(transpose, placement.of(transpose)), tensorType(result)));
        again.push_back(
            fused.getBody().front().getTerminator()->getOperand(result.getResultNumber()));
      }
  return again;
}

void Bufferizer::emitTask(Operation &op) {
  OpBuilder::InsertionGuard guard(builder);
  if (auto fused = dyn_cast<FusedOp>(op); fused && nano::productOf(fused.getBody().front()))
    return emitProductTask(fused);
  SmallVector<Value> outs;
  for (Value result : op.getResults())
    outs.push_back(memref(result));
  if (auto fused = dyn_cast<FusedOp>(op)) {
    SmallVector<Value> ins;
    for (Value input : fused.getInputs())
      ins.push_back(memref(input));
    const SmallVector<Value> again = addTurned(fused, outs);
    auto task = step::TaskOp::create(builder, op.getLoc(), ins, outs);
    task.getBody().takeBody(fused.getBody());
    Operation *yield = task.getBody().front().getTerminator();
    yield->insertOperands(yield->getNumOperands(), again);
    return;
  }
  // A single op; what its regions use from outside are inputs too.
  llvm::SetVector<Value> used(op.getOperands().begin(), op.getOperands().end());
  getUsedValuesDefinedAbove(op.getRegions(), used);
  SmallVector<Value> ins;
  for (Value input : used)
    ins.push_back(memref(input));
  step::TaskOp task = openTask(op.getLoc(), ins, outs);
  IRMapping mapping;
  mapping.map(used.getArrayRef(), task.getBody().front().getArguments());
  Operation *clone = builder.clone(op, mapping);
  YieldOp::create(builder, op.getLoc(), clone->getResults());
}

/// True for an array that is contiguous and begins at a multiple of 16 bytes.
static bool isArray(MemRefType type) {
  constexpr int64_t arrayAlignment = 16;
  return step::isContiguous(type) &&
         step::layoutOf(type).offset * step::elementBytes(type.getElementType()) % arrayAlignment ==
             0;
}

void Bufferizer::emitCustom(CustomOp op) {
  OpBuilder::InsertionGuard guard(builder);
  llvm::SetVector<Value> tensors(op.getInputs().begin(), op.getInputs().end());
  SmallVector<Value> ins, outs;
  SmallVector<std::pair<Value, Value>> moves;
  for (Value tensor : tensors)
    ins.push_back(callOperand(op, tensor, isArray));
  for (OpResult result : op->getResults()) {
    const Value place = memref(result);
    outs.push_back(place);
    if (isArray(cast<MemRefType>(place.getType())))
      continue;
    outs.back() = declare<step::BufferOp>(op.getLoc(), step::memrefOf(tensorType(result)),
                                          builder.getStringAttr(op.getName()), IntegerAttr());
    moves.push_back({outs.back(), place});
  }
  step::TaskOp task = openTask(op.getLoc(), ins, outs);
  IRMapping mapping;
  mapping.map(tensors.getArrayRef(), task.getBody().front().getArguments());
  YieldOp::create(builder, op.getLoc(), builder.clone(*op, mapping)->getResults());
  builder.setInsertionPointAfter(task);
  for (auto [from, to] : moves)
    emitMove(from, to, op.getLoc());
}

static bool isDense(MemRefType type) {
  return type == step::memrefOf(cast<RankedTensorType>(step::tensorOf(type)));
}

void Bufferizer::emitProductTask(FusedOp op) {
  SmallVector<Value> ins, outs;
  SmallVector<std::pair<Value, Value>> moves;
  for (Value input : op.getInputs())
    ins.push_back(callOperand(op, input, step::hasVectorRows));
  const OperandRange yielded = op.getBody().front().getTerminator()->getOperands();
  for (auto [result, value] : llvm::zip_equal(op.getResults(), yielded)) {
    const Value place = memref(result);
    const auto type = cast<MemRefType>(place.getType());
    outs.push_back(place);
    const bool isOfNumbers = nano::partialSumsOf(value) || nano::partialLargestOf(value);
    if (isOfNumbers ? isDense(type) : step::hasVectorRows(type) || step::hasVectorColumns(type))
      continue;
    outs.back() =
        declare<step::BufferOp>(op.getLoc(), step::memrefOf(tensorType(result)),
                                builder.getStringAttr(bufferName(originOf(result))), IntegerAttr());
    moves.push_back({outs.back(), place});
  }
  const SmallVector<Value> again = addTurned(op, outs);
  auto task = step::TaskOp::create(builder, op.getLoc(), ins, outs);
  task.getBody().takeBody(op.getBody());
  Operation *yield = task.getBody().front().getTerminator();
  yield->insertOperands(yield->getNumOperands(), again);
  for (auto [from, to] : moves)
    emitMove(from, to, op.getLoc());
}

void Bufferizer::emitCopy(Value tensor, const Place &target, Location loc) {
  if (placement.of(tensor) != target)
    emitMove(memref(tensor), memref(target, tensorType(tensor)), loc);
}

void Bufferizer::emitMove(Value source, Value target, Location loc) {
  auto from = cast<MemRefType>(source.getType()), to = cast<MemRefType>(target.getType());
  if (step::bufferKey(source) == step::bufferKey(target) &&
      step::elementRange(from).meets(step::elementRange(to))) {
    // A state that becomes another arrangement of itself.
    Value aside =
        declare<step::BufferOp>(loc, MemRefType::get(from.getShape(), from.getElementType()),
                                builder.getStringAttr("moved"), IntegerAttr());
    emitMove(source, aside, loc);
    emitMove(aside, target, loc);
    return;
  }
  if (step::isContiguous(from) && step::isContiguous(to)) {
    step::CopyOp::create(builder, loc, source, target);
    return;
  }
  OpBuilder::InsertionGuard guard(builder);
  step::TaskOp task = openTask(loc, source, target);
  Value moved =
      ReshapeOp::create(builder, loc, step::tensorOf(to), task.getBody().front().getArgument(0));
  YieldOp::create(builder, loc, moved);
}

Value Bufferizer::root(int index) {
  roots.resize(std::max(roots.size(), placement.roots().size()));
  Value &value = roots[index];
  if (value)
    return value;
  const Root &root = placement.roots()[index];
  if (root.symbol) {
    value = declare<step::StateOp>(function.getLoc(), root.type, root.symbol);
  } else {
    Operation *origin = originOf(root.madeFor);
    value = declare<step::BufferOp>(origin->getLoc(), root.type,
                                    builder.getStringAttr(bufferName(origin)), IntegerAttr());
  }
  return value;
}

Value Bufferizer::memref(const Place &place, RankedTensorType type) {
  MemRefType layout = memrefAt(place, type);
  Value whole = root(place.root);
  if (layout == whole.getType())
    return whole;
  Value &view = views[{place.root, layout}];
  if (!view)
    view = declare<step::ViewOp>(whole.getLoc(), layout, whole);
  return view;
}

//===- The pass -----------------------------------------------------------===//

struct Bufferize : public nano::impl::BufferizeBase<Bufferize> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    for (auto function : llvm::make_early_inc_range(module.getOps<ProgramOp>())) {
      SmallVector<FlatSymbolRefAttr> inputs, outputs;
      if (failed(check(function)) || failed(declareInputs(function, symbols, inputs, outputs)) ||
          failed(Bufferizer(function, inputs, outputs).run()))
        return signalPassFailure();
    }
  }

private:
  LogicalResult check(ProgramOp function);
  LogicalResult declareInputs(ProgramOp function, SymbolTable &symbols,
                              SmallVectorImpl<FlatSymbolRefAttr> &inputs,
                              SmallVectorImpl<FlatSymbolRefAttr> &outputs);
};

/// Only graph ops that compute, and loads and stores, can become commands.
LogicalResult Bufferize::check(ProgramOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("only functions of one block can become programs");
  for (Operation &op : function.getBody().front()) {
    if (isa<AccumulateOp>(op))
      return op.emitOpError("has no meaning for one program: nano-split-accumulation runs first");
    bool known = isa<LoadOp, StoreOp, ReturnOp>(op) ||
                 (isa<NanoDialect>(op.getDialect()) && isMemoryEffectFree(&op));
    if (!known)
      return op.emitOpError(
          "cannot become a command: only ops of the nano dialect that compute can");
  }
  return success();
}

/// Names arguments and results, and declares them as inputs of the module where no earlier program
/// has.
LogicalResult Bufferize::declareInputs(ProgramOp function, SymbolTable &symbols,
                                       SmallVectorImpl<FlatSymbolRefAttr> &inputs,
                                       SmallVectorImpl<FlatSymbolRefAttr> &outputs) {
  const StringRef kind = function.getRole().value_or("");
  bool isMicroBatch =
      kind == "first" || kind == "next" || kind == "last" || kind == "train" || kind == "measure";
  StringRef prefix = isMicroBatch ? "train" : function.getSymName();
  SmallVector<std::string> argumentNames = {"tokens", "targets"};
  if (kind == "decode")
    argumentNames = {"token", "position"};
  else if (kind != "generate")
    for (const Column &column : columnsOf(function->getParentOfType<ModuleOp>(),
                                          /*validation=*/kind == "validate"))
      argumentNames.push_back(column.inputName());
  OpBuilder builder(function);
  auto declare = [&](const std::string &name, Type type, Location loc, bool output,
                     SmallVectorImpl<FlatSymbolRefAttr> &list) -> LogicalResult {
    auto symbol = builder.getStringAttr(prefix + "." + name);
    Type memref = step::memrefOf(cast<RankedTensorType>(type));
    list.push_back(FlatSymbolRefAttr::get(symbol));
    if (Operation *present = symbols.lookup(symbol)) {
      auto input = dyn_cast<step::InputOp>(present);
      if (input && input.getType() == memref && input.getOutput() == output)
        return success();
      return function.emitError("its ")
             << name << " is " << memref << ", but " << list.back() << " is something else";
    }
    symbols.insert(step::InputOp::create(builder, loc, symbol, TypeAttr::get(memref),
                                         output ? builder.getUnitAttr() : UnitAttr(),
                                         IntegerAttr()),
                   Block::iterator(function));
    return success();
  };
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (failed(declare(i < argumentNames.size() ? argumentNames[i] : "argument" + std::to_string(i),
                       type, i < 2 ? function.getLoc() : function.getArgument(i).getLoc(), false,
                       inputs)))
      return failure();
  StringRef first = kind == "generate" || kind == "decode" ? "logits"
                    : kind == "measure"                    ? "report"
                                                           : "loss";
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(declare(i == 0   ? first.str()
                       : i == 1 ? "checks"
                                : "result" + std::to_string(i),
                       type, function.getLoc(), true, outputs)))
      return failure();
  return success();
}

} // namespace
