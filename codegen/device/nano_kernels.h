// What generated kernels are written in: launches over several sets of operands, loads and stores
// of vectors in 16 bytes, reductions in a fixed order.
#pragma once

#include "nano_functions.h"
#include "nano_primitives.h"
#include "nano_random.h"
#include "nano_vectors.h"

namespace nano {

// -------------------------------------------------------------------------------- Launches

NANO_DEVICE int64_t threadIndex() { return int64_t(threadIdx.x); }

/// What a block has to do: iterations [begin, end) of one set of operands.
struct Work {
  int64_t begin, end;
  void *const *args;
  /// Operand i.
  template <class T> NANO_DEVICE T *pointer(int i) const { return static_cast<T *>(args[i]); }
};

/// A kernel's parameters: `segments` sets of operands, each with its iterations and its first
/// block.
template <int Args, int Segments> struct Launch {
  int32_t segments, blocks;
  struct {
    void *args[Args];
    int64_t iterations, firstBlock;
  } segment[Segments];

  /// The work of a block of `blockIterations` iterations.
  NANO_DEVICE Work find(int64_t block, int64_t blockIterations) const {
    int low = 0;
    if constexpr (Segments > 1)
      for (int high = segments; high - low > 1;) {
        int middle = (low + high) / 2;
        (segment[middle].firstBlock <= block ? low : high) = middle;
      }
    int64_t begin = (block - segment[low].firstBlock) * blockIterations;
    int64_t end = begin + blockIterations;
    return {begin, end < segment[low].iterations ? end : segment[low].iterations,
            segment[low].args};
  }
};

// ----------------------------------------------------------------------------------- Memory

/// Bytes of one access to `Bytes` contiguous bytes at a multiple of `Alignment`.
template <int Bytes, int Alignment, int Size = 16>
constexpr int accessBytes =
    Size <= Alignment && Bytes % Size == 0 ? Size : accessBytes<Bytes, Alignment, Size / 2>;
template <int Bytes, int Alignment> constexpr int accessBytes<Bytes, Alignment, 1> = 1;

template <int Bytes> struct alignas(Bytes) Piece {
  using Word = Unsigned < Bytes<4 ? Bytes : 4>;
  Word word[Bytes / sizeof(Word)];
};

/// Elements as the words that memory holds, put together by arithmetic: through bytes in memory
/// order the compiler would also store them byte by byte.
template <class Word, class T, int N> NANO_DEVICE auto wordsOf(const Vec<T, N> &value) {
  constexpr int each = sizeof(Word) / sizeof(T);
  Vec<Word, N / each> words;
#pragma unroll
  for (int i = 0; i < N / each; ++i) {
    auto bits = [&](int j) { return Word(bitCast<Unsigned<sizeof(T)>>(value.lane[i * each + j])); };
    Word word = 0;
    if constexpr (sizeof(T) == 1 && each == 4) {
      // In pairs, as conversions make them: the compiler finds each pair again.
      const uint16_t low = uint16_t(bits(0) | bits(1) << 8);
      const uint16_t high = uint16_t(bits(2) | bits(3) << 8);
      word = low | Word(high) << 16;
    } else {
#pragma unroll
      for (int j = 0; j < each; ++j)
        word |= bits(j) << (8 * sizeof(T) * j);
    }
    words.lane[i] = word;
  }
  return words;
}
template <class T, class Word, int N> NANO_DEVICE auto elementsOf(const Vec<Word, N> &words) {
  constexpr int each = sizeof(Word) / sizeof(T);
  Vec<T, N * each> value;
#pragma unroll
  for (int i = 0; i < N * each; ++i)
    value.lane[i] =
        bitCast<T>(Unsigned<sizeof(T)>(words.lane[i / each] >> (8 * sizeof(T) * (i % each))));
  return value;
}

/// N narrow elements that a thread keeps for long, as words: one by one the compiler would have
/// each in a register of its own where it keeps them from one iteration of a loop to the next.
template <class T, int N> struct Held {
  using Word = Unsigned<N * sizeof(T) % 4 == 0 ? 4 : N * sizeof(T) % 2 == 0 ? 2 : 1>;
  Vec<Word, int(N * sizeof(T) / sizeof(Word))> words;
  NANO_DEVICE void operator=(const Vec<T, N> &value) { words = wordsOf<Word>(value); }
  NANO_DEVICE Vec<T, N> elements() const { return elementsOf<T>(words); }
};

enum class Access { Load, Read };

/// N elements as words, in as few accesses as the alignment allows.
template <Access How, int N, int Alignment, class T> NANO_DEVICE auto loadWords(const T *at) {
  constexpr int bytes = accessBytes<N * sizeof(T), Alignment>, count = N * sizeof(T) / bytes;
  using Word = typename Piece<bytes>::Word;
  constexpr int words = bytes / sizeof(Word);
  Vec<Word, count * words> read;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const auto *from = reinterpret_cast<const Piece<bytes> *>(at) + i;
    Piece<bytes> piece = How == Access::Read ? loadReadOnly(from) : *from;
#pragma unroll
    for (int j = 0; j < words; ++j)
      read.lane[i * words + j] = piece.word[j];
  }
  return read;
}
template <Access How, int N, int Alignment, class T> NANO_DEVICE Vec<T, N> loadPieces(const T *at) {
  return elementsOf<T>(loadWords<How, N, Alignment>(at));
}
/// N elements from `at`, a multiple of 16 bytes, for later.
template <int N, class T> NANO_DEVICE auto hold(T *at) {
  return Held<typename RemoveConst<T>::type, N>{
      loadWords<Access::Load, N, 16>(static_cast<const T *>(at))};
}

