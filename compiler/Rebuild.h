// `nanoc compile MODEL.cpp --verify OUT.plan`: how a plan says that it was compiled.
#pragma once

#include "base/Status.h"
#include "compiler/Driver.h"

#include <string>

namespace nano {

/// The options to make the plan at `planPath` again. What `options` leave open is filled in from
/// the plan: target, `worlds` where empty, overrides by name, and by which path its locations name
/// the model file, wherever that lies now. BadInput where it is no plan.
Result<CompileOptions> optionsToRebuild(const std::string &planPath, CompileOptions options);

} // namespace nano
