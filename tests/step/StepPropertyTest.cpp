// Random programs through batching, scheduling and memory planning: the proofs accept what these
// make, and reject exactly the damage that a brute-force oracle rejects.
#include "passes/Passes.h"
#include "tests/step/RandomProgram.h"
#include "tests/step/StepOracle.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
namespace test = nano::test;

namespace {

class StepProperty : public ::testing::Test {
protected:
  StepProperty() {
    context.loadDialect<nano::graph::NanoDialect, nano::step::StepDialect, func::FuncDialect,
                        memref::MemRefDialect>();
    context.disableMultithreading();
  }

  /// Runs passes; returns the first error's text, or nothing.
  std::string run(ModuleOp module, ArrayRef<std::unique_ptr<Pass> (*)()> passes) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        message = diagnostic.str();
    });
    PassManager manager(&context);
    manager.enableVerifier(false);
    for (auto *create : passes)
      manager.addPass(create());
    bool ok = succeeded(manager.run(module));
    EXPECT_EQ(ok, message.empty());
    return message;
  }

  std::string plan(ModuleOp module) {
    return run(module,
               {[] { return nano::createBatchLaunches(); }, [] { return nano::createSchedule(); },
                [] { return nano::createPlanMemory({.leastShared = 0}); },
                [] { return nano::createPruneWaits(); }});
  }
  /// With all that can go in the host's memory.
  std::string planOffloaded(ModuleOp module) {
    return run(
        module,
        {[] { return nano::createBatchLaunches(); }, [] { return nano::createSchedule(); },
         [] { return nano::createOffload({.bytes = int64_t(1) << 40, .machine = NANO_FAST_LINK}); },
         [] { return nano::createPlanMemory({.leastShared = 0}); },
         [] { return nano::createPruneWaits(); }});
  }
  std::string livenessError(ModuleOp module) {
    return run(module, {[] { return nano::createVerifyLiveness(); }});
  }
  std::string race(ModuleOp module) {
    return run(module, {[] { return nano::createVerifyRaces(); }});
  }

  std::string text(ModuleOp module) {
    std::string printed;
    llvm::raw_string_ostream(printed) << module;
    return printed;
  }

  MLIRContext context;
};

TEST_F(StepProperty, whatThePassesMakeIsProved) {
  int64_t overlaid = 0, waits = 0, batches = 0, shared = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    OwningOpRef<ModuleOp> module = test::randomModule(context, seed);
    ASSERT_TRUE(succeeded(verify(*module))) << "seed " << seed;
    ASSERT_EQ(plan(*module), "") << "seed " << seed;
    ASSERT_TRUE(succeeded(verify(*module))) << "seed " << seed;
    EXPECT_EQ(test::findLivenessError(*module), "") << "seed " << seed << "\n" << text(*module);
    EXPECT_EQ(test::findRace(*module), "") << "seed " << seed << "\n" << text(*module);
    EXPECT_EQ(livenessError(*module), "") << "seed " << seed << "\n" << text(*module);
    EXPECT_EQ(race(*module), "") << "seed " << seed << "\n" << text(*module);
    std::set<std::pair<Operation *, uint64_t>> offsets;
    module->walk([&](nano::step::BufferOp buffer) {
      overlaid += !offsets.insert({buffer->getParentOp(), *buffer.getOffset()}).second;
    });
    // Gradients that lie in the bytes of a transient buffer.
    for (auto state : module->getOps<nano::graph::StateOp>())
      if (state.getRole() == nano::graph::Role::Gradient)
        for (auto [parent, offset] : offsets)
          shared += offset == state.getOffset();
    module->walk([&](nano::step::WaitOp) { ++waits; });
    module->walk([&](nano::step::LaunchOp launch) { batches += launch.getSegments() > 1; });
  }
  // The programs are hard enough to mean something.
  EXPECT_GT(overlaid, 100);
  EXPECT_GT(shared, 15);
  EXPECT_GT(waits, 500);
  EXPECT_GT(batches, 100);
}