/// N elements from `at`, which is a multiple of `Alignment` bytes. `read` is for memory that this
/// launch does not write.
template <int N, int Alignment = 16, class T> NANO_DEVICE auto load(T *at) {
  return loadPieces<Access::Load, N, Alignment>(static_cast<const T *>(at));
}
template <int N, int Alignment = 16, class T> NANO_DEVICE auto read(const T *at) {
  return loadPieces<Access::Read, N, Alignment>(at);
}
template <class T> NANO_DEVICE T read(const T *at) { return loadReadOnly(at); }

/// Likewise; lanes that take no part are not touched in memory and are 0.
template <Access How, int N, int Alignment, class T, class Mask>
NANO_DEVICE Vec<T, N> loadMasked(const T *at, const Mask &mask) {
  if constexpr (isSame<Mask, Wholly>) {
    if (mask.isInside)
      return loadPieces<How, N, Alignment>(at);
    return Vec<T, N>{};
  } else {
    if (mask.count == N)
      return loadPieces<How, N, Alignment>(at);
    Vec<T, N> result{};
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (mask[i])
        result.lane[i] = at[i];
    return result;
  }
}
/// Likewise for later, whole or not at all: as words, for elements that meet zeros here would be
/// taken apart here, and so waited for.
template <Access How, int N, int Alignment, class T>
NANO_DEVICE Held<T, N> holdMasked(const T *at, const Wholly &mask) {
  decltype(loadWords<How, N, Alignment>(at)) words{};
  if (mask.isInside)
    words = loadWords<How, N, Alignment>(at);
  Held<T, N> held;
  // What lies at less than a word's alignment comes in smaller ones.
  if constexpr (isSame<decltype(words), decltype(held.words)>)
    held.words = words;
  else
    held = elementsOf<T>(words);
  return held;
}
template <int N, int Alignment = 16, class T>
NANO_DEVICE auto loadLater(T *at, const Wholly &mask) {
  return holdMasked<Access::Load, N, Alignment>(static_cast<const T *>(at), mask);
}
template <int N, int Alignment = 16, class T>
NANO_DEVICE auto readLater(const T *at, const Wholly &mask) {
  return holdMasked<Access::Read, N, Alignment>(at, mask);
}
template <int N, int Alignment = 16, class T, class Mask>
NANO_DEVICE auto load(T *at, const Mask &mask) {
  return loadMasked<Access::Load, N, Alignment>(static_cast<const T *>(at), mask);
}
template <int N, int Alignment = 16, class T, class Mask>
NANO_DEVICE auto read(const T *at, const Mask &mask) {
  return loadMasked<Access::Read, N, Alignment>(at, mask);
}

