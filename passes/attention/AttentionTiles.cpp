// Emission of the attention kernels' parts: packing, register-blocked products, loops and searches.
#include "passes/attention/AttentionTiles.h"

#include "passes/emit/Loops.h"
#include "passes/emit/TaskOperands.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/IRMapping.h"

#include <algorithm>

using namespace mlir;

namespace nano::kernels {

AttentionTiles::AttentionTiles(KernelFrame &frame, RankedTensorType queries,
                               RankedTensorType values, ArrayRef<Value> operands)
    : frame(frame), v(frame.builder, frame.loc, frame.options.lanes), b(frame.builder),
      loc(frame.loc), tokens(queries.getDimSize(0)), heads(queries.getDimSize(1)),
      keySize(queries.getDimSize(2)), valueSize(values.getDimSize(2)),
      largerSize(std::max(keySize, valueSize)), sharing(heads / values.getDimSize(1)),
      lanes(frame.options.lanes), inPairs(arePairs(frame, operands)),
      inTiles(inPairs && frame.options.hasTiles && keySize % 32 == 0 && valueSize % 32 == 0),
      together(inTiles   ? 32
               : inPairs ? 2
                         : 1),
      registerRows(inTiles ? 16 : 6), registerVectors(lanes >= 16 ? 4 : 2),
      panelColumns(registerVectors * lanes) {}

bool AttentionTiles::arePairs(const KernelFrame &frame, ArrayRef<Value> operands) {
  return frame.options.hasPairs && llvm::all_of(operands, [](Value operand) {
           auto type = cast<MemRefType>(operand.getType());
           return type.getElementType().isBF16() && stridesOf(type).back() == 1;
         });
}

int64_t AttentionTiles::vectorsOf(int64_t size) const { return llvm::divideCeil(size, lanes); }

int64_t AttentionTiles::rowTokens() const {
  return llvm::alignTo(std::min<int64_t>(tokens, 96), registerRows);
}

int64_t AttentionTiles::columnTokens() const {
  int64_t fitting = std::clamp<int64_t>(16384 / largerSize / panelColumns * panelColumns, 64, 256);
  return llvm::alignTo(std::min(tokens, fitting), panelColumns);
}

//===- Arguments ----------------------------------------------------------===//

SmallVector<HeadOperand> AttentionTiles::resultsOf(Value value) {
  SmallVector<HeadOperand> results;
  for (Value argument : argumentsOfResult(frame, value))
    results.push_back(headOperand(argument));
  return results;
}

HeadOperand AttentionTiles::headOperand(Value argument) {
  auto type = cast<MemRefType>(argument.getType());
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t element = strides.size() > 2 ? strides[2] : 1;
  return {frame.flat(argument), v.index(strides[0]), v.index(strides[1]),
          v.index(element),     element == 1,        strides.size() > 2 ? type.getDimSize(2) : 1};
}

HeadOperand AttentionTiles::pick(Value condition, const HeadOperand &a, const HeadOperand &c) {
  auto select = [&](Value x, Value y) -> Value {
    return x == y ? x : arith::SelectOp::create(b, loc, condition, x, y);
  };
  auto anySize = [&](Value flat) -> Value {
    auto type =
        MemRefType::get({ShapedType::kDynamic}, cast<MemRefType>(flat.getType()).getElementType());
    return flat.getType() == type ? flat : memref::CastOp::create(b, loc, type, flat);
  };
  return {select(anySize(a.flat), anySize(c.flat)),
          select(a.token, c.token),
          select(a.head, c.head),
          select(a.element, c.element),
          a.contiguous && c.contiguous,
          a.size};
}

Value AttentionTiles::placeOf(const HeadOperand &x, Value head, Value token, Value column) {
  auto times = [&](Value a, Value c) -> Value {
    if (auto factor = getConstantIntValue(c))
      return v.mul(a, *factor);
    return arith::MulIOp::create(b, loc, a, c);
  };
  return v.add(v.add(times(token, x.token), times(head, x.head)), times(column, x.element));
}

Value AttentionTiles::indexAt(Value argument, Value t) {
  int64_t stride = stridesOf(cast<MemRefType>(argument.getType()))[0];
  return arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                    v.loadScalar(frame.flat(argument), v.mul(t, stride)));
}

