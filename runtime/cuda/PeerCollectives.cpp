// Collectives as copies between GPUs, ordered by flags that the GPUs themselves write and wait for.
#include "runtime/cuda/PeerCollectives.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

namespace nano::cuda {
namespace {

using plan::Command;

uint64_t bytesOf(const PreparedCollective &collective, int64_t count) {
  return uint64_t(count) * plan::sizeOf(collective.type);
}

/// Elements of a reduction's part.
struct Range {
  int64_t begin, count;
};

/// Those that the member at a place adds up.
Range rangeOf(const PreparedCollective &collective, const CollectivePart &part, int place,
              int members) {
  if (collective.command->is<plan::ReduceScatter>())
    return {place * part.count, part.count};
  constexpr int64_t together = 8; // so that ranges of any type begin at multiples of 16 bytes
  const int64_t each = (part.count + members * together - 1) / (members * together) * together;
  const int64_t begin = std::min(part.count, place * each);
  return {begin, std::min(each, part.count - begin)};
}

/// Between what comes of one member and of the next, so that all of it is as aligned as memory is.
uint64_t strideOf(const PreparedCollective &collective, const CollectivePart &part, int members) {
  return (bytesOf(collective, rangeOf(collective, part, 0, members).count) + 15) / 16 * 16;
}

/// Where the part of the member at `place` stands among those that come to the one at `with`.
uint64_t indexAmongOthers(int place, int with) { return uint64_t(place - (place > with)); }

std::string nameOfPair(int one, int other) {
  return std::to_string(one) + " and " + std::to_string(other);
}

} // namespace

bool PeerCollectives::takes(const PreparedCollective &collective, int members) {
  const Command &command = *collective.command;
  if (const auto *reduce = command.as<plan::AllReduce>(); reduce && reduce->maximum)
    return false;
  uint64_t bytes = 0;
  for (const CollectivePart &part : collective.parts)
    bytes += bytesOf(collective, part.count);
  return bytes * uint64_t(command.is<plan::AllReduce>() ? 1 : members) >= leastBytes;
}

uint64_t PeerCollectives::bytesBeside(const PreparedCollective &collective, int members) {
  uint64_t bytes = 0;
  if (!collective.command->is<plan::AllGather>())
    for (const CollectivePart &part : collective.parts)
      bytes += uint64_t(members - 1) * strideOf(collective, part, members);
  return bytes;
}

/// The members of a collective's set, and what they tell each other on a stream.
class PeerCollectives::Circle {
public:
  Circle(const PeerCollectives &owner, plan::Ranks ranks, CUstream stream)
      : owner(owner), members(membersOf(ranks, owner.rank, owner.world, owner.site.group)),
        stream(stream), place(placeOf(ranks, owner.rank, owner.world, owner.site.group).place) {
    // Each begins with another one, so that nobody is asked by all at once.
    for (int i = 1; i < size(); ++i)
      others.push_back((place + i) % size());
  }

  int size() const { return int(members.size()); }
  int rankAt(int other) const { return members[size_t(other)]; }

  /// Tells the others, and waits until all of them have told. What is told comes behind all that
  /// the stream has done, in whatever memory.
  void meet(PeerFlags::Kind kind) const {
    std::vector<CUstreamBatchMemOpParams> told, heard, forgotten;
    for (int other : others) {
      const CUdeviceptr flag = owner.flags->at(owner.rank, rankAt(other), kind);
      told.push_back(write(owner.flags->at(rankAt(other), owner.rank, kind), 1));
      heard.push_back(waitFor(flag, 1));
      forgotten.push_back(write(flag, 0));
    }
    // Each in a batch of its own, so that their order is the stream's, also in a recorded graph.
    put(told);
    put(heard);
    put(forgotten);
  }

private:
  static CUstreamBatchMemOpParams write(CUdeviceptr flag, uint32_t value) {
    CUstreamBatchMemOpParams made = {};
    made.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    made.writeValue.address = flag;
    made.writeValue.value = value;
    made.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return made;
  }
  static CUstreamBatchMemOpParams waitFor(CUdeviceptr flag, uint32_t value) {
    CUstreamBatchMemOpParams made = {};
    made.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    made.waitValue.address = flag;
    made.waitValue.value = value;
    made.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    return made;
  }
  void put(std::vector<CUstreamBatchMemOpParams> &operations) const {
    constexpr size_t most = 256; // that the driver takes at once
    for (size_t i = 0; i < operations.size(); i += most)
      owner.gpu.check(
          owner.gpu.api.cuStreamBatchMemOp(stream, unsigned(std::min(most, operations.size() - i)),
                                           &operations[i], 0),
          "cuStreamBatchMemOp");
  }

