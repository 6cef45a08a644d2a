// The rules that every plan obeys, so that whoever executes one need not check an index or a range
// again.
#include "runtime/plan/ElfSymbols.h"
#include "runtime/plan/Expr.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/TensorMaps.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

namespace nano::plan {
namespace {

/// Bytes of a kernel's parameters, on every GPU that CUDA plans are for.
constexpr uint64_t maxParameterBytes = 32764;

/// The rule that a plan breaks; caught in `validate`.
struct Violation {
  std::string message;
};

std::string quoted(const std::string &name) { return "'" + name + "'"; }

/// a·b for sizes; saturates, so that an absurd product is larger than any buffer.
uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/// What ranks may combine.
bool isFloat(DType type) { return type == DType::F32 || type == DType::BF16; }

/// Streams of a program at most.
constexpr uint32_t mostStreams = 64;

/// Of a command that makes sense among several ranks only.
bool isShared(const Command &command) {
  return isCollective(command) || command.kind == Command::Kind::Shard;
}

/// Checks one plan; `item` says where it is, for the message.
class Validator {
public:
  explicit Validator(const Plan &plan) : plan(plan) {}

  void run() {
    header();
    for (const Buffer &buffer : plan.buffers)
      check(buffer);
    scalars();
    for (const State &state : plan.states)
      check(state);
    kernels();
    for (const Program &program : plan.programs)
      check(program);
    training();
  }

private:
  void require(bool holds, const char *rule) const {
    if (!holds)
      fail(rule);
  }
  [[noreturn]] void fail(const std::string &rule) const { throw Violation{item + ": " + rule}; }
  void named(const char *what, const std::string &name, std::unordered_set<std::string> &seen) {
    item = std::string(what) + " " + quoted(name);
    require(!name.empty(), "the name is empty");
    require(seen.insert(name).second, "the name is used twice");
  }

  const Buffer &bufferAt(uint32_t index) const {
    if (index >= plan.buffers.size())
      fail("buffer " + std::to_string(index) + " does not exist, there are " +
           std::to_string(plan.buffers.size()));
    return plan.buffers[index];
  }
  uint64_t elements(const std::vector<int64_t> &shape) const {
    uint64_t count = 1;
    for (int64_t size : shape) {
      require(size >= 0, "a dimension is negative");
      count = times(count, uint64_t(size));
    }
    return count;
  }
  /// `bytes` from the ref's start must lie inside its buffer.
  void inside(const Ref &ref, uint64_t bytes, const char *what) const {
    const Buffer &buffer = bufferAt(ref.buffer);
    if (plus(ref.offset, bytes) > buffer.bytes)
      fail(std::string(what) + " needs " + std::to_string(bytes) + " bytes at offset " +
           std::to_string(ref.offset) + " of buffer " + quoted(buffer.name) + ", which has " +
           std::to_string(buffer.bytes));
  }

  void header();
  void check(const Buffer &buffer);
  void check(const State &state);
  void check(const State &state, const Sharding &sharding);
  void check(const Program &program);
  void check(const Command &command, const Program &program);
  void check(const Expr &expr, int depth) const;
  void launch(const Command &command) const;
  void cudaLaunch(const Command &command) const;
  void check(const TensorMap &map, const Command::Segment &segment) const;
  void matmul(const Command &command) const;
  void scales(const Command &command) const;
  void moves(const Command &command) const;
  void exchange(const Command &command) const;
  void apart(const Ref &from, uint64_t fromBytes, const Ref &to, uint64_t toBytes) const;
  bool program(const std::string &name) const;
  bool programAlone(const std::string &name) const;
  void phases() const;
  void scalars();
  void kernels();
  void cudaKernels();
  void training();

