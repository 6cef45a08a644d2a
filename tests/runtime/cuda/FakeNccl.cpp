// The NCCL behind FakeCuda: collectives that end when every rank has come to them. Nothing blocks,
// as with NCCL's communicators that are made so; what is under way is asked for.
#include "runtime/NumberFormats.h"
#include "tests/runtime/cuda/FakeTables.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace nano::test {
namespace {

using namespace cuda;

/// What one rank brings to a collective.
struct Arrival {
  enum Kind { AllReduce, ReduceScatter, AllGather } kind;
  const void *from;
  void *to;
  size_t count;
  nccl::DataType type;
  nccl::Reduction how;

  bool matches(const Arrival &other) const {
    return kind == other.kind && count == other.count && type == other.type && how == other.how;
  }
};
struct Round {
  std::map<int, Arrival> arrived;
  bool isOver = false;
};
struct Clique {
  int ranks = 0, joined = 0;
  std::map<uint64_t, Round> rounds;
  bool isBroken = false; ///< ranks asked for different things
};
struct Member {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  uint64_t next = 0; ///< collective
  bool isAborted = false, isFinal = false;
  int asks = 0; ///< until what was asked for is under way
};
using Handle = std::shared_ptr<Member>; ///< a communicator points to one; graphs hold copies

std::map<uint64_t, std::shared_ptr<Clique>> cliques;
uint64_t identifiers = 0;

Handle &memberOf(nccl::Comm comm) { return *as<Handle>(comm); }

float load(const void *data, nccl::DataType type, size_t i) {
  return type == nccl::bfloat16 ? fromBf16(static_cast<const uint16_t *>(data)[i])
                                : static_cast<const float *>(data)[i];
}
void store(void *data, nccl::DataType type, size_t i, float value) {
  if (type == nccl::bfloat16)
    static_cast<uint16_t *>(data)[i] = toBf16(value);
  else
    static_cast<float *>(data)[i] = value;
}

void finish(Round &round) {
  const Arrival first = round.arrived.begin()->second;
  const size_t ranks = round.arrived.size();
  if (first.kind == Arrival::AllGather) {
    for (auto &[rank, each] : round.arrived)
      for (auto &[other, theirs] : round.arrived)
        std::memmove(static_cast<char *>(each.to) + size_t(other) * first.count, theirs.from,
                     first.count);
  } else {
    const size_t all = first.kind == Arrival::AllReduce ? first.count : ranks * first.count;
    std::vector<float> values;
    for (size_t i = 0; i < all; ++i) {
      float value = load(first.from, first.type, i);
      for (auto each = std::next(round.arrived.begin()); each != round.arrived.end(); ++each) {
        float more = load(each->second.from, first.type, i);
        value = first.how == nccl::maximum ? std::max(value, more) : value + more;
      }
      values.push_back(value);
    }
    for (auto &[rank, each] : round.arrived)
      for (size_t i = 0; i < first.count; ++i)
        store(each.to, first.type, i,
              values[(first.kind == Arrival::AllReduce ? 0 : size_t(rank) * first.count) + i]);
  }
  round.isOver = true;
}

nccl::Outcome enqueue(const char *name, nccl::Comm comm, CUstream stream, const Arrival &arrival) {
  if (call(name + on(stream)) != CUDA_SUCCESS)
    return nccl::internalError;
  Handle member = memberOf(comm);
  member->asks = 2;
  submitTask(stream, [member, arrival]() -> Task {
    auto number = std::make_shared<int64_t>(-1);
    return [=] {
      if (member->isAborted)
        return true;
      if (*number < 0) {
        *number = int64_t(member->next++);
        Round &round = member->clique->rounds[uint64_t(*number)];
        round.arrived.emplace(member->rank, arrival);
        if (!round.arrived.begin()->second.matches(arrival))
          member->clique->isBroken = true;
        else if (int(round.arrived.size()) == member->clique->ranks)
          finish(round);
      }
      return member->clique->rounds[uint64_t(*number)].isOver;
    };
  });
  return nccl::inProgress;
}

NcclApi ncclTable() {
  NcclApi api;
  api.ncclGetVersion = [](int *version) {
    auto found = fake->ncclVersions.find(gpuOfThread());
    *version = found == fake->ncclVersions.end() ? 22809 : found->second;
    return nccl::success;
  };
  api.ncclGetErrorString = [](nccl::Outcome) { return "a test's error"; };
  api.ncclGetLastError = [](nccl::Comm) { return "no link"; };
  api.ncclGetUniqueId = [](nccl::UniqueId *id) {
    *id = {};
    uint64_t number = ++identifiers;
    std::memcpy(id->bytes, &number, sizeof number);
    return nccl::success;
  };
  api.ncclCommInitRankConfig = [](nccl::Comm *comm, int ranks, nccl::UniqueId id, int rank,
                                  nccl::Config *config) {
    uint64_t number = 0;
    std::memcpy(&number, id.bytes, sizeof number);
    if (config->blocking != 0 || config->magic != 0xcafebeef || number == 0)
      return nccl::internalError;
    std::shared_ptr<Clique> &clique = cliques[number];
    if (!clique)
      clique = std::make_shared<Clique>();
    clique->ranks = ranks;
    ++clique->joined;
    auto member = std::make_shared<Member>();
    member->clique = clique;
    member->rank = rank;
    ++fake->objects;
    *comm = reinterpret_cast<nccl::Comm>(new Handle(member));
    return nccl::inProgress;
  };
  api.ncclCommGetAsyncError = [](nccl::Comm comm, nccl::Outcome *error) {
    const Handle &member = memberOf(comm);
    const Clique &clique = *member->clique;
    *error = nccl::success;
    if (clique.joined < clique.ranks || member->asks-- > 0)
      *error = nccl::inProgress;
    else if (member->isFinal && member.use_count() > 1) // a graph may still use it
      *error = nccl::inProgress;
    else if (clique.isBroken)
      *error = nccl::internalError;
    else if (fake->ncclState)
      *error = nccl::Outcome(fake->ncclState());
    return nccl::success;
  };
  api.ncclCommFinalize = [](nccl::Comm comm) {
    memberOf(comm)->isFinal = true;
    return nccl::inProgress;
  };
  api.ncclCommDestroy = [](nccl::Comm comm) {
    const bool isFinal = memberOf(comm)->isFinal;
    delete as<Handle>(comm);
    --fake->objects;
    return isFinal ? nccl::success : nccl::internalError;
  };
  api.ncclCommAbort = [](nccl::Comm comm) {
    call("abort");
    memberOf(comm)->isAborted = true;
    delete as<Handle>(comm);
    --fake->objects;
    return nccl::inProgress;
  };
  api.ncclAllReduce = [](const void *from, void *to, size_t count, nccl::DataType type,
                         nccl::Reduction how, nccl::Comm comm, CUstream stream) {
    return enqueue("all-reduce", comm, stream, {Arrival::AllReduce, from, to, count, type, how});
  };
  api.ncclReduceScatter = [](const void *from, void *to, size_t count, nccl::DataType type,
                             nccl::Reduction how, nccl::Comm comm, CUstream stream) {
    return enqueue("reduce-scatter", comm, stream,
                   {Arrival::ReduceScatter, from, to, count, type, how});
  };
  api.ncclAllGather = [](const void *from, void *to, size_t count, nccl::DataType type,
                         nccl::Comm comm, CUstream stream) {
    return type == nccl::uint8 ? enqueue("all-gather", comm, stream,
                                         {Arrival::AllGather, from, to, count, type, nccl::sum})
                               : nccl::internalError;
  };
  api.ncclGroupStart = [] {
    call("group start");
    return nccl::success;
  };
  api.ncclGroupEnd = [] {
    call("group end");
    return nccl::inProgress;
  };
  return api;
}

} // namespace

const NcclApi *fakeNccl() {
  static const NcclApi inner = ncclTable();
  static const NcclApi locked = [] {
    NcclApi api;
    NANO_NCCL_FUNCTIONS(FAKE_LOCKED)
    return api;
  }();
  return &locked;
}

} // namespace nano::test
