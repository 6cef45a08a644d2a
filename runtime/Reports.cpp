// Reads, combines and shows what programs report.
#include "runtime/Reports.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <limits>
#include <numeric>
#include <utility>

namespace nano {

using Kind = plan::Report::Kind;

double ReportFacts::elements() const { return std::accumulate(counts.begin(), counts.end(), 0.0); }

std::string shortText(const ReportFacts &facts) {
  if (facts.report->kind == Kind::Histogram)
    return fmt::format("{:.3g}..{:.3g}", facts.least, facts.most);
  return fmt::format("{:.3g}", facts.value);
}

//===- Shown ---------------------------------------------------------------------===//

Result<ShownReports> ShownReports::create(const plan::Plan &plan,
                                          const std::vector<std::string> &names) {
  std::vector<const plan::Report *> reports; // of all stages, each name once
  for (const plan::Training *stage : plan::stagesOf(plan))
    for (const plan::Report &report : stage->reports)
      if (std::none_of(reports.begin(), reports.end(),
                       [&](const plan::Report *known) { return known->name == report.name; }))
        reports.push_back(&report);
  ShownReports result;
  for (const std::string &name : names) {
    const size_t before = result.shown.size();
    bool isKnown = false;
    for (const plan::Report *report : reports)
      if (::fnmatch(name.c_str(), report->name.c_str(), 0) == 0) {
        isKnown = true;
        if (std::none_of(result.shown.begin(), result.shown.begin() + std::ptrdiff_t(before),
                         [&](const Shown &each) { return each.name == report->name; }))
          result.shown.push_back({report->name, ""});
      }
    if (isKnown)
      continue;
    if (reports.empty())
      return badInput(fmt::format("--show {}: the plan reports nothing; compile it with nanoc "
                                  "compile --reports {}",
                                  name, name));
    std::vector<std::string> known;
    for (const plan::Report *report : reports)
      known.push_back(report->name);
    return badInput(fmt::format("--show {}: the plan has no such report; it has {}", name,
                                fmt::join(known, ", ")));
  }
  return result;
}

std::string ShownReports::text(const std::vector<ReportFacts> &facts) {
  std::string text;
  for (Shown &each : shown) {
    for (const ReportFacts &fact : facts)
      if (fact.report->name == each.name)
        each.value = shortText(fact);
    if (!each.value.empty())
      text += fmt::format("  {} {}", each.name, each.value);
  }
  return text;
}

//===- Reader --------------------------------------------------------------------===//

namespace {

/// Numbers of one report that come together. `count`: of how many programs.
struct Combination {
  const plan::Report &report;
  ReportFacts facts;
  size_t count = 0;

  explicit Combination(const plan::Report &report) : report(report) {
    facts.report = &report;
    facts.least = std::numeric_limits<double>::infinity();
    facts.most = -facts.least;
    if (report.kind == Kind::Histogram)
      facts.counts.assign(report.edges.size() + 1, 0);
  }

  void add(const float *numbers) {
    ++count;
    switch (report.kind) {
    case Kind::Mean:
    case Kind::Norm:
      facts.value += numbers[0];
      return;
    case Kind::Max:
      // A number that is not one stays.
      if (!(numbers[0] <= facts.value))
        facts.value = std::isnan(facts.value) ? facts.value : double(numbers[0]);
      return;
    case Kind::Histogram:
      break;
    }
    for (double &bin : facts.counts)
      bin += *numbers++;
    facts.least = std::min(facts.least, double(numbers[0]));
    facts.most = std::max(facts.most, double(numbers[1]));
    facts.sum += numbers[2];
    facts.squares += numbers[3];
  }

  ReportFacts finish() && {
    if (report.kind == Kind::Mean)
      facts.value /= double(count);
    else if (report.kind == Kind::Norm)
      facts.value = std::sqrt(facts.value);
    return std::move(facts);
  }
};

} // namespace

ReportReader::Group ReportReader::groupOf(const plan::Training &training, bool eachStep) {
  Group group;
  uint64_t end = 0;
  for (const plan::Report &report : training.reports) {
    if (report.eachStep != eachStep)
      continue;
    const uint64_t last = report.offset + numbersOf(report) * sizeof(float);
    group.offset = group.list.empty() ? report.offset : std::min(group.offset, report.offset);
    end = std::max(end, last);
    group.buffer = report.buffer;
    group.list.push_back(&report);
  }
  group.count = size_t(end - group.offset) / sizeof(float);
  return group;
}

ReportReader::ReportReader(const plan::Training &training)
    : ofMicroBatches(groupOf(training, false)), ofSteps(groupOf(training, true)),
      stepNumbers(ofSteps.count) {}

void ReportReader::expect(size_t sequences) {
  sequenceNumbers.assign(sequences * ofMicroBatches.count, 0);
}

Status ReportReader::readSequence(Device &device, size_t sequence) {
  if (!hasMicroBatches())
    return ok();
  const size_t count = ofMicroBatches.count;
  return device.readLater(ofMicroBatches.buffer, ofMicroBatches.offset,
                          &sequenceNumbers[sequence * count], count * sizeof(float));
}

Status ReportReader::readStep(Device &device) {
  if (!hasSteps())
    return ok();
  return device.readLater(ofSteps.buffer, ofSteps.offset, stepNumbers.data(),
                          ofSteps.count * sizeof(float));
}

std::vector<ReportFacts> ReportReader::sequenceFacts() const {
  std::vector<ReportFacts> all;
  const size_t count = ofMicroBatches.count;
  for (const plan::Report *report : ofMicroBatches.list) {
    Combination combination(*report);
    for (size_t begin = ofMicroBatches.placeOf(*report); begin < sequenceNumbers.size();
         begin += count)
      combination.add(&sequenceNumbers[begin]);
    all.push_back(std::move(combination).finish());
  }
  return all;
}

std::vector<ReportFacts> ReportReader::stepFacts(int64_t phase) const {
  std::vector<ReportFacts> all;
  for (const plan::Report *report : ofSteps.list) {
    const std::vector<int64_t> &phases = report->phases;
    if (!phases.empty() && std::find(phases.begin(), phases.end(), phase) == phases.end())
      continue;
    Combination combination(*report);
    combination.add(&stepNumbers[ofSteps.placeOf(*report)]);
    all.push_back(std::move(combination).finish());
  }
  return all;
}

} // namespace nano
