// The report says what the plan needs, what it could need at least, and who holds it, by name and
// model line.
#include "passes/memory/MemoryReport.h"
#include "passes/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace {

TEST(MemoryReport, holdersByLine) {
  MLIRContext context;
  context.loadDialect<nano::graph::NanoDialect, nano::step::StepDialect, func::FuncDialect,
                      memref::MemRefDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"mlir(
    nano.state @g : tensor<1024xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
    step.input @train.tokens : memref<64xi32>
    step.program @first {
      %a = step.buffer "h" : memref<2048xf32> loc("models/m.cpp":41:3)
      %b = step.buffer "h" : memref<2048xf32> loc("models/m.cpp":41:3)
      %c = step.buffer "logits" : memref<1024xf32> loc("models/m.cpp":77:1)
      %d = step.buffer "late" : memref<256xf32> loc("models/m.cpp":90:1)
      step.fill %a : memref<2048xf32>
      step.fill %b : memref<2048xf32>
      step.fill %c : memref<1024xf32> loc("models/m.cpp":78:1)
      step.copy %a to %b : memref<2048xf32>, memref<2048xf32>
      step.fill %d : memref<256xf32>
    }
  )mlir",
                                                             &context);
  ASSERT_TRUE(module);
  PassManager manager(&context);
  manager.addPass(nano::createPlanMemory());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  nano::memory::MemorySummary summary = nano::memory::summarizeMemory(*module);
  EXPECT_EQ(summary.gradients, 4096);
  EXPECT_EQ(summary.parameters, 0);
  EXPECT_EQ(summary.inputs, 256);
  ASSERT_EQ(summary.programs.size(), 1u);
  const nano::memory::ProgramMemory &first = summary.programs[0];
  EXPECT_EQ(first.floor, 2 * 8192 + 4096);
  EXPECT_EQ(first.bytes, first.floor);
  EXPECT_EQ(summary.arena, 4096 + 256 + first.bytes);
  EXPECT_EQ(summary.floor, summary.arena);
  EXPECT_EQ(first.moment, "step.fill (models/m.cpp:78)");
  ASSERT_EQ(first.holders.size(), 2u);
  EXPECT_EQ(first.holders[0].name, "h");
  EXPECT_EQ(first.holders[0].line, "models/m.cpp:41");
  EXPECT_EQ(first.holders[0].bytes, 2 * 8192);
  EXPECT_EQ(first.holders[0].count, 2);

  EXPECT_EQ(nano::memory::memoryLine(summary), "arena 24.83 kB a rank, at the floor");
  summary.host = 4096;
  EXPECT_EQ(nano::memory::memoryLine(summary),
            "arena 24.83 kB a rank, at the floor, and 4.10 kB in the host's memory");
  EXPECT_EQ(
      nano::memory::peakLine(summary, 1),
      "first holds 20.48 kB at step.fill (models/m.cpp:78): 16.38 kB h × 2 (models/m.cpp:41)");
  EXPECT_EQ(nano::memory::peakLine({}), "");
  std::string report = nano::memory::memoryReport(summary, 1);
  EXPECT_NE(report.find("16.38 kB   80.0%  h × 2  models/m.cpp:41"), std::string::npos) << report;
  EXPECT_NE(report.find("4.10 kB   20.0%  at 1 other lines"), std::string::npos) << report;
}

} // namespace