/// Writes the lanes to `at` and on, which is a multiple of `Alignment` bytes; `isStreaming`: nobody
/// reads them soon.
template <int N, int Alignment = 16, bool isStreaming = false, class T>
NANO_DEVICE void store(T *at, const Vec<T, N> &value) {
  constexpr int bytes = accessBytes<N * sizeof(T), Alignment>, count = N * sizeof(T) / bytes;
  using Word = typename Piece<bytes>::Word;
  constexpr int words = bytes / sizeof(Word);
  const auto written = wordsOf<Word>(value);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    Piece<bytes> piece;
#pragma unroll
    for (int j = 0; j < words; ++j)
      piece.word[j] = written.lane[i * words + j];
    auto *to = reinterpret_cast<Piece<bytes> *>(at) + i;
    if constexpr (isStreaming)
      nano::storeStreaming(to, piece);
    else if constexpr (words > 1)
      storeWhole(to, piece);
    else
      *to = piece;
  }
}
template <int N, class T> NANO_DEVICE void storeStreaming(T *at, const Vec<T, N> &value) {
  store<N, 16, true>(at, value);
}
/// Adds the lanes to what is at `at` and on, a multiple of 16 bytes that no other thread touches
/// during the launch.
template <int N> NANO_DEVICE void addTo(float *at, const Vec<float, N> &summand) {
  static_assert(N % 4 == 0);
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const float four[4] = {summand.lane[i], summand.lane[i + 1], summand.lane[i + 2],
                           summand.lane[i + 3]};
    addInMemory(at + i, four);
  }
}
template <int N, int Alignment = 16, class T, class Mask>
NANO_DEVICE void store(T *at, const Vec<T, N> &value, const Mask &mask) {
  if constexpr (isSame<Mask, Wholly>) {
    if (mask.isInside)
      store<N, Alignment>(at, value);
  } else {
    if (mask.count == N)
      return store<N, Alignment>(at, value);
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (mask[i])
        at[i] = value.lane[i];
  }
}

/// Element `offsets[i]` from `from` in lane i; with a mask, 0 in lanes that take no part.
template <class T, class Offset, int N>
NANO_DEVICE auto gatherLanes(T *from, const Vec<Offset, N> &offsets) {
  return map<typename RemoveConst<T>::type>([=](Offset offset) { return from[offset]; }, offsets);
}
template <class T, class Offset, int N, class Mask>
NANO_DEVICE auto gatherLanes(T *from, const Vec<Offset, N> &offsets, const Mask &mask) {
  Vec<typename RemoveConst<T>::type, N> result{};
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (mask[i])
      result.lane[i] = from[offsets.lane[i]];
  return result;
}
/// Lane i to element `offsets[i]` from `to`.
template <class T, class Offset, int N>
NANO_DEVICE void scatterLanes(T *to, const Vec<Offset, N> &offsets, const Vec<T, N> &value) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    to[offsets.lane[i]] = value.lane[i];
}
template <class T, class Offset, int N, class Mask>
NANO_DEVICE void scatterLanes(T *to, const Vec<Offset, N> &offsets, const Vec<T, N> &value,
                              const Mask &mask) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (mask[i])
      to[offsets.lane[i]] = value.lane[i];
}

/// Starts copying `Bytes` from element `first` of `from`, a multiple of them or of 16, to element
/// `place` of shared memory, which has `Count`.
template <class T, int Bytes, int Count>
NANO_DEVICE void copyAhead(T *shared, int64_t place, const T *from, int64_t first) {
  static_assert(Bytes <= Count * int(sizeof(T)));
  constexpr int piece = Bytes < 16 ? Bytes : 16, each = piece / int(sizeof(T));
#pragma unroll
  for (int i = 0; i < Bytes / piece; ++i)
    copyAsync<piece>(shared + place + i * each, from + first + i * each);
}

// ------------------------------------------------------------------------------- Reductions

/// The lanes of the `Group` (1, 2, … 32) neighbouring lanes that this one is in.
template <int Group> NANO_DEVICE uint32_t groupMask() {
  if constexpr (Group == 32)
    return fullMask;
  else
    return ((1u << Group) - 1) << (laneIndex() & ~(Group - 1));
}
template <int Group> NANO_DEVICE void syncGroup() { syncWarp(groupMask<Group>()); }
NANO_DEVICE void syncBlock() { syncThreads(); }

struct Add {
  NANO_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  template <class T> NANO_DEVICE T operator()(T a, T b) const { return maximum(a, b); }
};

