// Kernels for CUDA that are templates of the device library; their launches' sizes are the device
// library's own constant expressions. Kernels of the model's own are templates too, of either
// target.
#include "passes/cuda/CudaTemplateKernels.h"

#include "ir/graph/AttentionOps.h"
#include "ir/graph/Custom.h"
#include "ir/graph/GradientSums.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/TableOps.h"
#include "ir/kernel/shapes/nano_attention_launch.h"
#include "ir/kernel/shapes/nano_exp_matmul_shape.h"
#include "ir/kernel/shapes/nano_matmul_shape.h"
#include "ir/kernel/shapes/nano_scatter_shape.h"
#include "ir/kernel/shapes/nano_transpose_shape.h"
#include "passes/DetailRemark.h"
#include "passes/cuda/AttentionMaps.h"
#include "passes/cuda/CudaTransposes.h"
#include "passes/cuda/TaskTemplate.h"
#include "passes/cuda/TemplateFunctions.h"

using namespace mlir;

namespace nano::kernels {

namespace {
static_assert(nano::partialSumColumns == nano::MatmulTiles::sumColumns);
static_assert(nano::partialSumRows == nano::MatmulTiles::sumRows);
static_assert(nano::partialMaxColumns == nano::MatmulTiles::partColumns);
static_assert(nano::gradientSumTokens == nano::attentionSumRows);
static_assert(graph::ExpMatmulOp::mostAbove == nano::expMostAbove);

class Templates : TaskTemplate {
public:
  Templates(step::TaskOp task, OpBuilder &program, int64_t multiprocessors, RowsOfQueries rows,
            bool candidates)
      : TaskTemplate(task, program, multiprocessors), rows(rows), candidates(candidates),
        body(task.getBody().front()) {}

  /// None where no template takes the task.
  FailureOr<std::vector<TemplateCall>> launches() {
    if (isGatheringCopy(task))
      return std::vector<TemplateCall>();
    if (isTransposingCopy(task))
      return transpose();
    if (const SmallVector<nano::Product, 2> matmuls = nano::productsOf(body); !matmuls.empty())
      return product(matmuls);
    FailureOr<std::vector<TemplateCall>> calls = launchesOf(body.front());
    if (failed(calls) || calls->empty())
      return calls;
    for (Value out : task.getOuts())
      for (Value in : task.getIns())
        if (in == out || (in.getType() == out.getType() && mayOverlap(in, out)))
          return task.emitOpError("cannot write ")
                 << step::nameOf(out) << " in place: other blocks read it";
    return calls;
  }

private:
  /// Of a task that begins with `op`.
  FailureOr<std::vector<TemplateCall>> launchesOf(Operation &op) {
    if (auto custom = dyn_cast<graph::CustomOp>(op))
      return this->custom(custom);
    if (auto attention = dyn_cast<graph::AttentionOp>(op))
      return this->attention(attention, attention.getQ(), attention.getScale());
    if (auto grad = dyn_cast<graph::AttentionGradOp>(op))
      return this->attention(grad, grad.getQ(), grad.getScale());
    if (auto scatter = dyn_cast<graph::ScatterAddOp>(op))
      return this->scatter(scatter);
    if (auto product = dyn_cast<graph::ExpMatmulOp>(op))
      return exponentials(product);
    if (isa<graph::GroupedMatmulOp, graph::GroupedOuterOp>(op))
      return groupedCalls(op, task, program, multiprocessors);
    return sequenceCalls(op, task, program, multiprocessors);
  }

