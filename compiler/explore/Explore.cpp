// Reads the plan and what belongs to it, and writes the page.
#include "compiler/explore/Explore.h"

#include "base/OutputFile.h"
#include "compiler/explore/ComparisonJson.h"
#include "compiler/explore/Document.h"
#include "compiler/explore/Page.h"
#include "compiler/explore/RunFiles.h"
#include "compiler/inspect/StepFacts.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace nano::explore {
namespace {

/// Where the page goes unless it is told: beside the plan.
std::string outputOf(const Options &options) {
  if (!options.output.empty())
    return options.output;
  llvm::SmallString<128> path(options.plan);
  llvm::sys::path::replace_extension(path, "html");
  return path.str().str();
}

/// Writes the file; the line that says so.
Result<std::string> writePage(const std::string &path, const std::string &page) {
  Result<OutputFile> output = OutputFile::replace(path);
  if (!output)
    return output.error();
  if (Status status = output->append(page); !status)
    return status.error();
  if (Status status = output->finish(); !status)
    return status.error();
  return fmt::format("{}: {}, to open in a browser", path, inspect::bytesText(double(page.size())));
}

/// A page is about model lines; a plan without any would show half of nothing.
Status checkLines(const std::string &path, const plan::Plan &common) {
  bool hasLines = false;
  for (const plan::Kernel &kernel : common.kernels)
    for (const plan::Location &location : kernel.locations)
      hasLines = hasLines || location.line != 0;
  if (hasLines)
    return ok();
  return badInput(
      fmt::format("{}: its kernels name no model lines, which explore shows{}; compile the "
                  "model file, or IR that --stop-after has printed with --locations",
                  path, common.source.empty() ? ", and it lacks the model's text" : ""));
}

Result<std::string> runChecked(const Options &options) {
  Result<plan::PlanFile> file = plan::PlanFile::open(options.plan);
  if (!file)
    return file.error();
  if (Status status = checkLines(options.plan, file->common()); !status)
    return status.error();
  Result<machine::Machine> machine = inspect::machineFor(options.machine, file->common().target);
  if (!machine)
    return machine.error();
  Parts parts;
  parts.file = &*file;
  parts.name = options.plan;
  parts.machine = &*machine;
  parts.passes = options.passes;
  for (const std::string &path : options.runs) {
    Result<llvm::json::Value> run = readRunLog(path);
    if (!run)
      return run.error();
    parts.runs.push_back(std::move(*run));
  }
  if (!options.profile.empty()) {
    Result<llvm::json::Value> profile = readProfile(options.profile, *file);
    if (!profile)
      return profile.error();
    parts.profile = std::move(*profile);
  }
  if (!options.other.empty()) {
    Result<inspect::Comparison> found =
        inspect::compare({options.plan, options.other, 0, options.machine});
    if (!found)
      return found.error();
    parts.comparison = toJson(*found, options.plan, options.other);
  }
  Result<std::string> document = documentOf(parts);
  if (!document)
    return document.error();
  Result<std::string> page =
      pageOf(fmt::format("{} for {}", file->common().model, file->common().target), *document);
  if (!page)
    return page.error();
  return writePage(outputOf(options), *page);
}

} // namespace

/// An exit status.
static int tell(const Result<std::string> &written) {
  if (written) {
    fmt::print("{}\n", *written);
    return 0;
  }
  fmt::print(stderr, "nanoc: {}\n", written.error().message);
  return written.error().exitStatus();
}

int run(const Options &options) { return tell(runChecked(options)); }

void showFailure(const FailedCompilation &failed) {
  const Result<std::string> page = pageOf(
      fmt::format("{} for {}: failed", failed.model, failed.target), documentOfFailure(failed));
  (void)tell(page ? writePage(failed.output, *page) : page);
}

} // namespace nano::explore