  const Plan &plan;
  std::string item;
  /// `fileNames`: what checkpoints call states, that is, whole states and pieces of sharded ones.
  std::unordered_set<std::string> bufferNames, stateNames, fileNames, programNames;
};

void Validator::header() {
  item = "the plan";
  require(plan.target == "cpu" || plan.target == "cuda", "the target is neither cpu nor cuda");
  require(!plan.worlds.empty(), "it names no number of ranks");
  require(plan.group >= 1, "a group has no rank");
  for (int64_t world : plan.worlds) {
    require(world >= 1, "a number of ranks is below 1");
    require(world % plan.group == 0, "the ranks of a group do not divide a number of ranks");
  }
}

void Validator::check(const Buffer &buffer) {
  named("buffer", buffer.name, bufferNames);
  require(buffer.offset % 256 == 0, "the offset is not a multiple of 256");
  require(plus(buffer.offset, buffer.bytes) <= plan.arenaBytes, "it reaches beyond the arena");
  require(times(elements(buffer.shape), sizeOf(buffer.type)) <= buffer.bytes,
          "its shape needs more bytes than it has");
}

void Validator::check(const State &state) {
  named("state", state.name, stateNames);
  uint64_t count = elements(state.shape);
  inside({state.buffer, 0}, times(count, sizeOf(state.type)), "the value");
  if (state.init.kind == Init::Kind::Constant)
    require(state.init.values.size() == 1 || state.init.values.size() == count,
            "the initial value has neither one number nor one for each element");
  if (state.init.kind == Init::Kind::Normal)
    require(state.init.stddev >= 0, "the standard deviation is negative");
  if (state.init.kind == Init::Kind::Uniform)
    require(state.init.low <= state.init.high, "the initial range is empty");
  if (state.sharding)
    return check(state, *state.sharding);
  require(state.role == State::Role::Gradient || fileNames.insert(state.name).second,
          "a piece of another state has the same name");
}

void Validator::check(const State &state, const Sharding &sharding) {
  const uint64_t count = elements(state.shape);
  const bool isStored = state.role != State::Role::Gradient;
  require(state.role != State::Role::Parameter, "parts of a parameter have no place in files");
  require(sharding.parts >= 1 && sharding.chunk >= 1,
          "it has no parts, or chunks without elements");
  require(count % uint64_t(sharding.chunk) == 0, "its elements are no multiple of a chunk's");
  for (int64_t world : plan.worlds)
    require(membersOf(sharding.ranks, world, plan.group) == sharding.parts,
            "its parts are not as many as the ranks that hold them");
  require(state.init.kind == Init::Kind::Constant && state.init.values.size() == 1,
          "it is in parts, and its initial value is not one number");
  const uint64_t whole = times(count, uint64_t(sharding.parts));
  uint64_t end = 0;
  for (const Sharding::Piece &piece : sharding.pieces) {
    item = "piece " + quoted(piece.name) + " of state " + quoted(state.name);
    require(!piece.name.empty(), "the name is empty");
    require(!isStored || fileNames.insert(piece.name).second, "the name is used twice");
    require(piece.offset >= 0 && uint64_t(piece.offset) >= end,
            "it begins before the end of the piece before it");
    end = plus(uint64_t(piece.offset), elements(piece.shape));
    require(end <= whole, "it reaches beyond the whole");
  }
}

void Validator::check(const Expr &expr, int depth) const {
  require(depth <= 100, "the expression nests more than 100 deep");
  require(expr.operands.size() == arity(expr.kind),
          "an operation has the wrong number of operands");
  if (expr.kind == Expr::Kind::Variable && !isVariable(expr.variable))
    fail("unknown variable " + quoted(expr.variable));
  for (const Expr &operand : expr.operands)
    check(operand, depth + 1);
}

void Validator::scalars() {
  item = "the scalar buffer";
  if (!plan.scalars.empty())
    bufferAt(plan.scalarBuffer);
  std::unordered_set<std::string> names;
  std::unordered_set<uint64_t> offsets;
  for (const Scalar &scalar : plan.scalars) {
    named("scalar", scalar.name, names);
    require(scalar.type == DType::F32 || scalar.type == DType::I32, "it is neither f32 nor i32");
    require(scalar.offset % 4 == 0, "the offset is not a multiple of 4");
    require(offsets.insert(scalar.offset).second, "another scalar has the same offset");
    inside({plan.scalarBuffer, scalar.offset}, 4, "the value");
    check(scalar.value, 0);
  }
}

void Validator::kernels() {
  std::unordered_set<std::string> names;
  for (const Kernel &kernel : plan.kernels) {
    named("kernel", kernel.name, names);
    require(std::isfinite(kernel.flops) && kernel.flops >= 0,
            "its number of operations is not finite, or negative");
    require(plan.target == "cuda" || (kernel.clusterBlocks == 1 && kernel.tensorMaps.empty()),
            "it has clusters or tensor maps, which are for target cuda only");
  }
  if (plan.target == "cuda")
    return cudaKernels();
  item = "the plan";
  require(plan.sources.empty(), "it has device code, which is for target cuda only");
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    require(kernel.source.empty(), "it names device code, which is for target cuda only");
  }
  if (plan.kernels.empty())
    return;
  item = "the plan";
  auto symbols = definedSymbols(plan.code);
  if (!symbols)
    fail(symbols.error().message);
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    require(symbols->count(kernel.name) == 1, "the native code does not define it");
  }
}

