// What one GPU thread's code is built of beside RowCode: registers, calls of the device library.
#pragma once

#include "passes/kernels/RowCode.h"

namespace nano::kernels {

class CudaThreadCode : protected RowCode {
public:
  using RowCode::RowCode;

protected:
  /// What `make` builds is called `name` in the kernel's text.
  template <typename Make> auto named(llvm::StringRef name, Make make) {
    mlir::Location before = v.loc, frameBefore = frame.loc;
    v.loc = frame.loc = mlir::NameLoc::get(mlir::StringAttr::get(v.b.getContext(), name));
    auto result = make();
    v.loc = before;
    frame.loc = frameBefore;
    return result;
  }

  /// A call of nano::`callee`; its result, null when it has none.
  mlir::Value called(llvm::StringRef name, const llvm::Twine &callee, mlir::Type result,
                     mlir::ValueRange operands);

  mlir::Value less(mlir::Value a, mlir::Value c); ///< a < c
  mlir::Value isZero(mlir::Value number);         ///< number == 0

  /// Registers of this thread for `count` vectors of `element`.
  mlir::Value registers(mlir::Type element, int64_t count);
  /// What a tensor's elements are while they are kept: bf16 and f8 stay narrow.
  static mlir::Type keptType(mlir::Value value) {
    return mlir::getElementTypeOrSelf(value.getType());
  }
  void storeRegister(mlir::Value value, mlir::Value memory, mlir::Value slot);
};

} // namespace nano::kernels
