// How a row kernel's iterations, rows and columns are spread over the threads of a GPU.
#pragma once

#include "passes/row/RowForm.h"

namespace nano::kernels {

/// A row is shared by `group` threads that lie side by side: part of a warp, a warp, a whole block,
/// or, where a block walks over rows and adds up their columns, some warps of it, a team. Thread t
/// of the group has the columns [(u·group + t)·lanes, … + lanes) for u < `vectors`, so that
/// neighbours read neighbouring bytes and every thread has `vectors` loads an operand in flight.
struct CudaRowLayout {
  int64_t lanes = 4; ///< elements of one access: 16 bytes of the narrowest large operand
  int64_t group = 1; ///< threads of a row: 1, 2, 4, … 32, warps of a team, or `threads`; any number
                     ///< where they never wait for each other. Columns form: threads side by side
                     ///< along the columns
  int64_t vectors = 1;   ///< accesses of a thread in a row. Elements form: in a block's iterations
  int64_t threads = 128; ///< of a block
  int64_t turns = 1;     ///< rows that a group takes one after the other
  int64_t together = 1;  ///< neighbouring rows that a group takes one after the other
  int64_t blocks = 0;    ///< that a multiprocessor must have registers for; 0: any number
  bool holdsRotated = false; ///< what a thread's columns are rotated to are its own, too: its
                             ///< vectors are computed side by side
  bool copiesRows = false;   ///< a block that walks over rows copies them ahead to shared memory
  bool walksColumns = false; ///< a row has more columns to add up than a block's registers hold: as
                             ///< in the Columns form, a block has a strip of them, for all rows
  bool resident = true; ///< a row's operands stay in registers from pass to pass; else they are
                        ///< read again, from the second-level cache

  /// The layout of a task; equal for tasks with equal rowKey.
  static CudaRowLayout of(step::TaskOp task, const RowForm &form);

  /// Of rows that are drawn at random and not read: several a group, if blocks are left for the
  /// whole GPU.
  void takeTurns(step::TaskOp task, const RowForm &form, int64_t multiprocessors);

  /// Of rows, as heads of a token, that read the same rows of operands that have fewer, as tables
  /// of a rotation: several a group, if blocks are left for the whole GPU.
  void takeTogether(step::TaskOp task, const RowForm &form, int64_t multiprocessors);

  /// For a long row that shared memory keeps values of, when that has room for so many blocks.
  void keepLongRow(const RowForm &form, int64_t blocks);

  /// Whether a block that gathers `gathered` bytes of rows keeps its few threads, since of one that
  /// has more a multiprocessor has registers for one alone; they are then enough for `blocks`.
  bool gathersInSmallBlocks(step::TaskOp task, const RowForm &form, int64_t gathered);

  /// Blocks that a multiprocessor must have registers for, where a thread holds so much of a row
  /// that the compiler, left to itself, would spend most of what it may have; 0 elsewhere.
  int64_t heldBlocks(step::TaskOp task, const RowForm &form) const;

  int64_t groups() const { return threads / group; } ///< of a block
  /// True where a block walks over rows, each of which some of its warps share, or all.
  bool isTeam() const { return group > 32 && (group < threads || blocks > 0); }
  /// Columns form, and where it walks columns: columns of one iteration.
  int64_t strip() const { return group * lanes; }
  /// Size of the launch's iteration space.
  int64_t iterations(const RowForm &form) const;

private:
  /// Where all rotations are by half a row or another part of it, and a thread reads enough:
  /// threads that have all parts. `held`: bytes an element of what a thread reads.
  void holdRotated(step::TaskOp task, const RowForm &form, int64_t held);
  /// Threads side by side along the columns, and in several rows.
  void walkColumns(const RowForm &form);
  /// Of rows that are reduced and whose columns are added up; `held`: bytes an element of what a
  /// thread reads.
  void walkRows(step::TaskOp task, const RowForm &form, int64_t held);
};

} // namespace nano::kernels
