// Parts and joins the stages of a run.
#include "compiler/RunStages.h"

#include "codegen/UniteKernels.h"
#include "ir/graph/Phases.h"
#include "ir/graph/RunStages.h"
#include "ir/step/Step.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace nano {

using graph::RunStage;

//===- Parting -----------------------------------------------------------------===//

/// The stage whose module has the programs of all: that of the longest sequences, whose memory they
/// may take as much of.
static int64_t homeOf(ArrayRef<RunStage> stages) {
  auto length = [](const RunStage &stage) {
    return stage.training.getAs<IntegerAttr>("seq_len").getInt();
  };
  return std::distance(stages.begin(), std::max_element(stages.begin(), stages.end(),
                                                        [&](const auto &a, const auto &b) {
                                                          return length(a) < length(b);
                                                        }));
}

/// Leaves the module one stage's programs.
static void keepStage(ModuleOp module, ArrayRef<RunStage> stages, int64_t stage) {
  const bool isHome = stage == homeOf(stages);
  for (auto function : llvm::make_early_inc_range(module.getOps<graph::ProgramOp>())) {
    const bool isOfAll = !function.getStages();
    // Events set states of which every stage's program is checked.
    const bool isKept =
        isOfAll ? isHome || function.hasRole("event") : graph::isInStage(function, stage);
    if (!isKept) {
      function.erase();
      continue;
    }
    function.setSymName(graph::nameInStages(function, stages));
    function.setStagesAttr({});
  }
  graph::ModelOp model = graph::modelOf(module);
  model.setTrainingAttr(stages[size_t(stage)].training);
  model.setRunStage(stage);
}

std::vector<OwningOpRef<ModuleOp>> partRunStages(ModuleOp module) {
  std::vector<OwningOpRef<ModuleOp>> others;
  const SmallVector<RunStage> stages = graph::runStagesOf(module);
  if (stages.size() == 1 && stages.front().name.empty())
    return others;
  for (size_t i = 1; i < stages.size(); ++i)
    keepStage(*others.emplace_back(module.clone()), stages, int64_t(i));
  keepStage(module, stages, 0);
  return others;
}

//===- Joining -----------------------------------------------------------------===//

namespace {

/// A program, or several equal ones, of stages.
struct SharedProgram {
  step::ProgramOp op; ///< that of the first of these stages
  SmallVector<int64_t> stages;
};

bool areEqual(step::ProgramOp a, step::ProgramOp b) {
  return a->getAttrDictionary() == b->getAttrDictionary() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                    OperationEquivalence::IgnoreLocations);
}

/// A module that the programs of several stages come together in.
class Joining {
public:
  explicit Joining(ArrayRef<ModuleOp> modules) : modules(modules), target(modules.front()) {
    const ArrayAttr list = graph::modelOf(target).getRunStagesAttr();
    for (auto [entry, module] : llvm::zip_equal(list.getAsRange<DictionaryAttr>(), modules)) {
      RunStage stage = graph::runStagesOf(module).front(); // training and products of its own
      stage.name = entry.getAs<StringAttr>("name").str();
      stage.until = entry.getAs<IntegerAttr>("until").getInt();
      stages.push_back(std::move(stage));
    }
  }

  LogicalResult run() {
    if (failed(codegen::uniteKernels(modules)))
      return failure();
    for (ModuleOp module : modules.drop_front())
      if (failed(joinDeclarations<graph::StateOp>(module)) ||
          failed(joinDeclarations<graph::ScalarOp>(module)))
        return failure();
    findProgramsOfAll();
    findSharedPrograms();
    joinInputs();
    joinChecks();
    joinPrograms();
    graph::ModelOp model = graph::modelOf(target);
    model.setRunStageAttr({});
    model.setFp8ProductsAttr({});
    graph::setRunStages(target, stages);
    return success();
  }

private:
  int64_t stageCount() const { return int64_t(stages.size()); }

  /// A name with that of a stage behind it.
  StringAttr nameOfStage(StringAttr name, int64_t stage) {
    return StringAttr::get(target.getContext(), name.getValue() + "." + stages[size_t(stage)].name);
  }

  /// Lets a module's programs use a state or an input under its new name.
  static void rename(ModuleOp module, StringAttr old, StringAttr name) {
    for (auto program : module.getOps<step::ProgramOp>())
      for (auto state : program.getBody().front().getOps<step::StateOp>())
        if (state.getSymbolAttr().getAttr() == old)
          state.setSymbolAttr(FlatSymbolRefAttr::get(name));
  }

