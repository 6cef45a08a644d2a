// The primitives of generated kernels on the GPU: everything that plain C++ cannot say, as PTX.
// The emulator has a header of the same name with the same names; kernel text is the same for both.
//
// Who calls: "a thread" – any thread on its own; "a warp" – all 32 lanes together, or those of
// `mask`; "a warpgroup" – the 128 threads of 4 neighbouring warps, the first a multiple of 4;
// "a block" – all threads of the block.
// Fragments are in the notation of the PTX manual: lane = 4 · group + pair, group 0…7, pair 0…3.
#pragma once

#include "nano_types.h"

namespace nano {

// ------------------------------------------------------------------------------- Positions

constexpr uint32_t fullMask = 0xffffffffu;

/// Index of the thread within its warp, 0…31, and of the warp within its block.
NANO_DEVICE int laneIndex() { return int(threadIdx.x & 31); }
NANO_DEVICE int warpIndex() { return int(threadIdx.x >> 5); }

/// Dynamic shared memory of the block from byte `offset` on; the start is aligned to 1024 bytes.
/// Static shared memory is declared inside a function, without initializer:
/// `__shared__ __align__(16) float tile[64];` (not alignas, which host compilers refuse there).
extern __shared__ __align__(1024) uint8_t dynamicSharedBytes[];
template <typename T> NANO_DEVICE T *dynamicShared(uint32_t offset = 0) {
  return reinterpret_cast<T *>(dynamicSharedBytes + offset);
}

/// Address of shared memory as PTX instructions and descriptors take it (cvta.to.shared).
NANO_DEVICE uint32_t sharedAddress(const void *shared) {
  return uint32_t(__cvta_generic_to_shared(shared));
}

/// Ends the launch with an error (trap).
[[noreturn]] NANO_DEVICE void trap() {
  asm volatile("trap;");
  __builtin_unreachable();
}

// ----------------------------------------------------------------------------- Conversions

/// Two f32 rounded into one word, `low` in the lower half (cvt.rn.bf16x2.f32), and back.
NANO_DEVICE uint32_t packBf16(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
NANO_DEVICE float lowBf16(uint32_t pair) { return bitCast<float>(pair << 16); }
NANO_DEVICE float highBf16(uint32_t pair) { return bitCast<float>(pair & 0xffff0000u); }

/// Arithmetic on two bf16 in a word each, rounded once (add, sub, mul, max and min.bf16x2); extrema
/// of a NaN are NaN.
#define NANO_PAIRS(NAME, INSTRUCTION)                                                              \
  NANO_DEVICE uint32_t NAME(uint32_t a, uint32_t b) {                                              \
    uint32_t result;                                                                               \
    asm(INSTRUCTION ".bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));                        \
    return result;                                                                                 \
  }
NANO_PAIRS(addPairs, "add.rn")
NANO_PAIRS(subtractPairs, "sub.rn")
NANO_PAIRS(multiplyPairs, "mul.rn")
NANO_PAIRS(maximumPairs, "max.NaN")
NANO_PAIRS(minimumPairs, "min.NaN")
#undef NANO_PAIRS

/// How two numbers compare. A NaN is not equal to anything, and all else is false of it.
enum class Comparison { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };
/// All ones in the halves of the result where the halves of a and b compare so (set.bf16x2).
template <Comparison How> NANO_DEVICE uint32_t comparePairs(uint32_t a, uint32_t b) {
  uint32_t result;
#define NANO_COMPARE(INSTRUCTION)                                                                  \
  asm("set." INSTRUCTION ".u32.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b))
  if constexpr (How == Comparison::Equal)
    NANO_COMPARE("eq");
  else if constexpr (How == Comparison::NotEqual)
    NANO_COMPARE("neu");
  else if constexpr (How == Comparison::Less)
    NANO_COMPARE("lt");
  else if constexpr (How == Comparison::LessEqual)
    NANO_COMPARE("le");
  else if constexpr (How == Comparison::Greater)
    NANO_COMPARE("gt");
  else
    NANO_COMPARE("ge");
#undef NANO_COMPARE
  return result;
}

/// Two f32 rounded and saturated to f8, `low` in the lower byte (cvt.rn.satfinite).
NANO_DEVICE uint16_t packE4m3(float low, float high) {
  uint16_t bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}
NANO_DEVICE uint16_t packE5m2(float low, float high) {
  uint16_t bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}

/// The exact values of two f8 (cvt.rn.f16x2, cvt.f32.f16).
NANO_DEVICE void unpackE4m3(uint16_t pair, float &low, float &high) {
  asm("{ .reg .b32 halves; .reg .b16 l, h; cvt.rn.f16x2.e4m3x2 halves, %2; mov.b32 {l, h}, halves; "
      "cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "h"(pair));
}
NANO_DEVICE void unpackE5m2(uint16_t pair, float &low, float &high) {
  asm("{ .reg .b32 halves; .reg .b16 l, h; cvt.rn.f16x2.e5m2x2 halves, %2; mov.b32 {l, h}, halves; "
      "cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "h"(pair));
}

/// Four of the bytes of `low` (0…3) and `high` (4…7), as the digits of the selector say, the lowest
/// digit for the lowest byte (prmt).
NANO_DEVICE uint32_t selectBytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t bits;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bits) : "r"(low), "r"(high), "r"(selector));
  return bits;
}

NANO_DEVICE uint16_t encodeBf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
NANO_DEVICE uint8_t encodeE4m3(float value) { return uint8_t(packE4m3(value, 0)); }
NANO_DEVICE uint8_t encodeE5m2(float value) { return uint8_t(packE5m2(value, 0)); }
NANO_DEVICE float decodeBf16(uint16_t bits) { return software::decodeBf16(bits); }
NANO_DEVICE float decodeE4m3(uint8_t bits) {
  float low, high;
  unpackE4m3(bits, low, high);
  return low;
}
NANO_DEVICE float decodeE5m2(uint8_t bits) {
  float low, high;
  unpackE5m2(bits, low, high);
  return low;
}

// ------------------------------------------------------------------------------ Arithmetic

// Functions of the CUDA math library, at most 2 units in the last place off (pow 4).
NANO_DEVICE float exp(float x) { return ::expf(x); }
NANO_DEVICE float exp2(float x) { return ::exp2f(x); }
NANO_DEVICE float expm1(float x) { return ::expm1f(x); }
NANO_DEVICE float log2(float x) { return ::log2f(x); }
NANO_DEVICE float log1p(float x) { return ::log1pf(x); }
NANO_DEVICE float pow(float x, float y) { return ::powf(x, y); }
NANO_DEVICE float sin(float x) { return ::sinf(x); }
NANO_DEVICE float cos(float x) { return ::cosf(x); }
NANO_DEVICE float tanh(float x) { return ::tanhf(x); }
// Correctly rounded, or exact.
NANO_DEVICE float sqrt(float x) { return __fsqrt_rn(x); }
NANO_DEVICE float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
NANO_DEVICE float floor(float x) { return ::floorf(x); }
NANO_DEVICE float ceil(float x) { return ::ceilf(x); }
/// To the nearest whole number, ties to even.
NANO_DEVICE float roundEven(float x) { return ::rintf(x); }
NANO_DEVICE float abs(float x) { return ::fabsf(x); }
NANO_DEVICE float copySign(float magnitude, float sign) { return ::copysignf(magnitude, sign); }
/// The larger or smaller one; the other when one is NaN (max.f32).
NANO_DEVICE float max(float x, float y) { return ::fmaxf(x, y); }
NANO_DEVICE float min(float x, float y) { return ::fminf(x, y); }
/// The larger or smaller one; NaN when either is (max.NaN.f32).
NANO_DEVICE float maximum(float x, float y) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}
NANO_DEVICE float minimum(float x, float y) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}

/// x < y ? a : b by selp.f32, with both computed before, where a branch around one of them would
/// cost more.
NANO_DEVICE float whereLess(float x, float y, float a, float b) {
  float result;
  asm("{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.f32 %0, %3, %4, p; }"
      : "=f"(result)
      : "f"(x), "f"(y), "f"(a), "f"(b));
  return result;
}

// Approximations by one instruction; denormals are flushed. Largest errors as in the manuals of PTX
// and CUDA: 2^x and 1/√x 2^-22 relative, √x 2^-23 relative, 1/x and x/y 2 units in the last place,
// tanh 2^-11 relative, log2 2^-22 absolute near 1, sin x and cos x of |x| ≤ π 2^-21 absolute.
NANO_DEVICE float approximateExp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateLog2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateSqrt(float x) {
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateRsqrt(float x) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateReciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateSine(float x) {
  float result;
  asm("sin.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateCosine(float x) {
  float result;
  asm("cos.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NANO_DEVICE float approximateTanh(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// ---------------------------------------------------------------------------------- Memory

// Loads and stores of global memory with a hint, by a thread. T is a trivially copyable type of 1,
// 2, 4, 8 or 16 bytes; the address is a multiple of its size. An ordinary `*pointer` of a type
// that is aligned to its size is one access too.
//   loadReadOnly      ld.global.nc                   nothing writes it during the launch
//   loadOnce          ld.global.nc.L1::no_allocate   likewise, and nobody reads it again
//   storeStreaming    st.global.cs                   nobody reads it soon
template <typename T> NANO_DEVICE T loadReadOnly(const T *pointer) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                sizeof(T) == 16);
  // As an instruction of the compiler's own it costs fewer registers than one of assembly.
  if constexpr (sizeof(T) == 16)
    return bitCast<T>(__ldg(reinterpret_cast<const uint4 *>(pointer)));
  else if constexpr (sizeof(T) == 8)
    return bitCast<T>(__ldg(reinterpret_cast<const uint2 *>(pointer)));
  else if constexpr (sizeof(T) == 4)
    return bitCast<T>(__ldg(reinterpret_cast<const unsigned *>(pointer)));
  else if constexpr (sizeof(T) == 2)
    return bitCast<T>(__ldg(reinterpret_cast<const unsigned short *>(pointer)));
  else
    return bitCast<T>(__ldg(reinterpret_cast<const unsigned char *>(pointer)));
}

template <typename T> NANO_DEVICE T loadOnce(const T *pointer) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                sizeof(T) == 16);
  if constexpr (sizeof(T) == 16) {
    struct alignas(16) {
      uint32_t word[4];
    } v;
    asm("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
        : "l"(pointer));
    return bitCast<T>(v);
  } else if constexpr (sizeof(T) == 8) {
    uint64_t v;
    asm("ld.global.nc.L1::no_allocate.b64 %0, [%1];" : "=l"(v) : "l"(pointer));
    return bitCast<T>(v);
  } else if constexpr (sizeof(T) == 4) {
    uint32_t v;
    asm("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(pointer));
    return bitCast<T>(v);
  } else if constexpr (sizeof(T) == 2) {
    uint16_t v;
    asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v) : "l"(pointer));
    return bitCast<T>(v);
  } else {
    uint16_t v;
    asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=h"(v) : "l"(pointer));
    return bitCast<T>(uint8_t(v));
  }
}

/// Starts bringing the 128 bytes around it to the second-level cache (prefetch.global.L2).
NANO_DEVICE void prefetch(const void *pointer) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(pointer) : "memory");
}

