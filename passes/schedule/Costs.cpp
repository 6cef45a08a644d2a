// Commands as bytes, operations and members, timed by a machine or by measurement.
#include "passes/schedule/Costs.h"

#include "ir/graph/Program.h"
#include "ir/step/Labels.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nano::step;

namespace nano::schedule {

//===- Commands ------------------------------------------------------------===//

static int64_t bytesOf(ValueRange buffers) {
  int64_t bytes = 0;
  for (Value buffer : buffers)
    bytes += contiguousBytes(cast<MemRefType>(buffer.getType()));
  return bytes;
}

/// Bytes that a command reads and writes, of the device's memory.
static double trafficOf(StepCommandOpInterface command, const KernelTable &kernels) {
  double bytes = 0;
  const SmallVector<Access> accesses = accessesOf(command, kernels);
  auto launch = dyn_cast<LaunchOp>(*command);
  kernel::FuncOp kernel = launch ? kernels.find(launch.getKernelAttr().getAttr()) : nullptr;
  const std::optional<ArrayRef<int64_t>> iterations =
      kernel ? launch.getIterations() : std::nullopt;
  const size_t arguments = kernel ? accesses.size() / launch.getSegments() : 0;
  for (auto [i, access] : llvm::enumerate(accesses)) {
    if (isInHost(access.buffer))
      continue;
    const auto type = cast<MemRefType>(access.buffer.getType());
    const int64_t touched =
        iterations ? kernel.touchedBytes(i % arguments, type, (*iterations)[i / arguments])
                   : contiguousBytes(type);
    bytes += double(touched) * (int(access.reads) + int(access.writes));
  }
  // A shard reads one part of its sources.
  if (auto shard = dyn_cast<ShardOp>(*command))
    bytes = 2 * double(bytesOf(shard.getOuts()));
  return bytes;
}

int64_t collectiveBytes(Operation *command) {
  return llvm::TypeSwitch<Operation *, int64_t>(command)
      .Case<AllReduceOp>([](auto op) { return bytesOf(op.getBuffers()); })
      .Case<ReduceScatterOp>([](auto op) { return bytesOf(op.getIns()); })
      .Case<AllGatherOp>([](auto op) { return bytesOf(op.getOuts()); })
      .Default(int64_t(0));
}

llvm::Expected<Costs> Costs::make(machine::Machine machine, machine::LabelledTimes times,
                                  ModuleOp module) {
  Costs costs;
  costs.machine = std::move(machine);
  costs.times = std::move(times);
  costs.world = graph::worldOf(module).value_or(1);
  costs.group = graph::groupOf(module);
  if (llvm::Error error = costs.machine.checkRanks(costs.world))
    return error;
  return costs;
}

double Costs::seconds(StepCommandOpInterface command, StringRef program,
                      const KernelTable &kernels) const {
  if (isa<RecordOp, WaitOp>(*command))
    return 0;
  // What is measured of a collective has the waiting for other ranks in it.
  if (!isCollective(command))
    if (std::optional<double> measured = times.find(program, labelOf(command)))
      return *measured;
  return machine.command() + estimate(command, kernels);
}

double Costs::memoryShare(StepCommandOpInterface command, double seconds,
                          const KernelTable &kernels) const {
  if (isCollective(command))
    return 0;
  const double moving = machine.kernel(trafficOf(command, kernels));
  return moving <= 0 ? 0 : moving > 0.9 * seconds ? 1 : moving / seconds;
}

double Costs::estimate(StepCommandOpInterface command, const KernelTable &kernels) const {
  if (isCollective(command))
    return collective(command);
  if (auto matmul = dyn_cast<MatmulOp>(*command))
    return product(matmul);
  const double bytes = trafficOf(command, kernels);
  if (auto copy = dyn_cast<CopyOp>(*command);
      copy && (isInHost(copy.getSource()) || isInHost(copy.getTarget())))
    return machine.hostCopy(bytes);
  auto launch = dyn_cast<LaunchOp>(*command);
  if (!launch)
    return machine.kernel(bytes);
  kernel::FuncOp kernel = kernels.find(launch.getKernelAttr().getAttr());
  if (FloatAttr own = kernel ? kernel.getFlopsAttr() : FloatAttr()) {
    double flops = 0;
    for (int64_t iterations : launch.getIterations().value_or(ArrayRef<int64_t>()))
      flops += own.getValueAsDouble() * double(iterations);
    const std::optional<Type> type = kernel.getFlopsType();
    const bool isF8 = type && elementBytes(*type) == 1;
    return machine.kernel(bytes, flops,
                          isF8 ? machine::Arithmetic::ProductF8 : machine::Arithmetic::Product);
  }
  FloatAttr flopsPerKey = kernel ? kernel.getFlopsPerKeyAttr() : FloatAttr();
  auto queries = launch.getBuffers().empty()
                     ? nullptr
                     : cast<MemRefType>(launch.getBuffers().front().getType());
  if (!flopsPerKey || !queries || queries.getRank() != 3)
    return machine.kernel(bytes);
  const double keys = double(std::min(queries.getDimSize(0), assumedKeys));
  double flops = 0;
  for (int64_t iterations : launch.getIterations().value_or(ArrayRef<int64_t>()))
    flops += flopsPerKey.getValueAsDouble() * double(iterations) * keys;
  return machine.kernel(bytes, flops, machine::Arithmetic::Attention);
}

double Costs::product(MatmulOp matmul) const {
  auto typeOf = [](Value value) { return cast<MemRefType>(value.getType()); };
  const MatrixLayout a = *matrixLayout(typeOf(matmul.getA())),
                     c = *matrixLayout(typeOf(matmul.getC()));
  const int64_t k = matmul.getTransposeA() ? a.rows : a.columns;
  auto factorType = [&](Value value) {
    switch (elementBytes(typeOf(value).getElementType())) {
    case 1:
      return machine::ElementType::F8;
    case 2:
      return machine::ElementType::BF16;
    default:
      return machine::ElementType::F32;
    }
  };
  double bytes = 0;
  for (Value operand : matmul->getOperands())
    bytes += double(contiguousBytes(typeOf(operand)));
  return machine.product(c.rows, c.columns, k, c.batch,
                         std::min(factorType(matmul.getA()), factorType(matmul.getB())), bytes);
}

double Costs::collective(Operation *command) const {
  using machine::Collective;
  const auto [kind, ranks] =
      llvm::TypeSwitch<Operation *, std::pair<Collective, graph::RankSet>>(command)
          .Case<AllReduceOp>(
              [](auto op) { return std::pair(Collective::AllReduce, op.getRanks()); })
          .Case<ReduceScatterOp>(
              [](auto op) { return std::pair(Collective::ReduceScatter, op.getRanks()); })
          .Default([](Operation *op) {
            return std::pair(Collective::AllGather, cast<AllGatherOp>(op).getRanks());
          });
  const int64_t nodes = int64_t(llvm::divideCeil(world, machine.ranksPerNode));
  int64_t members = world, spread = nodes;
  if (ranks == graph::RankSet::group) {
    members = group;
    spread = int64_t(llvm::divideCeil(group, machine.ranksPerNode));
  } else if (ranks == graph::RankSet::peers) {
    members = world / group;
    spread = std::min(members, nodes);
  }
  return machine.collective(kind, double(collectiveBytes(command)), members, spread,
                            machine.node.besideKernels);
}

} // namespace nano::schedule
