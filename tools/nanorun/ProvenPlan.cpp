// A run of one step of nanorun, whose log has the numbers.
#include "tools/nanorun/ProvenPlan.h"

#include "base/InputFile.h"
#include "base/OutputFile.h"
#include "runtime/Device.h"
#include "runtime/files/BuildCache.h"
#include "tools/nanorun/Child.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace nano {
namespace {

using nlohmann::json;

void say(std::string line) {
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  line = "nanorun: " + line + "\n";
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

/// A shard of a few tokens.
std::string shard() {
  constexpr int32_t magic = 20240520, version = 1, count = 64;
  int32_t header[256] = {magic, version, count};
  const uint16_t tokens[count] = {};
  std::string bytes(reinterpret_cast<const char *>(header), sizeof header);
  return bytes.append(reinterpret_cast<const char *>(tokens), sizeof tokens);
}

Status write(const std::string &path, const std::string &bytes) {
  Result<OutputFile> file = OutputFile::replace(path);
  if (!file)
    return file.error();
  if (Status status = file->append(bytes); !status)
    return status;
  return file->finish(OutputFile::Keep::IfNothingCrashes);
}

/// The reports of a log's steps, {"name": number}; null: the log has none.
json reportsOf(const std::string &log) {
  json found;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    json entry = json::parse(log.begin() + long(begin), log.begin() + long(end), nullptr,
                             /*allow_exceptions=*/false);
    begin = end + 1;
    if (entry.is_object() && entry.contains("reports") && entry["reports"].is_object())
      found.update(entry["reports"]);
  }
  return found;
}

/// What it says last, which is why it ended.
std::string lastLine(const std::string &path) {
  const Result<std::string> text = readInput(path, input::log);
  std::string line;
  for (size_t begin = 0; text && begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    if (end > begin)
      line = text->substr(begin, end - begin);
    begin = end + 1;
  }
  constexpr std::string_view who = "nanorun: ";
  return line.starts_with(who) ? line.substr(who.size()) : line;
}

/// Reports of the plan's checks, or why there are none.
struct Measured {
  json reports;
  std::string why;
};

Result<Measured> measure(const plan::Plan &plan, const ProofRequest &request) {
  const TemporaryFolder folder;
  if (folder.path.empty())
    return failed("no temporary folder can be made to check kernels in; set TMPDIR to one that can "
                  "be written");
  const std::string checks = folder.path + "/checks.plan", tokens = folder.path + "/t_0.bin",
                    log = folder.path + "/log.jsonl", errors = folder.path + "/errors";
  if (Status status = write(checks, plan.checks); !status)
    return status.error();
  if (Status status = write(tokens, shard()); !status)
    return status.error();
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  std::vector<std::string> command = {self,      checks, "--train", tokens,
                                      "--steps", "1",    "--log",   log};
  if (!request.device.empty())
    command.insert(command.end(), {"--device", request.device});
  Result<int> status = statusOf(
      command,
      {.output = "/dev/null", .errors = errors, .keepsLaunch = false, .most = request.most});
  if (!status)
    return status.error();
  if (*status == 128 + SIGKILL)
    return Measured{{}, fmt::format("it took more than {} s, or was killed", request.most.count())};
  if (*status > 128)
    return Measured{{}, fmt::format("it was ended by signal {}", *status - 128)};
  if (*status != 0)
    return Measured{{}, lastLine(errors)};
  Result<std::string> text = readInput(log, input::log);
  if (!text)
    return text.error();
  return Measured{reportsOf(*text), ""};
}

/// How far a kernel is off; nothing for what is no finite number.
std::optional<double> offBy(const plan::UnprovenKernel &kernel, const json &reports) {
  const auto found = reports.find(kernel.report);
  if (found == reports.end() || !found->is_number() || !std::isfinite(found->get<double>()))
    return std::nullopt;
  return found->get<double>();
}

/// Says what was found of each kernel; whether all may run.
bool judge(const std::vector<plan::UnprovenKernel> &kernels, const json &reports,
           const char *whence) {
  auto holds = [&](const plan::UnprovenKernel &kernel) {
    const std::optional<double> off = offBy(kernel, reports);
    return off && *off <= kernel.tolerance;
  };
  const bool all = std::all_of(kernels.begin(), kernels.end(), holds);
  for (const plan::UnprovenKernel &kernel : kernels) {
    const std::optional<double> off = offBy(kernel, reports);
    say(fmt::format("{}: {}: {}{}{}", kernel.line, kernel.about,
                    off ? fmt::format("it is off by {:.1e} on random inputs, {:.1e} is allowed",
                                      *off, kernel.tolerance)
                        : "its results on random inputs are not finite, or not all written",
                    whence,
                    all             ? ""
                    : holds(kernel) ? ": nanoc's own is used, since another kernel's is"
                                    : ": nanoc's own is used"));
  }
  return all;
}

} // namespace

Result<bool> isProven(const plan::PlanFile &file, const ProofRequest &request) {
  const plan::Plan &plan = file.common();
  if (plan.unproven.empty())
    return true;
  if (Result<plan::PlanFile> checks = file.checks(); !checks)
    return checks.error();
  const std::string device = request.device.empty() ? plan.target : request.device;
  Result<std::string> identity = identifyDevice(plan, device);
  if (!identity)
    return identity.error();
  BuildCache cache(BuildCache::defaultFolder(), ".checks", say,
                   {"checks of kernels", "every start makes them again", "it is made again"});
  const std::string key = BuildCache::keyOf({"checks 1", plan.checks, *identity});
  if (const std::optional<std::string> kept = cache.find(key)) {
    const json reports = json::parse(*kept, nullptr, /*allow_exceptions=*/false);
    if (reports.is_object())
      return judge(plan.unproven, reports, " (found by an earlier run)");
  }
  Result<Measured> measured = measure(plan, request);
  if (!measured)
    return measured.error();
  if (measured->why.empty() && measured->reports.is_object()) {
    cache.store(key, measured->reports.dump());
    return judge(plan.unproven, measured->reports, "");
  }
  const size_t others = plan.unproven.size() - 1;
  say(fmt::format("{}: {}{}: not checked, nanoc's own is used until a run can check it: {}",
                  plan.unproven[0].line, plan.unproven[0].about,
                  others ? fmt::format(", and {} more", others) : "",
                  measured->why.empty() ? "the run of the checks says nothing" : measured->why));
  return false;
}

Result<plan::PlanFile> provenPlan(plan::PlanFile file, const ProofRequest &request) {
  Result<bool> proven = isProven(file, request);
  if (!proven)
    return proven.error();
  return *proven ? std::move(file) : file.ours();
}

} // namespace nano
