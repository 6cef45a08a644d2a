// What tests of messages expect.
#pragma once

#include <gtest/gtest.h>
#include <string>

/// Expects the text, a std::string, to contain the part.
#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
