// Initial values: the same bits for any number of threads, in pieces in order, zeros by clearing.
#include "runtime/States.h"
#include "runtime/NumberFormats.h"
#include "runtime/Random.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace nano {
namespace {

using Role = plan::State::Role;

plan::State stateOf(const std::string &name, plan::DType type, int64_t elements, plan::Init init) {
  plan::State state;
  state.name = name;
  state.type = type;
  state.shape = {elements};
  state.init = std::move(init);
  return state;
}

constexpr uint64_t seed = 7;
/// More than two pieces of one MiB, the last one short.
constexpr int64_t manyFloats = (5 << 17) + 3, manyBf16 = (11 << 17) + 5;

plan::Plan planOfStates() {
  plan::Init normal, uniform, listed;
  normal.kind = plan::Init::Kind::Normal;
  normal.stddev = 2;
  uniform.kind = plan::Init::Kind::Uniform;
  uniform.low = -1;
  listed.values = {1, 2, 3};
  plan::Init zero;
  zero.values = {0};
  plan::Plan plan;
  plan.states = {stateOf("normal", plan::DType::BF16, manyBf16, normal),
                 stateOf("uniform", plan::DType::F32, manyFloats, uniform),
                 stateOf("zero", plan::DType::F8E5M2, 100, zero),
                 stateOf("listed", plan::DType::I32, 3, listed)};
  return plan;
}

/// What a device holds, by state.
struct Memory {
  std::map<std::string, std::vector<std::byte>> bytes;
  std::vector<std::string> cleared;
  uint64_t writesBeforeFailure = UINT64_MAX;

