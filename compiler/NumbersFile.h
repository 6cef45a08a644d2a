// Numbers that a model file takes from a file: NumPy's .npy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nano::frontend {

struct NumbersFile {
  std::vector<double> values; ///< in row-major order
  std::string error; ///< "x.npy: …", what is wrong with the file and what to do; else empty
};

/// Reads a .npy file (versions 1 to 3) of little-endian f4, f8, i4, i8 or u1 in C order, of at most
/// `most` numbers. Its shape is not looked at: the parameter or table that it is for has one.
NumbersFile readNumbers(const std::string &path, int64_t most);

} // namespace nano::frontend
