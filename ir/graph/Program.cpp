// How programs are made, read and written, and what holds of all of a module.
#include "ir/graph/Program.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;

namespace nano::graph {

//===- The model -----------------------------------------------------------===//

void ModelOp::build(OpBuilder &builder, OperationState &state, StringRef name) {
  state.addAttribute(getNameAttrName(state.name), builder.getStringAttr(name));
}

LogicalResult ModelOp::verify() {
  if (modelOf(cast<ModuleOp>((*this)->getParentOp())) != *this)
    return emitOpError("is the second of its module");
  const int64_t world = int64_t(getWorld().value_or(1)), group = int64_t(getGroup().value_or(1));
  if (world < 1 || group < 1 || world % group != 0)
    return emitOpError("has ") << world << " ranks in groups of " << group;
  return success();
}

ModelOp modelOf(ModuleOp module) {
  const auto models = module.getOps<ModelOp>();
  return models.empty() ? ModelOp() : *models.begin();
}

ModelOp modelOrNew(ModuleOp module) {
  if (ModelOp model = modelOf(module))
    return model;
  auto builder = OpBuilder::atBlockBegin(module.getBody());
  return ModelOp::create(builder, module.getLoc(), "");
}

DictionaryAttr trainingOf(ModuleOp module) {
  ModelOp model = modelOf(module);
  return model ? model.getTrainingAttr() : DictionaryAttr();
}

std::optional<int64_t> worldOf(ModuleOp module) {
  ModelOp model = modelOf(module);
  return model ? std::optional<int64_t>(model.getWorld()) : std::nullopt;
}

int64_t groupOf(ModuleOp module) {
  ModelOp model = modelOf(module);
  return int64_t(model ? model.getGroup().value_or(1) : 1);
}

//===- Programs ------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                      StringRef role) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  if (!role.empty())
    state.addAttribute(getRoleAttrName(state.name), builder.getStringAttr(role));
  state.addRegion();
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  auto typeOf = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                   function_interface_impl::VariadicFlag,
                   std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), typeOf,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void ProgramOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult ReturnOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  if (getOperandTypes() == program.getResultTypes())
    return success();
  return emitOpError("gives ") << getOperandTypes() << ", program @" << program.getSymName()
                               << " has the results " << program.getResultTypes();
}

void IndexCheckOp::build(OpBuilder &builder, OperationState &state, StringRef kind, StringRef role,
                         int64_t bound) {
  build(builder, state, kind, role, bound, /*stages=*/{});
}

} // namespace nano::graph
