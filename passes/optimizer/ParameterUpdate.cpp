// Reading and storing the states of an update.
#include "passes/optimizer/ParameterUpdate.h"

#include "ir/graph/GraphBuilder.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

ParameterUpdate::ParameterUpdate(OpBuilder &builder, Location location, const UpdateForm &form,
                                 int64_t units, ArrayRef<std::string> names)
    : emitter(builder, location, form, units), builder(&builder), location(location) {
  for (auto [i, name] : llvm::enumerate(names)) {
    State state{name, form.body().getArgument(static_cast<unsigned>(i) + 2), form.results()[i + 1]};
    const RankedTensorType type = emitter.typeOf(state.old);
    emitter.set(state.old, [&builder, location, name = name, type]() {
      return GraphBuilder(builder, location).load(name, type);
    });
    states.push_back(std::move(state));
  }
}

void ParameterUpdate::storeStates(function_ref<bool(Value)> isWanted) {
  for (State &state : states) {
    if (state.isStored || !isWanted(state.next))
      continue;
    emitter.get(state.old); // before it is overwritten
    GraphBuilder(*builder, location).store(emitter.result(state.next, state.old), state.name);
    state.isStored = true;
  }
}

void ParameterUpdate::storeEarlyStates() {
  storeStates([&](Value next) { return !emitter.updateForm().isAfterProducts(next); });
}

Value ParameterUpdate::next() {
  for (const State &state : states)
    if (!state.isStored)
      emitter.result(state.next, state.old);
  const UpdateForm &form = emitter.updateForm();
  return emitter.result(form.results().front(), form.body().getArgument(0));
}

} // namespace nano
