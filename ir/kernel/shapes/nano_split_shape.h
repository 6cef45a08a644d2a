// How the template of split products cuts its work into thread blocks and what its tensor maps
// describe. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_matmul_shape.h"

namespace nano {

// Products C = Aᵀ·B of one launch, all of which sum over `inner` rows: A is [inner, rows] and B
// [inner, columns] of bf16, C is [rows, columns] of f32. Who says which products these are gives
// `count`, `inner`, and `rows(i)` and `columns(i)` of each.

/// The tiles of nano_matmul_shape.h, in steps along the inner dimension. Boxes of both operands
/// have so many columns of half a step's rows, so that either can be shared in a cluster.
struct SplitTiles {
  using Tiles = MatmulTiles;
  static constexpr int elementBytes = 2, inner = Tiles::inner(elementBytes);
  static NANO_BOTH constexpr TensorBox box() {
    return {Tiles::rowBytes / elementBytes, inner / Tiles::clusterBlocks};
  }
  /// What storing a tile takes and handing it over to who adds the next part to it, in steps:
  /// measured, 4 us and 0.74 us a step on an H100.
  static constexpr int handOver = 6;
  /// A pair of tiles is cut into so many parts at most, of so many steps at least: they are added
  /// one after the other.
  static constexpr int mostParts = 8, fewestSteps = 8 * handOver;
};

/// What a cluster does at a time: of a pair of tiles the steps from `begin` before `end`.
struct SplitPart {
  int product, row, column; ///< where the tile of the first block lies
  bool sharesRows;          ///< the blocks' tiles have their rows in common; else their columns
  int pair;                 ///< its number among those of all products
  int begin, end;
  int before;   ///< the parts of the pair that are added before this one
  bool hasNext; ///< whether one is added after it
};

/// Pairs of tiles of a product: tiles below each other, and of an odd number of rows of tiles the
/// last ones beside each other.
NANO_BOTH constexpr int splitPairs(int rows, int columns) {
  using Tiles = MatmulTiles;
  const int down = int(divideUp(rows, Tiles::rows)),
            across = int(divideUp(columns, Tiles::columns));
  return down / 2 * across + (down % 2 != 0 ? int(divideUp(across, 2)) : 0);
}
template <class Products> NANO_BOTH constexpr int splitPairs(const Products &products) {
  int pairs = 0;
  for (int i = 0; i < products.count; ++i)
    pairs += splitPairs(products.rows(i), products.columns(i));
  return pairs;
}

/// The parts of a cluster, in the order of time. All clusters work equally long, those of one time
/// at the same steps, so that an operand comes from memory once for all tiles that it is a factor
/// of. Of more pairs than clusters each cluster makes some whole. Of fewer, as many clusters as
/// there are pairs make the first part of each, as many the second one, and so on, and those that
/// are left make what is left of all pairs. The parts of a pair that clusters
/// with smaller numbers make are added first; they do not end later.
template <class Products> class SplitWork {
  using Tiles = MatmulTiles;

public:
  NANO_BOTH constexpr SplitWork(const Products &products, int clusters, int cluster)
      : products(products), node{clusters, splitPairs(products), 0,
                                 int(divideUp(products.inner, SplitTiles::inner)), false},
        all(node.steps), cluster(cluster) {}

  /// False where there is no further one.
  NANO_BOTH constexpr bool next(SplitPart &part) {
    while (node.pairs > 0) {
      if (node.pairs >= node.clusters) {
        const int rounds = node.pairs / node.clusters;
        if (round < rounds) {
          place(part, first + round * node.clusters + cluster);
          ++round;
          part.begin = node.begin;
          part.end = node.begin + node.steps;
          part.before = 0;
          part.hasNext = node.steps < all;
          return true;
        }
        first += rounds * node.clusters;
        node.pairs -= rounds * node.clusters;
        round = 0;
        continue;
      }
      const Division division(node);
      if (cluster < division.rest) { // these divide what the levels leave
        node = division.left(node);
        continue;
      }
      const int at = cluster - division.rest, level = division.levels - 1 - at / node.pairs;
      if (level >= 0) {
        const int i = at % node.pairs;
        place(part, first + i);
        part.begin = node.begin + division.begin(level);
        part.end = node.begin + (level + 1 < division.levels || division.rest > 0
                                     ? division.begin(level + 1)
                                     : node.steps);
        part.before =
            division.levels - 1 - level + (division.rest > 0 ? partsOf(division.left(node), i) : 0);
        part.hasNext = level > 0 || node.steps < all;
      }
      node.pairs = 0;
      return level >= 0;
    }
    return false;
  }

private:
  /// Clusters that share pairs, of which steps from `begin` on are to be made.
  struct Node {
    int clusters, pairs, begin, steps;
    bool isRest; ///< these are left from a division
  };
  /// Of fewer pairs than clusters: so many levels of clusters, and those that are left, which come
  /// to an end with the levels.
  struct Division {
    int levels, rest;
    int share; ///< steps of a level on average

    NANO_BOTH constexpr explicit Division(const Node &node) {
      constexpr int handOver = SplitTiles::handOver;
      const int most = mostParts(node.steps);
      levels = node.clusters / node.pairs;
      rest = levels < most && !node.isRest ? node.clusters - levels * node.pairs : 0;
      levels = levels < most ? levels : most;
      if (rest > 0) {
        // They make `whole` of the pairs each, and cut the others into so many parts.
        const int whole = node.pairs / rest, others = node.pairs % rest;
        share = int(divideUp((long long)node.steps * node.pairs, node.clusters));
        for (int i = 0; i < 2; ++i) { // from an estimate of the parts
          int parts = mostParts(node.steps - levels * share);
          if (others > 0 && rest / others < parts)
            parts = rest / others;
          const int rounds = whole * parts + (others > 0 ? 1 : 0); // of parts
          const int stored = whole - 1 + (others > 0 ? 1 : 0);     // more than the levels store
          share = int(((long long)rounds * node.steps + parts * stored * handOver) /
                      (parts + levels * rounds));
        }
        if (node.steps - levels * share < 4 * handOver)
          rest = 0; // not worth storing them
      }
      if (rest == 0)
        share = int(divideUp(node.steps, levels));
    }
    /// Into which so many steps of a pair are cut.
    static NANO_BOTH constexpr int mostParts(int steps) {
      const int parts = steps / SplitTiles::fewestSteps;
      return parts < 1 ? 1 : parts < SplitTiles::mostParts ? parts : SplitTiles::mostParts;
    }
    /// The first step of a level, from the node's. What is added later may take longer.
    NANO_BOTH constexpr int begin(int level) const {
      return level * share + SplitTiles::handOver * level * (levels - level) / 2;
    }
    NANO_BOTH constexpr Node left(const Node &node) const {
      return {rest, node.pairs, node.begin + levels * share, node.steps - levels * share, true};
    }
  };
  /// How many parts a node makes of its pair i.
  static NANO_BOTH constexpr int partsOf(Node node, int i) {
    for (int parts = 0;;) {
      if (node.pairs >= node.clusters) {
        const int whole = node.pairs / node.clusters * node.clusters;
        if (i < whole)
          return parts + 1;
        i -= whole;
        node.pairs -= whole;
      } else {
        const Division division(node);
        parts += division.levels;
        if (division.rest == 0)
          return parts;
        node = division.left(node);
      }
    }
  }
  /// Of a product with few rows of tiles these come first, else columns: neighbours have most of
  /// the larger factor in common.
  NANO_BOTH constexpr void place(SplitPart &part, int pair) const {
    part.pair = pair;
    int product = 0;
    for (; product + 1 < products.count; ++product) {
      const int pairs = splitPairs(products.rows(product), products.columns(product));
      if (pair < pairs)
        break;
      pair -= pairs;
    }
    const int rows = products.rows(product), columns = products.columns(product);
    const int down = int(divideUp(rows, Tiles::rows)) / 2,
              across = int(divideUp(columns, Tiles::columns));
    part.product = product;
    part.sharesRows = pair >= down * across;
    if (part.sharesRows) {
      part.row = 2 * down * Tiles::rows;
      part.column = (pair - down * across) * 2 * Tiles::columns;
    } else if (rows < columns) {
      part.row = pair % down * 2 * Tiles::rows;
      part.column = pair / down * Tiles::columns;
    } else {
      part.row = pair / across * 2 * Tiles::rows;
      part.column = pair % across * Tiles::columns;
    }
  }

  const Products products;
  Node node;
  const int all, cluster;
  int first = 0, round = 0; ///< the node's first pair, and whole pairs that have been made of it
};

/// Steps until the last cluster has stored its parts.
template <class Products>
NANO_BOTH constexpr long long splitSteps(const Products &products, int clusters) {
  long long longest = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    SplitWork<Products> work(products, clusters, cluster);
    long long steps = 0;
    for (SplitPart part = {}; work.next(part);)
      steps += part.end - part.begin + SplitTiles::handOver;
    longest = steps > longest ? steps : longest;
  }
  return longest;
}

/// What the template needs: rows of 16 bytes and their multiples.
NANO_BOTH constexpr bool isSplitShape(int rows, int columns) {
  return rows % 8 == 0 && columns % 8 == 0;
}

/// As matmulLaunch; fewer blocks where pairs may not be cut into more parts.
template <class Products>
NANO_BOTH constexpr MatmulLaunch splitLaunch(const Products &products, long long multiprocessors) {
  using Tiles = MatmulTiles;
  const long long most = multiprocessors < 2 ? 1 : multiprocessors / Tiles::clusterBlocks;
  const long long wanted = (long long)SplitTiles::mostParts * splitPairs(products);
  return {Tiles::threads(/*sums=*/false), Tiles::clusterBlocks * (wanted < most ? wanted : most),
          Tiles::sharedBytes};
}

/// Numbers that are zero before the launch: a ticket, and of each warpgroup's rows of the tiles how
/// many parts have been added.
template <class Products> NANO_BOTH constexpr int splitCounts(const Products &products) {
  using Tiles = MatmulTiles;
  return 1 + Tiles::clusterBlocks * Tiles::multiplying * splitPairs(products);
}

} // namespace nano
