// Random numbers that depend on nothing but their keys: the counter-based generator Philox4x32-10
// (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and uniform
// and normal values made from it.
//
// Element e of the stream (seed, name):
//
//   h       = XXH64(name, seed 0)
//   counter = (e mod 2³², ⌊e / 2³²⌋, h mod 2³², ⌊h / 2³²⌋)
//   key     = (seed mod 2³², ⌊seed / 2³²⌋)
//   r       = Philox4x32-10(counter, key)
//   u       = (⌊(r1·2³² + r0) / 2¹²⌋ + ½) / 2⁵²
//   v       = (⌊(r3·2³² + r2) / 2¹²⌋ + ½) / 2⁵²
//   uniform = low + (high − low)·u
//   normal  = mean + stddev · √(−2 ln u) · cos(2π v)
//
// The normal value is Box and Muller's. Values are computed in f64 and rounded to f32, and from
// there to bf16 where that is the type; to nearest, ties to even. Only additions, multiplications,
// divisions and square roots are used, each rounded as IEEE 754 says and never fused, so that the
// bits are the same on every machine and for every vector width.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace nano {

/// Philox4x32 with ten rounds.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Random values by element index, keyed by a seed and a name.
class Random {
public:
  Random(uint64_t seed, std::string_view name);

  /// h, which all of the name that the numbers depend on is.
  uint64_t hashOfName() const { return name; }
  /// u of element `index`, in (0, 1).
  double unit(uint64_t index) const;
  /// Elements first, first + 1, … of the uniform distribution over [low, high), before rounding to
  /// f32.
  void uniform(uint64_t first, std::span<float> values, double low, double high) const;
  /// Elements first, first + 1, … of the normal distribution.
  void normal(uint64_t first, std::span<float> values, double mean, double stddev) const;

private:
  uint64_t seed = 0;
  uint64_t name = 0; ///< h
};

} // namespace nano
