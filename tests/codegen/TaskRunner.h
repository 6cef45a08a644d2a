// Runs the kernel of one step.task on this machine, beside the interpreter's answer for the same
// operands.
#pragma once

#include "codegen/cpu/CpuTarget.h"
#include "passes/emit/KernelEmitter.h"
#include "runtime/plan/LoadedCode.h"
#include "tests/support/Interpreter.h"

#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nano::test {

/// Memory that ends at a page that nobody may touch, so that an access past its end stops the test.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;

  std::byte *data() const { return begin; }
  size_t size() const { return bytes; }

private:
  size_t bytes, mapped;
  std::byte *mapping, *begin;
};

/// The task of a module that holds one program of buffers, views and one task; its kernel,
/// compiled; memory for its buffers.
class TaskRunner {
public:
  /// Compiles `text`'s task with the emitter. Lanes choose the instruction set: 16 (AVX-512) or 8
  /// (AVX2); with 16 and `usesTiles` AMX too, where the machine has it. Null, with a test failure,
  /// on errors.
  static std::unique_ptr<TaskRunner> make(llvm::StringRef text, kernels::Emitter emitter,
                                          int64_t lanes, bool usesTiles = true);
  /// The first error of emitting `text`'s kernel, or "" when there is none.
  static std::string emissionError(llvm::StringRef text, kernels::Emitter emitter);
  /// Vector widths that this machine can run.
  static std::vector<int64_t> lanes();

  int64_t iterations() const { return iterationCount; }
  step::TaskOp taskOp() const { return task; }
  mlir::Operation *op() const; ///< the task's only graph op
  mlir::RankedTensorType inputType(unsigned i) const;

  /// Fills the memory of ins[i], rounding to its type.
  void setInput(unsigned i, const TensorValue &value);
  std::byte *inputMemory(unsigned i) const; ///< where the memory of ins[i] starts
  TensorValue input(unsigned i) const;      ///< as rounded
  std::byte *outputMemory(unsigned i) const;
  TensorValue output(unsigned i) const;
  /// All bytes of all buffers that are not inputs, for comparisons bit by bit.
  std::vector<std::byte> outputBytes() const;

  /// Runs the iterations in parts [0, cuts[0]), [cuts[0], cuts[1]), …, in the given order reversed,
  /// with scratch memory poisoned before each; outputs are poisoned first.
  void run(std::vector<int64_t> cuts = {});
  /// Runs all iterations in calls of `each`, and nothing else: for timing.
  void runTimed(int64_t each);
  /// What the interpreter makes of the same inputs.
  std::vector<TensorValue> expected() const;

private:
  TaskRunner();
  struct View {
    std::byte *start;
    mlir::MemRefType type;
  };
  View view(mlir::Value operand) const;
  TensorValue read(mlir::Value operand) const;
  std::byte *memoryOf(mlir::Value buffer) const;

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OwningOpRef<mlir::ModuleOp> kernelModule;
  step::TaskOp task;
  std::unique_ptr<plan::LoadedCode> code;
  plan::KernelFunction kernel = nullptr;
  int64_t iterationCount = 0;
  std::vector<void *> arguments;
  std::unique_ptr<GuardedMemory> scratch;
  std::vector<std::pair<mlir::Operation *, std::unique_ptr<GuardedMemory>>> memory; // by buffer
};

/// What the interpreter makes of a task's whole region, every value rounded to its type.
std::vector<TensorValue> interpretTask(step::TaskOp task, llvm::ArrayRef<TensorValue> inputs);

/// For TaskRunner::make: the kernel of a task of elements or rows.
mlir::LogicalResult emitRow(kernels::KernelFrame &frame);

/// The largest of |actual − expected| / (1 + |expected|); NaN where one of them is and the other is
/// not.
double largestError(const TensorValue &actual, const TensorValue &expected);

} // namespace nano::test
