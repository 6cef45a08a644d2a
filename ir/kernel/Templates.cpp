// What templates of the device library read and write, and which parameters they take.
#include "ir/kernel/Templates.h"

#include "ir/kernel/shapes/nano_attention_launch.h"
#include "ir/kernel/shapes/nano_grouped_shape.h"
#include "ir/kernel/shapes/nano_scatter_shape.h"
#include "ir/kernel/shapes/nano_split_shape.h"
#include "ir/kernel/shapes/nano_symmetric_shape.h"

#include "llvm/Support/InterleavedRange.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace nano::kernel;

using Positions = SmallVector<int64_t>;
using Places = SmallVector<SmallVector<int64_t>>;
using EmitError = function_ref<InFlightDiagnostic()>;

static Positions positions(DenseI64ArrayAttr list) { return Positions(list.asArrayRef()); }
static Places places(ArrayAttr results) {
  Places places;
  for (auto result : results.getAsRange<DenseI64ArrayAttr>())
    places.push_back(positions(result));
  return places;
}

static bool isResult(const TemplateField &field) {
  return (field.kind == TemplateField::Kind::write || field.kind == TemplateField::Kind::add) &&
         (field.isList || field.isGiven());
}

template <typename... Attributes>
static std::optional<TemplateEntry> entryAmong(Attribute instance) {
  std::optional<TemplateEntry> entry;
  auto ask = [&](auto attribute) {
    if constexpr (requires { attribute.getEntry(); })
      if (attribute)
        entry = attribute.getEntry();
  };
  (ask(dyn_cast_or_null<Attributes>(instance)), ...);
  return entry;
}

std::optional<TemplateEntry> nano::kernel::entryOf(Attribute instance) {
  return entryAmong<
#define GET_ATTRDEF_LIST
#include "ir/kernel/KernelAttrs.cpp.inc"
      >(instance);
}

template <typename... Attributes>
static SmallVector<TemplateMap> mapsAmong(Attribute instance, TypeRange buffers) {
  SmallVector<TemplateMap> maps;
  auto ask = [&](auto attribute) {
    if constexpr (requires { attribute.getMaps(buffers); })
      if (attribute)
        maps = attribute.getMaps(buffers);
  };
  (ask(dyn_cast_or_null<Attributes>(instance)), ...);
  return maps;
}

SmallVector<TemplateMap> nano::kernel::mapsOf(Attribute instance, TypeRange buffers) {
  return mapsAmong<
#define GET_ATTRDEF_LIST
#include "ir/kernel/KernelAttrs.cpp.inc"
      >(instance, buffers);
}

LogicalResult nano::kernel::verifySizes(EmitError emitError, StringRef name,
                                        ArrayRef<int64_t> sizes) {
  for (int64_t size : sizes)
    if (size < 1)
      return emitError() << name << " with a size of " << size << ": must be at least 1";
  return success();
}

uint64_t nano::kernel::extent(ArrayRef<int64_t> numbers) {
  uint64_t all = 1;
  for (int64_t number : numbers) {
    if (number < 0)
      return UINT64_MAX;
    all = llvm::SaturatingMultiply<uint64_t>(all, number);
  }
  return all;
}

uint64_t nano::kernel::scatterScratch(int64_t tokens, int64_t rows) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return tokens > most || rows > most ? std::numeric_limits<uint64_t>::max()
                                      : uint64_t(nano::scatterScratchBytes({tokens, rows, 1})) / 4;
}

uint64_t nano::kernel::splitCounts(DenseI64ArrayAttr rows, DenseI64ArrayAttr columns) {
  struct Products {
    ArrayRef<int64_t> allRows, allColumns;
    int count;
    int rows(int i) const { return int(allRows[size_t(i)]); }
    int columns(int i) const { return int(allColumns[size_t(i)]); }
  };
  uint64_t all = 0; // elements: more than tiles
  for (auto [r, c] : llvm::zip_equal(rows.asArrayRef(), columns.asArrayRef()))
    all = llvm::SaturatingAdd(all, extent({r, c}));
  if (all > uint64_t(std::numeric_limits<int32_t>::max()))
    return std::numeric_limits<uint64_t>::max();
  return uint64_t(
      nano::splitCounts(Products{rows.asArrayRef(), columns.asArrayRef(), int(rows.size())}));
}

