// Products of 8-bit floats with scales, in tiles: operands expanded to bf16 or f32, which hold
// every 8-bit number exactly, oneDNN's product of the tiles in f32, scales applied to its f32 sums.
#include "runtime/NumberFormats.h"
#include "runtime/cpu/Matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>

namespace nano::cpu {
namespace {

using plan::DType;

/// Bytes that the copies of a tile of B, of a tile of A, and one tile of sums may take.
constexpr int64_t copyBytesB = int64_t(128) << 20, copyBytesA = int64_t(16) << 20,
                  sumBytes = int64_t(32) << 20;
/// Tiles are multiples of this many rows and columns, except the last ones.
constexpr int64_t tileUnit = 64;
/// Columns of a tile with block scales: its sums are read again for every block.
constexpr int64_t blockedColumns = 2048;

uint64_t padded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/// The largest tile up to `size` whose rows or columns of `each` bytes stay within `bytes`.
int64_t tileSize(int64_t size, int64_t each, int64_t bytes) {
  int64_t fit = bytes / each / tileUnit * tileUnit;
  return std::min(size, std::max(fit, tileUnit));
}

/// Bytes of an f8 type to numbers of the type that is multiplied.
class Expansion {
public:
  Expansion(DType from, DType to) : wide(to == DType::F32) {
    for (int bits = 0; bits < 256; ++bits) {
      auto byte = uint8_t(bits);
      float value = from == DType::F8E4M3FN ? fromE4m3(byte) : fromE5m2(byte);
      (wide ? floats : brief)[size_t(bits)] =
          wide ? std::bit_cast<uint32_t>(value) : uint32_t(toBf16(value));
    }
  }

  void expand(const uint8_t *from, int64_t count, void *to, int64_t at) const {
    if (wide)
      std::transform(from, from + count, static_cast<uint32_t *>(to) + at,
                     [&](uint8_t byte) { return floats[byte]; });
    else
      std::transform(from, from + count, static_cast<uint16_t *>(to) + at,
                     [&](uint8_t byte) { return uint16_t(brief[byte]); });
  }

private:
  bool wide;
  std::array<uint32_t, 256> floats = {}, brief = {};
};

class ScaledMatmul : public Matmul {
public:
  ScaledMatmul(const MatmulProblem &problem, const ThreadTeam &team, DType type)
      : p(problem), team(team), type(type), expansionA(p.aType, type), expansionB(p.bType, type) {
    int64_t each = p.k * int64_t(plan::sizeOf(type));
    int64_t block = p.scaleBlock ? p.scaleBlock : p.k;
    blocks = p.k / block;
    columns = tileSize(p.scaleBlock ? std::min(p.n, blockedColumns) : p.n, each, copyBytesB);
    rows = std::min(tileSize(p.m, each, copyBytesA), tileSize(p.m, 4 * columns, sumBytes));
    together = std::clamp<int64_t>(sumBytes / (4 * rows * columns), 1, blocks);
  }

  /// Makes the products of all tiles; false when the library has none.
  bool prepare() {
    for (int64_t m : {rows, p.m % rows})
      for (int64_t n : {columns, p.n % columns})
        for (int64_t count : {together, blocks % together})
          if (m && n && count && !prepare(m, n, count))
            return false;
    return true;
  }

  uint64_t scratchBytes() const override { return layout().end; }
  std::string implementation() const override {
    return std::string(type == DType::F32 ? "f32" : "bf16") + " tiles + " +
           products.begin()->second->implementation();
  }

