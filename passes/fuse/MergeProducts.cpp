// nano-merge-products: matrix products that share an operand become one.
//
//   %q = nano.matmul %x, %wq {transpose_b}          %w = nano.concat %wq, %wk dim 0
//   %k = nano.matmul %x, %wk {transpose_b}     ⇒    %p = nano.matmul %x, %w {transpose_b}
//                                                   %q = nano.slice %p … ; %k = nano.slice %p …
//
//   %a = nano.matmul %dq, %wq                  ⇒    %d = nano.concat %dq, %dk dim 1
//   %y = nano.matmul %dk, %wk add %a                %y = nano.matmul %d, %w
//
// A library reaches more of a GPU's speed on wide products than on narrow ones, reads %x once, and
// has one command to begin and end; a sum of products need not cross memory between them. Slices
// and concats are views, so that nothing is moved: what makes the parts writes them side by side.
// Where it cannot, or where a slice would keep memory that is needed, products stay apart.
//
// In 8 bits the parts of a product have one scale an operand: nano-scale-products gives weights
// that multiply one tensor, and their gradients, the same where it can. Their copies that lie
// transposed are put side by side likewise, by the kernel that makes both.
//
// Then the gradients of such weights become one (MergeGradients.h).
//
// It runs last on tensors, after nano-fuse-products, so that only what the library computes is
// merged, and kernels are final: they say what is written and read.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Traffic.h"
#include "ir/step/Step.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"
#include "passes/fuse/MergeGradients.h"
#include "passes/fuse/PlainProduct.h"
#include "passes/fuse/TensorLives.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

namespace nano {
#define GEN_PASS_DEF_MERGEPRODUCTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// What memory moves at least: rows that begin and end at multiples of it cost no byte more than
/// rows that lie one behind the other.
constexpr int64_t sectorBytes = 32;

/// True for a view of a part of another tensor.
bool showsPart(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value.getDefiningOp<SliceOp>();
}

/// True when everyone who reads `value` can read it with these strides: it is a part of wider rows.
bool takesStrides(Value value, ArrayRef<int64_t> strides) {
  const RankedTensorType type = tensorType(value);
  const auto memref = MemRefType::get(type.getShape(), type.getElementType(),
                                      StridedLayoutAttr::get(value.getContext(), 0, strides));
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto reshape = dyn_cast<ReshapeOp>(user)) {
      const auto shown =
          step::reshapeStrides(type.getShape(), strides, tensorType(reshape).getShape());
      return shown && takesStrides(reshape, *shown);
    }
    if (auto slice = dyn_cast<SliceOp>(user))
      return takesStrides(slice, strides);
    // A part of it is copied, or stays where it is; the whole is made where the concat is.
    if (isa<ConcatOp>(user))
      return showsPart(value);
    if (auto product = dyn_cast<MatmulOp>(user))
      return product.getAddend() != value && step::matrixLayout(memref).has_value();
    // Of 8 bits as a factor: the kernel that makes it writes what lies transposed beside it.
    if (auto product = dyn_cast<ScaledMatmulOp>(user))
      return use.getOperandNumber() < 2 && step::matrixLayout(memref).has_value();
    if (auto transpose = dyn_cast<TransposeOp>(user))
      return type.getElementTypeBitWidth() == 8 && !value.hasOneUse();
    if (auto fused = dyn_cast<FusedOp>(user))
      return llvm::none_of(fused.getBody().getArgument(use.getOperandNumber()).getUsers(),
                           llvm::IsaPred<GatherOp>);
    return isa<AttentionOp, AttentionGradOp>(user);
  });
}

/// True when what makes the matrix `value` can make it as columns of rows of `stride` elements, and
/// all that read it can find it there.
bool canBeColumns(Value value, int64_t stride) {
  SmallVector<int64_t> strides = {stride, 1};
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    auto source = step::reshapeStrides(tensorType(value).getShape(), strides,
                                       tensorType(reshape.getX()).getShape());
    if (!source)
      return false;
    strides = *source;
    value = reshape.getX();
  }
  return isa_and_present<FusedOp, AttentionOp, AttentionGradOp, ConcatOp>(value.getDefiningOp()) &&
         takesStrides(value, strides);
}

