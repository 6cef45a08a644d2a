// Reads how a plan was compiled from what it holds.
#include "compiler/Rebuild.h"

#include "runtime/plan/PlanFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace nano {

namespace fs = std::filesystem;

namespace {

/// The path by which a plan's locations name the model file; its own where none does.
std::string nameIn(const std::vector<plan::Plan> &plans, const std::string &model) {
  const fs::path wanted = fs::path(model).filename();
  for (const plan::Plan &plan : plans) {
    auto isWanted = [&](const plan::Location &at) {
      return fs::path(at.file).filename() == wanted;
    };
    for (const plan::Kernel &kernel : plan.kernels)
      for (const plan::Location &at : kernel.locations)
        if (isWanted(at))
          return at.file;
    for (const plan::State &state : plan.states)
      if (isWanted(state.location))
        return state.location.file;
  }
  return model;
}

} // namespace

Result<CompileOptions> optionsToRebuild(const std::string &planPath, CompileOptions options) {
  Result<plan::PlanFile> file = plan::PlanFile::open(planPath);
  if (!file)
    return file.error();
  Result<std::vector<plan::Plan>> plans = file->plans();
  if (!plans)
    return plans.error();
  const plan::Plan &common = file->common();
  if (options.pipeline.target.empty())
    options.pipeline.target = common.target;
  if (options.worlds.empty())
    options.worlds = common.worlds;
  for (const plan::Hyperparameter &each : common.hyperparameters) {
    auto isOf = [&](const auto &given) { return given.first == each.name; };
    if (each.overridden && std::none_of(options.overrides.begin(), options.overrides.end(), isOf))
      options.overrides.emplace_back(each.name, each.value);
  }
  for (const plan::UnprovenKernel &kernel : common.unproven)
    options.unproven.insert(kernel.report);
  const std::string name = nameIn(*plans, options.model);
  if (name != options.model)
    options.knownAs = name;
  options.quiet = true;
  return options;
}

} // namespace nano
