// Files of measured times: means by label, and what is said of bad ones.
#include "ir/machine/LabelledTimes.h"

#include "gtest/gtest.h"

#include <string>

using nano::machine::LabelledTimes;

namespace {

TEST(LabelledTimesFile, areMeansByProgramAndLabel) {
  auto times = LabelledTimes::parse(R"({"commands": [
    {"program": "first", "label": "norm", "runs": 4, "ms": 2},
    {"program": "first", "label": "norm", "runs": 4, "ms": 6},
    {"program": "next", "label": "norm", "runs": 8, "ms": 80},
    {"program": "next", "label": "idle", "runs": 0, "ms": 0}]})",
                                    "t.json");
  ASSERT_TRUE(bool(times)) << llvm::toString(times.takeError());
  EXPECT_DOUBLE_EQ(times->find("first", "norm").value(), 1e-3);
  EXPECT_DOUBLE_EQ(times->find("next", "norm").value(), 1e-2);
  EXPECT_DOUBLE_EQ(times->find("last", "norm").value(), 5.5e-3); // of all runs
  EXPECT_FALSE(times->find("next", "idle"));
  EXPECT_FALSE(times->find("next", "other"));
}

TEST(LabelledTimesFile, sayWhatIsWrongWithAFile) {
  auto message = [](const char *text) {
    auto times = LabelledTimes::parse(text, "t.json");
    return times ? std::string() : llvm::toString(times.takeError());
  };
  EXPECT_EQ(message("{").find("t.json: no file of times: "), 0u);
  EXPECT_EQ(message("{}"), "t.json: no file of times: it has no \"commands\"; "
                           "nanorun --times writes one");
  EXPECT_EQ(message(R"({"commands": [1]})"),
            "t.json: no file of times: command 0 is no object; nanorun --times writes one");
  EXPECT_EQ(message(R"({"commands": [{"program": "first"}]})"),
            "t.json: no file of times: command 0 lacks \"program\", \"label\", \"runs\" or \"ms\"; "
            "nanorun --times writes one");
  for (const char *numbers :
       {R"("runs": 1, "ms": -1)", R"("runs": 1, "ms": 1e400)", R"("runs": 1, "ms": 2e12)",
        R"("runs": -1, "ms": 1)", R"("runs": 1.5, "ms": 1)", R"("runs": 5e-324, "ms": 1)"})
    EXPECT_EQ(
        message((std::string(R"({"commands": [{"program": "a", "label": "b", )") + numbers + "}]}")
                    .c_str()),
        "t.json: no file of times: command 0 needs \"runs\", a whole number, and \"ms\", "
        "each from 0 to 1e12; nanorun --times writes one")
        << numbers;
  for (const char *part : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 500000; ++i)
      text += part;
    EXPECT_EQ(message(text.c_str()),
              "t.json: no file of times: it nests more than 256 arrays and objects in each other; "
              "nanorun --times writes one");
  }
}

} // namespace
