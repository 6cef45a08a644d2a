// Template calls of groups of rows whose ends only a run knows: products with a matrix each, and
// sums of outer products. On tensor cores where types, sizes and places in memory permit.
#include "ir/graph/MatmulOps.h"
#include "ir/kernel/shapes/nano_grouped_shape.h"
#include "passes/cuda/TaskTemplate.h"
#include "passes/cuda/TemplateFunctions.h"
#include "passes/emit/TaskOperands.h"

using namespace mlir;

namespace nano::kernels {

namespace {

class GroupedTemplates : TaskTemplate {
  using Tiles = nano::MatmulTiles;

public:
  GroupedTemplates(step::TaskOp task, OpBuilder &program, int64_t multiprocessors)
      : TaskTemplate(task, program, multiprocessors) {}

  TemplateCall product(graph::GroupedMatmulOp op) {
    const ArrayRef<int64_t> x = op.getX().getType().getShape(), w = op.getW().getType().getShape();
    const bool transpose = op.getTranspose();
    const nano::GroupedShape shape{x[0], w[0], w[transpose ? 1 : 2], x[1]};
    open(op, nano::isGroupedMatmulShape(shape, transpose), {memrefOf(op.getW())});
    const nano::MatmulLaunch launch = nano::groupedMatmulLaunch(shape, multiprocessors);
    setSizes("grouped_matmul", {shape.rows, shape.groups, shape.columns, shape.inner, transpose},
             shape, launch, nano::plainGroupedMatmulLaunch(shape));
    if (onTensorCores)
      call.tensorMaps = {map(0, Tiles::aBox(false, 2)), map(1, Tiles::bBox(transpose, 2))};
    set(call,
        kernel::GroupedMatmulAttr::get(b.getContext(), shape.rows, shape.groups, shape.columns,
                                       shape.inner, transpose, blocks(launch), at.ins[0], at.ins[1],
                                       at.ins[2], b.getDenseI64ArrayAttr(at.outs[0])));
    return call;
  }

  TemplateCall outer(graph::GroupedOuterOp op) {
    const ArrayRef<int64_t> a = op.getA().getType().getShape(),
                            w = op.getResult().getType().getShape();
    const nano::GroupedShape shape{a[0], w[0], w[2], w[1]};
    open(op, nano::isGroupedOuterShape(shape), memrefsOf(task, op.getResult()));
    const nano::MatmulLaunch launch = nano::groupedOuterLaunch(shape, multiprocessors);
    setSizes("grouped_outer", {shape.rows, shape.groups, shape.columns, shape.inner}, shape, launch,
             nano::plainGroupedOuterLaunch(shape));
    if (onTensorCores)
      call.tensorMaps = {map(0, nano::GroupedOuterTiles::aBox()),
                         map(1, nano::GroupedOuterTiles::bBox())};
    set(call, kernel::GroupedOuterAttr::get(b.getContext(), shape.rows, shape.groups, shape.columns,
                                            shape.inner, blocks(launch), at.ins[0], at.ins[1],
                                            at.ins[2], b.getDenseI64ArrayAttr(at.outs[0])));
    return call;
  }

private:
  /// Whether matrices lie one behind the other, as the rows of one.
  static bool areOne(Value matrices) {
    const auto type = cast<MemRefType>(matrices.getType());
    const SmallVector<int64_t> strides = stridesOf(type);
    return type.getDimSize(0) == 1 || strides[0] == type.getDimSize(1) * strides[1];
  }

  /// Binds the op's operands; `matrices` are those that hold one for each group.
  void open(Operation *op, bool fits, ArrayRef<Value> matrices) {
    for (Value operand : op->getOperands())
      ins.push_back(memrefOf(operand));
    const SmallVector<Value> outs = memrefsOf(task, op->getResult(0));
    at = bind(call, ins, {outs});
    onTensorCores = fits && llvm::all_of(matrices, areOne);
    for (Value factor : ArrayRef(ins).take_front(2))
      onTensorCores &=
          hasVectorRows(factor) && cast<MemRefType>(factor.getType()).getElementType().isBF16();
    onTensorCores &= llvm::all_of(outs, [](Value out) { return hasVectorRows(out); });
  }

  void setSizes(StringRef name, ArrayRef<int64_t> sizes, const nano::GroupedShape &shape,
                const nano::MatmulLaunch &launch, const nano::TemplateLaunch &plain) {
    SmallVector<int64_t> all(sizes);
    if (onTensorCores)
      all.push_back(launch.blocks);
    setLaunch(call, name, all,
              onTensorCores
                  ? nano::TemplateLaunch{launch.threads, launch.blocks, launch.sharedBytes}
                  : plain);
    if (onTensorCores)
      call.cluster = Tiles::clusterBlocks;
    call.flopsType = onTensorCores ? b.getBF16Type() : b.getF32Type();
    call.flops = b.getF64FloatAttr(2.0 * double(shape.rows) * double(shape.columns) *
                                   double(shape.inner) / double(call.iterations));
  }

  /// Of an operand's rows, those of all groups' matrices.
  kernel::TensorMapAttr map(unsigned operand, const nano::TensorBox &box) {
    const auto type = cast<MemRefType>(ins[operand].getType());
    const int64_t rank = type.getRank();
    return kernel::TensorMapAttr::get(b.getContext(), at.ins[operand], type.getDimSize(rank - 1),
                                      type.getNumElements() / type.getDimSize(rank - 1),
                                      2 * stridesOf(type)[size_t(rank - 2)], box.columns, box.rows,
                                      Tiles::rowBytes);
  }
  std::optional<int64_t> blocks(const nano::MatmulLaunch &launch) const {
    return onTensorCores ? std::optional<int64_t>(launch.blocks) : std::nullopt;
  }

  TemplateCall call;
  SmallVector<Value> ins;
  Bound at;
  bool onTensorCores = false;
};

} // namespace

std::vector<TemplateCall> groupedCalls(Operation &op, step::TaskOp task, OpBuilder &program,
                                       int64_t multiprocessors) {
  GroupedTemplates templates(task, program, multiprocessors);
  if (auto product = dyn_cast<graph::GroupedMatmulOp>(op))
    return {templates.product(product)};
  return {templates.outer(cast<graph::GroupedOuterOp>(op))};
}

} // namespace nano::kernels
