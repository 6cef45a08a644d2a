// Byte by byte, pair by pair.
#include "tests/step/StepOracle.h"

#include "ir/graph/Phases.h"
#include "ir/step/Step.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <map>
#include <set>

using namespace mlir;
using namespace nano::step;

namespace nano::test {
namespace {

constexpr size_t maxCommands = 512;

/// Arena addresses of the bytes of a view, element by element in row-major order.
std::vector<int64_t> addressesOf(Value view, const std::map<const void *, int64_t> &starts) {
  auto type = cast<MemRefType>(view.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  int64_t size = elementBytes(type.getElementType()), start = starts.at(bufferKey(view));
  ArrayRef<int64_t> shape = type.getShape();
  std::vector<int64_t> addresses;
  addresses.reserve(type.getNumElements() * size);
  for (int64_t linear = 0, count = type.getNumElements(); linear < count; ++linear) {
    int64_t rest = linear, element = offset;
    for (size_t dim = shape.size(); dim-- > 0;) {
      element += rest % shape[dim] * strides[dim];
      rest /= shape[dim];
    }
    for (int64_t byte = 0; byte < size; ++byte)
      addresses.push_back(start + element * size + byte);
  }
  return addresses;
}

struct Touch {
  const void *buffer;
  std::vector<int64_t> bytes; ///< in row-major order of the elements
  bool reads, writes, isFactor = false, isSource = false;
  std::vector<int64_t> sorted = {}; ///< the same bytes in increasing order
  size_t segment = 0;               ///< of a launch
};

struct Step {
  Operation *op;
  uint64_t stream;
  std::vector<Touch> touches;
};

/// A program with everything spelled out.
struct Unrolled {
  std::vector<Step> steps;
  std::map<const void *, int64_t> starts, sizes;
  std::map<const void *, bool> persistent; ///< value: holds something from the start
  std::map<const void *, bool> gradients;  ///< of the persistent ones: others may write there
};

Unrolled unroll(ModuleOp module, ProgramOp program) {
  Unrolled result;
  auto persist = [&](graph::PlacedOpInterface op, MemRefType type, bool filled) {
    const void *key = SymbolTable::getSymbolName(op).getAsOpaquePointer();
    result.starts[key] = op.getOffsetAttr().getInt();
    result.sizes[key] = contiguousBytes(type);
    result.persistent[key] = filled;
  };
  for (auto state : module.getOps<graph::StateOp>()) {
    persist(state, memrefOf(state.getTensorType()), true);
    result.gradients[state.getSymNameAttr().getAsOpaquePointer()] =
        state.getRole() == graph::Role::Gradient;
  }
  for (auto input : module.getOps<InputOp>())
    persist(input, cast<MemRefType>(input.getType()), !input.getOutput());
  for (auto buffer : program.getBody().getOps<BufferOp>()) {
    result.starts[bufferKey(buffer)] = int64_t(*buffer.getOffset());
    result.sizes[bufferKey(buffer)] = contiguousBytes(buffer.getType());
  }
  KernelTable kernels(module);
  for (Operation &op : program.getBody().front()) {
    auto command = dyn_cast<StepCommandOpInterface>(op);
    if (!command)
      continue;
    Step step{&op, command.getStream(), {}};
    auto matmul = dyn_cast<MatmulOp>(op);
    const SmallVector<Access> accesses = accessesOf(command, kernels);
    auto launch = dyn_cast<LaunchOp>(op);
    for (auto [i, access] : llvm::enumerate(accesses)) {
      Touch touch{bufferKey(access.buffer), addressesOf(access.buffer, result.starts), access.reads,
                  access.writes};
      touch.isFactor = matmul && llvm::is_contained({matmul.getA(), matmul.getB(),
                                                     matmul.getScaleA(), matmul.getScaleB()},
                                                    access.buffer);
      touch.isSource = isa<CopyOp>(op);
      touch.segment = launch ? i * launch.getSegments() / accesses.size() : 0;
      touch.sorted = touch.bytes;
      if (!std::is_sorted(touch.sorted.begin(), touch.sorted.end()))
        std::sort(touch.sorted.begin(), touch.sorted.end());
      step.touches.push_back(std::move(touch));
    }
    result.steps.push_back(std::move(step));
  }
  return result;
}

/// Who owns each byte of the arena.
using Owners = std::vector<const void *>;

/// Runs a program on memory that others have left; why that is wrong, or empty.
std::string liveness(const Unrolled &program, Owners &owner) {
  Owners kept(owner.size(), nullptr);
  std::map<const void *, bool> touched;
  for (auto [key, filled] : program.persistent)
    for (int64_t i = 0; i < program.sizes.at(key); ++i) {
      const int64_t byte = program.starts.at(key) + i;
      auto gradient = program.gradients.find(key);
      if (gradient == program.gradients.end() || !gradient->second)
        kept[byte] = key;
      if (!filled && owner[byte] == key)
        owner[byte] = nullptr;
    }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step &step = program.steps[i];
    for (const Touch &touch : step.touches)
      for (int64_t byte : touch.bytes)
        if (touch.reads && owner[byte] != touch.buffer)
          return "command " + std::to_string(i) + " reads byte " + std::to_string(byte) +
                 ", which holds something else";
    for (const Touch &touch : step.touches) {
      touched[touch.buffer] = true;
      for (int64_t byte : touch.bytes) {
        if (!touch.writes)
          continue;
        if (kept[byte] && kept[byte] != touch.buffer)
          return "command " + std::to_string(i) + " writes byte " + std::to_string(byte) +
                 " of what lives on";
        owner[byte] = touch.buffer;
      }
    }
  }
  for (auto [key, filled] : program.persistent) {
    auto gradient = program.gradients.find(key);
    if (gradient != program.gradients.end() && gradient->second)
      continue;
    for (int64_t i = 0; i < program.sizes.at(key) && touched[key]; ++i)
      if (owner[program.starts.at(key) + i] != key)
        return "an output is not written";
  }
  // Transient buffers end with the program.
  for (const void *&key : owner)
    if (!program.persistent.count(key))
      key = nullptr;
  return "";
}

/// Every run of the programs, up to memory that has been seen at the same place before.
class Runs {
public:
  explicit Runs(ModuleOp module) : module(module), phases(graph::phaseCount(module)) {
    for (auto program : module.getOps<ProgramOp>())
      programs.emplace_back(program, unroll(module, program));
  }