/// Whether `value` is there before an op, or can be: it is loaded, or made by one kernel of what
/// is.
bool canMoveBefore(Value value, Operation *before, bool byKernel = true) {
  Operation *op = value.getDefiningOp();
  if (!op || op->isBeforeInBlock(before))
    return true;
  if (auto load = dyn_cast<LoadOp>(op)) {
    for (Operation *between = before; between != op; between = between->getNextNode())
      if (auto store = dyn_cast<StoreOp>(between);
          store && store.getSymbolAttr() == load.getSymbolAttr())
        return false;
    return true;
  }
  const bool isKernel = isa<FusedOp>(op);
  return (isKernel ? byKernel : isa<ReshapeOp, SliceOp, TransposeOp, ConstantOp>(op)) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return canMoveBefore(operand, before, byKernel && !isKernel);
         });
}

void moveBefore(Value value, Operation *before) {
  Operation *op = value.getDefiningOp();
  if (!op || op->isBeforeInBlock(before))
    return;
  for (Value operand : op->getOperands())
    moveBefore(operand, before);
  op->moveBefore(before);
}

/// True for a matrix whose rows are whole sectors.
bool areWholeSectors(RankedTensorType matrix) {
  return matrix.getDimSize(1) * (matrix.getElementTypeBitWidth() / 8) % sectorBytes == 0;
}

/// Matrices that lie side by side along `dim`, in this order, and the tensor that holds them once
/// one is needed.
struct Bundle {
  SmallVector<Value> parts;
  int64_t dim = 0;
  ConcatOp whole;
};

/// Products that are added up, in order: each but the first has the one before as its addend.
using Products = SmallVector<PlainProduct>;

/// The dimension of B along which lie columns of the result, and that which is summed over.
int64_t columnDim(PlainProduct product) { return product.getTransposeB() ? 0 : 1; }
int64_t innerDim(PlainProduct product) { return product.getTransposeB() ? 1 : 0; }

/// Merges the products of one program.
class Merger {
public:
  Merger(ProgramOp function, const machine::Machine &rates, int64_t mostBytes, bool report)
      : block(function.getBody().front()), lives(block), rates(rates), mostBytes(mostBytes),
        report(report) {}

  /// Says whether it changed anything.
  bool run();

private:
  void gather();
  void bundle(ArrayRef<PlainProduct> products, int64_t dim);
  bool canBePart(Value weight, int64_t dim) const;
  SmallVector<PlainProduct> neighbours(ArrayRef<PlainProduct> products, int64_t dim) const;

  std::string obstacleToSlice(PlainProduct product, int64_t columns, Operation *first) const;
  std::string obstacleToTerm(PlainProduct product, int64_t inner) const;
  std::string lossOf(ArrayRef<PlainProduct> products, Operation *before, int64_t columns,
                     int64_t inner, bool adds) const;
  double secondsOf(PlainProduct like, int64_t columns, int64_t inner, bool adds) const;
  bool weightsFit(ArrayRef<PlainProduct> products, Operation *before) const;
  PlainProduct create(OpBuilder &builder, ArrayRef<PlainProduct> products, Value side,
                      Value weights);

  void mergeSharing(ArrayRef<PlainProduct> products);
  void mergeSum(const Products &sum);
  Value weightsOf(ArrayRef<PlainProduct> products, Operation *before);

  void explain(PlainProduct product, const Twine &text) const {
    if (report)
      emitDetail(product) << text;
  }

  Block &block;
  TensorLives lives;
  const machine::Machine &rates;
  const int64_t mostBytes;
  const bool report;
  /// Products by what they share: A, scales, whether B is transposed, and the result's element
  /// type.
  llvm::MapVector<std::tuple<Value, Value, Value, unsigned, Type>, SmallVector<PlainProduct>>
      sharing;
  SmallVector<Products> sums;
  SmallVector<Bundle> bundles;
  llvm::DenseMap<Value, std::pair<size_t, size_t>> places; ///< a weight's bundle, and where in it
  llvm::SetVector<Operation *> merged;
};

bool Merger::run() {
  gather();
  for (auto &[key, products] : sharing)
    bundle(products, columnDim(products.front()));
  for (const Products &sum : sums)
    bundle(sum, innerDim(sum.front()));
  for (auto &[key, products] : sharing)
    mergeSharing(products);
  for (const Products &sum : sums)
    mergeSum(sum);
  for (Operation *op : merged)
    op->dropAllReferences();
  for (Operation *op : merged)
    op->erase();
  return !merged.empty();
}

