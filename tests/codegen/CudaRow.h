// The kernel for CUDA of one row task, as text for the emulator.
#pragma once

#include "tests/codegen/templates/TemplateRunner.h"

#include "llvm/ADT/StringRef.h"

namespace nano::test {

struct CudaRow {
  std::string text; ///< defines one kernel, `kernel`
  Shape shape;      ///< of a launch over `rows` iterations
};

/// Of the only task in a module's text; a failed assertion and an empty text when it has no kernel.
CudaRow cudaRow(llvm::StringRef task, int64_t rows);

} // namespace nano::test
