// What every implementation of Communicator must do, as checks that the tests of each call on every
// rank: the exact bits of each collective, over all sets of ranks.
#pragma once

#include "runtime/comm/Communicator.h"

#include <string>

namespace nano::test {

/// Runs every collective over every set of ranks with groups of `group` and compares all bits with
/// sums made in order of place. Called by each rank at the same time. Empty: everything is right;
/// else what is wrong first.
std::string checkCollectives(Communicator &communicator, int group);

/// A hash of the results of many collectives on this rank, for comparing ways to communicate.
uint64_t hashOfCollectives(Communicator &communicator, int group);

} // namespace nano::test
