// A kernel's text, compiled for the emulator and loaded into the process.
#pragma once

#include "base/Status.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/LoadedCode.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nano::emulator {

/// Bytes of the running thread of the operating system that hold a block's static shared memory.
struct StaticShared {
  std::byte *begin = nullptr;
  size_t bytes = 0;
};

/// One kernel.
struct Kernel {
  std::string name;
  std::string source; ///< file name
  /// Runs one thread of it; `maps`: `tensorMaps` of them.
  void (*enter)(const void *parameters, const void *maps) = nullptr;
  uint64_t parameterBytes = 0; ///< of its `Launch`
  uint32_t tensorMaps = 0;     ///< that it takes
  int clusterBlocks = 1;       ///< as __cluster_dims__ says
  const class KernelImage *image = nullptr;
};

/// The kernels of one source. A loaded library; void when this object goes.
class KernelImage {
public:
  /// Loads the library that was compiled from a source. Failed when it does not load.
  static Result<std::unique_ptr<KernelImage>> load(std::string library, const plan::Source &source,
                                                   const std::vector<std::string> &kernels);

  const std::vector<Kernel> &kernels() const { return list; }
  const std::byte *begin() const { return first; }
  const std::byte *end() const { return last; }
  /// Memory of the calling thread of the operating system; stays where it is.
  StaticShared staticShared() const;
  /// Source line of the instruction before `offset` bytes from `begin`: "file.cu:3", or of a header
  /// with the kernel's line behind it: "nano_kernels.h:8, called at file.cu:3".
  std::string lineOf(uint64_t offset) const;

private:
  KernelImage() = default;

  std::string library; ///< the file's bytes, for lineOf
  std::string source;
  std::unique_ptr<plan::LoadedCode> code;
  std::vector<Kernel> list;
  const std::byte *first = nullptr, *last = nullptr;
  std::byte *(*touchShared)() = nullptr;
};

/// How kernel text is compiled.
struct CompileOptions {
  bool checked = true;     ///< with instrumentation of loads and stores
  int processes = 1;       ///< compilers that run at a time
  std::string cacheFolder; ///< empty: nothing is kept
  Report report;           ///< receives lines for the user about the cache; may be empty
};

/// What `compileKernels` made, by plan::Kernel's index.
struct Kernels {
  std::vector<std::unique_ptr<KernelImage>> images;
  std::vector<const Kernel *> byIndex; ///< null: no program launches one of its source
  int compiled = 0, cached = 0;        ///< sources
};

/// The kernels of all sources of which the programs of a CUDA plan launch one, compiled by $CXX or
/// c++ or taken from the cache. BadInput with the compiler's first error when a source does not
/// compile, or when there is no compiler.
Result<Kernels> compileKernels(const plan::Plan &plan, const CompileOptions &options);

} // namespace nano::emulator
