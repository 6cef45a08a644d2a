// IR as text, as nano-opt and nanoc read it.
#include "ir/graph/Nano.h"
#include "ir/step/Step.h"
#include "tests/fuzz/Targets.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>

namespace nano::fuzz {

constexpr int inputsOfContext = 128;

void ir(std::string_view bytes) {
  static const mlir::DialectRegistry registry = [] {
    mlir::DialectRegistry all;
    all.insert<graph::NanoDialect, step::StepDialect, mlir::arith::ArithDialect,
               mlir::func::FuncDialect, mlir::math::MathDialect, mlir::memref::MemRefDialect,
               mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
    return all;
  }();
  // Dialects are loaded anew in each context, which takes longer than an input does; what inputs
  // leave in one (types, attributes, places) goes with it.
  static std::optional<mlir::MLIRContext> context;
  static int left = 0;
  if (left-- == 0) {
    context.emplace(registry, mlir::MLIRContext::Threading::DISABLED);
    context->getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
    left = inputsOfContext - 1;
  }
  // MLIR's lexer reads a word at the end of a text to the zero behind it, which std::string has.
  const std::string given(bytes);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(given, &*context);
  if (!module)
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  require(bool(mlir::parseSourceString<mlir::ModuleOp>(text, &*context)),
          "a module that was printed can be parsed");
}

} // namespace nano::fuzz
