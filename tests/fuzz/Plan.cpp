// Plans.
#include "runtime/plan/PlanFile.h"
#include "tests/fuzz/Targets.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace nano::fuzz {

namespace {

uint64_t numberAt(const std::string &bytes, size_t at, size_t width) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, width);
  return number;
}

void setNumber(std::string &bytes, size_t at, uint64_t number, size_t width) {
  std::memcpy(bytes.data() + at, &number, width);
}

/// The plan file with sizes, version and checksums that fit its bytes, as docs/plan-format.md says;
/// what cannot be one stays as it is.
std::string repaired(std::string_view given) {
  constexpr size_t header = 32, entry = 32;
  std::string bytes(given);
  if (bytes.size() < header || bytes.compare(0, 8, "NANOPLAN") != 0)
    return bytes;
  const uint64_t sections = numberAt(bytes, 12, 4);
  if (sections > 64 || header + sections * entry > bytes.size())
    return bytes;
  setNumber(bytes, 8, plan::planVersion, 4);
  setNumber(bytes, 16, bytes.size(), 8);
  const uint64_t first = header + sections * entry;
  uint64_t at = first;
  for (uint64_t section = 0; section < sections; ++section) {
    const size_t row = header + section * entry;
    const uint64_t rest = bytes.size() - at;
    const uint64_t size =
        section + 1 == sections ? rest : std::min<uint64_t>(numberAt(bytes, row + 16, 8), rest);
    setNumber(bytes, row + 8, at, 8);
    setNumber(bytes, row + 16, size, 8);
    setNumber(bytes, row + 24, XXH3_64bits(bytes.data() + at, size), 8);
    at += size;
  }
  const std::string covered = bytes.substr(0, 24) + bytes.substr(header, first - header);
  setNumber(bytes, 24, XXH3_64bits(covered.data(), covered.size()), 8);
  return bytes;
}

} // namespace

void plan(std::string_view bytes) {
  const Result<plan::PlanFile> file = plan::PlanFile::parse(repaired(bytes));
  if (!file)
    return;
  const Result<std::vector<plan::Plan>> plans = file->plans();
  if (!plans)
    return;
  (void)plan::describe(*plans);
  if (!plan::validate(*plans))
    return;
  const std::string written = plan::serialize(*plans);
  const Result<plan::PlanFile> again = plan::PlanFile::parse(written);
  require(bool(again), "a plan that was written can be read");
  const Result<std::vector<plan::Plan>> same = again->plans();
  require(same && plan::serialize(*same) == written,
          "a plan that was read gives the same bytes when it is written");
}

} // namespace nano::fuzz
