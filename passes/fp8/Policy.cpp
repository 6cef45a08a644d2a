// The policy attribute: reading, writing, and what its words mean.
#include "passes/fp8/Policy.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;

namespace nano::fp8 {

static constexpr StringLiteral recipeNames[] = {"off", "static", "current", "delayed", "block"};

StringRef nameOf(Operand operand) {
  static constexpr StringLiteral names[] = {"input", "weight", "gradient"};
  return names[static_cast<size_t>(operand)];
}

StringRef nameOf(Recipe recipe) { return recipeNames[static_cast<size_t>(recipe)]; }

std::optional<Recipe> parseRecipe(StringRef name) {
  const auto *found = llvm::find(recipeNames, name);
  if (found == std::end(recipeNames))
    return std::nullopt;
  return static_cast<Recipe>(found - std::begin(recipeNames));
}

FailureOr<Policy> Policy::of(graph::StateOp parameter) {
  Policy policy;
  const DictionaryAttr attribute = parameter.getFp8Attr();
  if (!attribute)
    return policy;
  auto name = attribute.getAs<StringAttr>("recipe");
  std::optional<Recipe> recipe = name ? parseRecipe(name) : std::nullopt;
  if (!recipe)
    return parameter.emitOpError("fp8")
           << " must name a recipe: one of off, static, current, delayed, block";
  policy.recipe = *recipe;
  if (auto backward = attribute.getAs<BoolAttr>("backward"))
    policy.backward = backward.getValue();
  if (auto given = attribute.getAs<BoolAttr>("given"))
    policy.given = given.getValue();
  if (auto history = attribute.getAs<IntegerAttr>("history"))
    policy.history = history.getInt();
  if (auto margin = attribute.getAs<FloatAttr>("margin"))
    policy.margin = margin.getValueAsDouble();
  if (policy.history < 1 || !(std::abs(policy.margin) <= 64))
    return parameter.emitOpError("fp8")
           << ": a history of " << policy.history << " steps, a margin of " << policy.margin
           << "; at least 1, and at most 64 either way";
  if (policy.recipe != Recipe::Static)
    return policy;
  auto scales = attribute.getAs<DenseF64ArrayAttr>("scales");
  if (!scales || scales.size() != 3 ||
      llvm::any_of(scales.asArrayRef(), [](double s) { return !(s >= 0) || !std::isfinite(s); }))
    return parameter.emitOpError("fp8") << ": static scaling needs three positive scales, "
                                           "of input, weight and gradient, or 0 for "
                                           "what is not converted";
  llvm::copy(scales.asArrayRef(), policy.scales.begin());
  return policy;
}

DictionaryAttr Policy::attribute(Builder &builder) const {
  SmallVector<NamedAttribute> entries{
      builder.getNamedAttr("recipe", builder.getStringAttr(nameOf(recipe)))};
  if (recipe == Recipe::Static)
    entries.push_back(builder.getNamedAttr("scales", builder.getDenseF64ArrayAttr(scales)));
  if (recipe == Recipe::Delayed)
    entries.push_back(builder.getNamedAttr("history", builder.getI64IntegerAttr(history)));
  if (recipe != Recipe::Static && recipe != Recipe::Off)
    entries.push_back(builder.getNamedAttr("margin", builder.getF64FloatAttr(margin)));
  if (!backward)
    entries.push_back(builder.getNamedAttr("backward", builder.getBoolAttr(false)));
  if (given)
    entries.push_back(builder.getNamedAttr("given", builder.getBoolAttr(true)));
  return builder.getDictionaryAttr(entries);
}

FloatType formatOf(Operand operand, Recipe recipe, MLIRContext *context) {
  if (operand == Operand::Gradient && recipe != Recipe::Block)
    return Float8E5M2Type::get(context);
  return Float8E4M3FNType::get(context);
}

double largestOf(Type format) {
  return llvm::APFloat::getLargest(cast<FloatType>(format).getFloatSemantics()).convertToDouble();
}

} // namespace nano::fp8
