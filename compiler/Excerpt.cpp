// Finds the line, and what of it to mark: the name of a call, or a single character.
#include "compiler/Excerpt.h"

#include "compiler/HostCompiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

namespace nano {

namespace {

bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A line's text without its end; nothing behind the last one.
std::optional<std::string_view> lineOf(std::string_view text, unsigned line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return std::nullopt;
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r'))
    text.remove_suffix(1);
  return line == 0 || text.empty() ? std::nullopt : std::optional(text);
}

/// First byte and number of bytes to mark; none: 0 bytes.
std::pair<size_t, size_t> marked(std::string_view line, unsigned column, Column kind) {
  if (column == 0 || column > line.size())
    return {0, 0};
  const size_t at = column - 1;
  size_t begin = at, end = at;
  if (kind == Column::Call && line[at] == '(')
    while (begin > 0 && isNameCharacter(line[begin - 1]))
      --begin;
  else
    while (end < line.size() && isNameCharacter(line[end]))
      ++end;
  if (kind == Column::Exact)
    return {at, std::max<size_t>(end - at, 1)};
  return end < line.size() && line[end] == '(' ? std::pair(begin, end - begin)
                                               : std::pair<size_t, size_t>(0, 0);
}

} // namespace

std::string excerpt(std::string_view text, unsigned line, unsigned column, Column kind) {
  const std::optional<std::string_view> shown = lineOf(text, line);
  if (!shown)
    return "";
  std::string result = fmt::format("{:>5} | {}\n", line, *shown);
  const auto [begin, count] = marked(*shown, column, kind);
  if (count == 0)
    return result;
  std::string space;
  for (const char c : shown->substr(0, begin))
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) // once a character of UTF-8
      space += c == '\t' ? '\t' : ' ';
  return result + fmt::format("{:>5} | {}^{}\n", "", space, std::string(count - 1, '~'));
}

std::string excerptOf(const std::string &message, unsigned column) {
  // The first ": " ends the place.
  const std::string place = message.substr(0, message.find(": "));
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos)
    return "";
  const std::string file = place.substr(0, colon), number = place.substr(colon + 1);
  unsigned line = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), line);
  const std::string extension = std::filesystem::path(file).extension().string();
  const bool isCpp = extension == ".cpp" || extension == ".cc" || extension == ".h";
  if (error != std::errc() || end != number.data() + number.size() || !isCpp)
    return "";
  const std::optional<std::string> text = modelText(file);
  return text ? excerpt(*text, line, column, Column::Call) : "";
}

} // namespace nano
