// Templates of the device library as attributes of kernels: see KernelTemplates.td for what their
// fields mean.
#pragma once

#include "ir/kernel/Kernel.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace nano {
struct AttentionShape;
}

namespace nano::kernel {

/// A tensor map that a template loads by: of a matrix from the first element of a buffer on, in
/// boxes whose rows are at most as wide as the swizzle of 128 bytes.
struct TemplateMap {
  int64_t buffer, columns, rows, boxColumns, boxRows;
};

/// A field of a template: see Kernel_Field.
struct TemplateField {
  enum class Kind { constant, read, write, add, function };
  using Constant =
      std::variant<std::monostate, int64_t, bool, mlir::FloatAttr, mlir::DenseI64ArrayAttr>;

  static TemplateField constant(llvm::StringRef name, Constant value) {
    return {name, Kind::constant, value};
  }
  static TemplateField constantIfAny(llvm::StringRef name, std::optional<int64_t> value) {
    return value ? TemplateField{name, Kind::constant, *value} : TemplateField{name};
  }
  static TemplateField constants(llvm::StringRef name, mlir::DenseI64ArrayAttr values) {
    return {name, Kind::constant, values};
  }
  template <typename T> static TemplateField read(llvm::StringRef name, T positions) {
    return buffers(name, Kind::read, positions);
  }
  template <typename T> static TemplateField write(llvm::StringRef name, T positions) {
    return buffers(name, Kind::write, positions);
  }
  template <typename T> static TemplateField add(llvm::StringRef name, T positions) {
    return buffers(name, Kind::add, positions);
  }
  /// Each a result by itself.
  static TemplateField writes(llvm::StringRef name, mlir::DenseI64ArrayAttr positions) {
    return apart(buffers(name, Kind::write, positions));
  }
  static TemplateField adds(llvm::StringRef name, mlir::DenseI64ArrayAttr positions) {
    return apart(buffers(name, Kind::add, positions));
  }
  static TemplateField function(llvm::StringRef name, mlir::FlatSymbolRefAttr symbol,
                                llvm::StringRef nameInText,
                                llvm::SmallVector<llvm::StringRef> arguments) {
    return {name, Kind::function, {}, {}, false, false, symbol, nameInText, std::move(arguments)};
  }

  /// Whether there is such a constant, buffer or function.
  bool isGiven() const {
    if (kind == Kind::constant)
      return !std::holds_alternative<std::monostate>(value);
    return kind == Kind::function ? bool(symbol) : !positions.empty();
  }

  llvm::StringRef name;
  Kind kind = Kind::constant;
  Constant value = {};
  llvm::SmallVector<int64_t> positions = {}; ///< of buffers
  bool isList = false;  ///< of operands, or of the places that a result goes to,
  bool isApart = false; ///< or of results
  mlir::FlatSymbolRefAttr symbol = {};
  llvm::StringRef nameInText = {};
  llvm::SmallVector<llvm::StringRef> arguments = {};

private:
  static TemplateField apart(TemplateField field) {
    field.isApart = true;
    return field;
  }
  static TemplateField buffers(llvm::StringRef name, Kind kind, int64_t position) {
    return {name, kind, {}, {position}};
  }
  static TemplateField buffers(llvm::StringRef name, Kind kind, std::optional<int64_t> position) {
    return position ? buffers(name, kind, *position) : TemplateField{name, kind};
  }
  static TemplateField buffers(llvm::StringRef name, Kind kind, mlir::DenseI64ArrayAttr places) {
    return {name, kind, {}, llvm::SmallVector<int64_t>(places.asArrayRef()), true};
  }
};

/// A template that is one entry: see Kernel_Entry for the language of its texts.
struct TemplateEntry {
  llvm::StringRef header; ///< of the device library
  llvm::StringRef definition;
  llvm::StringRef call;
  llvm::SmallVector<TemplateField> fields;

