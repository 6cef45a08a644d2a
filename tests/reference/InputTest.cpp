// The command nano-reference: what it reads, prints and writes, and that bad usage or bad input
// ends in one clear line and exit status 2.
#include "tests/reference/Data.h"
#include "tests/reference/Driver.h"
#include "tests/reference/Gpt2.h"
#include "tests/reference/Safetensors.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace nano::reference;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> tinySizes = {"vocab_size=19",  "num_layers=1",   "num_heads=2",
                                            "model_dim=8",    "block_size=8",   "seq_len=16",
                                            "val_seq_len=16", "global_batch=32"};

Gpt2 tinyModel() {
  Hyperparameters values = gpt2Hyperparameters();
  for (const std::string &assignment : tinySizes)
    values.override(assignment);
  return Gpt2(values);
}

void writeFile(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string shardBytes(const std::vector<uint16_t> &tokens, int32_t magic = 20240520,
                       int32_t version = 1) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = int32_t(tokens.size());
  return std::string(reinterpret_cast<const char *>(header.data()), 1024) +
         std::string(reinterpret_cast<const char *>(tokens.data()), 2 * tokens.size());
}

std::vector<uint16_t> countingTokens(int count, int first = 0) {
  std::vector<uint16_t> tokens(count);
  for (int i = 0; i < count; ++i)
    tokens[i] = uint16_t((first + i) % 19);
  return tokens;
}

std::string safetensorsBytes(const nlohmann::json &header, const std::string &data) {
  const std::string text = header.dump();
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + text + data;
}

struct Outcome {
  int status;
  std::string out, err;
};

class Command : public testing::Test {
protected:
  void SetUp() override {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::temp_directory_path() /
             ("nano-reference-" + std::string(info->name()) + "-" + std::to_string(getpid()));
    fs::create_directories(folder);
    writeSafetensors(path("init.safetensors"), fillRandomly(tinyModel(), 1));
    writeFile(path("train_0.bin"), shardBytes(countingTokens(200)));
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const std::string &name) const { return folder / name; }

  /// Runs gpt2 with the tiny sizes; `changes` replace options (an empty value leaves one out).
  Outcome run(const std::map<std::string, std::string> &changes,
              const std::vector<std::string> &more = {}) const {
    std::map<std::string, std::string> options{{"model", "gpt2"},
                                               {"--init", path("init.safetensors")},
                                               {"--train", path("train_*.bin")},
                                               {"--steps", "2"}};
    for (const auto &[name, value] : changes)
      options[name] = value;
    std::vector<std::string> arguments{options["model"]};
    for (const auto &[name, value] : options)
      if (name != "model" && !value.empty())
        arguments.insert(arguments.end(), {name, value});
    for (const std::string &assignment : tinySizes)
      arguments.insert(arguments.end(), {"-D", assignment});
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::ostringstream out, err;
    const int status = runReference(arguments, out, err);
    return {status, out.str(), err.str()};
  }

  static void expectRefused(const Outcome &outcome, const std::string &message) {
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  fs::path folder;
};

} // namespace

TEST_F(Command, TrainsValidatesAndDumps) {
  writeFile(path("val_0.bin"), shardBytes(countingTokens(40)));
  const Outcome outcome = run({{"--dump-params", path("out.safetensors")},
                               {"--val", path("val_*.bin")},
                               {"--val-tokens", "32"}});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);)
    records.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0]["step"], 1);
  EXPECT_EQ(records[1]["step"], 2);
  EXPECT_GT(records[1]["train_loss"], 0);
  EXPECT_EQ(records[2]["step"], 2);
  EXPECT_GT(records[2]["val_loss"], 0);
  const Shapes shapes = tinyModel().parameterShapes();
  const Tensors before = readSafetensors(path("init.safetensors"), shapes);
  const Tensors after = readSafetensors(path("out.safetensors"), shapes);
  for (const auto &[name, tensor] : before)
    EXPECT_NE(tensor.data, after.at(name).data) << name;
}

TEST_F(Command, ZeroStepsWriteTheInitialParameters) {
  ASSERT_EQ(run({{"--steps", "0"}, {"--dump-params", path("out.safetensors")}}).status, 0);
  const Shapes shapes = tinyModel().parameterShapes();
  const Tensors before = readSafetensors(path("init.safetensors"), shapes);
  for (const auto &[name, tensor] : readSafetensors(path("out.safetensors"), shapes))
    EXPECT_EQ(tensor.data, before.at(name).data) << name;
}

