// Facts as text through one exchange; every rank compares all with those of rank 0.
#include "runtime/comm/Agreement.h"
#include "runtime/comm/Sockets.h"

namespace nano {

Status agree(Communicator &communicator, const Facts &facts) {
  std::vector<std::string> mine;
  for (const auto &[name, value] : facts) {
    mine.push_back(name);
    mine.push_back(value);
  }
  auto all = communicator.exchange(pack(mine), "what all ranks must have in common");
  if (!all)
    return all.error();
  const std::vector<std::string> first = unpack((*all)[0]);
  for (size_t rank = 1; rank < all->size(); ++rank) {
    const std::vector<std::string> other = unpack((*all)[rank]);
    if (other.size() != first.size())
      return badInput("rank " + std::to_string(rank) +
                      " runs another version of nanorun than rank 0; start all with the same");
    for (size_t i = 1; i < first.size(); i += 2)
      if (other[i] != first[i] || other[i - 1] != first[i - 1])
        return badInput("rank " + std::to_string(rank) + " differs from rank 0 in " + other[i - 1] +
                        ": '" + other[i] + "', rank 0 has '" + first[i] +
                        "'; start all ranks with the same files and options");
  }
  return ok();
}

} // namespace nano
