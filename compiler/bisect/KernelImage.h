// The kernels of a module as native code in this process.
#pragma once

#include "runtime/plan/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <memory>
#include <string>

namespace nano::bisect {

/// Native code of the kernels of one program after the other, most of which have the same.
class KernelCode {
public:
  /// The bytes of a shared object of every kernel of `kernels`, for this machine, by the code
  /// generator in a process of its own. Valid until the next call. Failed: its error.
  Result<const std::string *> of(mlir::ModuleOp kernels);

private:
  std::string text, code; ///< of the kernels before
};

/// A shared object of kernels, loaded as long as this object lives.
class KernelImage {
public:
  /// A kernel's entry point; runtime/plan/Plan.h has its contract.
  using Function = void (*)(void *const *args, void *scratch, int64_t begin, int64_t end);

  /// Failed: `code` does not load.
  static Result<std::unique_ptr<KernelImage>> load(const std::string &code);
  ~KernelImage();
  KernelImage(const KernelImage &) = delete;
  KernelImage &operator=(const KernelImage &) = delete;

  /// Null when there is none of that name.
  Function find(const std::string &name) const;

private:
  KernelImage(int file, void *handle) : file(file), handle(handle) {}
  int file;
  void *handle;
};

} // namespace nano::bisect