TEST_F(Command, RandomInitIsRepeatable) {
  ASSERT_EQ(run({{"--random-init", path("a")}, {"--seed", "4"}}).status, 0);
  ASSERT_EQ(run({{"--random-init", path("b")}, {"--seed", "4"}}).status, 0);
  ASSERT_EQ(run({{"--random-init", path("c")}, {"--seed", "5"}}).status, 0);
  const Shapes shapes = tinyModel().parameterShapes();
  EXPECT_EQ(readSafetensors(path("a"), shapes).at("wte.weight").data,
            readSafetensors(path("b"), shapes).at("wte.weight").data);
  EXPECT_NE(readSafetensors(path("a"), shapes).at("wte.weight").data,
            readSafetensors(path("c"), shapes).at("wte.weight").data);
}

TEST_F(Command, HelpSucceeds) {
  std::ostringstream out, err;
  EXPECT_EQ(runReference({"--help"}, out, err), 0);
  EXPECT_NE(out.str().find("--dump-params"), std::string::npos);
}

TEST_F(Command, RefusesBadUsage) {
  expectRefused(run({{"model", "gpt3"}}), "gpt3");
  expectRefused(run({{"--steps", "many"}}), "--steps");
  expectRefused(run({{"--steps", "-1"}}), "--steps");
  expectRefused(run({{"--steps", "99999"}}), "num_iterations 18865");
  expectRefused(run({{"--steps", ""}}), "--steps");
  expectRefused(run({{"--init", ""}}), "--init");
  expectRefused(run({{"--train", ""}}), "--train");
  expectRefused(run({{"--val", path("train_*.bin")}}), "--val-tokens");
  expectRefused(run({{"--val-tokens", "16"}}), "--val");
  expectRefused(run({}, {"--speed", "fast"}), "--speed");
  expectRefused(run({}, {"-D", "model_dim"}), "name=value");
  expectRefused(run({}, {"-D", "width=3"}), "known are adam_eps, beta1");
  expectRefused(run({}, {"-D", "model_dim=8.5"}), "model_dim takes an integer");
  expectRefused(run({}, {"-D", "model_dim=0"}), "model_dim takes an integer");
  expectRefused(run({}, {"-D", "learning_rate=high"}), "learning_rate takes a number");
  expectRefused(run({}, {"-D", "dtype=bf16"}), "dtype=f32");
  expectRefused(run({}, {"-D", "model_dim=9"}), "multiple of num_heads");
  expectRefused(run({}, {"-D", "seq_len=12"}), "multiple of");
  expectRefused(run({}, {"-D", "global_batch=40"}), "multiple of seq_len");
}

TEST_F(Command, RefusesSizesThatDoNotFitGpt124m) {
  const auto refused = [](const std::string &assignment, const std::string &message) {
    std::ostringstream out, err;
    const int status = runReference(
        {"gpt124m", "--init", "x", "--train", "x", "--steps", "1", "-D", assignment}, out, err);
    expectRefused({status, out.str(), err.str()}, message);
  };
  refused("num_layers=7", "num_layers: must be even");
  refused("num_layers=4", "num_layers takes an integer from 6");
  refused("head_dim=6", "head_dim: must be a multiple of 4");
  refused("seq_len=64", "multiple of");
  refused("fp8=mlp", "fp8=off, fp8=head");
}

TEST_F(Command, RefusesAnUnwritableOutput) {
  const Outcome outcome = run({{"--steps", "0"}, {"--dump-params", path("missing/out")}});
  expectRefused(outcome, "cannot be written");
}

TEST_F(Command, RefusesBadShards) {
  const auto refused = [&](const std::string &bytes, const std::string &message) {
    writeFile(path("train_0.bin"), bytes);
    expectRefused(run({}), message);
  };
  const std::string good = shardBytes(countingTokens(200));
  refused("", "shorter than a shard's header");
  refused(shardBytes(countingTokens(200), 7), "wrong magic number");
  refused(shardBytes(countingTokens(200), 20240520, 2), "version is not 1");
  refused(good.substr(0, good.size() - 2), "the header says 200 tokens, the file holds 199");
  refused(good + "xx", "the header says 200 tokens, the file holds 201");
  refused(good.substr(0, good.size() - 1), "the header says 200 tokens");
  refused(shardBytes(std::vector<uint16_t>(200, 19)), "token 0 is 19, beyond vocab_size 19");
  refused(shardBytes(countingTokens(32)),
          "no shard holds a batch of 32 tokens and the target of its last one");
  expectRefused(run({{"--train", path("none_*.bin")}}), "no file matches");
  fs::create_directories(path("train_dir"));
  expectRefused(run({{"--train", path("train_dir")}}), "not a regular one");
}