  template <typename Op>
  FailureOr<std::vector<TemplateCall>> attention(Op op, Value q, const APFloat &scale) {
    constexpr bool isGrad = std::is_same_v<Op, graph::AttentionGradOp>;
    SmallVector<Value> ins;
    SmallVector<SmallVector<Value>> outs;
    for (Value operand : op->getOperands())
      ins.push_back(memrefOf(operand));
    for (Value result : op->getResults())
      outs.push_back(memrefsOf(task, result));
    auto type = cast<RankedTensorType>(q.getType());
    auto haveVectorRows = [](ArrayRef<Value> operands) {
      return llvm::all_of(operands, [](Value operand) {
        return cast<MemRefType>(operand.getType()).getRank() != 3 || hasVectorRows(operand);
      });
    };
    nano::AttentionShape shape{type.getDimSize(0),
                               type.getDimSize(1),
                               op.getK().getType().getDimSize(1),
                               int(type.getDimSize(2)),
                               int(op.getV().getType().getDimSize(2)),
                               type.getElementType().isBF16(),
                               haveVectorRows(ins) && llvm::all_of(outs, haveVectorRows),
                               !op.getScore().empty(),
                               int(multiprocessors)};
    if (shape.isBf16 && !nano::attentionOnTensorCores(shape))
      remarkPlain(op, shape);
    SmallVector<SmallVector<Value>> all = outs;
    const bool canHaveMaps = nano::attentionOnTensorCores(shape) &&
                             llvm::all_of(ArrayRef(ins).take_front(3), isMatrixOfHeads) &&
                             (!isGrad || isMatrixOfHeads(ins[7]));
    const bool isOfRows = isGrad ? nano::attentionOfRows(shape, rows.tokens) ||
                                       nano::attentionFromEnds(shape, rows.tokens)
                                 : nano::attentionForwardOfRows(shape, rows.tokens);
    const int64_t row = canHaveMaps && rows.areCausal && isOfRows ? rows.tokens : 0;
    const bool inFive = isGrad && (row > 0 || nano::attentionInChain(shape, rows.tokens));
    shape.hasTickets =
        isGrad && !inFive && canHaveMaps && nano::attentionByTickets(shape, rows.tokens);
    shape.hasMaps =
        canHaveMaps && (!isGrad || shape.hasTickets || nano::attentionGradTakesMaps(shape, inFive));
    if (inFive && row > 0 && nano::attentionHasWholeRows(shape, row))
      emitDetail(op) << "a block of threads for each multiprocessor computes it in five products, "
                        "its share of rows of "
                     << row << " tokens";
    else if (inFive && row > 0)
      emitDetail(op)
          << "it is computed in five products, by blocks of threads that have a block of "
             "keys from either end of rows of "
          << row << " tokens";
    if (shape.hasTickets)
      emitDetail(op) << "a block of threads for each multiprocessor computes it, one block of "
                        "tokens after the other";
    if (isGrad ? shape.hasTickets : shape.hasMaps) {
      Value tickets = buffer("tickets", 1, b.getI32Type());
      step::FillOp::create(program, task.getLoc(), tickets);
      all.push_back({tickets});
    }
    if (inFive) {
      const nano::AttentionInFive five = nano::attentionInFive(shape, row);
      Value counts = buffer("counts", 1 + five.counts, b.getI32Type());
      step::FillOp::create(program, task.getLoc(), counts);
      all.push_back({buffer("partial", five.sums, b.getF32Type())});
      all.push_back({counts});
    }
    if (!isGrad) {
      shape.row = row;
      shape.tiles = nano::attentionForwardTiles(shape, rows.tokens);
    }
    const Products products = {inFive, isGrad ? row : 0};
    TemplateCall launch = attention(op, shape, ins, all, products, scale);
    if (launch.sharedBytes > maxSharedBytes)
      return op.emitOpError("has heads of ")
             << std::max(shape.headSize, shape.valueSize)
             << " elements; a block of a GPU has shared memory for fewer";
    if (candidates) {
      // The rule's are the first of these tiles, unless it took five products or tickets.
      const bool isByRule = !inFive && !shape.hasTickets;
      shape.hasTickets = false;
      shape.row = 0;
      shape.hasMaps = isGrad && canHaveMaps && // those of the forward pass have none
                      nano::attentionGradTakesMaps(shape, false);
      const int count =
          isGrad ? nano::attentionGradCandidates(shape) : nano::attentionForwardCandidates(shape);
      for (shape.tiles = isByRule ? 1 : 0; shape.tiles < count; ++shape.tiles)
        launch.candidates.push_back(attention(op, shape, ins, outs, Products(), scale));
    }
    return std::vector<TemplateCall>{launch};
  }

