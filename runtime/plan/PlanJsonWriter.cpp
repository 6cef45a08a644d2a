// Writes the texts of a plan file as JSON, compactly: ten thousand commands must parse in
// milliseconds.
#include "runtime/plan/Expr.h"
#include "runtime/plan/InterchangeJson.h"
#include "runtime/plan/PlanJson.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace nano::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// JSON has no infinities and no NaN: those are strings.
Json number(double value) {
  if (std::isfinite(value))
    return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// A value is JSON of its own, or appends itself to a list.
class Writer {
public:
  std::string common(std::span<const Plan> variants);
  std::string variant(const Plan &plan);
  /// These fields of an object.
  template <typename S, typename... Fields>
  Json object(const S &from, const std::tuple<Fields...> &fields) {
    Json json = Json::object();
    write(json, from, fields);
    return json;
  }

private:
  template <typename T> Json json(const T &value) {
    if constexpr (std::is_enum_v<T>) {
      return nameOf(value);
    } else if constexpr (HasFields<T>) {
      Json object = Json::object();
      write(object, value, fieldsOf<T>);
      return object;
    } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      Json list = Json::array();
      append(list, value);
      return list;
    }
  }
  template <typename T> Json json(const std::vector<T> &values) {
    Json list = Json::array();
    for (const T &value : values)
      list.push_back(json(value));
    return list;
  }
  template <typename T> Json json(const std::optional<T> &value) { return json(*value); }
  Json json(double value) { return number(value); }
  Json json(const Expr &expr);
  Json json(const Init &init);
  Json json(const Interchange &interchange) { return toJson(interchange); }

  /// What fills part of a list.
  template <typename T> void append(Json &list, const T &value) {
    if constexpr (HasRow<T>)
      forEach(rowOf<T>, [&](auto member) { append(list, value.*member); });
    else
      list.push_back(json(value));
  }
  void append(Json &list, const Ref &ref) {
    list.push_back(ref.buffer);
    list.push_back(ref.offset);
    list.push_back(unsigned(ref.read) + 2 * unsigned(ref.written));
    list.push_back(ref.bytes);
  }
  /// Files are named once.
  void append(Json &list, const Location &location) {
    auto [entry, isNew] = fileIndex.emplace(location.file, fileIndex.size());
    if (isNew)
      files.push_back(location.file);
    list.push_back(entry->second);
    list.push_back(location.line);
  }
  template <typename T> void append(Json &list, const std::vector<T> &values) {
    for (const T &value : values)
      append(list, value);
  }
  template <typename T, size_t N> void append(Json &list, const std::array<T, N> &values) {
    for (const T &value : values)
      append(list, value);
  }

  /// All members are as in an S that nobody has touched.
  template <typename S, typename Owner, typename... T>
  static bool isDefault(const S &object, const Field<Owner, T...> &field) {
    const S fresh = {};
    return std::apply([&](auto... member) { return ((object.*member == fresh.*member) && ...); },
                      field.members);
  }

  template <typename S, typename... Fields>
  void write(Json &to, const S &object, const std::tuple<Fields...> &fields) {
    forEach(fields, [&](const auto &field) { write(to, object, field); });
  }
  template <typename S, typename Owner, typename... T>
  Json valueOf(const S &object, const Field<Owner, T...> &field) {
    if (!field.isList)
      return json(object.*std::get<0>(field.members));
    Json list = Json::array();
    forEach(field.members, [&](auto member) { append(list, object.*member); });
    return list;
  }
  template <typename S, typename Owner, typename... T>
  void write(Json &to, const S &object, const Field<Owner, T...> &field) {
    if (!field.isOptional || !isDefault(object, field))
      to[field.key] = valueOf(object, field);
  }
  template <typename S, typename... Fields>
  void write(Json &to, const S &object, const Together<Fields...> &together) {
    if (!isDefault(object, std::get<0>(together.fields)))
      write(to, object, together.fields);
  }
  template <typename S, typename T>
  void write(Json &to, const S &object, const Where<S, T> &where) {
    if (where.condition(object))
      write(to, object, where.field);
  }
  template <typename S, typename T>
  void write(Json &to, const S &object, const Inline<S, T> &part) {
    if (const std::optional<T> &value = object.*part.member)
      write(to, *value, fieldsOf<T>);
  }
  template <typename S, typename Owner, typename T>
  void write(Json &to, const S &object, const Counted<Owner, T> &counted) {
    Json refs = Json::array(), counts = Json::array();
    for (const T &item : object.*counted.items) {
      append(refs, item);
      counts.push_back(item.count);
    }
    to[counted.refs] = std::move(refs);
    to[counted.counts] = std::move(counts);
  }
  template <typename S, typename... T>
  void write(Json &to, const S &object, const OneOf<S, T...> &oneOf) {
    std::visit([&]<typename Each>(const Each &each) { write(to, each, fieldsOf<Each>); },
               object.*oneOf.member);
  }

  void key(const char *name) {
    out += out.empty() ? "{\n\"" : ",\n\"";
    out += name;
    out += "\":";
  }
  void value(const char *name, const Json &json) {
    key(name);
    out += text(json);
  }
  /// Fields of the plan, each on a line; of a list of structs each item.
  template <typename... Fields> void lines(const Plan &plan, const std::tuple<Fields...> &fields) {
    forEach(fields, [&]<typename T>(const Field<Plan, T> &field) {
      if (field.isOptional && isDefault(plan, field))
        return;
      key(field.key);
      out += lines(plan.*std::get<0>(field.members));
    });
  }
  template <typename T> std::string lines(const T &value) { return text(json(value)); }
  template <HasFields T> std::string lines(const std::vector<T> &items) {
    std::string list = "[";
    const char *separator = "\n ";
    for (const T &item : items) {
      list += separator + text(json(item));
      separator = ",\n ";
    }
    return list + ']';
  }
  std::string lines(const std::vector<Program> &programs);
  std::string end();

  std::string out;
  std::unordered_map<std::string, size_t> fileIndex;
  Json files = Json::array();
};