uint64_t nano::kernel::attentionInFiveReach(int64_t tokens, int64_t heads, int64_t keyHeads,
                                            int64_t headSize, int64_t valueSize,
                                            int64_t multiprocessors, std::optional<int64_t> row,
                                            bool counts) {
  // What is more has no place anywhere; a row is no longer than all tokens.
  constexpr uint64_t most = uint64_t(1) << 48;
  constexpr int64_t mostOfInt = std::numeric_limits<int32_t>::max();
  if (extent({tokens, heads, headSize, valueSize}) > most ||
      std::max({headSize, valueSize, multiprocessors}) > mostOfInt)
    return std::numeric_limits<uint64_t>::max();
  const nano::AttentionShape shape{tokens,
                                   heads,
                                   keyHeads,
                                   int(headSize),
                                   int(valueSize),
                                   /*isBf16=*/true,
                                   /*vectorRows=*/true,
                                   /*hasScore=*/false,
                                   int(multiprocessors)};
  const nano::AttentionInFive five = nano::attentionInFive(shape, row.value_or(0));
  return uint64_t(counts ? 1 + five.counts : five.sums);
}

//===- Tensor maps --------------------------------------------------------===//

/// Bytes of an element of the buffer; 1 where there is none, or it is no memory.
static int elementBytes(TypeRange buffers, int64_t position) {
  const auto type = position >= 0 && position < int64_t(buffers.size())
                        ? dyn_cast<MemRefType>(buffers[size_t(position)])
                        : MemRefType();
  return type ? std::max(1, int(type.getElementTypeBitWidth() / 8)) : 1;
}

static nano::kernel::TemplateMap mapOf(int64_t position, int64_t columns, int64_t rows,
                                       const nano::TensorBox &box) {
  return {position, columns, rows, box.columns, box.rows};
}

nano::kernel::TemplateMap nano::kernel::mapOfRows(TypeRange buffers, int64_t position, int64_t rows,
                                                  int64_t inner, bool isTransposed) {
  return mapOf(position, isTransposed ? rows : inner, isTransposed ? inner : rows,
               MatmulTiles::aBox(isTransposed, elementBytes(buffers, position)));
}

nano::kernel::TemplateMap nano::kernel::mapOfColumns(TypeRange buffers, int64_t position,
                                                     int64_t inner, int64_t columns,
                                                     bool isTransposed) {
  return mapOf(position, isTransposed ? inner : columns, isTransposed ? columns : inner,
               MatmulTiles::bBox(isTransposed, elementBytes(buffers, position)));
}

nano::kernel::TemplateMap nano::kernel::splitMap(TypeRange, int64_t position, int64_t inner,
                                                 int64_t across) {
  return mapOf(position, across, inner, SplitTiles::box());
}

/// Rows of so many matrices one behind the other.
static int64_t rowsOfAll(int64_t matrices, int64_t rows) {
  return int64_t(std::min<uint64_t>(nano::kernel::extent({matrices, rows}),
                                    std::numeric_limits<int64_t>::max()));
}

SmallVector<nano::kernel::TemplateMap>
nano::kernel::groupedMatmulMaps(TypeRange buffers, int64_t x, int64_t w, int64_t rows,
                                int64_t groups, int64_t columns, int64_t inner, bool transpose) {
  const int64_t all = rowsOfAll(groups, transpose ? columns : inner);
  return {mapOfRows(buffers, x, rows, inner),
          mapOfColumns(buffers, w, transpose ? inner : all, transpose ? all : columns, transpose)};
}

SmallVector<nano::kernel::TemplateMap>
nano::kernel::groupedOuterMaps(int64_t a, int64_t b, int64_t rows, int64_t columns, int64_t inner) {
  return {mapOf(a, inner, rows, GroupedOuterTiles::aBox()),
          mapOf(b, columns, rows, GroupedOuterTiles::bBox())};
}

SmallVector<nano::kernel::TemplateMap> nano::kernel::symmetricMaps(TypeRange, int64_t position,
                                                                   int64_t matrices, int64_t size,
                                                                   int64_t inner, bool transpose) {
  const int64_t columns = transpose ? size : inner,
                rows = rowsOfAll(matrices, transpose ? inner : size);
  return {mapOf(position, columns, rows, SymmetricTiles::rowsBox(transpose)),
          mapOf(position, columns, rows, SymmetricTiles::columnsBox(transpose))};
}

SmallVector<nano::kernel::TemplateMap> nano::kernel::attentionMaps(TypeRange buffers,
                                                                   const AttentionShape &shape,
                                                                   ArrayRef<int64_t> positions,
                                                                   ArrayRef<int> boxRows) {
  SmallVector<TemplateMap> maps;
  for (auto [i, position] : llvm::enumerate(positions)) {
    // q and dy have all heads, k and v those of keys; v and dy the size of values.
    const int64_t heads = i == 0 || i == 3 ? shape.heads : shape.keyHeads,
                  size = i < 2 ? shape.headSize : shape.valueSize;
    int64_t between = size;
    if (auto type = position < int64_t(buffers.size())
                        ? dyn_cast<MemRefType>(buffers[size_t(position)])
                        : MemRefType();
        type && type.getRank() == 3)
      between = type.getStridesAndOffset().first[1];
    maps.push_back({position, (heads - 1) * between + size, shape.tokens, 64, boxRows[i]});
  }
  return maps;
}