//===- Control flow -------------------------------------------------------===//

void AttentionTiles::loop(Value from, Value to, int64_t step, function_ref<void(Value)> body) {
  loop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

SmallVector<Value> AttentionTiles::loop(Value from, Value to, int64_t step, ValueRange inits,
                                        function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  return emitLoop(b, loc, from, to, step, inits, body);
}

void AttentionTiles::branch(Value condition, function_ref<void()> yes, function_ref<void()> no) {
  auto ifOp = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/bool(no));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  yes();
  if (!no)
    return;
  b.setInsertionPointToStart(ifOp.elseBlock());
  no();
}

Value AttentionTiles::minimum(Value a, Value c) { return arith::MinSIOp::create(b, loc, a, c); }
Value AttentionTiles::maximum(Value a, Value c) { return arith::MaxSIOp::create(b, loc, a, c); }
Value AttentionTiles::less(Value a, Value c) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, a, c);
}
Value AttentionTiles::lessEqual(Value a, Value c) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, a, c);
}
Value AttentionTiles::both(Value a, Value c) { return arith::AndIOp::create(b, loc, a, c); }
Value AttentionTiles::toI32(Value index) {
  return arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
}

Value AttentionTiles::countBelow(Value argument, Value bound) {
  // count + step is tried for every power of two from the highest on: the elements before it are
  // below the bound if its last one is.
  Value flat = frame.flat(argument), total = v.index(tokens);
  int64_t stride = stridesOf(cast<MemRefType>(argument.getType()))[0];
  int64_t bits = llvm::Log2_64(tokens) + 1;
  return loop(v.index(0), v.index(bits), 1, v.index(0),
              [&](Value i, ValueRange counts) -> SmallVector<Value> {
                Value step = arith::ShRUIOp::create(b, loc, v.index(int64_t(1) << (bits - 1)), i);
                Value tried = v.add(counts[0], step);
                Value at = v.sub(minimum(tried, total), v.index(1));
                Value below = less(v.loadScalar(flat, v.mul(at, stride)), bound);
                return {arith::SelectOp::create(b, loc, both(below, lessEqual(tried, total)), tried,
                                                counts[0])};
              })[0];
}

void AttentionTiles::forPanels(int64_t size, function_ref<void(Value, int64_t)> body) {
  int64_t whole = vectorsOf(size) / registerVectors, rest = vectorsOf(size) % registerVectors;
  if (whole == 1)
    body(v.index(0), registerVectors);
  else if (whole > 1)
    loop(v.index(0), v.index(whole), 1, [&](Value panel) { body(panel, registerVectors); });
  if (rest > 0)
    body(v.index(whole), rest);
}

//===- Tiles --------------------------------------------------------------===//

RowTile AttentionTiles::allocateRows(int64_t rows, int64_t size, int64_t count) {
  return {frame.allocate(count * rows * padded(size), b.getF32Type()), padded(size), size};
}

RowTile AttentionTiles::allocateFactors(int64_t rows, int64_t size, int64_t count) {
  const int64_t stride = padded(stepsOf(size));
  return {frame.allocate(count * rows * stride, factorType()), stride, size};
}

PanelTile AttentionTiles::allocatePanels(int64_t rows, int64_t size, int64_t count) {
  return {frame.allocate(count * panelElements(rows, size), factorType()),
          stepsOf(rows) * panelColumns, size};
}

PanelTile AttentionTiles::allocateTransposed(int64_t columns, int64_t size, int64_t count) {
  return {frame.allocate(count * transposedElements(columns, size), factorType()),
          stepsOf(size) * panelColumns};
}

Value AttentionTiles::offsetBy(Value offset, Value at) { return offset ? v.add(offset, at) : at; }

Value AttentionTiles::sizeMask(int64_t size, int64_t vector) {
  int64_t left = size - vector * lanes;
  return left >= lanes ? Value() : v.maskBelow(v.index(left));
}

Value AttentionTiles::elementOffsets(const HeadOperand &x) {
  return v.muli(v.laneNumbers(), toI32(x.element));
}