/// Stores 8 or 16 bytes, to global or shared memory, by one access. (An assignment of words that
/// are computed one by one may be an access for each, however the type is aligned.) NVRTC knows
/// which memory it is where the pointer comes from a kernel's parameters or its shared memory.
template <typename T> NANO_DEVICE void storeWhole(T *pointer, const T &value) {
  static_assert(sizeof(T) == 8 || sizeof(T) == 16);
  struct alignas(sizeof(T)) Words {
    uint32_t word[sizeof(T) / 4];
  };
  const Words v = bitCast<Words>(value);
  if (__isShared(pointer))
    *pointer = value;
  else if constexpr (sizeof(T) == 16)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer), "r"(v.word[0]),
                 "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
                 : "memory");
  else
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1])
                 : "memory");
}

template <typename T> NANO_DEVICE void storeStreaming(T *pointer, const T &value) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                sizeof(T) == 16);
  if constexpr (sizeof(T) == 16) {
    struct alignas(16) Words {
      uint32_t word[4];
    };
    Words v = bitCast<Words>(value);
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer), "r"(v.word[0]),
                 "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.global.cs.b64 [%0], %1;" ::"l"(pointer), "l"(bitCast<uint64_t>(value))
                 : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(pointer), "r"(bitCast<uint32_t>(value))
                 : "memory");
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("st.global.cs.b16 [%0], %1;" ::"l"(pointer), "h"(bitCast<uint16_t>(value))
                 : "memory");
  } else {
    asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(pointer), "h"(uint16_t(bitCast<uint8_t>(value)))
                 : "memory");
  }
}

