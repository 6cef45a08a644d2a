// The states and scalars that updates need, declared in the module.
#pragma once

#include "ir/graph/Program.h"
#include "ir/graph/Sharding.h"
#include "passes/optimizer/UpdateForm.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

namespace nano {

/// Declares what the equations of optimizers read and write. Each name is declared once, and must
/// be new to the model.
class UpdateStates {
public:
  /// The form that updates a parameter.
  using FormOf = llvm::function_ref<const UpdateForm &(llvm::StringRef)>;

  /// Declares behind `last`.
  UpdateStates(mlir::ModuleOp module, graph::StateOp last);

  /// The scalar 1/(sequences in the global batch).
  mlir::LogicalResult declareGradScale();
  /// State `i` of a parameter; its name.
  mlir::FailureOr<std::string> declare(graph::StateOp parameter, const UpdateForm &form,
                                       unsigned i);
  /// State `i` of a share of a gradient, of so many units: sharded as the gradient is, its pieces
  /// called as one rank alone would call them.
  mlir::FailureOr<std::string> declare(graph::StateOp gradient, const graph::Sharding &sharding,
                                       const UpdateForm &form, unsigned i, int64_t units,
                                       FormOf formOf);

private:
  /// Whether a name of what `owner` needs is to be declared now. `isSame`: whether what has the
  /// name already is what would be declared.
  mlir::FailureOr<bool> claim(
      mlir::Operation *owner, llvm::StringRef name,
      llvm::function_ref<bool(mlir::Operation *)> isSame = [](auto *) { return false; });
  graph::InitAttr constantInit(double init);
  void add(graph::StateOp owner, llvm::StringRef name, mlir::RankedTensorType type, double init,
           mlir::DictionaryAttr sharding);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  mlir::OpBuilder builder;
  llvm::StringSet<> declared;
};

/// The parameter whose gradient a state is called after.
inline llvm::StringRef ofGradient(llvm::StringRef gradient) {
  return gradient.drop_front(graph::gradientSymbol("").size());
}

} // namespace nano
