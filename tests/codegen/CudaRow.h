// The kernel for CUDA of one task of rows or elements, as text for the emulator.
#pragma once

#include "tests/codegen/templates/TemplateRunner.h"

#include "llvm/ADT/StringRef.h"

namespace nano::test {

struct CudaRow {
  std::string text; ///< defines one kernel, `kernel`
  Shape shape;      ///< of a launch over all iterations
};

/// Of the only task in a module's text. A failed assertion and an empty text when it has no kernel.
CudaRow cudaRow(llvm::StringRef task);

/// Runs it on the emulator. The first fault, or nothing.
std::string run(const CudaRow &kernel, const std::vector<Argument> &arguments);

/// `value` as an element holds it; `element` is "f32" or "bf16".
double rounded(llvm::StringRef element, double value);
/// A buffer of such elements.
DeviceBuffer bufferOf(std::string name, llvm::StringRef element, const std::vector<double> &values);

} // namespace nano::test
