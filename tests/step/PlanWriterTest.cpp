// Step IR to plan: every kind of command with its operands, schedules as expressions, the training
// section, and what is refused.
#include "codegen/PlanWriter.h"
#include "codegen/UniteKernels.h"
#include "ir/step/Step.h"
#include "passes/Passes.h"
#include "runtime/plan/Expr.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/PlanFile.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using nano::plan::Command;
using nano::plan::DType;
using nano::plan::Plan;

namespace {

const char *const header = R"mlir(
module {
  nano.model "small" {world = 2 : i64, group = 2 : i64, hyperparameters = [{name = "width", value = "8", overridden = true}],
    training = {seq_len = 4 : i64, val_seq_len = 4 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64, num_iterations = 100 : i64,
                     vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr",
                     grad_clip = 0.0}}
  nano.scalar @window : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    %c = arith.constant 1728.0 : f64
    %one = arith.constant 1.0 : f64
    %x = arith.divf %step, %iterations : f64
    %w = arith.mulf %c, %x : f64
    %m = arith.maximumf %w, %one : f64
    %tile = arith.constant 128.0 : f64
    %d = arith.divf %m, %tile : f64
    %r = math.ceil %d : f64
    nano.yield %r : f64
  }
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    %base = arith.constant 0.05 : f64
    %cooldown = arith.constant 0.6 : f64
    %one = arith.constant 1.0 : f64
    %x = arith.divf %step, %iterations : f64
    %flat = arith.cmpf ole, %x, %cooldown : f64
    %left = arith.subf %one, %x : f64
    %m = arith.select %flat, %one, %left : f64
    %lr = arith.mulf %base, %m : f64
    nano.yield %lr : f64
  }
  nano.optimizer @matrices of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "momenta", states = ["b"]}
  nano.state @w : tensor<2x4x8xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.5, 2.0]>, optimizer = @matrices}
  nano.state @grad.w : tensor<2x4x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @bank : tensor<2x32xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 2 : i64, ranks = "group", chunk = 32 : i64, pieces = [{name = "w.b", shape = array<i64: 2, 4, 8>, offset = 0 : i64},
                                                                         {name = "v.b", shape = array<i64: 32>, offset = 96 : i64}]}}
)mlir";

const char *const programs = R"mlir(
  step.input @train.tokens : memref<4xi32>
  step.input @train.targets : memref<4xi32>
  step.input @train.loss : memref<f32> {output}
  step.input @validate.tokens : memref<4xi32>
  step.input @validate.targets : memref<4xi32>
  step.input @validate.loss : memref<f32> {output}
  step.input @generate.tokens : memref<4xi32>
  step.input @generate.logits : memref<4x6xf32> {output}
  module @kernels {
    kernel.func @scale(read memref<?xf32>, read_write memref<?xf32>, memref<64xi8>, index, index)
      attributes {grain = 16 : i64, summary = "mul", flops_per_key = 2.5 : f64, flops = 3.5 : f64, flops_type = bf16,
                  launch = #kernel.launch<threads = 32>}
  }
  step.program @first attributes {role = "first"} {
    %loss = step.state @train.loss : memref<f32>
    %lr = step.state @lr : memref<f32>
    %x = step.buffer "x" : memref<4x2x3x8xf32>
    %w = step.state @w : memref<2x4x8xf32>
    %g = step.state @grad.w : memref<2x4x8xf32>
    %y = step.buffer "x" : memref<2x4x4xf32>
    %xt = step.view %x : memref<4x2x3x8xf32> to memref<2x4x8xf32, strided<[24, 48, 1], offset: 16>>
    step.fill %x : memref<4x2x3x8xf32>
    step.matmul %xt, %w into %y {transpose_b} : memref<2x4x8xf32, strided<[24, 48, 1], offset: 16>>, memref<2x4x8xf32>, memref<2x4x4xf32>
    step.matmul %y, %xt add %g into %g {transpose_a, alpha = 0.5 : f64, beta = 0.25 : f64}
      : memref<2x4x4xf32>, memref<2x4x8xf32, strided<[24, 48, 1], offset: 16>>, memref<2x4x8xf32>, memref<2x4x8xf32>
    step.launch @scale(%lr, %loss) {iterations = array<i64: 7>} : memref<f32>, memref<f32>
  }
  step.program @next attributes {role = "next"} {
    %loss = step.state @train.loss : memref<f32>
    step.fill %loss : memref<f32>
  }
  step.program @update attributes {role = "update"} {
    %lr = step.state @lr : memref<f32>
    %w = step.state @w : memref<2x4x8xf32>
    %g = step.state @grad.w : memref<2x4x8xf32>
    step.all_reduce %g {stream = 1 : i64} : memref<2x4x8xf32>
    step.record 0 {stream = 1 : i64}
    step.wait 0
    step.launch @scale(%lr, %w, %lr, %g) {segments = 2 : i64, iterations = array<i64: 64, 32>} : memref<f32>, memref<2x4x8xf32>, memref<f32>, memref<2x4x8xf32>
    step.copy %g to %w : memref<2x4x8xf32>, memref<2x4x8xf32>
  }
  step.program @validate attributes {role = "validate"} {
    %loss = step.state @validate.loss : memref<f32>
    step.fill %loss : memref<f32>
  }
  step.program @generate attributes {role = "generate"} {
    %logits = step.state @generate.logits : memref<4x6xf32>
    step.fill %logits : memref<4x6xf32>
  }
}
)mlir";