  /// Adds the declarations of a kind that the target lacks, behind its own.
  template <typename OpTy> LogicalResult joinDeclarations(ModuleOp module) {
    SymbolTable known(target);
    OpBuilder builder(target.getContext());
    for (auto op : target.getOps<OpTy>())
      builder.setInsertionPointAfter(op);
    for (auto op : module.getOps<OpTy>()) {
      Operation *own = known.lookup(op.getSymName());
      if (!own)
        builder.clone(*op);
      else if (!OperationEquivalence::isEquivalentTo(own, op,
                                                     OperationEquivalence::IgnoreLocations))
        return op.emitOpError("'") << op.getSymName() << "' differs between stages of the run";
    }
    return success();
  }

  /// Validation and sampling that one module alone has are those of all stages.
  void findProgramsOfAll() {
    for (StringRef role : {"validate", "generate", "decode"}) {
      SmallVector<step::ProgramOp> found;
      for (ModuleOp module : modules)
        for (auto program : module.getOps<step::ProgramOp>())
          if (program.getRole() == role)
            found.push_back(program);
      if (found.size() == 1)
        ofAll[role] = found.front().getSymName();
    }
  }
  bool isOfAll(StringRef role) const { return ofAll.contains(role); }

  void findSharedPrograms() {
    for (auto [stage, own] : llvm::enumerate(modules))
      for (ModuleOp module = own; auto program : module.getOps<step::ProgramOp>()) {
        auto same = llvm::find_if(
            programs, [&](const SharedProgram &other) { return areEqual(other.op, program); });
        if (same != programs.end())
          same->stages.push_back(int64_t(stage));
        else
          programs.push_back({program, {int64_t(stage)}});
      }
  }

  /// Gives every stage's inputs names that they keep; inputs of one name and type are one.
  void joinInputs() {
    struct Input {
      step::InputOp op; ///< in the first of the modules that have it
      SmallVector<int64_t> in;
    };
    std::vector<Input> inputs;
    for (auto [stage, own] : llvm::enumerate(modules))
      for (ModuleOp module = own; auto input : module.getOps<step::InputOp>()) {
        auto same = llvm::find_if(inputs, [&](const Input &other) {
          return other.op->getAttrDictionary() == input->getAttrDictionary();
        });
        if (same != inputs.end())
          same->in.push_back(int64_t(stage));
        else
          inputs.push_back({input, {int64_t(stage)}});
      }
    OpBuilder builder(target.getContext());
    for (auto input : target.getOps<step::InputOp>())
      builder.setInsertionPointAfter(input);
    for (Input &input : inputs) {
      const bool isInputOfAll = llvm::any_of(ofAll, [&](const auto &program) {
        return input.op.getSymName().starts_with((program.second + ".").str());
      });
      if (int64_t(input.in.size()) < stageCount() && !isInputOfAll)
        renameInput(input.op.getSymNameAttr(), input.in);
      if (input.in.front() != 0)
        builder.clone(*input.op);
    }
  }

  /// Gives an input of some stages a name of its own there.
  void renameInput(StringAttr old, ArrayRef<int64_t> in) {
    const StringAttr name = nameOfStage(old, in.front());
    for (int64_t stage : in) {
      ModuleOp module = modules[size_t(stage)];
      for (auto input : module.getOps<step::InputOp>())
        if (input.getSymNameAttr() == old) {
          input.setSymNameAttr(name);
          graph::setStages(input, in);
        }
      rename(module, old, name);
    }
  }

  /// Checks stay those of their stage.
  void joinChecks() {
    for (auto [stage, own] : llvm::enumerate(modules))
      for (ModuleOp module = own;
           auto check : llvm::make_early_inc_range(module.getOps<graph::IndexCheckOp>())) {
        if (!isOfAll(check.getRole()))
          graph::setStages(check, {int64_t(stage)});
        if (module != target)
          check->moveBefore(target.getBody(), target.getBody()->end());
      }
  }

  void joinPrograms() {
    for (SharedProgram &program : programs) {
      if (int64_t(program.stages.size()) < stageCount() &&
          !isOfAll(program.op.getRole().value_or(""))) {
        const std::string name =
            (program.op.getSymName() + "." + stages[size_t(program.stages.front())].name).str();
        program.op.setSymName(name);
        graph::setStages(program.op, program.stages);
      }
      if (program.stages.front() != 0)
        program.op->moveBefore(target.getBody(), target.getBody()->end());
    }
  }

  ArrayRef<ModuleOp> modules;
  ModuleOp target;
  SmallVector<RunStage> stages;
  std::vector<SharedProgram> programs;
  std::map<StringRef, StringRef> ofAll; ///< by role, programs by name
};

} // namespace

LogicalResult joinRunStages(ArrayRef<ModuleOp> stages) {
  return stages.size() == 1 ? success() : Joining(stages).run();
}

} // namespace nano
