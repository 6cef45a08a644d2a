// Random instances of every op of the graph dialect that computes, of all kinds of shapes, for
// checks against finite differences and of what devices make of them.
#pragma once

#include "ir/graph/GraphBuilder.h"
#include "tests/support/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>
#include <random>

namespace nano::test {

/// What the sizes of an instance are like.
enum class Sizes {
  any,       ///< 1 to 4, any rank that the op takes
  odd,       ///< odd numbers from 3 on, two or three dimensions where the op takes them
  oneRow,    ///< the same, 1 along the first dimension
  oneColumn, ///< the same, 1 along the last dimension
  empty      ///< the same, 0 along some dimension, as the op allows
};

/// Which dimension a size is of: rows are first, columns last.
enum class Place { row, inner, column };

/// One op in a function that takes the op's operands, and values for them.
class Instance {
public:
  /// Floats are of `element`; f32 or, one time in four, bf16 without one.
  Instance(mlir::MLIRContext &context, std::mt19937_64 &random, Sizes sizes = Sizes::any,
           mlir::Type element = {});

  /// A tensor type of floats; rank 0 to 4 unless a shape is given.
  mlir::RankedTensorType floatType(std::optional<std::vector<int64_t>> shape = {});
  std::vector<int64_t> shape(int64_t leastRank = 0, int64_t mostRank = 4);
  /// The same, with nothing empty.
  std::vector<int64_t> fullShape(int64_t leastRank, int64_t mostRank);
  /// A size of a dimension; of the empty ones the dimension at `emptyAt` is 0.
  int64_t size(Place place, int64_t most = 4);
  int64_t fullSize(Place place, int64_t most = 4);
  int64_t draw(int64_t low, int64_t high); ///< Both included.
  bool flip() { return draw(0, 1) == 1; }
  mlir::RankedTensorType f32(const std::vector<int64_t> &shape);
  mlir::RankedTensorType i32(const std::vector<int64_t> &shape);

  /// A new operand with standard normal elements; `map` is applied to each.
  mlir::Value operand(mlir::RankedTensorType type, double (*map)(double) = nullptr);
  /// A new i32 operand with elements in [0, limit).
  mlir::Value indices(const std::vector<int64_t> &shape, int64_t limit);
  mlir::Value operand(mlir::RankedTensorType type, TensorValue value);

  std::mt19937_64 &random;
  Sizes sizes;
  Place emptyAt; ///< Generators of ops that allow only some move it.
  mlir::Type element;
  mlir::OpBuilder builder;
  mlir::Location location; ///< A line of a model file, for the op.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Block *block = nullptr;
  mlir::Operation *op = nullptr; ///< What the generator made.
  llvm::SmallVector<TensorValue> operands;
};

/// Makes `instance.op`, an op of the generator's name, and its operands.
using Generator = std::function<void(Instance &instance)>;

/// The generator for an op's name ("nano.exp"), or null.
const Generator *findGenerator(llvm::StringRef name);

} // namespace nano::test
