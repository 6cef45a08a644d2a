// Shards: every way in which one can be wrong, tokens and columns as they are read.
#include "runtime/data/TokenShards.h"

#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

namespace nano {
namespace {

using test::makeTokens;
using test::ScratchDirectory;
using test::writeShard;
using test::writeText;
using test::writeWideShard;

std::string errorOf(const std::string &pattern) {
  auto shards = TokenShards::open(pattern, 100, "--train");
  if (shards)
    return "no error";
  EXPECT_EQ(shards.error().exitStatus(), 2);
  EXPECT_EQ(shards.error().message.find('\n'), std::string::npos);
  return shards.error().message;
}

TEST(TokenShards, NothingMatches) {
  ScratchDirectory scratch;
  EXPECT_EQ(errorOf(scratch / "*.bin"), "--train '" + (scratch / "*.bin") + "': no file matches");
}

TEST(TokenShards, WrongFiles) {
  ScratchDirectory scratch;
  std::string path = scratch / "a.bin";
  std::filesystem::create_directory(scratch / "directory");
  EXPECT_CONTAINS(errorOf(scratch / "directory"),
                  "directory: not a usable folder of columns: it has no tokens.npy");
  writeText(path, "");
  EXPECT_CONTAINS(errorOf(path), "a.bin: not a usable token shard: it has 0 bytes");
  writeText(path, std::string(1023, 'x'));
  EXPECT_CONTAINS(errorOf(path), "it has 1023 bytes, its header alone takes 1024");
  writeShard(path, makeTokens(10, 100, 1), {.magic = 20240521});
  EXPECT_CONTAINS(errorOf(path),
                  "it begins with 20240521, a shard with the magic number 20240520 or 20240801");
  writeShard(path, makeTokens(10, 100, 1), {.version = 2});
  EXPECT_CONTAINS(errorOf(path), "version 2, only 1 is known");
  writeShard(path, makeTokens(10, 100, 1), {.count = 11});
  EXPECT_CONTAINS(errorOf(path), "its header says 11 tokens, which takes 1046 bytes; it has 1044");
  writeShard(path, makeTokens(10, 100, 1), {.count = 9});
  EXPECT_CONTAINS(errorOf(path), "its header says 9 tokens");
  writeShard(path, makeTokens(10, 100, 1), {.count = INT32_MIN});
  EXPECT_CONTAINS(errorOf(path), "tokens, which takes 1024 bytes");
  writeShard(path, makeTokens(10, 100, 1), {.rest = 1});
  EXPECT_CONTAINS(errorOf(path), "its header holds values that version 1 does not have");
  writeShard(path, makeTokens(10, 100, 1));
  EXPECT_EQ(errorOf(path), "no error");
}

TEST(TokenShards, SortedByNameWhateverTheOrderOfCreation) {
  ScratchDirectory scratch;
  for (const char *name : {"t_10.bin", "t_02.bin", "T_99.bin", "t_01.bin"})
    writeShard(scratch / name, makeTokens(10, 100, 1));
  auto shards = TokenShards::open(scratch / "?_*.bin", 100, "--train");
  ASSERT_TRUE(shards);
  std::vector<std::string> names;
  for (size_t i = 0; i < (*shards)->count(); ++i)
    names.push_back((*shards)->name(i));
  EXPECT_EQ(names, (std::vector<std::string>{"T_99.bin", "t_01.bin", "t_02.bin", "t_10.bin"}));
  EXPECT_EQ((*shards)->totalTokens(), 40u);
}

TEST(TokenShards, TokenOutsideTheVocabulary) {
  ScratchDirectory scratch;
  std::vector<uint16_t> tokens = makeTokens(50, 100, 1);
  tokens[20] = 100;
  writeShard(scratch / "a.bin", tokens);
  auto shards = TokenShards::open(scratch / "a.bin", 100, "--train");
  ASSERT_TRUE(shards);
  std::vector<int32_t> inputs(10), targets(10);
  EXPECT_TRUE((*shards)->read(0, 0, 10, inputs.data(), targets.data()));
  // As a target alone, as an input, and at another place of the input.
  for (uint64_t position : {10, 20, 15}) {
    Status status = (*shards)->read(0, position, 10, inputs.data(), targets.data());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exitStatus(), 2);
    EXPECT_CONTAINS(status.error().message,
                    "a.bin: token 100 at position 20 is outside the plan's vocabulary of 100");
  }
  EXPECT_TRUE((*shards)->read(0, 21, 10, inputs.data(), targets.data()));
}

/// 32-bit shards are read beside 16-bit ones, and their tokens are checked as those are: what is
/// above 2³¹ is named as it lies there.
TEST(TokenShards, WideTokens) {
  ScratchDirectory scratch;
  std::vector<uint32_t> tokens = {128000, 5, 128255, 65536, 7};
  writeWideShard(scratch / "b.bin", tokens);
  writeShard(scratch / "a.bin", {1, 2, 65535});
  auto shards = TokenShards::open(scratch / "?.bin", 128256, "--train");
  ASSERT_TRUE(shards) << shards.error().message;
  EXPECT_TRUE((*shards)->areWide());
  EXPECT_EQ((*shards)->totalTokens(), 8u);
  std::vector<int32_t> inputs(4), targets(4);
  ASSERT_TRUE((*shards)->read(1, 0, 4, inputs.data(), targets.data()));
  EXPECT_EQ(inputs, (std::vector<int32_t>{128000, 5, 128255, 65536}));
  EXPECT_EQ(targets, (std::vector<int32_t>{5, 128255, 65536, 7}));
  ASSERT_TRUE((*shards)->read(0, 0, 2, inputs.data(), targets.data()));
  EXPECT_EQ(targets[1], 65535);
  for (uint32_t bad : {128256U, 2147483648U, 4294967295U}) {
    tokens[3] = bad;
    std::filesystem::remove(scratch / "b.bin");
    writeWideShard(scratch / "b.bin", tokens);
    shards = TokenShards::open(scratch / "b.bin", 128256, "--train");
    Status status = (*shards)->read(0, 0, 4, inputs.data(), targets.data());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exitStatus(), 2);
    EXPECT_CONTAINS(status.error().message,
                    "b.bin: token " + std::to_string(bad) +
                        " at position 3 is outside the plan's vocabulary of 128256");
    EXPECT_TRUE((*shards)->read(0, 0, 2, inputs.data(), targets.data()));
  }
}

