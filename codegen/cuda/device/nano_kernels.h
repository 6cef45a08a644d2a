// What generated kernels are written in: launches over several sets of operands, short vectors of a
// thread's elements, loads and stores of 16 bytes, reductions in a fixed order.
#pragma once

#include "nano_primitives.h"

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

// --------------------------------------------------------------------------------- Vectors

/// N elements that one thread works on.
template <class T, int N> struct alignas(sizeof(T) * N % 16 == 0 ? 16 : sizeof(T)) Vec {
  using Element = T;
  static constexpr int lanes = N;
  T lane[N];
  NANO_DEVICE T &operator[](int i) { return lane[i]; }
  NANO_DEVICE const T &operator[](int i) const { return lane[i]; }
};

/// Which lanes of a vector take part: the first `count`.
template <int N> struct First {
  int count;
  NANO_DEVICE bool operator[](int i) const { return i < count; }
};
template <int N> NANO_DEVICE First<N> first(int64_t count) {
  return {count < 0 ? 0 : count > N ? N : int(count)};
}
/// All lanes or none.
struct Wholly {
  bool isInside;
  NANO_DEVICE bool operator[](int) const { return isInside; }
};
NANO_DEVICE Wholly wholly(bool isInside) { return {isInside}; }

template <class T> constexpr int lanesOf = 0; ///< 0: a single number
template <class T, int N> constexpr int lanesOf<Vec<T, N>> = N;

template <class T> NANO_DEVICE T laneOf(const T &number, int) { return number; }
template <class T, int N> NANO_DEVICE T laneOf(const Vec<T, N> &vector, int i) {
  return vector.lane[i];
}
/// Lanes of the operand that has most.
template <class... Operands> constexpr int mostLanes = 0;
template <class A, class... Rest>
constexpr int mostLanes<A, Rest...> =
    lanesOf<A> > mostLanes<Rest...> ? lanesOf<A> : mostLanes<Rest...>;

/// Results of f for every lane; operands that are single numbers count for all lanes.
template <class T, class F, class... Operands>
NANO_DEVICE auto map(F f, const Operands &...operands) {
  constexpr int lanes = mostLanes<Operands...>;
  Vec<T, lanes> result;
#pragma unroll
  for (int i = 0; i < lanes; ++i)
    result.lane[i] = f(laneOf(operands, i)...);
  return result;
}

template <bool> struct When {};
template <> struct When<true> {
  using type = int;
};
/// Template parameter of functions that take at least one vector.
template <class... Operands> using Vectors = typename When<(... || (lanesOf<Operands> > 0))>::type;

template <class T> struct ElementType {
  using type = T;
};
template <class T, int N> struct ElementType<Vec<T, N>> {
  using type = T;
};
template <class T> struct RemoveConst {
  using type = T;
};
template <class T> struct RemoveConst<const T> {
  using type = T;
};

// Arithmetic lane by lane. Sums, differences and products of i32 wrap.
#define NANO_OPERATOR(SYMBOL)                                                                      \
  template <class A, class B, Vectors<A, B> = 0>                                                   \
  NANO_DEVICE auto operator SYMBOL(const A &a, const B &b) {                                       \
    using T = typename ElementType<A>::type;                                                       \
    using U = typename ElementType<B>::type;                                                       \
    using R = decltype(T() SYMBOL U());                                                            \
    if constexpr (isSame<R, int>)                                                                  \
      return map<int>([](T x, U y) { return int(unsigned(x) SYMBOL unsigned(y)); }, a, b);         \
    else                                                                                           \
      return map<R>([](T x, U y) { return x SYMBOL y; }, a, b);                                    \
  }
NANO_OPERATOR(+)
NANO_OPERATOR(-)
NANO_OPERATOR(*)
#undef NANO_OPERATOR

#define NANO_OPERATOR(SYMBOL)                                                                      \
  template <class A, class B, Vectors<A, B> = 0>                                                   \
  NANO_DEVICE auto operator SYMBOL(const A &a, const B &b) {                                       \
    using T = typename ElementType<A>::type;                                                       \
    using U = typename ElementType<B>::type;                                                       \
    return map<decltype(T() SYMBOL U())>([](T x, U y) { return x SYMBOL y; }, a, b);               \
  }
