// What templates of the device library read and write.
#include "ir/kernel/Templates.h"

using namespace mlir;
using namespace nano::kernel;

static SmallVector<int64_t> positions(DenseI64ArrayAttr places) {
  return SmallVector<int64_t>(places.asArrayRef());
}

SmallVector<int64_t> ScanAttr::getReadPositions() const { return {getX()}; }
SmallVector<SmallVector<int64_t>> ScanAttr::getWrittenPositions() const {
  return {positions(getY())};
}
