// A kernel that takes up to three segments: adds a number to the elements of each.
#include "nano_primitives.h"

struct SegmentsLaunch {
  int32_t segments, blocks;
  struct {
    void *args[2];
    int64_t iterations, firstBlock;
  } segment[3];
};

extern "C" __global__ void add_number(const __grid_constant__ SegmentsLaunch launch) {
  int s = launch.segments - 1;
  while (int64_t(blockIdx.x) < launch.segment[s].firstBlock)
    --s;
  const auto &segment = launch.segment[s];
  int64_t i = (blockIdx.x - segment.firstBlock) * 4 + threadIdx.x;
  if (threadIdx.x < 4 && i < segment.iterations)
    static_cast<float *>(segment.args[1])[i] += *static_cast<const float *>(segment.args[0]);
}
