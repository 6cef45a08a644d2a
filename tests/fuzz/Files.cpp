// The files that nanorun reads: plans, tensors, manifests, shards, tuning, tokenizers.
#include "runtime/cuda/Tuning.h"
#include "runtime/data/BatchReader.h"
#include "runtime/files/Manifest.h"
#include "runtime/files/Safetensors.h"
#include "runtime/files/Tokenizer.h"
#include "runtime/plan/JsonDepth.h"
#include "runtime/plan/PlanFile.h"
#include "tests/fuzz/Targets.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <nlohmann/json.hpp>

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

/// The manifest with the checksum of what it says; what is no JSON object stays as it is.
std::string sealed(std::string_view given) {
  if (nestsTooDeep(given))
    return std::string(given);
  nlohmann::json manifest = nlohmann::json::parse(given, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object())
    return std::string(given);
  manifest.erase("checksum");
  const auto text = [&] {
    return manifest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const std::string covered = text();
  manifest["checksum"] = hexText(XXH3_64bits(covered.data(), covered.size()));
  return text();
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

void safetensors(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const Result<SafetensorsFile> file = SafetensorsFile::open(memory.path());
  if (!file)
    return;
  (void)file->checksum();
  std::string data;
  for (const auto &[name, entry] : file->tensors()) {
    require(entry.begin <= entry.end && entry.end <= bytes.size(), "a tensor lies in its file");
    data.resize(entry.end - entry.begin);
    require(bool(file->read(entry, 0, data.data(), data.size())), "a tensor can be read");
  }
  (void)checkTensors("the file", file->table(), {});
}

void manifest(std::string_view bytes) {
  (void)parseRecords(std::string(bytes));
  Contents contents;
  const Result<Manifest> read = parseManifest(sealed(bytes), contents);
  if (!read)
    return;
  const std::string written = manifestText(*read, contents);
  Contents again;
  const Result<Manifest> same = parseManifest(written, again);
  require(same && manifestText(*same, again) == written,
          "a manifest that was read gives the same text when it is written twice");
}

void shard(std::string_view bytes) {
  constexpr int64_t vocabulary = 300;
  const BatchShape shape{.sequences = 2, .length = 8, .longest = 5};
  const MemoryFile memory(bytes);
  const auto shards = TokenShards::open(memory.path(), vocabulary, "--train");
  if (!shards)
    return;
  (void)(*shards)->fingerprint();
  (void)validationSequences(**shards, shape.length, 1000);
  using Rule = plan::Documents::Rule;
  for (const Rule rule : {Rule::Contiguous, Rule::Aligned, Rule::Cut, Rule::Packed}) {
    Result<BatchReader> reader =
        BatchReader::create(*shards, {.rule = rule, .document = 0}, shape, "--train");
    for (int step = 0; reader && step < 3; ++step) {
      const Result<Batch> batch = reader->next(shape);
      if (!batch)
        break;
      (void)reader->hash(*batch);
      SequenceData data;
      for (size_t sequence = 0; sequence < shape.sequences; ++sequence)
        if (reader->read(*batch, sequence, {}, data))
          for (const int32_t token : data.tokens)
            require(token >= 0 && token < vocabulary, "a token that is read is in the vocabulary");
    }
  }
}

void tuning(std::string_view bytes) {
  const MemoryFile memory(bytes);
  cuda::Tuning tuning = cuda::Tuning::open(memory.path(), "GPU", [](const std::string &) {});
  (void)tuning.find("1 2 3");
  (void)tuning.text();
}

void tokenizer(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const Result<Tokenizer> read = Tokenizer::open(memory.path());
  if (!read)
    return;
  constexpr int32_t tried = 300;
  for (int32_t token = 0; token < tried; ++token)
    if (const Result<std::string> spelled = read->bytes(token))
      require(spelled->size() <= bytes.size(), "a token is no longer than its file");
  for (const int32_t token : {-1, INT32_MIN, INT32_MAX})
    require(!read->bytes(token), "what no file may number is no token");
  require(read->strippedAtStart().size() <= bytes.size(), "what is stripped stands in the file");
}

} // namespace nano::fuzz
