// The headers that need longest of those without MLIR; precompiled.
#pragma once

#include <chrono>
#include <deque>
#include <fmt/format.h>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
