// What happens when a pass fails: the error names the model's line, and a reproducer is kept.
#include "compiler/StageRunner.h"

#include "compiler/TraceModel.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace nano;

namespace {

/// A remark on every module; an error on those with the attribute "test.bad".
struct PickyPass : mlir::PassWrapper<PickyPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PickyPass)
  llvm::StringRef getArgument() const override { return "picky"; }
  void runOnOperation() override {
    mlir::Location line = mlir::FileLineColLoc::get(&getContext(), "models/x.cpp", 7, 0);
    mlir::emitRemark(line) << "seen";
    getOperation()->setAttr("test.seen", mlir::UnitAttr::get(&getContext()));
    if (!getOperation()->hasAttr("test.bad"))
      return;
    mlir::emitError(line) << "is bad";
    signalPassFailure();
  }
};

/// Two remarks on every module that name its attribute "test.world", the later the smaller it is;
/// then an error that names it, on those with the attribute "test.bad".
struct WorldPass : mlir::PassWrapper<WorldPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WorldPass)
  llvm::StringRef getArgument() const override { return "world"; }
  void runOnOperation() override {
    const int64_t world = getOperation()->getAttrOfType<mlir::IntegerAttr>("test.world").getInt();
    mlir::Location line = mlir::FileLineColLoc::get(&getContext(), "models/x.cpp", 7, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(4 / world));
    mlir::emitRemark(line) << "first of " << world;
    mlir::emitRemark(line) << "of any";
    mlir::emitRemark(line) << "second of " << world;
    if (!getOperation()->hasAttr("test.bad"))
      return;
    mlir::emitError(line) << "bad for " << world;
    signalPassFailure();
  }
};

/// Reports two errors, the first at a model line inside a fused location.
struct FailingPass : mlir::PassWrapper<FailingPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FailingPass)
  llvm::StringRef getArgument() const override { return "failing"; }
  void runOnOperation() override {
    mlir::Location line = mlir::FileLineColLoc::get(&getContext(), "models/x.cpp", 41, 0);
    mlir::emitError(mlir::FusedLoc::get(
        &getContext(), {mlir::NameLoc::get(mlir::StringAttr::get(&getContext(), "sum"), line)}))
        << "does not fit";
    mlir::emitError(line) << "and this is a consequence";
    signalPassFailure();
  }
};

/// Leaves a module with two symbols of one name, which no verifier takes.
struct BreakingPass : mlir::PassWrapper<BreakingPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BreakingPass)
  llvm::StringRef getArgument() const override { return "breaking"; }
  void runOnOperation() override {
    mlir::Location line = mlir::FileLineColLoc::get(&getContext(), "models/x.cpp", 9, 0);
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(getOperation().getBody());
    for (int i = 0; i < 2; ++i)
      mlir::ModuleOp::create(builder, line, "twice");
  }
};

/// Reads where nothing is.
struct CrashingPass : mlir::PassWrapper<CrashingPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CrashingPass)
  llvm::StringRef getArgument() const override { return "crashing"; }
  void runOnOperation() override { std::raise(SIGSEGV); }
};

