// Opening, checking and reading data files.
#include "runtime/data/TokenShards.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <set>

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

/// Adds where `token` stands among `count` tokens, of which the first has the position `first`.
template <typename T>
void findToken(const std::byte *data, uint64_t count, int32_t token, uint64_t first,
               std::vector<uint64_t> &positions) {
  const T *source = reinterpret_cast<const T *>(data);
  if (token < 0 || T(token) != uint32_t(token))
    return;
  for (uint64_t i = 0; i < count; ++i)
    if (source[i] == T(token))
      positions.push_back(first + i);
}

/// The type of a column's elements in files.
ElementType elementTypeOf(plan::Column::Type type) {
  switch (type) {
  case plan::Column::Type::F32:
    return ElementType::F32;
  case plan::Column::Type::BF16:
    return ElementType::BF16;
  case plan::Column::Type::I32:
    return ElementType::I32;
  case plan::Column::Type::U8:
    return ElementType::U8;
  }
  return ElementType::U8;
}

/// Whether the file has the column as the model reads it.
Status checkColumn(const DataFile &file, const plan::Column &column) {
  auto found = file.columns.find(column.name);
  if (found == file.columns.end()) {
    std::vector<std::string> names = {"tokens"};
    for (const auto &[name, each] : file.columns)
      names.push_back(name);
    return badInput(fmt::format("{}: has no column '{}' ({}), which the model reads; it has {}",
                                file.path, column.name, nameOf(column.type),
                                fmt::join(names, ", ")));
  }
  if (found->second.type() != elementTypeOf(column.type))
    return badInput(fmt::format("{}: column '{}' is {}, and the model reads it as {}", file.path,
                                column.name, nameOf(found->second.type()), nameOf(column.type)));
  return ok();
}

/// The first of so many floats, of which the upper bits are those of an f32, that is not finite, or
/// `count`.
template <typename T> uint64_t firstNonFinite(const std::byte *data, uint64_t count) {
  const T *bits = reinterpret_cast<const T *>(data);
  constexpr T exponent = T(0x7f80U << (8 * (sizeof(T) - 2)));
  for (uint64_t i = 0; i < count; ++i)
    if ((bits[i] & exponent) == exponent)
      return i;
  return count;
}

} // namespace

Result<std::shared_ptr<const TokenShards>> TokenShards::open(const std::string &pattern,
                                                             int64_t vocabSize,
                                                             const std::string &option,
                                                             std::vector<plan::Column> columns) {
  std::vector<std::string> paths = match(pattern);
  if (paths.empty())
    return badInput(fmt::format("{} '{}': no file matches", option, pattern));
  std::shared_ptr<TokenShards> result(new TokenShards);
  result->vocabSize = vocabSize;
  for (plan::Column &column : columns)
    if (column.name != plan::documentColumn &&
        std::none_of(result->columns.begin(), result->columns.end(),
                     [&](const plan::Column &known) { return known.name == column.name; }))
      result->columns.push_back(std::move(column));
  for (const std::string &path : paths) {
    Result<DataFile> file = DataFile::open(path);
    if (!file)
      return file.error();
    for (const plan::Column &column : result->columns)
      if (Status status = checkColumn(*file, column); !status)
        return status.error();
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
  const DataFile &file = shards[shard];
  std::vector<std::byte> part;
  auto add = [&](const DataColumn &column) -> Status {
    part.resize(count * sizeOf(column.type()));
    if (Status status = column.read(position, count, part.data()); !status)
      return status;
    before = XXH3_64bits_withSeed(part.data(), part.size(), before);
    return ok();
  };
  if (Status status = add(file.tokens); !status)
    return status.error();
  for (const plan::Column &column : columns)
    if (Status status = add(file.columns.at(column.name)); !status)
      return status.error();
  return before;
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

Status TokenShards::find(size_t shard, int32_t token, std::vector<uint64_t> &positions) const {
  constexpr uint64_t pieceTokens = uint64_t(1) << 20;
  const DataColumn &tokens = shards[shard].tokens;
  std::vector<std::byte> piece(std::min(tokens.size(), pieceTokens) * sizeOf(tokens.type()));
  for (uint64_t at = 0; at < tokens.size(); at += pieceTokens) {
    const uint64_t count = std::min(pieceTokens, tokens.size() - at);
    if (Status status = tokens.read(at, count, piece.data()); !status)
      return status;
    if (sizeOf(tokens.type()) == sizeof(uint32_t))
      findToken<uint32_t>(piece.data(), count, token, at, positions);
    else
      findToken<uint16_t>(piece.data(), count, token, at, positions);
  }
  return ok();
}

Status TokenShards::readColumn(size_t shard, const plan::Column &column, uint64_t position,
                               uint64_t count, std::byte *to) const {
  const DataColumn &source = shards[shard].columns.at(column.name);
  if (column.type == plan::Column::Type::U8) {
    std::vector<uint8_t> bytes(count);
    if (Status status = source.read(position, count, bytes.data()); !status)
      return status;
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<int32_t *>(to));
    return ok();
  }
  if (Status status = source.read(position, count, to); !status)
    return status;
  const uint64_t bad = column.type == plan::Column::Type::F32 ? firstNonFinite<uint32_t>(to, count)
                       : column.type == plan::Column::Type::BF16
                           ? firstNonFinite<uint16_t>(to, count)
                           : count;
  if (bad == count)
    return ok();
  return badInput(fmt::format("{}: column '{}' is not finite at position {}; mend the data",
                              path(shard), column.name, position + bad));
}

std::vector<std::string> TokenShards::unread() const {
  std::set<std::string> names;
  for (const DataFile &file : shards)
    for (const auto &[name, each] : file.columns)
      names.insert(name);
  for (const plan::Column &column : columns)
    names.erase(column.name);
  return {names.begin(), names.end()};
}

void TokenShards::willNeed(size_t shard, uint64_t position, uint64_t count) const {
  shards[shard].tokens.willNeed(position, count);
}

} // namespace nano