NANO_OPERATOR(/)
NANO_OPERATOR(%)
NANO_OPERATOR(>>)
NANO_OPERATOR(<<)
NANO_OPERATOR(&)
NANO_OPERATOR(|)
NANO_OPERATOR(^)
NANO_OPERATOR(==)
NANO_OPERATOR(!=)
NANO_OPERATOR(<)
NANO_OPERATOR(<=)
NANO_OPERATOR(>)
NANO_OPERATOR(>=)
#undef NANO_OPERATOR

template <class T, int N> NANO_DEVICE Vec<T, N> operator-(const Vec<T, N> &a) {
  return map<T>([](T x) { return -x; }, a);
}

/// A number in every lane; 0, 1, 2, ….
template <int N, class T> NANO_DEVICE Vec<T, N> splat(T number) {
  Vec<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = number;
  return result;
}
template <int N> NANO_DEVICE Vec<int, N> laneNumbers() {
  Vec<int, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = i;
  return result;
}

/// Lanes of a where `chosen`, else of b; both may be single numbers.
template <class M, class A, class B>
NANO_DEVICE auto select(const M &chosen, const A &a, const B &b) {
  using T = typename ElementType<A>::type;
  constexpr int lanes = mostLanes<M, A, B>;
  Vec<T, lanes> result;
#pragma unroll
  for (int i = 0; i < lanes; ++i) {
    bool isChosen;
    if constexpr (lanesOf<M> > 0)
      isChosen = chosen.lane[i];
    else
      isChosen = chosen[i];
    result.lane[i] = isChosen ? laneOf(a, i) : laneOf(b, i);
  }
  return result;
}

// ------------------------------------------------------------------------------ Conversions

/// Two numbers as neighbouring `To` in a word, the first in the lowest bits; and back.
template <class To> NANO_DEVICE auto pack(float low, float high) {
  if constexpr (isSame<To, bf16>)
    return packBf16(low, high);
  else if constexpr (isSame<To, f8e4m3>)
    return packE4m3(low, high);
  else
    return packE5m2(low, high);
}
template <class T> constexpr bool isFloat8 = isSame<T, f8e4m3> || isSame<T, f8e5m2>;

/// Every lane as a `To`: to narrower floats rounded to nearest even, to integers towards zero.
template <class To, class T, int N> NANO_DEVICE Vec<To, N> to(const Vec<T, N> &a) {
  if constexpr ((isSame<To, bf16> || isFloat8<To>) && isSame<T, float> && N % 2 == 0) {
    // One instruction converts two.
    using Bits = Unsigned<sizeof(To)>;
    Vec<To, N> result;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const auto pair = pack<To>(a.lane[i], a.lane[i + 1]);
      result.lane[i] = bitCast<To>(Bits(pair));
      result.lane[i + 1] = bitCast<To>(Bits(pair >> 8 * sizeof(To)));
    }
    return result;
  } else if constexpr (isFloat8<T> && isSame<To, float> && N % 2 == 0) {
    Vec<To, N> result;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const uint16_t pair = uint16_t(a.lane[i].bits | uint16_t(uint16_t(a.lane[i + 1].bits) << 8));
      if constexpr (isSame<T, f8e4m3>)
        unpackE4m3(pair, result.lane[i], result.lane[i + 1]);
      else
        unpackE5m2(pair, result.lane[i], result.lane[i + 1]);
    }
    return result;
  } else {
    return map<To>([](T x) { return To(x); }, a);
  }
}

// -------------------------------------------------------------------------------- Functions

