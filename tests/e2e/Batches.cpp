// Prints what one rank's loader makes of data files, for data_test.py.
//
//   nano-batches GLOB RULE SHUFFLE SEED DOCUMENT RANK WORLD STEPS SHAPES SHARD POSITION EPOCH
//   COLUMN…
//
// SHAPES is a list of SEQUENCES:LENGTH:LONGEST (0: no limit) joined by commas, that steps take in
// turn; a COLUMN is NAME:TYPE:target or NAME:TYPE:input. One JSON object a step: "start" and "end",
// positions; "epoch", whether one begins; "sequences", each {"tokens", "targets", "columns"}.
#include "runtime/data/Loader.h"

#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace nano;
using nlohmann::json;

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

[[noreturn]] void end(const Error &error) {
  std::cerr << "nano-batches: " << error.message << '\n';
  std::exit(error.exitStatus());
}

json toJson(const DataPosition &position) {
  return {position.shard, position.position, position.epoch};
}

json toJson(const std::vector<std::byte> &bytes, const plan::Column &column) {
  json values = json::array();
  for (size_t at = 0; at < bytes.size(); at += plan::sizeOf(plan::bufferTypeOf(column.type)))
    switch (plan::bufferTypeOf(column.type)) {
    case plan::DType::F32: {
      float value;
      std::memcpy(&value, &bytes[at], sizeof value);
      values.push_back(value);
      break;
    }
    case plan::DType::BF16: {
      uint16_t value;
      std::memcpy(&value, &bytes[at], sizeof value);
      values.push_back(value); // its bits
      break;
    }
    default: {
      int32_t value;
      std::memcpy(&value, &bytes[at], sizeof value);
      values.push_back(value);
    }
    }
  return values;
}

} // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 12)
    end(badInput("expected 12 arguments or more"));
  auto number = [&](size_t i) { return uint64_t(std::stoull(words[i])); };
  BatchRule rule;
  for (plan::Documents::Rule each :
       {plan::Documents::Rule::Aligned, plan::Documents::Rule::Cut, plan::Documents::Rule::Packed})
    if (words[1] == plan::nameOf(each))
      rule.rule = each;
  rule.shuffle = number(2) != 0;
  rule.seed = number(3);
  rule.document = int32_t(number(4));
  std::vector<BatchShape> shapes;
  for (const std::string &text : split(words[8], ',')) {
    const std::vector<std::string> parts = split(text, ':');
    shapes.push_back({std::stoull(parts.at(0)), std::stoull(parts.at(1))});
    if (const uint64_t longest = std::stoull(parts.at(2)))
      shapes.back().longest = longest;
  }
  std::vector<plan::Column> columns;
  for (size_t i = 12; i < words.size(); ++i) {
    const std::vector<std::string> parts = split(words[i], ':');
    using Type = plan::Column::Type;
    for (Type type : {Type::F32, Type::BF16, Type::I32, Type::U8})
      if (parts.at(1) == plan::nameOf(type))
        columns.push_back({parts[0], type, parts.at(2) == "target", 0});
  }
  Loader::Share share;
  share.rank = int(number(5));
  share.world = int(number(6));
  share.columnsOf = [&](int64_t) -> const std::vector<plan::Column> & { return columns; };

  auto shards = TokenShards::open(words[0], 65536, "--train", columns);
  if (!shards)
    end(shards.error());
  auto reader = BatchReader::create(*shards, rule, shapes.front(), "--train",
                                    {number(9), number(10), number(11)});
  if (!reader)
    end(reader.error());
  const auto steps = int64_t(number(7));
  Loader loader(
      *reader, share,
      [&](int64_t step) { return Result<BatchShape>(shapes[size_t(step) % shapes.size()]); }, 0,
      steps);
  for (int64_t step = 0; step < steps; ++step) {
    auto loaded = loader.next();
    if (!loaded)
      end(loaded.error());
    const Batch &batch = (*loaded)->batch;
    json line = {{"start", toJson(batch.start)},
                 {"end", toJson(batch.end)},
                 {"epoch", batch.beginsEpoch},
                 {"sequences", json::array()}};
    for (const SequenceData &data : (*loaded)->share) {
      json read = json::array();
      for (size_t i = 0; i < columns.size(); ++i)
        read.push_back(toJson(data.columns[i], columns[i]));
      line["sequences"].push_back(
          {{"tokens", data.tokens}, {"targets", data.targets}, {"columns", read}});
    }
    std::cout << line << '\n';
  }
  return 0;
}
