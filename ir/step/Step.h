// The `step` dialect in C++: see StepOps.td for what its ops mean.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/kernel/Kernel.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace nano::step {

/// How a command touches one of its buffers.
struct Access {
  mlir::Value buffer; ///< a buffer, a state's buffer, or a view of one
  bool reads = false, writes = false;
};

/// The kernels of a module by name: the `kernel.func`s of its nested module `@kernels`. Made once a
/// pass, so that looking at a launch costs one hash look-up.
class KernelTable {
public:
  KernelTable() = default;
  explicit KernelTable(mlir::ModuleOp module);
  /// Null when there is no kernel of that name.
  kernel::FuncOp find(mlir::StringAttr name) const;

private:
  llvm::DenseMap<mlir::StringAttr, kernel::FuncOp> kernels;
};

/// The name of the nested module that holds the kernels.
inline constexpr llvm::StringLiteral kernelModuleName = "kernels";

/// Bytes of one element; the element types are those of tensors (f32, bf16, f8, i32).
int64_t elementBytes(mlir::Type type);
/// Bytes of a contiguous memref of this shape.
int64_t contiguousBytes(mlir::MemRefType type);
/// A memref's strides and offset, in elements.
struct Layout {
  llvm::SmallVector<int64_t, 4> strides;
  int64_t offset = 0;
};
/// The layout of a type without one (row-major from 0) or with a strided one; as MLIR's
/// getStridesAndOffset, without going through affine maps.
Layout layoutOf(mlir::MemRefType type);
/// The first element that a type's layout names and the one behind the last, counted from the
/// buffer's start; there may be gaps in between.
struct ElementRange {
  int64_t begin = 0, end = 0;
  bool meets(const ElementRange &other) const { return begin < other.end && other.begin < end; }
  bool covers(const ElementRange &other) const { return begin <= other.begin && other.end <= end; }
};
ElementRange elementRange(mlir::MemRefType type);
/// True when the elements lie in row-major order without gaps, from whatever offset.
bool isContiguous(mlir::MemRefType type);
/// The row-major memref with the tensor's shape and element type, and back.
mlir::MemRefType memrefOf(mlir::RankedTensorType type);
mlir::RankedTensorType tensorOf(mlir::MemRefType type);

/// Strides (elements) that give `shape` to the elements of a layout in their row-major order, or
/// nothing when no strides do.
std::optional<llvm::SmallVector<int64_t>> reshapeStrides(llvm::ArrayRef<int64_t> oldShape,
                                                         llvm::ArrayRef<int64_t> oldStrides,
                                                         llvm::ArrayRef<int64_t> shape);

/// A matrix operand as libraries take it: `batch` matrices of rows × columns.
struct MatrixLayout {
  int64_t batch = 1, rows = 1, columns = 1;
  int64_t leading = 1;     ///< elements from a row to the next, at least `columns`
  int64_t batchStride = 0; ///< elements from a matrix to the next
};
/// The operand's layout; nothing when the last dimension has a stride other than 1 or the batch
/// dimensions have no common stride.
std::optional<MatrixLayout> matrixLayout(mlir::MemRefType type);

/// The `step.buffer` or `step.state` that a value is, or is a view of.
mlir::Operation *bufferOf(mlir::Value value);
/// One key for all values that are the same buffer or views of it: the result of a `step.buffer`,
/// the symbol of a `step.state`.
const void *bufferKey(mlir::Value value);
/// The buffer's name for messages: "blocks.0.x", "@embed.weight".
std::string nameOf(mlir::Value value);
/// True for a buffer in the host's memory, and views of it.
bool isInHost(mlir::Value value);

/// "models/x.cpp:41", or nothing when the location has no file.
std::string lineOf(mlir::Location location);
/// The first file position inside a location, wrapped in names or fused with others; null when
/// there is none.
mlir::FileLineColLoc fileLocation(mlir::Location location);

} // namespace nano::step

#include "ir/step/StepOpsDialect.h.inc"
#include "ir/step/StepOpsInterfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/step/StepOps.h.inc"

namespace nano::step {

/// The arena that the module's memory is planned in; null before nano-plan-memory.
ArenaOp arenaOf(mlir::ModuleOp module);

/// A command's accesses.
inline llvm::SmallVector<Access> accessesOf(StepCommandOpInterface command,
                                            const KernelTable &kernels) {
  llvm::SmallVector<Access> accesses;
  command.getAccesses(kernels, accesses);
  return accesses;
}

/// A kernel that could compute what a command computes, and the buffers that it would take.
struct Candidate {
  kernel::FuncOp kernel;
  llvm::SmallVector<mlir::Value> buffers;
};
/// A command's candidates; those that `kernels` lacks are left out, which the verifier reports.
llvm::SmallVector<Candidate> candidatesOf(mlir::Operation *command, const KernelTable &kernels);

/// True for commands in which ranks meet.
bool isCollective(mlir::Operation *command);
/// True for commands that a device's copy engine does: copies, fills and shards.
bool isCopy(mlir::Operation *command);

/// "step.matmul (models/x.cpp:41)" or "step.launch @norm (models/x.cpp:41)", for messages.
std::string describeCommand(mlir::Operation *command);

} // namespace nano::step
