// Loads an ELF image through an anonymous file, so that nothing is written to a disk.
#include "runtime/plan/LoadedCode.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace nano::plan {

Result<std::unique_ptr<LoadedCode>> LoadedCode::load(const std::string &code) {
  int file = memfd_create("nano-kernels", MFD_CLOEXEC);
  if (file < 0)
    return failed(std::string("cannot make room for native code: ") + strerror(errno));
  for (size_t done = 0; done < code.size();) {
    ssize_t count = write(file, code.data() + done, code.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0) {
      Error error = failed(std::string("cannot copy native code: ") + strerror(errno));
      close(file);
      return error;
    }
    done += size_t(count);
  }
  void *handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    Error error = badInput(std::string("native code does not load: ") + dlerror());
    close(file);
    return error;
  }
  return std::unique_ptr<LoadedCode>(new LoadedCode(file, handle));
}

LoadedCode::~LoadedCode() {
  dlclose(handle);
  close(file);
}

KernelFunction LoadedCode::find(const std::string &symbol) const {
  return reinterpret_cast<KernelFunction>(address(symbol));
}

void *LoadedCode::address(const std::string &symbol) const { return dlsym(handle, symbol.c_str()); }

} // namespace nano::plan
