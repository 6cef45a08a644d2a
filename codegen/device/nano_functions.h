// Functions of numbers and of vectors' lanes, each with its error: exponentials, sigmoids, sines,
// quotients, and what a vector's lanes come to.
#pragma once

#include "nano_vectors.h"

namespace nano {

/// a/b: a·r and one Newton step, r = 1/b to 1 unit in the last place. It is nearly always the
/// nearest number: an error of r would be the same for all that is divided by b, and sums over rows
/// would keep it. Where |b| < 2^-126 r is infinite, where |b| > 2^126 it is 0, and the result is
/// a·r.
NANO_DEVICE float quotient(float a, float b) {
  const float reciprocal = approximateReciprocal(b), first = a * reciprocal;
  const float result = fma(fma(-b, first, a), reciprocal, first);
  return result == result ? result : first;
}
/// 1/√x: the unit's result to 2^-22 and one Newton step, for the reason that `quotient` has one.
/// Where x < 2^-126 it is infinite.
NANO_DEVICE float rsqrt(float x) {
  const float first = approximateRsqrt(x);
  const float result = fma(fma(-x * first, first, 1.0f), 0.5f * first, first);
  return result == result ? result : first;
}
/// e^x as 2^(x·log₂e), relative error (2 + |x|)·2^-23; 0 where e^x < 2^-126. The loss takes it of
/// every logit, where the six instructions more of a correctly scaled one cost more than memory.
NANO_DEVICE float exponential(float x) { return approximateExp2(x * 1.44269504f); }
/// e^(factor·x + summand), relative error (2 + |factor·x| + |summand|)·2^-23; factor and summand
/// are constants.
NANO_DEVICE float exponential(float x, float factor, float summand) {
  return approximateExp2(fma(x, factor * 1.44269504f, summand * 1.44269504f));
}
/// e^(-factor·x), and at most 2^60.
NANO_DEVICE float negatedExponential(float x, float factor) {
  return minimum(approximateExp2(x * (factor * -1.44269504f)), 0x1p60f);
}
/// 1 + e^(-factor·x), and at most 2^60.
NANO_DEVICE float onePlusExponential(float x, float factor) {
  return 1.0f + negatedExponential(x, factor);
}
/// 1/(1 + e^(-factor·x)), relative error (6 + |factor·x|)·2^-23; where factor·x < -41 it is 2^-60.
NANO_DEVICE float sigmoid(float x, float factor = 1.0f) {
  return approximateReciprocal(onePlusExponential(x, factor));
}
/// 1/(1 + 2^x), relative error 4·2^-23 of that x. Of vectors every lane has a reciprocal of its
/// own: for kernels that wait for their instructions and not for special functions.
NANO_DEVICE float sigmoidOfPower(float x) {
  return approximateReciprocal(1.0f + approximateExp2(x));
}

/// Factor · (ln(1 + f) − f)/f² for |f| ≤ 1/3: −1/2 + f·p(f), where p is of the sixth degree and its
/// largest relative error least.
template <int Factor = 1> NANO_DEVICE float logarithmRest(float f) {
  float p = fma(Factor * 0.138202131f, f, Factor * -0.151221827f);
  p = fma(p, f, Factor * 0.140423134f);
  p = fma(p, f, Factor * -0.164723262f);
  p = fma(p, f, Factor * 0.200079188f);
  p = fma(p, f, Factor * -0.250042379f);
  p = fma(p, f, Factor * 0.333332658f);
  return fma(p, f, Factor * -0.5f);
}
/// ln x, at most 1.2 units in the last place off: of x = 2^n·(1 + f), n·ln 2 + f + f²·rest(f). It
/// has no branches, behind which compilers would compute again what several lanes share.
NANO_DEVICE float log(float x) {
  constexpr uint32_t third = 0x3f2aaaabu, infinity = 0x7f800000u; // 2/3, ∞
  const bool isSmall = x < 0x1p-126f;
  const float scaled = isSmall ? x * 0x1p23f : x;
  const uint32_t bits = bitCast<uint32_t>(scaled), exponent = (bits - third) & 0xff800000u;
  const float f = bitCast<float>(bits - exponent) - 1.0f,
              n = fma(float(int(exponent)), 0x1p-23f, isSmall ? -23.0f : 0.0f);
  const float result = fma(n, 0.693147182f, fma(logarithmRest(f), f * f, f)),
              infinite = bitCast<float>(infinity), none = bitCast<float>(0x7fc00000u);
  // Zeros, infinity; negative ones and NaN.
  const float special = x == 0 ? -infinite : x > 0 ? infinite : none;
  return bits - 1 < infinity - 1 ? result : special;
}

/// erf x, at most 2 units in the last place off: x + x·p(x²) where |x| < 1, else 1 − 2^q(|x|),
/// where p and q are of the fifth degree and their largest errors, relative and that of the result,
/// least. Both are computed: to choose between their coefficients takes the slower instructions.
NANO_DEVICE float erf(float x) {
  const float magnitude = abs(x), square = x * x;
  float p = fma(-0.000563142181f, square, 0.0049175513f);
  p = fma(p, square, -0.0267113112f);
  p = fma(p, square, 0.112801798f);
  p = fma(p, square, -0.37612325f);
  p = fma(p, square, 0.128379121f);
  float q = fma(-0.00165970507f, magnitude, 0.0213202965f);
  q = fma(q, magnitude, -0.12787202f);
  q = fma(q, magnitude, -0.944228053f);
  q = fma(q, magnitude, -1.61212289f);
  q = fma(q, magnitude, -0.00385447103f);
  return whereLess(magnitude, 1.0f, fma(p, x, x), copySign(1.0f - approximateExp2(q), x));
}

/// Φ(x), the distribution function of the standard normal distribution: 2^p(-|x|) or 1 less that,
/// where p is within 2e-4 of log₂ Φ down to -6 and falls faster than it beyond. Absolute error
/// 2e-7; relative, where x is negative, 3e-6 down to -2 and 2e-4 down to -6.
NANO_DEVICE float normalCdf(float x) {
  const float magnitude = abs(x);
  float p = fma(-7.1265293e-07f, magnitude, 1.2684437e-05f);
  p = fma(p, magnitude, -5.539141e-05f);
  p = fma(p, magnitude, -0.00045412857f);
  p = fma(p, magnitude, 0.0074654128f);
  p = fma(p, magnitude, -0.05275444f);
  p = fma(p, magnitude, -0.45913383f);
  p = fma(p, magnitude, -1.1511121f);
  const float tail = approximateExp2(fma(p, magnitude, -1.0f));
  return x < 0 ? tail : 1.0f - tail;
}

/// sin x (quadrant 0) or cos x (quadrant 1), absolute error 2e-7 for |x| ≤ 5e4: x − n·π/2 in three
/// steps, then polynomials of S. Moshier's Cephes library.
template <int Quadrant> NANO_DEVICE float sineOrCosine(float x) {
  constexpr float toWhole = 12582912.0f; // 1.5·2^23: the last bit of a sum with it counts ones
  const float shifted = fma(x, 0.63661977236758134f, toWhole), n = shifted - toWhole;
  float r = fma(n, -1.57079637050628662109375f, x);
  r = fma(n, 4.37113900018624283e-8f, r);
  r = fma(n, 1.71512449e-15f, r);
  float z = r * r;
  float sine = fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f);
  sine = fma(sine * z, r, r);
  float cosine =
      fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  cosine = fma(cosine * z, z, fma(z, -0.5f, 1.0f));
  const uint32_t quarter = bitCast<uint32_t>(shifted) + Quadrant;
  float magnitude = quarter & 1 ? cosine : sine;
  return quarter & 2 ? -magnitude : magnitude;
}
NANO_DEVICE float sine(float x) { return sineOrCosine<0>(x); }
NANO_DEVICE float cosine(float x) { return sineOrCosine<1>(x); }