/// a/b, 2 units in the last place off: a·(1/b), where 1/b is infinite for |b| < 2^-126 and 0 for
/// |b| > 2^126.
NANO_DEVICE float quotient(float a, float b) { return a * approximateReciprocal(b); }
/// 1/√x, relative error 2^-22.
NANO_DEVICE float rsqrt(float x) { return approximateRsqrt(x); }
/// e^x as 2^(x·log₂e), relative error (2 + |x|)·2^-23; 0 where e^x < 2^-126. The loss takes it of
/// every logit, where the six instructions more of a correctly scaled one cost more than memory.
NANO_DEVICE float exponential(float x) { return approximateExp2(x * 1.44269504f); }
/// e^(factor·x + summand), relative error (2 + |factor·x| + |summand|)·2^-23; factor and summand
/// are constants.
NANO_DEVICE float exponential(float x, float factor, float summand) {
  return approximateExp2(fma(x, factor * 1.44269504f, summand * 1.44269504f));
}
/// 1 + e^(-factor·x), and at most `most`.
NANO_DEVICE float onePlusExponential(float x, float factor, float most = 0x1p60f) {
  return 1.0f + minimum(approximateExp2(x * (factor * -1.44269504f)), most);
}
/// 1/(1 + e^(-factor·x)), relative error (6 + |factor·x|)·2^-23; where factor·x < -41 it is 2^-60.
NANO_DEVICE float sigmoid(float x, float factor = 1.0f) {
  return approximateReciprocal(onePlusExponential(x, factor));
}

/// sin x (quadrant 0) or cos x (quadrant 1), absolute error 2e-7 for |x| ≤ 5e4: x − n·π/2 in three
/// steps, then polynomials of S. Moshier's Cephes library.
template <int Quadrant> NANO_DEVICE float sineOrCosine(float x) {
  float n = roundEven(x * 0.63661977236758134f);
  float r = fma(n, -1.57079637050628662109375f, x);
  r = fma(n, 4.37113900018624283e-8f, r);
  r = fma(n, 1.71512449e-15f, r);
  float z = r * r;
  float sine = fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f);
  sine = fma(sine * z, r, r);
  float cosine =
      fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  cosine = fma(cosine * z, z, fma(z, -0.5f, 1.0f));
  int quarter = int(n) + Quadrant;
  float magnitude = quarter & 1 ? cosine : sine;
  return quarter & 2 ? -magnitude : magnitude;
}
NANO_DEVICE float sine(float x) { return sineOrCosine<0>(x); }
NANO_DEVICE float cosine(float x) { return sineOrCosine<1>(x); }

NANO_DEVICE int maximum(int a, int b) { return a > b ? a : b; }
NANO_DEVICE int minimum(int a, int b) { return a < b ? a : b; }

#define NANO_UNARY(NAME)                                                                           \
  template <int N> NANO_DEVICE Vec<float, N> NAME(const Vec<float, N> &a) {                        \
    return map<float>([](float x) { return NAME(x); }, a);                                         \
  }
NANO_UNARY(exponential)
NANO_UNARY(log)
NANO_UNARY(sqrt)
NANO_UNARY(approximateSqrt)
NANO_UNARY(rsqrt)
NANO_UNARY(tanh)
NANO_UNARY(sine)
NANO_UNARY(cosine)
NANO_UNARY(abs)
#undef NANO_UNARY

template <int N>
NANO_DEVICE Vec<float, N> exponential(const Vec<float, N> &a, float factor, float summand) {
  return map<float>([=](float x) { return exponential(x, factor, summand); }, a);
}

/// 2^x without the units for special functions, which do 16 a clock and multiprocessor: relative
/// error 2·2^-23, 0 where x ≤ -125.5. 2^(n-1) · 2·2^f for the nearest whole n, by the polynomial of
/// fifth degree whose largest relative error is least; 2^n itself is no number where n = 128.
NANO_DEVICE float polynomialExp2(float x) {
  constexpr float toWhole = 12582912.0f; // 1.5·2^23: the last bit of a sum with it counts ones
  x = minimum(maximum(x, -126.0f), 128.0f);
  const float shifted = x + toWhole;
  const float f = x - (shifted - toWhole);
  float p = fma(2 * 0.0013264728f, f, 2 * 0.009671514f);
  p = fma(p, f, 2 * 0.055507336f);
  p = fma(p, f, 2 * 0.24022242f);
  p = fma(p, f, 2 * 0.693147f);
  p = fma(p, f, 2.0f);
  return p * bitCast<float>((bitCast<uint32_t>(shifted) << 23) + 0x3f000000u);
}
/// exponential of a vector in kernels that do little else than special functions: three lanes of
/// eight are polynomials, by which those units and the others take the same time.
template <int N>
NANO_DEVICE Vec<float, N> exponentialShared(const Vec<float, N> &a, float factor, float summand) {
  Vec<float, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float x = fma(a.lane[i], factor * 1.44269504f, summand * 1.44269504f);
    result.lane[i] = i * 3 % 8 < 3 ? polynomialExp2(x) : approximateExp2(x);
  }
  return result;
}

