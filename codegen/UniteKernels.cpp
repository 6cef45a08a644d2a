// Equal kernels of several modules become one.
#include "codegen/UniteKernels.h"

#include "codegen/cuda/CudaEmitter.h"
#include "ir/step/Step.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace nano::codegen {
namespace {

/// The attributes that belong to a function's code; a kernel's size and its summary are those of a
/// launch.
SmallVector<NamedAttribute> codeAttributes(FunctionOpInterface function) {
  return llvm::to_vector(
      llvm::make_filter_range(function->getAttrs(), [](NamedAttribute attribute) {
        return !llvm::is_contained({"sym_name", "iterations", "summary"}, attribute.getName());
      }));
}

bool haveSameCode(FunctionOpInterface a, FunctionOpInterface b) {
  return a->getName() == b->getName() && codeAttributes(a) == codeAttributes(b) &&
         OperationEquivalence::isRegionEquivalentTo(&a.getFunctionBody(), &b.getFunctionBody(),
                                                    OperationEquivalence::IgnoreLocations);
}

/// Adds the kernels of modules to those of the first.
class Union {
public:
  explicit Union(ModuleOp kernels) : kernels(kernels) {
    for (auto function : kernels.getOps<FunctionOpInterface>())
      byName[function.getName()] = function;
  }

  LogicalResult add(ModuleOp module) {
    auto nested = module.lookupSymbol<ModuleOp>(step::kernelModuleName);
    if (!nested)
      return success();
    llvm::StringMap<StringAttr> renamed;
    OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
    for (auto function : nested.getOps<FunctionOpInterface>()) {
      const std::string own = function.getName().str();
      std::string name = own;
      FunctionOpInterface known = byName.lookup(name);
      for (int number = 2; known && !haveSameCode(known, function); ++number) {
        if (!isa<kernel::FuncOp>(function))
          return function.emitOpError("differs from the function of this name for other ranks");
        name = own + "_" + std::to_string(number);
        known = byName.lookup(name);
      }
      if (name != own) {
        renamed[own] = builder.getStringAttr(name);
        function.setName(name);
      }
      if (!known)
        byName[name] = cast<FunctionOpInterface>(builder.clone(*function));
    }
    if (!renamed.empty())
      module.walk([&](Operation *command) {
        if (auto launch = dyn_cast<step::LaunchOp>(command))
          launch.setKernelAttr(current(launch.getKernelAttr(), renamed));
        renameCandidates(command, renamed);
      });
    return success();
  }

private:
  /// What the kernel is called now.
  static FlatSymbolRefAttr current(FlatSymbolRefAttr kernel,
                                   const llvm::StringMap<StringAttr> &renamed) {
    const StringAttr name = renamed.lookup(kernel.getValue());
    return name ? FlatSymbolRefAttr::get(name) : kernel;
  }

  static void renameCandidates(Operation *command, const llvm::StringMap<StringAttr> &renamed) {
    auto rename = [&](auto op) {
      if (!op || !op.getCandidates())
        return;
      SmallVector<Attribute> names;
      for (auto each : op.getCandidates()->template getAsRange<FlatSymbolRefAttr>())
        names.push_back(current(each, renamed));
      op.setCandidatesAttr(ArrayAttr::get(op.getContext(), names));
    };
    rename(dyn_cast<step::LaunchOp>(command));
    rename(dyn_cast<step::MatmulOp>(command));
  }

  ModuleOp kernels;
  llvm::StringMap<FunctionOpInterface> byName;
};

} // namespace

FailureOr<KernelUnion> uniteKernels(ArrayRef<ModuleOp> modules) {
  KernelUnion result;
  ModuleOp first = modules.front();
  result.kernels = first.lookupSymbol<ModuleOp>(step::kernelModuleName);
  if (result.kernels) {
    Union all(result.kernels);
    for (ModuleOp module : modules.drop_front())
      if (failed(all.add(module)))
        return failure();
  }
  for (ModuleOp module : modules)
    for (const auto &[kernel, segments] : largestLaunches(module)) {
      int64_t &most = result.segments[kernel];
      most = std::max(most, segments);
    }
  result.reaches = kernelReaches(modules);
  result.indices = indexGroups(modules);
  return result;
}

} // namespace nano::codegen
