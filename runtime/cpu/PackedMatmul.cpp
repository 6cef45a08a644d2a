// Products of bf16 matrices by processors that multiply bf16: operands packed into panels block by
// block, and tiles of C summed in registers. Goto and van de Geijn 2008, Anatomy of
// High-Performance Matrix Multiplication; the parts are those of Bf16Tiles.h.
#include "runtime/cpu/Bf16Tiles.h"
#include "runtime/cpu/Matmul.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

namespace nano::cpu {
namespace {

using plan::DType;

/// Bytes of the block that a thread packs for itself: half of a second-level cache of 1 MB.
constexpr int64_t blockBytes = int64_t(512) << 10;
/// Bytes of a result that is written past the caches, as it would leave them before it is read:
/// then its lines are not read first. Gradients of weights, of products with A transposed, are read
/// after those of other layers.
constexpr int64_t passedBytes = int64_t(64) << 20, passedGradient = int64_t(2) << 20;
/// Tiles of a row panel whose sums wait for their next parts along k.
constexpr int64_t mostTogether = 16;
/// Bytes of sums that wait: rows beyond them are multiplied afterwards.
constexpr int64_t sumsBytes = int64_t(64) << 20;
/// Products with fewer rows, columns or elements along k stay oneDNN's: there packing costs more
/// than it gains.
constexpr int64_t fewest = 256;

uint64_t padded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
int64_t parts(int64_t size, int64_t each) { return (size + each - 1) / each; }

/// The smaller operand is packed whole, by all threads, and then read by all. The larger one is
/// packed in blocks, each by the thread that multiplies it. Sums are of the same parts along k in
/// the same order whatever the number of threads.
class PackedMatmul : public Matmul {
public:
  PackedMatmul(const MatmulProblem &problem, const ThreadTeam &team, bf16::Unit unit)
      : p(problem), team(team), unit(unit), shape(bf16::shapeOf(unit)),
        depth(parts(parts(p.k, parts(p.k, shape.depth)), shape.together) * shape.together),
        sharesA(p.m <= p.n) {
    sumsInC = p.cType == DType::F32 && p.beta == 0;
    rows = p.m;
    if (p.k > depth && !sumsInC) {
      int64_t fitting = sumsBytes / 4 / (p.n * p.batch) / shape.rows * shape.rows;
      rows = std::clamp<int64_t>(fitting, std::min<int64_t>(p.m, 256), p.m);
    }
    sharedStride = words(wholePanels(sharesA ? rows : p.n, sharedWidth()), depth);
    sharedBatch = (sharesA ? p.strideA : p.strideB) ? p.batch : 1;
    const int64_t ofPanel = words(ownWidth(), depth);
    panelsOfBlock = std::max<int64_t>(1, blockBytes / 4 / ofPanel);
    ownStride = panelsOfBlock * ofPanel;
  }

  uint64_t scratchBytes() const override {
    return ownOffset() + uint64_t(team.size()) * ownBytes();
  }
  std::string implementation() const override {
    return unit == bf16::Unit::Tiles ? "packed bf16 (amx)" : "packed bf16";
  }

  Status run(const MatmulOperands &operands, void *scratch) override {
    Pass pass{operands};
    auto *bytes = static_cast<std::byte *>(scratch);
    pass.shared = reinterpret_cast<uint32_t *>(bytes + sharedOffset());
    pass.own = bytes + ownOffset();
    pass.sums = sumsInC ? static_cast<float *>(operands.c) : static_cast<float *>(scratch);
    for (pass.row = 0; pass.row < p.m; pass.row += rows) {
      pass.rows = std::min(rows, p.m - pass.row);
      for (pass.k = 0; pass.k < p.k; pass.k += depth) {
        pass.depth = std::min(depth, p.k - pass.k);
        packShared(pass);
        multiply(pass);
      }
    }
    return ok();
  }

private:
  /// What is multiplied at a time: `rows` rows of C, over `depth` elements along k.
  struct Pass {
    const MatmulOperands &operands;
    uint32_t *shared = nullptr;
    std::byte *own = nullptr;
    float *sums = nullptr;
    int64_t row = 0, rows = 0, k = 0, depth = 0;
  };

  int64_t sharedWidth() const { return sharesA ? shape.rows : shape.columns; }
  int64_t ownWidth() const { return sharesA ? shape.columns : shape.rows; }
  int64_t words(int64_t lines, int64_t k) const { return bf16::panelWords(unit, lines, k); }
  struct Range {
    int64_t begin, end;
  };

