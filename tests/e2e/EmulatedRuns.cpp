// Models on the emulator of CUDA: one rank and several, under two of its schedules.
#include "compiler/Pipeline.h"
#include "compiler/RunStages.h"
#include "tests/e2e/ModelRuns.h"

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

namespace nano::test {

/// Makes one source of all: the host's compiler, which compiles them for the emulator, then reads
/// the device library once. Kernels of one template have structs of one name, which get another.
static void joinSources(plan::Plan &plan) {
  std::string includes, texts;
  std::set<std::string> names;
  for (const plan::Kernel &kernel : plan.kernels)
    names.insert(kernel.source);
  for (const plan::Source &source : plan.sources) {
    if (!names.count(source.name))
      continue;
    std::string text, endings;
    std::istringstream lines(source.text);
    for (std::string line; std::getline(lines, line);) {
      const std::string opening = "struct ";
      if (line.rfind("#include", 0) == 0) {
        includes += line + "\n";
        continue;
      }
      if (line.rfind(opening, 0) == 0) {
        const std::string name =
            line.substr(opening.size(), line.find(' ', opening.size()) - opening.size());
        texts += "#define " + name + " " + name + "_" + std::to_string(texts.size()) + "\n";
        endings += "#undef " + name + "\n";
      }
      text += line + "\n";
    }
    texts += text + endings;
  }
  std::erase_if(plan.sources, [&](const plan::Source &source) { return names.count(source.name); });
  for (plan::Kernel &kernel : plan.kernels)
    kernel.source = "joined.cu";
  plan.sources.push_back({"joined.cu", includes + texts});
}

void ModelRuns::expectSameBits(const Record &found, const Record &expected) {
  EXPECT_EQ(found.losses, expected.losses) << path;
  for (size_t step = 0; step < found.states.size(); ++step)
    for (const auto &[name, value] : found.states[step])
      EXPECT_EQ(value.data, expected.states[step].at(name).data) << name << ", " << path;
}

void ModelRuns::compareEmulated() {
  std::map<int64_t, plan::Plan> emulated;
  PipelineOptions pipeline = forTarget({.target = "cuda"});
  // Of some all products that can end in what reads them do, and those of few columns get rows that
  // libraries like: at these sizes neither would be chosen.
  if (number() / 16 % 2 == 1)
    pipeline.fuseProducts.products = "fused";
  if (number() / 32 % 2 == 1)
    pipeline.alignProducts.multiple = 16;
  if (number() / 64 % 2 == 1)
    pipeline.recompute.saveBytes = allBytes;
  try {
    compile(pipeline, model.sequences, emulated);
  } catch (const std::exception &error) {
    FAIL() << error.what() << "\nthe module is in " << path;
  }
  if (HasFatalFailure())
    return;
  if (model.has8Bit)
    interpretAnew();
  if (HasFatalFailure())
    return;
  for (const int64_t world : std::set<int64_t>{1, emulated.rbegin()->first}) {
    plan::Plan &plan = emulated.at(world);
    joinSources(plan);
    Record first;
    for (const std::string schedule : {"1", "2"}) {
      setenv("NANO_EMULATOR_SEED", schedule.c_str(), 1);
      const Record record = runPlan(plan, int(world), "emulator");
      compare(record, "the emulator, " + std::to_string(world) + " rank(s), schedule " + schedule,
              world == 1);
      if (first.losses.empty())
        first = record;
      else
        expectSameBits(record, first);
    }
    if (world > 1)
      std::printf("ran on the emulator, %d ranks\n", int(world));
  }
  std::printf("ran on the emulator\n");
}

} // namespace nano::test