SmallVector<int64_t> TemplateEntry::reads() const {
  SmallVector<int64_t> positions;
  for (const TemplateField &field : fields)
    if (field.kind == TemplateField::Kind::read)
      llvm::append_range(positions, field.positions);
  return positions;
}
SmallVector<SmallVector<int64_t>> TemplateEntry::writes() const {
  SmallVector<SmallVector<int64_t>> places;
  for (const TemplateField &field : fields)
    if (isResult(field) && field.isApart)
      for (int64_t position : field.positions)
        places.push_back({position});
    else if (isResult(field))
      places.push_back(field.positions);
  return places;
}
bool TemplateEntry::isAdded(size_t result) const {
  for (const TemplateField &field : fields)
    if (isResult(field)) {
      const size_t results = field.isApart ? field.positions.size() : 1;
      if (result < results)
        return field.kind == TemplateField::Kind::add;
      result -= results;
    }
  return false;
}

/// Results are lists of places, and what is said of some of them is said of results.
static LogicalResult verifyResults(EmitError emitError, StringRef name, ArrayAttr results,
                                   ArrayRef<int64_t> named) {
  if (!llvm::all_of(results, [](Attribute result) { return isa<DenseI64ArrayAttr>(result); }))
    return emitError() << "a " << name << " with a result that is no list of buffers";
  for (int64_t result : named)
    if (result < 0 || result >= int64_t(results.size()))
      return emitError() << "a " << name << " that names result " << result << " of "
                         << results.size();
  return success();
}

//===- Products -----------------------------------------------------------===//

Positions ProductAttr::getReadPositions() const {
  Positions reads = {getA(), getB()};
  if (getSecond())
    reads.push_back(getSecond().getInt());
  llvm::append_range(reads, getScales().asArrayRef());
  llvm::append_range(reads, getOthers().asArrayRef());
  return reads;
}
Places ProductAttr::getWrittenPositions() const { return places(getResults()); }
bool ProductAttr::isAdded(size_t result) const {
  return llvm::is_contained(getAdded().asArrayRef(), int64_t(result));
}
/// The epilogue reads elements at the places that it writes.
bool ProductAttr::readsOtherPlaces() const { return false; }
/// What its end has of other buffers and leaves in results: see verifyEnd.
uint64_t ProductAttr::getElementsReached(int64_t position) const {
  Reach reach(position);
  reach.of(getA(), {getRows(), getInner()}).of(getB(), {getColumns(), getInner()});
  if (getSecond())
    reach.of(getSecond().getInt(), {getColumns(), getInner()});
  return reach;
}

SmallVector<TemplateMap> ProductAttr::getMaps(TypeRange buffers) const {
  SmallVector<TemplateMap> maps = {
      mapOfRows(buffers, getA(), getRows(), getInner(), getTransposeA()),
      mapOfColumns(buffers, getB(), getInner(), getColumns(), getTransposeB())};
  if (getSecond())
    maps.push_back(
        mapOfColumns(buffers, getSecond().getInt(), getInner(), getColumns(), getTransposeB()));
  return maps;
}

