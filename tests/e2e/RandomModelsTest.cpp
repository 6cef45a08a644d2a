// Random models through the whole compiler and the CPU device, some through the emulator of CUDA
// under two of its schedules, against the interpreter of the graph dialect.
#include "tests/e2e/ModelRuns.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace nano::test {
namespace {

/// A number of the environment, at least 1.
uint64_t numberFrom(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::max<uint64_t>(std::strtoull(text, nullptr, 10), 1) : otherwise;
}

class RandomModels : public ModelRuns, public testing::WithParamInterface<uint64_t> {
protected:
  RandomModel make() const override {
    RandomExtent extent;
    // tools/random-models looks for the fewest blocks with which a model fails.
    if (const char *blocks = std::getenv("NANO_RANDOM_BLOCKS"))
      extent.mostBlocks = std::strtoll(blocks, nullptr, 10);
    // NANO_RANDOM_WHOLE=N: which models are whole, each whose number N divides.
    extent.isWhole = GetParam() % numberFrom("NANO_RANDOM_WHOLE", 1) == 0;
    // NANO_RANDOM_FP8=N: which models have products of 8 bits, in the same way.
    extent.is8Bit = GetParam() % numberFrom("NANO_RANDOM_FP8", 7) == 0;
    return randomModel(GetParam(), extent);
  }
  std::string name() const override { return "random-model-" + std::to_string(GetParam()); }
  uint64_t number() const override { return GetParam(); }
  /// NANO_RANDOM_EMULATED=N: which models run on the emulator too, each whose number N divides.
  bool runsOnEmulator() const override {
    return GetParam() % numberFrom("NANO_RANDOM_EMULATED", 16) == 0;
  }
};

TEST_P(RandomModels, TrainAsTheInterpreterDoes) { trainAsTheInterpreterDoes(); }

/// Models that once failed. Without the rest of a whole run, as they did.
class ModelsThatFailed : public RandomModels {
  RandomModel make() const override { return randomModel(GetParam(), {.isWhole = false}); }
};

TEST_P(ModelsThatFailed, TrainAsTheInterpreterDoes) { trainAsTheInterpreterDoes(); }

/// A model of which more products have sizes for 8 bits on a GPU, where rows are aligned.
class ModelIn8Bits : public RandomModels {
  RandomModel make() const override {
    return randomModel(GetParam(), {.isWhole = false, .is8Bit = true});
  }
  bool runsOnEmulator() const override { return true; }
};

TEST_P(ModelIn8Bits, TrainsAsItsTargetRounds) { trainAsTheInterpreterDoes(); }

/// A model with moments of two parameters that are zero but for rounding: what plain programs make
/// of them says how large they may be.
class ModelOfDifferences : public RandomModels {
  RandomModel make() const override {
    std::ostringstream text;
    text << std::ifstream(std::filesystem::path(__FILE__).parent_path() / "Inputs/differences.mlir")
                .rdbuf();
    RandomModel model;
    model.text = text.str();
    model.seqLen = 8, model.laterSeqLen = 48;
    model.valSeqLen = model.genSeqLen = 24;
    model.vocabulary = 17, model.sequences = 1;
    return model;
  }
};

TEST_P(ModelOfDifferences, TrainsAsPlainProgramsDo) {
  trainAsTheInterpreterDoes();
  ASSERT_TRUE(asPlain);
  EXPECT_LT(*asPlain, plainFactor);
}

/// NANO_RANDOM_MODELS=FIRST-LAST tries other models than the suite does.
std::pair<uint64_t, uint64_t> range() {
  const char *text = std::getenv("NANO_RANDOM_MODELS");
  if (!text)
    return {0, 16};
  char *end = nullptr;
  uint64_t first = std::strtoull(text, &end, 10);
  uint64_t last = *end == '-' ? std::strtoull(end + 1, nullptr, 10) : first;
  return {first, last + 1};
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, testing::Range(range().first, range().second),
                         testing::PrintToStringParamName());

/// What the suite has beside its first models.
std::vector<uint64_t> kept(const std::vector<uint64_t> &numbers) {
  return std::getenv("NANO_RANDOM_MODELS") ? std::vector<uint64_t>() : numbers;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelsThatFailed);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelIn8Bits);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelOfDifferences);

/// The first that runs on the emulator with all products fused that can be, and rows aligned.
INSTANTIATE_TEST_SUITE_P(Kept, RandomModels, testing::ValuesIn(kept({48})),
                         testing::PrintToStringParamName());

/// Halves of halves of four columns, of which neither parts nor the largest columns can be taken;
/// moments of Adam below the smallest normal number.
INSTANTIATE_TEST_SUITE_P(Kept, ModelsThatFailed,
                         testing::ValuesIn(kept({1004286, 1006106, 2180103})),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Kept, ModelIn8Bits, testing::ValuesIn(kept({41000})),
                         testing::PrintToStringParamName());

/// The number of its tokens and first values.
INSTANTIATE_TEST_SUITE_P(Kept, ModelOfDifferences, testing::ValuesIn(kept({215057})));

} // namespace
} // namespace nano::test
