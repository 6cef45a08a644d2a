// The mapping to other programs' checkpoints as JSON in a plan file. Internal to runtime/plan;
// docs/plan-format.md lists the keys.
#pragma once

#include "runtime/plan/Interchange.h"
#include "runtime/plan/JsonNode.h"

#include <nlohmann/json_fwd.hpp>

namespace nano::plan {

nlohmann::ordered_json toJson(const Interchange &interchange);
/// Throws FieldError for a missing, unknown or ill-typed field.
Interchange readInterchange(const JsonNode &node);

} // namespace nano::plan