/// `combine` over a group of lanes, the same bits in each: x ∘ x of lane ⊕ Group/2, … 1.
template <int Group, class T, class Combine> NANO_DEVICE T groupCombine(T value, Combine combine) {
  // Of integers a warp finds the largest in one instruction.
  if constexpr (isSame<T, int> && isSame<Combine, Largest> && Group == 32) {
    return warpMax(value);
  } else {
    const uint32_t mask = groupMask<Group>();
#pragma unroll
    for (int distance = Group / 2; distance > 0; distance /= 2)
      value = combine(value, shuffleXor(value, distance, mask));
    return value;
  }
}
/// `combine` over the block's threads, in order of warps; `partials` is shared memory for 32
/// numbers, whose bits are kept.
template <int Threads, class T, class Combine>
NANO_DEVICE T blockCombine(T value, float *partials, Combine combine) {
  value = groupCombine<32>(value, combine);
  syncThreads();
  if (laneIndex() == 0)
    partials[warpIndex()] = bitCast<float>(value);
  syncThreads();
  T total = bitCast<T>(partials[0]);
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp)
    total = combine(total, bitCast<T>(partials[warp]));
  return total;
}

/// Waits for the `Group` threads of a team, whole warps of a block that lie side by side.
template <int Group> NANO_DEVICE void syncTeam(int64_t team) { barrierSync(1 + int(team), Group); }
/// `combine` over the threads of a team, in order of warps. `partials` is shared memory for a
/// number of each of the block's warps, which no other call uses until its team has waited once
/// more.
template <int Group, class T, class Combine>
NANO_DEVICE T teamCombine(T value, float *partials, int64_t team, Combine combine) {
  constexpr int warps = Group / 32;
  value = groupCombine<32>(value, combine);
  if (laneIndex() == 0)
    partials[warpIndex()] = bitCast<float>(value);
  syncTeam<Group>(team);
  const float *const ofTeam = partials + team * warps;
  T total = bitCast<T>(ofTeam[0]);
#pragma unroll
  for (int warp = 1; warp < warps; ++warp)
    total = combine(total, bitCast<T>(ofTeam[warp]));
  return total;
}

/// Sums of several numbers over a team, with one exchange: what each warp has, …
template <int Group, int Count, class... Numbers>
NANO_DEVICE void shareSums(float *partials, int64_t team, Numbers... numbers) {
  static_assert(sizeof...(Numbers) == Count);
  float own[Count] = {numbers...};
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
    for (int i = 0; i < Count; ++i)
      own[i] += shuffleXor(own[i], distance);
  if (laneIndex() == 0)
#pragma unroll
    for (int i = 0; i < Count; ++i)
      partials[32 * i + warpIndex()] = own[i];
  syncTeam<Group>(team);
}
/// … and the sum of number i, in order of warps. `partials` has room for a number of each warp and
/// i, and is not used again until the team has waited once more.
template <int Group, int Count>
NANO_DEVICE float sharedSum(const float *partials, int64_t team, int64_t i) {
  constexpr int warps = Group / 32;
  const float *const ofTeam = partials + 32 * i + team * warps;
  float total = ofTeam[0];
#pragma unroll
  for (int warp = 1; warp < warps; ++warp)
    total += ofTeam[warp];
  return total;
}

/// Sum over a group of lanes, the block's threads, or a team.
template <int Group> NANO_DEVICE float groupSum(float value) {
  return groupCombine<Group>(value, Add());
}
template <int Threads> NANO_DEVICE float blockSum(float value, float *partials) {
  return blockCombine<Threads>(value, partials, Add());
}
template <int Group> NANO_DEVICE float teamSum(float value, float *partials, int64_t team) {
  return teamCombine<Group>(value, partials, team, Add());
}
/// Maximum over them, of floats or integers; NaN when one has NaN.
template <int Group, class T = float> NANO_DEVICE T groupMax(T value) {
  return groupCombine<Group>(value, Largest());
}
template <int Threads, class T = float> NANO_DEVICE T blockMax(T value, float *partials) {
  return blockCombine<Threads>(value, partials, Largest());
}
template <int Group, class T = float>
NANO_DEVICE T teamMax(T value, float *partials, int64_t team) {
  return teamCombine<Group>(value, partials, team, Largest());
}

} // namespace nano