  /// Says why attention is computed by multiply-adds, at a small part of the tensor cores' rate; of
  /// heads of a few elements, whose products are small, nothing.
  static void remarkPlain(Operation *op, const nano::AttentionShape &shape) {
    if (std::max(shape.headSize, shape.valueSize) <= 16)
      return;
    InFlightDiagnostic remark = op->emitRemark("multiply-adds compute it, not tensor cores: ");
    for (int size : {shape.headSize, shape.valueSize})
      if (!nano::attentionFitsTensorCores(size)) {
        remark << "its heads have " << size << " elements, and not a multiple of 16 up to 256";
        return;
      }
    remark << "some of its heads' rows begin at no multiple of 16 bytes";
  }

  /// Whether attention's gradients come in five products instead of seven, and of which rows; 0:
  /// of any.
  struct Products {
    bool areFive = false;
    int64_t row = 0;
  };
  /// Attention, or its gradients in five products or in seven, with some tiles.
  template <typename Op>
  TemplateCall attention(Op op, const nano::AttentionShape &shape, ArrayRef<Value> ins,
                         ArrayRef<SmallVector<Value>> outs, Products products,
                         const APFloat &scale) {
    constexpr bool isGrad = std::is_same_v<Op, graph::AttentionGradOp>;
    TemplateCall launch;
    SmallVector<int64_t> sizes = {shape.tokens,  shape.heads,      shape.headSize,
                                  shape.isBf16,  shape.vectorRows, shape.multiprocessors,
                                  shape.keyHeads};
    if (shape.valueSize != shape.headSize)
      sizes.push_back(shape.valueSize);
    SmallVector<SmallVector<Value>> all(outs);
    std::array<std::optional<size_t>, 3> sums; // of columns of dq, dk and dv, among all
    if constexpr (isGrad)
      for (Value value : body.getTerminator()->getOperands())
        if (const Value gradient = nano::summedGradient(value)) {
          sums[cast<OpResult>(gradient).getResultNumber()] = all.size();
          all.push_back(memrefsOf(task, value));
        }
    const Bound at = bind(launch, ins, all);
    for (auto [gradient, place] : llvm::enumerate(sums))
      if (place)
        identify(launch.identity, ("sums_" + Twine(gradient)).str(), b.getUnitAttr());
    setLaunch(launch, isGrad ? "attention_grad" : "attention", sizes,
              products.areFive ? nano::attentionInFive(shape, products.row).launch
              : isGrad         ? nano::attentionGradLaunch(shape)
                               : nano::attentionForwardLaunch(shape));
    const int64_t row = isGrad ? products.row : shape.row;
    if (row > 0)
      identify(launch.identity, "row", b.getI64IntegerAttr(row));
    if (shape.tiles > 0)
      identify(launch.identity, "tiles", b.getI64IntegerAttr(shape.tiles));
    const auto tiles =
        shape.tiles > 0 ? std::optional<int64_t>(shape.tiles) : std::optional<int64_t>();
    const FloatAttr factor = b.getF64FloatAttr(scale.convertToDouble());
    identify(launch.identity, "scale", factor);
    launch.instance = [=, context = b.getContext()](
                          const TemplateFunctions &functions) -> kernel::TemplateAttrInterface {
      auto places = [&](unsigned result) {
        return DenseI64ArrayAttr::get(context, at.outs[result]);
      };
      auto sumsOf = [&](unsigned result) {
        return sums[result] ? std::optional(at.outs[*sums[result]][0]) : std::nullopt;
      };
      if constexpr (isGrad)
        return kernel::AttentionGradAttr::get(
            context, shape.tokens, shape.heads, shape.keyHeads, shape.headSize, shape.valueSize,
            shape.vectorRows, shape.multiprocessors, factor, at.ins[0], at.ins[1], at.ins[2],
            at.ins[3], at.ins[4], at.ins[5], at.ins[6], at.ins[7], places(0), places(1), places(2),
            sumsOf(0), sumsOf(1), sumsOf(2),
            products.areFive ? std::optional(at.outs[3][0]) : std::nullopt,
            products.areFive ? std::optional(at.outs[4][0]) : std::nullopt,
            shape.hasTickets ? std::optional(at.outs[3][0]) : std::nullopt,
            row > 0 ? std::optional(row) : std::nullopt, functions.score, functions.scoreGrad,
            tiles,
            shape.hasMaps ? std::optional<int64_t>(nano::attentionGradBoxRows(shape))
                          : std::nullopt);
      else
        return kernel::AttentionAttr::get(
            context, shape.tokens, shape.heads, shape.keyHeads, shape.headSize, shape.valueSize,
            shape.vectorRows, shape.multiprocessors, factor, at.ins[0], at.ins[1], at.ins[2],
            at.ins[3], at.ins[4], places(0), places(1),
            shape.hasMaps ? std::optional(at.outs[2][0]) : std::nullopt,
            row > 0 ? std::optional(row) : std::nullopt, functions.score, tiles);
    };
    if (shape.hasMaps)
      launch.tensorMaps = mapsOfAttention(shape, ins, at.ins, isGrad);
    // Of keys: scores and dq, again scores and dk, and for dv where it is apart; of values: dy·v
    // twice, and dv. Five products in a chain take about as long as six of these seven, those of
    // causal rows as five to six and a half by their length: all count as six.
    const bool isSplit = nano::attentionSplitsKeys(shape.headSize, shape.valueSize);
    const int64_t ofKeys = products.areFive ? 3
                           : isGrad         ? (isSplit ? 5 : 4)
                                            : 1,
                  ofValues = isGrad ? 3 : 1;
    launch.flopsType = op.getQ().getType().getElementType();
    launch.flopsPerKey = kernel::flopsPerKey(cast<RankedTensorType>(op.getQ().getType()),
                                             ofKeys * shape.headSize + ofValues * shape.valueSize,
                                             launch.iterations);
    if (!op.getScore().empty())
      launch.score = &op.getScore();
    if constexpr (isGrad)
      if (!op.getScoreGrad().empty())
        launch.scoreGrad = &op.getScoreGrad();
    return launch;
  }

