// Optimizers as equations: what the front end records while the update of a parameter is written
// down, one nano.optimizer for each form that a group's parameters have.
#include "compiler/Recorder.h"

#include "passes/optimizer/UpdateForm.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

using namespace mlir;

namespace nano::frontend {

//===- Functions of Frontend.h -------------------------------------------------===//

Operand::Operand(const Sched &schedule, Line at) : at(at) {
  Recorder &recorder = Recorder::current();
  if (const std::optional<double> value = recorder.numberOf(schedule)) {
    number = *value;
    isNumber = true;
  } else {
    tensor = recorder.scheduled(schedule, at);
  }
}

Tensor Update::state(const char *name, DType type, const Init &init, Line at) {
  return Recorder::current().updateState(*this, name, type, nullptr, init, at);
}
Tensor Update::state(const char *name, DType type, const Shape &shape, const Init &init, Line at) {
  return Recorder::current().updateState(*this, name, type, &shape, init, at);
}
void Update::set(const Tensor &old, const Operand &value) {
  Recorder::current().setUpdate(old, value);
}
void Update::require(bool condition, const char *what) const {
  if (!condition)
    fail(at,
         fmt::format("param '{}' {}: {}", name,
                     text(Recorder::current().typeOf(parameter, at, "require").getShape()), what));
}

Tensor stateOf(const At &parameter, const char *name) {
  return Recorder::current().stateOf(parameter, name);
}

Optimizer recordOptimizer(const char *name, const OptimizerOptions &how, const void *equations,
                          void (*call)(const void *, Update &), void (*destroy)(const void *),
                          Line at) {
  return Recorder::current().optimizer(name, how, {{equations, destroy}, call}, at);
}

//===- Optimizers --------------------------------------------------------------===//

Optimizer Recorder::optimizer(const char *name, const OptimizerOptions &how, Equations equations,
                              Line at) {
  if (how.every < 1)
    fail(at, fmt::format("optimizer '{}': every = {} must be at least 1", name, how.every));
  if (how.lr.id == 0)
    fail(at, fmt::format("optimizer '{}': it has no learning rate; give it {{.lr = …}}", name));
  const std::string lr = std::string("lr.") + name;
  declareScalar(lr, how.lr, f32, "optimizer", at);
  takeSymbol(name, "optimizer", at);
  OptimizerRecord record{.name = name, .kind = how.kind ? how.kind : name, .lrSymbol = lr};
  record.every = how.every;
  record.cut = how.cut;
  record.equations = std::move(equations);
  record.at = at;
  optimizers.push_back(std::move(record));
  return {model, static_cast<uint32_t>(optimizers.size())};
}

Tensor Recorder::scheduled(const Sched &schedule, Line at) {
  useSched(schedule, "schedule", at);
  if (auto found = implicit.find(schedule.id); found != implicit.end())
    return found->second;
  OpBuilder::InsertionGuard guard(builder);
  if (program != 0) // before the program that uses it
    builder.setInsertionPoint(
        module->getBody()->findAncestorOpInBlock(*builder.getInsertionBlock()->getParentOp()));
  std::string symbol;
  do
    symbol = fmt::format("schedule{}", unnamedSchedules++);
  while (symbols.contains(symbol));
  const uint32_t running = std::exchange(program, 0);
  declareScalar(symbol, schedule, f32, "schedule", at);
  program = running;
  Tensor tensor;
  tensor.program = model;
  tensor.id = static_cast<uint32_t>(declared.size());
  declared.push_back({symbol, RankedTensorType::get({}, builder.getF32Type()), {}});
  return implicit[schedule.id] = tensor;
}

void Recorder::checkPhases() const {
  constexpr int64_t limit = 64; // each has programs of its own
  int64_t phases = 1;
  for (const OptimizerRecord &group : optimizers) {
    if (group.every > how->numIterations)
      fail(group.at, fmt::format("optimizer '{}': every = {} must be at most numIterations, {}",
                                 group.name, group.every, how->numIterations));
    phases = std::lcm(phases, group.every);
    if (phases > limit)
      fail(group.at, fmt::format("optimizer '{}': with every = {} the optimizers meet again after "
                                 "more than {} steps; choose numbers that divide each other",
                                 group.name, group.every, limit));
  }
}

//===- A parameter's update ----------------------------------------------------===//

std::string Recorder::recordUpdate(OptimizerRecord &group, const char *parameter,
                                   RankedTensorType type, Line at) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module->getBody());
  const Location loc = location(at);
  auto op = graph::OptimizerOp::create(
      builder, loc, builder.getStringAttr(group.name), builder.getStringAttr(group.name),
      FlatSymbolRefAttr::get(builder.getContext(), group.lrSymbol),
      builder.getStringAttr(group.kind), builder.getI64IntegerAttr(group.every),
      builder.getStrArrayAttr({}), builder.getDenseF64ArrayAttr({}), StringAttr());
  static constexpr const char *cuts[] = {"", "elements", "rows", "matrices", "whole"};
  if (group.cut != Cut::any)
    op.setCut(cuts[static_cast<int>(group.cut)]);
  Block &body = op.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&body);

  program = nextSerial();
  values.clear();
  UpdateRecord record;
  record.parameter = parameter;
  record.at = at;
  const int64_t before = opCount;
  record.body = &body;
  const Type wide = builder.getF32Type();
  Value old = body.addArgument(type, loc), gradient = body.addArgument(type.clone(wide), loc);
  update = &record;
  Update handles;
  handles.name = parameter;
  handles.type = dtypeOf(type.getElementType());
  handles.at = at;
  handles.parameter = handle(cast(old, wide, at));
  handles.gradient = handle(gradient);
  handles.lr = handle(this->op<graph::LoadOp>(at, RankedTensorType::get({}, wide), group.lrSymbol));
  record.values.push_back({"", handles.parameter, type, 0, {}, {}});
  group.equations.call(group.equations.context.get(), handles);
  endUpdate(op, group, at);
  checkCut(op, group, at);
  update = nullptr;
  program = 0;
  values.clear();

  // One op for all parameters that are updated alike.
  auto isSame = [&](graph::OptimizerOp known) {
    return known.getCut() == op.getCut() && known.getStates() == op.getStates() &&
           known.getInits() == op.getInits() &&
           OperationEquivalence::isRegionEquivalentTo(&known.getBody(), &op.getBody(),
                                                      OperationEquivalence::IgnoreLocations);
  };
  if (auto known = llvm::find_if(group.updates, isSame); known != group.updates.end()) {
    op.erase();
    opCount = before;
    return known->getSymName().str();
  }
  if (!group.updates.empty()) {
    const std::string symbol = fmt::format("{}.{}", group.name, group.updates.size());
    takeSymbol(symbol, "optimizer", at);
    op.setSymName(symbol);
  }
  group.updates.push_back(op);
  return op.getSymName().str();
}

