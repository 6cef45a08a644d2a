// The frame around a model's C++, and the host compiler's run on it.
#include "codegen/cpu/CustomCode.h"

#include "base/CompilerCommand.h"
#include "codegen/CustomKernels.h"
#include "codegen/DeviceLibrary.h"
#include "codegen/cuda/CudaNames.h"
#include "ir/graph/ModelError.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <vector>

using namespace mlir;

namespace nano::codegen {

/// What the device library's headers take from primitives, for the host; the names of functions of
/// numbers are those that the GPU has. A block is one thread, so that one text can be for both.
static constexpr const char *prelude = R"(#define __device__
#define __forceinline__ inline
#include "nano_array.h"
static constexpr struct { unsigned x, y, z; } threadIdx = {0, 0, 0}, blockDim = {1, 1, 1};
namespace nano {
inline uint16_t encodeBf16(float value) { return software::encodeBf16(value); }
inline uint8_t encodeE4m3(float value) { return software::encodeE4m3(value); }
inline uint8_t encodeE5m2(float value) { return software::encodeE5m2(value); }
inline float decodeBf16(uint16_t bits) { return software::decodeBf16(bits); }
inline float decodeE4m3(uint8_t bits) { return software::decodeE4m3(bits); }
inline float decodeE5m2(uint8_t bits) { return software::decodeE5m2(bits); }
inline float exp(float x) { return __builtin_expf(x); }
inline float log(float x) { return __builtin_logf(x); }
inline float pow(float x, float y) { return __builtin_powf(x, y); }
inline float sin(float x) { return __builtin_sinf(x); }
inline float cos(float x) { return __builtin_cosf(x); }
inline float tanh(float x) { return __builtin_tanhf(x); }
inline float erf(float x) { return __builtin_erff(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline float min(float x, float y) { return __builtin_fminf(x, y); }
} // namespace nano
)";

FailureOr<std::string> customCpuText(kernel::FuncOp kernel) {
  const std::string name = kernel.getSymName().str();
  FailureOr<std::string> definitions =
      customText(kernel, cast<kernel::CustomAttr>(*kernel.getInstantiates()).getCpu(), "the CPU",
                 name + ".cpp", prelude);
  FailureOr<std::string> call = customCall(kernel, "begin", "end", [](BlockArgument argument) {
    const std::string type = cudaType(cast<MemRefType>(argument.getType()).getElementType());
    return fmt::format("static_cast<{} *>(operands[{}])", type, argument.getArgNumber());
  });
  if (failed(definitions) || failed(call))
    return failure();
  return prelude + *definitions +
         fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) void {}(void *const "
                     "*operands, void *, int64_t begin, int64_t end) {{\n  {};\n}}\n",
                     name, *call);
}

static bool writeFile(const std::string &path, StringRef text) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (error)
    return false;
  file << text;
  file.close();
  const bool isWritten = !file.has_error();
  file.clear_error();
  return isWritten;
}

/// The line of a compiler's log that says what is wrong.
static StringRef firstError(StringRef log) {
  const size_t at = log.find("error");
  if (at == StringRef::npos)
    return log.split('\n').first;
  const size_t begin = log.rfind('\n', at);
  return log.substr(begin == StringRef::npos ? 0 : begin + 1).split('\n').first;
}

FailureOr<std::string> compileCustomKernel(kernel::FuncOp kernel, const CpuTarget &target,
                                           const std::string &folder) {
  FailureOr<std::string> text = customCpuText(kernel);
  if (failed(text))
    return failure();
  std::vector<std::string> command = compilerCommand();
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(command[0]);
  if (!program)
    return kernel.emitError("the host compiler '")
           << command[0] << "' is not on this machine: install one or set CXX";
  const std::string base = folder + "/" + kernel.getSymName().str(), log = base + ".log";
  bool isWritten = writeFile(base + ".cpp", *text);
  for (const plan::Source &header : deviceLibrary())
    if (header.name == "nano_array.h" || header.name == "nano_types.h")
      isWritten &= writeFile(folder + "/" + header.name, header.text);
  if (!isWritten)
    return kernel.emitError("cannot write to ") << folder << ": free some space there";
  for (const std::string &word :
       {std::string("-std=c++20"), std::string("-O3"), std::string("-fPIC"),
        std::string("-ffp-contract=off"), std::string("-fno-math-errno"),
        std::string("-fno-exceptions"), std::string("-fno-rtti"),
        std::string("-fno-asynchronous-unwind-tables"), std::string("-fno-stack-protector"),
        std::string("-fvisibility=hidden"), std::string("-w"),
        std::string(target.avx512 ? "-march=x86-64-v4" : "-march=x86-64-v3"), "-I" + folder,
        std::string("-c"), base + ".cpp", std::string("-o"), base + ".o"})
    command.push_back(word);
  command[0] = *program;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  const SmallVector<StringRef> words(command.begin(), command.end());
  if (llvm::sys::ExecuteAndWait(*program, words, std::nullopt, redirects) == 0)
    return base + ".o";
  std::string message = "no message";
  if (auto found = llvm::MemoryBuffer::getFile(log))
    message = firstError((*found)->getBuffer()).str();
  return graph::emitModelError(kernel)
         << "kernel '" << customFunction(kernel) << "': its C++ does not compile: " << message;
}

} // namespace nano::codegen
