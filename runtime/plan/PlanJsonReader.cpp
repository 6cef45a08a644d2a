// Reads the texts of a plan file from JSON and checks every field's presence and type; an error
// carries the field's path.
#include "base/JsonDepth.h"
#include "runtime/plan/Expr.h"
#include "runtime/plan/InterchangeJson.h"
#include "runtime/plan/JsonNode.h"
#include "runtime/plan/JsonTree.h"
#include "runtime/plan/PlanJson.h"

#include <optional>

namespace nano::plan {
namespace {

/// Items of a list that a T takes.
template <typename T> constexpr size_t widthOf() {
  if constexpr (std::is_same_v<T, Ref>)
    return 4;
  else if constexpr (std::is_same_v<T, Location>)
    return 2;
  else if constexpr (HasRow<T>)
    return std::apply(
        [](auto... member) { return (widthOf<std::decay_t<decltype(T().*member)>>() + ...); },
        rowOf<T>);
  else
    return 1;
}

/// A value is a node of its own, or takes some items of a list.
class Reader {
public:
  void common(const JsonNode &root, Plan &plan, std::vector<std::vector<int64_t>> &variants);
  void variant(const JsonNode &root, Plan &plan);

private:
  template <typename T> void read(const JsonNode &node, T &value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = node.boolean();
    } else if constexpr (std::is_integral_v<T>) {
      value = node.integer<T>();
    } else if constexpr (std::is_enum_v<T>) {
      readName(node, value);
    } else if constexpr (HasFields<T>) {
      JsonObject object(node);
      readFields(node, object, value, fieldsOf<T>);
      object.close();
    } else {
      size_t at = 0;
      take(node, at, value);
      node.expectSize(at);
    }
  }
  template <typename T> void read(const JsonNode &node, std::vector<T> &items) {
    items.resize(node.size());
    for (size_t i = 0; i < items.size(); ++i)
      read(node[i], items[i]);
  }
  template <typename T> void read(const JsonNode &node, std::optional<T> &value) {
    read(node, value.emplace());
  }
  void read(const JsonNode &node, double &value) { value = node.number(); }
  void read(const JsonNode &node, std::string &value) { value = node.string(); }
  void read(const JsonNode &node, Expr &expr) { expression(node, expr, 0); }
  void read(const JsonNode &node, Init &init) { initial(node, init, /*isPart=*/false); }
  void read(const JsonNode &node, Interchange &value) { value = readInterchange(node); }
  template <typename E> static void readName(const JsonNode &node, E &value) {
    const std::string name = node.string();
    for (int each = 0; each <= int(namesOf<E>.last); ++each)
      if (name == nameOf(E(each))) {
        value = E(each);
        return;
      }
    node.fail(std::string("unknown ") + namesOf<E>.what + " '" + name + "'");
  }

  /// What is part of a list, from item `at` on, which becomes the next one.
  template <typename T> void take(const JsonNode &node, size_t &at, T &value) {
    if constexpr (HasRow<T>)
      forEach(rowOf<T>, [&](auto member) { take(node, at, value.*member); });
    else
      read(node[at++], value);
  }
  static void take(const JsonNode &node, size_t &at, Ref &ref) {
    JsonNode access = node[at + 2];
    unsigned bits = access.integer<uint32_t>();
    if (bits > 3)
      access.fail("expected 0 to 3: 1 for read plus 2 for written");
    ref = {node[at].integer<uint32_t>(), node[at + 1].integer<uint64_t>(), (bits & 2) != 0,
           (bits & 1) != 0, node[at + 3].integer<uint64_t>()};
    at += 4;
  }
  void take(const JsonNode &node, size_t &at, Location &location) {
    JsonNode file = node[at];
    size_t index = file.integer<uint32_t>();
    if (index >= files.size())
      file.fail("there are only " + std::to_string(files.size()) + " files");
    location = {files[index], node[at + 1].integer<uint32_t>()};
    at += 2;
  }
  template <typename T> void take(const JsonNode &node, size_t &at, std::vector<T> &values) {
    constexpr size_t width = widthOf<T>();
    if ((node.size() - at) % width)
      node.fail("expected " + std::to_string(at) + " items and then groups of " +
                std::to_string(width));
    values.resize((node.size() - at) / width);
    for (T &value : values)
      take(node, at, value);
  }
  template <typename T, size_t N>
  void take(const JsonNode &node, size_t &at, std::array<T, N> &values) {
    for (T &value : values)
      take(node, at, value);
  }