class PlanWriterTest : public ::testing::Test {
protected:
  PlanWriterTest() {
    context.loadDialect<nano::graph::NanoDialect, nano::step::StepDialect, func::FuncDialect,
                        arith::ArithDialect, math::MathDialect, memref::MemRefDialect>();
    context.disableMultithreading();
  }

  /// The module with a memory plan; errors go to `message`.
  OwningOpRef<ModuleOp> planned(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context, "models/small.cpp");
    if (!module)
      return {};
    PassManager manager(&context);
    manager.addPass(nano::createPlanMemory());
    if (failed(manager.run(*module)))
      return {};
    return module;
  }

  /// The error of writing the module's plan, or nothing.
  std::string errorOf(const std::string &text, bool withMemory = true) {
    std::string message;
    ScopedDiagnosticHandler handler(&context,
                                    [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
    OwningOpRef<ModuleOp> module =
        withMemory ? planned(text) : parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << message;
    if (!module)
      return message;
    EXPECT_TRUE(failed(nano::codegen::writePlan(*module, {}))) << "a plan was written";
    return message;
  }

  static std::string replaced(std::string text, const std::string &what, const std::string &with) {
    size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), with);
  }

  MLIRContext context;
};

TEST_F(PlanWriterTest, wholePlan) {
  OwningOpRef<ModuleOp> module = planned(std::string(header) + programs);
  ASSERT_TRUE(module);
  nano::codegen::PlanParts parts;
  parts.world = 2;
  parts.code = "native";
  parts.cpuFeatures = {"avx2"};
  parts.source = "// the model";
  FailureOr<Plan> result = nano::codegen::writePlan(*module, std::move(parts));
  ASSERT_TRUE(succeeded(result));
  const Plan &plan = *result;

  EXPECT_EQ(plan.model, "small");
  EXPECT_EQ(plan.target, "cpu");
  EXPECT_EQ(plan.worlds, std::vector<int64_t>{2});
  EXPECT_EQ(plan.group, 2);
  EXPECT_EQ(plan.code, "native");
  EXPECT_EQ(plan.source, "// the model");
  ASSERT_EQ(plan.hyperparameters.size(), 1u);
  EXPECT_EQ(plan.hyperparameters[0].name + plan.hyperparameters[0].value, "width8");
  EXPECT_TRUE(plan.hyperparameters[0].overridden);

  // Buffers: scalars, states, inputs, then those of programs; names are unique.
  std::map<std::string, nano::plan::Buffer> buffers;
  for (const nano::plan::Buffer &buffer : plan.buffers) {
    EXPECT_TRUE(buffers.emplace(buffer.name, buffer).second) << buffer.name;
    EXPECT_EQ(buffer.offset % 256, 0u);
    EXPECT_LE(buffer.offset + buffer.bytes, plan.arenaBytes);
  }
  EXPECT_EQ(buffers.at("first/x").bytes, 4u * 2 * 3 * 8 * 4);
  EXPECT_EQ(buffers.at("first/x#2").shape, (std::vector<int64_t>{2, 4, 4}));
  EXPECT_EQ(buffers.at("train.tokens").type, DType::I32);
  EXPECT_EQ(buffers.at("first/x").location.file, "models/small.cpp");
  EXPECT_GT(buffers.at("first/x").location.line, 40u);

  ASSERT_EQ(plan.states.size(), 3u);
  const nano::plan::State &w = plan.states[0], &g = plan.states[1];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.role, nano::plan::State::Role::Parameter);
  EXPECT_EQ(w.optimizer, "momenta");
  EXPECT_DOUBLE_EQ(w.learningRate, 0.05);
  EXPECT_EQ(w.init.kind, nano::plan::Init::Kind::Normal);
  EXPECT_EQ(w.init.mean, 0.5);
  EXPECT_EQ(w.init.stddev, 2.0);
  EXPECT_EQ(plan.buffers[w.buffer].name, "w");
  EXPECT_EQ(g.role, nano::plan::State::Role::Gradient);
  EXPECT_EQ(g.optimizer, "");
  EXPECT_EQ(g.init.values, std::vector<double>{0.0});
  EXPECT_FALSE(g.sharding);
  const nano::plan::Sharding bank{
      nano::plan::Ranks::Group, 2, 32, {{"w.b", {2, 4, 8}, 0}, {"v.b", {32}, 96}}};
  EXPECT_TRUE(plan.states[2].sharding == bank);

  ASSERT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(plan.kernels[0].name, "scale");
  EXPECT_EQ(plan.kernels[0].summary, "mul");
  EXPECT_EQ(plan.kernels[0].scratchBytes, 64u);
  EXPECT_EQ(plan.kernels[0].flopsPerKey, 2.5);
  EXPECT_EQ(plan.kernels[0].flops, 3.5);
  EXPECT_EQ(plan.kernels[0].flopsType, nano::plan::DType::BF16);
  // Of 32 iterations as of 64: no further than the operands of either.
  const std::vector<nano::plan::Kernel::Reach> reaches{{7, {4, 4}}, {64, {4, 256}}};
  EXPECT_EQ(plan.kernels[0].reaches, reaches);

  const nano::plan::StepPrograms step{"first", "next", "next", "update"};
  EXPECT_EQ(plan.training.phases, std::vector<nano::plan::StepPrograms>{step});
  EXPECT_EQ(plan.training.globalBatch, 32);
  EXPECT_EQ(plan.training.genSeqLen, 4);
  EXPECT_EQ(plan.training.logitsColumns, 6);
  EXPECT_EQ(plan.training.logScalar, "lr");
  EXPECT_TRUE(plan.training.trainLossIsSum);
  EXPECT_FALSE(plan.training.valLossIsSum);
  EXPECT_EQ(plan.buffers[plan.training.tokensBuffer].name, "train.tokens");
  EXPECT_EQ(plan.buffers[plan.training.lossBuffer].name, "train.loss");
  EXPECT_EQ(plan.buffers[plan.training.valTargetsBuffer].name, "validate.targets");
  EXPECT_EQ(plan.buffers[plan.training.logitsBuffer].name, "generate.logits");
}

