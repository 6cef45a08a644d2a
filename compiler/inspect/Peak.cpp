// Adds up lifetimes over a program's commands.
#include "compiler/inspect/Peak.h"

#include "runtime/plan/Operands.h"

#include <algorithm>
#include <map>

namespace nano::inspect {

Peak peakOf(const plan::Plan &plan, const plan::Program &program) {
  // The commands that touch each of its own buffers, rising.
  std::map<uint32_t, std::vector<size_t>> uses;
  const std::string prefix = program.name + "/";
  for (size_t i = 0; i < program.commands.size(); ++i)
    for (const plan::Ref &ref : plan::operandsOf(program.commands[i]))
      if (plan.buffers[ref.buffer].name.starts_with(prefix))
        if (std::vector<size_t> &places = uses[ref.buffer]; places.empty() || places.back() != i)
          places.push_back(i);
  std::vector<int64_t> change(program.commands.size() + 1);
  for (const auto &[buffer, places] : uses) {
    change[places.front()] += int64_t(plan.buffers[buffer].bytes);
    change[places.back() + 1] -= int64_t(plan.buffers[buffer].bytes);
  }
  Peak peak;
  int64_t bytes = 0;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    bytes += change[i];
    if (uint64_t(bytes) > peak.bytes) {
      peak.bytes = uint64_t(bytes);
      peak.command = i;
    }
  }
  for (const auto &[buffer, places] : uses)
    if (places.front() <= peak.command && peak.command <= places.back()) {
      const auto after = std::lower_bound(places.begin(), places.end(), peak.command);
      const bool isThere = *after == peak.command;
      peak.held.push_back({buffer, isThere ? *after : *(after - 1), *after});
    }
  return peak;
}

} // namespace nano::inspect
