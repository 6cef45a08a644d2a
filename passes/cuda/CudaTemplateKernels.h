// Kernels for CUDA that are templates of the device library: attention, its gradient, the
// embedding's gradient, scans, products with what follows them. The kernel function says which
// template and with what parameters; its body is the template's.
#pragma once

#include "ir/graph/QueryRows.h"
#include "ir/kernel/Templates.h"
#include "ir/machine/Machine.h"
#include "passes/emit/KernelEmitter.h"

#include <functional>

namespace nano::kernels {

/// The functions beside a kernel that its template calls; null: none.
struct TemplateFunctions {
  mlir::FlatSymbolRefAttr score, scoreGrad, epilogue;
};

/// A launch of a template.
struct TemplateCall {
  std::string stem;                        ///< of the kernel's name
  llvm::SmallVector<mlir::Value> operands; ///< memrefs, distinct
  llvm::SmallVector<int64_t> seldom;       ///< operands of which hardly any iteration touches more
                                           ///< than an element
  /// The kernel's template, with the functions that it calls.
  std::function<kernel::TemplateAttrInterface(const TemplateFunctions &)> instance;
  mlir::NamedAttrList identity; ///< the template's parameters, for the kernel's name
  int64_t iterations = 1, threads = 32, sharedBytes = 0;
  /// See `kernel.func` and `#kernel.launch`; nothing where it is the default.
  std::optional<int64_t> grain, blockIterations, cluster, residentBlocks;
  bool sharesExponentials = false; ///< of an epilogue that only adds up what it computes
  mlir::FloatAttr flops, flopsPerKey;
  mlir::Type flopsType;                                ///< where operations count
  llvm::SmallVector<kernel::TensorMapAttr> tensorMaps; ///< of a product's factors
  mlir::Region *score = nullptr, *scoreGrad = nullptr;
  mlir::Block *epilogue = nullptr; ///< the task's body, which begins with a product
  /// Others that compute the same, of the first of the same operands.
  std::vector<TemplateCall> candidates = {};
};

/// Adds a field to those that a kernel's name is made of.
void identify(mlir::NamedAttrList &fields, llvm::StringRef name, mlir::Attribute value);

using graph::RowsOfQueries;

/// The launches that compute a task, in order, none where no template takes it; buffers that they
/// share are made at `program`. Launches whose blocks share the work have about one block for each
/// of so many multiprocessors. `rows`: of attention, rowsOfQueries. `candidates`: whether
/// calls have some. Errors: an operand that is a result too; a head that does not fit in shared
/// memory; a product that is none of the template's.
mlir::FailureOr<std::vector<TemplateCall>> templateCalls(step::TaskOp task,
                                                         mlir::OpBuilder &program,
                                                         int64_t multiprocessors,
                                                         RowsOfQueries rows, bool candidates);

/// A launch that computes half of a symmetric product.
struct SymmetricCall {
  step::MatmulOp product;
  TemplateCall call;
  bool isFaster; ///< than a library, by the machine's figures of it
};

/// Those of the products of a program that are symmetric, and that the device library has a
/// template for (SymmetricProducts.cpp).
std::vector<SymmetricCall> symmetricCalls(step::ProgramOp program, const step::KernelTable &kernels,
                                          const machine::Machine &machine);

/// A launch that computes products where the last of them is. Its last operand, which the call does
/// not have yet, is so many i32 that are zero before it.
struct SplitCall {
  llvm::SmallVector<step::MatmulOp> products;
  TemplateCall call;
  int64_t counts;
};

/// Those of the products of a program with many summands that launches of a template of the device
/// library are predicted to compute faster than a library (SplitProducts.cpp). Remarks of details
/// say which.
std::vector<SplitCall> splitCalls(step::ProgramOp program, const step::KernelTable &kernels,
                                  const machine::Machine &machine);

/// Of a task that is attention or its gradients: where its queries' ranges begin with their rows,
/// which all have so many tokens, `first` is t / row · row of the tokens t, as a task of the same
/// block computes it, and where they are causal `last` is t.
RowsOfQueries rowsOfQueries(step::TaskOp task);

/// The tasks in place of one: of attention's gradients with sums of their columns that the template
/// does not compute, these are tasks behind it (AttentionSums.cpp).
llvm::SmallVector<step::TaskOp> separateSums(step::TaskOp task);

/// The text that is equal for launches that one kernel can serve (TemplateKernel.cpp).
std::string templateKey(const TemplateCall &launch);

/// The kernel function and the functions that it names, at `moduleBuilder`, of a task or, where the
/// call has no functions, of another command. Errors, at the op: a score region with an op that is
/// not element-wise.
mlir::FailureOr<kernel::FuncOp> templateFunction(mlir::Operation *command,
                                                 const TemplateCall &launch, llvm::StringRef name,
                                                 mlir::OpBuilder &moduleBuilder);

} // namespace nano::kernels
