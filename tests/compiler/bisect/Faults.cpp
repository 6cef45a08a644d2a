// Each fault changes the first place of its kind that the step's result depends on.
#include "tests/compiler/bisect/Faults.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ScaledOps.h"
#include "ir/step/Step.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <memory>
#include <utility>

using namespace mlir;

namespace nano::test {

namespace {

/// The first op of a kind in the program of that name that `accepts` it; null, as in programs that
/// are tried on the way to a small one, where there is none.
template <typename OpTy, typename Accepts>
OpTy firstOf(ModuleOp module, StringRef program, const Accepts &accepts) {
  OpTy found;
  if (Operation *inside = module.lookupSymbol(program))
    inside->walk([&](OpTy op) {
      if (!accepts(op))
        return WalkResult::advance();
      found = op;
      return WalkResult::interrupt();
    });
  return found;
}
template <typename OpTy> OpTy firstOf(ModuleOp module, StringRef program) {
  return firstOf<OpTy>(module, program, [](OpTy) { return true; });
}
/// Likewise the last.
template <typename OpTy, typename Accepts>
OpTy lastOf(ModuleOp module, StringRef program, const Accepts &accepts) {
  OpTy found;
  if (Operation *inside = module.lookupSymbol(program))
    inside->walk([&](OpTy op) {
      if (accepts(op))
        found = op;
    });
  return found;
}
template <typename OpTy> OpTy lastOf(ModuleOp module, StringRef program) {
  return lastOf<OpTy>(module, program, [](OpTy) { return true; });
}

/// a·b becomes a + b.
void addInsteadOf(graph::MulOp product) {
  if (!product)
    return;
  OpBuilder builder(product);
  product.getResult().replaceAllUsesWith(graph::GraphBuilder(builder, product.getLoc())
                                             .add(product.getOperand(0), product.getOperand(1)));
  product.erase();
}

void plantInModel(ModuleOp module) { addInsteadOf(firstOf<graph::MulOp>(module, "train")); }

/// One gradient is twice what it is.
void plantInDifferentiate(ModuleOp module) {
  auto accumulate = firstOf<graph::AccumulateOp>(module, "train");
  if (!accumulate)
    return;
  OpBuilder builder(accumulate);
  const Value gradient = accumulate.getValue();
  accumulate.getValueMutable().assign(
      graph::GraphBuilder(builder, accumulate.getLoc()).add(gradient, gradient));
}

/// A micro-batch's gradient takes the place of the sum.
void plantInAccumulate(ModuleOp module) {
  auto store = firstOf<graph::StoreOp>(module, "next", [](graph::StoreOp op) {
    return isa_and_nonnull<graph::AddOp>(op.getValue().getDefiningOp());
  });
  if (!store)
    return;
  auto sum = store.getValue().getDefiningOp<graph::AddOp>();
  const bool isLoadFirst = isa_and_nonnull<graph::LoadOp>(sum.getOperand(0).getDefiningOp());
  store.getValueMutable().assign(sum.getOperand(isLoadFirst ? 1 : 0));
}

void plantInFp8(ModuleOp module) {
  if (auto product = firstOf<graph::ScaledMatmulOp>(module, "first"))
    product.setAlpha(APFloat(2.0));
}

/// A gradient of the first micro-batch is not kept.
void plantInDistribute(ModuleOp module) {
  auto isGradient = [](graph::StoreOp op) { return op.getSymbol().starts_with("grad."); };
  if (auto store = firstOf<graph::StoreOp>(module, "first", isGradient))
    store.erase();
}

/// A parameter moves up the slope.
void plantInOptimize(ModuleOp module) {
  auto store = firstOf<graph::StoreOp>(module, "update", [](graph::StoreOp op) {
    return isa_and_nonnull<graph::SubOp>(op.getValue().getDefiningOp());
  });
  if (!store)
    return;
  auto difference = store.getValue().getDefiningOp<graph::SubOp>();
  OpBuilder builder(difference);
  store.getValueMutable().assign(graph::GraphBuilder(builder, difference.getLoc())
                                     .add(difference.getOperand(0), difference.getOperand(1)));
}

/// The last one: what it computes goes into a gradient, and is not the scale of an 8-bit operand,
/// which can be any.
void plantInFuse(ModuleOp module) {
  addInsteadOf(lastOf<graph::MulOp>(
      module, "first", [](graph::MulOp op) { return isa<graph::FusedOp>(op->getParentOp()); }));
}

/// A product forgets what it is added to.
void plantInBuffers(ModuleOp module) {
  auto hasAddend = [](step::MatmulOp op) { return op.getD() != nullptr && !op.getScaleA(); };
  if (auto product = firstOf<step::MatmulOp>(module, "last", hasAddend))
    product.getDMutable().clear();
}

/// In the kernel that `update` launches last, in the loop of whole vectors and behind it.
void plantInKernels(ModuleOp module) {
  auto launch = lastOf<step::LaunchOp>(module, "update");
  if (!launch)
    return;
  SmallVector<arith::MulFOp> products;
  step::KernelTable(module).find(launch.getKernelAttr().getAttr()).walk([&](arith::MulFOp op) {
    products.push_back(op);
  });
  for (arith::MulFOp product : products) {
    OpBuilder builder(product);
    product.replaceAllUsesWith(
        arith::AddFOp::create(builder, product.getLoc(), product.getLhs(), product.getRhs())
            .getResult());
    product.erase();
  }
}

/// A launch runs beside what it needs.
void plantInSchedule(ModuleOp module) {
  if (auto launch = lastOf<step::LaunchOp>(module, "update"))
    launch.setStream(1);
}

/// A buffer lies where a parameter does.
void plantInMemory(ModuleOp module) {
  auto isUsed = [](step::BufferOp op) { return !op->use_empty(); };
  auto buffer = firstOf<step::BufferOp>(module, "first", isUsed);
  auto parameters = module.getOps<graph::StateOp>();
  if (buffer && !parameters.empty())
    buffer.setOffsetAttr((*parameters.begin()).getOffsetAttr());
}

/// The last launch is gone.
void plantInVerify(ModuleOp module) {
  if (auto last = lastOf<step::LaunchOp>(module, "update"))
    last.erase();
}

constexpr Fault table[] = {
    {"model", "nano-verify-model", plantInModel},
    {"differentiate", "nano-differentiate", plantInDifferentiate},
    {"accumulate", "nano-split-accumulation", plantInAccumulate},
    {"fp8", "nano-scale-products", plantInFp8},
    {"distribute", "nano-distribute", plantInDistribute},
    {"optimize", "nano-expand-optimizers", plantInOptimize},
    {"fuse", "nano-fuse", plantInFuse},
    {"buffers", "nano-bufferize", plantInBuffers},
    {"kernels", "nano-lower-kernels", plantInKernels},
    {"schedule", "nano-schedule", plantInSchedule},
    {"memory", "nano-plan-memory", plantInMemory},
    {"verify", "nano-verify-races", plantInVerify},
};
constexpr size_t count = std::size(table);

/// What the passes that are replaced are called with, from when a pipeline has been built.
std::array<std::string, count> replaced;

class FaultyPass : public PassWrapper<FaultyPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FaultyPass)
  explicit FaultyPass(size_t fault) : fault(fault), name(table[fault].name()) {}
  StringRef getArgument() const override { return name; }
  StringRef getDescription() const override { return "a pass with a fault"; }
  void runOnOperation() override {
    OpPassManager real(ModuleOp::getOperationName());
    if (failed(parsePassPipeline(replaced[fault], real)) ||
        failed(runPipeline(real, getOperation())))
      return signalPassFailure();
    table[fault].plant(getOperation());
  }

private:
  size_t fault;
  std::string name;
};

