// How a struct of a plan says which keys it has in a plan file: a function template `fields` that
// lists them by their members. Reader, writer, description and the page of the reference follow
// from it, as does the version of the format. Templates, so that only those two instantiate them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace nano::plan {

/// A key of S's object: the value of a member, or a list of the values of several.
template <typename S, typename... T> struct Field {
  const char *key;
  bool isOptional; ///< left out where all members are as by default
  bool isList;
  std::tuple<T S::*...> members;
  uint32_t since = 0; ///< the version of the format that brought it; 0: one before 11
};
template <typename S, typename... T> constexpr auto field(const char *key, T S::*...members) {
  return Field<S, T...>{key, false, sizeof...(T) > 1, {members...}};
}
template <typename S, typename... T> constexpr auto optional(const char *key, T S::*...members) {
  return Field<S, T...>{key, true, sizeof...(T) > 1, {members...}};
}
/// A list even of one value.
template <typename S, typename... T> constexpr auto list(const char *key, T S::*...members) {
  return Field<S, T...>{key, false, true, {members...}};
}
template <typename S, typename... T>
constexpr auto optionalList(const char *key, T S::*...members) {
  return Field<S, T...>{key, true, true, {members...}};
}

/// Fields that are there together or not at all: where the first one is not as by default.
template <typename... Fields> struct Together {
  std::tuple<Fields...> fields;
};
template <typename... Fields> constexpr auto together(Fields... fields) {
  return Together<Fields...>{{fields...}};
}

/// A field that is there where a condition holds of the fields before it.
template <typename S, typename T> struct Where {
  bool (*condition)(const S &);
  Field<S, T> field;
};
template <typename S, typename T>
constexpr auto where(bool (*condition)(const S &), Field<S, T> field) {
  return Where<S, T>{condition, field};
}

/// The fields of a struct that is there or not, by its first key, among those of its owner.
template <typename S, typename T> struct Inline {
  std::optional<T> S::*member;
};

/// Operands and their numbers of elements, in two lists.
template <typename S, typename T> struct Counted {
  const char *refs, *counts;
  std::vector<T> S::*items;
};

/// Where S is one of several structs: the fields of that one, which its first key names.
template <typename S, typename... T> struct OneOf {
  std::variant<T...> S::*member;
};

/// A field that plans have from that version of the format on: left out where it is as by default.
template <typename S, typename... T> constexpr auto since(uint32_t version, Field<S, T...> field) {
  field.isOptional = true;
  field.since = version;
  return field;
}

/// The fields of S, a tuple of the above.
template <typename S> inline constexpr auto fieldsOf = S::fields();
template <typename S>
concept HasFields = requires { S::fields(); };

/// The members of an S that is stored as a list of their values. A vector takes the list's rest.
template <typename S> inline constexpr auto rowOf = S::row();
template <typename S>
concept HasRow = requires { S::row(); };

/// Calls `each` with every item of a tuple, in order.
template <typename Tuple, typename Fn> constexpr void forEach(const Tuple &tuple, Fn &&each) {
  std::apply([&](const auto &...items) { (each(items), ...); }, tuple);
}
/// The first key of a struct's fields.
template <typename S> constexpr const char *firstKeyOf() { return std::get<0>(fieldsOf<S>).key; }

/// An enumeration whose values, up to `last`, files name by `nameOf`.
template <typename E> struct Names {
  const char *what; ///< "element type"
  E last;
};
template <typename E> inline constexpr auto namesOf = nullptr;

} // namespace nano::plan