/// The end is called for neighbours of a row, as many as the epilogue takes, wherever there are
/// some, and reads and writes by the rows of each matrix: it takes [rows, columns] of them, a row
/// of what all rows share, a column of numbers of rows, and of sums and maxima one number for so
/// many rows and columns as nano_matmul.h says. A result of 8 bits may lie with its rows as
/// columns, of which 16 are stored at once.
LogicalResult nano::kernel::verifyEnd(FuncOp kernel, Attribute instance) {
  auto product = dyn_cast_or_null<ProductAttr>(instance);
  if (!product)
    return success();
  using Tiles = nano::MatmulTiles;
  constexpr int64_t turnedRows = Tiles::sumRows;
  auto holds = [&](int64_t position, ArrayRef<int64_t> least,
                   bool mayBeTurned = false) -> LogicalResult {
    const MemRefType type = kernel.getBufferType(unsigned(position));
    const bool isEnough = type.getRank() == int64_t(least.size()) &&
                          llvm::all_of(llvm::zip_equal(type.getShape(), least), [](auto sizes) {
                            return std::get<0>(sizes) >= std::get<1>(sizes);
                          });
    if (!isEnough)
      return kernel.emitOpError("is a product whose end takes ")
             << llvm::interleaved(least, "x") << " elements of buffer " << position << ", which is "
             << type;
    const SmallVector<int64_t> strides = type.getStridesAndOffset().first;
    const bool isTurned = mayBeTurned && type.getElementTypeBitWidth() == 8 &&
                          strides.front() == 1 && strides.back() >= least.front() &&
                          least.front() % turnedRows == 0;
    if (least.back() > 1 && strides.back() != 1 && !isTurned)
      return kernel.emitOpError("is a product whose end takes rows of buffer ")
             << position << " without gaps, which is " << type;
    return success();
  };
  const int64_t rows = product.getRows(), columns = product.getColumns();
  func::FuncOp epilogue;
  if (FlatSymbolRefAttr symbol = product.getEpilogue())
    epilogue = kernel->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol.getAttr());
  const size_t products = product.getSecond() ? 2 : 1;
  for (auto [i, position] : llvm::enumerate(product.getOthers().asArrayRef())) {
    const int64_t rank = kernel.getBufferType(unsigned(position)).getRank();
    const int64_t matrix[] = {rows, columns};
    // Of numbers in a row what the epilogue takes as a number is one of a row.
    const bool isOfRows = rank == 1 && epilogue && products + i < epilogue.getNumArguments() &&
                          !isa<VectorType>(epilogue.getArgumentTypes()[products + i]);
    const ArrayRef<int64_t> least = isOfRows    ? ArrayRef(matrix).take_front(1)
                                    : rank == 1 ? ArrayRef(matrix).take_back(1)
                                                : ArrayRef(matrix);
    if (rank > 0 && failed(holds(position, least)))
      return failure();
  }
  if (epilogue && epilogue.getNumResults() != product.getResults().size())
    return kernel.emitOpError("is a product whose epilogue has ")
           << epilogue.getNumResults() << " results, of which it puts away "
           << product.getResults().size();
  if (epilogue && epilogue.getNumArguments() > 0)
    if (auto neighbours = dyn_cast<VectorType>(epilogue.getArgumentTypes().front());
        neighbours && columns % neighbours.getNumElements() != 0)
      return kernel.emitOpError("is a product whose end takes ")
             << neighbours.getNumElements() << " columns at once, of " << columns;
  for (auto [result, places] : llvm::enumerate(product.getWrittenPositions())) {
    const bool isLargest = product.getLargest() &&
                           llvm::is_contained(product.getLargest().asArrayRef(), int64_t(result)),
               isColumnSum =
                   product.getColumnSum() && product.getColumnSum().getInt() == int64_t(result),
               isSum =
                   epilogue && !isLargest && !isa<VectorType>(epilogue.getResultTypes()[result]);
    const int64_t least[] = {
        isLargest || isColumnSum ? int64_t(nano::divideUp(rows, Tiles::sumRows)) : rows,
        isLargest ? int64_t(nano::divideUp(columns, Tiles::partColumns))
        : isSum   ? int64_t(nano::divideUp(columns, Tiles::sumColumns))
                  : columns};
    for (int64_t position : places)
      if (failed(holds(position, least, /*mayBeTurned=*/!isLargest && !isColumnSum && !isSum)))
        return failure();
  }
  return success();
}

LogicalResult ProductAttr::verify(EmitError emitError, int64_t rows, int64_t columns, int64_t inner,
                                  bool, bool, int64_t blocks, int64_t, int64_t,
                                  DenseI64ArrayAttr scales, DenseI64ArrayAttr, ArrayAttr results,
                                  DenseI64ArrayAttr added, IntegerAttr columnSum,
                                  DenseI64ArrayAttr largest, IntegerAttr second,
                                  FlatSymbolRefAttr) {
  if (failed(verifySizes(emitError, "a product", {rows, columns, inner, blocks})))
    return failure();
  const int64_t each = second ? 4 : 2;
  if (!scales.empty() && scales.size() != each)
    return emitError() << (second ? "two products" : "a product") << " with " << scales.size()
                       << " scales: none or " << (second ? "four" : "two");
  if (second && columnSum)
    return emitError() << "two products with a sum of columns";
  Positions named = positions(added);
  if (columnSum)
    named.push_back(columnSum.getInt());
  if (largest)
    llvm::append_range(named, largest.asArrayRef());
  return verifyResults(emitError, "product", results, named);
}

//===- The model's own ----------------------------------------------------===//

Positions CustomAttr::getReadPositions() const { return positions(getInputs()); }
Places CustomAttr::getWrittenPositions() const { return places(getOutputs()); }
bool CustomAttr::isAdded(size_t result) const {
  return llvm::is_contained(getAdded().asArrayRef(), int64_t(result));
}
LogicalResult CustomAttr::verify(EmitError emitError, StringAttr function, StringAttr, StringAttr,
                                 DenseI64ArrayAttr, ArrayAttr outputs, DenseI64ArrayAttr added) {
  if (!function || function.empty())
    return emitError() << "a kernel of the model's own that calls no function";
  return verifyResults(emitError, "kernel of the model's own", outputs, added.asArrayRef());
}
