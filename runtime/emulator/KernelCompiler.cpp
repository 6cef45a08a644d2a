// Runs the host compiler on the plan's kernels, several at a time, and keeps what it makes.
#include "base/CompilerCommand.h"
#include "runtime/emulator/DeviceHeaders.h"
#include "runtime/emulator/KernelImage.h"
#include "runtime/emulator/Process.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace nano::emulator {
namespace {

/// Text that follows a kernel's: how the emulator enters it.
std::string epilogue(const std::vector<std::string> &kernels) {
  std::string text = R"(
#define NANO_EXPORT extern "C" __attribute__((visibility("default")))
namespace nano::emulator {
template <typename Launch>
__attribute__((no_sanitize("thread"))) inline void enter(void (*kernel)(Launch), const void *launch,
                                                         const void *) {
  kernel(*static_cast<const Launch *>(launch));
}
template <typename Launch, typename Maps>
__attribute__((no_sanitize("thread"))) inline void enter(void (*kernel)(Launch, Maps),
                                                         const void *launch, const void *maps) {
  kernel(*static_cast<const Launch *>(launch), *static_cast<const Maps *>(maps));
}
template <typename Launch> constexpr unsigned long launchBytes(void (*)(Launch)) {
  return sizeof(Launch);
}
template <typename Launch, typename Maps>
constexpr unsigned long launchBytes(void (*)(Launch, Maps)) {
  return sizeof(Launch);
}
template <typename Launch> constexpr unsigned long mapBytes(void (*)(Launch)) { return 0; }
template <typename Launch, typename Maps> constexpr unsigned long mapBytes(void (*)(Launch, Maps)) {
  return sizeof(Maps);
}
} // namespace nano::emulator
static thread_local char nanoShared;
NANO_EXPORT char *nanoTouchShared() { return &nanoShared; }
)";
  for (const std::string &name : kernels) {
    text += "NANO_EXPORT __attribute__((no_sanitize(\"thread\"))) void nanoEnter_" + name +
            "(const void *launch, const void *maps) { nano::emulator::enter(" + name +
            ", launch, maps); }\n";
    for (auto [constant, function] :
         {std::pair("nanoParameterBytes_", "launchBytes"), std::pair("nanoMapBytes_", "mapBytes")})
      text += "NANO_EXPORT const unsigned long " + (constant + name) + ";\nconst unsigned long " +
              (constant + name) + " = nano::emulator::" + function + "(" + name + ");\n";
  }
  return text;
}

/// Compiles sources of one plan.
class Compiler {
public:
  Compiler(const plan::Plan &plan, const CompileOptions &options)
      : options(options), cache(options.cacheFolder, ".emulator", options.report) {
    std::set<std::string> kernelSources;
    for (const plan::Kernel &kernel : plan.kernels)
      kernelSources.insert(kernel.source);
    for (const plan::Source &source : plan.sources)
      if (!kernelSources.count(source.name))
        headers[source.name] = source.text;
    for (plan::Source &header : deviceHeaders())
      headers[header.name] = std::move(header.text);
  }

  /// Finds the compiler and writes the headers.
  Status prepare() {
    if (folder.path().empty())
      return badInput("no temporary folder can be made; set TMPDIR to one that can be written");
    command = compilerCommand();
    std::vector<std::string> ask = command;
    ask.push_back("--version");
    std::string output = folder.path() + "/version";
    if (runProcess(ask, output) != 0)
      return badInput("the emulator compiles kernels with '" + command[0] +
                      "', which does not run; install a C++ compiler or set CXX");
    version = readFile(output);
    for (const char *word :
         {"-std=c++20", "-x", "c++", "-w", "-fPIC", "-shared", "-nostdlib", "-fvisibility=hidden",
          "-Wl,-Bsymbolic", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables",
          "-fno-stack-protector", "-fno-strict-aliasing", "-fno-math-errno", "-ffp-contract=off",
          "-g1", "-O1"})
      command.push_back(word);
    if (options.checked)
      command.push_back("-fsanitize=thread");
    command.push_back("-ffile-prefix-map=" + folder.path() + "/=");
    command.push_back("-I" + folder.path());
    for (const auto &[name, text] : headers)
      if (!writeFile(folder.path() + "/" + name, text))
        return badInput(folder.path() + "/" + name + ": cannot be written; free some space there");
    return ok();
  }