  std::string findError() {
    if (programs.empty())
      return "";
    Owners first(size_t(arenaOf(module).getEnd()), nullptr);
    std::vector<int> claims(first.size(), 0);
    const Unrolled &any = programs.front().second;
    for (auto [key, filled] : any.persistent)
      for (int64_t i = 0; i < any.sizes.at(key); ++i) {
        const int64_t byte = any.starts.at(key) + i;
        first[byte] = filled ? key : nullptr;
        if (++claims[byte] > 1)
          first[byte] = nullptr; // which is left of the two nobody says
      }
    for (int64_t phase = 0; phase < phases; ++phase)
      visit({phase, ""}, first);
    while (!pending.empty() && error.empty()) {
      auto [place, memory] = std::move(pending.front());
      pending.pop_front();
      follow(place, memory);
    }
    return error;
  }

private:
  /// Of a run: the phase, and the role of the step's program that ran last; between steps none.
  using Place = std::pair<int64_t, std::string>;

  void visit(const Place &place, const Owners &memory) {
    if (seen[place].insert(memory).second)
      pending.emplace_back(place, memory);
  }

  /// The program of a role in a step of a phase.
  const std::pair<ProgramOp, Unrolled> *programOf(StringRef role, int64_t phase) const {
    for (const auto &program : programs)
      if (ProgramOp(program.first).getRole() == role && graph::runsInPhase(program.first, phase))
        return &program;
    return nullptr;
  }

  void run(const std::pair<ProgramOp, Unrolled> &program, Owners memory, const Place &behind) {
    if (!error.empty())
      return;
    error = liveness(program.second, memory);
    if (error.empty())
      visit(behind, memory);
    else
      error = "@" + ProgramOp(program.first).getSymName().str() + ": " + error;
  }

