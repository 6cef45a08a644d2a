// Names, types and literals of kernels as CUDA C++ text.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace nano::codegen {

/// Identifiers that differ from all others in sight: "x", "x_2", "x_3".
class CudaNames {
public:
  CudaNames();
  /// An identifier as like `wanted` as one can be: "@blocks.3.attn.qkv_w" becomes attn_qkv_w,
  /// "grad.blocks.3.attn.qkv_w" grad_attn_qkv_w.
  std::string take(llvm::StringRef wanted);
  /// Names taken between them are out of sight afterwards.
  void open() { scopes.emplace_back(); }
  void close();

private:
  llvm::StringSet<> used;
  std::vector<std::vector<std::string>> scopes;
};

/// C++ for an element type, an index or a vector of them: "float", "nano::bf16", "int64_t",
/// "nano::Vec<float, 8>".
std::string cudaType(mlir::Type type);
/// True for registers of vectors of bf16, which are nano::Held<nano::bf16, 8>. Those of 8 bits stay
/// vectors: four of them in a word cost ptxas registers when they are taken apart.
bool areHeld(mlir::MemRefType registers);
/// A number as a literal of its type: "0.5f", "-nano::infinity", "3".
std::string cudaLiteral(mlir::Attribute number);
/// Words separated by spaces as lines of comment, at most 100 characters wide.
std::string cudaComment(llvm::StringRef text);

} // namespace nano::codegen
