// Safetensors: what is written reads back, and every way in which a header can lie is refused.
#include "runtime/files/Safetensors.h"

#include "runtime/States.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

namespace nano {
namespace {

using test::readText;
using test::ScratchDirectory;
using test::writeText;

plan::State makeState(const std::string &name, plan::DType type, std::vector<int64_t> shape) {
  plan::State state;
  state.name = name;
  state.type = type;
  state.shape = std::move(shape);
  return state;
}

/// Some bytes for a state, from its name and the offset.
Status fakeRead(const plan::State &state, uint64_t offset, void *data, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i)
    static_cast<uint8_t *>(data)[i] = uint8_t((offset + i) * 7 + state.name.size());
  return ok();
}

std::string withHeader(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

std::string errorOf(const std::string &content) {
  ScratchDirectory scratch;
  writeText(scratch / "x.safetensors", content);
  auto file = SafetensorsFile::open(scratch / "x.safetensors");
  if (file)
    return "no error";
  EXPECT_EQ(file.error().exitStatus(), 2);
  EXPECT_CONTAINS(file.error().message, "x.safetensors");
  return file.error().message;
}

std::string headerError(const std::string &header, size_t dataBytes = 8) {
  return errorOf(withHeader(header, std::string(dataBytes, 'd')));
}

TEST(Safetensors, RoundTrip) {
  ScratchDirectory scratch;
  std::vector<plan::State> states = {makeState("odd", plan::DType::BF16, {3}),
                                     makeState("empty", plan::DType::F32, {0, 5}),
                                     makeState("matrix", plan::DType::F32, {2, 3}),
                                     makeState("scalar", plan::DType::I32, {}),
                                     makeState("fp8", plan::DType::F8E4M3FN, {5}),
                                     makeState("large", plan::DType::BF16, {3, 1000003})};
  std::vector<const plan::State *> pointers;
  for (const plan::State &state : states)
    pointers.push_back(&state);
  auto writer = AtomicFile::create(scratch / "x.safetensors");
  ASSERT_TRUE(writer);
  ASSERT_TRUE(storeRuns(heldRuns(pointers, Seat()), fakeRead, false, writer->writer()));
  EXPECT_FALSE(std::ifstream(scratch / "x.safetensors").good());
  ASSERT_TRUE(writer->publish());

  auto file = SafetensorsFile::open(scratch / "x.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(checkTensors("x", file->table(), tensorsOf(pointers)));
  EXPECT_EQ(file->tensors().at("matrix").type, "F32");
  EXPECT_EQ(file->tensors().at("fp8").type, "F8_E4M3");
  std::map<std::string, uint64_t> seen; // bytes by state, which come in order
  auto write = [&](const plan::State &state, uint64_t offset, const void *data, uint64_t bytes) {
    std::vector<uint8_t> expected(bytes);
    EXPECT_EQ(offset, seen[state.name]);
    EXPECT_TRUE(fakeRead(state, offset, expected.data(), bytes));
    EXPECT_EQ(std::memcmp(data, expected.data(), bytes), 0) << state.name;
    seen[state.name] += bytes;
    return ok();
  };
  auto clear = [](const plan::State &) { return failed("only what is in parts has padding"); };
  StoredTensors stored(std::move(*file));
  ASSERT_TRUE(loadStates(stored, pointers, Seat(), write, clear));
  EXPECT_EQ(seen.size(), states.size() - 1) << "an empty one needs no write";
  for (const plan::State &state : states)
    if (state.name != "empty") {
      EXPECT_EQ(seen[state.name], bytesOf(state)) << state.name;
    }
  // The layout of other readers: eight-byte header, elements aligned.
  std::string text = readText(scratch / "x.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  auto header = nlohmann::json::parse(text.substr(8, length));
  EXPECT_EQ(header["matrix"]["shape"], (nlohmann::json{2, 3}));
  // transformers' from_pretrained takes no file without it.
  EXPECT_EQ(header["__metadata__"], (nlohmann::json{{"format", "pt"}}));
  header.erase("__metadata__");
  for (auto &[name, entry] : header.items()) {
    uint64_t element = name == "matrix" || name == "scalar" ? 4 : name == "fp8" ? 1 : 2;
    EXPECT_EQ(entry["data_offsets"][0].get<uint64_t>() % element, 0u) << name;
  }
}

TEST(Safetensors, Dropped) {
  ScratchDirectory scratch;
  writeText(scratch / "x.safetensors", "before");
  {
    auto writer = AtomicFile::create(scratch / "x.safetensors");
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->writer().append("half of it"));
  }
  EXPECT_EQ(readText(scratch / "x.safetensors"), "before");
  size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(scratch.path))
    files += entry.path().filename() == "x.safetensors" ? 1 : 100;
  EXPECT_EQ(files, 1u);
}

TEST(Safetensors, Lengths) {
  EXPECT_CONTAINS(errorOf(""), "it has 0 bytes, too few for a header");
  EXPECT_CONTAINS(errorOf("1234567"), "it has 7 bytes");
  EXPECT_CONTAINS(errorOf(std::string("\x10\0\0\0\0\0\0\0{}", 10)),
                  "16 bytes long, the file has 10");
  EXPECT_CONTAINS(errorOf(std::string(8, '\xff') + "{}"), "at most 100000000 are allowed");
  EXPECT_EQ(errorOf(withHeader("{}", "")), "no error");
  EXPECT_CONTAINS(errorOf(withHeader("{}", "x")), "1 bytes at the end belong to no tensor");
}

TEST(Safetensors, Headers) {
  const char *noObject = "the header is not a JSON object in which every name appears once";
  for (const char *header : {"", "[]", "3", "{", "{} x", "null", "{\"a\":}", "\"\xff\""})
    EXPECT_CONTAINS(headerError(header), noObject);
  EXPECT_CONTAINS(headerError(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
                  noObject);
  EXPECT_CONTAINS(
      headerError(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
      noObject);
  EXPECT_EQ(
      headerError(
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
      "no error");
  EXPECT_CONTAINS(headerError(R"({"__metadata__":{"format":3}})"),
                  "__metadata__ must be an object of strings");
  EXPECT_CONTAINS(headerError(R"({"a":3})"),
                  "tensor 'a': the header must give dtype, shape and data_offsets");
  EXPECT_CONTAINS(headerError(R"({"a":{"dtype":"F32","shape":[2]}})"), "the header must give");
  EXPECT_CONTAINS(headerError(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})"),
                  "unknown dtype \"F31\"");
  EXPECT_CONTAINS(headerError(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})"),
                  "unknown dtype 7");
}

TEST(Safetensors, ShapesAndOffsets) {
  auto error = [](const std::string &shape, const std::string &offsets) {
    return headerError(R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets +
                       "}}");
  };
  EXPECT_EQ(error("[2]", "[0,8]"), "no error");
  EXPECT_EQ(error("[1,2,1]", "[0,8]"), "no error");
  EXPECT_CONTAINS(error("2", "[0,8]"), "shape must be a list");
  EXPECT_CONTAINS(error("[-2]", "[0,8]"), "shape must be a list");
  EXPECT_CONTAINS(error("[2.0]", "[0,8]"), "shape must be a list");
  EXPECT_CONTAINS(error("[4294967296,4294967296]", "[0,8]"), "product fits in 64 bits");
  EXPECT_CONTAINS(error("[9223372036854775809]", "[0,8]"), "product fits in 64 bits");
  EXPECT_CONTAINS(error("[2]", "[0]"), "data_offsets must be two byte offsets");
  EXPECT_CONTAINS(error("[2]", "[-8,0]"), "data_offsets must be two byte offsets");
  EXPECT_CONTAINS(error("[2]", "[8,0]"), "do not lie in the 8 bytes of data");
  EXPECT_CONTAINS(error("[2]", "[4,12]"), "do not lie in the 8 bytes of data");
  EXPECT_CONTAINS(error("[2]", "[18446744073709551608,18446744073709551615]"), "do not lie in");
  EXPECT_CONTAINS(error("[3]", "[0,8]"), "shape [3] of F32 takes 12 bytes, data_offsets give 8");
  EXPECT_CONTAINS(error("[1]", "[4,8]"), "4 bytes before tensor 'a' belong to no tensor");
  EXPECT_CONTAINS(error("[1]", "[0,4]"), "4 bytes at the end belong to no tensor");
  EXPECT_CONTAINS(headerError(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"F16","shape":[3],"data_offsets":[2,8]}})"),
                  "tensors 'a' and 'b' overlap");
}

TEST(Safetensors, TensorsThatDoNotFitThePlan) {
  ScratchDirectory scratch;
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})";
  writeText(scratch / "x.safetensors", withHeader(header, "12345678"));
  auto file = SafetensorsFile::open(scratch / "x.safetensors");
  ASSERT_TRUE(file);
  auto check = [&](const std::vector<plan::State> &states) {
    std::vector<const plan::State *> pointers;
    for (const plan::State &state : states)
      pointers.push_back(&state);
    Status status = checkTensors(file->path(), file->table(), tensorsOf(pointers));
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().exitStatus(), 2);
    return status.error().message.substr(scratch.path.size() + 1);
  };
  using plan::DType;
  EXPECT_EQ(check({makeState("a", DType::F32, {1})}),
            "x.safetensors: does not fit the plan; not in the plan: b");
  EXPECT_EQ(check({makeState("a", DType::F32, {1}), makeState("b", DType::BF16, {2}),
                   makeState("c", DType::F32, {1})}),
            "x.safetensors: does not fit the plan; missing: c; different: b is F16 [2], the plan "
            "has BF16 [2]");
  EXPECT_EQ(check({makeState("a", DType::F32, {1, 1}), makeState("d", DType::BF16, {2})}),
            "x.safetensors: does not fit the plan; missing: d; not in the plan: b; "
            "different: a is F32 [1], the plan has F32 [1, 1]");
  std::vector<plan::State> many = {makeState("a", DType::F32, {1})};
  for (int i = 0; i < 20; ++i)
    many.push_back(makeState("m" + std::to_string(i), DType::F32, {1}));
  EXPECT_CONTAINS(check(many), "missing: m0, m1, m10, m11, m12, m13 and 14 more");
}

} // namespace
} // namespace nano
