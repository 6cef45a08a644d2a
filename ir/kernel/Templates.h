// Templates of the device library as attributes of kernels: see KernelTemplates.td for what their
// fields mean.
#pragma once

#include "ir/kernel/Kernel.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano::kernel {

/// The text that a template which is one call becomes: see Kernel_Call.
struct TemplateEntry {
  llvm::StringRef header; ///< of the device library
  llvm::StringRef call;
  std::vector<std::pair<llvm::StringRef, std::string>> values; ///< what fields of `call` stand for
  std::vector<std::pair<llvm::StringRef, int64_t>> buffers;    ///< likewise, positions
};

/// Of an attribute that is one; none of other templates.
std::optional<TemplateEntry> entryOf(mlir::Attribute instance);

/// "a transpose with a size of 0: must be at least 1".
mlir::LogicalResult verifySizes(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                llvm::StringRef name, llvm::ArrayRef<int64_t> sizes);

} // namespace nano::kernel

#define GET_ATTRDEF_CLASSES
#include "ir/kernel/KernelTemplates.h.inc"
