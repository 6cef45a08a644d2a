// Columns that are neighbours in pairs, as rotary embeddings turn them: computed as rows of both.
#pragma once

#include "ir/graph/Nano.h"

namespace nano {

/// Where two columns that lie side by side are cut apart, and what is computed of each of them is
/// put side by side again, ops on one of them become ops on both, so that no kernel reads or writes
/// every second element:
///
///   %a = nano.slice %x dim 2 at 0;  %b = nano.slice %x dim 2 at 1       [T, C, 2] → [T, C, 1]
///   %y = nano.concat (%a·c − %b·s), (%b·c + %a·s) dim 2
/// ⇒
///   %r = (nano.rotate %x by 1)·s
///   %y = %x·c + nano.select lt, column, 1, −%r, %r                      [T, C, 2]
///
/// A program in which one of these ops is read elsewhere stays as it is.
void joinPairedColumns(graph::ProgramOp function);

} // namespace nano
