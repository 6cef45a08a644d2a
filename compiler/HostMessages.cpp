// Reads the messages of g++ and clang++: "FILE:LINE:COLUMN: error: …", notes behind their error,
// and "required from here" before an error inside a header.
#include "compiler/HostMessages.h"

#include "compiler/Excerpt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

namespace nano {

namespace {

/// An error, at a line of the model.
struct HostError {
  unsigned line = 0, column = 0; ///< 0: unknown
  bool isInHeader = false;
  std::string text;
  std::string candidate; ///< the first declaration that does not fit, if the compiler names one
  std::string reason;    ///< why it does not, if the compiler says so
};

/// Names as a model's author writes them.
std::string plain(std::string text) {
  for (const char *qualifier : {"nano::frontend::", "std::__cxx11::"})
    for (size_t at; (at = text.find(qualifier)) != std::string::npos;)
      text.erase(at, std::string_view(qualifier).size());
  return text;
}

/// Errors of the model by line; one of a header stands at the model's line that leads there,
/// once.
std::vector<HostError> errorsIn(const std::string &messages, const std::string &path) {
  static const std::regex message(R"(^(.+?):(\d+):(\d+): +(error|fatal error|note): (.*)$)");
  static const std::regex leadsThere(R"(^(.+?):(\d+):(\d+): +required from here$)");
  static const std::regex candidate(R"(^candidate: '([^']*\(.*)'$)");
  static const std::regex reason(R"(^candidate function not viable: (.*)$)");
  static const std::regex assertion(R"(^static assertion failed(?: due to requirement '.*')?: )");
  std::vector<HostError> errors;
  HostError origin; // g++ says before an error of a header where it comes from, clang++ behind it
  std::set<unsigned> lines;
  std::istringstream text(messages);
  std::smatch match;
  for (std::string line; std::getline(text, line);) {
    const bool isOrigin = std::regex_match(line, match, leadsThere);
    if (!isOrigin && !std::regex_match(line, match, message))
      continue;
    const bool isHere = match[1] == path;
    HostError place;
    place.line = static_cast<unsigned>(std::stoul(match[2]));
    place.column = static_cast<unsigned>(std::stoul(match[3]));
    if (isOrigin) {
      if (isHere)
        origin = place;
      continue;
    }
    const std::string said = match[5];
    if (match[4] != "note") {
      errors.push_back(isHere ? place : origin);
      errors.back().isInHeader = !isHere;
      errors.back().text = plain(std::regex_replace(said, assertion, ""));
    } else if (!errors.empty()) {
      HostError &error = errors.back();
      if (error.line == 0 && isHere && said.ends_with("requested here"))
        error.line = place.line, error.column = place.column;
      if (std::smatch found; error.candidate.empty() && std::regex_match(said, found, candidate))
        error.candidate = plain(found[1]);
      else if (error.reason.empty() && std::regex_match(said, found, reason))
        error.reason = plain(found[1]);
    }
  }
  std::erase_if(errors, [&](const HostError &error) {
    const bool isNew = lines.insert(error.line).second;
    return error.line == 0 || (error.isInHeader && !isNew);
  });
  std::stable_sort(errors.begin(), errors.end(),
                   [](const HostError &a, const HostError &b) { return a.line < b.line; });
  return errors;
}

/// How many letters must be changed, inserted or left out.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

/// Names that `declarations` declares with parameters, as near to `name` as any is.
std::vector<std::string> nearest(const std::string &name, const std::string &declarations) {
  static const std::regex comment(R"(//[^\n]*)"), declared(R"(\b([A-Za-z_]\w*)\()");
  const std::string code = std::regex_replace(declarations, comment, "");
  size_t least = std::max<size_t>(1, name.size() / 4);
  std::set<std::string> found;
  for (std::sregex_iterator at(code.begin(), code.end(), declared), end; at != end; ++at) {
    const size_t apart = distance(name, (*at)[1]);
    if (apart < least)
      found.clear();
    if (apart <= least)
      found.insert((*at)[1]);
    least = std::min(least, apart);
  }
  return {found.begin(), found.end()};
}

/// "lr (Sched), momentum (Sched), nesterov (bool)", as `declarations` has the struct; empty where
/// it is not one of named fields.
std::string fieldsOf(const std::string &name, const std::string &declarations) {
  static const std::regex comment(R"(//[^\n]*)");
  static const std::regex field(R"(^\s*(\w+) ((?:\w+(?: = [^,;]*)?(?:, )?)+);\s*$)");
  static const std::regex declared(R"((\w+)(?: = [^,;]*)?(?:, |$))");
  const std::string code = std::regex_replace(declarations, comment, "");
  std::smatch body;
  if (!std::regex_search(code, body,
                         std::regex("struct " + name + R"( \{([^}]*(?:\{[^}]*\}[^}]*)*)\n\};)")))
    return "";
  std::vector<std::string> fields;
  std::istringstream lines(body[1]);
  std::smatch match;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, match, field)) {
      const std::string names = match[2];
      for (std::sregex_iterator at(names.begin(), names.end(), declared), end; at != end; ++at)
        fields.push_back(fmt::format("{} ({})", (*at)[1].str(), match[1].str()));
    }
  return fmt::format("{}", fmt::join(fields, ", "));
}

