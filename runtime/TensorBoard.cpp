// Event files: protocol buffers, TFRecords and their checksums.
#include "runtime/TensorBoard.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <system_error>
#include <unistd.h>

namespace nano {

namespace {

namespace fs = std::filesystem;

// Little-endian hosts only, as all of nanorun.
template <typename T> std::string bytesOf(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Fields of a protocol buffer, appended one after the other.
class Message {
public:
  Message &number(uint32_t field, uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message &real(uint32_t field, double value) {
    key(field, 1);
    text += bytesOf(value);
    return *this;
  }
  Message &real32(uint32_t field, float value) {
    key(field, 5);
    text += bytesOf(value);
    return *this;
  }
  Message &bytes(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    text += value;
    return *this;
  }
  /// A packed list.
  Message &reals(uint32_t field, const std::vector<double> &values) {
    std::string packed;
    for (double value : values)
      packed += bytesOf(value);
    return bytes(field, packed);
  }
  const std::string &content() const { return text; }

private:
  void key(uint32_t field, uint32_t type) { varint(uint64_t(field) << 3 | type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      text += char(value | 0x80);
    text += char(value);
  }
  std::string text;
};

// Fields of Event, Summary, Summary.Value, HistogramProto and SessionLog.
enum EventField : uint32_t {
  WallTime = 1,
  StepField = 2,
  FileVersion = 3,
  Summary = 5,
  SessionLog = 7
};
enum ValueField : uint32_t { Tag = 1, SimpleValue = 2, Histogram = 5 };
constexpr uint32_t summaryValue = 1, sessionStatus = 1, sessionStart = 1;

void addScalar(Message &summary, std::string_view tag, double value) {
  summary.bytes(summaryValue,
                Message().bytes(Tag, tag).real32(SimpleValue, float(value)).content());
}

void addHistogram(Message &summary, const ReportFacts &facts) {
  std::vector<double> limits = facts.report->edges;
  limits.push_back(std::numeric_limits<double>::max());
  const std::string histogram = Message()
                                    .real(1, facts.least)
                                    .real(2, facts.most)
                                    .real(3, facts.elements())
                                    .real(4, facts.sum)
                                    .real(5, facts.squares)
                                    .reals(6, limits)
                                    .reals(7, facts.counts)
                                    .content();
  summary.bytes(summaryValue,
                Message().bytes(Tag, facts.report->name).bytes(Histogram, histogram).content());
}

std::string hostName() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "host";
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = value >> 1 ^ (value & 1 ? 0x82f63b78U : 0);
      entries[i] = value;
    }
    return entries;
  }();
  uint32_t crc = ~0U;
  for (char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ uint8_t(byte)) & 0xff];
  return ~crc;
}

uint32_t maskedCrc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

Result<TensorBoard> TensorBoard::open(const std::string &directory, int64_t firstStep) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return badInput(
        fmt::format("--tensorboard {}: cannot make the directory: {}", directory, error.message()));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  // TensorBoard reads the files of a folder in the order of their names. Those of one process and
  // second, and of containers that share host and process numbers, are told apart by the last part.
  std::string path;
  for (int count = 0; path.empty() || fs::exists(path, error); ++count)
    path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", directory, seconds, hostName(),
                       ::getpid(), count);
  Result<OutputFile> opened = OutputFile::grow(path, /*append=*/false);
  if (!opened)
    return badInput("--tensorboard " + opened.error().message);
  TensorBoard board;
  board.file = std::move(*opened);
  if (Status status = board.write(0, FileVersion, "brain.Event:2"); !status)
    return status.error();
  if (firstStep > 0)
    if (Status status = board.write(firstStep + 1, SessionLog,
                                    Message().number(sessionStatus, sessionStart).content());
        !status)
      return status.error();
  return board;
}

Status TensorBoard::write(int64_t step, uint32_t field, std::string_view message) {
  if (!file)
    return ok();
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string event = Message()
                                .real(WallTime, now)
                                .number(StepField, uint64_t(step))
                                .bytes(field, message)
                                .content();
  const std::string length = bytesOf(uint64_t(event.size()));
  return file->append(length + bytesOf(maskedCrc32c(length)) + event +
                      bytesOf(maskedCrc32c(event)));
}

Status TensorBoard::step(const StepFacts &facts) {
  Message summary;
  addScalar(summary, "train/loss", facts.loss);
  addScalar(summary, "train/lr", facts.learningRate);
  addScalar(summary, "train/step_ms", facts.milliseconds);
  if (facts.milliseconds > 0)
    addScalar(summary, "train/tokens_per_second", double(facts.tokens) / facts.milliseconds * 1000);
  return write(facts.step, Summary, summary.content());
}

Status TensorBoard::energy(const EnergyFacts &facts) {
  Message summary;
  addScalar(summary, "train/joules", facts.joulesOfStep());
  return write(facts.last, Summary, summary.content());
}

Status TensorBoard::validation(int64_t step, double loss) {
  Message summary;
  addScalar(summary, "val/loss", loss);
  return write(step, Summary, summary.content());
}

Status TensorBoard::reports(int64_t step, const std::vector<ReportFacts> &facts) {
  Message summary;
  for (const ReportFacts &each : facts)
    if (each.report->kind == plan::Report::Kind::Histogram)
      addHistogram(summary, each);
    else
      addScalar(summary, each.report->name, each.value);
  return facts.empty() ? ok() : write(step, Summary, summary.content());
}

} // namespace nano
