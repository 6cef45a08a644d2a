// The rules by which batches are cut.
#include "runtime/data/BatchReader.h"

#include "runtime/Random.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace nano {

using Rule = plan::Documents::Rule;

std::vector<uint32_t> shuffled(size_t count, uint64_t seed, const std::string &name) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  const Random random(seed, name);
  for (size_t i = count; i-- > 1;)
    std::swap(order[i], order[size_t(random.unit(i) * double(i + 1))]);
  return order;
}

Result<BatchReader> BatchReader::create(std::shared_ptr<const TokenShards> shards, BatchRule rule,
                                        const BatchShape &shape, const std::string &option,
                                        DataPosition start) {
  const uint64_t batch = shape.sequences * shape.length;
  size_t longest = 0;
  for (size_t shard = 1; shard < shards->count(); ++shard)
    if (shards->size(shard) > shards->size(longest))
      longest = shard;
  // What the rules ask of a shard before they look at its documents.
  const uint64_t needed = rule.rule == Rule::Contiguous ? batch + 1
                          : rule.rule == Rule::Aligned  ? 2 * batch + 2
                                                        : 0;
  const char *others = shards->count() > 1 ? ", and the other shards are no longer" : "";
  if (needed > shards->size(longest))
    return badInput(fmt::format("{} {}: fewer tokens than one global batch: it has {}, a step of "
                                "{} needs {} in one shard{}",
                                option, shards->path(longest), shards->size(longest), batch, needed,
                                others));
  BatchReader reader;
  reader.shards = std::move(shards);
  reader.rule = rule;
  reader.option = option;
  reader.following = start;
  if (start.shard >= reader.shards->count() ||
      start.position > reader.shards->size(reader.shardAt(start)))
    return badInput(
        fmt::format("{}: the data goes on at {} {} of shard {}, which these {} shards do not have",
                    option, reader.isByDocument() ? "document" : "token", start.position,
                    start.shard, reader.shards->count()));
  if (rule.rule == Rule::Contiguous) {
    const size_t shard = reader.shardAt(start);
    reader.shards->willNeed(shard, start.position,
                            std::min(batch + 1, reader.shards->size(shard) - start.position));
    return reader;
  }
  reader.documents = std::make_shared<DocumentIndexes>(reader.shards, rule.document);
  BatchReader first = reader;
  if (Result<Batch> tried = first.next(shape); !tried)
    return Error{tried.error().kind, fmt::format("{} {}", option, tried.error().message)};
  return reader;
}

size_t BatchReader::shardAt(const DataPosition &position) const {
  if (!rule.shuffle)
    return position.shard;
  if (shardOrderOf != position.epoch) {
    shardOrder = shuffled(shards->count(), rule.seed, fmt::format("shards/{}", position.epoch));
    shardOrderOf = position.epoch;
  }
  return shardOrder[position.shard];
}

const std::vector<uint32_t> &BatchReader::orderOf(const DataPosition &at, size_t count) {
  if (orderAt.shard != at.shard || orderAt.epoch != at.epoch) {
    order = shuffled(count, rule.seed, fmt::format("documents/{}/{}", at.epoch, shardAt(at)));
    orderAt = at;
  }
  return order;
}

std::string BatchReader::describe(const DataPosition &position) const {
  return fmt::format("{} {} of {}", isByDocument() ? "document" : "token", position.position,
                     shards->name(shardAt(position)));
}

DataPosition BatchReader::nextShard(DataPosition position) const {
  position.position = 0;
  if (++position.shard == shards->count()) {
    position.shard = 0;
    ++position.epoch;
  }
  return position;
}

Result<Batch> BatchReader::next(const BatchShape &shape) {
  DataPosition at = following;
  // From within a shard, the walk may come back to its beginning.
  for (size_t tried = 0; tried <= shards->count(); ++tried, at = nextShard(at)) {
    Result<std::optional<Batch>> made = batchAt(at, shape);
    if (!made)
      return made.error();
    if (!*made)
      continue;
    Batch &batch = **made;
    batch.length = shape.length;
    batch.start = at;
    batch.beginsEpoch = at.epoch != following.epoch;
    following = batch.end;
    return std::move(batch);
  }
  return badInput(fmt::format("no shard's documents fill a batch of {} sequences of {} tokens",
                              shape.sequences, shape.length));
}

Result<std::optional<Batch>> BatchReader::batchAt(const DataPosition &at, const BatchShape &shape) {
  switch (rule.rule) {
  case Rule::Contiguous:
    return contiguous(at, shape);
  case Rule::Aligned:
    return aligned(at, shape);
  case Rule::Cut:
  case Rule::Packed:
    return byDocument(at, shape);
  }
  return std::optional<Batch>();
}

std::optional<Batch> BatchReader::contiguous(const DataPosition &at,
                                             const BatchShape &shape) const {
  const uint64_t tokens = shape.sequences * shape.length, size = shards->size(at.shard),
                 wanted = at.position + tokens + 1;
  // A shard that was begun is left when what remains after the batch would be nothing.
  if (at.position == 0 ? wanted > size : wanted >= size)
    return std::nullopt;
  Batch batch;
  for (uint64_t i = 0; i < shape.sequences; ++i)
    batch.sequences.push_back({{at.shard, at.position + i * shape.length, shape.length + 1}});
  batch.end = {at.shard, at.position + tokens, at.epoch};
  shards->willNeed(at.shard, batch.end.position, std::min(tokens + 1, size - batch.end.position));
  return batch;
}

