// Which rows of its operands an op needs for one row of its result, and how it makes that row.
#pragma once

#include "ir/graph/GraphBuilder.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <functional>
#include <string>

namespace nano::generate {

/// What is needed of a value: all of it, or its row at the position at hand plus `shift` along
/// dimension `dim`, which then has size 1.
struct Part {
  int64_t dim = -1; ///< −1: all of it
  int64_t shift = 0;

  bool isWhole() const { return dim < 0; }
  bool operator==(const Part &) const = default;
};

/// How a part of an op's result comes about.
struct Rule {
  llvm::SmallVector<std::pair<mlir::Value, Part>> operands;
  /// Makes it of these, at the builder's insertion point.
  std::function<mlir::Value(llvm::ArrayRef<mlir::Value>)> make;
};

/// Derives the program of one position from that of all positions.
///
///   %k = nano.matmul %x, %w        // row t: Σ over the columns of x[t] · w
///   %t = nano.iota 0               // row t: t
///   %m = nano.reduce max %x dims [0]   // none: it needs all rows
class RowProgram {
public:
  /// `all` computes logits [T, …] of tokens [T]; `row`, with an empty block of arguments (token
  /// i32 [1], position i32 [1]), becomes the program of one position. Values that it needs of
  /// earlier positions are kept in states of the module, which `all` then stores.
  RowProgram(graph::ProgramOp all, graph::ProgramOp row);

  /// False where some value needs rows that the program does not have; nothing but `row`'s block
  /// is changed then.
  bool derive();

  /// Why not, and where.
  const std::string &reason() const { return why; }
  mlir::Operation *culprit() const { return where; }

private:
  using Value = mlir::Value;

  bool need(Value value, Part part);
  bool markAll();
  void makeAll();
  Value made(Value value, Part part) { return parts.lookup(value).lookup(part.dim, part.shift); }

  /// The rule for a part of an op's result, or none, with the reason.
  std::optional<Rule> ruleOf(mlir::OpResult result, Part part);
  std::optional<Rule> wholeRule(mlir::OpResult result);
  std::optional<Rule> earlierRule(Value value, Part part);
  std::optional<Rule> rowRule(mlir::OpResult result, Part part);
  std::optional<Rule> matmulRule(mlir::Operation *op, Part part);
  std::optional<Rule> attentionRule(mlir::OpResult result, Part part);
  std::optional<Rule> concatRule(mlir::Operation *op, Part part);
  std::optional<Rule> tableRule(mlir::Operation *op, Part part);
  std::optional<Rule> scanRule(mlir::Operation *op, Part part);
  std::optional<Rule> recurrenceRule(mlir::Operation *op, Part part);
  std::optional<Rule> bandRule(mlir::Operation *op, Part part);
  std::optional<Rule> customRule(mlir::OpResult result, Part part);
  std::nullopt_t refuse(mlir::Operation *op, const llvm::Twine &reason);
  /// The op on parts of its operands, its result of `type`.
  Rule cloned(mlir::Operation *op, llvm::SmallVector<std::pair<Value, Part>> operands,
              mlir::Type type);

  /// All rows of a value up to the position at hand, of which `row` is the last; those behind it
  /// are any. From now on they are kept; `positionsLast`: with the first dimension as the last.
  Value kept(Value value, Value row, bool positionsLast = false);
  /// The same as the token before has left them.
  Value loadKept(Value value, bool positionsLast = false);
  /// The position plus `shift`, i32 [1].
  Value index(int64_t shift, mlir::Location location);
  /// The row of an i32 or float [T, …] at an index [1], or at the nearest that there is.
  Value rowAt(Value rows, Value index, mlir::Location location);
  Value attend(mlir::Operation *op, llvm::ArrayRef<Value> operands, unsigned result);
  /// One row of a product, x [1, K], as sums of products in f32.
  Value rowProduct(mlir::Operation *op, Value x, Value weight, Value addend);
  /// A recurrence's row, of its operands' rows and its own row before.
  Value recur(mlir::Operation *op, llvm::ArrayRef<Value> row);
  /// The rows of the `width` tokens up to the position, f32 [width, …]; zeros before the first.
  Value bandRows(Value value, Value row, int64_t width);
  /// The rows of a kernel's results, as its region `row` says them.
  llvm::SmallVector<Value> customRows(mlir::Operation *op, llvm::ArrayRef<Value> operands,
                                      int64_t shift);
  bool isAtMostPosition(Value value) const;

  /// The parts of one value that are needed, in the order in which they were asked for.
  struct Parts {
    llvm::SmallVector<std::pair<Part, Value>, 1> list;
    Value lookup(int64_t dim, int64_t shift) const {
      for (const auto &[part, value] : list)
        if (part == Part{dim, shift})
          return value;
      return {};
    }
  };

  graph::ProgramOp all, row;
  mlir::OpBuilder builder;
  Value position; ///< i32 [1], in 0 … T − 1
  llvm::DenseSet<Value> onTokens;
  llvm::DenseMap<Value, Parts> parts;
  /// Of what is kept, by its value and order: the state, and its rows with the one at hand.
  struct Kept {
    std::string state;
    Value rows;
  };
  llvm::MapVector<std::pair<Value, unsigned>, Kept> keptRows;
  llvm::DenseMap<mlir::Operation *, std::pair<Value, Value>> attended;
  llvm::DenseMap<std::pair<mlir::Operation *, int64_t>, llvm::SmallVector<Value>> called;
  /// Values of `all` and what they are computed from instead, once it is gone over.
  llvm::SmallVector<std::pair<Value, Value>> replaced;
  std::string why;
  mlir::Operation *where = nullptr;
};

} // namespace nano::generate
