// A task that begins with matrix products, from task to kernel on the emulator, against the
// interpreter of the graph dialect.
#pragma once

#include "tests/codegen/TaskRunner.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include <map>
#include <string>
#include <vector>

namespace nano::test {

/// Of a product, and of the machine.
struct Sizes {
  int64_t rows, columns, inner, multiprocessors;
  std::string text() const {
    return std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(inner);
  }
};

/// A text with every `name` in `sizes` replaced by its number.
std::string withSizes(std::string text, const std::map<std::string, int64_t> &sizes);

/// One task: what the interpreter and its kernel make of the same numbers.
class ProductTask {
public:
  /// Of |actual − expected| / (1 + |expected|), of whole matrices.
  static constexpr double ofWhole = 0x1p-6;

  explicit ProductTask(const std::string &program);

  /// Operand `i` has these numbers instead of drawn ones.
  void setInput(size_t i, TensorValue value) { given[i] = std::move(value); }

  /// `tolerances`: of the results, of which the others are whole matrices. Numbers of type i32 are
  /// columns of `columns`, a few beside them.
  void check(int64_t multiprocessors, const std::vector<double> &tolerances = {},
             int64_t columns = 0);

private:
  using Outs = std::vector<std::pair<std::string, mlir::MemRefType>>;
  void compare(const Outs &outs, const std::vector<TensorValue> &expected,
               const std::vector<double> &tolerances,
               const std::map<std::string, DeviceBuffer> &before);
  DeviceBuffer &bufferOf(mlir::Value memref);
  void put(mlir::Value memref, const TensorValue &value);
  /// Lowers the task, and runs its kernels on the buffers.
  void run(int64_t multiprocessors);
  void run(step::LaunchOp launch);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  step::TaskOp task;
  std::map<size_t, TensorValue> given;
  std::map<std::string, DeviceBuffer> buffers;
};

} // namespace nano::test