  Status run(const MatmulOperands &operands, void *scratch) override {
    Layout at = layout();
    auto *base = static_cast<std::byte *>(scratch);
    Tile tile{operands,
              base,
              base + at.b,
              reinterpret_cast<float *>(base + at.sums),
              reinterpret_cast<float *>(base + at.total),
              reinterpret_cast<float *>(base + at.scales)};
    for (tile.column = 0; tile.column < p.n; tile.column += columns) {
      tile.columns = std::min(columns, p.n - tile.column);
      expand(p.transposeB, expansionB, operands.b, p.ldb, tile.column, tile.columns, tile.b);
      if (p.scaleBlock)
        spreadScalesB(tile);
      for (tile.row = 0; tile.row < p.m; tile.row += rows) {
        tile.rows = std::min(rows, p.m - tile.row);
        expand(!p.transposeA, expansionA, operands.a, p.lda, tile.row, tile.rows, tile.a);
        if (Status status = multiply(tile, base + at.inner); !status)
          return status;
      }
    }
    return ok();
  }

private:
  /// Where things lie in the scratch memory, in bytes; A's copy is first.
  struct Layout {
    uint64_t b, sums, total, scales, inner, end;
  };
  /// The part of C at hand.
  struct Tile {
    const MatmulOperands &operands;
    void *a, *b;   ///< the copies of its rows of op(A) and columns of op(B), as those are stored
    float *sums;   ///< [blocks][rows][columns]
    float *total;  ///< [rows][columns]; of scaled blocks
    float *scales; ///< [blocks][columns]: the scales of op(B)
    int64_t row = 0, rows = 0, column = 0, columns = 0;
  };

  Layout layout() const {
    uint64_t size = plan::sizeOf(type), k = uint64_t(p.k), r = uint64_t(rows),
             c = uint64_t(columns);
    bool blocked = p.scaleBlock != 0;
    Layout at = {};
    at.b = padded(r * k * size);
    at.sums = at.b + padded(k * c * size);
    at.total = at.sums + padded(uint64_t(together) * r * c * sizeof(float));
    at.scales = at.total + (blocked ? padded(r * c * sizeof(float)) : 0);
    at.inner = at.scales + (blocked ? padded(uint64_t(blocks) * c * sizeof(float)) : 0);
    uint64_t most = 0;
    for (const auto &[key, product] : products)
      most = std::max(most, product->scratchBytes());
    at.end = at.inner + most;
    return at;
  }

  bool prepare(int64_t m, int64_t n, int64_t count) {
    int64_t block = p.k / blocks;
    MatmulProblem inner;
    inner.aType = inner.bType = type;
    inner.cType = DType::F32;
    inner.transposeA = p.transposeA;
    inner.transposeB = p.transposeB;
    inner.m = m, inner.n = n, inner.k = block, inner.batch = count;
    inner.lda = p.transposeA ? m : p.k;
    inner.ldb = p.transposeB ? p.k : n;
    inner.ldc = n;
    if (count > 1) {
      inner.strideA = p.transposeA ? block * m : block;
      inner.strideB = p.transposeB ? block : block * n;
      inner.strideC = m * n;
    }
    auto &product = products[{m, n, count}];
    product = makeDirectMatmul(inner, team);
    return product != nullptr;
  }

  /// Copies columns [first, first + count) of all k rows, or as many rows of k columns, without
  /// gaps.
  void expand(bool byRows, const Expansion &expansion, const void *from, int64_t leading,
              int64_t first, int64_t count, void *to) const {
    const auto *bytes = static_cast<const uint8_t *>(from);
    int64_t outer = byRows ? count : p.k, inner = byRows ? p.k : count;
    const uint8_t *start = bytes + (byRows ? first * leading : first);
    team.forEach(outer, [&](int64_t i, int) {
      expansion.expand(start + i * leading, inner, to, i * inner);
    });
  }

  /// The scale of row `row` of op(A), or column of op(B), in block `block`.
  static float scaleAt(const float *scales, int64_t rowsEach, const std::array<int64_t, 2> &strides,
                       int64_t row, int64_t block) {
    return scales[row / rowsEach * strides[0] + block * strides[1]];
  }

  void spreadScalesB(const Tile &tile) const {
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t j = 0; j < tile.columns; ++j)
        tile.scales[block * tile.columns + j] =
            scaleAt(tile.operands.scaleB, p.scaleRowsB, p.scaleStridesB, tile.column + j, block);
  }

