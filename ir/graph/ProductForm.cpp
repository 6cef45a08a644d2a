// Products with an element-wise end, by what the device library's template takes.
#include "ir/graph/ProductForm.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

int64_t Product::inner() const { return tensorType(a).getDimSize(transposeA ? 0 : 1); }

bool Product::isGradient() const {
  const auto isE4m3 = [](Value factor) {
    return isa<Float8E4M3FNType>(tensorType(factor).getElementType());
  };
  return isScaled() && tensorType(result).getElementType().isBF16() && !(isE4m3(a) && isE4m3(b));
}

std::optional<Product> productOf(Operation *op) {
  Product product;
  product.op = op;
  auto take = [&](auto matmul) {
    product.a = matmul.getA();
    product.b = matmul.getB();
    product.result = matmul.getResult();
    product.transposeA = matmul.getTransposeA();
    product.transposeB = matmul.getTransposeB();
  };
  if (auto matmul = dyn_cast_or_null<MatmulOp>(op)) {
    take(matmul);
    return product;
  }
  auto scaled = dyn_cast_or_null<ScaledMatmulOp>(op);
  if (!scaled)
    return std::nullopt;
  take(scaled);
  product.scaleA = scaled.getScaleA();
  product.scaleB = scaled.getScaleB();
  return product;
}

std::optional<Product> productOf(Block &body) { return productOf(&body.front()); }

SmallVector<Product, 2> productsOf(Block &body) {
  SmallVector<Product, 2> products;
  for (Operation &op : body) {
    const std::optional<Product> product = productOf(&op);
    if (!product)
      break;
    products.push_back(*product);
  }
  return products;
}

bool isFactorOfProduct(FusedOp fused, unsigned operand) {
  Block &body = fused.getBody().front();
  const Value argument = body.getArgument(operand);
  return llvm::any_of(productsOf(body), [&](const Product &product) {
    return product.a == argument || product.b == argument;
  });
}

/// Of a product of 8-bit elements.
static std::string scaledObstacle(const Product &product) {
  for (Value scale : {product.scaleA, product.scaleB})
    if (tensorType(scale).getRank() != 0)
      return "its scales are those of blocks";
  // Multiplications of 8-bit elements read both factors along the inner dimension.
  if (!product.transposeB)
    return "its second operand is not transposed";
  return "";
}

std::string productObstacle(Operation *op) {
  const std::optional<Product> product = productOf(op);
  if (!product)
    return "it is no product";
  const RankedTensorType a = tensorType(product->a), b = tensorType(product->b),
                         c = tensorType(product->result);
  if (c.getRank() != 2)
    return "it is a batch of products";
  const bool isWide = product->isScaled() && c.getElementType().isF32();
  if (product->isScaled()) {
    if (std::string text = scaledObstacle(*product); !text.empty())
      return text;
  } else if (!a.getElementType().isBF16() || !b.getElementType().isBF16()) {
    return "its operands are not bf16";
  }
  if (!isWide && !c.getElementType().isBF16())
    return "its result is not bf16";
  if (!isWide && product->transposeA)
    return "its first operand is transposed";
  const auto check = [](auto matmul) -> std::string {
    if (matmul.getAddend())
      return "it has an addend";
    return matmul.getAlpha().isExactlyValue(1.0) ? "" : "it has a factor";
  };
  std::string rest =
      product->isScaled() ? check(cast<ScaledMatmulOp>(op)) : check(cast<MatmulOp>(op));
  if (!rest.empty())
    return rest;
  constexpr int64_t rowBits = 16 * 8;
  for (RankedTensorType matrix : {a, b, c})
    if (matrix.getDimSize(1) * matrix.getElementTypeBitWidth() % rowBits != 0)
      return "its rows are no multiples of 16 bytes";
  return "";
}

