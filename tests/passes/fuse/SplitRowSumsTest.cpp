// Kernels that sum the rows of a matrix product, cut so that the product's epilogue can begin the
// sums, against the same kernels as they were: both run through the interpreter.
#include "ir/graph/ProductForm.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;
using nano::test::Arithmetic;
using nano::test::StateMap;
using nano::test::TensorValue;

namespace {

constexpr int64_t rows = 40, columns = 384, inner = 32;

/// A kernel of the product %p, bf16 [rows, columns], of one target a row %t and a number a column
/// %c. In its text P, W and R stand for the types of the product, of as many f32 and of an f32 a
/// row.
struct Kernel {
  std::string name;
  std::string factors; ///< their elements' type
  std::string ops;
  std::vector<std::string> results, types;
  /// Kernels that it is cut into.
  int64_t kernels = 3;
};

std::ostream &operator<<(std::ostream &os, const Kernel &kernel) { return os << kernel.name; }

const std::string widen = "%f = nano.cast %p : P -> W\n";
const std::string softcapLoss = widen + R"(%scale = nano.constant 3.0 : W
%cap = nano.constant 30.0 : W
%q = nano.div %f, %scale : W
%g = nano.sigmoid %q : W
%x = nano.mul %g, %cap : W
%y = nano.sub %x, %cap : W
%e = nano.exp %y : W
%sum = nano.reduce sum %e dims [1] : W -> R
%log = nano.log %sum : R
%i = nano.iota 1 : I
%tb = nano.broadcast %t dims [0] : T -> I
%zero = nano.constant 0.0 : W
%s = nano.select eq, %i, %tb, %x, %zero : I, W
%pick = nano.reduce sum %s dims [1] : W -> R
%loss = nano.sub %log, %pick : R
)";
const std::string softcapGradient = softcapLoss + R"(%one = nano.constant 1.0 : R
%d = nano.div %one, %sum : R
%db = nano.broadcast %d dims [0] : R -> W
%h = nano.mul %e, %db : W
%minus = nano.constant -1.0 : W
%k = nano.add %h, %minus : W
%w = nano.select eq, %i, %tb, %k, %h : I, W
)";

const Kernel kernels[] = {
    {"loss", "bf16", softcapLoss, {"%loss"}, {"R"}, 2},
    {"loss_of_8_bits", "f8E4M3FN", softcapLoss, {"%loss"}, {"R"}, 2},
    {"gradient",
     "bf16",
     softcapGradient + "%o = nano.cast %w : W -> P\n",
     {"%loss", "%o"},
     {"R", "P"}},
    {"gradient_of_8_bits",
     "f8E4M3FN",
     softcapGradient + "%o = nano.cast %w : W -> F\n",
     {"%o", "%loss"},
     {"F", "R"}},
    // A layer norm's two moments, so that one of two numbers of a row is a difference.
    {"moments",
     "bf16",
     widen + R"(%m = nano.reduce sum %f dims [1] : W -> R
%f2 = nano.mul %f, %f : W
%v = nano.reduce sum %f2 dims [1] : W -> R
%n = nano.constant 384.0 : R
%mean = nano.div %m, %n : R
%square = nano.div %v, %n : R
%mean2 = nano.mul %mean, %mean : R
%var = nano.sub %square, %mean2 : R
%r = nano.rsqrt %var : R
%mb = nano.broadcast %mean dims [0] : R -> W
%rb = nano.broadcast %r dims [0] : R -> W
%cb = nano.broadcast %c dims [1] : C -> W
%centred = nano.sub %f, %mb : W
%scaled = nano.mul %centred, %rb : W
%o = nano.mul %scaled, %cb : W
)",
     {"%o", "%var"},
     {"W", "R"}},
    // A whole result at the product's end, the product as another, and a picked number that
    // elements need.
    {"beside",
     "bf16",
     widen + R"(%z = nano.constant 0.0 : W
%relu = nano.max %f, %z : W
%s = nano.reduce sum %relu dims [1] : W -> R
%i = nano.iota 1 : I
%tb = nano.broadcast %t dims [0] : T -> I
%w = nano.select eq, %i, %tb, %f, %z : I, W
%pick = nano.reduce sum %w dims [1] : W -> R
%pb = nano.broadcast %pick dims [0] : R -> W
%o = nano.sub %f, %pb : W
%both = nano.add %s, %pick : R
)",
     {"%relu", "%both", "%p", "%o"},
     {"W", "R", "P", "W"}},
};

std::string sized(const std::string &sizes, const std::string &type) {
  return "tensor<" + sizes + (sizes.empty() ? "" : "x") + type + ">";
}