/// Adds to four numbers in global memory, at a multiple of 16 bytes (red.global.add.v4.f32), with
/// one rounding; subnormal numbers count as 0. The thread does not wait for them, as it would if it
/// loaded and stored them. Who else touches them during the launch does so before or after, by
/// waitForCount and addToCount: no order is left open.
NANO_DEVICE void addInMemory(float *to, const float (&summands)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "f"(summands[0]), "f"(summands[1]), "f"(summands[2]), "f"(summands[3])
               : "memory");
}

// Atomic operations of a thread on shared or global memory, relaxed; the value before. Integers
// only, so that the result does not depend on the order. Non-negative floats order like their bits.
NANO_DEVICE int32_t fetchAdd(int32_t *pointer, int32_t value) {
  return ::atomicAdd(pointer, value);
}
NANO_DEVICE uint32_t fetchAdd(uint32_t *pointer, uint32_t value) {
  return ::atomicAdd(pointer, value);
}
NANO_DEVICE int32_t fetchMax(int32_t *pointer, int32_t value) {
  return ::atomicMax(pointer, value);
}
NANO_DEVICE uint32_t fetchMax(uint32_t *pointer, uint32_t value) {
  return ::atomicMax(pointer, value);
}
NANO_DEVICE uint32_t fetchOr(uint32_t *pointer, uint32_t value) {
  return ::atomicOr(pointer, value);
}

