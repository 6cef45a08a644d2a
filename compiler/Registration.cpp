// Registers dialects, passes and pipelines for the tools.
#include "compiler/Registration.h"

#include "compiler/Pipeline.h"
#include "passes/RegisterPasses.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"

#include <string>
#include <vector>

void nano::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<graph::NanoDialect, kernel::KernelDialect, step::StepDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect,
                  mlir::vector::VectorDialect, mlir::x86vector::X86VectorDialect,
                  mlir::amx::AMXDialect>();
}

void nano::registerEverything(mlir::DialectRegistry &registry) {
  registerDialects(registry);
  registerNanoPasses();
  registerPipelines();
  mlir::registerTransformsPasses();
}

namespace {

struct DebugTypes {
  void operator=(const std::string &list) const {
    llvm::DebugFlag = true;
    static std::vector<std::string> names; // the library keeps pointers to these
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::StringRef(list).split(parts, ',', -1, /*KeepEmpty=*/false);
    names.assign(parts.begin(), parts.end());
    std::vector<const char *> pointers;
    pointers.reserve(names.size());
    for (const std::string &name : names)
      pointers.push_back(name.c_str());
    llvm::setCurrentDebugTypes(pointers.data(), static_cast<unsigned>(pointers.size()));
  }
};

} // namespace

void nano::registerDebugOption() {
  static DebugTypes types;
  static llvm::cl::opt<DebugTypes, true, llvm::cl::parser<std::string>> option(
      "debug-only", llvm::cl::desc("Print the debug lines of these passes"),
      llvm::cl::value_desc("names"), llvm::cl::location(types), llvm::cl::ValueRequired);
}
