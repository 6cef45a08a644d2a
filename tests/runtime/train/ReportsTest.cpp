// Reports combined, shown, logged and written for TensorBoard, byte by byte.
#include "runtime/Reports.h"
#include "runtime/TensorBoard.h"

#include "tests/runtime/train/TestSupport.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>

namespace nano {
namespace {

using plan::Report;
namespace fs = std::filesystem;

/// A device of one buffer a report buffer, whose content the test sets.
class OneBuffer : public Device {
public:
  std::vector<float> values;
  Status write(uint32_t, uint64_t, const void *, uint64_t) override { return ok(); }
  Status clear(uint32_t) override { return ok(); }
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override {
    EXPECT_EQ(buffer, 7u);
    EXPECT_LE(offset + bytes, values.size() * sizeof(float));
    std::memcpy(data, reinterpret_cast<const char *>(values.data()) + offset, bytes);
    return ok();
  }
  Status run(const std::string &) override { return ok(); }
  Status runCommand(const std::string &, size_t) override { return ok(); }
  std::string describe() const override { return "one buffer"; }
};

/// A number of each kind from byte 4 on, and two of updates, one of phase 1 alone.
plan::Training allKinds() {
  plan::Training training;
  training.phases.resize(2);
  training.reports = {{"mean", Report::Kind::Mean, 7, 4, {}, false, {}},
                      {"norm", Report::Kind::Norm, 7, 8, {}, false, {}},
                      {"max", Report::Kind::Max, 7, 12, {}, false, {}},
                      {"spread", Report::Kind::Histogram, 7, 16, {-1, 1}, false, {}},
                      {"each", Report::Kind::Norm, 7, 0, {}, true, {}},
                      {"late", Report::Kind::Mean, 7, 4, {}, true, {1}}};
  return training;
}

TEST(Reports, CombineOverMicroBatches) {
  const plan::Training training = allKinds();
  ReportReader reader(training);
  EXPECT_TRUE(reader.hasMicroBatches() && reader.hasSteps());
  OneBuffer device;
  reader.expect(3);
  device.values = {99, 1, 9, 4, 1, 2, 3, -5, 6, 2, 20};
  ASSERT_TRUE(reader.readSequence(device, 0));
  device.values = {99, 4, 16, 2, 10, 0, 1, -7, 0.5F, 3, 30};
  ASSERT_TRUE(reader.readSequence(device, 2));
  EXPECT_EQ(reader.numbers().size(), 3u * 10u);
  // The second sequence is another rank's.
  const std::vector<float> other = {7, 0, 3, 0, 5, 0, -1, 8, 4, 50};
  std::copy(other.begin(), other.end(), reader.numbers().begin() + 10);
  const std::vector<ReportFacts> facts = reader.sequenceFacts();
  ASSERT_EQ(facts.size(), 4u);
  EXPECT_EQ(facts[0].value, 4);
  EXPECT_EQ(facts[1].value, 5);
  EXPECT_EQ(facts[2].value, 4);
  EXPECT_EQ(facts[3].counts, (std::vector<double>{11, 7, 4}));
  EXPECT_EQ(facts[3].elements(), 22);
  EXPECT_EQ(facts[3].least, -7);
  EXPECT_EQ(facts[3].most, 8);
  EXPECT_EQ(facts[3].sum, 9);
  EXPECT_EQ(facts[3].squares, 100);
}

TEST(Reports, OfUpdatesKeepToTheirPhases) {
  const plan::Training training = allKinds();
  ReportReader reader(training);
  OneBuffer device;
  device.values = {9, 0.5F};
  ASSERT_TRUE(reader.readStep(device));
  std::vector<ReportFacts> facts = reader.stepFacts(0);
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0].value, 3);
  facts = reader.stepFacts(1);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(facts[1].report->name, "late");
  EXPECT_EQ(facts[1].value, 0.5);
}

TEST(Reports, ANumberThatIsNoneStays) {
  plan::Training training = allKinds();
  training.reports.resize(3);
  ReportReader reader(training);
  reader.expect(2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t place : {size_t(0), size_t(1)}) {
    reader.numbers() = {1, 1, 1, 1, 1, 1};
    reader.numbers()[place * 3 + 2] = nan;
    EXPECT_TRUE(std::isnan(reader.sequenceFacts()[2].value)) << place;
  }
}

TEST(Reports, ShownOnes) {
  plan::Plan plan;
  plan.training = allKinds();
  Result<ShownReports> shown = ShownReports::create(plan, {"m*", "max", "spread"});
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->text({}), "");
  const std::vector<Report> &reports = plan.training.reports;
  ReportFacts max{&reports[2], 0.012345, {}, 0, 0, 0, 0};
  ReportFacts spread{&reports[3], 0, {1, 2, 3}, -3.25, 4, 0, 0};
  EXPECT_EQ(shown->text({spread, max}), "  max 0.0123  spread -3.25..4");
  // What one step does not report stays.
  max.value = 1;
  EXPECT_EQ(shown->text({max}), "  max 1  spread -3.25..4");
  EXPECT_EQ(ShownReports::create(plan, {"mean", "ma"}).error().message,
            "--show ma: the plan has no such report; it has mean, norm, max, spread, each, late");
  plan.training.reports.clear();
  Result<ShownReports> none = ShownReports::create(plan, {"mean"});
  EXPECT_EQ(none.error().message, "--show mean: the plan reports nothing; compile it with nanoc "
                                  "compile --reports mean");
  EXPECT_EQ(none.error().kind, Error::Kind::BadInput);
}

