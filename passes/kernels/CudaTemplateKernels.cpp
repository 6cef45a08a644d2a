// Kernels for CUDA that are templates of the device library; their launches' sizes are the device
// library's own constant expressions. Kernels of the model's own are templates too, of either
// target.
#include "passes/kernels/CudaTemplateKernels.h"

#include "codegen/cuda/device/nano_attention_shape.h"
#include "codegen/cuda/device/nano_band_shape.h"
#include "codegen/cuda/device/nano_matmul_shape.h"
#include "codegen/cuda/device/nano_recurrence_shape.h"
#include "codegen/cuda/device/nano_scatter_shape.h"
#include "codegen/cuda/device/nano_transpose_shape.h"
#include "ir/graph/Custom.h"
#include "ir/graph/Sequence.h"
#include "passes/fuse/ProductForm.h"
#include "passes/kernels/CudaTransposes.h"
#include "passes/kernels/VectorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Dynamic shared memory that a block can have.
constexpr int64_t maxSharedBytes = 227 * 1024;
constexpr int64_t scanThreads = 1024;
/// Neighbours of a row that an epilogue is called for: 16 bytes of the product.
int64_t epilogueLanes(const nano::Product &product) {
  return 16 / step::elementBytes(getElementTypeOrSelf(product.result.getType()));
}
static_assert(nano::partialSumColumns == nano::MatmulTiles::sumColumns);
static_assert(nano::partialSumRows == nano::MatmulTiles::sumRows);

/// The memrefs that a value of a task's body is written to.
SmallVector<Value> memrefsOf(step::TaskOp task, Value result) {
  SmallVector<Value> memrefs;
  for (auto [i, yielded] : llvm::enumerate(task.getBody().front().getTerminator()->getOperands()))
    if (yielded == result)
      memrefs.push_back(task.getOuts()[i]);
  return memrefs;
}

/// A sum of f32 that lies where one of its summands did, which nothing else reads: the epilogue
/// adds the other one to memory, and waits for nothing to be loaded.
struct SumInPlace {
  Value summand;
  BlockArgument replaced;
};
/// Those among an epilogue's results.
llvm::DenseMap<Value, SumInPlace> sumsInPlace(step::TaskOp task, const nano::Product &product) {
  llvm::DenseMap<Value, SumInPlace> sums;
  for (Value result : nano::epilogueResults(product)) {
    auto add = result.getDefiningOp<graph::AddOp>();
    const SmallVector<Value> places = memrefsOf(task, result);
    if (!add || !getElementTypeOrSelf(result.getType()).isF32() || places.size() != 1 ||
        !add->hasOneUse())
      continue;
    for (unsigned i : {0, 1}) {
      auto argument = dyn_cast<BlockArgument>(add->getOperand(i));
      if (argument && argument.hasOneUse() && task.getIns()[argument.getArgNumber()] == places[0] &&
          llvm::none_of(llvm::enumerate(task.getIns()), [&](auto in) {
            return in.index() != argument.getArgNumber() && mayOverlap(in.value(), places[0]);
          }))
        sums[result] = {add->getOperand(1 - i), argument};
    }
  }
  return sums;
}
/// What an epilogue reads, without what it adds to.
SmallVector<Value> epilogueReads(const nano::Product &product,
                                 const llvm::DenseMap<Value, SumInPlace> &inPlace) {
  SmallVector<Value> reads = nano::epilogueOperands(product);
  for (const auto &[result, sum] : inPlace)
    llvm::erase(reads, sum.replaced);
  return reads;
}

/// The task's operands as arguments of launches.
class Templates {
public:
  Templates(step::TaskOp task, OpBuilder &program, int64_t multiprocessors)
      : task(task), program(program), multiprocessors(multiprocessors), b(task.getContext()),
        body(task.getBody().front()) {}