class StageRunner : public testing::Test {
protected:
  /// What a stage that runs FailingPass throws.
  StageError run(const Stage &stage, IrDump *dump = nullptr, Watch watch = Watch::EveryPass) {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    try {
      runStage(stage, StageRun{*module, {}, dump}, nullptr, true, watch);
    } catch (const StageError &error) {
      return error;
    }
    return {"no error", false};
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  static constexpr Stage failing{"breakage", "",
                                 [](mlir::OpPassManager &passes, const PipelineOptions &) {
                                   passes.addPass(std::make_unique<FailingPass>());
                                 }};
  static constexpr Stage breaking{"breakage", "",
                                  [](mlir::OpPassManager &passes, const PipelineOptions &) {
                                    passes.addPass(std::make_unique<BreakingPass>());
                                  }};
  static constexpr Stage crashing{"breakage", "",
                                  [](mlir::OpPassManager &passes, const PipelineOptions &) {
                                    passes.addPass(std::make_unique<CrashingPass>());
                                  }};
};

TEST_F(StageRunner, TellsTheFirstErrorWithItsLineAndKeepsAReproducer) {
  const StageError error = run(failing);
  const std::string message = error.what(),
                    start = "models/x.cpp:41: does not fit (stage breakage; reproduce with "
                            "nano-opt --run-reproducer ";
  ASSERT_EQ(message.substr(0, start.size()), start);
  EXPECT_FALSE(error.isBadInput);
  const std::string path = message.substr(start.size(), message.size() - start.size() - 1);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("pipeline: \"builtin.module(failing)\""), std::string::npos)
      << text.str();
  EXPECT_TRUE(mlir::parseSourceFile<mlir::ModuleOp>(path, &context));
  std::filesystem::remove(path);
}

TEST_F(StageRunner, KeepsTheIrOfAFailedPass) {
  const std::string directory =
      (std::filesystem::path(testing::TempDir()) / "stage-runner-dump").string();
  std::filesystem::remove_all(directory);
  IrDump dump(directory);
  const std::string message = run(failing, &dump).what();
  EXPECT_TRUE(std::filesystem::exists(directory + "/00-failing-failed.mlir"));
  const size_t at = message.find("--run-reproducer ") + 17;
  std::filesystem::remove(message.substr(at, message.size() - at - 1));
}

/// Watched less closely a stage fails as it would else, and says that it must be run again.
TEST_F(StageRunner, WithoutAReproducerItIsToBeReproduced) {
  for (const auto &[stage, what] :
       {std::pair(&failing, "models/x.cpp:41: does not fit (stage breakage)"),
        std::pair(&crashing, "a pass crashed (stage breakage)")}) {
    const StageError error = run(*stage, nullptr, Watch::EveryStage);
    EXPECT_STREQ(error.what(), what);
    EXPECT_TRUE(error.isToBeReproduced);
    EXPECT_FALSE(error.isBadInput);
  }
  const StageError error = run(breaking, nullptr, Watch::EveryStage);
  EXPECT_EQ(std::string(error.what()).find("models/x.cpp:9: redefinition of symbol"), 0u)
      << error.what();
  EXPECT_TRUE(error.isToBeReproduced);
}

TEST_F(StageRunner, AMistakeInTheModelIsBadInputAndLeavesNoReproducer) {
  const Stage &model = stages().front();
  const StageError error = run(model); // an empty module is no model
  EXPECT_TRUE(error.isBadInput);
  EXPECT_EQ(std::string(error.what()).find("reproduce"), std::string::npos) << error.what();
}

/// Programs of several numbers of ranks, side by side.
class SeveralPrograms : public testing::Test {
protected:
  SeveralPrograms() {
    for (int64_t world : {1, 2, 4, 8, 16}) {
      modules.push_back(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context)));
      runs.push_back({*modules.back(), {}, nullptr});
      runs.back().options.world = world;
    }
  }

  mlir::MLIRContext context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  std::vector<StageRun> runs;
  static constexpr Stage picky{"choice", "",
                               [](mlir::OpPassManager &passes, const PipelineOptions &) {
                                 passes.addPass(std::make_unique<PickyPass>());
                               }};
};

TEST_F(SeveralPrograms, AllRunAndARemarkIsToldOnce) {
  testing::internal::CaptureStderr();
  runStage(picky, runs);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "nanoc: models/x.cpp:7: remark: seen\n");
  for (auto &module : modules)
    EXPECT_TRUE((*module)->hasAttr("test.seen"));
}

