// nano-lsp-server: a language server for IR files with our dialects: diagnostics, definitions and
// hover in an editor.
#include "compiler/Registration.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  nano::registerEverything(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry)) ? 1 : 0;
}
