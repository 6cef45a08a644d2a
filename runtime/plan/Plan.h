// The plan: everything that a runtime needs to train a model, as plain structs, each with the keys
// that its members have in a file. The compiler fills them, `PlanFile.h` stores them, devices
// execute them; docs/plan-format.md specifies the file. Structs compare member by member.
#pragma once

#include "runtime/plan/Commands.h"
#include "runtime/plan/Interchange.h"
#include "runtime/plan/Training.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano::plan {

/// A hyperparameter as compiled: the value as text, and whether it was overridden with -D.
struct Hyperparameter {
  std::string name, value;
  bool overridden = false;
  template <class S = Hyperparameter> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("value", &S::value),
                      field("overridden", &S::overridden));
  }
  bool operator==(const Hyperparameter &) const = default;
};

/// A file of device code: a kernel's text, or a header that kernels include by this name.
struct Source {
  std::string name; ///< a file name without folders, e.g. "rmsnorm_3f2a.cu", "nano_kernels.h"
  std::string text;
  template <class S = Source> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("text", &S::text));
  }
  bool operator==(const Source &) const = default;
};

/// A kernel of the model's own in the place of a function, whose results or derivative nobody has
/// compared with what they must be: a run begins with it.
struct UnprovenKernel {
  std::string report; ///< of the plan `checks`: how far it is off
  std::string line;   ///< of the model, "models/x.cpp:41"
  std::string about;  ///< "kernel 'fast_norm' in place of norm, of f32 [64, 768]"
  double tolerance = 0;
  template <class S = UnprovenKernel> static constexpr auto fields() {
    return std::tuple(field("report", &S::report), field("line", &S::line),
                      field("about", &S::about), field("tolerance", &S::tolerance));
  }
  bool operator==(const UnprovenKernel &) const = default;
};

/// A plan for some numbers of ranks. A plan file may hold several, which have all in common but
/// `worlds`, `group`, the arena, buffers, states, scalars, programs, `training` and `laterStages`.
struct Plan {
  std::string model;           ///< model name, from the model file's name
  std::string target;          ///< "cpu" or "cuda"
  std::vector<int64_t> worlds; ///< numbers of ranks that it can run on
  int64_t group = 1;           ///< ranks in a group; divides each of `worlds`
  std::vector<std::string>
      cpuFeatures; ///< what the native code needs, e.g. "avx512f", as /proc/cpuinfo spells it
  std::vector<Hyperparameter> hyperparameters;
  Interchange interchange; ///< with checkpoints of other programs
  uint64_t arenaBytes = 0; ///< one rank's arena
  uint64_t hostBytes = 0;  ///< what a rank has in the host's memory besides, for copies alone
  std::vector<Buffer> buffers;
  std::vector<State> states;
  uint32_t scalarBuffer = 0;
  std::vector<Scalar> scalars;
  std::vector<IndexGroup> indexGroups;
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
  Training training; ///< the run's first stage, which may be its only one
  /// Those behind it. All stages agree in numIterations, vocabSize, eosToken, valSeqLen,
  /// valLossIsSum, logScalar and the number of phases.
  std::vector<Training> laterStages;
  std::vector<Source> sources; ///< CUDA: the kernels and the headers that they include
  std::string code;            ///< CPU: an ELF shared object with the kernels' symbols
  std::string source;          ///< the model file's text
  std::string data;            ///< elements of initial values, of several states
  std::vector<UnprovenKernel> unproven;
  /// With unproven kernels only, files of plans: the one for one rank whose first step's reports
  /// say how far they are off, and this plan without them.
  std::string checks, ours;
  /// What all variants share: before the list of them, and behind it.
  template <class S = Plan> static constexpr auto firstCommonFields() {
    return std::tuple(field("model", &S::model), field("target", &S::target));
  }
  template <class S = Plan> static constexpr auto commonFields() {
    return std::tuple(
        field("cpuFeatures", &S::cpuFeatures), field("hyperparameters", &S::hyperparameters),
        optional("interchange", &S::interchange), since(11, field("indexGroups", &S::indexGroups)),
        field("kernels", &S::kernels), optional("sources", &S::sources),
        since(12, optional("unproven", &S::unproven)));
  }
  /// What a variant has to itself.
  template <class S = Plan> static constexpr auto variantFields() {
    return std::tuple(field("group", &S::group), field("arenaBytes", &S::arenaBytes),
                      since(14, field("hostBytes", &S::hostBytes)), field("buffers", &S::buffers),
                      field("states", &S::states), field("scalarBuffer", &S::scalarBuffer),
                      field("scalars", &S::scalars), field("programs", &S::programs),
                      field("training", &S::training), optional("laterStages", &S::laterStages));
  }
  bool operator==(const Plan &) const = default;
};

/// Where the offsets of buffers in the host's memory begin, and where they end: one past the last
/// offset of a rank.
inline uint64_t hostBegin(const Plan &plan) { return (plan.arenaBytes + 255) / 256 * 256; }
inline uint64_t memoryEnd(const Plan &plan) {
  return plan.hostBytes == 0 ? plan.arenaBytes : hostBegin(plan) + plan.hostBytes;
}
/// True for a buffer in the host's memory.
inline bool isInHost(const Plan &plan, const Buffer &buffer) {
  return plan.hostBytes > 0 && buffer.bytes > 0 && buffer.offset >= hostBegin(plan);
}
/// True for a copy to the host's memory or from there.
inline bool isHostCopy(const Plan &plan, const Copy &copy) {
  return plan.hostBytes > 0 && (isInHost(plan, plan.buffers[copy.from.buffer]) ||
                                isInHost(plan, plan.buffers[copy.to.buffer]));
}

/// The stages of the plan's run, in order.
std::vector<const Training *> stagesOf(const Plan &plan);
/// Optimizer steps [begin, end), 0-based, of one stage.
struct StageSteps {
  const Training *stage = nullptr;
  int64_t begin = 0, end = 0;
};
/// The steps [begin, end) by stages, in order; none that has no step among them. The last stage's
/// go on beyond its end.
std::vector<StageSteps> stagesOf(const Plan &plan, int64_t begin, int64_t end);
/// The stage that optimizer step `step`, 0-based, is of; behind the last one's end that one.
const Training &stageAt(const Plan &plan, int64_t step);
/// The tokens of the first `steps` optimizer steps, over all ranks.
int64_t tokensOf(const Plan &plan, int64_t steps);

} // namespace nano::plan
