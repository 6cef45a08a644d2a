// What one GPU thread's code is built of beside RowCode: registers, calls of the device library.
#pragma once

#include "passes/cuda/CudaTiles.h"
#include "passes/row/RowCode.h"

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
  /// The device library's sum or maximum of a number, f32 or i32, that so many threads of a group,
  /// a team or a block have.
  static std::string exchange(llvm::StringRef among, bool isSum, int64_t threads, mlir::Type type);

  /// What kernels call an element type.
  static llvm::StringRef deviceName(mlir::Type element);

  mlir::Value less(mlir::Value a, mlir::Value c); ///< a < c
  mlir::Value isZero(mlir::Value number);         ///< number == 0

  /// Registers of this thread for `count` vectors of `element`.
  mlir::Value registers(mlir::Type element, int64_t count);
  /// What a tensor's elements are while they are kept: bf16 and f8 stay narrow.
  static mlir::Type keptType(mlir::Value value) {
    return mlir::getElementTypeOrSelf(value.getType());
  }
  void storeRegister(mlir::Value value, mlir::Value memory, mlir::Value slot);

  /// The operands and gathers of `elements` elements that the roots are computed from element by
  /// element, without what is in registers or shared memory already.
  llvm::SmallVector<mlir::Value> loadsOf(llvm::ArrayRef<mlir::Value> roots, int64_t elements);

  /// Shared memory for the rows of `tiles` outputs, which are stored there from now on.
  void openTiles(const CudaTiles &tiles);
  /// The element or vector at hand is that of `row`, counted from the block's first, at `column`,
  /// counted from the first one gathered. `buffer`: which of the tiles it is.
  void placeInTiles(const CudaTiles &tiles, Index row, Index column, Index buffer);
  /// What all threads have gathered, to memory: rows from `firstRow` on, of which `rows` or more
  /// are gathered, at columns from `firstColumn` on; likewise `columns`.
  void storeTiles(const CudaTiles &tiles, Index firstRow, Index firstColumn, mlir::Value rows,
                  mlir::Value columns, Index buffer);
};

} // namespace nano::kernels