std::string pairObstacle(const Product &first, const Product &second) {
  if (first.a != second.a)
    return "it does not share its first operand with the other one";
  if (first.b.getType() != second.b.getType() ||
      first.result.getType() != second.result.getType() || first.transposeB != second.transposeB ||
      first.isScaled() != second.isScaled())
    return "the other one's second operand is of another form";
  if (first.isGradient())
    return "it is a gradient";
  return tensorType(first.result).getElementType().isBF16() ? "" : "its result is not bf16";
}

std::string turningObstacle(const Product &product, ValueRange turned) {
  if (turned.empty())
    return "";
  if (!product.isGradient() || !llvm::all_of(turned.getTypes(), [](Type type) {
        return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type));
      }))
    return "a result of its kernel is needed transposed";
  if (turned.size() > mostTurned)
    return "more than " + std::to_string(mostTurned) +
           " results of its kernel are needed transposed";
  if (tensorType(product.result).getDimSize(0) % turnedRows != 0)
    return "a result of its kernel is needed transposed, whose rows are no multiples of 16 bytes";
  return "";
}

/// What lies behind a sum over one dimension of a matrix that is seen with three; null for others.
static Value summandsOf(Value value, int64_t dim) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getCombiner() != Combiner::sum ||
      reduce.getDims() != ArrayRef<int64_t>{dim} || tensorType(value).getRank() != 2)
    return {};
  auto reshape = reduce.getX().getDefiningOp<ReshapeOp>();
  return reshape && tensorType(reshape.getX()).getRank() == 2 ? reshape.getX() : Value();
}

Value partialSumsOf(Value value) {
  const Value summands = summandsOf(value, 2);
  const bool isOfRows =
      summands && tensorType(summands).getShape() ==
                      ArrayRef<int64_t>{tensorType(value).getDimSize(0),
                                        tensorType(value).getDimSize(1) * partialSumColumns};
  return isOfRows ? summands : Value();
}

Value columnSumsOf(Value value) {
  const Value summands = summandsOf(value, 1);
  const bool isOfColumns =
      summands && tensorType(summands).getDimSize(1) == tensorType(value).getDimSize(1);
  return isOfColumns ? summands : Value();
}

Value partialColumnSumsOf(Value value) {
  const Value summands = columnSumsOf(value);
  const bool isPartial = summands && tensorType(summands).getDimSize(0) ==
                                         tensorType(value).getDimSize(0) * partialSumRows;
  return isPartial ? summands : Value();
}

Value partialLargestOf(Value value) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getCombiner() != Combiner::max ||
      reduce.getDims() != ArrayRef<int64_t>{1, 3} || tensorType(value).getRank() != 2)
    return {};
  auto reshape = reduce.getX().getDefiningOp<ReshapeOp>();
  if (!reshape || tensorType(reshape.getX()).getRank() != 2)
    return {};
  const ArrayRef<int64_t> blocks = tensorType(value).getShape();
  const bool isOfBlocks =
      tensorType(reshape.getX()).getShape() ==
          ArrayRef<int64_t>{blocks[0] * partialSumRows, blocks[1] * partialMaxColumns} &&
      tensorType(reshape).getShape() ==
          ArrayRef<int64_t>{blocks[0], partialSumRows, blocks[1], partialMaxColumns};
  return isOfBlocks ? reshape.getX() : Value();
}

bool hasNumberOfRow(Value argument) {
  return isa<BlockArgument>(argument) && tensorType(argument).getRank() == 1 &&
         !argument.use_empty() && llvm::all_of(argument.getUsers(), [](Operation *user) {
           auto broadcast = dyn_cast<BroadcastOp>(user);
           return broadcast && tensorType(broadcast).getRank() == 2 &&
                  broadcast.getDims() == ArrayRef<int64_t>{0};
         });
}

