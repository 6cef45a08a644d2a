// The texts of a plan file: all of a plan but its code and its source, as JSON; once what all
// variants share, then each variant. Internal to runtime/plan; docs/plan-format.md lists the keys.
#pragma once

#include "runtime/plan/Plan.h"

#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace nano::plan {

/// What is wrong with a field: "programs[0].commands[3].launch: missing".
struct FieldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the variants, at least one, share, and their numbers of ranks. One item of each list a
/// line; some fields are left out where they have their default.
std::string commonText(std::span<const Plan> variants);
/// The rest of one variant.
std::string variantText(const Plan &plan);

/// The fields of an object for people, as keys and JSON, but those that are `said` otherwise and
/// those that are as by default: ", eosToken 50256, events [{…}]"; empty where there are none.
template <typename S>
std::string otherFields(const S &object, std::initializer_list<std::string_view> said);
/// The same of what all variants share, and of what one has to itself.
std::string otherFieldsOfAll(const Plan &plan, std::initializer_list<std::string_view> said);
std::string otherFieldsOfVariant(const Plan &plan, std::initializer_list<std::string_view> said);

/// Fill the fields of `plan` that are in the text, and the numbers of ranks of each variant. Throw
/// FieldError for text that is not JSON, and for a missing, unknown or ill-typed field; ranges and
/// names are left to `validate`.
void readCommon(std::string_view text, Plan &plan, std::vector<std::vector<int64_t>> &variants);
void readVariant(std::string_view text, Plan &plan);

} // namespace nano::plan
