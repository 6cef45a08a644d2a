// nano-verify-kernels: what a kernel states about its arguments is what it does.
//
// It closes the kernels stage. All that follows reads of a kernel only what it states: the schedule
// orders launches by it, memory planning lets buffers share bytes by it, and both proofs rest on
// it. Where a kernel's body is loops and vectors, every access of the body is followed back to the
// argument; where it is a template, the attributes say which operands the template reads and where
// it puts its results. For example
//
//   kernel.func @k(read %x: memref<8xf32>, read %y: memref<8xf32>, ...) {
//     %v = vector.load %x[...]
//     vector.store %v, %y[...]
//
// is refused: it writes argument 1, which it states only to read. So is what certainly leaves its
// memory: by a number, by the last round of a loop, or by a template's sizes.
#include "ir/kernel/Templates.h"
#include "ir/step/Step.h"
#include "passes/Passes.h"
#include "passes/verify/KernelAccesses.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace nano {
#define GEN_PASS_DEF_VERIFYKERNELS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;

namespace {

/// What is done to the memory behind an argument.
struct Touch {
  bool reads = false, writes = false;
  bool adds = false; ///< of a template: it adds to what is there
  /// It is only read where the kernel has written it before: nothing is asked of its contents.
  bool isReadBack = false;
};

/// What a function of the device library does to the operands that are memory; nothing for a
/// function that no one has described here, which may do anything.
std::optional<Touch> touchOfCall(func::CallOp call, unsigned operand) {
  // storeColumns<...>(gathered, matrix, ...): a tile of shared memory becomes part of a matrix.
  if (call.getCallee().starts_with("storeColumns<"))
    return operand == 0 ? Touch{true, false} : Touch{false, true};
  // copyAhead<...>(copies, place, matrix, first): elements from the matrix to shared memory.
  if (call.getCallee().starts_with("copyAhead<"))
    return operand == 0 ? Touch{false, true} : Touch{true, false};
  return std::nullopt;
}

/// What a use does to the memory that the operand is; nothing when that is not known.
std::optional<Touch> touchOfUse(OpOperand &use) {
  if (auto call = dyn_cast<func::CallOp>(use.getOwner()))
    return touchOfCall(call, use.getOperandNumber());
  auto effects = dyn_cast<MemoryEffectOpInterface>(use.getOwner());
  if (!effects)
    return std::nullopt;
  SmallVector<MemoryEffects::EffectInstance> list;
  effects.getEffectsOnValue(use.get(), list);
  Touch touch;
  for (const MemoryEffects::EffectInstance &effect : list) {
    touch.reads |= isa<MemoryEffects::Read>(effect.getEffect());
    touch.writes |= isa<MemoryEffects::Write>(effect.getEffect());
  }
  // An op without an effect on it hands the memory on, by a way that is not followed.
  if (!touch.reads && !touch.writes)
    return std::nullopt;
  return touch;
}

/// True of views, casts and choices of memory: they touch none, and their results are the same
/// memory.
bool isView(Operation *op) {
  return isMemoryEffectFree(op) && op->getNumResults() == 1 &&
         isa<MemRefType>(op->getResult(0).getType());
}

/// What a body does to an argument, directly and through views. A use that is not known counts as
/// both. `places`: of the body's ops in their order.
Touch touchOf(BlockArgument argument, const llvm::DenseMap<Operation *, size_t> &places) {
  Touch touch;
  SmallVector<Operation *> reading, writing;
  SmallVector<Value> pending{argument};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (isView(use.getOwner())) {
        pending.push_back(use.getOwner()->getResult(0));
        continue;
      }
      const Touch found = touchOfUse(use).value_or(Touch{true, true});
      if (found.reads)
        reading.push_back(use.getOwner());
      if (found.writes)
        writing.push_back(use.getOwner());
    }
  touch.reads = !reading.empty();
  touch.writes = !writing.empty();
  touch.isReadBack = llvm::all_of(reading, [&](Operation *load) {
    return !mayReadBeyond(load, writing) && llvm::any_of(writing, [&](Operation *store) {
      // Where a function of the device library writes or reads, nothing but their order is known.
      if (isa<func::CallOp>(load) || isa<func::CallOp>(store))
        return places.lookup(store) < places.lookup(load);
      return mayLeave(store, load);
    });
  });
  return touch;
}

/// What a template does to each buffer.
FailureOr<SmallVector<Touch>> touchesOfTemplate(kernel::FuncOp kernel,
                                                kernel::TemplateAttrInterface instance) {
  SmallVector<Touch> touches(kernel.getNumBuffers());
  auto at = [&](int64_t position) -> FailureOr<Touch *> {
    if (position < 0 || position >= int64_t(touches.size()))
      return kernel.emitOpError("is a template of buffer ")
             << position << ", but takes " << touches.size();
    return &touches[position];
  };
  for (int64_t position : instance.getReadPositions()) {
    FailureOr<Touch *> touch = at(position);
    if (failed(touch))
      return failure();
    (*touch)->reads = true;
  }
  for (const auto &[result, places] : llvm::enumerate(instance.getWrittenPositions()))
    for (int64_t position : places) {
      FailureOr<Touch *> touch = at(position);
      if (failed(touch))
        return failure();
      (*touch)->writes = true;
      (*touch)->reads |= instance.isAdded(result);
      (*touch)->adds |= instance.isAdded(result);
    }
  return touches;
}

