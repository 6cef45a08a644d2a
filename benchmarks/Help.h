// The command line of benchmarks that take no options.
#pragma once

#include <cstdio>
#include <cstring>
#include <optional>

namespace nano {

/// The exit status with which a benchmark without options ends at once: 0 after `--help` (or -h),
/// whose text is `help`; 2 after a line about anything else; none when there are no arguments.
inline std::optional<int> helpOnly(int argc, char **argv, const char *help) {
  if (argc == 1)
    return std::nullopt;
  if (argc == 2 && (!std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h"))) {
    std::puts(help);
    return 0;
  }
  std::fprintf(stderr, "%s: unknown option %s; it takes none but --help\n", argv[0],
               argv[argc > 2 && !std::strcmp(argv[1], "--help") ? 2 : 1]);
  return 2;
}

} // namespace nano