void Validator::cudaKernels() {
  std::unordered_set<std::string> names;
  for (const Source &source : plan.sources) {
    named("source", source.name, names);
    require(source.name.find('/') == std::string::npos && source.name != "." && source.name != "..",
            "the name is not a plain file name");
  }
  item = "the plan";
  require(plan.code.empty(), "it has native code, which is for target cpu only");
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    if (!names.count(kernel.source))
      fail("its source " + quoted(kernel.source) + " does not exist");
    require(kernel.threads >= 32 && kernel.threads <= 1024 && kernel.threads % 32 == 0,
            "the number of threads is not a multiple of 32 from 32 to 1024");
    require(kernel.iterationsPerBlock >= 1, "a block has no iteration");
    require(kernel.sharedBytes <= maxSharedBytes, "it needs more shared memory than a block has");
    require(kernel.maxSegments >= 1, "it takes no segment");
    require(kernel.scratchBytes == 0, "it needs scratch memory, which is for target cpu only");
    require(kernel.clusterBlocks >= 1 && kernel.clusterBlocks <= mostClusterBlocks,
            "a cluster has not 1 to 8 blocks");
    require(kernel.tensorMaps.empty() || kernel.maxSegments == 1,
            "it has tensor maps and takes more than one segment");
    for (const TensorMap &map : kernel.tensorMaps)
      if (const char *rule = brokenRule(map))
        fail(std::string("a tensor map: ") + rule);
  }
}

void Validator::check(const Program &program) {
  named("program", program.name, programNames);
  require(program.streams >= 1, "it has no stream");
  require(program.streams <= mostStreams, "it has more than 64 streams");
  require(program.events <= program.commands.size(), "it has more events than commands");
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    try {
      item.clear();
      check(command, program);
    } catch (const Violation &violation) {
      throw Violation{"program " + quoted(program.name) + ", command " + std::to_string(i) +
                      (command.label.empty() ? "" : " " + quoted(command.label)) +
                      violation.message};
    }
  }
}

void Validator::check(const Command &command, const Program &program) {
  using Kind = Command::Kind;
  require(command.stream < program.streams, "the stream does not exist");
  switch (command.kind) {
  case Kind::Launch:
    return launch(command);
  case Kind::Matmul:
    return matmul(command);
  case Kind::ReduceScatter:
  case Kind::AllGather:
  case Kind::Shard:
    return exchange(command);
  case Kind::AllReduce:
  case Kind::Fill:
  case Kind::Copy:
    return moves(command);
  case Kind::RecordEvent:
  case Kind::WaitEvent:
    return require(command.event < program.events, "the event does not exist");
  }
  fail("its kind is unknown");
}

void Validator::launch(const Command &command) const {
  require(command.kernel < plan.kernels.size(), "the kernel does not exist");
  require(!command.segments.empty(), "it has no segment");
  for (const Command::Segment &segment : command.segments) {
    require(segment.iterations >= 0, "the number of iterations is negative");
    require(segment.grain >= 1, "the grain is below 1");
    for (const Ref &ref : segment.args)
      inside(ref, ref.bytes, "an operand");
  }
  if (plan.target == "cuda")
    cudaLaunch(command);
}

