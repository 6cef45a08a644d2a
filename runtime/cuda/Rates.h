// What the GPU reaches at best: the rates that floors of times are computed from.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/Matmul.h"

#include <functional>
#include <optional>

namespace nano::cuda {

class Held;

/// The seconds that one run of what `enqueue` puts on the stream takes: the mean of several behind
/// each other, after one that is not counted.
double secondsOfRun(Gpu &gpu, CUstream stream, const std::function<void()> &enqueue);

/// A copy within `memory`, half of it to the other half, and the largest square products that fit
/// into it, up to 8192, of each type that cuBLASLt has; `products` may be null. The content of
/// `memory` is read and overwritten. Nothing when `memory` is too small to tell (64 MiB). `held`:
/// null, or what repeats them until their joules are known too.
std::optional<DeviceRates> measureRates(Gpu &gpu, Products *products, CUdeviceptr memory,
                                        uint64_t bytes, CUdeviceptr workspace, CUstream stream,
                                        Held *held = nullptr);

} // namespace nano::cuda
