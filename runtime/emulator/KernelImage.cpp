// Loads a compiled kernel, and finds source lines of its instructions.
#include "runtime/emulator/KernelImage.h"
#include "runtime/emulator/EmulatedThread.h"
#include "runtime/emulator/Process.h"
#include "runtime/plan/TensorMaps.h"

#include <charconv>
#include <cstdio>
#include <dlfcn.h>
#include <link.h>
#include <regex>

namespace nano::emulator {
namespace {

/// What dl_iterate_phdr says of the library that holds an address.
struct Module {
  const std::byte *inside = nullptr;
  const std::byte *begin = nullptr, *end = nullptr;
  StaticShared threadLocal;
};

int visit(dl_phdr_info *info, size_t, void *data) {
  auto &module = *static_cast<Module *>(data);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how the loader tells it
  auto *base = reinterpret_cast<const std::byte *>(info->dlpi_addr);
  const std::byte *begin = nullptr, *end = nullptr;
  StaticShared threadLocal;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    const std::byte *start = base + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      if (!begin || start < begin)
        begin = start;
      if (start + header.p_memsz > end)
        end = start + header.p_memsz;
    } else if (header.p_type == PT_TLS) {
      threadLocal = {static_cast<std::byte *>(info->dlpi_tls_data), header.p_memsz};
    }
  }
  if (module.inside < begin || module.inside >= end)
    return 0;
  module.begin = base;
  module.end = end;
  module.threadLocal = threadLocal;
  return 1;
}

Module moduleOf(const void *inside) {
  Module module;
  module.inside = static_cast<const std::byte *>(inside);
  dl_iterate_phdr(visit, &module);
  return module;
}

std::string fileName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

/// What stands between __global__ and the kernel's name where the text defines it; empty when that
/// is not to be seen, as in a macro.
std::string attributesOf(const std::string &text, const std::string &kernel) {
  for (size_t at = text.find(kernel); at != std::string::npos; at = text.find(kernel, at + 1)) {
    const size_t end = text.find_first_not_of(" \n", at + kernel.size());
    if (end == std::string::npos || text[end] != '(' || at == 0 ||
        std::string_view(" \n").find(text[at - 1]) == std::string_view::npos)
      continue;
    const size_t begin = text.rfind("__global__", at);
    if (begin == std::string::npos)
      continue;
    std::string between = text.substr(begin, at - begin);
    if (between.find_first_of(";{}") == std::string::npos)
      return between;
  }
  return "";
}

/// The number of blocks of a cluster, 0 when the kernel asks for a cluster in y or z.
int clusterBlocks(const std::string &attributes) {
  static const std::regex pattern(
      R"(__cluster_dims__\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*(?:,\s*(\d+)\s*)?)?\))");
  std::smatch match;
  if (!std::regex_search(attributes, match, pattern))
    return 1;
  for (int i : {2, 3})
    if (match[i].matched && match[i] != "1")
      return 0;
  int count = 0;
  std::string digits = match[1];
  std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return count;
}

} // namespace

Result<std::unique_ptr<KernelImage>> KernelImage::load(std::string library,
                                                       const plan::Source &source,
                                                       const std::vector<std::string> &kernels) {
  auto code = plan::LoadedCode::load(library);
  if (!code)
    return failed("the compiled kernels of " + source.name +
                  " do not load: " + code.error().message);
  std::unique_ptr<KernelImage> image(new KernelImage);
  image->code = std::move(*code);
  image->source = source.name;
  image->library = std::move(library);
  image->touchShared = reinterpret_cast<std::byte *(*)()>(image->code->address("nanoTouchShared"));
  if (void *take = image->code->address("nanoTakeHooks"))
    reinterpret_cast<void (*)(const Hooks *)>(take)(&hooks);
  for (const std::string &name : kernels) {
    Kernel kernel;
    kernel.name = name;
    kernel.source = source.name;
    kernel.enter =
        reinterpret_cast<decltype(kernel.enter)>(image->code->address("nanoEnter_" + name));
    auto *bytes = static_cast<const uint64_t *>(image->code->address("nanoParameterBytes_" + name));
    auto *mapBytes = static_cast<const uint64_t *>(image->code->address("nanoMapBytes_" + name));
    if (!kernel.enter || !bytes || !mapBytes || !image->touchShared)
      return failed("the compiled kernels of " + source.name + " lack kernel '" + name + "'");
    kernel.parameterBytes = *bytes;
    kernel.tensorMaps = uint32_t(*mapBytes / plan::encodedMapBytes);
    kernel.clusterBlocks = clusterBlocks(attributesOf(source.text, name));
    if (kernel.clusterBlocks < 1 || kernel.clusterBlocks > int(plan::mostClusterBlocks))
      return badInput(source.name + ": __cluster_dims__ must be (N, 1, 1) with N from 1 to " +
                      std::to_string(plan::mostClusterBlocks));
    kernel.image = image.get();
    image->list.push_back(kernel);
  }
  Module module = moduleOf(reinterpret_cast<const void *>(image->touchShared));
  image->first = module.begin;
  image->last = module.end;
  return image;
}

StaticShared KernelImage::staticShared() const {
  touchShared(); // this thread's copy exists from the first access on
  return moduleOf(reinterpret_cast<const void *>(touchShared)).threadLocal;
}

std::string KernelImage::lineOf(uint64_t offset) const {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(offset - 1));
  std::string unknown = source + " at " + address;
  TemporaryFolder folder;
  if (folder.path().empty() || !writeFile(folder.path() + "/library", library))
    return unknown;
  std::string output = folder.path() + "/lines";
  if (runProcess({"addr2line", "-i", "-e", folder.path() + "/library", address}, output) != 0)
    return unknown;
  // One line for each inlined function, the innermost first.
  std::string text = readFile(output), innermost, ofKernel;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = fileName(text.substr(at, end - at));
    line = line.substr(0, line.find(' ')); // "(discriminator 2)"
    if (innermost.empty())
      innermost = line;
    if (ofKernel.empty() && line.rfind(source + ":", 0) == 0)
      ofKernel = line;
    at = end + 1;
  }
  if (innermost.empty() || innermost[0] == '?')
    return unknown;
  return ofKernel.empty() || ofKernel == innermost ? innermost
                                                   : innermost + ", called at " + ofKernel;
}

} // namespace nano::emulator