void Validator::cudaLaunch(const Command &command) const {
  const Kernel &kernel = plan.kernels[command.kernel];
  require(command.segments.size() <= kernel.maxSegments, "it has more segments than the kernel");
  size_t args = command.segments[0].args.size();
  uint64_t blocks = 0;
  for (const Command::Segment &segment : command.segments) {
    require(segment.args.size() == args, "its segments differ in their number of operands");
    blocks = plus(blocks, uint64_t(segment.iterations) / uint64_t(kernel.iterationsPerBlock) + 1);
    const uint64_t own = uint64_t(segment.iterations / kernel.iterationsPerBlock) +
                         uint64_t(segment.iterations % kernel.iterationsPerBlock != 0);
    require(own % kernel.clusterBlocks == 0,
            "its number of blocks is not a multiple of a cluster's");
    for (const TensorMap &map : kernel.tensorMaps)
      check(map, segment);
  }
  require(blocks <= INT32_MAX, "it needs more blocks than a grid has");
  uint64_t bytes = plus(8, times(kernel.maxSegments, times(args + 2, 8)));
  if (const size_t maps = kernel.tensorMaps.size())
    bytes = plus((bytes + encodedMapAlignment - 1) / encodedMapAlignment * encodedMapAlignment,
                 times(maps, encodedMapBytes));
  require(bytes <= maxParameterBytes,
          "its operands need more than the 32764 bytes that a kernel's parameters may have");
}

void Validator::check(const TensorMap &map, const Command::Segment &segment) const {
  require(map.argument < segment.args.size(), "a tensor map is of an operand that does not exist");
  const Ref &ref = segment.args[map.argument];
  require(ref.offset % 16 == 0, "a matrix of a tensor map does not start at a multiple of 16");
  inside(ref, bytesOf(map), "the matrix of a tensor map");
}

void Validator::matmul(const Command &command) const {
  require(command.m > 0 && command.n > 0 && command.k > 0 && command.batch > 0,
          "a size is not positive");
  require(command.aType != DType::I32 && command.bType != DType::I32, "an operand is i32");
  require(command.cType == DType::F32 || command.cType == DType::BF16,
          "the result is neither f32 nor bf16");
  require(std::isfinite(command.alpha) && std::isfinite(command.beta),
          "a factor is not a finite number");
  auto operand = [&](const char *what, const Ref &ref, DType type, uint64_t rows, uint64_t columns,
                     int64_t leading, int64_t stride) {
    if (leading < 0 || uint64_t(leading) < columns)
      fail(std::string(what) + ": the leading dimension is smaller than a row");
    if (stride < 0)
      fail(std::string(what) + ": the batch stride is negative");
    if (ref.offset % sizeOf(type))
      fail(std::string(what) + ": the offset is not a multiple of the element size");
    uint64_t last = plus(times(uint64_t(command.batch) - 1, uint64_t(stride)),
                         plus(times(rows - 1, uint64_t(leading)), columns));
    inside(ref, times(last, sizeOf(type)), what);
  };
  uint64_t m = command.m, n = command.n, k = command.k;
  operand("A", command.a, command.aType, command.transposeA ? k : m, command.transposeA ? m : k,
          command.lda, command.strideA);
  operand("B", command.b, command.bType, command.transposeB ? n : k, command.transposeB ? k : n,
          command.ldb, command.strideB);
  operand("C", command.c, command.cType, m, n, command.ldc, command.strideC);
  require(command.batch == 1 || command.strideC > 0, "C: all matrices of the batch are the same");
  if (command.beta != 0)
    operand("D", command.d, command.cType, m, n, command.ldd, command.strideD);
  if (command.scaled)
    scales(command);
}

void Validator::scales(const Command &command) const {
  require(isFloat8(command.aType) && isFloat8(command.bType), "it has scales, but no f8 operands");
  require(command.batch == 1, "it has scales and a batch");
  int64_t block = command.scaleBlock;
  require(block == 0 || block == 128, "its scales are for blocks of another size than 128");
  require(block == 0 || command.k % block == 0, "k is not a multiple of the blocks' size");
  auto scale = [&](const char *what, const Ref &ref, int64_t outer, int64_t rows,
                   const std::array<int64_t, 2> &strides) {
    uint64_t end = 1; // behind the last scale, in elements
    if (block) {
      if ((rows != 1 && rows != block) || outer % rows)
        fail(std::string(what) + ": the blocks' size does not divide the operand's");
      if (strides[0] < 0 || strides[1] < 0)
        fail(std::string(what) + ": a stride is negative");
      end = plus(end, times(uint64_t(outer / rows - 1), uint64_t(strides[0])));
      end = plus(end, times(uint64_t(command.k / block - 1), uint64_t(strides[1])));
    }
    if (ref.offset % sizeof(float))
      fail(std::string(what) + ": the offset is not a multiple of the element size");
    inside(ref, times(end, sizeof(float)), what);
  };
  scale("the scale of A", command.scaleA, command.m, command.scaleRowsA, command.scaleStridesA);
  scale("the scale of B", command.scaleB, command.n, command.scaleRowsB, command.scaleStridesB);
}

