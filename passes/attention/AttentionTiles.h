// What the attention kernels are made of: operands of one head, packing into tiles, products of
// tiles, key ranges, score regions. Tiles lie in scratch memory; a product of tiles keeps its
// result in registers (`registerRows` × up to `registerVectors`). Tiles are f32; where all operands
// are bf16 and the processor multiplies pairs of these, the factors of products are words of two,
// neighbours along the contraction, and what is computed between products is rounded to bf16. AMX
// multiplies 16 × 32 by 32 × 16 of them in registers of its own.
#pragma once

#include "passes/emit/KernelEmitter.h"
#include "passes/emit/VectorOps.h"

#include "llvm/Support/MathExtras.h"

namespace nano::kernels {

/// A memref argument [T, H, D] or [T, H] in memory, D the size of a head of keys or of values;
/// elements of token t, head h and column d are at t·token + h·head + d·element (all of index
/// type).
struct HeadOperand {
  mlir::Value flat;
  mlir::Value token, head, element;
  bool contiguous = true; ///< element is 1
  int64_t size = 1;       ///< D
};

/// A tile of rows in scratch, row r at offset + r·stride. Offsets and strides of this and the next
/// count what the memory holds, f32 or words.
struct RowTile {
  mlir::Value memory;
  int64_t stride = 0;
  int64_t size = 0;        ///< elements of a row: of a left operand, those of the contraction
  mlir::Value offset = {}; ///< null: 0
};

/// The right operand of a product, [contraction, columns], in panels of up to `registerVectors`
/// vectors of columns that are contiguous: panel p is at offset + p·panelStride, its row k (two
/// rows, of words) at k·(the panel's columns).
struct PanelTile {
  mlir::Value memory;
  int64_t panelStride = 0;
  int64_t size = 0;        ///< columns, of tiles that are not transposed
  mlir::Value offset = {}; ///< null: 0
};

/// A range [begin, end) of indices.
struct IndexRange {
  mlir::Value begin, end;
};

/// Emits at `frame.builder`. T, H, Dh, Dv are those of the attention op.
class AttentionTiles {
public:
  /// `operands`: the arguments that are factors of products.
  AttentionTiles(KernelFrame &frame, mlir::RankedTensorType queries, mlir::RankedTensorType values,
                 mlir::ArrayRef<mlir::Value> operands);

  KernelFrame &frame;
  VectorOps v;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const int64_t tokens, heads, keySize, valueSize; ///< T, H, Dh, Dv
  const int64_t largerSize;                        ///< of Dh and Dv
  const int64_t sharing; ///< H/Hk: heads of queries that share one of keys
  const int64_t lanes;
  const bool inPairs;            ///< factors of products are words of two bf16 numbers
  const bool inTiles;            ///< and AMX multiplies them
  const int64_t together;        ///< elements of a contraction that are multiplied at once
  const int64_t registerRows;    ///< rows of a product in registers
  const int64_t registerVectors; ///< its vectors of columns: 4 with 32 vector registers, 2 with 16
  const int64_t panelColumns;    ///< registerVectors · lanes

  int64_t vectorsOf(int64_t size) const; ///< that hold a row of `size` elements
  int64_t padded(int64_t size) const { return vectorsOf(size) * lanes; }
  /// What a contraction over `size` elements has: elements, or words of two.
  int64_t stepsOf(int64_t size) const { return inPairs ? (size + 1) / 2 : size; }
  /// Tokens of a block whose tiles are packed as rows: many enough that packing the other side
  /// costs little beside the products.
  int64_t rowTokens() const;
  /// Tokens of a block whose tiles are packed as panels: tiles of 64 KB, which stay in the
  /// second-level cache.
  int64_t columnTokens() const;

  // Arguments.
  /// The arguments that the op's result `value` is written to: none when the task does not yield
  /// it.
  llvm::SmallVector<HeadOperand> resultsOf(mlir::Value value);
  HeadOperand headOperand(mlir::Value argument);
  /// `a` where the condition (i1) holds, else `c`.
  HeadOperand pick(mlir::Value condition, const HeadOperand &a, const HeadOperand &c);
  /// Where element (token, head, column) lies.
  mlir::Value placeOf(const HeadOperand &x, mlir::Value head, mlir::Value token,
                      mlir::Value column);
  /// Element t of an i32 [T] argument, as an index.
  mlir::Value indexAt(mlir::Value argument, mlir::Value t);