/// True for what a thread computes of eight neighbours of a row from those of its operands, and not
/// from where they are.
static bool isOfElements(Operation &op) {
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return tensorType(broadcast.getX()).getRank() == 0 ||
           broadcast.getDims() == ArrayRef<int64_t>{1} || hasNumberOfRow(broadcast.getX());
  return op.hasTrait<ElementwiseOp>() && !isa<IotaOp>(op);
}

/// True for an op of partial sums or maxima that are results: the sum, or the reshape that it
/// reads.
static bool isOfPartialSums(Operation &op) {
  auto isResult = [](Value value) {
    return llvm::all_of(value.getUsers(), [](Operation *user) { return isa<YieldOp>(user); });
  };
  if (isa<ReshapeOp>(op))
    return !op.use_empty() && llvm::all_of(op.getUsers(), [](Operation *user) {
      return isa<ReduceOp>(user) && isOfPartialSums(*user);
    });
  if (!isa<ReduceOp>(op))
    return false;
  const Value sums = op.getResult(0);
  return (partialSumsOf(sums) || partialColumnSumsOf(sums) || partialLargestOf(sums)) &&
         isResult(sums) && tensorType(sums).getElementType().isF32();
}

namespace {
/// What may stand behind a product, a value of a kernel's body.
class Epilogue {
public:
  explicit Epilogue(Value product) : product(product), whole(tensorType(product).getShape()) {
    if (Operation *made = product.getDefiningOp())
      for (const Product &each : productsOf(*made->getBlock()))
        products.insert(each.op);
  }

  /// Why it does not read the kernel's operand; empty when it may.
  std::string obstacleTo(BlockArgument argument) const {
    const bool isFactor =
        !products.empty() &&
        llvm::all_of(argument.getUsers(), [&](Operation *user) { return products.contains(user); });
    const RankedTensorType type = tensorType(argument);
    if (hasNumberOfRow(argument))
      return type.getElementType().isF32() && type.getShape() == whole.take_front() &&
                     tensorType(product).getElementType().isBF16()
                 ? ""
                 : otherOperands;
    if (isFactor || (fits(argument) && (type.getRank() > 0 || type.getElementType().isF32())))
      return "";
    return otherOperands;
  }

  /// Why it has no such op; empty when it may.
  std::string obstacleTo(Operation &op) const {
    if (products.contains(&op))
      return "";
    if (isOfPartialSums(op))
      return tensorType(product).getElementType().isBF16() ? ""
                                                           : "its rows are summed, and not bf16";
    if (!isOfElements(op))
      return ("its kernel has a " + op.getName().getStringRef()).str();
    const auto isResult = [](Value value) {
      return llvm::all_of(value.getUsers(), llvm::IsaPred<YieldOp>);
    };
    if (!llvm::all_of(op.getResults(), [&](Value value) {
          return fits(value, /*leastBits=*/isResult(value) ? 8 : 16);
        }))
      return "its kernel has values of other sizes or of 8 bits";
    return "";
  }

private:
  bool fits(Value value, unsigned leastBits = 16) const {
    const RankedTensorType type = tensorType(value);
    return type.getElementTypeBitWidth() >= leastBits &&
           (type.getRank() == 0 || type.getShape() == whole ||
            type.getShape() == whole.drop_front());
  }

  static constexpr const char *otherOperands =
      "its kernel reads more than whole matrices, rows, columns and numbers";
  Value product;
  ArrayRef<int64_t> whole;
  llvm::SmallPtrSet<Operation *, 2> products; ///< that the kernel begins with
};
} // namespace

