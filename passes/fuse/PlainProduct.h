// Products that may be parts of others, of any element type.
#pragma once

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/Values.h"
#include "ir/machine/Machine.h"

namespace nano {

/// A product that may be part of another: of two matrices, without a factor; of 8 bits with one
/// scale an operand. None where it holds no op.
class PlainProduct {
public:
  PlainProduct() = default;
  /// The op as such a product; none where it is something else.
  static PlainProduct of(mlir::Operation *op) {
    PlainProduct product;
    if (isPlain(mlir::dyn_cast_if_present<graph::MatmulOp>(op)))
      product.op = op;
    if (auto scaled = mlir::dyn_cast_if_present<graph::ScaledMatmulOp>(op); isPlain(scaled))
      if (graph::tensorType(scaled.getScaleA()).getRank() == 0 &&
          graph::tensorType(scaled.getScaleB()).getRank() == 0)
        product.op = op;
    return product;
  }

  explicit operator bool() const { return op != nullptr; }
  operator mlir::Operation *() const { return op; }
  mlir::Operation *operator->() const { return op; }
  bool operator==(const PlainProduct &other) const { return op == other.op; }

  mlir::Value getA() const { return op->getOperand(0); }
  mlir::Value getB() const { return op->getOperand(1); }
  mlir::Value getResult() const { return op->getResult(0); }
  /// Of 8 bits; null for others.
  mlir::Value getScaleA() const { return isScaled() ? op->getOperand(2) : mlir::Value(); }
  mlir::Value getScaleB() const { return isScaled() ? op->getOperand(3) : mlir::Value(); }
  mlir::Value getAddend() const {
    return isScaled() ? scaled().getAddend() : mlir::cast<graph::MatmulOp>(op).getAddend();
  }
  void setAddend(mlir::Value addend) const {
    const mlir::ValueRange range = addend ? mlir::ValueRange(addend) : mlir::ValueRange();
    if (isScaled())
      scaled().getAddendMutable().assign(range);
    else
      mlir::cast<graph::MatmulOp>(op).getAddendMutable().assign(range);
  }
  bool getTransposeB() const {
    return isScaled() ? scaled().getTransposeB() : mlir::cast<graph::MatmulOp>(op).getTransposeB();
  }
  mlir::RankedTensorType getType() const { return graph::tensorType(getResult()); }
  mlir::Location getLoc() const { return op->getLoc(); }

  /// The same product of other operands.
  PlainProduct withOperands(mlir::OpBuilder &builder, mlir::Location location,
                            mlir::RankedTensorType type, mlir::Value a, mlir::Value b) const {
    if (isScaled())
      return of(graph::ScaledMatmulOp::create(builder, location, type, a, b, getScaleA(),
                                              getScaleB(), mlir::Value(), /*transposeA=*/false,
                                              getTransposeB(), llvm::APFloat(1.0),
                                              llvm::APFloat(1.0), mlir::DictionaryAttr()));
    return of(graph::MatmulOp::create(builder, location, type, a, b, /*transposeA=*/false,
                                      getTransposeB()));
  }

private:
  template <typename Op> static bool isPlain(Op product) {
    return product && graph::tensorType(product).getRank() == 2 && !product.getTransposeA() &&
           product.getAlpha().isExactlyValue(1.0) &&
           (!product.getAddend() || product.getBeta().isExactlyValue(1.0));
  }
  bool isScaled() const { return mlir::isa<graph::ScaledMatmulOp>(op); }
  graph::ScaledMatmulOp scaled() const { return mlir::cast<graph::ScaledMatmulOp>(op); }

  mlir::Operation *op = nullptr;
};

inline int64_t columnsOf(PlainProduct product) { return product.getType().getDimSize(1); }
inline int64_t innerOf(PlainProduct product) {
  return graph::tensorType(product.getA()).getDimSize(1);
}
inline int64_t sumOf(llvm::ArrayRef<PlainProduct> products, int64_t (*size)(PlainProduct)) {
  int64_t sum = 0;
  for (PlainProduct product : products)
    sum += size(product);
  return sum;
}

inline machine::ElementType elementOf(PlainProduct product) {
  switch (graph::tensorType(product.getA()).getElementTypeBitWidth()) {
  case 8:
    return machine::ElementType::F8;
  case 16:
    return machine::ElementType::BF16;
  default:
    return machine::ElementType::F32;
  }
}

/// True when both are of operands of the same types and scales.
inline bool areAlike(PlainProduct a, PlainProduct b) {
  return a.getTransposeB() == b.getTransposeB() &&
         a.getType().getElementType() == b.getType().getElementType() &&
         graph::tensorType(a.getA()).getElementType() ==
             graph::tensorType(b.getA()).getElementType() &&
         graph::tensorType(a.getB()).getElementType() ==
             graph::tensorType(b.getB()).getElementType() &&
         a.getScaleA() == b.getScaleA() && a.getScaleB() == b.getScaleB();
}

} // namespace nano
