// An NVIDIA GPU as a device: kernels compiled from the plan's sources by NVRTC, products by
// cuBLASLt, programs as CUDA graphs.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/KernelCode.h"
#include "runtime/cuda/Matmul.h"
#include "runtime/cuda/Staging.h"
#include "runtime/cuda/Tuning.h"
#include "runtime/files/BuildCache.h"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace nano::cuda {

/// One rank on one GPU.
///
/// The first run of a program executes its commands one by one and waits for each, so that an error
/// names its command and every library is warm; the second records them as a CUDA graph, streams
/// and events of the plan and all; from then on a run launches the graph and returns. Programs run
/// one after the other.
class CudaDevice : public Device {
public:
  /// BadInput when the plan is for another target or for several ranks, when there is no GPU, when
  /// a kernel does not compile or does not fit the GPU, when cuBLASLt lacks a product, or when the
  /// plan does not fit into the GPU's memory. Failed on errors of CUDA.
  static Result<std::unique_ptr<CudaDevice>> create(const plan::Plan &plan,
                                                    Communicator &communicator,
                                                    const DeviceOptions &options, const Apis &apis,
                                                    const std::string &cacheFolder);

  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override;
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override;
  Status readLater(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override;
  Status run(const std::string &program) override;
  Status runCommand(const std::string &program, size_t command) override;
  Status wait() override;
  std::string describe() const override;
  std::vector<CommandTime> times() const override;
  std::vector<CommandSpan> takeSpans() override { return std::exchange(spans, {}); }
  std::optional<DeviceRates> rates() const override { return measuredRates; }
  std::vector<std::pair<std::string, std::string>> facts() const override;

private:
  /// A command that can be put on a stream.
  struct Prepared {
    const plan::Command *command = nullptr;
    std::string range; ///< for NVTX: label and model line
    CUfunction function = nullptr;
    uint32_t blocks = 0, threads = 0, sharedBytes = 0;
    std::vector<uint64_t> parameters; ///< nano::Launch, see codegen/cuda/device/nano_kernels.h
    std::unique_ptr<Product> product;
    uint64_t runs = 0;
    double seconds = 0;
  };
  struct PreparedProgram {
    const plan::Program *program = nullptr;
    std::vector<Prepared> commands;
    bool hasRun = false;
    CUgraphExec graph = nullptr;
  };

  /// Marks behind the last command, between which nothing happens.
  static constexpr size_t spareMarks = 8;

  CudaDevice(const plan::Plan &plan, const DeviceOptions &options, const Apis &apis);

  void prepare(const std::string &cacheFolder);
  void allocate();
  void loadKernels(const KernelCode &code);
  void prepareProgram(const plan::Program &program);
  void prepareLaunch(const plan::Command &command, Prepared &prepared) const;
  void prepareProduct(const plan::Command &command, Prepared &prepared);
  void tune(Product &product);
  void fillWithNoise();
  double secondsOf(const Product &product);

  void enqueue(const Prepared &prepared, CUstream stream, bool withEvents);
  void runOneByOne(PreparedProgram &prepared);
  void runMeasured(PreparedProgram &prepared);
  CUgraphExec record(PreparedProgram &prepared, bool isMeasured);
  /// Calls `work`; a Failure becomes a Status.
  template <typename Work> Status guarded(Work work);
  [[noreturn]] void failIn(const PreparedProgram &prepared, size_t command, const Failure &failure);

  CUdeviceptr address(const plan::Ref &ref) const {
    return arena + plan.buffers[ref.buffer].offset + ref.offset;
  }
  CUdeviceptr rangeOf(uint32_t buffer, uint64_t offset, uint64_t bytes) const;
  CUdeviceptr workspaceOf(uint32_t stream) const {
    return workspace + stream * (products ? products->workspaceBytes() : 0);
  }
  PreparedProgram &find(const std::string &program);
  void report(const std::string &line) const {
    if (options.report)
      options.report(line);
  }

  const plan::Plan &plan;
  DeviceOptions options;
  Apis apis;
  Gpu gpu;
  std::unique_ptr<Products> products;
  std::optional<Tuning> tuning;
  KernelCode code;                   ///< after loading, the counts only
  std::vector<CUfunction> functions; ///< by kernel
  CUdeviceptr arena = 0, workspace = 0;
  std::vector<CUstream> streams; ///< the first is the one that everything starts and ends on
  std::vector<CUevent> events;   ///< the plan's
  std::vector<CUevent> joins;    ///< by stream; the first: where the others start
  std::vector<CUevent> marks;    ///< with timing: before every command, and behind the last
  CUevent epoch = nullptr;       ///< when the device was made
  std::unique_ptr<Staging> staging;
  std::unordered_map<std::string, PreparedProgram> programs;
  std::string started; ///< the program that was started last and not waited for
  std::vector<CommandSpan> spans;
  std::optional<DeviceRates> measuredRates;
};

} // namespace nano::cuda
