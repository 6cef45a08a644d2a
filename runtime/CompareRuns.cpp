// Two devices side by side: their commands in step, and what each writes against the other's.
#include "runtime/CompareRuns.h"

#include "runtime/Job.h"
#include "runtime/StepVisits.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <array>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace nano {
namespace {

using Place = StepComparison::Place;

/// One of the two runs, with its device.
class Side {
public:
  Side(const ComparedRun &run, const CompareOptions &options, Console &console)
      : plan(*run.plan), run(run), group(1), threads(Crew::threads(1)) {
    trainOptions.train = options.train;
    trainOptions.start = options.start;
    trainOptions.threads = run.threads;
    trainOptions.tuneFile = options.tuneFile;
    job = std::make_unique<Job>(plan, run.planHash, trainOptions, run.makeDevice, console);
  }

  /// Opens files and reads the step's batch.
  Status open();
  /// Makes the device and its states.
  Status prepare();
  /// What the host writes before a micro-batch.
  Status writeBatch(size_t sequence);
  size_t microBatches() const { return batch.sequences.size(); }
  /// The programs of a micro-batch.
  std::vector<const plan::Program *> programsOf(size_t sequence) const;
  /// Those of what ends the step.
  std::vector<const plan::Program *> lastPrograms() const;
  /// Whether the update is a program of its own.
  bool updatesApart() const { return !phase().update.empty(); }
  Status runCommand(const Visit &visit);
  /// Whether a state's bytes hold it: those of gradients others use, outside of what a step needs.
  bool holds(const plan::State &state) const { return !lost.contains(state.buffer); }
  Result<std::vector<std::byte>> read(uint32_t buffer);

  const plan::Plan &plan;
  const ComparedRun &run;
  TrainOptions trainOptions;
  LocalGroup group;
  std::unique_ptr<Crew> threads;
  std::unique_ptr<Job> job;
  Batch batch;
  const plan::Training *stage = nullptr;
  std::unique_ptr<Device> device;

private:
  void noteWritten(uint32_t buffer);
  const plan::StepPrograms &phase() const {
    return stage->phases[size_t(job->firstStep) % stage->phases.size()];
  }
  std::vector<const plan::Program *> programsNamed(const std::vector<std::string> &names) const;

