// Bufferization keeps the meaning: random functions over states, interpreted as graphs and executed
// as planned step programs on a simulated arena, leave the same results and states, and pass both
// proofs.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/Passes.h"
#include "tests/step/StepExecutor.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nano::graph;
using nano::test::StepExecutor;
using nano::test::TensorValue;

namespace {

/// Random functions of tensors of a few shapes with 48 elements, and what slices, concats and
/// reductions make of them.
class Generator {
public:
  Generator(MLIRContext &context, uint32_t seed) : builder(&context), random(seed) {}

  OwningOpRef<ModuleOp> run();

private:
  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  }
  RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }
  RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  Value any() { return values[below(int64_t(values.size()))]; }
  /// A value of the type; a load or a constant when there is none.
  Value ofType(RankedTensorType type);
  void add(Value value) { values.push_back(value); }

  void op();
  void elementwise();
  void view();
  void concat();
  void matmul(Value a);
  void fused();
  void stateOp();
  void exchange();

  OpBuilder builder;
  std::mt19937 random;
  Location loc = builder.getUnknownLoc();
  std::vector<Value> values;
  std::vector<std::pair<std::string, RankedTensorType>> states;
};

Value Generator::ofType(RankedTensorType type) {
  SmallVector<Value> matching;
  for (Value value : values)
    if (value.getType() == type)
      matching.push_back(value);
  if (!matching.empty())
    return matching[below(int64_t(matching.size()))];
  return ConstantOp::create(builder, loc, type, APFloat(double(below(5)) - 2));
}

void Generator::elementwise() {
  Value a = any();
  if (below(2) == 0)
    return add(TanhOp::create(builder, loc, a));
  Value b = ofType(typeOf(a));
  if (below(2) == 0)
    return add(SubOp::create(builder, loc, a, b));
  add(MulOp::create(builder, loc, a, b));
}

void Generator::view() {
  Value x = any();
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  if (below(3) == 0 && shape.size() >= 2) {
    SmallVector<int64_t> sizes(shape);
    std::swap(sizes.back(), sizes[sizes.size() - 2]);
    Value y = TransposeOp::create(builder, loc, tensor(sizes), x);
    add(y);
    if (below(2) == 0) // what a product reads is to be dense
      matmul(y);
    return;
  }
  if (below(2) == 0) {
    SmallVector<int64_t> sizes;
    int64_t rest = typeOf(x).getNumElements();
    while (rest > 1 && sizes.size() < 3) {
      int64_t factor = std::array<int64_t, 4>{2, 3, 4, 6}[below(4)];
      if (sizes.size() == 2 || rest % factor != 0)
        factor = rest;
      sizes.push_back(factor);
      rest /= factor;
      if (below(3) == 0 && rest > 1) {
        sizes.push_back(rest);
        rest = 1;
      }
    }
    return add(ReshapeOp::create(builder, loc, tensor(sizes), x));
  }
  if (shape.empty())
    return;
  int64_t dim = below(int64_t(shape.size())), start = below(shape[dim]);
  SmallVector<int64_t> sizes(shape);
  sizes[dim] = 1 + below(shape[dim] - start);
  add(SliceOp::create(builder, loc, tensor(sizes), x, dim, start));
}

void Generator::concat() {
  Value a = any();
  ArrayRef<int64_t> shape = typeOf(a).getShape();
  if (shape.empty() || typeOf(a).getNumElements() > 200)
    return;
  int64_t dim = below(int64_t(shape.size()));
  SmallVector<Value> parts = {a};
  for (Value other : values) {
    SmallVector<int64_t> sizes(typeOf(other).getShape());
    if (sizes.size() != shape.size())
      continue;
    sizes[dim] = shape[dim];
    if (ArrayRef<int64_t>(sizes) == shape && below(4) == 0 && parts.size() < 3)
      parts.push_back(other);
  }
  SmallVector<int64_t> sizes(shape);
  sizes[dim] = 0;
  for (Value part : parts)
    sizes[dim] += typeOf(part).getDimSize(dim);
  add(ConcatOp::create(builder, loc, tensor(sizes), parts, dim));
}

