// Collectives by the copy engines of GPUs that reach each other's memory.
#pragma once

#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/PeerFlags.h"
#include "runtime/cuda/PeerSums.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nano::cuda {

/// Among ranks that are threads of one process and whose GPUs are linked by NVLink. Kernels of NCCL
/// hold multiprocessors for as long as the data is under way; a copy engine holds none, so that
/// what computes beside it goes on undisturbed but for the memory's share. A rank copies to the
/// others what they need:
///
///   all-gather       its part, to its place with every other member
///   reduce-scatter   of its data every other member's part, to memory that is for this; a kernel
///                    adds up what has come with what is there
///   all-reduce       as a reduce-scatter of slices; then the sum of its slice, to all others
///
/// and tells by PeerFlags when others may copy to it and when what it copies is there. It never
/// copies from them: recorded copies out of another GPU's memory hang where GPUs wait for each
/// other (seen with driver 580.159). Sums are those of a Communicator: in the order of the members'
/// places, bf16 in f32 and rounded once, so that they have the same bits on any machine.
/// Collectives of little data and maxima are NCCL's: `rest`.
class PeerCollectives : public Collectives {
public:
  /// Bytes of the whole of a collective's data from which on it is copied.
  static constexpr uint64_t leastBytes = 1 << 16;
  /// Whether the collective goes by copies; the same on all its ranks.
  static bool takes(const PreparedCollective &collective, int members);
  /// Bytes that others copy to a rank to be added up.
  static uint64_t bytesBeside(const PreparedCollective &collective, int members);

  /// What this rank brings.
  struct Site {
    int group = 1;                   ///< ranks in one
    CUdeviceptr arena = 0;           ///< every operand is at the same place in each rank's
    uint64_t besideBytes = 0;        ///< the most of any collective
    CUstream stream = nullptr;       ///< that all work ends on
    const NvrtcApi *nvrtc = nullptr; ///< null: the machine's
    BuildCache *cache = nullptr;
  };
  /// Joins the ranks; every one calls it. Null where some cannot take part, and `whyNot` says why,
  /// alike on all ranks. Throws Failure. What it makes lives longer than `gpu`, which closes it
  /// when it goes, and shorter than `rest`.
  static std::unique_ptr<PeerCollectives> join(Gpu &gpu, Communicator &communicator,
                                               const Site &site, Collectives &rest,
                                               std::string &whyNot);

  void enqueue(const PreparedCollective &collective, CUstream stream) override;
  bool isRecordable() const override { return true; }
  void haveRecorded() override;
  void check() override;
  std::optional<std::string> whyVoid() const override { return flags->failure(); }
  void abort(const std::string &why) override;

private:
  PeerCollectives(Gpu &gpu, Communicator &communicator, const Site &site, Collectives &rest);
  class Circle;
  /// Reaches for the memory of ranks that have told where it is; why not, where that cannot be.
  std::string reach(const std::vector<std::string> &told);
  std::string reachGpu(int other, int ordinal);
  std::string prepareSums();
  void copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes, CUstream stream) const;
  void gather(const PreparedCollective &collective, Circle &circle) const;
  void scatter(const PreparedCollective &collective, Circle &circle) const;
  void spread(const PreparedCollective &collective, Circle &circle) const;
  /// The same place in that rank's arena.
  CUdeviceptr inArenaOf(int other, CUdeviceptr address) const {
    return arenas[size_t(other)] + (address - site.arena);
  }
  void close();

  Gpu &gpu;
  Communicator &communicator;
  const int rank, world;
  const Site site;
  Collectives &rest;
  /// By rank: the arena, and where what is to be added up is copied to.
  std::vector<CUdeviceptr> arenas, besides;
  std::shared_ptr<PeerFlags> flags;
  std::optional<PeerSums> sums;
};

} // namespace nano::cuda