template <size_t fault> void addPasses(OpPassManager &passes, const PipelineOptions &options) {
  OpPassManager sound(ModuleOp::getOperationName());
  findStage(table[fault].stage)->addPasses(sound, options);
  for (Pass &pass : sound.getPasses()) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    pass.printAsTextualPipeline(stream);
    const bool isIt = pass.getArgument() == table[fault].pass;
    if (isIt)
      replaced[fault] = text;
    if (isIt)
      passes.addPass(std::make_unique<FaultyPass>(fault));
    else if (failed(parsePassPipeline(text, passes)))
      llvm::report_fatal_error(llvm::Twine("no pass ") + text);
  }
}

template <size_t... fault> constexpr auto allAddPasses(std::index_sequence<fault...>) {
  return std::array{&addPasses<fault>...};
}

} // namespace

ArrayRef<Fault> faults() { return table; }

std::vector<nano::Stage> stagesWith(const Fault &fault) {
  static constexpr auto add = allAddPasses(std::make_index_sequence<count>());
  std::vector<nano::Stage> all = stages();
  for (nano::Stage &stage : all)
    if (stage.name == fault.stage)
      stage.addPasses = add[size_t(&fault - table)];
  return all;
}

void registerFaultyPasses() {
  for (size_t fault = 0; fault < count; ++fault)
    registerPass(
        [fault]() -> std::unique_ptr<Pass> { return std::make_unique<FaultyPass>(fault); });
}

} // namespace nano::test
