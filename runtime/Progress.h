// What a person sees of a run: one line that renews itself on a terminal, plain lines elsewhere.
#pragma once

#include "runtime/Log.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>

namespace nano {

/// Lines for a person. On a terminal, one line at the bottom can be renewed; other lines go above
/// it.
class Console {
public:
  /// Writes to `file`; `live`: it is a terminal (see `isTerminal`).
  Console(std::FILE *file, bool live) : file(file), live(live) {}
  ~Console() { endLive(); }
  Console(const Console &) = delete;
  Console &operator=(const Console &) = delete;

  /// Whether `file` is a terminal that can renew a line.
  static bool isTerminal(std::FILE *file);

  bool isLive() const { return live; }
  /// A line of its own.
  void say(const std::string &line);
  /// Renews the live line, cut to the terminal's width. Only on a terminal.
  void renew(const std::string &line);
  /// Leaves the live line as it stands and goes to the next.
  void endLive();

private:
  std::FILE *file;
  bool live;
  bool drawn = false; ///< the cursor is on a live line
};

/// Turns steps into lines: step, time left, loss, its trend (the change in so many steps, by the
/// line through the last ones), learning rate, time a step, tokens a second, joules a step where
/// devices count them. The time left comes early because a narrow terminal cuts a line's end.
class Progress {
public:
  /// `steps`: the step at which the run ends.
  Progress(Console &console, int64_t steps) : console(console), steps(steps) {}

  /// Shows a finished step. Where lines are plain, one a second, and the first and the last.
  void step(const StepFacts &facts);
  /// Lines have the joules of a step from now on.
  void energy(const EnergyFacts &facts) { joules = facts.joulesOfStep(); }
  /// What lines end with from now on.
  void show(std::string text) { shownReports = std::move(text); }
  /// The line for a step, from the steps seen so far (this one included).
  std::string line(const StepFacts &facts) const;

private:
  Console &console;
  int64_t steps;
  std::deque<StepFacts> recent; ///< the last `window` steps
  std::chrono::steady_clock::time_point shown;
  std::string shownReports;
  double joules = 0; ///< of a step; 0 where they are not known
  bool showedAny = false;
  bool warm = false; ///< the first step has left `recent`
};

/// "4.2s", "3m05s", "2h07m".
std::string durationText(double seconds);
/// Three digits and a unit: "950", "53.1k", "1.21M".
std::string countText(double count);

} // namespace nano