/// Of an operand that a kernel only picks elements from, the bytes of those that a launch can pick.
TEST_F(PlanWriterTest, countsPickedElements) {
  std::string text = std::string(header) + programs;
  auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("@scale(read memref<?xf32>,", "@scale(read memref<?xf32> picks 2,");
  const std::string launch = "step.launch @scale(%lr, %loss) {iterations = array<i64: 7>} : "
                             "memref<f32>, memref<f32>",
                    operands = ": memref<2x4x8xf32>, memref<f32>\n";
  replace(launch, "step.launch @scale(%w, %loss) {iterations = array<i64: 7>} " + operands +
                      "step.launch @scale(%w, %loss) {iterations = array<i64: 40>} " + operands);
  OwningOpRef<ModuleOp> module = planned(text);
  ASSERT_TRUE(module);
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, {});
  ASSERT_TRUE(succeeded(plan));
  std::vector<uint64_t> bytes;
  for (const Command &command : plan->programs[0].commands)
    if (const auto *launched = command.as<nano::plan::Launch>())
      bytes.push_back(launched->segments[0].args[0].bytes);
  EXPECT_EQ(bytes, (std::vector<uint64_t>{2 * 7 * 4, 64 * 4}));
}

/// What the launch of a product's kernel needs to know beside its operands.
TEST_F(PlanWriterTest, describesMatrices) {
  std::string text = std::string(header) + programs;
  const std::string launch = "threads = 32>";
  text.replace(text.find(launch), launch.size(),
               "threads = 32, cluster = 2>, tensor_maps = ["
               "#kernel.tensor_map<buffer = 1, columns = 8, rows = 4, row_bytes = 32, "
               "box_columns = 8, box_rows = 2, swizzle_bytes = 32>, "
               "#kernel.tensor_map<buffer = 0, columns = 1, rows = 1, row_bytes = 16, "
               "box_columns = 1, box_rows = 1, swizzle_bytes = 64>]");
  OwningOpRef<ModuleOp> module = planned(text);
  ASSERT_TRUE(module);
  nano::codegen::PlanParts parts;
  parts.target = "cuda";
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, std::move(parts));
  ASSERT_TRUE(succeeded(plan));
  const nano::plan::Kernel &kernel = plan->kernels[0];
  EXPECT_EQ(kernel.clusterBlocks, 2u);
  const nano::plan::TensorMap first{1, nano::plan::DType::F32, 8, 4, 32, 8, 2, 32},
      second{0, nano::plan::DType::F32, 1, 1, 16, 1, 1, 64};
  EXPECT_EQ(kernel.tensorMaps, (std::vector<nano::plan::TensorMap>{first, second}));
}

