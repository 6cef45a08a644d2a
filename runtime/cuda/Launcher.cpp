// Ordinary launches, and those with the attribute of programmatic stream serialization.
#include "runtime/cuda/Launcher.h"

namespace nano::cuda {

bool Launcher::canLaunchEarly() const {
  constexpr int oldestDriver = 12030; // captures launches early as edges of graphs
  const DriverApi &api = gpu.api;
  return gpu.major >= 9 && gpu.driverVersion >= oldestDriver && api.cuLaunchKernelEx &&
         api.cuStreamGetCaptureInfo && api.cuGraphNodeGetType;
}

void Launcher::beginEarly() {
  isEarly = true;
  earlyCount = 0;
  endInKernels.clear();
}

/// Whether what the next node of the captured stream depends on is one kernel, which the stream's
/// last command has put there.
bool Launcher::followsKernel(CUstream stream) const {
  if (!endInKernels.count(stream))
    return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = nullptr;
  const CUgraphEdgeData *edges = nullptr;
  size_t count = 0;
  if (gpu.api.cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count) !=
      CUDA_SUCCESS)
    return false;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1 &&
         (!edges || edges[0].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) &&
         gpu.api.cuGraphNodeGetType(nodes[0], &type) == CUDA_SUCCESS &&
         type == CU_GRAPH_NODE_TYPE_KERNEL;
}

void Launcher::launch(const KernelLaunch &kernel, CUstream stream) {
  if (kernel.blocks == 0)
    return;
  void *parameters[] = {const_cast<uint64_t *>(kernel.parameters.data())};
  if (isEarly && followsKernel(stream)) {
    ++earlyCount;
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {};
    config.gridDimX = kernel.blocks;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = kernel.threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = kernel.sharedBytes;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    gpu.check(gpu.api.cuLaunchKernelEx(&config, kernel.function, parameters, nullptr),
              "cuLaunchKernelEx");
  } else {
    gpu.check(gpu.api.cuLaunchKernel(kernel.function, kernel.blocks, 1, 1, kernel.threads, 1, 1,
                                     kernel.sharedBytes, stream, parameters, nullptr),
              "cuLaunchKernel");
  }
  endInKernels.insert(stream);
}

} // namespace nano::cuda
