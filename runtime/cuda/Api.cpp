// Finds and opens the CUDA libraries of the machine.
#include "runtime/cuda/Api.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <glob.h>
#include <sstream>
#include <utility>

namespace nano::cuda {
namespace {

namespace fs = std::filesystem;

const Library driverLibrary = {
    "the CUDA driver",
    {"libcuda.so.1"},
    "run on a machine with an NVIDIA GPU and its driver, or compile the model with --target cpu"};
const Library nvrtcLibrary = {
    "NVRTC, which compiles the plan's kernels",
    {"libnvrtc.so.13", "libnvrtc.so.12"},
    "install the CUDA toolkit or the Python wheel nvidia-cuda-nvrtc, or put its folder into "
    "LD_LIBRARY_PATH"};
const Library cublasLtLibrary = {
    "cuBLASLt, which computes matrix products",
    {"libcublasLt.so.13"},
    "install the CUDA toolkit 13 or the Python wheel nvidia-cublas, or put its folder into "
    "LD_LIBRARY_PATH"};
const Library ncclLibrary = {
    "NCCL, through which several GPUs exchange data",
    {"libnccl.so.2"},
    "install libnccl2 or the Python wheel nvidia-nccl-cu13, or put its folder into "
    "LD_LIBRARY_PATH; one GPU (--gpus 1) needs none"};

const Library nvmlLibrary = {"NVML, which counts what GPUs use",
                             {"libnvidia-ml.so.1"},
                             "it comes with the driver; put its folder into LD_LIBRARY_PATH"};

void addMatches(const std::string &pattern, std::vector<std::string> &folders) {
  glob_t matches = {};
  if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &matches) == 0)
    for (size_t i = matches.gl_pathc; i-- > 0;) // the newest version first
      folders.emplace_back(matches.gl_pathv[i]);
  globfree(&matches);
}

/// The folder that a program of PATH stands in, as PATH spells it.
std::vector<std::string> foldersOfProgram(const std::string &program) {
  std::vector<std::string> found;
  const char *path = std::getenv("PATH");
  std::istringstream list(path ? path : "");
  std::error_code error;
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty() && fs::exists(fs::path(folder) / program, error))
      found.push_back(folder);
  return found;
}

Result<void *> open(const Library &library) {
  std::string loaderError;
  for (const std::string &soname : library.sonames) {
    if (void *handle = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL))
      return handle;
    if (const char *reason = dlerror(); reason && loaderError.empty())
      loaderError = reason;
  }
  std::vector<std::string> folders = libraryFolders();
  std::error_code error;
  for (const std::string &soname : library.sonames)
    for (const std::string &folder : folders) {
      fs::path file = fs::path(folder) / soname;
      if (!fs::exists(file, error))
        continue;
      if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
        return handle;
      if (const char *reason = dlerror())
        loaderError = reason;
    }
  std::string searched;
  for (const std::string &folder : folders)
    searched += ", " + folder;
  return badInput(library.title + ": " + library.sonames.front() + " cannot be loaded (" +
                  loaderError + "; searched LD_LIBRARY_PATH, the loader's cache" + searched +
                  "); " + library.advice);
}

/// Fills in one function; `missing` gets its name when the library lacks it.
template <typename Function>
void resolve(void *handle, const char *name, Function &function, std::string &missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function && missing.empty())
    missing = name;
}

template <typename Api, typename Fill> Result<Api> read(const Library &library, Fill fill) {
  Result<void *> handle = open(library);
  if (!handle)
    return handle.error();
  Api api;
  std::string missing;
  fill(*handle, api, missing);
  if (!missing.empty())
    return badInput(library.title + ": that of this machine lacks " + missing +
                    ", it is older than this program needs; update it");
  return api;
}

/// The library stays loaded for the life of the process, and so does the table.
template <typename Api> Result<const Api *> keep(const Result<Api> &api) {
  if (!api)
    return api.error();
  return new Api(*api);
}