  FailureOr<std::vector<TemplateCall>> launches() {
    if (isTransposingCopy(task))
      return transpose();
    if (const std::optional<nano::Product> matmul = nano::productOf(body))
      return product(*matmul);
    for (Value out : task.getOuts())
      for (Value in : task.getIns())
        if (in == out || (in.getType() == out.getType() && mayOverlap(in, out)))
          return task.emitOpError("cannot write ")
                 << step::nameOf(out) << " in place: other blocks read it";
    Operation &op = body.front();
    if (auto custom = dyn_cast<graph::CustomOp>(op))
      return this->custom(custom);
    if (auto attention = dyn_cast<graph::AttentionOp>(op))
      return this->attention(attention, attention.getQ(), attention.getScale());
    if (auto grad = dyn_cast<graph::AttentionGradOp>(op))
      return this->attention(grad, grad.getQ(), grad.getScale());
    if (auto scatter = dyn_cast<graph::ScatterAddOp>(op))
      return this->scatter(scatter);
    if (auto recurrence = dyn_cast<graph::RecurrenceOp>(op))
      return this->recurrence(recurrence);
    if (auto scores = dyn_cast<graph::BandScoresOp>(op))
      return band(op, scores.getQ(), scores.getResult(), /*transpose=*/false);
    if (auto product = dyn_cast<graph::BandProductOp>(op))
      return band(op, product.getV(), product.getP(), product.getTranspose());
    return scan(cast<graph::ScanOp>(op));
  }

private:
  /// The memref that stands for an operand of the op.
  Value memrefOf(Value operand) {
    return task.getIns()[cast<BlockArgument>(operand).getArgNumber()];
  }

  /// The launch's operands from the op's, with the attributes that say which is which.
  void bind(TemplateCall &launch, ArrayRef<Value> ins, ArrayRef<SmallVector<Value>> outs) {
    llvm::SetVector<Value> operands;
    auto position = [&](Value memref) -> int64_t {
      operands.insert(memref);
      return llvm::find(operands, memref) - operands.begin();
    };
    llvm::SetVector<int64_t> reads, writes;
    SmallVector<int64_t> read;
    SmallVector<Attribute> results;
    for (Value in : ins) {
      read.push_back(position(in));
      reads.insert(read.back());
    }
    for (ArrayRef<Value> places : outs) {
      SmallVector<int64_t> written;
      for (Value out : places) {
        written.push_back(position(out));
        writes.insert(written.back());
      }
      results.push_back(b.getDenseI64ArrayAttr(written));
    }
    launch.operands = operands.takeVector();
    launch.reads = reads.takeVector();
    launch.writes = writes.takeVector();
    launch.attributes.set("nano.operands", b.getDenseI64ArrayAttr(read));
    launch.attributes.set("nano.results", b.getArrayAttr(results));
  }

  /// True when the rows of the last dimension are contiguous and begin at multiples of 16 bytes.
  static bool hasVectorRows(Value memref) {
    auto type = cast<MemRefType>(memref.getType());
    SmallVector<int64_t> strides = stridesOf(type);
    int64_t bytes = step::elementBytes(type.getElementType());
    bool is = alignmentOf(memref) == 16 && (type.getShape().back() == 1 || strides.back() == 1);
    for (int64_t dim = 0; dim + 1 < type.getRank(); ++dim)
      is &= type.getDimSize(dim) == 1 || strides[dim] * bytes % 16 == 0;
    return is;
  }

  void setLaunch(TemplateCall &launch, StringRef name, ArrayRef<int64_t> shape,
                 const nano::TemplateLaunch &sizes) {
    launch.stem = name.str();
    launch.attributes.set("nano.template", b.getStringAttr(name));
    launch.attributes.set("nano.shape", b.getDenseI64ArrayAttr(shape));
    launch.threads = sizes.threads;
    launch.iterations = sizes.iterations;
    launch.sharedBytes = sizes.sharedBytes;
  }

