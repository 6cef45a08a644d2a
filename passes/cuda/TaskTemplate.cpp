// Operands of a task as those of template calls, and what names these.
#include "passes/cuda/TaskTemplate.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

Value TaskTemplate::memrefOf(Value operand) {
  return task.getIns()[cast<BlockArgument>(operand).getArgNumber()];
}

Value TaskTemplate::buffer(StringRef name, int64_t elements, Type type) {
  return step::BufferOp::create(program, task.getLoc(), MemRefType::get({elements}, type),
                                b.getStringAttr(name), IntegerAttr());
}

TaskTemplate::Bound TaskTemplate::bind(TemplateCall &launch, ArrayRef<Value> ins,
                                       ArrayRef<SmallVector<Value>> outs) {
  llvm::SetVector<Value> operands;
  auto position = [&](Value memref) -> int64_t {
    operands.insert(memref);
    return llvm::find(operands, memref) - operands.begin();
  };
  Bound bound;
  for (Value in : ins)
    bound.ins.push_back(position(in));
  for (ArrayRef<Value> places : outs)
    bound.outs.push_back(llvm::map_to_vector(places, position));
  launch.operands = operands.takeVector();
  identify(launch.identity, "operands", b.getDenseI64ArrayAttr(bound.ins));
  identify(launch.identity, "results", list(bound.outs));
  return bound;
}

ArrayAttr TaskTemplate::list(ArrayRef<SmallVector<int64_t>> results) {
  return b.getArrayAttr(llvm::map_to_vector(results, [&](const SmallVector<int64_t> &places) {
    return Attribute(b.getDenseI64ArrayAttr(places));
  }));
}

void TaskTemplate::setLaunch(TemplateCall &launch, StringRef name, ArrayRef<int64_t> shape,
                             const nano::TemplateLaunch &sizes) {
  launch.stem = name.str();
  identify(launch.identity, "template", b.getStringAttr(name));
  identify(launch.identity, "shape", b.getDenseI64ArrayAttr(shape));
  launch.threads = sizes.threads;
  launch.iterations = sizes.iterations;
  launch.sharedBytes = sizes.sharedBytes;
}

void TaskTemplate::set(TemplateCall &launch, kernel::TemplateAttrInterface instance) {
  launch.instance = [=](const TemplateFunctions &) { return instance; };
}

} // namespace nano::kernels
