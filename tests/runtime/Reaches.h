// What hand-made plans say of how far their kernels reach.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>

namespace nano::test {

/// Every kernel that is launched reaches to the end of its operands' buffers, as far as all of its
/// launches allow, with the largest number of iterations of any.
inline void sayReaches(plan::Plan &plan) {
  for (plan::Kernel &kernel : plan.kernels)
    kernel.reaches.clear();
  for (const plan::Program &program : plan.programs)
    for (const plan::Command &command : program.commands) {
      const auto *launch = command.as<plan::Launch>();
      if (!launch)
        continue;
      for (const plan::Launch::Segment &segment : launch->segments) {
        std::vector<plan::Kernel::Reach> &reaches = plan.kernels[launch->kernel].reaches;
        if (reaches.empty())
          reaches.push_back({0, std::vector<uint64_t>(segment.args.size(), UINT64_MAX)});
        plan::Kernel::Reach &reach = reaches.front();
        reach.iterations = std::max(reach.iterations, segment.iterations);
        for (size_t i = 0; i < std::min(reach.bytes.size(), segment.args.size()); ++i) {
          const plan::Ref &ref = segment.args[i];
          reach.bytes[i] = std::min(reach.bytes[i], plan.buffers[ref.buffer].bytes - ref.offset);
        }
      }
    }
}

} // namespace nano::test
