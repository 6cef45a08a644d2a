// Cubins of the runtime's own kernels.
#include "runtime/cuda/OwnKernels.h"
#include "runtime/cuda/KernelCode.h"

#include <algorithm>
#include <optional>

namespace nano::cuda {

Result<std::string> ownCubin(std::string_view name, const NvrtcApi &nvrtc, BuildCache &cache,
                             const std::string &architecture) {
  const plan::Source *source = nullptr;
  std::vector<const plan::Source *> headers;
  const std::string compiler = compilerKey(nvrtc, architecture, Fusing::Off);
  std::vector<std::string_view> parts = {compiler, name};
  for (const plan::Source &text : ownTexts()) {
    if (text.name == name)
      source = &text;
    else if (text.name.ends_with(".h"))
      headers.push_back(&text);
    else
      continue;
    parts.emplace_back(text.text);
  }
  const std::string key = BuildCache::keyOf(parts);
  if (std::optional<std::string> kept = cache.find(key))
    return *kept;
  Result<std::string> made = compileSource(nvrtc, *source, headers, architecture, Fusing::Off);
  if (made)
    cache.store(key, *made);
  return made;
}

} // namespace nano::cuda