TEST_F(SeveralPrograms, OneThatFailsIsNamed) {
  (*modules[3])->setAttr("test.bad", mlir::UnitAttr::get(&context));
  testing::internal::CaptureStderr();
  try {
    runStage(picky, runs);
    ADD_FAILURE() << "no error";
  } catch (const StageError &error) {
    const std::string message = error.what(),
                      start = "models/x.cpp:7: is bad (stage choice, --world 8; reproduce with "
                              "nano-opt --run-reproducer ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    EXPECT_FALSE(error.isBadInput);
    EXPECT_TRUE(
        std::filesystem::remove(message.substr(start.size(), message.size() - start.size() - 1)));
  }
  testing::internal::GetCapturedStderr();
  for (auto &module : modules)
    EXPECT_TRUE((*module)->hasAttr("test.seen"));
}

/// Whichever thread comes first, and in whichever order the numbers of ranks were given.
TEST_F(SeveralPrograms, WhatIsToldIsInTheOrderOfTheNumbersOfRanks) {
  static constexpr Stage stage{"many", "",
                               [](mlir::OpPassManager &passes, const PipelineOptions &) {
                                 passes.addPass(std::make_unique<WorldPass>());
                               }};
  mlir::Builder builder(&context);
  for (StageRun &run : runs) {
    run.module->setAttr("test.world", builder.getI64IntegerAttr(run.options.world));
    if (run.options.world > 1)
      run.module->setAttr("test.bad", builder.getUnitAttr());
  }
  std::string expected;
  for (const StageRun &run : runs) {
    const std::string world = std::to_string(run.options.world), start = "nanoc: models/x.cpp:7: ";
    expected += start + "remark: first of " + world + "\n";
    if (run.options.world == 1)
      expected += start + "remark: of any\n";
    expected += start + "remark: second of " + world + "\n";
  }
  std::swap(runs[0], runs[3]);
  for (int i = 0; i < 10; ++i) {
    testing::internal::CaptureStderr();
    try {
      runStage(stage, runs);
      ADD_FAILURE() << "no error";
    } catch (const StageError &error) {
      const std::string message = error.what();
      EXPECT_EQ(message.substr(0, message.find(';')),
                "models/x.cpp:7: bad for 2 (stage many, --world 2");
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), expected);
  }
  for (const StageRun &run : runs)
    std::filesystem::remove(std::filesystem::path(testing::TempDir()) /
                            ("nanoc-many-" + std::to_string(run.options.world) + "-" +
                             std::to_string(getpid()) + ".mlir"));
}

TEST_F(SeveralPrograms, WhatCannotBeDumpedIsAnErrorFromEveryThread) {
  const std::string directory =
      (std::filesystem::path(testing::TempDir()) / "several-programs-dump").string();
  const IrDump all(directory);
  std::vector<IrDump> dumps;
  for (const StageRun &run : runs)
    dumps.push_back(all.folder("world-" + std::to_string(run.options.world)));
  for (size_t i = 0; i < runs.size(); ++i)
    runs[i].dump = &dumps[i];
  std::filesystem::remove_all(directory);
  testing::internal::CaptureStderr();
  EXPECT_THROW(runStage(picky, runs), frontend::ModelError);
  testing::internal::GetCapturedStderr();
}

TEST_F(StageRunner, ReportsWhatCodeOutsideOfPassesSays) {
  try {
    runReporting(&context, "plan", [&] {
      return mlir::emitError(mlir::FileLineColLoc::get(&context, "models/x.cpp", 7, 0))
             << "has no offset";
    });
    FAIL() << "no error";
  } catch (const StageError &error) {
    EXPECT_STREQ(error.what(), "models/x.cpp:7: has no offset (stage plan)");
  }
}

TEST(Timer, AddsUpPhases) {
  Timer timer;
  timer.begin("one");
  timer.begin("two");
  timer.end();
  EXPECT_GE(timer.total(), 0);
  const std::string table = timer.table();
  EXPECT_LT(table.find("one"), table.find("two"));
  EXPECT_LT(table.find("two"), table.find("total"));
}

} // namespace