  template <typename Op>
  FailureOr<std::vector<TemplateCall>> attention(Op op, Value q, const APFloat &scale) {
    constexpr bool isGrad = std::is_same_v<Op, graph::AttentionGradOp>;
    TemplateCall launch;
    SmallVector<Value> ins;
    SmallVector<SmallVector<Value>> outs;
    for (Value operand : op->getOperands())
      ins.push_back(memrefOf(operand));
    for (Value result : op->getResults())
      outs.push_back(memrefsOf(task, result));
    bind(launch, ins, outs);
    auto type = cast<RankedTensorType>(q.getType());
    bool vectorRows = true;
    for (Value operand : launch.operands)
      if (cast<MemRefType>(operand.getType()).getRank() == 3)
        vectorRows &= hasVectorRows(operand);
    nano::AttentionShape shape{type.getDimSize(0),
                               type.getDimSize(1),
                               op.getK().getType().getDimSize(1),
                               int(type.getDimSize(2)),
                               type.getElementType().isBF16(),
                               vectorRows,
                               !op.getScore().empty(),
                               int(multiprocessors)};
    setLaunch(launch, isGrad ? "attention_grad" : "attention",
              {shape.tokens, shape.heads, shape.headSize, shape.isBf16, shape.vectorRows,
               shape.multiprocessors, shape.keyHeads},
              isGrad ? nano::attentionGradLaunch(shape) : nano::attentionForwardLaunch(shape));
    if (launch.sharedBytes > maxSharedBytes)
      return op.emitOpError("has heads of ")
             << shape.headSize << " elements; a block of a GPU has shared memory for fewer";
    launch.attributes.set("nano.scale", b.getF64FloatAttr(scale.convertToDouble()));
    launch.flopsPerKey = kernel::flopsPerKey(type, isGrad ? 7 : 2, launch.iterations);
    if (!op.getScore().empty())
      launch.score = &op.getScore();
    if constexpr (isGrad)
      if (!op.getScoreGrad().empty())
        launch.scoreGrad = &op.getScoreGrad();
    return std::vector<TemplateCall>{launch};
  }

  FailureOr<std::vector<TemplateCall>> scatter(graph::ScatterAddOp op) {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    nano::ScatterShape shape{op.getX().getType().getDimSize(0), type.getDimSize(0),
                             type.getDimSize(1)};
    SmallVector<Value> results = memrefsOf(task, op.getResult());
    Value x = memrefOf(op.getX());
    bool vectorRows = shape.columns % 8 == 0 && hasVectorRows(x) &&
                      llvm::all_of(results, [](Value y) { return hasVectorRows(y); });
    Value scratch = step::BufferOp::create(
        program, task.getLoc(),
        MemRefType::get({nano::scatterScratchBytes(shape) / 4}, b.getI32Type()),
        b.getStringAttr("sorted"), IntegerAttr());
    SmallVector<int64_t> sizes = {shape.tokens, shape.rows, shape.columns, vectorRows};
    TemplateCall sort, sum;
    bind(sort, {memrefOf(op.getIds())}, {{scratch}});
    // The sort does not depend on the columns: ops of other widths share it.
    setLaunch(sort, "scatter_sort", {shape.tokens, shape.rows, 8, true},
              nano::scatterSortLaunch(shape));
    bind(sum, {x, scratch}, {results});
    setLaunch(sum, "scatter_sum", sizes, nano::scatterSumLaunch(shape));
    sum.residentBlocks =
        nano::scatterSumBlocks(step::elementBytes(op.getX().getType().getElementType()));
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
    bind(launch, {in}, {{out}});
    setLaunch(launch, "transpose",
              {shape.matrices, shape.p, shape.q, shape.inMatrix, shape.inRow, shape.outMatrix,
               shape.outRow, isVector},
              nano::transposeLaunch(shape, int(bytes)));
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
    bind(launch, ins, outs);
    for (int64_t added : op.getAdded())
      for (Value out : outs[added]) {
        step::FillOp::create(program, task.getLoc(), out);
        launch.adds.push_back(llvm::find(launch.operands, out) - launch.operands.begin());
      }
    setLaunch(launch, "custom", {},
              {int(op.getThreads()), int64_t(op.getIterations()), int(op.getSharedBytes())});
    launch.stem = op.getName().str();
    launch.attributes.set("nano.function", op.getNameAttr());
    launch.attributes.set("nano.added", op.getAddedAttr());
    launch.grain = int64_t(op.getGrain());
    launch.blockIterations = int64_t(op.getBlockIterations());
    if (const double flops = op.getFlops().convertToDouble(); flops > 0)
      launch.flops = b.getF64FloatAttr(flops);
    for (auto [name, text] :
         {std::pair("nano.cpu", op.getCpuAttr()), std::pair("nano.cuda", op.getCudaAttr())})
      if (text)
        launch.attributes.set(name, text);
    return std::vector<TemplateCall>{launch};
  }

