// Collectives as exchanges of slices.
#include "runtime/comm/ProcessCommunicator.h"
#include "runtime/comm/Combine.h"

#include <algorithm>
#include <cstring>

namespace nano {
namespace {

constexpr int64_t few = 2048; ///< elements that are sent whole to everybody
constexpr int64_t most = int64_t(1)
                         << 22; ///< elements of one round, which bounds the scratch memory

} // namespace

Status ProcessCommunicator::setGroup(int ranks) {
  if (ranks < 1 || size % ranks != 0)
    return badInput("groups of " + std::to_string(ranks) + " ranks: " + std::to_string(size) +
                    " ranks cannot be divided so");
  group = ranks;
  return ok();
}

ProcessCommunicator::Members ProcessCommunicator::membersOf(plan::Ranks ranks) const {
  return {nano::membersOf(ranks, ownRank, size, group), placeOf(ranks, ownRank, size, group).place};
}

Status ProcessCommunicator::swap(std::vector<Transport::Send> sends,
                                 std::vector<Transport::Receive> receives) {
  std::erase_if(sends, [](const Transport::Send &send) { return send.bytes == 0; });
  std::erase_if(receives, [](const Transport::Receive &receive) { return receive.bytes == 0; });
  std::optional<Transport::Loss> loss = transport.exchange(sends, receives, ++exchanges ^ current,
                                                           [this] { return control.broken(); });
  if (!loss)
    return ok();
  return control.settle(loss->rank, loss->reason);
}

template <typename Work>
Status ProcessCommunicator::call(const std::string &request, const Work &work) {
  auto named = [&](const Error &error) {
    return Error{error.kind,
                 request + " on rank " + std::to_string(ownRank) + ": " + error.message};
  };
  if (Status status = control.begin(request); !status)
    return named(status.error());
  // Ranks that are in different calls do not take each other's data; the control plane says so.
  current = uint64_t(std::hash<std::string>()(request)) << 20;
  if (Status status = work(); !status)
    return named(status.error());
  control.finish();
  return ok();
}

Status ProcessCommunicator::reduceFew(const Members &members, std::byte *data, int64_t count,
                                      plan::DType type, Combine how) {
  const uint64_t bytes = uint64_t(count) * plan::sizeOf(type);
  scratch.resize(bytes * members.ranks.size());
  std::vector<Transport::Send> sends;
  std::vector<Transport::Receive> receives;
  std::vector<const void *> sources;
  for (int place = 0; place < members.count(); ++place) {
    std::byte *at = scratch.data() + uint64_t(place) * bytes;
    sources.push_back(place == members.place ? data : at);
    if (place == members.place)
      continue;
    sends.push_back({members.ranks[size_t(place)], data, bytes});
    receives.push_back({members.ranks[size_t(place)], at, bytes});
  }
  if (Status status = swap(sends, receives); !status)
    return status;
  combine(sources, {data}, 0, count, type, how);
  return ok();
}

Status ProcessCommunicator::reduceMany(const Members &members, std::byte *data, int64_t count,
                                       plan::DType type, Combine how) {
  const uint64_t width = plan::sizeOf(type);
  const Slice mine = sliceOf(count, members.place, members.count());
  const uint64_t bytes = uint64_t(mine.size()) * width;
  scratch.resize(bytes * members.ranks.size());
  std::vector<Transport::Send> sends, results;
  std::vector<Transport::Receive> receives, others;
  std::vector<const void *> sources;
  std::byte *own = data + uint64_t(mine.begin) * width;
  for (int place = 0; place < members.count(); ++place) {
    const int rank = members.ranks[size_t(place)];
    const Slice slice = sliceOf(count, place, members.count());
    std::byte *at = scratch.data() + uint64_t(place) * bytes;
    std::byte *theirs = data + uint64_t(slice.begin) * width;
    sources.push_back(place == members.place ? own : at);
    if (place == members.place)
      continue;
    sends.push_back({rank, theirs, uint64_t(slice.size()) * width});
    receives.push_back({rank, at, bytes});
    results.push_back({rank, own, bytes});
    others.push_back({rank, theirs, uint64_t(slice.size()) * width});
  }
  if (Status status = swap(sends, receives); !status)
    return status;
  combine(sources, {own}, 0, mine.size(), type, how);
  return swap(results, others);
}

Status ProcessCommunicator::allReduce(void *data, int64_t count, plan::DType type, Combine how,
                                      plan::Ranks ranks, const char *what) {
  Request request = {Request::Kind::AllReduce, count, type, how, ranks, what};
  if (auto reason = cannotCombine(type))
    return failed(request.toString() + " on rank " + std::to_string(ownRank) + ": " + *reason);
  return call(request.toString(), [&]() -> Status {
    const Members members = membersOf(ranks);
    if (members.count() == 1)
      return ok();
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t part = std::min(most, count - begin);
      std::byte *at = static_cast<std::byte *>(data) + uint64_t(begin) * plan::sizeOf(type);
      if (Status status = part <= few ? reduceFew(members, at, part, type, how)
                                      : reduceMany(members, at, part, type, how);
          !status)
        return status;
    }
    return ok();
  });
}