  // Control flow.
  void loop(mlir::Value from, mlir::Value to, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value from, mlir::Value to, int64_t step, mlir::ValueRange inits,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  void branch(mlir::Value condition, llvm::function_ref<void()> yes,
              llvm::function_ref<void()> no = nullptr);
  mlir::Value minimum(mlir::Value a, mlir::Value c); ///< of indices, signed
  mlir::Value maximum(mlir::Value a, mlir::Value c);
  mlir::Value less(mlir::Value a, mlir::Value c);      ///< a < c, signed
  mlir::Value lessEqual(mlir::Value a, mlir::Value c); ///< a ≤ c, signed
  mlir::Value both(mlir::Value a, mlir::Value c);
  mlir::Value toI32(mlir::Value index);
  /// The number of elements of the non-decreasing i32 [T] argument that are below `bound` (i32).
  mlir::Value countBelow(mlir::Value argument, mlir::Value bound);
  /// Calls `body` for each panel of a row of `size` columns: the panel's number and its vectors.
  void forPanels(int64_t size, llvm::function_ref<void(mlir::Value panel, int64_t vectors)> body);

  // Tiles.
  /// `count` tiles of sums, f32: `rows` rows of `size` elements, each padded to whole vectors.
  RowTile allocateRows(int64_t rows, int64_t size, int64_t count = 1);
  /// `count` left operands of products, likewise.
  RowTile allocateFactors(int64_t rows, int64_t size, int64_t count = 1);
  /// What a tile of `allocatePanels` takes.
  int64_t panelElements(int64_t rows, int64_t size) const { return stepsOf(rows) * padded(size); }
  /// What a tile of `allocateTransposed` takes.
  int64_t transposedElements(int64_t columns, int64_t size) const {
    return llvm::alignTo(columns, panelColumns) * stepsOf(size);
  }
  /// `count` tiles with a contraction over `rows` rows, of `size` columns.
  PanelTile allocatePanels(int64_t rows, int64_t size, int64_t count = 1);
  /// `count` tiles with a contraction over `size` elements, of `columns` columns.
  PanelTile allocateTransposed(int64_t columns, int64_t size, int64_t count = 1);
  mlir::Value offsetBy(mlir::Value offset, mlir::Value at); ///< at + offset; a null offset is 0
  /// Elements of token `row` of the operand, vector number `vector` (static); lanes past its size
  /// read as 0.
  mlir::Value loadVector(const HeadOperand &x, mlir::Value head, mlir::Value row, int64_t vector);
  void storeVector(mlir::Value value, const HeadOperand &x, mlir::Value head, mlir::Value row,
                   int64_t vector);
  /// tile[r, :] ← scale (f32) · x[first + r, head, :] for r < rows; rows at or past `valid` (≥ 1)
  /// repeat the last valid one. Pairs are not scaled, as that would round them: `multiply` scales.
  void packRows(const RowTile &tile, const HeadOperand &x, mlir::Value head, mlir::Value first,
                mlir::Value valid, mlir::Value rows, mlir::Value scale);
  /// tile[k, d] ← x[first + k, head, d] for k < valid; what completes the last elements that are
  /// multiplied together is 0.
  void packPanels(const PanelTile &tile, const HeadOperand &x, mlir::Value head, mlir::Value first,
                  mlir::Value valid);
  /// tile[d, c] ← x[first + c, head, d] for c < valid; columns from there on are undefined.
  void packTransposed(const PanelTile &tile, const HeadOperand &x, mlir::Value head,
                      mlir::Value first, mlir::Value valid);

  // Products.
  /// `registerRows` × `vectors` zero vectors.
  llvm::SmallVector<mlir::Value> zeros(int64_t vectors);
  /// tile[row, column…] ← a vector of f32, where the tile is a left operand of a product.
  void storeFactor(mlir::Value vector, const RowTile &tile, mlir::Value row, mlir::Value column);
  /// accumulators[r · vectors + j] += Σ k in range: left[row + r, k] · right[panel][k, j]: in order
  /// of k, with fused multiply-adds; the range is of what the contraction has.
  llvm::SmallVector<mlir::Value> product(mlir::ValueRange accumulators, const RowTile &left,
                                         mlir::Value row, const PanelTile &right, mlir::Value panel,
                                         IndexRange range, int64_t vectors);
  /// tile[r, panel] ← left[row + r, :] · right[:, panel] for the panels that hold the columns in
  /// range; contraction over a row of `left`. In pairs times `scale`.
  void multiply(const RowTile &tile, const RowTile &left, mlir::Value row, const PanelTile &right,
                IndexRange columns, mlir::Value scale);
  /// sums[row + r, :] ← factors[r] · sums[row + r, :] + left[r, range] · right[range, :]; without
  /// `factors` 1. Where elements are multiplied together, what `left` holds of these beside the
  /// range must be 0.
  void accumulate(const RowTile &sums, mlir::Value row, const RowTile &left, const PanelTile &right,
                  IndexRange range, mlir::Value factors = {});
  /// Columns rounded out to whole panels.
  IndexRange wholePanels(IndexRange columns);

  /// The region (score, query, key, head[, gradient]) → score on f32 vectors; an empty region gives
  /// `otherwise`.
  mlir::FailureOr<mlir::Value> apply(mlir::Region &region, mlir::ValueRange arguments,
                                     mlir::Value otherwise);

private:
  /// The same as `multiply` and `accumulate`, by AMX.
  void multiplyTiles(const RowTile &tile, const RowTile &left, mlir::Value row,
                     const PanelTile &right, IndexRange whole, mlir::Value scale);
  void accumulateTiles(const RowTile &sums, mlir::Value row, const RowTile &left,
                       const PanelTile &right, IndexRange range, mlir::Value factors);
  /// 16 rows of 32 factors, or 16 rows of as many pairs of them, `stride` words apart.
  mlir::Value loadTile(mlir::Value memory, mlir::Value at, int64_t stride);
  /// Whether arguments are bf16 and contiguous along heads, and the processor multiplies pairs.
  static bool arePairs(const KernelFrame &frame, mlir::ArrayRef<mlir::Value> operands);
  mlir::Type factorType() { return inPairs ? mlir::Type(b.getI32Type()) : b.getF32Type(); }
  /// From `column` on, `lanes` words of two elements; elements past `columns` read as 0.
  mlir::Value loadWords(const HeadOperand &x, mlir::Value head, mlir::Value row, mlir::Value column,
                        int64_t columns);
  llvm::SmallVector<mlir::Value> transpose(llvm::SmallVector<mlir::Value> rows);
  /// Of a row of `size` elements; null where all lanes are inside.
  mlir::Value sizeMask(int64_t size, int64_t vector);
  mlir::Value elementOffsets(const HeadOperand &x); ///< lane · element
};

} // namespace nano::kernels