  std::set<uint32_t> lost; ///< buffers of states that another buffer was written over
};

Status Side::open() {
  if (Status status = job->prepare(*threads); !status)
    return status;
  if (!job->reader)
    return badInput(fmt::format("--compare: {} has no step behind the start, at step {}; start "
                                "before the run's end",
                                run.name, job->firstStep));
  stage = &plan::stageAt(plan, job->firstStep);
  Result<BatchShape> shape = job->batchShape(job->firstStep);
  if (!shape)
    return shape.error();
  Result<Batch> next = job->reader->next(*shape);
  if (!next)
    return next.error();
  batch = std::move(*next);
  return ok();
}

Status Side::prepare() {
  DeviceOptions deviceOptions;
  deviceOptions.threads = run.threads;
  deviceOptions.tuneFile = trainOptions.tuneFile;
  Communicator &communicator = group.communicator(0);
  Result<std::unique_ptr<Device>> made = run.makeDevice(plan, communicator, deviceOptions);
  if (!made)
    return made.error();
  device = std::move(*made);
  for (const plan::State &state : plan.states)
    noteWritten(state.buffer);
  return job->start.write(plan, seatOf(plan, communicator), *device,
                          threadsPerRank(run.threads, 1));
}

Status Side::writeBatch(size_t sequence) {
  SequenceData data;
  if (Status status = job->reader->read(batch, sequence, stage->columns, data); !status)
    return status;
  if (Status status =
          writeScalars(plan, job->firstStep, 1, *device, job->start.seed(), int64_t(sequence));
      !status)
    return status;
  return writeSequence(data, stage->tokensBuffer, stage->targetsBuffer, stage->columns, *device);
}

std::vector<const plan::Program *>
Side::programsNamed(const std::vector<std::string> &names) const {
  std::vector<const plan::Program *> programs;
  for (const std::string &name : names)
    for (const plan::Program &program : plan.programs)
      if (program.name == name)
        programs.push_back(&program);
  return programs;
}

std::vector<const plan::Program *> Side::programsOf(size_t sequence) const {
  return programsNamed({programOf(*stage, job->firstStep, int64_t(sequence), 1)});
}

std::vector<const plan::Program *> Side::lastPrograms() const {
  std::vector<std::string> names = {phase().update};
  for (const plan::Event &event : stage->events)
    if (event.step < 0 || event.step == job->firstStep)
      names.push_back(event.program);
  return programsNamed(names);
}

Status Side::runCommand(const Visit &visit) {
  for (uint32_t buffer : visit.clears)
    if (Status status = device->clear(buffer); !status)
      return status;
  for (const plan::Ref &ref : plan::operandsOf(*visit))
    if (ref.written)
      noteWritten(ref.buffer);
  return device->runCommand(visit.program->name, visit.command);
}

void Side::noteWritten(uint32_t buffer) {
  const plan::Buffer &written = plan.buffers[buffer];
  for (const plan::State &state : plan.states) {
    const plan::Buffer &own = plan.buffers[state.buffer];
    if (state.buffer == buffer)
      lost.erase(buffer);
    else if (own.offset < written.offset + written.bytes && written.offset < own.offset + own.bytes)
      lost.insert(state.buffer);
  }
}

Result<std::vector<std::byte>> Side::read(uint32_t buffer) {
  std::vector<std::byte> bytes(plan.buffers[buffer].bytes);
  if (Status status = device->read(buffer, 0, bytes.data(), bytes.size()); !status)
    return status.error();
  return bytes;
}

//===- What can be compared ------------------------------------------------------===//

/// The first thing in which two plans are not of one model, its sizes and its data; empty where
/// they are.
std::string otherThan(const Side &a, const Side &b) {
  if (a.plan.model != b.plan.model)
    return fmt::format("it is of the model '{}', and {} of '{}'; compare plans of one model file",
                       b.plan.model, a.run.name, a.plan.model);
  auto shapes = [](const plan::Plan &plan) {
    std::map<std::string, std::string> found;
    for (const plan::State &state : plan.states)
      if (state.role == plan::State::Role::Parameter)
        found[state.name] = fmt::format("[{}]", fmt::join(state.shape, ","));
    return found;
  };
  const auto ofA = shapes(a.plan), ofB = shapes(b.plan);
  const char *sizes = "compile both with the same sizes";
  for (const auto &[name, shape] : ofA) {
    const auto other = ofB.find(name);
    if (other == ofB.end())
      return fmt::format("it has no parameter '{}', which {} has; {}", name, a.run.name, sizes);
    if (other->second != shape)
      return fmt::format("its parameter '{}' is {}, and {} in {}; {}", name, other->second, shape,
                         a.run.name, sizes);
  }
  for (const auto &[name, shape] : ofB)
    if (ofA.count(name) == 0)
      return fmt::format("it has a parameter '{}', which {} has not; {}", name, a.run.name, sizes);
  if (a.stage->seqLen != b.stage->seqLen || a.stage->globalBatch != b.stage->globalBatch)
    return fmt::format("its step has {} tokens in sequences of {}, and that of {} {} in sequences "
                       "of {}; {}",
                       b.stage->globalBatch, b.stage->seqLen, a.run.name, a.stage->globalBatch,
                       a.stage->seqLen, sizes);
  if (a.batch.sequences != b.batch.sequences)
    return fmt::format("it cuts the data into other sequences than {}; {}", a.run.name,
                       "compile both with the same rule for documents");
  return "";
}

/// The names of the tensors of a step that are not the model's.
std::set<std::string> tensorNames(const Side &side) {
  std::set<std::string> names;
  for (size_t i = 0; i < side.microBatches(); ++i)
    for (const Visit &visit : visitsOf(side.plan, side.programsOf(i)))
      for (const Capture &capture : visit.captures)
        if (!capture.key.empty() && side.plan.buffers[capture.buffer].name != capture.key)
          names.insert(capture.key);
  return names;
}

/// Whether two plans have tensors of the same model lines.
bool shareLines(const Side &a, const Side &b) {
  const std::set<std::string> ofA = tensorNames(a), ofB = tensorNames(b);
  return std::any_of(ofA.begin(), ofA.end(),
                     [&](const std::string &name) { return ofB.count(name) > 0; });
}

//===- Comparing -----------------------------------------------------------------===//

/// A tensor that was read from one of the runs.
struct Value {
  size_t order = 0; ///< among those of its run
  size_t rank = 0;  ///< among those of its name
  Place place;
  std::vector<std::byte> bytes;
};

/// The values of one name.
struct Named {
  size_t left[2] = {0, 0};   ///< that will be written yet
  size_t total[2] = {0, 0};  ///< in the part of the step
  std::deque<Value> open[2]; ///< that agree with none yet
};

class Comparer {
public:
  Comparer(const ComparedRun &a, const ComparedRun &b, const CompareOptions &options,
           Console &console)
      : options(options), sides{Side(a, options, console), Side(b, options, console)} {}