class TensorBoardTest : public testing::Test {
protected:
  test::ScratchDirectory scratch;
  const fs::path directory = scratch.path;

  /// The messages of a file, whose records are checked.
  std::vector<std::string> messages(const fs::path &path) {
    std::vector<std::string> found;
    const std::string raw = test::readText(path.string());
    for (size_t at = 0; at < raw.size();) {
      uint64_t size = 0;
      uint32_t sums[2];
      std::memcpy(&size, raw.data() + at, sizeof size);
      std::memcpy(&sums[0], raw.data() + at + 8, 4);
      EXPECT_EQ(sums[0], maskedCrc32c(raw.substr(at, 8)));
      if (at + size + 16 > raw.size()) {
        ADD_FAILURE() << "a record of " << size << " bytes ends behind the file";
        break;
      }
      found.push_back(raw.substr(at + 12, size));
      std::memcpy(&sums[1], raw.data() + at + 12 + size, 4);
      EXPECT_EQ(sums[1], maskedCrc32c(found.back()));
      at += size + 16;
    }
    return found;
  }
};

TEST_F(TensorBoardTest, Checksums) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(maskedCrc32c("123456789"), ((0xe3069283U >> 15 | 0xe3069283U << 17) + 0xa282ead8U));
}

TEST_F(TensorBoardTest, Messages) {
  const plan::Training training = allKinds();
  Result<TensorBoard> board = TensorBoard::open((directory / "new" / "runs").string(), 300);
  ASSERT_TRUE(board) << board.error().message;
  ASSERT_TRUE(board->validation(301, 2.5));
  const ReportFacts spread{&training.reports[3], 0, {1, 0, 2}, -3, 4, 0.5, 25};
  ASSERT_TRUE(board->reports(302, {spread}));
  const fs::directory_iterator files(directory / "new" / "runs");
  EXPECT_EQ(files->path().filename().string().rfind("events.out.tfevents.", 0), 0u);
  std::vector<std::string> found = messages(files->path());
  ASSERT_EQ(found.size(), 4u);
  for (std::string &message : found) {
    ASSERT_EQ(message[0], char(1 << 3 | 1)); // wall_time, a double
    message.erase(0, 9);
  }
  auto real = [](double value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  using namespace std::string_literals;
  EXPECT_EQ(found[0], "\x10\0\x1a\x0d"s
                      "brain.Event:2");
  // Step 301 on; SessionLog.status START.
  EXPECT_EQ(found[1], "\x10\xad\x02\x3a\x02\x08\x01"s);
  EXPECT_EQ(found[2], "\x10\xad\x02\x2a\x11\x0a\x0f\x0a\x08"s
                      "val/loss"
                      "\x15\0\0\x20\x40"s);
  const std::string histogram = "\x09"s + real(-3) + "\x11" + real(4) + "\x19" + real(3) + "\x21" +
                                real(0.5) + "\x29" + real(25) + "\x32\x18" + real(-1) + real(1) +
                                real(std::numeric_limits<double>::max()) + "\x3a\x18" + real(1) +
                                real(0) + real(2);
  const std::string value = "\x0a\x06spread\x2a"s + char(histogram.size()) + histogram;
  EXPECT_EQ(found[3],
            "\x10\xae\x02\x2a"s + char(value.size() + 2) + "\x0a" + char(value.size()) + value);
}

TEST_F(TensorBoardTest, EveryRunHasAFile) {
  for (int run = 0; run < 3; ++run) {
    Result<TensorBoard> board = TensorBoard::open(directory.string(), 0);
    ASSERT_TRUE(board);
    ASSERT_TRUE(board->step({1, 3.5, 20, 4096, 0.1}));
  }
  int count = 0;
  for (const fs::directory_entry &file : fs::directory_iterator(directory)) {
    EXPECT_EQ(messages(file.path()).size(), 2u); // no SessionLog: the runs are not resumed
    ++count;
  }
  EXPECT_EQ(count, 3);
}

TEST_F(TensorBoardTest, BadFolder) {
  const std::string name = scratch / "file";
  test::writeText(name, "x");
  Result<TensorBoard> board = TensorBoard::open(name, 0);
  ASSERT_FALSE(board);
  EXPECT_EQ(board.error().kind, Error::Kind::BadInput);
  EXPECT_EQ(board.error().message.rfind("--tensorboard " + name + ": ", 0), 0u)
      << board.error().message;
}

} // namespace
} // namespace nano
