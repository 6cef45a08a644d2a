// The primitives of generated kernels in the emulator: the names of the GPU's header, which
// documents them, with their meaning on the host's processor.
#pragma once

#include "nano_machine.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __align__(BYTES) __attribute__((aligned(BYTES)))
// A block's static shared memory is the thread-local memory of the library, one block at a time.
#define __shared__ static thread_local
#define threadIdx (::nano::emulator::thread().threadIdx)
#define blockIdx (::nano::emulator::thread().blockIdx)
#define blockDim (::nano::emulator::thread().blockDim)
#define gridDim (::nano::emulator::thread().gridDim)

#include "nano_types.h"

/// The last parameter of a primitive: the line that calls it.
#define NANO_SITE ::nano::emulator::Site site = {__builtin_FILE(), __builtin_LINE()}
/// Primitives touch memory on behalf of the kernel and report it themselves.
#define NANO_PRIMITIVE __attribute__((no_sanitize("thread"))) inline

namespace nano {

using emulator::thread;

// ------------------------------------------------------------------------------- Positions

constexpr uint32_t fullMask = 0xffffffffu;

inline int laneIndex() { return int(threadIdx.x & 31); }
inline int warpIndex() { return int(threadIdx.x >> 5); }

template <typename T> NANO_PRIMITIVE T *dynamicShared(uint32_t offset = 0) {
  return reinterpret_cast<T *>(thread().dynamicShared + offset);
}
NANO_PRIMITIVE uint32_t sharedAddress(const void *shared, NANO_SITE) {
  return thread().sharedAddress(shared, site);
}
[[noreturn]] NANO_PRIMITIVE void trap(NANO_SITE) {
  thread().trap(site);
  __builtin_unreachable();
}

// ----------------------------------------------------------------------------- Conversions

inline uint16_t encodeBf16(float value) { return software::encodeBf16(value); }
inline uint8_t encodeE4m3(float value) { return software::encodeE4m3(value); }
inline uint8_t encodeE5m2(float value) { return software::encodeE5m2(value); }
inline float decodeBf16(uint16_t bits) { return software::decodeBf16(bits); }
inline float decodeE4m3(uint8_t bits) { return software::decodeE4m3(bits); }
inline float decodeE5m2(uint8_t bits) { return software::decodeE5m2(bits); }

inline uint32_t packBf16(float low, float high) {
  return encodeBf16(low) | uint32_t(encodeBf16(high)) << 16;
}
inline float lowBf16(uint32_t pair) { return bitCast<float>(pair << 16); }
inline float highBf16(uint32_t pair) { return bitCast<float>(pair & 0xffff0000u); }
inline uint16_t packE4m3(float low, float high) {
  return uint16_t(encodeE4m3(low) | encodeE4m3(high) << 8);
}
inline uint16_t packE5m2(float low, float high) {
  return uint16_t(encodeE5m2(low) | encodeE5m2(high) << 8);
}
inline uint32_t selectBytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i)
    bits |= uint32_t(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return bits;
}
inline void unpackE4m3(uint16_t pair, float &low, float &high) {
  low = decodeE4m3(uint8_t(pair));
  high = decodeE4m3(uint8_t(pair >> 8));
}
inline void unpackE5m2(uint16_t pair, float &low, float &high) {
  low = decodeE5m2(uint8_t(pair));
  high = decodeE5m2(uint8_t(pair >> 8));
}

// ------------------------------------------------------------------------------ Arithmetic