void Generator::matmul(Value a) {
  ArrayRef<int64_t> shape = typeOf(a).getShape();
  if (shape.size() < 2)
    return;
  bool transpose = below(2) == 0; // a·aᵀ or aᵀ·a
  int64_t size = transpose ? shape[shape.size() - 2] : shape.back();
  SmallVector<int64_t> sizes(shape);
  sizes[sizes.size() - 1] = sizes[sizes.size() - 2] = size;
  Value addend = below(2) == 0 ? ofType(tensor(sizes)) : Value();
  add(nano::graph::MatmulOp::create(builder, loc, tensor(sizes), a, a, addend, !transpose,
                                    transpose, APFloat(0.125), APFloat(0.5)));
}

void Generator::fused() {
  // Row-wise: y = x·(1/√(1 + Σ x²)) − g, s = Σ x·g; or element-wise with two results.
  Value x = any();
  RankedTensorType type = typeOf(x);
  if (type.getRank() == 0)
    return;
  Value g = ofType(type);
  RankedTensorType rows = tensor(type.getShape().drop_back());
  bool normalises = below(3) != 0;
  auto op = FusedOp::create(builder, loc, {type, normalises ? rows : type}, {x, g});
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&op.getBody(), {}, {type, type}, {loc, loc});
  Value a = body->getArgument(0), b = body->getArgument(1);
  int64_t last = type.getRank() - 1;
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, last));
  if (normalises) {
    Value squares = MulOp::create(builder, loc, a, a);
    Value sum =
        ReduceOp::create(builder, loc, rows, Combiner::sum, squares, ArrayRef<int64_t>{last});
    Value one = ConstantOp::create(builder, loc, rows, APFloat(1.0));
    Value scale = RsqrtOp::create(builder, loc, AddOp::create(builder, loc, sum, one));
    Value wide = BroadcastOp::create(builder, loc, type, scale, dims);
    Value y = SubOp::create(builder, loc, MulOp::create(builder, loc, a, wide), b);
    Value s = ReduceOp::create(builder, loc, rows, Combiner::sum, MulOp::create(builder, loc, a, b),
                               ArrayRef<int64_t>{last});
    YieldOp::create(builder, loc, ValueRange{y, s});
  } else {
    Value swapped = below(2) == 0 && type.getShape().back() > 1
                        ? Value(RotateOp::create(builder, loc, a, 1))
                        : a;
    Value y = SubOp::create(builder, loc, swapped, b);
    Value z = TanhOp::create(builder, loc, b);
    YieldOp::create(builder, loc, ValueRange{y, z});
  }
  add(op.getResult(0));
  add(op.getResult(1));
}

void Generator::stateOp() {
  auto [name, type] = states[below(int64_t(states.size()))];
  if (below(5) < 2)
    return add(LoadOp::create(builder, loc, type, name));
  SmallVector<Value> candidates;
  for (Value value : values)
    if (typeOf(value).getNumElements() == type.getNumElements())
      candidates.push_back(value);
  Value value = candidates.empty() ? ofType(type) : candidates[below(int64_t(candidates.size()))];
  if (value.getType() != type)
    value = ReshapeOp::create(builder, loc, type, value);
  if (below(4) == 0)
    add(value = AllReduceOp::create(builder, loc, type, value));
  StoreOp::create(builder, loc, value, name);
}

/// A collective that changes the size, or a rank's part.
void Generator::exchange() {
  Value x = any();
  SmallVector<int64_t> shape(typeOf(x).getShape());
  if (shape.empty())
    return;
  const int64_t parts = below(3) + 1;
  if (below(3) == 0 && typeOf(x).getNumElements() * parts <= 200) {
    shape[0] *= parts;
    return add(AllGatherOp::create(builder, loc, tensor(shape), x, parts));
  }
  if (shape[0] % parts != 0)
    return;
  shape[0] /= parts;
  if (below(2) == 0)
    return add(ReduceScatterOp::create(builder, loc, tensor(shape), x, parts));
  add(ShardOp::create(builder, loc, tensor(shape), x, parts));
}

void Generator::op() {
  switch (below(9)) {
  case 0:
    return view();
  case 1:
    return concat();
  case 2:
    return matmul(any());
  case 3:
  case 4:
    return fused();
  case 5:
  case 6:
    return stateOp();
  case 7:
    return exchange();
  default:
    return elementwise();
  }
}

