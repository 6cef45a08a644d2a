// Plans as files: writing, reading, checking and describing them. The format is specified in
// docs/plan-format.md. Reading never trusts the file: checksums first, then every field's type,
// then every index, range and name.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <string>
#include <string_view>

namespace nano::plan {

/// The version of the format that `serialize` writes and the newest that `parse` reads.
inline constexpr uint32_t planVersion = 2;

/// The plan as the bytes of a plan file. Equal plans give equal bytes, and
/// `serialize(*parse(serialize(p))) == serialize(p)`.
std::string serialize(const Plan &plan);

/// The plan that `bytes` hold, validated. Errors (BadInput) are one line that starts with `name`,
/// the file's name for the user.
Result<Plan> parse(std::string_view bytes, const std::string &name = "plan");

/// What must hold of every plan beyond the types of its fields: indices in range, buffers inside
/// the arena at aligned offsets, references and matrix operands inside their buffers, kernels
/// present in the code, names unique and known. An error says which item breaks which rule.
Status validate(const Plan &plan);

/// Validates the plan and publishes it at `path`: written beside it, fsynced, renamed over it,
/// directory fsynced; whoever opens `path` at any moment finds the old file or the whole new one.
/// BadInput when the place cannot be written.
Status writePlanFile(const Plan &plan, const std::string &path);

/// Reads and validates the plan file at `path`. BadInput, naming the file, when it is missing,
/// unreadable, not a plan, truncated, changed since it was written, of a newer version, or breaks a
/// rule of `validate`.
Result<Plan> readPlanFile(const std::string &path);

/// 32 hex digits (XXH3, 128 bits) of the plan's serialized bytes: equal for equal plans, whoever
/// computes it.
std::string planHash(const Plan &plan);

/// The plan as text for people, one item a line in the plan's order except buffers (largest first):
/// model, worlds, hyperparameters, arena and buffers with their model lines, states, scalars,
/// kernels, programs with every command.
std::string describe(const Plan &plan);

} // namespace nano::plan