TEST_F(Command, RefusesTooFewValidationTokens) {
  writeFile(path("val_0.bin"), shardBytes(countingTokens(40)));
  const Outcome outcome =
      run({{"--steps", "0"}, {"--val", path("val_*.bin")}, {"--val-tokens", "48"}});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("fewer than --val-tokens"), std::string::npos) << outcome.err;
  expectRefused(run({{"--steps", "0"}, {"--val", path("val_*.bin")}, {"--val-tokens", "17"}}),
                "multiple of val_seq_len");
}

TEST_F(Command, RefusesBadParameters) {
  std::ifstream file(path("init.safetensors"), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  uint64_t size = 0;
  std::memcpy(&size, good.data(), 8);
  const nlohmann::json header = nlohmann::json::parse(good.substr(8, size));
  const std::string data = good.substr(8 + size);
  const auto refused = [&](const std::string &bytes, const std::string &message) {
    writeFile(path("bad.safetensors"), bytes);
    expectRefused(run({{"--init", path("bad.safetensors")}}), message);
  };
  const auto changed = [&](const std::string &pointer, const nlohmann::json &value) {
    nlohmann::json other = header;
    other[nlohmann::json::json_pointer(pointer)] = value;
    return safetensorsBytes(other, data);
  };

  expectRefused(run({{"--init", path("none.safetensors")}}), "no such file");
  refused("", "too short");
  refused(std::string(8, '\xff'), "header is longer than the file");
  refused(std::string("\x03\0\0\0\0\0\0\0{,}", 11), "not that of a safetensors file");
  refused(std::string("\x02\0\0\0\0\0\0\0[]", 10), "not that of a safetensors file");
  refused(good.substr(0, good.size() - 4), "do not fit its shape or the file");
  refused(good + "more", "data remains after its last tensor");
  refused(changed("/wte.weight/shape", {8, 19}), "shape [8,19], the model has [19,8]");
  refused(changed("/wte.weight/dtype", "F16"), "type F16");
  refused(changed("/wte.weight/data_offsets", {0, 4}), "do not fit its shape or the file");
  refused(changed("/wte.weight/data_offsets", {1, 0}), "do not fit its shape or the file");
  refused(changed("/ln_f.bias/data_offsets", header["ln_f.weight"]["data_offsets"]), "overlap");
  refused(changed("/extra", header["ln_f.bias"]), "tensor extra is not a parameter");
  nlohmann::json missing = header;
  missing.erase("wte.weight"); // the last tensor, so that no gap is left
  const uint64_t end = header["wte.weight"]["data_offsets"][0];
  refused(safetensorsBytes(missing, data.substr(0, end)), "tensor wte.weight is missing");
}

TEST_F(Command, ReadsBf16) {
  // 1.5 and −2 in bf16 are 0x3fc0 and 0xc000.
  writeFile(path("b.safetensors"),
            safetensorsBytes({{"p", {{"dtype", "BF16"}, {"shape", {2}}, {"data_offsets", {0, 4}}}},
                              {"__metadata__", {{"made", "by hand"}}}},
                             "\xc0\x3f"
                             "\x00\xc0"s));
  EXPECT_EQ(readSafetensors(path("b.safetensors"), {{"p", {2}}}).at("p").data, (Vec{1.5, -2}));
}

TEST_F(Command, WalksOverShardsInOrder) {
  // Batches of 8: a shard is left when pos + 9 ≥ n, so 26 tokens hold three batches and 25 two; 9
  // are enough for one.
  writeFile(path("s_b.bin"), shardBytes(countingTokens(25, 5)));
  writeFile(path("s_a.bin"), shardBytes(countingTokens(26, 0)));
  writeFile(path("s_c.bin"), shardBytes(countingTokens(8, 0)));
  writeFile(path("s_d.bin"), shardBytes(countingTokens(9, 3)));
  std::ostringstream notes;
  ShardReader reader(expandPattern("--train", path("s_*.bin")), 8, 19, notes);
  const auto firstTokens = [&] {
    const std::vector<Sequence> batch = reader.next(4);
    EXPECT_EQ(batch.size(), 2u);
    EXPECT_EQ(batch[0].targets[3], batch[1].inputs[0]);
    EXPECT_EQ(batch[0].inputs[1], batch[0].targets[0]);
    return batch[0].inputs[0];
  };
  EXPECT_EQ(firstTokens(), 0);
  EXPECT_EQ(firstTokens(), 8);
  EXPECT_EQ(firstTokens(), 16);
  EXPECT_EQ(firstTokens(), 5);
  EXPECT_EQ(firstTokens(), 13);
  EXPECT_EQ(firstTokens(), 3) << "the third shard is too short, so the fourth follows";
  EXPECT_EQ(reader.wraps(), 0);
  EXPECT_EQ(firstTokens(), 0);
  EXPECT_EQ(reader.wraps(), 1);
  EXPECT_NE(notes.str().find("starting again at " + path("s_a.bin")), std::string::npos);
}