/// What to do where a schedule or a tensor stands and C++ wants a value now; empty elsewhere.
std::string hintForValue(const std::string &text, const std::string &declarations) {
  auto converts = [&](const char *from, const char *to) {
    const std::string types = fmt::format("'(?:const )?{}' to '?(?:const )?{}", from, to);
    return std::regex_search(text, std::regex(types));
  };
  const char *number = "(double|float|int|bool|int64_t|long|unsigned|uint64_t|size_t)\\b";
  if (converts("Sched", number))
    return "; a schedule has another value at each step, and here goes one number for all: give "
           "it, or take it from hyper(…); what goes with tensors may be a schedule";
  if (text.find("'SchedLess'") != std::string::npos)
    return "; a schedule has another value at each step: select(a < b, x, y) chooses there";
  if (text.find("'Comparison'") != std::string::npos)
    return "; a tensor has no value yet: select(a < b, x, y) chooses element by element";
  if (converts("Tensor", number))
    return "; a tensor has no value yet, and here goes a number: give it, or take it from hyper(…)";
  static const std::regex braces(
      R"(reference of type 'const (\w+)&' from expression of type '<brace-)"
      R"(|initializer list argument to 'const (\w+)')");
  std::smatch match;
  if (!std::regex_search(text, match, braces))
    return "";
  const std::string name = match[1].matched ? match[1] : match[2];
  if (name == "Shape")
    return "; a shape is whole numbers: {4, D}; no schedules or tensors";
  const std::string fields = fieldsOf(name, declarations);
  return fields.empty() ? ""
                        : fmt::format("; {} has, in this order, {}; a schedule or tensor is no "
                                      "number",
                                      name, fields);
}

/// What to do about an error; empty where its text says so.
std::string hintFor(const HostError &error, const std::string &declarations) {
  static const std::regex unknown(
      R"('(\w+)' was not declared in this scope|use of undeclared identifier '(\w+)')");
  std::smatch match;
  if (std::regex_match(error.text, match, unknown)) {
    const std::vector<std::string> names =
        nearest(match[1].matched ? match[1] : match[2], declarations);
    return names.empty() ? "; docs/language.md says what there is"
                         : fmt::format("; is it {}?", fmt::join(names, " or "));
  }
  if (std::string hint = hintForValue(error.text + "; " + error.reason, declarations);
      !hint.empty())
    return hint;
  const bool isCall = error.text.starts_with("no matching function for call to");
  return isCall && !error.candidate.empty() ? "; it is declared as " + error.candidate : "";
}

} // namespace

std::string hostErrors(const std::string &messages, const std::string &path,
                       const std::string &source, const std::string &declarations) {
  const std::vector<HostError> errors = errorsIn(messages, path);
  const size_t shown = std::min<size_t>(errors.size(), 5);
  std::string text;
  for (const HostError &error : std::span(errors).first(shown))
    text +=
        fmt::format("{}:{}: {}{}\n{}", path, error.line, error.text, hintFor(error, declarations),
                    excerpt(source, error.line, error.column, Column::Exact));
  if (shown < errors.size())
    text += fmt::format("{} more, which --verbose shows\n", errors.size() - shown);
  return text;
}

} // namespace nano
