// Stages of the run: which programs belong to which, and what must hold of all of them together.
#include "compiler/Recorder.h"

#include "ir/graph/RunStages.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace nano::frontend {

void Recorder::beginStage(const std::string &name, const Stage &how, Line at) {
  if (program != 0)
    fail(at, fmt::format("stage '{}': inside a program", name));
  if (inStage)
    fail(at, fmt::format("stage '{}': inside stage '{}'", name, stages.back().name));
  // It becomes part of programs' names.
  if (name.empty() || !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    fail(at, fmt::format("stage '{}': a name is made of letters, digits and underscores", name));
  for (const StageRecord &other : stages)
    if (other.name == name)
      fail(at, fmt::format("stage '{}': the name is taken by line {}", name, other.at.line));
  if (how.until < 0 || how.globalBatch < 0)
    fail(at, fmt::format("stage '{}': until {} and globalBatch {} must not be negative", name,
                         how.until, how.globalBatch));
  if (outside.train.tokens != 0)
    fail(at, fmt::format("stage '{}': line {} has a training program for the whole run; put it "
                         "into a stage",
                         name, outside.train.at.line));
  stages.push_back({name, how, at, {}, {}, {}});
  inStage = true;
}

void Recorder::endStage(Line at) {
  inStage = false;
  if (stages.back().train.tokens == 0)
    fail(at, fmt::format("stage '{}': it has no training program; call train(tokens, Loss::sum, …) "
                         "in it",
                         stages.back().name));
}

Recorder::ProgramRecord &Recorder::takeProgram(const char *role, Line at) {
  ProgramRecord &own = (inStage ? stages.back() : outside).program(role);
  if (own.tokens != 0)
    fail(at, fmt::format("{}: the {} has this program already", role, inStage ? "stage" : "model"));
  if (!inStage && !stages.empty() && llvm::StringRef(role) == "train")
    fail(at, "train: the run has stages, each with a training program of its own; put it into one");
  const bool isElsewhere =
      inStage ? outside.program(role).tokens != 0 : llvm::any_of(stages, [&](StageRecord &stage) {
        return stage.program(role).tokens != 0;
      });
  if (isElsewhere)
    fail(at, fmt::format("{}: the model has one {} of stages already; record it in every stage, or "
                         "once outside of them for all",
                         role, inStage ? "outside" : "inside"));
  return own;
}

std::vector<Recorder::StageRecord> Recorder::runStages() {
  if (stages.empty()) {
    outside.how.globalBatch = how->globalBatch;
    return {outside};
  }
  std::vector<StageRecord> all = stages;
  auto failIn = [](const StageRecord &stage, const std::string &what) {
    fail(stage.at, fmt::format("stage '{}': {}", stage.name, what));
  };
  const int64_t steps = how->numIterations;
  for (auto [i, stage] : llvm::enumerate(all)) {
    int64_t &until = stage.how.until;
    const bool isLast = &stage == &all.back();
    if (until == 0 && !isLast)
      failIn(stage, "it does not say before which step it ends; the last stage alone may leave out "
                    "until");
    if (until == 0)
      until = steps;
    const int64_t begin = i == 0 ? 0 : all[i - 1].how.until;
    if (until <= begin)
      failIn(stage, fmt::format("it ends before step {}, and the one before it, '{}', before step "
                                "{}; give the stages in the order of their steps",
                                until, all[i - 1].name, begin));
    if (isLast && until != steps)
      failIn(stage, fmt::format("it is the last one and ends before step {}; the run has "
                                "numIterations = {} steps",
                                until, steps));
    int64_t &batch = stage.how.globalBatch;
    if (batch == 0)
      batch = how->globalBatch;
    if (batch == 0)
      failIn(stage, "neither it nor training says globalBatch");
    if (batch % stage.train.tokens != 0)
      failIn(stage, fmt::format("globalBatch {} is not a multiple of the {} tokens of a training "
                                "sequence",
                                batch, stage.train.tokens));
    for (auto [role, what] :
         {std::pair("validate", "validation"), std::pair("generate", "sampling")})
      if (ProgramRecord &own = stage.program(role); outside.program(role).tokens != 0)
        own = outside.program(role);
      else if ((own.tokens != 0) != (all[0].program(role).tokens != 0))
        failIn(stage, fmt::format("stages '{}' and '{}' differ in whether they have a {} program; "
                                  "record it in every stage, or once outside of them for all",
                                  all[0].name, stage.name, what));
    const ProgramRecord &first = all[0].validate, &own = stage.validate;
    if (own.tokens != first.tokens || own.lossIsSum != first.lossIsSum)
      failIn(stage, fmt::format("its validation differs from that of stage '{}' in the length of a "
                                "sequence or in the kind of loss; give all stages the same",
                                all[0].name));
    if (stage.generate.tokens != all[0].generate.tokens)
      failIn(stage, fmt::format("its sampling program has sequences of {} tokens, that of stage "
                                "'{}' has {}; give all stages the same",
                                stage.generate.tokens, all[0].name, all[0].generate.tokens));
    // The mean gradient of several steps is that of their sequences where all have as many.
    const int64_t sequences = batch / stage.train.tokens;
    if (i == 0 || sequences == all[i - 1].how.globalBatch / all[i - 1].train.tokens)
      continue;
    for (const OptimizerRecord &group : optimizers)
      if (begin % group.every != 0)
        failIn(stage, fmt::format("it begins at step {}, among the {} steps whose gradients "
                                  "optimizer '{}' takes together, and has another number of "
                                  "sequences a step than the one before it; begin it at a multiple "
                                  "of {}",
                                  begin, group.every, group.name, group.every));
  }
  return all;
}

} // namespace nano::frontend
