// Batches: the order of reading against a straightforward re-implementation, the rules on examples
// worked out by hand, and the thread that reads ahead. e2e.data has an independent reader for all
// rules.
#include "runtime/data/BatchReader.h"

#include "runtime/data/Loader.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <thread>

namespace nano {
namespace {

using test::makeTokens;
using test::ScratchDirectory;
using test::writeShard;
using Rule = plan::Documents::Rule;

Result<BatchReader> contiguousReader(const std::string &pattern, const BatchShape &shape,
                                     DataPosition start = {}) {
  return BatchReader::create(*TokenShards::open(pattern, 100, "--train"), {}, shape, "--train",
                             start);
}

TEST(BatchReader, FewerTokensThanABatch) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(64, 100, 1));
  auto open = [&](const char *pattern) { return contiguousReader(scratch / pattern, {4, 16}); };
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
  auto reader = contiguousReader(scratch / "a.bin", {1, 64});
  ASSERT_TRUE(reader) << reader.error().message;
  for (uint64_t round = 0; round < 3; ++round) {
    auto batch = reader->next({1, 64});
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->beginsEpoch, round > 0);
    EXPECT_EQ(batch->start, (DataPosition{0, 0, round}));
    EXPECT_EQ(reader->position(), (DataPosition{0, 64, round}));
    SequenceData data;
    ASSERT_TRUE(reader->read(*batch, 0, {}, data));
    EXPECT_TRUE(std::equal(data.tokens.begin(), data.tokens.end(), tokens.begin()));
    EXPECT_TRUE(std::equal(data.targets.begin(), data.targets.end(), tokens.begin() + 1));
    EXPECT_EQ(data.tokens.size() + data.targets.size(), 128u);
  }
}

TEST(BatchReader, StartBeyondTheShards) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(100, 100, 1));
  EXPECT_FALSE(contiguousReader(scratch / "a.bin", {4, 16}, {1, 0, 0}));
  auto reader = contiguousReader(scratch / "a.bin", {4, 16}, {0, 101, 0});
  ASSERT_FALSE(reader);
  EXPECT_CONTAINS(reader.error().message, "token 101 of shard 0");
  EXPECT_TRUE(contiguousReader(scratch / "a.bin", {4, 16}, {0, 100, 0}));
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
    const BatchShape shape = {1 + generator() % 4, 1 + generator() % 5};
    const uint64_t tokensOfBatch = shape.sequences * shape.length;
    std::vector<std::vector<uint16_t>> tokens;
    for (size_t shard = 0; shard < 1 + generator() % 4; ++shard) {
      // Lengths around multiples of the batch, where the rule has its edges; short ones too, but
      // not the first.
      size_t multiple = shard == 0 ? 1 + generator() % 3 : generator() % 4;
      tokens.push_back(makeTokens(tokensOfBatch * multiple + generator() % 4 + (shard == 0 ? 1 : 0),
                                  100, generator()));
      writeShard(scratch / ("s" + std::to_string(shard) + ".bin"), tokens.back());
    }
    PlainReader plain(tokens, tokensOfBatch);
    auto reader = contiguousReader(scratch / "s*.bin", shape);
    ASSERT_TRUE(reader);
    for (int step = 0; step < 30; ++step) {
      size_t before = plain.wraps;
      std::vector<int32_t> expected = plain.next();
      // Now and then the reader is made anew from its position, as a resumed run does.
      if (generator() % 4 == 0) {
        reader = contiguousReader(scratch / "s*.bin", shape, reader->position());
        ASSERT_TRUE(reader);
      }
      auto batch = reader->next(shape);
      ASSERT_TRUE(batch);
      ASSERT_EQ(batch->beginsEpoch, plain.wraps > before) << "round " << round << " step " << step;
      for (uint64_t j = 0; j < shape.sequences; ++j) {
        SequenceData data;
        ASSERT_TRUE(reader->read(*batch, j, {}, data));
        for (uint64_t t = 0; t < shape.length; ++t) {
          ASSERT_EQ(data.tokens[t], expected[j * shape.length + t]);
          ASSERT_EQ(data.targets[t], expected[j * shape.length + t + 1]);
        }
      }
    }
    EXPECT_EQ(reader->position().epoch, plain.wraps);
  }
}