  Status multiply(const Tile &tile, void *inner) {
    for (int64_t block = 0; block < blocks; block += together) {
      int64_t count = std::min(together, blocks - block);
      int64_t k = block * (p.k / blocks), size = int64_t(plan::sizeOf(type));
      const std::byte *a =
          static_cast<const std::byte *>(tile.a) + k * (p.transposeA ? tile.rows : 1) * size;
      const std::byte *b =
          static_cast<const std::byte *>(tile.b) + k * (p.transposeB ? 1 : tile.columns) * size;
      auto &product = products.at({tile.rows, tile.columns, count});
      if (Status status = product->run({a, b, tile.sums}, inner); !status)
        return status;
      if (p.scaleBlock)
        addBlocks(tile, block, count);
    }
    store(tile);
    return ok();
  }

  /// total ← total + Σ over blocks scale_a · scale_b · sums.
  void addBlocks(const Tile &tile, int64_t first, int64_t count) const {
    team.forEach(tile.rows, [&](int64_t i, int) {
      float *total = tile.total + i * tile.columns;
      if (first == 0)
        std::fill_n(total, tile.columns, 0.0F);
      for (int64_t block = 0; block < count; ++block) {
        float scale = scaleAt(tile.operands.scaleA, p.scaleRowsA, p.scaleStridesA, tile.row + i,
                              first + block);
        const float *sums = tile.sums + (block * tile.rows + i) * tile.columns;
        const float *scales = tile.scales + (first + block) * tile.columns;
        for (int64_t j = 0; j < tile.columns; ++j)
          total[j] += scale * scales[j] * sums[j];
      }
    });
  }

  /// C ← factor · sums + beta · D, rounded once.
  void store(const Tile &tile) const {
    auto factor = float(p.alpha);
    if (!p.scaleBlock)
      factor *= *tile.operands.scaleA * *tile.operands.scaleB;
    const float *sums = p.scaleBlock ? tile.total : tile.sums;
    team.forEach(tile.rows, [&](int64_t i, int) {
      int64_t atC = (tile.row + i) * p.ldc + tile.column;
      int64_t atD = (tile.row + i) * p.ldd + tile.column;
      const float *from = sums + i * tile.columns;
      if (p.cType == DType::F32)
        storeRow(
            from, tile.columns, factor, static_cast<float *>(tile.operands.c) + atC,
            static_cast<const float *>(tile.operands.d), atD, [](float x) { return x; },
            [](float x) { return x; });
      else
        storeRow(from, tile.columns, factor, static_cast<uint16_t *>(tile.operands.c) + atC,
                 static_cast<const uint16_t *>(tile.operands.d), atD, toBf16, fromBf16);
    });
  }

  template <typename T, typename Narrow, typename Widen>
  void storeRow(const float *from, int64_t count, float factor, T *c, const T *d, int64_t atD,
                Narrow narrow, Widen widen) const {
    if (p.beta == 0) {
      for (int64_t j = 0; j < count; ++j)
        c[j] = narrow(factor * from[j]);
      return;
    }
    auto beta = float(p.beta);
    d += atD;
    for (int64_t j = 0; j < count; ++j)
      c[j] = narrow(factor * from[j] + beta * widen(d[j]));
  }

  MatmulProblem p;
  const ThreadTeam &team;
  DType type; ///< what is multiplied: bf16, or f32 where the library has no fast bf16
  Expansion expansionA, expansionB;
  int64_t rows, columns; ///< of a tile of C
  int64_t blocks;        ///< along k
  int64_t together;      ///< blocks that one call of the library multiplies
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::unique_ptr<Matmul>> products;
};

} // namespace

std::unique_ptr<Matmul> makeScaledMatmul(const MatmulProblem &problem, const ThreadTeam &team) {
  for (DType type : {DType::BF16, DType::F32}) {
    auto product = std::make_unique<ScaledMatmul>(problem, team, type);
    if (product->prepare())
      return product;
  }
  return nullptr;
}

} // namespace nano::cpu