/// Plans of one file list the kernels of all of them.
TEST_F(PlanWriterTest, sharesKernels) {
  std::string text = std::string(header) + programs, renamed = text;
  for (size_t at = 0; (at = renamed.find("@scale", at)) != std::string::npos; ++at)
    renamed.replace(at, 6, "@thin_");
  OwningOpRef<ModuleOp> modules[] = {planned(text), planned(renamed)};
  ASSERT_TRUE(modules[0] && modules[1]);
  auto all = nano::codegen::uniteKernels({*modules[0], *modules[1]});
  ASSERT_TRUE(succeeded(all));
  std::vector<Plan> plans;
  for (int i : {0, 1}) {
    nano::codegen::PlanParts parts;
    parts.target = "cuda";
    parts.world = 2 << i;
    parts.kernels = all->kernels;
    parts.segments = all->segments;
    parts.reaches = all->reaches;
    parts.indices = all->indices;
    FailureOr<Plan> plan = nano::codegen::writePlan(*modules[i], std::move(parts));
    ASSERT_TRUE(succeeded(plan));
    plans.push_back(std::move(*plan));
  }
  EXPECT_TRUE(plans[0].kernels == plans[1].kernels);
  ASSERT_EQ(plans[0].kernels.size(), 2u);
  for (int i : {0, 1}) {
    const auto *launch = plans[i].programs[0].commands.back().as<nano::plan::Launch>();
    ASSERT_TRUE(launch);
    EXPECT_EQ(plans[i].kernels[launch->kernel].name, i ? "thin_" : "scale");
    EXPECT_EQ(plans[i].kernels[i].maxSegments, 2u);
  }
}

/// What runs depends on the number of micro-batches, 8 / world, and on whether one program
/// communicates.
TEST_F(PlanWriterTest, phases) {
  auto phase = [&](const std::string &text, int64_t world) {
    OwningOpRef<ModuleOp> module = planned(text);
    EXPECT_TRUE(module);
    nano::codegen::PlanParts parts;
    parts.world = world;
    FailureOr<Plan> plan = nano::codegen::writePlan(*module, std::move(parts));
    EXPECT_TRUE(succeeded(plan) && plan->training.phases.size() == 1);
    return plan->training.phases.at(0);
  };
  using nano::plan::StepPrograms;
  std::string text = std::string(header) + programs;
  EXPECT_EQ(phase(text, 2), (StepPrograms{"first", "next", "next", "update"}));
  EXPECT_EQ(phase(text, 4), (StepPrograms{"first", "", "next", "update"}));
  EXPECT_EQ(phase(text, 8), (StepPrograms{"", "", "first", "update"}));
  text =
      replaced(text, "step.program @update", R"mlir(step.program @last attributes {role = "last"} {
    %loss = step.state @train.loss : memref<f32>
    step.fill %loss : memref<f32>
  }
  step.program @update)mlir");
  EXPECT_EQ(phase(text, 2), (StepPrograms{"first", "next", "last", "update"}));
  EXPECT_EQ(phase(text, 4), (StepPrograms{"first", "", "last", "update"}));
  EXPECT_EQ(phase(text, 8), (StepPrograms{"", "", "last", "update"}));
}

/// An optimizer on every second step: programs that run in one phase of two only, and an update
/// that is the end of `last`.
TEST_F(PlanWriterTest, phasesOfSeveralSteps) {
  std::string text = replaced(std::string(header) + programs, "{inits = array<f64: 0.0>",
                              "{every = 2 : i64, inits = array<f64: 0.0>");
  text = replaced(text, "step.program @first attributes {", R"mlir(
  step.program @first_1 attributes {role = "first", phases = array<i64: 1>} {
    %loss = step.state @train.loss : memref<f32>
    step.fill %loss : memref<f32>
  }
  step.program @last_1 attributes {role = "last", phases = array<i64: 1>} {
    %loss = step.state @train.loss : memref<f32>
    step.fill %loss : memref<f32>
  }
  step.program @first attributes {phases = array<i64: 0>, )mlir");
  text = replaced(text, "step.program @update attributes {",
                  "step.program @update attributes {phases = array<i64: 0>, ");
  OwningOpRef<ModuleOp> module = planned(text);
  ASSERT_TRUE(module);
  nano::codegen::PlanParts parts;
  parts.world = 2;
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, std::move(parts));
  ASSERT_TRUE(succeeded(plan));
  using nano::plan::StepPrograms;
  EXPECT_EQ(plan->training.phases, (std::vector<StepPrograms>{{"first", "next", "next", "update"},
                                                              {"first_1", "next", "last_1", ""}}));
}