  FailureOr<std::vector<TemplateCall>> scatter(graph::ScatterAddOp op) {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    nano::ScatterShape shape{op.getX().getType().getDimSize(0), type.getDimSize(0),
                             type.getDimSize(1)};
    SmallVector<Value> results = memrefsOf(task, op.getResult());
    Value x = memrefOf(op.getX());
    bool vectorRows = shape.columns % 8 == 0 && hasVectorRows(x) &&
                      llvm::all_of(results, [](Value y) { return hasVectorRows(y); });
    Value scratch = buffer("sorted", nano::scatterScratchBytes(shape) / 4, b.getI32Type());
    const nano::ScatterShape summed{shape.tokens, rowsRead(task, results), shape.columns};
    SmallVector<int64_t> sizes = {summed.tokens, summed.rows, shape.rows, summed.columns,
                                  vectorRows};
    TemplateCall sort, sum;
    const Bound sorts = bind(sort, {memrefOf(op.getIds())}, {{scratch}});
    // The sort does not depend on the columns: ops of other widths share it.
    setLaunch(sort, "scatter_sort", {shape.tokens, shape.rows, 8, true},
              nano::scatterSortLaunch(shape));
    set(sort, kernel::ScatterSortAttr::get(b.getContext(), shape.tokens, shape.rows, sorts.ins[0],
                                           sorts.outs[0][0]));
    const Bound sums = bind(sum, {x, scratch}, {results});
    setLaunch(sum, "scatter_sum", sizes, nano::scatterSumLaunch(shape));
    set(sum, kernel::ScatterSumAttr::get(b.getContext(), summed.tokens, summed.rows, shape.rows,
                                         summed.columns, vectorRows, sums.ins[0], sums.ins[1],
                                         b.getDenseI64ArrayAttr(sums.outs[0])));
    sum.residentBlocks =
        nano::scatterSumBlocks(step::elementBytes(op.getX().getType().getElementType()),
                               step::elementBytes(type.getElementType()));
    return std::vector<TemplateCall>{sort, sum};
  }

