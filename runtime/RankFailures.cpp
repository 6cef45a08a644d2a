// What a rank does when a run cannot go on: a signal, an index out of range, a loss that is not
// finite.
#include "runtime/Rank.h"

#include "runtime/Interrupt.h"
#include "runtime/NonFinite.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace nano {

namespace {

/// Whether a program of the step before its update writes something that a checkpoint holds.
bool changesStates(const plan::Plan &plan, const plan::StepPrograms &programs) {
  std::set<uint32_t> kept;
  for (const plan::State &state : plan.states)
    if (state.role != plan::State::Role::Gradient)
      kept.insert(state.buffer);
  auto changes = [&](const plan::Command &command) {
    std::vector<plan::Ref> operands = plan::operandsOf(command);
    return std::any_of(operands.begin(), operands.end(), [&](const plan::Ref &ref) {
      return ref.written && kept.count(ref.buffer) > 0;
    });
  };
  return std::any_of(plan.programs.begin(), plan.programs.end(), [&](const plan::Program &program) {
    bool isOfStep = program.name == programs.first || program.name == programs.next ||
                    program.name == programs.last;
    return isOfStep && std::any_of(program.commands.begin(), program.commands.end(), changes);
  });
}

} // namespace

Status Rank::interrupted(int64_t steps) {
  if (Status status = device->wait(); !status)
    return status;
  if (Status status = tellReports(); !status)
    return status;
  if (Status status = finishEnergy(); !status)
    return status;
  if (!job.options.save.empty() && savedStep != steps && steps % job.round() == 0)
    if (Status status = save(steps); !status)
      return status;
  std::string fate = "nothing saved, there was no --save";
  if (savedStep == steps)
    fate = fmt::format("saved {}/{}", job.options.save, checkpointName(steps));
  // The signal may have come to another process.
  const char *name = InterruptGuard::signal() != 0 ? InterruptGuard::signalName() : "a signal";
  return failed(
      fmt::format("interrupted by {} after step {} of {}; {}", name, steps, job.steps, fate));
}

std::string Rank::saveBefore(int64_t step) {
  if (job.options.save.empty())
    return "nothing saved, there was no --save";
  const std::string path = fmt::format("{}/{}", job.options.save, checkpointName(step));
  if (savedStep == step)
    return fmt::format("the state before it is in {}", path);
  if (step % job.round() != 0)
    return fmt::format("nothing saved, gradients are kept over {} steps and it is not the first of "
                       "a round",
                       job.round());
  if (changesStates(plan, phase(step)))
    return "nothing saved, its micro-batches have changed what a checkpoint holds";
  Status saved = save(step, &batchStart);
  return saved ? fmt::format("saved the state before it, {}", path) : saved.error().message;
}

std::string Rank::searchCause(int64_t step, size_t sequence) {
  std::string place = "run again with checks, it appeared in no buffer";
  bool isFound = false;
  // Every rank runs what it ran before to the end, since programs may hold collectives; the rank
  // that has the sequence looks on.
  const bool looks = sequence % size_t(world) == size_t(rank);
  const size_t rounds = sequence / size_t(world) + 1;
  for (size_t round = 0; round < rounds; ++round) {
    auto fails = [](const Error &error) {
      return "running again with checks failed: " + error.message;
    };
    if (Status status = writeBatch(step, round * size_t(world) + size_t(rank)); !status)
      return fails(status.error());
    const std::string &program = programOf(*stage, step, int64_t(round), world);
    communicator.doing(fmt::format("search in step {}, program '{}'", step + 1, program));
    if (!looks || isFound) {
      Status status = device->run(program);
      if (status)
        status = device->wait();
      if (!status)
        return fails(status.error());
      continue;
    }
    Result<std::optional<NonFinite>> found = runChecked(plan, *device, program);
    if (!found)
      return fails(found.error());
    if (*found) {
      isFound = true;
      place = "first in " + toString(plan, **found);
    }
  }
  return place;
}

std::string Rank::findOutOfRange(const plan::IndexChecks &checks) {
  if (checks.list.empty())
    return "";
  const Result<std::vector<std::string>> found =
      communicator.exchange(outOfRange, "search for an index out of range");
  if (!found)
    return outOfRange;
  const auto first = std::find_if(found->begin(), found->end(),
                                  [](const std::string &text) { return !text.empty(); });
  return first == found->end() ? std::string() : *first;
}

Error Rank::notFinite(int64_t step, size_t sequence, float loss) {
  // An update that is part of the last micro-batch has used the loss's gradients: then nothing is
  // as it was when the loss came about.
  const bool isUpdated = phase(step).update.empty();
  const char *when = isUpdated ? "after" : "before";
  const std::string index = findOutOfRange(stage->checks);
  const std::string fate = saveBefore(step);
  if (!index.empty())
    return failed(
        fmt::format("step {}: {}, stopped {} the update; {}", step + 1, index, when, fate));
  const std::string place = isUpdated ? "compile with -D update=apart to see where it appears"
                                      : searchCause(step, sequence);
  const size_t owner = sequence % size_t(world);
  // All ranks say the same, whichever is heard first.
  Result<std::vector<std::string>> places =
      communicator.exchange(place, "search for the loss's cause");
  return failed(
      fmt::format("the loss is {} at step {} (sequence {} of the batch, rank {}), stopped "
                  "{} the update; {}; {}",
                  loss, step + 1, sequence, owner, when, places ? places->at(owner) : place, fate));
}

} // namespace nano
