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
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
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

/// Whether a text defines kernels and nothing else, which mean the same beside those of others.
bool definesOnlyKernels(std::string_view text) {
  constexpr std::string_view begins = "extern \"C\" __global__ ";
  // Static shared memory is a library's, and a block's has that of its kernel alone.
  for (const char *word : {"__shared__", "/*", "\\", "'"})
    if (text.find(word) != std::string_view::npos)
      return false;
  std::string outside; // of braces, since the last definition
  int depth = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with("#include ") || line.starts_with("#pragma "))
      continue;
    line = line.substr(0, line.find("//"));
    if (line.starts_with("#") || (depth > 0 && line.find('"') != std::string_view::npos))
      return false;
    for (char c : line) {
      if (c == ';' && depth == 0)
        return false;
      if (c == '{' && depth++ == 0 && !outside.starts_with(begins))
        return false;
      if (c == '}' && --depth == 0)
        outside.clear();
      else if (depth == 0)
        outside += c;
    }
    if (!outside.empty())
      outside += ' ';
  }
  return depth == 0 && outside.find_first_not_of(' ') == std::string::npos;
}

/// A source of which a kernel is launched.
struct Launched {
  const plan::Source *source = nullptr;
  std::vector<std::string> kernels;   ///< all of them
  std::string key;                    ///< of the cache
  std::optional<std::string> place;   ///< the key of the library of several, if one held them
  std::optional<std::string> library; ///< that holds them, once it is there
};
using Group = std::vector<Launched *>;

/// Sources as they are compiled: those that may stand beside others together, in a group for each
/// of `processes` if that makes none too large: each compiler reads the headers once.
std::vector<Group> groupsOf(const Group &sources, int processes) {
  constexpr size_t most = 12;
  Group together;
  std::vector<Group> groups;
  for (Launched *each : sources) {
    if (definesOnlyKernels(each->source->text))
      together.push_back(each);
    else
      groups.push_back({each});
  }
  const size_t count =
      std::min(together.size(), std::max<size_t>(processes, (together.size() + most - 1) / most));
  const size_t first = groups.size();
  groups.resize(first + count);
  for (size_t i = 0; i < together.size(); ++i)
    groups[first + i % count].push_back(together[i]);
  return groups;
}