std::string epilogueObstacle(Block &body, Value product) {
  const Epilogue epilogue(product);
  for (BlockArgument argument : body.getArguments())
    if (std::string text = epilogue.obstacleTo(argument); !text.empty())
      return text;
  for (Operation &op : body.without_terminator())
    if (std::string text = epilogue.obstacleTo(op); !text.empty())
      return text;
  llvm::SmallSetVector<Value, 4> ofRows, ofColumns, largest;
  for (Value result : body.getTerminator()->getOperands()) {
    if (tensorType(result).getRank() != 2)
      return "its kernel has results of other sizes";
    if (partialSumsOf(result))
      ofRows.insert(result);
    if (partialColumnSumsOf(result))
      ofColumns.insert(result);
    if (partialLargestOf(result))
      largest.insert(result);
  }
  if (!ofRows.empty() && llvm::any_of(body.getArguments(), hasNumberOfRow))
    return "its kernel reads numbers of rows, and sums rows";
  if (!largest.empty() && !ofRows.empty())
    return "its kernel has a maximum, and sums of rows beside it";
  if (ofColumns.size() > 1 || (!ofColumns.empty() && !ofRows.empty()))
    return "its kernel has more than one sum of columns, or sums of rows beside one";
  return "";
}

std::string epilogueObstacle(Block &body, Value first, Value second) {
  if (std::string text = epilogueObstacle(body, first); !text.empty())
    return text;
  const auto isRead = [&](BlockArgument argument) {
    return llvm::any_of(argument.getUsers(), [&](Operation *user) {
      return user != first.getDefiningOp() && user != second.getDefiningOp();
    });
  };
  for (BlockArgument argument : body.getArguments())
    if (argument != first && argument != second && tensorType(argument).getRank() == 2 &&
        isRead(argument))
      return "its kernel reads other matrices beside two products";
  return llvm::all_of(body.getOps<ReduceOp>(),
                      [](ReduceOp reduce) { return bool(partialLargestOf(reduce)); })
             ? ""
             : "its kernel sums what it makes of two products";
}

std::string reductionsObstacle(const Product &product, Block &body) {
  llvm::SmallSetVector<Value, 4> results(llvm::from_range, body.getTerminator()->getOperands());
  const auto count = [&](Value (*of)(Value)) {
    return llvm::count_if(results, [&](Value result) { return bool(of(result)); });
  };
  const auto maxima = count(partialLargestOf);
  if (product.isGradient())
    return count(partialSumsOf) > 0 ? "it is a gradient, and its rows are summed" : "";
  return maxima > 1 || (maxima > 0 && count(partialColumnSumsOf) > 0)
             ? "it is no gradient, and its kernel reduces something beside a maximum"
             : "";
}

std::string productsObstacle(Block &body) {
  const SmallVector<Product, 2> products = productsOf(body);
  if (products.size() > 2)
    return "its kernel begins with more than two";
  for (const Product &product : products)
    if (std::string text = productObstacle(product.op); !text.empty())
      return text;
  const Product &first = products.front(), &second = products.back();
  if (std::string text = reductionsObstacle(first, body); !text.empty())
    return text;
  if (products.size() == 1)
    return epilogueObstacle(body, first.result);
  const std::string text = pairObstacle(first, second);
  return text.empty() ? epilogueObstacle(body, first.result, second.result) : text;
}

bool isOfEpilogue(Value value, Value product) {
  const Epilogue epilogue(product);
  llvm::SetVector<Value> values;
  values.insert(value);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value next = values[i];
    Operation *op = next.getDefiningOp();
    const std::string obstacle =
        op ? epilogue.obstacleTo(*op) : epilogue.obstacleTo(cast<BlockArgument>(next));
    if (!obstacle.empty())
      return false;
    if (op)
      values.insert(op->operand_begin(), op->operand_end());
  }
  return true;
}

SmallVector<Value> epilogueOperands(Block &body) {
  SmallVector<Value> operands;
  for (Value argument : body.getArguments())
    if (llvm::any_of(argument.getUsers(), [](Operation *user) { return !productOf(user); }))
      operands.push_back(argument);
  return operands;
}

SmallVector<Value> epilogueResults(Block &body) {
  llvm::SetVector<Value> results;
  for (Value result : body.getTerminator()->getOperands())
    results.insert(result);
  return results.takeVector();
}

} // namespace nano