void Recorder::checkCut(graph::OptimizerOp op, const OptimizerRecord &group, Line at) const {
  if (!op.getCut())
    return;
  const UpdateForm form(op);
  if (form.canCut(*op.getCut()))
    return;
  std::string why = "a state cannot be cut so";
  Operation *limit = form.limit();
  if (limit && !isa<graph::YieldOp>(limit)) {
    const auto line = dyn_cast<FileLineColLoc>(limit->getLoc());
    why = fmt::format("the {} of line {} needs more at once, and pieces are of a {}",
                      limit->getName().stripDialect().str(), line ? line.getLine() : 0,
                      form.unitName());
  }
  fail(at, fmt::format("optimizer '{}': the update of '{}' {} cannot be cut into {}: {}; leave the "
                       "cut to the compiler, or change the equations",
                       group.name, update->parameter, text(form.parameterType().getShape()),
                       op.getCut()->str(), why));
}

Tensor Recorder::stateOf(const At &parameter, StringRef name) {
  const Line at = parameter.at;
  const std::string what = fmt::format("stateOf: '{}'", name.str());
  if (parameter.tensor.program != model)
    fail(at, what + ": takes a parameter of this model");
  const std::string owner = declared[parameter.tensor.id].symbol;
  auto state = module->lookupSymbol<graph::StateOp>(owner);
  if (!state || !state.isTrained())
    fail(at, fmt::format("{}: '{}' has no optimizer, and so no state of one; "
                         "declare it with param(…)",
                         what, owner));
  auto op = module->lookupSymbol<graph::OptimizerOp>(*state.getOptimizer());
  const auto *found = llvm::find(op.getStates(), builder.getStringAttr(name));
  if (found == op.getStates().end())
    fail(at, fmt::format("{}: the optimizer of '{}' has no such state; it has {}", what, owner,
                         op.getStates().empty()
                             ? "none"
                             : llvm::join(op.getStates().getAsValueRange<StringAttr>(), ", ")));
  const auto number = static_cast<unsigned>(found - op.getStates().begin());
  const std::string symbol = op.stateName(owner, number);
  if (auto known = ofOptimizers.find(symbol); known != ofOptimizers.end())
    return known->second;

  OpBuilder::InsertionGuard guard(builder);
  if (!op.getCut() || *op.getCut() != "whole") {
    // The same equations for those whose states lie whole on each rank.
    const std::string whole = op.getSymName().str() + ".whole";
    auto known = module->lookupSymbol<graph::OptimizerOp>(whole);
    if (!known) {
      takeSymbol(whole, "optimizer", at, /*ofProgram=*/true);
      builder.setInsertionPointAfter(op);
      known = cast<graph::OptimizerOp>(builder.clone(*op));
      known.setSymName(whole);
      known.setCut("whole");
    }
    state.setOptimizer(whole);
    op = known;
  }
  builder.setInsertionPointAfter(state);
  const auto type = mlir::cast<RankedTensorType>(op.getBody().getArgument(number + 2).getType());
  auto own = graph::StateOp::create(
      builder, state.getLoc(), symbol, type, graph::Role::Optimizer,
      graph::InitAttr::get(builder.getContext(), "constant",
                           builder.getDenseF64ArrayAttr(op.getInits()[number])));
  Tensor handle;
  handle.program = model;
  handle.id = static_cast<uint32_t>(declared.size());
  declared.push_back({.symbol = symbol, .type = type, .loaded = {}, .isState = true, .op = own});
  return ofOptimizers[symbol] = handle;
}

