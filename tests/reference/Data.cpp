// Reading and walking token shards.
#include "tests/reference/Data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <glob.h>

namespace nano::reference {

namespace {

uint32_t littleEndian(const unsigned char *bytes, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = value << 8 | bytes[i];
  return value;
}

} // namespace

std::string readFile(const std::string &path) {
  require(std::filesystem::is_regular_file(path), path + ": no such file, or not a regular one");
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  require(file.good(), path + ": cannot be read");
  return bytes;
}

std::vector<std::string> expandPattern(const std::string &option, const std::string &pattern) {
  glob_t matches;
  std::vector<std::string> files;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches) == 0)
    files.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  require(!files.empty(), option + " " + pattern + ": no file matches this pattern");
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<uint16_t> readShard(const std::string &path, int64_t vocabSize) {
  const std::string text = readFile(path);
  const auto *bytes = reinterpret_cast<const unsigned char *>(text.data());
  constexpr size_t headerBytes = 256 * 4;
  require(text.size() >= headerBytes,
          path + ": shorter than a shard's header of 1024 bytes; give token shards");
  require(littleEndian(&bytes[0], 4) == 20240520,
          path + ": not a token shard (wrong magic number); give token shards");
  require(littleEndian(&bytes[4], 4) == 1, path + ": shard version is not 1; make it anew");
  const uint64_t count = littleEndian(&bytes[8], 4);
  require(text.size() == headerBytes + 2 * count,
          path + ": the header says " + std::to_string(count) + " tokens, the file holds " +
              std::to_string((text.size() - headerBytes) / 2) + "; make it anew");

  std::vector<uint16_t> tokens(count);
  for (uint64_t i = 0; i < count; ++i) {
    tokens[i] = littleEndian(&bytes[headerBytes + 2 * i], 2);
    require(tokens[i] < vocabSize, path + ": token " + std::to_string(i) + " is " +
                                       std::to_string(tokens[i]) + ", beyond vocab_size " +
                                       std::to_string(vocabSize));
  }
  return tokens;
}

ShardReader::ShardReader(std::vector<std::string> files, int64_t batchTokens, int64_t vocabSize,
                         std::ostream &notes)
    : files(std::move(files)), batchTokens(batchTokens), vocabSize(vocabSize), notes(notes) {
  tokens = readShard(this->files[0], vocabSize);
}

template <typename F> void ShardReader::passShards(const F &isLeft) {
  size_t left = 0;
  bool startsAgain = false;
  while (isLeft()) {
    require(++left <= files.size(), files[0] + (files.size() > 1 ? " and its neighbours" : "") +
                                        ": no shard holds a batch of " +
                                        std::to_string(batchTokens) +
                                        " tokens and the target of its last one; give longer "
                                        "shards or a smaller batch");
    shard = (shard + 1) % files.size();
    startsAgain |= shard == 0;
    tokens = readShard(files[shard], vocabSize);
    position = 0;
  }
  if (startsAgain) {
    ++wrapCount;
    notes << "past the last shard: starting again at " << files[0] << "\n";
  }
}

Sequence ShardReader::sequenceAt(int64_t start, int64_t length) const {
  const auto first = tokens.begin() + start;
  return {{first, first + length}, {first + 1, first + length + 1}};
}

std::vector<Sequence> ShardReader::next(int64_t sequenceLength) {
  passShards([&] {
    const auto size = int64_t(tokens.size());
    return position == 0 ? batchTokens + 1 > size : position + batchTokens + 1 >= size;
  });
  std::vector<Sequence> sequences;
  for (int64_t start = position; start < position + batchTokens; start += sequenceLength)
    sequences.push_back(sequenceAt(start, sequenceLength));
  position += batchTokens;
  return sequences;
}

std::vector<Sequence> ShardReader::nextAligned(int64_t sequenceLength, int64_t document) {
  passShards([&] { return position + 2 * batchTokens + 1 >= int64_t(tokens.size()); });
  const size_t wanted = size_t(batchTokens / sequenceLength);
  std::vector<Sequence> sequences;
  int64_t least = position;
  for (int64_t at = position; at < position + 2 * batchTokens; ++at) {
    if (tokens[at] != document || at < least)
      continue;
    if (sequences.size() == wanted) {
      position = at;
      return sequences;
    }
    sequences.push_back(sequenceAt(at, sequenceLength));
    least = at + sequenceLength;
  }
  throw InputError(files[shard] + ": too few documents begin from token " +
                   std::to_string(position) + " on");
}

std::vector<Sequence> ShardReader::nextCut(int64_t sequenceLength, int64_t document,
                                           int64_t longest) {
  std::vector<Sequence> sequences;
  auto fill = [&] {
    sequences.clear();
    auto at = std::find(tokens.begin() + position, tokens.end(), document);
    while (int64_t(sequences.size()) < batchTokens / sequenceLength) {
      std::vector<int64_t> row;
      while (int64_t(row.size()) <= sequenceLength) {
        if (at == tokens.end())
          return false;
        const auto end = std::find(at + 1, tokens.end(), document);
        row.insert(row.end(), at,
                   at + std::min({end - at, longest, sequenceLength + 1 - int64_t(row.size())}));
        at = end;
      }
      sequences.push_back({{row.begin(), row.end() - 1}, {row.begin() + 1, row.end()}});
    }
    position = at - tokens.begin();
    return true;
  };
  passShards([&] { return !fill(); });
  return sequences;
}

} // namespace nano::reference
