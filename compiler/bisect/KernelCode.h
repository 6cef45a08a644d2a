// The kernels of a module as native code.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"

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

} // namespace nano::bisect
