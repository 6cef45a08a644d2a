// nano-bucket-collectives, nano-batch-launches and nano-schedule on random programs: the proofs of
// liveness and races hold, every state gets the value that the given order gives it, memory stays
// within its limit, and no wait is too many.
#include "passes/RegisterPasses.h"
#include "passes/memory/MemoryReport.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <map>
#include <random>

using namespace mlir;
using namespace nano::step;

namespace {

constexpr int parts = 4; ///< of every buffer; what views and tests tell apart
/// Elements of the smallest buffer: copies of some are worth an event, of others not.
constexpr int unit = 1 << 16;

//===- Random programs -----------------------------------------------------===//

/// A module with one program of `count` commands on states and buffers of unit·2^k f32, k = 0..3,
/// every quarter of which a view may name. Without collectives and copies all are states, so that
/// nothing has to be filled.
class RandomProgram {
public:
  explicit RandomProgram(unsigned seed) : random(seed) {}

  std::string text(unsigned count, unsigned world, double communicating, double copying = 0) {
    for (int i = 0; i < 4; ++i)
      names.push_back({"%s" + std::to_string(i), unit << i, true});
    for (int i = 0; i < 12; ++i)
      names.push_back(
          {"%b" + std::to_string(i), unit << (i % 4), communicating == 0 && copying == 0});
    std::uniform_real_distribution<double> share(0, 1);
    for (unsigned i = 0; i < count; ++i) {
      const double kind = share(random);
      if (kind < communicating)
        collective();
      else if (kind < communicating + copying)
        copy();
      else
        computing();
    }
    std::string all = "module {\nnano.model \"m\" {world = " + std::to_string(world) +
                      " : i64, group = " + std::to_string(std::min(world, 8u)) + " : i64}\n";
    all += R"(module @kernels {
  kernel.func @mix(read memref<?xf32>, read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
  kernel.func @add(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
)";
    for (const Name &name : names)
      if (name.isState)
        all += "nano.state @" + name.text.substr(1) + " : tensor<" + std::to_string(name.size) +
               "xf32> {role = #nano.role<gradient>, init = #nano.init<\"constant\", [0.0]>}\n";
    all += "step.program @p {\n";
    for (const Name &name : names)
      all += "  " + name.text + " = " +
             (name.isState ? "step.state @" + name.text.substr(1)
                           : "step.buffer \"" + name.text.substr(1) + "\"") +
             " : " + memref(name.size) + "\n";
    return all + body + "}\n}\n";
  }

private:
  struct Name {
    std::string text;
    int size;
    bool isState;
    bool written = isState;
  };

  static std::string memref(int size, int offset = 0) {
    return "memref<" + std::to_string(size) + "xf32" +
           (offset ? ", strided<[1], offset: " + std::to_string(offset) + ">" : "") + ">";
  }

  Name &any() { return names[random() % names.size()]; }
  /// A buffer with contents; the first command that would read one fills it.
  Name &written() {
    Name &name = any();
    if (!name.written)
      body += "  step.fill " + name.text + " : " + memref(name.size) + "\n";
    name.written = true;
    return name;
  }
  /// All of a buffer that has contents, or a quarter of it, as (value, type).
  std::pair<std::string, std::string> operand(Name &name) {
    if (random() % 3 || !name.written)
      return {name.text, memref(name.size)};
    const int size = name.size / parts, offset = int(random() % parts) * size;
    const std::string view = "%v" + std::to_string(views++);
    body += "  " + view + " = step.view " + name.text + " : " + memref(name.size) + " to " +
            memref(size, offset) + "\n";
    return {view, memref(size, offset)};
  }

  void computing() {
    Name &a = written(), &b = written();
    auto [first, firstType] = operand(a);
    auto [second, secondType] = operand(b);
    if (random() % 3 == 0) {
      if (&a == &b)
        return;
      body += "  step.launch @add(" + first + ", " + second + ") : " + firstType + ", " +
              secondType + "\n";
      return;
    }
    Name &c = any();
    if (&c == &a || &c == &b)
      return;
    auto [target, targetType] = operand(c);
    c.written = true;
    body += "  step.launch @mix(" + first + ", " + second + ", " + target + ") : " + firstType +
            ", " + secondType + ", " + targetType + "\n";
  }

  void copy() {
    Name &a = written(), &b = any();
    if (&a == &b || a.size != b.size)
      return computing();
    b.written = true;
    body += "  step.copy " + a.text + " to " + b.text + " : " + memref(a.size) + ", " +
            memref(b.size) + "\n";
  }

  void collective() {
    Name &a = written();
    const unsigned kind = random() % 4;
    if (kind == 0) {
      body += "  step.all_reduce " + a.text + (random() % 2 ? " over group" : "") + " : " +
              memref(a.size) + "\n";
      return;
    }
    Name &b = any();
    const bool grows = kind == 1; // an all-gather
    if (&a == &b || a.size != b.size * (grows ? 1 : 2) / (grows ? 2 : 1))
      return collective();
    b.written = true;
    const char *names[] = {"", "all_gather", "reduce_scatter", "shard"};
    body += std::string("  step.") + names[kind] + " ins(" + a.text + ") outs(" + b.text +
            ") parts 2 : (" + memref(a.size) + ") -> " + memref(b.size) + "\n";
  }

  std::mt19937 random;
  std::vector<Name> names;
  std::string body;
  int views = 0;
};

//===- What a program computes ---------------------------------------------===//

/// By state and part, a number that stands for how its value was made: equal numbers, equal values.
using Values = std::map<std::string, std::array<uint64_t, parts>>;

uint64_t combine(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
}

/// Executes the commands in the order in which they stand.
class Trace {
public:
  Values run(ProgramOp program, const nano::step::KernelTable &kernels) {
    for (Operation &op : program.getBody().front()) {
      auto command = dyn_cast<StepCommandOpInterface>(op);
      if (!command || isa<RecordOp, WaitOp>(op))
        continue;
      if (auto launch = dyn_cast<LaunchOp>(op)) {
        for (uint64_t i = 0; i < launch.getSegments(); ++i) {
          SmallVector<Value> buffers(launch.getSegment(i));
          const uint64_t kernel = std::hash<std::string>{}(launch.getKernel().str());
          if (launch.getKernel() == "add")
            write(buffers[0], combine(combine(kernel, read(buffers[0])), read(buffers[1])));
          else
            write(buffers[2], combine(combine(kernel, read(buffers[0])), read(buffers[1])));
        }
      } else if (auto reduce = dyn_cast<AllReduceOp>(op)) {
        for (Value buffer : reduce.getBuffers())
          write(buffer, combine(1 + uint64_t(reduce.getRanks()), read(buffer)));
      } else if (auto fill = dyn_cast<FillOp>(op)) {
        write(fill.getBuffer(), 0);
      } else {
        SmallVector<Access> pairs = accessesOf(command, kernels);
        for (size_t i = 0; i < pairs.size(); i += 2)
          write(pairs[i + 1].buffer,
                combine(std::hash<std::string>{}(op.getName().getStringRef().str()),
                        read(pairs[i].buffer)));
      }
    }
    Values states;
    for (auto &[name, value] : values)
      if (name[0] == '@')
        states[name] = value;
    return states;
  }

private:
  std::pair<int, int> partsOf(Value value) {
    auto whole = cast<MemRefType>(bufferOf(value)->getResult(0).getType());
    auto type = cast<MemRefType>(value.getType());
    const int64_t part = whole.getNumElements() / parts, first = layoutOf(type).offset / part;
    return {int(first), int(first + type.getNumElements() / part)};
  }
  uint64_t read(Value value) {
    auto [first, last] = partsOf(value);
    uint64_t all = 0;
    for (int i = first; i < last; ++i)
      all = combine(all, values[nameOf(value)][i]);
    return all;
  }
  void write(Value value, uint64_t made) {
    auto [first, last] = partsOf(value);
    for (int i = first; i < last; ++i)
      values[nameOf(value)][i] = combine(made, uint64_t(i - first));
  }
  Values values;
};

//===- The tests -----------------------------------------------------------===//

class Schedule : public ::testing::Test {
protected:
  static void SetUpTestSuite() { nano::registerNanoPasses(); }

