// Writes the equations of an update into a program, for one parameter as it is or for a stack of
// units.
#pragma once

#include "passes/optimizer/UpdateForm.h"

#include "mlir/IR/Builders.h"

#include <functional>

namespace nano {

/// Values of a form's equations in a program, written where they are first asked for.
///
///   as it is (units = 0)     %0 = nano.mul %p, %g : tensor<768x768xf32>
///   of 5 units               %0 = nano.mul %p, %g : tensor<5x768x768xf32>
class UpdateEmitter {
public:
  UpdateEmitter(mlir::OpBuilder &builder, mlir::Location location, const UpdateForm &form,
                int64_t units = 0)
      : builder(builder), location(location), form(form), units(units) {}

  const UpdateForm &updateForm() const { return form; }
  /// What an argument, or another value of the equations, is in the program.
  void set(mlir::Value value, mlir::Value written) { values[value] = written; }
  /// The same, written when it is first needed.
  void set(mlir::Value value, std::function<mlir::Value()> write) {
    deferred[value] = std::move(write);
  }
  /// The value in the program.
  mlir::Value get(mlir::Value value);
  /// What the equations yield for an argument, written as that is; it may be made of numbers alone.
  mlir::Value result(mlir::Value yielded, mlir::Value argument);
  /// Writes one op, which is not there yet.
  mlir::Value write(mlir::Operation *op);
  /// An operand of a varying op: uniform ones take the shape of those that vary.
  mlir::Value operand(mlir::Operation *op, mlir::Value value);
  /// The type of a varying value.
  mlir::RankedTensorType typeOf(mlir::Value value) const;

private:
  /// A uniform value repeated to [units, shape inside of a unit…].
  mlir::Value spread(mlir::Value value, mlir::RankedTensorType type, int64_t axis);

  mlir::OpBuilder &builder;
  mlir::Location location;
  const UpdateForm &form;
  int64_t units;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::DenseMap<mlir::Value, std::function<mlir::Value()>> deferred;
};

/// Makes of the equations what kernels and products compute: scales and sums become part of
/// products, dimensions of size 1 go where a sum has left them.
void simplifyEquations(graph::OptimizerOp op);

} // namespace nano
