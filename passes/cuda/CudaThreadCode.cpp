// Registers, comparisons, calls and gathered rows of one GPU thread's code.
#include "passes/cuda/CudaThreadCode.h"

#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

Value CudaThreadCode::called(StringRef name, const Twine &callee, Type result,
                             ValueRange operands) {
  return named(name, [&] { return frame.callDevice(v.b, callee.str(), result, operands); });
}

std::string CudaThreadCode::exchange(StringRef among, bool isSum, int64_t threads, Type type) {
  const char *of = isa<FloatType>(type) ? ">" : ", int>";
  return (among + (isSum ? "Sum<" : "Max<") + Twine(threads) + of).str();
}

Value CudaThreadCode::less(Value a, Value c) {
  return arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::slt, a, c);
}

Value CudaThreadCode::isZero(Value number) {
  return arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::eq, number, v.index(0));
}

Value CudaThreadCode::registers(Type element, int64_t count) {
  return memref::AllocaOp::create(v.b, v.loc, MemRefType::get({count}, v.vectorOf(element)));
}

void CudaThreadCode::storeRegister(Value value, Value memory, Value slot) {
  Type element = getElementTypeOrSelf(cast<MemRefType>(memory.getType()).getElementType());
  memref::StoreOp::create(v.b, v.loc, v.narrowed(v.splat(value), element), memory, slot);
}

//===- Loads ----------------------------------------------------------------===//

SmallVector<Value> CudaThreadCode::loadsOf(ArrayRef<Value> roots, int64_t elements) {
  llvm::SetVector<Value> loads;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> pending(llvm::reverse(roots));
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!seen.insert(value).second || elementsOf(value) != elements || e.held.contains(value) ||
        e.staged.contains(value))
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || isa<graph::GatherOp, graph::PermuteOp>(op))
      loads.insert(value);
    else if (!isa<graph::RotateOp, graph::ReduceOp>(op))
      llvm::append_range(pending, llvm::reverse(op->getOperands()));
  }
  return loads.takeVector();
}

//===- Gathered rows --------------------------------------------------------===//

static Type elementOf(const CudaTiles::Output &output, KernelFrame &frame) {
  return cast<MemRefType>(frame.output(output.index).getType()).getElementType();
}

StringRef CudaThreadCode::deviceName(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return "nano::f8e4m3";
  if (isa<Float8E5M2Type>(element))
    return "nano::f8e5m2";
  if (element.isInteger(16))
    return "uint16_t";
  return element.isBF16() ? "nano::bf16" : element.isF32() ? "float" : "int";
}

void CudaThreadCode::openTiles(const CudaTiles &tiles) {
  for (const CudaTiles::Output &output : tiles.outputs) {
    Type element = elementOf(output, frame);
    e.tiles[output.index].memory = named("gathered", [&] {
      return frame.allocate(tiles.buffers * tiles.rows * tiles.strideOf(element), element);
    });
  }
}

/// Where a buffer begins in the memory of an output.
static Index beginOf(RowEvaluator &e, const CudaTiles &tiles, Type element, Index buffer) {
  return e.mul(buffer, tiles.rows * tiles.strideOf(element));
}

void CudaThreadCode::placeInTiles(const CudaTiles &tiles, Index row, Index column, Index buffer) {
  for (const CudaTiles::Output &output : tiles.outputs) {
    Type element = elementOf(output, frame);
    int64_t access = CudaTiles::rowsOfAccess(element);
    Index turned =
        e.mul(e.rem(e.div(row, access), tiles.partRows(element) / access), tiles.unitOf(element));
    Index begin = e.mul(row, tiles.strideOf(element));
    if (tiles.buffers > 1)
      begin = e.add(beginOf(e, tiles, element, buffer), begin);
    e.moveTo(e.depth());
    Value place = arith::XOrIOp::create(v.b, v.loc, column.value, turned.value);
    e.tiles[output.index].at = named("place", [&] { return v.add(begin.value, place); });
  }
}

void CudaThreadCode::storeTiles(const CudaTiles &tiles, Index firstRow, Index firstColumn,
                                Value rows, Value columns, Index buffer) {
  called("", "syncBlock", Type(), {});
  for (auto [job, output] : llvm::enumerate(tiles.outputs)) {
    Type element = elementOf(output, frame);
    Index at = firstRow;
    if (output.matrixRows)
      at = e.add(e.mul(e.div(firstRow, output.matrixRows), output.matrixStride),
                 e.rem(firstRow, output.matrixRows));
    at = e.add(e.mul(firstColumn, output.stride), at);
    const int64_t count = tiles.rows / tiles.partRows(element);
    const int64_t first = tiles.firstThread(int64_t(job));
    const bool isAlone = tiles.jobs == 1 && tiles.buffers == 1;
    std::string parts = count == 1 && isAlone ? "" : ", " + std::to_string(count);
    SmallVector<Value> operands{e.tiles[output.index].memory,
                                frame.flat(frame.output(output.index)),
                                at.value,
                                v.index(output.stride),
                                rows,
                                columns};
    if (!isAlone) {
      parts += ", " + std::to_string(first);
      operands.push_back(tiles.buffers > 1 ? beginOf(e, tiles, element, buffer).value : v.index(0));
    }
    e.moveTo(e.depth());
    called("",
           "storeColumns<" + deviceName(element) + ", " + Twine(tiles.rows) + ", " +
               Twine(tiles.strideOf(element)) + ", " + Twine(frame.threads) + ", " +
               Twine(output.alignment) + parts + ">",
           Type(), operands);
  }
}

} // namespace nano::kernels
