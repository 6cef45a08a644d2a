// Reading token shards.
#include "runtime/data/TokenShards.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <glob.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

namespace {

constexpr size_t headerInts = 256;
constexpr uint64_t headerBytes = headerInts * sizeof(int32_t);
constexpr int32_t magic = 20240520;
constexpr int32_t version = 1;
/// Tokens of a shard that its fingerprint holds: what lies in one page with the header.
constexpr uint64_t sampledTokens = (4096 - headerBytes) / sizeof(uint16_t);

/// Paths that match, sorted by bytes.
std::vector<std::string> match(const std::string &pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_BRACE | GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Status checkShard(const InputFile &file) {
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("{}: not a usable token shard: {}", file.path(), what));
  };
  if (file.size() < headerBytes)
    return wrong(
        fmt::format("it has {} bytes, its header alone takes {}", file.size(), headerBytes));
  int32_t header[headerInts];
  if (Status status = file.read(0, header, headerBytes); !status)
    return status;
  if (header[0] != magic)
    return wrong(
        fmt::format("it begins with {}, a shard with the magic number {}", header[0], magic));
  if (header[1] != version)
    return wrong(fmt::format("version {}, only {} is known", header[1], version));
  if (!std::all_of(header + 3, header + headerInts, [](int32_t value) { return value == 0; }))
    return wrong("its header holds values that version 1 does not have");
  uint64_t expected = headerBytes + sizeof(uint16_t) * uint64_t(std::max(header[2], 0));
  if (header[2] < 0 || file.size() != expected)
    return wrong(fmt::format("its header says {} tokens, which takes {} bytes; it has {}",
                             header[2], expected, file.size()));
  return ok();
}

} // namespace

Result<std::shared_ptr<const TokenShards>>
TokenShards::open(const std::string &pattern, int64_t vocabSize, const std::string &option) {
  std::vector<std::string> paths = match(pattern);
  if (paths.empty())
    return badInput(fmt::format("{} '{}': no file matches", option, pattern));
  std::shared_ptr<TokenShards> result(new TokenShards);
  result->vocabSize = vocabSize;
  for (const std::string &path : paths) {
    Result<InputFile> file = InputFile::open(path, input::shard);
    if (!file)
      return file.error();
    if (Status status = checkShard(*file); !status)
      return status.error();
    result->shards.push_back(std::move(*file));
  }
  return std::shared_ptr<const TokenShards>(result);
}

std::string TokenShards::name(size_t shard) const {
  return std::filesystem::path(path(shard)).filename().string();
}

uint64_t TokenShards::size(size_t shard) const {
  return (shards[shard].size() - headerBytes) / sizeof(uint16_t);
}

uint64_t TokenShards::totalTokens() const {
  uint64_t total = 0;
  for (size_t shard = 0; shard < count(); ++shard)
    total += size(shard);
  return total;
}

Result<uint64_t> TokenShards::fingerprint() const {
  uint64_t hash = count();
  for (size_t shard = 0; shard < count(); ++shard) {
    const std::string own = fmt::format("{}/{}", name(shard), size(shard));
    Result<uint64_t> next = this->hash(shard, 0, std::min(size(shard), sampledTokens),
                                       XXH3_64bits_withSeed(own.data(), own.size(), hash));
    if (!next)
      return next;
    hash = *next;
  }
  return hash;
}

Result<uint64_t> TokenShards::hash(size_t shard, uint64_t position, uint64_t count,
                                   uint64_t before) const {
  std::vector<uint16_t> part(count);
  const uint64_t bytes = sizeof(uint16_t) * count;
  if (Status status =
          shards[shard].read(headerBytes + sizeof(uint16_t) * position, part.data(), bytes);
      !status)
    return status.error();
  return XXH3_64bits_withSeed(part.data(), bytes, before);
}

