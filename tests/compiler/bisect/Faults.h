// Miscompilations to be found: a pass of each stage that does its work and changes one thing more.
#pragma once

#include "compiler/Stages.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace nano::test {

/// A fault of one stage.
struct Fault {
  const char *stage;
  const char *pass; ///< whose work the faulty pass does
  void (*plant)(mlir::ModuleOp module);
  /// The faulty pass's name: "test-faulty-fuse".
  std::string name() const { return std::string("test-faulty-") + stage; }
};

/// One for each stage of the compiler that has passes, in their order.
llvm::ArrayRef<Fault> faults();

/// The compiler's stages with `fault` in the place of its pass.
std::vector<nano::Stage> stagesWith(const Fault &fault);

/// Makes the faulty passes known by their names. Once a process.
void registerFaultyPasses();

} // namespace nano::test
