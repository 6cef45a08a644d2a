// Aligns lines by those that occur once on either side (patience), what lies between by their
// longest common subsequence; then checks that names stand for each other.
#include "compiler/explore/LineDiff.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace nano::explore {
namespace {

/// Names of values and blocks in a line: %12, %arg0, %5#1, ^bb2.
std::vector<std::string> namesIn(const std::string &line) {
  std::vector<std::string> names;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '%' && line[i] != '^')
      continue;
    size_t end = i + 1;
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) ||
                                 line[end] == '_' || line[end] == '#'))
      ++end;
    names.push_back(line.substr(i, end - i));
    i = end - 1;
  }
  return names;
}

/// The line without what its values are called.
std::string shapeOf(const std::string &line) {
  std::string shape;
  for (size_t i = 0; i < line.size(); ++i) {
    shape += line[i];
    if (line[i] == '%' || line[i] == '^')
      while (i + 1 < line.size() && (std::isalnum(static_cast<unsigned char>(line[i + 1])) ||
                                     line[i + 1] == '_' || line[i + 1] == '#'))
        ++i;
  }
  return shape;
}

class Alignment {
public:
  Alignment(const std::vector<std::string> &before, const std::vector<std::string> &after)
      : before(before), after(after) {
    std::unordered_map<std::string, size_t> numbers;
    auto numberOf = [&](const std::string &line) {
      return numbers.try_emplace(shapeOf(line), numbers.size()).first->second;
    };
    for (const std::string &line : before)
      a.push_back(numberOf(line));
    for (const std::string &line : after)
      b.push_back(numberOf(line));
    align(0, a.size(), 0, b.size());
    keepNames();
  }

  std::vector<TextRegion> regions() const;

private:
  using Pair = std::pair<size_t, size_t>;
  static constexpr size_t mostCells = 1 << 20; ///< of the table of common subsequences
  static constexpr size_t leadLines = 2;

  void align(size_t beginA, size_t endA, size_t beginB, size_t endB);
  std::vector<Pair> anchors(size_t beginA, size_t endA, size_t beginB, size_t endB) const;
  void alignBySubsequence(size_t beginA, size_t endA, size_t beginB, size_t endB);
  void keepNames();
  TextRegion regionOf(size_t beginA, size_t endA, size_t beginB, size_t endB) const;

  const std::vector<std::string> &before, &after;
  std::vector<size_t> a, b;                 ///< lines by number: equal ones have one
  std::vector<Pair> pairs;                  ///< lines that are the same, rising in both
  std::map<std::string, std::string> names; ///< of the same values
};

void Alignment::align(size_t beginA, size_t endA, size_t beginB, size_t endB) {
  while (beginA < endA && beginB < endB && a[beginA] == b[beginB])
    pairs.emplace_back(beginA++, beginB++);
  size_t tail = 0;
  while (beginA < endA && beginB < endB && a[endA - 1] == b[endB - 1])
    --endA, --endB, ++tail;
  if (beginA < endA && beginB < endB) {
    const std::vector<Pair> found = anchors(beginA, endA, beginB, endB);
    size_t nextA = beginA, nextB = beginB;
    for (auto [x, y] : found) {
      align(nextA, x, nextB, y);
      pairs.emplace_back(x, y);
      nextA = x + 1;
      nextB = y + 1;
    }
    if (found.empty())
      alignBySubsequence(beginA, endA, beginB, endB);
    else
      align(nextA, endA, nextB, endB);
  }
  for (size_t i = 0; i < tail; ++i)
    pairs.emplace_back(endA + i, endB + i);
}