Value AttentionTiles::loadVector(const HeadOperand &x, Value head, Value row, int64_t vector) {
  Value at = placeOf(x, head, row, v.index(vector * lanes));
  return x.contiguous ? v.load(x.flat, at, sizeMask(x.size, vector))
                      : v.gather(x.flat, at, elementOffsets(x), sizeMask(x.size, vector));
}

Value AttentionTiles::loadWords(const HeadOperand &x, Value head, Value row, Value column,
                                int64_t columns) {
  const auto type = VectorType::get({2 * lanes}, b.getBF16Type());
  const Value at = placeOf(x, head, row, column);
  Value pairs;
  if (columns >= 2 * lanes) {
    pairs = vector::LoadOp::create(b, loc, type, x.flat, ValueRange{at});
  } else {
    const Value mask = vector::CreateMaskOp::create(
                    b, loc, VectorType::get({2 * lanes}, b.getI1Type()), v.index(columns)),
                zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    pairs = vector::MaskedLoadOp::create(b, loc, type, x.flat, ValueRange{at}, mask, zero);
  }
  return vector::BitCastOp::create(b, loc, v.vectorOf(b.getI32Type()), pairs);
}

void AttentionTiles::storeVector(Value value, const HeadOperand &x, Value head, Value row,
                                 int64_t vector) {
  Value at = placeOf(x, head, row, v.index(vector * lanes));
  if (x.contiguous)
    v.store(value, x.flat, at, sizeMask(x.size, vector));
  else
    v.scatter(value, x.flat, at, elementOffsets(x), sizeMask(x.size, vector));
}

void AttentionTiles::packRows(const RowTile &tile, const HeadOperand &x, Value head, Value first,
                              Value valid, Value rows, Value scale) {
  Value last = v.sub(v.add(first, valid), v.index(1));
  loop(v.index(0), rows, 1, [&](Value r) {
    Value row = minimum(v.add(first, r), last), at = offsetBy(tile.offset, v.mul(r, tile.stride));
    if (inPairs) {
      for (int64_t j = 0; j < x.size; j += 2 * lanes)
        v.store(loadWords(x, head, row, v.index(j), x.size - j), tile.memory,
                v.add(at, v.index(j / 2)));
      return;
    }
    for (int64_t j = 0; j < vectorsOf(x.size); ++j)
      v.store(v.mulf(loadVector(x, head, row, j), scale), tile.memory,
              v.add(at, v.index(j * lanes)));
  });
}

void AttentionTiles::packPanels(const PanelTile &tile, const HeadOperand &x, Value head,
                                Value first, Value valid) {
  auto store = [&](Value k, function_ref<Value(int64_t)> vectorOf) {
    for (int64_t j = 0; j < vectorsOf(x.size); ++j) {
      int64_t panel = j / registerVectors,
              vectors = std::min(registerVectors, vectorsOf(x.size) - panel * registerVectors);
      Value at = offsetBy(tile.offset, v.mul(k, vectors * lanes));
      v.store(vectorOf(j), tile.memory,
              v.add(at, v.index(panel * tile.panelStride + j % registerVectors * lanes)));
    }
  };
  if (!inPairs)
    return loop(v.index(0), valid, 1, [&](Value k) {
      Value row = v.add(first, k);
      store(k, [&](int64_t j) { return loadVector(x, head, row, j); });
    });
  auto halves = [&](Value row, int64_t j) {
    return v.shiftRight(v.bits(loadVector(x, head, row, j)), v.i32(16));
  };
  loop(v.index(0), v.div(valid, 2), 1, [&](Value k) {
    Value row = v.add(first, v.mul(k, 2));
    store(k, [&](int64_t j) {
      return v.ori(halves(row, j), v.bits(loadVector(x, head, v.add(row, v.index(1)), j)));
    });
  });
  branch(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, v.rem(valid, 2), v.index(0)), [&] {
    Value last = v.sub(valid, v.index(1));
    store(v.div(valid, 2), [&](int64_t j) { return halves(v.add(first, last), j); });
  });
  if (!inTiles)
    return;
  const Value steps = v.div(v.add(valid, v.index(1)), 2);
  const Value whole = v.mul(v.div(v.add(valid, v.index(together - 1)), together), together / 2);
  loop(steps, whole, 1, [&](Value k) { store(k, [&](int64_t) { return v.splat(v.i32(0)); }); });
}

