// Lines for a person.
#include "runtime/Progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace nano {

namespace {

/// Steps that the trend and the average time look back on: a trend over 20.
constexpr size_t window = 21;

/// The change of the loss over the steps seen, by the least-squares line through them.
double trendOf(const std::deque<StepFacts> &recent) {
  double n = double(recent.size()), meanX = (n - 1) / 2, meanY = 0, xy = 0, xx = 0;
  for (const StepFacts &facts : recent)
    meanY += facts.loss / n;
  for (size_t i = 0; i < recent.size(); ++i) {
    xy += (double(i) - meanX) * (recent[i].loss - meanY);
    xx += (double(i) - meanX) * (double(i) - meanX);
  }
  return xx > 0 ? xy / xx * (n - 1) : 0;
}

} // namespace

bool Console::isTerminal(std::FILE *file) {
  const char *terminal = std::getenv("TERM");
  return ::isatty(::fileno(file)) && terminal && std::strcmp(terminal, "dumb") != 0;
}

void Console::say(const std::string &line) {
  fmt::print(file, "{}{}\n", drawn ? "\r\033[K" : "", line);
  drawn = false;
  std::fflush(file);
}

void Console::renew(const std::string &line) {
  if (!live)
    return;
  struct winsize size = {};
  size_t columns = 80;
  if (::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    columns = size.ws_col;
  fmt::print(file, "\r\033[K{}", line.substr(0, columns - 1));
  drawn = true;
  std::fflush(file);
}

void Console::endLive() {
  if (drawn)
    fmt::print(file, "\n");
  drawn = false;
  std::fflush(file);
}

std::string Progress::line(const StepFacts &facts) const {
  double milliseconds = 0;
  for (const StepFacts &step : recent)
    milliseconds += step.milliseconds / double(recent.size());
  double perSecond = milliseconds > 0 ? double(facts.tokens) / milliseconds * 1000 : 0;
  double left = perSecond > 0 ? double(facts.tokensLeft) / perSecond : 0;
  int digits = milliseconds < 10 ? 2 : milliseconds < 100 ? 1 : 0;
  std::string remaining = facts.step < steps ? durationText(left) + " left" : "done";
  const int joulesDigits = joules < 10 ? 2 : joules < 100 ? 1 : 0;
  const std::string energy = joules > 0 ? fmt::format("  {:.{}f} J", joules, joulesDigits) : "";
  return fmt::format("step {}/{} {}  loss {:.4f} ({:+.4f}/{})  lr {:.3g}  {:.{}f} ms  {} tok/s{}{}",
                     facts.step, steps, remaining, facts.loss, trendOf(recent),
                     recent.size() - std::min<size_t>(recent.size(), 1), facts.learningRate,
                     milliseconds, digits, countText(perSecond), energy, shownReports);
}

void Progress::step(const StepFacts &facts) {
  if (!recent.empty() && recent.back().stage != facts.stage)
    recent.clear(); // other sizes, another pace
  recent.push_back(facts);
  // The first step of a run pays for cold caches and late pages; it does not count as soon as there
  // is another.
  if (recent.size() > window || (recent.size() == 2 && !warm)) {
    recent.pop_front();
    warm = true;
  }
  auto now = std::chrono::steady_clock::now();
  bool last = facts.step >= steps;
  if (showedAny && !last &&
      now - shown <
          (console.isLive() ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000)))
    return;
  shown = now;
  showedAny = true;
  if (console.isLive() && !last)
    console.renew(line(facts));
  else
    console.say(line(facts));
}

std::string durationText(double seconds) {
  if (seconds < 60)
    return fmt::format("{:.1f}s", std::max(seconds, 0.0));
  auto whole = int64_t(std::llround(seconds));
  if (whole < 3600)
    return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string countText(double count) {
  const char *unit = "";
  for (const char *next : {"k", "M", "G"}) {
    if (count < 999.5)
      break;
    count /= 1000;
    unit = next;
  }
  int digits = *unit == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", count, digits, unit);
}

} // namespace nano
