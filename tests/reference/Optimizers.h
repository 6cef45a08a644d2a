// Adam with decoupled weight decay, and Muon with its Newton–Schulz orthogonalisation.
#pragma once

#include "tests/reference/Tensor.h"

namespace nano::reference {

/// The constants of Adam; weightDecay 0 makes AdamW plain Adam.
struct AdamConstants {
  Real beta1, beta2, epsilon, weightDecay;
};

/// First and second moments of one parameter, zero (and empty until the first step) at the start.
struct AdamState {
  Vec m, v;
};

/// The first moment of a parameter and the second of its columns.
struct NorMuonState {
  Vec m, v;
};

/// One AdamW update of p at step t (from 1):
///   m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  m̂ = m/(1−β₁ᵗ),  v̂ = v/(1−β₂ᵗ),
///   p ← p − lr·(m̂/(√v̂ + ε) + wd·p).
void adamStep(Vec &p, const Vec &g, AdamState &state, const AdamConstants &constants, Real lr,
              int64_t t);

/// NS5 of u[rows, cols]: transposed if rows > cols, divided by (‖u‖_F + 1e-7), then five times
/// A = X·Xᵀ, B = b·A + c·A·A, X ← a·X + B·X with (a, b, c) = (3.4445, −4.7750, 2.0315).
Vec newtonSchulz5(const Vec &u, int64_t rows, int64_t cols);

/// One Muon update of p, a stack of matrices over its last two axes, with its buffer (empty before
/// the first step, which means 0):
///   b ← b + (1−μ)(g − b),  u = g + μ(b − g),  p ← p − lr·√max(1, rows/cols)·NS5(u).
void muonStep(Tensor &p, const Vec &g, Vec &buffer, Real lr, Real momentum);

} // namespace nano::reference
