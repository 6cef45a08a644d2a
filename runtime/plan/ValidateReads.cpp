// What a plan's commands read is filled by somebody: by a command, as a state, as a scalar, or with
// what a run puts in from outside. Buffers that are named wrongly would else be read as they are,
// and what kernels use as indices with them.
#include "runtime/plan/Operands.h"
#include "runtime/plan/Validator.h"

#include <algorithm>
#include <utility>

namespace nano::plan {

namespace {

/// Bytes of the arena that are filled.
class Filled {
public:
  void add(uint64_t begin, uint64_t bytes) { ranges.emplace_back(begin, plus(begin, bytes)); }

  /// After the last `add`: makes the ranges rise, and apart.
  void unite() {
    std::sort(ranges.begin(), ranges.end());
    size_t count = 0;
    for (const auto &[begin, end] : ranges)
      if (count > 0 && begin <= ranges[count - 1].second)
        ranges[count - 1].second = std::max(ranges[count - 1].second, end);
      else
        ranges[count++] = {begin, end};
    ranges.resize(count);
  }

  bool holds(uint64_t byte) const {
    auto after = std::upper_bound(ranges.begin(), ranges.end(), std::pair(byte, UINT64_MAX));
    return after != ranges.begin() && byte < std::prev(after)->second;
  }

private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges; ///< begin and end
};

} // namespace

/// The programs that a run runs; what others read, their caller puts there.
static std::unordered_set<std::string> programsOfRun(const Plan &plan) {
  std::unordered_set<std::string> names;
  for (const Training *stage : stagesOf(plan)) {
    for (const StepPrograms &phase : stage->phases)
      names.insert({phase.first, phase.next, phase.last, phase.update});
    for (const Event &event : stage->events)
      names.insert(event.program);
    names.insert({stage->validate, stage->generate, stage->decode, stage->measure});
  }
  return names;
}

void Validator::reads() {
  Filled filled;
  auto fills = [&](uint32_t index) {
    const Buffer &buffer = bufferAt(index);
    filled.add(buffer.offset, buffer.bytes);
  };
  for (const State &state : plan.states)
    fills(state.buffer);
  if (!plan.scalars.empty())
    fills(plan.scalarBuffer);
  for (const Training *stage : stagesOf(plan)) {
    auto fillsFor = [&](bool runs, std::initializer_list<uint32_t> buffers) {
      if (runs)
        std::for_each(buffers.begin(), buffers.end(), fills);
    };
    fillsFor(!stage->phases.empty(), {stage->tokensBuffer, stage->targetsBuffer});
    fillsFor(!stage->validate.empty(), {stage->valTokensBuffer, stage->valTargetsBuffer});
    fillsFor(!stage->generate.empty(), {stage->genTokensBuffer});
    fillsFor(!stage->decode.empty(), {stage->decodeTokenBuffer, stage->decodePositionBuffer});
    for (const std::vector<Column> *columns : {&stage->columns, &stage->valColumns})
      for (const Column &column : *columns)
        fills(column.buffer);
  }
  for (const Program &program : plan.programs)
    for (const Command &command : program.commands)
      for (const Ref &ref : operandsOf(command))
        // What changes a value in place has not made it. A ref does not say how far apart rows are:
        // perhaps all of the buffer is written.
        if (ref.written && !ref.read)
          fills(ref.buffer);
  filled.unite();

  // The first byte stands for all, for the same reason.
  const std::unordered_set<std::string> run = programsOfRun(plan);
  for (const Program &program : plan.programs)
    for (size_t i = 0; run.count(program.name) && i < program.commands.size(); ++i)
      for (const Ref &ref : operandsOf(program.commands[i])) {
        const Buffer &buffer = bufferAt(ref.buffer);
        if (!ref.read || ref.offset >= buffer.bytes || filled.holds(buffer.offset + ref.offset))
          continue;
        item = "program " + quoted(program.name) + ", command " + std::to_string(i) +
               (program.commands[i].label.empty() ? "" : " " + quoted(program.commands[i].label));
        fail("it reads buffer " + quoted(buffer.name) + ", which nothing fills");
      }
}

} // namespace nano::plan
