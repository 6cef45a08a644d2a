// Whole models trained by plans, on the CPU and on the emulator of CUDA, and by the interpreter of
// the graph dialect: what both leave is compared.
#pragma once

#include "compiler/PipelineOptions.h"
#include "compiler/StageRunner.h"
#include "compiler/Stages.h"
#include "runtime/Device.h"
#include "runtime/plan/Expr.h"
#include "runtime/plan/Plan.h"
#include "tests/e2e/RandomModel.h"
#include "tests/support/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace nano::test {

/// Tokens and targets of one sequence.
struct Sequence {
  TensorValue tokens, targets;
};

/// What a run leaves: losses of every sequence by step, then values of states by step.
struct Record {
  std::vector<std::vector<double>> losses;
  std::vector<StateMap> gradients, states;
  double validation = 0;
  TensorValue logits;
};

/// Relative distances that count as equal: of a number, and of a tensor in the Euclidean norm
/// (elements whose gradient is nearly zero move by rounding errors, here and in any other program).
struct Tolerance {
  double loss, gradient, state;
};
constexpr Tolerance forF32 = {2e-5, 1e-3, 1e-3}, forBf16 = {1e-2, 5e-2, 2e-2},
                    for8Bit = {2e-2, 1e-1, 5e-2};

/// More than any of these models holds: with so many bytes to save all that can be is made again.
constexpr int64_t allBytes = int64_t(1) << 30;

/// How many times as far from what is wanted as the farthest plain program a plan may lie; see
/// ModelRuns.cpp.
constexpr double plainFactor = 2;

/// Trains one model every way that there is, and holds what comes out against the interpreter.
class ModelRuns : public testing::Test {
protected:
  virtual RandomModel make() const = 0;
  virtual std::string name() const = 0; ///< of the model's file
  virtual uint64_t number() const = 0;  ///< what random data are drawn from
  virtual bool runsOnEmulator() const = 0;
  virtual Tolerance toleranceOf() const {
    return model.has8Bit ? for8Bit : model.hasBf16 ? forBf16 : forF32;
  }

  void SetUp() override;
  void TearDown() override;

  /// Through the whole compiler and the CPU device on every number of ranks that divides the batch,
  /// and on the emulator under two of its schedules where `runsOnEmulator` says so.
  void trainAsTheInterpreterDoes();
  Sequence drawSequence(int64_t length);

  bool isWhole() const { return model.genSeqLen > 0; }
  /// The whole ones verify IR after every pass, the others after every stage, as nanoc does.
  Watch watch() const { return isWhole() ? Watch::EveryPass : Watch::EveryStage; }

  /// Everything up to the plans for the CPU.
  void compile();
  /// The plans of a target by number of ranks, each that divides the batch and is at most `worlds`.
  /// `optimized` become its modules after the compiler's stage of that name, for one rank.
  void compile(PipelineOptions pipeline, int64_t worlds, std::map<int64_t, plan::Plan> &into);
  void compile(const std::vector<mlir::OwningOpRef<mlir::ModuleOp>> &modules,
               const PipelineOptions &pipeline, std::map<int64_t, plan::Plan> &into);
  /// Runs one of the compiler's stages on the program of a stage of the run, or of all.
  void runOn(mlir::ModuleOp module, const Stage &stage, const PipelineOptions &pipeline);
  /// The stage of the run that a step is of.
  size_t stageOf(int64_t step) const { return model.laterSeqLen > 0 && step > 0 ? 1 : 0; }
  /// The optimized program of a role that runs in a step; null when there is none.
  graph::ProgramOp programOfStep(llvm::StringRef role, int64_t step);
  /// What a run of `optimized` should leave: `wanted` and `unrounded`.
  void interpretRuns();
  /// The same for another target, which rounds other numbers where products there have other sizes
  /// (aligned ones fit 8 bits that others do not); without any rounding it is the same function.
  void interpretAnew();
  /// Two steps by the interpreter.
  void interpretRun(Arithmetic arithmetic, Record &record);
  /// The same, one validation and one generation by a plan on `world` ranks of its target's device,
  /// or of the one named.
  Record runPlan(const plan::Plan &plan, int world, const std::string &device = "");
  Status runRank(const plan::Plan &plan, Communicator &communicator,
                 const DeviceOptions &deviceOptions, Record &record);
  /// The plan for CUDA on the emulator, on one rank and on as many as the batch allows: as the
  /// interpreter says, and the same bits whatever order its blocks and warps run in.
  void compareEmulated();
  void compare(const Record &found, const std::string &who, bool hasGradients);
  void expectSameBits(const Record &found, const Record &expected);
  void checkFiniteDifferences();

  mlir::FailureOr<double> interpretedLoss(graph::ProgramOp program, const Sequence &sequence,
                                          StateMap &states);
  /// The program of one rank for a micro-batch: see plan::StepPrograms.
  llvm::StringRef roleOf(int64_t step, int64_t microBatch);
  void setScalars(StateMap &states, int64_t step, int64_t sequence = 0) const;
  plan::Variables variables(int64_t step, int64_t sequence) const;

  /// One for all models of the process: dialects and threads are set up once.
  static mlir::MLIRContext &sharedContext();

  mlir::MLIRContext &context = sharedContext();
  RandomModel model;
  std::string path;
  std::mt19937_64 random;
  std::vector<Sequence> batch;
  Sequence held, prompt;
  mlir::OwningOpRef<mlir::ModuleOp> original;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> originals, optimized; ///< by stage of the run
  std::map<int64_t, plan::Plan> plans;                                 ///< by number of ranks
  StateMap initial;
  /// Calls `run` with `options` set to the arithmetic of a plain program: 0 rounds to nearest, the
  /// others at random.
  void asPlainProgram(int number, llvm::function_ref<void()> run);
  /// `found` as far from what is wanted as `limit` allows or, if not, as plain programs make it,
  /// which lie as far from it as `distanceOfPlain` says.
  void expectNear(double found, double limit,
                  llvm::function_ref<double(int number)> distanceOfPlain, const std::string &what);
  /// Two steps by a plain program; made when a tolerance asks for them.
  const Record &plainRun(int number);

  Record wanted;             ///< by the interpreter, rounding where the model says so
  Record unrounded;          ///< the same without any rounding
  std::vector<Record> plain; ///< by plainRun, as far as it was asked
  /// Where plain programs were asked: the most times that a value lay as far off as theirs.
  std::optional<double> asPlain;
  /// The kernels of whole models are compiled as nanoc does it, those of the others without LLVM's
  /// optimizations. Of some whole ones both ways, which must agree to the bit: for one rank, the
  /// second way.
  std::string unoptimizedCode;
  Options options;
  Tolerance tolerance = forF32;
};

} // namespace nano::test
