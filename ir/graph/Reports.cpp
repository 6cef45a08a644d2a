// What must hold of a report's state, and the edges of histograms.
#include "ir/graph/Reports.h"

#include "ir/graph/Nano.h"

#include <cmath>

using namespace mlir;

namespace nano::graph {

llvm::SmallVector<double> histogramEdges() {
  constexpr int least = -12, most = 6;
  llvm::SmallVector<double> edges;
  for (int power = most; power >= least; --power)
    edges.push_back(-std::ldexp(1.0, 2 * power));
  for (int power = least; power <= most; ++power)
    edges.push_back(std::ldexp(1.0, 2 * power));
  return edges;
}

LogicalResult ReportedOp::verify() {
  const ArrayRef<double> edges = getEdges();
  if ((getKind() == ReportKind::histogram) == edges.empty())
    return emitOpError(edges.empty() ? "a histogram needs edges" : "only a histogram has edges");
  for (size_t i = 0; i < edges.size(); ++i)
    if (!std::isfinite(edges[i]) || (i > 0 && !(edges[i - 1] < edges[i])))
      return emitOpError("edge ") << i << " is not finite or not above the one before";
  return success();
}

LogicalResult ReportedOp::verifySymbolUses(SymbolTableCollection &table) {
  auto state = table.lookupNearestSymbolFrom<StateOp>(*this, getSymbolAttr());
  if (!state)
    return emitOpError("no state ") << getSymbolAttr();
  const RankedTensorType type = state.getTensorType();
  if (state.getRole() != Role::Report || type.getRank() != 1 || !type.getElementType().isF32())
    return emitOpError("state ") << getSymbolAttr()
                                 << " must have the role report and hold f32 numbers in one axis";
  const auto at = static_cast<int64_t>(getAt());
  const int64_t numbers = reportNumbers(getKind(), static_cast<int64_t>(getEdges().size()));
  if (at < 0 || at > type.getNumElements() - numbers)
    return emitOpError("takes ") << numbers << " numbers from " << at << " on of state "
                                 << getSymbolAttr() << ", which has " << type.getNumElements();
  return success();
}

} // namespace nano::graph
