// Removes ops by halves. MLIR's own reducer asks a program on a file about each candidate, which
// takes the start of a process and of all dialects, and erases ops with all that uses them; here
// the question is a function, and a value that is gone is replaced, so that a gradient in the
// middle of a step can be shown alone.
#include "compiler/bisect/Reduce.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Nano.h"
#include "ir/kernel/Kernel.h"
#include "ir/step/Step.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"

#include <chrono>
#include <vector>

using namespace mlir;

namespace nano::bisect {

namespace {

bool isProgram(Operation &op) { return isa<graph::ProgramOp, step::ProgramOp>(op); }

/// Programs of a module, in order.
std::vector<Operation *> programsOf(ModuleOp module) {
  std::vector<Operation *> programs;
  for (Operation &op : *module.getBody())
    if (isProgram(op))
      programs.push_back(&op);
  return programs;
}

/// What names a place and computes nothing.
bool isPlace(Operation *op) { return isa<step::BufferOp, step::StateOp, step::ViewOp>(op); }

/// Ops that can be taken out of programs and optimizers' equations, in an order that a copy of the
/// module has too. The functions of scores inside of attention stay.
std::vector<Operation *> removableIn(ModuleOp module) {
  std::vector<Operation *> ops;
  for (Operation &whole : *module.getBody()) {
    if (!isProgram(whole) && !isa<graph::OptimizerOp>(whole))
      continue;
    whole.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == &whole || op->hasTrait<OpTrait::IsTerminator>() || isPlace(op) ||
          isa<graph::ConstantOp>(op))
        return WalkResult::advance();
      ops.push_back(op);
      const bool isOpen = isa<graph::FusedOp, step::TaskOp>(op);
      return isOpen ? WalkResult::advance() : WalkResult::skip();
    });
  }
  return ops;
}

/// A value in the place of one that goes.
Value replacementOf(OpResult result, OpBuilder &builder) {
  auto isAlike = [&](Value value) { return value.getType() == result.getType(); };
  for (Value operand : result.getOwner()->getOperands()) {
    if (isAlike(operand))
      return operand;
    // Behind a cast and back.
    if (Operation *before = operand.getDefiningOp(); before && isa<graph::CastOp>(before))
      if (const Value source = before->getOperand(0); isAlike(source))
        return source;
  }
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (!type)
    return {};
  const double value = type.getElementType().isInteger() ? 0 : 0.5;
  return graph::GraphBuilder(builder, result.getLoc()).constant(value, type);
}

/// Takes an op out; false, with nothing done, where what it defines is needed and cannot be
/// replaced.
bool remove(Operation *op) {
  OpBuilder builder(op);
  for (OpResult result : op->getResults()) {
    if (result.use_empty())
      continue;
    const Value replacement = replacementOf(result, builder);
    if (!replacement)
      return false;
    result.replaceAllUsesWith(replacement);
  }
  op->erase();
  return true;
}

/// Takes out what nothing uses any more: values, places, kernels.
void sweep(ModuleOp module) {
  for (Operation &whole : *module.getBody())
    whole.walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
      if (op != &whole && (isProgram(whole) || isa<graph::OptimizerOp>(whole)) && op->use_empty() &&
          !op->hasTrait<OpTrait::IsTerminator>() &&
          (isPlace(op) || (op->getNumResults() > 0 && isMemoryEffectFree(op))))
        op->erase();
    });
  auto kernels = module.lookupSymbol<ModuleOp>(step::kernelModuleName);
  if (!kernels)
    return;
  llvm::DenseSet<StringAttr> launched;
  module.walk([&](step::LaunchOp launch) { launched.insert(launch.getKernelAttr().getAttr()); });
  for (auto kernel : llvm::make_early_inc_range(kernels.getOps<kernel::FuncOp>()))
    if (!launched.contains(kernel.getSymNameAttr()))
      kernel.erase();
}

/// States, scalars, optimizers and inputs that nothing names.
std::vector<Operation *> unnamedIn(ModuleOp module) {
  std::vector<Operation *> symbols;
  for (Operation &op : *module.getBody())
    if (isa<graph::StateOp, graph::ScalarOp, graph::OptimizerOp, step::InputOp>(op) &&
        SymbolTable::symbolKnownUseEmpty(&op, module))
      symbols.push_back(&op);
  return symbols;
}