/// A shard of documents of these lengths: token 0 begins each, then 1, 2, …; before the first stand
/// two tokens that belong to none.
std::vector<uint16_t> documentsOf(const std::vector<int> &lengths) {
  std::vector<uint16_t> tokens = {9, 9};
  for (int length : lengths)
    for (int i = 0; i < length; ++i)
      tokens.push_back(uint16_t(i));
  return tokens;
}

class DocumentsTest : public testing::Test {
protected:
  Result<BatchReader> make(Rule rule, const BatchShape &shape, DataPosition start = {}) {
    return BatchReader::create(*TokenShards::open(scratch / "*.bin", 100, "--train"),
                               {rule, false, 0, 0}, shape, "--train", start);
  }
  /// The sequences' pieces as text: "position+count …" joined by " | ".
  static std::string textOf(const Batch &batch) {
    std::string text;
    for (const Sequence &sequence : batch.sequences) {
      text += text.empty() ? "" : " |";
      for (const Piece &piece : sequence)
        text += (text.empty() ? "" : " ") + std::to_string(piece.position) + "+" +
                std::to_string(piece.count);
    }
    return text;
  }
  std::string errorOf(Rule rule, const BatchShape &shape) {
    auto reader = make(rule, shape);
    if (reader)
      return "no error";
    EXPECT_EQ(reader.error().exitStatus(), 2);
    EXPECT_EQ(reader.error().message.find('\n'), std::string::npos);
    return reader.error().message;
  }
  ScratchDirectory scratch;
};

TEST_F(DocumentsTest, Cut) {
  writeShard(scratch / "a.bin", documentsOf({5, 2, 7, 1, 3, 4, 9}));
  // Beginnings at 2, 7, 9, 16, 17, 20, 24; rows of 6 + 1 tokens.
  auto reader = make(Rule::Cut, {2, 6});
  ASSERT_TRUE(reader) << reader.error().message;
  auto batch = reader->next({2, 6});
  ASSERT_TRUE(batch);
  EXPECT_EQ(textOf(*batch), "2+5 7+2 | 9+7");
  EXPECT_EQ(reader->position(), (DataPosition{0, 3, 0}));
  // Another shape: the length and the longest document follow the step.
  batch = reader->next({1, 6, 3});
  EXPECT_EQ(textOf(*batch), "16+1 17+3 20+3");
  EXPECT_EQ(reader->position(), (DataPosition{0, 6, 0}));
  // One document of nine is left, and two rows of five do not come of it.
  batch = reader->next({2, 4});
  EXPECT_EQ(textOf(*batch), "2+5 | 7+2 9+3");
  EXPECT_TRUE(batch->beginsEpoch);
  EXPECT_EQ(batch->start, (DataPosition{0, 0, 1}));
  EXPECT_EQ(reader->position(), (DataPosition{0, 3, 1}));
  EXPECT_EQ(reader->describe(reader->position()), "document 3 of a.bin");
  EXPECT_CONTAINS(errorOf(Rule::Cut, {4, 8}),
                  "--train no shard's documents fill a batch of 4 sequences of 8 tokens");
}

