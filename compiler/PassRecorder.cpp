// Prints a program's functions before and after every pass, and keeps what differs.
#include "compiler/PassRecorder.h"

#include "codegen/cpu/NativeCode.h"
#include "compiler/explore/LineDiff.h"
#include "ir/graph/Nano.h"
#include "ir/graph/Traffic.h"
#include "ir/step/Step.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <utility>

using namespace mlir;

namespace nano {

using explore::FunctionChange;
using explore::PassRecord;
using explore::TextRegion;

namespace {

/// A function's IR and the number of its ops.
struct Text {
  std::string text;
  int64_t ops = 0;
};
/// By name, in the order of the program.
class Texts {
public:
  Text &operator[](const std::string &name) {
    const auto [found, isNew] = places.try_emplace(name, all.size());
    return (isNew ? all.emplace_back(name, Text()) : all[found->second]).second;
  }
  const Text *find(const std::string &name) const {
    const auto found = places.find(name);
    return found == places.end() ? nullptr : &all[found->second].second;
  }
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }

private:
  std::map<std::string, size_t> places;
  std::vector<std::pair<std::string, Text>> all;
};

/// Changed lines of one pass that a page shows, in bytes; what a pass that rewrites everything
/// changes is the same kind of thing again and again.
constexpr size_t mostBytes = 48 << 10;
/// Of one function, so that each has its part.
constexpr size_t mostOfFunction = 12 << 10;

int64_t opsIn(Operation *op) {
  int64_t count = 0;
  op->walk([&](Operation *) { ++count; });
  return count;
}

/// Of graph programs by their tensors, of schedules by their commands; of what is neither, as a
/// failed pass may leave it, nothing.
explore::ProgramWork workOf(ModuleOp module) {
  explore::ProgramWork work{0, 0};
  for (auto function : module.getOps<graph::ProgramOp>()) {
    if (function.isExternal())
      continue;
    const bool isGraph = llvm::all_of(function.getBody().front(), [](Operation &op) {
      return isa<graph::NanoDialect>(op.getDialect());
    });
    if (!isGraph)
      return {};
    const Traffic traffic = measureTraffic(function);
    *work.kernels += traffic.kernels;
    *work.bytes += traffic.bytes;
  }
  for (auto program : module.getOps<step::ProgramOp>()) {
    work.bytes.reset();
    for (Operation &op : program.getBody().front())
      if (isa<step::StepCommandOpInterface>(op) && !isa<step::RecordOp, step::WaitOp>(op))
        ++*work.kernels;
  }
  return work;
}

void addText(Texts &texts, const std::string &name, Operation *op, AsmState &names) {
  Text &entry = texts[name];
  llvm::raw_string_ostream stream(entry.text);
  op->print(stream, names);
  stream << "\n";
  entry.ops += opsIn(op);
}

/// Functions by name; of a module inside, as kernels have one, those in it; all else together.
void addTexts(Texts &texts, ModuleOp module, const std::string &prefix, AsmState &names) {
  for (Operation &op : *module.getBody()) {
    auto name = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    if (auto inner = dyn_cast<ModuleOp>(op))
      addTexts(texts, inner, prefix + (name ? name.getValue() + "/" : llvm::Twine("")).str(),
               names);
    else if (name && op.getNumRegions() > 0)
      addText(texts, prefix + name.getValue().str(), &op, names);
    else
      addText(texts, prefix + "declarations", &op, names);
  }
}

Texts textsOf(ModuleOp module) {
  // Once for all: names of values are found for a whole program, and passes have just verified it.
  AsmState names(module,
                 OpPrintingFlags().useLocalScope().assumeVerified().elideLargeElementsAttrs());
  Texts texts;
  addTexts(texts, module, "", names);
  return texts;
}

std::vector<std::string> linesOf(StringRef text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    lines.push_back(line.str());
    text = rest;
  }
  return lines;
}

size_t bytesOf(const TextRegion &region) {
  return region.lead.size() + region.before.size() + region.after.size();
}

/// Keeps the first lines of a side; the number of those that went.
int64_t cut(std::string &lines) {
  constexpr size_t most = 60;
  size_t end = 0;
  for (size_t i = 0; i < most && end < lines.size(); ++i)
    end = lines.find('\n', end) + 1;
  const auto gone = std::count(lines.begin() + std::ptrdiff_t(end), lines.end(), '\n');
  lines.resize(end);
  return gone;
}

