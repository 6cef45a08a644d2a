// Native code, a plan's or what is to become one's, loaded into the process from memory.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace nano::plan {

/// A kernel's entry point; see Kernel for its contract.
using KernelFunction = void (*)(void *const *args, void *scratch, int64_t begin, int64_t end);

/// A shared object that is loaded as long as this object lives.
class LoadedCode {
public:
  /// Loads the ELF shared object in `code`. BadInput: it does not load, with the loader's reason;
  /// Failed: there is no memory.
  static Result<std::unique_ptr<LoadedCode>> load(const std::string &code);
  ~LoadedCode();
  LoadedCode(const LoadedCode &) = delete;
  LoadedCode &operator=(const LoadedCode &) = delete;

  /// The function of that name, null when there is none.
  KernelFunction find(const std::string &symbol) const;
  /// The address of a symbol of any kind, null when there is none.
  void *address(const std::string &symbol) const;

private:
  LoadedCode(int file, void *handle) : file(file), handle(handle) {}

  int file; ///< open as long as the code is loaded: the loader takes two objects of one path for
            ///< one
  void *handle;
};

} // namespace nano::plan
