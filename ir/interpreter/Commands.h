// Commands of the step dialect that say by graph ops what they compute.
#pragma once

#include "ir/interpreter/Interpreter.h"
#include "ir/step/Step.h"

namespace nano::interpreter {

/// What a task's body makes of the values of its `ins`: those of its `outs`.
mlir::FailureOr<llvm::SmallVector<TensorValue>>
interpret(step::TaskOp task, llvm::ArrayRef<TensorValue> ins, const Options &options = {});

/// What a product reads: its factors, their scales and what is added, those that there are.
llvm::SmallVector<mlir::Value> factorsOf(step::MatmulOp matmul);
/// The product, of the values of its `factorsOf`.
mlir::FailureOr<llvm::SmallVector<TensorValue>>
interpret(step::MatmulOp matmul, llvm::ArrayRef<TensorValue> factors, const Options &options = {});

} // namespace nano::interpreter