Tensor Recorder::updateState(const Update &of, const char *name, DType type, const Shape *shape,
                             const Init &start, Line at) {
  const std::string what = fmt::format("state '{}'", name);
  if (!update)
    fail(at, fmt::format("{}: outside of an optimizer's equations", what));
  if (!*name)
    fail(at, "state: the name is empty");
  for (const UpdateRecord::Value &value : update->values)
    if (value.name == name)
      fail(at, fmt::format("{}: the update of '{}' has it already, from line {}", what,
                           update->parameter, value.at.line));
  if (type != f32 && type != bf16 && type != i32 && type != u16)
    fail(at, fmt::format("{}: can be stored as f32, bf16, i32 or u16, not {}", what, nameOf(type)));
  if (start.kind != Init::Constant || start.count != 1)
    fail(at, fmt::format("{}: begins as one constant everywhere", what));
  const double init = start.values[0];
  if (!std::isfinite(init) ||
      (type == i32 && (init != std::floor(init) || std::abs(init) > INT32_MAX)) ||
      (type == u16 && (init != std::floor(init) || init < 0 || init > UINT16_MAX)))
    fail(at, fmt::format("{}: the initial value {} is no {}", what, init, nameOf(type)));
  const ArrayRef<int64_t> sizes =
      shape ? ArrayRef<int64_t>(shape->sizes, static_cast<size_t>(shape->rank))
            : typeOf(of.parameter, at, what.c_str()).getShape();
  const RankedTensorType stored = tensorType(sizes, elementType(type), at, what.c_str(), 1);
  Value old = update->body->addArgument(stored, location(at));
  const Tensor read = handle(type == bf16  ? cast(old, builder.getF32Type(), at)
                             : type == u16 ? cast(old, builder.getI32Type(), at)
                                           : old);
  update->values.push_back({name, read, stored, init, {}, at});
  return read;
}

