// How long the parts of something take that is to be quick, such as a start.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// Parts by name, each with its milliseconds, in the order in which they first ended.
class Phases {
public:
  using Clock = std::chrono::steady_clock;
  using Times = std::vector<std::pair<std::string, double>>;

  /// The first part begins at `begin`.
  explicit Phases(Clock::time_point begin = Clock::now()) : last(begin) {}

  /// Ends the part that began when the one before it ended.
  void end(const std::string &name) {
    const Clock::time_point now = Clock::now();
    add(name, now - std::exchange(last, now));
  }
  /// Counts time to a part that does not come in one piece, or beside others.
  void add(const std::string &name, Clock::duration time) {
    const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
    auto known = std::find_if(times.begin(), times.end(),
                              [&](const auto &each) { return each.first == name; });
    if (known == times.end())
      times.emplace_back(name, milliseconds);
    else
      known->second += milliseconds;
  }
  const Times &milliseconds() const { return times; }

private:
  Clock::time_point last;
  Times times;
};

} // namespace nano
