// The mapping to other programs' checkpoints: functions of FrontendInterchange.h, and what closes
// it.
#include "compiler/Recorder.h"

#include "codegen/PlanInterchange.h"
#include "runtime/plan/Plan.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace nano::frontend {

static_assert(int(ConfigRule::Equal) == int(plan::ConfigField::Check::Equal) &&
              int(ConfigRule::AtLeast) == int(plan::ConfigField::Check::AtLeast) &&
              int(ConfigRule::Nothing) == int(plan::ConfigField::Check::None));

//===- Frontend functions ------------------------------------------------------===//

namespace {
plan::ForeignPart partOf(const At &parameter, const Name &tensor, Layout layout, const char *what) {
  if (*tensor.text == '\0')
    fail(parameter.at, fmt::format("{}: the tensor's name is empty", what));
  return {tensor.text, layout == Transposed, 0, 0};
}
} // namespace

void imported(const At &parameter, const Name &tensor, Layout layout) {
  Recorder::current().imported(parameter, {partOf(parameter, tensor, layout, "imported")},
                               "imported");
}

void importedTransposed(const At &parameter) {
  Recorder::current().imported(parameter, {{"", true, 0, 0}}, "importedTransposed");
}

void importedSlice(const At &parameter, const Name &tensor, int64_t first, Layout layout) {
  plan::ForeignPart part = partOf(parameter, tensor, layout, "importedSlice");
  part.first = first;
  Recorder::current().imported(parameter, {std::move(part)}, "importedSlice");
}

void importedConcat(const At &parameter, std::initializer_list<ForeignRows> parts) {
  std::vector<plan::ForeignPart> list;
  for (const ForeignRows &part : parts) {
    if (part.rows < 1)
      fail(parameter.at,
           fmt::format("importedConcat: '{}' is to have {} rows", part.tensor.text, part.rows));
    list.push_back(partOf(parameter, part.tensor, part.layout, "importedConcat"));
    list.back().rows = part.rows;
  }
  if (list.empty())
    fail(parameter.at, "importedConcat: names no tensor");
  Recorder::current().imported(parameter, std::move(list), "importedConcat");
}

void notImported(const At &parameter) {
  Recorder::current().imported(parameter, {}, "notImported");
}

void unusedInCheckpoints(const Name &tensors, Line at) {
  Recorder::current().unusedInCheckpoints(tensors.text, at);
}

void importPrefix(const char *prefix, Line at) { Recorder::current().importPrefix(prefix, at); }

void config(const char *name, const ConfigValue &value, const ConfigRule &rule, Line at) {
  Recorder::current().config(name, value, rule, at);
}

//===- Recording ---------------------------------------------------------------===//

void Recorder::imported(const At &parameter, std::vector<plan::ForeignPart> parts,
                        const char *what) {
  const Tensor &tensor = parameter.tensor;
  if (tensor.program != model || tensor.id >= declared.size() ||
      llvm::none_of(parameters, [&](const ParameterRecord &record) {
        return record.name == declared[tensor.id].symbol;
      }))
    fail(parameter.at, fmt::format("{}: takes a parameter", what));
  const Declared &target = declared[tensor.id];
  for (plan::ForeignPart &part : parts) {
    if (part.tensor.empty())
      part.tensor = target.symbol;
    if (part.rows == 0)
      part.rows = target.type.getRank() == 0 ? 1 : target.type.getDimSize(0);
  }
  auto [entry, isNew] = importedAt.try_emplace(target.symbol, parameter.at);
  if (!isNew)
    fail(parameter.at, fmt::format("{}: where '{}' lies in checkpoints is said in line {} already",
                                   what, target.symbol, entry->second.line));
  interchange.parameters.push_back({target.symbol, std::move(parts)});
}

void Recorder::unusedInCheckpoints(const char *tensors, Line at) {
  if (*tensors == '\0')
    fail(at, "unusedInCheckpoints: the name is empty");
  interchange.unused.emplace_back(tensors);
}