TEST_F(StepProperty, whatGoesToTheHostIsProved) {
  int64_t gone = 0, less = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    OwningOpRef<ModuleOp> module = test::randomModule(context, seed), whole = module->clone();
    ASSERT_EQ(plan(*whole), "") << "seed " << seed;
    ASSERT_EQ(planOffloaded(*module), "") << "seed " << seed;
    ASSERT_TRUE(succeeded(verify(*module))) << "seed " << seed;
    EXPECT_EQ(test::findLivenessError(*module), "") << "seed " << seed << "\n" << text(*module);
    EXPECT_EQ(test::findRace(*module), "") << "seed " << seed << "\n" << text(*module);
    EXPECT_EQ(livenessError(*module), "") << "seed " << seed << "\n" << text(*module);
    EXPECT_EQ(race(*module), "") << "seed " << seed << "\n" << text(*module);
    module->walk([&](nano::step::BufferOp buffer) { gone += buffer.getHost(); });
    nano::step::ArenaOp arena = nano::step::arenaOf(*module);
    EXPECT_LE(arena.getFloor(), nano::step::arenaOf(*whole).getFloor()) << "seed " << seed;
    less += arena.getBytes() < nano::step::arenaOf(*whole).getBytes();
  }
  EXPECT_GT(gone, 100);
  EXPECT_GT(less, 30);
}

TEST_F(StepProperty, sameInputSamePlan) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    OwningOpRef<ModuleOp> first = test::randomModule(context, seed),
                          second = test::randomModule(context, seed);
    ASSERT_EQ(plan(*first), "");
    ASSERT_EQ(plan(*second), "");
    EXPECT_EQ(text(*first), text(*second));
  }
}

TEST_F(StepProperty, everyWaitIsNeeded) {
  // Transitive reduction, with those waits that let buffers share memory where they do: without any
  // one of the waits two commands race.
  for (uint32_t seed = 0; seed < 40; ++seed) {
    OwningOpRef<ModuleOp> module = test::randomModule(context, seed);
    ASSERT_EQ(plan(*module), "");
    SmallVector<nano::step::WaitOp> waits;
    module->walk([&](nano::step::WaitOp wait) { waits.push_back(wait); });
    for (size_t i = 0; i < waits.size(); ++i) {
      OwningOpRef<ModuleOp> copy = module->clone();
      size_t index = 0;
      copy->walk([&](nano::step::WaitOp wait) {
        if (index++ == i)
          wait.erase();
      });
      EXPECT_NE(race(*copy), "") << "seed " << seed << ", wait " << i;
    }
  }
}

TEST_F(StepProperty, damageIsFoundExactly) {
  std::mt19937 random(1);
  int harmful = 0, harmless = 0;
  for (uint32_t seed = 1000; seed < 1070; ++seed) {
    OwningOpRef<ModuleOp> module = test::randomModule(context, seed);
    ASSERT_EQ(seed % 2 == 0 ? plan(*module) : planOffloaded(*module), "");
    for (int i = 0; i < 12; ++i) {
      OwningOpRef<ModuleOp> damaged = module->clone();
      std::string what = test::damage(*damaged, random);
      if (what.empty())
        continue;
      std::string where = "seed " + std::to_string(seed) + ", " + what;
      std::string expectedLiveness = test::findLivenessError(*damaged),
                  expectedRace = test::findRace(*damaged);
      EXPECT_EQ(livenessError(*damaged).empty(), expectedLiveness.empty())
          << where << ": " << expectedLiveness << "\n"
          << text(*damaged);
      EXPECT_EQ(race(*damaged).empty(), expectedRace.empty())
          << where << ": " << expectedRace << "\n"
          << text(*damaged);
      ++(expectedLiveness.empty() && expectedRace.empty() ? harmless : harmful);
    }
  }
  RecordProperty("harmful", harmful);
  RecordProperty("harmless", harmless);
  EXPECT_GT(harmful, 300);
  EXPECT_GT(harmless, 200);
}

} // namespace
