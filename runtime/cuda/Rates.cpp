// Copies and products against the clock.
#include "runtime/cuda/Rates.h"

#include <algorithm>
#include <cmath>

namespace nano::cuda {
namespace {

using plan::DType;

/// Operations a second of an n×n×n product; 0 when cuBLASLt has none.
double productRate(Gpu &gpu, Products &products, DType type, int64_t n, CUdeviceptr memory,
                   CUdeviceptr workspace, CUstream stream) {
  plan::Matmul matmul;
  matmul.aType = matmul.bType = type;
  matmul.cType = type == DType::F32 ? DType::F32 : DType::BF16;
  matmul.transposeB = true;
  matmul.m = matmul.n = matmul.k = matmul.lda = matmul.ldb = matmul.ldc = n;
  uint64_t operand = uint64_t(n) * uint64_t(n) * plan::sizeOf(type);
  MatmulOperands operands = {memory, memory + operand, memory + 2 * operand};
  Result<std::unique_ptr<Product>> product = products.make(matmul, operands);
  if (!product)
    return 0;
  double seconds = secondsOfRun(gpu, stream, [&] {
    if (cublasStatus_t status = (*product)->enqueue(workspace, stream);
        status != CUBLAS_STATUS_SUCCESS)
      throw Failure{failed("cuBLASLt: the product that measures its rate does not run")};
  });
  return seconds > 0 ? 2 * std::pow(double(n), 3) / seconds : 0;
}

} // namespace

double secondsOfRun(Gpu &gpu, CUstream stream, const std::function<void()> &enqueue) {
  static constexpr double enough = 2e-3; // seconds of measured work
  CUevent begin = gpu.makeEvent(true), end = gpu.makeEvent(true);
  auto measure = [&](int count) {
    gpu.check(gpu.api.cuEventRecord(begin, stream), "cuEventRecord");
    for (int i = 0; i < count; ++i)
      enqueue();
    gpu.check(gpu.api.cuEventRecord(end, stream), "cuEventRecord");
    gpu.synchronize(stream);
    float milliseconds = 0;
    gpu.check(gpu.api.cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
    return 1e-3 * double(milliseconds) / count;
  };
  enqueue();
  double once = measure(1);
  return measure(std::clamp(int(enough / std::max(once, 1e-6)), 3, 100));
}

std::optional<DeviceRates> measureRates(Gpu &gpu, Products *products, CUdeviceptr memory,
                                        uint64_t bytes, CUdeviceptr workspace, CUstream stream) {
  if (bytes < uint64_t(64) << 20)
    return std::nullopt;
  DeviceRates rates;
  uint64_t half = std::min<uint64_t>(bytes / 2, uint64_t(2) << 30) / 256 * 256;
  double seconds = secondsOfRun(gpu, stream, [&] {
    gpu.check(gpu.api.cuMemcpyDtoDAsync(memory + half, memory, half, stream), "cuMemcpyDtoDAsync");
  });
  rates.copyBytes = 2 * double(half) / seconds;
  if (!products)
    return rates;
  auto side = int64_t(std::sqrt(double(bytes) / 12)) / 256 * 256;
  side = std::min<int64_t>(side, 8192);
  rates.f32Flops = productRate(gpu, *products, DType::F32, std::min<int64_t>(side, 4096), memory,
                               workspace, stream);
  rates.bf16Flops = productRate(gpu, *products, DType::BF16, side, memory, workspace, stream);
  rates.f8Flops = productRate(gpu, *products, DType::F8E4M3FN, side, memory, workspace, stream);
  return rates;
}

} // namespace nano::cuda