  FailureOr<std::vector<TemplateCall>> scan(graph::ScanOp op) {
    TemplateCall launch;
    bind(launch, {memrefOf(op.getX())}, {memrefsOf(task, op.getResult())});
    setLaunch(launch, "scan", {op.getX().getType().getDimSize(0)},
              {int(scanThreads), 1, 4 * int(scanThreads / 32)});
    launch.attributes.set("nano.maximum", b.getBoolAttr(op.getCombiner() == graph::Combiner::max));
    return std::vector<TemplateCall>{launch};
  }

  /// In two launches where a sequence has several chunks: what each does to the state before it,
  /// then the results.
  FailureOr<std::vector<TemplateCall>> recurrence(graph::RecurrenceOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    const nano::RecurrenceShape shape{type.getDimSize(0), type.getDimSize(1), type.getDimSize(2)};
    SmallVector<Value> ins;
    for (Value operand : op->getOperands())
      ins.push_back(memrefOf(operand));
    std::vector<TemplateCall> launches;
    auto launch = [&](StringRef name, ArrayRef<SmallVector<Value>> outs) {
      TemplateCall &call = launches.emplace_back();
      bind(call, ins, outs);
      setLaunch(call, name,
                {shape.sequences, shape.length, shape.channels, bool(op.getA()), bool(op.getB()),
                 op.getReverse(), op.getAdjoint()},
                nano::recurrenceLaunch(shape));
      call.attributes.set("nano.initial", op.getInitialAttr());
    };
    if (nano::recurrenceChunks(shape) > 1) {
      Value scratch = step::BufferOp::create(
          program, task.getLoc(),
          MemRefType::get({nano::recurrenceScratchBytes(shape) / 4}, b.getF32Type()),
          b.getStringAttr("chunks"), IntegerAttr());
      launch("recurrence_totals", {{scratch}});
      ins.push_back(scratch);
    }
    launch("recurrence", {memrefsOf(task, op.getResult())});
    return launches;
  }

  /// Scores of a band, or its products: of `rows` [T, H, D] and a band [T, H, W].
  FailureOr<std::vector<TemplateCall>> band(Operation &op, Value rows, Value band, bool transpose) {
    const auto type = cast<RankedTensorType>(rows.getType());
    const nano::BandShape shape{type.getDimSize(0), type.getDimSize(1), type.getDimSize(2),
                                cast<RankedTensorType>(band.getType()).getDimSize(2)};
    const bool isScores = isa<graph::BandScoresOp>(op);
    TemplateCall launch;
    bind(launch, {memrefOf(op.getOperand(0)), memrefOf(op.getOperand(1))},
         {memrefsOf(task, op.getResult(0))});
    setLaunch(launch, isScores ? "band_scores" : "band_product",
              {shape.tokens, shape.heads, shape.size, shape.width, transpose},
              isScores ? nano::bandScoresLaunch(shape) : nano::bandProductLaunch(shape));
    launch.flops =
        b.getF64FloatAttr(2.0 * double(shape.tokens) * double(shape.heads) * double(shape.size) *
                          double(shape.width) / double(launch.iterations));
    return std::vector<TemplateCall>{launch};
  }