TEST(TokenShards, WrongWideFiles) {
  ScratchDirectory scratch;
  const std::string path = scratch / "a.bin";
  writeWideShard(path, {1, 2, 3}, {.magic = 20240801, .version = 1});
  EXPECT_CONTAINS(errorOf(path), "version 1, only 7 is known");
  writeWideShard(path, {1, 2, 3}, {.magic = 20240801, .version = 7, .count = 6});
  EXPECT_CONTAINS(errorOf(path), "its header says 6 tokens, which takes 1048 bytes; it has 1036");
  writeShard(path, {1, 2, 3, 4}, {.magic = 20240801, .version = 7});
  EXPECT_CONTAINS(errorOf(path), "its header says 4 tokens, which takes 1040 bytes; it has 1032");
}

/// Names, numbers of tokens and first tokens tell sets of shards apart; what lies behind those does
/// not, but a batch there does.
TEST(TokenShards, Fingerprints) {
  ScratchDirectory scratch;
  std::vector<uint16_t> tokens = makeTokens(3000, 100, 1);
  auto open = [&] { return *TokenShards::open(scratch / "*.bin", 100, "--train"); };
  auto write = [&](const std::vector<uint16_t> &content) {
    std::filesystem::remove(scratch / "a.bin"); // what is mapped stays
    writeShard(scratch / "a.bin", content);
  };
  auto hashOfBatch = [&] { return *open()->hash(0, 2000, 65); };
  write(tokens);
  const uint64_t whole = *open()->fingerprint(), batch = hashOfBatch();
  EXPECT_EQ(*open()->fingerprint(), whole);
  EXPECT_EQ(hashOfBatch(), batch);
  for (size_t place : {0, 1535, 1536, 1999, 2000, 2063, 2064, 2065}) {
    std::vector<uint16_t> changed = tokens;
    changed[place] ^= 1;
    write(changed);
    EXPECT_EQ(*open()->fingerprint() != whole, place < 1536) << place;
    EXPECT_EQ(hashOfBatch() != batch, place >= 2000 && place < 2065) << place;
  }
  write(makeTokens(3001, 100, 1));
  EXPECT_NE(*open()->fingerprint(), whole);
  write(tokens);
  writeShard(scratch / "b.bin", {});
  EXPECT_NE(*open()->fingerprint(), whole);
  std::filesystem::remove(scratch / "b.bin");
  std::filesystem::rename(scratch / "a.bin", scratch / "c.bin");
  EXPECT_NE(*open()->fingerprint(), whole);
}

