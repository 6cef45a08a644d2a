// Template calls along tokens or rows: scans, orders, sparsemax, recurrences and bands.
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowFunctionOps.h"
#include "ir/graph/Sequence.h"
#include "ir/kernel/shapes/nano_band_shape.h"
#include "ir/kernel/shapes/nano_recurrence_shape.h"
#include "passes/cuda/TaskTemplate.h"
#include "passes/cuda/TemplateFunctions.h"
#include "passes/emit/TaskOperands.h"

using namespace mlir;

namespace nano::kernels {

namespace {
constexpr int64_t scanThreads = 1024;

class SequenceTemplates : TaskTemplate {
public:
  SequenceTemplates(step::TaskOp task, OpBuilder &program, int64_t multiprocessors)
      : TaskTemplate(task, program, multiprocessors) {}

  std::vector<TemplateCall> callsOf(Operation &op) {
    if (auto recurrence = dyn_cast<graph::RecurrenceOp>(op))
      return this->recurrence(recurrence);
    if (auto scores = dyn_cast<graph::BandScoresOp>(op))
      return band(op, scores.getQ(), scores.getResult(), /*transpose=*/false);
    if (auto product = dyn_cast<graph::BandProductOp>(op))
      return band(op, product.getV(), product.getP(), product.getTranspose());
    if (auto scan = dyn_cast<graph::ScanOp>(op))
      return this->scan(scan);
    if (auto order = dyn_cast<graph::ArgsortOp>(op))
      return argsort(order);
    if (auto projection = dyn_cast<graph::SparsemaxOp>(op))
      return sparsemax(projection);
    return {};
  }

private:
  std::vector<TemplateCall> scan(graph::ScanOp op) {
    TemplateCall launch;
    const Bound at = bind(launch, {memrefOf(op.getX())}, {memrefsOf(task, op.getResult())});
    const int64_t size = op.getX().getType().getDimSize(0);
    const bool maximum = op.getCombiner() == graph::Combiner::max;
    setLaunch(launch, "scan", {size}, {int(scanThreads), 1, 4 * int(scanThreads / 32)});
    set(launch, kernel::ScanAttr::get(b.getContext(), size, maximum, at.ins[0],
                                      b.getDenseI64ArrayAttr(at.outs[0])));
    identify(launch.identity, "maximum", b.getBoolAttr(maximum));
    return {launch};
  }

  std::vector<TemplateCall> argsort(graph::ArgsortOp op) {
    TemplateCall launch;
    const Bound at = bind(launch, {memrefOf(op.getX())}, {memrefsOf(task, op.getResult())});
    const ArrayRef<int64_t> shape = op.getX().getType().getShape();
    // A thread a pair of columns.
    const int64_t threads =
        std::clamp<int64_t>(int64_t(llvm::PowerOf2Ceil(uint64_t(shape[1]))) / 2, 32, 1024);
    const int64_t bytes = 8 * shape[1];
    const bool isShared = bytes <= maxSharedBytes;
    setLaunch(launch, "argsort", shape, {int(threads), shape[0], isShared ? int(bytes) : 0});
    set(launch, kernel::ArgsortAttr::get(b.getContext(), shape[0], shape[1], isShared, at.ins[0],
                                         b.getDenseI64ArrayAttr(at.outs[0])));
    return {launch};
  }

  std::vector<TemplateCall> sparsemax(graph::SparsemaxOp op) {
    TemplateCall launch;
    SmallVector<Value> all = memrefsOf(task, op.getResult());
    const Value x = memrefOf(op.getX());
    const Bound at = bind(launch, {x}, {all});
    all.push_back(x);
    const ArrayRef<int64_t> shape = op.getX().getType().getShape();
    const int64_t vector = commonVector(all, 1);
    // Two vectors a thread, or more where a row has more than a block takes.
    const int64_t threads =
        std::clamp<int64_t>(int64_t(llvm::PowerOf2Ceil(uint64_t(shape[1] / vector))) / 2, 32, 1024);
    setLaunch(launch, "sparsemax", {shape[0], shape[1], vector}, {int(threads), shape[0], 4 * 128});
    set(launch, kernel::SparsemaxAttr::get(b.getContext(), shape[0], shape[1], vector, at.ins[0],
                                           b.getDenseI64ArrayAttr(at.outs[0])));
    return {launch};
  }