/// The kernel has the tensor maps that its template loads by, and no others: the template counts
/// the bytes that its boxes bring, and has room for so many.
LogicalResult verifyMaps(kernel::FuncOp kernel) {
  const SmallVector<kernel::TemplateMap> wanted = kernel::mapsOf(
      kernel.getInstantiatesAttr(), kernel.getArgumentTypes().take_front(kernel.getNumBuffers()));
  SmallVector<kernel::TensorMapAttr> maps;
  if (kernel.getTensorMaps())
    llvm::append_range(maps, kernel.getTensorMaps()->getAsRange<kernel::TensorMapAttr>());
  if (maps.size() != wanted.size())
    return kernel.emitOpError("is a template that loads by ")
           << wanted.size() << " tensor maps, but has " << maps.size();
  constexpr int64_t swizzle = 128;
  for (auto [i, each] : llvm::enumerate(llvm::zip_equal(wanted, maps))) {
    const auto &[want, map] = each;
    if (map.getBuffer() != want.buffer)
      return kernel.emitOpError("is a template that loads of buffer ")
             << want.buffer << " by tensor map " << i << ", which is of buffer " << map.getBuffer();
    if (map.getColumns() != want.columns || map.getRows() != want.rows)
      return kernel.emitOpError("is a template that loads a matrix of ")
             << want.rows << " rows of " << want.columns << " by tensor map " << i
             << ", which is of " << map.getRows() << " rows of " << map.getColumns();
    if (map.getBoxColumns() != want.boxColumns || map.getBoxRows() != want.boxRows ||
        map.getSwizzleBytes() != swizzle)
      return kernel.emitOpError("is a template that loads boxes of ")
             << want.boxRows << " rows of " << want.boxColumns << ", in swizzles of " << swizzle
             << " bytes, by tensor map " << i << ", which is of " << map.getBoxRows() << " rows of "
             << map.getBoxColumns() << " in swizzles of " << map.getSwizzleBytes();
  }
  return success();
}

LogicalResult verifyKernel(kernel::FuncOp kernel) {
  if (kernel.isExternal())
    return success();
  const int64_t arguments = kernel.getNumBuffers();
  SmallVector<Touch> touches;
  if (std::optional<kernel::TemplateAttrInterface> instance = kernel.getInstantiates()) {
    FailureOr<SmallVector<Touch>> found = touchesOfTemplate(kernel, *instance);
    if (failed(found))
      return failure();
    touches = std::move(*found);
    for (int64_t i = 0; i < arguments; ++i) {
      MemRefType type = kernel.getBufferType(i);
      if (!(touches[i].reads || touches[i].writes) || !type.hasStaticShape())
        continue;
      const step::ElementRange range = step::elementRange(type);
      const uint64_t reached = instance->getElementsReached(i);
      if (reached > uint64_t(range.end - range.begin))
        return kernel.emitOpError("is a template that reaches ")
               << reached << " elements of buffer " << i << ", which has "
               << range.end - range.begin;
    }
  } else {
    if (failed(verifyBounds(kernel)))
      return failure();
    llvm::DenseMap<Operation *, size_t> places;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { places[op] = places.size(); });
    for (int64_t i = 0; i < arguments; ++i)
      touches.push_back(touchOf(kernel.getArgument(i), places));
  }
  for (auto [i, touch] : llvm::enumerate(touches)) {
    if (touch.isReadBack && !kernel.reads(i))
      touch.reads = false;
    for (auto [does, states, verb] : {std::tuple(touch.reads, kernel.reads(i), "read"),
                                      std::tuple(touch.writes, kernel.writes(i), "write")})
      if (does != states)
        return kernel.emitOpError(does ? "may " : "states to ")
               << verb << " argument " << i
               << (does ? ", which it does not state" : ", which it does not do");
    // That it adds elements of each iteration's own is a promise that only a template can keep.
    if (touch.adds != (kernel.getParameter(i).getAccess() == kernel::Access::add))
      return kernel.emitOpError(touch.adds ? "adds to argument " : "states to add to argument ")
             << i << (touch.adds ? ", which it does not state" : ", which it does not do");
  }
  // That a map stays inside a buffer of known size is what the op's verifier sees to.
  if (kernel.getTensorMaps())
    for (auto map : kernel.getTensorMaps()->getAsRange<kernel::TensorMapAttr>())
      if (!kernel.getBufferType(map.getBuffer()).hasStaticShape())
        return kernel.emitOpError("has a tensor map of buffer ")
               << map.getBuffer() << ", whose size is not known";
  if (!kernel.getInstantiates())
    return success();
  if (failed(kernel::verifyEnd(kernel, kernel.getInstantiatesAttr())))
    return failure();
  return verifyMaps(kernel);
}

/// A launch does no more iterations than the body's indices have room for.
LogicalResult verifyIterations(Operation *op, ArrayRef<int64_t> iterations,
                               std::optional<int64_t> most) {
  for (int64_t count : iterations)
    if (most && count > *most)
      return op->emitOpError("does ")
             << count << " iterations, but its body has room for " << *most;
  return success();
}

struct VerifyKernels : public nano::impl::VerifyKernelsBase<VerifyKernels> {
  void runOnOperation() override {
    auto nested = getOperation().lookupSymbol<ModuleOp>(step::kernelModuleName);
    if (!nested)
      return;
    llvm::StringMap<std::optional<int64_t>> most;
    for (auto kernel : nested.getOps<kernel::FuncOp>()) {
      if (failed(verifyKernel(kernel)))
        return signalPassFailure();
      std::optional<int64_t> &own = most[kernel.getSymName()];
      if (!kernel.isExternal() && !kernel.getInstantiates())
        own = mostIterations(kernel);
      if (const std::optional<uint64_t> count = kernel.getIterations();
          count && failed(verifyIterations(kernel, int64_t(*count), own)))
        return signalPassFailure();
    }
    const WalkResult launches = getOperation().walk([&](step::LaunchOp launch) {
      return WalkResult(verifyIterations(launch,
                                         launch.getIterations().value_or(ArrayRef<int64_t>()),
                                         most.lookup(launch.getKernel())));
    });
    if (launches.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
