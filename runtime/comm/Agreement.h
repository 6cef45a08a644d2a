// What all ranks must have in common before they start: found out, and said who differs in what.
#pragma once

#include "runtime/comm/Communicator.h"

#include <string>
#include <utility>
#include <vector>

namespace nano {

/// Names and values, e.g. {"plan", "9f3a…"}; the same names in the same order on every rank of
/// one version.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Every rank calls it with its own facts. BadInput, the same line on every rank, where one has
/// another value than rank 0: which rank, which fact, both values.
Status agree(Communicator &communicator, const Facts &facts);

} // namespace nano
