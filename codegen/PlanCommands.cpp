// Launches, products, collectives and events with their operands as byte ranges.
#include "codegen/PlanCommands.h"

#include "ir/graph/ScaledOps.h"
#include "ir/step/Labels.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using nano::plan::Command;
using nano::plan::DType;
using nano::plan::Ref;

namespace nano::codegen {

DType dtypeOf(Type type) {
  if (type.isBF16())
    return DType::BF16;
  if (isa<Float8E4M3FNType>(type))
    return DType::F8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return DType::F8E5M2;
  if (type.isInteger(16))
    return DType::U16;
  return type.isInteger(32) ? DType::I32 : DType::F32;
}

plan::Location planLocation(Location location) {
  FileLineColLoc file = step::fileLocation(location);
  if (!file)
    return {};
  return {file.getFilename().str(), file.getLine()};
}

std::vector<plan::TensorMap> tensorMapsOf(kernel::FuncOp kernel) {
  std::vector<plan::TensorMap> maps;
  if (!kernel.getTensorMaps())
    return maps;
  for (auto entry : kernel.getTensorMaps()->getAsRange<kernel::TensorMapAttr>()) {
    plan::TensorMap &map = maps.emplace_back();
    map.argument = uint32_t(entry.getBuffer());
    map.type = dtypeOf(kernel.getBufferType(entry.getBuffer()).getElementType());
    map.columns = uint64_t(entry.getColumns());
    map.rows = uint64_t(entry.getRows());
    map.rowBytes = uint64_t(entry.getRowBytes());
    map.boxColumns = uint32_t(entry.getBoxColumns());
    map.boxRows = uint32_t(entry.getBoxRows());
    map.swizzleBytes = uint32_t(entry.getSwizzleBytes());
  }
  return maps;
}

plan::Ranks planRanks(graph::RankSet ranks) {
  switch (ranks) {
  case graph::RankSet::all:
    return plan::Ranks::All;
  case graph::RankSet::group:
    return plan::Ranks::Group;
  case graph::RankSet::peers:
    return plan::Ranks::Peers;
  }
  llvm_unreachable("a set of ranks");
}

namespace {

MemRefType typeOf(Value buffer) { return cast<MemRefType>(buffer.getType()); }

class CommandWriter {
public:
  CommandWriter(const PlanIndex &index, const step::KernelTable &kernels)
      : index(index), kernels(kernels) {}

  FailureOr<Command> write(step::StepCommandOpInterface op);

private:
  Ref ref(Value buffer, bool read, bool written) const {
    PlanIndex::Start start = index.buffers.at(step::bufferKey(buffer));
    int64_t offset = step::layoutOf(typeOf(buffer)).offset;
    Ref ref;
    ref.buffer = start.buffer;
    ref.offset =
        start.offset + uint64_t(offset * step::elementBytes(typeOf(buffer).getElementType()));
    ref.read = read;
    ref.written = written;
    ref.bytes = uint64_t(typeOf(buffer).getNumElements() *
                         step::elementBytes(typeOf(buffer).getElementType()));
    return ref;
  }

  FailureOr<plan::Launch> launch(step::LaunchOp op);
  plan::Launch launch(const step::Candidate &candidate);
  plan::Matmul matmul(step::MatmulOp op);
  plan::AllReduce allReduce(step::AllReduceOp op);
  /// A command between wholes and parts: pairs of a source and a target; `pieces` are the parts.
  template <typename Action, typename OpTy> Action exchange(OpTy op, ValueRange pieces);
  FailureOr<Command::Action> action(step::StepCommandOpInterface op);

