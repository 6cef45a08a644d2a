// Products along a band by warps, of rows of f32. A number is the sum of three bf16 and a product
// that of six of theirs (splitWords, forPairs). Sums that an infinity, a NaN or a number above
// 2^127·1.996 enters are not finite. Included by nano_band.h.
//
// Units multiply along any order that both factors share, and results may lie in any order too: a
// lane's numbers are 16 bytes of a row, by one load, where fragments of numbers that are 16-bit in
// memory need the loads of matrices.
#pragma once

#include "nano_band_matrix.h"

namespace nano::band {

/// Rows of f32 in shared memory, columns a multiple of 32: chunk c of 16 bytes of row r is at place
/// c ⊕ swizzle(r).
template <int rows, int columns, bool isKeys> struct WideTile {
  static constexpr int bytes = 4 * rows * columns, chunks = columns / 4;
  /// Eight lanes at a time read two neighbouring rows' four chunks of keys, or two chunks of four
  /// rows of v that lie two apart. Rows that are a multiple of 8 apart are swizzled alike.
  static NANO_DEVICE int offset(int row, int chunk) {
    const int swizzle = isKeys ? (row & 1) << 2 : (row & 6);
    return (row * chunks + (chunk ^ swizzle)) * 16;
  }
};

template <int rows, int columns> using KeyTile = WideTile<rows, columns, true>;

/// Two numbers of f32 as three words of two bf16, each of which rounds what those before it leave:
/// together they have all of its bits.
NANO_DEVICE void splitWords(float x, float y, uint32_t (&words)[bandPlanes]) {
#pragma unroll
  for (int i = 0; i < bandPlanes; ++i) {
    words[i] = packBf16(x, y);
    x -= bitCast<float>(words[i] << 16);
    y -= bitCast<float>(words[i] & 0xffff0000u);
  }
}

/// Words of a left 16 × 16 matrix, as matrixMultiply's a, and of a right 16 × 8 one.
struct SplitLeft {
  uint32_t words[bandPlanes][4];
};
struct SplitRight {
  uint32_t words[bandPlanes][2];
};
/// Two neighbouring numbers become word i of a matrix.
template <int count>
NANO_DEVICE void setWord(uint32_t (&words)[bandPlanes][count], int i, float x, float y) {
  uint32_t split[bandPlanes];
  splitWords(x, y, split);
#pragma unroll
  for (int term = 0; term < bandPlanes; ++term)
    words[term][i] = split[term];
}

/// Sums of 16 products each join those before. The units cut what they add to a sum, each time
/// towards zero, which costs the less the smaller the sum is; this rounds.
NANO_DEVICE void addPart(float (&sum)[4], const float (&part)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    sum[i] += part[i];
}

/// A part of the scores of a block's tokens.
template <class S> class SplitScores {
public:
  static constexpr BandShape shape = {S::tokens, S::heads, S::size, S::width,          true,
                                      4,         false,    4,       S::multiprocessors};
  static constexpr BandSlicesPlan plan = bandSlicesPlan(shape);
  static constexpr int threads = 32 * bandSliceWarps,
                       slices = int(divideUp(S::size, bandSliceColumns));

  NANO_DEVICE explicit SplitScores(long long iteration)
      : head(int(iteration % S::heads)), begin(int(iteration / S::heads % plan.parts) * plan.width),
        token(bandSliceTokens *
              bandFirstTile(iteration / S::heads / plan.parts, plan.blocks, plan.lineTiles)),
        end(int(least(bandSliceTokens * bandFirstTile(iteration / S::heads / plan.parts + 1,
                                                      plan.blocks, plan.lineTiles),
                      S::tokens))) {}

  template <int yCount> NANO_DEVICE void run(const BandOperands<S, yCount> &x) {
    bool areAligned = S::width % 4 == 0;
    for (const auto &y : x.y)
      areAligned &= hasAlignedRows<4 * int(sizeof *y.base)>(y);
    int stage = 0;
    start(x, token, 0, stage);
    for (; token < end; token += bandSliceTokens) {
      float sums[2][plan.tiles][4] = {};
#pragma unroll 1
      for (int slice = 0; slice < slices; ++slice, stage ^= 1) {
        copyAsyncWait<0>();
        syncThreads(); // the slice is there, and the one before has been read
        if (slice + 1 < slices)
          start(x, token, slice + 1, stage ^ 1);
        else if (token + bandSliceTokens < end)
          start(x, token + bandSliceTokens, 0, stage ^ 1);
        multiply(sums, slice, stage);
      }
      syncThreads(); // the last slice has been read: its memory is the scores' way out
      float *const turned =
          reinterpret_cast<float *>(stageOf(stage ^ 1)) + 16 * lane.warp * plan.stride;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        turn(turned, sums[half]);
        syncWarp(); // the half's scores are there
        if (areAligned)
          leave<4>(x, turned, half);
        else
          leave<1>(x, turned, half);
        syncWarp();
      }
    }
  }

private:
  using Keys = KeyTile<plan.keys, bandSliceColumns>;
  using Queries = KeyTile<bandSliceTokens, bandSliceColumns>;

