// What the lanes of a warp do together: shuffles, votes, sums, matrix fragments and products.
#include "runtime/emulator/Cluster.h"
#include "runtime/emulator/MatrixFormats.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace nano::emulator {

namespace {

constexpr uint32_t allLanes = 0xffffffffu;

/// Calls `fn(lane, arguments)` for the lanes of `mask`.
template <typename Arguments, typename Fn> void forLanes(Warp &warp, uint32_t mask, Fn fn) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      fn(lane, *static_cast<Arguments *>(warp.arguments[lane]));
}

} // namespace

void EmulatedThread::together(const char *what, uint32_t mask, void *arguments, bool aligned,
                              Site site, void (*complete)(Warp &, uint32_t)) {
  auto diverges = [&](const std::string &how) {
    cluster->fail(*this, std::string("divergent warp: ") + what + " (" + Cluster::nameOf(site) +
                             ") " + how);
  };
  auto whereOf = [](const Gathering &other) {
    return std::string("while lane ") + std::to_string(__builtin_ctz(other.arrived)) + " is in " +
           other.what + " (" + Cluster::nameOf(other.site) + ")";
  };
  uint32_t bit = 1u << lane;
  if (!(mask & bit))
    diverges("is called by lane " + std::to_string(lane) + ", which its mask does not name");
  if (mask & warp->ended)
    diverges("names lane " + std::to_string(__builtin_ctz(mask & warp->ended)) +
             ", which has ended");
  Gathering *mine = nullptr;
  for (Gathering &each : warp->gatherings) {
    if (each.mask == mask)
      mine = &each;
    else if ((each.mask & bit) || (each.arrived & mask))
      diverges(whereOf(each) + " with another mask");
  }
  if (!mine) {
    warp->gatherings.push_back({mask, 0, what, site});
    mine = &warp->gatherings.back();
  } else if ((mine->what != what && std::strcmp(mine->what, what) != 0) ||
             (aligned && !isSame(mine->site, site))) {
    diverges(whereOf(*mine));
  }
  mine->arrived |= bit;
  warp->arguments[lane] = arguments;
  ++cluster->progress;
  if (mine->arrived != mask) {
    cluster->wait(*this, what, site);
    return;
  }
  *mine = warp->gatherings.back();
  warp->gatherings.pop_back();
  complete(*warp, mask);
  cluster->wakeLanes(*warp, mask & ~bit);
}

// ------------------------------------------------------------------------ Shuffles and votes

unsigned long EmulatedThread::shuffle(Shuffle kind, unsigned long value, int operand, unsigned mask,
                                      Site site) {
  struct Arguments {
    EmulatedThread *thread;
    Shuffle kind;
    unsigned long value, result;
    int operand;
    Site site;
  } arguments = {this, kind, value, 0, operand, site};
  together("shuffle", mask, &arguments, false, site, [](Warp &warp, uint32_t mask) {
    forLanes<Arguments>(warp, mask, [&](uint32_t lane, Arguments &mine) {
      int from = int(lane);
      switch (mine.kind) {
      case Shuffle::Index:
        from = mine.operand & 31;
        break;
      case Shuffle::Xor:
        from = int(lane) ^ mine.operand;
        break;
      case Shuffle::Down:
        from = int(lane) + mine.operand;
        break;
      case Shuffle::Up:
        from = int(lane) - mine.operand;
        break;
      }
      if (from < 0 || from > 31)
        from = int(lane);
      if (!(mask >> from & 1)) {
        mine.thread->cluster->fail(*mine.thread, "divergent warp: shuffle (" +
                                                     Cluster::nameOf(mine.site) +
                                                     ") reads from lane " + std::to_string(from) +
                                                     ", which its mask does not name");
      }
      mine.result = static_cast<Arguments *>(warp.arguments[size_t(from)])->value;
    });
  });
  return arguments.result;
}