  std::vector<TemplateCall> recurrence(graph::RecurrenceOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<Value> ins, all;
    for (Value operand : op->getOperands())
      ins.push_back(memrefOf(operand));
    const SmallVector<Value> outs = memrefsOf(task, op.getResult());
    llvm::append_range(all, ins);
    llvm::append_range(all, outs);
    const nano::RecurrenceShape shape{type.getDimSize(0),
                                      type.getDimSize(1),
                                      type.getDimSize(2),
                                      int(commonVector(all, type.getDimSize(2) == 1 ? 1 : 2)),
                                      int(step::elementBytes(type.getElementType())),
                                      int(op->getNumOperands()),
                                      int(multiprocessors)};
    const nano::RecurrencePlan plan = nano::recurrencePlan(shape);
    TemplateCall launch;
    const Bound at = bind(launch, ins, {outs});
    setLaunch(launch, "recurrence",
              {shape.sequences, shape.length, shape.channels, shape.vector, bool(op.getA()),
               bool(op.getB()), op.getReverse(), op.getAdjoint()},
              nano::recurrenceLaunch(shape));
    identify(launch.identity, "initial", op.getInitialAttr());
    if (plan.cluster > 1)
      launch.cluster = plan.cluster;
    if (plan.residentBlocks > 0)
      launch.residentBlocks = plan.residentBlocks;
    // The operands that there are, in their order.
    const std::optional<int64_t> a = op.getA() ? std::optional(at.ins[0]) : std::nullopt,
                                 term = op.getB() ? std::optional(at.ins.back()) : std::nullopt;
    set(launch, kernel::RecurrenceAttr::get(b.getContext(), shape.sequences, shape.length,
                                            shape.channels, shape.vector, multiprocessors,
                                            op.getReverse(), op.getAdjoint(), op.getInitialAttr(),
                                            a, term, b.getDenseI64ArrayAttr(at.outs[0])));
    return {launch};
  }

  /// Scores of a band, or its products: of `rows` [T, H, D] and a band [T, H, W].
  std::vector<TemplateCall> band(Operation &op, Value rows, Value band, bool transpose) {
    const auto type = cast<RankedTensorType>(rows.getType());
    const bool isScores = isa<graph::BandScoresOp>(op);
    const SmallVector<Value> ins = {memrefOf(op.getOperand(0)), memrefOf(op.getOperand(1))},
                             outs = memrefsOf(task, op.getResult(0));
    auto bytesOf = [](Value memref) {
      return int(step::elementBytes(cast<MemRefType>(memref.getType()).getElementType()));
    };
    const int rowBytes = bytesOf(ins[1]);
    const bool onMatrices =
        type.getDimSize(2) % (16 / rowBytes) == 0 && hasVectorRows(ins[1]) &&
        (isScores ? bytesOf(ins[0]) == rowBytes && hasVectorRows(ins[0]) &&
                        type.getDimSize(2) <= nano::bandMostSize
                  : llvm::all_of(outs, [](Value out) { return hasVectorRows(out); }));
    const nano::BandShape shape{
        type.getDimSize(0),  type.getDimSize(1),
        type.getDimSize(2),  cast<RankedTensorType>(band.getType()).getDimSize(2),
        onMatrices,          bytesOf(ins[0]),
        transpose,           rowBytes,
        int(multiprocessors)};
    TemplateCall launch;
    const Bound at = bind(launch, ins, {outs});
    setLaunch(launch, isScores ? "band_scores" : "band_product",
              {shape.tokens, shape.heads, shape.size, shape.width, transpose, onMatrices},
              isScores ? nano::bandScoresLaunch(shape) : nano::bandProductLaunch(shape));
    if (onMatrices)
      launch.residentBlocks = nano::bandResidentBlocks(shape, isScores);
    const DenseI64ArrayAttr y = b.getDenseI64ArrayAttr(at.outs[0]);
    if (isScores)
      set(launch, kernel::BandScoresAttr::get(b.getContext(), shape.tokens, shape.heads, shape.size,
                                              shape.width, multiprocessors, transpose, onMatrices,
                                              at.ins[0], at.ins[1], y));
    else
      set(launch, kernel::BandProductAttr::get(b.getContext(), shape.tokens, shape.heads,
                                               shape.size, shape.width, multiprocessors, transpose,
                                               onMatrices, at.ins[0], at.ins[1], y));
    launch.flopsType = onMatrices ? b.getBF16Type() : b.getF32Type();
    launch.flops = b.getF64FloatAttr(
        2.0 * (onMatrices ? nano::bandProductsOfOne(shape, bytesOf(outs.front())) : 1) *
        double(shape.tokens) * double(shape.heads) * double(shape.size) * double(shape.width) /
        double(launch.iterations));
    return {launch};
  }
};

} // namespace

std::vector<TemplateCall> sequenceCalls(Operation &op, step::TaskOp task, OpBuilder &program,
                                        int64_t multiprocessors) {
  return SequenceTemplates(task, program, multiprocessors).callsOf(op);
}

} // namespace nano::kernels
