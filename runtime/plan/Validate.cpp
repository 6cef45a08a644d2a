// The rules that every plan obeys, so that whoever executes one need not check an index or a range
// again.
#include "runtime/plan/Expr.h"
#include "runtime/plan/JsonTree.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Overload.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Validator.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace nano::plan {
namespace {

/// Tokens of a step, and steps, at most: schedules compute with them as doubles.
constexpr int64_t mostOfRun = int64_t(1) << 53;

/// Of a command that makes sense among several ranks only.
bool isShared(const Command &command) { return isCollective(command) || command.is<Shard>(); }

} // namespace

void Validator::run() {
  header();
  unproven();
  for (const Buffer &buffer : plan.buffers)
    check(buffer);
  scalars();
  for (const State &state : plan.states)
    check(state);
  interchange();
  kernels();
  for (const Program &program : plan.programs)
    check(program);
  stages();
  indices();
  reads();
}

void Validator::unproven() {
  std::unordered_set<std::string> reports;
  for (const UnprovenKernel &kernel : plan.unproven) {
    named("unproven kernel", kernel.report, reports);
    require(!kernel.about.empty() && !kernel.line.empty(), "it does not say what it is");
    require(std::isfinite(kernel.tolerance) && kernel.tolerance >= 0,
            "its tolerance is negative or not finite");
  }
  item = "the plan";
  require(plan.unproven.empty() == plan.checks.empty() &&
              plan.unproven.empty() == plan.ours.empty(),
          "unproven kernels and the plans that prove them are not both there");
}

uint64_t Validator::elements(const std::vector<int64_t> &shape) const {
  uint64_t count = 1, largest = 1;
  for (int64_t size : shape) {
    require(size >= 0, "a dimension is negative");
    count = times(count, uint64_t(size));
    largest = times(largest, std::max<uint64_t>(uint64_t(size), 1));
  }
  // Then no product of some of the sizes is absurd either.
  require(count > 0 || largest <= mostArenaBytes, "its sizes are absurd");
  return count;
}

void Validator::within(const Ref &ref, uint64_t bytes, const char *what) const {
  const Buffer &buffer = bufferAt(ref.buffer);
  if (plus(ref.offset, bytes) > buffer.bytes)
    fail(std::string(what) + " needs " + std::to_string(bytes) + " bytes at offset " +
         std::to_string(ref.offset) + " of buffer " + quoted(buffer.name) + ", which has " +
         std::to_string(buffer.bytes));
}

void Validator::inside(const Ref &ref, uint64_t bytes, const char *what) const {
  within(ref, bytes, what);
  if (isInHost(plan, plan.buffers[ref.buffer]))
    fail(std::string(what) + " lies in the host's memory, which copies alone reach");
}

void Validator::header() {
  item = "the plan";
  if (!findTarget(plan.target))
    fail("the target is neither " + targetNames(" nor "));
  require(plan.arenaBytes <= mostArenaBytes, "the arena is larger than 2^46 bytes");
  require(plan.hostBytes <= mostArenaBytes, "the host's memory is larger than 2^46 bytes");
  require(!plan.worlds.empty(), "it names no number of ranks");
  require(plan.group >= 1, "a group has no rank");
  for (int64_t world : plan.worlds) {
    require(world >= 1, "a number of ranks is below 1");
    require(world <= mostRanks, "a number of ranks is above 1048576");
    require(world % plan.group == 0, "the ranks of a group do not divide a number of ranks");
  }
}

void Validator::check(const Buffer &buffer) {
  named("buffer", buffer.name, bufferNames);
  require(buffer.offset % 256 == 0, "the offset is not a multiple of 256");
  const uint64_t end = plus(buffer.offset, buffer.bytes);
  if (isInHost(plan, buffer))
    require(end <= memoryEnd(plan), "it reaches beyond the host's memory");
  else
    require(end <= plan.arenaBytes, "it reaches beyond the arena");
  require(times(elements(buffer.shape), sizeOf(buffer.type)) <= buffer.bytes,
          "its shape needs more bytes than it has");
}

