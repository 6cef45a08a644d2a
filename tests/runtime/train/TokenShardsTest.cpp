// Shards: every way in which one can be wrong, and the order of reading against a straightforward
// re-implementation.
#include "runtime/data/TokenShards.h"

#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <random>

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
  auto hashOfBatch = [&] {
    auto reader = BatchReader::create(open(), 64, 16, "--train", {0, 2000, 0});
    EXPECT_TRUE(reader);
    (void)reader->next();
    EXPECT_EQ(reader->batchStart(), (DataPosition{0, 2000, 0}));
    return *reader->hash();
  };
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

TEST(BatchReader, FewerTokensThanABatch) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(64, 100, 1));
  auto open = [&](const char *pattern) {
    return BatchReader::create(*TokenShards::open(scratch / pattern, 100, "--train"), 64, 16,
                               "--train");
  };
  auto reader = open("*.bin");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().exitStatus(), 2);
  EXPECT_CONTAINS(
      reader.error().message,
      "a.bin: fewer tokens than one global batch: it has 64, a step of 64 needs 65 in one shard");
  writeShard(scratch / "b.bin", makeTokens(10, 100, 1));
  EXPECT_CONTAINS(open("*.bin").error().message, "the other shards are no longer");
  writeShard(scratch / "a.bin", makeTokens(65, 100, 1));
  EXPECT_TRUE(open("*.bin"));
}

/// One batch and the target of its last token: the batch is read once in every round.
TEST(BatchReader, ShardOfExactlyOneBatch) {
  ScratchDirectory scratch;
  const std::vector<uint16_t> tokens = makeTokens(65, 100, 1);
  writeShard(scratch / "a.bin", tokens);
  auto reader =
      BatchReader::create(*TokenShards::open(scratch / "a.bin", 100, "--train"), 64, 64, "--train");
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<int32_t> inputs(64), targets(64);
  for (uint64_t round = 0; round < 3; ++round) {
    EXPECT_EQ(reader->next(), round > 0);
    EXPECT_EQ(reader->position(), (DataPosition{0, 64, round}));
    ASSERT_TRUE(reader->read(0, inputs.data(), targets.data()));
    EXPECT_TRUE(std::equal(inputs.begin(), inputs.end(), tokens.begin()));
    EXPECT_TRUE(std::equal(targets.begin(), targets.end(), tokens.begin() + 1));
  }
}

TEST(BatchReader, StartBeyondTheShards) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(100, 100, 1));
  auto shards = *TokenShards::open(scratch / "a.bin", 100, "--train");
  EXPECT_FALSE(BatchReader::create(shards, 64, 16, "--train", {1, 0, 0}));
  auto reader = BatchReader::create(shards, 64, 16, "--train", {0, 101, 0});
  ASSERT_FALSE(reader);
  EXPECT_CONTAINS(reader.error().message, "token 101 of shard 0");
  EXPECT_TRUE(BatchReader::create(shards, 64, 16, "--train", {0, 100, 0}));
}

/// The rule as it is written: a shard is left for the next one, at position 0, when pos + batch + 1
/// ≥ n; at its beginning only where it is too short.
class PlainReader {
public:
  PlainReader(std::vector<std::vector<uint16_t>> shards, size_t batch)
      : shards(std::move(shards)), batch(batch) {}
  /// The batch's tokens and the one after it; counts how often the first shard is begun again.
  std::vector<int32_t> next() {
    while (position + batch + (position > 0 ? 1 : 0) >= shards[shard].size()) {
      position = 0;
      shard = shard + 1;
      if (shard == shards.size()) {
        shard = 0;
        ++wraps;
      }
    }
    std::vector<int32_t> tokens;
    for (size_t i = position; i <= position + batch; ++i)
      tokens.push_back(shards[shard][i]);
    position += batch;
    return tokens;
  }
  size_t wraps = 0;

private:
  std::vector<std::vector<uint16_t>> shards;
  size_t batch, shard = 0, position = 0;
};

TEST(BatchReader, OrderOfReading) {
  std::mt19937 generator(3);
  for (int round = 0; round < 40; ++round) {
    ScratchDirectory scratch;
    const uint64_t sequence = 1 + generator() % 5, sequences = 1 + generator() % 4,
                   batch = sequence * sequences;
    std::vector<std::vector<uint16_t>> tokens;
    for (size_t shard = 0; shard < 1 + generator() % 4; ++shard) {
      // Lengths around multiples of the batch, where the rule has its edges; short ones too, but
      // not the first.
      size_t multiple = shard == 0 ? 1 + generator() % 3 : generator() % 4;
      tokens.push_back(
          makeTokens(batch * multiple + generator() % 4 + (shard == 0 ? 1 : 0), 100, generator()));
      writeShard(scratch / ("s" + std::to_string(shard) + ".bin"), tokens.back());
    }
    auto shards = *TokenShards::open(scratch / "s*.bin", 100, "--train");
    PlainReader plain(tokens, batch);
    auto reader = BatchReader::create(shards, batch, sequence, "--train");
    ASSERT_TRUE(reader);
    for (int step = 0; step < 30; ++step) {
      size_t before = plain.wraps;
      std::vector<int32_t> expected = plain.next();
      // Now and then the reader is made anew from its position, as a resumed run does.
      if (generator() % 4 == 0) {
        DataPosition position = reader->position();
        reader = BatchReader::create(shards, batch, sequence, "--train", position);
        ASSERT_TRUE(reader);
      }
      ASSERT_EQ(reader->next(), plain.wraps > before) << "round " << round << " step " << step;
      for (uint64_t j = 0; j < sequences; ++j) {
        std::vector<int32_t> inputs(sequence), targets(sequence);
        ASSERT_TRUE(reader->read(j, inputs.data(), targets.data()));
        for (uint64_t t = 0; t < sequence; ++t) {
          ASSERT_EQ(inputs[t], expected[j * sequence + t]);
          ASSERT_EQ(targets[t], expected[j * sequence + t + 1]);
        }
      }
    }
    EXPECT_EQ(reader->position().epoch, plain.wraps);
  }
}

TEST(ValidationSequences, WholeSequencesThatFit) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(21, 100, 1)); // two sequences of 10 and the last target
  writeShard(scratch / "b.bin", makeTokens(10, 100, 1)); // no target for the last token
  writeShard(scratch / "c.bin", makeTokens(45, 100, 1));
  auto shards = *TokenShards::open(scratch / "*.bin", 100, "--val");
  using Places = std::vector<std::pair<size_t, uint64_t>>;
  EXPECT_EQ(validationSequences(*shards, 10, 1000),
            (Places{{0, 0}, {0, 10}, {2, 0}, {2, 10}, {2, 20}, {2, 30}}));
  EXPECT_EQ(validationSequences(*shards, 10, 39), (Places{{0, 0}, {0, 10}, {2, 0}}));
  EXPECT_EQ(validationSequences(*shards, 10, 9), (Places{}));
  EXPECT_EQ(validationSequences(*shards, 100, 1000), (Places{}));
}

} // namespace
} // namespace nano
