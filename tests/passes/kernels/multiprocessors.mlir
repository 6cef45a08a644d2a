// RUN: nano-opt %s -nano-lower-kernels="target=cuda" | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels="target=cuda multiprocessors=4" | FileCheck %s --check-prefix=FEW

// The machine says how many blocks can share a sequence, and among how many blocks the tiles of a band are shared out.
// CHECK-LABEL: step.program @sequence
// CHECK:         step.launch @recurrence{{.*}} {iterations = array<i64: 8>}
// CHECK-LABEL: step.program @band
// CHECK:         step.launch @band_product{{.*}} {iterations = array<i64: 128>}
// CHECK:       kernel.func @recurrence{{.*}}multiprocessors = 132,{{.*}}cluster = 8
// CHECK:       kernel.func @band_product{{.*}}multiprocessors = 132,
// FEW-LABEL:   step.program @sequence
// FEW:           step.launch @recurrence{{.*}} {iterations = array<i64: 4>}
// FEW-LABEL:   step.program @band
// FEW:           step.launch @band_product{{.*}} {iterations = array<i64: 16>}
// FEW:         kernel.func @recurrence{{.*}}multiprocessors = 4,{{.*}}cluster = 4
// FEW:         kernel.func @band_product{{.*}}multiprocessors = 4,
step.program @sequence {
  %x = step.buffer "x" : memref<1x2100x20xf32>
  %b = step.buffer "b" : memref<1x2100x20xf32>
  %y = step.buffer "y" : memref<1x2100x20xf32>
  step.task ins(%x, %b) outs(%y) : (memref<1x2100x20xf32>, memref<1x2100x20xf32>) -> memref<1x2100x20xf32> {
  ^bb0(%a: tensor<1x2100x20xf32>, %t: tensor<1x2100x20xf32>):
    %0 = nano.recurrence factor %a term %t from 0.0 : tensor<1x2100x20xf32>
    nano.yield %0 : tensor<1x2100x20xf32>
  }
}
step.program @band {
  %p = step.buffer "p" : memref<4096x2x16xf32>
  %v = step.buffer "v" : memref<4096x2x64xbf16>
  %y = step.buffer "y" : memref<4096x2x64xbf16>
  step.task ins(%p, %v) outs(%y) : (memref<4096x2x16xf32>, memref<4096x2x64xbf16>) -> memref<4096x2x64xbf16> {
  ^bb0(%a: tensor<4096x2x16xf32>, %b: tensor<4096x2x64xbf16>):
    %0 = nano.band_product %a, %b : (tensor<4096x2x16xf32>, tensor<4096x2x64xbf16>) -> tensor<4096x2x64xbf16>
    nano.yield %0 : tensor<4096x2x64xbf16>
  }
}
