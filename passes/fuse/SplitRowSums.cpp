// Cuts a kernel that reads a matrix product and sums its rows into three.
#include "passes/fuse/SplitRowSums.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowOps.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

namespace {

using Values = llvm::SetVector<Value>;

class Splitter {
public:
  Splitter(FusedOp fused, Value product)
      : fused(fused), body(fused.getBody().front()), product(cast<BlockArgument>(product)),
        type(tensorType(product)), builder(fused) {}

  std::string split(RowSumParts &parts) {
    if (std::string obstacle = findSums(); !obstacle.empty())
      return obstacle;
    findResults();
    if (rows.empty())
      return "its kernel reads no sums of rows";
    parts.sums = makeSums();
    if (std::string obstacle = obstacleTo(parts.sums); !obstacle.empty()) {
      parts.erase();
      return obstacle;
    }
    parts.rows = makeRows(parts.sums);
    if (!elements.empty())
      parts.elements = makeElements(parts);
    for (Value value : body.getTerminator()->getOperands())
      parts.results.push_back(resultOf(value, parts));
    return "";
  }

private:
  bool isWhole(Value value) const { return tensorType(value).getShape() == type.getShape(); }
  bool isOfRow(Value value) const {
    return tensorType(value).getShape() == type.getShape().take_front();
  }

  /// Why the first part is no epilogue.
  std::string obstacleTo(FusedOp part) {
    const Value whole = fused.getInputs()[product.getArgNumber()];
    for (auto [input, argument] : llvm::zip_equal(part.getInputs(), part.getBody().getArguments()))
      if (input == whole)
        return epilogueObstacle(part.getBody().front(), argument);
    return "its kernel sums nothing of it";
  }

  /// Sorts the body's reductions, or says why that cannot be.
  std::string findSums() {
    if (type.getDimSize(1) % partialSumColumns != 0)
      return "its rows are no multiples of " + std::to_string(partialSumColumns) + " columns";
    for (Operation &op : body.without_terminator()) {
      const RankedTensorType of = tensorType(op.getResult(0));
      if (!isWhole(op.getResult(0)) && !isOfRow(op.getResult(0)) && of.getRank() != 0 &&
          of.getShape() != type.getShape().drop_front())
        return "its kernel has values of other sizes";
      auto reduce = dyn_cast<ReduceOp>(op);
      if (!reduce)
        continue;
      reductions.insert(reduce.getResult());
      const bool isOfRows = isWhole(reduce.getX()) && reduce.getDims() == ArrayRef<int64_t>{1};
      if (!isOfRows || reduce.getCombiner() != Combiner::sum || !of.getElementType().isF32())
        return "its kernel reduces otherwise than to sums of rows in f32";
      if (!pickedBy(reduce))
        sums.insert(reduce.getResult());
    }
    for (Value result : body.getTerminator()->getOperands())
      if (!isWhole(result) && !isOfRow(result))
        return "its kernel has results of other sizes";
    return sums.empty() ? "its kernel sums no rows" : "";
  }

  /// Says which part computes what the kernel yields.
  void findResults() {
    for (auto [result, value] :
         llvm::zip_equal(fused.getResults(), body.getTerminator()->getOperands())) {
      auto isTransposed = llvm::any_of(result.getUsers(), llvm::IsaPred<TransposeOp>);
      if (!isWhole(value))
        rows.insert(value);
      else if (!isTransposed && isOfEpilogue(value, product) &&
               llvm::none_of(behind({value}, {}), hasNumberOfRow))
        epilogue.insert(value);
      else
        elements.insert(value);
    }
    numbers = numbersOfRows();
    rows.insert(numbers.begin(), numbers.end());
  }

  /// The values that `roots` are computed from, and these, not looking behind `ends`.
  static Values behind(ArrayRef<Value> roots, const Values &ends) {
    Values values(roots.begin(), roots.end());
    for (size_t i = 0; i < values.size(); ++i)
      if (Operation *op = values[i].getDefiningOp(); op && !ends.contains(values[i]))
        values.insert(op->operand_begin(), op->operand_end());
    return values;
  }

