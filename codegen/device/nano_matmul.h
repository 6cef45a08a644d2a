// Matrix products on Hopper whose epilogue is generated: tiles of 128 × 256 by two warpgroups that
// multiply, for which a thread loads. While the tensor cores make a tile, the epilogue of the tile
// before is done by the warps that started them, a part with every step along the inner dimension;
// or, where it makes sums and has much to compute, by as many other warps. Products of f32 would
// not fit beside the next tile's: their epilogue comes before it.
//
// A kernel names its product P with
//   rows, columns, inner, transposeA, transposeB
//                                      as in MatmulShape
//   blocks                             of the launch, as in MatmulLaunch
//   ElementA, ElementB                 of the factors: both bf16, or f8e4m3 or f8e5m2
//   products                           how many matrices B of as many columns there are: of two, an
//                                      element of each product is ended at once, with no sums and
//                                      no copies
//   scale(product)                     of 8 bits: what sums of products are multiplied with
//   Result                             what the products are for the epilogue: bf16, or f32
//   Others                             what else an epilogue reads for eight neighbours of a row,
//                                      or four of f32, which is Held: it comes long before it is
//                                      used
//   Columns                            what it reads that all rows have in common, for as many
//                                      columns: it is read once for the rows of a part
//   load(row, column) → Others, loadColumns(column) → Columns, and
//   store(row, column, products, others, columns)
//                                      for the eight or four columns from `column` on; all of them
//                                      exist. Of two products with those of both
//   copies                             of how many operands Others consists where these are one or
//                                      two of 16 bytes each, which a thread can copy to shared
//                                      memory; else 0. And
//   copy(row, column, chunks), othersAt(chunks) → Others
//                                      which start that copy, a second operand's 16 bytes 32
//                                      places behind the first one's, and read them
//   sums                               how many sums along rows the epilogue makes. Where it makes
//                                      some, store returns what the eight columns add to them,
//                                      Vec<float, sums>, and
//   storeSums(row, part, totals)       takes those of the columns 128·part … 128·part + 127
//   Row, loadRow(row) → Row            of products of bf16, where P says so: what is read once for
//                                      a row of a tile. Then it is
//                                      store(row, column, products, others, columns, ofRow)
//   handsOver                          whether other warps than those that multiply do the
//                                      epilogue; where P does not say, those that make sums do
//   addsColumns                        whether the epilogue makes sums along columns, and none
//                                      along rows. Then store returns the eight columns' summands,
//                                      Vec<float, 8>, and
//   storeColumns(part, column, totals) takes the sums of the rows 16·part … 16·part + 15 of two
//                                      columns from `column` on
//   maxima                             of how many results it finds the largest of blocks of 16
//                                      rows and 64 columns. Where there are some, it makes no sums,
//                                      and store returns the largest of the eight columns,
//                                      Vec<float, maxima>, and
//   storeLargest(part, place, largest) takes those of the rows 16·part … 16·part + 15 and of the
//                                      columns 64·place … 64·place + 63
//   turned                             of gradients in 8 bits into bf16, how many results of 8
//                                      bits are stored with their rows as columns. Then store takes
//                                      as its last argument Vec<uint32_t, 2> turned[], which it
//                                      sets to their eight columns, and
//   storeTurned(result, row, column, rows)
//                                      takes of one of them the 16 rows from `row` on of a column,
//                                      as Vec<uint32_t, 4>
// A gradient may add columns and find the largest: store returns SummandsAndLargest<maxima> then.
// Products are sums in f32, scaled, and where Result is bf16 rounded to it. One thread loads what
// else is read at a place and stores there.
#pragma once

#include "nano_matmul_epilogue.h"

