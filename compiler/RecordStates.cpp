// States of the model's own, what sets them, and events of a run.
#include "compiler/Recorder.h"

#include "ir/graph/Program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace nano::frontend {

Tensor Recorder::state(const char *name, const Shape &shape, DType type, const Init &init,
                       OverRanks over, Line at) {
  countOp(at);
  const std::string what = fmt::format("state '{}'", name);
  const RankedTensorType tensor = storedType(shape, type, true, what, at);
  if ((type == i32 || type == u16) && (over == OverRanks::mean || over == OverRanks::max))
    fail(at, fmt::format("{}: ranks combine f32 and bf16; keep {} equal, or one on each", what,
                         nameOf(type)));
  if (over == OverRanks::each && init.kind != Init::Constant && init.kind != Init::Unset)
    fail(at, fmt::format("{}: what each rank keeps for itself starts with one number", what));
  const Tensor handle =
      declareState(name, tensor, graph::Role::Optimizer, initOf(init, tensor, what, at), {}, at);
  declared[handle.id].isUnset = init.kind == Init::Unset;
  static constexpr const char *words[] = {"equal", "mean", "max", "each"};
  cast<graph::StateOp>(declared[handle.id].op).setOverRanks(words[static_cast<int>(over)]);
  return handle;
}

void Recorder::set(const At &state, const Operand &value) {
  if (program == 0)
    fail(state.at, "set: states are set inside train, afterStep and at only");
  if (update)
    fail(state.at, fmt::format("set: the update of '{}' sets its own parameter and states only, by "
                               "the update's own set",
                               update->parameter));
  if (outerProgram != 0)
    fail(state.at, "set: a score function computes from its four arguments and numbers alone");
  if (state.tensor.program != model ||
      !module->lookupSymbol<graph::StateOp>(declared[state.tensor.id].symbol))
    fail(state.at, "set: only a state or a parameter of this model can be set");
  // By its number: what computes the value may declare nothing, but load.
  const uint32_t id = state.tensor.id;
  const RankedTensorType type = declared[id].type;
  const std::string what = fmt::format("set '{}'", declared[id].symbol);
  if (const std::optional<Line> before = declared[id].setAt)
    fail(state.at, fmt::format("{}: it is set in this program by line {} already; a program sets a "
                               "state once, to what it is at the end",
                               what, before->line));
  const bool isU16 = type.getElementType().isInteger(16);
  const bool wantsInteger = value.isNumber && type.getElementType().isInteger();
  const double least = isU16 ? 0 : -double(INT32_MAX), most = isU16 ? UINT16_MAX : INT32_MAX;
  if (wantsInteger &&
      (value.number != std::floor(value.number) || value.number < least || value.number > most))
    fail(state.at, fmt::format("{}: {} is not {} {}", what, value.number, isU16 ? "a" : "an",
                               nameOf(dtypeOf(type.getElementType()))));
  auto number = [&] {
    if (!isU16)
      return constant(value.number, type, state.at);
    const auto wide = RankedTensorType::get(type.getShape(), builder.getI32Type());
    return cast(constant(value.number, wide, state.at), type.getElementType(), state.at);
  };
  const Value stored =
      value.isNumber ? number() : this->value(value.tensor, value.at, what.c_str());
  if (stored.getType() != type) {
    auto given = mlir::cast<RankedTensorType>(stored.getType());
    fail(state.at, fmt::format("{}: to {} {}; it is {} {}", what,
                               nameOf(dtypeOf(given.getElementType())), text(given.getShape()),
                               nameOf(dtypeOf(type.getElementType())), text(type.getShape())));
  }
  countOp(state.at);
  graph::StoreOp::create(builder, location(state.at), stored, declared[id].symbol);
  declared[id].loaded = stored;
  declared[id].loadedIn = program;
  declared[id].setAt = state.at;
}

void Recorder::recordEvent(const Sched *when, const void *context, void (*call)(const void *),
                           Line at) {
  if (when)
    useSched(*when, "at", at);
  graph::ProgramOp function = beginProgram("event", 0, 1, at);
  function.setName(fmt::format("event_{}", events.size()));
  call(context);
  if (function.front().getOps<graph::StoreOp>().empty())
    fail(at, fmt::format("{}: sets nothing", when ? "at" : "afterStep"));
  endProgram(function, {}, at);
  events.push_back({function, when ? when->id : 0, at});
}

double Recorder::numberOf(uint32_t sched, Line at) const {
  const SchedNode &node = scheds[sched];
  auto operand = [&](int i) { return numberOf(node.operands[i], at); };
  switch (node.kind) {
  case SchedNode::Number:
    return node.number;
  case SchedNode::Step:
    fail(at, "at: the step of an event cannot depend on step(); use numbers and iterations()");
  case SchedNode::Iterations:
    return static_cast<double>(how->numIterations);
  case SchedNode::Add:
    return operand(0) + operand(1);
  case SchedNode::Sub:
    return operand(0) - operand(1);
  case SchedNode::Mul:
    return operand(0) * operand(1);
  case SchedNode::Div:
    return operand(0) / operand(1);
  case SchedNode::Neg:
    return -operand(0);
  case SchedNode::Min:
    return std::min(operand(0), operand(1));
  case SchedNode::Max:
    return std::max(operand(0), operand(1));
  case SchedNode::Floor:
    return std::floor(operand(0));
  case SchedNode::Ceil:
    return std::ceil(operand(0));
  case SchedNode::Sqrt:
    return std::sqrt(operand(0));
  case SchedNode::Exp:
    return std::exp(operand(0));
  case SchedNode::Log:
    return std::log(operand(0));
  case SchedNode::Cos:
    return std::cos(operand(0));
  case SchedNode::Pow:
    return std::pow(operand(0), operand(1));
  case SchedNode::SelectLess:
    return operand(0) < operand(1) ? operand(2) : operand(3);
  }
  return 0;
}

void Recorder::finishEvents() {
  if (!how)
    return; // reported with what else is missing
  for (const EventRecord &event : events) {
    if (event.when == 0)
      continue;
    const double step = std::round(numberOf(event.when, event.at));
    // A run of more steps has no numbers for them.
    if (!(step >= 0 && step <= 0x1p53))
      fail(event.at, fmt::format("at: step {}; steps count from 0", step));
    graph::ProgramOp function = event.function;
    function.setEventStep(static_cast<int64_t>(step));
  }
}

} // namespace nano::frontend