  /// A copy between rows and columns: p is the dimension that is contiguous in the operand.
  FailureOr<std::vector<TemplateCall>> transpose() {
    Value in = task.getIns()[0], out = task.getOuts()[0];
    auto inType = cast<MemRefType>(in.getType()), outType = cast<MemRefType>(out.getType());
    SmallVector<int64_t> inStrides = stridesOf(inType), outStrides = stridesOf(outType);
    int64_t last = inType.getRank() - 1, p = inStrides[last] == 1 ? last : last - 1,
            q = 2 * last - 1 - p;
    bool isBatch = last == 2;
    nano::TransposeShape shape{isBatch ? inType.getDimSize(0) : 1,
                               inType.getDimSize(p),
                               inType.getDimSize(q),
                               isBatch ? inStrides[0] : 0,
                               inStrides[q],
                               isBatch ? outStrides[0] : 0,
                               outStrides[p]};
    int64_t bytes = step::elementBytes(inType.getElementType());
    bool isVector = alignmentOf(in) == 16 && alignmentOf(out) == 16;
    for (int64_t stride : {shape.inMatrix, shape.inRow, shape.outMatrix, shape.outRow})
      isVector &= stride * bytes % 16 == 0;
    TemplateCall launch;
    const Bound at = bind(launch, {in}, {{out}});
    setLaunch(launch, "transpose",
              {shape.matrices, shape.p, shape.q, shape.inMatrix, shape.inRow, shape.outMatrix,
               shape.outRow, isVector},
              nano::transposeLaunch(shape, int(bytes)));
    set(launch, kernel::TransposeAttr::get(b.getContext(), shape.matrices, shape.p, shape.q,
                                           shape.inMatrix, shape.inRow, shape.outMatrix,
                                           shape.outRow, isVector, at.ins[0], at.outs[0][0]));
    return std::vector<TemplateCall>{launch};
  }

  /// Results that are added to are filled with zeros before.
  FailureOr<std::vector<TemplateCall>> custom(graph::CustomOp op) {
    TemplateCall launch;
    SmallVector<Value> ins;
    SmallVector<SmallVector<Value>> outs;
    for (Value operand : op.getInputs())
      ins.push_back(memrefOf(operand));
    for (Value result : op->getResults())
      outs.push_back(memrefsOf(task, result));
    const Bound at = bind(launch, ins, outs);
    for (int64_t added : op.getAdded())
      for (Value out : outs[added])
        step::FillOp::create(program, task.getLoc(), out);
    setLaunch(launch, "custom", {},
              {int(op.getThreads()), int64_t(op.getIterations()), int(op.getSharedBytes())});
    launch.stem = op.getName().str();
    set(launch, kernel::CustomAttr::get(b.getContext(), op.getNameAttr(), op.getCpuAttr(),
                                        op.getCudaAttr(), b.getDenseI64ArrayAttr(at.ins),
                                        list(at.outs), b.getDenseI64ArrayAttr(op.getAdded())));
    identify(launch.identity, "function", op.getNameAttr());
    identify(launch.identity, "added", op.getAddedAttr());
    launch.grain = int64_t(op.getGrain());
    launch.blockIterations = int64_t(op.getBlockIterations());
    if (const double flops = op.getFlops().convertToDouble(); flops > 0)
      launch.flops = b.getF64FloatAttr(flops);
    for (auto [name, text] :
         {std::pair("cpu", op.getCpuAttr()), std::pair("cuda", op.getCudaAttr())})
      if (text)
        identify(launch.identity, name, text);
    return std::vector<TemplateCall>{launch};
  }

