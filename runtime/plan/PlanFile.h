// Plans as files: writing, reading, checking and describing them. The format is specified in
// docs/plan-format.md. Reading never trusts the file: checksums first, then every field's type,
// then every index, range and name.
#pragma once

#include "base/Status.h"
#include "runtime/plan/Plan.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nano::plan {

/// The version of the format that `serialize` writes and the newest that `PlanFile` reads.
/// The newest that brought a field, or more where what a field means has changed since.
extern const uint32_t planVersion;

/// A plan file in memory. What its variants share is read at once; a variant when it is asked for.
class PlanFile {
public:
  /// The file at `path`. BadInput, naming the file, when it is missing, unreadable, not a plan,
  /// truncated, changed since it was written, or of a newer version.
  static Result<PlanFile> open(const std::string &path);
  /// The same of a file's bytes; errors are one line that starts with `name`.
  static Result<PlanFile> parse(std::string bytes, const std::string &name = "plan");

  /// As `planHash` of all variants.
  const std::string &hash() const { return digest; }
  /// What all variants share, with the numbers of ranks of all of them; the rest is at its default.
  /// Ranges and names are checked only in variants.
  const Plan &common() const { return shared; }
  /// The numbers of ranks of each variant.
  const std::vector<std::vector<int64_t>> &variants() const { return worlds; }

  /// The variant for `world` ranks, validated. BadInput when there is none, which lists those that
  /// there are, and when it breaks a rule of `validate`.
  Result<Plan> plan(int64_t world) const;
  /// All variants.
  Result<std::vector<Plan>> plans() const;

  /// Of a plan with unproven kernels, the two plans in it: the one that measures them, and this one
  /// without them. BadInput when one is no plan, has such kernels too, or is of something else.
  Result<PlanFile> checks() const;
  Result<PlanFile> ours() const;

private:
  Result<Plan> variant(size_t index) const;
  Result<PlanFile> inner(const std::string &bytes, const char *what) const;

  std::string name, digest;
  std::string bytes; ///< of the file
  Plan shared;
  std::vector<std::vector<int64_t>> worlds;
  std::vector<std::pair<size_t, size_t>> texts; ///< offset and size of each variant in `bytes`
};

/// Plans that differ only in what a file has for each variant as the bytes of a plan file. Equal
/// plans give equal bytes, and what `PlanFile` reads from them gives the same bytes again.
std::string serialize(std::span<const Plan> variants);
std::string serialize(const Plan &plan);

/// The first variant of the plan file that `bytes` hold.
Result<Plan> parse(std::string_view bytes, const std::string &name = "plan");

/// What must hold of every plan beyond the types of its fields: indices in range, buffers inside
/// the arena at aligned offsets, references and matrix operands inside their buffers, kernels
/// present in the code, names unique and known. An error says which item breaks which rule.
Status validate(const Plan &plan);
/// The same of all plans of one file: they share what a file has once, and no number of ranks is
/// that of two.
Status validate(std::span<const Plan> variants);

/// Validates the plans and publishes them at `path`, as OutputFile::replace does: whoever opens it
/// at any moment finds the old file or the whole new one. BadInput when the place cannot be
/// written, and for a device or a pipe.
Status writePlanFile(std::span<const Plan> variants, const std::string &path);
Status writePlanFile(const Plan &plan, const std::string &path);

/// Reads the file at `path` and its variant for `world` ranks; errors as those of `PlanFile`.
Result<Plan> readPlanFile(const std::string &path, int64_t world);

/// 32 hex digits (XXH3, 128 bits) of the file's bytes: equal for equal plans, whoever computes it.
std::string planHash(std::span<const Plan> variants);
std::string planHash(const Plan &plan);

/// The plans of a file as text for people, one item a line in the plan's order except buffers
/// (largest first): model, hyperparameters, kernels; then of each variant the numbers of ranks,
/// arena and buffers with their model lines, states, scalars, programs with every command.
std::string describe(std::span<const Plan> variants);
std::string describe(const Plan &plan);

} // namespace nano::plan
