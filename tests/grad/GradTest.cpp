// Every op of the graph dialect: its derivative, as graph ops run by the interpreter, against
// central differences.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ReduceOps.h"
#include "tests/grad/Instances.h"

#include "mlir/IR/Verifier.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace nano::test {
namespace {

/// Step of the central differences, and the largest difference to the derivative that is accepted,
/// relative to 1 + the largest derivative of the instance. In double precision the differences are
/// right to about 1e-9.
constexpr double step = 1e-5, tolerance = 1e-6;
constexpr int instancesPerOp = 40, ofEachKind = 2;

bool isFloat(Type type) { return isa<FloatType>(cast<ShapedType>(type).getElementType()); }

struct GraphTest : testing::Test {
  GraphTest() { context.loadDialect<NanoDialect>(); }

  MLIRContext context;
  std::mt19937_64 random{20240520};
};
struct DerivativeTest : GraphTest, testing::WithParamInterface<std::string> {};
using KinkTest = GraphTest;

/// Names of all registered ops of the dialect but nano.custom, whose meaning and derivative are the
/// model's: tests/e2e/kernels_test.py compares some with finite differences.
std::vector<std::string> allOps() {
  MLIRContext context;
  context.loadDialect<NanoDialect>();
  std::vector<std::string> names;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "nano" && name.getStringRef() != "nano.custom")
      names.push_back(name.getStringRef().str());
  return names;
}

std::string testName(const testing::TestParamInfo<std::string> &info) {
  return info.param.substr(info.param.find('.') + 1);
}

/// Σ over the float results r of weights[r]·op(operands)[r]; results with null weights do not
/// count.
double weightedSum(Operation *op, ArrayRef<TensorValue> operands,
                   ArrayRef<std::optional<TensorValue>> weights) {
  StateMap states;
  auto results = interpret(op, operands, states);
  EXPECT_TRUE(succeeded(results));
  double sum = 0;
  for (auto [result, weight] : llvm::zip_equal(*results, weights))
    if (weight)
      for (auto [x, w] : llvm::zip_equal(result.data, weight->data))
        sum += x * w;
  return sum;
}

/// Checks the derivative of `in.op` with gradients for those of its float results that `chosen` has
/// a bit for.
void checkDerivative(Instance &in, unsigned chosen) {
  Operation *op = in.op;
  SmallVector<std::optional<TensorValue>> weights(op->getNumResults());
  SmallVector<Value> resultGradients(op->getNumResults());
  SmallVector<TensorValue> arguments;
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), in.operands))
    if (cast<BlockArgument>(operand).getArgNumber() ==
        arguments.size()) // one value as two operands is one argument
      arguments.push_back(value);
  for (unsigned r = 0; r < op->getNumResults(); ++r)
    if (isFloat(op->getResultTypes()[r]) && (chosen >> r & 1)) {
      weights[r] = TensorValue::normal(cast<ShapedType>(op->getResultTypes()[r]), in.random);
      resultGradients[r] =
          in.block->addArgument(gradientType(op->getResultTypes()[r]), in.builder.getUnknownLoc());
      arguments.push_back(*weights[r]);
    }

  SmallVector<Value> derivatives =
      cast<DifferentiableOpInterface>(op).buildDerivative(in.builder, resultGradients);
  ASSERT_EQ(derivatives.size(), op->getNumOperands());
  SmallVector<Value> returned;
  for (auto [operand, derivative] : llvm::zip_equal(op->getOperands(), derivatives)) {
    if (!derivative)
      continue;
    EXPECT_TRUE(isFloat(operand.getType())) << "a derivative for an integer operand";
    EXPECT_EQ(derivative.getType(), gradientType(operand.getType()));
    returned.push_back(derivative);
  }
  for (Operation *built = op->getNextNode(); built; built = built->getNextNode())
    EXPECT_EQ(built->getLoc(), op->getLoc()) << "a derivative's op lost the model's line";
  auto function = cast<ProgramOp>(in.block->getParentOp());
  ReturnOp::create(in.builder, in.builder.getUnknownLoc(), returned);
  function.setType(
      in.builder.getFunctionType(in.block->getArgumentTypes(), ValueRange(returned).getTypes()));
  ASSERT_TRUE(succeeded(verify(*in.module)));
  StateMap states;
  auto values = interpret(function, arguments, states);
  ASSERT_TRUE(succeeded(values));

  size_t nextValue = 0;
  double largest = 0, worst = 0;
  for (auto [index, derivative] : llvm::enumerate(derivatives)) {
    const TensorValue *analytic = derivative ? &(*values)[nextValue++] : nullptr;
    if (!isFloat(op->getOperand(index).getType()))
      continue;
    for (int64_t i = 0; i < in.operands[index].size(); ++i) {
      SmallVector<TensorValue> moved = in.operands;
      moved[index].data[i] += step;
      double above = weightedSum(op, moved, weights);
      moved[index].data[i] -= 2 * step;
      double numeric = (above - weightedSum(op, moved, weights)) / (2 * step);
      largest = std::max(largest, std::abs(numeric));
      worst = std::max(worst, std::abs(numeric - (analytic ? analytic->data[i] : 0)));
    }
  }
  EXPECT_LE(worst, tolerance * (1 + largest));
}

