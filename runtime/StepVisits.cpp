// Walks over a step's commands: first uses, last writes before a read, names.
#include "runtime/StepVisits.h"

#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace nano {
namespace {

/// The buffers of a command's operands, each once.
struct Touched {
  std::vector<uint32_t> all, written;
  std::set<uint32_t> read;
};

Touched touchedBy(const plan::Command &command) {
  Touched touched;
  auto note = [](std::vector<uint32_t> &list, uint32_t buffer) {
    if (std::find(list.begin(), list.end(), buffer) == list.end())
      list.push_back(buffer);
  };
  for (const plan::Ref &ref : plan::operandsOf(command)) {
    note(touched.all, ref.buffer);
    if (ref.written)
      note(touched.written, ref.buffer);
    if (ref.read)
      touched.read.insert(ref.buffer);
  }
  return touched;
}

/// The part of a buffer's name behind that of its program, "matmul#5" of "update/matmul#5"; empty
/// where it is no program's own.
std::string_view ownName(const plan::Plan &plan, const plan::Buffer &buffer) {
  const std::string_view name = buffer.name;
  const size_t slash = name.find('/');
  const bool isOwn =
      slash != std::string_view::npos &&
      std::any_of(plan.programs.begin(), plan.programs.end(), [&](const plan::Program &program) {
        return name.substr(0, slash) == program.name;
      });
  return isOwn ? name.substr(slash + 1) : std::string_view();
}

/// What a buffer's first value is called; empty where nothing says what it is.
std::string keyOf(const plan::Plan &plan, const plan::Buffer &buffer) {
  const std::string_view own = ownName(plan, buffer);
  if (own.empty())
    return buffer.name;
  if (!buffer.location.line)
    return "";
  return fmt::format("{} of {}, [{}]", own.substr(0, own.rfind('#')), shortLine(buffer.location),
                     fmt::join(buffer.shape, ","));
}

/// Whether a command that reads and writes a buffer makes another tensor in its place, and not more
/// of the one that it is for: in a buffer of the program's own it is for another model line.
bool isAnother(const plan::Plan &plan, uint32_t buffer, const plan::Command &command) {
  const plan::Buffer &changed = plan.buffers[buffer];
  return !ownName(plan, changed).empty() && lineOf(plan, command) != changed.location;
}

bool shareBytes(const plan::Buffer &a, const plan::Buffer &b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// The commands, with the buffers of the programs' own that begin with each. One that is made in
/// parts may begin while the bytes of parts to come still hold what others read: it has no clear
/// beginning.
std::vector<Visit> plainVisits(const plan::Plan &plan,
                               const std::vector<const plan::Program *> &programs) {
  std::vector<Visit> visits;
  for (const plan::Program *program : programs) {
    std::vector<Touched> touches;
    std::map<uint32_t, size_t> lastReads;
    for (const plan::Command &command : program->commands) {
      touches.push_back(touchedBy(command));
      for (uint32_t buffer : touches.back().read)
        lastReads[buffer] = touches.size() - 1;
    }
    std::set<uint32_t> seen;
    for (size_t i = 0; i < program->commands.size(); ++i) {
      Visit visit{program, i, {}, {}};
      const Touched &touched = touches[i];
      seen.insert(touched.read.begin(), touched.read.end());
      const auto isHeld = [&](uint32_t buffer) {
        return std::any_of(seen.begin(), seen.end(), [&](uint32_t other) {
          const auto last = lastReads.find(other);
          return other != buffer && last != lastReads.end() && last->second >= i &&
                 shareBytes(plan.buffers[buffer], plan.buffers[other]);
        });
      };
      for (uint32_t buffer : touched.written)
        if (!seen.contains(buffer) && !ownName(plan, plan.buffers[buffer]).empty() &&
            !isHeld(buffer))
          visit.clears.push_back(buffer);
      seen.insert(touched.written.begin(), touched.written.end());
      visits.push_back(std::move(visit));
    }
  }
  return visits;
}

} // namespace

std::string shortLine(const plan::Location &location) {
  if (!location.line)
    return "";
  return fmt::format("{}:{}", location.file.substr(location.file.rfind('/') + 1), location.line);
}

std::vector<Visit> visitsOf(const plan::Plan &plan,
                            const std::vector<const plan::Program *> &programs) {
  std::vector<Visit> visits = plainVisits(plan, programs);
  // Backwards: the buffers to which a later command of the program adds, and how many kernels for
  // their own line put a result in the place of what they read.
  std::set<uint32_t> unfinished;
  std::map<std::pair<const plan::Program *, uint32_t>, size_t> updates;
  const plan::Program *program = nullptr;
  for (auto visit = visits.rbegin(); visit != visits.rend(); ++visit) {
    if (std::exchange(program, visit->program) != visit->program)
      unfinished.clear();
    const Touched touched = touchedBy(**visit);
    // What goes to the host's memory and comes back is not made there.
    const auto *copy = (**visit).as<plan::Copy>();
    const bool isMoved = copy && plan::isHostCopy(plan, *copy);
    for (uint32_t buffer : touched.written) {
      if (unfinished.insert(buffer).second && !isMoved)
        visit->captures.push_back({buffer, ""});
      if (touched.read.count(buffer) == 0)
        continue;
      if (isAnother(plan, buffer, **visit))
        unfinished.erase(buffer);
      else if ((**visit).is<plan::Launch>() && !ownName(plan, plan.buffers[buffer]).empty())
        ++updates[{program, buffer}];
    }
  }
  std::set<uint32_t> seen;
  for (Visit &visit : visits)
    for (Capture &capture : visit.captures) {
      capture.key = keyOf(plan, plan.buffers[capture.buffer]);
      if (const auto found = updates.find({visit.program, capture.buffer});
          found != updates.end() && !capture.key.empty())
        capture.key += fmt::format(", with {} more", found->second);
      if (!seen.insert(capture.buffer).second && !capture.key.empty())
        capture.key += fmt::format(", again by {}", shortLine(lineOf(plan, *visit)));
    }
  return visits;
}

std::vector<Visit> everyWriteOf(const plan::Plan &plan,
                                const std::vector<const plan::Program *> &programs) {
  std::vector<Visit> visits = plainVisits(plan, programs);
  for (size_t i = 0; i < visits.size(); ++i)
    for (uint32_t buffer : touchedBy(*visits[i]).written)
      visits[i].captures.push_back({buffer, fmt::format("{}/{}", i, buffer)});
  return visits;
}

} // namespace nano
