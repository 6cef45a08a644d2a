// nano-verify-kernels: what a kernel states about its arguments is what it does.
//
// It closes the kernels stage. All that follows reads of a kernel only what it states: the schedule
// orders launches by it, memory planning lets buffers share bytes by it, and both proofs rest on
// it. Where a kernel's body is loops and vectors, every access of the body is followed back to the
// argument; where it is a template, the attributes say which operands the template reads and where
// it puts its results. For example
//
//   func.func @k(%x: memref<8xf32>, %y: memref<8xf32>, ...) attributes {nano.reads = [0, 1], ...} {
//     %v = vector.load %x[...]
//     vector.store %v, %y[...]
//
// is refused: it writes argument 1, which it states only to read.
#include "ir/step/Step.h"
#include "passes/Passes.h"

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
  /// It is only read where the kernel has written it before: nothing is asked of its contents.
  bool isReadBack = false;
};

/// What a function of the device library does to the operands that are memory; nothing for a
/// function that no one has described here, which may do anything.
std::optional<Touch> touchOfCall(func::CallOp call, unsigned operand) {
  // storeColumns<...>(gathered, matrix, ...): a tile of shared memory becomes part of a matrix.
  if (call.getCallee().starts_with("storeColumns<"))
    return operand == 0 ? Touch{true, false} : Touch{false, true};
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
  size_t firstRead = SIZE_MAX, firstWrite = SIZE_MAX;
  SmallVector<Value> pending{argument};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (isView(use.getOwner())) {
        pending.push_back(use.getOwner()->getResult(0));
        continue;
      }
      const Touch found = touchOfUse(use).value_or(Touch{true, true});
      const size_t place = places.lookup(use.getOwner());
      if (found.reads)
        firstRead = std::min(firstRead, place);
      if (found.writes)
        firstWrite = std::min(firstWrite, place);
      touch.reads |= found.reads;
      touch.writes |= found.writes;
    }
  touch.isReadBack = firstWrite < firstRead;
  return touch;
}

/// What a template does to each argument, from the attributes that say where it finds its operands
/// and puts its results.
FailureOr<SmallVector<Touch>> touchesOfTemplate(func::FuncOp kernel, int64_t arguments) {
  SmallVector<Touch> touches(arguments);
  auto operands = kernel->getAttrOfType<DenseI64ArrayAttr>("nano.operands");
  auto results = kernel->getAttrOfType<ArrayAttr>("nano.results");
  if (!operands || !results)
    return kernel.emitOpError("is a template that does not say its operands and results");
  auto at = [&](int64_t position) -> FailureOr<Touch *> {
    if (position < 0 || position >= arguments)
      return kernel.emitOpError("names argument ") << position << " of " << arguments;
    return &touches[position];
  };
  for (int64_t position : operands.asArrayRef()) {
    FailureOr<Touch *> touch = at(position);
    if (failed(touch))
      return failure();
    (*touch)->reads = true;
  }
  auto added = kernel->getAttrOfType<DenseI64ArrayAttr>("nano.added");
  for (auto [result, attribute] : llvm::enumerate(results)) {
    auto places = dyn_cast<DenseI64ArrayAttr>(attribute);
    if (!places)
      return kernel.emitOpError("does not say where result ") << result << " goes";
    const bool isAdded = added && llvm::is_contained(added.asArrayRef(), int64_t(result));
    for (int64_t position : places.asArrayRef()) {
      FailureOr<Touch *> touch = at(position);
      if (failed(touch))
        return failure();
      (*touch)->writes = true;
      (*touch)->reads |= isAdded;
    }
  }
  return touches;
}

/// A tensor map of a kernel, as its attribute lists it.
struct TensorMap {
  int64_t argument, columns, rows, rowBytes, boxColumns, boxRows, swizzleBytes;
};