void Merger::gather() {
  llvm::DenseSet<Operation *> summed;
  for (Operation &op : llvm::reverse(block)) {
    Products sum;
    for (PlainProduct product = PlainProduct::of(&op); product && summed.insert(product).second;) {
      sum.push_back(product);
      PlainProduct next = product.getAddend()
                              ? PlainProduct::of(product.getAddend().getDefiningOp())
                              : PlainProduct();
      const bool goesOn = next && next->hasOneUse() && next.getType() == product.getType() &&
                          areAlike(next, product);
      product = goesOn ? next : PlainProduct();
    }
    if (sum.size() > 1)
      sums.push_back(Products(llvm::reverse(sum)));
  }
  std::reverse(sums.begin(), sums.end());
  for (Operation &op : block)
    if (PlainProduct product = PlainProduct::of(&op); product && !product.getAddend())
      sharing[{product.getA(), product.getScaleA(), product.getScaleB(), product.getTransposeB(),
               product.getType().getElementType()}]
          .push_back(product);
  sharing.remove_if([](auto &entry) { return entry.second.size() < 2; });
  // What is read last stands last in a bundle, so that all but it are neighbours.
  for (auto &[key, products] : sharing)
    llvm::stable_sort(products, [&](PlainProduct x, PlainProduct y) {
      return lives.of(x.getResult()).end < lives.of(y.getResult()).end;
    });
}

/// True for a matrix that a kernel makes, for products and kernels, and can make as a part of
/// another.
bool Merger::canBePart(Value weight, int64_t dim) const {
  const RankedTensorType type = tensorType(weight);
  // In 8 bits the kernel may write it transposed, beside a copy that lies as it is.
  auto transpose = weight.getDefiningOp<TransposeOp>();
  Operation *maker = transpose ? transpose.getX().getDefiningOp() : weight.getDefiningOp();
  if (transpose && (type.getElementTypeBitWidth() != 8 || transpose.getX().hasOneUse()))
    return false;
  return isa_and_present<FusedOp>(maker) &&
         llvm::all_of(weight.getUsers(),
                      llvm::IsaPred<MatmulOp, ScaledMatmulOp, FusedOp, TransposeOp>) &&
         (dim == 0 || (areWholeSectors(type) && takesStrides(weight, {2 * type.getDimSize(1), 1})));
}

/// Puts the weights of these products that can be parts, and are none yet, into a bundle.
void Merger::bundle(ArrayRef<PlainProduct> products, int64_t dim) {
  Bundle made{.parts = {}, .dim = dim, .whole = {}};
  for (PlainProduct product : products) {
    const Value weight = product.getB();
    if (!places.contains(weight) && canBePart(weight, dim)) {
      places[weight] = {bundles.size(), made.parts.size()};
      made.parts.push_back(weight);
    }
  }
  bundles.push_back(std::move(made));
}

/// The most of the products, in the order of their weights, whose weights are neighbours in a
/// bundle along `dim`.
SmallVector<PlainProduct> Merger::neighbours(ArrayRef<PlainProduct> products, int64_t dim) const {
  std::map<std::pair<size_t, size_t>, PlainProduct> byPlace;
  for (PlainProduct product : products)
    if (auto place = places.find(product.getB());
        place != places.end() && bundles[place->second.first].dim == dim)
      byPlace.try_emplace(place->second, product);
  SmallVector<PlainProduct> most, run;
  std::pair<size_t, size_t> next;
  for (auto [place, product] : byPlace) {
    if (place != next)
      run.clear();
    run.push_back(product);
    next = {place.first, place.second + 1};
    if (run.size() > most.size())
      most = run;
  }
  return most;
}

//===- What stands against it ---------------------------------------------------------------===//

/// Of a product like another, with so many columns and such an inner dimension, and its command.
double Merger::secondsOf(PlainProduct like, int64_t columns, int64_t inner, bool adds) const {
  const double rows = double(like.getType().getDimSize(0)), n = double(columns), k = double(inner);
  const double factorBytes = tensorType(like.getA()).getElementTypeBitWidth() / 8.0,
               resultBytes = like.getType().getElementTypeBitWidth() / 8.0;
  const double bytes = factorBytes * (rows * k + k * n) + resultBytes * rows * n * (adds ? 2 : 1);
  return rates.product(like.getType().getDimSize(0), columns, inner, 1, elementOf(like), bytes) +
         rates.command();
}

