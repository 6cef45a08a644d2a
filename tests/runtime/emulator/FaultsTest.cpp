// Each fault planted in a small kernel is found, with kernel, thread and line; without it the
// kernel passes.
#include "tests/runtime/emulator/KernelRun.h"

#include <gmock/gmock.h>
#include <numeric>

namespace nano::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A kernel with 64 threads, 64 inputs and 64 outputs unless a test says otherwise.
struct Pair {
  std::string kernel;
  uint32_t threads = 64;
  int64_t blocks = 1;
  uint64_t shared = 0;
  size_t inputs = 0; ///< floats of the first operand; 0: only an output
  size_t outputs = 64;
  bool outputIsRead = false;

  /// What each of some runs under different schedules is reported for.
  std::vector<std::string> run(const char *variant) const {
    KernelRun run("faults.cu", kernel + variant);
    if (inputs) {
      std::vector<float> values(inputs);
      std::iota(values.begin(), values.end(), 1.0f);
      run.input(values);
    }
    if (outputIsRead)
      run.inputOutput(std::vector<float>(outputs));
    else
      run.output<float>(outputs);
    run.threads(threads).blocks(blocks).shared(shared);
    std::vector<std::string> messages;
    for (int i = 0; i < 5; ++i)
      messages.push_back(run.run());
    return messages;
  }
  /// What the broken kernel is reported for; the whole one must pass.
  std::vector<std::string> faults() const {
    EXPECT_THAT(run("_good"), testing::Each("")) << kernel;
    return run("_bad");
  }
};

std::string at(const std::string &mark) { return "(" + lineOf("faults.cu", mark) + ")"; }

/// Matches every message.
template <typename Matcher> void expectAll(const Pair &pair, const Matcher &matcher) {
  for (const std::string &message : pair.faults())
    EXPECT_THAT(message,
                AllOf(HasSubstr("kernel '" + pair.kernel + "_bad' (faults.cu), block "), matcher));
}

TEST(EmulatorFaults, RaceInSharedMemory) {
  expectAll({.kernel = "race_shared"},
            AllOf(HasSubstr("race: "), HasSubstr(at("race_shared_read")),
                  HasSubstr(at("race_shared_write")), HasSubstr("with no barrier in between")));
}

TEST(EmulatorFaults, SharedMemoryOverwrittenTooEarly) {
  expectAll({.kernel = "race_reuse"},
            AllOf(HasSubstr("race: "), HasSubstr(at("race_reuse_read")),
                  HasSubstr(at("race_reuse_write")), HasSubstr("with no barrier in between")));
}

TEST(EmulatorFaults, RaceWithinAWarp) {
  expectAll({.kernel = "race_warp", .threads = 32},
            AllOf(HasSubstr("race: "), HasSubstr(at("race_warp"))));
}

TEST(EmulatorFaults, RaceInGlobalMemory) {
  expectAll({.kernel = "race_global"},
            AllOf(HasSubstr("race: writes 4 bytes at byte "), HasSubstr("of buffer 'operand0'"),
                  HasSubstr(at("race_global"))));
}

TEST(EmulatorFaults, RaceBetweenBlocks) {
  expectAll({.kernel = "race_blocks", .blocks = 4},
            AllOf(HasSubstr("race: writes 4 bytes at byte 0 of buffer 'operand0'"),
                  HasSubstr("which another block has written in the same launch"),
                  HasSubstr(at("race_blocks"))));
  expectAll({.kernel = "race_blocks_read", .blocks = 4, .outputIsRead = true},
            AllOf(HasSubstr("race: "), HasSubstr("which another block has ")));
}

TEST(EmulatorFaults, PlainStoreBesideAtomics) {
  expectAll({.kernel = "race_atomic", .blocks = 3, .outputIsRead = true},
            AllOf(HasSubstr("race: "), HasSubstr(at("race_atomic"))));
}

TEST(EmulatorFaults, SumsInMemoryOfTwoThreads) {
  expectAll({.kernel = "race_add", .outputs = 256, .outputIsRead = true},
            AllOf(HasSubstr("race: "), HasSubstr(at("race_add"))));
}

TEST(EmulatorFaults, OutOfBounds) {
  expectAll({.kernel = "bounds_shared", .shared = 256},
            AllOf(HasSubstr("thread 63: out of bounds: writes 4 bytes at byte "),
                  HasSubstr(" of shared memory, which has "), HasSubstr(at("bounds_shared"))));
  expectAll({.kernel = "bounds_global", .inputs = 64},
            AllOf(HasSubstr("thread 63: out of bounds: reads 4 bytes at byte 256 of buffer "
                            "'operand0', which has 256 "),
                  HasSubstr(at("bounds_global"))));
  expectAll({.kernel = "bounds_wide", .threads = 32, .inputs = 128, .outputs = 128},
            AllOf(HasSubstr("thread 31: out of bounds: reads 16 bytes at byte 512 of buffer"),
                  HasSubstr(at("bounds_wide"))));
  expectAll({.kernel = "bounds_struct", .inputs = 512, .outputs = 512},
            AllOf(HasSubstr("out of bounds: reads 2048 bytes at byte 2048 of buffer 'operand0'"),
                  HasSubstr(at("bounds_struct"))));
  expectAll({.kernel = "bounds_move", .outputs = 512, .outputIsRead = true},
            AllOf(HasSubstr("out of bounds: reads 1600 bytes at byte "),
                  HasSubstr("of buffer 'operand0'"), HasSubstr(at("bounds_move"))));
  expectAll({.kernel = "null_pointer"},
            AllOf(HasSubstr("out of bounds: writes 4 bytes at a null pointer"),
                  HasSubstr(at("null_pointer"))));
}