void Recorder::importPrefix(const char *prefix, Line at) {
  if (*prefix == '\0' || !interchange.prefix.empty())
    fail(at, fmt::format("importPrefix: '{}': give one, once", prefix));
  interchange.prefix = prefix;
}

namespace {

/// The value as JSON; empty for none.
std::string json(const ConfigValue &value, const char *name, Line at) {
  auto quoted = [&] {
    const std::string text = value.text;
    // Words of settings; what JSON would have to escape is a mistake.
    if (llvm::any_of(text, [](unsigned char c) { return c < 0x20 || c == '"' || c == '\\'; }))
      fail(at, fmt::format("config: '{}': the text '{}' has quotes, backslashes or control "
                           "characters",
                           name, text));
    return '"' + text + '"';
  };
  switch (value.kind) {
  case ConfigValue::None:
    return "";
  case ConfigValue::Integer:
    return std::to_string(value.integer);
  case ConfigValue::Boolean:
    return value.integer != 0 ? "true" : "false";
  case ConfigValue::Real: {
    if (!std::isfinite(value.real))
      fail(at, fmt::format("config: '{}' is not finite", name));
    // Shortest text of the same number, and a fraction, as PyTorch's users expect of a float.
    std::string text = fmt::format("{}", value.real);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  case ConfigValue::Text:
    return quoted();
  case ConfigValue::List:
    return '[' + quoted() + ']';
  }
  return "";
}

} // namespace

void Recorder::config(const char *name, const ConfigValue &value, const ConfigRule &rule, Line at) {
  plan::ConfigField field;
  field.names.emplace_back(name);
  for (const char *other : rule.also)
    if (other)
      field.names.emplace_back(other);
  for (const std::string &each : field.names) {
    if (each.empty() || each.front() == '.' || each.back() == '.' ||
        each.find("..") != std::string::npos)
      fail(at, fmt::format("config: '{}' is no name of a setting", each));
    for (const plan::ConfigField &other : interchange.config)
      for (const std::string &taken : other.names)
        if (taken == each || StringRef(taken).starts_with(each + '.') ||
            StringRef(each).starts_with(taken + '.'))
          fail(at, fmt::format("config: '{}' is stated twice, as '{}'", each, taken));
  }
  field.value = json(value, name, at);
  if (field.value.empty())
    fail(at, fmt::format("config: '{}' has no value", name));
  field.check = plan::ConfigField::Check(rule.check);
  if (rule.check == ConfigRule::AtLeast && value.kind != ConfigValue::Integer &&
      value.kind != ConfigValue::Real)
    fail(at,
         fmt::format("config: '{}' is no number, which a folder's could be compared with", name));
  if (const std::string other = json(rule.orElse, name, at); !other.empty())
    field.accepted.push_back(other);
  field.absent = json(rule.absent, name, at);
  if (rule.hyper) {
    field.hyperparameter = rule.hyper;
    if (llvm::none_of(hyperparameters, [&](const HyperparameterRecord &record) {
          return record.name == rule.hyper;
        }))
      fail(at, fmt::format("config: '{}': there is no hyperparameter '{}'", name, rule.hyper));
  }
  field.isWritten = rule.written;
  interchange.config.push_back(std::move(field));
}

void Recorder::finishInterchange() {
  if (interchange == plan::Interchange())
    return;
  std::vector<plan::StoredParameter> stored;
  for (auto state : module->getOps<graph::StateOp>()) {
    if (state.getRole() != graph::Role::Parameter)
      continue;
    const RankedTensorType type = state.getTensorType();
    stored.push_back({state.getSymName().str(), type.getShape().vec(),
                      type.getElementType().isF32() ? plan::DType::F32 : plan::DType::BF16});
  }
  Result<std::vector<plan::ForeignTensor>> tensors = plan::foreignTensors(interchange, stored);
  if (!tensors)
    throw ModelError(fmt::format("{}: {}", input.file, tensors.error().message));
  writeInterchange(*module, interchange);
}

} // namespace nano::frontend
