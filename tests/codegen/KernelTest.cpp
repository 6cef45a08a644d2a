// Row kernels against the interpreter: random tasks of every kind, whole and in parts.
// Tolerances are of |actual − expected| / (1 + |expected|): 1e-4 for tasks in f32 (sums of up to
// 1030 terms, in another order and with fused multiply-adds); 0.08 when some value is rounded to
// bf16, as a rounding that goes the other way is 2⁻⁷ and later ops enlarge it. A wrong element is
// off by about 1.
#include "tests/codegen/RandomTasks.h"
#include "tests/codegen/TaskRunner.h"

#include "passes/cpu/RowKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

/// Runs the task whole and in parts, against the interpreter.
void check(const RandomTask &random, int64_t lanes, uint64_t seed) {
  SCOPED_TRACE(random.text);
  std::unique_ptr<TaskRunner> runner = TaskRunner::make(random.text, emitRow, lanes);
  ASSERT_TRUE(runner);
  step::TaskOp task = runner->taskOp();
  std::mt19937_64 engine(seed);
  std::vector<TensorValue> inputs;
  for (unsigned i = 0; i < task.getIns().size(); ++i) {
    RankedTensorType type = runner->inputType(i);
    int64_t bound = random.integerBound[i];
    inputs.push_back(type.getElementType().isInteger(32)
                         ? TensorValue::integers(type, engine, 0, bound)
                         : TensorValue::normal(type, engine));
  }
  auto run = [&](std::vector<int64_t> cuts) {
    for (unsigned i = 0; i < inputs.size(); ++i)
      runner->setInput(i, inputs[i]);
    runner->run(std::move(cuts));
    std::vector<TensorValue> outputs;
    for (unsigned i = 0; i < task.getOuts().size(); ++i)
      outputs.push_back(runner->output(i));
    return outputs;
  };
  std::vector<TensorValue> whole = run({});
  for (unsigned i = 0; i < inputs.size(); ++i) {
    runner->setInput(i, inputs[i]);
    inputs[i] = runner->input(i);
  }
  std::vector<TensorValue> expected = interpretTask(task, inputs);
  ASSERT_EQ(expected.size(), whole.size());
  double tolerance = random.hasBf16 ? 0.08 : 1e-4;
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_LE(largestError(whole[i], expected[i]), tolerance) << "output " << i;
  int64_t n = runner->iterations();
  for (const std::vector<int64_t> &cuts :
       {std::vector<int64_t>{n / 3, n / 2 + 1}, {n - 1}, {0, 1}}) {
    if (cuts.back() > n)
      continue;
    std::vector<TensorValue> parts = run(cuts);
    for (size_t i = 0; i < parts.size(); ++i)
      ASSERT_EQ(parts[i].data, whole[i].data)
          << "output " << i << " depends on how iterations are split";
  }
}

/// What tasks are drawn, and the lanes of their kernels.
struct Draw {
  TaskKind kind;
  int64_t lanes;
};

std::ostream &operator<<(std::ostream &os, const Draw &draw) {
  static const char *names[] = {"Elements", "Rows", "RowReductions", "ColumnReductions",
                                "MixedReductions"};
  return os << names[static_cast<int>(draw.kind)] << draw.lanes;
}

class RandomTasks : public testing::TestWithParam<Draw> {};

TEST_P(RandomTasks, MatchTheInterpreter) {
  auto [kind, lanes] = GetParam();
  for (uint64_t seed = 0; seed < 40 && !HasFatalFailure(); ++seed)
    check(randomTask(kind, seed), lanes, seed);
}

std::vector<Draw> draws() {
  std::vector<Draw> list;
  for (TaskKind kind : {TaskKind::Elements, TaskKind::Rows, TaskKind::RowReductions,
                        TaskKind::ColumnReductions, TaskKind::MixedReductions})
    for (int64_t lanes : TaskRunner::lanes())
      list.push_back({kind, lanes});
  return list;
}

INSTANTIATE_TEST_SUITE_P(All, RandomTasks, testing::ValuesIn(draws()),
                         testing::PrintToStringParamName());

/// A task's key and its kernel as text.
std::pair<std::string, std::string> keyAndKernel(const std::string &text) {
  MLIRContext context;
  context.loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                      vector::VectorDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  step::TaskOp task;
  module->walk([&](step::TaskOp found) { task = found; });
  FailureOr<kernels::RowForm> form = kernels::RowForm::of(task);
  EXPECT_TRUE(succeeded(form));
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  kernels::KernelFrame frame(task, {}, builder, "kernel", [](MemRefType type) {
    return MemRefType::get({ShapedType::kDynamic}, type.getElementType());
  });
  EXPECT_TRUE(succeeded(kernels::emitRowKernel(frame, *form)));
  frame.finish();
  std::string kernel;
  llvm::raw_string_ostream(kernel) << OpWithFlags(frame.function);
  return {kernels::rowKey(task, *form), kernel};
}

// Tasks with equal keys are served by one kernel, so what is emitted for either must be the same.
TEST(SharedKernels, EqualKeysMeanEqualKernels) {
  int64_t shared = 0, apart = 0;
  for (TaskKind kind : {TaskKind::Elements, TaskKind::Rows, TaskKind::RowReductions,
                        TaskKind::ColumnReductions, TaskKind::MixedReductions})
    for (uint64_t seed = 0; seed < 60; ++seed) {
      std::string first = randomTask(kind, seed, 6).text;
      auto [key, kernel] = keyAndKernel(first);
      for (int64_t leading : {1, 2, 15}) {
        std::string second = randomTask(kind, seed, leading).text;
        auto [otherKey, otherKernel] = keyAndKernel(second);
        (key == otherKey ? shared : apart) += 1;
        if (key == otherKey) {
          ASSERT_EQ(kernel, otherKernel) << first << second;
        }
      }
    }
  EXPECT_GT(shared, apart);
}

} // namespace
