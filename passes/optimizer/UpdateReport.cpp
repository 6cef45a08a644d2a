// The remark on a parameter's update.
#include "passes/optimizer/UpdateReport.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

/// "matmul at models/optimizers.h:204"
static std::string describe(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  op->getLoc()->walk([&](Location part) {
    auto line = dyn_cast<FileLineColLoc>(part);
    if (!line)
      return WalkResult::advance();
    text += (" at " + line.getFilename().strref() + ":" + Twine(line.getLine())).str();
    return WalkResult::interrupt();
  });
  return text;
}

void reportUpdate(StateOp parameter, const UpdateForm &form, const Sharding *sharding,
                  int64_t stack) {
  OptimizerOp op = form.op();
  InFlightDiagnostic remark = parameter.emitRemark();
  remark << "'" << parameter.getSymName() << "' " << shapeText(parameter.getTensorType()) << ": '"
         << op.getGroup() << "' (" << op.getKind() << ") updates it";
  if (op.getEvery() > 1)
    remark << " on every " << static_cast<int64_t>(op.getEvery()) << " steps";
  const std::string unit = form.unitName();
  if (unit == "parameter")
    remark << " as a whole";
  else
    remark << " " << unit << " by " << unit;
  if (Operation *limit = form.limit(); limit && !isa<YieldOp>(limit))
    remark << ", for the " << describe(limit);
  if (sharding) {
    const Value gathered = form.gathered(/*apart=*/form.hasProducts());
    const RankedTensorType type = tensorType(gathered);
    remark << "; ";
    if (form.hasProducts())
      remark << "of " << sharding->parts
             << " neighbouring matrices each rank of a group updates one";
    else
      remark << "each rank of a group of " << sharding->parts << " updates a part";
    remark << ", and all gather " << shapeText(type) << " in " << type.getElementType();
  } else {
    if (stack > 1)
      remark << ", in products with " << stack - 1 << " other parameters";
    if (worldOf(parameter->getParentOfType<ModuleOp>()).value_or(1) > 1)
      remark << "; every rank updates all of it, from the sum of all gradients";
  }
}

} // namespace nano
