// Native code, made in a process of its own.
#include "compiler/bisect/KernelCode.h"

#include "codegen/cpu/NativeCode.h"
#include "compiler/bisect/Child.h"
#include "compiler/bisect/Evaluate.h"

#include "llvm/Support/raw_ostream.h"

namespace nano::bisect {

static Result<std::string> compile(mlir::ModuleOp kernels) {
  const std::optional<codegen::CpuTarget> target = codegen::CpuTarget::host();
  if (!target)
    return failed("this machine's processor lacks AVX2 or FMA, which kernels for the CPU need");
  const FirstError errors(kernels.getContext());
  mlir::FailureOr<codegen::NativeCode> native =
      codegen::compileKernels(kernels, *target, {.threads = 1});
  if (mlir::failed(native))
    return errors.error();
  return std::move(native->code);
}

Result<const std::string *> KernelCode::of(mlir::ModuleOp kernels) {
  std::string now;
  llvm::raw_string_ostream stream(now);
  kernels.print(stream, mlir::OpPrintingFlags().assumeVerified());
  if (now == text)
    return &code;
  constexpr unsigned seconds = 50;
  Result<std::string> made = inChild([&] { return compile(kernels); }, seconds);
  if (!made)
    return made.error();
  text = std::move(now);
  code = std::move(*made);
  return &code;
}

} // namespace nano::bisect
