// Signatures are checked here; a plan is made again by nanoc, a program beside this one: nanorun
// itself holds no compiler.
#include "tools/nanorun/PlanTrust.h"

#include "base/InputFile.h"
#include "runtime/plan/Signature.h"
#include "tools/nanorun/Child.h"

#include <filesystem>
#include <fmt/format.h>
#include <system_error>

namespace nano {
namespace {

namespace fs = std::filesystem;

/// What nanoc makes of the model with the options that the plan names, held against its bytes: what
/// nanoc itself has read of the plan counts for nothing.
Status checkRebuilt(const std::string &path, const std::string &bytes, const std::string &model) {
  std::error_code error;
  const fs::path nanoc = fs::read_symlink("/proc/self/exe", error).parent_path() / "nanoc";
  if (!fs::exists(nanoc, error))
    return badInput(fmt::format("--rebuild {}: {} is not there; install the compiler beside "
                                "nanorun, or compare on a machine that has it, by nanoc compile "
                                "--verify",
                                model, nanoc.string()));
  const TemporaryFolder folder;
  if (folder.path.empty())
    return badInput("--rebuild: no temporary folder can be made; set TMPDIR to one that can be "
                    "written");
  const std::string rebuilt = folder.path + "/rebuilt.plan";
  Result<int> status =
      statusOf({nanoc.string(), "compile", model, "--verify", path, "-o", rebuilt});
  if (!status)
    return failed("--rebuild: " + status.error().message);
  if (*status > 1)
    return badInput(fmt::format(
        "--rebuild {}: nanoc ended with status {}; its message stands above", model, *status));
  Result<std::string> made = readInput(rebuilt, input::plan);
  if (!made)
    return failed(fmt::format("--rebuild {}: nanoc made no plan; its message stands above", model));
  if (*made != bytes)
    return failed(
        fmt::format("{}: is not what this machine's nanoc makes of {}; what differs stands "
                    "above. A plan that was compiled with more than -D, --target and "
                    "--world is compared by nanoc compile --verify with its options",
                    path, model));
  return ok();
}

} // namespace

Result<plan::PlanFile> openTrusted(const std::string &path, const PlanTrust &trust) {
  std::vector<plan::PublicKey> keys;
  for (const std::string &file : trust.keys) {
    Result<plan::PublicKey> key = plan::readPublicKey(file);
    if (!key)
      return badInput("--trust " + key.error().message);
    keys.push_back(std::move(*key));
  }
  Result<std::string> bytes = readInput(path, input::plan);
  if (!bytes)
    return bytes.error();
  if (!keys.empty())
    if (Status status = plan::checkSignature(path, *bytes, keys); !status)
      return status.error();
  if (!trust.model.empty())
    if (Status status = checkRebuilt(path, *bytes, trust.model); !status)
      return status.error();
  return plan::PlanFile::parse(std::move(*bytes), path);
}

} // namespace nano
