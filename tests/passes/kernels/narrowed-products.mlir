// RUN: nano-opt %s -nano-lower-kernels=target=cuda -verify-diagnostics
// RUN: nano-opt %s -nano-lower-kernels=target=cpu | FileCheck %s

// Of f32 factors GPUs' library has no result of bf16; the CPU's has one.
// CHECK: step.matmul
step.program @narrowed {
  %a = step.buffer "a" : memref<8x32xf32>
  %b = step.buffer "b" : memref<32x16xf32>
  %c = step.buffer "c" : memref<8x16xbf16>
  // expected-error @+1 {{has factors of f32 and a result of 'bf16', a product that cuda's library does not have: let the result be of f32 and cast it}}
  step.matmul %a, %b into %c : memref<8x32xf32>, memref<32x16xf32>, memref<8x16xbf16>
}
