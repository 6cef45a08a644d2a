// Tensor maps of matrices on a GPU, as the CUDA device encodes those of plans.
#pragma once

#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/device/nano_hopper.h"
#include "runtime/cuda/EncodeMap.h"

namespace nano::bench {

/// The described map of a matrix in the GPU's memory; ends the program where the driver refuses.
inline TensorMap encoded(const plan::TensorMap &described, void *matrix) {
  static const auto encode = [] {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  CUtensorMap map = {};
  const CUresult status =
      cuda::encodeMap(encode, described, reinterpret_cast<CUdeviceptr>(matrix), map);
  if (status != CUDA_SUCCESS) {
    std::printf("cuTensorMapEncodeTiled: %d\n", int(status));
    std::exit(1);
  }
  TensorMap result;
  static_assert(sizeof result == sizeof map);
  std::copy_n(reinterpret_cast<const char *>(&map), sizeof map, reinterpret_cast<char *>(&result));
  return result;
}

} // namespace nano::bench
