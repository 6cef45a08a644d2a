// The plan of SmallPlan.h; its header says once more what nano::Launch is, from the contract's
// words.
#include "tests/runtime/cuda/SmallPlan.h"
#include "tests/runtime/Reaches.h"

#include <bit>
#include <string>

namespace nano::test {

using namespace plan;

namespace {

constexpr const char *launchHeader = R"(#pragma once
template <int Args, int Segments> struct Launch {
  int segments, blocks;
  struct Segment {
    void *args[Args];
    long long iterations, firstBlock;
  } segment[Segments];
  __device__ const Segment &find(int block) const {
    int i = 0;
    while (i + 1 < segments && segment[i + 1].firstBlock <= block)
      ++i;
    return segment[i];
  }
};
)";

constexpr const char *scaleKernel = R"(#include "launch.h"
extern "C" __global__ void __launch_bounds__(128) scale(const __grid_constant__ Launch<3, 1> launch) {
  const auto &work = launch.find(blockIdx.x);
  const float *factor = (const float *)work.args[0], *x = (const float *)work.args[1];
  float *y = (float *)work.args[2];
  long long i = (blockIdx.x - work.firstBlock) * 128 + threadIdx.x;
  if (i < work.iterations)
    y[i] = *factor * x[i] + 1.0f;
}
)";

// Through dynamic shared memory, more than 48 KiB of it: that needs an attribute of the function.
constexpr const char *addKernel = R"(#include "launch.h"
extern __shared__ float staged[];
extern "C" __global__ void __launch_bounds__(64) add(const __grid_constant__ Launch<2, 4> launch) {
  const auto &work = launch.find(blockIdx.x);
  const float *y = (const float *)work.args[0];
  float *z = (float *)work.args[1];
  long long first = (blockIdx.x - work.firstBlock) * 256;
  for (int i = threadIdx.x; i < 256; i += 64)
    if (first + i < work.iterations)
      staged[12800 + i] = y[first + i];
  __syncthreads();
  for (int i = 255 - threadIdx.x; i >= 0; i -= 64)
    if (first + i < work.iterations)
      z[first + i] += staged[12800 + i];
}
)";

Kernel kernelOf(const char *name, uint32_t threads, int64_t perBlock, uint64_t shared,
                uint32_t segments, uint32_t line) {
  Kernel kernel;
  kernel.name = name;
  kernel.summary = "a test";
  kernel.locations = {{"small.cpp", line}};
  kernel.source = std::string(name) + ".cu";
  kernel.threads = threads;
  kernel.iterationsPerBlock = perBlock;
  kernel.sharedBytes = shared;
  kernel.maxSegments = segments;
  return kernel;
}

} // namespace

Plan smallPlan(int64_t count) {
  Plan plan;
  plan.model = "small";
  plan.target = "cuda";
  plan.worlds = {1};
  plan.sources = {{"launch.h", launchHeader}, {"scale.cu", scaleKernel}, {"add.cu", addKernel}};
  plan.kernels = {kernelOf("scale", 128, 128, 0, 1, 3),
                  kernelOf("add", 64, 256, (12800 + 256) * 4, 4, 4)};
  auto buffer = [&](const char *name, int64_t elements, uint32_t line) {
    Buffer made = {name,       plan.arenaBytes, uint64_t(elements) * 4,
                   DType::F32, {elements},      {"small.cpp", line}};
    plan.arenaBytes += (made.bytes + 255) / 256 * 256;
    plan.buffers.push_back(made);
    return uint32_t(plan.buffers.size() - 1);
  };
  uint32_t scalars = buffer("scalars", 1, 1), x = buffer("x", count, 2), y = buffer("y", count, 3),
           z = buffer("z", count, 4), w = buffer("w", count, 5);
  plan.scalarBuffer = scalars;
  plan.scalars = {{"factor", DType::F32, 0, {Expr::Kind::Constant, 2, "", {}}}};

  Program program = {"main", {}, 2, 2};
  auto add = [&](Command::Action action, uint32_t stream, const char *label,
                 plan::Location location = {}) {
    program.commands.push_back({std::move(action), stream, label, location});
  };
  uint64_t bytes = uint64_t(count) * 4;
  auto reads = [&](uint32_t buffer) { return Ref{buffer, 0, false, true, bytes}; };
  auto writes = [&](uint32_t buffer) { return Ref{buffer, 0, true, false, bytes}; };
  add(plan::Copy{DType::F32, reads(x), writes(z), count}, 1, "z is x");
  add(plan::RecordEvent{1}, 1, "");
  add(plan::Launch{0, {{{{scalars, 0, false, true, 4}, reads(x), writes(y)}, count, 1}}}, 0,
      "y from x", {"small.cpp", 3});
  add(plan::WaitEvent{1}, 0, "");
  int64_t part = count / 3;
  auto segment = [&](int64_t from, int64_t iterations) -> plan::Launch::Segment {
    uint64_t at = uint64_t(from) * 4, size = uint64_t(iterations) * 4;
    return {{{y, at, false, true, size}, {z, at, true, true, size}}, iterations, 1};
  };
  add(plan::Launch{1, {segment(0, part), segment(part, 0), segment(part, count - part)}}, 0,
      "z plus y");
  add(plan::Fill{DType::F32, writes(w), count}, 1, "w is 0");
  plan.programs = {program};
  sayReaches(plan);
  return plan;
}

