// RUN: nano-opt %s -nano-lower-kernels=pairs=true -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels -split-input-file | FileCheck %s --check-prefix=PLAIN
// RUN: nano-opt %s -nano-lower-kernels="pairs=true lanes=8" -split-input-file | FileCheck %s --check-prefix=PLAIN
// RUN: nano-opt %s -nano-lower-kernels=pairs=true -split-input-file | nano-opt -split-input-file | FileCheck %s

// A processor that multiplies pairs of bf16 gets them as factors: scores are scaled behind their product, weights are rounded to bf16.
// CHECK-LABEL: kernel.func @attention
// CHECK:         x86vector.avx512.dot {{.*}} : vector<32xbf16> -> vector<16xf32>
// CHECK:         arith.mulf {{.*}} : vector<16xf32>
// CHECK:         arith.truncf {{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK:         x86vector.avx512.dot
// PLAIN-LABEL: kernel.func @attention
// PLAIN-NOT:     x86vector
// PLAIN:         math.fma
step.program @bf16 {
  %q = step.buffer "q" : memref<64x2x32xbf16>
  %k = step.buffer "k" : memref<64x2x32xbf16>
  %v = step.buffer "v" : memref<64x2x32xbf16>
  %f = step.buffer "first" : memref<64xi32>
  %l = step.buffer "last" : memref<64xi32>
  %y = step.buffer "y" : memref<64x2x32xbf16>
  %e = step.buffer "lse" : memref<64x2xf32>
  step.task ins(%q, %k, %v, %f, %l) outs(%y, %e)
      : (memref<64x2x32xbf16>, memref<64x2x32xbf16>, memref<64x2x32xbf16>, memref<64xi32>, memref<64xi32>) -> (memref<64x2x32xbf16>, memref<64x2xf32>) {
  ^bb0(%0: tensor<64x2x32xbf16>, %1: tensor<64x2x32xbf16>, %2: tensor<64x2x32xbf16>, %3: tensor<64xi32>, %4: tensor<64xi32>):
    %r, %s = nano.attention %0, %1, %2, %3, %4 scale 1.200000e-01
        : (tensor<64x2x32xbf16>, tensor<64x2x32xbf16>, tensor<64x2x32xbf16>, tensor<64xi32>, tensor<64xi32>) -> (tensor<64x2x32xbf16>, tensor<64x2xf32>)
    nano.yield %r, %s : tensor<64x2x32xbf16>, tensor<64x2xf32>
  }
}

// -----

// Factors of f32 stay as they are.
// CHECK-LABEL: kernel.func @attention
// CHECK-NOT:     x86vector
// CHECK:         math.fma
// PLAIN-LABEL: kernel.func @attention
// PLAIN:         math.fma
step.program @f32 {
  %q = step.buffer "q" : memref<64x2x32xf32>
  %k = step.buffer "k" : memref<64x2x32xf32>
  %v = step.buffer "v" : memref<64x2x32xf32>
  %f = step.buffer "first" : memref<64xi32>
  %l = step.buffer "last" : memref<64xi32>
  %y = step.buffer "y" : memref<64x2x32xf32>
  %e = step.buffer "lse" : memref<64x2xf32>
  step.task ins(%q, %k, %v, %f, %l) outs(%y, %e)
      : (memref<64x2x32xf32>, memref<64x2x32xf32>, memref<64x2x32xf32>, memref<64xi32>, memref<64xi32>) -> (memref<64x2x32xf32>, memref<64x2xf32>) {
  ^bb0(%0: tensor<64x2x32xf32>, %1: tensor<64x2x32xf32>, %2: tensor<64x2x32xf32>, %3: tensor<64xi32>, %4: tensor<64xi32>):
    %r, %s = nano.attention %0, %1, %2, %3, %4 scale 1.200000e-01
        : (tensor<64x2x32xf32>, tensor<64x2x32xf32>, tensor<64x2x32xf32>, tensor<64xi32>, tensor<64xi32>) -> (tensor<64x2x32xf32>, tensor<64x2xf32>)
    nano.yield %r, %s : tensor<64x2x32xf32>, tensor<64x2xf32>
  }
}