TEST_F(PlanWriterTest, exchanges) {
  std::string text = replaced(std::string(header) + programs,
                              "step.fill %loss : memref<f32>\n  }\n  step.program @update",
                              R"mlir(step.fill %loss : memref<f32>
    %g = step.state @grad.w : memref<2x4x8xf32>
    %a = step.buffer "a" : memref<32xf32>
    %b = step.buffer "b" : memref<8xf32>
    %c = step.buffer "c" : memref<2xf32>
    %half = step.view %g : memref<2x4x8xf32> to memref<1x4x8xf32, strided<[32, 8, 1], offset: 32>>
    step.reduce_scatter ins(%g) outs(%a) parts 2 over group : (memref<2x4x8xf32>) -> memref<32xf32>
    step.all_reduce %a by max over peers : memref<32xf32>
    step.shard ins(%a, %b) outs(%b, %c) parts 4 : (memref<32xf32>, memref<8xf32>) -> (memref<8xf32>, memref<2xf32>)
    step.all_gather ins(%b) outs(%half) parts 4 : (memref<8xf32>) -> memref<1x4x8xf32, strided<[32, 8, 1], offset: 32>>
  }
  step.program @update)mlir");
  OwningOpRef<ModuleOp> module = planned(text);
  ASSERT_TRUE(module);
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, {});
  ASSERT_TRUE(succeeded(plan));
  using nano::plan::Ranks;
  const std::vector<Command> &commands = plan->programs[1].commands;
  ASSERT_EQ(commands.size(), 5u);
  struct Expected {
    const char *kind;
    Ranks ranks;
    std::string label;
    std::vector<int64_t> counts;
  };
  const Expected expected[] = {{"reduce_scatter", Ranks::Group, "reduce_scatter a", {32}},
                               {"all_reduce", Ranks::Peers, "all_reduce a", {32}},
                               {"shard", Ranks::All, "shard c and 1 more", {8, 2}},
                               {"all_gather", Ranks::All, "all_gather @grad.w", {8}}};
  for (auto [i, want] : llvm::enumerate(expected)) {
    const Command &command = commands[i + 1];
    EXPECT_STREQ(nano::plan::nameOf(command.action), want.kind);
    EXPECT_EQ(command.label, want.label);
    std::optional<nano::plan::Exchange> exchange = nano::plan::exchangeOf(command);
    ASSERT_TRUE(exchange) << want.label;
    EXPECT_EQ(exchange->ranks, want.ranks) << want.label;
    std::vector<int64_t> counts;
    for (const nano::plan::Move &move : exchange->moves) {
      counts.push_back(move.count);
      EXPECT_TRUE(move.from.read && move.to.written) << want.label;
      EXPECT_EQ(move.from.written, i == 1) << want.label; // in place
      EXPECT_EQ(move.to.read, i == 1) << want.label;
    }
    EXPECT_EQ(counts, want.counts) << want.label;
  }
  EXPECT_TRUE(commands[2].as<nano::plan::AllReduce>()->maximum);
  EXPECT_EQ(commands[4].as<nano::plan::AllGather>()->moves[0].to.offset, 128u);
}

