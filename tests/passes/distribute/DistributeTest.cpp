// nano-distribute and nano-expand-optimizers, run through the interpreter on several ranks: the
// same parameters and optimizer states as with one rank, on random parameters and numbers of ranks.
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/Phases.h"
#include "ir/graph/Sharding.h"
#include "models/optimizers.h"
#include "passes/Passes.h"
#include "tests/support/Declarations.h"
#include "tests/support/Interpreter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"
#include "gtest/gtest.h"

#include <barrier>
#include <thread>

using namespace mlir;
using namespace nano::graph;
using nano::test::StateMap;
using nano::test::TensorValue;

namespace {

/// The optimizers of models/optimizers.h: whose equations have no products, then those of matrices.
const std::vector<std::string> elementwise{"adam", "adam", "lion", "sgd", "adafactor", "rows"};
const std::vector<std::string> ofMatrices{"muon", "muon", "normuon", "slow", "reading"};

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  std::string optimizer;
  std::string type() const {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f32>";
  }
  int64_t elements() const { return ShapedType::getNumElements(shape); }
};

struct Case {
  std::vector<Parameter> parameters;
  int64_t sequences; ///< micro-batches of a step, over all ranks
  std::string dist;
  double clip;
  int64_t every; ///< steps between two of the optimizers that have no products
  int64_t steps;
};

/// The optimizers and the parameters.
void declare(const Case &model) {
  using namespace nano::frontend;
  const int64_t every = model.every;
  // Counted in updates, so that the mean over steps is the same as a larger batch.
  const Sched t = floor(step() / double(every)) + 2, lr = 0.05 / t;
  const std::map<std::string, Optimizer> optimizers{
      {"adam",
       adam("adam", {.lr = lr, .beta1 = 0.8, .beta2 = 0.95, .weightDecay = 0.125, .every = every})},
      {"lion", lion("lion", {.lr = lr, .weightDecay = 0.5, .every = every})},
      {"sgd", sgd("sgd", {.lr = lr, .momentum = 0.9, .nesterov = true, .every = every})},
      {"adafactor", adafactor("adafactor", {.lr = lr, .every = every})},
      // A step of the same length for each row.
      {"rows", optimizer("rows", {.lr = lr, .every = every},
                         [](Update u) {
                           const Tensor v =
                               u.state("v", f32, {u.parameter.size(0), 1}, constant(0.5));
                           const Tensor next = 0.5 * v + 0.5 * mean(square(u.gradient), -1);
                           u.set(v, next);
                           u.set(u.parameter - u.lr * (u.gradient * rsqrt(next + 1e-6)));
                         })},
      {"muon", muon("muon", {.lr = lr, .momentum = 0.9 - 0.1 / t})},
      {"slow", muon("slow", {.lr = 0.5 * lr, .momentum = 0.9 - 0.1 / t})},
      {"normuon", norMuon("normuon", {.lr = lr, .momentum = 0.95, .decay = 2.0})},
      // One whose products read the parameter, and that cuts it other than by its own shape.
      {"reading", optimizer("reading", {.lr = lr}, [](Update u) {
         const auto rows = u.parameter.size(-2), columns = u.parameter.size(-1);
         const auto count = u.parameter.rank() == 2 ? 1 : u.parameter.size(0);
         const Shape stack = {count, columns, rows}; // other matrices in the same memory
         const Tensor m = u.state("m", f32);
         const Tensor next = 0.5 * m + 0.5 * u.gradient;
         const Tensor x = reshape(u.parameter, stack), y = reshape(next, stack);
         const Tensor product = matmul(matmul(x, transpose(y)), y);
         u.set(m, next);
         u.set(u.parameter - u.lr * reshape(product / (1.0 + sum(product * product, {-2, -1})),
                                            u.parameter.shape()));
       })}};
  for (const Parameter &p : model.parameters) {
    Shape shape({});
    for (int64_t size : p.shape)
      shape.sizes[shape.rank++] = size;
    param(p.name.c_str(), shape, f32, normal(0, 1), optimizers.at(p.optimizer));
  }
}