  /// A product whose kernel ends with exponentials, and one that adds up their sums.
  FailureOr<std::vector<TemplateCall>> exponentials(graph::ExpMatmulOp op) {
    const ArrayRef<int64_t> x = op.getX().getType().getShape(), e = op.getE().getType().getShape();
    const nano::ExpMatmulShape shape{e[0], e[1], x[1]};
    SmallVector<Value> ins, places = memrefsOf(task, op.getE());
    for (Value operand : op->getOperands())
      ins.push_back(memrefOf(operand));
    const auto haveVectorRows = [](ArrayRef<Value> operands) {
      return llvm::all_of(operands, [](Value operand) { return hasVectorRows(operand); });
    };
    if (!nano::isExpMatmulShape(shape) || !haveVectorRows(ArrayRef(ins).take_front(2)) ||
        !haveVectorRows(places))
      return op.emitOpError("has rows that begin at no multiples of 16 bytes, or columns that are "
                            "no multiple of ")
             << nano::MatmulTiles::sumColumns;
    const Value parts =
        buffer("parts", e[0] * e[1] / nano::MatmulTiles::sumColumns, b.getF32Type());

    using Tiles = nano::MatmulTiles;
    TemplateCall product, sums;
    const Bound at = bind(product, ins, {places, {parts}});
    const nano::MatmulLaunch sizes = nano::expMatmulLaunch(shape, multiprocessors);
    setLaunch(product, "exp_matmul",
              {shape.rows, shape.columns, shape.inner, int64_t(op.getColumns()), sizes.blocks},
              {sizes.threads, sizes.blocks, sizes.sharedBytes});
    const auto map = [&](unsigned operand, const nano::TensorBox &box) {
      const auto matrix = cast<MemRefType>(ins[operand].getType());
      return kernel::TensorMapAttr::get(b.getContext(), at.ins[operand], matrix.getDimSize(1),
                                        matrix.getDimSize(0), 2 * stridesOf(matrix)[0], box.columns,
                                        box.rows, Tiles::rowBytes);
    };
    product.tensorMaps = {map(0, Tiles::aBox(false, 2)), map(1, Tiles::bBox(true, 2))};
    product.cluster = Tiles::clusterBlocks;
    product.flops = b.getF64FloatAttr(2.0 * double(shape.rows) * double(shape.columns) *
                                      double(shape.inner) / double(sizes.blocks));
    set(product,
        kernel::ExpMatmulAttr::get(b.getContext(), shape.rows, shape.columns, shape.inner,
                                   op.getColumns(), sizes.blocks, at.ins[0], at.ins[1], at.ins[2],
                                   at.ins[3], b.getDenseI64ArrayAttr(at.outs[0]), at.outs[1][0]));

    const Bound ofSums = bind(
        sums, {parts}, {places, memrefsOf(task, op.getSum()), memrefsOf(task, op.getLargest())});
    setLaunch(sums, "exp_sums", {shape.rows, shape.columns}, nano::expSumsLaunch(shape));
    sums.seldom.append(ofSums.outs[0]); // rows with a number far above its shift
    set(sums, kernel::ExpSumsAttr::get(b.getContext(), shape.rows, shape.columns, ofSums.ins[0],
                                       b.getDenseI64ArrayAttr(ofSums.outs[0]),
                                       b.getDenseI64ArrayAttr(ofSums.outs[1]),
                                       b.getDenseI64ArrayAttr(ofSums.outs[2])));
    return std::vector<TemplateCall>{product, sums};
  }

