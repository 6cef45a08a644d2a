// `nanoc params` and `nanoc stages`: tables of a model's hyperparameters, parameters and reports,
// and of the pipeline's stages.
#include "compiler/Driver.h"

#include "compiler/Stages.h"
#include "compiler/Tracing.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace nano {

using frontend::HyperparameterRecord;
using frontend::ParameterRecord;
using frontend::TracedModel;

namespace {

/// Columns of text, each as wide as its widest cell. Width counts characters, not bytes.
std::string table(const std::vector<std::vector<std::string>> &rows) {
  auto width = [](const std::string &text) {
    return llvm::count_if(text,
                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  };
  std::vector<std::ptrdiff_t> widths;
  for (const auto &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max<std::ptrdiff_t>(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto &row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      line +=
          " " + row[i] + std::string(i + 1 < row.size() ? widths[i] - width(row[i]) + 1 : 0, ' ');
    text += StringRef(line).rtrim().str() + "\n";
  }
  return text;
}

} // namespace

int listParameters(const std::string &path, const Overrides &overrides, bool isVerbose) {
  return guarded([&] {
    const ModelFile file(path, isVerbose);
    MLIRContext context;
    loadDialects(context);
    const TracedModel model = trace(context, file, overrides);
    std::vector<std::vector<std::string>> rows{{"hyperparameter", "default", "meaning"}};
    const bool anyOverridden = llvm::any_of(
        model.hyperparameters, [](const HyperparameterRecord &r) { return r.overridden; });
    if (anyOverridden)
      rows[0].insert(rows[0].begin() + 2, "value");
    for (const HyperparameterRecord &record : model.hyperparameters) {
      rows.push_back({record.name, record.defaultValue, record.about});
      if (anyOverridden)
        rows.back().insert(rows.back().begin() + 2, record.value);
    }
    std::vector<std::vector<std::string>> parameters{
        {"parameter", "shape", "type", "initial value", "optimizer"}};
    for (const ParameterRecord &record : model.parameters)
      parameters.push_back({record.name, record.shape, record.type, record.init, record.optimizer});
    fmt::print("{}: hyperparameters\n{}\n{}: parameters\n{}", file.input().name, table(rows),
               file.input().name, table(parameters));
    if (model.reports.empty())
      return;
    std::vector<std::vector<std::string>> reports{{"report", "kind", "shape", "type"}};
    for (const frontend::ReportRecord &record : model.reports)
      reports.push_back({record.name, record.kind, record.shape, record.type});
    fmt::print("\n{}: reports, for --reports\n{}", file.input().name, table(reports));
  });
}

int listStages() {
  std::vector<std::vector<std::string>> rows;
  for (const Stage &stage : stages())
    rows.push_back({stage.name.str(), stage.summary.str()});
  fmt::print("{}", table(rows));
  return Done;
}

} // namespace nano
