// An op that is a kernel by itself and has none for a target, as one that somebody has begun: the
// error names the file that does not name the op.
#include "ir/graph/Nano.h"
#include "ir/step/Step.h"
#include "passes/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace {

class BegunOp : public Op<BegunOp, OpTrait::OneResult, OpTrait::OneOperand, OpTrait::ZeroRegions,
                          OpTrait::ZeroSuccessors, nano::graph::WholeKernelOp> {
public:
  using Op::Op;
  static StringRef getOperationName() { return "begun.op"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
};

class BegunDialect : public Dialect {
public:
  explicit BegunDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<BegunDialect>()) {
    addOperations<BegunOp>();
  }
  static StringRef getDialectNamespace() { return "begun"; }
};

/// What nano-lower-kernels says of it.
std::string errorFor(const char *target) {
  MLIRContext context;
  context.loadDialect<BegunDialect, nano::graph::NanoDialect, nano::step::StepDialect>();
  std::string said;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { said += diagnostic.str(); });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    step.program @begun {
      %x = step.buffer "x" : memref<4x64xf32>
      %y = step.buffer "y" : memref<4x64xf32>
      step.task ins(%x) outs(%y) : (memref<4x64xf32>) -> memref<4x64xf32> {
      ^bb0(%a: tensor<4x64xf32>):
        %b = "begun.op"(%a) : (tensor<4x64xf32>) -> tensor<4x64xf32>
        nano.yield %b : tensor<4x64xf32>
      }
    })",
                                                             &context);
  EXPECT_TRUE(module) << said;
  PassManager passes(&context);
  nano::LowerKernelsOptions options;
  options.target = target;
  passes.addPass(nano::createLowerKernels(options));
  EXPECT_TRUE(module && failed(passes.run(*module)));
  return said;
}

TEST(KernelMissing, OnTheCpu) {
  EXPECT_EQ(errorFor("cpu"), "'step.task' op is a kernel by itself that "
                             "passes/cpu/SequenceKernels.h does not name");
}

TEST(KernelMissing, ForCuda) {
  EXPECT_EQ(errorFor("cuda"), "'step.task' op is a kernel by itself that "
                              "passes/cuda/CudaTemplateKernels.cpp does not take");
}

} // namespace
