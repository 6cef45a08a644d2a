// Reads, shows and keeps what the measuring program reports.
#include "runtime/Fp8Report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

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

/// Makes what this rank reports what all of them do.
Status Fp8Meter::combine(std::vector<float> &report, Communicator &communicator) {
  const int world = communicator.world();
  if (world == 1)
    return ok();
  // By column: three conversions of (largest, scale, cut, lost), then errors.
  auto columnOf = [](size_t i) { return i % size_t(plan::reportColumns); };
  auto isLargest = [&](size_t i) { return columnOf(i) < 12 && columnOf(i) % 4 < 2; };
  auto isError = [&](size_t i) { return columnOf(i) >= 12; };
  std::vector<float> largest = report, mean = report;
  for (size_t i = 0; i < report.size(); ++i)
    mean[i] = (isError(i) ? report[i] * report[i] : report[i]) / float(world);
  const auto count = int64_t(report.size());
  for (auto [values, how] : {std::pair(&largest, Combine::Max), std::pair(&mean, Combine::Sum)})
    if (Status status = communicator.allReduce(values->data(), count, plan::DType::F32, how,
                                               plan::Ranks::All, "FP8 measurements");
        !status)
      return status;
  for (size_t i = 0; i < report.size(); ++i)
    report[i] = isLargest(i) ? largest[i] : isError(i) ? std::sqrt(mean[i]) : mean[i];
  return ok();
}

std::array<float, 3> &Fp8Meter::largestOf(const std::string &weight) {
  auto found = std::find_if(largest.begin(), largest.end(),
                            [&](const auto &each) { return each.first == weight; });
  if (found == largest.end())
    found = largest.insert(found, {weight, {}});
  return found->second;
}

Status Fp8Meter::measure(Device &device, Communicator &communicator,
                         const plan::Training &training) {
  if (Status status = device.run(training.measure); !status)
    return status;
  std::vector<float> report(training.scaledWeights.size() * size_t(plan::reportColumns));
  if (Status status =
          device.read(training.reportBuffer, 0, report.data(), report.size() * sizeof(float));
      !status)
    return status;
  if (Status status = combine(report, communicator); !status)
    return status;
  rows.resize(training.scaledWeights.size());
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
    std::array<float, 3> &seen = largestOf(row.weight->name);
    for (size_t k = 0; k < seen.size(); ++k)
      seen[k] = std::max(seen[k], row.conversions[k].amax);
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
      const bool isConverted = row.weight->converted[k];
      const std::string scale = !isConverted      ? "not 8-bit"
                                : facts.scale > 0 ? fmt::format("{:.4g}", facts.scale)
                                : facts.amax > 0  ? "blocks"
                                                  : "";
      text +=
          fmt::format("\n{:{}}  {:8}  {:8}  {:>10.4g}  {:>10}  {:>7.3f}%  {:>7.3f}%  {:6.2f}% {}",
                      k == 0 ? row.weight->name : "", width, k == 0 ? row.weight->recipe : "",
                      conversionNames[k], facts.amax, scale, 100 * facts.cut, 100 * facts.lost,
                      100 * row.errors[k], products[k]);
    }
  return text;
}

std::array<bool, 3> Fp8Meter::convertedOf(const std::string &weight) const {
  std::array<bool, 3> converted{};
  for (const plan::Training *stage : plan::stagesOf(plan))
    for (const plan::ScaledWeight &scaled : stage->scaledWeights)
      for (size_t k = 0; scaled.name == weight && k < converted.size(); ++k)
        converted[k] |= scaled.converted[k];
  return converted;
}

Result<std::string> Fp8Meter::scales() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::object();
  for (const auto &[weight, seen] : largest) {
    nlohmann::ordered_json entry;
    const auto converted = convertedOf(weight);
    for (size_t k = 0; k < 3; ++k) {
      if (!converted[k])
        continue; // no product of the plan reads it in 8 bits, so that it was not seen
      if (!(seen[k] > 0))
        return failed(fmt::format("--calibrate: the {} of the products with '{}' was zero in every "
                                  "measured step; train more steps",
                                  conversionNames[k], weight));
      entry[conversionNames[k]] = headroom * double(seen[k]) / largestNumbers[k];
    }
    list[weight] = entry;
  }
  nlohmann::ordered_json file{
      {"format", "nano fp8 scales"}, {"version", 1}, {"model", plan.model}, {"scales", list}};
  return file.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace nano
