// config.json of a HuggingFace folder: held against what the plan's model states, and written from
// it.
#pragma once

#include "base/Status.h"
#include "runtime/plan/Interchange.h"

#include <string>
#include <vector>

namespace nano {

/// Checks the folder's config.json against the settings. BadInput, one line: the file is missing or
/// no JSON, a setting has another value (the line names all and the -D options that fit), or an
/// object holds settings that the model does not know, of an object of which it knows some.
Status checkConfig(const std::string &folder, const std::vector<plan::ConfigField> &fields);

/// The text of a config.json with the settings that are written. `type`: of the parameters, as
/// PyTorch spells it.
std::string configText(const std::vector<plan::ConfigField> &fields, const std::string &type);

} // namespace nano