void Validator::moves(const Command &command) const {
  bool isCopy = command.kind == Command::Kind::Copy;
  bool isAllReduce = command.kind == Command::Kind::AllReduce;
  require(isAllReduce || command.refs.size() == (isCopy ? 2 : 1), "wrong number of operands");
  require(command.counts.size() == (isAllReduce ? command.refs.size() : 1),
          "wrong number of element counts");
  require(!isAllReduce || isFloat(command.type), "the element type is neither f32 nor bf16");
  for (int64_t count : command.counts)
    require(count >= 0, "a number of elements is negative");
  for (size_t i = 0; i < command.refs.size(); ++i) {
    uint64_t count = uint64_t(command.counts[isCopy ? 0 : i]);
    require(command.refs[i].offset % sizeOf(command.type) == 0,
            "an offset is not a multiple of the element size");
    inside(command.refs[i], times(count, sizeOf(command.type)), "an operand");
  }
  if (!isCopy)
    return;
  uint64_t bytes = uint64_t(command.counts[0]) * sizeOf(command.type);
  apart(command.refs[0], bytes, command.refs[1], bytes);
}

/// Both lie inside their buffers.
void Validator::apart(const Ref &from, uint64_t fromBytes, const Ref &to, uint64_t toBytes) const {
  auto start = [&](const Ref &ref) { return plan.buffers[ref.buffer].offset + ref.offset; };
  require(start(from) + fromBytes <= start(to) || start(to) + toBytes <= start(from),
          "source and destination overlap");
}

/// Collectives from a source to a target, one of which is the parts of all members.
void Validator::exchange(const Command &command) const {
  require(!command.refs.empty() && command.refs.size() == 2 * command.counts.size(),
          "it has not two operands for each element count");
  require(isFloat(command.type), "the element type is neither f32 nor bf16");
  require(!command.maximum, "only an all-reduce takes the maximum");
  const bool gathers = command.kind == Command::Kind::AllGather;
  for (size_t i = 0; i < command.counts.size(); ++i) {
    require(command.counts[i] >= 0, "a number of elements is negative");
    const Ref &from = command.refs[2 * i], &to = command.refs[2 * i + 1];
    for (const Ref *ref : {&from, &to})
      require(ref->offset % sizeOf(command.type) == 0,
              "an offset is not a multiple of the element size");
    const uint64_t part = times(uint64_t(command.counts[i]), sizeOf(command.type));
    for (int64_t world : plan.worlds) {
      const uint64_t whole = times(part, uint64_t(membersOf(command.ranks, world, plan.group)));
      inside(from, gathers ? part : whole, "a source");
      inside(to, gathers ? whole : part, "a target");
      apart(from, gathers ? part : whole, to, gathers ? whole : part);
    }
  }
}

/// Every step has what each number of ranks runs.
void Validator::phases() const {
  const Training &training = plan.training;
  for (const StepPrograms &phase : training.phases) {
    for (const std::string *name : {&phase.first, &phase.next, &phase.last, &phase.update})
      program(*name);
    require(!phase.last.empty(), "a step lacks its last micro-batch");
    for (int64_t world : plan.worlds) {
      const int64_t microBatches = training.globalBatch / (training.seqLen * world);
      require(microBatches < 2 || !phase.first.empty(),
              "a step of several micro-batches lacks the first");
      require(microBatches < 3 || !phase.next.empty(),
              "a step of three micro-batches or more lacks those between first and last");
    }
  }
}

/// Whether a program is named that each rank runs by itself; then it exists and exchanges nothing.
bool Validator::programAlone(const std::string &name) const {
  if (!program(name))
    return false;
  for (const Program &each : plan.programs)
    if (each.name == name && std::any_of(each.commands.begin(), each.commands.end(), isShared))
      fail("program " + quoted(name) + " runs on one rank alone and exchanges data with others");
  return true;
}

