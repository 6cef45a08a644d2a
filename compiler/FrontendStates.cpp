// The front end's functions for states of the model's own and events of a run.
#include "compiler/Frontend.h"

#include "compiler/Recorder.h"

namespace nano::frontend {

Tensor state(const Name &name, const Shape &shape, DType type, const Init &init, OverRanks over,
             Line at) {
  return Recorder::current().state(name.text, shape, type, init, over, at);
}

void set(const At &state, const Operand &value) { Recorder::current().set(state, value); }

void recordEvent(const Sched *when, const void *context, void (*call)(const void *), Line at) {
  Recorder::current().recordEvent(when, context, call, at);
}

} // namespace nano::frontend