/// Compiles sources of one plan.
class Compiler {
public:
  Compiler(const plan::Plan &plan, const CompileOptions &options)
      : options(options), cache(options.cacheFolder, ".emulator", options.report),
        places(options.cacheFolder, ".emulator-place", options.report) {
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

  /// Takes the library of a source from the cache, if it is there.
  void find(Launched &launched) {
    const std::string text = textOf({&launched});
    std::vector<std::string_view> parts = {version, launched.source->name, launched.source->text,
                                           text};
    for (const std::string &word : command)
      if (word.find(folder.path()) == std::string::npos)
        parts.push_back(word);
    for (const auto &[name, header] : headers) {
      parts.push_back(name);
      parts.push_back(header);
    }
    launched.key = BuildCache::keyOf(parts);
    launched.place = places.find(launched.key);
    if (launched.place)
      launched.library = cache.find(*launched.place);
    // It may have been compiled alone, before or since.
    if (!launched.library && launched.place != launched.key)
      launched.library = cache.find(launched.key);
    if (launched.library)
      ++cached;
  }

  /// Compiles the library of a group.
  Status compile(const Group &group) {
    std::vector<std::string_view> keys;
    for (const Launched *each : group) {
      keys.push_back(each->key);
      if (!writeFile(folder.path() + "/" + each->source->name, each->source->text))
        return badInput(folder.path() + ": cannot be written; free some space there");
    }
    const std::string key = group.size() == 1 ? group[0]->key : BuildCache::keyOf(keys);
    const std::string base = folder.path() + "/" + key;
    if (!writeFile(base + ".cpp", textOf(group)))
      return badInput(folder.path() + ": cannot be written; free some space there");
    std::vector<std::string> line = command;
    for (const std::string &word :
         {base + ".cpp", std::string("-o"), base + ".so", std::string("-lm")})
      line.push_back(word);
    if (runProcess(line, base + ".log") != 0)
      return badInput(
          "kernel source " + group[0]->source->name +
          " does not compile for the emulator: " + plan::firstError(readFile(base + ".log")));
    const std::string library = readFile(base + ".so");
    cache.store(key, library);
    for (Launched *each : group) {
      each->library = library;
      // Also of one alone whose library with others is damaged or gone.
      if (group.size() > 1 || each->place)
        places.store(each->key, key);
    }
    compiled += int(group.size());
    return ok();
  }

  std::atomic<int> compiled = 0, cached = 0;

private:
  static std::string textOf(const Group &group) {
    std::string text = "#include \"nano_primitives.h\"\n";
    std::vector<std::string> kernels;
    for (const Launched *each : group) {
      text += "#include \"" + each->source->name + "\"\n";
      kernels.insert(kernels.end(), each->kernels.begin(), each->kernels.end());
    }
    return text + epilogue(kernels);
  }

  const CompileOptions &options;
  TemporaryFolder folder;
  std::vector<std::string> command;
  std::string version;
  std::map<std::string, std::string> headers;
  BuildCache cache;  ///< libraries, by the keys of their sources
  BuildCache places; ///< of a source that was compiled with others: the key of the library
};

/// Does `work` for each number below `count`, on so many threads at a time.
void onThreads(int most, size_t count, const std::function<void(size_t)> &work) {
  std::atomic<size_t> next = 0;
  auto run = [&] {
    for (size_t i; (i = next++) < count;)
      work(i);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min<int>(most, int(count)); ++i)
    threads.emplace_back(run);
  run();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

Result<Kernels> compileKernels(const plan::Plan &plan, const CompileOptions &options) {
  Kernels result;
  result.byIndex.resize(plan.kernels.size());
  std::map<std::string, std::vector<size_t>> bySource;
  std::set<std::string> areLaunched;
  const std::vector<bool> isLaunched = plan::launchedKernels(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    bySource[plan.kernels[i].source].push_back(i);
    if (isLaunched[i])
      areLaunched.insert(plan.kernels[i].source);
  }
  std::vector<Launched> sources;
  for (const plan::Source &source : plan.sources) {
    if (!areLaunched.count(source.name))
      continue;
    sources.emplace_back().source = &source;
    // By name: a library is the same wherever in a plan its kernels stand.
    std::vector<size_t> &indices = bySource[source.name];
    std::sort(indices.begin(), indices.end(),
              [&](size_t a, size_t b) { return plan.kernels[a].name < plan.kernels[b].name; });
    for (size_t index : indices)
      sources.back().kernels.push_back(plan.kernels[index].name);
  }
  if (sources.empty())
    return result;

  Compiler compiler(plan, options);
  if (Status status = compiler.prepare(); !status)
    return status.error();
  Group missing;
  for (Launched &each : sources) {
    compiler.find(each);
    if (!each.library)
      missing.push_back(&each);
  }
  const std::vector<Group> groups = groupsOf(missing, options.processes);
  std::vector<Status> outcomes(sources.size(), ok());
  onThreads(options.processes, groups.size(), [&](size_t i) {
    if (groups[i].size() > 1 && compiler.compile(groups[i]))
      return;
    for (Launched *each : groups[i])
      outcomes[each - sources.data()] = compiler.compile({each});
  });
  result.images.resize(sources.size());
  onThreads(options.processes, sources.size(), [&](size_t i) {
    if (!outcomes[i])
      return;
    auto image =
        KernelImage::load(std::move(*sources[i].library), *sources[i].source, sources[i].kernels);
    if (image)
      result.images[i] = std::move(*image);
    else
      outcomes[i] = image.error();
  });

  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string &name = sources[i].source->name;
    if (!outcomes[i]) {
      Error error = outcomes[i].error();
      error.message += plan::modelLines(plan, name);
      return error;
    }
    const std::vector<size_t> &indices = bySource[name];
    for (size_t k = 0; k < indices.size(); ++k)
      result.byIndex[indices[k]] = &result.images[i]->kernels()[k];
  }
  result.compiled = compiler.compiled;
  result.cached = compiler.cached;
  return result;
}

} // namespace nano::emulator
