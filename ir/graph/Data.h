// What the training of a model says of the data: columns that programs take behind tokens and
// targets, and the rule by which batches are cut.
#pragma once

#include "ir/graph/Program.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace nano::graph {

/// The scalar that says how many tokens of a document a sequence takes at most.
inline constexpr llvm::StringLiteral longestDocumentSymbol = "longest_document";
/// The column that the reader makes: 1 for a document's tokens, 0 for padding.
inline constexpr llvm::StringLiteral documentColumn = "in_document";

/// A column that a program takes; its arguments 2, 3, … are columns.
struct Column {
  std::string name, type; ///< type in the files: "f32", "bf16", "i32", "u8"
  bool ofTarget = true;   ///< aligned with targets, else with tokens
  /// What the program's input is called: "column.mask", "column.mask.of_input".
  std::string inputName() const { return "column." + name + (ofTarget ? "" : ".of_input"); }
};

/// The columns of programs for training, or for validation, in the order of their arguments: those
/// of `columns` or `val_columns`. Entries that lack something are left out.
inline llvm::SmallVector<Column> columnsOf(mlir::DictionaryAttr training, bool validation) {
  llvm::SmallVector<Column> columns;
  auto list = training ? training.getAs<mlir::ArrayAttr>(validation ? "val_columns" : "columns")
                       : mlir::ArrayAttr();
  if (!list)
    return columns;
  for (mlir::Attribute entry : list) {
    auto column = llvm::dyn_cast<mlir::DictionaryAttr>(entry);
    auto name = column ? column.getAs<mlir::StringAttr>("name") : mlir::StringAttr();
    auto type = column ? column.getAs<mlir::StringAttr>("type") : mlir::StringAttr();
    auto ofTarget = column ? column.getAs<mlir::BoolAttr>("of_target") : mlir::BoolAttr();
    if (name && type && ofTarget)
      columns.push_back({name.str(), type.str(), ofTarget.getValue()});
  }
  return columns;
}
inline llvm::SmallVector<Column> columnsOf(mlir::ModuleOp module, bool validation) {
  return columnsOf(trainingOf(module), validation);
}

/// The element type of a column in programs, null where its type in files is none that columns
/// have.
inline mlir::Type elementTypeOf(const Column &column, mlir::MLIRContext *context) {
  if (column.type == "f32")
    return mlir::Float32Type::get(context);
  if (column.type == "bf16")
    return mlir::BFloat16Type::get(context);
  if (column.type == "i32" || column.type == "u8")
    return mlir::IntegerType::get(context, 32);
  return {};
}

} // namespace nano::graph