  static bool isReduced(Value value) { return value.getDefiningOp<ReduceOp>() != nullptr; }

  /// The numbers a row that `elements` read: what reductions come to, or, where that is fewer, what
  /// is computed from them.
  Values numbersOfRows() {
    Values reduced, last;
    for (Value value : behind(elements.getArrayRef(), reductions)) {
      if (isReduced(value)) {
        reduced.insert(value);
        continue;
      }
      Operation *op = value.getDefiningOp();
      if (op && isWhole(value))
        for (Value operand : op->getOperands())
          if (isOfRow(operand) && llvm::any_of(behind(operand, {}), isReduced))
            last.insert(operand);
    }
    return last.size() < reduced.size() ? last : reduced;
  }

  /// A value of the body that a part reads instead of computing it.
  struct Read {
    Value value;
    Value from;                 ///< outside
    bool isPartialSums = false; ///< then it is added up first
  };

  /// A kernel of `roots`, values of the body; `yield` makes its results, of `types`, of them.
  FusedOp makePart(ArrayRef<Value> roots, ArrayRef<Read> reads, ArrayRef<Type> types,
                   SmallVector<Location> locations,
                   function_ref<SmallVector<Value>(IRMapping &)> yield) {
    Values ends;
    for (const Read &read : reads)
      ends.insert(read.value);
    const Values needed = behind(roots, ends);
    SmallVector<Read> all;
    for (BlockArgument argument : body.getArguments())
      if (needed.contains(argument) && !ends.contains(argument))
        all.push_back({argument, fused.getInputs()[argument.getArgNumber()]});
    for (const Read &read : reads)
      if (needed.contains(read.value))
        all.push_back(read);
    // What stands for an operand of the whole stands where that does.
    llvm::stable_sort(all, [](const Read &a, const Read &b) {
      auto place = [](Value value) {
        auto argument = dyn_cast<BlockArgument>(value);
        return argument ? argument.getArgNumber() : std::numeric_limits<unsigned>::max();
      };
      return place(a.value) < place(b.value);
    });

    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator())
      if (needed.contains(op.getResult(0)) && !ends.contains(op.getResult(0))) {
        ops.push_back(&op);
        if (!llvm::is_contained(locations, op.getLoc()))
          locations.push_back(op.getLoc());
      }
    SmallVector<Value> inputs;
    SmallVector<Location> inputLocations;
    for (const Read &read : all) {
      inputs.push_back(read.from);
      inputLocations.push_back(read.from.getLoc());
    }
    const Location location = builder.getFusedLoc(locations);
    auto part = FusedOp::create(builder, location, types, inputs);
    part->setDiscardableAttrs(fused->getDiscardableAttrDictionary());
    OpBuilder::InsertionGuard guard(builder);
    Block *block =
        builder.createBlock(&part.getBody(), {}, ValueRange(inputs).getTypes(), inputLocations);
    IRMapping mapping;
    for (auto [read, argument] : llvm::zip_equal(all, block->getArguments())) {
      Value value = argument;
      if (read.isPartialSums)
        value = GraphBuilder(builder, read.value.getLoc()).reduce(Combiner::sum, value, {1});
      mapping.map(read.value, value);
    }
    for (Operation *op : ops)
      builder.clone(*op, mapping);
    YieldOp::create(builder, location, yield(mapping));
    return part;
  }

  static SmallVector<Type> typesOf(const Values &values) {
    return llvm::map_to_vector(values, [](Value value) { return value.getType(); });
  }

  SmallVector<Location> locationsOfSums() const {
    llvm::SetVector<Location> locations;
    for (Value sum : sums)
      locations.insert(sum.getLoc());
    return locations.takeVector();
  }

