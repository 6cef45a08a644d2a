// The rules of optimizers' numbers, each with its message.
#include "ir/graph/OptimizerRules.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

namespace nano::graph {

/// "eps = 1e-10", as a person writes the number.
static std::string given(llvm::StringRef name, double number) {
  return llvm::formatv("{0} = {1}", name, llvm::format("%.10g", number));
}

static bool isFiniteAsF32(double number) {
  return std::abs(number) <= double(std::numeric_limits<float>::max());
}

std::string brokenRuleOfAdam(double beta1, double beta2, double eps, double weightDecay) {
  for (auto [name, beta] : {std::pair("beta1", beta1), std::pair("beta2", beta2)})
    if (!(beta >= 0 && beta < 1))
      return given(name, beta) + " must lie in [0, 1)";
  if (!(eps > 0))
    return given("eps", eps) + " must be positive";
  // Kernels take smaller numbers for 0.
  if (eps < double(std::numeric_limits<float>::min()))
    return given("eps", eps) + " is 0 as f32";
  if (!(weightDecay >= 0))
    return given("weight decay", weightDecay) + " must not be negative";
  for (auto [name, number] : {std::pair("eps", eps), std::pair("weight decay", weightDecay)})
    if (!isFiniteAsF32(number))
      return given(name, number) + " is not finite as f32";
  return "";
}

std::string brokenRuleOfMuon(int64_t steps, llvm::ArrayRef<double> coefficients) {
  if (steps < 1 || steps > 100)
    return llvm::formatv("steps = {0} must be 1 to 100", steps);
  if (coefficients.size() != 3)
    return llvm::formatv("it needs three coefficients, has {0}", coefficients.size());
  for (double coefficient : coefficients)
    if (!isFiniteAsF32(coefficient))
      return given("a coefficient", coefficient) + " is not finite as f32";
  return "";
}

} // namespace nano::graph