  FailureOr<std::vector<TemplateCall>> product(const nano::Product &op) {
    std::string obstacle = nano::productObstacle(op.op);
    if (obstacle.empty())
      obstacle = nano::epilogueObstacle(body, op.result);
    if (!obstacle.empty())
      return op.op->emitOpError("is no product of a generated kernel: ") << obstacle;
    for (Value factor : {memrefOf(op.a), memrefOf(op.b)})
      for (Value out : task.getOuts())
        if (factor == out || (factor.getType() == out.getType() && mayOverlap(factor, out)))
          return task.emitOpError("cannot write ")
                 << step::nameOf(out) << " in place: other blocks read it";
    TemplateCall launch;
    launch.epilogue = &body;
    SmallVector<Value> ins = {memrefOf(op.a), memrefOf(op.b)};
    if (op.isScaled())
      ins.append({memrefOf(op.scaleA), memrefOf(op.scaleB)});
    const llvm::DenseMap<Value, SumInPlace> inPlace = sumsInPlace(task, op);
    for (Value other : epilogueReads(op, inPlace))
      ins.push_back(memrefOf(other));
    SmallVector<SmallVector<Value>> outs;
    llvm::DenseSet<Value> sums;
    SmallVector<int64_t> added;
    bool storesOthers = false;
    for (Value result : nano::epilogueResults(op)) {
      if (inPlace.contains(result))
        added.push_back(int64_t(outs.size()));
      if (nano::partialColumnSumsOf(result))
        launch.attributes.set("nano.column_sum", b.getI64IntegerAttr(int64_t(outs.size())));
      outs.push_back(memrefsOf(task, result));
      if (nano::partialSumsOf(result))
        sums.insert_range(outs.back());
      else
        storesOthers |= result != op.result;
    }
    bind(launch, ins, outs);
    // They read what they add to.
    for (int64_t result : added)
      launch.adds.push_back(llvm::find(launch.operands, outs[result][0]) - launch.operands.begin());
    if (!added.empty())
      launch.attributes.set("nano.added", b.getDenseI64ArrayAttr(added));
    for (Value operand : launch.operands)
      if (cast<MemRefType>(operand.getType()).getRank() > 0 && !sums.contains(operand) &&
          !hasVectorRows(operand))
        return task.emitOpError("has rows of ")
               << step::nameOf(operand) << " that begin at no multiples of 16 bytes";
    // Sums are of so many elements that the errors of shared exponentials do not show.
    if (!sums.empty() && !storesOthers)
      launch.sharesExponentials = true;

    const auto type = cast<RankedTensorType>(op.result.getType());
    const nano::MatmulShape shape{
        type.getDimSize(0), type.getDimSize(1),
        op.inner(),         op.transposeA,
        op.transposeB,      int(step::elementBytes(getElementTypeOrSelf(op.a.getType()))),
        !sums.empty(),      type.getElementType().isF32()};
    const nano::MatmulLaunch sizes = nano::matmulLaunch(shape, multiprocessors);
    using Tiles = nano::MatmulTiles;
    setLaunch(launch, "matmul",
              {shape.rows, shape.columns, shape.inner, shape.transposeA, shape.transposeB,
               shape.elementBytes, sizes.blocks},
              {sizes.threads, sizes.blocks, sizes.sharedBytes});
    const auto positions = cast<DenseI64ArrayAttr>(launch.attributes.get("nano.operands"));
    auto map = [&](unsigned operand, const nano::TensorBox &box) {
      const auto matrix = cast<MemRefType>(ins[operand].getType());
      const int64_t rowBytes = stridesOf(matrix)[0] * step::elementBytes(matrix.getElementType());
      return kernel::TensorMapAttr::get(b.getContext(), positions[operand], matrix.getDimSize(1),
                                        matrix.getDimSize(0), rowBytes, box.columns, box.rows,
                                        Tiles::rowBytes);
    };
    launch.tensorMaps = {map(0, Tiles::aBox(shape.transposeA, shape.elementBytes)),
                         map(1, Tiles::bBox(shape.transposeB, shape.elementBytes))};
    launch.cluster = Tiles::clusterBlocks;
    launch.flops = b.getF64FloatAttr(2.0 * double(shape.rows) * double(shape.columns) *
                                     double(shape.inner) / double(sizes.blocks));
    return std::vector<TemplateCall>{launch};
  }

