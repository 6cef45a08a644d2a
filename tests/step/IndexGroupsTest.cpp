// Which operands and buffers hold the same integers, and what comes into them from outside.
#include "codegen/IndexGroups.h"
#include "ir/step/Step.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using nano::codegen::IndexGroups;
using nano::plan::IndexGroup;

namespace {

const char *const text = R"mlir(
module {
  nano.model "m" {training = {seq_len = 4 : i64, vocab_size = 5 : i64}}
  nano.scalar @window : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.state @table : tensor<4xi32> {role = #nano.role<constant>, init = #nano.init<"data", [] data dense<[3, 9, 1, 2]> : tensor<4xi32>>}
  nano.state @counts : tensor<4xi32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
  step.input @train.tokens : memref<4xi32>
  step.input @train.targets : memref<4xi32>
  step.input @train.weight : memref<4xi32>
  module @kernels {
    kernel.func @take(read memref<4xi32>, write memref<4xf32>, memref<64xi8>, index, index) attributes {grain = 1 : i64, summary = "gather"}
    kernel.func @pick(read memref<4xi32>, write memref<4xf32>, memref<64xi8>, index, index) attributes {grain = 1 : i64, summary = "gather"}
    kernel.func @count(read memref<4xi32>, read memref<4xi32>, memref<64xi8>, index, index) attributes {grain = 1 : i64, summary = "gather"}
    kernel.func @route(read memref<4xf32>, write memref<4xi32>, memref<64xi8>, index, index) attributes {grain = 1 : i64, summary = "top_k"}
    kernel.func @band(read memref<i32>, write memref<4xf32>, memref<64xi8>, index, index) attributes {grain = 1 : i64, summary = "add"}
  }
  step.program @first attributes {role = "first"} {
    %tokens = step.state @train.tokens : memref<4xi32>
    %targets = step.state @train.targets : memref<4xi32>
    %weight = step.state @train.weight : memref<4xi32>
    %table = step.state @table : memref<4xi32>
    %counts = step.state @counts : memref<4xi32>
    %window = step.state @window : memref<i32>
    %x = step.buffer "x" : memref<4xf32>
    %routes = step.buffer "routes" : memref<4xi32>
    %kept = step.buffer "kept" : memref<4xi32>
    step.launch @take(%tokens, %x) {iterations = array<i64: 4>} : memref<4xi32>, memref<4xf32>
    step.launch @take(%table, %x) {iterations = array<i64: 4>} : memref<4xi32>, memref<4xf32>
    step.launch @route(%x, %routes) {iterations = array<i64: 4>} : memref<4xf32>, memref<4xi32>
    step.copy %routes to %kept : memref<4xi32>, memref<4xi32>
    step.launch @pick(%kept, %x) {iterations = array<i64: 4>} : memref<4xi32>, memref<4xf32>
    step.launch @count(%weight, %counts) {iterations = array<i64: 4>} : memref<4xi32>, memref<4xi32>
    step.launch @band(%window, %x) {iterations = array<i64: 4>} : memref<i32>, memref<4xf32>
  }
}
)mlir";

TEST(IndexGroups, AreWhatIsGivenToTheSameOperands) {
  MLIRContext context;
  context.loadDialect<nano::graph::NanoDialect, nano::step::StepDialect, func::FuncDialect,
                      arith::ArithDialect, memref::MemRefDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  const IndexGroups all = nano::codegen::indexGroups({*module});
  auto group = [&](const char *kernel, uint32_t operand) -> int64_t {
    for (const nano::plan::Kernel::Indices &each : all.kernels.lookup(kernel))
      if (each.operand == operand)
        return each.group;
    return -1;
  };
  auto of = [&](Operation *op) {
    auto found = all.buffers.find(nano::step::bufferKey(op->getResult(0)));
    return found == all.buffers.end() ? -1 : found->second;
  };
  llvm::StringMap<int64_t> buffers;
  module->walk([&](nano::step::BufferOp op) { buffers[op.getName()] = of(op); });
  module->walk([&](nano::step::StateOp op) { buffers[op.getSymbol()] = of(op); });
  const IndexGroup anyNumber{INT32_MIN, INT32_MAX};
  const int64_t tokens = group("take", 0);
  ASSERT_GE(tokens, 0);
  EXPECT_EQ(buffers["train.tokens"], tokens);
  EXPECT_EQ(buffers["table"], tokens);
  EXPECT_EQ(all.groups[tokens], (IndexGroup{0, 9}));
  // What the program has made itself, and a copy of it.
  const int64_t routes = group("route", 1);
  ASSERT_GE(routes, 0);
  EXPECT_NE(routes, tokens);
  EXPECT_EQ(group("pick", 0), routes);
  EXPECT_EQ(buffers["routes"], routes);
  EXPECT_EQ(buffers["kept"], routes);
  EXPECT_EQ(all.groups[routes], IndexGroup());
  // Columns, and states that change, may hold any number; scalars too, whose buffer is of no group.
  EXPECT_EQ(all.groups[group("count", 0)], anyNumber);
  EXPECT_EQ(all.groups[group("count", 1)], anyNumber);
  EXPECT_NE(group("count", 0), group("count", 1));
  EXPECT_EQ(all.groups[group("band", 0)], anyNumber);
  EXPECT_EQ(buffers["window"], -1);
  // No operand of floats, and no buffer that no launch reads or writes.
  EXPECT_EQ(group("take", 1), -1);
  EXPECT_EQ(buffers["x"], -1);
  EXPECT_EQ(buffers["train.targets"], -1);
}

} // namespace
