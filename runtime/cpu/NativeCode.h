// The plan's native code, loaded into the process from memory.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace nano::cpu {

/// A kernel's entry point; see plan::Kernel for its contract.
using KernelFn = void (*)(void *const *args, void *scratch, int64_t begin, int64_t end);

/// A shared object that is loaded as long as this object lives.
class NativeCode {
public:
  /// Loads the ELF shared object in `code`. BadInput with the loader's reason when it does not
  /// load.
  static Result<std::unique_ptr<NativeCode>> load(const std::string &code);
  ~NativeCode();
  NativeCode(const NativeCode &) = delete;
  NativeCode &operator=(const NativeCode &) = delete;

  /// The function of that name, null when there is none.
  KernelFn find(const std::string &symbol) const;
  /// The address of a symbol of any kind, null when there is none.
  void *address(const std::string &symbol) const;

private:
  NativeCode(int file, void *handle) : file(file), handle(handle) {}

  int file; ///< open as long as the code is loaded: the loader takes two objects of one path for
            ///< one
  void *handle;
};

} // namespace nano::cpu
