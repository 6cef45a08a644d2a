// nano-opt: runs passes and pipelines of the compiler on IR files, for tests and for looking.
// `--nano-pipeline=up-to=STAGE` runs what `nanoc compile` runs; `--debug-only=PASS` prints a pass's
// LDBG() lines.
#include "compiler/Registration.h"
#include "tools/nano-opt/PrintCuda.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  nano::registerEverything(registry);
  nano::registerDebugOption();
  nano::registerPrintCuda();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "nano-opt: the passes of nanoc, one at a time\n", registry));
}