namespace nano {
namespace hopper {

template <int Value> struct Number {
  static constexpr int value = Value;
};
/// f of 0, 1, … before `Count`, each known when the kernel is compiled.
template <int Count, class F> NANO_DEVICE void forEach(const F &f) {
  if constexpr (Count > 0) {
    forEach<Count - 1>(f);
    f(Number<Count - 1>());
  }
}
/// Parts that loops over steps and pieces are cut into, so that each is unrolled: the compiler
/// leaves a loop as it is whose body is long, whatever a pragma asks for, and then what is indexed
/// by its counter, sums among it, lies in memory. As one part a step the compiler takes ten times
/// as long.
constexpr int unrolledParts = 4;

/// The block's tiles, by a warpgroup its 64 rows of them; `warp` is known to be one number for a
/// warp, so that descriptors are computed once for all its lanes.
template <class P> NANO_DEVICE void multiplyTiles(const Work<P> &work, const P &x, int warp) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  constexpr int pieces = Epilogue<P>::pieces;
  static_assert(pieces % unrolledParts == 0);
  auto &stages = Stages::get();
  Multiplier<P> multiplier(warp);
  Products<P> products(x);
  Epilogue<P> epilogue(x, warp);
  constexpr int inPart = pieces / Epilogue<P>::parts;
  // Ends a piece. Where registers are left, because nothing else is read, the products of the next
  // one are read before the tensor cores get more to do.
  constexpr bool readsAhead = !Epilogue<P>::hasOthers;
  // Shares the last parts that have a place where the part of that number is next; or all of them.
  auto shareParts = [&](int next, bool isFirst) {
    if constexpr (P::products > 1) {
#pragma unroll
      for (int product = 0; product < P::products; ++product)
        products.share(next + product * Epilogue<P>::parts);
    } else {
#pragma unroll
      for (int part = isFirst ? 0 : next + Stages::held - 1; part < next + Stages::held; ++part)
        if (part < Tiles::parts)
          products.share(part);
    }
  };
  auto finish = [&](int piece) {
    if (!readsAhead)
      epilogue.readPiece(piece);
    epilogue.finishPiece(piece);
    const int next = piece + 1;
    if (next == pieces)
      return;
    if (next % inPart == 0) {
      syncWarp(); // this part has been read, and others are there
      shareParts(next / inPart, /*isFirst=*/false);
      if constexpr (Stages::held == P::products)
        syncWarp();
    }
    if (readsAhead)
      epilogue.readPiece(next);
  };
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    int step = 0;
    if constexpr (!Stages::handsOver) {
      // Each of the first steps has its share of the pieces in its shadow: as little as may be, for
      // the tensor cores wait for what takes longer than a step. Where some have two, these are the
      // last ones: by then fewer products wait in registers. Of more steps than pieces those
      // without one lie between the others where sums along columns or a second product make pieces
      // long, so that what these read has longer to come; of very many steps the code would be too
      // long.
      constexpr bool isSpread = (P::addsColumns || P::products > 1) && Stages::steps <= 2 * pieces;
      constexpr int shadows = isSpread || Stages::steps < pieces ? Stages::steps : pieces;
      constexpr auto firstOf = [](int step) {
        if (isSpread && Stages::steps > pieces)
          return int(divideUp(pieces * step, Stages::steps));
        const int even = pieces * step / shadows, late = pieces - 2 * (shadows - step);
        return 2 * shadows < pieces ? even : step < late ? late : step;
      };
      constexpr int inUnrolled = divideUp(shadows, unrolledParts);
      forEach<unrolledParts>([&](auto unrolled) {
#pragma unroll
        for (int i = 0; i < inUnrolled; ++i) {
          const int step = unrolled.value * inUnrolled + i;
          if (step >= shadows)
            break;
          multiplier.multiply(step);
          if (pair >= work.step) // not the first one
#pragma unroll
            for (int piece = firstOf(step); piece < firstOf(step + 1); ++piece)
              finish(piece);
        }
      });
      step = shadows;
    }
    if constexpr (Stages::copied > 0)
      epilogue.begin(work.at(pair));
#pragma unroll 1
    for (; step < Stages::steps; ++step)
      multiplier.multiply(step);
    multiplier.end();
    if constexpr (Stages::handsOver) {
#pragma unroll
      for (int part = 0; part < Tiles::parts; ++part) {
        stages.await(stages.taken[warp], part, true);
        products.share(part, multiplier.sums);
        stages.hand(stages.given[warp], part);
      }
    } else {
      products.take(multiplier.sums);
      syncWarp(); // the last parts of the tile before have been read
      shareParts(0, /*isFirst=*/true);
      if constexpr (Stages::copied == 0)
        epilogue.begin(work.at(pair));
      syncWarp();
      if (readsAhead)
        epilogue.readPiece(0);
    }
  }
  if constexpr (!Stages::handsOver)
    forEach<unrolledParts>([&](auto unrolled) {
      constexpr int inUnrolled = pieces / unrolledParts;
#pragma unroll
      for (int i = 0; i < inUnrolled; ++i)
        finish(unrolled.value * inUnrolled + i);
    });
}

