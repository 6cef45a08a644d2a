// Kernels for CUDA that are templates of the device library: attention, its gradient, the
// embedding's gradient, scans, products with what follows them. The kernel function says which
// template and with what parameters; its body is the template's.
#pragma once

#include "passes/kernels/KernelEmitter.h"

namespace nano::kernels {

/// A launch of a template. The discardable attributes of its kernel:
/// - nano.template: "attention", "attention_grad", "scatter_sort", "scatter_sum", "scan",
/// "transpose", "matmul" or "custom";
/// - nano.shape: the template's sizes, in the order of the members of its shape struct; of "matmul"
/// the blocks of a launch instead of whether there are sums and f32, which the epilogue says;
/// - nano.operands: the position of each of the op's operands among the function's arguments;
/// - nano.results: for each of the op's results, the positions of the arguments that it is written
/// to;
/// - nano.scale (attention), nano.maximum (scan);
/// - nano.score, nano.score_grad (attention), nano.epilogue (matmul): functions beside the kernel
/// that the template calls. An epilogue's arguments are the product and what `nano.operands` lists
/// behind the factors and, of 8-bit factors, their two scales, as vectors of neighbours of a row,
/// eight or of a product of f32 four, or numbers; its results are those of `nano.results`: vectors,
/// or a number that the neighbours add to a partial sum of their row;
/// - nano.added (matmul): which of the results, sums of f32, are added to what is in their place,
/// which the epilogue does not read: it returns the other summand;
/// - nano.function, nano.cpu, nano.cuda (custom): what the kernel calls, and the texts that define
/// it for a target; nano.added is as for products.
struct TemplateCall {
  std::string stem;                               ///< of the kernel's name
  llvm::SmallVector<mlir::Value> operands;        ///< memrefs, distinct
  llvm::SmallVector<int64_t> reads, writes, adds; ///< positions of operands; `adds` are written too
  mlir::NamedAttrList attributes;
  int64_t iterations = 1, threads = 32, sharedBytes = 0;
  /// See `kernel.func` and `#kernel.launch`; nothing where it is the default.
  std::optional<int64_t> grain, blockIterations, cluster, residentBlocks;
  bool sharesExponentials = false; ///< of an epilogue that only adds up what it computes
  mlir::FloatAttr flops, flopsPerKey;
  llvm::SmallVector<kernel::TensorMapAttr> tensorMaps; ///< of a product's factors
  mlir::Region *score = nullptr, *scoreGrad = nullptr;
  mlir::Block *epilogue = nullptr; ///< the task's body, which begins with a product
};

/// The launches that compute the single op of a task, in order; buffers that they share are made at
/// `program`. Launches whose blocks share the work have about one block for each of so many
/// multiprocessors. Errors: an operand that is a result too; a head that does not fit in shared
/// memory; a product that is none of the template's.
mlir::FailureOr<std::vector<TemplateCall>>
templateCalls(step::TaskOp task, mlir::OpBuilder &program, int64_t multiprocessors);

/// The text that is equal for launches that one kernel can serve.
std::string templateKey(const TemplateCall &launch);

/// The kernel function and the functions that it names, at `moduleBuilder`. Errors, at the op: a
/// score region with an op that is not element-wise.
mlir::FailureOr<kernel::FuncOp> templateFunction(step::TaskOp task, const TemplateCall &launch,
                                                 llvm::StringRef name,
                                                 mlir::OpBuilder &moduleBuilder);

} // namespace nano::kernels