  Result<StepComparison> run();

private:
  Status prepare();
  /// Runs these programs of A and B.
  Status runPart(const std::array<std::vector<const plan::Program *>, 2> &programs);
  /// Gives B the states of A, which have been compared: what follows differs by itself alone. What
  /// one of them no longer holds nothing behind reads.
  Status shareStates();
  Status advance(int side, const Visit &visit);
  /// Takes the values out that agree, where those of these ranks are there.
  Status match(Named &named, size_t rankOfA, size_t rankOfB);
  Status keepAlike(const Value &a, const Value &b, const Distance &distance);
  /// What is left of a name when all its values are there: values that agree with one of another
  /// rank, and the others.
  Status settle(Named &named);
  Distance distance(const Value &a, const Value &b) const;
  const plan::Buffer &bufferOf(int side, const Place &place) const {
    return sides[side].plan.buffers[place.buffer];
  }

  const CompareOptions &options;
  std::array<Side, 2> sides;
  StepComparison found;
  std::map<std::string, Named> names; ///< of the part
  size_t orders[2] = {0, 0};
  size_t earliest = SIZE_MAX; ///< order of A's value in the first difference
  std::string part;
};

Status Comparer::prepare() {
  for (Side &side : sides)
    if (Status status = side.open(); !status)
      return status;
  Side &a = sides[0], &b = sides[1];
  if (const std::string other = otherThan(a, b); !other.empty())
    return badInput(fmt::format("--compare {}: {}", b.run.name, other));
  if (!options.isSamePlan && !shareLines(a, b))
    return badInput(fmt::format(
        "--compare {}: it has no tensor of a model line that {} has one of, and by these they are "
        "found; compile both from the model file, or --from IR that was printed with --locations",
        b.run.name, a.run.name));
  for (Side &side : sides)
    if (Status status = side.prepare(); !status)
      return status;
  found.step = a.job->firstStep + 1;
  found.tolerance = options.tolerance.value_or(defaultTolerance(a.plan, b.plan));
  return ok();
}

Distance Comparer::distance(const Value &a, const Value &b) const {
  return distanceOf(bufferOf(0, a.place).type, a.bytes, bufferOf(1, b.place).type, b.bytes,
                    found.tolerance);
}

Status Comparer::keepAlike(const Value &a, const Value &b, const Distance &distance) {
  ++found.values;
  if (distance.relative > found.largest) {
    found.largest = distance.relative;
    found.largestAt = bufferOf(0, a.place).name;
  }
  if (!options.isSamePlan || a.bytes == b.bytes)
    return ok();
  return sides[1].device->write(b.place.buffer, 0, a.bytes.data(), a.bytes.size());
}

Status Comparer::match(Named &named, size_t rankOfA, size_t rankOfB) {
  auto find = [](std::deque<Value> &open, size_t rank) {
    return std::find_if(open.begin(), open.end(),
                        [&](const Value &value) { return value.rank == rank; });
  };
  const auto a = find(named.open[0], rankOfA), b = find(named.open[1], rankOfB);
  if (a == named.open[0].end() || b == named.open[1].end())
    return ok();
  const Distance off = distance(*a, *b);
  if (!off.isWithin)
    return ok();
  if (Status status = keepAlike(*a, *b, off); !status)
    return status;
  named.open[0].erase(a);
  named.open[1].erase(b);
  return ok();
}

Status Comparer::settle(Named &named) {
  std::vector<size_t> ranks[2];
  for (int side : {0, 1})
    for (const Value &value : named.open[side])
      ranks[side].push_back(value.rank);
  for (size_t a : ranks[0])
    for (size_t b : ranks[1])
      if (Status status = match(named, a, b); !status)
        return status;
  if (named.total[0] != named.total[1]) {
    for (int side : {0, 1})
      found.withoutOther[side] += named.open[side].size();
  } else {
    // As many are left of one run as of the other: those that come in the same place.
    for (size_t i = 0; i < named.open[0].size(); ++i) {
      const Value &a = named.open[0][i], &b = named.open[1][i];
      if (a.order >= earliest)
        continue;
      earliest = a.order;
      found.firstDifference = {a.place, b.place, distance(a, b), part};
    }
  }
  for (std::deque<Value> &open : named.open)
    open.clear();
  return ok();
}

Status Comparer::advance(int side, const Visit &visit) {
  if (Status status = sides[side].runCommand(visit); !status)
    return status;
  for (const Capture &capture : visit.captures) {
    const size_t order = orders[side]++;
    const auto known = names.find(capture.key);
    if (known == names.end() || known->second.total[1 - side] == 0) {
      ++found.withoutOther[side];
      continue;
    }
    Named &named = known->second;
    const size_t rank = named.total[side] - named.left[side]--;
    // Behind a difference only names of which something before it is open are of interest.
    if (!found.firstDifference || !named.open[0].empty() || !named.open[1].empty()) {
      Result<std::vector<std::byte>> bytes = sides[side].read(capture.buffer);
      if (!bytes)
        return bytes.error();
      named.open[side].push_back(
          {order, rank, {visit.command, visit.program, capture.buffer}, std::move(*bytes)});
      if (Status status = match(named, rank, rank); !status)
        return status;
    }
    if (named.left[0] == 0 && named.left[1] == 0)
      if (Status status = settle(named); !status)
        return status;
  }
  return ok();
}

Status Comparer::shareStates() {
  std::map<std::string, const plan::State *> ofA;
  for (const plan::State &state : sides[0].plan.states)
    ofA[state.name] = &state;
  for (const plan::State &state : sides[1].plan.states) {
    const auto other = ofA.find(state.name);
    if (other == ofA.end() || other->second->type != state.type ||
        other->second->shape != state.shape || state.role == plan::State::Role::Constant ||
        !sides[0].holds(*other->second) || !sides[1].holds(state))
      continue;
    Result<std::vector<std::byte>> bytes = sides[0].read(other->second->buffer);
    if (!bytes)
      return bytes.error();
    if (Status status = sides[1].device->write(state.buffer, 0, bytes->data(), bytes->size());
        !status)
      return status;
  }
  return ok();
}

Status Comparer::runPart(const std::array<std::vector<const plan::Program *>, 2> &programs) {
  names.clear();
  std::array<std::vector<Visit>, 2> visits;
  for (int side : {0, 1}) {
    visits[side] = options.isSamePlan ? everyWriteOf(sides[side].plan, programs[side])
                                      : visitsOf(sides[side].plan, programs[side]);
    for (const Visit &visit : visits[side])
      for (const Capture &capture : visit.captures)
        if (!capture.key.empty()) {
          Named &named = names[capture.key];
          ++named.left[side];
          ++named.total[side];
        }
  }
  // In step, so that few values wait for their counterparts.
  size_t next[2] = {0, 0};
  const size_t counts[2] = {visits[0].size(), visits[1].size()};
  while (next[0] < counts[0] || next[1] < counts[1]) {
    const int side = next[0] * counts[1] <= next[1] * counts[0] && next[0] < counts[0] ? 0 : 1;
    if (Status status = advance(side, visits[side][next[side]++]); !status)
      return status;
    if (options.isSamePlan && found.firstDifference)
      return ok();
  }
  return found.firstDifference || options.isSamePlan ? ok() : shareStates();
}

Result<StepComparison> Comparer::run() {
  if (Status status = prepare(); !status)
    return status.error();
  const Side &a = sides[0], &b = sides[1];
  // Where one plan alone has its update in the last micro-batch both are compared behind it.
  const bool isApart = a.updatesApart() && b.updatesApart();
  const size_t count = a.microBatches();
  for (size_t i = 0; i < count + (isApart ? 1 : 0) && !found.firstDifference; ++i) {
    const bool isUpdate = i == count;
    part = isUpdate ? "the update" : fmt::format("micro-batch {} of {}", i + 1, count);
    std::array<std::vector<const plan::Program *>, 2> programs;
    for (int side : {0, 1}) {
      if (!isUpdate) {
        if (Status status = sides[side].writeBatch(i); !status)
          return status.error();
        programs[side] = sides[side].programsOf(i);
      }
      if (isUpdate || (!isApart && i + 1 == count)) {
        const auto last = sides[side].lastPrograms();
        programs[side].insert(programs[side].end(), last.begin(), last.end());
      }
    }
    if (Status status = runPart(programs); !status)
      return status.error();
  }
  return std::move(found);
}

//===- Words ---------------------------------------------------------------------===//

/// The text of a line of the model's file; empty where the plan does not hold it.
std::string textOfLine(const plan::Plan &plan, const plan::Location &location) {
  const std::string file = location.file.substr(location.file.rfind('/') + 1);
  if (!location.line || file != plan.model + ".cpp")
    return "";
  size_t begin = 0;
  for (uint32_t line = 1; line < location.line && begin != std::string::npos; ++line) {
    begin = plan.source.find('\n', begin);
    begin += begin == std::string::npos ? 0 : 1;
  }
  if (begin >= plan.source.size())
    return "";
  const std::string text = plan.source.substr(begin, plan.source.find('\n', begin) - begin);
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first);
}

