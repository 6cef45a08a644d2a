// nano-derive-decode: the program of the next token's logits, derived from that of all positions.
//
//   nano.program @generate(%tokens: tensor<64xi32>)  nano.program @decode(%token: tensor<1xi32>,
//       -> tensor<64x257xf32>                    ⇒       %position: tensor<1xi32>)
//                                                         -> tensor<1x257xf32>
//
// The rules of rows say which values need those of earlier positions: `generate` keeps them in
// states, `decode` adds its own. One run of `generate` on a prompt and one of `decode` a token
// give the logits that a run of `generate` a token gives.
//
// It runs on the graph as the model file says it, where a row is a row, and before indices are
// checked and products aligned.
#include "ir/graph/Program.h"
#include "passes/Passes.h"
#include "passes/generate/RowRules.h"

namespace nano {
#define GEN_PASS_DEF_DERIVEDECODE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

struct DeriveDecode : public nano::impl::DeriveDecodeBase<DeriveDecode> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    ProgramOp all = programWithRole(module, "generate");
    if (!all || !all.getBody().hasOneBlock())
      return;
    OpBuilder builder(&getContext());
    const auto logits = cast<RankedTensorType>(all.getResultTypes()[0]);
    const auto number = RankedTensorType::get({1}, builder.getI32Type());
    const auto type =
        builder.getFunctionType({number, number}, {logits.clone({1, logits.getDimSize(1)})});
    ProgramOp row = ProgramOp::create(builder, all.getLoc(), "decode", type, "decode");
    row.addEntryBlock();
    SymbolTable(module).insert(row, std::next(Block::iterator(all)));
    generate::RowProgram program(all, row);
    if (program.derive())
      return;
    program.culprit()->emitRemark()
        << "sampling computes all positions for every token: " << program.reason();
    row.erase();
  }
};

} // namespace
