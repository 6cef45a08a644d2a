// All keys of a plan file, found by going through the structs: the format's version, and tests.
#pragma once

#include "runtime/plan/Fields.h"

#include <algorithm>
#include <cstdint>

namespace nano::plan {

/// Calls `each` with the key of every field of a T and of what is in it, whether it may be left
/// out, and `since`.
template <typename T, typename Fn> constexpr void eachKey(Fn &&each) {
  if constexpr (requires { typename T::value_type; })
    eachKey<typename T::value_type>(each);
  else if constexpr (HasFields<T>)
    eachKeyOf(fieldsOf<T>, each);
}
template <typename Tuple, typename Fn> constexpr void eachKeyOf(const Tuple &fields, Fn &&each) {
  forEach(fields, [&](const auto &field) { visitKeys(field, each); });
}
template <typename S, typename... T, typename Fn>
constexpr void visitKeys(const Field<S, T...> &field, Fn &&each) {
  each(field.key, field.isOptional, field.since);
  auto inside = [&](const char *key, bool isOptional, uint32_t since) {
    each(key, isOptional, std::max(since, field.since));
  };
  (eachKey<T>(inside), ...);
}
template <typename... Fields, typename Fn>
constexpr void visitKeys(const Together<Fields...> &together, Fn &&each) {
  eachKeyOf(together.fields, each);
}
template <typename S, typename T, typename Fn>
constexpr void visitKeys(const Where<S, T> &where, Fn &&each) {
  visitKeys(where.field, each);
}
template <typename S, typename T, typename Fn>
constexpr void visitKeys(const Inline<S, T> &, Fn &&each) {
  eachKey<T>(each);
}
template <typename S, typename T, typename Fn>
constexpr void visitKeys(const Counted<S, T> &counted, Fn &&each) {
  each(counted.refs, false, 0);
  each(counted.counts, false, 0);
}
template <typename S, typename... T, typename Fn>
constexpr void visitKeys(const OneOf<S, T...> &, Fn &&each) {
  (eachKey<T>(each), ...);
}

} // namespace nano::plan