  template <typename S, typename... Fields>
  void readFields(const JsonNode &node, JsonObject &from, S &object,
                  const std::tuple<Fields...> &fields) {
    forEach(fields, [&](const auto &field) { readField(node, from, object, field); });
  }
  template <typename S, typename Owner, typename... T>
  void fill(const JsonNode &value, S &object, const Field<Owner, T...> &field) {
    if (!field.isList)
      return read(value, object.*std::get<0>(field.members));
    size_t at = 0;
    forEach(field.members, [&](auto member) { take(value, at, object.*member); });
    value.expectSize(at);
  }
  template <typename S, typename Owner, typename... T>
  void readField(const JsonNode &, JsonObject &from, S &object, const Field<Owner, T...> &field) {
    if (!field.isOptional)
      fill(from[field.key], object, field);
    else if (std::optional<JsonNode> value = from.find(field.key))
      fill(*value, object, field);
  }
  template <typename S, typename... Fields>
  void readField(const JsonNode &node, JsonObject &from, S &object,
                 const Together<Fields...> &together) {
    if (from.has(std::get<0>(together.fields).key))
      readFields(node, from, object, together.fields);
  }
  template <typename S, typename T>
  void readField(const JsonNode &node, JsonObject &from, S &object, const Where<S, T> &where) {
    if (where.condition(object))
      readField(node, from, object, where.field);
  }
  template <typename S, typename T>
  void readField(const JsonNode &node, JsonObject &from, S &object, const Inline<S, T> &part) {
    if (from.has(firstKeyOf<T>()))
      readFields(node, from, (object.*part.member).emplace(), fieldsOf<T>);
  }
  template <typename S, typename Owner, typename T>
  void readField(const JsonNode &, JsonObject &from, S &object, const Counted<Owner, T> &counted) {
    std::vector<T> &items = object.*counted.items;
    size_t at = 0;
    take(from[counted.refs], at, items);
    const JsonNode counts = from[counted.counts];
    counts.expectSize(items.size());
    for (size_t i = 0; i < items.size(); ++i)
      read(counts[i], items[i].count);
  }
  template <typename S, typename... T>
  void readField(const JsonNode &node, JsonObject &from, S &object, const OneOf<S, T...> &oneOf) {
    const bool isOne =
        ((from.has(firstKeyOf<T>()) &&
          (readFields(node, from, (object.*oneOf.member).template emplace<T>(), fieldsOf<T>),
           true)) ||
         ...);
    if (isOne)
      return;
    std::string keys;
    ((keys += (keys.empty() ? "" : ", ") + std::string(firstKeyOf<T>())), ...);
    node.fail("expected one of " + keys);
  }

  void expression(const JsonNode &node, Expr &expr, int depth);
  /// `isPart`: of a value by blocks, which no part is itself.
  void initial(const JsonNode &node, Init &init, bool isPart);

  std::vector<std::string> files;
};

void Reader::expression(const JsonNode &node, Expr &expr, int depth) {
  if (depth > 100)
    node.fail("expressions nest more than 100 deep");
  if (node.isString() && !JsonNode::nonFinite(node.string())) {
    expr.kind = Expr::Kind::Variable;
    expr.variable = node.string();
    return;
  }
  if (!node.isArray()) {
    expr.constant = node.number();
    return;
  }
  std::string name = node[0].string();
  for (auto kind = Expr::Kind::Neg; kind <= Expr::Kind::Select; kind = Expr::Kind(int(kind) + 1)) {
    if (name != nameOf(kind))
      continue;
    node.expectSize(1 + arity(kind));
    expr.kind = kind;
    expr.operands.resize(arity(kind));
    for (size_t i = 0; i < expr.operands.size(); ++i)
      expression(node[i + 1], expr.operands[i], depth + 1);
    return;
  }
  node.fail("unknown operation '" + name + "'");
}

void Reader::initial(const JsonNode &node, Init &init, bool isPart) {
  JsonObject object(node);
  auto pair = [&](const JsonNode &values, double &first, double &second) {
    values.expectSize(2);
    first = values[0].number();
    second = values[1].number();
  };
  if (auto values = object.find("normal")) {
    init.kind = Init::Kind::Normal;
    pair(*values, init.mean, init.stddev);
  } else if (auto values = object.find("uniform")) {
    init.kind = Init::Kind::Uniform;
    pair(*values, init.low, init.high);
  } else if (auto values = object.find("sign")) {
    init.kind = Init::Kind::Sign;
    init.values = values->numbers();
  } else if (auto offset = object.find("data")) {
    init.kind = Init::Kind::Data;
    init.offset = offset->integer<uint64_t>();
  } else if (auto source = object.find("copy")) {
    init.kind = Init::Kind::Copy;
    init.source = source->string();
  } else if (auto source = object.find("transpose")) {
    init.kind = Init::Kind::Transpose;
    init.source = source->string();
  } else if (auto blocks = object.find("blocks"); blocks && !isPart) {
    init.kind = Init::Kind::Blocks;
    for (size_t i = 0; i < blocks->size(); ++i) {
      const JsonNode block = (*blocks)[i];
      block.expectSize(2);
      init.counts.push_back(block[0].integer<uint64_t>());
      initial(block[1], init.parts.emplace_back(), /*isPart=*/true);
    }
  } else {
    init.values = object["constant"].numbers();
  }
  object.close();
}

void Reader::common(const JsonNode &root, Plan &plan, std::vector<std::vector<int64_t>> &variants) {
  JsonObject object(root);
  read(object["files"], files);
  readFields(root, object, plan, Plan::firstCommonFields());
  read(object["variants"], variants);
  readFields(root, object, plan, Plan::commonFields());
  object.close();
}

void Reader::variant(const JsonNode &root, Plan &plan) {
  JsonObject object(root);
  read(object["files"], files);
  readFields(root, object, plan, Plan::variantFields());
  object.close();
}

/// The document; throws when there is none.
JsonTree treeOf(std::string_view text) {
  std::optional<JsonTree> tree = JsonTree::parse(text);
  if (!tree)
    throw FieldError(std::string("the text is not JSON, or ") + tooDeepText);
  return std::move(*tree);
}

} // namespace

void readCommon(std::string_view text, Plan &plan, std::vector<std::vector<int64_t>> &variants) {
  const JsonTree tree = treeOf(text);
  Reader().common(JsonNode(tree), plan, variants);
}

void readVariant(std::string_view text, Plan &plan) {
  const JsonTree tree = treeOf(text);
  Reader().variant(JsonNode(tree), plan);
}

} // namespace nano::plan
