// A cluster with a __shared__ variable, which the emulator has no place for.
#include "nano_hopper.h"
#include "test_launch.h"

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    cluster_static(const __grid_constant__ TestLaunch<1> launch) {
  __shared__ float values[32];
  values[threadIdx.x] = 1.0f;
  launch.arg<float>(0)[threadIdx.x + blockIdx.x * 32] = values[threadIdx.x];
}