/// A model whose programs take the parameters' gradients as arguments.
std::string moduleText(const Case &model) {
  std::string text = "module {\nnano.model \"m\" {training = {seq_len = 1 : i64, global_batch = " +
                     std::to_string(model.sequences) + " : i64, dist = \"" + model.dist +
                     "\", grad_clip = " + std::to_string(model.clip) + " : f64}}\n" +
                     nano::test::declarations([&] { declare(model); });
  std::string arguments, first, next;
  for (const Parameter &p : model.parameters) {
    text += "nano.state @grad." + p.name + " : " + p.type() +
            " {role = #nano.role<gradient>, init = #nano.init<\"constant\", [0.0]>}\n";
    arguments += (arguments.empty() ? "%" : ", %") + p.name + ": " + p.type();
    first += "nano.store %" + p.name + ", @grad." + p.name + " : " + p.type() + "\n";
    next += "%" + p.name + "_a = nano.load @grad." + p.name + " : " + p.type() + "\n%" + p.name +
            "_s = nano.add %" + p.name + "_a, %" + p.name + " : " + p.type() + "\nnano.store %" +
            p.name + "_s, @grad." + p.name + " : " + p.type() + "\n";
  }
  auto function = [&](const std::string &name, const std::string &body) {
    text += "nano.program @" + name + "(" + arguments + ") attributes {role = \"" + name +
            "\"} {\n" + body + "nano.return\n}\n";
  };
  function("first", first);
  function("next", next);
  return text + "}\n";
}

/// What the ranks of a world exchange; every rank calls in the same order.
class Exchange {
public:
  Exchange(int64_t world, int64_t group) : group(group), given(world), all(world) {}

  TensorValue operator()(int64_t rank, Operation *op, const TensorValue &x) {
    auto ranks = RankSet::all;
    llvm::TypeSwitch<Operation *>(op).Case<AllReduceOp, ReduceScatterOp, AllGatherOp, ShardOp>(
        [&](auto collective) { ranks = collective.getRanks(); });
    std::vector<int64_t> members;
    for (int64_t other = 0; other < int64_t(given.size()); ++other)
      if (ranks == RankSet::all || (ranks == RankSet::group && other / group == rank / group) ||
          (ranks == RankSet::peers && other % group == rank % group))
        members.push_back(other);
    const auto count = int64_t(members.size());
    const int64_t place = llvm::find(members, rank) - members.begin();
    given[rank] = &x;
    all.arrive_and_wait();
    auto type = cast<ShapedType>(op->getResult(0).getType());
    TensorValue result = TensorValue::filled(type, 0);
    if (isa<AllGatherOp>(op)) {
      result.data.clear();
      for (int64_t member : members)
        llvm::append_range(result.data, given[member]->data);
    } else {
      const int64_t from = isa<AllReduceOp>(op) ? 0 : place * result.size();
      EXPECT_EQ(x.size(), isa<AllReduceOp>(op) ? result.size() : result.size() * count);
      for (int64_t i = 0; i < result.size(); ++i)
        for (int64_t member : isa<ShardOp>(op) ? std::vector{rank} : members)
          result.data[i] += given[member]->data[from + i];
    }
    EXPECT_EQ(result.size(), type.getNumElements());
    all.arrive_and_wait(); // what was given lives until all have read it
    return result;
  }

private:
  int64_t group;
  std::vector<const TensorValue *> given;
  std::barrier<> all;
};

