// Stages of a run in the module's `nano.model`.
#include "ir/graph/RunStages.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace nano::graph {

static constexpr llvm::StringLiteral fp8ProductsName = "fp8_products";

SmallVector<RunStage> runStagesOf(ModuleOp module) {
  SmallVector<RunStage> stages;
  ModelOp model = modelOf(module);
  if (!model)
    return {RunStage()};
  const ArrayAttr list = model.getRunStagesAttr();
  if (!list || model.getRunStage())
    return {{"", 0, model.getTrainingAttr(), model.getFp8ProductsAttr()}};
  for (auto entry : list.getAsRange<DictionaryAttr>())
    stages.push_back(
        {entry.getAs<StringAttr>("name").str(), entry.getAs<IntegerAttr>("until").getInt(),
         entry.getAs<DictionaryAttr>("training"), entry.getAs<ArrayAttr>(fp8ProductsName)});
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
      entry.push_back(builder.getNamedAttr(fp8ProductsName, stage.fp8Products));
    entries.push_back(builder.getDictionaryAttr(entry));
  }
  modelOrNew(module).setRunStagesAttr(builder.getArrayAttr(entries));
}

std::string nameInStages(StagedOpInterface op, ArrayRef<RunStage> stages) {
  StringRef name = SymbolTable::getSymbolName(op);
  if (const DenseI64ArrayAttr in = op.getStagesAttr())
    name.consume_back("." + stages[size_t(in.asArrayRef().front())].name);
  return name.str();
}

void setStages(StagedOpInterface op, ArrayRef<int64_t> stages) {
  op.setStagesAttr(DenseI64ArrayAttr::get(op->getContext(), stages));
}

} // namespace nano::graph