  /// The library of one source with these kernels.
  Result<std::string> compile(const plan::Source &source, const std::vector<std::string> &kernels) {
    std::string text =
        "#include \"nano_primitives.h\"\n#include \"" + source.name + "\"\n" + epilogue(kernels);
    std::vector<std::string_view> parts = {version, source.name, source.text, text};
    for (const std::string &word : command)
      if (word.find(folder.path()) == std::string::npos)
        parts.push_back(word);
    for (const auto &[name, header] : headers) {
      parts.push_back(name);
      parts.push_back(header);
    }
    std::string key = BuildCache::keyOf(parts);
    if (auto found = cache.find(key)) {
      ++cached;
      return std::move(*found);
    }
    ++compiled;
    std::string base = folder.path() + "/" + key;
    if (!writeFile(folder.path() + "/" + source.name, source.text) ||
        !writeFile(base + ".cpp", text))
      return badInput(folder.path() + ": cannot be written; free some space there");
    std::vector<std::string> line = command;
    for (const std::string &word :
         {base + ".cpp", std::string("-o"), base + ".so", std::string("-lm")})
      line.push_back(word);
    if (runProcess(line, base + ".log") != 0)
      return badInput("kernel source " + source.name + " does not compile for the emulator: " +
                      plan::firstError(readFile(base + ".log")));
    std::string library = readFile(base + ".so");
    cache.store(key, library);
    return library;
  }

  std::atomic<int> compiled = 0, cached = 0;

private:
  const CompileOptions &options;
  TemporaryFolder folder;
  std::vector<std::string> command;
  std::string version;
  std::map<std::string, std::string> headers;
  BuildCache cache;
};

} // namespace

Result<Kernels> compileKernels(const plan::Plan &plan, const CompileOptions &options) {
  Kernels result;
  result.byIndex.resize(plan.kernels.size());
  std::map<std::string, std::vector<size_t>> bySource;
  const std::vector<bool> isLaunched = plan::launchedKernels(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    if (isLaunched[i])
      bySource[plan.kernels[i].source].push_back(i);
  std::vector<const plan::Source *> sources;
  for (const plan::Source &source : plan.sources)
    if (bySource.count(source.name))
      sources.push_back(&source);
  if (sources.empty())
    return result;

  Compiler compiler(plan, options);
  if (Status status = compiler.prepare(); !status)
    return status.error();
  result.images.resize(sources.size());
  std::vector<Status> outcomes(sources.size(), ok());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < sources.size();) {
      std::vector<std::string> kernels;
      for (size_t index : bySource[sources[i]->name])
        kernels.push_back(plan.kernels[index].name);
      auto library = compiler.compile(*sources[i], kernels);
      if (!library) {
        outcomes[i] = library.error();
        continue;
      }
      auto image = KernelImage::load(std::move(*library), *sources[i], kernels);
      if (image)
        result.images[i] = std::move(*image);
      else
        outcomes[i] = image.error();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min<int>(options.processes, int(sources.size())); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();

  for (size_t i = 0; i < sources.size(); ++i) {
    if (!outcomes[i]) {
      Error error = outcomes[i].error();
      error.message += plan::modelLines(plan, sources[i]->name);
      return error;
    }
    const std::vector<size_t> &indices = bySource[sources[i]->name];
    for (size_t k = 0; k < indices.size(); ++k)
      result.byIndex[indices[k]] = &result.images[i]->kernels()[k];
  }
  result.compiled = compiler.compiled;
  result.cached = compiler.cached;
  return result;
}

} // namespace nano::emulator