class DistributeTest : public testing::TestWithParam<int> {
protected:
  DistributeTest() : random(GetParam()) {
    context.loadDialect<NanoDialect, arith::ArithDialect, math::MathDialect>();
    context.disableMultithreading();
  }

  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  }

  Case drawCase() {
    const int64_t every = std::max<int64_t>(1, draw(-1, 3));
    Case model{{},    24,           draw(0, 1) ? "zero2" : "allreduce", draw(0, 1) ? 0.5 : 0.0,
               every, 2 * every + 1};
    for (int64_t i = 0, count = draw(3, 9); i < count; ++i) {
      std::vector<int64_t> shape;
      const bool isMatrix = draw(0, 2) != 0;
      const auto &choice = isMatrix ? ofMatrices : elementwise;
      if (isMatrix)
        shape = draw(0, 1) ? std::vector<int64_t>{3, 5} : std::vector<int64_t>{6, 2};
      else
        shape = {draw(0, 1) ? 16 * draw(1, 6) : draw(1, 40), 4};
      if (isMatrix && draw(0, 1))
        shape.insert(shape.begin(), draw(2, 4));
      model.parameters.push_back(
          {"p" + std::to_string(i), shape, choice[draw(0, int64_t(choice.size()) - 1)]});
    }
    return model;
  }

  /// The steps on `world` ranks: the parameters and optimizer states by their names with one
  /// rank, which are checked to be equal on all ranks.
  void run(const Case &model, int64_t world, int64_t maxGroup, StateMap &result) {
    auto module = parseSourceString<ModuleOp>(moduleText(model), &context);
    ASSERT_TRUE(module);
    PassManager passes(&context);
    nano::DistributeOptions options;
    options.world = world;
    options.maxGroup = maxGroup;
    options.minShard = 64;
    passes.addPass(nano::createDistribute(options));
    nano::ExpandOptimizersOptions expand;
    expand.maxBatchElements = 30;
    passes.addPass(nano::createExpandOptimizers(expand));
    ASSERT_TRUE(succeeded(passes.run(*module)));

    const int64_t group = groupOf(*module);
    Exchange exchange(world, group);
    std::vector<StateMap> states(world);
    std::vector<std::thread> ranks;
    for (int64_t rank = 0; rank < world; ++rank)
      ranks.emplace_back(
          [&, rank] { runRank(*module, model, rank, world, exchange, states[rank]); });
    for (std::thread &thread : ranks)
      thread.join();
    if (HasFailure())
      return;
    for (auto state : module->getOps<StateOp>()) {
      const std::string name = state.getSymName().str();
      if (state.getRole() == Role::Gradient)
        continue;
      std::optional<Sharding> sharding = shardingOf(state);
      if (!sharding) {
        for (int64_t rank = 0; rank < world; ++rank)
          EXPECT_EQ(states[rank][name].data, states[0][name].data) << name << " of rank " << rank;
        result[name] = states[0][name];
        continue;
      }
      ASSERT_EQ(sharding->parts, group);
      const int64_t chunk = sharding->chunk, parts = sharding->parts;
      const int64_t elements = state.getTensorType().getNumElements();
      std::vector<double> whole(elements * parts);
      for (int64_t rank = 0; rank < world; ++rank)
        for (int64_t e = 0; e < elements; ++e) {
          double &element = whole[(e / chunk * parts + rank % parts) * chunk + e % chunk];
          const double mine = states[rank][name].data[e];
          EXPECT_TRUE(rank < group || element == mine) << name << " of rank " << rank;
          element = mine;
        }
      for (const Sharding::Piece &piece : sharding->pieces) {
        const auto *from = whole.data() + piece.offset;
        result[piece.name] = {std::vector<int64_t>(piece.shape.begin(), piece.shape.end()),
                              {from, from + ShapedType::getNumElements(piece.shape)}};
      }
    }
  }