std::string programOf(const Kernel &kernel) {
  const std::string r = std::to_string(rows), c = std::to_string(columns),
                    k = std::to_string(inner);
  const std::map<char, std::string> types = {
      {'P', sized(r + "x" + c, "bf16")},
      {'W', sized(r + "x" + c, "f32")},
      {'I', sized(r + "x" + c, "i32")},
      {'F', sized(r + "x" + c, "f8E5M2")},
      {'R', sized(r, "f32")},
      {'T', sized(r, "i32")},
      {'C', sized(c, "f32")},
  };
  std::string body;
  for (char letter : kernel.ops) {
    auto type = types.find(letter);
    body += type == types.end() ? std::string(1, letter) : type->second;
  }
  std::string results, resultTypes, outside;
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    const std::string comma = i ? ", " : "";
    results += comma + kernel.results[i];
    resultTypes += comma + types.at(kernel.types[i][0]);
    outside += comma + "%y" + (kernel.results.size() > 1 ? "#" + std::to_string(i) : "");
  }
  const std::string a = sized(r + "x" + k, kernel.factors), b = sized(c + "x" + k, kernel.factors),
                    number = sized("", "f32"), p = types.at('P'), t = types.at('T'),
                    column = types.at('C');
  const bool isScaled = kernel.factors != "bf16";
  return "nano.program @run(%a: " + a + ", %b: " + b + ", %sa: " + number + ", %sb: " + number +
         ", %targets: " + t + ", %numbers: " + column + ") -> (" + resultTypes +
         ") {\n%product = " +
         (isScaled ? "nano.scaled_matmul %a, %b scales(%sa, %sb) {transpose_b} : (" + a + ", " + b +
                         ", " + number + ", " + number + ")"
                   : "nano.matmul %a, %b {transpose_b} : (" + a + ", " + b + ")") +
         " -> " + p + "\n%y" +
         (kernel.results.size() > 1 ? ":" + std::to_string(kernel.results.size()) : "") +
         " = nano.fused(%product, %targets, %numbers) : (" + p + ", " + t + ", " + column +
         ") -> (" + resultTypes + ") {\n^bb0(%p: " + p + ", %t: " + t + ", %c: " + column + "):\n" +
         body + "nano.yield " + results + " : " + resultTypes + "\n}\nnano.return " + outside +
         " : " + resultTypes + "\n}\n";
}

/// How far results may lie from each other when every op rounds. A sum of f32 is rounded once as a
/// whole, or as three parts and as a whole, and what follows rounds its difference on, times about
/// ten at the ends of a softcap: some 2⁻²³. A narrow result may be the neighbour: a step.
double roundedTolerance(Type element) {
  if (element.isF32())
    return 3e-6;
  return element.isBF16() ? 0x1p-7 : 0x1p-2;
}

class SplitRowSumsTest : public testing::TestWithParam<Kernel> {
protected:
  SplitRowSumsTest() { context.loadDialect<NanoDialect>(); }

  OwningOpRef<ModuleOp> compile(const std::string &products) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(programOf(GetParam()), &context);
    EXPECT_TRUE(module) << programOf(GetParam());
    if (!module)
      return {};
    PassManager passes(&context);
    nano::FuseProductsOptions options;
    options.products = products;
    passes.addPass(nano::createFuseProducts(options));
    EXPECT_TRUE(succeeded(passes.run(*module)));
    return module;
  }

  static ProgramOp runOf(ModuleOp module) { return *module.getOps<ProgramOp>().begin(); }

  static SmallVector<TensorValue> run(ModuleOp module, Arithmetic arithmetic) {
    std::mt19937_64 random(11);
    std::vector<TensorValue> arguments;
    for (Type argument : runOf(module).getArgumentTypes()) {
      auto type = cast<ShapedType>(argument);
      const bool isScale = type.getRank() == 0;
      arguments.push_back(
          type.getElementType().isInteger(32)
              ? TensorValue::integers(type, random, 0, columns)
              : TensorValue::normal(type, random, isScale ? 1 : 0.1, isScale ? 0.1 : 1));
      for (double &element : arguments.back().data)
        element = nano::test::roundTo(element, type.getElementType());
    }
    StateMap states;
    nano::test::Options options;
    options.arithmetic = arithmetic;
    auto results = nano::test::interpret(runOf(module), arguments, states, options);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? *results : SmallVector<TensorValue>();
  }

  void compare(Arithmetic arithmetic, llvm::function_ref<double(Type)> tolerance) {
    OwningOpRef<ModuleOp> whole = compile("library"), cut = compile("fused");
    ASSERT_TRUE(whole && cut);
    const SmallVector<TensorValue> want = run(*whole, arithmetic), have = run(*cut, arithmetic);
    ASSERT_EQ(want.size(), GetParam().results.size());
    ASSERT_EQ(have.size(), want.size());
    for (size_t result = 0; result < want.size(); ++result) {
      const Type element =
          cast<ShapedType>(runOf(*whole).getResultTypes()[result]).getElementType();
      ASSERT_EQ(have[result].shape, want[result].shape);
      double largest = 0;
      for (double value : want[result].data)
        largest = std::max(largest, std::abs(value));
      ASSERT_GT(largest, 0);
      for (size_t i = 0; i < want[result].data.size(); ++i)
        ASSERT_NEAR(have[result].data[i], want[result].data[i], tolerance(element) * largest)
            << "result " << result << "[" << i << "]";
    }
  }

  MLIRContext context;
};

TEST_P(SplitRowSumsTest, BeginsWithTheProduct) {
  OwningOpRef<ModuleOp> module = compile("fused");
  ASSERT_TRUE(module);
  int64_t count = 0;
  for (FusedOp fused : runOf(*module).getOps<FusedOp>()) {
    Block &body = fused.getBody().front();
    EXPECT_EQ(nano::productOf(body).has_value(), count == 0);
    EXPECT_EQ(llvm::any_of(body.getTerminator()->getOperands(),
                           [](Value value) { return bool(nano::partialSumsOf(value)); }),
              count == 0);
    ++count;
  }
  EXPECT_EQ(count, GetParam().kernels);
}

// In double precision only the order of sums differs.
TEST_P(SplitRowSumsTest, SameInExactArithmetic) {
  compare(Arithmetic::exact, [](Type) { return 1e-12; });
}

TEST_P(SplitRowSumsTest, CloseWhenEveryOpRounds) { compare(Arithmetic::rounded, roundedTolerance); }

INSTANTIATE_TEST_SUITE_P(Kernels, SplitRowSumsTest, testing::ValuesIn(kernels),
                         testing::PrintToStringParamName());

} // namespace