/// What of the functions has changed, in the order of the program behind the pass; then those that
/// are gone.
std::vector<FunctionChange> changesOf(const Texts &before, const Texts &after) {
  std::vector<FunctionChange> changes;
  size_t bytes = 0;
  auto add = [&](const std::string &name, const Text &old, const Text &now) {
    if (old.text == now.text)
      return;
    FunctionChange change{name, old.ops, now.ops, {}, 0};
    size_t own = 0;
    for (TextRegion &region : explore::differences(linesOf(old.text), linesOf(now.text))) {
      region.linesLeftOut = cut(region.before) + cut(region.after);
      const size_t size = bytesOf(region);
      if (own + size > mostOfFunction || bytes + own + size > mostBytes) {
        ++change.regionsLeftOut;
        continue;
      }
      own += size;
      change.regions.push_back(std::move(region));
    }
    bytes += own;
    // Values that are called otherwise are no change.
    if (!change.regions.empty() || change.regionsLeftOut > 0)
      changes.push_back(std::move(change));
  };
  for (const auto &[name, text] : after) {
    const Text *old = before.find(name);
    add(name, old ? *old : Text(), text);
  }
  for (const auto &[name, text] : before)
    if (!after.find(name))
      add(name, text, {});
  return changes;
}

} // namespace

class PassRecorder::State {
public:
  using Clock = std::chrono::steady_clock;

  State(ModuleOp module, PassRecord blank, bool compares)
      : blank(std::move(blank)), compares(compares), ops(opsIn(module)), work(workOf(module)) {
    if (compares)
      texts = textsOf(module);
  }

  void begin(Pass *pass) {
    PassRecord &record = records.emplace_back(blank);
    record.pass = pass->getArgument().str();
    record.opsBefore = ops;
    record.workBefore = work;
    since = Clock::now();
  }

  void end(ModuleOp module, bool isFailed = false) {
    PassRecord &record = records.back();
    record.seconds = std::chrono::duration<double>(Clock::now() - since).count();
    record.opsAfter = ops = opsIn(module);
    record.isFailed = isFailed;
    // What a failed pass has left may be no IR that can be read.
    if (isFailed && failed(verify(module)))
      return;
    record.workAfter = work = workOf(module);
    if (!compares)
      return;
    Texts now = textsOf(module);
    record.functions = changesOf(texts, now);
    texts = std::move(now);
  }

  std::vector<PassRecord> records;

private:
  const PassRecord blank;
  const bool compares;
  int64_t ops = 0;           ///< of the program as it is
  explore::ProgramWork work; ///< likewise
  Texts texts;               ///< likewise, when it compares
  Clock::time_point since;
};

namespace {

/// Passes on the whole program; adaptors, which run others on its parts, have no argument.
template <typename State> class Instrumentation : public PassInstrumentation {
public:
  explicit Instrumentation(State &state) : state(state) {}
  void runBeforePass(Pass *pass, Operation *op) override {
    if (isa<ModuleOp>(op) && !pass->getArgument().empty())
      state.begin(pass);
  }
  void runAfterPass(Pass *pass, Operation *op) override {
    if (auto module = dyn_cast<ModuleOp>(op); module && !pass->getArgument().empty())
      state.end(module);
  }
  void runAfterPassFailed(Pass *pass, Operation *op) override {
    if (auto module = dyn_cast<ModuleOp>(op); module && !pass->getArgument().empty())
      state.end(module, /*isFailed=*/true);
  }

private:
  State &state;
};

} // namespace

PassRecorder::PassRecorder(ModuleOp module, PassRecord blank, bool compares)
    : state(std::make_unique<State>(module, std::move(blank), compares)) {}

PassRecorder::~PassRecorder() = default;

std::unique_ptr<PassInstrumentation> PassRecorder::instrumentation() {
  return std::make_unique<Instrumentation<State>>(*state);
}

void PassRecorder::remark(const std::string &text) {
  if (!state->records.empty())
    state->records.back().remarks.push_back(text);
}

std::vector<PassRecord> PassRecorder::take() { return std::move(state->records); }

explore::LineOps lineOpsOf(ModuleOp module) {
  explore::LineOps ops;
  module.walk([&](Operation *op) {
    if (const std::string line = step::lineOf(op->getLoc()); !line.empty())
      ++ops[line][op->getName().getStringRef().str()];
  });
  return ops;
}

void addKernels(explore::PassRecords &records, ModuleOp module) {
  for (auto kernels : module.getOps<ModuleOp>())
    for (auto kernel : kernels.getOps<FunctionOpInterface>())
      if (auto [entry, isNew] = records.kernels.try_emplace(kernel.getName().str()); isNew)
        entry->second = codegen::kernelText(kernel);
}

explore::Failure failureOf(const std::string &error) {
  const auto [place, message] = StringRef(error).split(": ");
  const auto [file, number] = place.rsplit(':');
  unsigned line = 0;
  if (file.empty() || message.empty() || number.getAsInteger(10, line))
    return {error, ""};
  return {message.str(), place.str()};
}

void addRecords(explore::PassRecords &records, std::vector<std::vector<PassRecord>> runs) {
  for (size_t i = 0; !runs.empty() && i < runs.front().size(); ++i)
    for (std::vector<PassRecord> &run : runs)
      if (i < run.size())
        records.passes.push_back(std::move(run[i]));
}

} // namespace nano
