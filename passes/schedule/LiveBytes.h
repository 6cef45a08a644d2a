// How many bytes of transient buffers live at each command of a list, while commands move and
// buffers live longer for it.
#pragma once

#include "ir/step/Step.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace nano::schedule {

/// Buffers live from the first to the last command that touches them; times are places in the list,
/// which may be a program's commands in order or against it.
class LiveBytes {
public:
  /// `commands` may hold records and waits.
  LiveBytes(llvm::ArrayRef<mlir::Operation *> commands, const step::KernelTable &kernels);

  /// The most bytes that live at once.
  int64_t most() const;

  /// What else lives when a command with these accesses moves to `time`, before where it stands:
  /// the bytes of those of its buffers that lived only from later on.
  int64_t bytesBefore(llvm::ArrayRef<step::Access> accesses, int64_t time) const;
  /// True when no more than `limit` bytes live at any time that such a move touches.
  bool canMove(llvm::ArrayRef<step::Access> accesses, int64_t time, int64_t limit) const;
  void move(llvm::ArrayRef<step::Access> accesses, int64_t time);

  /// Lets what all users of `other` touch be `buffer` instead, from when it lives on, if no more
  /// than `limit` bytes live at once then. Both are whole transient buffers of one size; `other`
  /// lives from after `buffer` does.
  bool replace(mlir::Value other, mlir::Value buffer, int64_t limit);

private:
  struct Life {
    int64_t begin = 0, end = -1, bytes = 0;
  };
  /// The lives that begin after `time`, once each.
  llvm::SmallVector<const Life *> livesAfter(llvm::ArrayRef<step::Access> accesses,
                                             int64_t time) const;

  llvm::DenseMap<const void *, Life> lives;
  std::vector<int64_t> live; ///< by time
};

} // namespace nano::schedule