OwningOpRef<ModuleOp> Generator::run() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  const SmallVector<int64_t> shapes[] = {{8, 6}, {2, 4, 6}, {48}, {4, 4}};
  auto init = InitAttr::get(builder.getContext(), "constant", builder.getDenseF64ArrayAttr({0.0}));
  for (int i = 0; i < 4; ++i) {
    states.push_back({"s" + std::to_string(i), tensor(shapes[i])});
    nano::graph::StateOp::create(builder, loc, states.back().first, states.back().second,
                                 Role::Gradient, init);
  }
  RankedTensorType argument = tensor({8, 6});
  auto function = ProgramOp::create(builder, loc, "f", builder.getFunctionType({argument}, {}));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  add(block->getArgument(0));
  for (int64_t count = 8 + below(30); count > 0; --count)
    op();
  SmallVector<Value> results;
  for (int64_t count = 1 + below(3); count > 0; --count)
    results.push_back(any());
  ReturnOp::create(builder, loc, results);
  function.setType(builder.getFunctionType({argument}, ValueRange(results).getTypes()));
  return module;
}

TEST(Bufferize, keepsTheMeaning) {
  const std::string results[] = {"f.loss", "f.checks", "f.result2"};
  MLIRContext context;
  context.loadDialect<NanoDialect, nano::step::StepDialect, func::FuncDialect,
                      memref::MemRefDialect>();
  context.disableMultithreading();
  int64_t inPlace = 0, copies = 0, views = 0, beside = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OwningOpRef<ModuleOp> graph = Generator(context, seed).run();
    ASSERT_TRUE(succeeded(verify(*graph)));
    OwningOpRef<ModuleOp> lowered = graph->clone();
    PassManager manager(&context);
    manager.addPass(nano::createBufferize());
    manager.addPass(nano::createSchedule());
    manager.addPass(nano::createPlanMemory());
    manager.addPass(nano::createVerifyLiveness());
    manager.addPass(nano::createVerifyRaces());
    const bool isLowered = succeeded(manager.run(*lowered));
    if (!isLowered)
      graph->dump();
    ASSERT_TRUE(isLowered);

    auto function = *graph->getOps<ProgramOp>().begin();
    auto program = *lowered->getOps<nano::step::ProgramOp>().begin();
    std::mt19937_64 random(seed);
    nano::test::StateMap states;
    TensorValue argument =
        TensorValue::normal(cast<ShapedType>(function.getArgumentTypes()[0]), random, 0, 0.5);
    StepExecutor executor(*lowered);
    executor.set("f.tokens", argument);
    for (auto state : graph->getOps<nano::graph::StateOp>()) {
      TensorValue value = TensorValue::normal(state.getTensorType(), random, 0, 0.5);
      states[state.getSymName().str()] = value;
      executor.set(state.getSymName(), value);
    }
    nano::test::Options options;
    options.exchange = [](Operation *op, const TensorValue &x) {
      return nano::test::exchanged(x, cast<ShapedType>(op->getResult(0).getType()).getShape(),
                                   isa<AllReduceOp, ReduceScatterOp>(op));
    };
    auto expected = nano::test::interpret(function, {argument}, states, options);
    ASSERT_TRUE(succeeded(expected));
    executor.run(program, random);
    for (auto [i, value] : llvm::enumerate(*expected))
      EXPECT_EQ(executor.get(results[i]).data, value.data) << results[i];
    for (const auto &[name, value] : states)
      EXPECT_EQ(executor.get(name).data, value.data) << "state " << name;
    if (::testing::Test::HasFailure()) {
      graph->dump();
      lowered->dump();
      return;
    }
    lowered->walk([&](nano::step::TaskOp task) {
      inPlace += llvm::any_of(task.getOuts(),
                              [&](Value out) { return llvm::is_contained(task.getIns(), out); });
    });
    lowered->walk([&](nano::step::TaskOp task) {
      auto yielded = task.getBody().front().getTerminator()->getOperands();
      llvm::SmallDenseSet<Value> distinct(yielded.begin(), yielded.end());
      beside += distinct.size() < yielded.size();
    });
    lowered->walk([&](nano::step::CopyOp) { ++copies; });
    lowered->walk([&](nano::step::ViewOp) { ++views; });
  }
  // The functions reach what they are meant to reach.
  EXPECT_GT(inPlace, 800);
  EXPECT_GT(copies, 800);
  EXPECT_GT(views, 2000);
  EXPECT_GT(beside, 30) << "kernels that write a result and its transpose";
}

} // namespace
