// nano-fuse-products: moves matrix products into the element-wise kernels that alone read them,
// where that is predicted to pay.
//
// The vendor library's product is faster than the device library's, whose epilogue is generated
// code; but what the library writes and the kernel reads again need not cross memory. Which of the
// two is less, the machine's rates say. It runs after nano-fuse, which makes the kernels, and
// before bufferization, for which product and kernel are one task.
#include "passes/Passes.h"
#include "passes/fuse/ProductForm.h"
#include "passes/fuse/Traffic.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Values.h"
#include "ir/machine/Machine.h"

#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_FUSEPRODUCTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Operations of one element: a special function counts as eight.
double flopsOf(Operation &op) {
  if (isa<ConstantOp, BroadcastOp, CastOp>(op))
    return 0;
  return isa<ExpOp, LogOp, SqrtOp, RsqrtOp, TanhOp, SigmoidOp, SinOp, CosOp, DivOp>(op) ? 8 : 1;
}

struct FuseProducts : nano::impl::FuseProductsBase<FuseProducts> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (products != "auto" && products != "fused" && products != "library") {
      emitError(module.getLoc()) << "nano-fuse-products: products=" << products.getValue()
                                 << ": there are auto, fused and library";
      return signalPassFailure();
    }
    llvm::Expected<machine::Machine> loaded = machine::load(machine);
    if (!loaded) {
      emitError(module.getLoc()) << "nano-fuse-products: " << llvm::toString(loaded.takeError());
      return signalPassFailure();
    }
    rates = std::move(*loaded);
    if (products == "library")
      return;
    for (auto function : module.getOps<func::FuncOp>()) {
      bool changed = false;
      for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
        if (auto fused = dyn_cast<FusedOp>(op))
          changed |= joinProduct(fused);
      if (changed)
        countAgain(function);
    }
  }

private:
  /// Moves one product into the kernel, the first that may be.
  bool joinProduct(FusedOp fused) {
    for (auto [input, argument] :
         llvm::zip_equal(fused.getInputs(), fused.getBody().getArguments())) {
      auto product = input.getDefiningOp<MatmulOp>();
      if (!product || !input.hasOneUse())
        continue;
      const std::string obstacle = obstacleTo(product, fused, argument);
      if (report)
        product.emitRemark() << (obstacle.empty() ? "computed by the kernel that reads it"
                                                  : "left to the library: " + obstacle);
      if (obstacle.empty()) {
        move(product, fused);
        return true;
      }
    }
    return false;
  }

  std::string obstacleTo(MatmulOp product, FusedOp fused, Value argument) {
    if (std::string text = productObstacle(product); !text.empty())
      return text;
    if (std::string text = epilogueObstacle(fused.getBody().front(), argument); !text.empty())
      return text;
    for (Value result : fused.getResults())
      for (Operation *user : result.getUsers())
        if (isa<TransposeOp>(user))
          return "a result of its kernel is needed transposed";
    return products == "fused" ? "" : lossOf(product, fused);
  }

  /// Why the product is faster by the library, or nothing.
  std::string lossOf(MatmulOp product, FusedOp fused) {
    const RankedTensorType type = tensorType(product.getResult());
    const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1),
                  inner = tensorType(product.getA()).getDimSize(1);
    if (rates.tiles(rows, columns, machine::ElementType::BF16) < rates.multiprocessors())
      return "it has fewer tiles than the machine has multiprocessors";
    const double written = double(bytesOf(product.getResult()));
    const double factors = double(bytesOf(product.getA()) + bytesOf(product.getB()));
    const double library =
        rates.product(rows, columns, inner, 1, machine::ElementType::BF16, factors + written);
    double flops = 0;
    for (Operation &op : fused.getBody().front().without_terminator())
      flops += flopsOf(op) * double(tensorType(op.getResult(0)).getNumElements());
    const double saved = rates.kernel(2 * written) + rates.command();
    const double lost = library / machine::generatedProductShare - library + rates.kernel(0, flops);
    return saved > lost ? "" : "that is predicted to be faster";
  }

  static void move(MatmulOp product, FusedOp fused) {
    Block &body = fused.getBody().front();
    llvm::SetVector<Value> inputs;
    for (Value input : fused.getInputs())
      if (input != product.getResult())
        inputs.insert(input);
    inputs.insert(product.getA());
    inputs.insert(product.getB());

    OpBuilder builder(fused);
    auto joined = FusedOp::create(builder, builder.getFusedLoc({product.getLoc(), fused.getLoc()}),
                                  fused.getResultTypes(), inputs.getArrayRef());
    joined->setDiscardableAttrs(fused->getDiscardableAttrDictionary());
    SmallVector<Location> locations;
    for (Value input : inputs)
      locations.push_back(input.getLoc());
    Block *block = builder.createBlock(&joined.getBody(), {},
                                       TypeRange(ValueRange(inputs.getArrayRef())), locations);
    auto argumentOf = [&](Value input) -> Value {
      return block->getArgument(llvm::find(inputs, input) - inputs.begin());
    };
    SmallVector<Value> values;
    SmallVector<Value> old(fused.getInputs());
    auto inside = cast<MatmulOp>(builder.clone(*product));
    inside.getAMutable().assign(argumentOf(product.getA()));
    inside.getBMutable().assign(argumentOf(product.getB()));
    for (Value input : old)
      values.push_back(input == product.getResult() ? inside.getResult() : argumentOf(input));
    for (auto [argument, value] : llvm::zip_equal(body.getArguments(), values))
      argument.replaceAllUsesWith(value);
    block->getOperations().splice(block->end(), body.getOperations());
    fused.replaceAllUsesWith(joined.getResults());
    fused.erase();
    product.erase();
  }

  /// The kernels and bytes that nano-fuse has counted.
  static void countAgain(func::FuncOp function) {
    auto counted = function->getAttrOfType<DictionaryAttr>("nano.traffic");
    if (!counted)
      return;
    Builder b(function.getContext());
    const Traffic now = measureTraffic(function);
    NamedAttrList entries(counted);
    entries.set("kernels", b.getI64IntegerAttr(now.kernels));
    entries.set("bytes", b.getI64IntegerAttr(now.bytes));
    entries.set("bytes_floor", b.getI64IntegerAttr(trafficFloor(function)));
    function->setAttr("nano.traffic", entries.getDictionary(function.getContext()));
  }

  machine::Machine rates;
};

} // namespace
