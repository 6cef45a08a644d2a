// Which memrefs are read and written by 16 bytes.
#include "ir/step/VectorRows.h"

#include "ir/step/Step.h"

using namespace mlir;

namespace nano::step {

static constexpr int64_t vectorBytes = 16;

bool hasVectorRows(MemRefType type) {
  if (type.getNumElements() == 1)
    return true;
  auto [strides, offset] = layoutOf(type);
  const int64_t bytes = elementBytes(type.getElementType());
  bool is =
      offset * bytes % vectorBytes == 0 && (type.getShape().back() == 1 || strides.back() == 1);
  for (int64_t dim = 0; dim + 1 < type.getRank(); ++dim)
    is &= type.getDimSize(dim) == 1 || strides[dim] * bytes % vectorBytes == 0;
  return is;
}

bool hasVectorColumns(MemRefType type) {
  auto [strides, offset] = layoutOf(type);
  const int64_t bytes = elementBytes(type.getElementType());
  return type.getRank() == 2 && strides[0] == 1 && offset * bytes % vectorBytes == 0 &&
         strides[1] * bytes % vectorBytes == 0;
}

} // namespace nano::step
