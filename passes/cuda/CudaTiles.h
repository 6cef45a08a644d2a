// How kernels for CUDA write outputs that lie transposed: the threads of a block gather rows in
// shared memory and write them along their columns.
#pragma once

#include "passes/row/RowForm.h"

namespace nano::kernels {

struct CudaRowLayout;

struct CudaTiles {
  /// Tile: a block computes `rows` rows × `columns` columns; tiles are the launch's iterations.
  /// Strip: a block computes `rows` whole rows, tile by tile; for reductions that no element
  /// depends on. A row's threads carry those of rows from tile to tile; where columns are summed, a
  /// block goes through all rows of an iteration, `rows` at a time, and has the sums in shared
  /// memory. Rows: a block gathers `rows` whole rows, each computed as in a row kernel.
  enum class Kind { Tile, Strip, Rows };
  Kind kind = Kind::Tile;

  /// An output that lies transposed.
  struct Output {
    unsigned index = 0;
    int64_t stride = 1;       ///< elements between neighbouring columns
    int64_t matrixRows = 0;   ///< a batch: rows of a matrix, a multiple of `rows`; else 0
    int64_t matrixStride = 0; ///< a batch: elements between matrices
    int64_t alignment = 1;    ///< bytes that the first element of each of a block's columns is a
                              ///< multiple of, at most 16
  };
  llvm::SmallVector<Output, 2> outputs;

  int64_t rows = 32;     ///< of a block, gathered together
  int64_t columns = 128; ///< gathered together; Rows: those of a row
  int64_t lanes = 8;     ///< elements of one access
  int64_t threads = 256; ///< Tile, Strip: of a block
  int64_t ahead = 1;     ///< Tile, Strip: rows whose operands a thread reads before it computes
  int64_t blocks = 0;    ///< that a multiprocessor must have registers for; 0: any number
  bool isWhole = false;  ///< every block has all of its rows
  int64_t buffers = 1;   ///< Strip: tiles that shared memory has room for: with two, threads
                         ///< compute the next one while others are still at work on the last
  int64_t jobs = 1;      ///< Strip: what is done with a gathered tile, by threads of its own as far
                         ///< as they go: each output is written, each sum of columns added up

  /// How the task's outputs that lie transposed can be written by its own kernel; nothing when
  /// there are none, or it cannot, and in `why` then what the kernel does that keeps it from that.
  /// Equal for tasks with equal rowKey and `key`.
  static std::optional<CudaTiles> of(step::TaskOp task, const RowForm &form,
                                     std::string *why = nullptr);

  /// Rows: gathered rows are taken in turn. More of them at a time hide the wait at the end, unless
  /// their operands take a large part of a multiprocessor's registers.
  void widenBlock(CudaRowLayout &layout, step::TaskOp task, const RowForm &form) const;

  /// What the kernel depends on beside rowKey.
  std::string key(const RowForm &form) const;
  /// Size of the launch's iteration space.
  int64_t iterations(const RowForm &form) const;

  /// Tile, Strip: threads of a row, and rows that are computed at a time.
  int64_t group() const { return columns / lanes; }
  int64_t groups() const { return threads / group(); }
  /// The first thread of a job: of an output, or behind all of these of a sum of columns.
  int64_t firstThread(int64_t job) const { return job * threads / jobs / 32 * 32; }
  /// Elements from a gathered row to the next: 128 bytes, or a multiple.
  int64_t strideOf(mlir::Type element) const;
  /// Columns that stay side by side in shared memory (nano_tiles.h: TileShape::unit), as many as an
  /// access has or more; and how many of the rows lie so that a warp reads as many banks at once:
  /// the rows are such parts.
  int64_t unitOf(mlir::Type element) const;
  int64_t partRows(mlir::Type element) const;
  /// Rows that one access to a column writes.
  static int64_t rowsOfAccess(mlir::Type element) { return 16 / step::elementBytes(element); }
};

/// Of every row kernel for CUDA: the launch's number of iterations, and what the kernel depends on
/// beside rowKey.
int64_t cudaRowIterations(step::TaskOp task, const RowForm &form);
std::string cudaRowKey(step::TaskOp task, const RowForm &form);

/// True for a matrix, or a batch of them, whose columns are contiguous and rows are not.
bool liesTransposed(mlir::MemRefType type);
/// True when an output does.
bool hasTransposedOutputs(step::TaskOp task);

/// True when the value is computed from a row reduction, or from a column reduction.
bool isAfterRowReduce(mlir::Value value, const RowForm &form);
bool isAfterColumnReduce(mlir::Value value, const RowForm &form);

} // namespace nano::kernels
