// Chooses what the backward pass makes again although that takes products or attention, so that a
// step holds fewer bytes.
#pragma once

#include "ir/machine/Machine.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nano {

/// A value that is made again.
struct Remade {
  mlir::Value value;
  int64_t bytes = 0;    ///< of the value
  double seconds = 0;   ///< that making it again takes, by the machine's rates
  bool isAsked = false; ///< the model asks for it
};

/// The tensors of a training program that live from the forward to the backward pass, over the
/// places of its ops: what is held lives from the op that makes it to the last one that reads it,
/// what is made again until the forward pass has read it and from the first use of it in the
/// backward pass on, once for all uses. Everything else is taken to live nowhere.
///
///   peak     the most bytes that live at one place
///   price    of a value that is held: the predicted seconds of the ops that make it from what else
///            is held, those that are made again anyway not counted
///
/// What parameters alone give, as weights in the compute type, is priced by the bytes of all such
/// values: one launch makes many of them (nano-batch-launches).
///
/// Element-wise ops that end a product cost no bytes of their own, nor does it to write what its
/// products read where the backward pass reads it too: that is made once for both.
///
/// While the peak is too high, the value goes that frees most bytes at its place for a second, or
/// where that frees enough, the cheapest that does. One that frees none there stays, and so does
/// what the backward pass reads up to its first products, those of the gradient of the last one of
/// the forward pass: it has just been made.
class KeepLess {
public:
  /// `forward` are the ops of the forward pass, `held` the values that the backward pass reads of
  /// them, or makes cheaply from, without products.
  KeepLess(mlir::Block &block, const llvm::DenseSet<mlir::Operation *> &forward,
           llvm::DenseSet<mlir::Value> held, const machine::Machine &machine);

  /// Lets go of the results of ops that the model marks, where nothing outside of their region
  /// reads them.
  void dropMarked();
  /// Lets go of values until the peak is `saveBytes` below what it was, `most` have gone, or
  /// nothing lowers it.
  void save(int64_t saveBytes, size_t most = SIZE_MAX);
  /// The values that would go next, as many as `most`, if less were to be held; lets go of none.
  std::vector<Remade> next(size_t most) const;

  /// What is made again, in the order of the choice.
  llvm::ArrayRef<Remade> remade() const { return chosen; }
  /// Ops, products and attention among them, whose results the backward pass makes once for all
  /// that reads them there.
  const llvm::DenseSet<mlir::Operation *> &again() const { return made; }
  int64_t peak() const;

private:
  /// Places of the block's ops; of no op: none.
  struct Range {
    int64_t first = -1, last = -1;
    bool isEmpty() const { return first < 0; }
    void add(int64_t place) {
      first = isEmpty() ? place : std::min(first, place);
      last = std::max(last, place);
    }
  };
  /// What making a value again takes.
  struct Making {
    bool isPossible = true;
    double seconds = 0;
    llvm::SmallVector<mlir::Value> from;      ///< held values, and such as are made again anyway
    llvm::SmallVector<mlir::Operation *> ops; ///< products and others that are no element-wise ops
    /// Element-wise ops whose results these products read, and products of the backward pass too.
    llvm::SmallVector<mlir::Operation *> shared;
  };

  bool isBase(mlir::Value value) const;
  /// Held, or made again once for all that reads it.
  bool isShared(mlir::Value value) const;
  /// Bytes that an element-wise kernel moves to make `value` of parameters alone; 0 where more is
  /// needed.
  double bytesFromParameters(mlir::Value value) const;
  bool isReadByBackwardProduct(mlir::Value value) const;
  bool endsProduct(mlir::Value value) const;
  Making makingOf(mlir::Value value) const;
  double secondsOf(mlir::Operation *op) const;
  /// Notes that the backward pass reads `value` at `place`.
  void touch(mlir::Value value, int64_t place);
  void drop(mlir::Value value, bool isAsked);
  std::vector<int64_t> profile() const;
  /// Bytes less at `place` when `value` goes, what that keeps alive there instead taken off.
  int64_t freedAt(int64_t place, mlir::Value value, const Making &making) const;

  mlir::Block &block;
  const llvm::DenseSet<mlir::Operation *> &forward;
  llvm::DenseSet<mlir::Value> held;
  const machine::Machine &machine;
  llvm::DenseMap<mlir::Operation *, int64_t> places;
  /// The last product of the backward pass that reads the gradient which its first one reads: what
  /// is read so far has just been made.
  int64_t firstProducts = -1;
  double secondsFromParameters = 0; ///< a byte that is moved to make values of parameters alone
  llvm::SmallVector<mlir::Value> values;            ///< held at first, in the order of the program
  llvm::DenseMap<mlir::Value, int64_t> lastForward; ///< the last forward op that reads a value
  llvm::DenseMap<mlir::Value, Range> backward;      ///< where the backward pass reads it
  llvm::DenseSet<mlir::Operation *> made;
  std::vector<Remade> chosen;
};

} // namespace nano
