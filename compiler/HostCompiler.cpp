// Runs the host compiler on a model file, and opens the shared library that it makes.
#include "compiler/HostCompiler.h"

#include "base/CompilerCommand.h"
#include "base/InputFile.h"
#include "compiler/CrashMessage.h"
#include "compiler/Frontend.h"
#include "compiler/HostMessages.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <regex>
#include <spawn.h>
#include <string_view>
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

/// The environment, but with messages in English and ASCII, which hostErrors reads.
std::vector<std::string> plainEnvironment() {
  std::vector<std::string> variables;
  for (char **variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("LC_ALL="))
      variables.emplace_back(*variable);
  variables.emplace_back("LC_ALL=C");
  return variables;
}

std::vector<char *> pointersTo(const std::vector<std::string> &words) {
  std::vector<char *> pointers;
  for (const std::string &word : words)
    pointers.push_back(const_cast<char *>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Whether the command succeeds; what it says goes to a file.
bool run(const std::vector<std::string> &command, const std::string &messages) {
  const std::vector<std::string> variables = plainEnvironment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::unique_ptr<posix_spawn_file_actions_t, decltype(&posix_spawn_file_actions_destroy)>
      destroyed(&actions, posix_spawn_file_actions_destroy);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, messages.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, command[0].c_str(), &actions, nullptr,
                                     pointersTo(command).data(), pointersTo(variables).data()))
    throw ModelError(
        fmt::format("{}: the host compiler cannot be started: {}; install one or set CXX",
                    command[0], std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// What a model file includes to say its ops, and of this project's files what `model`, its text,
/// includes besides.
std::string declarationsOf(const fs::path &root, const std::string &model) {
  static const std::regex include(R"re(#include "([^"]+)")re");
  std::string all;
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(root / "compiler", ignored))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("Frontend") && name.ends_with(".h"))
      all += textOf(entry.path().string());
  for (std::sregex_iterator at(model.begin(), model.end(), include), end; at != end; ++at)
    if (const fs::path file = root / (*at)[1].str();
        fs::is_regular_file(file, ignored) && file.parent_path() != root / "compiler")
      all += textOf(file.string());
  return all;
}

/// What a terminate handler can see.
std::string loadedModel, directoryToRemove;

/// An exception of a static object's constructor ends here, by way of std::terminate.
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

/// Opens a library. dlopen is declared to throw nothing, and whether an exception of a constructor
/// passes such a call depends on the code around it; it passes this one, and goes no further.
void *openLibrary(const std::string &library) noexcept {
  void *(*volatile open)(const char *, int) = dlopen;
  return open(library.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Opens a library and runs the constructors of its static objects.
void *load(const std::string &library, const std::string &model, const std::string &directory) {
  loadedModel = model;
  directoryToRemove = directory;
  const std::terminate_handler before = std::set_terminate(reportThrowingConstructor);
  const ForeignCode constructors(model +
                                 ", the model's own code, in a static object; a debugger shows it");
  void *opened = openLibrary(library);
  std::set_terminate(before);
  if (!opened)
    throw ModelError(fmt::format("{}: the compiled model cannot be loaded: {}", model, dlerror()));
  return opened;
}

} // namespace

ModelFile::ModelFile(const std::string &given, bool isVerbose, const std::string &knownAs)
    : text(textOf(given)) {
  const std::string path =
      knownAs.empty() ? given : fs::absolute(given).lexically_normal().string();
  const fs::path root = sourceRoot();
  const TemporaryDirectory directory;
  const std::string library = (directory.path / "model.so").string();

  std::vector<std::string> command = compilerCommand();
  // Files of this project are known by their path in it, wherever nanoc is called from.
  const std::string prefix = fmt::format("-fmacro-prefix-map={}/=", root.string());
  for (const std::string &word :
       {std::string("-std=c++20"), std::string("-O0"), std::string("-fPIC"), std::string("-shared"),
        std::string("-ftabstop=1"), // columns are characters
        "-I" + root.string(), prefix})
    command.push_back(word);
  if (!knownAs.empty())
    command.push_back(fmt::format("-fmacro-prefix-map={}={}",
                                  (fs::path(path).parent_path() / "").string(),
                                  (fs::path(knownAs).parent_path() / "").string()));
  for (const std::string &word :
       {std::string("-x"), std::string("c++"), path, std::string("-o"), library})
    command.push_back(word);
  const std::string messages = (directory.path / "messages").string();
  const bool compiles = run(command, messages);
  const std::string said = textOf(messages);
  const std::string errors =
      compiles || isVerbose ? "" : hostErrors(said, path, text, declarationsOf(root, text));
  fmt::print(stderr, "{}", errors.empty() ? said : errors);
  if (!compiles)
    throw ModelError(
        fmt::format("{}: does not compile; {}", path,
                    errors.empty() ? fmt::format("the message of {} stands above", command[0])
                                   : fmt::format("--verbose shows all that {} says", command[0])));

  void *opened = load(library, path, directory.path.string());
  loaded.body = reinterpret_cast<void (*)()>(dlsym(opened, "nanoModel"));
  if (!loaded.body)
    throw ModelError(fmt::format("{}: defines no model; write NANO_MODEL {{ … }}", path));
  loaded.defaults = static_cast<const frontend::Defaults *>(dlsym(opened, "nanoDefaults"));
  loaded.name = fs::path(path).stem().string();
  loaded.file =
      path.starts_with(root.string() + "/") ? path.substr(root.string().size() + 1) : path;
  if (!knownAs.empty()) {
    loaded.folder = fs::path(path).parent_path().string();
    loaded.file = knownAs;
  }
}

std::optional<std::string> modelText(const std::string &file) {
  for (const fs::path &path : {fs::path(file), sourceRoot() / file})
    if (Result<std::string> text = readInput(path.string(), input::model))
      return std::move(*text);
  return std::nullopt;
}

} // namespace nano
