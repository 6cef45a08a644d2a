// Short vectors of a thread's elements: arithmetic lane by lane, choices, and conversions between
// element types.
#pragma once

#include "nano_primitives.h"

namespace nano {

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

/// N lanes of a and behind them b, from lane `first` of a on.
template <int N, int first, class A, class B> NANO_DEVICE auto joined(const A &a, const B &b) {
  Vec<typename ElementType<A>::type, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = first + i < N ? laneOf(a, first + i) : laneOf(b, first + i - N);
  return result;
}

/// Those lanes of a, in that order.
template <int... from, class A> NANO_DEVICE auto lanesAt(const A &a) {
  return Vec<typename ElementType<A>::type, int(sizeof...(from))>{{laneOf(a, from)...}};
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

} // namespace nano
