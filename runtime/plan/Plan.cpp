// Names of what a plan counts up; sizes of its element types, members of its rank sets, stages of
// its run.
#include "runtime/plan/Plan.h"

#include <algorithm>

namespace nano::plan {

uint64_t sizeOf(DType type) {
  switch (type) {
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::U16:
    return 2;
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    return 1;
  }
  return 0;
}

const char *nameOf(DType type) {
  switch (type) {
  case DType::F32:
    return "f32";
  case DType::BF16:
    return "bf16";
  case DType::F8E4M3FN:
    return "f8e4m3fn";
  case DType::F8E5M2:
    return "f8e5m2";
  case DType::I32:
    return "i32";
  case DType::U16:
    return "u16";
  }
  return "?";
}

const char *nameOf(Ranks ranks) {
  static constexpr const char *names[] = {"all", "group", "peers"};
  return names[size_t(ranks)];
}

const char *nameOf(State::Role role) {
  static constexpr const char *names[] = {"parameter", "optimizer", "gradient", "constant"};
  return names[size_t(role)];
}

const char *nameOf(Column::Type type) {
  static constexpr const char *names[] = {"f32", "bf16", "i32", "u8"};
  return names[size_t(type)];
}

DType bufferTypeOf(Column::Type type) {
  switch (type) {
  case Column::Type::F32:
    return DType::F32;
  case Column::Type::BF16:
    return DType::BF16;
  case Column::Type::I32:
  case Column::Type::U8:
    return DType::I32;
  }
  return DType::I32;
}

const char *nameOf(Documents::Rule rule) {
  static constexpr const char *names[] = {"contiguous", "aligned", "cut", "packed"};
  return names[size_t(rule)];
}

const char *nameOf(Report::Kind kind) {
  static constexpr const char *names[] = {"mean", "norm", "max", "histogram"};
  return names[size_t(kind)];
}

int64_t membersOf(Ranks ranks, int64_t world, int64_t group) {
  switch (ranks) {
  case Ranks::All:
    return world;
  case Ranks::Group:
    return group;
  case Ranks::Peers:
    return world / group;
  }
  return 1;
}

std::vector<const Training *> stagesOf(const Plan &plan) {
  std::vector<const Training *> stages = {&plan.training};
  for (const Training &stage : plan.laterStages)
    stages.push_back(&stage);
  return stages;
}

std::vector<StageSteps> stagesOf(const Plan &plan, int64_t begin, int64_t end) {
  std::vector<StageSteps> parts;
  const std::vector<const Training *> stages = stagesOf(plan);
  for (const Training *stage : stages) {
    const int64_t until = stage == stages.back() ? end : std::min(end, stage->until);
    if (until > begin)
      parts.push_back({stage, begin, until});
    begin = std::max(begin, until);
  }
  return parts;
}

const Training &stageAt(const Plan &plan, int64_t step) {
  return *stagesOf(plan, step, step + 1).front().stage;
}

int64_t tokensOf(const Plan &plan, int64_t steps) {
  int64_t tokens = 0;
  for (const StageSteps &part : stagesOf(plan, 0, steps))
    tokens += (part.end - part.begin) * part.stage->globalBatch;
  return tokens;
}

} // namespace nano::plan
