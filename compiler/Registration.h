// What every tool of the compiler registers: dialects, passes, pipelines.
#pragma once

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace nano {

/// Inserts our dialects and those that our passes make into `registry`.
void registerDialects(mlir::DialectRegistry &registry);

/// `registerDialects`, and every pass and pipeline under its name.
void registerEverything(mlir::DialectRegistry &registry);

/// Adds the option `--debug-only=NAME[,NAME]` to LLVM's command line: `LDBG()` lines of these debug
/// types are printed. The library is a release build and has no such option of its own.
void registerDebugOption();

} // namespace nano
