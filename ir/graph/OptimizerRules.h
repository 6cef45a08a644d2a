// What the numbers of optimizers keep to: one rule for the front end and for the verifiers of the
// ops that it makes.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <string>

namespace nano::graph {

/// What is wrong with the numbers of a nano.adam, which are f32 where they are used, e.g. "eps = 0
/// must be positive"; empty when nothing is.
std::string brokenRuleOfAdam(double beta1, double beta2, double eps, double weightDecay);

/// Likewise of a nano.muon.
std::string brokenRuleOfMuon(int64_t steps, llvm::ArrayRef<double> coefficients);

} // namespace nano::graph