// Order between blocks of a launch, which a kernel with tickets has: a block waits only for blocks
// with smaller ones, which have begun.

/// Waits until a counter in global memory is at least `count`, by a thread; it then sees what those
/// who added to it did before.
NANO_DEVICE bool hasCount(const int32_t *counter, int32_t count) {
  int32_t now;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  return now >= count;
}
NANO_DEVICE void waitForCount(const int32_t *counter, int32_t count) {
  while (!hasCount(counter, count)) {
  }
}
/// Adds one, by a thread: what it did before is then visible to those who wait.
NANO_DEVICE void addToCount(int32_t *counter) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter) : "memory");
}

// ----------------------------------------------------------------------------------- Warps

// The value of another lane (shfl.sync), by the lanes of `mask`, which all call it. T has 4 or 8
// bytes. `shuffleUp` and `shuffleDown` give a lane its own value where there is no such lane.
// They order no memory accesses: between lanes that share memory, call syncWarp.
template <typename T> NANO_DEVICE T shuffle(T value, int lane, uint32_t mask = fullMask) {
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(__shfl_sync(mask, bitCast<unsigned long long>(value), lane));
  else
    return bitCast<T>(__shfl_sync(mask, bitCast<uint32_t>(value), lane));
}
template <typename T> NANO_DEVICE T shuffleXor(T value, int laneMask, uint32_t mask = fullMask) {
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(__shfl_xor_sync(mask, bitCast<unsigned long long>(value), laneMask));
  else
    return bitCast<T>(__shfl_xor_sync(mask, bitCast<uint32_t>(value), laneMask));
}
template <typename T> NANO_DEVICE T shuffleDown(T value, int delta, uint32_t mask = fullMask) {
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(__shfl_down_sync(mask, bitCast<unsigned long long>(value), uint32_t(delta)));
  else
    return bitCast<T>(__shfl_down_sync(mask, bitCast<uint32_t>(value), uint32_t(delta)));
}
template <typename T> NANO_DEVICE T shuffleUp(T value, int delta, uint32_t mask = fullMask) {
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(__shfl_up_sync(mask, bitCast<unsigned long long>(value), uint32_t(delta)));
  else
    return bitCast<T>(__shfl_up_sync(mask, bitCast<uint32_t>(value), uint32_t(delta)));
}