  static NANO_DEVICE uint8_t *stageOf(int stage) {
    return dynamicShared<uint8_t>() + stage * plan.stageBytes;
  }

  /// Starts copying a slice of a tile's rows; what the tensors do not have becomes zero.
  template <class Operands>
  NANO_DEVICE void start(const Operands &x, int token, int slice, int stage) const {
    uint8_t *const keys = stageOf(stage);
    lines<Keys, plan.keys>(keys, x.second, token + begin + 1 - S::width, slice);
    lines<Queries, bandSliceTokens>(keys + Keys::bytes, x.first, token, slice);
    copyAsyncCommit();
  }
  template <class Tile, int rows, class View>
  NANO_DEVICE void lines(uint8_t *to, const View &x, int first, int slice) const {
    constexpr int atOnce = threads / Tile::chunks;
    const int chunk = int(threadIdx.x) % Tile::chunks, mine = int(threadIdx.x) / Tile::chunks,
              column = bandSliceColumns * slice + 4 * chunk;
    const float *from = &x.at(first + mine, head, column);
    // Rows that are a multiple of 16 apart are swizzled alike.
    uint8_t *const place = to + Tile::offset(mine, chunk);
    const bool isColumn = S::size % bandSliceColumns == 0 || column < S::size,
               areInside = first >= 0 && first + rows <= S::tokens;
#pragma unroll
    for (int row = 0; row < rows; row += atOnce) {
      if (rows % atOnce == 0 || row + mine < rows) {
        const bool is =
            isColumn && (areInside || unsigned(first + row + mine) < unsigned(S::tokens));
        copyAsync<16>(place + Tile::offset(row, 0), is ? from : x.base, is ? 16 : 0);
      }
      from += atOnce * x.sequence;
    }
  }

