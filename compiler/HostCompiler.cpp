// Runs the host compiler on a model file, and opens the shared library that it makes.
#include "compiler/HostCompiler.h"

#include "compiler/CrashMessage.h"
#include "compiler/Frontend.h"
#include "runtime/plan/InputFile.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace nano {

namespace fs = std::filesystem;

namespace {

/// A directory that is removed again.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "nanoc-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw ModelError(fmt::format(
          "{}: cannot make a temporary directory here: {}; set TMPDIR to one that can be written",
          fs::temp_directory_path().string(), std::strerror(errno)));
    path = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

  fs::path path;
};

/// The folder that compiler/Frontend.h stands under: above build/bin/, or where this program was
/// built.
fs::path sourceRoot() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path &root :
       {program.parent_path().parent_path().parent_path(), fs::path(NANO_SOURCE_ROOT)})
    if (!root.empty() && fs::exists(root / "compiler/Frontend.h", error))
      return root;
  throw ModelError(fmt::format(
      "compiler/Frontend.h: not found under {}; nanoc needs the project's sources there",
      NANO_SOURCE_ROOT));
}

std::string textOf(const std::string &path) {
  Result<std::string> text = readInput(path, input::model);
  if (!text)
    throw ModelError(text.error().message);
  return std::move(*text);
}

/// $CXX, which may bring options along, or c++.
std::vector<std::string> hostCompiler() {
  const char *chosen = std::getenv("CXX");
  std::istringstream words(chosen && *chosen ? chosen : "c++");
  std::vector<std::string> command;
  for (std::string word; words >> word;)
    command.push_back(word);
  return command;
}

void run(const std::vector<std::string> &command, const std::string &model) {
  std::vector<char *> arguments;
  for (const std::string &word : command)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error =
          posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ))
    throw ModelError(
        fmt::format("{}: the host compiler cannot be started: {}; install one or set CXX",
                    command[0], std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ModelError(
        fmt::format("{}: does not compile; the message of {} stands above", model, command[0]));
}

/// What a terminate handler can see.
std::string loadedModel, directoryToRemove;

/// An exception of a static object's constructor ends in std::terminate: it cannot pass the dynamic
/// linker.
[[noreturn]] void reportThrowingConstructor() {
  std::string what;
  try {
    if (const std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::exception &error) {
    what = error.what();
  } catch (...) {
    what = "no std::exception";
  }
  fmt::print(stderr, "nanoc: {}: a static object threw while the model was loaded: {}\n",
             loadedModel, what);
  std::error_code ignored;
  fs::remove_all(directoryToRemove, ignored);
  _exit(2);
}

/// Opens a library and runs the constructors of its static objects.
void *load(const std::string &library, const std::string &model, const std::string &directory) {
  loadedModel = model;
  directoryToRemove = directory;
  const std::terminate_handler before = std::set_terminate(reportThrowingConstructor);
  const ForeignCode constructors(model +
                                 ", the model's own code, in a static object; a debugger shows it");
  void *opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::set_terminate(before);
  if (!opened)
    throw ModelError(fmt::format("{}: the compiled model cannot be loaded: {}", model, dlerror()));
  return opened;
}

} // namespace

ModelFile::ModelFile(const std::string &path) : text(textOf(path)) {
  const fs::path root = sourceRoot();
  const TemporaryDirectory directory;
  const std::string library = (directory.path / "model.so").string();

  std::vector<std::string> command = hostCompiler();
  // Files of this project are known by their path in it, wherever nanoc is called from.
  const std::string prefix = fmt::format("-fmacro-prefix-map={}/=", root.string());
  for (const std::string &word :
       {std::string("-std=c++20"), std::string("-O0"), std::string("-fPIC"), std::string("-shared"),
        "-I" + root.string(), prefix, std::string("-x"), std::string("c++"), path,
        std::string("-o"), library})
    command.push_back(word);
  run(command, path);

  void *opened = load(library, path, directory.path.string());
  loaded.body = reinterpret_cast<void (*)()>(dlsym(opened, "nanoModel"));
  if (!loaded.body)
    throw ModelError(fmt::format("{}: defines no model; write NANO_MODEL {{ … }}", path));
  loaded.defaults = static_cast<const frontend::Defaults *>(dlsym(opened, "nanoDefaults"));
  loaded.name = fs::path(path).stem().string();
  loaded.file =
      path.starts_with(root.string() + "/") ? path.substr(root.string().size() + 1) : path;
}

std::optional<std::string> modelText(const std::string &file) {
  for (const fs::path &path : {fs::path(file), sourceRoot() / file})
    if (Result<std::string> text = readInput(path.string(), input::model))
      return std::move(*text);
  return std::nullopt;
}

} // namespace nano
