// RUN: nano-opt %s -nano-lower-kernels="target=cuda candidates=true" | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels=target=cuda | FileCheck %s --check-prefix=NONE
// NONE-NOT: candidates
// NONE-NOT: kernel.symmetric

// A matrix times its own transpose, that times itself plus a part of it, and the same of tall matrices, whose 64 × 72 elements do not fill the
// stages of each: of one matrix alone they need not.
// CHECK-LABEL: step.program @newton_schulz
// CHECK:         step.matmul %[[X:.*]], %[[X]] into %[[A:.*]] {candidates = [@[[GRAM:symmetric_[0-9a-f]+]]], transpose_b}
// CHECK:         step.matmul %[[A]], %[[A]] add %[[A]] into %[[P:.*]] {alpha = 2.000000e+00 : f64, beta = -4.000000e+00 : f64, candidates = [@[[SQUARE:symmetric_[0-9a-f]+]]]}
// CHECK:         step.matmul %[[P]], %[[X]] add %[[X]] into %[[Y:.*]] :
// CHECK:         step.matmul %[[T:.*]], %[[T]] into %{{.*}} {transpose_a} :
// CHECK:         step.matmul %[[U:.*]], %[[U]] into %{{.*}} {candidates = [@[[TALL:symmetric_[0-9a-f]+]]], transpose_a}
step.program @newton_schulz {
  %x = step.buffer "x" : memref<2x328x136xbf16>
  %a = step.buffer "a" : memref<2x328x328xbf16>
  %p = step.buffer "p" : memref<2x328x328xbf16>
  %y = step.buffer "y" : memref<2x328x136xbf16>
  step.fill %x : memref<2x328x136xbf16>
  step.matmul %x, %x into %a {transpose_b} : memref<2x328x136xbf16>, memref<2x328x136xbf16>, memref<2x328x328xbf16>
  step.matmul %a, %a add %a into %p {alpha = 2.0 : f64, beta = -4.0 : f64} : memref<2x328x328xbf16>, memref<2x328x328xbf16>, memref<2x328x328xbf16>, memref<2x328x328xbf16>
  step.matmul %p, %x add %x into %y : memref<2x328x328xbf16>, memref<2x328x136xbf16>, memref<2x328x136xbf16>, memref<2x328x136xbf16>
  %t = step.buffer "t" : memref<2x72x64xbf16>
  %b = step.buffer "b" : memref<2x64x64xbf16>
  step.fill %t : memref<2x72x64xbf16>
  step.matmul %t, %t into %b {transpose_a} : memref<2x72x64xbf16>, memref<2x72x64xbf16>, memref<2x64x64xbf16>
  %u = step.buffer "u" : memref<72x64xbf16>
  %c = step.buffer "c" : memref<64x64xbf16>
  step.fill %u : memref<72x64xbf16>
  step.matmul %u, %u into %c {transpose_a} : memref<72x64xbf16>, memref<72x64xbf16>, memref<64x64xbf16>
}

// Matrices of two products, which one squares; not where something else has been written to one of them since.
// CHECK-LABEL: step.program @parts
// CHECK-COUNT-2: step.matmul {{.*}}candidates{{.*}}transpose_b
// CHECK:         step.matmul %[[ALL:.*]], %[[ALL]] into %{{.*}} {candidates = [@symmetric_{{.*}}]} : memref<3x64x64xbf16>
// CHECK:         step.fill
// CHECK:         step.matmul %[[ALL]], %[[ALL]] into %{{.*}} : memref<3x64x64xbf16>
step.program @parts {
  %x = step.buffer "x" : memref<64x64xbf16>
  %w = step.buffer "w" : memref<2x64x128xbf16>
  %a = step.buffer "a" : memref<3x64x64xbf16>
  %first = step.view %a : memref<3x64x64xbf16> to memref<64x64xbf16, strided<[64, 1], offset: 0>>
  %rest = step.view %a : memref<3x64x64xbf16> to memref<2x64x64xbf16, strided<[4096, 64, 1], offset: 4096>>
  %y = step.buffer "y" : memref<3x64x64xbf16>
  step.fill %x : memref<64x64xbf16>
  step.fill %w : memref<2x64x128xbf16>
  step.matmul %x, %x into %first {transpose_b} : memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16, strided<[64, 1], offset: 0>>
  step.matmul %w, %w into %rest {transpose_b} : memref<2x64x128xbf16>, memref<2x64x128xbf16>, memref<2x64x64xbf16, strided<[4096, 64, 1], offset: 4096>>
  step.matmul %a, %a into %y : memref<3x64x64xbf16>, memref<3x64x64xbf16>, memref<3x64x64xbf16>
  step.fill %first : memref<64x64xbf16, strided<[64, 1], offset: 0>>
  step.matmul %a, %a into %y : memref<3x64x64xbf16>, memref<3x64x64xbf16>, memref<3x64x64xbf16>
}