TEST(EmulatorFaults, OperandsThatAreNotForThis) {
  expectAll({.kernel = "write_input", .inputs = 64},
            AllOf(HasSubstr("which this launch only reads"), HasSubstr(at("write_input"))));
  expectAll({.kernel = "read_output"},
            AllOf(HasSubstr("uninitialised: reads 4 bytes"), HasSubstr(at("read_output")),
                  HasSubstr("which this launch only writes, and has not written yet")));
}

TEST(EmulatorFaults, Misaligned) {
  expectAll({.kernel = "misaligned", .threads = 32, .inputs = 132, .outputs = 128},
            AllOf(HasSubstr("misaligned: reads 16 bytes at byte "), HasSubstr(at("misaligned")),
                  HasSubstr("which is no multiple of 16")));
  expectAll({.kernel = "copy_misaligned", .threads = 32, .inputs = 132, .outputs = 32},
            AllOf(HasSubstr("misaligned: "), HasSubstr(at("copy_misaligned")),
                  HasSubstr("no multiple of 16")));
}

TEST(EmulatorFaults, UninitialisedSharedMemory) {
  expectAll({.kernel = "uninitialised", .threads = 32},
            AllOf(HasSubstr("thread 24: uninitialised: reads 4 bytes at byte "),
                  HasSubstr(at("uninitialised")), HasSubstr("which nothing has written")));
}

TEST(EmulatorFaults, CopyThatIsNotWaitedFor) {
  expectAll({.kernel = "copy_wait", .threads = 32, .inputs = 128},
            AllOf(HasSubstr("missing wait: reads 4 bytes"), HasSubstr(at("copy_wait")),
                  HasSubstr("to which a copy is under way"), HasSubstr(at("copy_start"))));
  expectAll({.kernel = "copy_groups", .threads = 32, .inputs = 256},
            AllOf(HasSubstr("missing wait: reads 4 bytes"), HasSubstr(at("copy_groups"))));
}

TEST(EmulatorFaults, CopyOfAnotherThreadWithoutBarrier) {
  for (const std::string &message :
       Pair{.kernel = "copy_barrier", .threads = 32, .inputs = 128}.faults())
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("missing wait: "), HasSubstr("race: "),
                                        HasSubstr("uninitialised: ")));
}

TEST(EmulatorFaults, DivergentBarriers) {
  expectAll({.kernel = "divergent_sync"},
            AllOf(HasSubstr("divergent syncThreads: "),
                  HasSubstr(lineOf("faults.cu", "divergent_sync_one")),
                  HasSubstr(lineOf("faults.cu", "divergent_sync_other"))));
  expectAll({.kernel = "divergent_shuffle", .threads = 32},
            AllOf(HasSubstr(at("divergent_shuffle")),
                  testing::AnyOf(HasSubstr("divergent warp: "), HasSubstr("ends while lane "))));
  expectAll(
      {.kernel = "divergent_warp", .threads = 32},
      AllOf(HasSubstr("divergent warp: "), HasSubstr(" is in "), HasSubstr(at("divergent_warp"))));
}

TEST(EmulatorFaults, MisusedNamedBarriers) {
  expectAll({.kernel = "named_count", .threads = 96, .outputs = 64},
            AllOf(HasSubstr("misused barrier: barrier"), HasSubstr(": barrier 1 is for "),
                  HasSubstr("96"), HasSubstr("64")));
  expectAll({.kernel = "named_half"},
            AllOf(HasSubstr("misused barrier: of the warp of thread "),
                  HasSubstr("only 16 lanes take part in barrier 2 " + at("named_half"))));
  expectAll({.kernel = "named_left"},
            AllOf(HasSubstr("ends with 32 of 64 arrivals at barrier 1 " + at("named_left"))));
}

TEST(EmulatorFaults, Deadlock) {
  expectAll({.kernel = "deadlock"},
            AllOf(HasSubstr("deadlock: "),
                  HasSubstr("32 threads wait in barrierSync " + at("deadlock_one")),
                  HasSubstr("32 threads wait in barrierSync " + at("deadlock_other"))));
}

TEST(EmulatorFaults, NamesTheLineWithinACalledFunction) {
  expectAll({.kernel = "inlined", .threads = 32, .inputs = 64},
            AllOf(HasSubstr("thread 0: out of bounds: reads 4 bytes"),
                  HasSubstr(lineOf("faults.cu", "inlined_element"))));
}

TEST(EmulatorFaults, ReadOnlyMemoryThatTheLaunchWrites) {
  expectAll({.kernel = "constant_written", .outputIsRead = true},
            AllOf(HasSubstr("race: writes 4 bytes at byte "),
                  HasSubstr("of buffer 'operand0' " + at("constant_written")),
                  HasSubstr(", which this launch has read as if nothing wrote them")));
  expectAll({.kernel = "written_constant", .outputIsRead = true},
            AllOf(HasSubstr("race: reads 4 bytes at byte "),
                  HasSubstr("of buffer 'operand0' " + at("written_constant")),
                  HasSubstr(", as if nothing wrote them in this launch, which has " +
                            at("written_constant_store"))));
}

TEST(EmulatorFaults, ReadOnlyLoadsAreOfGlobalMemory) {
  expectAll({.kernel = "constant_shared", .shared = 256},
            AllOf(HasSubstr("out of bounds: reads 4 bytes at byte "),
                  HasSubstr("of shared memory " + at("constant_shared")),
                  HasSubstr(" by a load of global memory")));
}

TEST(EmulatorFaults, Trap) {
  EXPECT_THAT(KernelRun("faults.cu", "trap").output<float>(32).run(),
              HasSubstr("thread 5: traps " + at("trap")));
}

} // namespace
} // namespace nano::test
