// Schedules as the runtime evaluates them: the body of a nano.scalar as an expression tree.
#pragma once

#include "ir/graph/Nano.h"
#include "runtime/plan/Plan.h"

namespace nano::codegen {

/// The value that the scalar's body yields. Errors, at the op: an operation that plans do not have;
/// a tree of more than 10,000 nodes.
mlir::FailureOr<plan::Expr> scalarExpr(graph::ScalarOp scalar);

} // namespace nano::codegen
