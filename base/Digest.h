// Names of files: by what they hold, and such as nobody can guess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nano {

/// 64 hexadecimal digits (BLAKE2b, 256 bits) that depend on every byte of every part, and on where
/// parts end: nobody can make other parts with the same ones.
std::string digestOf(const std::vector<std::string_view> &parts);

/// 16 hexadecimal digits that nobody can guess, for temporary names.
std::string randomDigits();

} // namespace nano