/// A map names bytes of the kernel's argument only, in a form that the copy engine takes.
LogicalResult verifyTensorMap(func::FuncOp kernel, Attribute attribute, int64_t arguments) {
  auto list = dyn_cast<DenseI64ArrayAttr>(attribute);
  if (!list || list.size() != 7)
    return kernel.emitOpError("has a tensor map that is no list of seven numbers");
  const TensorMap map{list[0], list[1], list[2], list[3], list[4], list[5], list[6]};
  if (map.argument < 0 || map.argument >= arguments)
    return kernel.emitOpError("has a tensor map of argument ")
           << map.argument << " of " << arguments;
  auto type = dyn_cast<MemRefType>(kernel.getArgument(map.argument).getType());
  if (!type || !type.hasStaticShape())
    return kernel.emitOpError("has a tensor map of argument ")
           << map.argument << ", whose size is not known";
  const int64_t element = step::elementBytes(type.getElementType());
  const int64_t bytes = step::elementRange(type).end * element;
  if (map.columns < 1 || map.rows < 1 || map.rowBytes < map.columns * element ||
      (map.rows - 1) * map.rowBytes + map.columns * element > bytes)
    return kernel.emitOpError("has a tensor map of ")
           << map.rows << " rows of " << map.columns << " elements, " << map.rowBytes
           << " bytes apart, which reaches beyond the " << bytes << " bytes of argument "
           << map.argument;
  constexpr int64_t boxLimit = 256, engineBytes = 16;
  if (map.boxColumns < 1 || map.boxColumns > boxLimit || map.boxRows < 1 ||
      map.boxRows > boxLimit || map.rowBytes % engineBytes != 0 ||
      map.boxColumns * element > map.swizzleBytes ||
      !llvm::is_contained({32, 64, 128}, map.swizzleBytes))
    return kernel.emitOpError("has a tensor map with boxes of ")
           << map.boxRows << " rows of " << map.boxColumns << " elements, rows " << map.rowBytes
           << " bytes apart and a swizzle of " << map.swizzleBytes
           << " bytes, which the copy engine does not take";
  return success();
}

LogicalResult verifyKernel(func::FuncOp kernel, const step::KernelInfo &info) {
  if (std::string fault = step::accessFault(kernel); !fault.empty())
    return kernel.emitOpError(fault);
  const auto arguments = int64_t(info.reads.size());
  SmallVector<Touch> touches;
  if (kernel->hasAttr("nano.template")) {
    FailureOr<SmallVector<Touch>> found = touchesOfTemplate(kernel, arguments);
    if (failed(found))
      return failure();
    touches = std::move(*found);
  } else {
    llvm::DenseMap<Operation *, size_t> places;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { places[op] = places.size(); });
    for (int64_t i = 0; i < arguments; ++i)
      touches.push_back(touchOf(kernel.getArgument(i), places));
  }
  for (auto [i, touch] : llvm::enumerate(touches)) {
    if (touch.isReadBack && !info.reads[i])
      touch.reads = false;
    for (auto [does, states, verb] : {std::tuple(touch.reads, info.reads[i], "read"),
                                      std::tuple(touch.writes, info.writes[i], "write")})
      if (does != states)
        return kernel.emitOpError(does ? "may " : "states to ")
               << verb << " argument " << i
               << (does ? ", which it does not state" : ", which it does not do");
  }
  if (auto maps = kernel->getAttrOfType<ArrayAttr>("nano.tensor_maps"))
    for (Attribute map : maps)
      if (failed(verifyTensorMap(kernel, map, arguments)))
        return failure();
  return success();
}

struct VerifyKernels : public nano::impl::VerifyKernelsBase<VerifyKernels> {
  void runOnOperation() override {
    const step::KernelTable kernels(getOperation());
    auto nested = getOperation().lookupSymbol<ModuleOp>(step::kernelModuleName);
    if (nested)
      for (auto function : nested.getOps<func::FuncOp>())
        if (function->hasAttr("nano.kernel") &&
            failed(verifyKernel(function, *kernels.find(function.getSymNameAttr()))))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
