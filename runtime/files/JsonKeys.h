// Keys that occur twice in one object of a JSON text, of which parsers keep one without a word.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nano {

/// The first key that occurs twice in one object of the text, wherever that is; none when none
/// does, or when something that is not JSON comes first.
std::optional<std::string> repeatedKey(std::string_view text);

} // namespace nano
