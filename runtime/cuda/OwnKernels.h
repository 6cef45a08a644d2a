// The runtime's own kernels: text that the build embeds and NVRTC compiles, as it does a plan's.
#pragma once

#include "base/Status.h"
#include "runtime/cuda/Api.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace nano::cuda {

/// All of `nano_*.cu`, and what they include, by their places in the repository.
const std::vector<plan::Source> &ownTexts();

/// One of them, compiled or from the cache; never fused: no sum is rounded together with a product.
Result<std::string> ownCubin(std::string_view name, const NvrtcApi &nvrtc, BuildCache &cache,
                             const std::string &architecture);

} // namespace nano::cuda
