// Every op that is registered, on shapes of every kind (odd sizes, one row, one column, empty), in
// f32 and bf16: a model that holds one instance of each, whose results are states and whose loss
// adds them up, through the whole compiler, the CPU device and the emulator of CUDA under two of
// its schedules, against the interpreter of the graph dialect: results, gradients, finite
// differences. Instances are those of tests/grad.
#include "compiler/Registration.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/Program.h"
#include "models/optimizers.h"
#include "tests/e2e/ModelRuns.h"
#include "tests/grad/Instances.h"
#include "tests/support/Declarations.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <numeric>

using namespace mlir;
using namespace nano::graph;

namespace nano::test {
namespace {

/// Ops of which no model of one instance is made, and what tests them instead.
const std::map<std::string, const char *> &elsewhere() {
  static const std::map<std::string, const char *> ops = {
      {"accumulate", "every model here adds up gradients"},
      {"all_gather", "exchanged by ranks: RandomModels, LocalCommunicatorTest"},
      {"all_reduce", "exchanged by ranks: RandomModels, LocalCommunicatorTest"},
      {"attention_grad", "attention's gradient, which takes tensors of its shapes alone"},
      {"custom", "the model's own: tests/e2e/kernels_test.py"},
      {"exp_matmul", "what the compiler makes of losses: ShiftLossesTest, ExpMatmulKernelTest"},
      {"fused", "what the compiler makes of the others"},
      {"index_check", "what the compiler makes of indices: tests/e2e/indices_test.py"},
      {"load", "every model here loads its operands"},
      {"model", "every model here has one"},
      {"optimizer", "every model here is trained by one"},
      {"program", "every model here is made of some"},
      {"reduce_scatter", "exchanged by ranks: RandomModels, LocalCommunicatorTest"},
      {"report", "what a run shows: tests/e2e/reports_test.py"},
      {"reported", "what a run shows: tests/e2e/reports_test.py"},
      {"return", "ends programs"},
      {"scalar", "every model here has a learning rate"},
      {"scaled_matmul",
       "of what was quantised its derivative is on purpose not that of the rounded numbers, which "
       "differences see: Float8Test, tests/e2e/fp8_products_test.py"},
      {"shard", "exchanged by ranks: RandomModels, LocalCommunicatorTest"},
      {"state", "every model here has some"},
      {"store", "every model here stores results"},
      {"yield", "ends regions"},
  };
  return ops;
}

/// The registered ops, without the dialect's name.
std::vector<std::string> opNames() {
  MLIRContext context;
  context.loadDialect<NanoDialect>();
  std::vector<std::string> names;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "nano")
      names.push_back(name.stripDialect().str());
  return names;
}

std::vector<std::string> opsWithModels() {
  std::vector<std::string> names = opNames();
  std::erase_if(names, [](const std::string &name) { return elsewhere().count(name) != 0; });
  return names;
}

/// One instance, and which of its operands have derivatives.
struct Cell {
  std::unique_ptr<Instance> in;
  std::vector<bool> isTrained; ///< by argument of its block
};

/// Operands that some derivative of the op is of.
std::vector<bool> trainedArguments(Instance &in) {
  std::vector<bool> trained(in.block->getNumArguments());
  auto differentiable = dyn_cast<DifferentiableOpInterface>(in.op);
  if (!differentiable)
    return trained;
  GraphBuilder g(in.builder, in.location);
  SmallVector<Value> gradients;
  for (Type type : in.op->getResultTypes())
    gradients.push_back(isa<FloatType>(cast<RankedTensorType>(type).getElementType())
                            ? g.constant(0, gradientType(type))
                            : Value());
  const SmallVector<Value> derivatives = differentiable.buildDerivative(in.builder, gradients);
  for (auto [operand, derivative] : llvm::zip_equal(in.op->getOperands(), derivatives))
    if (derivative)
      trained[cast<BlockArgument>(operand).getArgNumber()] = true;
  return trained;
}

//===- The model ---------------------------------------------------------------===//

/// Writes the model of some instances.
class Writer {
public:
  explicit Writer(MLIRContext &context) : context(context), builder(&context) {}

  void add(std::unique_ptr<Instance> in) {
    std::vector<bool> trained = trainedArguments(*in);
    cells.push_back({std::move(in), std::move(trained)});
  }
  RandomModel write();

private:
  static std::string operandName(size_t cell, unsigned argument) {
    return "c" + std::to_string(cell) + ".x" + std::to_string(argument);
  }
  static std::string resultName(size_t cell, unsigned result) {
    return "c" + std::to_string(cell) + ".y" + std::to_string(result);
  }
  void declare();
  ProgramOp program(const std::string &role, ArrayRef<Type> arguments, Type result);
  /// The operand as it is kept: in f32 where the op takes 8 bits.
  Value kept(GraphBuilder &g, size_t number, BlockArgument argument);
  /// Stores the cell's results; what it adds to the loss.
  Value run(size_t number);
  /// Σ x·w, rank 0 and f32, with weights of both signs that differ from element to element.
  Value weighted(Value x);

