// The `nano` dialect in C++: see NanoOps.td for what its ops mean.
#pragma once

#include "ir/graph/UnaryFunctions.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace nano::graph {

/// Marks an op with float operands that has no derivative on purpose.
template <typename ConcreteOp>
class NotDifferentiable : public mlir::OpTrait::TraitBase<ConcreteOp, NotDifferentiable> {};

/// Marks an op that computes each element of its results from the elements at the same place of its
/// operands.
template <typename ConcreteOp>
class ElementwiseOp : public mlir::OpTrait::TraitBase<ConcreteOp, ElementwiseOp> {};

/// Marks an op that is a kernel by itself: no other op is computed in it.
template <typename ConcreteOp>
class WholeKernelOp : public mlir::OpTrait::TraitBase<ConcreteOp, WholeKernelOp> {};

} // namespace nano::graph

#include "ir/graph/NanoOpsDialect.h.inc"
#include "ir/graph/NanoOpsEnums.h.inc"
#include "ir/graph/NanoOpsInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/graph/NanoOpsAttrs.h.inc"
#define GET_OP_CLASSES
#include "ir/graph/NanoOps.h.inc"
