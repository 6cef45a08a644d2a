// Columns: safetensors files and folders of .npy files, and every way in which one can be wrong.
#include "runtime/data/DataFile.h"

#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace nano {
namespace {

using test::bytesOf;
using test::column;
using test::ScratchDirectory;
using Tensor = test::ColumnBytes;
using test::writeText;

/// A file as numpy.save writes it, of version 1 or 2.
std::string npy(const std::string &descr, const std::string &shape, const std::string &data,
                int version = 1) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  const size_t before = version == 1 ? 10 : 12;
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  header += '\n';
  std::string text = "\x93NUMPY";
  text += char(version);
  text += '\0';
  for (size_t i = 0; i < before - 8; ++i)
    text += char(header.size() >> (8 * i) & 0xff);
  return text + header + data;
}

std::string errorOf(const std::string &path) {
  Result<DataFile> file = DataFile::open(path);
  if (file)
    return "no error";
  EXPECT_EQ(file.error().exitStatus(), 2);
  EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  EXPECT_EQ(file.error().message.rfind(path, 0), 0u) << file.error().message;
  return file.error().message;
}

template <typename T> std::vector<T> contentOf(const DataColumn &column, uint64_t begin = 0) {
  std::vector<T> values(column.size() - begin);
  EXPECT_TRUE(column.read(begin, values.size(), values.data()));
  return values;
}

const std::vector<uint16_t> tokens = {256, 65, 66, 256, 67};
const std::vector<float> weights = {0, 0.5, -1, 2, 3};
const std::vector<uint8_t> mask = {0, 1, 1, 0, 255};

TEST(DataFile, Safetensors) {
  ScratchDirectory scratch;
  const std::string path = scratch / "a.safetensors";
  test::writeColumns(path, {column("weight", "F32", weights), column("mask", "U8", mask),
                            column("tokens", "U16", tokens),
                            column("half", "BF16", std::vector<uint16_t>{1, 2, 3, 4, 0x3f80}),
                            column("label", "I32", std::vector<int32_t>{-1, 0, 1, 2, 3})});
  Result<DataFile> file = DataFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->path, path);
  EXPECT_EQ(contentOf<uint16_t>(file->tokens), tokens);
  ASSERT_EQ(file->columns.size(), 4u);
  EXPECT_EQ(file->columns.at("weight").type(), ElementType::F32);
  EXPECT_EQ(contentOf<float>(file->columns.at("weight")), weights);
  EXPECT_EQ(contentOf<float>(file->columns.at("weight"), 3), (std::vector<float>{2, 3}));
  EXPECT_EQ(contentOf<uint8_t>(file->columns.at("mask")), mask);
  EXPECT_EQ(file->columns.at("half").type(), ElementType::BF16);
  EXPECT_EQ(contentOf<int32_t>(file->columns.at("label"))[0], -1);
}

TEST(DataFile, FolderOfNpy) {
  ScratchDirectory scratch;
  const std::string folder = scratch / "data";
  std::filesystem::create_directory(folder);
  for (int version : {1, 2}) {
    writeText(folder + "/tokens.npy", npy("<u2", "(5,)", bytesOf(tokens), version));
    writeText(folder + "/weight.npy", npy("<f4", "(5,)", bytesOf(weights), version));
    writeText(folder + "/mask.npy", npy("|u1", "(5,)", bytesOf(mask), version));
    writeText(folder + "/notes.txt", "what is no .npy is not looked at");
    Result<DataFile> file = DataFile::open(folder);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(contentOf<uint16_t>(file->tokens), tokens);
    ASSERT_EQ(file->columns.size(), 2u);
    EXPECT_EQ(contentOf<float>(file->columns.at("weight")), weights);
    EXPECT_EQ(contentOf<uint8_t>(file->columns.at("mask"), 4), (std::vector<uint8_t>{255}));
  }
}

TEST(DataFile, WrongSafetensors) {
  ScratchDirectory scratch;
  const std::string path = scratch / "a.safetensors";
  const Tensor good = column("tokens", "U16", tokens);
  auto expect = [&](const std::vector<Tensor> &tensors, const char *message) {
    test::writeColumns(path, tensors);
    EXPECT_CONTAINS(errorOf(path), message);
  };
  expect({column("weight", "F32", weights)},
         "not a usable file of columns: it has no tensor 'tokens'");
  expect({good, column("weight", "F32", std::vector<float>{1, 2, 3, 4})},
         "column 'weight' has 4 elements and there are 5 tokens; all columns have one length");
  expect({good, column("w", "F64", std::vector<double>{1, 2, 3, 4, 5})},
         "column 'w' is F64; columns are F32, BF16, I32 or U8, tokens U16, U32 or I32");
  expect({good, column("w", "U16", tokens)},
         "column 'w' is u16; columns beside tokens are f32, bf16, i32 or u8");
  expect({column("tokens", "F32", weights)}, "tokens are f32; they must be u16, u32 or i32");
  expect({{"tokens", "U16", bytesOf(std::vector<uint16_t>(6)), {2, 3}}},
         "'tokens' has the shape [2, 3]; a column has one dimension");
  test::writeColumns(path, {good});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_CONTAINS(errorOf(path), "not a valid safetensors file");
}

TEST(DataFile, WrongNpy) {
  ScratchDirectory scratch;
  const std::string folder = scratch / "data", path = folder + "/tokens.npy";
  std::filesystem::create_directory(folder);
  auto expect = [&](const std::string &content, const char *message) {
    writeText(path, content);
    Result<DataFile> file = DataFile::open(folder);
    ASSERT_FALSE(file) << message;
    EXPECT_EQ(file.error().exitStatus(), 2);
    EXPECT_CONTAINS(file.error().message, message);
  };
  const std::string data = bytesOf(tokens);
  expect("", "tokens.npy: not a usable .npy file: it has 0 bytes, too few for a header");
  expect(std::string(100, 'x'), "does not begin as numpy.save writes it");
  expect(npy("<u2", "(5,)", data).substr(0, 40), "its header says that it is");
  expect(npy("<u2", "(5,)", data + "x"),
         "its header says 5 elements of 2 bytes, and 11 bytes follow");
  expect(npy("<u2", "(9223372036854775809,)", data), "elements of 2 bytes, and 10 bytes follow");
  expect(npy("<u2", "(99999999999999999999,)", data), "a column has one dimension");
  expect(npy("<u2", "(5, 1)", data), "its shape is (5, 1); a column has one dimension");
  expect(npy("<u2", "()", data), "its shape is (); a column has one dimension");
  expect(npy(">u2", "(5,)", data), "its type is '>u2'; columns are");
  expect(npy("<f8", "(5,)", data), "its type is '<f8'; columns are");
  expect(npy("|u1", "(10,)", data), "tokens are u8; they must be u16, u32 or i32");
  std::string without = npy("<u2", "(5,)", data);
  without.replace(without.find("shape"), 5, "sh_pe");
  expect(without, "its header lacks descr, fortran_order or shape");
  writeText(path, npy("<u2", "(5,)", data));
  writeText(folder + "/mask.npy", npy("|u1", "(4,)", std::string(4, 'x')));
  EXPECT_CONTAINS(errorOf(folder), "column 'mask' has 4 elements and there are 5 tokens");
}

} // namespace
} // namespace nano
