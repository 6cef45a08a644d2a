// When two values of a tensor agree, and which tensors of a step are whole behind which command.
#include "runtime/CompareRuns.h"
#include "runtime/NumberFormats.h"
#include "runtime/StepVisits.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

namespace nano {
namespace {

using plan::Command;
using plan::DType;

template <typename T> std::vector<std::byte> bytesOf(const std::vector<T> &values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Distance between(const std::vector<float> &a, const std::vector<float> &b, double tolerance) {
  return distanceOf(DType::F32, bytesOf(a), DType::F32, bytesOf(b), tolerance);
}

TEST(DistanceOf, IsRelativeToTheWholeTensor) {
  const Distance off = between({3, 4, 0}, {3, 4, 0.5F}, 0.05);
  EXPECT_NEAR(off.relative, 0.5 / std::sqrt(25.25), 1e-12);
  EXPECT_FALSE(off.isWithin);
  EXPECT_EQ(off.element, 2u);
  EXPECT_EQ(off.a, 0);
  EXPECT_EQ(off.b, 0.5);
  EXPECT_TRUE(between({3, 4, 0}, {3, 4, 0.5F}, 0.1).isWithin);
  // Which is the first makes no difference.
  EXPECT_EQ(between({3, 4, 0.5F}, {3, 4, 0}, 0.1).relative, off.relative);
}

TEST(DistanceOf, OneElementAloneIsSeen) {
  // Of 10000 elements one is wrong: 1% of the norm, but far off by itself.
  std::vector<float> a(10000, 1), b = a;
  b[77] = 2;
  const Distance off = between(a, b, 0.015);
  EXPECT_NEAR(off.relative, 0.01, 1e-4);
  EXPECT_FALSE(off.isWithin);
  EXPECT_EQ(off.element, 77u);
  EXPECT_TRUE(between(a, b, 0.03).isWithin);
}

TEST(DistanceOf, EqualBitsAgreeAlways) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  EXPECT_TRUE(between({nan, inf, 0}, {nan, inf, 0}, 0).isWithin);
  EXPECT_TRUE(between({0, -0.0F}, {-0.0F, 0}, 0).isWithin);
  EXPECT_TRUE(between({}, {}, 0).isWithin);
  EXPECT_FALSE(between({1, 2}, {1, std::nextafter(2.0F, 3.0F)}, 0).isWithin);
}

TEST(DistanceOf, WhatIsNotFiniteAgreesWithTheSame) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  EXPECT_FALSE(between({1, nan}, {1, 5}, 1e9).isWithin);
  EXPECT_FALSE(between({1, 5}, {1, inf}, 1e9).isWithin);
  EXPECT_FALSE(between({inf}, {-inf}, 1e9).isWithin);
  EXPECT_FALSE(between({inf}, {nan}, 1e9).isWithin);
  EXPECT_TRUE(between({1, inf, nan}, {1.0001F, inf, nan}, 1e-3).isWithin);
}

TEST(DistanceOf, TypesMayDifferAndIntegersMayNot) {
  const auto wide = bytesOf<float>({1, 2, 3});
  const auto narrow = bytesOf<uint16_t>({toBf16(1), toBf16(2), toBf16(3)});
  EXPECT_EQ(distanceOf(DType::F32, wide, DType::BF16, narrow, 0).relative, 0);
  const auto a = bytesOf<int32_t>({5, 70000}), b = bytesOf<int32_t>({5, 70001});
  const Distance off = distanceOf(DType::I32, a, DType::I32, b, 1);
  EXPECT_FALSE(off.isWithin);
  EXPECT_EQ(off.element, 1u);
  EXPECT_EQ(off.a, 70000);
}

class VisitsTest : public testing::Test {
protected:
  VisitsTest() {
    plan.programs.push_back({"main", {}, 1, 0});
    plan.kernels.emplace_back().locations = {{"", 0}, {"a/m.cpp", 44}};
  }
  uint32_t buffer(const std::string &name, uint32_t line) {
    plan.buffers.push_back({name, 0, 64, DType::F32, {4, 4}, {"a/m.cpp", line}});
    return uint32_t(plan.buffers.size()) - 1;
  }
  void launch(uint32_t line, std::vector<plan::Ref> operands) {
    plan::Launch launch;
    launch.segments = {{std::move(operands), 1, 1}};
    Command command{std::move(launch)};
    command.location = {"a/m.cpp", line};
    plan.programs[0].commands.push_back(command);
  }
  static plan::Ref in(uint32_t buffer) { return {buffer, 0}; }
  static plan::Ref out(uint32_t buffer) { return {buffer, 0, true, false}; }
  static plan::Ref inout(uint32_t buffer) { return {buffer, 0, true, true}; }
  /// "command: key" of all captures.
  std::vector<std::string> captures() {
    std::vector<std::string> found;
    for (const Visit &visit : visitsOf(plan, {&plan.programs[0]}))
      for (const Capture &capture : visit.captures)
        found.push_back(std::to_string(visit.command) + ": " + capture.key);
    return found;
  }