/// Bit l: lane l's `value` (vote.sync.ballot); whether it holds for one or for all lanes of `mask`.
NANO_DEVICE uint32_t ballot(bool value, uint32_t mask = fullMask) {
  return __ballot_sync(mask, value);
}
NANO_DEVICE bool anyLane(bool value, uint32_t mask = fullMask) { return __any_sync(mask, value); }
NANO_DEVICE bool allLanes(bool value, uint32_t mask = fullMask) { return __all_sync(mask, value); }

/// How many bits are set; the number of the lowest of them, of which there is one.
NANO_DEVICE int bitCount(uint32_t bits) { return __popc(bits); }
NANO_DEVICE int lowestBit(uint32_t bits) { return __ffs(int(bits)) - 1; }

/// True for one lane of a converged warp (elect.sync); the same one every time.
NANO_DEVICE bool electLane() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
               : "=r"(elected)::"memory");
  return elected != 0;
}

/// Waits for the lanes of `mask` and orders their memory accesses (bar.warp.sync).
NANO_DEVICE void syncWarp(uint32_t mask = fullMask) { __syncwarp(mask); }

/// Sum over the warp, the same bits in every lane: x ← x + x of lane ⊕ 16, 8, 4, 2, 1, in this
/// order.
NANO_DEVICE float warpSum(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += shuffleXor(value, distance);
  return value;
}
/// Maximum over the warp; NaN when a lane has NaN.
NANO_DEVICE float warpMax(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = maximum(value, shuffleXor(value, distance));
  return value;
}
/// Sum and maximum over the warp (redux.sync).
NANO_DEVICE int32_t warpSum(int32_t value) { return __reduce_add_sync(fullMask, value); }
NANO_DEVICE uint32_t warpSum(uint32_t value) { return __reduce_add_sync(fullMask, value); }
NANO_DEVICE int32_t warpMax(int32_t value) { return __reduce_max_sync(fullMask, value); }
NANO_DEVICE uint32_t warpMax(uint32_t value) { return __reduce_max_sync(fullMask, value); }

// -------------------------------------------------------------------------------- Barriers

/// Waits for all threads of the block and orders their memory accesses (bar.sync 0).
NANO_DEVICE void syncThreads() { __syncthreads(); }
/// Likewise, and tells whether `value` held for any thread, or for all (bar.red).
NANO_DEVICE bool syncThreadsAny(bool value) { return __syncthreads_or(value); }
NANO_DEVICE bool syncThreadsAll(bool value) { return __syncthreads_and(value); }

/// Named barrier `id`, 1…15, for `threads` threads (a multiple of 32), whole warps: arrive and wait
/// (bar.sync), or only arrive (bar.arrive). 0 is that of syncThreads.
NANO_DEVICE void barrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
NANO_DEVICE void barrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Orders the thread's accesses before it with those after it, for the whole GPU (fence.acq_rel).
NANO_DEVICE void threadFence() { __threadfence(); }

// ---------------------------------------------- Asynchronous copies of a thread (cp.async)