/// The longest rising chain of lines that occur once in both ranges.
std::vector<Alignment::Pair> Alignment::anchors(size_t beginA, size_t endA, size_t beginB,
                                                size_t endB) const {
  struct Seen {
    size_t countA = 0, countB = 0, atA = 0, atB = 0;
  };
  std::unordered_map<size_t, Seen> seen;
  for (size_t i = beginA; i < endA; ++i) {
    Seen &line = seen[a[i]];
    ++line.countA;
    line.atA = i;
  }
  for (size_t i = beginB; i < endB; ++i) {
    Seen &line = seen[b[i]];
    ++line.countB;
    line.atB = i;
  }
  std::vector<Pair> unique;
  for (const auto &[number, line] : seen)
    if (line.countA == 1 && line.countB == 1)
      unique.emplace_back(line.atA, line.atB);
  std::sort(unique.begin(), unique.end());
  constexpr size_t none = ~size_t(0);
  std::vector<size_t> ends, previous(unique.size(), none); // of chains by length: the last line
  for (size_t i = 0; i < unique.size(); ++i) {
    const auto place =
        std::lower_bound(ends.begin(), ends.end(), unique[i].second,
                         [&](size_t each, size_t at) { return unique[each].second < at; });
    if (place != ends.begin())
      previous[i] = *(place - 1);
    if (place == ends.end())
      ends.push_back(i);
    else
      *place = i;
  }
  std::vector<Pair> chain;
  for (size_t i = ends.empty() ? none : ends.back(); i != none; i = previous[i])
    chain.push_back(unique[i]);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void Alignment::alignBySubsequence(size_t beginA, size_t endA, size_t beginB, size_t endB) {
  const size_t rows = endA - beginA, columns = endB - beginB;
  if (rows * columns > mostCells)
    return;
  std::vector<uint32_t> length((rows + 1) * (columns + 1), 0);
  auto at = [&](size_t i, size_t j) -> uint32_t & { return length[i * (columns + 1) + j]; };
  for (size_t i = rows; i-- > 0;)
    for (size_t j = columns; j-- > 0;)
      at(i, j) = a[beginA + i] == b[beginB + j] ? at(i + 1, j + 1) + 1
                                                : std::max(at(i + 1, j), at(i, j + 1));
  for (size_t i = 0, j = 0; i < rows && j < columns;)
    if (a[beginA + i] == b[beginB + j])
      pairs.emplace_back(beginA + i++, beginB + j++);
    else if (at(i + 1, j) >= at(i, j + 1))
      ++i;
    else
      ++j;
}

/// Of the pairs those stay whose names stand for each other in all that came before.
void Alignment::keepNames() {
  std::map<std::string, std::string> back;
  std::vector<Pair> kept;
  for (const Pair &pair : pairs) {
    const std::vector<std::string> left = namesIn(before[pair.first]),
                                   right = namesIn(after[pair.second]);
    bool isSame = left.size() == right.size();
    for (size_t i = 0; isSame && i < left.size(); ++i) {
      const auto forth = names.find(left[i]);
      const auto other = back.find(right[i]);
      isSame = (forth == names.end() || forth->second == right[i]) &&
               (other == back.end() || other->second == left[i]);
    }
    if (!isSame)
      continue;
    for (size_t i = 0; i < left.size(); ++i) {
      names.try_emplace(left[i], right[i]);
      back.try_emplace(right[i], left[i]);
    }
    kept.push_back(pair);
  }
  pairs = std::move(kept);
}

TextRegion Alignment::regionOf(size_t beginA, size_t endA, size_t beginB, size_t endB) const {
  TextRegion region;
  region.lineBefore = int64_t(beginA) + 1;
  region.lineAfter = int64_t(beginB) + 1;
  std::set<std::string> seen;
  auto add = [&](std::string &text, const std::vector<std::string> &lines, size_t begin, size_t end,
                 bool isBefore) {
    for (size_t i = begin; i < end; ++i) {
      text += lines[i] + "\n";
      if (!isBefore)
        continue;
      for (const std::string &name : namesIn(lines[i]))
        if (auto found = names.find(name); found != names.end() && seen.insert(name).second)
          region.same.emplace_back(name, found->second);
    }
  };
  // The lines in front, as they are called afterwards.
  const size_t lead = std::min(leadLines, std::min(beginA, beginB));
  add(region.lead, after, beginB - lead, beginB, false);
  add(region.before, before, beginA, endA, true);
  add(region.after, after, beginB, endB, false);
  return region;
}

std::vector<TextRegion> Alignment::regions() const {
  std::vector<TextRegion> found;
  size_t nextA = 0, nextB = 0;
  auto close = [&](size_t endA, size_t endB) {
    if (nextA < endA || nextB < endB)
      found.push_back(regionOf(nextA, endA, nextB, endB));
  };
  for (auto [x, y] : pairs) {
    close(x, y);
    nextA = x + 1;
    nextB = y + 1;
  }
  close(before.size(), after.size());
  return found;
}

} // namespace

std::vector<TextRegion> differences(const std::vector<std::string> &before,
                                    const std::vector<std::string> &after) {
  return Alignment(before, after).regions();
}

} // namespace nano::explore
