// Scales, 8-bit copies and scaled products within one function.
#include "passes/fp8/Scaling.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace nano::fp8 {

//===- Numbers -----------------------------------------------------------------===//

Value amaxOf(OpBuilder &builder, Location location, Value x) {
  GraphBuilder g(builder, location);
  Value largest = g.abs(g.toF32(x));
  for (int64_t rank = tensorType(x).getRank(); rank > 0; --rank)
    largest = g.reduce(Combiner::max, largest, {rank - 1});
  return largest;
}

Value scaleOf(OpBuilder &builder, Location location, Value amax, Type format, double margin,
              Value otherwise) {
  GraphBuilder g(builder, location);
  Value scale = g.mul(amax, std::exp2(margin) / largestOf(format));
  Value least = g.constant(0x1p-120, amax.getType());
  return g.select(Predicate::gt, scale, least, scale, otherwise);
}

namespace {

constexpr int64_t blockSize = ScaledMatmulOp::blockSize;

/// The largest |x| of every block of `sizes`, f32; each size divides x's.
Value blockAmax(OpBuilder &builder, Location location, Value x, ArrayRef<int64_t> sizes) {
  GraphBuilder g(builder, location);
  SmallVector<int64_t> blocks, split, dims;
  for (auto [whole, size] : llvm::zip_equal(tensorType(x).getShape(), sizes))
    blocks.push_back(whole / size);
  GraphBuilder::splitBlocks(tensorType(x).getShape(), blocks, split, dims);
  // Split first, as quantize is: both are then one kernel over rows of a block's elements.
  Value largest = g.abs(g.toF32(g.reshape(x, split)));
  // One dimension at a time, the last first.
  for (auto dim = static_cast<int64_t>(split.size()) - 1; dim >= 0; --dim)
    if (!llvm::is_contained(dims, dim))
      largest = g.reduce(Combiner::max, largest, {dim});
  return largest;
}

Value blockScale(OpBuilder &builder, Location location, Value x, ArrayRef<int64_t> sizes,
                 Type format, double margin) {
  Value amax = blockAmax(builder, location, x, sizes);
  Value one = GraphBuilder(builder, location).constant(1, amax.getType());
  return scaleOf(builder, location, amax, format, margin, one);
}

/// The scale of a whole tensor by its own largest magnitude.
Value currentScale(OpBuilder &builder, Location location, Value x, Type format, double margin) {
  Value one = GraphBuilder(builder, location).scalar(1);
  return scaleOf(builder, location, amaxOf(builder, location, x), format, margin, one);
}

StringRef letterOf(Operand operand) {
  static constexpr StringLiteral letters[] = {"x", "w", "g"};
  return letters[static_cast<size_t>(operand)];
}

/// The dimension of operand `index` that the product sums over.
int64_t innerDimension(MatmulOp op, unsigned index) {
  return index == 0 ? (op.getTransposeA() ? 0 : 1) : (op.getTransposeB() ? 1 : 0);
}

} // namespace

std::string quantizedSymbol(StringRef weight) { return ("fp8." + weight).str(); }
std::string quantizedScaleSymbol(StringRef weight) { return ("fp8." + weight + ".scale").str(); }
std::string amaxSymbol(StringRef weight, Operand operand) {
  return ("fp8." + weight + ".amax_" + letterOf(operand)).str();
}
std::string scaleSymbol(StringRef weight, Operand operand) {
  return (weight + ".fp8_scale_" + letterOf(operand)).str();
}
std::string historySymbol(StringRef weight, Operand operand) {
  return (weight + ".fp8_amax_" + letterOf(operand)).str();
}

std::string obstacle(const Product &product, Recipe recipe, bool kMajor) {
  MatmulOp op = product.op;
  RankedTensorType result = tensorType(op);
  const int64_t inner = tensorType(op.getA()).getDimSize(innerDimension(op, 0)),
                columns = result.getDimSize(1);
  auto text = [&](StringRef what, int64_t size, int64_t unit) {
    return (what + " of " + Twine(size) + " is not a multiple of " + Twine(unit)).str();
  };
  const bool blocks = recipe == Recipe::Block;
  if (inner % (blocks ? blockSize : 16) != 0)
    return text("its inner dimension", inner, blocks ? blockSize : 16);
  if (blocks && product.part != Part::WeightGradient && columns % blockSize != 0)
    return text("its result's row", columns, blockSize);
  if (columns % 16 != 0)
    return text("its result's row", columns, 16);
  if (blocks && kMajor && result.getDimSize(0) % gpuRowUnit != 0)
    return text("its result's column", result.getDimSize(0), gpuRowUnit);
  return {};
}