  MLIRContext &context;
  OpBuilder builder;
  std::vector<Cell> cells;
};

bool isEmpty(Type type) { return cast<RankedTensorType>(type).getNumElements() == 0; }
Type elementOf(Type type) { return cast<RankedTensorType>(type).getElementType(); }

frontend::Shape shapeOf(Type type) {
  frontend::Shape shape({});
  for (int64_t size : cast<RankedTensorType>(type).getShape())
    shape.sizes[shape.rank++] = size;
  return shape;
}

/// The type in which an operand is kept: its own, or f32 of 8 bits.
frontend::DType storedType(Type type) {
  const Type element = elementOf(type);
  return element.isInteger(32) ? frontend::i32 : element.isBF16() ? frontend::bf16 : frontend::f32;
}

/// The values of an argument, which several operands may be.
const std::vector<double> &valuesOf(const Instance &in, unsigned argument) {
  for (auto [operand, value] : llvm::zip_equal(in.op->getOperands(), in.operands))
    if (operand == in.block->getArgument(argument))
      return value.data;
  llvm::report_fatal_error("an argument that is no operand");
}

void Writer::declare() {
  namespace f = nano::frontend;
  const f::Optimizer group = f::sgd("sgds", {.lr = 1e-3});
  f::param("one", {1}, f::f32, f::constant(1), group);
  for (auto [number, cell] : llvm::enumerate(cells)) {
    Instance &in = *cell.in;
    for (unsigned argument = 0; argument < in.block->getNumArguments(); ++argument) {
      const Type type = in.block->getArgument(argument).getType();
      if (isEmpty(type))
        continue;
      const std::string name = operandName(number, argument);
      const std::vector<double> &values = valuesOf(in, argument);
      auto at = [&](int64_t i) { return values[size_t(i)]; };
      const f::Shape shape = shapeOf(type);
      const f::DType stored = storedType(type);
      if (stored == f::i32)
        f::table(name.c_str(), shape, f::i32, at);
      else if (cell.isTrained[argument])
        f::param(name.c_str(), shape, stored, f::constants(std::ssize(values), at), group);
      else
        f::frozen(name.c_str(), shape, stored, f::constants(std::ssize(values), at));
    }
    for (OpResult result : in.op->getResults())
      if (!isEmpty(result.getType()))
        f::state(resultName(number, result.getResultNumber()).c_str(), shapeOf(result.getType()),
                 storedType(result.getType()), f::constant(0));
  }
}

Value Writer::weighted(Value x) {
  const Location location = builder.getUnknownLoc();
  GraphBuilder g(builder, location);
  const RankedTensorType type = tensorType(x).clone(builder.getF32Type());
  Value sum = g.toF32(x);
  if (type.getRank() == 0)
    return sum;
  Value phase = g.constant(0.3, type);
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    const Value index = IotaOp::create(builder, location, type, dim);
    phase = g.add(phase, g.mul(index, 0.9 + 0.4 * double(dim)));
  }
  return g.sumAll(g.mul(sum, SinOp::create(builder, location, type, phase)));
}

Value Writer::kept(GraphBuilder &g, size_t number, BlockArgument argument) {
  RankedTensorType stored = tensorType(argument);
  if (isFloat8(stored.getElementType()))
    stored = stored.clone(builder.getF32Type());
  return isEmpty(stored) ? g.constant(0, stored)
                         : g.load(operandName(number, argument.getArgNumber()), stored);
}

Value Writer::run(size_t number) {
  const Cell &cell = cells[number];
  GraphBuilder g(builder, builder.getUnknownLoc());
  IRMapping mapping;
  Value loss = g.scalar(0);
  for (BlockArgument argument : cell.in->block->getArguments()) {
    const Value x = kept(g, number, argument);
    const Type element = elementOf(argument.getType());
    mapping.map(argument, isFloat8(element) ? g.quantize(x, g.scalar(1), element) : x);
    // So that it has a gradient too where the op's results are empty.
    if (cell.isTrained[argument.getArgNumber()] && !isEmpty(x.getType()))
      loss = g.add(loss, g.mul(weighted(x), 0.25));
  }
  Operation *op = builder.clone(*cell.in->op, mapping);
  for (OpResult result : op->getResults()) {
    Value y = result;
    if (isFloat8(elementOf(y.getType())))
      y = g.dequantize(y, g.scalar(1), builder.getF32Type());
    if (!isEmpty(y.getType()))
      g.store(y, resultName(number, result.getResultNumber()));
    if (isa<FloatType>(elementOf(y.getType())))
      loss = g.add(loss, weighted(y));
  }
  return loss;
}

ProgramOp Writer::program(const std::string &role, ArrayRef<Type> arguments, Type result) {
  auto function = ProgramOp::create(builder, builder.getUnknownLoc(), role,
                                    builder.getFunctionType(arguments, result));
  function.setRole(role);
  return function;
}

