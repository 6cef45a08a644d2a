// Drops the waits that a memory plan does not need.
//
// Events are set before offsets are known: some only let two buffers share bytes, which then came
// to lie apart.
#include "passes/Passes.h"
#include "passes/schedule/Events.h"

namespace nano {
#define GEN_PASS_DEF_PRUNEWAITS
#include "passes/Passes.h.inc"
} // namespace nano

namespace {

struct PruneWaits : public nano::impl::PruneWaitsBase<PruneWaits> {
  void runOnOperation() override {
    const nano::step::KernelTable kernels(getOperation());
    for (auto program : getOperation().getOps<nano::step::ProgramOp>())
      nano::schedule::pruneWaits(program, kernels);
  }
};

} // namespace
