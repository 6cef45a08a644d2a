// Sums along rows that need not wait for others.
#pragma once

#include "passes/row/RowForm.h"

namespace nano::kernels {

/// Takes sums along the rows of a form's task apart where that makes a row's reductions follow each
/// other fewer times: a sum of products of numbers that a row's other reductions give, and of
/// elements that need fewer of these, is as many sums of such elements,
///
///     Σ (h·r + m·(x − μ))  ⇒  r·Σ h + m·Σ (x − μ),    r and m one number a row,
///
/// which a kernel can add up together with what r and m are made from; of the differences from a
/// row's mean the sum is 0. Says whether it changed anything; the form is of the ops before then.
bool sumEarly(const RowForm &form);

} // namespace nano::kernels
