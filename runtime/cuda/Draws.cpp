// Random initial values: the kernels of nano_draws.cu, and their launch.
#include "runtime/cuda/Draws.h"
#include "runtime/Random.h"

#include <algorithm>

namespace nano::cuda {
namespace {

constexpr unsigned threads = 256;  ///< as in the text
constexpr unsigned blocksEach = 8; ///< of a multiprocessor

bool isUniform(const plan::Init &init) { return init.kind == plan::Init::Kind::Uniform; }

} // namespace

bool Draws::takes(const plan::State &state) {
  return (state.init.kind == plan::Init::Kind::Normal || isUniform(state.init)) &&
         (state.type == plan::DType::F32 || state.type == plan::DType::BF16);
}

bool Draws::areIn(const plan::Plan &plan) {
  return std::any_of(plan.states.begin(), plan.states.end(), takes);
}

Draws::Draws(Gpu &gpu, const std::string &cubin) : gpu(gpu) {
  const char *names[2][2] = {{"nano_normal_f32", "nano_normal_bf16"},
                             {"nano_uniform_f32", "nano_uniform_bf16"}};
  CUmodule module = gpu.load(cubin, text);
  for (int kind : {0, 1})
    for (int type : {0, 1})
      gpu.check(gpu.api.cuModuleGetFunction(&functions[kind][type], module, names[kind][type]),
                "cuModuleGetFunction");
}

void Draws::enqueue(const plan::State &state, uint64_t seed, uint64_t first, uint64_t count,
                    CUdeviceptr to, CUstream stream) const {
  if (count == 0)
    return;
  const plan::Init &init = state.init;
  const bool uniform = isUniform(init);
  Draw draw = {to,
               first,
               count,
               Random(seed, state.name).hashOfName(),
               seed,
               uniform ? init.low : init.mean,
               uniform ? init.high : init.stddev};
  const uint64_t blocks = std::min<uint64_t>((count + threads - 1) / threads,
                                             blocksEach * uint64_t(gpu.multiprocessors));
  void *parameters[] = {&draw};
  gpu.check(gpu.api.cuLaunchKernel(functions[uniform][state.type == plan::DType::BF16],
                                   unsigned(blocks), 1, 1, threads, 1, 1, 0, stream, parameters,
                                   nullptr),
            "cuLaunchKernel");
}

} // namespace nano::cuda
