// What a model file and the command line say about FP8, written to the parameters.
#include "compiler/Recorder.h"
#include "ir/graph/Program.h"
#include "passes/fp8/Products.h"

#include "llvm/ADT/SetVector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

using namespace mlir;

namespace nano::frontend {

// The front end's recipes are cast to the passes'.
static_assert(int(Fp8::Off) == int(fp8::Recipe::Off) &&
              int(Fp8::Static) == int(fp8::Recipe::Static) &&
              int(Fp8::Current) == int(fp8::Recipe::Current) &&
              int(Fp8::Delayed) == int(fp8::Recipe::Delayed) &&
              int(Fp8::Block) == int(fp8::Recipe::Block));

void Recorder::fp8Products(const At &weight, const Fp8 &how) {
  const Tensor &tensor = weight.tensor;
  if (tensor.program != model || tensor.id >= declared.size() ||
      llvm::none_of(parameters, [&](const ParameterRecord &record) {
        return record.name == declared[tensor.id].symbol;
      }))
    fail(weight.at, "fp8Products: takes a parameter");
  const std::string &name = declared[tensor.id].symbol;
  const double scales[] = {how.input, how.weight, how.gradient};
  if (how.recipe == Fp8::Static && llvm::any_of(scales, [](double scale) {
        return scale != 0 && !(scale >= 0x1p-100 && scale <= 0x1p100);
      }))
    fail(weight.at, fmt::format("fp8Products: '{}': the scales {} must be positive", name,
                                fmt::join(scales, ", ")));
  if (how.history < 1 || how.history > 4096)
    fail(weight.at, fmt::format("fp8Products: '{}': a history of {} steps; it can be 1 to 4096",
                                name, how.history));
  if (!(std::abs(how.margin) <= 64))
    fail(weight.at,
         fmt::format("fp8Products: '{}': a margin of {}; it can be -64 to 64", name, how.margin));
  if (!fp8Records.try_emplace(name, Fp8Record{how, weight.at}).second)
    fail(weight.at, fmt::format("fp8Products: '{}' has been given before", name));
}

Fp8 Recorder::fp8Hyper(Line at) {
  constexpr Fp8::Recipe recipes[] = {Fp8::Delayed, Fp8::Current, Fp8::Block};
  Fp8 how;
  how.recipe = recipes[hyper("fp8_recipe", {"delayed", "current", "block"},
                             "where FP8 scales come from that the model does not give", at)];
  how.history = hyper("fp8_history", how.history, "steps that delayed FP8 scales look back", 1, at);
  how.margin = hyper("fp8_margin", how.margin, "powers of two that FP8 scales leave unused", at);
  return how;
}

void Recorder::finishFp8() {
  // The weights whose products can be chosen.
  const bool train = outside.train.tokens != 0 || !stages.empty();
  llvm::SetVector<StringRef> weights;
  for (auto function : module->getOps<graph::ProgramOp>())
    if (function.hasRole("train"))
      for (const fp8::Product &product : fp8::findProducts(function))
        weights.insert(graph::StateOp(product.weight).getSymName());
  for (const auto &entry : fp8Records)
    if (train && !weights.contains(entry.first()))
      fail(entry.second.at,
           fmt::format("fp8Products: no matrix product of the training program has '{}' as its "
                       "second operand, whole",
                       entry.first().str()));

  llvm::StringMap<std::string> given; // the options that chose a recipe
  for (auto [i, option] : llvm::enumerate(input.overrides)) {
    StringRef name = option.first;
    if (overrideUsed[i] || !name.consume_front("fp8."))
      continue;
    overrideUsed[i] = true;
    const std::string text = fmt::format("-D {}={}", option.first, option.second);
    if (!weights.contains(name))
      throw ModelError(fmt::format(
          "{}: {} has no matrix product with a parameter '{}'; it has {}", text, input.name,
          name.str(),
          fmt::join(llvm::map_range(weights, [](StringRef weight) { return weight.str(); }),
                    ", ")));
    const std::optional<fp8::Recipe> recipe = fp8::parseRecipe(option.second);
    if (!recipe)
      throw ModelError(
          fmt::format("{}: can be off, static, current, delayed, block (how the products with "
                      "this parameter are scaled for FP8)",
                      text));
    Fp8 &how = fp8Records[name].how;
    HyperparameterRecord &record = hyperparameters.emplace_back();
    record.name = option.first;
    record.value = option.second;
    record.defaultValue = fp8::nameOf(static_cast<fp8::Recipe>(how.recipe)).str();
    record.about = "FP8 scaling of the products with this parameter";
    record.overridden = true;
    how.recipe = static_cast<Fp8::Recipe>(*recipe);
    given[name] = text;
  }

  const std::optional<ScalesFile> &file = input.scales;
  for (const auto &entry : file ? file->scales : decltype(file->scales)())
    if (!weights.contains(entry.first))
      throw ModelError(fmt::format("{}: '{}' is no parameter that {} has a matrix product with",
                                   file->path, entry.first, input.name));
  bool anyFromFile = false;
  for (StringRef weight : weights) {
    auto found = fp8Records.find(weight);
    if (found == fp8Records.end() || found->second.how.recipe == Fp8::Off)
      continue;
    const Fp8Record &record = found->second;
    const std::string name = weight.str(), option = given.lookup(weight);
    fp8::Policy policy;
    policy.recipe = static_cast<fp8::Recipe>(record.how.recipe);
    policy.scales = {record.how.input, record.how.weight, record.how.gradient};
    policy.history = record.how.history;
    policy.margin = record.how.margin;
    policy.backward = record.how.backward;
    policy.given = llvm::any_of(policy.scales, [](double scale) { return scale > 0; });
    if (file && (option.empty() || policy.recipe == fp8::Recipe::Static)) {
      auto scales = file->scales.find(name);
      if (scales == file->scales.end())
        throw ModelError(fmt::format(
            "{}: has no scales for '{}', whose products run in FP8; measure them with nanorun "
            "--calibrate, or choose -D fp8.{}=off or another recipe",
            file->path, name, name));
      policy.recipe = fp8::Recipe::Static;
      policy.scales = scales->second;
      anyFromFile = true;
    }
    if (policy.recipe == fp8::Recipe::Static &&
        llvm::none_of(policy.scales, [](double scale) { return scale > 0; })) {
      const std::string message = fmt::format(
          "no static scales are known for '{}'; give --fp8-scales FILE.json, which nanorun "
          "--calibrate writes",
          name);
      if (!option.empty())
        throw ModelError(fmt::format("{}: {}", option, message));
      fail(record.at, "fp8Products: " + message);
    }
    auto state = module->lookupSymbol<graph::StateOp>(weight);
    state.setFp8Attr(policy.attribute(builder));
  }
  if (file && !anyFromFile)
    throw ModelError(fmt::format("--fp8-scales {}: no product runs in FP8 with static scales; "
                                 "choose some, as with -D fp8.<parameter>=static",
                                 file->path));
}

} // namespace nano::frontend
