// Runs a model's body and returns the graph that it describes.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace nano::frontend {

struct Defaults;

/// A mistake in a model file or in a value given for it: one line, `models/x.cpp:41: matmul: …`.
class ModelError : public std::runtime_error {
public:
  explicit ModelError(const std::string &message, unsigned column = 0)
      : std::runtime_error(message), column(column) {}
  unsigned column; ///< as Line::here() finds it; 0: unknown
};

/// Static FP8 scales from a file.
struct ScalesFile {
  std::string path;
  /// Of input, weight and gradient, by the weight's name.
  std::map<std::string, std::array<double, 3>> scales;
};

/// What a trace does about kernels of the model's own.
struct KernelTrace {
  std::string target; ///< "cpu" or "cuda": what kernels replace functions for; empty: neither
  /// Instead of the model, one whose training program measures what `TracedModel::checks` lists, as
  /// reports of their names.
  bool recordsChecks = false;
  /// Checks, by name, whose kernels replace nothing, or which are not measured.
  std::set<std::string> refused;
};

struct TraceInput {
  std::string name;                   ///< of the model
  std::string file;                   ///< the model file, for messages
  std::string folder;                 ///< where paths in it begin; empty: that of `file`
  void (*body)() = nullptr;           ///< what NANO_MODEL defines
  const Defaults *defaults = nullptr; ///< what NANO_DEFAULTS defines, if anything
  std::vector<std::pair<std::string, std::string>> overrides; ///< -D name=value
  std::optional<ScalesFile> scales;                           ///< --fp8-scales
  std::vector<std::string> reports; ///< --reports: names with wildcards, "norms", "all"
  KernelTrace kernels;
};

struct HyperparameterRecord {
  std::string name, value, defaultValue, about;
  bool overridden = false;
};

struct ParameterRecord {
  std::string name, shape, type, init, optimizer;
};

/// A report of the training program, whether asked for or not.
struct ReportRecord {
  std::string name, kind, shape, type;
};

/// A hyperparameter that says how many tokens a micro-batch has, and that may be chosen.
struct MicroBatchRecord {
  std::string hyper;
  int64_t row = 1;      ///< it is a multiple of so many tokens
  int64_t tokens = 0;   ///< its value
  bool isGiven = false; ///< by -D
};

/// Something that must hold of a kernel of the model's own on random inputs: a number that is at
/// most `tolerance`.
struct KernelCheck {
  std::string name;  ///< of the report; the same in every trace of one model
  std::string line;  ///< of the first use, "models/x.cpp:41"
  std::string about; ///< "kernel 'fast_norm' in place of norm, of f32 [64, 768]"
  double tolerance = 0;
  uint32_t kernel = 0; ///< its number in the model
  /// Against the function that it replaces; else its derivative against finite differences, or,
  /// without one, that it runs.
  bool isReplacement = false;
};

struct TracedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<HyperparameterRecord> hyperparameters;
  std::vector<ParameterRecord> parameters;
  std::vector<ReportRecord> reports;
  std::vector<KernelCheck> checks = {};
  /// What is worth telling of replacements, a line each.
  std::vector<std::string> remarks = {};
  /// The same of kernels that no check can be made of.
  std::vector<std::string> unchecked = {};
  std::optional<MicroBatchRecord> microBatch = {};
};

/// Runs the body. Throws ModelError; nothing else leaves it, whatever the body throws. `context`
/// has the dialects loaded that registerDialects inserts.
TracedModel traceModel(mlir::MLIRContext &context, const TraceInput &input);

} // namespace nano::frontend
