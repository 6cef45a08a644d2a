// Collectives through NCCL without blocking calls, and through the host.
#include "runtime/cuda/Collectives.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace nano::cuda {
namespace {

using plan::Command;

constexpr int oldestVersion = 21903; ///< the first for CUDA 12.3 and later drivers' graphs

std::string versionText(int version) { // 22809: 2.28.9
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

nccl::DataType typeOf(plan::DType type) {
  return type == plan::DType::BF16 ? nccl::bfloat16 : nccl::float32;
}

} // namespace

NcclCollectives::NcclCollectives(Gpu &gpu, const NcclApi &api, Communicator &communicator,
                                 int group)
    : gpu(gpu), api(api), communicator(communicator), rank(communicator.rank()),
      world(communicator.world()), group(group) {
  gpu.atRelease([this] { close(); });
}

void NcclCollectives::join(const std::vector<plan::Ranks> &sets) {
  int number = 0;
  expect(api.ncclGetVersion(&number), nullptr, "ncclGetVersion");
  if (number < oldestVersion || number >= 30000)
    throw Failure{badInput("NCCL " + versionText(number) + " of this machine is not from " +
                           versionText(oldestVersion) +
                           " to 2.99; install the Python wheel nvidia-nccl-cu13, or put the folder "
                           "of another libnccl.so.2 into LD_LIBRARY_PATH")};
  std::map<plan::Ranks, nccl::UniqueId> own; ///< of the sets that this rank is the first of
  std::vector<plan::Ranks> used;
  for (plan::Ranks set : sets)
    if (std::find(used.begin(), used.end(), nameOf(set)) == used.end())
      used.push_back(nameOf(set));
  // What a rank tells: the version, then for each set an identifier, void where it is not the
  // first.
  std::string mine = std::to_string(number) + "\n";
  for (plan::Ranks set : used) {
    nccl::UniqueId id = {};
    if (placeOf(set, rank, world, group).place == 0)
      expect(api.ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
    mine.append(id.bytes, sizeof id.bytes);
  }
  Result<std::vector<std::string>> told = communicator.exchange(mine, "NCCL's identifiers");
  if (!told)
    throw Failure{told.error()};
  for (int each = 0; each < world; ++each)
    if (int theirs = std::stoi((*told)[size_t(each)]); theirs != number)
      throw Failure{badInput("rank " + std::to_string(rank) + " has NCCL " + versionText(number) +
                             ", rank " + std::to_string(each) + " has " + versionText(theirs) +
                             "; install one version everywhere")};
  for (size_t i = 0; i < used.size(); ++i) {
    const plan::Ranks set = used[i];
    const Place place = placeOf(set, rank, world, group);
    const std::string &first = (*told)[size_t(membersOf(set, rank, world, group)[0])];
    nccl::UniqueId id;
    std::memcpy(id.bytes, first.data() + first.find('\n') + 1 + i * sizeof id.bytes,
                sizeof id.bytes);
    nccl::Config config;
    config.blocking = 0; // so that a wait can be ended when a rank is gone
    nccl::Comm &comm = comms[set];
    nccl::Outcome outcome =
        api.ncclCommInitRankConfig(&comm, place.members, id, place.place, &config);
    settle(outcome, comm, "ncclCommInitRankConfig");
  }
}

plan::Ranks NcclCollectives::nameOf(plan::Ranks set) const {
  return placeOf(set, rank, world, group).members == world ? plan::Ranks::All : set;
}

void NcclCollectives::expect(nccl::Outcome outcome, nccl::Comm comm, const char *what) const {
  if (outcome == nccl::success || outcome == nccl::inProgress)
    return;
  const char *text = api.ncclGetErrorString(outcome), *more = api.ncclGetLastError(comm);
  std::string message = std::string("NCCL: ") + (text ? text : "error") + " in " + what;
  if (more && *more)
    message += std::string(" (") + more + ")";
  throw Failure{failed(message + "; NCCL_DEBUG=WARN says more")};
}

void NcclCollectives::settle(nccl::Outcome outcome, nccl::Comm comm, const char *what) {
  auto isSettled = [&] {
    if (outcome == nccl::inProgress)
      if (nccl::Outcome asked = api.ncclCommGetAsyncError(comm, &outcome); asked != nccl::success)
        outcome = asked;
    return outcome != nccl::inProgress;
  };
  gpu.waitUntil(isSettled);
  expect(outcome, comm, what);
}

void NcclCollectives::enqueue(const PreparedCollective &collective, CUstream stream) {
  const Command &command = *collective.command;
  nccl::Comm comm = comms.at(nameOf(collective.ranks));
  auto pointer = [](CUdeviceptr address) { return std::bit_cast<void *>(address); };
  const nccl::DataType type = typeOf(collective.type);
  const bool isGroup = collective.parts.size() > 1;
  nccl::Outcome outcome = nccl::success;
  if (isGroup)
    expect(api.ncclGroupStart(), comm, "ncclGroupStart");
  for (const CollectivePart &part : collective.parts) {
    const auto count = size_t(part.count);
    const char *what = "ncclAllReduce";
    if (command.is<plan::ReduceScatter>()) {
      what = "ncclReduceScatter";
      outcome = api.ncclReduceScatter(pointer(part.from), pointer(part.to), count, type, nccl::sum,
                                      comm, stream);
    } else if (command.is<plan::AllGather>()) {
      what = "ncclAllGather";
      outcome = api.ncclAllGather(pointer(part.from), pointer(part.to),
                                  count * plan::sizeOf(collective.type), nccl::uint8, comm, stream);
    } else {
      const bool maximum = command.as<plan::AllReduce>()->maximum;
      outcome = api.ncclAllReduce(pointer(part.from), pointer(part.to), count, type,
                                  maximum ? nccl::maximum : nccl::sum, comm, stream);
    }
    if (!isGroup)
      settle(outcome, comm, what);
    else if (outcome != nccl::success && outcome != nccl::inProgress) {
      (void)api.ncclGroupEnd(); // leaves the thread outside of a group
      expect(outcome, comm, what);
    }
  }
  if (isGroup)
    settle(api.ncclGroupEnd(), comm, "ncclGroupEnd");
}

void NcclCollectives::check() {
  for (const auto &[set, comm] : comms)
    if (comm) {
      nccl::Outcome outcome = nccl::success;
      expect(api.ncclCommGetAsyncError(comm, &outcome), comm, "ncclCommGetAsyncError");
      expect(outcome, comm, "a collective");
    }
}

void NcclCollectives::abort(const std::string & /*why: others ask the communicator*/) {
  for (auto &[set, comm] : comms)
    if (nccl::Comm each = std::exchange(comm, nullptr))
      (void)api.ncclCommAbort(each);
}

void NcclCollectives::close() {
  // Ranks may come here one after the other; what one of them leaves undone must not hold the rest.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (auto &[set, comm] : comms) {
    nccl::Comm each = std::exchange(comm, nullptr);
    if (!each)
      continue;
    nccl::Outcome outcome = api.ncclCommFinalize(each);
    while (outcome == nccl::inProgress && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      if (api.ncclCommGetAsyncError(each, &outcome) != nccl::success)
        outcome = nccl::internalError;
    }
    (void)(outcome == nccl::success ? api.ncclCommDestroy(each) : api.ncclCommAbort(each));
  }
}

std::string NcclCollectives::version() const {
  int number = 0;
  expect(api.ncclGetVersion(&number), nullptr, "ncclGetVersion");
  return versionText(number);
}

HostCollectives::HostCollectives(Staging &staging, Communicator &communicator,
                                 const plan::Plan &plan)
    : staging(staging), communicator(communicator), plan(plan) {
  if (Status status = communicator.setGroup(int(plan.group)); !status)
    throw Failure{status.error()};
}

void HostCollectives::enqueue(const PreparedCollective &collective,
                              CUstream /*stream: everything is on the one of `staging`*/) {
  const Command &command = *collective.command;
  const plan::Ranks ranks = collective.ranks;
  const plan::DType type = collective.type;
  const Place place = placeOf(ranks, communicator.rank(), communicator.world(), int(plan.group));
  // Memory that only grows: every byte of it that is used is written first.
  auto reserve = [](std::vector<std::byte> &memory, uint64_t bytes) {
    memory.resize(std::max<size_t>(memory.size(), bytes));
    return memory.data();
  };
  for (const CollectivePart &part : collective.parts) {
    const std::string what = plan::nameOfExchange(plan, command, {part.buffer, 0});
    const uint64_t bytes = uint64_t(part.count) * plan::sizeOf(type);
    const uint64_t all = bytes * uint64_t(place.members);
    const bool isScatter = command.is<plan::ReduceScatter>();
    const bool isGather = command.is<plan::AllGather>();
    std::byte *source = reserve(from, isScatter ? all : bytes);
    staging.read(part.from, source, isScatter ? all : bytes);
    std::byte *result = isScatter || isGather ? reserve(to, isGather ? all : bytes) : source;
    Status status = ok();
    if (isScatter)
      status = communicator.reduceScatter(source, result, part.count, type, ranks, what.c_str());
    else if (isGather)
      status = communicator.allGather(source, result, part.count, type, ranks, what.c_str());
    else
      status = communicator.allReduce(result, part.count, type,
                                      command.as<plan::AllReduce>()->maximum ? Combine::Max
                                                                             : Combine::Sum,
                                      ranks, what.c_str());
    if (!status)
      throw Failure{status.error()};
    staging.write(part.to, result, isGather ? all : bytes);
  }
}

} // namespace nano::cuda
