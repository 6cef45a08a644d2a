// Declarations of optimizers' states, whole and sharded.
#include "passes/optimizer/UpdateStates.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ModelError.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

UpdateStates::UpdateStates(ModuleOp module, StateOp last)
    : module(module), symbols(module), builder(module.getBodyRegion()) {
  builder.setInsertionPointAfter(last);
}

FailureOr<bool> UpdateStates::claim(Operation *owner, StringRef name,
                                    llvm::function_ref<bool(Operation *)> isSame) {
  if (!declared.insert(name).second)
    return false;
  Operation *holder = symbols.lookup(name);
  if (!holder || isSame(holder))
    return !holder;
  InFlightDiagnostic error = emitModelError(owner)
                             << "the name @" << name << " is taken: the optimizer needs it";
  error.attachNote(holder->getLoc()) << "taken here";
  return failure();
}

InitAttr UpdateStates::constantInit(double init) {
  return InitAttr::get(builder.getContext(), "constant", builder.getDenseF64ArrayAttr(init));
}

void UpdateStates::add(StateOp owner, StringRef name, RankedTensorType type, double init,
                       DictionaryAttr sharding) {
  auto state =
      StateOp::create(builder, owner.getLoc(), name, type, Role::Optimizer, constantInit(init));
  state.setShardingAttr(sharding);
  builder.setInsertionPointAfter(state);
}

LogicalResult UpdateStates::declareGradScale() {
  FailureOr<bool> isNew = claim(module, gradScaleSymbol);
  if (failed(isNew) || !*isNew)
    return failure(failed(isNew));
  const Location location = module.getLoc();
  ImplicitLocOpBuilder b(location, builder);
  auto scalar = ScalarOp::create(b, gradScaleSymbol, b.getF32Type());
  builder.setInsertionPointAfter(scalar);
  Block *body = b.createBlock(&scalar.getBody(), {}, SmallVector<Type>(4, b.getF64Type()),
                              SmallVector<Location>(4, location));
  Value one = arith::ConstantOp::create(b, b.getF64FloatAttr(1));
  Value scale = arith::DivFOp::create(b, one, body->getArgument(2));
  YieldOp::create(b, scale);
  return success();
}

FailureOr<std::string> UpdateStates::declare(StateOp parameter, const UpdateForm &form,
                                             unsigned i) {
  OptimizerOp op = form.op();
  std::string name = op.stateName(parameter.getSymName(), i);
  const RankedTensorType type = tensorType(form.body().getArgument(i + 2));
  const double init = op.getInits()[i];
  // An event that names it has had it declared; the model's own states say what ranks have.
  FailureOr<bool> isNew = claim(parameter, name, [&](Operation *holder) {
    auto state = dyn_cast<StateOp>(holder);
    return state && state.getRole() == Role::Optimizer && state.getTensorType() == type &&
           state.getInit() == constantInit(init) && !state.getOverRanks();
  });
  if (failed(isNew))
    return failure();
  if (*isNew)
    add(parameter, name, type, init, {});
  return name;
}

FailureOr<std::string> UpdateStates::declare(StateOp gradient, const Sharding &sharding,
                                             const UpdateForm &form, unsigned i, int64_t units,
                                             FormOf formOf) {
  OptimizerOp op = form.op();
  // A share of one parameter is called after the parameter.
  StringRef owner = ofGradient(gradient.getSymName());
  if (sharding.pieces.size() == 1 && owner.ends_with(".part"))
    owner = ofGradient(sharding.pieces.front().name);
  std::string name = op.stateName(owner, i);
  FailureOr<bool> isNew = claim(gradient, name);
  if (failed(isNew))
    return failure();
  if (!*isNew)
    return name;
  const Value state = form.body().getArgument(i + 2);
  const int64_t inGradient = form.unitElements(), inState = form.unitElementsOf(state);
  Sharding mine = sharding;
  mine.chunk = sharding.chunk / inGradient * inState;
  for (Sharding::Piece &piece : mine.pieces) {
    StringRef parameter = ofGradient(piece.name);
    piece.shape =
        llvm::to_vector(tensorType(formOf(parameter).body().getArgument(i + 2)).getShape());
    piece.name = op.stateName(parameter, i);
    piece.offset = piece.offset / inGradient * inState;
  }
  add(gradient, name, form.typeOf(state, units), op.getInits()[i],
      mine.attribute(builder.getContext()));
  return name;
}

} // namespace nano
