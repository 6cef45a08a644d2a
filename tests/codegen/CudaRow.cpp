// Lowers one task to a row kernel and prints it.
#include "tests/codegen/CudaRow.h"

#include "codegen/cuda/CudaEmitter.h"
#include "passes/cuda/CudaRowKernel.h"
#include "passes/cuda/CudaTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace nano::test {

/// The kernel's text; "" when the task has none.
static std::string emit(ModuleOp module, Shape &shape) {
  step::TaskOp task;
  module.walk([&](step::TaskOp found) { task = found; });
  FailureOr<kernels::RowForm> form = kernels::RowForm::of(task);
  if (failed(form))
    return "";
  const int64_t iterations = kernels::cudaRowIterations(task, *form);
  OwningOpRef<ModuleOp> kernelModule = ModuleOp::create(task.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernelModule->getBody());
  // Of one multiprocessor, so that few rows are enough for blocks that have several in turn.
  const kernels::KernelOptions options{.onGpu = true, .multiprocessors = 1};
  kernels::KernelFrame frame(task, options, builder, "kernel", [](MemRefType type) {
    return MemRefType::get({ShapedType::kDynamic}, type.getElementType());
  });
  if (failed(kernels::emitCudaRowKernel(frame, *form)))
    return "";
  frame.finish();
  const kernel::LaunchAttr launch = *frame.function.getLaunch();
  shape = {static_cast<int>(launch.getThreads()), iterations,
           static_cast<int>(frame.function.getScratchBytes()), launch.getBlockIterations()};
  return codegen::cudaKernelText(frame.function, 1).value_or("");
}

CudaRow cudaRow(StringRef task) {
  MLIRContext context;
  context.loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                      vector::VectorDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(task, &context);
  CudaRow result;
  if (module)
    result.text = emit(*module, result.shape);
  EXPECT_NE(result.text, "") << "no kernel of " << task.str();
  return result;
}

std::string run(const CudaRow &kernel, const std::vector<Argument> &arguments) {
  return TemplateRunner(kernel.text, {"kernel"}).run("kernel", kernel.shape, arguments, 3);
}

double rounded(StringRef element, double value) {
  const auto number = static_cast<float>(value);
  return element == "bf16" ? fromBf16(toBf16(number)) : number;
}

DeviceBuffer bufferOf(std::string name, StringRef element, const std::vector<double> &values) {
  return element == "bf16" ? DeviceBuffer::ofBf16(std::move(name), values)
                           : DeviceBuffer::ofFloats(std::move(name), values);
}

} // namespace nano::test
