// What differs between two texts of IR, line by line, whatever their values are called.
#pragma once

#include "compiler/explore/PassRecords.h"

#include <cstddef>
#include <string>
#include <vector>

namespace nano::explore {

/// The regions in which two functions' texts differ, in order. Lines are the same when they are
/// equal but for names of values, and the names stand for each other throughout: a line that reads
/// another value than before has changed. Of what has no line in common, and is too long to be
/// aligned in a time that grows with both lengths, all counts as changed.
std::vector<TextRegion> differences(const std::vector<std::string> &before,
                                    const std::vector<std::string> &after);

} // namespace nano::explore