Json Writer::json(const Expr &expr) {
  if (expr.kind == Expr::Kind::Constant)
    return number(expr.constant);
  if (expr.kind == Expr::Kind::Variable)
    return expr.variable;
  Json list = Json::array({nameOf(expr.kind)});
  for (const Expr &operand : expr.operands)
    list.push_back(json(operand));
  return list;
}

Json Writer::json(const Init &init) {
  switch (init.kind) {
  case Init::Kind::Constant:
    return {{"constant", json(init.values)}};
  case Init::Kind::Normal:
    return {{"normal", {number(init.mean), number(init.stddev)}}};
  case Init::Kind::Uniform:
    return {{"uniform", {number(init.low), number(init.high)}}};
  case Init::Kind::Sign:
    return {{"sign", json(init.values)}};
  case Init::Kind::Data:
    return {{"data", init.offset}};
  case Init::Kind::Copy:
    return {{"copy", init.source}};
  case Init::Kind::Transpose:
    return {{"transpose", init.source}};
  case Init::Kind::Blocks: {
    Json list = Json::array();
    for (size_t i = 0; i < init.parts.size(); ++i)
      list.push_back({init.counts[i], json(init.parts[i])});
    return {{"blocks", std::move(list)}};
  }
  }
  return {};
}

/// A program's commands stand on lines of their own.
std::string Writer::lines(const std::vector<Program> &programs) {
  std::string list = "[";
  for (const Program &program : programs)
    list += (list.size() > 1 ? ",\n" : "\n") + ("{\"name\":" + text(program.name)) +
            ",\"streams\":" + std::to_string(program.streams) +
            ",\"events\":" + std::to_string(program.events) +
            ",\"commands\":" + lines(program.commands) + '}';
  return list + ']';
}

std::string Writer::common(std::span<const Plan> variants) {
  const Plan &plan = variants.front();
  lines(plan, Plan::firstCommonFields());
  Json worlds = Json::array();
  for (const Plan &variant : variants)
    worlds.push_back(variant.worlds);
  value("variants", worlds);
  lines(plan, Plan::commonFields());
  return end();
}

std::string Writer::variant(const Plan &plan) {
  lines(plan, Plan::variantFields());
  return end();
}

std::string Writer::end() {
  value("files", files);
  out += "\n}\n";
  return std::move(out);
}

template <typename S, typename Fields>
std::string others(const S &object, const Fields &fields,
                   std::initializer_list<std::string_view> said) {
  const Json all = Writer().object(object, fields), fresh = Writer().object(S(), fields);
  std::string list;
  for (const auto &[key, value] : all.items())
    if (std::find(said.begin(), said.end(), key) == said.end() &&
        !(fresh.contains(key) && fresh[key] == value))
      list += ", " + key + " " + text(value);
  return list;
}

} // namespace

template <typename S>
std::string otherFields(const S &object, std::initializer_list<std::string_view> said) {
  return others(object, fieldsOf<S>, said);
}
template std::string otherFields(const Source &, std::initializer_list<std::string_view>);
template std::string otherFields(const Hyperparameter &, std::initializer_list<std::string_view>);
template std::string otherFields(const UnprovenKernel &, std::initializer_list<std::string_view>);
template std::string otherFields(const Buffer &, std::initializer_list<std::string_view>);
template std::string otherFields(const State &, std::initializer_list<std::string_view>);
template std::string otherFields(const Scalar &, std::initializer_list<std::string_view>);
template std::string otherFields(const Kernel &, std::initializer_list<std::string_view>);
template std::string otherFields(const Command &, std::initializer_list<std::string_view>);
template std::string otherFields(const Program &, std::initializer_list<std::string_view>);
template std::string otherFields(const Column &, std::initializer_list<std::string_view>);
template std::string otherFields(const Documents &, std::initializer_list<std::string_view>);
template std::string otherFields(const Event &, std::initializer_list<std::string_view>);
template std::string otherFields(const Report &, std::initializer_list<std::string_view>);
template std::string otherFields(const ScaledWeight &, std::initializer_list<std::string_view>);
template std::string otherFields(const StepPrograms &, std::initializer_list<std::string_view>);
template std::string otherFields(const Training &, std::initializer_list<std::string_view>);

std::string otherFieldsOfAll(const Plan &plan, std::initializer_list<std::string_view> said) {
  return others(plan, Plan::commonFields(), said);
}
std::string otherFieldsOfVariant(const Plan &plan, std::initializer_list<std::string_view> said) {
  return others(plan, Plan::variantFields(), said);
}

std::string commonText(std::span<const Plan> variants) { return Writer().common(variants); }

std::string variantText(const Plan &plan) { return Writer().variant(plan); }

} // namespace nano::plan
