// Bytes and operations of commands.
#include "runtime/plan/Work.h"
#include "runtime/plan/Overload.h"

#include <algorithm>

namespace nano::plan {

CommandWork workOf(const Plan &plan, const Command &command) {
  CommandWork work;
  auto move = [&](DType type, int64_t count, int times) {
    work.bytes += times * double(count) * double(sizeOf(type));
  };
  std::visit(
      Overload{
          [&](const Launch &launch) {
            for (const Launch::Segment &segment : launch.segments) {
              for (const Ref &ref : segment.args)
                work.bytes += double(ref.bytes) * (int(ref.read) + int(ref.written));
              work.flops += plan.kernels[launch.kernel].flops * double(segment.iterations);
            }
          },
          [&](const Matmul &matmul) {
            auto matrix = [&](int64_t rows, int64_t columns, DType type, bool isShared) {
              work.bytes += double(rows) * double(columns) * double(sizeOf(type)) *
                            double(isShared ? 1 : matmul.batch);
            };
            matrix(matmul.m, matmul.k, matmul.aType, matmul.strideA == 0);
            matrix(matmul.k, matmul.n, matmul.bType, matmul.strideB == 0);
            matrix(matmul.m, matmul.n, matmul.cType, false);
            if (matmul.beta != 0)
              matrix(matmul.m, matmul.n, matmul.cType, matmul.strideD == 0);
            work.flops =
                2 * double(matmul.m) * double(matmul.n) * double(matmul.k) * double(matmul.batch);
          },
          [&](const Fill &fill) { move(fill.type, fill.count, 1); },
          [&](const Copy &copy) { move(copy.type, copy.count, isHostCopy(plan, copy) ? 1 : 2); },
          [&](const Shard &shard) {
            for (const Move &each : shard.moves)
              move(shard.type, each.count, 2);
          },
          [](const auto &) {}, // what ranks exchange, and events
      },
      command.action);
  return work;
}

std::vector<KeyRanges> keyRangesOf(const Plan &plan, const Launch &launch) {
  const Kernel &kernel = plan.kernels[launch.kernel];
  if (kernel.flopsPerKey == 0 || kernel.indices.size() < 2)
    return {};
  const uint32_t first = kernel.indices[0].operand, last = kernel.indices[1].operand;
  std::vector<KeyRanges> ranges;
  for (const Launch::Segment &segment : launch.segments) {
    uint64_t bytes = 0;
    for (const Kernel::Reach &reach : kernel.reaches)
      if (bytes == 0 && reach.iterations >= segment.iterations)
        bytes = std::min(reach.bytes[first], reach.bytes[last]);
    ranges.push_back({segment.args[first], segment.args[last], bytes / sizeof(int32_t)});
  }
  return ranges;
}

double meanKeys(const int32_t *first, const int32_t *last, uint64_t queries) {
  double keys = 0;
  for (uint64_t i = 0; i < queries; ++i)
    keys += std::max(0.0, double(last[i]) - double(first[i]) + 1);
  return queries > 0 ? keys / double(queries) : 0;
}

double attentionFlops(const Plan &plan, const Launch &launch, const std::vector<double> &keys) {
  double flops = 0;
  for (size_t i = 0; i < launch.segments.size() && i < keys.size(); ++i)
    flops +=
        plan.kernels[launch.kernel].flopsPerKey * double(launch.segments[i].iterations) * keys[i];
  return flops;
}

} // namespace nano::plan
