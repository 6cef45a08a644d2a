// NVRTC behind the plan's sources.
#include "runtime/cuda/KernelCode.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace nano::cuda {
namespace {

/// What every kernel is compiled with, beside the architecture.
constexpr const char *commonOptions[] = {"--std=c++20", "--device-as-default-execution-space",
                                         "--generate-line-info"};

/// Leaves out what every text begins with otherwise and no kernel uses: textures, and the runtime's
/// functions for kernels. They are a fifth of what is parsed of a small kernel, and NVRTC parses
/// one text at a time, whatever threads ask. Since NVRTC 13.
constexpr const char *withoutRuntime = "--minimal";

std::vector<const char *> optionsOf(const NvrtcApi &nvrtc, Fusing fusing) {
  std::vector<const char *> options(std::begin(commonOptions), std::end(commonOptions));
  int major = 0, minor = 0;
  nvrtc.nvrtcVersion(&major, &minor);
  if (major >= 13)
    options.push_back(withoutRuntime);
  if (fusing == Fusing::Off)
    options.push_back("--fmad=false");
  return options;
}

class NvrtcProgram {
public:
  explicit NvrtcProgram(const NvrtcApi &api) : api(api) {}
  ~NvrtcProgram() {
    if (program)
      api.nvrtcDestroyProgram(&program);
  }
  NvrtcProgram(const NvrtcProgram &) = delete;
  NvrtcProgram &operator=(const NvrtcProgram &) = delete;

  std::string log() const {
    size_t bytes = 0;
    if (api.nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes == 0)
      return "";
    std::string text(bytes, '\0');
    api.nvrtcGetProgramLog(program, text.data());
    text.resize(text.find('\0') == std::string::npos ? bytes : text.find('\0'));
    return text;
  }

  const NvrtcApi &api;
  nvrtcProgram program = nullptr;
};

} // namespace

std::string architectureOf(int major, int minor) {
  return "sm_" + std::to_string(major * 10 + minor) + (major >= 9 ? "a" : "");
}

std::string nvrtcVersion(const NvrtcApi &nvrtc) {
  int major = 0, minor = 0;
  nvrtc.nvrtcVersion(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

Result<std::string> compileSource(const NvrtcApi &nvrtc, const plan::Source &source,
                                  const std::vector<const plan::Source *> &headers,
                                  const std::string &architecture, Fusing fusing) {
  std::vector<const char *> texts, names, options = optionsOf(nvrtc, fusing);
  for (const plan::Source *header : headers) {
    texts.push_back(header->text.c_str());
    names.push_back(header->name.c_str());
  }
  std::string target = "--gpu-architecture=" + architecture;
  options.push_back(target.c_str());

  NvrtcProgram made(nvrtc);
  nvrtcResult result =
      nvrtc.nvrtcCreateProgram(&made.program, source.text.c_str(), source.name.c_str(),
                               int(headers.size()), texts.data(), names.data());
  if (result == NVRTC_SUCCESS)
    result = nvrtc.nvrtcCompileProgram(made.program, int(options.size()), options.data());
  if (result == NVRTC_ERROR_INVALID_OPTION)
    return badInput("NVRTC " + nvrtcVersion(nvrtc) + " does not know " + architecture + ": " +
                    plan::firstError(made.log()) + "; use a CUDA toolkit as new as the GPU");
  if (result == NVRTC_ERROR_COMPILATION)
    return badInput(plan::firstError(made.log()));
  size_t bytes = 0;
  std::string cubin;
  if (result == NVRTC_SUCCESS)
    result = nvrtc.nvrtcGetCUBINSize(made.program, &bytes);
  if (result == NVRTC_SUCCESS) {
    cubin.resize(bytes);
    result = nvrtc.nvrtcGetCUBIN(made.program, cubin.data());
  }
  if (result != NVRTC_SUCCESS)
    return failed(std::string("NVRTC: ") + nvrtc.nvrtcGetErrorString(result));
  return cubin;
}

std::string compilerKey(const NvrtcApi &nvrtc, const std::string &architecture, Fusing fusing) {
  const std::string version = nvrtcVersion(nvrtc);
  std::vector<std::string_view> parts = {"nano kernel 1", version, architecture};
  for (const char *option : optionsOf(nvrtc, fusing))
    parts.emplace_back(option);
  return BuildCache::keyOf(parts);
}

/// Bytes of a source and of the headers that it includes, each once.
static size_t sizeWithHeaders(const plan::Source &source,
                              const std::vector<const plan::Source *> &headers) {
  std::set<const plan::Source *> included = {&source};
  std::vector<const plan::Source *> open = {&source};
  size_t size = 0;
  while (!open.empty()) {
    const plan::Source *text = open.back();
    open.pop_back();
    size += text->text.size();
    for (const plan::Source *header : headers)
      if (text->text.find("#include \"" + header->name + "\"") != std::string::npos &&
          included.insert(header).second)
        open.push_back(header);
  }
  return size;
}

Result<KernelCode> compileKernels(const plan::Plan &plan, const NvrtcApi &nvrtc, BuildCache &cache,
                                  const CompileOptions &options) {
  auto start = std::chrono::steady_clock::now();
  const std::vector<bool> isLaunched = plan::launchedKernels(plan);
  std::map<std::string, bool> named; // and whether any of a source's kernels is launched
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    named[plan.kernels[i].source] |= isLaunched[i];
  std::vector<const plan::Source *> sources, headers;
  for (const plan::Source &source : plan.sources)
    if (auto kernels = named.find(source.name); kernels == named.end())
      headers.push_back(&source);
    else if (kernels->second)
      sources.push_back(&source);
  // The longest texts first, with the headers in them: the last ones to be compiled are then short.
  std::map<const plan::Source *, size_t> sizes;
  for (const plan::Source *source : sources)
    sizes[source] = sizeWithHeaders(*source, headers);
  std::stable_sort(sources.begin(), sources.end(),
                   [&](const auto *a, const auto *b) { return sizes[a] > sizes[b]; });

  const std::string compiler = compilerKey(nvrtc, options.architecture);
  std::vector<std::string_view> common = {compiler};
  for (const plan::Source *header : headers) {
    common.emplace_back(header->name);
    common.emplace_back(header->text);
  }
  std::string commonKey = BuildCache::keyOf(common);

  KernelCode code;
  std::mutex mutex;
  std::optional<Error> failure;
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < sources.size();) {
      const plan::Source &source = *sources[i];
      std::string key = BuildCache::keyOf({commonKey, source.name, source.text});
      std::optional<std::string> cubin = cache.find(key);
      bool isCached = cubin.has_value();
      if (!isCached) {
        Result<std::string> made = compileSource(nvrtc, source, headers, options.architecture);
        std::lock_guard guard(mutex);
        if (!made) {
          Error error = made.error();
          error.message = "kernel source " + source.name + plan::modelLines(plan, source.name) +
                          " does not compile: " + error.message;
          if (!failure)
            failure = error;
          return;
        }
        cubin = std::move(*made);
      }
      if (!isCached)
        cache.store(key, *cubin);
      std::lock_guard guard(mutex);
      if (failure)
        return;
      (isCached ? code.cached : code.compiled) += 1;
      code.cubins[source.name] = std::move(*cubin);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(sources.size(), size_t(std::max(1, options.threads))); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (failure)
    return *failure;
  code.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return code;
}

} // namespace nano::cuda
