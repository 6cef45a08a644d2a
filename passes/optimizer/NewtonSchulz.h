// Newton–Schulz iterations of Muon as products of stacks of matrices.
#pragma once

#include "ir/graph/GraphBuilder.h"

namespace nano {

/// Orthogonalizes stacks of matrices, each [rows, cols] or [count, rows, cols] with norms of at
/// most 1, in `muon`'s compute type; all have the same min(rows, cols).
///
/// `steps` times A = X·Xᵀ, B = b·A + c·A·A, X ← a·X + B·X. Where rows > cols the same iteration is
/// written for the transposed matrix without moving it: A = Xᵀ·X, X ← a·X + X·B. Jordan et al.
/// 2024. The polynomials B of all stacks are one product a step:
///
///   x : [4, 768, 768], y : [2, 3072, 768] ⇒ A : [6, 768, 768] of both, B of both
mlir::SmallVector<mlir::Value> orthogonalize(mlir::OpBuilder &builder, mlir::Location location,
                                             mlir::ArrayRef<mlir::Value> stacks,
                                             graph::MuonOp muon);

} // namespace nano