TEST_F(PlanWriterTest, commands) {
  OwningOpRef<ModuleOp> module = planned(std::string(header) + programs);
  ASSERT_TRUE(module);
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, {});
  ASSERT_TRUE(succeeded(plan));
  auto name = [&](const nano::plan::Ref &ref) { return plan->buffers[ref.buffer].name; };

  const std::vector<Command> &first = plan->programs[0].commands;
  ASSERT_EQ(first.size(), 4u);
  ASSERT_TRUE(first[0].is<nano::plan::Fill>());
  EXPECT_EQ(first[0].as<nano::plan::Fill>()->count, 4 * 2 * 3 * 8);

  // y[b] = x[:, b, 2, :]·w[b]ᵀ: rows 48 apart, matrices 24 apart, 16 elements into x.
  ASSERT_TRUE(first[1].is<nano::plan::Matmul>());
  const auto &product = *first[1].as<nano::plan::Matmul>();
  EXPECT_EQ(name(product.a), "first/x");
  EXPECT_EQ(product.a.offset, 64u);
  EXPECT_EQ(std::make_tuple(product.m, product.n, product.k, product.batch),
            std::make_tuple(4, 4, 8, 2));
  EXPECT_EQ(std::make_tuple(product.lda, product.strideA, product.ldb, product.strideB),
            std::make_tuple(48, 24, 8, 32));
  EXPECT_EQ(std::make_tuple(product.ldc, product.strideC), std::make_tuple(4, 16));
  EXPECT_FALSE(product.transposeA);
  EXPECT_TRUE(product.transposeB);
  EXPECT_EQ(product.alpha, 1.0);
  EXPECT_EQ(product.beta, 0.0);
  EXPECT_TRUE(product.c.written);
  EXPECT_FALSE(product.c.read);

  ASSERT_TRUE(first[2].is<nano::plan::Matmul>());
  const auto &sum = *first[2].as<nano::plan::Matmul>();
  EXPECT_TRUE(sum.transposeA);
  EXPECT_EQ(std::make_tuple(sum.m, sum.n, sum.k), std::make_tuple(4, 8, 4));
  EXPECT_EQ(sum.alpha, 0.5);
  EXPECT_EQ(sum.beta, 0.25);
  EXPECT_EQ(name(sum.d), "grad.w");
  EXPECT_EQ(sum.d.offset, sum.c.offset);
  EXPECT_EQ(std::make_tuple(sum.ldd, sum.strideD), std::make_tuple(8, 32));

  // The learning rate is the second scalar: 16 bytes into their buffer.
  EXPECT_EQ(first[3].label, "scale");
  ASSERT_TRUE(first[3].is<nano::plan::Launch>());
  const auto &launch = *first[3].as<nano::plan::Launch>();
  ASSERT_EQ(launch.segments.size(), 1u);
  EXPECT_EQ(launch.segments[0].iterations, 7);
  EXPECT_EQ(launch.segments[0].grain, 16);
  EXPECT_EQ(launch.segments[0].args[0].buffer, plan->scalarBuffer);
  EXPECT_EQ(launch.segments[0].args[0].offset, plan->scalars[1].offset);
  EXPECT_EQ(plan->scalars[1].offset, 16u);
  EXPECT_TRUE(launch.segments[0].args[1].read && launch.segments[0].args[1].written);
  EXPECT_FALSE(launch.segments[0].args[0].written);

  const nano::plan::Program &update = plan->programs[2];
  EXPECT_EQ(update.streams, 2u);
  EXPECT_EQ(update.events, 1u);
  ASSERT_EQ(update.commands.size(), 5u);
  EXPECT_EQ(update.commands[0].stream, 1u);
  ASSERT_TRUE(update.commands[0].is<nano::plan::AllReduce>());
  EXPECT_EQ(update.commands[0].as<nano::plan::AllReduce>()->parts[0].count, 64);
  EXPECT_TRUE(update.commands[1].is<nano::plan::RecordEvent>());
  EXPECT_TRUE(update.commands[2].is<nano::plan::WaitEvent>());
  ASSERT_TRUE(update.commands[3].is<nano::plan::Launch>());
  const auto &segments = update.commands[3].as<nano::plan::Launch>()->segments;
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[1].iterations, 32);
  EXPECT_EQ(name(segments[1].args[1]), "grad.w");
  ASSERT_TRUE(update.commands[4].is<nano::plan::Copy>());
  EXPECT_EQ(name(update.commands[4].as<nano::plan::Copy>()->to), "w");
}

