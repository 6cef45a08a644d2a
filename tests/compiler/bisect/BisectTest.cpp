// A fault planted in each stage is found at its pass, and shown by a few ops.
#include "codegen/cpu/CpuTarget.h"
#include "codegen/cpu/KernelLowering.h"
#include "compiler/bisect/Reduce.h"
#include "compiler/bisect/Search.h"
#include "tests/compiler/TraceErrors.h"
#include "tests/compiler/bisect/Faults.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace nano;
using namespace nano::bisect;
using nano::test::faults;

namespace {

/// A norm, attention, a product in 8 bits and a head; two micro-batches and clipped gradients.
void smallModel() {
  using namespace nano::frontend;
  constexpr int64_t T = 16, D = 16, V = 32;
  const auto group = adam("all", {.lr = 0.05, .weightDecay = 0.25});
  const Tensor table = param("table", {V, D}, f32, normal(0, 1), group);
  const Tensor scale = param("scale", {D}, f32, constant(1), group);
  const Tensor weight = param("weight", {3 * D, D}, f32, uniform(-1, 1), group);
  const Tensor head = param("head", {V, D}, f32, normal(0, 1), group);
  fp8Products(weight, {.recipe = Fp8::Current});
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor t = iota({tokens.size(0)});
    const Tensor x = norm(table[tokens]) * scale;
    auto [q, k, v] = split<3>(reshape(linear(x, weight), {T, 3, D}), 1);
    const Tensor y = attention(q, k, v, {.first = max(t - 4, 0.0), .last = t, .scale = 0.5});
    return crossEntropy(linear(x + reshape(y, {T, D}), head), targets);
  };
  training(
      {.vocabSize = V, .eosToken = 0, .globalBatch = 2 * T, .numIterations = 10, .gradClip = 1});
  train(T, Loss::sum, loss);
  validate(T, Loss::mean, loss);
}

class Bisect : public testing::Test {
protected:
  static void SetUpTestSuite() {
    static const bool once = [] {
      mlir::DialectRegistry registry;
      registerEverything(registry);
      test::registerFaultyPasses();
      return true;
    }();
    ASSERT_TRUE(once);
  }

  void SetUp() override {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    codegen::loadNativeDialects(context);
    module = std::move(frontend::traceModel(context, test::inputFor(smallModel)).module);
    pipeline.lowerKernels.lanes = codegen::CpuTarget::host()->lanes();
  }

  /// The first pass that is wrong of these stages; how each pass before was judged is in `seen`.
  std::optional<Finding> find(llvm::ArrayRef<nano::Stage> stages) {
    auto note = [&](const std::string &, const std::string &pass, const Verdict &verdict) {
      seen[pass] = verdict;
    };
    Result<std::optional<Finding>> found = findFirst(*module, stages, pipeline, settings, note);
    if (!found)
      ADD_FAILURE() << found.error().message;
    return found ? std::move(*found) : std::nullopt;
  }

  const test::Fault &faultOf(llvm::StringRef stage) {
    return *llvm::find_if(faults(), [&](const test::Fault &fault) { return fault.stage == stage; });
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PipelineOptions pipeline;
  Settings settings;
  std::map<std::string, Verdict> seen;
};

TEST_F(Bisect, FindsNothingWhereNothingIsWrong) {
  EXPECT_FALSE(find(stages()));
  // Every pass that changes the program has been judged, each in the way that fits.
  EXPECT_EQ(seen.at("nano-differentiate").how, "finite differences");
  EXPECT_EQ(seen.at("nano-scale-products").how, "interpreter in f64");
  EXPECT_EQ(seen.at("nano-expand-optimizers").how, "optimizers' equations");
  EXPECT_EQ(seen.at("nano-bufferize").how, "interpreter, rounded");
  EXPECT_EQ(seen.at("nano-plan-memory").how, "native kernels");
  for (const auto &[pass, verdict] : seen)
    EXPECT_GE(verdict.comparison.tensors, 2u) << pass; // two losses at least
}

TEST_F(Bisect, ThereIsAFaultForEachStage) {
  std::set<std::string> planted, all;
  for (const test::Fault &fault : faults())
    planted.insert(fault.stage);
  for (const nano::Stage &stage : stages())
    if (stage.addPasses)
      all.insert(stage.name.str());
  EXPECT_EQ(planted, all);
  EXPECT_EQ(faults().size(), 12u);
}

TEST_F(Bisect, FindsEveryFaultAtItsPass) {
  for (const test::Fault &fault : faults()) {
    SCOPED_TRACE(fault.stage);
    std::optional<Finding> found = find(test::stagesWith(fault));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->stage, fault.stage);
    EXPECT_EQ(found->pass, fault.name()) << found->why;
    EXPECT_NE(found->why, "");
  }
}

/// Makes what was found small, and looks at it as the test file does.
class Reduction : public Bisect,
                  public testing::WithParamInterface<std::pair<const char *, int>> {};

TEST_P(Reduction, AFewOpsShowIt) {
  const auto [stage, mostOps] = GetParam();
  const std::optional<Finding> found = find(test::stagesWith(faultOf(stage)));
  ASSERT_TRUE(found);
  mlir::OwningOpRef<mlir::ModuleOp> small = bisect::reduce(*found, settings, 200);
  std::string text;
  llvm::raw_string_ostream stream(text);
  small->print(stream);
  EXPECT_LE(opsOf(*small), mostOps) << text;
  EXPECT_LT(opsOf(*small), opsOf(*found->before));
  auto ignore = [](const std::string &, const std::string &, const Verdict &) {};
  const auto again = judgePass(*small, found->text, settings, ignore);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(*again);
}

INSTANTIATE_TEST_SUITE_P(Stages, Reduction,
                         testing::Values(std::pair("differentiate", 4), std::pair("fuse", 3),
                                         std::pair("buffers", 3)),
                         [](const auto &info) { return std::string(info.param.first); });

} // namespace