NANO_DEVICE int maximum(int a, int b) { return a > b ? a : b; }
NANO_DEVICE int minimum(int a, int b) { return a < b ? a : b; }
/// With zeros from the left.
NANO_DEVICE int shiftRight(int a, int by) { return int(unsigned(a) >> by); }

#define NANO_UNARY(NAME)                                                                           \
  template <int N> NANO_DEVICE Vec<float, N> NAME(const Vec<float, N> &a) {                        \
    return map<float>([](float x) { return NAME(x); }, a);                                         \
  }
NANO_UNARY(exponential)
NANO_UNARY(log)
NANO_UNARY(sqrt)
NANO_UNARY(approximateExp2)
NANO_UNARY(approximateSqrt)
NANO_UNARY(rsqrt)
NANO_UNARY(tanh)
NANO_UNARY(erf)
NANO_UNARY(normalCdf)
NANO_UNARY(floor)
NANO_UNARY(ceil)
NANO_UNARY(roundEven)
NANO_UNARY(sine)
NANO_UNARY(cosine)
NANO_UNARY(abs)
NANO_UNARY(sigmoidOfPower)
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
/// 2^(a·b) · e^Summand, with the error of `exponential`; neither the exponent nor Summand is beyond
/// ±80·log₂e. Without the units for special functions: 2^n · 2^(f + c), where
/// a·b + Summand·log₂e = n + f + c, with n whole and c constant, by the polynomial of
/// polynomialExp2.
template <float Summand> NANO_DEVICE float polynomialOfProduct(float a, float b) {
  constexpr double power = double(Summand) * 1.44269504088896341;
  constexpr int whole = int(power < 0 ? power - 0.5 : power + 0.5);
  constexpr double scale = smallPower(power - whole);
  constexpr float toWhole = 12582912.0f + float(whole); // 1.5·2^23: its last bit counts ones
  const float shifted = fma(a, b, toWhole);
  const float f = fma(a, b, toWhole - shifted);
  float p = fma(float(0.0013264728 * scale), f, float(0.009671514 * scale));
  p = fma(p, f, float(0.055507336 * scale));
  p = fma(p, f, float(0.24022242 * scale));
  p = fma(p, f, float(0.693147 * scale));
  p = fma(p, f, float(scale));
  return p * bitCast<float>((bitCast<uint32_t>(shifted) << 23) + 0x3f800000u);
}
/// e^(Factor·x + Summand) for x in [0, 1], with the error of `exponential`; neither end of the
/// range is beyond ±80. One lane of eight does without the units for special functions: measured,
/// more of them gain nothing, since their instructions take as long.
template <float Factor, float Summand, int N>
NANO_DEVICE Vec<float, N> exponentialOfFraction(const Vec<float, N> &a) {
  Vec<float, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = i % 8 == 0 ? polynomialOfProduct<Summand>(a.lane[i], Factor * 1.44269504f)
                                : exponential(a.lane[i], Factor, Summand);
  return result;
}
/// e^(Factor·sigmoid(slope·x) + Summand), with constants as those of exponentialOfFraction:
/// relative error |Factor|·(6 + |slope·x|)·2^-23 beside that of `exponential`; where slope·x <
/// -41.6 the sigmoid is 2^-60. Two lanes share a reciprocal, unless IsApart: one that is NaN makes
/// the other NaN. Measured where an epilogue is bound by the number of instructions: fewer of them,
/// by more special functions, are faster than one reciprocal of four lanes.
template <float Factor, float Summand, bool IsApart = false, int N>
NANO_DEVICE Vec<float, N> exponentialOfSigmoid(const Vec<float, N> &x, float slope) {
  if constexpr (IsApart || N % 2 != 0)
    return exponentialOfFraction<Factor, Summand>(
        map<float>([=](float y) { return sigmoid(y, slope); }, x));
  // The exponent of 2 without the summand is 1/a of a = (1 + e^(-slope·x)) / (Factor·log₂e).
  constexpr float inverse = 1 / (Factor * 1.44269504f);
  Vec<float, N> result;
#pragma unroll
  for (int i = 0; i + 2 <= N; i += 2) {
    float a[2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      a[j] = fma(negatedExponential(x.lane[i + j], slope), inverse, inverse);
    const float both = approximateReciprocal(a[0] * a[1]);
#pragma unroll
    for (int j = 0; j < 2; ++j)
      result.lane[i + j] = approximateExp2(fma(both, a[1 - j], Summand * 1.44269504f));
  }
  return result;
}

/// Two lanes share a reciprocal, 1/a = b·(1/ab): the units for special functions do 16 a clock and
/// multiprocessor, those for products 128. A lane that is NaN makes its neighbour NaN, unless
/// IsApart: for vectors whose last lanes may be behind the end of a row, and hold anything.
template <bool IsApart = false, int N>
NANO_DEVICE Vec<float, N> sigmoid(const Vec<float, N> &a, float factor = 1.0f) {
  Vec<float, N> result;
  if constexpr (!IsApart && N % 2 == 0) {
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

/// σ·(1 − σ)·e^(Factor·σ + Summand) of σ = 1/(1 + e^(-slope·x)), with constants as those of
/// exponentialOfFraction: the derivative of exponentialOfSigmoid by x over slope·Factor. Of σ,
/// which is 2^-30 where slope·x < -20.8 (or, if IsApart or N is no multiple of 4, as `sigmoid` has
/// it), the relative error is e = (12 + |slope·x|)·2^-23; the result's is e·|1 - 2σ|/(1 - σ) +
/// |Factor|·σ·e beside two roundings and that of `exponential`. Four lanes share a reciprocal,
/// unless IsApart: one that is NaN makes the others NaN.
template <float Factor, float Summand, bool IsApart = false, int N>
NANO_DEVICE Vec<float, N> exponentialOfSigmoidDerivative(const Vec<float, N> &x, float slope) {
  Vec<float, N> fraction;
  if constexpr (IsApart || N % 4 != 0) {
    fraction = sigmoid<IsApart>(x, slope);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      float a[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        a[j] = 1.0f + minimum(approximateExp2(x.lane[i + j] * (slope * -1.44269504f)), 0x1p30f);
      const float first = a[0] * a[1], second = a[2] * a[3];
      const float all = approximateReciprocal(first * second);
      const float ofFirst = all * second, ofSecond = all * first;
      fraction.lane[i] = ofFirst * a[1];
      fraction.lane[i + 1] = ofFirst * a[0];
      fraction.lane[i + 2] = ofSecond * a[3];
      fraction.lane[i + 3] = ofSecond * a[2];
    }
  }
  const Vec<float, N> power = exponentialOfFraction<Factor, Summand>(fraction);
  Vec<float, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = fma(-fraction.lane[i], fraction.lane[i], fraction.lane[i]) * power.lane[i];
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
NANO_BINARY(shiftRight)
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
template <class T, int N> NANO_DEVICE T largest(Vec<T, N> a) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i)
      a.lane[i] = maximum(a.lane[i], a.lane[i + half]);
  return a.lane[0];
}

} // namespace nano