unsigned EmulatedThread::ballot(bool value, unsigned mask, Site site) {
  struct Arguments {
    bool value;
    unsigned result;
  } arguments = {value, 0};
  together("vote", mask, &arguments, false, site, [](Warp &warp, uint32_t mask) {
    uint32_t votes = 0;
    forLanes<Arguments>(
        warp, mask, [&](uint32_t lane, Arguments &mine) { votes |= uint32_t(mine.value) << lane; });
    forLanes<Arguments>(warp, mask, [&](uint32_t, Arguments &mine) { mine.result = votes; });
  });
  return arguments.result;
}

unsigned EmulatedThread::reduce(Reduction kind, unsigned value, Site site) {
  struct Arguments {
    Reduction kind;
    unsigned value;
  } arguments = {kind, value};
  together("reduction", allLanes, &arguments, false, site, [](Warp &warp, uint32_t mask) {
    auto first = *static_cast<Arguments *>(warp.arguments[0]);
    unsigned result = first.value;
    forLanes<Arguments>(warp, mask & ~1u, [&](uint32_t, Arguments &mine) {
      switch (first.kind) {
      case Reduction::AddInt:
      case Reduction::AddUnsigned:
        result += mine.value;
        break;
      case Reduction::MaxInt:
        result = unsigned(std::max(int(result), int(mine.value)));
        break;
      case Reduction::MaxUnsigned:
        result = std::max(result, mine.value);
        break;
      }
    });
    forLanes<Arguments>(warp, mask, [&](uint32_t, Arguments &mine) { mine.value = result; });
  });
  return arguments.value;
}

namespace {

/// x ← combine(x, x of lane ⊕ 16, 8, 4, 2, 1).
template <typename Fn> void butterfly(Warp &warp, Fn combine) {
  std::array<float, 32> now, before;
  for (size_t lane = 0; lane < 32; ++lane)
    now[lane] = *static_cast<float *>(warp.arguments[lane]);
  for (size_t distance = 16; distance > 0; distance /= 2) {
    before = now;
    for (size_t lane = 0; lane < 32; ++lane)
      now[lane] = combine(before[lane], before[lane ^ distance]);
  }
  for (size_t lane = 0; lane < 32; ++lane)
    *static_cast<float *>(warp.arguments[lane]) = now[lane];
}

} // namespace

float EmulatedThread::sum(float value, Site site) {
  together("warpSum", allLanes, &value, false, site,
           [](Warp &warp, uint32_t) { butterfly(warp, [](float a, float b) { return a + b; }); });
  return value;
}

float EmulatedThread::max(float value, Site site) {
  together("warpMax", allLanes, &value, false, site, [](Warp &warp, uint32_t) {
    butterfly(warp, [](float a, float b) { return a != a || a > b ? a : b; });
  });
  return value;
}

bool EmulatedThread::elect(Site site) {
  together("electLane", allLanes, nullptr, true, site, [](Warp &, uint32_t) {});
  return lane == 0;
}

void EmulatedThread::syncWarp(unsigned mask, Site site) {
  together("syncWarp", mask, this, false, site, [](Warp &warp, uint32_t mask) {
    auto &any = *static_cast<EmulatedThread *>(warp.arguments[size_t(__builtin_ctz(mask))]);
    if (!any.cluster->checked)
      return;
    Release release;
    forLanes<EmulatedThread>(warp, mask, [&](uint32_t, EmulatedThread &each) {
      release.add(each.clock, each.cluster->threadCount());
    });
    forLanes<EmulatedThread>(warp, mask,
                             [&](uint32_t, EmulatedThread &each) { release.acquire(each.clock); });
  });
}

// -------------------------------------------------------------------------------- Matrices

namespace {

/// A lane's part of ldmatrix or stmatrix.
struct MatrixAccess {
  EmulatedThread *thread;
  unsigned *fragment;
  unsigned short *row;
  int matrices;
  bool transposed;
};

/// The element that lane `lane` holds in half `half` of matrix `matrix`'s fragment.
unsigned short &element(Warp &warp, const MatrixAccess &access, int matrix, uint32_t lane,
                        uint32_t half) {
  uint32_t group = lane / 4, pair = lane % 4;
  uint32_t row = access.transposed ? 2 * pair + half : group;
  uint32_t column = access.transposed ? group : 2 * pair + half;
  return static_cast<MatrixAccess *>(warp.arguments[size_t(matrix) * 8 + row])->row[column];
}

} // namespace

