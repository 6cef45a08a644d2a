// The metadata section of a plan file: all of a plan but its code and its source, as JSON text.
// Internal to runtime/plan; docs/plan-format.md lists the keys.
#pragma once

#include "runtime/plan/Plan.h"

#include <stdexcept>
#include <string>
#include <string_view>

namespace nano::plan {

/// What is wrong with a field of the metadata: "programs[0].commands[3].launch: missing".
struct FieldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The metadata text, one item of each list a line. Fields at their default are left out of
/// commands.
std::string metadataText(const Plan &plan);

/// Fills everything of `plan` but `code` and `source`. Throws FieldError for text that is not JSON,
/// and for a missing, unknown or ill-typed field; ranges and names are left to `validate`.
void readMetadata(std::string_view text, Plan &plan);

} // namespace nano::plan