void Validator::check(const State &state) {
  named("state", state.name, stateNames);
  uint64_t count = elements(state.shape);
  inside({state.buffer, 0}, times(count, sizeOf(state.type)), "the value");
  check(state.init, count, state.type);
  copies(state);
  if (state.sharding)
    return check(state, *state.sharding);
  const bool isStored =
      state.role == State::Role::Parameter || state.role == State::Role::Optimizer;
  require(!isStored || fileNames.insert(state.name).second,
          "a piece of another state has the same name");
}

void Validator::check(const State &state, const Sharding &sharding) {
  const uint64_t count = elements(state.shape);
  const bool isStored = state.role == State::Role::Optimizer;
  require(isStored || state.role == State::Role::Gradient,
          "parts of a parameter have no place in files");
  require(sharding.parts >= 1 && sharding.chunk >= 1,
          "it has no parts, or chunks without elements");
  require(count % uint64_t(sharding.chunk) == 0, "its elements are no multiple of a chunk's");
  for (int64_t world : plan.worlds)
    require(membersOf(sharding.ranks, world, plan.group) == sharding.parts,
            "its parts are not as many as the ranks that hold them");
  require(state.init.kind == Init::Kind::Constant && state.init.values.size() == 1,
          "it is in parts, and its initial value is not one number");
  const uint64_t whole = times(count, uint64_t(sharding.parts));
  require(whole <= uint64_t(1) << 62, "the whole has more than 2^62 elements");
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

void Validator::interchange() {
  item = "interchange";
  const Interchange &interchange = plan.interchange;
  if (interchange == Interchange())
    return;
  std::vector<StoredParameter> parameters;
  for (const State &state : plan.states)
    if (state.role == State::Role::Parameter)
      parameters.push_back({state.name, state.shape, state.type});
  if (Result<std::vector<ForeignTensor>> tensors = foreignTensors(interchange, parameters);
      !tensors)
    fail(tensors.error().message);
  for (const ConfigField &field : interchange.config) {
    require(!field.names.empty() && !field.names.front().empty(),
            "a setting of config.json has no name");
    std::vector<std::string> values = {field.value};
    values.insert(values.end(), field.accepted.begin(), field.accepted.end());
    if (!field.absent.empty())
      values.push_back(field.absent);
    for (const std::string &value : values)
      require(JsonTree::parse(value).has_value(), "a value of config.json is not JSON");
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
  events(program);
}

/// Commands run in their order: who waits for an event finds it recorded.
void Validator::events(const Program &program) const {
  std::vector<bool> isRecorded(program.events);
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    if (const auto *record = command.as<RecordEvent>())
      isRecorded[record->event] = true;
    if (const auto *wait = command.as<WaitEvent>(); wait && !isRecorded[wait->event])
      fail("command " + std::to_string(i) + " waits for an event that nothing before it records");
  }
}

void Validator::check(const Command &command, const Program &program) {
  require(command.stream < program.streams, "the stream does not exist");
  auto event = [&](uint32_t number) {
    require(number < program.events, "the event does not exist");
  };
  std::visit(Overload{
                 [&](const RecordEvent &record) { event(record.event); },
                 [&](const WaitEvent &wait) { event(wait.event); },
                 [&](const AllGather &gather) { exchange(gather, /*gathers=*/true); },
                 [&](const ReduceScatter &scatter) { exchange(scatter, /*gathers=*/false); },
                 [&](const Shard &shard) { exchange(shard, /*gathers=*/false); },
                 [&](const auto &action) { check(action); },
             },
             command.action);
  for (const Launch &candidate : command.candidates)
    this->candidate(candidate, command);
}

/// It is a launch, and what it reads and writes the command does.
void Validator::candidate(const Launch &launch, const Command &command) const {
  require(command.is<Launch>() || command.is<Matmul>(),
          "it has candidates, which launches and products have");
  check(launch);
  const std::vector<Ref> own = operandsOf(command);
  for (const Launch::Segment &segment : launch.segments)
    for (const Ref &ref : segment.args)
      for (bool written : {false, true})
        require(!(written ? ref.written : ref.read) ||
                    std::any_of(own.begin(), own.end(),
                                [&](const Ref &each) {
                                  return each.buffer == ref.buffer && each.offset == ref.offset &&
                                         (written ? each.written : each.read);
                                }),
                "a candidate reads or writes what the command does not");
}

/// Every step has what each number of ranks runs.
void Validator::phases(const Training &training) const {
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

/// The numbers that a program returns of its checked indices.
void Validator::checks(const IndexChecks &checks) const {
  if (checks.list.empty())
    return;
  inside({checks.buffer, 0}, times(checks.list.size(), 4), "the checked indices");
  require(plan.buffers[checks.buffer].type == DType::I32, "the checked indices are no i32");
  for (const IndexChecks::Check &check : checks.list)
    require(!check.kind.empty() && check.bound > 0,
            "a check of indices has no name, or a bound that is not positive");
}

/// The columns that programs of sequences of so many tokens read.
void Validator::columns(const std::vector<Column> &columns, int64_t tokens) const {
  for (const Column &column : columns) {
    const DType type = bufferTypeOf(column.type);
    require(!column.name.empty() && column.name.find('/') == std::string::npos &&
                column.name != "tokens",
            "a column has no name, or one that no column can have");
    require(column.name != documentColumn || column.type == Column::Type::U8,
            "the column of documents is not u8");
    inside({column.buffer, 0}, times(uint64_t(tokens), sizeOf(type)), "a column");
    require(plan.buffers[column.buffer].type == type, "a column's buffer has another type");
  }
}

void Validator::documents(const Documents &documents) const {
  const bool isByDocument =
      documents.rule == Documents::Rule::Cut || documents.rule == Documents::Rule::Packed;
  require(isByDocument || (!documents.shuffle && documents.longest.empty()),
          "documents are shuffled or limited, and batches are not cut by document");
  require(documents.rule == Documents::Rule::Contiguous || plan.training.eosToken >= 0,
          "batches are cut by document, and no token begins one");
  require(documents.longest.empty() ||
              std::any_of(plan.scalars.begin(), plan.scalars.end(),
                          [&](const Scalar &scalar) { return scalar.name == documents.longest; }),
          "the scalar for the longest document does not exist");
}

/// What the programs of a step report.
void Validator::reports(const Training &training) {
  const auto phases = int64_t(training.phases.size());
  std::unordered_set<std::string> names;
  const Report *ofKind[2] = {};
  for (const Report &report : training.reports) {
    named("report", report.name, names);
    const Report *&first = ofKind[report.eachStep ? 1 : 0];
    first = first ? first : &report;
    require(first->buffer == report.buffer, "its numbers lie in another buffer than others'");
    const bool counts = report.kind == Report::Kind::Histogram;
    require(counts != report.edges.empty(),
            counts ? "a histogram has no edges" : "what is no histogram has edges");
    for (size_t i = 0; i < report.edges.size(); ++i)
      require(std::isfinite(report.edges[i]) && (i == 0 || report.edges[i - 1] < report.edges[i]),
              "the edges are not finite and rising");
    require(report.phases.empty() || report.eachStep,
            "it is of each micro-batch, and not in every phase");
    for (size_t i = 0; i < report.phases.size(); ++i)
      require(report.phases[i] >= (i == 0 ? 0 : report.phases[i - 1] + 1) &&
                  report.phases[i] < phases,
              "its phases are not rising, or there are not so many");
    require(report.offset % 4 == 0, "the offset is not a multiple of 4");
    inside({report.buffer, report.offset}, times(numbersOf(report), 4), "the numbers");
    require(plan.buffers[report.buffer].type == DType::F32, "the numbers are no f32");
  }
  item = "training";
}

/// The stages of the run, each as it is, and what they have in common.
void Validator::stages() {
  const std::vector<const Training *> all = stagesOf(plan);
  std::unordered_set<std::string> names;
  int64_t begin = 0;
  for (const Training *stage : all) {
    item = "training";
    if (all.size() > 1) {
      named("stage", stage->stage, names);
      require(!stage->phases.empty(), "it has no training step");
      require(stage->until > begin, "it does not end after the one before it");
      begin = stage->until;
      const Training &first = plan.training;
      require(stage->numIterations == first.numIterations && stage->vocabSize == first.vocabSize &&
                  stage->eosToken == first.eosToken && stage->logScalar == first.logScalar &&
                  stage->valSeqLen == first.valSeqLen &&
                  stage->valLossIsSum == first.valLossIsSum &&
                  stage->documents == first.documents && stage->genSeqLen == first.genSeqLen &&
                  stage->logitsColumns == first.logitsColumns &&
                  stage->phases.size() == first.phases.size(),
              "it differs from the first one in what all stages have in common");
    } else {
      require(stage->stage.empty() && stage->until == 0, "it is one of several stages, alone");
    }
    training(*stage);
  }
  require(all.size() == 1 || begin == plan.training.numIterations,
          "the last stage does not end with the run");
}

void Validator::training(const Training &training) {
  auto buffer = [&](uint32_t index, int64_t count, const char *what) {
    inside({index, 0}, times(uint64_t(count), 4), what);
  };
  const bool trains = !training.phases.empty();
  require(training.vocabSize <= INT32_MAX, "the vocabulary has more tokens than 32 bits count");
  require(training.eosToken >= -1 &&
              (training.eosToken < training.vocabSize || training.vocabSize == 0),
          "the token that begins a document is not one of the vocabulary");
  require(training.globalBatch <= mostOfRun && training.numIterations <= mostOfRun,
          "a run has more than 2^53 tokens in a step, or steps");
  if (trains) {
    require(training.seqLen > 0 && training.globalBatch > 0 && training.numIterations >= 0 &&
                training.vocabSize > 0,
            "a size is not positive");
    for (int64_t world : plan.worlds)
      require(times(uint64_t(training.seqLen), uint64_t(world)) <= uint64_t(training.globalBatch) &&
                  training.globalBatch % (training.seqLen * world) == 0,
              "the global batch is no multiple of sequence length times number of ranks");
    phases(training);
    buffer(training.tokensBuffer, training.seqLen, "the tokens");
    buffer(training.targetsBuffer, training.seqLen, "the targets");
    buffer(training.lossBuffer, 1, "the loss");
    columns(training.columns, training.seqLen);
    documents(training.documents);
    checks(training.checks);
    reports(training);
  }
  for (const Event &event : training.events) {
    require(trains && programAlone(event.program), "an event has no program");
    require(event.step >= -1, "an event is at a step before the first");
  }
  if (programAlone(training.validate)) {
    require(training.valSeqLen > 0 && training.vocabSize > 0, "a size is not positive");
    buffer(training.valTokensBuffer, training.valSeqLen, "the validation tokens");
    buffer(training.valTargetsBuffer, training.valSeqLen, "the validation targets");
    buffer(training.valLossBuffer, 1, "the validation loss");
    columns(training.valColumns, training.valSeqLen);
    checks(training.valChecks);
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
    checks(training.genChecks);
  }
  if (programAlone(training.decode)) {
    require(!training.generate.empty(), "sampling: a program goes on where none has begun");
    buffer(training.decodeTokenBuffer, 1, "the sampled token");
    buffer(training.decodePositionBuffer, 1, "the sampled token's position");
    inside({training.decodeLogitsBuffer, 0}, times(uint64_t(training.logitsColumns), 4),
           "the next token's logits");
    checks(training.decodeChecks);
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
    if (plan.interchange != first.interchange)
      return differ("their mapping to other programs' checkpoints");
    if (plan.data != first.data)
      return differ("their data");
    if (plan.unproven != first.unproven || plan.checks != first.checks || plan.ours != first.ours)
      return differ("their unproven kernels");
    if (plan.indexGroups != first.indexGroups)
      return differ("their groups of indices");
    if (plan.kernels != first.kernels || plan.sources != first.sources || plan.code != first.code)
      return differ("their kernels");
  }
  return ok();
}

} // namespace nano::plan