  const PeerCollectives &owner;
  const std::vector<int> members; ///< ranks, by place

public:
  const CUstream stream;
  const int place;
  std::vector<int> others; ///< places
};

std::unique_ptr<PeerCollectives> PeerCollectives::join(Gpu &gpu, Communicator &communicator,
                                                       const Site &site, Collectives &rest,
                                                       std::string &whyNot) {
  auto exchange = [&](const std::string &mine) {
    Result<std::vector<std::string>> told = communicator.exchange(mine, "the memory of GPUs");
    if (!told)
      throw Failure{told.error()};
    return *told;
  };
  std::unique_ptr<PeerCollectives> made(new PeerCollectives(gpu, communicator, site, rest));
  std::ostringstream mine;
  mine << PeerFlags::processName() << ' ' << gpu.ordinal << ' ' << site.arena;
  const std::vector<std::string> sites = exchange(mine.str());
  whyNot = made->reach(sites);
  // All reach for the others before anybody copies, and all do so or none.
  for (const std::string &told : exchange(whyNot.empty() ? made->prepareSums() : "! " + whyNot)) {
    if (told.rfind("! ", 0) == 0) {
      whyNot = told.substr(2);
      return nullptr;
    }
    made->besides.push_back(std::stoull(told));
  }
  made->flags = PeerFlags::meet(sites[0], gpu, made->world);
  gpu.atRelease([joined = made.get()] { joined->close(); });
  return made;
}

PeerCollectives::PeerCollectives(Gpu &gpu, Communicator &communicator, const Site &site,
                                 Collectives &rest)
    : gpu(gpu), communicator(communicator), rank(communicator.rank()), world(communicator.world()),
      site(site), rest(rest) {}

std::string PeerCollectives::reach(const std::vector<std::string> &told) {
  if (!gpu.api.cuStreamBatchMemOp)
    return "the CUDA driver is older than 11.7";
  for (int other = 0; other < world; ++other) {
    std::istringstream text(told[size_t(other)]);
    std::string process;
    int ordinal = 0;
    CUdeviceptr arena = 0;
    text >> process >> ordinal >> arena;
    arenas.push_back(arena);
    if (process != PeerFlags::processName())
      return "ranks " + nameOfPair(std::min(rank, other), std::max(rank, other)) +
             " are processes of their own";
    if (other == rank)
      continue;
    if (std::string why = reachGpu(other, ordinal); !why.empty())
      return why;
  }
  return "";
}

/// Links other than NVLink have no atomic operations on the other's memory.
std::string PeerCollectives::reachGpu(int other, int ordinal) {
  const DriverApi &api = gpu.api;
  CUdevice peer = 0;
  gpu.check(api.cuDeviceGet(&peer, ordinal), "cuDeviceGet");
  int isReachable = 0, isLinked = 0;
  gpu.check(api.cuDeviceGetP2PAttribute(&isReachable, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                                        gpu.handle(), peer),
            "cuDeviceGetP2PAttribute");
  gpu.check(api.cuDeviceGetP2PAttribute(&isLinked, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                        gpu.handle(), peer),
            "cuDeviceGetP2PAttribute");
  if (!isReachable || !isLinked)
    return "no NVLink joins the GPUs of ranks " +
           nameOfPair(std::min(rank, other), std::max(rank, other));
  CUcontext context = nullptr;
  gpu.check(api.cuDevicePrimaryCtxRetain(&context, peer), "cuDevicePrimaryCtxRetain");
  gpu.atRelease([&api, peer] { api.cuDevicePrimaryCtxRelease(peer); });
  if (CUresult result = api.cuCtxEnablePeerAccess(context, 0);
      result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    gpu.check(result, "cuCtxEnablePeerAccess");
  return "";
}

/// Where the others may copy to; or "! " and why they may not.
std::string PeerCollectives::prepareSums() {
  if (!site.besideBytes)
    return "0";
  CUdeviceptr beside = 0;
  try {
    beside = gpu.allocate(site.besideBytes);
  } catch (const Failure &) {
    return "! rank " + std::to_string(rank) + " lacks " + std::to_string(site.besideBytes >> 10) +
           " KiB of memory for what is added up";
  }
  const NvrtcApi *nvrtc = site.nvrtc;
  if (!nvrtc) {
    Result<const NvrtcApi *> loaded = loadNvrtc();
    if (!loaded)
      throw Failure{loaded.error()};
    nvrtc = *loaded;
  }
  sums.emplace(gpu, *nvrtc, *site.cache);
  return std::to_string(beside);
}

void PeerCollectives::copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                           CUstream stream) const {
  if (bytes && to != from)
    gpu.check(gpu.api.cuMemcpyAsync(to, from, bytes, stream), "cuMemcpyAsync");
}

void PeerCollectives::enqueue(const PreparedCollective &collective, CUstream stream) {
  Circle circle(*this, collective.ranks, stream);
  if (!takes(collective, circle.size()))
    return rest.enqueue(collective, stream);
  circle.meet(PeerFlags::Ready);
  if (collective.command->is<plan::AllGather>()) {
    gather(collective, circle);
    return;
  }
  scatter(collective, circle);
  if (collective.command->is<plan::AllReduce>())
    spread(collective, circle);
}

void PeerCollectives::gather(const PreparedCollective &collective, Circle &circle) const {
  for (const CollectivePart &part : collective.parts) {
    const uint64_t bytes = bytesOf(collective, part.count);
    const CUdeviceptr to = part.to + uint64_t(circle.place) * bytes;
    for (int other : circle.others)
      copy(inArenaOf(circle.rankAt(other), to), part.from, bytes, circle.stream);
    copy(to, part.from, bytes, circle.stream);
  }
  circle.meet(PeerFlags::Arrived);
}

void PeerCollectives::scatter(const PreparedCollective &collective, Circle &circle) const {
  const int members = circle.size(), place = circle.place;
  auto forParts = [&](auto work) {
    uint64_t offset = 0;
    for (const CollectivePart &part : collective.parts) {
      const uint64_t stride = strideOf(collective, part, members);
      work(part, offset, stride);
      offset += uint64_t(members - 1) * stride;
    }
  };
  forParts([&](const CollectivePart &part, uint64_t offset, uint64_t stride) {
    for (int other : circle.others) {
      const Range theirs = rangeOf(collective, part, other, members);
      copy(besides[size_t(circle.rankAt(other))] + offset + indexAmongOthers(place, other) * stride,
           part.from + bytesOf(collective, theirs.begin), bytesOf(collective, theirs.count),
           circle.stream);
    }
  });
  circle.meet(PeerFlags::Arrived);
  forParts([&](const CollectivePart &part, uint64_t offset, uint64_t stride) {
    const Range mine = rangeOf(collective, part, place, members);
    const CUdeviceptr own = part.from + bytesOf(collective, mine.begin);
    sums->enqueue({own, besides[size_t(rank)] + offset,
                   collective.command->is<plan::ReduceScatter>() ? part.to : own,
                   uint64_t(mine.count), stride, uint64_t(place), uint64_t(members)},
                  collective.type, circle.stream);
  });
}

/// Nobody has a use any more for what it had of a range that another member has added up.
void PeerCollectives::spread(const PreparedCollective &collective, Circle &circle) const {
  for (const CollectivePart &part : collective.parts) {
    const Range mine = rangeOf(collective, part, circle.place, circle.size());
    const CUdeviceptr sum = part.from + bytesOf(collective, mine.begin);
    for (int other : circle.others)
      copy(inArenaOf(circle.rankAt(other), sum), sum, bytesOf(collective, mine.count),
           circle.stream);
  }
  circle.meet(PeerFlags::Summed);
}

/// A driver that makes a graph executable may want GPUs for it that reach each other's memory, and
/// those that wait for this rank would not let it go on.
void PeerCollectives::haveRecorded() {
  if (Status status = communicator.barrier("recording a program"); !status)
    throw Failure{status.error()};
}

void PeerCollectives::check() {
  if (std::optional<std::string> why = whyVoid())
    throw Failure{failed(*why)};
  rest.check();
}

/// NCCL's abort waits for its kernels, which may stand behind waits for flags: both are ended at
/// once.
void PeerCollectives::abort(const std::string &why) {
  flags->giveUp(why);
  std::atomic<bool> isAborted = false;
  std::thread waits([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    if (!gpu.tryActivate())
      return;
    do {
      flags->release(rank);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } while (std::chrono::steady_clock::now() < deadline &&
             (!isAborted || gpu.api.cuStreamQuery(site.stream) == CUDA_ERROR_NOT_READY));
  });
  rest.abort(why);
  isAborted = true;
  waits.join();
}

void PeerCollectives::close() {
  flags->leave();
  // What is copied in vain after a failure is copied from memory that is still there.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (flags->failure() && !flags->isOver() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  flags.reset();
}

} // namespace nano::cuda
