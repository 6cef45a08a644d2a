// Native code through an anonymous file and the dynamic loader.
#include "compiler/bisect/KernelImage.h"

#include "codegen/cpu/NativeCode.h"
#include "compiler/bisect/Child.h"
#include "compiler/bisect/Evaluate.h"

#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace nano::bisect {

static Result<std::string> compile(mlir::ModuleOp kernels) {
  const std::optional<codegen::CpuTarget> target = codegen::CpuTarget::host();
  if (!target)
    return failed("this machine's processor lacks AVX2 or FMA, which kernels for the CPU need");
  const FirstError errors(kernels.getContext());
  mlir::FailureOr<codegen::NativeCode> native =
      codegen::compileKernels(kernels, *target, /*threads=*/1);
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

Result<std::unique_ptr<KernelImage>> KernelImage::load(const std::string &code) {
  const int file = memfd_create("nano-bisect", MFD_CLOEXEC);
  if (file < 0)
    return failed(std::string("no memory file can be made: ") + strerror(errno));
  for (size_t done = 0; done < code.size();) {
    const ssize_t count = write(file, code.data() + done, code.size() - done);
    if (count < 0 && errno != EINTR) {
      const Error error = failed(std::string("native code cannot be copied: ") + strerror(errno));
      close(file);
      return error;
    }
    done += count > 0 ? size_t(count) : 0;
  }
  void *handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const Error error = failed(std::string("native code does not load: ") + dlerror());
    close(file);
    return error;
  }
  return std::unique_ptr<KernelImage>(new KernelImage(file, handle));
}

KernelImage::~KernelImage() {
  dlclose(handle);
  close(file);
}

KernelImage::Function KernelImage::find(const std::string &name) const {
  return reinterpret_cast<Function>(dlsym(handle, name.c_str()));
}

} // namespace nano::bisect
