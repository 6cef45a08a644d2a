// How deep JSON may nest. Parsers, copies and printers of JSON call themselves for every array in
// an array; the stack ends after some ten thousand of them.
#pragma once

#include <string_view>

namespace nano {

/// More than any file of the project has; a plan's expressions nest 100 deep.
inline constexpr int maxJsonDepth = 256;

/// Whether arrays and objects of the text nest deeper than that, for every reader to ask before it
/// parses. Of text that is not JSON it may say either: as far as it is JSON, it counts as a parser
/// does.
bool nestsTooDeep(std::string_view json);

/// What messages say then: "nests more than 256 arrays and objects".
inline constexpr const char *tooDeepText = "nests more than 256 arrays and objects in each other";

} // namespace nano
