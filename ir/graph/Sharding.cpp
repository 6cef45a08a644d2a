// Shardings to and from attributes.
#include "ir/graph/Sharding.h"

#include "ir/graph/Shapes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;

namespace nano::graph {

DictionaryAttr Sharding::attribute(MLIRContext *context) const {
  Builder b(context);
  SmallVector<Attribute> list;
  for (const Piece &piece : pieces)
    list.push_back(
        b.getDictionaryAttr({b.getNamedAttr("name", b.getStringAttr(piece.name)),
                             b.getNamedAttr("shape", b.getDenseI64ArrayAttr(piece.shape)),
                             b.getNamedAttr("offset", b.getI64IntegerAttr(piece.offset))}));
  return b.getDictionaryAttr({b.getNamedAttr("parts", b.getI64IntegerAttr(parts)),
                              b.getNamedAttr("ranks", b.getStringAttr(stringifyRankSet(ranks))),
                              b.getNamedAttr("chunk", b.getI64IntegerAttr(chunk)),
                              b.getNamedAttr("pieces", b.getArrayAttr(list))});
}

LogicalResult verifySharding(StateOp state) {
  const std::optional<DictionaryAttr> all = state.getSharding();
  if (!all)
    return success();
  auto malformed = [&]() {
    return state.emitOpError("sharding") << " is not {parts : i64, ranks, chunk : i64, "
                                            "pieces = [{name, shape, offset : i64}, …]}";
  };
  auto isNumber = [](DictionaryAttr from, StringRef name) {
    auto number = from.getAs<IntegerAttr>(name);
    return number && number.getType().isInteger(64);
  };
  if (!isNumber(*all, "parts") || !isNumber(*all, "chunk"))
    return malformed();
  auto ranks = all->getAs<StringAttr>("ranks");
  auto pieces = all->getAs<ArrayAttr>("pieces");
  if (!ranks || !symbolizeRankSet(ranks.getValue()) || !pieces)
    return malformed();
  for (Attribute entry : pieces) {
    auto piece = dyn_cast<DictionaryAttr>(entry);
    if (!piece || !piece.getAs<StringAttr>("name") || !piece.getAs<DenseI64ArrayAttr>("shape") ||
        !isNumber(piece, "offset"))
      return malformed();
  }
  if (state.getRole() == Role::Parameter)
    return state.emitOpError("a parameter cannot be sharded: every rank reads all of it");

  const Sharding sharding = *shardingOf(state);
  const int64_t elements = state.getTensorType().getNumElements();
  if (sharding.parts < 1 || sharding.chunk < 1 || elements % sharding.chunk != 0)
    return state.emitOpError("chunks of ")
           << sharding.chunk << " elements, " << sharding.parts << " parts: no division of "
           << elements << " elements a rank";
  int64_t end = 0;
  for (const Sharding::Piece &piece : sharding.pieces) {
    if (piece.offset < end)
      return state.emitOpError("piece '") << piece.name << "' begins at " << piece.offset
                                          << ", before the end of what precedes it, " << end;
    std::optional<int64_t> size = 1;
    for (int64_t dim : piece.shape)
      size = size && dim >= 0 ? llvm::checkedMul(*size, dim) : std::nullopt;
    const std::optional<int64_t> last = size ? llvm::checkedAdd(piece.offset, *size) : std::nullopt;
    if (!last)
      return state.emitOpError("piece '") << piece.name << "' at " << piece.offset
                                          << " has the shape " << shapeText(piece.shape);
    end = *last;
  }
  const std::optional<int64_t> whole = llvm::checkedMul(elements, sharding.parts);
  if (!whole)
    return state.emitOpError() << sharding.parts << " parts of " << elements
                               << " elements: more than there can be";
  if (end > *whole)
    return state.emitOpError("the pieces end at ")
           << end << ", after the whole of " << *whole << " elements";
  return success();
}

std::optional<Sharding> shardingOf(StateOp state) {
  const DictionaryAttr attribute = state.getShardingAttr();
  if (!attribute)
    return std::nullopt;
  auto number = [](DictionaryAttr from, StringRef name) {
    return from.getAs<IntegerAttr>(name).getInt();
  };
  Sharding sharding;
  sharding.parts = number(attribute, "parts");
  sharding.ranks = *symbolizeRankSet(attribute.getAs<StringAttr>("ranks").getValue());
  sharding.chunk = number(attribute, "chunk");
  for (Attribute entry : attribute.getAs<ArrayAttr>("pieces")) {
    auto piece = cast<DictionaryAttr>(entry);
    sharding.pieces.push_back(
        {piece.getAs<StringAttr>("name").str(),
         SmallVector<int64_t>(piece.getAs<DenseI64ArrayAttr>("shape").asArrayRef()),
         number(piece, "offset")});
  }
  return sharding;
}

} // namespace nano::graph
