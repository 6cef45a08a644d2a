// nano-verify-liveness: proves that every read finds a written, live buffer, and that live buffers
// do not overlap in the arena.
//
// It executes each program in its order, with sets of bytes for contents. A buffer's byte is valid
// once a command has written it through that buffer, and until a command writes the same byte of
// the arena through another one. States, scalars and inputs are valid from the start, and no other
// buffer may ever write their bytes; but programs may write those of an output that only one other
// program touches, which the host has read by then, and those of what sampling keeps, which only
// the programs that sample see. Every byte that a command reads must be valid, and every byte of an
// output when its program ends.
//
// The bytes of gradients others may write, other gradients too. So it is found out of every program
// which bytes of a gradient it reads as they were before, which it leaves, which it writes and
// which are something else at its end; with that a run is followed from program to program, over
// all stages and phases (`GradientLives`): what is read as it was before must then be valid.
//
// Nothing of the memory planner is used: only offsets, layouts, and the order of commands;
// nano-verify-races proves that this order is the only one that matters.
#include "passes/Passes.h"
#include "passes/verify/GradientLives.h"

namespace nano {
#define GEN_PASS_DEF_VERIFYLIVENESS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::verify;
namespace step = nano::step;

namespace {

class Execution {
public:
  Execution(step::ProgramOp op, const PlannedProgram &program)
      : op(op), program(program), contents(program.buffers.size()) {}

  LogicalResult run();
  /// What the program does to gradients, for what runs before and behind it.
  GradientUses gradients() const;

private:
  /// The place of the event that a gradient is valid from before.
  static constexpr int64_t before = -1;

  /// The bytes of a gradient that hold what the program itself has written.
  ByteIntervals madeOf(uint32_t buffer) const;
  void noteReader(int64_t position, const PlannedAccess &access);

  /// What is known of a buffer's bytes: all valid, or what happened to them.
  struct Contents {
    bool all = false;
    std::vector<ByteEvent> events; ///< empty when `all`
    int64_t lastRead =
        -1; ///< position of the last command that reads it; later, contents do not matter
    bool active = false; ///< in `active`
  };

  LogicalResult read(int64_t position, const PlannedAccess &access);
  LogicalResult write(int64_t position, const PlannedAccess &access);
  LogicalResult overPersistent(int64_t position, const PlannedAccess &access);
  /// Reports byte `missing` of a buffer, which `who` needs.
  LogicalResult report(Operation *at, const std::string &who, uint32_t buffer, uint64_t missing);

