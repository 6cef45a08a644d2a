// `nano-opt --nano-print-cuda`: the kernels of a module as CUDA C++.
#include "tools/nano-opt/PrintCuda.h"

#include "codegen/cuda/CudaEmitter.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace nano {
namespace {

struct PrintCuda : PassWrapper<PrintCuda, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintCuda)
  StringRef getArgument() const final { return "nano-print-cuda"; }
  StringRef getDescription() const final { return "prints every kernel's CUDA C++ on stdout"; }

  void runOnOperation() final {
    FailureOr<std::vector<plan::Source>> sources = codegen::cudaSources(getOperation());
    if (failed(sources))
      return signalPassFailure();
    for (const plan::Source &source : *sources)
      if (StringRef(source.name).ends_with(".cu"))
        llvm::outs() << "//--- " << source.name << "\n" << source.text;
    llvm::outs().flush();
  }
};

} // namespace

void registerPrintCuda() { PassRegistration<PrintCuda>(); }

} // namespace nano
