// Counters of energy, and what ranks tell each other of them.
#include "runtime/Energy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace nano {
namespace {

/// What a rank that counts nothing has ready: as many steps as a round can tell of.
constexpr float everything = 1 << 20;

} // namespace

void EnergyRecord::see(double seconds, double joules) {
  latest = {seconds, joules};
  if (changes.empty() || changes.back().joules != joules)
    changes.push_back(*latest);
}

void EnergyRecord::settle() {
  if (latest && latest->seconds > changes.back().seconds)
    changes.push_back(*latest);
  isSettled = true;
}

void EnergyRecord::end(double seconds) {
  spans.push_back({last, seconds});
  last = seconds;
}

size_t EnergyRecord::ready(size_t skip) const {
  size_t known = 0;
  double seconds = 0;
  for (; known < spans.size() && !changes.empty() && spans[known].end <= changes.back().seconds;
       ++known)
    if (known >= skip)
      seconds += spans[known].end - spans[known].begin;
  return known <= skip || (seconds < window && !isSettled) ? 0 : known - skip;
}

double EnergyRecord::joulesAt(double seconds) const {
  auto after = std::find_if(changes.begin(), changes.end(),
                            [&](const Look &look) { return look.seconds >= seconds; });
  if (after == changes.begin() || after == changes.end())
    return after == changes.end() ? changes.back().joules : after->joules;
  const Look &low = *(after - 1), &high = *after;
  return low.joules +
         (high.joules - low.joules) * (seconds - low.seconds) / (high.seconds - low.seconds);
}

EnergyFacts EnergyRecord::take(size_t count) {
  EnergyFacts facts;
  for (size_t i = 0; i < count; ++i) {
    const Span &span = spans.front();
    facts.joules += joulesAt(span.end) - joulesAt(span.begin);
    facts.seconds += span.end - span.begin;
    // What comes begins no earlier: of the changes before it the last one is enough.
    while (changes.size() > 1 && changes[1].seconds <= span.end)
      changes.pop_front();
    spans.pop_front();
  }
  return facts;
}

EnergyMeter::EnergyMeter(EnergyCounter counter, EnergyPace pace)
    : counter(std::move(counter)), pace(pace), record(pace.window) {
  look();
  thread = std::thread([this] { run(); });
}

EnergyMeter::~EnergyMeter() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
  }
  isOver.notify_all();
  thread.join();
}

void EnergyMeter::look() {
  const double begin = counter.now();
  const std::optional<double> joules = counter.joules();
  const double end = counter.now();
  const std::lock_guard<std::mutex> lock(mutex);
  // A look in which this thread was kept waiting does not say when the counter stood so.
  if (joules && end - begin < pace.look / 4)
    record.see((begin + end) / 2, *joules);
  hasSeen.notify_all();
}

void EnergyMeter::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (
      !isOver.wait_for(lock, std::chrono::duration<double>(pace.look), [&] { return isEnding; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void EnergyMeter::begin() {
  const std::lock_guard<std::mutex> lock(mutex);
  record.begin(counter.now());
}

void EnergyMeter::end() {
  const std::lock_guard<std::mutex> lock(mutex);
  record.end(counter.now());
}

size_t EnergyMeter::ready(size_t skip) {
  const std::lock_guard<std::mutex> lock(mutex);
  return record.ready(skip);
}

EnergyFacts EnergyMeter::take(size_t count) {
  const std::lock_guard<std::mutex> lock(mutex);
  return record.take(count);
}

void EnergyMeter::settle() {
  std::unique_lock<std::mutex> lock(mutex);
  hasSeen.wait_for(lock, std::chrono::milliseconds(250), [&] { return record.isAhead(); });
  lock.unlock();
  look();
  lock.lock();
  record.settle();
}

Result<RankEnergy> RankEnergy::start(const Device &device, Communicator &communicator, int64_t step,
                                     EnergyPace pace) {
  RankEnergy energy;
  energy.rank = communicator.rank();
  energy.world = communicator.world();
  energy.told = energy.agreed = step;
  EnergyCounter counter = device.energy();
  // "+" and what is counted, or "-" and why nothing is.
  const std::string mine = counter.joules ? "+" + counter.owner : "-" + counter.name;
  std::vector<std::string> all = {mine};
  if (energy.world > 1) {
    Result<std::vector<std::string>> told = communicator.exchange(mine, "counters of energy");
    if (!told)
      return told.error();
    all = std::move(*told);
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].starts_with("-")) {
      energy.from.missing =
          energy.world == 1 ? all[i].substr(1) : fmt::format("rank {}: {}", i, all[i].substr(1));
      return energy;
    }
  const auto place = std::find(all.begin(), all.end(), mine) - all.begin();
  energy.from.counter = counter.name;
  std::sort(all.begin(), all.end());
  energy.from.devices = int(std::unique(all.begin(), all.end()) - all.begin());
  if (place == energy.rank)
    energy.meter = std::make_unique<EnergyMeter>(std::move(counter), pace);
  return energy;
}

void RankEnergy::begin() {
  if (meter)
    meter->begin();
}

void RankEnergy::end() {
  if (meter)
    meter->end();
}

void RankEnergy::offer(std::vector<float> &values) {
  if (!isCounting())
    return;
  const auto due = size_t(agreed - told);
  // The least that a rank has ready is the largest of the negative numbers.
  values.push_back(meter ? -std::min(everything, float(meter->ready(due))) : -everything);
  const EnergyFacts mine = meter && due ? meter->take(due) : EnergyFacts();
  values.push_back(float(mine.seconds));
  for (int each = 0; each < world; ++each)
    values.push_back(each == rank ? float(mine.joules) : 0.0F);
}

std::optional<EnergyFacts> RankEnergy::accept(const float *values) {
  if (!isCounting())
    return std::nullopt;
  std::optional<EnergyFacts> facts;
  if (agreed > told) {
    facts = {told + 1, agreed, 0, double(values[1])};
    for (int each = 0; each < world; ++each)
      facts->joules += double(values[2 + each]);
  }
  told = agreed;
  agreed += std::llround(-values[0]);
  return facts;
}

Result<std::vector<EnergyFacts>> RankEnergy::finish(Communicator &communicator) {
  std::vector<EnergyFacts> all;
  if (!isCounting())
    return all;
  if (meter)
    meter->settle();
  // What was agreed on, then all that is left: agreed on in the first, told in the second.
  for (int round = 0; round < 2; ++round) {
    std::vector<float> values;
    offer(values);
    if (Status status =
            communicator.allReduce(values.data(), int64_t(values.size()), plan::DType::F32,
                                   Combine::Max, plan::Ranks::All, "joules");
        !status)
      return status.error();
    if (std::optional<EnergyFacts> facts = accept(values.data()))
      all.push_back(*facts);
  }
  return all;
}

} // namespace nano