/// Starts copying `Bytes` (4, 8 or 16) from global to shared memory, both aligned to them; 16
/// bypass L1. Of the source, only `valid` bytes are read, the rest of the destination becomes zero;
/// the source must be a valid address even when `valid` is 0.
template <int Bytes> NANO_DEVICE void copyAsync(void *shared, const void *global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sharedAddress(shared)),
                 "l"(global)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(sharedAddress(shared)),
                 "l"(global), "n"(Bytes)
                 : "memory");
}
template <int Bytes> NANO_DEVICE void copyAsync(void *shared, const void *global, int valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(shared)),
                 "l"(global), "r"(valid)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(sharedAddress(shared)),
                 "l"(global), "n"(Bytes), "r"(valid)
                 : "memory");
}
/// Closes the thread's group of the copies started since the last one.
NANO_DEVICE void copyAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` of the thread's newest groups are unfinished. The copies are then
/// visible to this thread; to others after a barrier.
template <int Pending> NANO_DEVICE void copyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// --------------------------------------------------------------------------------- Matrices

/// Loads N (1, 2 or 4) 8×8 matrices of 16-bit elements from shared memory, by a warp (ldmatrix).
/// Lanes 8i … 8i+7 give the addresses of the 8 rows (16 bytes, aligned) of matrix i; with N < 4 the
/// addresses of the other lanes are ignored but must be valid. fragment[i] of a lane: elements
/// 2 · pair (lower half) and 2 · pair + 1 of row `group` of matrix i; transposed: rows 2 · pair and
/// 2 · pair + 1 of column `group`.
template <int N> NANO_DEVICE void loadMatrix(uint32_t (&fragment)[N], const void *row) {
  static_assert(N == 1 || N == 2 || N == 4);
  uint32_t address = sharedAddress(row);
  if constexpr (N == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(fragment[0])
                 : "r"(address)
                 : "memory");
  else if constexpr (N == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(fragment[0]), "=r"(fragment[1])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
}
template <int N> NANO_DEVICE void loadMatrixTransposed(uint32_t (&fragment)[N], const void *row) {
  static_assert(N == 1 || N == 2 || N == 4);
  uint32_t address = sharedAddress(row);
  if constexpr (N == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(fragment[0])
                 : "r"(address)
                 : "memory");
  else if constexpr (N == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(fragment[0]), "=r"(fragment[1])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
}

/// The reverse, with the same layouts (stmatrix).
template <int N> NANO_DEVICE void storeMatrix(void *row, const uint32_t (&fragment)[N]) {
  static_assert(N == 1 || N == 2 || N == 4);
  uint32_t address = sharedAddress(row);
  if constexpr (N == 1)
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address),
                 "r"(fragment[0])
                 : "memory");
  else if constexpr (N == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address),
                 "r"(fragment[0]), "r"(fragment[1])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
}
template <int N> NANO_DEVICE void storeMatrixTransposed(void *row, const uint32_t (&fragment)[N]) {
  static_assert(N == 1 || N == 2 || N == 4);
  uint32_t address = sharedAddress(row);
  if constexpr (N == 1)
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address),
                 "r"(fragment[0])
                 : "memory");
  else if constexpr (N == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
                 "r"(fragment[0]), "r"(fragment[1])
                 : "memory");
  else
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
        "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
        : "memory");
}

/// sum += A · B by a warp, f32 sums (mma.sync.m16n8k16 for bf16 × bf16; m16n8k32 for pairs of f8
/// types; m16n8k8 for f32 × f32, of which the units take the upper 19 bits, tf32). A is 16 × K, row
/// by row; B is K × 8, column by column. With E = 1 element (f32), 2 (bf16) or 4 (f8) in a word,
/// the first in the lowest bits:
///   a[0]: row group,     columns E · pair …          b[0]: rows E · pair …,     column group
///   a[1]: row group + 8, columns E · pair …          b[1]: rows E · (pair + 4) …, column group
///   a[2]: row group,     columns E · (pair + 4) …    sum[0], sum[1]: row group,     columns
///   a[3]: row group + 8, columns E · (pair + 4) …    sum[2], sum[3]: row group + 8, 2 · pair, + 1
/// loadMatrix<4> of the four 8 × 8 quarters (top left, bottom left, top right, bottom right) makes
/// `a`; loadMatrix of Bᵀ row by row, or loadMatrixTransposed of B row by row, makes `b`.
template <typename A, typename B>
NANO_DEVICE void matrixMultiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(sizeof(A) == sizeof(B), "two f32, two bf16 or two f8 types");
#define NANO_MMA(SHAPE_AND_TYPES)                                                                  \
  asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                                 \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                  \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (sizeof(A) == 4)
    NANO_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  else if constexpr (sizeof(A) == 2)
    NANO_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  else if constexpr (isSame<A, f8e4m3> && isSame<B, f8e4m3>)
    NANO_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32");
  else if constexpr (isSame<A, f8e4m3> && isSame<B, f8e5m2>)
    NANO_MMA("m16n8k32.row.col.f32.e4m3.e5m2.f32");
  else if constexpr (isSame<A, f8e5m2> && isSame<B, f8e4m3>)
    NANO_MMA("m16n8k32.row.col.f32.e5m2.e4m3.f32");
  else
    NANO_MMA("m16n8k32.row.col.f32.e5m2.e5m2.f32");
#undef NANO_MMA
}

} // namespace nano
