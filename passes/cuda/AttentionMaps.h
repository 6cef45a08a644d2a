// Tensor maps of attention's operands: matrices whose rows hold all heads of a token.
#pragma once

#include "ir/kernel/Kernel.h"
#include "ir/kernel/shapes/nano_attention_launch.h"
#include "ir/step/Step.h"
#include "passes/emit/TaskOperands.h"

namespace nano::kernels {

inline int64_t columnsOfHeads(mlir::MemRefType type, llvm::ArrayRef<int64_t> strides) {
  return (type.getDimSize(1) - 1) * strides[1] + type.getDimSize(2);
}

/// True when the heads of a token lie in one row of a matrix, which a tensor map can be of.
inline bool isMatrixOfHeads(mlir::Value memref) {
  auto type = mlir::cast<mlir::MemRefType>(memref.getType());
  const llvm::SmallVector<int64_t> strides = stridesOf(type);
  return type.hasStaticShape() && type.getDimSize(0) > 1 &&
         columnsOfHeads(type, strides) <= strides[0];
}

/// Of boxes of 64 columns of a head.
inline kernel::TensorMapAttr mapOfHeads(mlir::Value memref, int64_t position, int64_t boxRows) {
  auto type = mlir::cast<mlir::MemRefType>(memref.getType());
  const llvm::SmallVector<int64_t> strides = stridesOf(type);
  const int64_t bytes = step::elementBytes(type.getElementType());
  return kernel::TensorMapAttr::get(memref.getContext(), position, columnsOfHeads(type, strides),
                                    type.getDimSize(0), strides[0] * bytes, /*boxColumns=*/64,
                                    boxRows, /*swizzleBytes=*/128);
}

/// Of q, k, v and of gradients dy, operands 0, 1, 2 and 7, which are at `positions` of the
/// kernel's.
inline llvm::SmallVector<kernel::TensorMapAttr> mapsOfAttention(const nano::AttentionShape &shape,
                                                                llvm::ArrayRef<mlir::Value> ins,
                                                                llvm::ArrayRef<int64_t> positions,
                                                                bool isGrad) {
  const nano::AttentionBoxes boxes = isGrad
                                         ? nano::AttentionBoxes{nano::attentionGradBoxRows(shape),
                                                                nano::attentionGradBoxRows(shape)}
                                         : nano::attentionBoxes(shape);
  llvm::SmallVector<kernel::TensorMapAttr> maps;
  for (int i : {0, 1, 2})
    maps.push_back(mapOfHeads(ins[i], positions[i], i == 0 ? boxes.queries : boxes.keys));
  if (isGrad)
    maps.push_back(mapOfHeads(ins[7], positions[7], boxes.keys));
  return maps;
}

} // namespace nano::kernels
