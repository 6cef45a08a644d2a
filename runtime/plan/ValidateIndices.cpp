// What kernels use as indices is what they were made for: operands and buffers of 32-bit integers
// have groups, a launch gives an operand a buffer of its own group, and nothing else gets there,
// by its name or by lying in the same memory.
#include "runtime/plan/Operands.h"
#include "runtime/plan/Validator.h"

#include <algorithm>
#include <cstring>

namespace nano::plan {

IndexGroup joined(const IndexGroup &a, const IndexGroup &b) {
  if (a.low > a.high)
    return b;
  if (b.low > b.high)
    return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

/// For messages: where a command is.
static std::string place(const Program &program, size_t command) {
  const std::string &label = program.commands[command].label;
  return "program " + quoted(program.name) + ", command " + std::to_string(command) +
         (label.empty() ? "" : " " + quoted(label));
}

/// What a state of i32 starts with and keeps, where that is known.
static std::optional<IndexGroup> tableRange(const Plan &plan, const State &state) {
  if (state.role != State::Role::Constant || state.type != DType::I32)
    return std::nullopt;
  IndexGroup range;
  if (state.init.kind == Init::Kind::Constant) {
    for (double number : state.init.values) {
      // Larger ones have no place in 32 bits.
      if (!(number >= INT32_MIN && number <= INT32_MAX))
        return std::nullopt;
      range = joined(range, {int64_t(number), int64_t(number)});
    }
    return range;
  }
  if (state.init.kind != Init::Kind::Data)
    return std::nullopt;
  uint64_t count = 1;
  for (int64_t size : state.shape)
    count *= uint64_t(size);
  for (uint64_t i = 0; i < count; ++i) {
    int32_t number = 0;
    std::memcpy(&number, plan.data.data() + state.init.offset + i * sizeof number, sizeof number);
    range = joined(range, {number, number});
  }
  return range;
}

void Validator::enters(const char *what, uint32_t buffer, int64_t low, int64_t high) const {
  const int64_t index = bufferAt(buffer).indices;
  if (index < 0 || low > high)
    return;
  const IndexGroup &group = plan.indexGroups[uint64_t(index)];
  if (!group.holds(low) || !group.holds(high))
    fail(std::string(what) + " puts " + std::to_string(low) + " to " + std::to_string(high) +
         " into buffer " + quoted(plan.buffers[buffer].name) + ", whose kernels take " +
         (group.low > group.high
              ? "nothing from outside"
              : std::to_string(group.low) + " to " + std::to_string(group.high)));
}

void Validator::indicesFromOutside() {
  if (!plan.scalars.empty()) {
    item = "the scalar buffer";
    require(bufferAt(plan.scalarBuffer).indices < 0, "kernels take it for indices");
  }
  for (const State &state : plan.states) {
    item = "state " + quoted(state.name);
    const std::optional<IndexGroup> range = tableRange(plan, state);
    enters("it", state.buffer, range ? range->low : INT32_MIN, range ? range->high : INT32_MAX);
  }
  for (const Training *stage : stagesOf(plan)) {
    item = "training";
    auto takesTokens = [&](bool runs, std::initializer_list<uint32_t> buffers) {
      for (uint32_t buffer : buffers)
        if (runs)
          enters("the data", buffer, 0, stage->vocabSize - 1);
    };
    takesTokens(!stage->phases.empty(), {stage->tokensBuffer, stage->targetsBuffer});
    takesTokens(!stage->validate.empty(), {stage->valTokensBuffer, stage->valTargetsBuffer});
    takesTokens(!stage->generate.empty(), {stage->genTokensBuffer});
    takesTokens(!stage->decode.empty(), {stage->decodeTokenBuffer});
    if (!stage->decode.empty())
      enters("the sampled token's position", stage->decodePositionBuffer, INT32_MIN, INT32_MAX);
    for (const std::vector<Column> *columns : {&stage->columns, &stage->valColumns})
      for (const Column &column : *columns)
        enters("a column", column.buffer, INT32_MIN, INT32_MAX);
  }
}

/// A scalar, which may be any number, stands for an operand whose numbers may be.
void Validator::indicesOf(const Launch &launch) const {
  const Kernel &kernel = plan.kernels[launch.kernel];
  for (const Launch::Segment &segment : launch.segments) {
    std::vector<int64_t> groups(segment.args.size(), -1);
    for (const Kernel::Indices &each : kernel.indices)
      groups[each.operand] = each.group;
    for (size_t i = 0; i < groups.size(); ++i) {
      const Ref &ref = segment.args[i];
      const Buffer &buffer = bufferAt(ref.buffer);
      const bool isScalar = !plan.scalars.empty() && ref.buffer == plan.scalarBuffer;
      if (groups[i] >= 0)
        require(ref.offset % sizeof(int32_t) == 0,
                "the offset of an operand of indices is not a multiple of 4");
      if (groups[i] == buffer.indices || (groups[i] >= 0 && isScalar && !ref.written &&
                                          plan.indexGroups[uint64_t(groups[i])].holdsAny()))
        continue;
      fail("operand " + std::to_string(i) + " of kernel " + quoted(kernel.name) +
           (groups[i] >= 0
                ? " is of indices of group " + std::to_string(groups[i]) + ", and buffer "
                : " is of no indices, and buffer ") +
           quoted(buffer.name) +
           (buffer.indices >= 0 ? " holds those of group " + std::to_string(buffer.indices)
                                : " holds none of that group"));
    }
  }
}

/// Of other commands copies alone bring indices somewhere. Zero, which fills put there, is in every
/// table.
void Validator::indicesOf(const Command &command) const {
  if (const auto *launch = command.as<Launch>())
    return indicesOf(*launch);
  if (command.is<Fill>())
    return;
  const auto *copy = command.as<Copy>();
  for (const Ref &ref : operandsOf(command)) {
    const Buffer &buffer = bufferAt(ref.buffer);
    if (!ref.written || buffer.indices < 0)
      continue;
    if (!copy || bufferAt(copy->from.buffer).indices != buffer.indices ||
        copy->from.offset % sizeof(int32_t) || copy->to.offset % sizeof(int32_t) ||
        sizeOf(copy->type) != sizeof(int32_t))
      fail("it puts other numbers into buffer " + quoted(buffer.name) + ", which holds indices");
  }
}

HeldIndices::HeldIndices(const Plan &plan) {
  struct Edge {
    uint64_t at;
    int64_t group;
    bool begins;
  };
  std::vector<Edge> edges;
  for (const Buffer &buffer : plan.buffers)
    if (buffer.bytes > 0)
      for (bool begins : {true, false})
        edges.push_back({buffer.offset + (begins ? 0 : buffer.bytes), buffer.indices, begins});
  std::sort(edges.begin(), edges.end(), [](const Edge &a, const Edge &b) { return a.at < b.at; });
  std::map<int64_t, size_t> over; // how many buffers of each group
  groups[0] = none;
  for (size_t i = 0; i < edges.size(); ++i) {
    size_t &count = over[edges[i].group];
    count += edges[i].begins ? 1 : -1;
    if (count == 0)
      over.erase(edges[i].group);
    if (i + 1 < edges.size() && edges[i + 1].at == edges[i].at)
      continue;
    const int64_t group = over.size() == 1 ? over.begin()->first : none;
    if (groups.rbegin()->second != group)
      groups[edges[i].at] = group;
  }
}

void HeldIndices::put(uint64_t begin, uint64_t bytes, int64_t group) {
  if (bytes == 0)
    return;
  const uint64_t end = begin + bytes;
  const int64_t behind = at(end)->second;
  groups.erase(groups.lower_bound(begin), groups.upper_bound(end));
  if (begin == 0 || at(begin)->second != group)
    groups[begin] = group;
  if (behind != group)
    groups[end] = behind;
}

bool HeldIndices::holds(uint64_t begin, uint64_t bytes, int64_t group) const {
  if (bytes == 0)
    return true;
  for (auto each = at(begin); each != groups.end() && each->first < begin + bytes; ++each)
    if (each->second != group)
      return false;
  return true;
}

/// Where buffers share memory, indices have been put there since other numbers were: byte by byte,
/// by what each command reaches. Commands are in an order in which they may run. `held`: before,
/// and then after the program.
void Validator::indicesStay(const Program &program, HeldIndices &held) {
  auto begin = [&](const Reached &each) {
    return plan.buffers[each.ref.buffer].offset + each.ref.offset;
  };
  auto groupOf = [&](const Reached &each) { return plan.buffers[each.ref.buffer].indices; };
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    const std::vector<Reached> own = reachedBy(plan, command);
    // What may run instead touches the same operands, as far as its own kernel reaches.
    std::vector<Reached> others;
    for (const Launch &candidate : command.candidates)
      for (const Reached &each : reachedBy(plan, candidate))
        others.push_back(each);
    auto read = [&](const std::vector<Reached> &reached) {
      for (const Reached &each : reached)
        if (each.ref.read && groupOf(each) >= 0 &&
            !held.holds(begin(each), each.bytes, groupOf(each))) {
          item = place(program, i);
          fail("it reads indices of buffer " + quoted(plan.buffers[each.ref.buffer].name) +
               ", in whose memory other numbers may lie");
        }
    };
    read(own);
    read(others);
    auto put = [&](const std::vector<Reached> &reached, bool indices, bool isCertain) {
      for (const Reached &each : reached)
        if (each.ref.written && (groupOf(each) >= 0) == indices)
          held.put(begin(each), each.bytes, isCertain ? groupOf(each) : HeldIndices::none);
    };
    // Indices are there where whatever runs puts them, and where no other number may come.
    std::vector<Reached> certain = own;
    for (const Launch &candidate : command.candidates) {
      const std::vector<Reached> reached = reachedBy(plan, candidate);
      for (Reached &each : certain) {
        uint64_t bytes = 0;
        for (const Reached &other : reached)
          if (other.ref.written && other.ref.buffer == each.ref.buffer &&
              other.ref.offset == each.ref.offset)
            bytes = std::max(bytes, other.bytes);
        each.bytes = std::min(each.bytes, bytes);
      }
    }
    put(others, /*indices=*/true, /*isCertain=*/false);
    put(own, /*indices=*/true, /*isCertain=*/false);
    put(certain, /*indices=*/true, /*isCertain=*/true);
    put(own, /*indices=*/false, /*isCertain=*/true);
    put(others, /*indices=*/false, /*isCertain=*/true);
  }
}

void Validator::indicesStay() {
  const HeldIndices before(plan);
  for (const Program &program : plan.programs) {
    // A text's next token goes on with what its first ones, and the one before, have left.
    const Training *sampling = nullptr;
    for (const Training *stage : stagesOf(plan))
      if (stage->decode == program.name)
        sampling = stage;
    HeldIndices held = before;
    for (const Program &first : plan.programs)
      if (sampling && first.name == sampling->generate && &first != &program)
        indicesStay(first, held);
    for (int times = sampling ? 2 : 1; times > 0; --times)
      indicesStay(program, held);
  }
}

void Validator::indices() {
  for (const IndexGroup &group : plan.indexGroups) {
    item = "the plan";
    require(group.low > group.high || (group.low >= INT32_MIN && group.high <= INT32_MAX),
            "a group of indices reaches beyond 32 bits");
  }
  for (const Buffer &buffer : plan.buffers) {
    item = "buffer " + quoted(buffer.name);
    require(buffer.indices >= -1 && buffer.indices < int64_t(plan.indexGroups.size()),
            "its group of indices does not exist");
    require(buffer.indices < 0 || buffer.type == DType::I32, "it holds indices and is no i32");
    require(buffer.indices < 0 || !isInHost(plan, buffer),
            "it holds indices and lies in the host's memory");
  }
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    int64_t before = -1;
    for (const Kernel::Indices &each : kernel.indices) {
      require(int64_t(each.operand) > before, "its operands of indices are not in their order");
      before = each.operand;
      require(each.group < plan.indexGroups.size(), "a group of indices does not exist");
      require(kernel.reaches.empty() || each.operand < kernel.reaches.front().bytes.size(),
              "an operand of indices does not exist");
    }
  }
  indicesFromOutside();
  for (const Program &program : plan.programs)
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const Command &command = program.commands[i];
      item = place(program, i);
      indicesOf(command);
    }
  indicesStay();
}

} // namespace nano::plan
