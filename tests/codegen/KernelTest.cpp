// Row kernels against the interpreter: random tasks of every kind, whole and in parts.
// Tolerances are of |actual − expected| / (1 + |expected|): 1e-4 for tasks in f32 (sums of up to 1030 terms, in another order and with fused
// multiply-adds); 0.08 when some value is rounded to bf16, as a rounding that goes the other way is 2⁻⁷ and later ops enlarge it. A wrong
// element is off by about 1.
#include "tests/codegen/RandomTasks.h"
#include "tests/codegen/TaskRunner.h"

#include "passes/kernels/RowKernel.h"

#include "mlir/IR/IRMapping.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

LogicalResult emitRow(kernels::KernelFrame &frame) {
  FailureOr<kernels::RowForm> form = kernels::RowForm::of(frame.task);
  return failed(form) ? failure() : kernels::emitRowKernel(frame, *form);
}

/// What the interpreter makes of a task's whole region.
std::vector<TensorValue> interpretTask(step::TaskOp task, ArrayRef<TensorValue> inputs) {
  Block &body = task.getBody().front();
  OwningOpRef<ModuleOp> module = ModuleOp::create(task.getLoc());
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  auto results = body.getTerminator()->getOperandTypes();
  auto function = func::FuncOp::create(b, task.getLoc(), "task", b.getFunctionType(body.getArgumentTypes(), SmallVector<Type>(results)));
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(body.getArguments(), entry->getArguments());
  for (Operation &op : body.without_terminator())
    b.clone(op, mapping);
  SmallVector<Value> values;
  for (Value value : body.getTerminator()->getOperands())
    values.push_back(mapping.lookup(value));
  func::ReturnOp::create(b, task.getLoc(), values);
  StateMap states;
  auto interpreted = interpret(function, inputs, states, {Arithmetic::rounded});
  if (failed(interpreted)) {
    ADD_FAILURE() << "the interpreter fails";
    return {};
  }
  return std::vector<TensorValue>(interpreted->begin(), interpreted->end());
}

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
    inputs.push_back(type.getElementType().isInteger(32) ? TensorValue::integers(type, engine, 0, bound) : TensorValue::normal(type, engine));
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
  for (const std::vector<int64_t> &cuts : {std::vector<int64_t>{n / 3, n / 2 + 1}, {n - 1}, {0, 1}}) {
    if (cuts.back() > n)
      continue;
    std::vector<TensorValue> parts = run(cuts);
    for (size_t i = 0; i < parts.size(); ++i)
      ASSERT_EQ(parts[i].data, whole[i].data) << "output " << i << " depends on how iterations are split";
  }
}

class RandomTasks : public testing::TestWithParam<std::tuple<TaskKind, int64_t>> {};

TEST_P(RandomTasks, MatchTheInterpreter) {
  auto [kind, lanes] = GetParam();
  for (uint64_t seed = 0; seed < 40 && !HasFatalFailure(); ++seed)
    check(randomTask(kind, seed), lanes, seed);
}

std::string nameOfKind(const testing::TestParamInfo<std::tuple<TaskKind, int64_t>> &info) {
  static const char *names[] = {"Elements", "Rows", "RowReductions", "ColumnReductions", "MixedReductions"};
  return std::string(names[static_cast<int>(std::get<0>(info.param))]) + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, RandomTasks,
                         testing::Combine(testing::Values(TaskKind::Elements, TaskKind::Rows, TaskKind::RowReductions, TaskKind::ColumnReductions,
                                                          TaskKind::MixedReductions),
                                          testing::ValuesIn(TaskRunner::lanes())),
                         nameOfKind);

} // namespace
