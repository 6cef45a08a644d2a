// What tests without MLIR need besides; precompiled.
#pragma once

#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>
