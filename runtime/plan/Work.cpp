// Bytes and operations of commands.
#include "runtime/plan/Work.h"
#include "runtime/plan/Overload.h"

namespace nano::plan {

CommandWork workOf(const Plan &plan, const Command &command) {
  CommandWork work;
  auto move = [&](DType type, int64_t count, int times) {
    work.bytes += times * double(count) * double(sizeOf(type));
  };
  std::visit(Overload{
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
                   work.flops = 2 * double(matmul.m) * double(matmul.n) * double(matmul.k) *
                                double(matmul.batch);
                 },
                 [&](const Fill &fill) { move(fill.type, fill.count, 1); },
                 [&](const Copy &copy) { move(copy.type, copy.count, 2); },
                 [&](const Shard &shard) {
                   for (const Move &each : shard.moves)
                     move(shard.type, each.count, 2);
                 },
                 [](const auto &) {}, // what ranks exchange, and events
             },
             command.action);
  return work;
}

} // namespace nano::plan