/// What is lost where the products are one of so many columns and such an inner dimension, whose
/// weights are there before an op: memory or time, or nothing.
std::string Merger::lossOf(ArrayRef<PlainProduct> products, Operation *before, int64_t columns,
                           int64_t inner, bool adds) const {
  if (!weightsFit(products, before))
    return "copies of weights would be held in memory for longer";
  double apart = 0;
  for (PlainProduct product : products)
    apart += secondsOf(product, columnsOf(product), innerOf(product), bool(product.getAddend()));
  return secondsOf(products.front(), columns, inner, adds) < apart
             ? ""
             : "that is predicted to be faster";
}

/// Why the product's result cannot be columns of one of so many, computed before `first`; or
/// nothing.
std::string Merger::obstacleToSlice(PlainProduct product, int64_t columns, Operation *first) const {
  if (!places.contains(product.getB()))
    return "its weight is not made by a kernel for products alone";
  if (!areWholeSectors(product.getType()))
    return "its rows are no multiple of 32 bytes";
  if (!takesStrides(product.getResult(), {columns, 1}))
    return "what reads it needs rows that lie one behind the other";
  if (!canMoveBefore(product.getB(), first))
    return "its weight is made after the first product";
  return "";
}

/// Why the product cannot be a part of a sum over so many elements, or nothing.
std::string Merger::obstacleToTerm(PlainProduct product, int64_t inner) const {
  if (!places.contains(product.getB()))
    return "its weight is not made by a kernel for products alone";
  if (!areWholeSectors(tensorType(product.getA())))
    return "rows of its left operand are no multiple of 32 bytes";
  if (!canBeColumns(product.getA(), inner))
    return "its left operand cannot be made as a part of wider rows";
  return "";
}

/// Whether all weights of the products' bundle can be there before an op, and memory has room for
/// it.
bool Merger::weightsFit(ArrayRef<PlainProduct> products, Operation *before) const {
  PlainProduct any = products.front();
  const Bundle &of = bundles[places.lookup(any.getB()).first];
  return lives.fit(of.parts, mostBytes) &&
         llvm::all_of(of.parts, [&](Value part) { return canMoveBefore(part, before); });
}

//===- Merging ------------------------------------------------------------------------------===//

/// The weights of products that are neighbours, side by side, for an op that `before` stands
/// behind.
Value Merger::weightsOf(ArrayRef<PlainProduct> products, Operation *before) {
  PlainProduct like = products.front();
  auto [number, first] = places.lookup(like.getB());
  Bundle &of = bundles[number];
  auto joined = [&](ArrayRef<Value> parts) {
    SmallVector<int64_t> shape(tensorType(parts.front()).getShape());
    shape[of.dim] = 0;
    for (Value part : parts)
      shape[of.dim] += tensorType(part).getDimSize(of.dim);
    return tensorType(parts.front()).clone(shape);
  };
  for (Value part : of.parts)
    moveBefore(part, before);
  OpBuilder builder(before);
  if (!of.whole) {
    lives.join(of.parts);
    of.whole =
        ConcatOp::create(builder, of.parts.front().getLoc(), joined(of.parts), of.parts, of.dim);
  }
  moveBefore(of.whole, before);
  if (products.size() == of.parts.size())
    return of.whole;
  int64_t start = 0;
  for (Value part : ArrayRef(of.parts).take_front(first))
    start += tensorType(part).getDimSize(of.dim);
  const ArrayRef<Value> taken = ArrayRef(of.parts).slice(first, products.size());
  return SliceOp::create(builder, of.whole.getLoc(), joined(taken), of.whole, of.dim, start);
}

/// The product in place of others, of all that they have on a side, without an addend.
PlainProduct Merger::create(OpBuilder &builder, ArrayRef<PlainProduct> products, Value side,
                            Value weights) {
  SmallVector<Location> lines;
  for (PlainProduct product : products)
    lines.push_back(product.getLoc());
  PlainProduct like = products.front();
  const RankedTensorType type = like.getType();
  const int64_t columns = tensorType(weights).getDimSize(columnDim(like));
  return like.withOperands(builder, builder.getFusedLoc(lines),
                           type.clone({type.getDimSize(0), columns}), side, weights);
}