private:
  void runRank(ModuleOp module, const Case &model, int64_t rank, int64_t world, Exchange &exchange,
               StateMap &states) {
    nano::test::Options options;
    options.exchange = [&](Operation *op, const TensorValue &x) { return exchange(rank, op, x); };
    std::mt19937_64 initial(7);
    for (const Parameter &p : model.parameters)
      states[p.name] = TensorValue::normal(RankedTensorType::get(p.shape, f32()), initial);
    nano::test::initializeStates(module, states, initial);
    const int64_t count = model.sequences / world;
    for (int64_t step = 0; step < model.steps; ++step) {
      const int64_t phase = step % phaseCount(module);
      for (auto scalar : module.getOps<ScalarOp>())
        states[scalar.getSymName().str()] =
            TensorValue{{},
                        {nano::test::evaluate(scalar, double(step), 100, double(model.sequences),
                                              double(world))}};
      for (int64_t micro = 0; micro < count; ++micro) {
        // Sequence j of the batch belongs to micro-batch ⌊j/world⌋ of rank j mod world.
        std::mt19937_64 drawn(step * model.sequences + micro * world + rank);
        SmallVector<TensorValue> gradients;
        for (const Parameter &p : model.parameters)
          gradients.push_back(TensorValue::normal(RankedTensorType::get(p.shape, f32()), drawn));
        ProgramOp program;
        if (micro == count - 1)
          program = functionFor(module, "last", phase);
        if (!program)
          program = functionFor(module, micro == 0 ? "first" : "next", phase);
        EXPECT_TRUE(succeeded(nano::test::interpret(program, gradients, states, options)));
      }
      EXPECT_TRUE(succeeded(
          nano::test::interpret(functionFor(module, "update", phase), {}, states, options)));
    }
  }

  static ProgramOp functionFor(ModuleOp module, StringRef role, int64_t phase) {
    for (auto function : module.getOps<ProgramOp>())
      if (auto of = function.getRoleAttr(); of == role && runsInPhase(function, phase))
        return function;
    return nullptr;
  }

  Type f32() { return Float32Type::get(&context); }

  MLIRContext context;
  std::mt19937_64 random;
};

/// Sums in another order: a few times 2⁻⁵² of numbers near 1, which Newton–Schulz multiplies by up
/// to 3.4 (8.2 once, of the Polar Express) in each of its steps and Adam's first steps by the
/// inverse of small gradients.
constexpr double tolerance = 1e-9;

TEST_P(DistributeTest, UpdatesAsOneRankDoes) {
  const Case model = drawCase();
  StateMap one;
  run(model, 1, 8, one);
  constexpr std::pair<int64_t, int64_t> topologies[] = {{2, 8}, {4, 8},  {8, 8},  {6, 8},
                                                        {8, 4}, {12, 3}, {24, 8}, {3, 2}};
  for (int drawn = 0; drawn < 3 && !HasFatalFailure(); ++drawn) {
    const auto [world, maxGroup] = topologies[draw(0, std::size(topologies) - 1)];
    SCOPED_TRACE(model.dist + ", " + std::to_string(world) + " ranks in groups of at most " +
                 std::to_string(maxGroup));
    StateMap several;
    run(model, world, maxGroup, several);
    ASSERT_EQ(several.size(), one.size());
    for (const auto &[name, value] : one) {
      ASSERT_TRUE(several.count(name)) << name;
      const TensorValue &other = several[name];
      ASSERT_EQ(other.shape, value.shape) << name;
      for (size_t i = 0; i < value.data.size(); ++i)
        ASSERT_NEAR(other.data[i], value.data[i], tolerance * (1 + std::abs(value.data[i])))
            << name << "[" << i << "]";
    }
  }
}

/// A step on every second step: the same as steps of twice the batch.
TEST_P(DistributeTest, TheMeanOverStepsIsThatOfALargerBatch) {
  Case model = drawCase();
  for (Parameter &parameter : model.parameters)
    if (llvm::is_contained(ofMatrices, parameter.optimizer))
      parameter.optimizer = "adam";
  model.every = 1;
  model.steps = 2;
  StateMap larger, smaller;
  run(model, 2, 8, larger);
  model.every = 2;
  model.steps = 4;
  model.sequences /= 2;
  run(model, 4, 2, smaller);
  for (const auto &[name, value] : larger)
    for (size_t i = 0; i < value.data.size(); ++i)
      ASSERT_NEAR(smaller[name].data[i], value.data[i], tolerance * (1 + std::abs(value.data[i])))
          << name << "[" << i << "]";
}

INSTANTIATE_TEST_SUITE_P(Random, DistributeTest, testing::Range(0, 40));

} // namespace
