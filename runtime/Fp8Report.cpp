// Reads, shows and keeps what the measuring program reports.
#include "runtime/Fp8Report.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace nano {

namespace {
/// Powers of two that calibrated scales leave for magnitudes that were not seen.
constexpr double headroom = 2;
constexpr std::array<double, 3> largestNumbers = {448, 448, 57344};
} // namespace

Status Fp8Meter::check(const plan::Plan &plan, const std::string &option) {
  if (plan.training.measure.empty())
    return badInput(option + ": no matrix product of the plan runs in FP8; compile it with "
                             "-D fp8=head|mlp|all or -D fp8.<parameter>=current");
  return ok();
}

Status Fp8Meter::measure(Device &device) {
  const plan::Training &training = plan.training;
  if (Status status = device.run(training.measure); !status)
    return status;
  std::vector<float> report(training.scaledWeights.size() * size_t(plan::reportColumns));
  if (Status status =
          device.read(training.reportBuffer, 0, report.data(), report.size() * sizeof(float));
      !status)
    return status;
  rows.resize(training.scaledWeights.size());
  largest.resize(rows.size());
  const float *number = report.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    ScaledWeightFacts &row = rows[i];
    row.weight = &training.scaledWeights[i];
    for (ConversionFacts &facts : row.conversions) {
      facts = {number[0], number[1], number[2], number[3]};
      number += 4;
    }
    for (float &error : row.errors)
      error = *number++;
    for (size_t k = 0; k < largest[i].size(); ++k)
      largest[i][k] = std::max(largest[i][k], row.conversions[k].amax);
  }
  return ok();
}

std::string Fp8Meter::table() const {
  size_t width = 6;
  for (const ScaledWeightFacts &row : rows)
    width = std::max(width, row.weight->name.size());
  std::string text =
      fmt::format("{:{}}  {:8}  {:8}  {:>10}  {:>10}  {:>8}  {:>8}  {}", "weight", width, "scaling",
                  "tensor", "largest", "scale", "cut off", "lost", "error of the product");
  static constexpr std::array<const char *, 3> products = {"forward", "∂input", "∂weight"};
  for (const ScaledWeightFacts &row : rows)
    for (size_t k = 0; k < 3; ++k) {
      const ConversionFacts &facts = row.conversions[k];
      const std::string scale = facts.scale > 0  ? fmt::format("{:.4g}", facts.scale)
                                : facts.amax > 0 ? "blocks"
                                                 : "";
      text +=
          fmt::format("\n{:{}}  {:8}  {:8}  {:>10.4g}  {:>10}  {:>7.3f}%  {:>7.3f}%  {:6.2f}% {}",
                      k == 0 ? row.weight->name : "", width, k == 0 ? row.weight->recipe : "",
                      conversionNames[k], facts.amax, scale, 100 * facts.cut, 100 * facts.lost,
                      100 * row.errors[k], products[k]);
    }
  return text;
}

Result<std::string> Fp8Meter::scales() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::object();
  for (size_t i = 0; i < rows.size(); ++i) {
    nlohmann::ordered_json entry;
    for (size_t k = 0; k < 3; ++k) {
      if (!(largest[i][k] > 0))
        return failed(fmt::format("--calibrate: the {} of the products with '{}' was zero in every "
                                  "measured step; train more steps",
                                  conversionNames[k], rows[i].weight->name));
      entry[conversionNames[k]] = headroom * double(largest[i][k]) / largestNumbers[k];
    }
    list[rows[i].weight->name] = entry;
  }
  nlohmann::ordered_json file{
      {"format", "nano fp8 scales"}, {"version", 1}, {"model", plan.model}, {"scales", list}};
  return file.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace nano
