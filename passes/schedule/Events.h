// Events: how commands of one stream wait for commands of others.
#pragma once

#include "ir/step/Step.h"

#include <vector>

namespace nano::schedule {

/// By position in an order of commands, the earlier positions that each command waits for.
using Waits = std::vector<llvm::SmallVector<uint32_t, 2>>;

/// What each command waits for when it must come after some earlier ones; by position: its stream,
/// and those. They are the latest on other streams that no order of streams and no earlier wait
/// implies.
Waits waitsFor(llvm::ArrayRef<unsigned> streams,
               llvm::ArrayRef<llvm::SmallVector<uint32_t, 8>> after);

/// Erases the records and waits of a program's block.
void eraseEvents(mlir::Block &block);
/// Inserts those of `waits` around commands that stand in this order. Events are numbered in the
/// order in which they are recorded.
void insertEvents(llvm::ArrayRef<step::StepCommandOpInterface> commands, const Waits &waits);

/// Sets the events of a program with a memory plan anew where fewer do: of the orders that its
/// events keep, only those between commands that touch the same bytes, one of them writing, and
/// between collectives. (Events are first set before offsets are known, some only so that buffers
/// may share bytes which then do not.)
void pruneWaits(step::ProgramOp program, const step::KernelTable &kernels);

} // namespace nano::schedule