class Reducer {
public:
  Reducer(ModuleOp module, llvm::function_ref<bool(ModuleOp)> shows, double seconds)
      : best(module.clone()), shows(shows),
        end(Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  OwningOpRef<ModuleOp> run() {
    removePrograms();
    removeEquations();
    while (removeOps()) {
    }
    removeSymbols();
    return std::move(best);
  }

private:
  using Clock = std::chrono::steady_clock;

  bool isLate() const { return Clock::now() > end; }

  /// Takes over a candidate that still shows the fault.
  bool accept(OwningOpRef<ModuleOp> candidate) {
    {
      ScopedDiagnosticHandler silent(candidate->getContext(), [](Diagnostic &) {});
      if (failed(verify(*candidate)) || !shows(*candidate))
        return false;
    }
    best = std::move(candidate);
    return true;
  }

  /// The same, without parameters that it no longer uses where it shows the fault without them too:
  /// some passes want every one to be used.
  void acceptWithout(OwningOpRef<ModuleOp> candidate) {
    OwningOpRef<ModuleOp> less = candidate->clone();
    std::vector<Operation *> unnamed = unnamedIn(*less);
    for (Operation *op : unnamed)
      op->erase();
    if (unnamed.empty() || !accept(std::move(less)))
      accept(std::move(candidate));
  }

  /// What no update needs yet.
  void removeEquations() {
    std::vector<StringAttr> names;
    for (auto optimizer : best->getOps<graph::OptimizerOp>())
      if (optimizer.hasEquations())
        names.push_back(optimizer.getSymNameAttr());
    for (StringAttr name : names) {
      if (isLate())
        return;
      OwningOpRef<ModuleOp> candidate = best->clone();
      auto optimizer = cast<graph::OptimizerOp>(SymbolTable::lookupSymbolIn(*candidate, name));
      optimizer.getBody().dropAllReferences();
      optimizer.getBody().getBlocks().clear();
      accept(std::move(candidate));
    }
  }

  void removePrograms() {
    for (size_t i = programsOf(*best).size(); i-- > 0 && !isLate();) {
      OwningOpRef<ModuleOp> candidate = best->clone();
      programsOf(*candidate)[i]->erase();
      sweep(*candidate);
      accept(std::move(candidate));
    }
  }

  /// True when it has become smaller.
  bool removeOps() {
    const int64_t before = opsOf(*best);
    for (size_t size = std::max<size_t>(1, removableIn(*best).size() / 2);; size /= 2) {
      // From the end, so that users go before what they use.
      for (size_t last = removableIn(*best).size(); last > 0 && !isLate();) {
        const size_t first = last > size ? last - size : 0;
        OwningOpRef<ModuleOp> candidate = best->clone();
        std::vector<Operation *> ops = removableIn(*candidate);
        last = std::min(last, ops.size());
        // What is nested in an op that goes, goes with it.
        std::vector<Operation *> chosen;
        for (size_t i = first; i < last; ++i)
          if (llvm::none_of(chosen, [&](Operation *op) { return op->isAncestor(ops[i]); }))
            chosen.push_back(ops[i]);
        bool isDone = true;
        for (Operation *op : llvm::reverse(chosen))
          isDone = remove(op) && isDone;
        sweep(*candidate);
        if (isDone && opsOf(*candidate) < opsOf(*best))
          acceptWithout(std::move(candidate));
        last = first;
      }
      if (size == 1 || isLate())
        break;
    }
    return !isLate() && opsOf(*best) < before;
  }

  void removeSymbols() {
    for (bool isSmaller = true; isSmaller && !isLate();) {
      isSmaller = false;
      std::vector<StringAttr> names;
      for (Operation *op : unnamedIn(*best))
        names.push_back(SymbolTable::getSymbolName(op));
      for (StringAttr name : llvm::reverse(names)) {
        if (isLate())
          return;
        OwningOpRef<ModuleOp> candidate = best->clone();
        SymbolTable::lookupSymbolIn(*candidate, name)->erase();
        isSmaller |= accept(std::move(candidate));
      }
    }
  }

  OwningOpRef<ModuleOp> best;
  llvm::function_ref<bool(ModuleOp)> shows;
  const Clock::time_point end;
};

} // namespace

int64_t opsOf(ModuleOp module) { return int64_t(removableIn(module).size()); }

OwningOpRef<ModuleOp> reduce(ModuleOp module, llvm::function_ref<bool(ModuleOp)> shows,
                             double seconds) {
  return Reducer(module, shows, seconds).run();
}

} // namespace nano::bisect