  FusedOp makeSums() {
    // What the others read of p.
    Values read = behind(rows.getArrayRef(), sums);
    const Values whole = behind(elements.getArrayRef(), numbers);
    read.insert(whole.begin(), whole.end());
    SmallVector<Value> roots;
    SmallVector<Type> types;
    if (read.contains(product)) {
      epilogueResults.insert(product);
      roots.push_back(product);
      types.push_back(type);
    }
    const int64_t parts = type.getDimSize(1) / partialSumColumns;
    for (Value sum : sums) {
      epilogueResults.insert(sum);
      roots.push_back(sum.getDefiningOp<ReduceOp>().getX());
      types.push_back(
          RankedTensorType::get({type.getDimSize(0), parts}, tensorType(sum).getElementType()));
    }
    for (Value value : epilogue)
      if (epilogueResults.insert(value)) {
        roots.push_back(value);
        types.push_back(value.getType());
      }
    return makePart(roots, {}, types, locationsOfSums(), [&](IRMapping &mapping) {
      SmallVector<Value> results;
      for (Value value : epilogueResults) {
        auto reduce = value.getDefiningOp<ReduceOp>();
        if (!reduce) {
          results.push_back(mapping.lookup(value));
          continue;
        }
        GraphBuilder g(builder, reduce.getLoc());
        results.push_back(g.reduce(Combiner::sum,
                                   g.reshape(mapping.lookup(reduce.getX()),
                                             {type.getDimSize(0), parts, partialSumColumns}),
                                   {2}));
      }
      return results;
    });
  }

  /// Of the first part, what it yields of a value.
  Value fromSums(FusedOp part, Value value) {
    return part.getResult(llvm::find(epilogueResults, value) - epilogueResults.begin());
  }
  void readProduct(FusedOp part, SmallVectorImpl<Read> &reads) {
    if (epilogueResults.contains(product))
      reads.push_back({product, fromSums(part, product)});
  }

  FusedOp makeRows(FusedOp first) {
    SmallVector<Read> reads;
    readProduct(first, reads);
    for (Value sum : sums)
      reads.push_back({sum, fromSums(first, sum), /*isPartialSums=*/true});
    return makePart(rows.getArrayRef(), reads, typesOf(rows), locationsOfSums(),
                    [&](IRMapping &mapping) { return lookUp(rows, mapping); });
  }

  FusedOp makeElements(const RowSumParts &parts) {
    SmallVector<Read> reads;
    readProduct(parts.sums, reads);
    for (Value number : numbers)
      reads.push_back({number, resultOf(number, parts)});
    return makePart(elements.getArrayRef(), reads, typesOf(elements), {},
                    [&](IRMapping &mapping) { return lookUp(elements, mapping); });
  }

  static SmallVector<Value> lookUp(const Values &values, IRMapping &mapping) {
    return llvm::map_to_vector(values, [&](Value value) { return mapping.lookup(value); });
  }

  /// The part's result that is a value which the whole yields, or a number of a row.
  Value resultOf(Value value, const RowSumParts &parts) {
    if (rows.contains(value))
      return FusedOp(parts.rows).getResult(llvm::find(rows, value) - rows.begin());
    if (elements.contains(value))
      return FusedOp(parts.elements).getResult(llvm::find(elements, value) - elements.begin());
    return fromSums(parts.sums, value);
  }

  FusedOp fused;
  Block &body;
  BlockArgument product;
  RankedTensorType type;
  OpBuilder builder;
  // Values of the body.
  Values reductions, sums;         ///< all, and those that an epilogue begins
  Values epilogue, rows, elements; ///< results of the parts
  Values numbers;                  ///< a row, that `elements` read
  Values epilogueResults;          ///< of the first part; its partial sums stand under their sums
};

} // namespace

void RowSumParts::erase() {
  for (FusedOp part : {elements, rows, maxima, sums})
    if (part) {
      for (Operation *user : llvm::make_early_inc_range(part->getUsers()))
        if (isa<ReshapeOp>(user))
          user->erase();
      part.erase();
    }
  *this = {};
}

bool hasReductions(FusedOp fused) { return !fused.getBody().front().getOps<ReduceOp>().empty(); }

std::string splitRowSums(FusedOp fused, Value product, RowSumParts &parts) {
  return Splitter(fused, product).split(parts);
}

} // namespace nano