SmallVector<Value> AttentionTiles::transpose(SmallVector<Value> rows) {
  // Blocks off the diagonal change places: halves of the matrix, then quarters, and so on.
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    SmallVector<int64_t> lower, upper;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      bool right = lane & half;
      lower.push_back(right ? lanes + lane - half : lane);
      upper.push_back(right ? lanes + lane : lane + half);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & half)
        continue;
      Value a = rows[i], c = rows[i + half];
      rows[i] = vector::ShuffleOp::create(b, loc, a, c, lower);
      rows[i + half] = vector::ShuffleOp::create(b, loc, a, c, upper);
    }
  }
  return rows;
}

void AttentionTiles::packTransposed(const PanelTile &tile, const HeadOperand &x, Value head,
                                    Value first, Value valid) {
  Value last = v.sub(v.add(first, valid), v.index(1));
  loop(v.index(0), valid, lanes, [&](Value group) {
    Value panel = v.div(group, panelColumns);
    Value base =
        v.add(offsetBy(tile.offset, v.mul(panel, tile.panelStride)), v.rem(group, panelColumns));
    SmallVector<Value> rows;
    for (int64_t i = 0; i < lanes; ++i)
      rows.push_back(minimum(v.add(v.add(first, group), v.index(i)), last));
    const int64_t side = inPairs ? 2 * lanes : lanes; // elements of a row of a square
    auto square = [&](Value column, int64_t columns) {
      SmallVector<Value> values;
      for (Value row : rows) {
        if (inPairs) {
          values.push_back(loadWords(x, head, row, column, columns));
          continue;
        }
        Value at = placeOf(x, head, row, column),
              mask = columns < lanes ? v.maskBelow(v.index(columns)) : Value();
        values.push_back(x.contiguous ? v.load(x.flat, at, mask)
                                      : v.gather(x.flat, at, elementOffsets(x), mask));
      }
      values = transpose(values);
      Value at = v.add(base, v.mul(v.div(column, side / lanes), panelColumns));
      for (int64_t d = 0; d < stepsOf(columns); ++d)
        v.store(values[d], tile.memory, v.add(at, v.index(d * panelColumns)));
    };
    int64_t whole = x.size / side * side;
    if (whole > 0)
      loop(v.index(0), v.index(whole), side, [&](Value column) { square(column, side); });
    if (whole < x.size)
      square(v.index(whole), x.size - whole);
  });
}

//===- Products -----------------------------------------------------------===//

SmallVector<Value> AttentionTiles::zeros(int64_t vectors) {
  return SmallVector<Value>(registerRows * vectors, v.splat(v.f32(0)));
}

SmallVector<Value> AttentionTiles::product(ValueRange accumulators, const RowTile &left, Value row,
                                           const PanelTile &right, Value panel, IndexRange range,
                                           int64_t vectors) {
  Value leftAt = offsetBy(left.offset, v.mul(row, left.stride)),
        rightAt = offsetBy(right.offset, v.mul(panel, right.panelStride));
  return loop(range.begin, range.end, 1, accumulators, [&](Value k, ValueRange sums) {
    SmallVector<Value> columns, next;
    Value at = v.add(rightAt, v.mul(k, vectors * lanes));
    for (int64_t j = 0; j < vectors; ++j)
      columns.push_back(v.load(right.memory, v.add(at, v.index(j * lanes))));
    Value element = v.add(leftAt, k);
    auto asPairs = [&](Value words) -> Value {
      const auto type = VectorType::get({2 * lanes}, b.getBF16Type());
      return inPairs ? vector::BitCastOp::create(b, loc, type, words) : words;
    };
    for (Value &column : columns)
      column = asPairs(column);
    for (int64_t r = 0; r < registerRows; ++r) {
      Value factor =
          asPairs(v.splat(v.loadScalar(left.memory, v.add(element, v.index(r * left.stride)))));
      for (int64_t j = 0; j < vectors; ++j) {
        Value sum = sums[r * vectors + j];
        next.push_back(inPairs ? x86vector::DotBF16Op::create(b, loc, sum, factor, columns[j])
                               : v.fma(factor, columns[j], sum));
      }
    }
    return next;
  });
}