/// Columns of a safetensors file: what is there, what is asked for, what is in them.
TEST(TokenShards, Columns) {
  using Type = plan::Column::Type;
  ScratchDirectory scratch;
  const std::vector<uint16_t> tokens = makeTokens(5, 100, 1);
  std::vector<float> weights = {0.5, 1, -2, 3, 4};
  const std::vector<uint8_t> mask = {0, 1, 0, 255, 1};
  const std::vector<uint16_t> halves = {0x3f80, 0, 0x7f7f, 0, 0};
  auto write = [&] {
    test::writeColumns(scratch / "a.safetensors",
                       {test::column("tokens", "U16", tokens),
                        test::column("weight", "F32", weights),
                        test::column("half", "BF16", halves), test::column("mask", "U8", mask)});
  };
  write();
  auto open = [&](std::vector<plan::Column> columns) {
    return TokenShards::open(scratch / "*.safetensors", 100, "--train", std::move(columns));
  };
  const plan::Column weight = {"weight", Type::F32, true, 0}, half = {"half", Type::BF16, true, 0},
                     bytes = {"mask", Type::U8, false, 0},
                     document = {plan::documentColumn, Type::U8, true, 0};
  auto shards = open({weight, bytes, document});
  ASSERT_TRUE(shards) << shards.error().message;
  EXPECT_EQ((*shards)->unread(), (std::vector<std::string>{"half"}));
  std::vector<float> floats(3);
  ASSERT_TRUE((*shards)->readColumn(0, weight, 1, 3, reinterpret_cast<std::byte *>(floats.data())));
  EXPECT_EQ(floats, (std::vector<float>{1, -2, 3}));
  std::vector<int32_t> numbers(2);
  ASSERT_TRUE((*shards)->readColumn(0, bytes, 3, 2, reinterpret_cast<std::byte *>(numbers.data())));
  EXPECT_EQ(numbers, (std::vector<int32_t>{255, 1}));

  auto expect = [&](const plan::Column &column, const char *message) {
    auto shards = open({column});
    ASSERT_FALSE(shards);
    EXPECT_EQ(shards.error().exitStatus(), 2);
    EXPECT_CONTAINS(shards.error().message, message);
  };
  expect({"advantage", Type::F32, true, 0},
         "a.safetensors: has no column 'advantage' (f32), which the model reads; it has tokens, "
         "half, mask, weight");
  expect({"weight", Type::I32, true, 0},
         "a.safetensors: column 'weight' is f32, and the model reads it as i32");
  expect({"mask", Type::F32, true, 0}, "column 'mask' is u8, and the model reads it as f32");

  for (float bad : {NAN, INFINITY, -INFINITY}) {
    weights[3] = bad;
    write();
    shards = open({weight, half});
    ASSERT_TRUE(shards);
    auto *to = reinterpret_cast<std::byte *>(floats.data());
    EXPECT_TRUE((*shards)->readColumn(0, weight, 0, 3, to));
    EXPECT_TRUE((*shards)->readColumn(0, half, 0, 3, to)); // the largest bf16 is one
    Status status = (*shards)->readColumn(0, weight, 2, 3, to);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exitStatus(), 2);
    EXPECT_CONTAINS(status.error().message,
                    "a.safetensors: column 'weight' is not finite at position 3; mend the data");
  }
}

/// A negative i32 is no token, and is named as it is.
TEST(TokenShards, NegativeTokens) {
  ScratchDirectory scratch;
  test::writeColumns(scratch / "a.safetensors",
                     {test::column("tokens", "I32", std::vector<int32_t>{1, 2, -3})});
  auto shards = TokenShards::open(scratch / "a.safetensors", 100, "--train");
  ASSERT_TRUE(shards);
  std::vector<int32_t> tokens(3);
  EXPECT_TRUE((*shards)->read(0, 0, 2, tokens.data()));
  Status status = (*shards)->read(0, 0, 3, tokens.data());
  ASSERT_FALSE(status);
  EXPECT_CONTAINS(status.error().message, "a.safetensors: token -3 at position 2 is outside");
}

} // namespace
} // namespace nano