void EmulatedThread::loadMatrix(unsigned *fragment, int matrices, bool transposed, const void *row,
                                Site site) {
  if (int(lane) < 8 * matrices) {
    cluster->needShared(*this, row, 16, 16, "loadMatrix", site);
    if (cluster->checked)
      cluster->check(*this, row, 16, false, Cluster::Use::Read, cluster->place(site));
  }
  MatrixAccess access = {this, fragment, static_cast<unsigned short *>(const_cast<void *>(row)),
                         matrices, transposed};
  together(transposed ? "loadMatrixTransposed" : "loadMatrix", allLanes, &access, true, site,
           [](Warp &warp, uint32_t mask) {
             forLanes<MatrixAccess>(warp, mask, [&](uint32_t lane, MatrixAccess &mine) {
               for (int i = 0; i < mine.matrices; ++i)
                 mine.fragment[i] = element(warp, mine, i, lane, 0) |
                                    unsigned(element(warp, mine, i, lane, 1)) << 16;
             });
           });
}

void EmulatedThread::storeMatrix(void *row, const unsigned *fragment, int matrices, bool transposed,
                                 Site site) {
  if (int(lane) < 8 * matrices) {
    cluster->needShared(*this, row, 16, 16, "storeMatrix", site);
    if (cluster->checked)
      cluster->check(*this, row, 16, false, Cluster::Use::Write, cluster->place(site));
  }
  MatrixAccess access = {this, const_cast<unsigned *>(fragment), static_cast<unsigned short *>(row),
                         matrices, transposed};
  together(transposed ? "storeMatrixTransposed" : "storeMatrix", allLanes, &access, true, site,
           [](Warp &warp, uint32_t mask) {
             forLanes<MatrixAccess>(warp, mask, [&](uint32_t lane, MatrixAccess &mine) {
               for (int i = 0; i < mine.matrices; ++i) {
                 element(warp, mine, i, lane, 0) = static_cast<unsigned short>(mine.fragment[i]);
                 element(warp, mine, i, lane, 1) =
                     static_cast<unsigned short>(mine.fragment[i] >> 16);
               }
             });
           });
}

void EmulatedThread::multiply(Element aType, Element bType, float *sum, const unsigned *a,
                              const unsigned *b, Site site) {
  struct Arguments {
    Element aType, bType;
    float *sum;
    const unsigned *a, *b;
    bool isExact;
  } arguments = {aType, bType, sum, a, b, cluster->launch->exactSums};
  together("matrixMultiply", allLanes, &arguments, true, site, [](Warp &warp, uint32_t mask) {
    auto first = *static_cast<Arguments *>(warp.arguments[0]);
    auto inWord = size_t(elementsInWord(first.aType)), k = 8 * inWord;
    std::array<float, 16 * 32> left; // by row
    std::array<float, 8 * 32> right; // by column
    forLanes<Arguments>(warp, mask, [&](uint32_t lane, Arguments &mine) {
      size_t group = lane / 4, pair = lane % 4;
      for (size_t part = 0; part < 4; ++part)
        decodeWord(mine.aType, mine.a[part],
                   &left[(group + part % 2 * 8) * k + inWord * (pair + part / 2 * 4)]);
      for (size_t part = 0; part < 2; ++part)
        decodeWord(mine.bType, mine.b[part], &right[group * k + inWord * (pair + part * 4)]);
    });
    forLanes<Arguments>(warp, mask, [&](uint32_t lane, Arguments &mine) {
      size_t group = lane / 4, pair = lane % 4;
      const auto sumOf = mine.isExact ? exactSumOfProducts : sumOfProducts;
      for (size_t i = 0; i < 4; ++i)
        mine.sum[i] = sumOf(&left[(group + i / 2 * 8) * k], &right[(2 * pair + i % 2) * k], int(k),
                            mine.sum[i]);
    });
  });
}

} // namespace nano::emulator