  /// Column panels whose tiles of a row panel are multiplied one after another. Tiles: as many as
  /// have their sums and parts of B in a second-level cache; C is then written along its rows. Of
  /// Pairs, whose panels are not cut, all of a thread's block, or else one for all of its rows.
  int64_t columnsTogether(int64_t panels) const {
    if (unit == bf16::Unit::Tiles)
      return mostTogether;
    return sharesA ? panels : 1;
  }
  /// Sums of a tile that wait for its next part along k.
  int64_t sumsOfTile() const { return unit == bf16::Unit::Tiles ? shape.rows * shape.columns : 0; }
  /// A thread's block, and the sums of its tiles.
  uint64_t ownBytes() const {
    return padded(uint64_t(ownStride + mostTogether * sumsOfTile()) * 4);
  }
  static int64_t wholePanels(int64_t lines, int64_t width) { return parts(lines, width) * width; }

  uint64_t sharedOffset() const {
    bool waits = p.k > depth && !sumsInC;
    return waits ? padded(uint64_t(p.batch * rows * p.n) * sizeof(float)) : 0;
  }
  uint64_t ownOffset() const {
    return sharedOffset() + padded(uint64_t(sharedBatch * sharedStride) * 4);
  }

  /// `count` lines from `first` on of A or of B.
  bf16::Lines lines(const Pass &pass, bool ofA, int64_t batch, int64_t first, int64_t count) const {
    int64_t leading = ofA ? p.lda : p.ldb, stride = ofA ? p.strideA : p.strideB;
    bool across = ofA ? p.transposeA : !p.transposeB;
    if (ofA)
      first += pass.row;
    auto *data = static_cast<const uint16_t *>(ofA ? pass.operands.a : pass.operands.b);
    data += batch * stride + (across ? pass.k * leading + first : first * leading + pass.k);
    return {data, leading, across, count, pass.depth};
  }

  void packShared(const Pass &pass) const {
    const int64_t together = 2 * shape.columns; // of whole panels of either width
    int64_t count = sharesA ? pass.rows : p.n, pieces = parts(count, together);
    team.forEach(sharedBatch * pieces, [&](int64_t i, int) {
      int64_t batch = i / pieces, first = i % pieces * together;
      bf16::pack(unit, sharesA,
                 lines(pass, sharesA, batch, first, std::min(together, count - first)),
                 pass.shared + batch * sharedStride + words(first, pass.depth));
    });
  }

  void multiply(const Pass &pass) const {
    int64_t ownLines = sharesA ? p.n : pass.rows, ownPanels = parts(ownLines, ownWidth());
    int64_t sharedLines = sharesA ? pass.rows : p.n,
            sharedPanels = parts(sharedLines, sharedWidth());
    // Enough tasks that threads end together: narrower blocks first, then blocks packed anew for
    // parts of the other operand.
    int64_t wanted = team.size() == 1 ? 1 : parts(8 * team.size(), p.batch);
    int64_t blocks = std::min(std::max(parts(ownPanels, panelsOfBlock), wanted), ownPanels);
    int64_t pieces = std::min(parts(wanted, blocks), sharedPanels);
    team.forEach(p.batch * blocks * pieces, [&](int64_t i, int thread) {
      int64_t batch = i / (blocks * pieces), block = i / pieces % blocks, piece = i % pieces;
      auto *own = reinterpret_cast<uint32_t *>(pass.own + uint64_t(thread) * ownBytes());
      auto *sums = reinterpret_cast<float *>(own) + ownStride;
      int64_t first = ownPanels * block / blocks, end = ownPanels * (block + 1) / blocks;
      int64_t line = first * ownWidth(), count = std::min(end * ownWidth(), ownLines) - line;
      bf16::pack(unit, !sharesA, lines(pass, !sharesA, batch, line, count), own);
      const uint32_t *shared = pass.shared + (sharedBatch > 1 ? batch * sharedStride : 0);
      const bf16::Destination to = destination(pass, batch);
      const bf16::Multiplying multiplying(unit);
      Range ownRange{first, end},
          sharedRange{sharedPanels * piece / pieces, sharedPanels * (piece + 1) / pieces};
      Range rowPanels = sharesA ? sharedRange : ownRange,
            columnPanels = sharesA ? ownRange : sharedRange;
      auto panel = [&](bool ofA, int64_t at, int64_t k) {
        bool isShared = ofA == sharesA;
        int64_t width = ofA ? shape.rows : shape.columns;
        return (isShared ? shared + words(at * width, pass.depth)
                         : own + words((at - first) * width, pass.depth)) +
               words(width, k);
      };
      const int64_t group = columnsTogether(columnPanels.end - columnPanels.begin);
      for (int64_t begin = columnPanels.begin; begin < columnPanels.end; begin += group)
        for (int64_t row = rowPanels.begin; row < rowPanels.end; ++row)
          for (int64_t k = 0; k < pass.depth; k += shape.part)
            for (int64_t column = begin; column < std::min(begin + group, columnPanels.end);
                 ++column) {
              bf16::Part part;
              part.a = panel(true, row, k);
              part.b = panel(false, column, k);
              part.k = std::min(shape.part, pass.depth - k);
              part.isFirst = k == 0;
              part.isLast = k + part.k == pass.depth;
              part.sums = sums + (column - begin) * sumsOfTile();
              bf16::multiply(unit, part, to, row * shape.rows, column * shape.columns,
                             std::min(shape.rows, pass.rows - row * shape.rows),
                             std::min(shape.columns, p.n - column * shape.columns));
            }
    });
  }

