// nano-kept-compiler WORDS...: c++ as the tests give it to nanoc, which compiles each model file
// again and again. A model's library is made once of the same words, the same compiler and the same
// text of all that it includes, and kept in the build folder; whatever is not the compilation of a
// library from one file, fails, or says something is c++ itself.
#include "runtime/emulator/Process.h"
#include "runtime/files/BuildCache.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

using nano::BuildCache;
using namespace nano::emulator;

namespace {

using Words = std::vector<std::string>;

/// Becomes the compiler.
[[noreturn]] void becomeCompiler(const Words &command) {
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::perror(words[0]);
  _exit(127);
}

/// What a rule of make depends on.
Words filesOf(const std::string &rule) {
  Words files = {""};
  for (size_t i = rule.find(": ") + 1; i < rule.size(); ++i) {
    if (rule[i] == '\\' && rule[i + 1] == ' ')
      files.back() += rule[++i];
    else if (rule[i] != ' ' && rule[i] != '\n' && rule.compare(i, 2, "\\\n") != 0)
      files.back() += rule[i];
    else if (!files.back().empty())
      files.emplace_back();
  }
  files.pop_back();
  return files;
}

/// The name of the library that the words make of these files, as they are now.
std::string libraryKey(const std::string &made, const Words &files) {
  Words texts;
  for (const std::string &file : files)
    texts.push_back(readFile(file));
  std::vector<std::string_view> parts = {made};
  for (size_t i = 0; i < files.size(); ++i)
    parts.insert(parts.end(), {files[i], texts[i]});
  return BuildCache::keyOf(parts);
}

} // namespace

int main(int count, char **given) {
  Words command = {"c++"};
  command.insert(command.end(), given + 1, given + count);
  const auto output = std::find(command.begin(), command.end(), "-o");
  auto has = [&](const char *word) {
    return std::find(command.begin(), command.end(), word) != command.end();
  };
  // The emulator keeps kernels by itself, and what a test writes has another path in the next run.
  std::error_code ignored;
  if (!has("-shared") || !has("-x") || has("-nostdlib") || command.end() - output != 2 ||
      output[-1].starts_with(std::filesystem::temp_directory_path(ignored).string()))
    becomeCompiler(command);
  const std::string &library = output[1];
  const TemporaryFolder folder;
  const std::string rule = folder.path() + "/rule", said = folder.path() + "/said";
  runProcess({"c++", "--version"}, said);

  // By the words: what was included last time. By that and its text: the library.
  const Words words(command.begin(), output);
  Words made = {readFile(said), std::filesystem::current_path().string()};
  made.insert(made.end(), words.begin(), words.end());
  const std::string key = BuildCache::keyOf({made.begin(), made.end()});
  BuildCache lists(NANO_KEPT_FOLDER, ".files", {}), libraries(NANO_KEPT_FOLDER, ".model", {});
  if (const std::optional<std::string> list = lists.find(key))
    if (const auto kept = libraries.find(libraryKey(key, filesOf(*list))))
      return writeFile(library, *kept) ? 0 : 1;

  Words watched = command;
  watched.insert(watched.end(), {"-MD", "-MF", rule});
  if (runProcess(watched, said) != 0 || !readFile(said).empty())
    becomeCompiler(command);
  lists.store(key, readFile(rule));
  libraries.store(libraryKey(key, filesOf(readFile(rule))), readFile(library));
  return 0;
}
