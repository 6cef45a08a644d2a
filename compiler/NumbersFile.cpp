// Reads NumPy's .npy files: a magic number, a header that is a Python dictionary, the elements.
#include "compiler/NumbersFile.h"

#include "base/InputFile.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>

namespace nano::frontend {

namespace {

/// The text behind `'key':` in the header up to the character `end`.
std::optional<std::string> entry(const std::string &header, const char *key, char end) {
  const std::string quoted = fmt::format("'{}':", key);
  size_t begin = header.find(quoted);
  if (begin == std::string::npos)
    return std::nullopt;
  begin = header.find_first_not_of(' ', begin + quoted.size());
  const size_t stop = begin == std::string::npos ? begin : header.find(end, begin);
  if (stop == std::string::npos)
    return std::nullopt;
  return header.substr(begin, stop - begin);
}

/// The number of elements of "(3, 4", with the first parenthesis; nothing when that is no shape.
std::optional<uint64_t> elementsOf(const std::string &shape, uint64_t most) {
  if (shape.empty() || shape.front() != '(')
    return std::nullopt;
  uint64_t count = 1;
  for (size_t at = 1; at < shape.size();) {
    if (shape[at] == ' ' || shape[at] == ',') {
      ++at;
      continue;
    }
    uint64_t size = 0;
    auto [rest, error] = std::from_chars(shape.data() + at, shape.data() + shape.size(), size);
    if (error != std::errc() || size == 0 || count > most / size)
      return std::nullopt;
    count *= size;
    at = static_cast<size_t>(rest - shape.data());
  }
  return count;
}

template <typename T> std::vector<double> widened(const char *bytes, uint64_t count) {
  std::vector<double> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    values[i] = static_cast<double>(value);
  }
  return values;
}

struct Kind {
  const char *name;
  uint64_t bytes;
  std::vector<double> (*widen)(const char *, uint64_t);
};
constexpr Kind kinds[] = {{"'<f4'", 4, widened<float>},
                          {"'<f8'", 8, widened<double>},
                          {"'<i4'", 4, widened<int32_t>},
                          {"'<i8'", 8, widened<int64_t>},
                          {"'|u1'", 1, widened<uint8_t>}};

} // namespace

NumbersFile readNumbers(const std::string &path, int64_t most) {
  auto wrong = [&](const std::string &what) { return NumbersFile{{}, path + ": " + what}; };
  Result<std::string> read = readInput(path, input::numbers);
  if (!read)
    return {{}, read.error().message};
  const std::string &bytes = *read;
  constexpr char magic[] = "\x93NUMPY";
  constexpr size_t prefix = sizeof magic - 1, least = prefix + 4;
  if (bytes.size() < least || bytes.compare(0, prefix, magic) != 0)
    return wrong("not a .npy file; write it with numpy.save");
  // Version 1 has two bytes of the header's length, the later ones four.
  const bool isShort = bytes[prefix] == 1;
  const size_t lengthBytes = isShort ? 2 : 4, begin = prefix + 2 + lengthBytes;
  uint32_t length = 0;
  if (bytes.size() < begin)
    return wrong("truncated; write it again");
  std::memcpy(&length, bytes.data() + prefix + 2, lengthBytes);
  if (bytes.size() - begin < length)
    return wrong("truncated; write it again");
  const std::string header = bytes.substr(begin, length);
  const std::optional<std::string> type = entry(header, "descr", ','),
                                   order = entry(header, "fortran_order", ','),
                                   shape = entry(header, "shape", ')');
  if (!type || !order || !shape)
    return wrong("its header names no descr, fortran_order and shape; write it with numpy.save");
  if (*order != "False")
    return wrong("in Fortran order; write numpy.ascontiguousarray of it");
  const std::optional<uint64_t> count = elementsOf(*shape, uint64_t(most));
  if (!count)
    return wrong(fmt::format("the shape {}) is not one of 1 to {} elements", *shape, most));
  for (const Kind &kind : kinds) {
    if (*type != kind.name)
      continue;
    const uint64_t there = bytes.size() - begin - length;
    if (there != *count * kind.bytes)
      return wrong(fmt::format("{} bytes of elements, its header says {}; write it again", there,
                               *count * kind.bytes));
    return {kind.widen(bytes.data() + begin + length, *count), ""};
  }
  return wrong(fmt::format("elements of type {}; write f32, f64, i32, i64 or u8", *type));
}

} // namespace nano::frontend