  Schedule() {
    DialectRegistry registry;
    registry
        .insert<nano::graph::NanoDialect, StepDialect, func::FuncDialect, memref::MemRefDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  bool run(ModuleOp module, const std::string &pipeline) {
    PassManager passes(&context);
    return succeeded(parsePassPipeline(pipeline, passes)) && succeeded(passes.run(module));
  }

  static ProgramOp programOf(ModuleOp module) { return *module.getOps<ProgramOp>().begin(); }

  Values valuesOf(ModuleOp module) {
    nano::step::KernelTable kernels(module);
    return Trace().run(programOf(module), kernels);
  }

  static int64_t peakOf(ModuleOp module) {
    nano::step::KernelTable kernels(module);
    return nano::memory::liveBytes(
        nano::memory::packingItems(nano::memory::lifetimesOf(programOf(module), kernels)));
  }

  static std::vector<Operation *> commandsOf(ModuleOp module) {
    std::vector<Operation *> commands;
    for (Operation &op : programOf(module).getBody().front())
      if (isa<StepCommandOpInterface>(op) && !isa<RecordOp, WaitOp>(op))
        commands.push_back(&op);
    return commands;
  }

  static std::string print(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  }

  MLIRContext context;
};

constexpr const char *proofs =
    "nano-plan-memory,nano-prune-waits,nano-verify-liveness,nano-verify-races";

TEST_F(Schedule, holdsTheProofsAndComputesTheSame) {
  const char *schedules[] = {"nano-schedule{memory-growth=1000}", "nano-schedule",
                             "nano-schedule{memory-growth=0}", "nano-schedule{machine=cpu}"};
  const char *before[] = {
      "", "nano-batch-launches,", "nano-bucket-collectives,",
      "nano-bucket-collectives{max-bytes=600000},nano-batch-launches{max-bytes=400000},"};
  const unsigned worlds[] = {2, 4, 8, 64};
  int programs = 0, reordered = 0, communicating = 0, copying = 0, copied = 0;
  for (unsigned seed = 0; seed < 240; ++seed) {
    const unsigned world = worlds[seed / 4 % 4];
    const std::string text =
        RandomProgram(seed).text(10 + seed % 50, world, 0.1 * (seed % 6), 0.1 * (seed % 4));
    const std::string schedule = schedules[world > 8 ? seed % 3 : seed % 4];
    OwningOpRef<ModuleOp> module = parse(text);
    const Values expected = valuesOf(*module);
    if (*before[seed / 16 % 4]) {
      const std::string first = before[seed / 16 % 4];
      ASSERT_TRUE(run(*module, first.substr(0, first.size() - 1))) << text;
      EXPECT_EQ(valuesOf(*module), expected) << first << "\n"
                                             << text << "\nbecame\n"
                                             << print(*module);
    }
    const int64_t given = peakOf(*module); // everything on one stream: nothing overlaps
    const std::vector<Operation *> order = commandsOf(*module);
    ASSERT_TRUE(run(*module, schedule)) << text;
    ++programs;
    reordered += commandsOf(*module) != order; // the ops are moved, not made anew
    communicating += llvm::any_of(order, isCollective);
    // The others have nothing that could go to the stream of copies.
    if (schedule.find("cpu") == std::string::npos && llvm::any_of(order, isCopy)) {
      ++copying;
      copied += llvm::any_of(commandsOf(*module), [](Operation *op) {
        return cast<StepCommandOpInterface>(op).getStream() == 2;
      });
    }
    const double growth = schedule.find("=1000") != std::string::npos ? 1000
                          : schedule.find("=0") != std::string::npos  ? 0
                                                                      : 0.02;
    EXPECT_LE(double(peakOf(*module)), double(given) * (1 + growth)) << schedule << "\n" << text;
    const std::string once = print(*module);
    ASSERT_TRUE(run(*module, proofs)) << schedule << "\n" << text << "\nbecame\n" << once;
    EXPECT_EQ(valuesOf(*module), expected) << schedule << "\n" << text << "\nbecame\n" << once;
  }
  // What was proved is a schedule, not the given order on one stream: most programs that
  // communicate are reordered, and of those with copies a tenth has some on a stream of their own.
  EXPECT_GT(communicating, programs / 2);
  EXPECT_GT(reordered, communicating / 2);
  EXPECT_GT(copied, copying / 10) << copying;
}

TEST_F(Schedule, isDeterministic) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::string text = RandomProgram(seed).text(60, 8, 0.3, 0.2);
    OwningOpRef<ModuleOp> one = parse(text), two = parse(text);
    ASSERT_TRUE(run(*one, "nano-schedule"));
    ASSERT_TRUE(run(*two, "nano-schedule"));
    EXPECT_EQ(print(*one), print(*two));
  }
}

TEST_F(Schedule, leavesAProgramOfOneStreamAlone) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    // Nothing but launches; and on ranks that do one thing at a time, copies too.
    for (double copying : {0.0, 0.4}) {
      OwningOpRef<ModuleOp> module = parse(RandomProgram(seed).text(60, 1, 0, copying));
      const std::string given = print(*module);
      const std::string machine = copying > 0 ? "cpu" : "h100-infiniband";
      ASSERT_TRUE(run(*module, "nano-bucket-collectives,nano-schedule{machine=" + machine + "}"));
      EXPECT_EQ(print(*module), given);
    }
  }
}

// Without any one of its waits a program has a race, whether memory is scarce or not.
TEST_F(Schedule, hasNoWaitTooMany) {
  int removed = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    OwningOpRef<ModuleOp> module = parse(RandomProgram(seed).text(40, 8, 0.2, 0.2));
    const std::string growth = seed % 2 ? "0" : "1000";
    ASSERT_TRUE(run(*module, "nano-schedule{memory-growth=" + growth +
                                 "},nano-plan-memory,nano-prune-waits,nano-verify-races"));
    auto waitOps = programOf(*module).getBody().front().getOps<WaitOp>();
    const auto waits = std::distance(waitOps.begin(), waitOps.end());
    for (ptrdiff_t i = 0; i < waits; ++i) {
      OwningOpRef<ModuleOp> without = module->clone();
      auto ops = programOf(*without).getBody().front().getOps<WaitOp>();
      (*std::next(ops.begin(), i))->erase();
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
      EXPECT_FALSE(run(*without, "nano-verify-races")) << i << "\n" << print(*module);
      ++removed;
    }
  }
  EXPECT_GT(removed, 100);
}

} // namespace