std::string placeText(const ComparedRun &run, const Place &place) {
  const plan::Command &command = place.program->commands[place.command];
  std::string text =
      fmt::format("  {}: {}\n", run.name, plan::placeOf(*run.plan, *place.program, place.command));
  if (const auto *launch = command.as<plan::Launch>()) {
    const plan::Kernel &kernel = run.plan->kernels[launch->kernel];
    text += fmt::format("    kernel {}: {}\n", kernel.name, kernel.summary);
  }
  return text;
}

} // namespace

Result<StepComparison> compareRuns(const ComparedRun &a, const ComparedRun &b,
                                   const CompareOptions &options, Console &console) {
  return Comparer(a, b, options, console).run();
}

std::string toString(const ComparedRun &a, const ComparedRun &b, const StepComparison &found) {
  std::string text;
  auto rest = [&] {
    for (int side : {0, 1})
      if (found.withoutOther[side] > 0)
        text += fmt::format("  {} tensors of {} have no counterpart there\n",
                            found.withoutOther[side], (side == 0 ? a : b).name);
  };
  if (!found.firstDifference) {
    text = fmt::format("step {}: {} tensors agree within {:.3g}, of {} and {}\n", found.step,
                       found.values, found.tolerance, a.name, b.name);
    if (found.largest > 0)
      text += fmt::format("  the largest relative error is {:.3g}, of '{}'\n", found.largest,
                          found.largestAt);
    rest();
    return text;
  }
  const StepComparison::Difference &difference = *found.firstDifference;
  const plan::Buffer &buffer = a.plan->buffers[difference.a.buffer],
                     &other = b.plan->buffers[difference.b.buffer];
  text = fmt::format("step {}, {}: '{}' differs, {}[{}]\n", found.step, difference.part,
                     buffer.name, plan::nameOf(buffer.type), fmt::join(buffer.shape, ","));
  if (buffer.location.line) {
    text += fmt::format("  {}:{}", buffer.location.file, buffer.location.line);
    const std::string line = textOfLine(*a.plan, buffer.location);
    text += line.empty() ? "\n" : fmt::format(": {}\n", line);
  }
  text += fmt::format("  relative error {:.3g}, {:.3g} is allowed; furthest off is element {}: {} "
                      "and {}\n",
                      difference.distance.relative, found.tolerance, difference.distance.element,
                      difference.distance.a, difference.distance.b);
  text += placeText(a, difference.a) + placeText(b, difference.b);
  if (other.name != buffer.name)
    text += fmt::format("    there it is called '{}'\n", other.name);
  text += fmt::format("  {} tensors before it agree\n", found.values);
  rest();
  return text;
}

} // namespace nano
