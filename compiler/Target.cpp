// The table of targets.
#include "compiler/Target.h"

#include "codegen/cuda/CudaEmitter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace nano {

static constexpr Target table[] = {
    {.name = "cpu", .checkDevice = "cpu", .secondDevice = "", .hasNativeCode = true},
    {.name = "cuda",
     .checkDevice = "emulator",
     .secondDevice = "cuda",
     .alignsProducts = true,
     .fusesProducts = true,
     .sumsBothWays = true,
     .mergesProducts = true,
     .batchesCopies = true,
     .isKMajor = true,
     .maxParameterBytes = codegen::maxParameterBytes},
};

ArrayRef<Target> targets() { return table; }

const Target *findTarget(StringRef name) {
  const auto *found = find_if(table, [&](const Target &target) { return target.name == name; });
  return found == std::end(table) ? nullptr : found;
}

const Target &targetOf(StringRef name) {
  static constexpr Target none = {.name = "", .checkDevice = "", .secondDevice = ""};
  const Target *target = findTarget(name);
  return target ? *target : none;
}

std::string targetNames() {
  return join(map_range(table, [](const Target &target) { return target.name.str(); }), " and ");
}

} // namespace nano