IndexRange AttentionTiles::wholePanels(IndexRange columns) {
  Value last = v.div(v.add(columns.end, v.index(panelColumns - 1)), panelColumns);
  return {v.mul(v.div(columns.begin, panelColumns), panelColumns), v.mul(last, panelColumns)};
}

void AttentionTiles::multiply(const RowTile &tile, const RowTile &left, Value row,
                              const PanelTile &right, IndexRange columns, Value scale) {
  IndexRange whole = wholePanels(columns);
  if (inTiles)
    return multiplyTiles(tile, left, row, right, whole, scale);
  loop(whole.begin, whole.end, panelColumns, [&](Value column) {
    Value at = offsetBy(tile.offset, column);
    SmallVector<Value> sums =
        product(zeros(registerVectors), left, row, right, v.div(column, panelColumns),
                {v.index(0), v.index(stepsOf(left.size))}, registerVectors);
    for (int64_t i = 0; i < int64_t(sums.size()); ++i) {
      int64_t offset = i / registerVectors * tile.stride + i % registerVectors * lanes;
      v.store(inPairs ? v.mulf(sums[i], scale) : sums[i], tile.memory, v.add(at, v.index(offset)));
    }
  });
}

void AttentionTiles::storeFactor(Value vector, const RowTile &tile, Value row, Value column) {
  Value at = offsetBy(tile.offset, v.mul(row, tile.stride));
  if (!inPairs)
    return v.store(vector, tile.memory, v.add(at, column));
  const Value words = vector::BitCastOp::create(
      b, loc, VectorType::get({lanes / 2}, b.getI32Type()), v.narrowed(vector, b.getBF16Type()));
  v.store(words, tile.memory, v.add(at, v.div(column, 2)));
}

void AttentionTiles::accumulate(const RowTile &sums, Value row, const RowTile &left,
                                const PanelTile &right, IndexRange range, Value factors) {
  if (inTiles)
    return accumulateTiles(sums, row, left, right, range, factors);
  if (inPairs)
    range = {v.div(range.begin, 2), v.div(v.add(range.end, v.index(1)), 2)};
  forPanels(right.size, [&](Value panel, int64_t vectors) {
    Value at = v.add(offsetBy(sums.offset, v.mul(row, sums.stride)), v.mul(panel, panelColumns));
    auto place = [&](int64_t i) {
      return v.add(at, v.index(i / vectors * sums.stride + i % vectors * lanes));
    };
    SmallVector<Value> values;
    for (int64_t r = 0; r < registerRows; ++r) {
      Value factor = factors ? v.splat(v.loadScalar(factors, v.index(r))) : Value();
      for (int64_t j = 0; j < vectors; ++j) {
        Value value = v.load(sums.memory, place(r * vectors + j));
        values.push_back(factor ? v.mulf(value, factor) : value);
      }
    }
    values = product(values, left, v.index(0), right, panel, range, vectors);
    for (int64_t i = 0; i < registerRows * vectors; ++i)
      v.store(values[i], sums.memory, place(i));
  });
}

//===- Products by AMX ----------------------------------------------------===//

Value AttentionTiles::loadTile(Value memory, Value at, int64_t stride) {
  const auto type = amx::TileType::get({16, 32}, b.getBF16Type());
  return amx::TileLoadOp::create(b, loc, type, memory, ValueRange{at}, v.index(stride));
}

