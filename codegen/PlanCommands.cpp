// Launches, products, collectives and events with their operands as byte ranges.
#include "codegen/PlanCommands.h"

#include "ir/step/Labels.h"
#include "ir/step/PickedReads.h"

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

std::vector<plan::TensorMap> tensorMapsOf(func::FuncOp kernel) {
  std::vector<plan::TensorMap> maps;
  auto entries = kernel->getAttrOfType<ArrayAttr>("nano.tensor_maps");
  if (!entries)
    return maps;
  for (auto entry : entries.getAsRange<DenseI64ArrayAttr>()) {
    plan::TensorMap &map = maps.emplace_back();
    map.argument = uint32_t(entry[0]);
    map.type = dtypeOf(cast<MemRefType>(kernel.getArgumentTypes()[entry[0]]).getElementType());
    map.columns = uint64_t(entry[1]);
    map.rows = uint64_t(entry[2]);
    map.rowBytes = uint64_t(entry[3]);
    map.boxColumns = uint32_t(entry[4]);
    map.boxRows = uint32_t(entry[5]);
    map.swizzleBytes = uint32_t(entry[6]);
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

  LogicalResult launch(step::LaunchOp op, Command &command);
  void matmul(step::MatmulOp op, Command &command);
  void moves(Command::Kind kind, ArrayRef<step::Access> accesses, size_t counted, Command &command);
  /// A command between wholes and parts: pairs of a source and a target.
  template <typename OpTy>
  LogicalResult parts(Command::Kind kind, OpTy op, ValueRange pieces, Command &command);

  const PlanIndex &index;
  const step::KernelTable &kernels;
};

LogicalResult CommandWriter::launch(step::LaunchOp op, Command &command) {
  StringAttr name = op.getKernelAttr().getAttr();
  const step::KernelInfo *kernel = kernels.find(name);
  auto found = index.kernels.find(name);
  if (!kernel || found == index.kernels.end())
    return op.emitOpError("no kernel of the plan is called ") << op.getKernelAttr();
  command.kind = Command::Kind::Launch;
  command.kernel = found->second;
  SmallVector<step::Access> accesses = step::accessesOf(op, kernels);
  size_t arguments = accesses.size() / op.getSegments();
  std::optional<ArrayRef<int64_t>> iterations = op.getIterations();
  for (uint64_t i = 0; i < op.getSegments(); ++i) {
    Command::Segment segment;
    segment.iterations = iterations ? (*iterations)[i] : kernel->iterations;
    for (auto [j, access] : llvm::enumerate(ArrayRef(accesses).slice(i * arguments, arguments))) {
      Ref operand = ref(access.buffer, access.reads, access.writes);
      operand.bytes = uint64_t(
          step::touchedBytes(kernel->function, j, typeOf(access.buffer), segment.iterations));
      segment.args.push_back(operand);
    }
    segment.grain = kernel->grain;
    command.segments.push_back(std::move(segment));
  }
  return success();
}

void CommandWriter::matmul(step::MatmulOp op, Command &command) {
  command.kind = Command::Kind::Matmul;
  step::MatrixLayout a = *step::matrixLayout(typeOf(op.getA())),
                     b = *step::matrixLayout(typeOf(op.getB())),
                     c = *step::matrixLayout(typeOf(op.getC()));
  command.transposeA = op.getTransposeA();
  command.transposeB = op.getTransposeB();
  command.m = c.rows;
  command.n = c.columns;
  command.k = command.transposeA ? a.rows : a.columns;
  command.batch = c.batch;
  command.a = ref(op.getA(), true, false);
  command.b = ref(op.getB(), true, false);
  command.c = ref(op.getC(), false, true);
  command.aType = dtypeOf(typeOf(op.getA()).getElementType());
  command.bType = dtypeOf(typeOf(op.getB()).getElementType());
  command.cType = dtypeOf(typeOf(op.getC()).getElementType());
  command.lda = a.leading;
  command.ldb = b.leading;
  command.ldc = c.leading;
  command.strideA = a.batchStride;
  command.strideB = b.batchStride;
  command.strideC = c.batchStride;
  command.alpha = op.getAlpha().convertToDouble();
  command.beta = 0;
  if (op.getD()) {
    step::MatrixLayout d = *step::matrixLayout(typeOf(op.getD()));
    command.d = ref(op.getD(), true, false);
    command.ldd = d.leading;
    command.strideD = d.batchStride;
    command.beta = op.getBeta().convertToDouble();
  }
  if (!op.getScaleA())
    return;
  command.scaled = true;
  command.scaleA = ref(op.getScaleA(), true, false);
  command.scaleB = ref(op.getScaleB(), true, false);
  ArrayRef<int64_t> scalesA = typeOf(op.getScaleA()).getShape(),
                    scalesB = typeOf(op.getScaleB()).getShape();
  if (!scalesA.empty()) {
    const unsigned outerA = command.transposeA ? 1 : 0, outerB = command.transposeB ? 0 : 1;
    command.scaleBlock = graph::ScaledMatmulOp::blockSize;
    command.scaleRowsA = command.m / scalesA[outerA];
    command.scaleRowsB = command.n / scalesB[outerB];
    auto strides = [](MemRefType type, unsigned outer) -> std::array<int64_t, 2> {
      const SmallVector<int64_t> each = type.getStridesAndOffset().first;
      return {each[outer], each[1 - outer]};
    };
    command.scaleStridesA = strides(typeOf(op.getScaleA()), outerA);
    command.scaleStridesB = strides(typeOf(op.getScaleB()), outerB);
  }
}

/// Collectives, fills and copies: one operand an access, a count for each of the first `counted`.
void CommandWriter::moves(Command::Kind kind, ArrayRef<step::Access> accesses, size_t counted,
                          Command &command) {
  command.kind = kind;
  command.type = dtypeOf(typeOf(accesses.front().buffer).getElementType());
  for (const step::Access &access : accesses) {
    command.refs.push_back(ref(access.buffer, access.reads, access.writes));
    if (command.counts.size() < counted)
      command.counts.push_back(typeOf(access.buffer).getNumElements());
  }
}

template <typename OpTy>
LogicalResult CommandWriter::parts(Command::Kind kind, OpTy op, ValueRange pieces,
                                   Command &command) {
  moves(kind, step::accessesOf(op, kernels), 0, command);
  command.ranks = planRanks(op.getRanks());
  for (Value piece : pieces)
    command.counts.push_back(typeOf(piece).getNumElements());
  return success();
}

FailureOr<Command> CommandWriter::write(step::StepCommandOpInterface op) {
  Command command;
  command.stream = uint32_t(op.getStream());
  command.label = step::labelOf(op);
  command.location = planLocation(op.getLoc());
  SmallVector<step::Access> accesses = step::accessesOf(op, kernels);
  auto event = [&](Command::Kind kind, uint64_t number) {
    command.kind = kind;
    command.event = uint32_t(number);
    return success();
  };
  LogicalResult result =
      llvm::TypeSwitch<Operation *, LogicalResult>(op)
          .Case<step::LaunchOp>([&](auto launchOp) { return launch(launchOp, command); })
          .Case<step::MatmulOp>([&](auto matmulOp) {
            matmul(matmulOp, command);
            return success();
          })
          .Case<step::AllReduceOp>([&](auto reduce) {
            moves(Command::Kind::AllReduce, accesses, accesses.size(), command);
            command.ranks = planRanks(reduce.getRanks());
            command.maximum = reduce.getCombiner() == graph::Combiner::max;
            return success();
          })
          .Case<step::ReduceScatterOp>([&](auto scatter) {
            return parts(Command::Kind::ReduceScatter, scatter, scatter.getOuts(), command);
          })
          .Case<step::AllGatherOp>([&](auto gather) {
            return parts(Command::Kind::AllGather, gather, gather.getIns(), command);
          })
          .Case<step::ShardOp>([&](auto shard) {
            return parts(Command::Kind::Shard, shard, shard.getOuts(), command);
          })
          .Case<step::FillOp>([&](auto) {
            moves(Command::Kind::Fill, accesses, 1, command);
            return success();
          })
          .Case<step::CopyOp>([&](auto) {
            moves(Command::Kind::Copy, accesses, 1, command);
            return success();
          })
          .Case<step::RecordOp>(
              [&](auto record) { return event(Command::Kind::RecordEvent, record.getEvent()); })
          .Case<step::WaitOp>(
              [&](auto wait) { return event(Command::Kind::WaitEvent, wait.getEvent()); })
          .Default([](Operation *other) {
            return other->emitOpError("has no form in a plan: nano-lower-kernels runs first");
          });
  if (failed(result))
    return failure();
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
    if (isa<step::RecordOp>(op))
      result.events = std::max(result.events, command->event + 1);
    result.commands.push_back(std::move(*command));
  }
  return result;
}

} // namespace nano::codegen
