// Gradients through rows that are taken from the heads that attention reads, against those through
// the rows themselves: both run through the interpreter, in exact arithmetic and rounded.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nano::graph;
using nano::test::Arithmetic;
using nano::test::StateMap;
using nano::test::TensorValue;

namespace {

const std::string rows = "tensor<32x2x8xbf16>", wide = "tensor<32x2x8xf32>",
                  table = "tensor<32x8xf32>", numbers = "tensor<32x2xf32>";

/// What is done to a product's rows before attention reads them, of 32 tokens and two heads of 8.
struct Heads {
  std::string name;
  std::string steps;          ///< n: normalised, t: turned
  bool isRounded = false;     ///< the tables of cosines and sines, to bf16
  std::string frequency = ""; ///< the numbers of a table of frequencies; none: they are computed
  bool areKept = true;        ///< whether rows are taken from heads
};
std::ostream &operator<<(std::ostream &os, const Heads &heads) { return os << heads.name; }

const std::string half = "1.0, 5.0e-01, 2.0e-01, 0.0";
const Heads all[] = {{"normalisedAndTurned", "nt"},
                     {"turnedAndNormalised", "tn"},
                     {"normalised", "n"},
                     {"turned", "t"},
                     {"twice", "ntnt"},
                     {"roundedTables", "nt", true},
                     {"tableOfFrequencies", "nt", true, half + ", " + half},
                     {"unequalHalves", "nt", false, half + ", 1.0, 5.0e-01, 2.0e-01, 1.0", false}};

std::string op(const std::string &result, const std::string &text) {
  return "%" + result + " = nano." + text + "\n";
}

std::string normalised(const std::string &x, const std::string &to) {
  return op(to + "f", "cast %" + x + " : " + rows + " -> " + wide) +
         op(to + "s", "mul %" + to + "f, %" + to + "f : " + wide) +
         op(to + "m", "reduce sum %" + to + "s dims [2] : " + wide + " -> " + numbers) +
         op(to + "a", "mul %" + to + "m, %eighth : " + numbers) +
         op(to + "e", "add %" + to + "a, %eps : " + numbers) +
         op(to + "r", "rsqrt %" + to + "e : " + numbers) +
         op(to + "b", "broadcast %" + to + "r dims [0, 1] : " + numbers + " -> " + wide) +
         op(to + "n", "mul %" + to + "f, %" + to + "b : " + wide) +
         op(to, "cast %" + to + "n : " + wide + " -> " + rows);
}
std::string turned(const std::string &x, const std::string &to) {
  return op(to + "f", "cast %" + x + " : " + rows + " -> " + wide) +
         op(to + "c", "mul %cosines, %" + to + "f : " + wide) +
         op(to + "t", "rotate %" + to + "f by 4 : " + wide) +
         op(to + "s", "mul %" + to + "t, %sines : " + wide) +
         op(to + "a", "add %" + to + "s, %" + to + "c : " + wide) +
         op(to, "cast %" + to + "a : " + wide + " -> " + rows);
}

std::string tables(const Heads &heads) {
  const std::string column = "tensor<8xi32>", columns = "tensor<8xf32>";
  std::string text = op("c", "iota 0 : " + column) + op("four", "constant 4.0 : " + column) +
                     op("cb", "broadcast %c dims [1] : " + column + " -> tensor<32x8xi32>") +
                     op("fb", "broadcast %four dims [1] : " + column + " -> tensor<32x8xi32>");
  text += heads.frequency.empty()
              ? op("up", "sub %c, %four : " + column) +
                    op("j", "select ge, %c, %four, %up, %c : " + column + ", " + column) +
                    op("jf", "cast %j : " + column + " -> " + columns) +
                    op("minus", "neg %jf : " + columns) + op("f", "exp %minus : " + columns)
              : op("f", "load @frequency : " + columns);
  text += op("t", "iota 0 : " + table) +
          op("fs", "broadcast %f dims [1] : " + columns + " -> " + table) +
          op("angle", "mul %fs, %t : " + table) + op("cos", "cos %angle : " + table) +
          op("sin", "sin %angle : " + table) + op("nsin", "neg %sin : " + table) +
          op("signed", "select lt, %cb, %fb, %nsin, %sin : tensor<32x8xi32>, " + table);
  for (const std::string of : {"cos", "signed"}) {
    const std::string all = of == "cos" ? "cosines" : "sines", narrow = "tensor<32x8xbf16>";
    if (heads.isRounded)
      text += op(of + "n", "cast %" + of + " : " + table + " -> " + narrow) +
              op(of + "w", "cast %" + of + "n : " + narrow + " -> " + table);
    text += op(all, "broadcast %" + of + (heads.isRounded ? "w" : "") + " dims [0, 2] : " + table +
                        " -> " + wide);
  }
  return text;
}

std::string moduleOf(const Heads &heads) {
  const auto weight = [](const std::string &name, const std::string &type) {
    return "nano.state @" + name + " : " + type +
           " {role = #nano.role<parameter>, init = #nano.init<\"normal\", [0.0, 5.0e-01]>, "
           "optimizer = @all}\n";
  };
  std::string text =
      "nano.scalar @lr : f32 {\n^bb0(%s: f64, %n: f64, %q: f64, %w: f64):\n  nano.yield %s : "
      "f64\n}\nnano.optimizer @all of \"all\" lr @lr {inits = array<f64>, kind = \"none\", "
      "states = []}\n" +
      weight("w1", "tensor<48x16xbf16>") + weight("w2", "tensor<16x16xbf16>");
  if (!heads.frequency.empty())
    text += "nano.state @frequency : tensor<8xf32> {role = #nano.role<constant>, init = "
            "#nano.init<\"data\", [] data dense<[" +
            heads.frequency + "]> : tensor<8xf32>>}\n";
  text += "nano.program @train(%x: tensor<32x16xbf16>) -> tensor<f32> attributes {role = "
          "\"train\"} {\n" +
          tables(heads) + op("eighth", "constant 1.25e-01 : " + numbers) +
          op("eps", "constant 1.0e-03 : " + numbers) + op("w1", "load @w1 : tensor<48x16xbf16>") +
          op("p", "matmul %x, %w1 {transpose_b} : (tensor<32x16xbf16>, tensor<48x16xbf16>) -> "
                  "tensor<32x48xbf16>") +
          op("h", "reshape %p : tensor<32x48xbf16> -> tensor<32x6x8xbf16>");
  const std::string names[] = {"q", "k", "v"};
  for (int part = 0; part < 3; ++part) {
    const std::string &name = names[part];
    const size_t steps = part < 2 ? heads.steps.size() : 0;
    std::string made = steps > 0 ? name + "_0" : name;
    text += op(made, "slice %h dim 1 at " + std::to_string(2 * part) +
                         " : tensor<32x6x8xbf16> -> " + rows);
    for (size_t i = 0; i < steps; ++i) {
      const std::string next = i + 1 == steps ? name : name + "_" + std::to_string(i + 1);
      text += heads.steps[i] == 'n' ? normalised(made, next) : turned(made, next);
      made = next;
    }
  }
  return text + op("first", "constant 0.0 : tensor<32xi32>") +
         op("last", "iota 0 : tensor<32xi32>") +
         "%y, %lse = nano.attention %q, %k, %v, %first, %last scale 5.0e-01 : (" + rows + ", " +
         rows + ", " + rows + ", tensor<32xi32>, tensor<32xi32>) -> (" + rows + ", " + numbers +
         ")\n" + op("m", "reshape %y : " + rows + " -> tensor<32x16xbf16>") +
         op("w2", "load @w2 : tensor<16x16xbf16>") +
         op("z", "matmul %m, %w2 {transpose_b} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> "
                 "tensor<32x16xbf16>") +
         op("f32", "cast %z : tensor<32x16xbf16> -> tensor<32x16xf32>") +
         op("square", "mul %f32, %f32 : tensor<32x16xf32>") +
         op("loss", "reduce sum %square dims [0, 1] : tensor<32x16xf32> -> tensor<f32>") +
         "nano.return %loss : tensor<f32>\n}\n";
}

class KeptHeadsTest : public testing::TestWithParam<Heads> {
protected:
  KeptHeadsTest() { context.loadDialect<NanoDialect>(); }