inline float exp(float x) { return __builtin_expf(x); }
inline float exp2(float x) { return __builtin_exp2f(x); }
inline float expm1(float x) { return __builtin_expm1f(x); }
inline float log2(float x) { return __builtin_log2f(x); }
inline float log1p(float x) { return __builtin_log1pf(x); }
inline float pow(float x, float y) { return __builtin_powf(x, y); }
inline float sin(float x) { return __builtin_sinf(x); }
inline float cos(float x) { return __builtin_cosf(x); }
inline float tanh(float x) { return __builtin_tanhf(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float roundEven(float x) { return __builtin_rintf(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline float copySign(float magnitude, float sign) { return __builtin_copysignf(magnitude, sign); }
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline float maximum(float x, float y) { return x != x || x > y ? x : y; }
inline float minimum(float x, float y) { return x != x || x < y ? x : y; }
inline float whereLess(float x, float y, float a, float b) { return x < y ? a : b; }

/// A function of f32 of each half of two words of bf16, rounded.
template <class F> uint32_t ofPairs(F f, uint32_t a, uint32_t b) {
  return packBf16(f(lowBf16(a), lowBf16(b)), f(highBf16(a), highBf16(b)));
}
inline uint32_t addPairs(uint32_t a, uint32_t b) {
  return ofPairs([](float x, float y) { return x + y; }, a, b);
}
inline uint32_t subtractPairs(uint32_t a, uint32_t b) {
  return ofPairs([](float x, float y) { return x - y; }, a, b);
}
inline uint32_t multiplyPairs(uint32_t a, uint32_t b) {
  return ofPairs([](float x, float y) { return x * y; }, a, b);
}
inline uint32_t maximumPairs(uint32_t a, uint32_t b) { return ofPairs(maximum, a, b); }
inline uint32_t minimumPairs(uint32_t a, uint32_t b) { return ofPairs(minimum, a, b); }

enum class Comparison { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };
template <Comparison How> uint32_t comparePairs(uint32_t a, uint32_t b) {
  const auto compare = [](float x, float y) -> uint32_t {
    switch (How) {
    case Comparison::Equal:
      return x == y;
    case Comparison::NotEqual:
      return x != y;
    case Comparison::Less:
      return x < y;
    case Comparison::LessEqual:
      return x <= y;
    case Comparison::Greater:
      return x > y;
    default:
      return x >= y;
    }
  };
  return 0xffffu * compare(lowBf16(a), lowBf16(b)) |
         0xffff0000u * compare(highBf16(a), highBf16(b));
}

inline float approximateExp2(float x) { return __builtin_exp2f(x); }
inline float approximateLog2(float x) { return __builtin_log2f(x); }
inline float approximateSqrt(float x) { return __builtin_sqrtf(x); }
inline float approximateRsqrt(float x) { return 1 / __builtin_sqrtf(x); }
inline float approximateReciprocal(float x) { return 1 / x; }
inline float approximateSine(float x) { return __builtin_sinf(x); }
inline float approximateCosine(float x) { return __builtin_cosf(x); }
NANO_PRIMITIVE float approximateTanh(float x) { return __builtin_tanhf(x); }

// ---------------------------------------------------------------------------------- Memory

template <typename T> NANO_PRIMITIVE T loadReadOnly(const T *pointer, NANO_SITE) {
  thread().loadReadOnly(pointer, sizeof(T), site);
  return *pointer;
}
template <typename T> NANO_PRIMITIVE T loadOnce(const T *pointer, NANO_SITE) {
  thread().loadReadOnly(pointer, sizeof(T), site);
  return *pointer;
}
NANO_PRIMITIVE void prefetch(const void *) {}
template <typename T> inline void storeWhole(T *pointer, const T &value) { *pointer = value; }
template <typename T> NANO_PRIMITIVE void storeStreaming(T *pointer, const T &value, NANO_SITE) {
  thread().access(pointer, sizeof(T), true, site);
  *pointer = value;
}

NANO_PRIMITIVE void addInMemory(float *to, const float (&summands)[4], NANO_SITE) {
  thread().accessToAdd(to, sizeof summands, site);
  for (int i = 0; i < 4; ++i)
    to[i] += summands[i];
}
NANO_PRIMITIVE int32_t fetchAdd(int32_t *pointer, int32_t value, NANO_SITE) {
  return int32_t(thread().fetch(emulator::Atomic::AddInt, pointer, uint32_t(value), site));
}
NANO_PRIMITIVE uint32_t fetchAdd(uint32_t *pointer, uint32_t value, NANO_SITE) {
  return thread().fetch(emulator::Atomic::AddUnsigned, pointer, value, site);
}
NANO_PRIMITIVE int32_t fetchMax(int32_t *pointer, int32_t value, NANO_SITE) {
  return int32_t(thread().fetch(emulator::Atomic::MaxInt, pointer, uint32_t(value), site));
}
NANO_PRIMITIVE uint32_t fetchMax(uint32_t *pointer, uint32_t value, NANO_SITE) {
  return thread().fetch(emulator::Atomic::MaxUnsigned, pointer, value, site);
}
NANO_PRIMITIVE uint32_t fetchOr(uint32_t *pointer, uint32_t value, NANO_SITE) {
  return thread().fetch(emulator::Atomic::Or, pointer, value, site);
}

NANO_PRIMITIVE bool hasCount(const int32_t *counter, int32_t count, NANO_SITE) {
  return thread().hasCount(counter, count, site);
}
NANO_PRIMITIVE void waitForCount(const int32_t *counter, int32_t count, NANO_SITE) {
  thread().waitForCount(counter, count, site);
}
NANO_PRIMITIVE void addToCount(int32_t *counter, NANO_SITE) { thread().addToCount(counter, site); }

// ----------------------------------------------------------------------------------- Warps

namespace emulator {
template <typename T>
NANO_PRIMITIVE T shuffle(Shuffle kind, T value, int operand, uint32_t mask, Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(thread().shuffle(kind, bitCast<uint64_t>(value), operand, mask, site));
  else
    return bitCast<T>(
        uint32_t(thread().shuffle(kind, bitCast<uint32_t>(value), operand, mask, site)));
}
} // namespace emulator

template <typename T>
NANO_PRIMITIVE T shuffle(T value, int lane, uint32_t mask = fullMask, NANO_SITE) {
  return emulator::shuffle(emulator::Shuffle::Index, value, lane, mask, site);
}
template <typename T>
NANO_PRIMITIVE T shuffleXor(T value, int laneMask, uint32_t mask = fullMask, NANO_SITE) {
  return emulator::shuffle(emulator::Shuffle::Xor, value, laneMask, mask, site);
}
template <typename T>
NANO_PRIMITIVE T shuffleDown(T value, int delta, uint32_t mask = fullMask, NANO_SITE) {
  return emulator::shuffle(emulator::Shuffle::Down, value, delta, mask, site);
}
template <typename T>
NANO_PRIMITIVE T shuffleUp(T value, int delta, uint32_t mask = fullMask, NANO_SITE) {
  return emulator::shuffle(emulator::Shuffle::Up, value, delta, mask, site);
}

NANO_PRIMITIVE uint32_t ballot(bool value, uint32_t mask = fullMask, NANO_SITE) {
  return thread().ballot(value, mask, site);
}
NANO_PRIMITIVE bool anyLane(bool value, uint32_t mask = fullMask, NANO_SITE) {
  return thread().ballot(value, mask, site) != 0;
}
NANO_PRIMITIVE bool allLanes(bool value, uint32_t mask = fullMask, NANO_SITE) {
  return thread().ballot(!value, mask, site) == 0;
}
NANO_PRIMITIVE int bitCount(uint32_t bits) { return __builtin_popcount(bits); }
NANO_PRIMITIVE int lowestBit(uint32_t bits) { return __builtin_ctz(bits); }
NANO_PRIMITIVE bool electLane(NANO_SITE) { return thread().elect(site); }
NANO_PRIMITIVE void syncWarp(uint32_t mask = fullMask, NANO_SITE) { thread().syncWarp(mask, site); }

NANO_PRIMITIVE float warpSum(float value, NANO_SITE) { return thread().sum(value, site); }
NANO_PRIMITIVE float warpMax(float value, NANO_SITE) { return thread().max(value, site); }
NANO_PRIMITIVE int32_t warpSum(int32_t value, NANO_SITE) {
  return int32_t(thread().reduce(emulator::Reduction::AddInt, uint32_t(value), site));
}
NANO_PRIMITIVE uint32_t warpSum(uint32_t value, NANO_SITE) {
  return thread().reduce(emulator::Reduction::AddUnsigned, value, site);
}
NANO_PRIMITIVE int32_t warpMax(int32_t value, NANO_SITE) {
  return int32_t(thread().reduce(emulator::Reduction::MaxInt, uint32_t(value), site));
}
NANO_PRIMITIVE uint32_t warpMax(uint32_t value, NANO_SITE) {
  return thread().reduce(emulator::Reduction::MaxUnsigned, value, site);
}

// -------------------------------------------------------------------------------- Barriers

NANO_PRIMITIVE void syncThreads(NANO_SITE) {
  thread().syncThreads(emulator::Vote::None, false, site);
}
NANO_PRIMITIVE bool syncThreadsAny(bool value, NANO_SITE) {
  return thread().syncThreads(emulator::Vote::Any, value, site);
}
NANO_PRIMITIVE bool syncThreadsAll(bool value, NANO_SITE) {
  return thread().syncThreads(emulator::Vote::All, value, site);
}
NANO_PRIMITIVE void barrierSync(int id, int threads, NANO_SITE) {
  thread().barrier(id, threads, true, site);
}
NANO_PRIMITIVE void barrierArrive(int id, int threads, NANO_SITE) {
  thread().barrier(id, threads, false, site);
}
NANO_PRIMITIVE void threadFence() { thread().threadFence(); }

// ------------------------------------------------------------------- Asynchronous copies

template <int Bytes> NANO_PRIMITIVE void copyAsync(void *shared, const void *global, NANO_SITE) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  thread().copyAsync(shared, global, Bytes, Bytes, site);
}
template <int Bytes>
NANO_PRIMITIVE void copyAsync(void *shared, const void *global, int valid, NANO_SITE) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  thread().copyAsync(shared, global, Bytes, valid, site);
}
NANO_PRIMITIVE void copyAsyncCommit() { thread().copyAsyncCommit(); }
template <int Pending> NANO_PRIMITIVE void copyAsyncWait(NANO_SITE) {
  thread().copyAsyncWait(Pending, site);
}

// --------------------------------------------------------------------------------- Matrices

template <int N>
NANO_PRIMITIVE void loadMatrix(uint32_t (&fragment)[N], const void *row, NANO_SITE) {
  static_assert(N == 1 || N == 2 || N == 4);
  thread().loadMatrix(fragment, N, false, row, site);
}
template <int N>
NANO_PRIMITIVE void loadMatrixTransposed(uint32_t (&fragment)[N], const void *row, NANO_SITE) {
  static_assert(N == 1 || N == 2 || N == 4);
  thread().loadMatrix(fragment, N, true, row, site);
}
template <int N>
NANO_PRIMITIVE void storeMatrix(void *row, const uint32_t (&fragment)[N], NANO_SITE) {
  static_assert(N == 1 || N == 2 || N == 4);
  thread().storeMatrix(row, fragment, N, false, site);
}
template <int N>
NANO_PRIMITIVE void storeMatrixTransposed(void *row, const uint32_t (&fragment)[N], NANO_SITE) {
  static_assert(N == 1 || N == 2 || N == 4);
  thread().storeMatrix(row, fragment, N, true, site);
}

namespace emulator {
/// The element type of a matrix operand.
template <typename T> constexpr Element element() {
  static_assert(isSame<T, float> || isSame<T, bf16> || isSame<T, f8e4m3> || isSame<T, f8e5m2>);
  return isSame<T, float>    ? Element::Tf32
         : isSame<T, bf16>   ? Element::Bf16
         : isSame<T, f8e4m3> ? Element::E4m3
                             : Element::E5m2;
}
} // namespace emulator

template <typename A, typename B>
NANO_PRIMITIVE void matrixMultiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                   NANO_SITE) {
  static_assert(sizeof(A) == sizeof(B), "two f32, two bf16 or two f8 types");
  thread().multiply(emulator::element<A>(), emulator::element<B>(), sum, a, b, site);
}

} // namespace nano

#include "nano_instrumented.h"