/// Scales of one number each, and of blocks that lie as their operands do.
TEST_F(PlanWriterTest, scaledProducts) {
  std::string text = std::string(header) + R"mlir(
  step.program @products {
    %x = step.buffer "x" : memref<256x8xf8E5M2>
    %w = step.buffer "w" : memref<384x256xf8E4M3FN>
    %y = step.buffer "y" : memref<8x384xbf16>
    %s = step.buffer "s" : memref<2x4xf32>
    %one = step.view %s : memref<2x4xf32> to memref<f32, strided<[], offset: 3>>
    %sx = step.buffer "sx" : memref<2x8xf32>
    %rows = step.buffer "sw" : memref<3x4xf32>
    %sw = step.view %rows : memref<3x4xf32> to memref<3x2xf32, strided<[4, 1]>>
    step.fill %x : memref<256x8xf8E5M2>
    step.fill %w : memref<384x256xf8E4M3FN>
    step.fill %s : memref<2x4xf32>
    step.fill %sx : memref<2x8xf32>
    step.fill %rows : memref<3x4xf32>
    step.matmul %x, %w scales(%one, %one) into %y {transpose_a, transpose_b}
      : memref<256x8xf8E5M2>, memref<384x256xf8E4M3FN>, memref<f32, strided<[], offset: 3>>, memref<f32, strided<[], offset: 3>>, memref<8x384xbf16>
    step.matmul %x, %w scales(%sx, %sw) into %y {transpose_a, transpose_b}
      : memref<256x8xf8E5M2>, memref<384x256xf8E4M3FN>, memref<2x8xf32>, memref<3x2xf32, strided<[4, 1]>>, memref<8x384xbf16>
  }
}
)mlir";
  OwningOpRef<ModuleOp> module = planned(text);
  ASSERT_TRUE(module);
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, {});
  ASSERT_TRUE(succeeded(plan));
  const nano::plan::Program &products = plan->programs[0];
  ASSERT_EQ(products.commands.size(), 7u);
  const auto *product = products.commands[5].as<nano::plan::Matmul>();
  ASSERT_TRUE(product && product->scales);
  EXPECT_EQ(product->aType, DType::F8E5M2);
  EXPECT_EQ(product->bType, DType::F8E4M3FN);
  const nano::plan::MatmulScales &one = *product->scales;
  EXPECT_EQ(one.block, 0);
  EXPECT_EQ(plan->buffers[one.a.buffer].name, "products/s");
  EXPECT_EQ(one.b.offset, 12u);
  product = products.commands[6].as<nano::plan::Matmul>();
  ASSERT_TRUE(product && product->scales);
  const nano::plan::MatmulScales &blocks = *product->scales;
  EXPECT_EQ(blocks.block, 128);
  EXPECT_EQ(blocks.rowsA, 1);
  EXPECT_EQ(blocks.rowsB, 128);
  // From row to row and along k: the scale of a has k across its rows, as a has.
  EXPECT_EQ(blocks.stridesA, (std::array<int64_t, 2>{1, 8}));
  EXPECT_EQ(blocks.stridesB, (std::array<int64_t, 2>{4, 1}));
  EXPECT_EQ(plan->buffers[blocks.a.buffer].name, "products/sx");
  EXPECT_EQ(plan->buffers[blocks.b.buffer].name, "products/sw");
}

TEST_F(PlanWriterTest, survivesTheFileFormat) {
  OwningOpRef<ModuleOp> module = planned(std::string(header) + programs);
  ASSERT_TRUE(module);
  nano::codegen::PlanParts parts;
  parts.world = 4;
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, std::move(parts));
  ASSERT_TRUE(succeeded(plan));
  // The rules about native symbols are not what this is about: the kernel becomes one of a GPU.
  plan->target = "cuda";
  plan->sources = {{"scale.cu", ""}};
  nano::plan::Kernel &kernel = plan->kernels[0];
  kernel.source = "scale.cu";
  kernel.scratchBytes = 0;
  kernel.threads = 32;
  kernel.iterationsPerBlock = 1;
  kernel.maxSegments = 2;
  auto status = nano::plan::validate(*plan);
  EXPECT_TRUE(bool(status)) << status.error().message;
  std::string bytes = nano::plan::serialize(*plan);
  auto parsed = nano::plan::parse(bytes);
  ASSERT_TRUE(bool(parsed)) << parsed.error().message;
  EXPECT_EQ(nano::plan::serialize(*parsed), bytes);
}

TEST_F(PlanWriterTest, schedules) {
  OwningOpRef<ModuleOp> module = planned(std::string(header) + programs);
  ASSERT_TRUE(module);
  FailureOr<Plan> plan = nano::codegen::writePlan(*module, {});
  ASSERT_TRUE(succeeded(plan));
  for (int step = 0; step <= 100; ++step) {
    nano::plan::Variables at;
    at.step = step;
    at.numIterations = 100;
    double x = step / 100.0;
    EXPECT_EQ(nano::plan::evaluate(plan->scalars[0].value, at),
              std::ceil(std::max(1728 * x, 1.0) / 128));
    EXPECT_EQ(nano::plan::evaluate(plan->scalars[1].value, at), 0.05 * (x <= 0.6 ? 1 : 1 - x));
  }
}

