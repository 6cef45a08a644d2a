// The processor that native code is made for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano::codegen {

/// One of two instruction-set levels, and what they do not imply.
struct CpuTarget {
  bool avx512 = false;     ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL; else x86-64-v3: AVX2 and FMA
  bool avx512Bf16 = false; ///< conversion to bf16 and products of its pairs in hardware
  bool amxBf16 = false;    ///< AMX: products of 16 × 32 by 32 × 16 bf16 numbers
  std::string tuning;      ///< the processor whose timing instructions are chosen for, an LLVM name

  /// What the machine that we run on has, and lets this process use: AMX's registers are asked for.
  /// Nothing when it lacks AVX2 or FMA.
  static std::optional<CpuTarget> host();
  /// From features as /proc/cpuinfo spells them; nothing when they do not include AVX2 and FMA.
  static std::optional<CpuTarget> fromFeatures(const std::vector<std::string> &features);

  int64_t lanes() const { return avx512 ? 16 : 8; } ///< f32 lanes of a vector
  /// What the code needs, as /proc/cpuinfo spells it.
  std::vector<std::string> features() const;
};

} // namespace nano::codegen