  plan::Plan plan;
};

TEST_F(VisitsTest, NamesDoNotDependOnThePlan) {
  const uint32_t x = buffer("main/matmul#7", 12), state = buffer("grad.w", 3),
                 nameless = buffer("main/add#2", 0);
  launch(12, {in(state), out(x)});
  launch(12, {in(x), out(nameless), inout(state)});
  EXPECT_EQ(captures(),
            (std::vector<std::string>{"0: matmul of m.cpp:12, [4,4]", "1: ", "1: grad.w"}));
}

TEST_F(VisitsTest, ATensorIsWholeBehindItsLastPart) {
  // Two halves, of which one is read before the other is there; and a sum in two parts.
  const uint32_t halves = buffer("main/concat", 5), sum = buffer("main/matmul", 6),
                 state = buffer("grad.w", 3), other = buffer("main/add", 7);
  launch(5, {out(halves), out(sum), out(state)});
  launch(7, {in(halves), in(sum), in(state), out(other)});
  launch(5, {out(halves)});
  launch(6, {inout(sum)});
  launch(9, {inout(state)});
  EXPECT_EQ(captures(),
            (std::vector<std::string>{"1: add of m.cpp:7, [4,4]", "2: concat of m.cpp:5, [4,4]",
                                      "3: matmul of m.cpp:6, [4,4], with 1 more", "4: grad.w"}));
}

TEST_F(VisitsTest, WhatManyLayersAddToIsNotWhatOneMade) {
  // One line of all layers: a plan that adds in place, and one that does not.
  const uint32_t sum = buffer("main/cast", 6), apart = buffer("main/cast#2", 6);
  launch(6, {out(sum)});
  launch(6, {inout(sum)});
  launch(6, {inout(sum)});
  launch(6, {out(apart)});
  EXPECT_EQ(captures(), (std::vector<std::string>{"2: cast of m.cpp:6, [4,4], with 2 more",
                                                  "3: cast of m.cpp:6, [4,4]"}));
}

TEST_F(VisitsTest, AnotherTensorInItsPlaceIsAnother) {
  const uint32_t x = buffer("main/matmul", 6);
  launch(6, {out(x)});
  launch(8, {inout(x)});
  launch(0, {inout(x)}); // its kernel's line
  EXPECT_EQ(captures(),
            (std::vector<std::string>{"0: matmul of m.cpp:6, [4,4]",
                                      "1: matmul of m.cpp:6, [4,4], again by m.cpp:8",
                                      "2: matmul of m.cpp:6, [4,4], again by m.cpp:44"}));
}

TEST_F(VisitsTest, WhatBeginsIsCleared) {
  const uint32_t x = buffer("main/matmul", 6), y = buffer("main/add", 7), state = buffer("loss", 3);
  launch(6, {out(x), out(state)});
  launch(6, {out(x), inout(y)});
  const std::vector<Visit> visits = visitsOf(plan, {&plan.programs[0]});
  EXPECT_EQ(visits[0].clears, std::vector<uint32_t>{x}); // a state has values of its own
  EXPECT_TRUE(visits[1].clears.empty());                 // y is read: it is somebody's
}

TEST_F(VisitsTest, WhatOthersHoldIsNotCleared) {
  const uint32_t w = buffer("main/cast", 7), x = buffer("main/concat", 6);
  launch(7, {out(w)});
  launch(6, {in(w), out(x)}); // a part of x, which leaves w's bytes alone
  launch(8, {in(w)});
  launch(6, {out(x)});
  const std::vector<Visit> visits = visitsOf(plan, {&plan.programs[0]});
  EXPECT_EQ(visits[0].clears, std::vector<uint32_t>{w});
  EXPECT_TRUE(visits[1].clears.empty());
  plan.buffers[x].offset = 64;
  EXPECT_EQ(visitsOf(plan, {&plan.programs[0]})[1].clears, std::vector<uint32_t>{x});
}

TEST_F(VisitsTest, EveryWriteOfThePlanItself) {
  const uint32_t x = buffer("main/matmul", 0);
  launch(6, {out(x)});
  launch(6, {inout(x)});
  const std::vector<Visit> visits = everyWriteOf(plan, {&plan.programs[0]});
  ASSERT_EQ(visits[0].captures.size(), 1u);
  ASSERT_EQ(visits[1].captures.size(), 1u);
  EXPECT_NE(visits[0].captures[0].key, visits[1].captures[0].key);
}

} // namespace
} // namespace nano