  void follow(const Place &place, const Owners &memory) {
    static const std::vector<std::string> roles = {"", "first", "next", "last", "update"};
    auto [phase, role] = place;
    const size_t at = std::find(roles.begin(), roles.end(), role) - roles.begin();
    if (role.empty())
      for (const auto &program : programs) {
        bool isOfStep = false;
        for (const std::string &name : roles)
          for (int64_t other = 0; other < phases; ++other)
            isOfStep |= !name.empty() && programOf(name, other) == &program;
        if (!isOfStep)
          run(program, memory, place);
      }
    if (role == "next")
      if (const auto *again = programOf(role, phase))
        run(*again, memory, place);
    // On to the next role there is; "next" may be left out.
    for (size_t i = at + 1; i < roles.size(); ++i) {
      const auto *program = programOf(roles[i], phase);
      if (!program)
        continue;
      run(*program, memory, {phase, roles[i]});
      if (roles[i] != "next")
        return;
    }
    visit({(phase + 1) % phases, ""}, memory);
  }

  ModuleOp module;
  int64_t phases;
  std::vector<std::pair<ProgramOp, Unrolled>> programs;
  std::map<Place, std::set<Owners>> seen;
  std::deque<std::pair<Place, Owners>> pending;
  std::string error;
};

bool conflict(const Touch &a, const Touch &b) {
  if (!a.writes && !b.writes)
    return false;
  if (a.sorted.empty() || b.sorted.empty() || a.sorted.back() < b.sorted.front() ||
      b.sorted.back() < a.sorted.front())
    return false;
  for (auto x = a.sorted.begin(), y = b.sorted.begin(); x != a.sorted.end() && y != b.sorted.end();)
    if (*x == *y)
      return true;
    else
      ++(*x < *y ? x : y);
  return false;
}

std::string races(const Unrolled &program) {
  const std::vector<Step> &steps = program.steps;
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t x = 0; x < steps[i].touches.size(); ++x)
      for (size_t y = x + 1; y < steps[i].touches.size(); ++y) {
        const Touch &a = steps[i].touches[x], &b = steps[i].touches[y];
        bool inPlace = a.buffer == b.buffer && a.bytes == b.bytes && !(a.writes && b.writes) &&
                       !a.isFactor && !b.isFactor && !a.isSource && a.segment == b.segment;
        if (conflict(a, b) && !inPlace)
          return "command " + std::to_string(i) + " conflicts with itself";
      }
  size_t count = steps.size();
  std::vector<std::bitset<maxCommands>> before(count);
  if (count > maxCommands)
    return "more commands than this oracle takes";
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i + 1; j < count; ++j) {
      auto record = dyn_cast<RecordOp>(steps[i].op);
      auto wait = dyn_cast<WaitOp>(steps[j].op);
      before[i][j] = steps[i].stream == steps[j].stream ||
                     (record && wait && record.getEvent() == wait.getEvent());
    }
  for (size_t k = 0; k < count; ++k)
    for (size_t i = 0; i < count; ++i)
      if (before[i][k])
        before[i] |= before[k];
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i + 1; j < count; ++j) {
      if (before[i][j])
        continue;
      std::string pair = "commands " + std::to_string(i) + " and " + std::to_string(j);
      if (isa<AllReduceOp>(steps[i].op) && isa<AllReduceOp>(steps[j].op))
        return pair + " are unordered collectives";
      for (const Touch &a : steps[i].touches)
        for (const Touch &b : steps[j].touches)
          if (conflict(a, b))
            return pair + " race";
    }
  return "";
}

template <typename Check> std::string firstError(ModuleOp module, const Check &check) {
  for (auto program : module.getOps<ProgramOp>())
    if (std::string error = check(unroll(module, program)); !error.empty())
      return "@" + program.getSymName().str() + ": " + error;
  return "";
}

} // namespace

std::string findLivenessError(ModuleOp module) { return Runs(module).findError(); }

std::string findRace(ModuleOp module) {
  return firstError(module, [](const Unrolled &program) { return races(program); });
}

} // namespace nano::test
