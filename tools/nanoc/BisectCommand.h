// The options of `nanoc bisect`.
#pragma once

#include "compiler/bisect/Bisect.h"

#include <CLI/CLI.hpp>

/// Adds the command, which fills `options`; -D is the caller's.
CLI::App *addBisect(CLI::App &app, nano::bisect::Options &options);