Status TokenShards::read(size_t shard, uint64_t position, uint64_t count, int32_t *inputs,
                         int32_t *targets) const {
  std::vector<uint16_t> source(count + 1);
  if (Status status = shards[shard].read(headerBytes + sizeof(uint16_t) * position, source.data(),
                                         sizeof(uint16_t) * source.size());
      !status)
    return status;
  int32_t largest = 0;
  for (uint16_t token : source)
    largest = std::max<int32_t>(largest, token);
  if (largest >= vocabSize) {
    auto bad = std::find_if(source.begin(), source.end(),
                            [&](uint16_t token) { return token >= vocabSize; });
    return badInput(
        fmt::format("{}: token {} at position {} is outside the plan's vocabulary of {}; "
                    "the shard was made with another tokenizer",
                    path(shard), *bad, position + uint64_t(bad - source.begin()), vocabSize));
  }
  std::copy(source.begin(), source.end() - 1, inputs);
  std::copy(source.begin() + 1, source.end(), targets);
  return ok();
}

void TokenShards::willNeed(size_t shard, uint64_t position, uint64_t count) const {
  shards[shard].willNeed(headerBytes + sizeof(uint16_t) * position, sizeof(uint16_t) * count);
}

Result<BatchReader> BatchReader::create(std::shared_ptr<const TokenShards> shards, uint64_t batch,
                                        uint64_t sequence, const std::string &option,
                                        DataPosition start) {
  size_t longest = 0;
  for (size_t shard = 1; shard < shards->count(); ++shard)
    if (shards->size(shard) > shards->size(longest))
      longest = shard;
  if (batch + 1 > shards->size(longest))
    return badInput(fmt::format(
        "{} {}: fewer tokens than one global batch: it has {}, a step of {} needs {} in one "
        "shard{}",
        option, shards->path(longest), shards->size(longest), batch, batch + 1,
        shards->count() > 1 ? ", and the other shards are no longer" : ""));
  if (start.shard >= shards->count() || start.position > shards->size(start.shard))
    return badInput(fmt::format(
        "{}: the data goes on at token {} of shard {}, which these {} shards do not have", option,
        start.position, start.shard, shards->count()));
  BatchReader reader;
  reader.shards = std::move(shards);
  reader.batch = batch;
  reader.sequence = sequence;
  reader.following = start;
  DataPosition first = reader.settle(start);
  reader.shards->willNeed(first.shard, first.position, batch + 1);
  return reader;
}

bool BatchReader::holds(const DataPosition &position) const {
  const uint64_t size = shards->size(position.shard), wanted = position.position + batch + 1;
  return position.position == 0 ? wanted <= size : wanted < size;
}

DataPosition BatchReader::settle(DataPosition position) const {
  while (!holds(position)) {
    position.position = 0;
    if (++position.shard == shards->count()) {
      position.shard = 0;
      ++position.epoch;
    }
  }
  return position;
}

bool BatchReader::next() {
  uint64_t epoch = following.epoch;
  current = settle(following);
  following = current;
  following.position += batch;
  DataPosition ahead = settle(following);
  shards->willNeed(ahead.shard, ahead.position, batch + 1);
  return current.epoch != epoch;
}

Status BatchReader::read(uint64_t index, int32_t *inputs, int32_t *targets) const {
  return shards->read(current.shard, current.position + index * sequence, sequence, inputs,
                      targets);
}

Result<uint64_t> BatchReader::hash() const {
  return shards->hash(current.shard, current.position, batch + 1);
}

std::vector<std::pair<size_t, uint64_t>> validationSequences(const TokenShards &shards,
                                                             uint64_t sequence, uint64_t tokens) {
  std::vector<std::pair<size_t, uint64_t>> places;
  for (size_t shard = 0; shard < shards.count(); ++shard)
    for (uint64_t position = 0; position + sequence + 1 <= shards.size(shard);
         position += sequence) {
      if (tokens < sequence)
        return places;
      tokens -= sequence;
      places.emplace_back(shard, position);
    }
  return places;
}

} // namespace nano