/// 2^exponent for |exponent| ≤ 1/2, of a constant.
NANO_DEVICE constexpr double smallPower(double exponent) {
  double term = 1, sum = 1;
  for (int i = 1; i < 16; ++i) {
    term *= exponent * 0.69314718055994531 / i;
    sum += term;
  }
  return sum;
}
/// e^(Factor·x + Summand) for x in [0, 1], with the error of `exponential`; neither end of the
/// range is beyond ±80. Without the units for special functions: 2^n · 2^(f + c), where
/// Factor·x·log₂e + Summand·log₂e = n + f + c, with n whole and c constant, by the polynomial of
/// polynomialExp2.
template <float Factor, float Summand> NANO_DEVICE float polynomialOfFraction(float x) {
  constexpr double power = double(Summand) * 1.44269504088896341;
  constexpr int whole = int(power < 0 ? power - 0.5 : power + 0.5);
  constexpr double scale = smallPower(power - whole);
  constexpr float factor = Factor * 1.44269504f;
  constexpr float toWhole = 12582912.0f + float(whole); // 1.5·2^23: its last bit counts ones
  const float shifted = fma(x, factor, toWhole);
  const float f = fma(x, factor, toWhole - shifted);
  float p = fma(float(0.0013264728 * scale), f, float(0.009671514 * scale));
  p = fma(p, f, float(0.055507336 * scale));
  p = fma(p, f, float(0.24022242 * scale));
  p = fma(p, f, float(0.693147 * scale));
  p = fma(p, f, float(scale));
  return p * bitCast<float>((bitCast<uint32_t>(shifted) << 23) + 0x3f800000u);
}
/// Likewise of a vector. One lane of eight does without the units for special functions: measured,
/// more of them gain nothing, since their instructions take as long.
template <float Factor, float Summand, int N>
NANO_DEVICE Vec<float, N> exponentialOfFraction(const Vec<float, N> &a) {
  Vec<float, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = i % 8 == 0 ? polynomialOfFraction<Factor, Summand>(a.lane[i])
                                : exponential(a.lane[i], Factor, Summand);
  return result;
}
/// e^(Factor·sigmoid(slope·x) + Summand), with constants as those of polynomialOfFraction: relative
/// error |Factor|·(6 + |slope·x|)·2^-23 beside that of `exponential`; where slope·x < -20.8 the
/// sigmoid is 2^-30. Four lanes share a reciprocal: one that is NaN makes the others NaN.
template <float Factor, float Summand, int N>
NANO_DEVICE Vec<float, N> exponentialOfSigmoid(const Vec<float, N> &x, float slope) {
  Vec<float, N> fraction;
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      float inverse[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        inverse[j] = onePlusExponential(x.lane[i + j], slope, 0x1p30f);
      const float low = inverse[0] * inverse[1], high = inverse[2] * inverse[3];
      const float all = approximateReciprocal(low * high);
      const float ofLow = all * high, ofHigh = all * low;
      fraction.lane[i] = ofLow * inverse[1];
      fraction.lane[i + 1] = ofLow * inverse[0];
      fraction.lane[i + 2] = ofHigh * inverse[3];
      fraction.lane[i + 3] = ofHigh * inverse[2];
    }
  } else {
    fraction = map<float>([=](float y) { return sigmoid(y, slope); }, x);
  }
  return exponentialOfFraction<Factor, Summand>(fraction);
}