  /// As the interface of templates says; a buffer that is not given is neither read nor written.
  llvm::SmallVector<int64_t> reads() const;
  llvm::SmallVector<llvm::SmallVector<int64_t>> writes() const;
  bool isAdded(size_t result) const;
};

/// Of an attribute that is one; none of other templates.
std::optional<TemplateEntry> entryOf(mlir::Attribute instance);

/// The tensor maps that a template loads by, in their order, of a kernel with these buffers; none
/// of a kernel that is no template.
llvm::SmallVector<TemplateMap> mapsOf(mlir::Attribute instance, mlir::TypeRange buffers);

/// Reports, at the kernel of a product, a buffer that its end reads or writes and that is smaller
/// in one of its dimensions, or lies otherwise, than the end takes it.
mlir::LogicalResult verifyEnd(FuncOp kernel, mlir::Attribute instance);

/// The product of sizes and distances: the largest number where one is below 0, or where it is
/// beyond all memory.
uint64_t extent(llvm::ArrayRef<int64_t> numbers);

/// The elements that a template reaches of the buffer at a position, which several of its fields
/// may name: the most of what is said of them.
class Reach {
public:
  explicit Reach(int64_t position) : position(position) {}
  /// Of a field's buffers so many, as extent() says.
  Reach &of(int64_t field, llvm::ArrayRef<int64_t> numbers) {
    return of(field == position, numbers);
  }
  Reach &of(std::optional<int64_t> field, llvm::ArrayRef<int64_t> numbers) {
    return of(field == position, numbers);
  }
  Reach &of(mlir::DenseI64ArrayAttr field, llvm::ArrayRef<int64_t> numbers) {
    return of(llvm::is_contained(field.asArrayRef(), position), numbers);
  }
  operator uint64_t() const { return most; }

private:
  Reach &of(bool isOne, llvm::ArrayRef<int64_t> numbers) {
    if (isOne)
      most = std::max(most, extent(numbers));
    return *this;
  }
  int64_t position;
  uint64_t most = 0;
};

/// Numbers of the memory that a scatter's two launches share.
uint64_t scatterScratch(int64_t tokens, int64_t rows);

/// Numbers that count the parts of split products.
uint64_t splitCounts(mlir::DenseI64ArrayAttr rows, mlir::DenseI64ArrayAttr columns);

/// f32 of the sums for dq of attention's gradients in five products, or numbers that count them.
uint64_t attentionInFiveReach(int64_t tokens, int64_t heads, int64_t keyHeads, int64_t headSize,
                              int64_t valueSize, int64_t multiprocessors,
                              std::optional<int64_t> row, bool counts);

/// The tensor maps of a product's A, [rows, inner] or, transposed, [inner, rows], and of its B,
/// [inner, columns] or, transposed, [columns, inner], of the buffer at a position.
TemplateMap mapOfRows(mlir::TypeRange buffers, int64_t position, int64_t rows, int64_t inner,
                      bool isTransposed = false);
TemplateMap mapOfColumns(mlir::TypeRange buffers, int64_t position, int64_t inner, int64_t columns,
                         bool isTransposed);
/// Of a factor [inner, across] of split products.
TemplateMap splitMap(mlir::TypeRange buffers, int64_t position, int64_t inner, int64_t across);
/// Of a symmetric product's factor, as rows and as columns.
llvm::SmallVector<TemplateMap> symmetricMaps(mlir::TypeRange buffers, int64_t position,
                                             int64_t matrices, int64_t size, int64_t inner,
                                             bool transpose);
/// Of a grouped product's rows and of the matrices of its groups one behind the other; of the
/// factors of sums of outer products.
llvm::SmallVector<TemplateMap> groupedMatmulMaps(mlir::TypeRange buffers, int64_t x, int64_t w,
                                                 int64_t rows, int64_t groups, int64_t columns,
                                                 int64_t inner, bool transpose);
llvm::SmallVector<TemplateMap> groupedOuterMaps(int64_t a, int64_t b, int64_t rows, int64_t columns,
                                                int64_t inner);
/// Of q, k and v, and of gradients dy, at `positions`, whose boxes have so many rows: matrices
/// whose rows hold all heads of a token.
llvm::SmallVector<TemplateMap> attentionMaps(mlir::TypeRange buffers, const AttentionShape &shape,
                                             llvm::ArrayRef<int64_t> positions,
                                             llvm::ArrayRef<int> boxRows);

/// "a transpose with a size of 0: must be at least 1".
mlir::LogicalResult verifySizes(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                llvm::StringRef name, llvm::ArrayRef<int64_t> sizes);

} // namespace nano::kernel

#define GET_ATTRDEF_CLASSES
#include "ir/kernel/KernelTemplates.h.inc"