  const PlanIndex &index;
  const step::KernelTable &kernels;
};

FailureOr<plan::Launch> CommandWriter::launch(step::LaunchOp op) {
  StringAttr name = op.getKernelAttr().getAttr();
  kernel::FuncOp kernel = kernels.find(name);
  auto found = index.kernels.find(name);
  if (!kernel || found == index.kernels.end())
    return op.emitOpError("no kernel of the plan is called ") << op.getKernelAttr();
  plan::Launch launch;
  launch.kernel = found->second;
  SmallVector<step::Access> accesses = step::accessesOf(op, kernels);
  size_t arguments = accesses.size() / op.getSegments();
  std::optional<ArrayRef<int64_t>> iterations = op.getIterations();
  for (uint64_t i = 0; i < op.getSegments(); ++i) {
    plan::Launch::Segment &segment = launch.segments.emplace_back();
    segment.iterations =
        iterations ? (*iterations)[i] : int64_t(kernel.getIterations().value_or(0));
    for (auto [j, access] : llvm::enumerate(ArrayRef(accesses).slice(i * arguments, arguments))) {
      Ref operand = ref(access.buffer, access.reads, access.writes);
      operand.bytes = uint64_t(kernel.touchedBytes(j, typeOf(access.buffer), segment.iterations));
      segment.args.push_back(operand);
    }
    segment.grain = int64_t(kernel.getGrain());
  }
  return launch;
}

plan::Launch CommandWriter::launch(const step::Candidate &candidate) {
  kernel::FuncOp kernel = candidate.kernel;
  plan::Launch launch;
  launch.kernel = index.kernels.at(kernel.getSymNameAttr());
  plan::Launch::Segment &segment = launch.segments.emplace_back();
  segment.iterations = int64_t(*kernel.getIterations());
  segment.grain = int64_t(kernel.getGrain());
  for (auto [i, buffer] : llvm::enumerate(candidate.buffers)) {
    Ref operand = ref(buffer, kernel.reads(i), kernel.writes(i));
    operand.bytes = uint64_t(kernel.touchedBytes(i, typeOf(buffer), segment.iterations));
    segment.args.push_back(operand);
  }
  return launch;
}

plan::Matmul CommandWriter::matmul(step::MatmulOp op) {
  plan::Matmul matmul;
  step::MatrixLayout a = *step::matrixLayout(typeOf(op.getA())),
                     b = *step::matrixLayout(typeOf(op.getB())),
                     c = *step::matrixLayout(typeOf(op.getC()));
  matmul.transposeA = op.getTransposeA();
  matmul.transposeB = op.getTransposeB();
  matmul.m = c.rows;
  matmul.n = c.columns;
  matmul.k = matmul.transposeA ? a.rows : a.columns;
  matmul.batch = c.batch;
  matmul.a = ref(op.getA(), true, false);
  matmul.b = ref(op.getB(), true, false);
  matmul.c = ref(op.getC(), false, true);
  matmul.aType = dtypeOf(typeOf(op.getA()).getElementType());
  matmul.bType = dtypeOf(typeOf(op.getB()).getElementType());
  matmul.cType = dtypeOf(typeOf(op.getC()).getElementType());
  matmul.lda = a.leading;
  matmul.ldb = b.leading;
  matmul.ldc = c.leading;
  matmul.strideA = a.batchStride;
  matmul.strideB = b.batchStride;
  matmul.strideC = c.batchStride;
  matmul.alpha = op.getAlpha().convertToDouble();
  if (op.getD()) {
    step::MatrixLayout d = *step::matrixLayout(typeOf(op.getD()));
    matmul.d = ref(op.getD(), true, false);
    matmul.ldd = d.leading;
    matmul.strideD = d.batchStride;
    matmul.beta = op.getBeta().convertToDouble();
  }
  if (!op.getScaleA())
    return matmul;
  plan::MatmulScales &scales = matmul.scales.emplace();
  scales.a = ref(op.getScaleA(), true, false);
  scales.b = ref(op.getScaleB(), true, false);
  ArrayRef<int64_t> scalesA = typeOf(op.getScaleA()).getShape(),
                    scalesB = typeOf(op.getScaleB()).getShape();
  if (!scalesA.empty()) {
    const unsigned outerA = matmul.transposeA ? 1 : 0, outerB = matmul.transposeB ? 0 : 1;
    scales.block = graph::ScaledMatmulOp::blockSize;
    scales.rowsA = matmul.m / scalesA[outerA];
    scales.rowsB = matmul.n / scalesB[outerB];
    auto strides = [](MemRefType type, unsigned outer) -> std::array<int64_t, 2> {
      const SmallVector<int64_t> each = type.getStridesAndOffset().first;
      return {each[outer], each[1 - outer]};
    };
    scales.stridesA = strides(typeOf(op.getScaleA()), outerA);
    scales.stridesB = strides(typeOf(op.getScaleB()), outerB);
  }
  return matmul;
}

plan::AllReduce CommandWriter::allReduce(step::AllReduceOp op) {
  plan::AllReduce reduce;
  reduce.ranks = planRanks(op.getRanks());
  reduce.maximum = op.getCombiner() == graph::Combiner::max;
  reduce.type = dtypeOf(typeOf(op.getBuffers().front()).getElementType());
  for (Value buffer : op.getBuffers())
    reduce.parts.push_back({ref(buffer, true, true), typeOf(buffer).getNumElements()});
  return reduce;
}

template <typename Action, typename OpTy>
Action CommandWriter::exchange(OpTy op, ValueRange pieces) {
  Action exchange;
  exchange.ranks = planRanks(op.getRanks());
  exchange.type = dtypeOf(typeOf(pieces.front()).getElementType());
  for (auto [in, out, piece] : llvm::zip(op.getIns(), op.getOuts(), pieces))
    exchange.moves.push_back(
        {ref(in, true, false), ref(out, false, true), typeOf(piece).getNumElements()});
  return exchange;
}

FailureOr<Command::Action> CommandWriter::action(step::StepCommandOpInterface op) {
  using Action = FailureOr<Command::Action>;
  return llvm::TypeSwitch<Operation *, Action>(op)
      .Case<step::LaunchOp>([&](auto launchOp) -> Action {
        FailureOr<plan::Launch> result = launch(launchOp);
        if (failed(result))
          return failure();
        return Command::Action(std::move(*result));
      })
      .Case<step::MatmulOp>([&](auto matmulOp) { return Command::Action(matmul(matmulOp)); })
      .Case<step::AllReduceOp>([&](auto reduce) { return Command::Action(allReduce(reduce)); })
      .Case<step::ReduceScatterOp>([&](auto scatter) {
        return Command::Action(exchange<plan::ReduceScatter>(scatter, scatter.getOuts()));
      })
      .Case<step::AllGatherOp>([&](auto gather) {
        return Command::Action(exchange<plan::AllGather>(gather, gather.getIns()));
      })
      .Case<step::ShardOp>([&](auto shard) {
        return Command::Action(exchange<plan::Shard>(shard, shard.getOuts()));
      })
      .Case<step::FillOp>([&](auto fill) {
        const MemRefType type = typeOf(fill.getBuffer());
        return Command::Action(plan::Fill{dtypeOf(type.getElementType()),
                                          ref(fill.getBuffer(), false, true),
                                          type.getNumElements()});
      })
      .Case<step::CopyOp>([&](auto copy) {
        const MemRefType type = typeOf(copy.getSource());
        return Command::Action(
            plan::Copy{dtypeOf(type.getElementType()), ref(copy.getSource(), true, false),
                       ref(copy.getTarget(), false, true), type.getNumElements()});
      })
      .Case<step::RecordOp>([](auto record) {
        return Command::Action(plan::RecordEvent{uint32_t(record.getEvent())});
      })
      .Case<step::WaitOp>(
          [](auto wait) { return Command::Action(plan::WaitEvent{uint32_t(wait.getEvent())}); })
      .Default([](Operation *other) -> Action {
        return other->emitOpError("has no form in a plan: nano-lower-kernels runs first");
      });
}

FailureOr<Command> CommandWriter::write(step::StepCommandOpInterface op) {
  FailureOr<Command::Action> made = action(op);
  if (failed(made))
    return failure();
  Command command;
  command.action = std::move(*made);
  for (const step::Candidate &candidate : step::candidatesOf(op, kernels))
    command.candidates.push_back(launch(candidate));
  command.stream = uint32_t(op.getStream());
  command.label = step::labelOf(op);
  command.location = planLocation(op.getLoc());
  return command;
}

} // namespace

FailureOr<plan::Program> planProgram(step::ProgramOp program, const PlanIndex &index,
                                     const step::KernelTable &kernels) {
  plan::Program result;
  result.name = program.getSymName();
  CommandWriter writer(index, kernels);
  for (Operation &op : program.getBody().front()) {
    auto commandOp = dyn_cast<step::StepCommandOpInterface>(op);
    if (!commandOp)
      continue;
    FailureOr<Command> command = writer.write(commandOp);
    if (failed(command))
      return failure();
    result.streams = std::max(result.streams, command->stream + 1);
    if (const auto *record = command->as<plan::RecordEvent>())
      result.events = std::max(result.events, record->event + 1);
    result.commands.push_back(std::move(*command));
  }
  return result;
}

} // namespace nano::codegen