// Not symmetric: two buffers; one that has been overwritten since; an addend of which nobody knows. Symmetric, but not the template's: f32; a result in the addend's place; rows
// of 15 elements.
// CHECK-LABEL: step.program @others
// CHECK-COUNT-6: step.matmul
// CHECK-NOT:     candidates
// CHECK-LABEL: step.program @attention
step.program @others {
  %x = step.buffer "x" : memref<64x64xbf16>
  %z = step.buffer "z" : memref<64x64xbf16>
  %a = step.buffer "a" : memref<64x64xbf16>
  step.fill %x : memref<64x64xbf16>
  step.fill %z : memref<64x64xbf16>
  step.matmul %x, %z into %a {transpose_b} : memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>
  step.matmul %a, %a into %z : memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>
  step.matmul %x, %x add %a into %z {transpose_b} : memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>
  %f = step.buffer "f" : memref<64x64xf32>
  %g = step.buffer "g" : memref<64x64xf32>
  step.fill %f : memref<64x64xf32>
  step.matmul %f, %f into %g {transpose_b} : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  %n = step.buffer "n" : memref<64x15xbf16>
  step.fill %n : memref<64x15xbf16>
  step.matmul %n, %n into %a {transpose_b} : memref<64x15xbf16>, memref<64x15xbf16>, memref<64x64xbf16>
  step.matmul %x, %x add %a into %a {transpose_b} : memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>
}

// Other tiles.
// CHECK:         step.launch @[[RULE:attention_[0-9a-f]+]]({{.*}}) {candidates = [@[[ONE:attention_[0-9a-f]+]], @[[TWO:attention_[0-9a-f]+]]], iterations = array<i64: 2>}
step.program @attention {
  %q = step.buffer "q" : memref<256x2x64xbf16>
  %f = step.buffer "first" : memref<256xi32>
  %y = step.buffer "y" : memref<256x2x64xbf16>
  %e = step.buffer "lse" : memref<256x2xf32>
  step.fill %q : memref<256x2x64xbf16>
  step.fill %f : memref<256xi32>
  step.task ins(%q, %f) outs(%y, %e) : (memref<256x2x64xbf16>, memref<256xi32>) -> (memref<256x2x64xbf16>, memref<256x2xf32>) {
  ^bb0(%0: tensor<256x2x64xbf16>, %1: tensor<256xi32>):
    %a, %b = nano.attention %0, %0, %0, %1, %1 scale 1.200000e-01
        : (tensor<256x2x64xbf16>, tensor<256x2x64xbf16>, tensor<256x2x64xbf16>, tensor<256xi32>, tensor<256xi32>) -> (tensor<256x2x64xbf16>, tensor<256x2xf32>)
    nano.yield %a, %b : tensor<256x2x64xbf16>, tensor<256x2xf32>
  }
}

// Five products, beside them seven with four choices of tiles, which take neither sums nor counts.
// CHECK-LABEL: step.program @long_rows
// CHECK:         step.launch @{{.*}}({{.*}}) {candidates = [@[[SEVEN:attention_grad_[0-9a-f]+]], @{{[^,]*}}, @{{[^,]*}}, @[[STAGES:[^,]*]]], iterations = array<i64: 1280>}
step.program @long_rows {
  %q = step.buffer "q" : memref<16384x16x128xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %e = step.buffer "lse" : memref<16384x16xf32>
  %dq = step.buffer "dq" : memref<16384x16x128xbf16>
  %dk = step.buffer "dk" : memref<16384x16x128xbf16>
  %dv = step.buffer "dv" : memref<16384x16x128xbf16>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 8192.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %f, %l, %e) outs(%dq, %dk, %dv)
      : (memref<16384x16x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x16xf32>) -> (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>) {
  ^bb0(%0: tensor<16384x16x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x16xf32>):
    %a, %b, %c = nano.attention_grad %0, %0, %0, %3, %4, %5, %5, %0 scale 1.200000e-01
        : (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x16xf32>, tensor<16384x16xf32>, tensor<16384x16x128xbf16>) -> (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>
  }
}

// CHECK-LABEL: module @kernels
// CHECK-DAG:   kernel.func @[[GRAM]]{{.*}}instantiates = #kernel.symmetric<matrices = 2, size = 328, inner = 136, blocks = 12, transpose = false, alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64, x = 0, c = 1>{{.*}}iterations = 12
// CHECK-DAG:   kernel.func @[[SQUARE]]{{.*}}instantiates = #kernel.symmetric<matrices = 2, size = 328, inner = 328, blocks = 12, transpose = false, alpha = 2.000000e+00 : f64, beta = -4.000000e+00 : f64, x = 0, d = 1, c = 2>
// CHECK-DAG:   kernel.func @[[TALL]]{{.*}}instantiates = #kernel.symmetric<matrices = 1, size = 64, inner = 72, blocks = 2, transpose = true
// CHECK-DAG:   kernel.func @[[ONE]]{{.*}}tiles = 1
// CHECK-DAG:   kernel.func @[[TWO]]{{.*}}tiles = 2
// CHECK-DAG:   kernel.func @[[STAGES]]{{.*}}tiles = 3
