// Every target reads its seeds: what it takes, and what once crashed it; each also cut off and with
// single bytes changed, so that refusals are run too.
#include "tests/fuzz/Targets.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <vector>

namespace nano::fuzz {
namespace {

namespace fs = std::filesystem;

const Target targets[] = {
#include "Table.inc"
};

std::string contentOf(const fs::path &path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

std::vector<fs::path> filesIn(const std::string &folder) {
  std::vector<fs::path> files;
  for (const auto &entry : fs::directory_iterator(folder))
    if (entry.is_regular_file())
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, IsRead) {
  const Target &target = GetParam();
  const std::vector<fs::path> files = filesIn(target.seeds);
  ASSERT_FALSE(files.empty()) << "no seeds for " << target.name;
  for (const fs::path &file : files) {
    SCOPED_TRACE(file.string());
    const std::string bytes = contentOf(file);
    target.run(bytes);
    target.run(std::string_view(bytes).substr(0, bytes.size() / 2));
    constexpr size_t changes = 24;
    for (size_t change = 0; change < changes && change < bytes.size(); ++change) {
      std::string other = bytes;
      other[change * bytes.size() / changes] ^= char(1 << (change % 8));
      target.run(other);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(targets),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace nano::fuzz
