// nano-fuse-products: moves matrix products into the element-wise kernels that read them first,
// where that is predicted to pay.
//
// The vendor library's product is faster than the device library's, whose epilogue is generated
// code; but what the library writes and the kernel reads again need not cross memory. Which of the
// two is less, the machine's rates say. A kernel that sums rows or columns is cut for that
// (SplitRowSums.h, SplitColumnSums.h, SplitRowMaxima.h). What others read of the product, behind
// the kernel, this writes besides. A product that reads what a kernel writes transposed besides can
// turn it itself, likewise where that pays. It runs after nano-fuse, which makes the kernels, and
// before bufferization, for which product and kernel are one task.
#include "ir/graph/ProductForm.h"
#include "ir/graph/Traffic.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"
#include "passes/fuse/SplitColumnSums.h"
#include "passes/fuse/SplitRowMaxima.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
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

/// What a kernel reads and writes, and computes: operations, and those of them that units of their
/// own do, exponentials, reciprocals and roots.
struct Work {
  double bytes = 0, flops = 0, specials = 0;
};

/// Of one element, as the device library computes it. Two lanes share a sigmoid's reciprocal, but
/// in epilogues without sums of rows, which take longer than their special functions either way;
/// the logarithm, sine and cosine are polynomials.
Work workOfElement(Operation &op) {
  if (isa<ConstantOp, BroadcastOp, CastOp, ReshapeOp, IotaOp>(op))
    return {};
  if (auto div = dyn_cast<DivOp>(op); div && !div.getRhs().getDefiningOp<ConstantOp>())
    return {0, 2, 1};
  if (const std::optional<FunctionTraits> function = traitsOf(&op))
    return {0, function->flops, function->specials};
  if (isa<NormalOp>(op))
    return {0, 24, 1.5};
  return {0, isa<PhiloxOp>(op) ? 100.0 : 1.0, 0};
}

/// Bytes of a result; twice where it is needed transposed too.
double writtenBytes(Value result) {
  const auto isTranspose = llvm::IsaPred<TransposeOp>;
  const bool isMixed =
      llvm::any_of(result.getUsers(), isTranspose) && !llvm::all_of(result.getUsers(), isTranspose);
  return double(bytesOf(result)) * (isMixed ? 2 : 1);
}

/// Of a kernel that writes so many bytes; a product that it begins with counts by its operands.
Work workOf(FusedOp fused, double written) {
  Work work{written};
  for (auto [i, input] : llvm::enumerate(fused.getInputs()))
    if (!nano::readsOneColumn(fused, i))
      work.bytes += double(bytesOf(input));
  Block &body = fused.getBody().front();
  const llvm::DenseSet<Operation *> ofOneColumn = nano::opsOfOneColumn(body);
  for (Operation &op : body.without_terminator())
    if (!ofOneColumn.contains(&op)) {
      const Value counted = isa<ReduceOp>(op) ? op.getOperand(0) : op.getResult(0);
      const double elements = double(tensorType(counted).getNumElements());
      const Work ofElement = workOfElement(op);
      work.flops += ofElement.flops * elements;
      work.specials += ofElement.specials * elements;
    }
  return work;
}

/// Columns of a row that a block gathers at most, where it writes whole rows transposed: 32 bytes
/// of each column within 100 KiB of shared memory. And that its threads hold at most in registers.
constexpr int64_t mostGatheredColumns = 100 * 1024 / 32, mostHeldColumns = 1 << 14;

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
    for (auto function : module.getOps<ProgramOp>()) {
      bool changed = false;
      for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
        if (auto fused = dyn_cast<FusedOp>(op))
          changed |= joinPair(fused) || joinProduct(fused);
        else if (auto product = dyn_cast<ScaledMatmulOp>(op))
          changed |= turnFactor(product);
      if (changed)
        nano::countTrafficAgain(function);
    }
  }

