// The update of a parameter, or of units of several, while it is written into a program.
#pragma once

#include "passes/optimizer/UpdateEmitter.h"

#include <string>

namespace nano {

/// An emitter of the equations that reads and stores the states of given names. Whoever makes it
/// says what the parameter and the gradient are.
class ParameterUpdate {
public:
  /// Of so many units; 0: of the parameter as it is.
  ParameterUpdate(mlir::OpBuilder &builder, mlir::Location location, const UpdateForm &form,
                  int64_t units, llvm::ArrayRef<std::string> states);

  /// Stores the new states that `isWanted` picks and that are not stored yet.
  void storeStates(llvm::function_ref<bool(mlir::Value)> isWanted);
  /// Stores the new states that no product is needed for.
  void storeEarlyStates();
  /// The parameter's new value, after the new values of all states.
  mlir::Value next();

  UpdateEmitter emitter;

private:
  struct State {
    std::string name;
    mlir::Value old, next; ///< in the equations
    bool isStored = false;
  };
  mlir::OpBuilder *builder;
  mlir::Location location;
  llvm::SmallVector<State> states;
};

} // namespace nano