  NANO_DEVICE void multiply(float (&sums)[2][plan.tiles][4], int slice, int stage) const {
    const uint8_t *const keys = stageOf(stage), *const queries = keys + Keys::bytes;
#pragma unroll 1
    for (int c = 0; c < bandSliceColumns / 16; ++c) {
      if (S::size % bandSliceColumns != 0 && bandSliceColumns * slice + 16 * c >= S::size)
        break;
      SplitLeft left[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Vec<float, 4> row = numbers<Queries>(queries, 16 * half + 8 * i, c);
          setWord(left[half].words, i, row[0], row[1]);
          setWord(left[half].words, 2 + i, row[2], row[3]);
        }
#pragma unroll
      for (int tile = 0; tile < plan.tiles + 2; tile += atOnce) {
        SplitRight right[atOnce];
#pragma unroll
        for (int j = 0; j < atOnce; ++j)
          if (tile + j < plan.tiles + 2) {
            const Vec<float, 4> row = numbers<Keys>(keys, 8 * (tile + j), c);
            setWord(right[j].words, 0, row[0], row[1]);
            setWord(right[j].words, 1, row[2], row[3]);
          }
        // No two products in a row to the same sum.
        float parts[2][atOnce][4] = {};
        forPairs<bandPlanes>([&](int term, int plane) {
#pragma unroll
          for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < atOnce; ++j) {
              const int at = tile + j - 2 * half;
              if (at >= 0 && at < plan.tiles)
                matrixMultiply<bf16, bf16>(parts[half][j], left[half].words[term],
                                           right[j].words[plane]);
            }
        });
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int j = 0; j < atOnce; ++j) {
            const int at = tile + j - 2 * half;
            if (at >= 0 && at < plan.tiles)
              addPart(sums[half][at], parts[half][j]);
          }
      }
    }
  }
  static constexpr int atOnce = 4;
  /// A lane's of eight of the warp's rows, the first a multiple of 8.
  template <class Tile>
  NANO_DEVICE Vec<float, 4> numbers(const uint8_t *tile, int row, int c) const {
    return nano::load<4>(reinterpret_cast<const float *>(
        tile + Tile::offset(32 * lane.warp + lane.group, 4 * c + lane.pair) +
        Tile::offset(row, 0)));
  }

  /// Sums of a half become rows in shared memory: of each token, 16 numbers behind the row's begin,
  /// those of the band's part.
  NANO_DEVICE void turn(float *turned, const float (&sums)[plan.tiles][4]) const {
    // Key j of a half is number j − row of the part.
    float *const place = turned + lane.group * (plan.stride - 1) + 16 + 2 * lane.pair;
#pragma unroll
    for (int tile = 0; tile < plan.tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        place[i / 2 * 8 * (plan.stride - 1) + 8 * tile + i % 2] = sums[tile][i];
  }
  /// Stores them, `each` by one access.
  template <int each, class Operands>
  NANO_DEVICE void leave(const Operands &x, const float *turned, int half) const {
    using Result = typename S::Result;
    // A half has 16 rows: no fewer lanes of each than two.
    constexpr int accesses = plan.width / each, lanes = powerOfTwo(accesses > 2 ? accesses : 2, 32),
                  rows = 32 / lanes;
    const int first = token + 32 * lane.warp + 16 * half, mine = lane.lane / lanes;
#pragma unroll 4
    for (int begin = 0; begin < 16; begin += rows) {
      const int row = begin + mine, t = first + row;
#pragma unroll
      for (int access = 0; access < accesses; access += lanes) {
        const int i = each * (access + lane.lane % lanes), w = this->begin + i;
        if (i >= plan.width || w >= S::width || t >= S::tokens)
          continue;
        auto scores = nano::load<each>(turned + row * plan.stride + 16 + i);
        // What is no token is no zero times an infinity either.
        if (t < S::width - 1)
#pragma unroll
          for (int j = 0; j < each; ++j)
            scores[j] = w + j + t < S::width - 1 ? 0.0f : scores[j];
        for (const auto &y : x.y)
          store<each, each *int(sizeof(Result))>(&y.at(t, head, w), to<Result>(scores));
      }
    }
  }

  const Lane lane;
  const int head, begin; ///< of the band's part: its first number
  int token, end;        ///< the tile's first, and the one behind the block's last
};

/// Scores of f32: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void scoresBySplitting(long long iteration, const BandOperands<S, yCount> &x) {
  SplitScores<S>(iteration).run(x);
}