TEST_F(PlanWriterTest, everyOperationOfSchedules) {
  // op, value at a = 2.5, b = 0.5.
  const std::pair<const char *, double> cases[] = {
      {"arith.addf %a, %b : f64", 3.0},     {"arith.subf %a, %b : f64", 2.0},
      {"arith.mulf %a, %b : f64", 1.25},    {"arith.divf %a, %b : f64", 5.0},
      {"arith.negf %a : f64", -2.5},        {"arith.minimumf %a, %b : f64", 0.5},
      {"arith.minnumf %a, %b : f64", 0.5},  {"arith.maximumf %a, %b : f64", 2.5},
      {"arith.maxnumf %a, %b : f64", 2.5},  {"math.floor %a : f64", 2.0},
      {"math.ceil %a : f64", 3.0},          {"math.sqrt %a : f64", std::sqrt(2.5)},
      {"math.exp %a : f64", std::exp(2.5)}, {"math.log %a : f64", std::log(2.5)},
      {"math.cos %a : f64", std::cos(2.5)}, {"math.powf %a, %b : f64", std::sqrt(2.5)},
  };
  auto evaluate = [&](const std::string &ops) {
    std::string body = "%a = arith.mulf %step, %half : f64\n%b = arith.constant 0.5 : f64\n" + ops +
                       "nano.yield %r : f64\n";
    std::string text = replaced(header, "%r = math.ceil %d : f64\n    nano.yield %r : f64",
                                "%half = arith.constant 0.5 : f64\n" + body);
    OwningOpRef<ModuleOp> module = planned(text + programs);
    EXPECT_TRUE(module) << ops;
    FailureOr<Plan> plan = module ? nano::codegen::writePlan(*module, {}) : FailureOr<Plan>();
    if (failed(plan))
      return std::nan("");
    nano::plan::Variables at;
    at.step = 5;
    return nano::plan::evaluate(plan->scalars[0].value, at);
  };
  for (auto [op, value] : cases)
    EXPECT_DOUBLE_EQ(evaluate(std::string("%r = ") + op + "\n"), value) << op;
  // Comparisons of 2.5 with 0.5, and of equal numbers.
  const std::tuple<const char *, int, int> comparisons[] = {
      {"olt", 0, 0}, {"ogt", 1, 0}, {"ole", 0, 1}, {"oge", 1, 1},
      {"oeq", 0, 1}, {"one", 1, 0}, {"ult", 0, 0}, {"ueq", 0, 1}};
  for (auto [predicate, different, same] : comparisons) {
    std::string compare = std::string("%t = arith.cmpf ") + predicate + ", %a, ";
    std::string use = " : f64\n%r = arith.uitofp %t : i1 to f64\n";
    EXPECT_EQ(evaluate(compare + "%b" + use), different) << predicate;
    EXPECT_EQ(evaluate(compare + "%a" + use), same) << predicate;
  }
  EXPECT_EQ(evaluate("%t = arith.cmpf olt, %a, %b : f64\n%u = arith.cmpf ogt, %a, %b : f64\n%o = "
                     "arith.ori %t, %u : i1\n"
                     "%n = arith.andi %t, %u : i1\n%picked = arith.select %o, %a, %b : f64\n%r = "
                     "arith.select %n, %b, %picked : f64\n"),
            2.5);
}

TEST_F(PlanWriterTest, errors) {
  std::string whole = std::string(header) + programs;
  EXPECT_EQ(errorOf(whole, /*withMemory=*/false), "has no step.arena");
  EXPECT_EQ(errorOf("module {}"), "has no nano.model");
  EXPECT_EQ(errorOf(replaced(whole, "global_batch = 32 : i64, ", "")),
            "training has no integer 'global_batch'");
  EXPECT_EQ(errorOf(replaced(whole, "%r = math.ceil %d", "%r = math.sin %d")),
            "'math.sin' op in a schedule: the runtime cannot evaluate it");
  EXPECT_EQ(errorOf(replaced(whole, "step.input @generate.tokens : memref<4xi32>", "")),
            "has no input @generate.tokens");
  EXPECT_EQ(errorOf(replaced(whole, "step.fill %x : memref<4x2x3x8xf32>",
                             "step.task ins() outs(%x) : () -> memref<4x2x3x8xf32> {\n %c = "
                             "nano.constant 0.0 : tensor<4x2x3x8xf32>\n"
                             "nano.yield %c : tensor<4x2x3x8xf32>\n}")),
            "'step.task' op has no form in a plan: nano-lower-kernels runs first");
  // A tree of 2^20 operations out of 20.
  std::string doubling = "%d0 = arith.addf %step, %step : f64\n";
  for (int i = 0; i < 20; ++i)
    doubling += "%d" + std::to_string(i + 1) + " = arith.addf %d" + std::to_string(i) + ", %d" +
                std::to_string(i) + " : f64\n";
  EXPECT_EQ(
      errorOf(replaced(whole, "%r = math.ceil %d : f64", doubling + "%r = math.ceil %d20 : f64")),
      "'arith.addf' op is part of a schedule of more than 10000 operations");
}

} // namespace