#define NANO_SPELLED(name) #name
#define NANO_SPELL(name) NANO_SPELLED(name)
#define NANO_RESOLVE(name) resolve(handle, NANO_SPELL(name), api.name, missing);

} // namespace

std::vector<std::string> libraryFolders() {
  std::vector<std::string> candidates;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = std::getenv(variable))
      for (const char *below : {"/lib64", "/lib"})
        candidates.push_back(std::string(home) + below);
  std::vector<std::string> prefixes;
  if (const char *environment = std::getenv("VIRTUAL_ENV"))
    prefixes.emplace_back(environment);
  for (const std::string &folder : foldersOfProgram("python3"))
    prefixes.push_back(fs::path(folder).parent_path().string());
  for (const std::string &prefix : prefixes)
    for (const char *packages : {"site-packages", "dist-packages"})
      addMatches(prefix + "/lib/python3*/" + packages + "/nvidia/*/lib", candidates);
  for (const char *pattern :
       {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/lib",
        "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu",
        "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
        "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
        "/usr/local/lib/python3*/site-packages/nvidia/*/lib"})
    addMatches(pattern, candidates);
  std::vector<std::string> folders;
  std::error_code error;
  for (const std::string &candidate : candidates)
    if (fs::is_directory(candidate, error) &&
        std::find(folders.begin(), folders.end(), candidate) == folders.end())
      folders.push_back(candidate);
  return folders;
}

Result<const DriverApi *> loadDriver() {
  static const Result<const DriverApi *> loaded =
      keep(read<DriverApi>(driverLibrary, [](void *handle, DriverApi &api, std::string &missing) {
        NANO_DRIVER_FUNCTIONS(NANO_RESOLVE)
        std::string absent;
        std::swap(missing, absent);
        NANO_NEWER_DRIVER_FUNCTIONS(NANO_RESOLVE)
        std::swap(missing, absent);
      }));
  return loaded;
}

Result<const NvrtcApi *> loadNvrtc() {
  static const Result<const NvrtcApi *> loaded =
      keep(read<NvrtcApi>(nvrtcLibrary, [](void *handle, NvrtcApi &api, std::string &missing) {
        NANO_NVRTC_FUNCTIONS(NANO_RESOLVE)
      }));
  return loaded;
}

Result<const CublasLtApi *> loadCublasLt() {
  static const Result<const CublasLtApi *> loaded = keep(
      read<CublasLtApi>(cublasLtLibrary, [](void *handle, CublasLtApi &api, std::string &missing) {
        NANO_CUBLASLT_FUNCTIONS(NANO_RESOLVE)
      }));
  return loaded;
}

Result<NcclApi> readNccl(const Library &library) {
  return read<NcclApi>(library, [](void *handle, NcclApi &api, std::string &missing) {
    NANO_NCCL_FUNCTIONS(NANO_RESOLVE)
  });
}

Result<const NcclApi *> loadNccl() {
  static const Result<const NcclApi *> loaded = keep(readNccl(ncclLibrary));
  return loaded;
}

Result<const NvmlApi *> loadNvml() {
  static const Result<const NvmlApi *> loaded =
      keep(read<NvmlApi>(nvmlLibrary, [](void *handle, NvmlApi &api, std::string &missing) {
        NANO_NVML_FUNCTIONS(NANO_RESOLVE)
      }));
  return loaded;
}

std::string cudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error driverError(const DriverApi &api, CUresult result, const std::string &what) {
  const char *name = nullptr, *text = nullptr;
  if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "unknown error";
  if (api.cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
    text = "error";
  return failed(std::string("CUDA: ") + text + " (" + name + ") in " + what);
}

Error cublasLtError(const CublasLtApi &api, cublasStatus_t status, const std::string &what) {
  const char *text = api.cublasLtGetStatusString(status);
  return failed(std::string("cuBLASLt: ") + (text ? text : "error") + " in " + what);
}

} // namespace nano::cuda