/// The sums of some columns of a block's tokens.
template <class S> class SplitProducts {
public:
  using T = typename S::First;
  static constexpr BandShape shape = {S::tokens,    S::heads, S::size,
                                      S::width,     true,     int(sizeof(T)),
                                      S::transpose, 4,        S::multiprocessors};
  static constexpr BandRowsPlan plan = bandRowsPlan(shape);
  static constexpr int threads = 32 * bandRowWarps, columns = plan.columns;

  NANO_DEVICE explicit SplitProducts(long long iteration)
      : head(int(iteration % S::heads)), column(int(iteration / S::heads % plan.slices) * columns),
        token(int(iteration / S::heads / plan.slices * plan.blockTiles) * bandRowTokens),
        tiles(int(least(plan.blockTiles, divideUp(S::tokens - token, bandRowTokens)))) {}

  template <int yCount> NANO_DEVICE void run(const BandOperands<S, yCount> &x) {
    setShifts(x.first);
    int found = 0; // groups of rows that have been asked for
    auto start = [&](int tile, int step) {
      for (const int end = firstOf(tile, step) + bandRowGroups; found < end; ++found)
        startRows(x.second, found);
      startWeights(x.first, tile, step);
      copyAsyncCommit();
    };
    start(0, 0);
    for (int tile = 0; tile < tiles; ++tile) {
      float sums[2][columns / 8][4] = {};
#pragma unroll 1
      for (int step = 0; step <= plan.groups; ++step) {
        copyAsyncWait<0>();
        syncThreads(); // the step's rows are there, and those of the one before have been read
        if (step < plan.groups)
          start(tile, step + 1);
        else if (tile + 1 < tiles)
          start(tile + 1, 0);
        if (step == 0)
          multiply<true, false>(sums, tile, step);
        else if (step < plan.groups)
          multiply<true, true>(sums, tile, step);
        else
          multiply<false, true>(sums, tile, step);
      }
      leave(x, sums, tile);
    }
  }

private:
  static constexpr int each = 16 / int(sizeof(T)), pieces = plan.stride / each;
  using Rows = WideTile<16 * plan.slots, columns, false>;

  /// The token of the first row of a window, less its first token.
  static constexpr int ahead = S::transpose ? 0 : 1 - int(S::width);
  /// The group of rows that the first warp reads in a step.
  static NANO_DEVICE int firstOf(int tile, int step) { return tile * (bandRowTokens / 16) + step; }

  /// Starts copying a group of rows; what the tensor does not have becomes zero.
  template <class View> NANO_DEVICE void startRows(const View &x, int group) const {
    constexpr int lanes = Rows::chunks, atOnce = threads / lanes, count = int(divideUp(16, atOnce));
    const int thread = int(threadIdx.x), chunk = thread % lanes, mine = thread / lanes,
              at = column + 4 * chunk, first = token + ahead + 16 * group;
    if (threads % lanes != 0 && thread >= lanes * atOnce)
      return;
    const float *from = &x.at(first + mine, head, at);
    uint8_t *const to = dynamicShared<uint8_t>() + group % plan.slots * (16 * 16 * lanes);
    const bool isColumn = S::size % columns == 0 || at < S::size,
               areInside = first >= 0 && first + 16 <= S::tokens;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int row = mine + i * atOnce;
      if (16 % atOnce == 0 || row < 16) {
        const bool is = isColumn && (areInside || unsigned(first + row) < unsigned(S::tokens));
        copyAsync<16>(to + Rows::offset(row, chunk), is ? from : x.base, is ? 16 : 0);
      }
      from += atOnce * x.sequence;
    }
  }

  /// A warp's lines of weights of a step: of each of its tokens those for 16 rows, or transposed of
  /// each row those for its tokens, from a multiple of 16 bytes of memory on.
  NANO_DEVICE T *weights(int tile, int step) const {
    const int turn = (tile * (plan.groups + 1) + step) % 2;
    return dynamicShared<T>(plan.ringBytes + turn * plan.weightBytes) +
           lane.warp * plan.lines * plan.stride;
  }
  static NANO_DEVICE bool isNumber(int w) { return unsigned(w) < unsigned(S::width); }
  /// The number in its band that a line's first weight has, those of the 16 bytes before it apart.
  static NANO_DEVICE int numberOf(int step, int line) {
    return S::transpose ? int(S::width) - 1 - 16 * step - line : 16 * step - line;
  }
  /// How far it is behind a multiple of 16 bytes, in numbers: alike in all steps and tiles.
  NANO_DEVICE int shiftOf(int line) const { return (shift + line * slope) & (each - 1); }
  template <class View> NANO_DEVICE void setShifts(const View &p) {
    const uint64_t at = reinterpret_cast<uint64_t>(&p.at(token, head, numberOf(0, 0)));
    shift = int(at / sizeof(T) % each);
    slope = int(p.sequence % each) - 1;
    // None of two bytes can be copied alone on the way, nor, of bands of whole 16 bytes, are the
    // last ones' ends looked for.
    arePieces = sizeof(T) == 4 && S::width % each != 0
                    ? p.element == 1 && reinterpret_cast<uint64_t>(p.base) % 16 == 0
                    : hasAlignedRows<16>(p);
  }
  /// Starts copying them; numbers that the band does not have become zero, and those for rows of no
  /// token, which are no zero times an infinity either.
  template <class View> NANO_DEVICE void startWeights(const View &p, int tile, int step) const {
    const int mine = token + bandRowTokens * tile + 32 * lane.warp,
              first = mine + (S::transpose ? 16 * step : 0);
    const bool isAligned = (S::transpose || mine + ahead + 16 * step >= 0) &&
                           first + plan.lines <= S::tokens && arePieces;
    T *const to = weights(tile, step);
    // Neighbouring lanes have pieces of one line, but for each line's last one. Lines that one lane
    // has are a multiple of a piece's numbers apart.
    constexpr int lanes = pieces - 1, atOnce = 32 / lanes, count = plan.lines / atOnce;
    static_assert(atOnce % each == 0 && plan.lines % atOnce == 0);
    const int line = lane.lane / lanes, piece = lane.lane % lanes;
    if (isAligned) {
      auto copy = [&](T *place, const T *from, int w) {
        if (sizeof(T) == 4 && w < 0 && w > -each) {
          // Before the band's numbers are others.
#pragma unroll
          for (int j = 0; j < each; ++j)
            copyAsync<4>(place + j, w + j < 0 ? p.base : from + j, isNumber(w + j) ? 4 : 0);
          return;
        }
        const bool is = isNumber(w);
        const int has = !is                                            ? 0
                        : S::width % each == 0 || S::width - w >= each ? each
                                                                       : S::width - w;
        copyAsync<16>(place, is ? from : p.base, has * int(sizeof(T)));
      };
      auto numberOfPiece = [&](int line, int piece) {
        return numberOf(step, line) - shiftOf(line) + piece * each;
      };
      const int w = numberOfPiece(line, piece);
      const T *from = &p.at(first + line, head, w);
      T *const place = to + line * plan.stride + piece * each;
#pragma unroll
      for (int i = 0; i < count; ++i) {
        copy(place + i * atOnce * plan.stride, from, w - i * atOnce);
        from += atOnce * (p.sequence - 1);
      }
      if (lane.lane < plan.lines) {
        const int last = numberOfPiece(lane.lane, lanes);
        copy(to + lane.lane * plan.stride + lanes * each, &p.at(first + lane.lane, head, last),
             last);
      }
      return;
    }
    // Neighbouring lanes have neighbouring numbers of a line, those that are read.
    constexpr int numbers = S::transpose ? 32 : 16;
#pragma unroll 4
    for (int i = 0; i < plan.lines; i += 32 / numbers) {
      const int line = i + lane.lane / numbers, at = first + line,
                w = numberOf(step, line) + lane.lane % numbers;
      const bool is = unsigned(at) < unsigned(S::tokens) && isNumber(w) &&
                      (S::transpose || w + at >= S::width - 1);
      const T *const from = is ? &p.at(at, head, w) : p.base;
      T *const place = to + line * plan.stride + shiftOf(line) + lane.lane % numbers;
      if constexpr (sizeof(T) == 4)
        copyAsync<4>(place, from, is ? 4 : 0);
      else
        place->bits = is ? loadReadOnly(from).bits : uint16_t(0);
    }
  }

  /// Adds the products with a group of rows, of some halves.
  template <bool first, bool second>
  NANO_DEVICE void multiply(float (&sums)[2][columns / 8][4], int tile, int step) const {
    // A lane has rows 2·pair + j and, 8 behind it, the second one of a product.
    const int group = (firstOf(tile, step) + 2 * lane.warp) % plan.slots;
    const uint8_t *const rows =
        dynamicShared<uint8_t>() + Rows::offset(16 * group + 2 * lane.pair, lane.group);
    constexpr int rowBytes = 16 * Rows::chunks;
    const T *const weights = this->weights(tile, step);
    float number[2][4][2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Lines that are a multiple of 8 apart begin at the same place.
      const int r = 2 * lane.pair + j, t = lane.group, line = S::transpose ? r : t;
      const T *const weight = weights + line * plan.stride + (S::transpose ? t : r) + shiftOf(line);
      constexpr int ofToken = S::transpose ? 1 : plan.stride,
                    ofRow = S::transpose ? plan.stride : 1;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (half == 0 ? first : second)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            number[half][i][j] =
                float(weight[(16 * half + i % 2 * 8) * ofToken + i / 2 * 8 * ofRow]);
    }
    SplitLeft left[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (half == 0 ? first : second)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          setWord(left[half].words, i, number[half][i][0], number[half][i][1]);
#pragma unroll
    for (int c = 0; c < columns / 32; ++c) {
      SplitRight right[4];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        Vec<float, 4> row[2];
#pragma unroll
        for (int j = 0; j < 2; ++j)
          row[j] = nano::load<4>(
              reinterpret_cast<const float *>(rows + (j + 8 * k) * rowBytes + 128 * c));
#pragma unroll
        for (int i = 0; i < 4; ++i)
          setWord(right[i].words, k, row[0][i], row[1][i]);
      }
      float parts[2][4][4] = {};
      forPairs<sizeof(T) == 4 ? bandPlanes : 1>([&](int term, int plane) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (half == 0 ? first : second)
#pragma unroll
            for (int i = 0; i < 4; ++i)
              matrixMultiply<bf16, bf16>(parts[half][i], left[half].words[term],
                                         right[i].words[plane]);
      });
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (half == 0 ? first : second)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            addPart(sums[half][4 * c + i], parts[half][i]);
    }
  }

  /// Of sums[half][4c + j], those of columns 32c + 4n + j, n = 0 … 7, a lane has eight neighbouring
  /// results of a row. Two lanes exchange halves of theirs: both write to 32 bytes at a time.
  template <int yCount>
  NANO_DEVICE void leave(const BandOperands<S, yCount> &x, float (&sums)[2][columns / 8][4],
                         int tile) const {
    using Result = typename S::Result;
    const bool isOdd = lane.pair & 1;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < columns / 8; ++c)
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
          float &low = sums[half][c][k], &high = sums[half][c][k + 1];
          const float other = shuffleXor(isOdd ? low : high, 1);
          low = isOdd ? other : low;
          high = isOdd ? high : other;
        }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int t =
            token + bandRowTokens * tile + 32 * lane.warp + 16 * half + lane.group + 8 * k;
        if (t >= S::tokens)
          continue;
#pragma unroll
        for (int c = 0; c < columns / 32; ++c)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int d = column + 32 * c + 8 * ((lane.pair & 2) + i) + 4 * (lane.pair & 1);
            Vec<float, 4> piece;
#pragma unroll
            for (int j = 0; j < 4; ++j)
              piece[j] = sums[half][4 * c + j][2 * k + i];
            if (d < S::size)
#pragma unroll
              for (int n = 0; n < yCount; ++n)
                store<4, 4 * int(sizeof(Result))>(&x.y[n].at(t, head, d), to<Result>(piece));
          }
      }
  }

  const Lane lane;
  const int head, column; ///< the block's first
  const int token, tiles; ///< the block's first, and how often it has 128
  /// Of line 0 of weights what shiftOf says, by how much that differs from one line to the next,
  /// and whether they are copied by 16 bytes.
  int shift, slope;
  bool arePieces;
};

/// Sums of f32: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void productBySplitting(long long iteration, const BandOperands<S, yCount> &x) {
  SplitProducts<S>(iteration).run(x);
}

} // namespace nano::band
