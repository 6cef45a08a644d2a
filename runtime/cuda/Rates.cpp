// Copies and products against the clock.
#include "runtime/cuda/Rates.h"
#include "runtime/cuda/Held.h"

#include <algorithm>
#include <cmath>

namespace nano::cuda {
namespace {

using plan::DType;

/// Measures one run of what it is given.
using Measure = std::function<RunCost(const std::function<void()> &enqueue)>;

/// The cost of an operation of an n×n×n product; nothing when cuBLASLt has none.
RunCost productCost(Products &products, DType type, int64_t n, CUdeviceptr memory,
                    CUdeviceptr workspace, CUstream stream, const Measure &measure) {
  plan::Matmul matmul;
  matmul.aType = matmul.bType = type;
  matmul.cType = type == DType::F32 ? DType::F32 : DType::BF16;
  matmul.transposeB = true;
  matmul.m = matmul.n = matmul.k = matmul.lda = matmul.ldb = matmul.ldc = n;
  uint64_t operand = uint64_t(n) * uint64_t(n) * plan::sizeOf(type);
  MatmulOperands operands = {memory, memory + operand, memory + 2 * operand};
  Result<std::unique_ptr<Product>> product = products.make(matmul, operands);
  if (!product)
    return {};
  const RunCost cost = measure([&] {
    if (cublasStatus_t status = (*product)->enqueue(workspace, stream);
        status != CUBLAS_STATUS_SUCCESS)
      throw Failure{failed("cuBLASLt: the product that measures its rate does not run")};
  });
  const double operations = 2 * std::pow(double(n), 3);
  return {cost.seconds / operations, cost.joules / operations};
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
                                        uint64_t bytes, CUdeviceptr workspace, CUstream stream,
                                        Held *held) {
  constexpr double heldFor = 0.5;
  if (bytes < uint64_t(64) << 20)
    return std::nullopt;
  const Measure measure = [&](const std::function<void()> &enqueue) {
    const double once = secondsOfRun(gpu, stream, enqueue);
    return held ? held->run(enqueue, once, heldFor) : RunCost{once, 0};
  };
  DeviceRates rates;
  uint64_t half = std::min<uint64_t>(bytes / 2, uint64_t(2) << 30) / 256 * 256;
  const RunCost copy = measure([&] {
    gpu.check(gpu.api.cuMemcpyDtoDAsync(memory + half, memory, half, stream), "cuMemcpyDtoDAsync");
  });
  rates.copyBytes = 2 * double(half) / copy.seconds;
  rates.copyJoules = copy.joules / (2 * double(half));
  if (!products)
    return rates;
  auto side = int64_t(std::sqrt(double(bytes) / 12)) / 256 * 256;
  side = std::min<int64_t>(side, 8192);
  auto product = [&](DType type, int64_t n, double &flops, double &joules) {
    const RunCost cost = productCost(*products, type, n, memory, workspace, stream, measure);
    flops = cost.seconds > 0 ? 1 / cost.seconds : 0;
    joules = cost.joules;
  };
  product(DType::F32, std::min<int64_t>(side, 4096), rates.f32Flops, rates.f32Joules);
  product(DType::BF16, side, rates.bf16Flops, rates.bf16Joules);
  product(DType::F8E4M3FN, side, rates.f8Flops, rates.f8Joules);
  return rates;
}

} // namespace nano::cuda