void AttentionTiles::multiplyTiles(const RowTile &tile, const RowTile &left, Value row,
                                   const PanelTile &right, IndexRange whole, Value scale) {
  const auto sumsType = amx::TileType::get({16, 16}, b.getF32Type());
  const Value leftAt = offsetBy(left.offset, v.mul(row, left.stride));
  loop(whole.begin, whole.end, panelColumns, [&](Value column) {
    const Value at = offsetBy(tile.offset, column),
                rightAt =
                    offsetBy(right.offset, v.mul(v.div(column, panelColumns), right.panelStride));
    SmallVector<Value> sums;
    for (int64_t j = 0; j < registerVectors; ++j)
      sums.push_back(amx::TileZeroOp::create(b, loc, sumsType));
    for (int64_t k = 0; k < left.size; k += together) {
      const Value rows = loadTile(left.memory, v.add(leftAt, v.index(k / 2)), left.stride);
      for (int64_t j = 0; j < registerVectors; ++j) {
        const Value columns = loadTile(
            right.memory, v.add(rightAt, v.index(k / 2 * panelColumns + j * lanes)), panelColumns);
        sums[j] = amx::TileMulFOp::create(b, loc, sumsType, rows, columns, sums[j]);
      }
    }
    for (int64_t j = 0; j < registerVectors; ++j)
      amx::TileStoreOp::create(b, loc, tile.memory, ValueRange{v.add(at, v.index(j * lanes))},
                               sums[j], v.index(tile.stride));
    loop(v.index(0), v.index(registerRows), 1, [&](Value r) {
      for (int64_t j = 0; j < registerVectors; ++j) {
        const Value place = v.add(v.add(at, v.mul(r, tile.stride)), v.index(j * lanes));
        v.store(v.mulf(v.load(tile.memory, place), scale), tile.memory, place);
      }
    });
  });
}

void AttentionTiles::accumulateTiles(const RowTile &sums, Value row, const RowTile &left,
                                     const PanelTile &right, IndexRange range, Value factors) {
  const auto sumsType = amx::TileType::get({16, 16}, b.getF32Type());
  const Value begin = v.mul(v.div(range.begin, together), together / 2),
              end = v.mul(v.div(v.add(range.end, v.index(together - 1)), together), together / 2);
  forPanels(right.size, [&](Value panel, int64_t vectors) {
    const Value at = v.add(offsetBy(sums.offset, v.mul(row, sums.stride)),
                           v.mul(panel, panelColumns)),
                leftAt = offsetBy(left.offset, v.index(0)),
                rightAt = offsetBy(right.offset, v.mul(panel, right.panelStride));
    if (factors)
      loop(v.index(0), v.index(registerRows), 1, [&](Value r) {
        const Value factor = v.splat(v.loadScalar(factors, r));
        for (int64_t j = 0; j < vectors; ++j) {
          const Value place = v.add(v.add(at, v.mul(r, sums.stride)), v.index(j * lanes));
          v.store(v.mulf(v.load(sums.memory, place), factor), sums.memory, place);
        }
      });
    SmallVector<Value> values;
    for (int64_t j = 0; j < vectors; ++j)
      values.push_back(amx::TileLoadOp::create(b, loc, sumsType, sums.memory,
                                               ValueRange{v.add(at, v.index(j * lanes))},
                                               v.index(sums.stride)));
    values = loop(begin, end, together / 2, values, [&](Value k, ValueRange earlier) {
      SmallVector<Value> next;
      const Value rows = loadTile(left.memory, v.add(leftAt, k), left.stride),
                  rightRow = v.add(rightAt, v.mul(k, vectors * lanes));
      for (int64_t j = 0; j < vectors; ++j) {
        const Value columns =
            loadTile(right.memory, v.add(rightRow, v.index(j * lanes)), vectors * lanes);
        next.push_back(amx::TileMulFOp::create(b, loc, sumsType, rows, columns, earlier[j]));
      }
      return next;
    });
    for (int64_t j = 0; j < vectors; ++j)
      amx::TileStoreOp::create(b, loc, sums.memory, ValueRange{v.add(at, v.index(j * lanes))},
                               values[j], v.index(sums.stride));
  });
}

//===- Score regions ------------------------------------------------------===//

FailureOr<Value> AttentionTiles::apply(Region &region, ValueRange arguments, Value otherwise) {
  if (region.empty())
    return otherwise;
  IRMapping values;
  values.map(region.front().getArguments(), arguments);
  for (Operation &op : region.front().without_terminator()) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values.lookup(operand));
    FailureOr<Value> result = v.elementwise(&op, operands);
    if (failed(result))
      return failure();
    values.map(op.getResult(0), *result);
  }
  return v.splat(values.lookup(region.front().getTerminator()->getOperand(0)));
}

} // namespace nano::kernels