TEST_F(DocumentsTest, Packed) {
  writeShard(scratch / "a.bin", documentsOf({5, 2, 7, 1, 3, 4}));
  auto reader = make(Rule::Packed, {2, 7});
  ASSERT_TRUE(reader) << reader.error().message;
  auto batch = reader->next({2, 7});
  EXPECT_EQ(textOf(*batch), "2+5 7+2 | 9+7 16+1");
  // The last row of a shard may have room left; a batch without rows may not.
  batch = reader->next({1, 7, 2});
  EXPECT_EQ(textOf(*batch), "17+2 20+2");
  const plan::Column document = {plan::documentColumn, plan::Column::Type::U8, true, 0},
                     ofInput = {plan::documentColumn, plan::Column::Type::U8, false, 0};
  SequenceData data;
  ASSERT_TRUE(reader->read(*batch, 0, {document, ofInput}, data));
  EXPECT_EQ(data.tokens, (std::vector<int32_t>{0, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(data.targets, (std::vector<int32_t>{1, 0, 1, 0, 0, 0, 0}));
  auto numbers = [](const std::vector<std::byte> &bytes) {
    std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  EXPECT_EQ(numbers(data.columns[0]), (std::vector<int32_t>{1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(numbers(data.columns[1]), (std::vector<int32_t>{1, 1, 1, 1, 0, 0, 0}));
  EXPECT_CONTAINS(errorOf(Rule::Packed, {2, 5}),
                  "a.bin: the document at token 9 has 7 tokens, and a row 6; limit them");
  EXPECT_EQ(errorOf(Rule::Packed, {2, 5, 6}), "no error");
}

TEST_F(DocumentsTest, Aligned) {
  // Beginnings at 2, 5, 9, 12, 14, 20, 24, 27, 31, 36; 46 tokens.
  writeShard(scratch / "a.bin", documentsOf({3, 4, 3, 2, 6, 4, 3, 4, 5, 10}));
  auto reader = make(Rule::Aligned, {2, 4});
  ASSERT_TRUE(reader) << reader.error().message;
  auto batch = reader->next({2, 4});
  EXPECT_EQ(textOf(*batch), "2+5 | 9+5"); // 5 is three behind 2 only; 14 begins the next batch
  EXPECT_EQ(reader->position(), (DataPosition{0, 14, 0}));
  EXPECT_EQ(textOf(*reader->next({2, 4})), "14+5 | 20+5");
  EXPECT_EQ(textOf(*reader->next({2, 4})), "24+5 | 31+5");
  EXPECT_EQ(reader->position(), (DataPosition{0, 36, 0}));
  // 36 + 16 + 1 ≥ 46.
  EXPECT_EQ(textOf(*reader->next({2, 4})), "2+5 | 9+5");
  EXPECT_EQ(reader->position().epoch, 1u);
  EXPECT_CONTAINS(errorOf(Rule::Aligned, {3, 8}), "fewer tokens than one global batch");
  EXPECT_CONTAINS(errorOf(Rule::Aligned, {9, 2}),
                  "a.bin: tokens 0 to 36 have beginnings of documents, 2 tokens apart, for 9 "
                  "sequences and not for 9 and the next batch");
}

TEST_F(DocumentsTest, NoDocument) {
  writeShard(scratch / "a.bin", std::vector<uint16_t>(100, 7));
  for (Rule rule : {Rule::Aligned, Rule::Cut, Rule::Packed})
    EXPECT_CONTAINS(errorOf(rule, {1, 8}),
                    "a.bin: no document begins in it: it holds no token 0, the model's eos_token");
}

/// Every document once an epoch, in an order that seed and epoch make.
TEST_F(DocumentsTest, Shuffled) {
  std::vector<int> lengths(40);
  std::iota(lengths.begin(), lengths.end(), 1);
  writeShard(scratch / "a.bin", documentsOf(lengths));
  auto shards = *TokenShards::open(scratch / "*.bin", 100, "--train");
  std::vector<std::vector<uint64_t>> orders;
  for (uint64_t seed : {1, 2}) {
    auto reader = BatchReader::create(shards, {Rule::Packed, true, seed, 0}, {1, 50}, "--train");
    ASSERT_TRUE(reader);
    for (uint64_t epoch : {0, 1}) {
      std::vector<uint64_t> order;
      while (order.size() < lengths.size()) {
        auto batch = reader->next({1, 50});
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->start.epoch, epoch);
        for (const Piece &piece : batch->sequences[0])
          order.push_back(piece.count);
      }
      orders.push_back(order);
    }
  }
  for (size_t i = 0; i < orders.size(); ++i) {
    EXPECT_FALSE(std::is_sorted(orders[i].begin(), orders[i].end()));
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(orders[i], orders[j]);
    std::vector<uint64_t> sorted = orders[i];
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<uint64_t>(lengths.begin(), lengths.end())));
  }
}

/// Programs that read tokens alone.
const std::vector<plan::Column> &noColumns(int64_t /*step*/) {
  static const std::vector<plan::Column> none;
  return none;
}

/// The loader's batches are the reader's, each rank's share apart; an error comes with its step.
TEST(Loader, SameBatches) {
  ScratchDirectory scratch;
  std::vector<uint16_t> tokens = makeTokens(1000, 100, 1);
  tokens[688] = 100; // in step 10 a target of the third sequence, an input of the fourth
  writeShard(scratch / "a.bin", tokens);
  auto reader = contiguousReader(scratch / "a.bin", {4, 16});
  ASSERT_TRUE(reader);
  for (int rank : {0, 1}) {
    Loader loader(
        *reader, {rank, 2, noColumns, true},
        [](int64_t) { return Result<BatchShape>(BatchShape{4, 16}); }, 0, 12);
    BatchReader plain = *reader;
    for (int step = 0; step < 10; ++step) {
      auto loaded = loader.next();
      auto batch = plain.next({4, 16});
      ASSERT_TRUE(loaded && batch) << loaded.error().message;
      EXPECT_EQ((*loaded)->batch.sequences, batch->sequences);
      EXPECT_EQ((*loaded)->hash, *plain.hash(*batch));
      ASSERT_EQ((*loaded)->share.size(), 2u);
      for (size_t i : {0, 1}) {
        SequenceData data;
        ASSERT_TRUE(plain.read(*batch, size_t(rank) + 2 * i, {}, data));
        EXPECT_EQ((*loaded)->share[i].targets, data.targets);
      }
    }
    for (int again : {0, 1}) {
      auto loaded = loader.next();
      ASSERT_FALSE(loaded) << again;
      EXPECT_EQ(loaded.error().exitStatus(), 2);
      EXPECT_CONTAINS(loaded.error().message, "a.bin: token 100 at position 688");
    }
  }
}

/// It reads ahead, and no further than its queue; it stops at once.
TEST(Loader, ReadsAhead) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(1000, 100, 1));
  auto reader = contiguousReader(scratch / "a.bin", {4, 16});
  std::atomic<int64_t> asked = -1;
  auto wait = [&](int64_t step) {
    for (int i = 0; i < 1000 && asked < step; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return asked.load();
  };
  Loader loader(
      *reader, {0, 1, noColumns, false},
      [&](int64_t step) {
        asked = step;
        return Result<BatchShape>(BatchShape{4, 16});
      },
      5, 1000);
  EXPECT_EQ(wait(8), 8); // three are ready, one waits for its place
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(wait(9), 9);
}

TEST(ValidationSequences, WholeSequencesThatFit) {
  ScratchDirectory scratch;
  writeShard(scratch / "a.bin", makeTokens(21, 100, 1)); // two sequences of 10 and the last target
  writeShard(scratch / "b.bin", makeTokens(10, 100, 1)); // no target for the last token
  writeShard(scratch / "c.bin", makeTokens(45, 100, 1));
  auto shards = *TokenShards::open(scratch / "*.bin", 100, "--val");
  using Places = std::vector<Piece>;
  EXPECT_EQ(validationSequences(*shards, 10, 1000),
            (Places{{0, 0, 11}, {0, 10, 11}, {2, 0, 11}, {2, 10, 11}, {2, 20, 11}, {2, 30, 11}}));
  EXPECT_EQ(validationSequences(*shards, 10, 39), (Places{{0, 0, 11}, {0, 10, 11}, {2, 0, 11}}));
  EXPECT_EQ(validationSequences(*shards, 10, 9), (Places{}));
  EXPECT_EQ(validationSequences(*shards, 100, 1000), (Places{}));
}

} // namespace
} // namespace nano
