// The plan's kernels compiled by NVRTC, several at a time, or taken from the cache.
#pragma once

#include "base/Status.h"
#include "runtime/cuda/Api.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <string>
#include <vector>

namespace nano::cuda {

/// How a kernel's text becomes machine code.
struct CompileOptions {
  std::string architecture; ///< "sm_90a"
  int threads = 1;          ///< of the host, each of which compiles one kernel at a time
};

/// What `compileKernels` made.
struct KernelCode {
  std::map<std::string, std::string> cubins; ///< by the source's name
  int compiled = 0, cached = 0;              ///< sources
  double seconds = 0;
};

/// NVRTC's name for GPUs of compute capability major.minor, with the features that only they have.
std::string architectureOf(int major, int minor);

/// "13.0".
std::string nvrtcVersion(const NvrtcApi &nvrtc);

/// Whether a product and a sum may be rounded once, together.
enum class Fusing { On, Off };

/// One source's cubin. BadInput with the compiler's first error, which names file and line.
Result<std::string> compileSource(const NvrtcApi &nvrtc, const plan::Source &source,
                                  const std::vector<const plan::Source *> &headers,
                                  const std::string &architecture, Fusing fusing = Fusing::On);

/// What a cubin of compileSource is made by: compiler, options and architecture. A part of the key
/// of every cubin that is kept.
std::string compilerKey(const NvrtcApi &nvrtc, const std::string &architecture,
                        Fusing fusing = Fusing::On);

/// The source of every kernel that the plan's programs launch, compiled or from the cache.
/// BadInput: a source does not compile; the message names it and the model lines of its kernel.
Result<KernelCode> compileKernels(const plan::Plan &plan, const NvrtcApi &nvrtc, BuildCache &cache,
                                  const CompileOptions &options);

} // namespace nano::cuda
