// What templates of the device library read and write, and which parameters they take.
#include "ir/kernel/Templates.h"

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

LogicalResult ProductAttr::verify(EmitError emitError, int64_t rows, int64_t columns, int64_t inner,
                                  bool, bool, int64_t blocks, int64_t, int64_t,
                                  DenseI64ArrayAttr scales, DenseI64ArrayAttr, ArrayAttr results,
                                  DenseI64ArrayAttr added, IntegerAttr columnSum,
                                  FlatSymbolRefAttr) {
  if (failed(verifySizes(emitError, "a product", {rows, columns, inner, blocks})))
    return failure();
  if (!scales.empty() && scales.size() != 2)
    return emitError() << "a product with " << scales.size() << " scales: none or two";
  Positions named = positions(added);
  if (columnSum)
    named.push_back(columnSum.getInt());
  return verifyResults(emitError, "product", results, named);
}

//===- Attention ----------------------------------------------------------===//

static LogicalResult verifyHeads(EmitError emitError, int64_t tokens, int64_t heads,
                                 int64_t keyHeads, int64_t headSize, int64_t valueSize,
                                 int64_t multiprocessors) {
  if (failed(verifySizes(emitError, "an attention",
                         {tokens, heads, keyHeads, headSize, valueSize, multiprocessors})))
    return failure();
  if (heads % keyHeads != 0)
    return emitError() << "an attention of " << heads << " heads, which cannot share " << keyHeads
                       << " heads of keys evenly";
  return success();
}

Positions AttentionAttr::getReadPositions() const {
  return {getQ(), getK(), getV(), getFirst(), getLast()};
}
Places AttentionAttr::getWrittenPositions() const {
  return {positions(getY()), positions(getLse())};
}
LogicalResult AttentionAttr::verify(EmitError emitError, int64_t tokens, int64_t heads,
                                    int64_t keyHeads, int64_t headSize, int64_t valueSize, bool,
                                    int64_t multiprocessors, FloatAttr, int64_t, int64_t, int64_t,
                                    int64_t, int64_t, DenseI64ArrayAttr, DenseI64ArrayAttr,
                                    FlatSymbolRefAttr) {
  return verifyHeads(emitError, tokens, heads, keyHeads, headSize, valueSize, multiprocessors);
}

Positions AttentionGradAttr::getReadPositions() const {
  return {getQ(), getK(), getV(), getFirst(), getLast(), getLse(), getDelta(), getDy()};
}
/// The counts, which come behind dq, dk, dv and the sums.
bool AttentionGradAttr::isAdded(size_t result) const { return result == 4; }
Places AttentionGradAttr::getWrittenPositions() const {
  Places places = {positions(getDq()), positions(getDk()), positions(getDv())};
  for (std::optional<int64_t> own : {getPartial(), getCounts()})
    if (own)
      places.push_back({*own});
  return places;
}
LogicalResult AttentionGradAttr::verify(EmitError emitError, int64_t tokens, int64_t heads,
                                        int64_t keyHeads, int64_t headSize, int64_t valueSize, bool,
                                        int64_t multiprocessors, FloatAttr, int64_t, int64_t,
                                        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                                        DenseI64ArrayAttr, DenseI64ArrayAttr, DenseI64ArrayAttr,
                                        std::optional<int64_t> partial,
                                        std::optional<int64_t> counts, FlatSymbolRefAttr score,
                                        FlatSymbolRefAttr scoreGrad) {
  if (partial.has_value() != counts.has_value())
    return emitError() << "gradients of an attention with sums and no counts of them, or the other "
                          "way round";
  if (partial && (score || heads != keyHeads || headSize != valueSize))
    return emitError() << "gradients of an attention with sums beside a score, heads that share "
                          "keys or values of another size";
  if (!score != !scoreGrad)
    return emitError() << "gradients of an attention with a score and no gradient of it, or the "
                          "other way round";
  return verifyHeads(emitError, tokens, heads, keyHeads, headSize, valueSize, multiprocessors);
}

//===- Scatter and scan ----------------------------------------------------===//

Positions ScatterSortAttr::getReadPositions() const { return {getIds()}; }
Places ScatterSortAttr::getWrittenPositions() const { return {{getSorted()}}; }
LogicalResult ScatterSortAttr::verify(EmitError emitError, int64_t tokens, int64_t rows, int64_t,
                                      int64_t) {
  return verifySizes(emitError, "a scatter", {tokens, rows});
}

Positions ScatterSumAttr::getReadPositions() const { return {getX(), getSorted()}; }
Places ScatterSumAttr::getWrittenPositions() const { return {positions(getY())}; }
LogicalResult ScatterSumAttr::verify(EmitError emitError, int64_t tokens, int64_t rows,
                                     int64_t columns, bool, int64_t, int64_t, DenseI64ArrayAttr) {
  return verifySizes(emitError, "a scatter", {tokens, rows, columns});
}

Positions ScanAttr::getReadPositions() const { return {getX()}; }
Places ScanAttr::getWrittenPositions() const { return {positions(getY())}; }
LogicalResult ScanAttr::verify(EmitError emitError, int64_t size, bool, int64_t,
                               DenseI64ArrayAttr) {
  return verifySizes(emitError, "a scan", {size});
}

//===- Along a sequence ---------------------------------------------------===//

Positions RecurrenceAttr::getReadPositions() const {
  Positions positions;
  for (std::optional<int64_t> position : {getA(), getB()})
    if (position)
      positions.push_back(*position);
  return positions;
}
Places RecurrenceAttr::getWrittenPositions() const { return {positions(getH())}; }
LogicalResult RecurrenceAttr::verify(EmitError emitError, int64_t sequences, int64_t length,
                                     int64_t channels, int64_t vector, bool, bool, FloatAttr,
                                     std::optional<int64_t> a, std::optional<int64_t> b,
                                     DenseI64ArrayAttr) {
  if (!a && !b)
    return emitError() << "a recurrence without factors and without terms";
  if (failed(verifySizes(emitError, "a recurrence", {sequences, length, channels, vector})))
    return failure();
  if (const int64_t across = channels == 1 ? length : channels; across % vector != 0)
    return emitError() << "a recurrence in vectors of " << vector << " that do not divide "
                       << across;
  return success();
}

Positions BandScoresAttr::getReadPositions() const { return {getFirst(), getSecond()}; }
Places BandScoresAttr::getWrittenPositions() const { return {positions(getY())}; }
LogicalResult BandScoresAttr::verify(EmitError emitError, int64_t tokens, int64_t heads,
                                     int64_t size, int64_t width, bool, bool, int64_t, int64_t,
                                     DenseI64ArrayAttr) {
  return verifySizes(emitError, "a band", {tokens, heads, size, width});
}

Positions BandProductAttr::getReadPositions() const { return {getFirst(), getSecond()}; }
Places BandProductAttr::getWrittenPositions() const { return {positions(getY())}; }
LogicalResult BandProductAttr::verify(EmitError emitError, int64_t tokens, int64_t heads,
                                      int64_t size, int64_t width, bool, bool, int64_t, int64_t,
                                      DenseI64ArrayAttr) {
  return verifySizes(emitError, "a band", {tokens, heads, size, width});
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