Status ProcessCommunicator::reduceScatter(const void *from, void *to, int64_t count,
                                          plan::DType type, plan::Ranks ranks, const char *what) {
  Request request = {Request::Kind::ReduceScatter, count, type, Combine::Sum, ranks, what};
  if (auto reason = cannotCombine(type))
    return failed(request.toString() + " on rank " + std::to_string(ownRank) + ": " + *reason);
  return call(request.toString(), [&]() -> Status {
    const Members members = membersOf(ranks);
    const uint64_t width = plan::sizeOf(type), whole = uint64_t(count) * width;
    const auto *parts = static_cast<const std::byte *>(from);
    // Every member sends a part of a round.
    const int64_t round = std::max<int64_t>(1, most / members.count());
    for (int64_t begin = 0; begin < count; begin += round) {
      const int64_t part = std::min(round, count - begin);
      const uint64_t offset = uint64_t(begin) * width, bytes = uint64_t(part) * width;
      scratch.resize(bytes * members.ranks.size());
      std::vector<Transport::Send> sends;
      std::vector<Transport::Receive> receives;
      std::vector<const void *> sources;
      for (int place = 0; place < members.count(); ++place) {
        const std::byte *theirs = parts + uint64_t(place) * whole + offset;
        std::byte *at = scratch.data() + uint64_t(place) * bytes;
        sources.push_back(place == members.place ? theirs : at);
        if (place == members.place)
          continue;
        sends.push_back({members.ranks[size_t(place)], theirs, bytes});
        receives.push_back({members.ranks[size_t(place)], at, bytes});
      }
      if (Status status = swap(sends, receives); !status)
        return status;
      combine(sources, {static_cast<std::byte *>(to) + offset}, 0, part, type, Combine::Sum);
    }
    return ok();
  });
}

Status ProcessCommunicator::allGather(const void *from, void *to, int64_t count, plan::DType type,
                                      plan::Ranks ranks, const char *what) {
  Request request = {Request::Kind::AllGather, count, type, Combine::Sum, ranks, what};
  return call(request.toString(), [&]() -> Status {
    const Members members = membersOf(ranks);
    const uint64_t bytes = uint64_t(count) * plan::sizeOf(type);
    std::vector<Transport::Send> sends;
    std::vector<Transport::Receive> receives;
    for (int place = 0; place < members.count(); ++place) {
      std::byte *at = static_cast<std::byte *>(to) + uint64_t(place) * bytes;
      if (place != members.place) {
        sends.push_back({members.ranks[size_t(place)], from, bytes});
        receives.push_back({members.ranks[size_t(place)], at, bytes});
      } else if (bytes != 0 && at != from) {
        std::memcpy(at, from, bytes);
      }
    }
    return swap(sends, receives);
  });
}

Result<std::vector<std::string>> ProcessCommunicator::exchange(const std::string &mine,
                                                               const char *what) {
  Request request;
  request.kind = Request::Kind::Exchange;
  request.what = what;
  std::vector<std::string> texts;
  Status status = call(request.toString(), [&]() -> Status {
    auto all = control.exchange(mine);
    if (!all)
      return all.error();
    texts = std::move(*all);
    return ok();
  });
  if (!status)
    return status.error();
  return texts;
}

Status ProcessCommunicator::barrier(const char *what) {
  Request request;
  request.kind = Request::Kind::Barrier;
  request.what = what;
  return call(request.toString(), [&]() -> Status {
    auto all = control.exchange("");
    return all ? ok() : Status(all.error());
  });
}

} // namespace nano
