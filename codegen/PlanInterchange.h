// The mapping to other programs' checkpoints as an attribute of the module, which the front end
// writes and plans take over.
#pragma once

#include "runtime/plan/Interchange.h"

#include "mlir/IR/BuiltinOps.h"

namespace nano {

/// Sets the attribute; nothing where the model says nothing.
void writeInterchange(mlir::ModuleOp module, const plan::Interchange &interchange);
/// What it says; empty without it. Fails, with an error at the module, when it has another form.
mlir::FailureOr<plan::Interchange> readInterchange(mlir::ModuleOp module);

} // namespace nano