  step::TaskOp task;
  OpBuilder &program;
  int64_t multiprocessors;
  Builder b;
  Block &body;
};

/// A score region as a function of numbers.
LogicalResult scoreFunction(Region &region, StringRef name, OpBuilder &moduleBuilder) {
  SmallVector<Type> types;
  for (Type type : region.getArgumentTypes())
    types.push_back(getElementTypeOrSelf(type));
  Location loc = region.getLoc();
  auto function = func::FuncOp::create(
      moduleBuilder, loc, name, moduleBuilder.getFunctionType(types, moduleBuilder.getF32Type()));
  function.setPrivate();
  Block *entry = function.addEntryBlock();
  OpBuilder b = OpBuilder::atBlockEnd(entry);
  VectorOps v(b, loc, /*lanes=*/1);
  v.usesLibrary = true;
  llvm::DenseMap<Value, Value> values;
  for (auto [argument, value] : llvm::zip(region.getArguments(), entry->getArguments()))
    values[argument] = value;
  for (Operation &op : region.front().without_terminator()) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    FailureOr<Value> value = v.elementwise(&op, operands);
    if (failed(value))
      return failure();
    values[op.getResult(0)] = *value;
  }
  func::ReturnOp::create(b, loc, values[region.front().getTerminator()->getOperand(0)]);
  return success();
}
/// What follows a product as a function of some neighbours of a row.
LogicalResult epilogueFunction(step::TaskOp task, StringRef name, OpBuilder &moduleBuilder) {
  Block &body = task.getBody().front();
  const nano::Product product = *nano::productOf(body);
  const int64_t lanes = epilogueLanes(product);
  const SmallVector<Value> results = nano::epilogueResults(product);
  SmallVector<Value> operands = {product.result};
  const llvm::DenseMap<Value, SumInPlace> inPlace = sumsInPlace(task, product);
  llvm::append_range(operands, epilogueReads(product, inPlace));
  auto valueType = [&](Value value) -> Type {
    const auto type = cast<RankedTensorType>(value.getType());
    return type.getRank() == 0 || nano::partialSumsOf(value)
               ? type.getElementType()
               : VectorType::get({lanes}, type.getElementType());
  };
  Location loc = linesOf(task);
  auto function =
      func::FuncOp::create(moduleBuilder, loc, name,
                           moduleBuilder.getFunctionType(llvm::map_to_vector(operands, valueType),
                                                         llvm::map_to_vector(results, valueType)));
  function.setPrivate();
  Block *entry = function.addEntryBlock();
  OpBuilder b = OpBuilder::atBlockEnd(entry);
  VectorOps v(b, loc, lanes);
  v.usesLibrary = true;
  auto called = [&](const Twine &text) { return NameLoc::get(b.getStringAttr(text)); };
  llvm::DenseMap<Value, Value> values;
  for (auto [operand, argument] : llvm::zip_equal(operands, entry->getArguments())) {
    values[operand] = argument;
    if (!getElementTypeOrSelf(argument.getType()).isBF16())
      continue;
    auto in = dyn_cast<BlockArgument>(operand);
    Type wide = b.getF32Type();
    values[operand] = arith::ExtFOp::create(
        b,
        called((in ? step::nameOf(task.getIns()[in.getArgNumber()]) : std::string("product")) +
               "_value"),
        isa<VectorType>(argument.getType()) ? v.vectorOf(wide) : wide, argument);
  }
  for (Operation &op : body.without_terminator()) {
    if (&op == product.op || inPlace.contains(op.getResult(0)))
      continue;
    v.loc = called(op.getName().stripDialect());
    if (isa<graph::BroadcastOp, graph::ReshapeOp>(op)) {
      values[op.getResult(0)] = values[op.getOperand(0)];
      continue;
    }
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
      // The template adds up the rows of a sum of columns.
      const Value summands = v.splat(values[reduce.getX()]);
      values[reduce.getResult()] = nano::partialSumsOf(reduce) ? v.sumLanes(summands) : summands;
      continue;
    }
    SmallVector<Value> read;
    for (Value operand : op.getOperands())
      read.push_back(values[operand]);
    if (Value ofPairs = v.elementwiseOfPairs(&op, read)) {
      values[op.getResult(0)] = ofPairs;
      continue;
    }
    FailureOr<Value> value = v.elementwise(&op, read);
    if (failed(value))
      return failure();
    values[op.getResult(0)] = *value;
  }
  v.loc = loc;
  SmallVector<Value> returned;
  for (Value result : results) {
    const auto sum = inPlace.find(result);
    const Value value = values[sum == inPlace.end() ? result : sum->second.summand];
    returned.push_back(nano::partialSumsOf(result)
                           ? value
                           : v.narrowed(v.splat(value), getElementTypeOrSelf(result.getType())));
  }
  func::ReturnOp::create(b, loc, returned);
  // Widenings of what is stored narrow.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*entry)))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

