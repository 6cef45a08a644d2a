// What every kernel emitter builds on: the kernel function of one task. LowerKernels opens a
// KernelFrame for a task, picks the emitter by the task's content, and makes the launch.
#pragma once

#include "ir/step/Step.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace nano::kernels {

/// What the target is like, as far as kernels depend on it.
struct KernelOptions {
  int64_t lanes = 16; ///< elements of a vector. CPU: 16 (AVX-512) or 8 (AVX2); CUDA: what a thread
                      ///< loads at once, chosen by each emitter
  /// CPU: vectors of 16 words of two bf16 numbers have dot products of pairs, added up in f32.
  bool hasPairs = false;
  /// CPU: and tiles of AMX, which multiply 16 × 32 by 32 × 16 of them.
  bool hasTiles = false;
  /// They are for blocks of a GPU's threads; else for threads of a processor, each with a range of
  /// iterations.
  bool onGpu = false;
  int64_t multiprocessors = 132; ///< of the GPU
};

/// The kernel function of a task while it is written.
///
/// The function has one memref argument a distinct operand of the task (an operand in both `ins`
/// and `outs` is one argument), then
/// `%scratch: memref<Nxi8>` (private to the call, 64-byte aligned, contents undefined), `%begin:
/// index`, `%end: index`: it computes the iterations [begin, end) of an iteration space that the
/// emitter chooses. Iterations are independent, and the bits of the result do not depend on how the
/// range is split. Arguments have the operands' shapes and strides and offset 0. Two arguments may
/// overlap only where the task updates a buffer in place through two views.
///
/// The emitter writes the body at `builder` (it ends in the function's entry block) and sets
/// `iterations` and `grain`. It uses scf, vector, arith, math and memref only, for CUDA
/// func.call of the device library too. Private memory comes
/// from `allocate`.
///
/// Target CUDA: the function is what one thread of a block does, and [begin, end) are the block's
/// iterations, `blockIterations` of them except in the last block. `%scratch` is the block's shared
/// memory (memory space 3). What upstream dialects lack is a func.call of the device library's
/// function of that name: see `callDevice`.
class KernelFrame {
public:
  /// How an operand's type becomes an argument's; `argumentType` by default.
  using ArgumentType = llvm::function_ref<mlir::MemRefType(mlir::MemRefType)>;

  /// Opens `kernel.func @name` at `moduleBuilder`'s insertion point, inside the module of kernels.
  KernelFrame(step::TaskOp task, const KernelOptions &options, mlir::OpBuilder &moduleBuilder,
              llvm::StringRef name, ArgumentType typeOf = argumentType);

  step::TaskOp task;
  KernelOptions options;
  mlir::Location loc; ///< the model lines of the task's ops
  kernel::FuncOp function;
  mlir::OpBuilder builder; ///< inside the function
  mlir::Value begin, end;  ///< index: the iterations to compute

  int64_t iterations = 1; ///< set by the emitter: size of the iteration space
  int64_t grain = 1;      ///< set by the emitter: the fewest iterations worth giving to one thread
                          ///< (about 10 µs of work)
  int64_t threads = 0;    ///< CUDA, set by the emitter: threads of a block, a multiple of 32
  int64_t blockIterations = 1; ///< CUDA, set by the emitter: iterations of a block
  int64_t residentBlocks = 0;  ///< CUDA, set by the emitter: blocks that a multiprocessor must have
                               ///< registers for; 0: as it comes

  bool sharesExponentials = false; ///< CUDA, set by the emitter: the kernel reads rows and writes
                                   ///< next to nothing, so that special functions take longest

  /// The argument (a memref with offset 0) of task operand `ins[i]` / `outs[i]`.
  mlir::Value input(unsigned i) const { return inputs[i]; }
  mlir::Value output(unsigned i) const { return outputs[i]; }
  /// The argument as a rank-1 memref of contiguous elements from the operand's first on, for index
  /// arithmetic with `stridesOf`. Made at the start of the function; asking again gives the same
  /// value.
  mlir::Value flat(mlir::Value argument);
  /// Private memory for `elements` of `type`, as memref<elements x type>, 64-byte aligned; contents
  /// undefined. CUDA: memory that the block shares.
  mlir::Value allocate(int64_t elements, mlir::Type type);
  /// A call of the device library's function nano::`callee`, which may name template arguments
  /// ("groupSum<16>"); its result, null when it has none.
  mlir::Value callDevice(mlir::OpBuilder &b, llvm::StringRef callee, mlir::Type result,
                         mlir::ValueRange operands);

  /// True when `outs[output]` may share bytes with an input: it is one, or both are views of one
  /// buffer or state.
  bool updatesInPlace(unsigned output);

  /// Ends the function: fixes the scratch argument's size, adds the return, the grain, the summary
  /// and, for CUDA, how it is launched. Called by LowerKernels after the emitter.
  void finish();

  /// The launch's operands, one a kernel argument (memrefs outside the function).
  llvm::ArrayRef<mlir::Value> launchOperands() const { return operands; }

  /// The type with offset 0, and without a layout when it is contiguous.
  static mlir::MemRefType argumentType(mlir::MemRefType type);

private:
  mlir::MemRefType scratchType(int64_t bytes);
  /// What the kernel does with an operand, and what is known of it.
  kernel::ParameterAttr parameterOf(mlir::Value operand);

  llvm::SmallVector<mlir::Value> operands;        // distinct operands of the task
  llvm::SmallVector<mlir::Value> inputs, outputs; // arguments by position in ins, outs
  llvm::DenseMap<mlir::Value, mlir::Value> flats;
  mlir::Value scratch;
  int64_t scratchBytes = 0;
};

/// The lines of the model file that the task's ops came from, without repetition.
mlir::Location linesOf(step::TaskOp task);
/// The ops' names in order; runs of one name as "mul ×3".
std::string summaryOf(step::TaskOp task);

/// Distinct operands of a task in order of ins, outs: what the kernel's arguments stand for.
llvm::SmallVector<mlir::Value> distinctOperands(step::TaskOp task);

/// True when two operands may overlap in memory: they are the same value, or views of one buffer or
/// state.
bool mayOverlap(mlir::Value a, mlir::Value b);

/// Strides (elements) of a memref type whose strides are static. The offset is ignored.
llvm::SmallVector<int64_t> stridesOf(mlir::MemRefType type);

/// Memory space of what a block of threads shares, in types of memrefs.
inline constexpr int64_t sharedMemorySpace = 3;

/// The largest power of two, at most 16, that divides the address of the operand's first element:
/// what a kernel for CUDA may assume. 16 for single numbers, which are loaded as such.
int64_t alignmentOf(mlir::Value operand);

/// An emitter writes the kernel of `frame.task`, or emits an error at the task and fails.
using Emitter = mlir::LogicalResult (*)(KernelFrame &frame);

} // namespace nano::kernels
