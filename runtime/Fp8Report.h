// How well the scales of FP8 products fit what they see: what the plan's measuring program reports,
// as a table, as log lines, and as a file of static scales.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/plan/Plan.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// What one conversion to 8 bits sees.
struct ConversionFacts {
  float amax = 0;  ///< largest magnitude
  float scale = 0; ///< 0: one a block
  float cut = 0;   ///< share of elements beyond the format's largest number
  float lost = 0;  ///< share of elements that become zero and are not
};

/// A row of the report.
struct ScaledWeightFacts {
  const plan::ScaledWeight *weight = nullptr;
  std::array<ConversionFacts, 3> conversions; ///< of input, weight, gradient
  std::array<float, 3> errors;                ///< ‖y₈ − y‖/‖y‖ of y, ∂L/∂x, ∂L/∂W
};

/// Names of conversions and of errors, as logs have them.
inline constexpr std::array<const char *, 3> conversionNames = {"input", "weight", "gradient"};
inline constexpr std::array<const char *, 3> errorNames = {"forward", "input_gradient",
                                                           "weight_gradient"};

/// Measures a plan's FP8 products on a device.
class Fp8Meter {
public:
  /// BadInput, with the option's name, when the plan has nothing to measure.
  static Status check(const plan::Plan &plan, const std::string &option);

  explicit Fp8Meter(const plan::Plan &plan) : plan(plan) {}

  /// Runs the stage's measuring program on the micro-batch that each rank's device holds; all ranks
  /// call it together and find the same: of magnitudes and scales the largest, of shares the mean,
  /// of errors the root of the mean of their squares (all ranks have tensors of the same sizes).
  Status measure(Device &device, Communicator &communicator, const plan::Training &stage);
  /// What the last measurement found; empty before.
  const std::vector<ScaledWeightFacts> &last() const { return rows; }
  /// The last measurement for a person: a line a tensor.
  std::string table() const;
  /// A file of static scales, for nanoc compile --fp8-scales: twice the largest magnitude of all
  /// measurements over the largest number of e4m3, or of e5m2 for gradients. Failed when a tensor
  /// was zero each time. It lacks those that the plan does not
  /// convert.
  Result<std::string> scales() const;

private:
  /// Which tensors of the products with a weight are converted in some stage.
  std::array<bool, 3> convertedOf(const std::string &weight) const;
  std::array<float, 3> &largestOf(const std::string &weight);
  static Status combine(std::vector<float> &report, Communicator &communicator);

  const plan::Plan &plan;
  std::vector<ScaledWeightFacts> rows;
  /// Of all measurements, by weight, in the order in which they were first seen.
  std::vector<std::pair<std::string, std::array<float, 3>>> largest;
};

} // namespace nano
