// Sums of parts: the kernels of nano_sums.cu, and their launch.
#include "runtime/cuda/PeerSums.h"
#include "runtime/cuda/KernelCode.h"
#include "runtime/cuda/OwnKernels.h"

#include <algorithm>
#include <string>

namespace nano::cuda {
namespace {

constexpr unsigned threads = 512; ///< as in the text

} // namespace

PeerSums::PeerSums(Gpu &gpu, const NvrtcApi &nvrtc, BuildCache &cache) : gpu(gpu) {
  Result<std::string> cubin = ownCubin(text, nvrtc, cache, architectureOf(gpu.major, gpu.minor));
  if (!cubin)
    throw Failure{cubin.error()};
  CUmodule module = gpu.load(*cubin, text);
  gpu.check(gpu.api.cuModuleGetFunction(&f32, module, "nano_sum_f32"), "cuModuleGetFunction");
  gpu.check(gpu.api.cuModuleGetFunction(&bf16, module, "nano_sum_bf16"), "cuModuleGetFunction");
}

void PeerSums::enqueue(const Parts &parts, plan::DType type, CUstream stream) const {
  if (parts.count == 0)
    return;
  const uint64_t packs = parts.count * plan::sizeOf(type) / 16;
  const uint64_t blocks =
      std::clamp<uint64_t>((packs + threads - 1) / threads, 1, 2 * uint64_t(gpu.multiprocessors));
  void *parameters[] = {const_cast<Parts *>(&parts)};
  gpu.check(gpu.api.cuLaunchKernel(type == plan::DType::BF16 ? bf16 : f32, unsigned(blocks), 1, 1,
                                   threads, 1, 1, 0, stream, parameters, nullptr),
            "cuLaunchKernel");
}

} // namespace nano::cuda
