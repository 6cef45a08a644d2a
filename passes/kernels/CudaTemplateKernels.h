// Kernels for CUDA that are templates of the device library: attention, its gradient, the
// embedding's gradient, scans. The kernel function says which template and with what parameters;
// its body is the template's.
#pragma once

#include "passes/kernels/KernelEmitter.h"

namespace nano::kernels {

/// A launch of a template. The attributes of its function:
/// - nano.template: "attention", "attention_grad", "scatter_sort", "scatter_sum", "scan" or
/// "transpose";
/// - nano.shape: the template's sizes, in the order of the members of its shape struct;
/// - nano.operands: the position of each of the op's operands among the function's arguments;
/// - nano.results: for each of the op's results, the positions of the arguments that it is written
/// to;
/// - nano.scale (attention), nano.maximum (scan);
/// - nano.score, nano.score_grad (attention): functions beside the kernel that the template calls.
struct TemplateCall {
  std::string stem;                        ///< of the kernel's name
  llvm::SmallVector<mlir::Value> operands; ///< memrefs, distinct
  llvm::SmallVector<int64_t> reads, writes;
  mlir::NamedAttrList attributes;
  int64_t iterations = 1, threads = 32, sharedBytes = 0;
  mlir::Region *score = nullptr, *scoreGrad = nullptr;
};

/// The launches that compute the single op of a task, in order; buffers that they share are made at
/// `program`. Errors: an operand that is a result too; a head that does not fit in shared memory.
mlir::FailureOr<std::vector<TemplateCall>> templateCalls(step::TaskOp task,
                                                         mlir::OpBuilder &program);

/// The text that is equal for launches that one kernel can serve.
std::string templateKey(const TemplateCall &launch);

/// The kernel function and the functions that it names, at `moduleBuilder`. Errors, at the op: a
/// score region with an op that is not element-wise.
mlir::FailureOr<mlir::func::FuncOp> templateFunction(step::TaskOp task, const TemplateCall &launch,
                                                     llvm::StringRef name,
                                                     mlir::OpBuilder &moduleBuilder);

} // namespace nano::kernels
