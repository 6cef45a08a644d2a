// The mapping to other programs' checkpoints, to an attribute and back.
#include "codegen/PlanInterchange.h"

#include "ir/graph/Program.h"

#include "mlir/IR/Builders.h"

#include <iterator>
#include <utility>

using namespace mlir;

namespace nano {

namespace {

using plan::ConfigField;
using plan::ForeignParameter;
using plan::ForeignPart;
using plan::Interchange;

constexpr llvm::StringLiteral checkNames[] = {"equal", "atLeast", "none"};

class Writer {
public:
  explicit Writer(MLIRContext *context) : builder(context) {}

  DictionaryAttr write(const Interchange &interchange) {
    return builder.getDictionaryAttr({
        named("prefix", text(interchange.prefix)),
        named("unused", texts(interchange.unused)),
        named("parameters", list(interchange.parameters)),
        named("config", list(interchange.config)),
    });
  }

private:
  NamedAttribute named(StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  Attribute text(const std::string &value) { return builder.getStringAttr(value); }
  Attribute texts(const std::vector<std::string> &values) {
    SmallVector<Attribute> list;
    for (const std::string &value : values)
      list.push_back(text(value));
    return builder.getArrayAttr(list);
  }
  template <typename T> Attribute list(const std::vector<T> &items) {
    SmallVector<Attribute> list;
    for (const T &item : items)
      list.push_back(attribute(item));
    return builder.getArrayAttr(list);
  }
  Attribute attribute(const ForeignPart &part) {
    SmallVector<NamedAttribute> fields = {named("tensor", text(part.tensor)),
                                          named("first", builder.getI64IntegerAttr(part.first)),
                                          named("rows", builder.getI64IntegerAttr(part.rows))};
    if (part.transposed)
      fields.push_back(named("transposed", builder.getUnitAttr()));
    return builder.getDictionaryAttr(fields);
  }
  Attribute attribute(const ForeignParameter &parameter) {
    return builder.getDictionaryAttr(
        {named("name", text(parameter.name)), named("parts", list(parameter.parts))});
  }
  Attribute attribute(const ConfigField &field) {
    SmallVector<NamedAttribute> fields = {named("names", texts(field.names)),
                                          named("value", text(field.value)),
                                          named("check", text(checkNames[int(field.check)].str())),
                                          named("written", builder.getBoolAttr(field.isWritten))};
    if (!field.accepted.empty())
      fields.push_back(named("accepted", texts(field.accepted)));
    if (!field.absent.empty())
      fields.push_back(named("absent", text(field.absent)));
    if (!field.hyperparameter.empty())
      fields.push_back(named("hyperparameter", text(field.hyperparameter)));
    return builder.getDictionaryAttr(fields);
  }

  Builder builder;
};

/// Reads what Writer wrote; `isRight` is false once something had another form.
class Reader {
public:
  explicit Reader(MLIRContext *context) : context(context) {}
  bool isRight = true;

  Interchange read(Attribute attribute) {
    DictionaryAttr fields = dictionary(attribute);
    Interchange interchange;
    interchange.prefix = text(fields.get("prefix"));
    interchange.unused = texts(fields.get("unused"));
    for (Attribute each : list(fields.get("parameters"))) {
      DictionaryAttr item = dictionary(each);
      ForeignParameter parameter;
      parameter.name = text(item.get("name"));
      for (Attribute part : list(item.get("parts")))
        parameter.parts.push_back(readPart(dictionary(part)));
      interchange.parameters.push_back(std::move(parameter));
    }
    for (Attribute each : list(fields.get("config")))
      interchange.config.push_back(readField(dictionary(each)));
    return interchange;
  }

private:
  template <typename T> T as(Attribute attribute) {
    T typed = dyn_cast_or_null<T>(attribute);
    isRight = isRight && typed;
    return typed;
  }
  DictionaryAttr dictionary(Attribute attribute) {
    auto typed = as<DictionaryAttr>(attribute);
    return typed ? typed : DictionaryAttr::get(context);
  }
  ArrayRef<Attribute> list(Attribute attribute) {
    auto typed = as<ArrayAttr>(attribute);
    return typed ? typed.getValue() : ArrayRef<Attribute>();
  }
  std::string text(Attribute attribute) {
    auto typed = as<StringAttr>(attribute);
    return typed ? typed.str() : std::string();
  }
  std::vector<std::string> texts(Attribute attribute) {
    std::vector<std::string> values;
    for (Attribute each : list(attribute))
      values.push_back(text(each));
    return values;
  }
  int64_t integer(Attribute attribute) {
    auto typed = as<IntegerAttr>(attribute);
    return typed ? typed.getInt() : 0;
  }
  ForeignPart readPart(DictionaryAttr fields) {
    return {text(fields.get("tensor")), fields.contains("transposed"), integer(fields.get("first")),
            integer(fields.get("rows"))};
  }
  ConfigField readField(DictionaryAttr fields) {
    ConfigField field;
    field.names = texts(fields.get("names"));
    field.value = text(fields.get("value"));
    const auto *check = llvm::find(checkNames, text(fields.get("check")));
    isRight = isRight && check != std::end(checkNames);
    field.check = ConfigField::Check(check - std::begin(checkNames));
    auto written = as<BoolAttr>(fields.get("written"));
    field.isWritten = written && written.getValue();
    if (Attribute accepted = fields.get("accepted"))
      field.accepted = texts(accepted);
    if (Attribute absent = fields.get("absent"))
      field.absent = text(absent);
    if (Attribute name = fields.get("hyperparameter"))
      field.hyperparameter = text(name);
    return field;
  }

  MLIRContext *context;
};

} // namespace

void writeInterchange(ModuleOp module, const Interchange &interchange) {
  if (interchange != Interchange())
    graph::modelOrNew(module).setInterchangeAttr(Writer(module.getContext()).write(interchange));
}

FailureOr<Interchange> readInterchange(ModuleOp module) {
  graph::ModelOp model = graph::modelOf(module);
  const DictionaryAttr attribute = model ? model.getInterchangeAttr() : DictionaryAttr();
  if (!attribute)
    return Interchange();
  Reader reader(module.getContext());
  Interchange interchange = reader.read(attribute);
  if (!reader.isRight)
    return model.emitOpError(
        "interchange is not what the front end writes: {prefix, unused, parameters, config}");
  return interchange;
}

} // namespace nano