private:
  /// Moves two products of the same A into the kernel, the first that may be. Where others read
  /// them too, the kernel writes them besides.
  bool joinPair(FusedOp fused) {
    llvm::SmallSetVector<Value, 4> inputs(llvm::from_range, fused.getInputs());
    for (auto first = inputs.begin(); first != inputs.end(); ++first)
      for (auto second = std::next(first); second != inputs.end(); ++second) {
        const std::optional<Product> one = productOf(first->getDefiningOp()),
                                     other = productOf(second->getDefiningOp());
        if (!one || !other || !pairObstacle(*one, *other).empty())
          continue;
        const Product pair[] = {*one, *other};
        RowSumParts parts;
        const std::string obstacle = obstacleToPair(pair, fused, parts);
        if (report)
          for (const Product &product : pair)
            emitDetail(product.op)
                << (obstacle.empty()
                        ? "computed by the kernel that reads it and another of the "
                          "same operand"
                        : "apart from the other one that its kernel reads: " + obstacle);
        if (!obstacle.empty()) {
          parts.erase();
          continue;
        }
        move(pair, replaced(fused, parts));
        return true;
      }
    return false;
  }

  std::string obstacleToPair(ArrayRef<Product> pair, FusedOp fused, RowSumParts &parts) const {
    for (const Product &product : pair)
      if (std::string text = productObstacle(product.op); !text.empty())
        return text;
    const auto argumentOf = [&](const Product &product, FusedOp kernel) {
      return kernel.getBody().getArgument(llvm::find(kernel.getInputs(), product.result) -
                                          kernel.getInputs().begin());
    };
    for (const Product &product : pair)
      if (std::string text = obstacleToOthers(product, fused); !text.empty())
        return text;
    FusedOp ending = fused;
    if (hasReductions(fused) && hasRowMaxima(fused)) {
      if (std::string text = splitRowMaxima(fused, argumentOf(pair[0], fused), parts);
          !text.empty())
        return text;
      ending = parts.sums;
    }
    if (std::string text = reductionsObstacle(pair[0], ending.getBody().front()); !text.empty())
      return text;
    if (std::string text = epilogueObstacle(ending.getBody().front(), argumentOf(pair[0], ending),
                                            argumentOf(pair[1], ending));
        !text.empty())
      return text;
    if (std::string text = obstacleToTurned(pair.front(), fused); !text.empty())
      return text;
    return products == "fused" ? "" : lossOfPair(pair, fused, parts);
  }

  /// Why the kernel does not write the product for others that read it.
  static std::string obstacleToOthers(const Product &product, FusedOp fused) {
    for (Operation *user : product.result.getUsers())
      if (fused->getBlock()->findAncestorOpInBlock(*user)->isBeforeInBlock(fused))
        return "others read it before";
    return isReadTransposed(product.result) ? "it is needed transposed" : "";
  }

  /// True when others than the kernel and its parts read the product.
  static bool isReadBesides(const Product &product, FusedOp fused, const RowSumParts &parts) {
    return llvm::any_of(product.result.getUsers(), [&](Operation *user) {
      return user != fused && user != parts.sums && user != parts.rows && user != parts.elements;
    });
  }

  /// Moves one product into the kernel, the first that may be. Where others read it too, the kernel
  /// writes it besides.
  bool joinProduct(FusedOp fused) {
    for (auto [input, argument] :
         llvm::zip_equal(fused.getInputs(), fused.getBody().getArguments())) {
      const std::optional<Product> product = productOf(input.getDefiningOp());
      if (!product)
        continue;
      RowSumParts parts;
      const std::string obstacle = obstacleTo(*product, fused, argument, parts);
      if (report)
        emitDetail(product->op)
            << (!obstacle.empty() ? "left to the library: " + obstacle
                : parts.maxima ? "computed by a kernel that sums its columns and finds its largest"
                : parts.ofColumns ? "computed by a kernel that sums its columns"
                : parts.ofBlocks  ? "computed by a kernel that finds its largest"
                : parts.sums      ? "computed by a kernel that sums its rows"
                                  : "computed by the kernel that reads it");
      if (!obstacle.empty()) {
        parts.erase();
        continue;
      }
      move({*product}, replaced(fused, parts));
      return true;
    }
    return false;
  }

  /// The kernel that is to begin with a product: the first of the parts, where there are some,
  /// which then take the whole one's place.
  static FusedOp replaced(FusedOp fused, const RowSumParts &parts) {
    if (!parts.sums)
      return fused;
    if (parts.ofBlocks)
      readBlockMaxima(fused, parts);
    fused.replaceAllUsesWith(parts.results);
    fused.erase();
    return parts.sums;
  }

  /// Why the product is left to the library, or nothing. `parts` are made when the kernel has to be
  /// cut for it.
  std::string obstacleTo(const Product &product, FusedOp fused, Value argument,
                         RowSumParts &parts) {
    if (std::string text = productObstacle(product.op); !text.empty())
      return text;
    if (std::string text = obstacleToOthers(product, fused); !text.empty())
      return text;
    if (hasReductions(fused)) {
      const auto split = hasColumnSums(fused)  ? splitColumnSums
                         : hasRowMaxima(fused) ? splitRowMaxima
                                               : splitRowSums;
      if (std::string text = split(fused, argument, parts); !text.empty())
        return text;
      if (std::string text = reductionsObstacle(product, parts.sums.getBody().front());
          !text.empty())
        return text;
      if (parts.ofRows() && isReadBesides(product, fused, parts))
        return "others read it, and threads that sum rows have no registers to write it";
      if (parts.ofColumns || parts.ofBlocks)
        if (std::string text = obstacleToTurned(product, fused); !text.empty())
          return text;
      return products == "fused" ? "" : lossOf(product, fused, parts);
    }
    if (std::string text = epilogueObstacle(fused.getBody().front(), argument); !text.empty())
      return text;
    if (std::string text = obstacleToTurned(product, fused); !text.empty())
      return text;
    return products == "fused" ? "" : lossOf(product, fused, parts);
  }

  /// Why the kernel that begins with the product does not write its results transposed where they
  /// are needed so, or nothing.
  static std::string obstacleToTurned(const Product &product, FusedOp fused) {
    SmallVector<Value> turned;
    llvm::copy_if(fused.getResults(), std::back_inserter(turned), isReadTransposed);
    return turningObstacle(product, turned);
  }

  /// Lets a product turn its first factor, which the kernel that makes it would write transposed
  /// besides, and be a kernel of its own that ends with the addend.
  bool turnFactor(ScaledMatmulOp op) {
    const Value rows = op.getTransposeA() ? Value() : turnedBesides(op.getA());
    if (!rows)
      return false;
    OpBuilder builder(op);
    auto turned = cast<ScaledMatmulOp>(builder.clone(*op));
    turned.getAMutable().assign(rows);
    turned.setTransposeA(true);
    turned.getAddendMutable().clear();
    const Product product = *productOf(turned);
    const std::string obstacle = obstacleToTurning(product, op);
    if (report)
      emitDetail(op) << (obstacle.empty() ? "computed by a kernel that turns its first operand"
                                          : "left to the library: " + obstacle);
    if (!obstacle.empty()) {
      turned.erase();
      return false;
    }
    SmallVector<Value> inputs = {product.result};
    if (op.getAddend())
      inputs.push_back(op.getAddend());
    auto fused = FusedOp::create(builder, op.getLoc(), op->getResultTypes(), inputs);
    Block *body = builder.createBlock(&fused.getBody(), {}, TypeRange(ValueRange(inputs)),
                                      SmallVector<Location>(inputs.size(), op.getLoc()));
    Value result = body->getArgument(0);
    if (op.getAddend())
      result = AddOp::create(builder, op.getLoc(), result, body->getArgument(1));
    YieldOp::create(builder, op.getLoc(), result);
    op.replaceAllUsesWith(fused.getResult(0));
    SmallVector<Operation *> unread{op.getA().getDefiningOp()};
    op.erase();
    while (!unread.empty())
      if (Operation *last = unread.pop_back_val(); last->use_empty()) {
        for (Value operand : last->getOperands())
          if (operand.getDefiningOp<TransposeOp>())
            unread.push_back(operand.getDefiningOp());
        last->erase();
      }
    move({product}, fused);
    return true;
  }

  /// What others read besides, of a kernel's result whose transpose `factor` is, or of parts that
  /// are made so and concatenated; nothing where `factor` is none of these.
  static Value turnedBesides(Value factor) {
    auto turned = [](Value part) {
      auto transpose = part.getDefiningOp<TransposeOp>();
      return transpose && transpose->hasOneUse() && !transpose.getX().hasOneUse() &&
                     transpose.getX().getDefiningOp<FusedOp>()
                 ? transpose.getX()
                 : Value();
    };
    auto concat = factor.getDefiningOp<ConcatOp>();
    if (!concat)
      return turned(factor);
    if (!concat->hasOneUse() || concat.getType().getRank() != 2 || concat.getDim() != 1)
      return {};
    SmallVector<Value> parts = llvm::map_to_vector(concat.getInputs(), turned);
    if (!parts.front())
      return {};
    for (Operation *user : parts.front().getUsers())
      if (auto rows = dyn_cast<ConcatOp>(user); rows && rows.getDim() == 0 &&
                                                llvm::equal(rows.getInputs(), parts) &&
                                                rows->isBeforeInBlock(*concat->user_begin()))
        return rows;
    return {};
  }

  /// Why `product`, which is to take the place of `op`, is left to the library, or nothing.
  std::string obstacleToTurning(const Product &product, ScaledMatmulOp op) const {
    if (std::string text = productObstacle(product.op); !text.empty())
      return text;
    if (op.getAddend() && !op.getBeta().isExactlyValue(1.0))
      return "it adds a part of its addend";
    if (isReadTransposed(op.getResult()))
      return "its result is needed transposed";
    return products == "fused" ? "" : lossOfTurning(product, op.getAddend());
  }

  /// Why the product is faster by the library, from a transposed copy, or nothing. Either way it
  /// takes as long as the longer of its multiplications and its bytes; but the library may cut sums
  /// into parts, where else few multiprocessors have a tile in the last round: 326 and 192 us for
  /// 4800 × 1600 × 16384, 330 and 251 us for 6400 × 1600 × 16384, in steps on an H100, for 20 and
  /// 34 us that its copy takes the kernel that writes it.
  std::string lossOfTurning(const Product &product, Value addend) const {
    const RankedTensorType type = tensorType(product.result);
    const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1), inner = product.inner();
    if (std::string text = tilesObstacle(product); !text.empty())
      return text;
    const double copied = double(bytesOf(product.a));
    const double bytes =
        copied + double(bytesOf(product.b)) + double(bytesOf(product.result)) * (addend ? 2 : 1);
    const machine::ElementType f8 = machine::ElementType::F8;
    const double apart = rates.product(rows, columns, inner, 1, f8, bytes) + rates.kernel(copied);
    const double together =
        std::max(rates.wholeProduct(rows, columns, inner, f8) / machine::wideProductShare,
                 rates.kernel(bytes));
    return together < apart ? "" : "that is predicted to be faster";
  }

  static machine::ElementType elementOf(const Product &product) {
    return product.isScaled() ? machine::ElementType::F8 : machine::ElementType::BF16;
  }
  std::string tilesObstacle(const Product &product) const {
    const RankedTensorType type = tensorType(product.result);
    return tilesObstacle(type.getDimSize(0), type.getDimSize(1), elementOf(product));
  }
  std::string tilesObstacle(int64_t rows, int64_t columns, machine::ElementType element) const {
    return rates.tiles(rows, columns, element) < rates.multiprocessors()
               ? "it has fewer tiles than the machine has multiprocessors"
               : "";
  }

  static bool isReadTransposed(Value result) {
    return llvm::any_of(result.getUsers(), llvm::IsaPred<TransposeOp>);
  }

  /// The longest of bytes, operations and special functions, which go on at the same time.
  double running(const Work &work) const {
    return std::max(rates.kernel(work.bytes, work.flops),
                    rates.kernel(0, work.specials, machine::Arithmetic::Special));
  }
  double seconds(const Work &work) const { return running(work) + rates.command(); }

  static Work workOf(FusedOp fused) {
    double written = 0;
    for (Value result : fused.getResults())
      written += writtenBytes(result);
    return ::workOf(fused, written);
  }

  /// Of a part of a kernel, which still is in its place.
  static Work workOf(FusedOp part, FusedOp fused, const RowSumParts &parts) {
    double written = 0;
    for (Value result : part.getResults()) {
      const auto *found = llvm::find(parts.results, result);
      written += found == parts.results.end()
                     ? double(bytesOf(result))
                     : writtenBytes(fused.getResult(found - parts.results.begin()));
    }
    return ::workOf(part, written);
  }

  /// Seconds of the kernel as it is. While rows of some blocks are added up, others' elements are
  /// computed from them; but a row that is too long for that is walked twice by a block which has
  /// room for little else, so that the longer of bytes and operations counts on either way. Where
  /// elements that need sums of their row lie transposed, and rows are too long to be gathered, the
  /// second way is another kernel's, which reads the product again.
  double secondsOf(FusedOp fused, const Product &product, const RowSumParts &parts) const {
    const int64_t columns = tensorType(product.result).getDimSize(1);
    const bool isTransposed = llvm::any_of(fused.getResults(), isReadTransposed);
    if (!parts.elements || columns <= (isTransposed ? mostGatheredColumns : mostHeldColumns))
      return seconds(workOf(fused));
    const Work sums = ::workOf(parts.sums, /*written=*/0);
    Work elements = workOf(parts.elements, fused, parts);
    if (isTransposed)
      return seconds(sums) + seconds(elements);
    elements.bytes -= double(bytesOf(product.result));
    return seconds(sums) + running(elements);
  }

  /// Why the product is faster by the library, or nothing.
  ///
  /// The kernel that begins with a product multiplies one tile while it ends the one before,
  /// element by element. So it takes as long as the longest of these: the product by the device
  /// library, whose sums are not cut, at its share of the vendor library's speed, and where the
  /// same warps end it their waiting for other matrices (machine::epilogueMemoryCost); the
  /// operations on elements; those of them that are special functions; and what it reads and
  /// writes. Only where the product is f32 or a gradient it ends a tile before the next; and the
  /// few warps that end a gradient's have nothing else to do while special functions come: 409 us
  /// of 49152 × 3072 × 768 with relu²'s gradient, 464 of 32768 × 2816 × 1024 with SwiGLU's and 534
  /// of 16384 × 6400 × 1600 with GELU's, in steps on an H200, which this predicts within 10%. Apart
  /// from each other the library's product and the kernel each take as long as the longer of their
  /// operations and bytes; they write and read the product once more, and are one command more. A
  /// kernel that is cut at sums of rows counts as its parts.
  std::string lossOf(const Product &product, FusedOp fused, const RowSumParts &parts) {
    const RankedTensorType type = tensorType(product.result);
    const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1), inner = product.inner();
    const machine::ElementType element = elementOf(product);
    if (std::string text = tilesObstacle(product); !text.empty())
      return text;

    const double written = double(bytesOf(product.result));
    const double factors = double(bytesOf(product.a) + bytesOf(product.b));
    const double apart = rates.product(rows, columns, inner, 1, element, factors + written) +
                         rates.command() + secondsOf(fused, product, parts);
    double together = rates.command();
    Work epilogue = workOf(fused);
    if (parts.sums) {
      epilogue = workOf(parts.sums, fused, parts);
      for (FusedOp part : {parts.rows, parts.maxima, parts.elements})
        if (part)
          together += seconds(workOf(part, fused, parts));
    }
    // It reads the factors instead of the product, and writes that for others.
    const double kept = isReadBesides(product, fused, parts) ? written : 0;
    epilogue.bytes += factors + kept - written;
    const double multiplying = rates.wholeProduct(rows, columns, inner, element),
                 ending = running(epilogue);
    if (product.isGradient())
      together += multiplying / machine::wideProductShare +
                  rates.kernel(epilogue.bytes, epilogue.flops) +
                  rates.kernel(0, epilogue.specials, machine::Arithmetic::Special);
    else if (type.getElementType().isF32())
      together += multiplying / machine::wideProductShare + ending;
    else if (parts.ofRows())
      together += std::max(multiplying / machine::summingProductShare, ending);
    else
      together += std::max(multiplying / machine::generatedProductShare +
                               machine::epilogueMemoryCost *
                                   rates.kernel(std::max(epilogue.bytes - factors - written, 0.0)),
                           ending);
    return together < apart ? "" : "that is predicted to be faster";
  }

  /// Likewise of two products, which the library would compute as one of as many columns: the
  /// kernel reads neither, and writes those that others read. With SwiGLU and both kept 584 us, and
  /// 530 and 186 apart, for 32768 × 1024 × (2 · 2816) on an H100.
  std::string lossOfPair(ArrayRef<Product> pair, FusedOp fused, const RowSumParts &parts) const {
    const Product &product = pair.front();
    const RankedTensorType type = tensorType(product.result);
    const int64_t rows = type.getDimSize(0), columns = 2 * type.getDimSize(1),
                  inner = product.inner();
    const machine::ElementType element = elementOf(product);
    if (std::string text = tilesObstacle(rows, columns, element); !text.empty())
      return text;
    const double factors = double(bytesOf(product.a) + 2 * bytesOf(product.b));
    double results = 0, kept = 0;
    for (const Product &each : pair) {
      results += double(bytesOf(each.result));
      kept += isReadBesides(each, fused, parts) ? double(bytesOf(each.result)) : 0;
    }
    const double apart = rates.product(rows, columns, inner, 1, element, factors + results) +
                         rates.command() + seconds(workOf(fused));
    Work ending = parts.sums ? workOf(parts.sums, fused, parts) : workOf(fused);
    ending.bytes += factors + kept - results;
    const double multiplying = rates.wholeProduct(rows, columns, inner, element),
                 others = std::max(ending.bytes - factors - results, 0.0);
    const double together = rates.command() +
                            std::max(multiplying / machine::generatedProductShare +
                                         machine::epilogueMemoryCost * rates.kernel(others),
                                     running(ending)) +
                            (parts.rows ? seconds(workOf(parts.rows, fused, parts)) : 0);
    return together < apart ? "" : "that is predicted to be faster";
  }

  /// Puts the products in front of the kernel's body, and their operands behind the kernel's; those
  /// that others read besides are results behind its own.
  static void move(ArrayRef<Product> products, FusedOp fused) {
    Block &body = fused.getBody().front();
    const auto isProduct = [&](Value value) {
      return llvm::any_of(products, [&](const Product &each) { return each.result == value; });
    };
    llvm::SetVector<Value> inputs;
    for (Value input : fused.getInputs())
      if (!isProduct(input))
        inputs.insert(input);
    SmallVector<Location> lines;
    SmallVector<Type> types(fused.getResultTypes());
    SmallVector<Value> kept;
    for (const Product &product : products) {
      inputs.insert(product.op->operand_begin(), product.op->operand_end());
      lines.push_back(product.op->getLoc());
      if (!product.result.hasOneUse())
        kept.push_back(product.result);
    }
    lines.push_back(fused.getLoc());
    llvm::append_range(types, ValueRange(kept).getTypes());

    OpBuilder builder(fused);
    auto joined = FusedOp::create(builder, builder.getFusedLoc(lines), types, inputs.getArrayRef());
    joined->setDiscardableAttrs(fused->getDiscardableAttrDictionary());
    SmallVector<Location> locations;
    for (Value input : inputs)
      locations.push_back(input.getLoc());
    Block *block = builder.createBlock(&joined.getBody(), {},
                                       TypeRange(ValueRange(inputs.getArrayRef())), locations);
    auto argumentOf = [&](Value input) -> Value {
      return block->getArgument(llvm::find(inputs, input) - inputs.begin());
    };
    IRMapping inside;
    for (const Product &product : products) {
      Operation *copy = builder.clone(*product.op);
      // Whose product it is, not what it computes: layers share kernels.
      copy->setDiscardableAttrs(builder.getDictionaryAttr({}));
      if (auto scaled = dyn_cast<ScaledMatmulOp>(copy))
        scaled.removeLayerAttr();
      for (OpOperand &operand : copy->getOpOperands())
        operand.set(argumentOf(operand.get()));
      inside.map(product.result, copy->getResult(0));
    }
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), fused.getInputs()))
      argument.replaceAllUsesWith(isProduct(input) ? inside.lookup(input) : argumentOf(input));
    block->getOperations().splice(block->end(), body.getOperations());
    for (Value result : kept)
      block->getTerminator()->insertOperands(block->getTerminator()->getNumOperands(),
                                             inside.lookup(result));
    const size_t own = fused.getNumResults();
    fused.replaceAllUsesWith(joined.getResults().take_front(own));
    fused.erase();
    for (auto [result, again] : llvm::zip_equal(kept, joined.getResults().drop_front(own)))
      result.replaceAllUsesWith(again);
    for (const Product &product : products)
      product.op->erase();
  }

  machine::Machine rates;
};

} // namespace
