// Stages of a run as attributes of modules.
#include "ir/graph/RunStages.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace nano::graph {

static constexpr llvm::StringLiteral fp8ProductsAttrName = "nano.fp8_products";

SmallVector<RunStage> runStagesOf(ModuleOp module) {
  SmallVector<RunStage> stages;
  auto list = module->getAttrOfType<ArrayAttr>(runStagesAttrName);
  if (!list || module->hasAttr(runStageAttrName))
    return {{"", 0, module->getAttrOfType<DictionaryAttr>(trainingAttrName),
             module->getAttrOfType<ArrayAttr>(fp8ProductsAttrName)}};
  for (auto entry : list.getAsRange<DictionaryAttr>())
    stages.push_back(
        {entry.getAs<StringAttr>("name").str(), entry.getAs<IntegerAttr>("until").getInt(),
         entry.getAs<DictionaryAttr>("training"), entry.getAs<ArrayAttr>(fp8ProductsAttrName)});
  return stages;
}

void setRunStages(ModuleOp module, ArrayRef<RunStage> stages) {
  Builder builder(module.getContext());
  SmallVector<Attribute> entries;
  for (const RunStage &stage : stages) {
    SmallVector<NamedAttribute> entry = {
        builder.getNamedAttr("name", builder.getStringAttr(stage.name)),
        builder.getNamedAttr("until", builder.getI64IntegerAttr(stage.until)),
        builder.getNamedAttr("training", stage.training)};
    if (stage.fp8Products)
      entry.push_back(builder.getNamedAttr(fp8ProductsAttrName, stage.fp8Products));
    entries.push_back(builder.getDictionaryAttr(entry));
  }
  module->setAttr(runStagesAttrName, builder.getArrayAttr(entries));
}

std::string nameInStages(Operation *op, ArrayRef<RunStage> stages) {
  StringRef name = SymbolTable::getSymbolName(op);
  if (auto in = op->getAttrOfType<DenseI64ArrayAttr>(inStagesAttrName))
    name.consume_back("." + stages[size_t(in.asArrayRef().front())].name);
  return name.str();
}

void setStages(Operation *op, ArrayRef<int64_t> stages) {
  op->setAttr(inStagesAttrName, DenseI64ArrayAttr::get(op->getContext(), stages));
}

} // namespace nano::graph
