// Runs the pipeline stage by stage, with what people want to see of it: IR after every pass,
// seconds, errors by model line, and a reproducer when a pass crashes.
#pragma once

#include "compiler/Pipeline.h"
#include "compiler/Stages.h"
#include "compiler/explore/PassRecords.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace nano {

/// Seconds by phase.
class Timer {
public:
  /// Ends the present phase and begins the next.
  void begin(std::string phase);
  void end();
  double total() const;
  /// "host compiler   0.61 s" a line.
  std::string table() const;
  /// The phases that have ended, with their seconds.
  std::vector<std::pair<std::string, double>> all() const;

private:
  using Clock = std::chrono::steady_clock;
  struct Phase {
    std::string name;
    double seconds;
  };
  std::vector<Phase> phases;
  std::string current;
  Clock::time_point since{};
};

/// Writes one numbered file after every pass.
class IrDump {
public:
  /// Makes the directory; files are numbered from `number` on. Throws ModelError when that is not
  /// possible.
  explicit IrDump(const std::string &directory, int number = 0);

  /// A dump that goes on in a folder of this one.
  IrDump folder(const std::string &name) const;
  /// A dump that goes on in this one's folder, behind the files of another.
  IrDump behind(const IrDump &other) const { return IrDump(directory, other.number); }

  void write(mlir::ModuleOp module, const std::string &name);
  /// Every function of the module of kernels, one file each in kernels/.
  void writeKernels(mlir::ModuleOp module);
  /// A file of kernels/.
  void writeSource(const std::string &name, const std::string &text);

private:
  void writeFile(const std::string &path, llvm::function_ref<void(llvm::raw_ostream &)> print);
  std::string directory;
  int number;
};

/// An error that a pass reported, as users see it: "models/x.cpp:41: …".
class StageError : public std::runtime_error {
public:
  StageError(const std::string &message, bool isBadInput, bool isToBeReproduced = false)
      : std::runtime_error(message), isBadInput(isBadInput), isToBeReproduced(isToBeReproduced) {}
  bool isBadInput;
  bool isToBeReproduced; ///< a failure with Watch::EveryStage
};

/// How closely stages are watched while they run.
enum class Watch {
  /// IR is verified after each stage. Of one that fails no reproducer is kept, and the error says
  /// that it `isToBeReproduced`, by running all again with `EveryPass`. Takes half of the time.
  EveryStage,
  /// IR is verified after each pass; a copy of what a stage begins with becomes a reproducer where
  /// it fails.
  EveryPass
};

/// A program on its way through the stages.
struct StageRun {
  mlir::ModuleOp module;
  PipelineOptions options;
  IrDump *dump = nullptr;    ///< may be null
  std::string runStage = {}; ///< the stage of the run; empty: all of it
};

/// Runs one stage's passes on all programs, which are of one context, side by side on the
/// machine's cores. Throws StageError: bad input when the stage is `model`, else a failure that
/// names the reproducer if there is one, and stage and number of ranks when there are several
/// programs: the smallest that fails, with its own first error. Remarks are told at the end in the
/// order of the numbers of ranks, and one that several programs get is told once, with the stages
/// of the run that it is of where that is not all. Where `records` are wanted, the stage and what
/// its passes did are added to them; IR is compared for the first number of ranks. With `tells`
/// false no remark is told.
void runStage(const Stage &stage, llvm::ArrayRef<StageRun> runs,
              explore::PassRecords *records = nullptr, bool tells = true,
              Watch watch = Watch::EveryPass);

/// Runs `work`, which reports errors to the context; throws StageError with the first one, as a
/// failure of stage `name`.
void runReporting(mlir::MLIRContext *context, const std::string &name,
                  llvm::function_ref<mlir::LogicalResult()> work);

} // namespace nano