//===- Weights -----------------------------------------------------------------===//

Scaled quantizeWeight(OpBuilder &builder, Location location, Value weight, const Policy &policy,
                      Value given) {
  GraphBuilder g(builder, location);
  Type format = formatOf(Operand::Weight, policy.recipe, builder.getContext());
  Value scale = given;
  switch (given ? Recipe::Static : policy.recipe) {
  case Recipe::Off:
  case Recipe::Static:
    break;
  case Recipe::Current:
  case Recipe::Delayed:
    scale = currentScale(builder, location, weight, format, policy.margin);
    break;
  case Recipe::Block:
    scale = blockScale(builder, location, weight, {blockSize, blockSize}, format, policy.margin);
    break;
  }
  return {g.quantize(weight, scale, format), scale};
}

//===- Products ----------------------------------------------------------------===//

/// Forward products by weight.
static llvm::StringMap<int> countForward(ArrayRef<Product> products) {
  llvm::StringMap<int> count;
  for (const Product &product : products)
    if (product.part == Part::Forward)
      ++count[StateOp(product.weight).getSymName()];
  return count;
}

/// True when both make the same scale of a tensor that they have always seen both.
static bool scaleInputsAlike(const Policy &a, const Policy &b) {
  if (a.recipe != b.recipe)
    return false;
  if (a.recipe == Recipe::Static)
    return a.scale(Operand::Input) == b.scale(Operand::Input);
  return a.margin == b.margin && (a.recipe != Recipe::Delayed || a.history == b.history);
}

Owners inputOwners(const llvm::StringMap<Policy> &policies, ArrayRef<Product> products) {
  const llvm::StringMap<int> forward = countForward(products);
  Owners owners;
  llvm::DenseMap<Value, SmallVector<StringRef>> known; // weights, by what they multiply
  for (const Product &product : products) {
    StringRef weight = StateOp(product.weight).getSymName();
    if (product.part != Part::Forward || forward.lookup(weight) != 1)
      continue;
    const Policy &policy = policies.find(weight)->second;
    SmallVector<StringRef> &before =
        known[ProductScaler::source(product, product.a == Operand::Input ? 0 : 1)];
    const auto *like = llvm::find_if(before, [&](StringRef other) {
      return scaleInputsAlike(policies.find(other)->second, policy);
    });
    if (like != before.end())
      owners[weight] = like->str();
    else
      before.push_back(weight);
  }
  return owners;
}

Owners scaleOwners(const llvm::StringMap<Policy> &policies, ArrayRef<Product> products) {
  const Owners inputs = inputOwners(policies, products);
  llvm::StringSet<> haveGradients; // others are frozen, or their products stay as they are
  for (const Product &product : products)
    if (product.part != Part::Forward)
      haveGradients.insert(StateOp(product.weight).getSymName());
  Owners owners;
  llvm::StringMap<SmallVector<StringRef>> known; // weights, by whose input's scale they take
  for (const Product &product : products) {
    StringRef weight = StateOp(product.weight).getSymName();
    const Policy &policy = policies.find(weight)->second;
    if (product.part != Part::Forward || policy.recipe != Recipe::Delayed)
      continue;
    SmallVector<StringRef> &before = known[ownerOf(inputs, weight)];
    const auto *like = llvm::find_if(before, [&](StringRef other) {
      return policies.find(other)->second.backward == policy.backward &&
             haveGradients.contains(other) == haveGradients.contains(weight);
    });
    if (like == before.end())
      before.push_back(weight);
    else if (*like != weight)
      owners[weight] = like->str();
  }
  return owners;
}

ProductScaler::ProductScaler(const llvm::StringMap<Policy> &policies, ArrayRef<Product> products,
                             const Owners &gradientOwners, bool kMajor, WeightCopy weightCopy)
    : policies(policies), gradientOwners(gradientOwners), kMajor(kMajor),
      weightCopy(std::move(weightCopy)), forwardProducts(countForward(products)),
      inputLike(inputOwners(policies, products)) {}

StringRef ProductScaler::inputOwner(const Product &product) const {
  return ownerOf(inputLike, StateOp(product.weight).getSymName());
}