Result<std::optional<Batch>> BatchReader::aligned(const DataPosition &at, const BatchShape &shape) {
  const uint64_t window = 2 * shape.sequences * shape.length;
  if (at.position + window + 1 >= shards->size(at.shard))
    return std::optional<Batch>();
  Result<DocumentIndexes::Beginnings> found = documents->of(at.shard);
  if (!found)
    return found.error();
  const std::vector<uint64_t> &starts = **found;
  Batch batch;
  auto next = std::lower_bound(starts.begin(), starts.end(), at.position);
  for (uint64_t i = 0; i <= shape.sequences; ++i) {
    if (next == starts.end() || *next >= at.position + window)
      return badInput(fmt::format(
          "{}: tokens {} to {} have beginnings of documents, {} tokens apart, for {} sequences and "
          "not for {} and the next batch; documents are too long for aligned sequences of that "
          "length",
          shards->path(at.shard), at.position, at.position + window, shape.length, i,
          shape.sequences));
    if (i == shape.sequences)
      batch.end = {at.shard, *next, at.epoch};
    else
      batch.sequences.push_back({{at.shard, *next, shape.length + 1}});
    next = std::lower_bound(next, starts.end(), *next + shape.length);
  }
  return std::optional(std::move(batch));
}

Result<std::optional<Batch>> BatchReader::byDocument(const DataPosition &at,
                                                     const BatchShape &shape) {
  const size_t shard = shardAt(at);
  Result<DocumentIndexes::Beginnings> found = documents->of(shard);
  if (!found)
    return found.error();
  const std::vector<uint64_t> &starts = **found;
  const uint64_t row = shape.length + 1;
  const bool isPacked = rule.rule == Rule::Packed;
  uint64_t next = at.position;
  if (next > starts.size())
    return badInput(fmt::format("{}: the data goes on at document {}, and it has {}",
                                shards->path(shard), next, starts.size()));
  Batch batch;
  while (batch.sequences.size() < shape.sequences) {
    Sequence sequence;
    uint64_t filled = 0;
    for (; next < starts.size() && filled < row; ++next) {
      const uint64_t document = rule.shuffle ? orderOf(at, starts.size())[next] : next;
      const uint64_t begin = starts[document], end = document + 1 < starts.size()
                                                         ? starts[document + 1]
                                                         : shards->size(shard);
      const uint64_t count = std::min(end - begin, shape.longest);
      if (isPacked && count > row)
        return badInput(fmt::format(
            "{}: the document at token {} has {} tokens, and a row {}; limit them to that "
            "(documents' longest), cut them (the rule Cut), or give longer sequences",
            shards->path(shard), begin, count, row));
      if (isPacked && filled + count > row)
        break;
      sequence.push_back({shard, begin, std::min(count, row - filled)});
      filled += sequence.back().count;
    }
    if (isPacked ? sequence.empty() : filled < row)
      return std::optional<Batch>();
    batch.sequences.push_back(std::move(sequence));
  }
  batch.end = {at.shard, next, at.epoch};
  // Another tenth, and the next shard's documents are looked for.
  if (shards->count() > 1 && next + starts.size() / 10 >= starts.size())
    documents->prepare(shardAt(nextShard(at)));
  return std::optional(std::move(batch));
}

Result<uint64_t> BatchReader::hash(const Batch &batch) const {
  uint64_t hash = batch.sequences.size();
  for (const Sequence &sequence : batch.sequences)
    for (const Piece &piece : sequence) {
      Result<uint64_t> next = shards->hash(piece.shard, piece.position, piece.count, hash);
      if (!next)
        return next;
      hash = *next;
    }
  return hash;
}

Status readSequence(const TokenShards &shards, const Sequence &sequence, uint64_t length,
                    int32_t padding, const std::vector<plan::Column> &columns, SequenceData &to) {
  const uint64_t row = length + 1;
  std::vector<int32_t> tokens(row, padding);
  uint64_t filled = 0;
  for (const Piece &piece : sequence) {
    if (Status status =
            shards.read(piece.shard, piece.position, piece.count, tokens.data() + filled);
        !status)
      return status;
    filled += piece.count;
  }
  to.tokens.assign(tokens.begin(), tokens.end() - 1);
  to.targets.assign(tokens.begin() + 1, tokens.end());
  to.columns.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const plan::Column &column = columns[i];
    const uint64_t bytes = plan::sizeOf(plan::bufferTypeOf(column.type));
    std::vector<std::byte> values(row * bytes);
    if (column.name == plan::documentColumn) {
      auto *flags = reinterpret_cast<int32_t *>(values.data());
      std::fill(flags, flags + filled, 1);
    } else {
      uint64_t at = 0;
      for (const Piece &piece : sequence) {
        if (Status status = shards.readColumn(piece.shard, column, piece.position, piece.count,
                                              values.data() + at * bytes);
            !status)
          return status;
        at += piece.count;
      }
    }
    const auto first = values.begin() + std::ptrdiff_t(column.ofTarget ? bytes : 0);
    to.columns[i].assign(first, first + std::ptrdiff_t(length * bytes));
  }
  return ok();
}

std::vector<Piece> validationSequences(const TokenShards &shards, uint64_t length,
                                       uint64_t tokens) {
  std::vector<Piece> sequences;
  for (size_t shard = 0; shard < shards.count(); ++shard)
    for (uint64_t position = 0; position + length + 1 <= shards.size(shard); position += length) {
      if (tokens < length)
        return sequences;
      tokens -= length;
      sequences.push_back({shard, position, length + 1});
    }
  return sequences;
}

} // namespace nano