void Recorder::setUpdate(const Tensor &old, const Operand &operand) {
  const Line at = operand.at;
  if (!update)
    fail(at, "set: outside of an optimizer's equations");
  auto target = llvm::find_if(update->values, [&](const UpdateRecord::Value &value) {
    return value.handle.program == old.program && value.handle.id == old.id;
  });
  if (target == update->values.end())
    fail(at, fmt::format("set: the update of '{}' can set its parameter and its states, as `state` "
                         "returned them",
                         update->parameter));
  const std::string what =
      target->name.empty()
          ? fmt::format("set: the parameter '{}'", update->parameter)
          : fmt::format("set: state '{}' of '{}'", target->name, update->parameter);
  if (target->next)
    fail(at,
         fmt::format("{} is set twice, before at line {}; set it once, to what it is at the end",
                     what, target->at.line));
  const Type element = target->type.getElementType();
  const DType stored = dtypeOf(element);
  const bool isInteger = stored == i32 || stored == u16;
  if (operand.isNumber) {
    if (isInteger && operand.number != std::floor(operand.number))
      fail(at,
           fmt::format("{} is {}, {} is no whole number", what, nameOf(stored), operand.number));
    if (stored == u16 && (operand.number < 0 || operand.number > UINT16_MAX))
      fail(at, fmt::format("{}: {} is not a u16", what, operand.number));
    const Type wide = isInteger ? builder.getI32Type() : element;
    target->next = cast(constant(operand.number, target->type.clone(wide), at), element, at);
  } else {
    Value next = value(operand.tensor, at, "set");
    const auto type = mlir::cast<RankedTensorType>(next.getType());
    if (type.getShape() != target->type.getShape() && type.getRank() != 0)
      fail(at, fmt::format("{} is {}, the new value {}; reshape or reduce it to that", what,
                           text(target->type.getShape()), text(type.getShape())));
    if (const DType given = dtypeOf(type.getElementType());
        (given == i32 || given == u16) != isInteger)
      fail(at,
           fmt::format("{} is {}, the new value {}; cast it", what, nameOf(stored), nameOf(given)));
    target->next = broadcast(cast(next, element, at), target->type.getShape(), at);
  }
  target->at = at;
}

void Recorder::endUpdate(graph::OptimizerOp op, OptimizerRecord &group, Line at) {
  SmallVector<Value> results;
  SmallVector<Attribute> names;
  SmallVector<double> inits;
  for (const UpdateRecord::Value &value : update->values) {
    if (!value.next)
      fail(value.name.empty() ? group.at : value.at,
           value.name.empty()
               ? fmt::format("optimizer '{}': its equations do not set the parameter '{}' of line "
                             "{}; end them with set(…)",
                             group.name, update->parameter, at.line)
               : fmt::format("state '{}': the equations of optimizer '{}' never set it, so that it "
                             "stays {}; set it, or use the number",
                             value.name, group.name, value.init));
    results.push_back(value.next);
    if (value.name.empty())
      continue;
    takeSymbol(update->parameter + "." + value.name, "state", value.at, /*ofProgram=*/true);
    names.push_back(builder.getStringAttr(value.name));
    inits.push_back(value.init);
  }
  graph::YieldOp::create(builder, location(at), results);
  op.setStatesAttr(builder.getArrayAttr(names));
  op.setInits(inits);
  for (Operation &operation : llvm::make_early_inc_range(llvm::reverse(*update->body)))
    if (isOpTriviallyDead(&operation))
      operation.erase();
}

} // namespace nano::frontend