/// Positions of operands that are only read but lie where another one is written.
SmallVector<int64_t> updatedOperands(const TemplateCall &launch) {
  SmallVector<int64_t> updated;
  for (auto [i, operand] : llvm::enumerate(launch.operands))
    if (!llvm::is_contained(launch.writes, int64_t(i)) &&
        llvm::any_of(launch.writes, [&, operand = operand](int64_t write) {
          return mayOverlap(launch.operands[write], operand);
        }))
      updated.push_back(int64_t(i));
  return updated;
}

/// The launch's fields under names. A kernel's name ends in a hash of this text, and profiles know
/// kernels by name: what it says of a launch stays as it is.
DictionaryAttr identityOf(const TemplateCall &launch) {
  Builder b(launch.operands.front().getContext());
  NamedAttrList fields = launch.attributes;
  for (auto [name, value] : {std::pair("nano.grain", launch.grain),
                             std::pair("nano.block_iterations", launch.blockIterations),
                             std::pair("nano.cluster", launch.cluster),
                             std::pair("nano.resident_blocks", launch.residentBlocks)})
    if (value)
      fields.set(name, b.getI64IntegerAttr(*value));
  if (launch.flops)
    fields.set("nano.flops", launch.flops);
  if (launch.flopsPerKey)
    fields.set("nano.flops_per_key", launch.flopsPerKey);
  if (launch.sharesExponentials)
    fields.set("nano.shares_exponentials", b.getUnitAttr());
  SmallVector<Attribute> maps;
  for (kernel::TensorMapAttr map : launch.tensorMaps)
    maps.push_back(
        b.getDenseI64ArrayAttr({map.getBuffer(), map.getColumns(), map.getRows(), map.getRowBytes(),
                                map.getBoxColumns(), map.getBoxRows(), map.getSwizzleBytes()}));
  if (!maps.empty())
    fields.set("nano.tensor_maps", b.getArrayAttr(maps));
  if (launch.epilogue)
    fields.set("nano.updated", b.getDenseI64ArrayAttr(updatedOperands(launch)));
  return fields.getDictionary(b.getContext());
}

/// What a launch's template does with an operand. One that lies where another one is written is no
/// constant.
kernel::ParameterAttr parameterOf(const TemplateCall &launch, int64_t i) {
  const Value operand = launch.operands[i];
  const bool isWritten = llvm::is_contained(launch.writes, i) ||
                         (launch.epilogue && llvm::is_contained(updatedOperands(launch), i));
  const kernel::Access access = llvm::is_contained(launch.adds, i)
                                    ? kernel::Access::add
                                    : kernel::accessOf(llvm::is_contained(launch.reads, i),
                                                       llvm::is_contained(launch.writes, i));
  return kernel::ParameterAttr::get(operand.getContext(), access, step::nameOf(operand),
                                    /*alignment=*/0, /*constant=*/!isWritten, /*picks=*/0);
}
} // namespace

