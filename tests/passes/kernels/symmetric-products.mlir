// RUN: nano-opt %s -nano-lower-kernels=target=cuda | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels="target=cuda multiprocessors=400" | FileCheck %s --check-prefix=MORE
// RUN: nano-opt %s -nano-lower-kernels="target=cuda candidates=true" | FileCheck %s --check-prefix=BESIDE

// Newton-Schulz of 44 matrices: of the squares, fewer rounds of tiles are half of the product than the library's whole, 4 for 6 on 132 multiprocessors; of the wide factors of 12 matrices
// both make 2. On 400 multiprocessors both make 2 of the squares.
// CHECK-LABEL: step.program @newton_schulz
// CHECK:         step.matmul %[[X:.*]], %[[X]] into %{{.*}} {transpose_b}
// CHECK:         step.launch @[[GRAM:symmetric_[0-9a-f]+]](%{{.*}}, %[[A:.*]]) {iterations = array<i64: 132>}
// CHECK:         step.launch @[[SQUARE:symmetric_[0-9a-f]+]](%[[A]], %[[A]], %[[P:.*]]) {iterations = array<i64: 132>}
// CHECK:         step.matmul %[[P]], %{{.*}} into %{{.*}} :
// CHECK-DAG:   kernel.func @[[GRAM]]{{.*}}instantiates = #kernel.symmetric<matrices = 44, size = 768, inner = 768, blocks = 132, transpose = false, alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64, x = 0, c = 1>
// CHECK-DAG:   kernel.func @[[SQUARE]]{{.*}}instantiates = #kernel.symmetric<matrices = 44, size = 768, inner = 768, blocks = 132, transpose = false, alpha = 2.000000e+00 : f64, beta = -4.000000e+00 : f64, x = 0, d = 1, c = 2>
// MORE-NOT:    symmetric_
// BESIDE:        step.matmul %[[X:.*]], %[[X]] into %{{.*}} {candidates = [@symmetric_{{[0-9a-f]+}}], transpose_b}
// BESIDE:        step.launch @symmetric_{{[0-9a-f]+}}({{.*}}) {iterations
// BESIDE:        step.launch @symmetric_{{[0-9a-f]+}}({{.*}}) {iterations
step.program @newton_schulz {
  %w = step.buffer "w" : memref<12x768x3072xbf16>
  %g = step.buffer "g" : memref<12x768x768xbf16>
  %x = step.buffer "x" : memref<44x768x768xbf16>
  %a = step.buffer "a" : memref<44x768x768xbf16>
  %p = step.buffer "p" : memref<44x768x768xbf16>
  %y = step.buffer "y" : memref<44x768x768xbf16>
  step.fill %w : memref<12x768x3072xbf16>
  step.fill %x : memref<44x768x768xbf16>
  step.matmul %w, %w into %g {transpose_b} : memref<12x768x3072xbf16>, memref<12x768x3072xbf16>, memref<12x768x768xbf16>
  step.matmul %x, %x into %a {transpose_b} : memref<44x768x768xbf16>, memref<44x768x768xbf16>, memref<44x768x768xbf16>
  step.matmul %a, %a add %a into %p {alpha = 2.0 : f64, beta = -4.0 : f64} : memref<44x768x768xbf16>, memref<44x768x768xbf16>, memref<44x768x768xbf16>, memref<44x768x768xbf16>
  step.matmul %p, %x into %y : memref<44x768x768xbf16>, memref<44x768x768xbf16>, memref<44x768x768xbf16>
}
