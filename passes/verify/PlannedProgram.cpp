// Reads offsets, layouts and accesses off planned step IR.
#include "passes/verify/PlannedProgram.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::step;

namespace nano::verify {

static std::optional<int64_t> offsetOf(Operation *op) {
  const IntegerAttr attribute = cast<graph::PlacedOpInterface>(op).getOffsetAttr();
  return attribute ? std::optional(attribute.getInt()) : std::nullopt;
}

static InFlightDiagnostic missingOffset(Operation *op) {
  return op->emitError("has no offset in the arena: nano-plan-memory runs first");
}

FailureOr<PersistentBuffers> readPersistentBuffers(ModuleOp module) {
  llvm::DenseMap<StringAttr, llvm::SetVector<Operation *>> programs; // that touch a symbol
  for (auto program : module.getOps<ProgramOp>())
    for (auto state : program.getBody().front().getOps<StateOp>())
      programs[state.getSymbolAttr().getAttr()].insert(program);
  ArenaOp arena = arenaOf(module);
  if (!arena && module.getOps<ProgramOp>().empty())
    return PersistentBuffers(); // nothing runs
  if (!arena)
    return module.emitError("has no step.arena: nano-plan-memory runs first");
  if (int64_t(arena.getFloor()) < 0 || int64_t(arena.getFloor()) > int64_t(arena.getBytes()))
    return arena.emitOpError("of ")
           << int64_t(arena.getBytes()) << " bytes has the floor " << int64_t(arena.getFloor());
  PersistentBuffers result;
  for (Operation &op : *module.getBody()) {
    MemRefType type;
    if (auto state = dyn_cast<graph::StateOp>(op))
      type = memrefOf(state.getTensorType());
    else if (auto scalar = dyn_cast<graph::ScalarOp>(op))
      type = MemRefType::get({}, scalar.getType());
    else if (auto input = dyn_cast<InputOp>(op))
      type = cast<MemRefType>(input.getType());
    else
      continue;
    std::optional<int64_t> offset = offsetOf(&op);
    if (!offset)
      return missingOffset(&op);
    result.buffers.push_back({&op, SymbolTable::getSymbolName(&op).str(),
                              ByteSet::interval(uint64_t(*offset), uint64_t(contiguousBytes(type))),
                              true, isa<InputOp>(op) && cast<InputOp>(op).getOutput()});
    const uint64_t end = result.buffers.back().bytes.end();
    if (end > uint64_t(int64_t(arena.getBytes())))
      return op.emitOpError("ends at byte ")
             << end << ", beyond the arena of " << int64_t(arena.getBytes()) << " bytes";
    const auto &touching = programs[SymbolTable::getSymbolName(&op)];
    auto state = dyn_cast<graph::StateOp>(op);
    result.buffers.back().gradient = state && state.getRole() == graph::Role::Gradient;
    if ((result.buffers.back().output && touching.size() == 1) ||
        (state && state.getRole() == graph::Role::Cache))
      result.buffers.back().owners.assign(touching.begin(), touching.end());
  }
  llvm::stable_sort(result.buffers, [](const PlannedBuffer &a, const PlannedBuffer &b) {
    return a.bytes.start < b.bytes.start;
  });
  // Of what the same programs see, the one that reaches farthest so far.
  SmallVector<const PlannedBuffer *> farthest;
  for (const PlannedBuffer &buffer : result.buffers) {
    const PlannedBuffer **own = nullptr;
    for (const PlannedBuffer *&other : farthest) {
      const bool areSeen =
          other->owners.empty() || buffer.owners.empty() ||
          llvm::any_of(other->owners, [&](Operation *program) { return buffer.isSeenBy(program); });
      // What is written over a gradient is followed byte by byte.
      const bool mayOverlap = (other->gradient && (buffer.gradient || !buffer.owners.empty())) ||
                              (buffer.gradient && !other->owners.empty());
      if (areSeen && !mayOverlap && other->bytes.end() > buffer.bytes.start)
        return buffer.op->emitError(describe(buffer) + " overlaps " + describe(*other) +
                                    " in the arena, and both live from step to step");
      if (other->owners == buffer.owners && other->gradient == buffer.gradient)
        own = &other;
    }
    if (!own)
      farthest.push_back(&buffer);
    else if ((*own)->bytes.end() < buffer.bytes.end())
      *own = &buffer;
  }
  return result;
}

FailureOr<PlannedProgram> readProgram(ModuleOp module, ProgramOp program,
                                      const PersistentBuffers &persistent,
                                      const KernelTable &kernels) {
  PlannedProgram result;
  llvm::DenseMap<StringAttr, uint32_t> bySymbol;
  for (const PlannedBuffer &buffer : persistent.buffers)
    if (buffer.isSeenBy(program)) {
      bySymbol[SymbolTable::getSymbolName(buffer.op)] = uint32_t(result.buffers.size());
      result.buffers.push_back(buffer);
    }
  ArenaOp arena = arenaOf(module);
  llvm::DenseMap<Operation *, uint32_t> indices; // of step.buffer and step.state
  for (Operation &op : program.getBody().front()) {
    if (auto state = dyn_cast<StateOp>(op)) {
      auto found = bySymbol.find(state.getSymbolAttr().getAttr());
      if (found == bySymbol.end())
        return state.emitOpError("names ")
               << state.getSymbolAttr() << ", which is no state, scalar or input";
      indices[&op] = found->second;
    } else if (auto buffer = dyn_cast<BufferOp>(op)) {
      std::optional<int64_t> offset = offsetOf(&op);
      if (!offset)
        return missingOffset(&op);
      ByteSet bytes =
          ByteSet::interval(uint64_t(*offset), uint64_t(contiguousBytes(buffer.getType())));
      const int64_t begin = buffer.getHost() ? arena.getHostBegin() : 0,
                    end = buffer.getHost() ? arena.getEnd() : int64_t(arena.getBytes());
      if (bytes.end() > uint64_t(end))
        return buffer.emitOpError("ends at byte ")
               << bytes.end() << ", beyond the " << (buffer.getHost() ? "host's memory" : "arena")
               << " of " << end - begin << " bytes";
      if (bytes.start < uint64_t(begin))
        return buffer.emitOpError("lies in the host's memory, and begins at byte ")
               << bytes.start << ", before the arena's end at byte " << begin;
      indices[&op] = uint32_t(result.buffers.size());
      result.buffers.push_back({&op, buffer.getName().str(), bytes});
    }
    auto command = dyn_cast<StepCommandOpInterface>(op);
    if (!command)
      continue;
    PlannedCommand planned{&op, command.getStream(), {}};
    const SmallVector<Access> accesses = accessesOf(command, kernels);
    auto launch = dyn_cast<LaunchOp>(op);
    const size_t ofSegment = launch ? accesses.size() / launch.getSegments() : accesses.size();
    for (auto [i, access] : llvm::enumerate(accesses)) {
      auto type = cast<MemRefType>(access.buffer.getType());
      auto [strides, offset] = layoutOf(type);
      uint32_t index = indices.at(bufferOf(access.buffer));
      uint64_t bytes = uint64_t(elementBytes(type.getElementType()));
      uint64_t start = result.buffers[index].bytes.start + uint64_t(offset) * bytes;
      planned.accesses.push_back({index, ByteSet::strided(start, type.getShape(), strides, bytes),
                                  access.buffer, access.reads, access.writes,
                                  uint32_t(i / ofSegment)});
    }
    result.commands.push_back(std::move(planned));
  }
  return result;
}

LogicalResult
forEachProgram(ModuleOp module, const PersistentBuffers &persistent,
               llvm::function_ref<LogicalResult(ProgramOp, const PlannedProgram &)> check) {
  const KernelTable kernels(module);
  for (auto program : module.getOps<ProgramOp>()) {
    FailureOr<PlannedProgram> planned = readProgram(module, program, persistent, kernels);
    if (failed(planned) || failed(check(program, *planned)))
      return failure();
  }
  return success();
}

std::string describe(const PlannedBuffer &buffer) {
  const char *kind = isa<graph::StateOp>(buffer.op)    ? "state"
                     : isa<graph::ScalarOp>(buffer.op) ? "scalar"
                     : isa<InputOp>(buffer.op)         ? (buffer.output ? "output" : "input")
                                                       : "buffer";
  std::string line = lineOf(buffer.op->getLoc());
  return std::string(kind) + " '" + buffer.name + "'" + (line.empty() ? "" : " (" + line + ")");
}

} // namespace nano::verify
