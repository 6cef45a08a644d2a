// The memory of programs with buffers, byte by byte.
#pragma once

#include "ir/interpreter/Interpreter.h"
#include "ir/step/Step.h"

#include "llvm/ADT/DenseMap.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace nano::bisect {

/// Before memory is planned every buffer, state, scalar and input has bytes of its own, then all
/// lie in one arena where the plan says. Bytes that nothing has written are 0xff, not a number in
/// any float type.
class StepMemory {
public:
  explicit StepMemory(mlir::ModuleOp module);

  /// What a program begins with: its buffers hold nothing.
  void poison(step::ProgramOp program);
  void poison(step::InputOp input);

  /// Where a view, a buffer or a state's buffer begins.
  std::byte *address(mlir::Value view) const;
  interpreter::TensorValue read(mlir::Value view) const;
  void write(mlir::Value view, const interpreter::TensorValue &value);

  /// The same for a state, a scalar or an input by its symbol.
  interpreter::TensorValue read(mlir::StringAttr symbol, mlir::MemRefType type) const;
  void write(mlir::StringAttr symbol, mlir::MemRefType type, const interpreter::TensorValue &value);

private:
  std::byte *start(const void *key) const;
  std::byte *allocate(int64_t bytes);

  std::vector<std::vector<std::byte>> blocks;
  llvm::DenseMap<const void *, std::byte *> starts; ///< by step::bufferKey
};

} // namespace nano::bisect