/// Two lanes share a reciprocal, 1/a = b·(1/ab): the units for special functions do 16 a clock and
/// multiprocessor, those for products 128. A lane that is NaN makes its neighbour NaN.
template <int N> NANO_DEVICE Vec<float, N> sigmoid(const Vec<float, N> &a, float factor = 1.0f) {
  Vec<float, N> result;
  if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const float first = onePlusExponential(a.lane[i], factor);
      const float second = onePlusExponential(a.lane[i + 1], factor);
      const float both = approximateReciprocal(first * second);
      result.lane[i] = both * second;
      result.lane[i + 1] = both * first;
    }
  } else {
    result = map<float>([=](float x) { return sigmoid(x, factor); }, a);
  }
  return result;
}

#define NANO_BINARY(NAME)                                                                          \
  template <class A, class B, Vectors<A, B> = 0> NANO_DEVICE auto NAME(const A &a, const B &b) {   \
    using T = typename ElementType<A>::type;                                                       \
    return map<T>([](T x, T y) { return NAME(x, y); }, a, b);                                      \
  }
NANO_BINARY(maximum)
NANO_BINARY(minimum)
NANO_BINARY(quotient)
#undef NANO_BINARY

/// a·b + c with one rounding.
template <class A, class B, class C, Vectors<A, B, C> = 0>
NANO_DEVICE auto fma(const A &a, const B &b, const C &c) {
  return map<float>([](float x, float y, float z) { return fma(x, y, z); }, a, b, c);
}

/// Sum of the lanes: lane i + lane i + N/2, halving.
template <int N> NANO_DEVICE float sum(Vec<float, N> a) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i)
      a.lane[i] += a.lane[i + half];
  return a.lane[0];
}
/// Largest lane; NaN when a lane is NaN.
template <int N> NANO_DEVICE float largest(Vec<float, N> a) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i)
      a.lane[i] = maximum(a.lane[i], a.lane[i + half]);
  return a.lane[0];
}

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
template <int N, int Alignment = 16, class T, class Mask>
NANO_DEVICE auto load(T *at, const Mask &mask) {
  return loadMasked<Access::Load, N, Alignment>(static_cast<const T *>(at), mask);
}
template <int N, int Alignment = 16, class T, class Mask>
NANO_DEVICE auto read(const T *at, const Mask &mask) {
  return loadMasked<Access::Read, N, Alignment>(at, mask);
}

/// Writes the lanes to `at` and on, which is a multiple of `Alignment` bytes.
template <int N, int Alignment = 16, class T>
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
    if constexpr (words > 1)
      storeWhole(to, piece);
    else
      *to = piece;
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

/// `combine` over a group of lanes, the same bits in each: x ∘ x of lane ⊕ Group/2, … 1.
template <int Group, class Combine> NANO_DEVICE float groupCombine(float value, Combine combine) {
  const uint32_t mask = groupMask<Group>();
#pragma unroll
  for (int distance = Group / 2; distance > 0; distance /= 2)
    value = combine(value, shuffleXor(value, distance, mask));
  return value;
}
/// `combine` over the block's threads, in order of warps; `partials` is shared memory for 32
/// numbers.
template <int Threads, class Combine>
NANO_DEVICE float blockCombine(float value, float *partials, Combine combine) {
  value = groupCombine<32>(value, combine);
  syncThreads();
  if (laneIndex() == 0)
    partials[warpIndex()] = value;
  syncThreads();
  float total = partials[0];
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp)
    total = combine(total, partials[warp]);
  return total;
}

struct Add {
  NANO_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  NANO_DEVICE float operator()(float a, float b) const { return maximum(a, b); }
};
/// Sum over a group of lanes or the block's threads.
template <int Group> NANO_DEVICE float groupSum(float value) {
  return groupCombine<Group>(value, Add());
}
template <int Threads> NANO_DEVICE float blockSum(float value, float *partials) {
  return blockCombine<Threads>(value, partials, Add());
}
/// Maximum over them; NaN when one has NaN.
template <int Group> NANO_DEVICE float groupMax(float value) {
  return groupCombine<Group>(value, Largest());
}
template <int Threads> NANO_DEVICE float blockMax(float value, float *partials) {
  return blockCombine<Threads>(value, partials, Largest());
}

} // namespace nano