  OwningOpRef<ModuleOp> compile(bool keepsHeads) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(moduleOf(GetParam()), &context);
    EXPECT_TRUE(module) << moduleOf(GetParam());
    PassManager passes(&context);
    passes.addPass(nano::createDifferentiate());
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    if (keepsHeads)
      passes.addPass(nano::createRecompute());
    EXPECT_TRUE(module && succeeded(passes.run(*module)));
    return module;
  }
  static ProgramOp programOf(ModuleOp module) { return *module.getOps<ProgramOp>().begin(); }
  /// The gradients of both weights.
  static std::vector<double> run(ModuleOp module, Arithmetic arithmetic) {
    std::mt19937_64 random(5);
    StateMap states;
    nano::test::startStates(module, states, random);
    std::mt19937_64 ofX(7);
    const TensorValue x =
        TensorValue::normal(cast<ShapedType>(programOf(module).getArgumentTypes()[0]), ofX, 0, 1);
    nano::test::Options options;
    options.arithmetic = arithmetic;
    EXPECT_TRUE(succeeded(nano::test::interpret(programOf(module), {x}, states, options)));
    std::vector<double> gradients;
    for (const char *name : {"grad.w1", "grad.w2"})
      gradients.insert(gradients.end(), states[name].data.begin(), states[name].data.end());
    return gradients;
  }
  static double distance(const std::vector<double> &a, const std::vector<double> &b) {
    double differences = 0, squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      differences += (a[i] - b[i]) * (a[i] - b[i]);
      squares += b[i] * b[i];
    }
    return std::sqrt(differences / squares);
  }

  MLIRContext context;
};

TEST_P(KeptHeadsTest, SameGradients) {
  OwningOpRef<ModuleOp> plain = compile(false), kept = compile(true);
  ASSERT_TRUE(plain && kept);
  // Of a norm that is taken back: √a as a times its inverse.
  const auto roots = llvm::count_if(programOf(*kept).getOps<MulOp>(), [](MulOp mul) {
    auto inverse = mul.getRhs().getDefiningOp<RsqrtOp>();
    return inverse && inverse.getX() == mul.getLhs();
  });
  EXPECT_EQ(roots, GetParam().areKept ? 2 * llvm::count(GetParam().steps, 'n') : 0);

  const std::vector<double> exact = run(*plain, Arithmetic::exact);
  EXPECT_LE(distance(run(*kept, Arithmetic::exact), exact), 1e-12);
  // Rounded as a GPU rounds, both are as far from what is exact, but for a quarter.
  const double before = distance(run(*plain, Arithmetic::rounded), exact),
               after = distance(run(*kept, Arithmetic::rounded), exact);
  EXPECT_LE(after, 1.25 * before);
}

INSTANTIATE_TEST_SUITE_P(Rows, KeptHeadsTest, testing::ValuesIn(all),
                         testing::PrintToStringParamName());

} // namespace