FailureOr<std::vector<TemplateCall>> templateCalls(step::TaskOp task, OpBuilder &program,
                                                   int64_t multiprocessors) {
  return Templates(task, program, multiprocessors).launches();
}

std::string templateKey(const TemplateCall &launch) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << identityOf(launch) << '\n';
  for (Value operand : launch.operands)
    os << KernelFrame::argumentType(cast<MemRefType>(operand.getType())) << ' '
       << alignmentOf(operand) << '\n';
  OpPrintingFlags flags = OpPrintingFlags().printGenericOpForm().useLocalScope();
  for (Region *region : {launch.score, launch.scoreGrad})
    if (region)
      for (Operation &op : region->front()) {
        op.print(os, flags);
        os << '\n';
      }
  if (launch.epilogue)
    for (Operation &op : *launch.epilogue) {
      op.print(os, flags);
      os << '\n';
    }
  return key;
}

FailureOr<kernel::FuncOp> templateFunction(step::TaskOp task, const TemplateCall &launch,
                                           StringRef name, OpBuilder &moduleBuilder) {
  Builder b(task.getContext());
  Location loc = launch.epilogue ? linesOf(task) : task.getBody().front().front().getLoc();
  NamedAttrList attributes = launch.attributes;
  if (launch.epilogue) {
    std::string function = (name + ".epilogue").str();
    if (failed(epilogueFunction(task, function, moduleBuilder)))
      return failure();
    attributes.set("nano.epilogue", FlatSymbolRefAttr::get(b.getContext(), function));
  }
  for (auto [attribute, region] :
       {std::pair("nano.score", launch.score), std::pair("nano.score_grad", launch.scoreGrad)})
    if (region) {
      std::string function = (name + "." + StringRef(attribute).drop_front(5)).str();
      if (failed(scoreFunction(*region, function, moduleBuilder)))
        return failure();
      attributes.set(attribute, FlatSymbolRefAttr::get(b.getContext(), function));
    }
  SmallVector<Type> types;
  for (Value operand : launch.operands)
    types.push_back(KernelFrame::argumentType(cast<MemRefType>(operand.getType())));
  types.push_back(MemRefType::get({launch.sharedBytes}, b.getI8Type(), MemRefLayoutAttrInterface(),
                                  b.getI64IntegerAttr(sharedMemorySpace)));
  types.append(2, b.getIndexType());
  SmallVector<kernel::ParameterAttr> parameters;
  for (int64_t i = 0; i < int64_t(launch.operands.size()); ++i)
    parameters.push_back(parameterOf(launch, i));
  auto function =
      kernel::FuncOp::create(moduleBuilder, loc, name, b.getFunctionType(types, {}), parameters);
  OpBuilder inside = OpBuilder::atBlockEnd(function.addEntryBlock());
  kernel::ReturnOp::create(inside, loc);
  function.setGrain(launch.grain.value_or(1));
  function.setLaunchAttr(kernel::LaunchAttr::get(
      b.getContext(), launch.threads, launch.blockIterations.value_or(1),
      launch.cluster.value_or(1), launch.residentBlocks.value_or(0), launch.sharesExponentials));
  if (launch.flops)
    function.setFlopsAttr(launch.flops);
  if (launch.flopsPerKey)
    function.setFlopsPerKeyAttr(launch.flopsPerKey);
  if (!launch.tensorMaps.empty())
    function.setTensorMapsAttr(
        b.getArrayAttr(SmallVector<Attribute>(launch.tensorMaps.begin(), launch.tensorMaps.end())));
  function.setSummary(launch.epilogue ? summaryOf(task) : launch.stem);
  function->setDiscardableAttrs(attributes.getDictionary(b.getContext()));
  return function;
}

} // namespace nano::kernels