Value ProductScaler::source(const Product &product, unsigned index) {
  MatmulOp op = product.op;
  Value value = index == 0 ? op.getA() : op.getB();
  if (product.operand(index) != Operand::Gradient)
    return value;
  auto cast = value.getDefiningOp<CastOp>();
  return cast && tensorType(cast.getX()).getElementType().isF32() ? cast.getX() : value;
}

Value ProductScaler::scaleFor(const Product &product, unsigned index, Value x) {
  MatmulOp op = product.op;
  OpBuilder builder(op);
  Location location = op.getLoc();
  StringRef weight = StateOp(product.weight).getSymName();
  const Operand operand = product.operand(index);
  const Policy &policy = policies.find(weight)->second;
  Type format = formatOf(operand, policy.recipe, builder.getContext());
  GraphBuilder g(builder, location);
  if (operand != Operand::Weight)
    weight = ownerOf(operand == Operand::Input ? inputLike : gradientOwners, weight);
  switch (policy.recipe) {
  case Recipe::Off:
  case Recipe::Static:
  case Recipe::Delayed: {
    Value &scale = loaded[scaleSymbol(weight, operand)];
    if (!scale)
      scale = g.load(scaleSymbol(weight, operand), RankedTensorType::get({}, builder.getF32Type()));
    return scale;
  }
  case Recipe::Current: {
    // The backward pass may have made the input anew: its numbers are the same.
    const bool oneInput = operand == Operand::Input && forwardProducts.lookup(weight) == 1;
    Value &scale = oneInput ? currentInput[weight] : scales[{x, -1}];
    if (!scale)
      scale = currentScale(builder, location, x, format, policy.margin);
    return scale;
  }
  case Recipe::Block: {
    const int64_t inner = innerDimension(op, index);
    Value &scale = scales[{x, inner}];
    SmallVector<int64_t> sizes(2, 1);
    sizes[inner] = blockSize;
    if (!scale)
      scale = blockScale(builder, location, x, sizes, format, policy.margin);
    return scale;
  }
  }
  return {};
}

Scaled ProductScaler::operand(const Product &product, unsigned index) {
  if (product.operand(index) == Operand::Weight)
    return weightCopy(product, false);
  MatmulOp op = product.op;
  OpBuilder builder(op);
  Value x = source(product, index);
  // The backward pass may have made the input anew for each of these weights.
  if (product.part == Part::WeightGradient && product.operand(index) == Operand::Input)
    x = gradientInputs.try_emplace(inputOwner(product), x).first->second;
  Value scale = scaleFor(product, index, x);
  Value &copy = quantized[{x, scale}];
  if (!copy) {
    const Policy &policy = policies.find(StateOp(product.weight).getSymName())->second;
    copy = GraphBuilder(builder, op.getLoc())
               .quantize(x, scale,
                         formatOf(product.operand(index), policy.recipe, builder.getContext()));
  }
  return {copy, scale};
}

Value ProductScaler::transposed(OpBuilder &builder, Location location, Value x) {
  if (tensorType(x).getRank() == 0)
    return x;
  Value &copy = transposes[x];
  if (!copy)
    copy = GraphBuilder(builder, location).transpose(x);
  return copy;
}

ScaledMatmulOp ProductScaler::scale(const Product &product, Type type) {
  MatmulOp op = product.op;
  OpBuilder builder(op);
  bool transpose[2] = {op.getTransposeA(), op.getTransposeB()};
  Scaled operands[2];
  for (unsigned index : {0, 1}) {
    const bool turns = kMajor && innerDimension(op, index) == 0;
    if (turns && product.operand(index) == Operand::Weight) {
      operands[index] = weightCopy(product, true);
    } else {
      Scaled whole = operand(product, index);
      operands[index] = turns ? Scaled{transposed(builder, op.getLoc(), whole.value),
                                       transposed(builder, op.getLoc(), whole.scale)}
                              : whole;
    }
    if (turns)
      transpose[index] = !transpose[index];
  }
  auto scaled =
      ScaledMatmulOp::create(builder, op.getLoc(), type, operands[0].value, operands[1].value,
                             operands[0].scale, operands[1].scale, op.getAddend(), transpose[0],
                             transpose[1], op.getAlpha(), op.getBeta(), DictionaryAttr());
  markScaled(scaled, product);
  return scaled;
}

void eraseDead(ProgramOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace nano::fp8
