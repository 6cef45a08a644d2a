// nano-verify-differentiated: every trained parameter's gradient is accumulated exactly once,
// frozen ones have none, and every index is proven to lie in its table.
//
// After differentiation `train` holds one `nano.accumulate %g, @"grad.<parameter>"` a parameter
// that has an optimizer, into a state of role gradient and the parameter's shape, in f32 or,
// with stored gradients, its type. The optimizers, which run next, read every one of these states.
// Indices that nano-check-indices could not prove are nearest ones that lie inside by now, which
// the same analysis finds of them, forward and backward: kernels read and write by index without a
// look.
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GradientTypes.h"
#include "ir/graph/IntegerRanges.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"
#include "passes/verify/Indices.h"

#include "llvm/ADT/StringSet.h"

namespace nano {
#define GEN_PASS_DEF_VERIFYDIFFERENTIATED
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

struct VerifyDifferentiated : public nano::impl::VerifyDifferentiatedBase<VerifyDifferentiated> {
  void runOnOperation() override {
    if (failed(check(getOperation())) || failed(checkIndices(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult check(ModuleOp module);
  LogicalResult checkIndices(ModuleOp module);
};

LogicalResult VerifyDifferentiated::check(ModuleOp module) {
  ProgramOp train = programWithRole(module, "train");
  if (!train)
    return module.emitError("no function has the role 'train'");
  llvm::StringMap<AccumulateOp> accumulated;
  for (auto accumulate : train.getOps<AccumulateOp>()) {
    auto [first, isNew] = accumulated.try_emplace(accumulate.getSymbol(), accumulate);
    if (!isNew)
      return (accumulate.emitOpError("is the second into ") << accumulate.getSymbolAttr())
                 .attachNote(first->second.getLoc())
             << "the first is here";
  }
  SymbolTable symbols(module);
  llvm::StringSet<> gradients;
  for (auto parameter : module.getOps<StateOp>()) {
    if (!parameter.isTrained())
      continue;
    std::string name = gradientSymbol(parameter.getSymName());
    gradients.insert(name);
    auto gradient = symbols.lookup<StateOp>(name);
    if (!gradient || !accumulated.contains(name))
      return parameter.emitError("parameter '")
             << parameter.getSymName() << "' gets no gradient: nothing is accumulated into @"
             << name;
    const Type element = gradientElement(module, parameter);
    if (gradient.getRole() != Role::Gradient ||
        gradient.getTensorType() != parameter.getTensorType().clone(element))
      return gradient.emitOpError("must have role gradient, element type ")
             << element << " and the shape of parameter '" << parameter.getSymName() << "'";
  }
  for (auto &[name, accumulate] : accumulated)
    if (!gradients.contains(name))
      return accumulate.emitOpError("into @")
             << name << ", which is no trained parameter's gradient";
  WalkResult walk = module.walk([](StopGradientOp stop) {
    stop.emitOpError("is left, and no kernel computes it: nano-differentiate runs first");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult VerifyDifferentiated::checkIndices(ModuleOp module) {
  for (auto function : module.getOps<ProgramOp>()) {
    if (!function.getRole() || !function.getBody().hasOneBlock())
      continue;
    const IntegerRanges ranges(function, vocabularyOf(module));
    for (Operation &op : function.getBody().front())
      if (std::optional<Indices> indices = indicesOf(&op))
        if (IntegerRange range = ranges.of(indices->operand->get());
            !range.isWithin(indices->bound))
          return op.emitOpError("its ")
                 << indices->noun << ", " << toString(range) << ", are not proven to lie in its "
                 << indices->bound << " " << indices->of << ": nano-check-indices runs first";
  }
  return success();
}

} // namespace