  bf16::Destination destination(const Pass &pass, int64_t batch) const {
    bf16::Destination to;
    to.isF32 = p.cType == DType::F32;
    to.finishes = pass.k + depth >= p.k;
    to.addsEarlier = pass.k > 0;
    const int64_t bytes = p.batch * p.m * p.n * int64_t(plan::sizeOf(p.cType));
    to.isPassedBy = bytes >= (p.transposeA ? passedGradient : passedBytes);
    to.alpha = float(p.alpha);
    to.beta = float(p.beta);
    auto at = [&](auto *matrix, int64_t stride, int64_t leading) {
      return matrix + uint64_t(batch * stride + pass.row * leading) * plan::sizeOf(p.cType);
    };
    to.c = at(static_cast<std::byte *>(pass.operands.c), p.strideC, p.ldc);
    to.cLeading = p.ldc;
    if (p.beta != 0)
      to.d = at(static_cast<const std::byte *>(pass.operands.d), p.strideD, p.ldd);
    to.dLeading = p.ldd;
    to.sums = sumsInC ? static_cast<float *>(to.c) : pass.sums + batch * rows * p.n;
    to.sumsLeading = sumsInC ? p.ldc : p.n;
    return to;
  }

  MatmulProblem p;
  const ThreadTeam &team;
  bf16::Unit unit;
  bf16::Shape shape;
  int64_t depth;        ///< elements along k of a pass
  bool sharesA;         ///< A is packed whole and B in blocks; else the other way round
  bool sumsInC = false; ///< unfinished sums are C's own elements
  int64_t rows;         ///< rows of a pass
  int64_t sharedBatch, sharedStride; ///< matrices that are packed whole, and their 32-bit words
  int64_t panelsOfBlock, ownStride;  ///< panels and words of a thread's block
};

} // namespace

/// What oneDNN, which copies operands anew for its blocks, is behind with where pairs are what both
/// multiply by: A transposed, where sums are long enough for the tiles or A's rows begin at no
/// multiple of a cache line; and sums so long that it cuts them.
static bool isFasterByPairs(const MatmulProblem &p) {
  constexpr int64_t someK = 512, longK = 8192, lineElements = 32;
  if (p.transposeA)
    return p.k >= someK || p.lda % lineElements != 0;
  return !p.transposeB && p.k >= longK;
}

std::unique_ptr<Matmul> makePackedMatmul(const MatmulProblem &problem, const ThreadTeam &team) {
  const bool isBf16 = problem.aType == DType::BF16 && problem.bType == DType::BF16 &&
                      (problem.cType == DType::BF16 || problem.cType == DType::F32);
  if (!isBf16 || problem.scaled || std::min({problem.m, problem.n, problem.k}) < fewest)
    return nullptr;
  // oneDNN says what the processor has, what it was told to leave unused, and, of AMX, whether
  // Linux lets this process use it.
  switch (dnnl::get_effective_cpu_isa()) {
  case dnnl::cpu_isa::avx512_core_amx:
    return std::make_unique<PackedMatmul>(problem, team, bf16::Unit::Tiles);
  case dnnl::cpu_isa::avx512_core_bf16:
    if (isFasterByPairs(problem))
      return std::make_unique<PackedMatmul>(problem, team, bf16::Unit::Pairs);
    return nullptr;
  default:
    return nullptr;
  }
}

} // namespace nano::cpu
