// What counts as a change of IR: other lines, and other values behind the same words; not other
// names.
#include "compiler/explore/LineDiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace nano::explore {
namespace {

using Lines = std::vector<std::string>;

TEST(LineDiff, OtherNamesAreNoChange) {
  EXPECT_TRUE(differences({"%0 = load @a", "%1 = mul %0, %0", "return %1"},
                          {"%5 = load @a", "%7 = mul %5, %5", "return %7"})
                  .empty());
}

TEST(LineDiff, AnotherOperandIsAChange) {
  const auto regions = differences({"%0 = load @a", "%1 = load @b", "%2 = neg %0", "return %2"},
                                   {"%0 = load @a", "%1 = load @b", "%2 = neg %1", "return %2"});
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].before, "%2 = neg %0\n");
  EXPECT_EQ(regions[0].after, "%2 = neg %1\n");
  EXPECT_EQ(regions[0].lineBefore, 3);
  EXPECT_EQ(regions[0].lead, "%0 = load @a\n%1 = load @b\n");
}

TEST(LineDiff, NamesOfTheSameValueAreTold) {
  const auto regions = differences({"%0 = load @a", "%1 = exp %0", "return %1"},
                                   {"%9 = constant", "%0 = load @a", "%1 = log %0", "return %1"});
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].before, "");
  EXPECT_EQ(regions[0].after, "%9 = constant\n");
  EXPECT_EQ(regions[1].before, "%1 = exp %0\n");
  EXPECT_EQ(regions[1].same,
            (std::vector<std::pair<std::string, std::string>>{{"%1", "%1"}, {"%0", "%0"}}));
}

TEST(LineDiff, AFunctionThatCameOrWentIsOneRegion) {
  const Lines function = {"func @f() {", "return", "}"};
  const auto came = differences({}, function), went = differences(function, {});
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].after, "func @f() {\nreturn\n}\n");
  ASSERT_EQ(went.size(), 1u);
  EXPECT_EQ(went[0].before, came[0].after);
  EXPECT_EQ(went[0].after, "");
}

/// With the regions' lines exchanged one text becomes the other, whatever was changed.
TEST(LineDiff, RegionsLeadFromOneTextToTheOther) {
  std::mt19937 random(7);
  auto below = [&](size_t bound) { return size_t(random() % bound); };
  for (int round = 0; round < 200; ++round) {
    Lines before, after;
    for (size_t i = 0, count = below(60); i < count; ++i)
      before.push_back("op" + std::to_string(below(12)));
    after = before;
    for (size_t i = 0, count = below(8); i < count; ++i)
      if (after.empty() || below(2))
        after.insert(after.begin() + std::ptrdiff_t(below(after.size() + 1)),
                     "op" + std::to_string(below(14)));
      else
        after.erase(after.begin() + std::ptrdiff_t(below(after.size())));
    Lines made;
    size_t next = 0;
    for (const TextRegion &region : differences(before, after)) {
      for (; next + 1 < size_t(region.lineBefore); ++next)
        made.push_back(before[next]);
      next += size_t(std::count(region.before.begin(), region.before.end(), '\n'));
      std::string rest = region.after;
      for (size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1))
        made.push_back(rest.substr(0, end));
    }
    made.insert(made.end(), before.begin() + std::ptrdiff_t(next), before.end());
    ASSERT_EQ(made, after) << "round " << round;
  }
}

} // namespace
} // namespace nano::explore
