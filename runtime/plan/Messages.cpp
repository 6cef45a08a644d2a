// Messages that several devices share.
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace nano::plan {
namespace {

std::string gibibytes(uint64_t bytes) {
  char text[32];
  if (bytes >= uint64_t(1) << 29)
    std::snprintf(text, sizeof text, "%.1f GiB", double(bytes) / double(uint64_t(1) << 30));
  else
    std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / double(uint64_t(1) << 20));
  return text;
}

} // namespace

std::string textOf(const Location &location) {
  return location.line ? location.file + ":" + std::to_string(location.line) : location.file;
}

std::vector<Location> linesOf(const Plan &plan, const Command &command) {
  std::vector<Location> lines = {command.location};
  if (const auto *launch = command.as<Launch>(); launch && !command.location.line)
    lines = plan.kernels[launch->kernel].locations;
  std::erase_if(lines, [](const Location &location) { return location.line == 0; });
  return lines;
}

Location lineOf(const Plan &plan, const Command &command) {
  const std::vector<Location> lines = linesOf(plan, command);
  return lines.empty() ? command.location : lines.front();
}

std::string placeOf(const Plan &plan, const Program &program, size_t index) {
  const Command &command = program.commands[index];
  std::string where = "program '" + program.name + "', command " + std::to_string(index);
  if (!command.label.empty())
    where += " '" + command.label + "'";
  std::string lines;
  for (const Location &location : linesOf(plan, command))
    lines += (lines.empty() ? " (" : ", ") + textOf(location);
  return where + lines + (lines.empty() ? "" : ")");
}

Error inCommand(const Plan &plan, const Program &program, size_t command, const Error &error) {
  return {error.kind, placeOf(plan, program, command) + ": " + error.message};
}

Error outOfMemory(const Plan &plan, int ranks, uint64_t available, uint64_t besides) {
  std::vector<const Buffer *> order;
  for (const Buffer &buffer : plan.buffers)
    order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(),
                   [](auto *a, auto *b) { return a->bytes > b->bytes; });
  std::string text = "out of memory: the plan needs " + gibibytes(plan.arenaBytes + besides);
  if (ranks > 1)
    text += " for each of " + std::to_string(ranks) + " ranks";
  text += " and " + gibibytes(available) + " are available; largest buffers: ";
  // Layers repeat each other: one buffer a model line says more.
  std::set<std::pair<std::string, uint32_t>> lines;
  size_t shown = 0;
  for (const Buffer *buffer : order) {
    if (shown == 4)
      break;
    const Location &at = buffer->location;
    if (at.line && !lines.emplace(at.file, at.line).second)
      continue;
    text += (shown++ ? ", " : "") + buffer->name + " " + gibibytes(buffer->bytes);
    if (at.line)
      text += " (" + textOf(at) + ")";
  }
  text += "; compile the model with a smaller seq_len or val_seq_len (-D seq_len=...)";
  if (ranks > 1)
    text += ", or use fewer ranks";
  return badInput(text);
}

std::string nameOfExchange(const Plan &plan, const Command &command, const Ref &part) {
  const Buffer &buffer = plan.buffers[part.buffer];
  const Location &at = command.location.line ? command.location : buffer.location;
  return at.line ? buffer.name + " (" + textOf(at) + ")" : buffer.name;
}

std::string indexOutOfRange(const IndexChecks &checks, const int32_t *numbers) {
  for (const IndexChecks::Check &check : checks.list) {
    const int32_t number = *numbers++;
    if (number >= 0 && number < check.bound)
      continue;
    const std::string at = check.location.line ? textOf(check.location) + ": " : "";
    return at + check.kind + ": index " + std::to_string(number) + " is outside of [0, " +
           std::to_string(check.bound) + ")";
  }
  return "";
}

Error notForWorld(const std::vector<int64_t> &worlds, int64_t world) {
  std::string known;
  for (int64_t each : worlds)
    known += (known.empty() ? "" : ", ") + std::to_string(each);
  const std::string wanted = std::to_string(world);
  return badInput("the plan was compiled for " + known + " ranks, not for " + wanted +
                  "; choose one of them with --gpus or compile it with --world " + wanted);
}

std::string secondsText(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", double(time.count()) / 1000);
  return text;
}

Status checkRange(const Plan &plan, uint32_t buffer, uint64_t offset, uint64_t bytes) {
  if (buffer >= plan.buffers.size())
    return failed("buffer " + std::to_string(buffer) + " does not exist");
  const Buffer &target = plan.buffers[buffer];
  if (offset > target.bytes || bytes > target.bytes - offset)
    return failed("buffer '" + target.name + "' has " + std::to_string(target.bytes) +
                  " bytes, not " + std::to_string(bytes) + " at offset " + std::to_string(offset));
  return ok();
}

std::string firstError(const std::string &log) {
  size_t at = log.find("error");
  if (at == std::string::npos)
    return log.substr(0, log.find('\n'));
  size_t begin = log.rfind('\n', at);
  begin = begin == std::string::npos ? 0 : begin + 1;
  return log.substr(begin, log.find('\n', at) - begin);
}

std::string modelLines(const Plan &plan, const std::string &source) {
  std::string text;
  for (const Kernel &kernel : plan.kernels)
    if (kernel.source == source)
      for (const Location &location : kernel.locations)
        text += (text.empty() ? "" : ", ") + textOf(location);
  return text.empty() ? "" : " (" + text + ")";
}

} // namespace nano::plan
