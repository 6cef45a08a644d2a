// What the template calls of a task are made from: its operands as arguments of launches.
#pragma once

#include "ir/kernel/shapes/nano_shape.h"
#include "passes/cuda/CudaTemplateKernels.h"

namespace nano::kernels {

/// Dynamic shared memory that a block can have, in bytes.
inline constexpr int64_t maxSharedBytes = 227 * 1024;

/// A task that templates compute; buffers that their launches share are made at `program`.
class TaskTemplate {
protected:
  TaskTemplate(step::TaskOp task, mlir::OpBuilder &program, int64_t multiprocessors)
      : task(task), program(program), multiprocessors(multiprocessors), b(task.getContext()) {}

  /// The memref that stands for an operand of the op.
  mlir::Value memrefOf(mlir::Value operand);
  /// Memory of the launch's own.
  mlir::Value buffer(llvm::StringRef name, int64_t elements, mlir::Type type);

  /// Positions among a launch's operands.
  struct Bound {
    llvm::SmallVector<int64_t> ins;
    llvm::SmallVector<llvm::SmallVector<int64_t>> outs;
  };

  /// The launch's operands from the op's, and which is which.
  Bound bind(TemplateCall &launch, llvm::ArrayRef<mlir::Value> ins,
             llvm::ArrayRef<llvm::SmallVector<mlir::Value>> outs);
  mlir::ArrayAttr list(llvm::ArrayRef<llvm::SmallVector<int64_t>> results);

  void setLaunch(TemplateCall &launch, llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                 const nano::TemplateLaunch &sizes);

  /// Of a template that calls no functions.
  static void set(TemplateCall &launch, kernel::TemplateAttrInterface instance);

  step::TaskOp task;
  mlir::OpBuilder &program;
  int64_t multiprocessors;
  mlir::Builder b;
};

/// Of a task that begins with `op`: the launches of a scan, an order, a sparsemax, a recurrence, or
/// a band's scores or products; none of another op.
std::vector<TemplateCall> sequenceCalls(mlir::Operation &op, step::TaskOp task,
                                        mlir::OpBuilder &program, int64_t multiprocessors);

/// Likewise of groups of rows: their products with a matrix each, or sums of outer products.
std::vector<TemplateCall> groupedCalls(mlir::Operation &op, step::TaskOp task,
                                       mlir::OpBuilder &program, int64_t multiprocessors);

} // namespace nano::kernels
