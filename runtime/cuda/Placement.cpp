// Ranks and the GPUs that they see.
#include "runtime/cuda/Placement.h"

#include <algorithm>
#include <map>

namespace nano::cuda {

Result<Placement> placeOnGpu(Communicator &communicator, const std::vector<std::string> &gpus,
                             bool share) {
  if (communicator.world() == 1)
    return Placement();
  std::string mine;
  for (const std::string &gpu : gpus)
    mine += gpu + " ";
  Result<std::vector<std::string>> seen = communicator.exchange(mine, "the GPUs of the ranks");
  if (!seen)
    return seen.error();
  // Every rank follows the same rules for all of them, so that all come to the same end.
  Placement own;
  std::map<std::string, int> ranksOf; ///< by what they see: how many so far
  std::map<std::string, int> users;   ///< by GPU: the first rank on it
  for (int rank = 0; rank < communicator.world(); ++rank) {
    const std::string &list = (*seen)[size_t(rank)];
    auto count = int(std::count(list.begin(), list.end(), ' '));
    int index = ranksOf[list]++, ordinal = index % std::max(count, 1);
    size_t begin = 0;
    for (int i = 0; i < ordinal; ++i)
      begin = list.find(' ', begin) + 1;
    auto [user, isNew] = users.emplace(list.substr(begin, list.find(' ', begin) - begin), rank);
    if (!isNew && !share)
      return badInput("--gpus " + std::to_string(communicator.world()) + ": ranks " +
                      std::to_string(user->second) + " and " + std::to_string(rank) +
                      " would share a GPU, since they see " + std::to_string(count) +
                      "; use fewer ranks or more machines, or try the ranks on the GPUs at hand "
                      "with --share-gpus, slowly");
    own.isShared |= !isNew;
    if (rank == communicator.rank()) {
      own.ordinal = ordinal;
      own.isFirstHere = index == 0;
    }
  }
  return own;
}

} // namespace nano::cuda
