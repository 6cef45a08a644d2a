// Chooses what runs where, and says what was found.
#include "runtime/ComparePlans.h"

#include "base/Target.h"
#include "runtime/Device.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

namespace nano {
namespace {

/// The variant for one rank.
Result<plan::Plan> ofOneRank(const plan::PlanFile &file, const std::string &option) {
  Result<plan::Plan> plan = file.plan(1);
  if (!plan)
    return badInput(fmt::format("{}: it runs one rank: {}", option, plan.error().message));
  return plan;
}

/// What runs a plan on a device.
ComparedRun runOn(const plan::Plan &plan, const plan::PlanFile &file, const std::string &name,
                  const std::string &device, const CompareRequest &request) {
  return {&plan, file.hash(), fmt::format("{} on {}", name, device), request.on(device),
          request.threads};
}

} // namespace

Result<PlanComparison> comparePlans(const plan::PlanFile &file, const CompareRequest &request,
                                    Console &console) {
  const std::string &other = request.other;
  const bool isDevice = targetOfDevice(other) != nullptr;
  const Result<plan::Plan> plan = ofOneRank(file, "--compare");
  if (!plan)
    return plan.error();
  const std::string device = request.device.empty() ? plan->target : request.device;
  CompareOptions options = request.runs;
  options.isSamePlan = isDevice;
  std::optional<plan::PlanFile> otherFile;
  std::optional<plan::Plan> otherPlan;
  ComparedRun a = runOn(*plan, file, request.plan, device, request), b;
  if (isDevice) {
    if (Status status = checkDevice(*plan, other); !status)
      return badInput(fmt::format("--compare: {}; or name a plan that was compiled for it",
                                  status.error().message));
    b = runOn(*plan, file, request.plan, other, request);
    if (other == device) {
      b.threads = 1;
      b.name += " again, with one thread";
      if (!options.tolerance)
        options.tolerance = 0;
    }
  } else {
    Result<plan::PlanFile> opened = request.open(other);
    if (!opened)
      return opened.error();
    otherFile = std::move(*opened);
    Result<plan::Plan> found = ofOneRank(*otherFile, "--compare " + other);
    if (!found)
      return found.error();
    otherPlan = std::move(*found);
    const bool isAsked = !request.device.empty() && checkDevice(*otherPlan, request.device);
    b = runOn(*otherPlan, *otherFile, other, isAsked ? request.device : otherPlan->target, request);
  }
  Result<StepComparison> found = compareRuns(a, b, options, console);
  if (!found)
    return found.error();
  PlanComparison comparison{toString(a, b, *found), ok()};
  if (found->firstDifference)
    comparison.agrees = failed(fmt::format("--compare: the runs differ, first in buffer '{}'",
                                           plan->buffers[found->firstDifference->a.buffer].name));
  return comparison;
}

} // namespace nano
