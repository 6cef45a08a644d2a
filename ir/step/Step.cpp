// Registration of the `step` dialect, and what its commands read and write.
#include "ir/step/Step.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "ir/step/StepOpsDialect.cpp.inc"
#include "ir/step/StepOpsInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "ir/step/StepOps.cpp.inc"

using namespace mlir;
using namespace nano::step;

void StepDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/step/StepOps.cpp.inc"
      >();
}

Value ViewOp::getViewSource() { return getSource(); }

//===- Names in printed IR ------------------------------------------------===//

using SetName = function_ref<void(Value, StringRef)>;

void BufferOp::getAsmResultNames(SetName setName) { setName(getResult(), getName()); }
void StateOp::getAsmResultNames(SetName setName) { setName(getResult(), getSymbol()); }
void ViewOp::getAsmResultNames(SetName setName) {
  Operation *buffer = bufferOf(getSource());
  StringRef name = "view";
  if (auto state = dyn_cast_or_null<StateOp>(buffer))
    name = state.getSymbol();
  else if (auto named = dyn_cast_or_null<BufferOp>(buffer))
    name = named.getName();
  setName(getResult(), (name + "_part").str());
}

//===- Accesses -----------------------------------------------------------===//

using Accesses = SmallVectorImpl<Access>;

void TaskOp::getAccesses(const KernelTable &, Accesses &accesses) {
  for (Value input : getIns())
    accesses.push_back({input, true, false});
  for (Value output : getOuts())
    accesses.push_back({output, false, true});
}

void LaunchOp::getAccesses(const KernelTable &kernels, Accesses &accesses) {
  kernel::FuncOp kernel = kernels.find(getKernelAttr().getAttr());
  size_t arguments = getBuffers().size() / getSegments();
  for (auto [i, buffer] : llvm::enumerate(getBuffers())) {
    size_t argument = i % arguments;
    // An unknown kernel may do anything; the verifier reports it.
    const bool known = kernel && argument < kernel.getNumBuffers();
    accesses.push_back(
        {buffer, !known || kernel.reads(argument), !known || kernel.writes(argument)});
  }
}

void MatmulOp::getAccesses(const KernelTable &, Accesses &accesses) {
  accesses.push_back({getA(), true, false});
  accesses.push_back({getB(), true, false});
  for (Value scale : {getScaleA(), getScaleB()})
    if (scale)
      accesses.push_back({scale, true, false});
  if (getD())
    accesses.push_back({getD(), true, false});
  accesses.push_back({getC(), false, true});
}

void AllReduceOp::getAccesses(const KernelTable &, Accesses &accesses) {
  for (Value buffer : getBuffers())
    accesses.push_back({buffer, true, true});
}

static void partAccesses(ValueRange sources, ValueRange targets, Accesses &accesses) {
  for (auto [source, target] : llvm::zip_equal(sources, targets)) {
    accesses.push_back({source, true, false});
    accesses.push_back({target, false, true});
  }
}
void ReduceScatterOp::getAccesses(const KernelTable &, Accesses &accesses) {
  partAccesses(getIns(), getOuts(), accesses);
}
void AllGatherOp::getAccesses(const KernelTable &, Accesses &accesses) {
  partAccesses(getIns(), getOuts(), accesses);
}
void ShardOp::getAccesses(const KernelTable &, Accesses &accesses) {
  partAccesses(getIns(), getOuts(), accesses);
}

void FillOp::getAccesses(const KernelTable &, Accesses &accesses) {
  accesses.push_back({getBuffer(), false, true});
}

void CopyOp::getAccesses(const KernelTable &, Accesses &accesses) {
  accesses.push_back({getSource(), true, false});
  accesses.push_back({getTarget(), false, true});
}

void RecordOp::getAccesses(const KernelTable &, Accesses &) {}
void WaitOp::getAccesses(const KernelTable &, Accesses &) {}

SmallVector<Candidate> nano::step::candidatesOf(Operation *command, const KernelTable &kernels) {
  SmallVector<Candidate> found;
  auto add = [&](auto op, ValueRange buffers) {
    if (op.getCandidates())
      for (auto name : op.getCandidates()->template getAsRange<FlatSymbolRefAttr>())
        if (kernel::FuncOp kernel = kernels.find(name.getAttr()))
          found.push_back({kernel, SmallVector<Value>(buffers.take_front(kernel.getNumBuffers()))});
  };
  if (auto launch = dyn_cast<LaunchOp>(command))
    add(launch, launch.getBuffers());
  else if (auto matmul = dyn_cast<MatmulOp>(command))
    add(matmul, matmul.getCandidateBuffers());
  return found;
}

//===- Kinds of commands --------------------------------------------------===//

bool nano::step::isCollective(Operation *command) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(command);
}

bool nano::step::isCopy(Operation *command) { return isa<CopyOp, FillOp, ShardOp>(command); }

//===- Memory effects -----------------------------------------------------===//

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// A command's memory effects: its accesses, and for a launch, whose kernel is not at hand,
/// everything.
static void accessEffects(StepCommandOpInterface command, Effects &effects) {
  SmallVector<Access> accesses;
  command.getAccesses(KernelTable(), accesses);
  for (const Access &access : accesses) {
    // The operand that holds the buffer; which of several equal ones does not matter.
    OpOperand *operand = llvm::find_if(command->getOpOperands(), [&](OpOperand &candidate) {
      return candidate.get() == access.buffer;
    });
    if (access.reads)
      effects.emplace_back(MemoryEffects::Read::get(), operand);
    if (access.writes)
      effects.emplace_back(MemoryEffects::Write::get(), operand);
  }
}

void TaskOp::getEffects(Effects &effects) { accessEffects(*this, effects); }
void LaunchOp::getEffects(Effects &effects) { accessEffects(*this, effects); }
void MatmulOp::getEffects(Effects &effects) { accessEffects(*this, effects); }
void FillOp::getEffects(Effects &effects) { accessEffects(*this, effects); }
void CopyOp::getEffects(Effects &effects) { accessEffects(*this, effects); }
void ShardOp::getEffects(Effects &effects) { accessEffects(*this, effects); }

// What orders commands, or meets other ranks, is not to be moved or dropped: an effect on no value.
static void orderEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}
void AllReduceOp::getEffects(Effects &effects) { orderEffects(effects); }
void ReduceScatterOp::getEffects(Effects &effects) { orderEffects(effects); }
void AllGatherOp::getEffects(Effects &effects) { orderEffects(effects); }
void RecordOp::getEffects(Effects &effects) { orderEffects(effects); }
void WaitOp::getEffects(Effects &effects) { orderEffects(effects); }