  Status write(const plan::State &state, uint64_t offset, const void *data, uint64_t count) {
    if (writesBeforeFailure-- == 0)
      return failed("the device is gone");
    std::vector<std::byte> &held = bytes[state.name];
    EXPECT_EQ(held.size(), offset) << state.name << ": pieces in order";
    const auto *from = static_cast<const std::byte *>(data);
    held.insert(held.end(), from, from + count);
    return ok();
  }
  Status initialize(const plan::Plan &plan, int threads) {
    return initializeStates(
        plan, Seat(), {Role::Parameter}, seed, threads,
        [&](const plan::State &state, uint64_t offset, const void *data, uint64_t count) {
          return write(state, offset, data, count);
        },
        [&](const plan::State &state) {
          cleared.push_back(state.name);
          return ok();
        });
  }
};

TEST(States, InitialValuesDoNotDependOnTheNumberOfThreads) {
  const plan::Plan plan = planOfStates();
  std::vector<float> normal(manyBf16), uniform(manyFloats);
  Random(seed, "normal").normal(0, normal, 0, 2);
  Random(seed, "uniform").uniform(0, uniform, -1, 1);
  std::vector<uint16_t> rounded(normal.size());
  std::transform(normal.begin(), normal.end(), rounded.begin(), toBf16);
  for (int threads : {1, 2, 3, 16}) {
    Memory memory;
    ASSERT_TRUE(memory.initialize(plan, threads));
    EXPECT_EQ(memory.cleared, std::vector<std::string>{"zero"});
    ASSERT_EQ(memory.bytes["normal"].size(), rounded.size() * 2);
    EXPECT_EQ(std::memcmp(memory.bytes["normal"].data(), rounded.data(), rounded.size() * 2), 0);
    ASSERT_EQ(memory.bytes["uniform"].size(), uniform.size() * 4);
    EXPECT_EQ(std::memcmp(memory.bytes["uniform"].data(), uniform.data(), uniform.size() * 4), 0);
    const int32_t listed[] = {1, 2, 3};
    ASSERT_EQ(memory.bytes["listed"].size(), sizeof listed);
    EXPECT_EQ(std::memcmp(memory.bytes["listed"].data(), listed, sizeof listed), 0);
  }
}

TEST(States, PaddingOfPartsIsZero) {
  plan::Plan plan;
  plan::Init three;
  three.values = {3};
  plan.states = {stateOf("parts", plan::DType::F32, 6, three)};
  // Chunks of three for two ranks: elements 0 to 2 and 6 to 8 of the whole are rank 0's.
  plan.states[0].sharding =
      plan::Sharding{plan::Ranks::Group, 2, 3, {{"a", {2}, 0}, {"b", {2, 2}, 4}}};
  const std::vector<std::vector<float>> expected = {{3, 3, 0, 3, 3, 0}, {0, 3, 3, 0, 0, 0}};
  for (int rank : {0, 1}) {
    std::vector<float> held(6, -1);
    ASSERT_TRUE(initializeStates(
        plan, Seat{rank, 2, 2}, {Role::Parameter}, seed, 2,
        [&](const plan::State &, uint64_t offset, const void *data, uint64_t count) {
          std::memcpy(reinterpret_cast<char *>(held.data()) + offset, data, count);
          return ok();
        },
        [&](const plan::State &) {
          std::fill(held.begin(), held.end(), 0.0F);
          return ok();
        }));
    EXPECT_EQ(held, expected[size_t(rank)]);
  }
}

TEST(States, DataBlocksAndSigns) {
  plan::Plan plan;
  const std::vector<int32_t> table = {1 << 30, -1, (1 << 24) + 1};
  plan.data = "...." + std::string(reinterpret_cast<const char *>(table.data()), 12);
  plan::Init data, signs, large, blocks;
  data.kind = plan::Init::Kind::Data;
  data.offset = 4;
  signs.kind = plan::Init::Kind::Sign;
  signs.values = {2};
  large.values = {double((1 << 24) + 1)};
  blocks.kind = plan::Init::Kind::Blocks;
  plan::Init uniform;
  uniform.kind = plan::Init::Kind::Uniform;
  plan::Init five;
  five.values = {5};
  blocks.counts = {3, 4, manyFloats};
  blocks.parts = {uniform, five, signs};
  plan.states = {stateOf("table", plan::DType::I32, 3, data),
                 stateOf("signs", plan::DType::F32, 1000, signs),
                 stateOf("large", plan::DType::I32, 1, large),
                 stateOf("blocks", plan::DType::F32, manyFloats + 7, blocks)};
  Memory memory;
  ASSERT_TRUE(memory.initialize(plan, 3));
  auto held = [&](const char *name, auto element) {
    std::vector<decltype(element)> values(memory.bytes[name].size() / sizeof element);
    std::memcpy(values.data(), memory.bytes[name].data(), memory.bytes[name].size());
    return values;
  };
  EXPECT_EQ(held("table", int32_t()), table);
  EXPECT_EQ(held("large", int32_t()), std::vector<int32_t>{(1 << 24) + 1});
  const std::vector<float> drawn = held("signs", 0.0F);
  const auto up = std::count(drawn.begin(), drawn.end(), 2.0F);
  EXPECT_EQ(up + std::count(drawn.begin(), drawn.end(), -2.0F), 1000);
  EXPECT_NEAR(double(up), 500, 95) << "six deviations of fair coins";
  // Each part has what it would have if it were the whole.
  std::vector<float> expected(manyFloats + 7);
  const Random random(seed, "blocks");
  random.uniform(0, std::span(expected).first(3), 0, 1);
  std::fill_n(expected.begin() + 3, 4, 5.0F);
  for (size_t i = 7; i < expected.size(); ++i)
    expected[i] = random.unit(i) < 0.5 ? -2.0F : 2.0F;
  EXPECT_EQ(held("blocks", 0.0F), expected);
}

TEST(States, CopiesOfWhatIsThere) {
  plan::Plan plan;
  plan::Init copy, transpose;
  copy.kind = plan::Init::Kind::Copy;
  copy.source = "turned";
  transpose.kind = plan::Init::Kind::Transpose;
  transpose.source = "source";
  // A copy of a copy, declared before what it is a copy of.
  plan.states = {stateOf("last", plan::DType::BF16, 12, copy),
                 stateOf("turned", plan::DType::F32, 12, transpose),
                 stateOf("source", plan::DType::F32, 12, {})};
  plan.states[0].shape = plan.states[1].shape = {2, 3, 2};
  plan.states[2].shape = {2, 2, 3};
  std::map<std::string, std::vector<std::byte>> held;
  const std::vector<float> source = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1.00390625F};
  held["source"].resize(48);
  std::memcpy(held["source"].data(), source.data(), 48);
  const ReadState read = [&](const plan::State &state, uint64_t offset, void *data,
                             uint64_t count) {
    EXPECT_LE(offset + count, held[state.name].size()) << state.name;
    std::memcpy(data, held[state.name].data() + offset, count);
    return ok();
  };
  const WriteState write = [&](const plan::State &state, uint64_t offset, const void *data,
                               uint64_t count) {
    held[state.name].resize(bytesOf(state));
    std::memcpy(held[state.name].data() + offset, data, count);
    return ok();
  };
  ASSERT_TRUE(copyStates(plan, {&plan.states[0], &plan.states[1]}, read, write));
  const std::vector<float> turned = {1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 1.00390625F};
  ASSERT_EQ(held["turned"].size(), 48U);
  std::vector<float> heldTurned(12);
  std::memcpy(heldTurned.data(), held["turned"].data(), 48);
  EXPECT_EQ(heldTurned, turned);
  std::vector<uint16_t> rounded(12);
  std::transform(turned.begin(), turned.end(), rounded.begin(), toBf16);
  ASSERT_EQ(held["last"].size(), 24U);
  EXPECT_EQ(std::memcmp(held["last"].data(), rounded.data(), 24), 0);
}

TEST(States, SaysWhichStateItFills) {
  std::vector<std::string> said;
  auto write = [](const plan::State &, uint64_t, const void *, uint64_t) { return ok(); };
  auto clear = [](const plan::State &) { return ok(); };
  ASSERT_TRUE(initializeStates(planOfStates(), Seat(), {Role::Parameter}, seed, 2, write, clear,
                               [&](const std::string &what) { said.push_back(what); }));
  EXPECT_EQ(said, (std::vector<std::string>{"making the initial values of 'normal'",
                                            "making the initial values of 'uniform'",
                                            "making the initial values of 'listed'"}));
}

TEST(States, AFailedWriteEndsTheWork) {
  const plan::Plan plan = planOfStates();
  for (int threads : {1, 4}) {
    Memory memory;
    memory.writesBeforeFailure = 2;
    Status status = memory.initialize(plan, threads);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "the device is gone");
  }
}

TEST(States, EightBitFloatsStartAtZero) {
  plan::Plan plan = planOfStates();
  plan.states[2].init.values = {1};
  Memory memory;
  Status status = memory.initialize(plan, 2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "state 'zero': a state of type f8e5m2 can only start at zero");
}

} // namespace
} // namespace nano
