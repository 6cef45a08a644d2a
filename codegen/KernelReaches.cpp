// The types of launches' operands as bytes, merged over all launches of a kernel.
#include "codegen/KernelReaches.h"

#include "ir/step/Step.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace nano::codegen {

/// From an operand's first element to the end of its last one.
static uint64_t bytesOf(Value operand) {
  auto type = cast<MemRefType>(operand.getType());
  const step::ElementRange range = step::elementRange(type);
  return static_cast<uint64_t>((range.end - range.begin) *
                               step::elementBytes(type.getElementType()));
}

static void takeSmaller(std::vector<uint64_t> &bytes, const std::vector<uint64_t> &others) {
  for (size_t i = 0; i < std::min(bytes.size(), others.size()); ++i)
    bytes[i] = std::min(bytes[i], others[i]);
}

KernelReaches kernelReaches(ArrayRef<ModuleOp> modules) {
  llvm::StringMap<std::map<int64_t, std::vector<uint64_t>>> byIterations;
  auto add = [&](StringRef kernel, int64_t iterations, const std::vector<uint64_t> &bytes) {
    auto [known, isNew] = byIterations[kernel].try_emplace(iterations, bytes);
    if (!isNew)
      takeSmaller(known->second, bytes);
  };
  for (ModuleOp module : modules) {
    const step::KernelTable kernels(module);
    module.walk([&](step::LaunchOp launch) {
      kernel::FuncOp kernel = kernels.find(launch.getKernelAttr().getAttr());
      if (!kernel)
        return;
      const SmallVector<step::Access> accesses = step::accessesOf(launch, kernels);
      const size_t arguments = accesses.size() / launch.getSegments();
      const std::optional<ArrayRef<int64_t>> iterations = launch.getIterations();
      for (uint64_t i = 0; i < launch.getSegments(); ++i) {
        std::vector<uint64_t> bytes;
        for (const step::Access &access : ArrayRef(accesses).slice(i * arguments, arguments))
          bytes.push_back(bytesOf(access.buffer));
        const int64_t count =
            iterations ? (*iterations)[i] : int64_t(kernel.getIterations().value_or(0));
        add(launch.getKernel(), count, bytes);
      }
    });
    module.walk([&](Operation *command) {
      for (step::Candidate candidate : step::candidatesOf(command, kernels)) {
        std::vector<uint64_t> bytes;
        for (Value buffer : candidate.buffers)
          bytes.push_back(bytesOf(buffer));
        add(candidate.kernel.getSymName(), int64_t(*candidate.kernel.getIterations()), bytes);
      }
    });
  }
  KernelReaches result;
  for (auto &[kernel, all] : byIterations) {
    std::vector<plan::Kernel::Reach> &reaches = result[kernel];
    for (auto each = all.rbegin(); each != all.rend(); ++each) {
      if (!reaches.empty())
        takeSmaller(each->second, reaches.back().bytes);
      // One that more iterations keep to as well says nothing of its own.
      if (reaches.empty() || reaches.back().bytes != each->second)
        reaches.push_back({each->first, each->second});
    }
    std::reverse(reaches.begin(), reaches.end());
  }
  return result;
}

} // namespace nano::codegen