  step::ProgramOp op;
  const PlannedProgram &program;
  std::vector<Contents> contents; ///< by buffer
  std::vector<uint32_t> active;   ///< transient buffers with valid bytes that are still to be read,
                                  ///< and gradients
  std::vector<uint32_t> fixed;    ///< what no other buffer may write, by offset
  GradientUses uses;
};

LogicalResult Execution::report(Operation *at, const std::string &who, uint32_t index,
                                uint64_t missing) {
  const PlannedBuffer &buffer = program.buffers[index];
  InFlightDiagnostic error = at->emitError("program @")
                             << op.getSymName() << ": " << who << " byte "
                             << missing - buffer.bytes.start << " of " << describe(buffer) << ", ";
  for (const ByteEvent &event : llvm::reverse(contents[index].events)) {
    if (event.valid || !event.bytes.contains(missing))
      continue;
    const PlannedCommand &writer = program.commands[event.command];
    for (const PlannedAccess &access : writer.accesses)
      if (access.writes && access.buffer != index && access.bytes.contains(missing))
        error << "which " << step::describeCommand(writer.op) << " has overwritten: it writes "
              << describe(program.buffers[access.buffer]) << " to the same place of the arena";
    error.attachNote(writer.op->getLoc()) << "the command that overwrites it";
    return error;
  }
  return error << "which no command has written";
}

ByteIntervals Execution::madeOf(uint32_t index) const {
  const Contents &buffer = contents[index];
  ByteIntervals made;
  if (buffer.all)
    made.add(program.buffers[index].bytes);
  for (const ByteEvent &event : buffer.events)
    if (event.command == before)
      continue;
    else if (event.valid)
      made.add(event.bytes);
    else
      made.remove(event.bytes);
  return made;
}

/// Notes what a command reads of a gradient that the program has not written.
void Execution::noteReader(int64_t position, const PlannedAccess &access) {
  const PlannedBuffer &planned = program.buffers[access.buffer];
  if (!planned.gradient || contents[access.buffer].all)
    return;
  ByteIntervals read;
  read.add(access.bytes);
  read.remove(madeOf(access.buffer));
  if (read.isEmpty())
    return;
  GradientUse &use = uses[planned.op];
  use.needed.add(read);
  use.readers.emplace_back(program.commands[position].op, access.bytes);
}

LogicalResult Execution::read(int64_t position, const PlannedAccess &access) {
  const Contents &buffer = contents[access.buffer];
  uint64_t missing = 0;
  if (buffer.all ||
      isValid(access.bytes, buffer.events, program.buffers[access.buffer].bytes, missing)) {
    noteReader(position, access);
    return success();
  }
  Operation *command = program.commands[position].op;
  return report(command, step::describeCommand(command) + " reads", access.buffer, missing);
}

/// A transient buffer or a gradient that lies over another one that lives from step to step must
/// not write there.
LogicalResult Execution::overPersistent(int64_t position, const PlannedAccess &access) {
  auto overlapping = llvm::partition_point(fixed, [&](uint32_t index) {
    return program.buffers[index].bytes.end() <= access.bytes.start;
  });
  for (;
       overlapping != fixed.end() && program.buffers[*overlapping].bytes.start < access.bytes.end();
       ++overlapping)
    if (intersect(access.bytes, program.buffers[*overlapping].bytes)) {
      Operation *command = program.commands[position].op;
      return command->emitError("program @")
             << op.getSymName() << ": " << step::describeCommand(command) << " writes "
             << describe(program.buffers[access.buffer]) << " over "
             << describe(program.buffers[*overlapping]) << ", which lives from step to step";
    }
  return success();
}

LogicalResult Execution::write(int64_t position, const PlannedAccess &access) {
  const PlannedBuffer &buffer = program.buffers[access.buffer];
  if ((!buffer.persistent || buffer.gradient) && failed(overPersistent(position, access)))
    return failure();
  // What other live buffers lose.
  llvm::erase_if(active, [&](uint32_t index) {
    Contents &other = contents[index];
    if (other.lastRead < position) {
      other.active = false;
      return true;
    }
    if (index == access.buffer || !intersect(access.bytes, program.buffers[index].bytes))
      return false;
    if (other.all)
      other.events.push_back({program.buffers[index].bytes, true, position});
    other.all = false;
    other.events.push_back({access.bytes, false, position});
    return false;
  });
  // What this one gains.
  Contents &own = contents[access.buffer];
  if (access.bytes == buffer.bytes) {
    own.all = true;
    own.events.clear();
  } else if (!own.all) {
    own.events.push_back({access.bytes, true, position});
  }
  if (!buffer.persistent && !own.active) {
    own.active = true;
    active.push_back(access.buffer);
  }
  return success();
}

LogicalResult Execution::run() {
  for (auto [index, buffer] : llvm::enumerate(program.buffers)) {
    Contents &own = contents[index];
    own.all = buffer.persistent && !buffer.output && !buffer.gradient;
    if (buffer.persistent && !buffer.gradient)
      fixed.push_back(uint32_t(index));
    if (!buffer.gradient)
      continue;
    own.events.push_back({buffer.bytes, true, before});
    own.lastRead = int64_t(program.commands.size()); // by programs behind
    own.active = true;
    active.push_back(uint32_t(index));
    uses.insert({buffer.op, {}});
  }
  for (auto [position, command] : llvm::enumerate(program.commands))
    for (const PlannedAccess &access : command.accesses)
      if (access.reads && !program.buffers[access.buffer].gradient)
        contents[access.buffer].lastRead = int64_t(position);
  std::vector<bool> touched(program.buffers.size(), false);
  for (auto [position, command] : llvm::enumerate(program.commands)) {
    for (const PlannedAccess &access : command.accesses)
      if (access.reads && failed(read(int64_t(position), access)))
        return failure();
    for (const PlannedAccess &access : command.accesses) {
      touched[access.buffer] = true;
      if (access.writes && failed(write(int64_t(position), access)))
        return failure();
    }
  }
  for (auto [index, buffer] : llvm::enumerate(program.buffers)) {
    uint64_t missing = 0;
    if (buffer.output && touched[index] && !contents[index].all &&
        !isValid(buffer.bytes, contents[index].events, buffer.bytes, missing))
      return report(op, "the host reads", uint32_t(index), missing);
  }
  return success();
}

GradientUses Execution::gradients() const {
  GradientUses found = uses;
  for (auto [index, buffer] : llvm::enumerate(program.buffers)) {
    if (!buffer.gradient)
      continue;
    GradientUse &use = found[buffer.op];
    use.made = madeOf(uint32_t(index));
    for (const ByteEvent &event : contents[index].events)
      if (!event.valid)
        use.lost.add(event.bytes);
    use.lost.remove(use.made);
  }
  return found;
}

struct VerifyLiveness : public nano::impl::VerifyLivenessBase<VerifyLiveness> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<PersistentBuffers> persistent = readPersistentBuffers(module);
    if (failed(persistent))
      return signalPassFailure();
    GradientLives gradients(module, *persistent);
    if (failed(forEachProgram(module, *persistent,
                              [&](step::ProgramOp op, const PlannedProgram &program) {
                                Execution execution(op, program);
                                if (failed(execution.run()))
                                  return failure();
                                gradients.add(op, execution.gradients());
                                return success();
                              })) ||
        failed(gradients.check()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
