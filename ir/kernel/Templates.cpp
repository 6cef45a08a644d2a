// What templates of the device library read and write, and which parameters they take.
#include "ir/kernel/Templates.h"

#include "ir/kernel/shapes/nano_scatter_shape.h"

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
/// What the epilogue has of other buffers and leaves in results it alone says.
uint64_t ProductAttr::getElementsReached(int64_t position) const {
  Reach reach(position);
  reach.of(getA(), {getRows(), getInner()}).of(getB(), {getColumns(), getInner()});
  if (getSecond())
    reach.of(getSecond().getInt(), {getColumns(), getInner()});
  return reach;
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