TEST_P(DerivativeTest, AgreesWithFiniteDifferences) {
  OperationName name(GetParam(), &context);
  bool differentiable = name.hasInterface<DifferentiableOpInterface>();
  if (name.hasTrait<NotDifferentiable>()) {
    EXPECT_FALSE(differentiable) << "both differentiable and marked as not";
    return;
  }
  const Generator *generator = findGenerator(GetParam());
  ASSERT_TRUE(generator) << "no instances of this op are generated: add it to "
                            "tests/grad/Instances.cpp, or mark it NotDifferentiable";
  // Small ones, and those of every kind of sizes in f32 and bf16.
  std::vector<std::pair<Sizes, Type>> kinds(instancesPerOp, {Sizes::any, Type()});
  for (Sizes sizes : {Sizes::odd, Sizes::oneRow, Sizes::oneColumn, Sizes::empty})
    for (Type element : {Type(Float32Type::get(&context)), Type(BFloat16Type::get(&context))})
      kinds.insert(kinds.end(), ofEachKind, {sizes, element});
  for (size_t i = 0; i < kinds.size() && !HasFailure(); ++i) {
    unsigned results = 1;
    for (unsigned chosen = 1; chosen < 1U << results; ++chosen) {
      Instance in(context, random, kinds[i].first, kinds[i].second);
      (*generator)(in);
      ASSERT_TRUE(in.op);
      ASSERT_EQ(in.op->getName().getStringRef(), GetParam());
      results = in.op->getNumResults();
      if (differentiable) {
        checkDerivative(in, chosen);
      } else {
        EXPECT_TRUE(llvm::none_of(in.op->getOperandTypes(), isFloat))
            << "an op on floats must implement DifferentiableOpInterface or be marked "
               "NotDifferentiable";
        // The op must not take floats in other instances either.
        for (Value operand : in.op->getOperands())
          operand.setType(cast<RankedTensorType>(operand.getType()).clone(in.builder.getF32Type()));
        for (Value result : in.op->getResults())
          result.setType(cast<RankedTensorType>(result.getType()).clone(in.builder.getF32Type()));
        ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
        EXPECT_TRUE(failed(verify(in.op)))
            << "an op that takes floats must implement DifferentiableOpInterface or be marked "
               "NotDifferentiable";
      }
      if (HasFailure()) {
        in.op->print(llvm::errs());
        llvm::errs() << " (instance " << i << ", results " << chosen << ")\n";
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nano, DerivativeTest, testing::ValuesIn(allOps()), testName);

/// The gradient of `op` for result gradients of ones.
TensorValue gradientAt(Instance &in, unsigned operand) {
  GraphBuilder g(in.builder, in.location);
  Value dy = g.constant(1, in.op->getResult(0).getType());
  Value dx = cast<DifferentiableOpInterface>(in.op).buildDerivative(in.builder, dy)[operand];
  ReturnOp::create(in.builder, in.location, dx);
  auto function = cast<ProgramOp>(in.block->getParentOp());
  function.setType(in.builder.getFunctionType(in.block->getArgumentTypes(), dx.getType()));
  StateMap states;
  auto values = interpret(function, in.operands, states);
  EXPECT_TRUE(succeeded(values));
  return values->front();
}

/// Where a function has a kink, the derivative is a convention.
TEST_F(KinkTest, ReluHasSlopeZeroAtZero) {
  Instance in(context, random);
  RankedTensorType type = in.f32({3});
  Value x = in.operand(type, TensorValue{{3}, {-1, 0, 1}}),
        zero = in.operand(type, TensorValue{{3}, {0, 0, 0}});
  in.op = MaxOp::create(in.builder, in.location, type, x, zero);
  EXPECT_EQ(gradientAt(in, 0).data, (std::vector<double>{0, 0, 1}));
}

TEST_F(KinkTest, MaximumFlowsToAllThatEqualIt) {
  Instance in(context, random);
  Value x = in.operand(in.f32({4}), TensorValue{{4}, {2, 1, 2, 0}});
  in.op =
      ReduceOp::create(in.builder, in.location, in.f32({}), Combiner::max, x, ArrayRef<int64_t>{0});
  EXPECT_EQ(gradientAt(in, 0).data, (std::vector<double>{1, 0, 1, 0}));
}

} // namespace
} // namespace nano::test
