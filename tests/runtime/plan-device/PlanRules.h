// Plans that break a rule are refused with what it says.
#pragma once

#include "runtime/plan/PlanFile.h"

#include <functional>
#include <gtest/gtest.h>
#include <span>

namespace nano::test {

/// A change to the full plan, and a part of the message that it must lead to.
struct Rule {
  const char *message;
  std::function<void(plan::Plan &)> breakIt;
};

/// Each rule's change to `good` makes a plan that reading refuses with the rule's message.
inline void expectRefused(const plan::Plan &good, std::span<const Rule> rules) {
  Status status = plan::validate(good);
  ASSERT_TRUE(status) << status.error().message;
  for (const Rule &rule : rules) {
    plan::Plan changed = good;
    rule.breakIt(changed);
    Result<plan::Plan> result = plan::parse(plan::serialize(changed), "r.plan");
    ASSERT_FALSE(result) << rule.message;
    EXPECT_EQ(result.error().exitStatus(), 2);
    EXPECT_EQ(result.error().message.rfind("r.plan: invalid plan: ", 0), 0u)
        << result.error().message;
    EXPECT_NE(result.error().message.find(rule.message), std::string::npos)
        << result.error().message << "\n  for: " << rule.message;
    EXPECT_NE(result.error().message.find("; recompile"), std::string::npos);
  }
}

} // namespace nano::test