void Merger::mergeSharing(ArrayRef<PlainProduct> products) {
  const int64_t columns = sumOf(products, columnsOf);
  Operation *first = products.front();
  for (PlainProduct product : products)
    if (product->isBeforeInBlock(first))
      first = product;
  SmallVector<PlainProduct> able;
  for (PlainProduct product : products)
    if (std::string text = obstacleToSlice(product, columns, first); text.empty())
      able.push_back(product);
    else
      explain(product, "apart from others of the same operand: " + text);

  SmallVector<PlainProduct> taken = neighbours(able, columnDim(products.front()));
  SmallVector<Value> results;
  for (PlainProduct product : taken)
    results.push_back(product.getResult());
  for (; taken.size() > 1; taken.pop_back(), results.pop_back()) {
    const std::string obstacle =
        !lives.fit(results, mostBytes)
            ? "the others would be held in memory as long as it is"
            : lossOf(taken, first, sumOf(taken, columnsOf), innerOf(taken.front()), /*adds=*/false);
    if (obstacle.empty())
      break;
    explain(taken.back(), "apart from others of the same operand: " + obstacle);
  }
  if (taken.size() < 2)
    return;

  lives.join(results);
  const Value weights = weightsOf(taken, first);
  OpBuilder builder(first);
  PlainProduct all = create(builder, taken, taken.front().getA(), weights);
  int64_t start = 0;
  for (PlainProduct product : taken) {
    auto part =
        SliceOp::create(builder, product.getLoc(), product.getType(), all.getResult(), 1, start);
    product.getResult().replaceAllUsesWith(part);
    start += columnsOf(product);
    explain(product, "one product with others of the same operand");
    merged.insert(product);
  }
}

void Merger::mergeSum(const Products &sum) {
  if (llvm::any_of(sum, [&](PlainProduct product) { return merged.contains(product); }))
    return;
  const int64_t inner = sumOf(sum, innerOf);
  SmallVector<PlainProduct> able;
  llvm::DenseSet<Value> factors;
  for (PlainProduct product : sum) {
    std::string text = obstacleToTerm(product, inner);
    if (text.empty() && !factors.insert(product.getA()).second)
      text = "its left operand is that of another";
    if (text.empty())
      able.push_back(product);
    else
      explain(product, "apart from others of the same sum: " + text);
  }
  const SmallVector<PlainProduct> taken = neighbours(able, innerDim(sum.front()));
  if (taken.size() < 2)
    return;
  SmallVector<Value> parts;
  for (PlainProduct product : taken)
    parts.push_back(product.getA());
  PlainProduct begin = sum.front(), last = sum.back();
  const bool adds = begin.getAddend() || taken.size() < sum.size();
  const std::string obstacle =
      !lives.fit(parts, mostBytes)
          ? "left operands would be held in memory for longer"
          : lossOf(taken, last, columnsOf(last), sumOf(taken, innerOf), adds);
  if (!obstacle.empty())
    return explain(last, "apart from others of the same sum: " + obstacle);

  // The others add up first.
  Value addend = begin.getAddend();
  for (PlainProduct product : sum) {
    if (llvm::is_contained(taken, product)) {
      explain(product, "one product with others of the same sum");
      continue;
    }
    product.setAddend(addend);
    addend = product.getResult();
  }
  lives.join(parts);
  const Value weights = weightsOf(taken, last);
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  const RankedTensorType type = tensorType(parts.front());
  const Value side =
      ConcatOp::create(builder, parts.front().getLoc(),
                       type.clone({type.getDimSize(0), sumOf(taken, innerOf)}), parts, 1);
  PlainProduct all = create(builder, taken, side, weights);
  last.getResult().replaceAllUsesWith(all.getResult());
  if (addend)
    all.setAddend(addend);
  merged.insert(taken.begin(), taken.end());
}

struct MergeProducts : nano::impl::MergeProductsBase<MergeProducts> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::Expected<machine::Machine> rates = machine::load(machine);
    if (!rates) {
      emitError(module.getLoc()) << "nano-merge-products: " << llvm::toString(rates.takeError());
      return signalPassFailure();
    }
    int64_t mostBytes = 0;
    for (auto function : module.getOps<ProgramOp>())
      if (!function.isExternal())
        mostBytes = std::max(mostBytes, TensorLives(function.getBody().front()).most());
    for (auto function : module.getOps<ProgramOp>())
      if (!function.isExternal() && Merger(function, *rates, mostBytes, report).run())
        nano::countTrafficAgain(function);
    if (mergeGradients(module, *rates, report))
      for (auto function : module.getOps<ProgramOp>())
        if (!function.isExternal())
          nano::countTrafficAgain(function);
  }
};

} // namespace
