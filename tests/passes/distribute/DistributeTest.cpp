// nano-distribute and nano-expand-optimizers, run through the interpreter on several ranks: the
// same parameters and optimizer states as with one rank, on random parameters and numbers of ranks.
#include "ir/graph/Phases.h"
#include "ir/graph/Sharding.h"
#include "passes/Passes.h"
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

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  bool isMuon;
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
  int64_t adamEvery;
  int64_t steps;
};

/// A model whose programs take the parameters' gradients as arguments.
std::string moduleText(const Case &model) {
  std::string text =
      "module attributes {nano.training = {seq_len = 1 : i64, global_batch = " +
      std::to_string(model.sequences) + " : i64, dist = \"" + model.dist +
      "\", adam_every = " + std::to_string(model.adamEvery) +
      " : i64, grad_clip = " + std::to_string(model.clip) +
      " : f64}} {\nnano.scalar @lr : f32 {\n^bb0(%s: f64, %n: f64, %q: f64, %w: f64):\n"
      "nano.yield %s : f64\n}\nnano.adam @adam lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, "
      "weight_decay = 0.125}\nnano.muon @muon lr @lr momentum @lr {steps = 5, coefficients = "
      "array<f64: 3.4445, -4.7750, 2.0315>, compute_type = f32}\n";
  std::string arguments, first, next;
  for (const Parameter &p : model.parameters) {
    text += "nano.state @" + p.name + " : " + p.type() +
            " {role = #nano.role<parameter>, init = #nano.init<\"normal\", [0.0, 1.0]>, optimizer "
            "= @" +
            (p.isMuon ? "muon" : "adam") + "}\nnano.state @grad." + p.name + " : " + p.type() +
            " {role = #nano.role<gradient>, init = #nano.init<\"constant\", [0.0]>}\n";
    arguments += (arguments.empty() ? "%" : ", %") + p.name + ": " + p.type();
    first += "nano.store %" + p.name + ", @grad." + p.name + " : " + p.type() + "\n";
    next += "%" + p.name + "_a = nano.load @grad." + p.name + " : " + p.type() + "\n%" + p.name +
            "_s = nano.add %" + p.name + "_a, %" + p.name + " : " + p.type() + "\nnano.store %" +
            p.name + "_s, @grad." + p.name + " : " + p.type() + "\n";
  }
  auto function = [&](const std::string &name, const std::string &body) {
    text += "func.func @" + name + "(" + arguments + ") attributes {nano.role = \"" + name +
            "\"} {\n" + body + "return\n}\n";
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
    context.loadDialect<NanoDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  }

  Case drawCase() {
    const int64_t adamEvery = std::max<int64_t>(1, draw(-1, 3));
    Case model{{},
               24,
               draw(0, 1) ? "zero2" : "allreduce",
               draw(0, 1) ? 0.5 : 0.0,
               adamEvery,
               2 * adamEvery + 1};
    for (int64_t i = 0, count = draw(3, 9); i < count; ++i) {
      std::vector<int64_t> shape;
      const bool isMuon = draw(0, 2) != 0;
      if (isMuon)
        shape = draw(0, 1) ? std::vector<int64_t>{3, 5} : std::vector<int64_t>{6, 2};
      else
        shape = {draw(0, 1) ? 16 * draw(1, 6) : draw(1, 40), 4};
      if (isMuon && draw(0, 1))
        shape.insert(shape.begin(), draw(2, 4));
      model.parameters.push_back({"p" + std::to_string(i), shape, isMuon});
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

    const int64_t group = (*module)->getAttrOfType<IntegerAttr>(groupAttrName).getInt();
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
      const int64_t phase = step % model.adamEvery, adamStep = step / model.adamEvery;
      for (auto scalar : module.getOps<ScalarOp>()) {
        const StringRef name = scalar.getSymName();
        const double value = name == "lr"              ? 0.5 / double(adamStep + 2)
                             : name == gradScaleSymbol ? 1.0 / double(model.sequences)
                                                       : 1.0 + 1.0 / double(adamStep + 1);
        states[name.str()] = TensorValue{{}, {value}};
      }
      for (int64_t micro = 0; micro < count; ++micro) {
        // Sequence j of the batch belongs to micro-batch ⌊j/world⌋ of rank j mod world.
        std::mt19937_64 drawn(step * model.sequences + micro * world + rank);
        SmallVector<TensorValue> gradients;
        for (const Parameter &p : model.parameters)
          gradients.push_back(TensorValue::normal(RankedTensorType::get(p.shape, f32()), drawn));
        func::FuncOp program;
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

  static func::FuncOp functionFor(ModuleOp module, StringRef role, int64_t phase) {
    for (auto function : module.getOps<func::FuncOp>())
      if (auto of = function->getAttrOfType<StringAttr>(roleAttrName);
          of == role && runsInPhase(function, phase))
        return function;
    return nullptr;
  }

  Type f32() { return Float32Type::get(&context); }

  MLIRContext context;
  std::mt19937_64 random;
};

/// Sums in another order: a few times 2⁻⁵² of numbers near 1, which Newton–Schulz multiplies by up
/// to 3.4 in each of its steps and Adam's first steps by the inverse of small gradients.
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

/// Adam on every second step: the same as steps of twice the batch.
TEST_P(DistributeTest, AdamsMeanOverStepsIsThatOfALargerBatch) {
  Case model = drawCase();
  for (Parameter &parameter : model.parameters)
    parameter.isMuon = false;
  model.adamEvery = 1;
  model.steps = 2;
  StateMap larger, smaller;
  run(model, 2, 8, larger);
  model.adamEvery = 2;
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
