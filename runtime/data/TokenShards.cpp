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

/// Bytes of a shard's tokens that its fingerprint holds: what lies in one page with the header.
constexpr uint64_t sampledBytes = 3072;

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

/// Tokens as they lie in a file, `T` wide, to where programs read them; the first that is no token
/// of the vocabulary, or `count`. A negative i32 is not one: as unsigned it is above all.
template <typename T>
uint64_t widen(const std::byte *from, uint64_t count, int64_t vocabSize, int32_t *to) {
  const T *source = reinterpret_cast<const T *>(from);
  T largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    largest = std::max(largest, source[i]);
    to[i] = int32_t(source[i]);
  }
  if (int64_t(largest) < vocabSize)
    return count;
  return uint64_t(
      std::find_if(source, source + count, [&](T token) { return int64_t(token) >= vocabSize; }) -
      source);
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
    Result<DataFile> file = DataFile::open(path);
    if (!file)
      return file.error();
    result->shards.push_back(std::move(*file));
  }
  return std::shared_ptr<const TokenShards>(result);
}

std::string TokenShards::name(size_t shard) const {
  return std::filesystem::path(path(shard)).filename().string();
}

uint64_t TokenShards::totalTokens() const {
  uint64_t total = 0;
  for (size_t shard = 0; shard < count(); ++shard)
    total += size(shard);
  return total;
}

bool TokenShards::areWide() const {
  return std::any_of(shards.begin(), shards.end(), [](const DataFile &file) {
    return sizeOf(file.tokens.type()) > sizeof(uint16_t);
  });
}

Result<uint64_t> TokenShards::fingerprint() const {
  uint64_t hash = count();
  for (size_t shard = 0; shard < count(); ++shard) {
    const std::string own = fmt::format("{}/{}", name(shard), size(shard));
    Result<uint64_t> next = this->hash(
        shard, 0, std::min(size(shard), sampledBytes / sizeOf(shards[shard].tokens.type())),
        XXH3_64bits_withSeed(own.data(), own.size(), hash));
    if (!next)
      return next;
    hash = *next;
  }
  return hash;
}

Result<uint64_t> TokenShards::hash(size_t shard, uint64_t position, uint64_t count,
                                   uint64_t before) const {
  const DataColumn &tokens = shards[shard].tokens;
  std::vector<std::byte> part(count * sizeOf(tokens.type()));
  if (Status status = tokens.read(position, count, part.data()); !status)
    return status.error();
  return XXH3_64bits_withSeed(part.data(), part.size(), before);
}

Status TokenShards::read(size_t shard, uint64_t position, uint64_t count, int32_t *to) const {
  const DataColumn &tokens = shards[shard].tokens;
  const bool isWide = sizeOf(tokens.type()) == sizeof(uint32_t);
  std::vector<std::byte> source(count * sizeOf(tokens.type()));
  if (Status status = tokens.read(position, count, source.data()); !status)
    return status;
  const uint64_t good = isWide ? widen<uint32_t>(source.data(), count, vocabSize, to)
                               : widen<uint16_t>(source.data(), count, vocabSize, to);
  if (good == count)
    return ok();
  const int64_t token = tokens.type() == ElementType::U32 ? int64_t(uint32_t(to[good])) : to[good];
  return badInput(fmt::format("{}: token {} at position {} is outside the plan's vocabulary of {}; "
                              "the shard was made with another tokenizer",
                              path(shard), token, position + good, vocabSize));
}

Status TokenShards::read(size_t shard, uint64_t position, uint64_t count, int32_t *inputs,
                         int32_t *targets) const {
  std::vector<int32_t> tokens(count + 1);
  if (Status status = read(shard, position, count + 1, tokens.data()); !status)
    return status;
  std::copy(tokens.begin(), tokens.end() - 1, inputs);
  std::copy(tokens.begin() + 1, tokens.end(), targets);
  return ok();
}

void TokenShards::willNeed(size_t shard, uint64_t position, uint64_t count) const {
  shards[shard].tokens.willNeed(position, count);
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
