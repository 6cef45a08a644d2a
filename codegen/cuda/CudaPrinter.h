// One kernel function of the kernel IR as CUDA C++ statements.
#pragma once

#include "codegen/cuda/CudaNames.h"
#include "ir/kernel/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/DenseMap.h"

namespace nano::codegen {

/// C++ for a value.
struct CudaText {
  enum Precedence { Choice, Or, And, Compare, Shift, Sum, Product, Unary, Primary };
  std::string text;
  Precedence precedence = Primary;
  bool isScalar = false; ///< of a vector whose lanes are equal: the text is that of one lane
};

/// Prints a function's statements. Values with one use become part of their user's expression while
/// that stays short; the others are named after the graph op or the operand that they come from.
/// Operations are those that the emitters of kernels use; another one is an error.
class CudaPrinter {
public:
  explicit CudaPrinter(int indent) : indent(indent) {}

  CudaNames names;
  std::string out;
  /// Special functions are most of what the kernel does: a part of the exponentials of vectors is
  /// left to other units.
  bool sharesExponentials = false;
  /// Where a return's values go, as expressions, instead of into a statement; null: it is printed.
  std::vector<std::string> *returned = nullptr;

  /// What an argument is called, and whether nothing writes the memory that it points to.
  void define(mlir::Value value, std::string text, bool isConstant = false);
  /// The address of the memref's first element is a multiple of `bytes`.
  void align(mlir::Value memref, int64_t bytes) { alignments[memref] = bytes; }
  /// The index is a multiple of `number`.
  void knowDivisor(mlir::Value index, int64_t number) { divisors[index] = number; }

  /// What a value is called.
  std::string nameOf(mlir::Value value) const { return values.lookup(value).text; }

  /// A statement; long ones take several lines.
  void line(const std::string &text);
  /// All statements of a block; a return of a value is printed as such.
  mlir::LogicalResult block(mlir::Block &block);

private:
  mlir::LogicalResult statement(mlir::Operation &op);
  mlir::LogicalResult loop(mlir::scf::ForOp op);
  mlir::LogicalResult branch(mlir::scf::IfOp op);
  void call(mlir::func::CallOp op);
  /// The expression of an op with one result that has no effect, or nothing.
  std::optional<CudaText> expression(mlir::Operation *op);
  std::optional<CudaText> arithmetic(mlir::Operation *op);
  std::optional<CudaText> conversion(mlir::Operation *op);
  std::optional<CudaText> choice(mlir::Operation *op);
  CudaText binary(mlir::Operation *op, const char *symbol, CudaText::Precedence precedence);
  /// nano::`name`(operands)
  CudaText function(mlir::Operation *op, llvm::StringRef name, bool scalarStays = true);

  /// The address of element `at`.
  std::string address(mlir::Value memref, mlir::Value at);
  /// "<8>" or "<8, 4>": a vector's lanes, and the bytes that its address is a multiple of when they
  /// are fewer than what one access takes.
  std::string accessArguments(mlir::VectorType type, mlir::Value memref, mlir::Value at);
  /// The largest power of two that is known to divide the index.
  int64_t divisorOf(mlir::Value index);

  std::string use(mlir::Value value, CudaText::Precedence least = CudaText::Choice);
  /// The same for where a vector is needed.
  std::string useVector(mlir::Value value);
  /// Several ops that are one function of the device library, at the last one: 1/(1 + e^−x),
  /// e^(a·x + b).
  std::optional<CudaText> idiom(mlir::Operation *op);
  /// True for the ops before the last one, which have no text of their own.
  bool isWithinIdiom(mlir::Operation *op) const;
  /// As part of an expression with scalars beside vectors; `anyVector` tells whether one is.
  bool isInline(mlir::Operation *op, const CudaText &text);
  /// True when the op's text would read memory where it is printed.
  bool readsMemory(mlir::Operation *op);
  void bind(mlir::Operation *op, CudaText text);
  std::string nameFor(mlir::Operation *op);

  int indent;
  llvm::DenseMap<mlir::Value, CudaText> values;
  llvm::DenseSet<mlir::Value> reading; ///< those whose text reads memory
  llvm::DenseMap<mlir::Value, bool> constants;
  llvm::DenseMap<mlir::Value, int64_t> alignments, divisors;
  /// A mask was printed that vectors may lie in by some of their lanes alone: what the others hold,
  /// NaN for one, must not reach these.
  bool cutsVectors = false;
};

} // namespace nano::codegen