/// Whether a program is named; then it exists.
bool Validator::program(const std::string &name) const {
  if (!name.empty() && !programNames.count(name))
    fail("program " + quoted(name) + " does not exist");
  return !name.empty();
}

void Validator::training() {
  const Training &training = plan.training;
  item = "training";
  auto buffer = [&](uint32_t index, int64_t count, const char *what) {
    inside({index, 0}, times(uint64_t(count), 4), what);
  };
  const bool trains = !training.phases.empty();
  if (trains) {
    require(training.seqLen > 0 && training.globalBatch > 0 && training.numIterations >= 0 &&
                training.vocabSize > 0,
            "a size is not positive");
    for (int64_t world : plan.worlds)
      require(times(uint64_t(training.seqLen), uint64_t(world)) <= uint64_t(training.globalBatch) &&
                  training.globalBatch % (training.seqLen * world) == 0,
              "the global batch is no multiple of sequence length times number of ranks");
    phases();
    buffer(training.tokensBuffer, training.seqLen, "the tokens");
    buffer(training.targetsBuffer, training.seqLen, "the targets");
    buffer(training.lossBuffer, 1, "the loss");
  }
  if (programAlone(training.validate)) {
    require(training.valSeqLen > 0 && training.vocabSize > 0, "a size is not positive");
    buffer(training.valTokensBuffer, training.valSeqLen, "the validation tokens");
    buffer(training.valTargetsBuffer, training.valSeqLen, "the validation targets");
    buffer(training.valLossBuffer, 1, "the validation loss");
  }
  if (programAlone(training.generate)) {
    require(
        training.genSeqLen > 0 && training.vocabSize > 0 &&
            training.logitsColumns >= training.vocabSize,
        "sampling: a size is not positive, or the logits have fewer columns than the vocabulary");
    buffer(training.genTokensBuffer, training.genSeqLen, "the sampling tokens");
    inside({training.logitsBuffer, 0},
           times(times(uint64_t(training.genSeqLen), uint64_t(training.logitsColumns)), 4),
           "the logits");
  }
  if (programAlone(training.measure)) {
    require(trains && !training.scaledWeights.empty(),
            "there is a measuring program, but nothing that it measures");
    for (const ScaledWeight &weight : training.scaledWeights)
      if (std::none_of(plan.states.begin(), plan.states.end(), [&](const State &state) {
            return state.role == State::Role::Parameter && state.name == weight.name;
          }))
        fail("the measured weight " + quoted(weight.name) + " is no parameter");
    inside({training.reportBuffer, 0},
           times(times(training.scaledWeights.size(), uint64_t(reportColumns)), 4), "the report");
  }
  if (!training.logScalar.empty())
    require(std::any_of(plan.scalars.begin(), plan.scalars.end(),
                        [&](const Scalar &scalar) { return scalar.name == training.logScalar; }),
            "the scalar for the log does not exist");
}

} // namespace

Status validate(const Plan &plan) {
  try {
    Validator(plan).run();
  } catch (const Violation &violation) {
    return badInput(violation.message);
  }
  return ok();
}

Status validate(std::span<const Plan> variants) {
  if (variants.empty())
    return badInput("the plan: it names no number of ranks");
  const Plan &first = variants.front();
  std::set<int64_t> worlds;
  for (const Plan &plan : variants) {
    if (Status status = validate(plan); !status)
      return status;
    for (int64_t world : plan.worlds)
      if (!worlds.insert(world).second)
        return badInput("the plan: it names " + std::to_string(world) + " ranks twice");
    auto differ = [&](const char *what) {
      return badInput("the plan: the variants for " + std::to_string(first.worlds.front()) +
                      " and " + std::to_string(plan.worlds.front()) + " ranks differ in " + what);
    };
    if (plan.model != first.model || plan.source != first.source)
      return differ("their model");
    if (plan.target != first.target || plan.cpuFeatures != first.cpuFeatures)
      return differ("their target");
    if (plan.hyperparameters != first.hyperparameters)
      return differ("their hyperparameters");
    if (plan.kernels != first.kernels || plan.sources != first.sources || plan.code != first.code)
      return differ("their kernels");
  }
  return ok();
}

} // namespace nano::plan