RandomModel Writer::write() {
  RandomModel model;
  model.seqLen = model.valSeqLen = model.genSeqLen = 8;
  model.vocabulary = 16;
  model.sequences = 1;
  const std::string text =
      "module {\n  nano.model \"op\" {hyperparameters = [], training = {seq_len "
      "= 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 8 : i64, global_batch = 8 : i64, "
      "num_iterations = 10 : i64, vocab_size = 16 : i64, eos_token = 0 : i64, train_loss_is_sum = "
      "true, val_loss_is_sum = true, log_scalar = \"lr.sgds\", grad_clip = 0.0 : f64, dist = "
      "\"allreduce\"}}\n" +
      declarations([&] { declare(); }) + "}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  if (!module)
    return model;
  const Location location = builder.getUnknownLoc();
  const auto number = RankedTensorType::get({}, builder.getF32Type()), one = number.clone({1}),
             tokens = RankedTensorType::get({8}, builder.getI32Type()), logits = one.clone({8, 16});
  auto write = [&](const std::string &role, ArrayRef<Type> arguments, Type result,
                   llvm::function_ref<Value(GraphBuilder &)> body) {
    builder.setInsertionPointToEnd(module->getBody());
    ProgramOp function = program(role, arguments, result);
    builder.setInsertionPointToEnd(function.addEntryBlock());
    GraphBuilder g(builder, location);
    ReturnOp::create(builder, location, body(g));
  };
  write("train", {tokens, tokens}, number, [&](GraphBuilder &g) {
    Value loss = g.sumAll(g.load("one", one));
    for (size_t cell = 0; cell < cells.size(); ++cell)
      loss = g.add(loss, run(cell));
    return loss;
  });
  write("validate", {tokens, tokens}, number,
        [&](GraphBuilder &g) { return g.sumAll(g.load("one", one)); });
  write("generate", {tokens}, logits,
        [&](GraphBuilder &g) { return g.broadcast(g.load("one", one), logits.getShape(), {0}); });
  llvm::raw_string_ostream out(model.text);
  module->print(out, OpPrintingFlags().useLocalScope());
  return model;
}

//===- The tests ---------------------------------------------------------------===//

struct Kind {
  std::string op;
  bool isBf16;
  std::string name() const { return op + (isBf16 ? "_bf16" : "_f32"); }
};

void PrintTo(const Kind &kind, std::ostream *out) { *out << kind.name(); }

class EveryOp : public ModelRuns, public testing::WithParamInterface<Kind> {
protected:
  RandomModel make() const override;
  std::string name() const override { return "op-" + GetParam().name(); }
  uint64_t number() const override { return 1; }
  bool runsOnEmulator() const override { return true; }
  /// A few roundings to f32, or to bf16, of the same values.
  Tolerance toleranceOf() const override {
    return GetParam().isBf16 ? Tolerance{4e-3, 8e-3, 4e-3} : Tolerance{1e-5, 1e-5, 1e-5};
  }
};

RandomModel EveryOp::make() const {
  MLIRContext own(MLIRContext::Threading::DISABLED);
  DialectRegistry registry;
  registerDialects(registry);
  own.appendDialectRegistry(registry);
  own.loadAllAvailableDialects();
  const Generator *generator = findGenerator("nano." + GetParam().op);
  EXPECT_TRUE(generator) << "no instances of this op are generated: add it to "
                            "tests/grad/Instances.cpp, or say here what tests it";
  if (!generator)
    return {};
  const Type element =
      GetParam().isBf16 ? Type(BFloat16Type::get(&own)) : Type(Float32Type::get(&own));
  const std::string seed = name();
  std::mt19937_64 random(std::accumulate(seed.begin(), seed.end(), uint64_t{17},
                                         [](uint64_t sum, char c) { return sum * 31 + c; }));
  Writer writer(own);
  for (Sizes sizes : {Sizes::odd, Sizes::oneRow, Sizes::oneColumn, Sizes::empty}) {
    auto in = std::make_unique<Instance>(own, random, sizes, element);
    (*generator)(*in);
    EXPECT_TRUE(succeeded(mlir::verify(in->op)));
    writer.add(std::move(in));
  }
  RandomModel model = writer.write();
  model.hasBf16 = GetParam().isBf16;
  return model;
}

TEST_P(EveryOp, TrainsAsTheInterpreterDoes) { trainAsTheInterpreterDoes(); }

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const std::string &op : opsWithModels())
    for (bool isBf16 : {false, true})
      all.push_back({op, isBf16});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nano, EveryOp, testing::ValuesIn(kinds()),
                         [](const testing::TestParamInfo<Kind> &info) {
                           return info.param.name();
                         });

/// What is said to be tested elsewhere is an op.
TEST(EveryOpList, NamesOps) {
  const std::vector<std::string> names = opNames();
  for (const auto &[name, why] : elsewhere())
    EXPECT_TRUE(llvm::is_contained(names, name)) << name;
}

} // namespace
} // namespace nano::test