  /// Of one product, or two of the same A.
  FailureOr<std::vector<TemplateCall>> product(ArrayRef<nano::Product> ops) {
    const nano::Product &op = ops.front();
    if (const std::string obstacle = nano::productsObstacle(body); !obstacle.empty())
      return op.op->emitOpError("is no product of a generated kernel: ") << obstacle;
    SmallVector<Value> ins = {memrefOf(op.a)};
    for (const nano::Product &each : ops)
      ins.push_back(memrefOf(each.b));
    for (Value factor : ins)
      for (Value out : task.getOuts())
        if (factor == out || (factor.getType() == out.getType() && mayOverlap(factor, out)))
          return task.emitOpError("cannot write ")
                 << step::nameOf(out) << " in place: other blocks read it";
    TemplateCall launch;
    launch.epilogue = &body;
    for (const nano::Product &each : ops)
      if (each.isScaled())
        ins.append({memrefOf(each.scaleA), memrefOf(each.scaleB)});
    const llvm::DenseMap<Value, SumInPlace> inPlace = sumsInPlace(task);
    for (Value other : epilogueReads(task, inPlace))
      ins.push_back(memrefOf(other));
    const EpilogueResults results = resultsOf(task, inPlace);
    const Bound at = bind(launch, ins, results.places);
    IntegerAttr columnSum;
    if (results.columnSum)
      identify(launch.identity, "column_sum", columnSum = b.getI64IntegerAttr(*results.columnSum));
    DenseI64ArrayAttr largest;
    if (!results.largest.empty()) {
      largest = b.getDenseI64ArrayAttr(results.largest);
      identify(launch.identity, "largest",
               results.largest.size() > 1 ? Attribute(largest)
                                          : b.getI64IntegerAttr(results.largest.front()));
    }
    const auto added = b.getDenseI64ArrayAttr(results.added);
    if (!added.empty())
      identify(launch.identity, "added", added);
    for (Value operand : launch.operands)
      if (const auto type = cast<MemRefType>(operand.getType());
          type.getRank() > 0 && !results.numbers.contains(operand) && !hasVectorRows(operand) &&
          !hasVectorColumns(operand))
        return task.emitOpError("has rows of ")
               << step::nameOf(operand) << " that begin at no multiples of 16 bytes";
    // Sums are of so many elements that the errors of shared exponentials do not show.
    launch.sharesExponentials = !results.sums.empty() && !results.storesOthers;

    const auto type = cast<RankedTensorType>(op.result.getType());
    const nano::MatmulShape shape{type.getDimSize(0),
                                  type.getDimSize(1),
                                  op.inner(),
                                  op.transposeA,
                                  op.transposeB,
                                  int(step::elementBytes(getElementTypeOrSelf(op.a.getType()))),
                                  !results.sums.empty(),
                                  type.getElementType().isF32(),
                                  int(ops.size())};
    const nano::MatmulLaunch sizes = nano::matmulLaunch(shape, multiprocessors);
    using Tiles = nano::MatmulTiles;
    setLaunch(launch, "matmul",
              {shape.rows, shape.columns, shape.inner, shape.transposeA, shape.transposeB,
               shape.elementBytes, sizes.blocks},
              {sizes.threads, sizes.blocks, sizes.sharedBytes});
    if (ops.size() > 1)
      identify(launch.identity, "products", b.getI64IntegerAttr(int64_t(ops.size())));
    auto map = [&](unsigned operand, const nano::TensorBox &box) {
      const auto matrix = cast<MemRefType>(ins[operand].getType());
      const int64_t rowBytes = stridesOf(matrix)[0] * step::elementBytes(matrix.getElementType());
      return kernel::TensorMapAttr::get(b.getContext(), at.ins[operand], matrix.getDimSize(1),
                                        matrix.getDimSize(0), rowBytes, box.columns, box.rows,
                                        Tiles::rowBytes);
    };
    launch.tensorMaps = {map(0, Tiles::aBox(shape.transposeA, shape.elementBytes))};
    for (unsigned i = 1; i <= ops.size(); ++i)
      launch.tensorMaps.push_back(map(i, Tiles::bBox(shape.transposeB, shape.elementBytes)));
    launch.cluster = Tiles::clusterBlocks;
    launch.flopsType = getElementTypeOrSelf(op.a.getType());
    launch.flops =
        b.getF64FloatAttr(2.0 * double(ops.size()) * double(shape.rows) * double(shape.columns) *
                          double(shape.inner) / double(sizes.blocks));
    const auto factors = 1 + ops.size(), scales = op.isScaled() ? 2 * ops.size() : 0;
    const IntegerAttr second = ops.size() > 1 ? b.getI64IntegerAttr(at.ins[2]) : IntegerAttr();
    launch.instance = [=, places = list(at.outs), context = b.getContext()](
                          const TemplateFunctions &functions) -> kernel::TemplateAttrInterface {
      const ArrayRef<int64_t> others = ArrayRef(at.ins).drop_front(factors);
      return kernel::ProductAttr::get(
          context, shape.rows, shape.columns, shape.inner, shape.transposeA, shape.transposeB,
          sizes.blocks, at.ins[0], at.ins[1],
          DenseI64ArrayAttr::get(context, others.take_front(scales)),
          DenseI64ArrayAttr::get(context, others.drop_front(scales)), places, added, columnSum,
          largest, second, functions.epilogue);
    };
    return std::vector<TemplateCall>{launch};
  }

  RowsOfQueries rows;
  bool candidates;
  Block &body;
};

} // namespace

FailureOr<std::vector<TemplateCall>> templateCalls(step::TaskOp task, OpBuilder &program,
                                                   int64_t multiprocessors, RowsOfQueries rows,
                                                   bool candidates) {
  return Templates(task, program, multiprocessors, rows, candidates).launches();
}

} // namespace nano::kernels
