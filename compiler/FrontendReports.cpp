// Reports of a run: what a model file asks to see, and what of it a compilation puts into the
// program.
#include "compiler/Recorder.h"

#include "ir/graph/Shapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace nano::frontend {

void report(const Name &name, const At &x, Report kind) {
  Recorder::current().report(name.text, x, kind);
}

namespace {

/// What --reports takes beside the model's own names.
constexpr StringLiteral everything = "all", ofUpdates = "norms";

bool isOwn(StringRef name) {
  return name == everything || name == ofUpdates || name.starts_with("grad_norm/") ||
         name.starts_with("param_norm/") || name.starts_with("update_ratio/");
}

/// Whether a word of --reports asks for the report of that name.
bool asksFor(const std::string &word, StringRef name) {
  if (word == everything)
    return true;
  llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(word);
  if (pattern)
    return pattern->match(name);
  llvm::consumeError(pattern.takeError());
  return word == name;
}

graph::ReportKind kindOf(Report kind) {
  switch (kind) {
  case Report::mean:
    return graph::ReportKind::mean;
  case Report::norm:
    return graph::ReportKind::norm;
  case Report::max:
    return graph::ReportKind::max;
  case Report::histogram:
    return graph::ReportKind::histogram;
  }
  return graph::ReportKind::mean;
}

} // namespace

void Recorder::report(const std::string &name, const At &x, Report kind) {
  const Line at = x.at;
  if (name.empty())
    fail(at, "report: the name is empty");
  const std::string what = fmt::format("report '{}'", name);
  if (isOwn(name))
    fail(at, fmt::format("{}: the name is the compiler's own; choose another", what));
  if (update)
    fail(at,
         fmt::format("{}: inside an optimizer's equations; --reports norms reports what updates "
                     "do",
                     what));
  if (outerProgram != 0)
    fail(at,
         fmt::format("{}: inside a score function; report what attention takes or gives", what));
  if (program == 0)
    fail(at, fmt::format("{}: no program computes the tensor here; call report inside train, where "
                         "it is computed",
                         what));
  const RankedTensorType type = typeOf(x.tensor, at, what.c_str());
  if (type.getNumElements() == 0)
    fail(at, fmt::format("{}: {} has no elements", what, text(type.getShape())));
  if (!isReporting)
    return; // a run logs steps, not validations and samples
  auto [before, isNew] = reportLines.try_emplace(name, at);
  if (!isNew)
    fail(at, fmt::format("{}: the name is taken by line {}; give each report its own, as in "
                         "{{\"acts.\", i}}",
                         what, before->second.line));
  const graph::ReportKind graphKind = kindOf(kind);
  if (llvm::none_of(reports, [&](const ReportRecord &each) { return each.name == name; }))
    reports.push_back({name, graph::stringifyReportKind(graphKind).str(),
                       graph::shapeText(type.getShape()), nameOf(dtypeOf(type.getElementType()))});
  // One that nobody asked for leaves no trace, not even the first use of a parameter.
  if (llvm::any_of(input.reports, [&](const std::string &word) { return asksFor(word, name); }))
    graph::ReportOp::create(builder, location(at), name, graphKind,
                            value(x.tensor, at, what.c_str()), graph::RankSetAttr());
}

bool Recorder::finishReports() const {
  bool norms = false;
  for (const std::string &word : input.reports) {
    if (word == everything || word == ofUpdates) {
      norms = true;
      continue;
    }
    if (llvm::any_of(reports, [&](const ReportRecord &each) { return asksFor(word, each.name); }))
      continue;
    std::vector<std::string> known;
    for (const ReportRecord &each : reports)
      known.push_back(each.name);
    throw ModelError(
        fmt::format("--reports {}: {} has no such report; there are {}{}norms, and all", word,
                    input.name, fmt::join(known, ", "), known.empty() ? "" : ", "));
  }
  return norms;
}

} // namespace nano::frontend
