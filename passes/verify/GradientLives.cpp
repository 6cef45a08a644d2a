// Sets of bytes that hold on all ways, from program to program until nothing changes.
#include "passes/verify/GradientLives.h"

#include "ir/graph/Phases.h"

using namespace mlir;

namespace nano::verify {

/// What is in both.
static ByteIntervals meet(const ByteIntervals &a, const ByteIntervals &b) {
  ByteIntervals onlyInA = a, both = a;
  onlyInA.remove(b);
  both.remove(onlyInA);
  return both;
}

LogicalResult GradientLives::report(step::ProgramOp program, const PlannedBuffer &gradient,
                                    const GradientUse &use, const ByteIntervals &valid) {
  for (const auto &[reader, bytes] : use.readers) {
    ByteIntervals missing = use.needed, read;
    read.add(bytes);
    missing.remove(valid);
    missing = meet(missing, read);
    if (missing.isEmpty())
      continue;
    InFlightDiagnostic error = reader->emitError("program @")
                               << program.getSymName() << ": " << step::describeCommand(reader)
                               << " reads byte " << missing.front() - gradient.bytes.start << " of "
                               << describe(gradient) << " as it was before, which ";
    for (auto other : module.getOps<step::ProgramOp>())
      if (uses[other].lookup(gradient.op).lost.contains(missing.front()))
        return error << "program @" << other.getSymName() << " overwrites";
    return error << "nothing has written: others lie there too that live from step to step";
  }
  llvm_unreachable("some command reads what a program needs");
}

LogicalResult GradientLives::run(step::ProgramOp program, const PlannedBuffer &gradient,
                                 ByteIntervals &valid) {
  const auto &ofProgram = uses[program];
  const auto found = ofProgram.find(gradient.op);
  if (found == ofProgram.end())
    return success();
  const GradientUse &use = found->second;
  ByteIntervals missing = use.needed;
  missing.remove(valid);
  if (!missing.isEmpty())
    return report(program, gradient, use, valid);
  valid.remove(use.lost);
  valid.add(use.made);
  return success();
}

LogicalResult GradientLives::runAny(ArrayRef<step::ProgramOp> programs,
                                    const PlannedBuffer &gradient, ByteIntervals &valid) {
  for (bool changes = true; changes;) {
    changes = false;
    for (step::ProgramOp program : programs) {
      ByteIntervals behind = valid;
      if (failed(run(program, gradient, behind)))
        return failure();
      ByteIntervals both = meet(valid, behind);
      changes |= !(both == valid);
      valid = std::move(both);
    }
  }
  return success();
}

ByteIntervals GradientLives::atFirst(const PlannedBuffer &gradient) const {
  ByteIntervals valid;
  valid.add(gradient.bytes);
  for (const PlannedBuffer &other : persistent.buffers)
    if (other.op != gradient.op)
      valid.remove(other.bytes);
  return valid;
}

LogicalResult GradientLives::check(const PlannedBuffer &gradient) {
  SmallVector<step::ProgramOp> others; // that run before, between and after steps
  for (auto program : module.getOps<step::ProgramOp>())
    if (llvm::none_of(orders, [&](const step::StepOrder &order) {
          return llvm::is_contained(order.programs, program);
        }))
      others.push_back(program);
  // What holds when a step of a phase begins. A run begins in any phase.
  ByteIntervals first = atFirst(gradient);
  if (failed(runAny(others, gradient, first)))
    return failure();
  SmallVector<ByteIntervals> starts(graph::phaseCount(module), first);
  for (bool changes = true; changes;) {
    changes = false;
    for (const step::StepOrder &order : orders) {
      ByteIntervals valid = starts[order.phase];
      for (step::ProgramOp program : order.programs)
        if (failed(program.getRole() == "next" ? runAny(program, gradient, valid)
                                               : run(program, gradient, valid)))
          return failure();
      if (failed(runAny(others, gradient, valid)))
        return failure();
      ByteIntervals &next = starts[(order.phase + 1) % int64_t(starts.size())];
      ByteIntervals both = meet(next, valid);
      changes |= !(both == next);
      next = std::move(both);
    }
  }
  return success();
}

LogicalResult GradientLives::check() {
  for (const PlannedBuffer &buffer : persistent.buffers)
    if (buffer.gradient && failed(check(buffer)))
      return failure();
  return success();
}

} // namespace nano::verify
