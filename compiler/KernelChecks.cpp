// A run of one step of nanorun, whose log has the numbers.
#include "compiler/KernelChecks.h"

#include "base/Target.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <tuple>

namespace nano {

using frontend::KernelCheck;
using frontend::ModelError;

CheckFolder::CheckFolder() {
  llvm::SmallString<128> made;
  if (const std::error_code error = llvm::sys::fs::createUniqueDirectory("nanoc-checks", made))
    throw ModelError(fmt::format("no temporary folder can be made to check kernels in: {}; set "
                                 "TMPDIR to one that can be written",
                                 error.message()));
  path = made.str().str();
}

CheckFolder::~CheckFolder() { std::ignore = llvm::sys::fs::remove_directories(path); }

namespace {

constexpr const char *checksFailed =
    "a check of the model's own kernels on random inputs failed: {}";

/// A shard of a few tokens.
void writeShard(const std::string &path) {
  constexpr int32_t magic = 20240520, version = 1, count = 64;
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  int32_t header[256] = {magic, version, count};
  const uint16_t tokens[count] = {};
  if (!error) {
    file.write(reinterpret_cast<const char *>(header), sizeof header);
    file.write(reinterpret_cast<const char *>(tokens), sizeof tokens);
    file.close();
  }
  if (error || file.has_error()) {
    file.clear_error();
    throw ModelError(fmt::format("{}: cannot be written; free some space there", path));
  }
}

/// The first line of a file, without who says it.
std::string firstLine(const std::string &path) {
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return "";
  llvm::StringRef line = (*text)->getBuffer().split('\n').first;
  line.consume_front("nanorun: ");
  return line.str();
}

/// Runs the folder's plan on a device, and adds what it finds. Returns why it cannot run there:
/// nanorun's line where that ended with the status of bad input, else nothing.
std::optional<std::string> runOn(const std::string &device, const CheckFolder &folder,
                                 std::map<std::string, std::optional<double>> &found) {
  std::error_code error;
  const std::string runner =
      (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "nanorun").string();
  if (!llvm::sys::fs::can_execute(runner))
    throw ModelError(
        fmt::format("{}: is missing, and kernels are checked by it; build it", runner));
  writeShard(folder.path + "/t_0.bin");
  const std::string shards = folder.path + "/t_*.bin", log = folder.path + "/log.jsonl",
                    errors = folder.path + "/errors";
  const std::string plan = folder.plan();
  std::vector<llvm::StringRef> words = {runner, plan,    "--train", shards,     "--steps",
                                        "1",    "--log", log,       "--device", device};
  const std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(""),
                                                      llvm::StringRef(errors)};
  constexpr int badInput = 2;
  if (const int status = llvm::sys::ExecuteAndWait(runner, words, std::nullopt, redirects);
      status == badInput)
    return firstLine(errors);
  else if (status != 0)
    throw ModelError(fmt::format(checksFailed, firstLine(errors)));
  auto text = llvm::MemoryBuffer::getFile(log);
  if (!text)
    throw ModelError(fmt::format("{}: nanorun wrote no log", log));
  for (llvm::StringRef rest = (*text)->getBuffer(); !rest.empty();) {
    auto [line, behind] = rest.split('\n');
    rest = behind;
    llvm::Expected<llvm::json::Value> entry = llvm::json::parse(line);
    if (!entry) {
      llvm::consumeError(entry.takeError());
      continue;
    }
    const llvm::json::Object *object = entry->getAsObject();
    const llvm::json::Object *reports = object ? object->getObject("reports") : nullptr;
    if (!reports)
      continue;
    for (const auto &[name, value] : *reports)
      found[name.str()] = value.getAsNumber();
  }
  return std::nullopt;
}

} // namespace

CheckNumbers runChecks(const std::vector<KernelCheck> &checks, const std::string &target,
                       WriteChecks write) {
  CheckNumbers numbers;
  auto make = [&](const std::set<std::string> &without) {
    const CheckFolder folder;
    write(folder, without);
    std::optional<std::string> unable =
        runOn(std::string(targetOf(target).checkDevice), folder, numbers.found);
    if (!unable)
      return true;
    const std::string second(targetOf(target).secondDevice);
    if (second.empty())
      throw ModelError(fmt::format(checksFailed, *unable));
    if (without.size() + 1 < checks.size())
      return false;
    const std::optional<std::string> noGpu = runOn(second, folder, numbers.found);
    if (noGpu)
      for (const KernelCheck &check : checks)
        if (!without.count(check.name))
          numbers.unmade[check.name] = fmt::format("{}, and on a GPU: {}", *unable, *noGpu);
    return true;
  };
  if (make({}))
    return numbers;
  // Each by itself, so that one text keeps no other from being checked.
  for (const KernelCheck &check : checks) {
    std::set<std::string> others;
    for (const KernelCheck &other : checks)
      if (other.name != check.name)
        others.insert(other.name);
    make(others);
  }
  return numbers;
}

CheckVerdict judgeChecks(const std::vector<KernelCheck> &checks, const CheckNumbers &numbers) {
  std::set<uint32_t> openKernels;
  for (const KernelCheck &check : checks)
    if (check.isReplacement && numbers.unmade.count(check.name))
      openKernels.insert(check.kernel);
  CheckVerdict verdict;
  for (const KernelCheck &check : checks) {
    if (const auto why = numbers.unmade.find(check.name); why != numbers.unmade.end()) {
      const bool isOpen = openKernels.count(check.kernel) > 0;
      fmt::print(stderr, "nanoc: {}: remark: {}: not checked: {}{}\n", check.line, check.about,
                 why->second,
                 isOpen ? "; nanorun checks it when a run begins, and uses nanoc's own where it is "
                          "off"
                        : "");
      if (isOpen)
        verdict.unproven.insert(check.name);
      continue;
    }
    const auto number = numbers.found.find(check.name);
    const std::optional<double> off = number == numbers.found.end() ? std::nullopt : number->second;
    const bool holds = off && *off <= check.tolerance;
    if (check.isReplacement) {
      fmt::print(stderr, "nanoc: {}: remark: {}: {}\n", check.line, check.about,
                 holds ? fmt::format("it differs by {:.1e} on random inputs, {:.1e} is allowed",
                                     *off, check.tolerance)
                 : off ? fmt::format("it differs by {:.1e} on random inputs, {:.1e} is allowed: "
                                     "nanoc's own is used",
                                     *off, check.tolerance)
                       : std::string("its results on random inputs are not finite, or not all "
                                     "written: nanoc's own is used"));
      if (!holds)
        verdict.refused.insert(check.name);
      continue;
    }
    if (!off)
      throw ModelError(fmt::format("{}: {}: its results on random inputs, or their derivative, are "
                                   "not finite, or not all written",
                                   check.line, check.about));
    if (!holds)
      throw ModelError(
          fmt::format("{}: {}: its derivative is off by {:.2f} from finite differences "
                      "on random inputs, {} is allowed",
                      check.line, check.about, *off, check.tolerance));
  }
  return verdict;
}

} // namespace nano
