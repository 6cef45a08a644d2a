// The collectives of a plan, among GPUs or through the host.
#pragma once

#include "base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/Nccl.h"
#include "runtime/cuda/Staging.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nano::cuda {

/// One buffer of a collective: `to` is `from` for an all-reduce; `count` elements as plan::Move
/// says.
struct CollectivePart {
  CUdeviceptr from = 0, to = 0;
  int64_t count = 0;
  uint32_t buffer = 0; ///< of the plan's, that of `from`
};

/// A collective or a Shard with the addresses of its parts.
struct PreparedCollective {
  const plan::Command *command = nullptr;
  plan::Ranks ranks = plan::Ranks::All;
  plan::DType type = plan::DType::F32;
  std::vector<CollectivePart> parts;
};

/// How one rank takes part in collectives among two or more. Functions throw Failure.
class Collectives {
public:
  virtual ~Collectives() = default;
  /// Does an AllReduce, ReduceScatter or AllGather, in the stream's order.
  virtual void enqueue(const PreparedCollective &collective, CUstream stream) = 0;
  /// Whether a collective can be recorded into a graph.
  virtual bool isRecordable() const = 0;
  /// A program has been recorded, on all ranks: before any of them launches it.
  virtual void haveRecorded() {}
  /// Throws when communication has failed.
  virtual void check() {}
  /// Why what has come from the other ranks does not count, where one of them has given up. Cheap.
  virtual std::optional<std::string> whyVoid() const { return std::nullopt; }
  /// Ends what is under way, here and on the GPU; nothing can be enqueued any more. `why`: for the
  /// other ranks.
  virtual void abort(const std::string & /*why*/) {}
};

/// Through NCCL: one communicator for each set of ranks that the plan uses. Sums are NCCL's: in the
/// order of its rings and trees, bf16 rounded at every step of them. That order follows from the
/// NCCL version, the machine's links and the sizes, so that a run repeated on the same machine
/// gives the same bits; another machine may give others.
class NcclCollectives : public Collectives {
public:
  /// `group`: ranks in a group. It lives longer than `gpu`, which closes it when it goes.
  NcclCollectives(Gpu &gpu, const NcclApi &api, Communicator &communicator, int group);

  /// Joins the ranks of each of `sets`, of which this rank's have two members or more. Every rank
  /// calls it once, with the same sets. BadInput when NCCL is too old or not of one version
  /// everywhere.
  void join(const std::vector<plan::Ranks> &sets);

  void enqueue(const PreparedCollective &collective, CUstream stream) override;
  bool isRecordable() const override { return true; }
  void check() override;
  void abort(const std::string &why) override;
  /// "2.28.9".
  std::string version() const;

private:
  /// Waits until NCCL has done what `outcome` came from.
  void settle(nccl::Outcome outcome, nccl::Comm comm, const char *what);
  void expect(nccl::Outcome outcome, nccl::Comm comm, const char *what) const;
  void close();
  /// A set with all ranks is the same as All.
  plan::Ranks nameOf(plan::Ranks set) const;

  Gpu &gpu;
  const NcclApi &api;
  Communicator &communicator;
  const int rank, world, group;
  std::map<plan::Ranks, nccl::Comm> comms;
};

/// Through the host's memory and the Communicator, for ranks that share a GPU.
class HostCollectives : public Collectives {
public:
  HostCollectives(Staging &staging, Communicator &communicator, const plan::Plan &plan);

  void enqueue(const PreparedCollective &collective, CUstream stream) override;
  bool isRecordable() const override { return false; }

private:
  Staging &staging;
  Communicator &communicator;
  const plan::Plan &plan;
  std::vector<std::byte> from, to; ///< what goes to the ranks and comes from them
};

} // namespace nano::cuda