Plan chainPlan(int64_t side) {
  Plan plan = smallPlan(side * side);
  const int64_t count = side * side;
  const uint64_t bytes = uint64_t(count) * 4;
  enum : uint32_t { Scalars, X, Y, Z, W };
  Program program = {"chain", {}, 2, 2};
  auto push = [&](Command::Action action, uint32_t stream = 0) {
    const std::string label = "command " + std::to_string(program.commands.size());
    program.commands.push_back({std::move(action), stream, label, {}});
  };
  auto reads = [&](uint32_t buffer) { return Ref{buffer, 0, false, true, bytes}; };
  auto writes = [&](uint32_t buffer) { return Ref{buffer, 0, true, false, bytes}; };
  auto scale = [&](uint32_t from, uint32_t to, uint32_t stream = 0) {
    push(plan::Launch{0, {{{{Scalars, 0, false, true, 4}, reads(from), writes(to)}, count, 1}}},
         stream);
  };
  auto add = [&](uint32_t from, uint32_t to) {
    push(plan::Launch{1, {{{reads(from), {to, 0, true, true, bytes}}, count, 1}}});
  };
  scale(X, Y);
  add(Y, Z);
  plan::Matmul product;
  product.a = reads(Y);
  product.b = reads(Z);
  product.c = writes(W);
  product.m = product.n = product.k = product.lda = product.ldb = product.ldc = side;
  product.alpha = 1.0 / double(side);
  push(product);
  scale(W, X);
  push(plan::RecordEvent{0});
  add(Y, Z);
  push(plan::WaitEvent{0}, 1);
  scale(X, W, 1);
  push(plan::RecordEvent{1}, 1);
  add(Y, Z);
  push(plan::WaitEvent{1});
  add(W, Z);
  push(plan::Copy{DType::F32, reads(Z), writes(Y), count});
  scale(Y, X);
  scale(X, W);
  plan.programs = {program};
  sayReaches(plan);
  return plan;
}

std::vector<float> smallResult(const std::vector<float> &x, float factor) {
  std::vector<float> z;
  for (float value : x)
    z.push_back(value + (factor * value + 1));
  return z;
}

void runSmallKernel(const std::string &kernel, const std::vector<uint64_t> &parameter) {
  const bool isScale = kernel == "scale";
  const size_t args = isScale ? 3 : 2;
  auto segments = size_t(parameter[0] & 0xFFFFFFFF);
  for (size_t i = 0; i < segments; ++i) {
    const uint64_t *segment = &parameter[1 + i * (args + 2)];
    auto pointer = [&](size_t arg) { return std::bit_cast<float *>(segment[arg]); };
    for (uint64_t j = 0; j < segment[args]; ++j)
      if (isScale)
        pointer(2)[j] = *pointer(0) * pointer(1)[j] + 1;
      else
        pointer(1)[j] += pointer(0)[j];
  }
}

} // namespace nano::test