/// Likewise of gradients of 8 bits, whose sums leave no registers for products that wait: their
/// epilogue comes before the next tile, part by part. The second warpgroup begins when the first
/// has all but one of the stages behind it, and stays behind as far as stages are loaded: while one
/// ends a tile, the other has more of the tensor cores. On an H200 383 us for 390 of 49152 × 3072 ×
/// 768, and 410 for 431 of 16384 × 6400 × 1600.
template <class P>
NANO_DEVICE void multiplyGradientTiles(const Work<P> &work, const P &x, int warp) {
  Multiplier<P> multiplier(warp);
  const Products<P> products(x);
  Epilogue<P> epilogue(x, warp);
  using Stages = MatmulStages<P>;
  constexpr int inPart = Epilogue<P>::pieces / Epilogue<P>::parts;
  constexpr int ahead = Stages::steps < Stages::count ? Stages::steps : Stages::count - 1;
  constexpr int both = 256, barrier = 1 + MatmulTiles::warps / 2;
  if (warp >= MatmulTiles::warps / 2)
    barrierSync(barrier, both);
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    multiplier.begin();
#pragma unroll 1
    for (int step = 0; step < Stages::steps; ++step) {
      multiplier.multiply(step);
      if (warp < MatmulTiles::warps / 2 && pair == work.begin && step + 1 == ahead)
        barrierArrive(barrier, both);
    }
    epilogue.begin(work.at(pair));
#pragma unroll
    for (int part = 0; part < MatmulTiles::parts; ++part) {
      products.share(part, multiplier.sums);
      syncWarp();
#pragma unroll
      for (int piece = part * inPart; piece < (part + 1) * inPart; ++piece)
        epilogue.readPiece(piece);
      syncWarp(); // what is turned is left where lanes have read
#pragma unroll
      for (int piece = part * inPart; piece < (part + 1) * inPart; ++piece)
        epilogue.finishPiece(piece);
      if constexpr (P::turned > 0)
        epilogue.turn(part);
    }
  }
}

/// Likewise of products of f32, with their epilogue.
template <class P> NANO_DEVICE void multiplyWideTiles(const Work<P> &work, const P &x, int warp) {
  Multiplier<P> multiplier(warp);
  WideEpilogue<P> epilogue(x, warp);
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    multiplier.begin();
#pragma unroll 1
    for (int step = 0; step < MatmulStages<P>::steps; ++step)
      multiplier.multiply(step);
    epilogue.begin(work.at(pair));
    multiplier.end();
    epilogue.finish(multiplier.sums);
  }
}

/// The epilogues of the rows that warp `warp` multiplies, by another one.
template <class P> NANO_DEVICE void finishTiles(const Work<P> &work, const P &x, int warp) {
  auto &stages = MatmulStages<P>::get();
  Epilogue<P> epilogue(x, warp);
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    epilogue.begin(work.at(pair));
    // Two parts in the loop, and the halves of each at once, but where an epilogue holds other
    // operands: registers are few.
#pragma unroll(epilogue.hasOthers ? 1 : 2)
    for (int part = 0; part < MatmulTiles::parts; ++part) {
      stages.await(stages.given[warp], part, false);
      epilogue.read(2 * part);
      if constexpr (epilogue.hasOthers)
        epilogue.finish(2 * part);
      epilogue.read(2 * part + 1);
      stages.hand(stages.taken[warp], part);
      if constexpr (epilogue.hasOthers)
        epilogue.finish(2 * part + 1);
      else
        epilogue.finishPart(part);
    }
  }
}

} // namespace hopper

/// The share of block `block` of the products x of the matrices that the maps describe; by all
/// threads of all blocks of the grid.
template <class P>
NANO_DEVICE void matmul(int block, const TensorMap &a, const TensorMap &b, const TensorMap &second,
                        const P &x) {
  using Tiles = MatmulTiles;
  const hopper::MatmulWork<P> work(block);
  hopper::MatmulStages<P>::get().init();
  using Stages = hopper::MatmulStages<P>;
  constexpr bool handsOver = Stages::handsOver;
  constexpr int loading = Tiles::warps; // the warp
  // Known to be one number for a warp.
  const int warp = shuffle(warpIndex(), 0);
  // Registers of a thread: 168 before, and 2 · 240 + 24 of three warpgroups; or 96, and
  // 2 · 160 + 24 + 2 · 64 of five.
  if (warp < loading) {
    increaseRegisters<handsOver ? 160 : 240>();
    if constexpr (Stages::isWide)
      hopper::multiplyWideTiles(work, x, warp);
    else if constexpr (Stages::addsUp)
      hopper::multiplyGradientTiles(work, x, warp);
    else
      hopper::multiplyTiles(work, x, warp);
  } else if (!handsOver || warp < loading + 4) {
    decreaseRegisters<24>();
    if (warp == loading && laneIndex() == 0)
      hopper::loadOperands(work, a, b, second);
    syncWarp();
  } else if constexpr (handsOver) {
    decreaseRegisters<64>();
    hopper::finishTiles(work, x, warp - loading - 4);
  }
  clusterSync(); // nobody leaves while the other block's loads or arrivals are still to come
}
/// Likewise of one product.
template <class P>
NANO_DEVICE void matmul(int block, const TensorMap &a, const TensorMap &b, const P &x) {
  static_assert(P::products == 1);
  matmul(block, a, b, b, x);
}

} // namespace nano
