// An NVIDIA GPU as a device: kernels compiled from the plan's sources by NVRTC, products by
// cuBLASLt, collectives by copy engines and NCCL, programs as CUDA graphs.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/Draws.h"
#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/KernelCode.h"
#include "runtime/cuda/Matmul.h"
#include "runtime/cuda/Placement.h"
#include "runtime/cuda/Staging.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/Work.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace nano::cuda {

class Held;

/// One rank on one GPU.
///
/// The first run of a program executes its commands one by one and waits for each, so that an error
/// names its command and every library is warm, and then records them as a CUDA graph, streams and
/// events of the plan and all, its collectives too; from then on a run launches the graph and
/// returns. Programs run one after the other.
///
/// Several ranks: each has a GPU of its own (see placeOnGpu), whether they are threads of a process
/// or processes. While the host waits for the GPU it looks whether the other ranks are still there;
/// when one is gone, or nothing ends within DeviceOptions::rankTimeout, what waits on the GPU is
/// ended and the call, and every later one, fails with the collective that was under way. Ranks
/// that share a GPU exchange data through the host, and their programs run command after command
/// without a graph.
class CudaDevice : public Device {
public:
  /// BadInput when the plan is for another target, when there is no GPU or too few, when a kernel
  /// does not compile or does not fit the GPU, when cuBLASLt lacks a product, or when the plan does
  /// not fit into the GPU's memory. Failed on errors of CUDA and when another rank fails.
  /// `startTimes`: of what the caller has done for the device; the device goes on with it.
  static Result<std::unique_ptr<CudaDevice>>
  create(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
         const Apis &apis, const std::string &cacheFolder, const Phases &startTimes = Phases());
  ~CudaDevice() override;

  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override;
  Status clear(uint32_t buffer) override;
  Result<bool> fill(const plan::State &state, uint64_t seed, uint64_t first,
                    uint64_t count) override;
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override;
  Status readLater(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override;
  Status run(const std::string &program) override;
  Status prepareAhead(const std::vector<std::string> &programs) override;
  Status runCommand(const std::string &program, size_t command) override;
  Status wait() override;
  std::string describe() const override;
  std::vector<CommandTime> times() const override;
  std::vector<CommandSpan> takeSpans() override { return std::exchange(spans, {}); }
  std::optional<DeviceRates> rates() const override { return measuredRates; }
  std::string whyNoCosts() const override;
  Result<std::vector<CommandCost>> costs(const std::vector<std::string> &programs) override;
  std::vector<std::pair<std::string, std::string>> facts() const override;
  EnergyCounter energy() const override;
  Phases::Times startTimes() const override { return phases.milliseconds(); }

private:
  /// A kernel of the plan with its grid and its parameters.
  struct KernelLaunch {
    CUfunction function = nullptr;
    uint32_t blocks = 0, threads = 0, sharedBytes = 0;
    std::vector<uint64_t> parameters; ///< nano::Launch, see codegen/device/nano_kernels.h
    std::vector<CUtensorMap> maps;    ///< nano::TensorMaps, a second parameter; or none
  };
  /// A command that can be put on a stream.
  struct Prepared {
    const plan::Command *command = nullptr;
    std::string range; ///< for NVTX: label and model line
    KernelLaunch launch;
    std::unique_ptr<Product> product;
    std::vector<KernelLaunch> candidates;
    std::vector<std::string> ways; ///< names of what it does itself and of its candidates, if any
    size_t way = 0;                ///< that it goes
    bool isOpen = false;           ///< the ways are to be measured
    PreparedCollective collective; ///< collectives and Shard
    bool isExchange = false;       ///< a collective among several ranks
    uint32_t number = 0;           ///< of the plan's commands, from 1 on
    uint64_t runs = 0;
    double seconds = 0;
    /// With DeviceOptions::trace, of attention: the program's key ranges that its segments' queries
    /// have, by segment.
    std::vector<size_t> keyRanges;
  };
  /// The keys that queries see, brought to the host when the first command that reads them begins.
  struct KeptRanges {
    plan::KeyRanges source;
    size_t command = 0;        ///< the first that reads them
    std::byte *copy = nullptr; ///< pinned: the first key of each query, then the last
    double mean() const;
  };
  struct PreparedProgram {
    const plan::Program *program = nullptr;
    std::vector<Prepared> commands;
    bool hasRun = false;
    bool hasExchange = false; ///< some command is a collective among several ranks
    bool hasHostCopy = false; ///< some command copies to the host's memory or from there
    CUgraphExec graph = nullptr;
    std::vector<KeptRanges> keyRanges; ///< by command
    /// Streams that a measured run uses: one, so that commands do not share the GPU; all of them
    /// where it exchanges data with ranks or the host, to see what that hides behind.
    uint32_t measuredStreams() const { return hasExchange || hasHostCopy ? program->streams : 1; }
    /// Whether some command's ways are to be measured.
    bool isOpen() const {
      return std::any_of(commands.begin(), commands.end(),
                         [](const Prepared &each) { return each.isOpen; });
    }
  };

  /// Marks behind the last command, between which nothing happens.
  static constexpr size_t spareMarks = 8;
  /// Threads that choose products and have the driver load their code. What cuBLASLt does once for
  /// products of one type the first of these waits for and the others with it: there are so many
  /// that those of other types begin meanwhile.
  static constexpr size_t productLoaders = 8;

  CudaDevice(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
             const Apis &apis, const Placement &placement, Phases startTimes);

  /// Cubins of the plan's kernels, and of those that fill states; empty where it has no such ones.
  struct Code {
    KernelCode kernels;
    std::string draws;
  };

  void prepare(const std::string &cacheFolder);
  Code compile(const std::string &cacheFolder);
  void allocate();
  void makeStreams();
  void joinRanks(const std::string &cacheFolder);
  void joinPeers(uint64_t besideBytes, const std::string &cacheFolder);
  /// Whether it measures products and ways before the first run, for all ranks.
  bool isTuner() const { return options.tune && communicator.rank() == 0; }
  void shareTuning();
  void loadKernels(const KernelCode &code);
  void prepareProgram(const plan::Program &program);
  KernelLaunch prepare(const plan::Launch &command) const;
  void prepareCandidates(const plan::Program &program, Prepared &prepared);
  MatmulOperands operandsOf(const plan::Matmul &matmul) const;
  void openProducts();
  void beginProducts();
  void makeProducts(const std::vector<CUstream> &aside);
  void takeProducts();
  void endProducts();
  void loadCode(const Product &product, CUstream stream) const;
  void prepare(const plan::Exchange &exchange, Prepared &prepared) const;
  struct OpenProduct;
  /// Measures algorithms of the products that have no choice yet, and takes the best.
  void tuneProducts();
  void chooseToHold(std::vector<OpenProduct> &open);
  void vary(OpenProduct &open);
  double warm(const std::vector<OpenProduct> &open, Held &held, const EnergyCounter &counter);
  void take(OpenProduct &open, Held *repeats);
  void fillWithNoise();
  Products::Measure measureBursts();
  double secondsOf(const Product &product);
  void enqueue(const Product &product);
  /// What an operand held before a command that updates it ran.
  struct Kept {
    CUdeviceptr at = 0, copy = 0; ///< where, and where a copy of it lies, if any
    std::vector<std::byte> bytes;
  };
  std::string keyOfCost(const Prepared &prepared) const;
  std::vector<Kept> keepUpdated(const plan::Command &command);
  CommandCost costOf(const Prepared &prepared, Held &held);
  std::vector<CommandCost> costsOf(const std::vector<std::string> &programs);
  void measureJoules(Held &held);
  /// Measures the ways of open commands, with what is in their operands, and takes the fastest from
  /// now on, on all ranks.
  void measureWays(const Prepared &prepared);
  double holdWays(std::vector<RunCost> &costs, const std::function<void(size_t way)> &go);
  void takeWays();
  void closeWays(PreparedProgram &prepared);

  void launch(const KernelLaunch &kernel, CUstream stream) const;
  void enqueue(const Prepared &prepared, CUstream stream, bool withEvents);
  void runFirst(PreparedProgram &prepared, bool onData);
  void runOneByOne(PreparedProgram &prepared, bool isFirst, bool measures = false);
  void runMeasured(PreparedProgram &prepared);
  void prepareKeyRanges(PreparedProgram &prepared);
  /// Operations that the data decide (`CommandSpan::flops`), with the keys that a query of each of
  /// the program's key ranges sees.
  double decidedFlops(const Prepared &prepared, const std::vector<double> &keys) const;
  void play(PreparedProgram &prepared, uint32_t streamCount, bool isMeasured);
  CUgraphExec record(PreparedProgram &prepared, bool isMeasured);
  bool isRecordable() const { return !collectives || collectives->isRecordable(); }
  /// Looks after the other ranks while the host waits; throws when the wait is to end.
  void watch(std::chrono::nanoseconds waited);
  /// Ends what this rank does with others.
  [[noreturn]] void part(const std::string &why);
  /// Gives up what this rank does with others. NCCL's abort waits until the graphs that hold its
  /// kernels are destroyed, and these until the kernels end, which the abort brings about: both go
  /// on at once.
  void leave();
  /// The command that the GPU began last among those that exchange data, as messages name it; empty
  /// when it does not tell.
  std::string lastExchange();
  /// Calls `work`; a Failure becomes a Status.
  template <typename Work> Status guarded(Work work);
  [[noreturn]] void failIn(const PreparedProgram &prepared, size_t command, const Failure &failure);

  /// Where a buffer begins: in the arena, or in pinned memory.
  CUdeviceptr startOf(uint32_t buffer) const {
    const plan::Buffer &planned = plan.buffers[buffer];
    return plan::isInHost(plan, planned) ? CUdeviceptr(reinterpret_cast<uintptr_t>(hostMemory)) +
                                               planned.offset - plan::hostBegin(plan)
                                         : arena + planned.offset;
  }
  CUdeviceptr address(const plan::Ref &ref) const { return startOf(ref.buffer) + ref.offset; }
  CUdeviceptr rangeOf(uint32_t buffer, uint64_t offset, uint64_t bytes) const;
  /// Of a place in a buffer of the host's memory its address, when what was started has ended; null
  /// in the arena.
  std::byte *finishedOnHost(uint32_t buffer, CUdeviceptr start);
  CUdeviceptr workspaceOf(uint32_t stream) const {
    return workspace + stream * (products ? products->workspaceBytes() : 0);
  }
  PreparedProgram &find(const std::string &program);
  void report(const std::string &line) const {
    if (options.report)
      options.report(line);
  }

  const plan::Plan &plan;
  Communicator &communicator;
  DeviceOptions options;
  Apis apis;
  Placement placement;
  std::unique_ptr<Collectives> nccl;        ///< beside `collectives` that need it
  std::unique_ptr<Collectives> collectives; ///< null: this rank exchanges data with nobody
  std::string ncclVersion;
  Gpu gpu;
  Phases phases;
  std::unique_ptr<Products> products;
  std::optional<Draws> draws; ///< where the plan has states that it fills
  std::optional<Tuning> tuning;
  KernelCode code;                   ///< after loading, the counts only
  std::vector<CUfunction> functions; ///< by kernel
  std::string resources;             ///< of kernels, for the log: "NAME REGISTERS LOCAL SHARED; …"
  CUdeviceptr arena = 0, workspace = 0;
  std::byte *hostMemory = nullptr; ///< pinned, of Plan::hostBytes
  std::vector<CUstream> streams;   ///< the first is the one that everything starts and ends on
  std::vector<CUevent> events;     ///< the plan's
  std::vector<CUevent> joins;      ///< by stream; the first: where the others start
  /// With timing: before every command; behind the last of every stream; spare ones; the start;
  /// before each of the program's key ranges is copied.
  std::vector<CUevent> marks;
  CUevent epoch = nullptr; ///< when the device was made
  double epochSeconds = 0; ///< the same by the steady clock
  std::unique_ptr<Staging> staging;
  std::unordered_map<std::string, PreparedProgram> programs;
  std::string started; ///< the program that was started last and not waited for
  // Several ranks.
  CUdeviceptr progress = 0;          ///< u32: the Prepared::number of the last exchange begun
  std::byte *progressCopy = nullptr; ///< pinned
  CUstream probes = nullptr;         ///< brings `progress` to the host while others are stuck
  bool isInCommand = false;          ///< errors get their command from `failIn`
  bool hasFailed = false;            ///< some call did
  std::optional<Error> parted;       ///< why the ranks cannot go on
  std::vector<CommandSpan> spans;
  std::optional<DeviceRates> measuredRates;
  std::vector<CUdeviceptr> spare; ///< memory for copies
  double powerLimit = 0;          ///< watts, where choices were measured with the board at it
  double heldSeconds = 0;         ///< spent on counting joules of candidates
  std::vector<std::unique_ptr<Product>> madeProducts; ///< of Matmul commands, program after program
  Phases::Clock::duration productTime = {};           ///< of making them
  /// While products are made, nobody else touches them, nor `products`. The first member to go,
  /// which waits for the end.
  std::shared_future<void> makingProducts;
};

} // namespace nano::cuda
