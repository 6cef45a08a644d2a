// Values of bf16, for the runtime's own kernels.
#pragma once

inline float wide(float value) { return value; }
inline float wide(unsigned short half) { return __uint_as_float(unsigned(half) << 16); }

/// To nearest, ties to even; NaN stays one.
inline void narrow(float value, float &to) { to = value; }
inline void narrow(float value, unsigned short &to) {
  const unsigned bits = __float_as_uint(value);
  to =
      (unsigned short)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40
                                                        : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
